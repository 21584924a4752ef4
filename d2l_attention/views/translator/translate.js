// From stored weights to a translator, and from a sentence to its translation.

// A float16 (IEEE 754) as the number that it stands for.
function half(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15); // weights are never infinite
}

// All weights, one tensor after the other in the order of the card, as the nested names say:
// "decoder.dense.bias" becomes parameters.decoder.dense.bias, "blks.block0" the first of a list.
function readWeights(bytes, shapes, number) {
  const bits = number === "float16" ? new Uint16Array(bytes) : new Float32Array(bytes);
  const read = number === "float16" ? half : (x) => x;
  const parameters = {};
  let start = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const count = shape.reduce((a, b) => a * b, 1);
    const numbers = Array.from(bits.subarray(start, start + count), read);
    start += count;
    const width = shape.at(-1);
    const rows = Array.from({ length: count / width }, (_, i) =>
      numbers.slice(i * width, (i + 1) * width),
    );
    const path = name.split(".");
    const last = path.pop();
    const holder = path.reduce((inside, part) => (inside[part] ??= {}), parameters);
    holder[last] = shape.length === 1 ? numbers : rows;
  }
  for (const side of [parameters.encoder, parameters.decoder])
    if (side.blks) side.blks = Object.values(side.blks);
  return parameters;
}

// The card and the bytes of training/translators, and both vocabularies -> a translator
function makeTranslator({ name, sizes, shapes, number, bytes, source, target }) {
  const kinds = { transformer: Transformer, bahdanau: Bahdanau };
  return { model: new kinds[name](readWeights(bytes, shapes, number), sizes), source, target };
}

const everything = () => true;

// Words (English) -> words (French), and weights: for each place a list of layers, of heads, of
// rows. The first row of "decoder" and "cross" is the look that chose the first word.
function translate({ model, source, target }, words, visible = everything, maxLength = 64) {
  const numbers = [...words, "<eos>"].map((word) => {
    const number = source.indexOf(word);
    return number < 0 ? source.indexOf("<unk>") : number;
  });
  const found = model.encode(numbers, visible);
  const cache = model.begin(found);
  const [written, weights] = [[], { ...found.weights }];
  let token = target.indexOf("<bos>");
  for (let position = 0; position < maxLength; position++) {
    const { logits, weights: rows } = model.step(token, position, cache, visible);
    for (const [place, layers] of Object.entries(rows)) {
      weights[place] ??= layers.map((heads) => heads.map(() => []));
      layers.forEach((heads, l) => heads.forEach((row, h) => weights[place][l][h].push(row)));
    }
    token = logits.indexOf(Math.max(...logits));
    if (target[token] === "<eos>") break;
    written.push(target[token]);
  }
  return { words: written, weights };
}
