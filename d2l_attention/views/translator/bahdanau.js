// The translator of chapter 5: a GRU reads the sentence in both directions, another one writes,
// and looks at all states of the first before each word. visible is asked with the place "cross".

const sigmoid = (a) => 1 / (1 + Math.exp(-a));

// One step of a GRU: what the input and the state add to the gates, (3H,) each, and the state (H,)
function gruCell(fromInput, fromHidden, hidden) {
  const H = hidden.length;
  return hidden.map((before, i) => {
    const reset = sigmoid(fromInput[i] + fromHidden[i]);
    const update = sigmoid(fromInput[H + i] + fromHidden[H + i]);
    const latest = Math.tanh(fromInput[2 * H + i] + reset * fromHidden[2 * H + i]);
    return (1 - update) * latest + update * before;
  });
}

class Bahdanau {
  constructor(parameters, { num_hiddens }) {
    Object.assign(this, { H: num_hiddens, ...parameters });
  }

  // One direction over the vectors (S, E) -> its states (S, units)
  run(rnn, vectors, suffix = "") {
    const [W_ih, W_hh] = [rnn[`weight_ih_l0${suffix}`], rnn[`weight_hh_l0${suffix}`]];
    const [b_ih, b_hh] = [rnn[`bias_ih_l0${suffix}`], rnn[`bias_hh_l0${suffix}`]];
    let hidden = W_hh[0].map(() => 0);
    return linear(vectors, W_ih, b_ih).map((gates) => {
      hidden = gruCell(gates, linear([hidden], W_hh, b_hh)[0], hidden);
      return hidden;
    });
  }

  // Source tokens (S,) -> a state for each word, (S, H), and the one to start from, (H,)
  encode(tokens) {
    const vectors = tokens.map((token) => this.encoder.embedding.weight[token]);
    const forward = this.run(this.encoder.rnn, vectors);
    const backward = this.run(this.encoder.rnn, vectors.toReversed(), "_reverse").toReversed();
    const values = forward.map((state, i) => [...state, ...backward[i]]);
    return { values, hidden: [...forward.at(-1), ...backward[0]], weights: {} };
  }

  // What the decoder keeps: its state, and the source's states as values and, projected, as keys
  begin({ values, hidden }) {
    return { values, hidden, keys: linear(values, this.decoder.attention.W_k.weight) };
  }

  // The token at this position -> logits of the next one, and its row of weights
  step(token, position, cache, visible) {
    const { attention, embedding, rnn, dense } = this.decoder;
    const [query] = linear([cache.hidden], attention.W_q.weight);
    const scores = additiveScores(query, cache.keys, attention.w_v.weight[0]);
    const row = maskedSoftmax(scores, scores.map((_, j) => visible("cross", 0, 0, position, j)));
    const context = weightedSum(row, cache.values);
    const [gates] = linear(
      [[...context, ...embedding.weight[token]]], rnn.weight_ih_l0, rnn.bias_ih_l0,
    );
    const [own] = linear([cache.hidden], rnn.weight_hh_l0, rnn.bias_hh_l0);
    cache.hidden = gruCell(gates, own, cache.hidden);
    const [logits] = linear([cache.hidden], dense.weight, dense.bias);
    return { logits, weights: { cross: [[row]] } };
  }
}
