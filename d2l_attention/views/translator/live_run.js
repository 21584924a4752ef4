// One run of the Transformer in the form in which look_inside shows a run: computed here, with the
// sentence and the cuts of the moment. Only what a reader opens is kept: parts, inputs, outputs,
// and of each attention the queries, keys and values of its heads.

const ABOUT = {
  EncoderDecoder: ["The encoder reads the source. The decoder scores the next word after each word so far.", 5],
  TransformerEncoder: ["Each token becomes a vector that knows its sentence.", 8],
  TransformerDecoder: ["Each word so far becomes a vector, and each vector a score for every word.", 8],
  TransformerEncoderBlock: ["The tokens look at each other, then a network works on each of them.", 8],
  TransformerDecoderBlock: ["Each word looks at the words before it, then at the source; then a network works on it.", 8],
  MultiHeadAttention: ["Several attentions side by side, each on its own projection.", 6],
  AddNorm: ["Adds what a part found to what came in, and brings each token back to one scale.", 8],
  PositionWiseFFN: ["A small network, the same for each token.", 8],
};

const base64 = (numbers) =>
  btoa(String.fromCharCode(...new Uint8Array(Float32Array.from(numbers.flat(9)).buffer)));

// words and french: what was translated, and what was written. Returns the text of a run.
function liveRun({ model, source, target }, words, french, visible) {
  const [reads, writes] = [[...words, "<eos>"], ["<bos>", ...french]];
  const kinds = Object.keys(ABOUT);
  const run = {
    values: [], words: [reads, writes], parts: [], looks: [], left_out: 0,
    about: kinds.map((kind) => ({ does: ABOUT[kind][0], formula: "", code: "", chapter: `Chapter ${ABOUT[kind][1]}` })),
  };
  const SOURCE = 0, TARGET = 1;

  const arrays = []; // of the values: an arrow comes from where the same array was before
  const held = (name, X, side) => {
    arrays.push(X);
    const shape = [X.length, X[0].length];
    run.values.push({ shape: [1, ...shape], kind: "float32", all: shape, sent: shape, x: base64(X) });
    return [name, run.values.length - 1, side];
  };
  const part = (name, kind, inputs, inner) => {
    const made = { name, kind, about: kinds.indexOf(kind), in: inputs, out: [], params: 0, below: [] };
    const number = run.parts.push(made) - 1;
    const rows = inputs.map(([, value]) => arrays[value]);
    const all = rows.map((_, row) => row);
    const arrows = new Map(); // "from, to", each once
    const arrow = (from, to) => from < 0 || arrows.set(`${from}, ${to}`, [from, to]);
    const within = (...given) => {
      const child = part(...given);
      made.below.push(child.number);
      for (const [, value] of given[2]) arrow(rows.lastIndexOf(arrays[value]), rows.length);
      rows.push(arrays[child.out[1]]);
      return child;
    };
    const { out, look, of = arrays[out[1]] } = inner(within);
    made.out = [out];
    if (look) {
      Object.assign(made, { look: run.looks.push(look) - 1, heads_at: 0 });
      rows.push(of);
      all.forEach((row) => arrow(row, all.length));
    }
    if (made.below.length || look) arrow(rows.lastIndexOf(of), rows.length);
    else all.forEach((row) => arrow(row, rows.length));
    const chain = [...rows.keys(), rows.length].slice(all.length).map((row) => [row]);
    made.lines = all.length ? [all, ...chain] : chain; // each part reads the one before it
    made.arrows = [...arrows.values()];
    made.tracks = [...rows.keys()].map((row) => [row, row < all.length ? row : 0]);
    return { number, out };
  };

  function attention(within, name, layer, W, X, Y, [side, other], place) {
    let output;
    within(name, "MultiHeadAttention", [held("queries", X, side), held("keys, values", Y, other)], () => {
      const queries = splitHeads(linear(X, W.W_q), model.H);
      const { keys, values } = project(W, Y, model.H);
      const may = (h, i, j) => (place !== "decoder" || j <= i) && visible(place, layer, h, i, j);
      const weights = queries.map((q, h) => attend(q, keys[h], values[h], (i, j) => may(h, i, j))[1]);
      output = multiHead(W, X, { keys, values }, may)[0];
      const root = Math.sqrt(queries[0][0].length);
      const scores = queries.map((q, h) => q.map((a) => keys[h].map((b) => dot(a, b) / root)));
      const seen = weights.map((map, h) => map.map((row, i) => row.map((_, j) => (may(h, i, j) ? 1 : 0))));
      const [size, shape] = [queries[0][0].length, [model.H, X.length, Y.length]];
      const look = {
        all: shape, sent: shape, kind: "dot", size, weights: base64(weights), scores: base64(scores),
        queries: base64(queries), keys: base64(keys), values: base64(values),
        queries_size: size, keys_size: size, values_size: size, values_all: size,
        visible: seen.flat(2).join(""), qwords: side, kwords: other,
      };
      return { out: held("output", output, side), look };
    });
    return output;
  }
  const norm = (within, name, layer, X, Y, side) => {
    const Z = addNorm(layer, X, Y);
    within(name, "AddNorm", [held("X", X, side), held("Y", Y, side)], () => ({ out: held("output", Z, side) }));
    return Z;
  };
  const network = (within, ffn, X, side) => {
    const Y = positionWise(ffn, X);
    within("network", "PositionWiseFFN", [held("X", X, side)], () => ({ out: held("output", Y, side) }));
    return Y;
  };
  const ids = (tokens, vocabulary) => tokens.map((token) => Math.max(0, vocabulary.indexOf(token)));

  part("EncoderDecoder", "EncoderDecoder", [], (within) => {
    let encoded = model.embed(model.encoder, ids(reads, source));
    within("encoder", "TransformerEncoder", [held("words and positions", encoded, SOURCE)], (inside) => {
      model.encoder.blks.forEach((block, layer) => {
        inside(`block ${layer + 1}`, "TransformerEncoderBlock", [held("X", encoded, SOURCE)], (deeper) => {
          const W = matrices(block.attention);
          const Y = attention(deeper, "attention", layer, W, encoded, encoded, [SOURCE, SOURCE], "encoder");
          const X = norm(deeper, "add and norm 1", block.addnorm1, encoded, Y, SOURCE);
          encoded = norm(deeper, "add and norm 2", block.addnorm2, X, network(deeper, block.ffn, X, SOURCE), SOURCE);
          return { out: held("output", encoded, SOURCE) };
        });
      });
      return { out: held("output", encoded, SOURCE) };
    });
    let X = model.embed(model.decoder, ids(writes, target));
    let out;
    within("decoder", "TransformerDecoder", [held("words and positions", X, TARGET), held("the encoder's output", encoded, SOURCE)], (inside) => {
      model.decoder.blks.forEach((block, layer) => {
        inside(`block ${layer + 1}`, "TransformerDecoderBlock", [held("X", X, TARGET), held("the encoder's output", encoded, SOURCE)], (deeper) => {
          const own = attention(deeper, "self-attention", layer, matrices(block.attention1), X, X, [TARGET, TARGET], "decoder");
          X = norm(deeper, "add and norm 1", block.addnorm1, X, own, TARGET);
          const other = attention(deeper, "cross-attention", layer, matrices(block.attention2), X, encoded, [TARGET, SOURCE], "cross");
          X = norm(deeper, "add and norm 2", block.addnorm2, X, other, TARGET);
          X = norm(deeper, "add and norm 3", block.addnorm3, X, network(deeper, block.ffn, X, TARGET), TARGET);
          return { out: held("output", X, TARGET) };
        });
      });
      const logits = linear(X, model.decoder.dense.weight, model.decoder.dense.bias);
      const best = logits.map((row) => {
        const shares = maskedSoftmax(row, row.map(() => true));
        return shares.map((share, i) => [target[i], share]).sort((a, b) => b[1] - a[1]).slice(0, 3);
      });
      const shown = logits.map((row) => row.slice(0, 64));
      out = held("scores", shown, TARGET);
      run.values[out[1]].all = [logits.length, logits[0].length];
      run.values[out[1]].shape = [1, logits.length, logits[0].length];
      out.push(best);
      return { out, of: X };
    });
    return { out };
  });
  return JSON.stringify(run);
}
