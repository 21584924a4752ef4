// The translator of chapter 8: a Transformer that reads a sentence and writes another, greedily.
// A visible function says who may look at whom: visible(place, layer, head, i, j), where place is
// "encoder", "decoder" or "cross". Without cuts all may, and no French word sees a later one.

class Transformer {
  constructor(parameters, { num_hiddens, num_heads }) {
    Object.assign(this, { D: num_hiddens, H: num_heads, ...parameters });
  }

  // Tokens, the first of them at position offset -> (n, D)
  embed({ embedding }, tokens, offset = 0) {
    const scale = Math.sqrt(this.D);
    return tokens.map((token, i) =>
      plus(embedding.weight[token].map((a) => a * scale), positionalEncoding(offset + i, this.D)),
    );
  }

  // Source tokens (S,) -> what the decoder needs of them, and weights: a layer, a head, (S, S)
  encode(tokens, visible) {
    let X = this.embed(this.encoder, tokens);
    const weights = this.encoder.blks.map((block, layer) => {
      const W = matrices(block.attention);
      const may = (head, i, j) => visible("encoder", layer, head, i, j);
      const [Y, maps] = multiHead(W, X, project(W, X, this.H), may);
      X = addNorm(block.addnorm1, X, Y);
      X = addNorm(block.addnorm2, X, positionWise(block.ffn, X));
      return maps;
    });
    return { encoded: X, weights: { encoder: weights } };
  }

  // What the decoder keeps: keys and values of the source, and of the words that it has written.
  begin({ encoded }) {
    const nothing = () => Array.from({ length: this.H }, () => []);
    return this.decoder.blks.map((block) => ({
      source: project(matrices(block.attention2), encoded, this.H),
      written: { keys: nothing(), values: nothing() },
    }));
  }

  // The token at this position -> logits of the next one, and its rows of weights
  step(token, position, cache, visible) {
    let x = this.embed(this.decoder, [token], position); // (1, D)
    const weights = { decoder: [], cross: [] };
    this.decoder.blks.forEach((block, layer) => {
      const [W, W2] = [matrices(block.attention1), matrices(block.attention2)];
      const { written, source } = cache[layer];
      const latest = project(W, x, this.H);
      latest.keys.forEach((key, h) => written.keys[h].push(...key));
      latest.values.forEach((value, h) => written.values[h].push(...value));
      const own = (head, i, j) => visible("decoder", layer, head, position, j);
      const other = (head, i, j) => visible("cross", layer, head, position, j);
      let [Y, maps] = multiHead(W, x, written, own);
      weights.decoder.push(maps.map(([row]) => row));
      x = addNorm(block.addnorm1, x, Y);
      [Y, maps] = multiHead(W2, x, source, other);
      weights.cross.push(maps.map(([row]) => row));
      x = addNorm(block.addnorm2, x, Y);
      x = addNorm(block.addnorm3, x, positionWise(block.ffn, x));
    });
    const [logits] = linear(x, this.decoder.dense.weight, this.decoder.dense.bias);
    return { logits, weights };
  }
}

const matrices = (attention) =>
  Object.fromEntries(["W_q", "W_k", "W_v", "W_o"].map((name) => [name, attention[name].weight]));
