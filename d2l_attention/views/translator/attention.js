// Attention as pure functions, as in the course's package, for one sentence and in plain numbers.
// A vector is an array of numbers, a matrix is an array of its rows. Inputs are never changed.
// Letters: Q queries, K keys, D numbers a vector, V numbers a value.

const dot = (a, b) => a.reduce((sum, number, i) => sum + number * b[i], 0);
const plus = (a, b) => a.map((number, i) => number + b[i]);
const transpose = (X) => X[0].map((_, i) => X.map((row) => row[i]));

// X (n, D) times the transpose of W (D', D), as nn.Linear: a row of W makes one number.
function linear(X, W, bias) {
  return X.map((x) => W.map((w, i) => dot(w, x) + (bias ? bias[i] : 0)));
}

// Scores (K,) to weights (K,). Where visible is false the weight is 0, and the others share it all.
// A query that may look at nothing gets only zeros.
function maskedSoftmax(scores, visible) {
  const seen = scores.filter((_, j) => visible[j]);
  if (seen.length === 0) return scores.map(() => 0);
  const largest = Math.max(...seen); // e to the power of a large number would be infinite
  const shares = scores.map((score, j) => (visible[j] ? Math.exp(score - largest) : 0));
  const sum = shares.reduce((a, b) => a + b);
  return shares.map((share) => share / sum);
}

// weights (K,), values (K, V) -> (V,)
function weightedSum(weights, values) {
  return values[0].map((_, v) => weights.reduce((sum, w, j) => sum + w * values[j][v], 0));
}

// queries (Q, D), keys (K, D), values (K, V), visible(i, j) -> outputs (Q, V), weights (Q, K)
function attend(queries, keys, values, visible) {
  const root = Math.sqrt(queries[0].length);
  const weights = queries.map((query, i) => {
    const scores = keys.map((key) => dot(query, key) / root);
    return maskedSoftmax(scores, keys.map((_, j) => visible(i, j)));
  });
  return [weights.map((row) => weightedSum(row, values)), weights];
}

// One query (H,) and keys (K, H) that have gone through W_q and W_k: w_v . tanh(q + k) for each key.
function additiveScores(query, keys, w_v) {
  return keys.map((key) => dot(w_v, plus(query, key).map(Math.tanh)));
}

// (n, D) -> H matrices (n, D / H), and back
function splitHeads(X, numHeads) {
  const size = X[0].length / numHeads;
  return Array.from({ length: numHeads }, (_, h) =>
    X.map((x) => x.slice(h * size, (h + 1) * size)),
  );
}
const mergeHeads = (heads) => heads[0].map((_, i) => heads.flatMap((head) => head[i]));

// queries (Q, D), keys and values as project made them, visible(head, i, j) -> outputs (Q, D),
// weights (H, Q, K). W holds W_q, W_k, W_v and W_o, each (D, D).
function multiHead(W, queries, { keys, values }, visible) {
  const heads = splitHeads(linear(queries, W.W_q), keys.length);
  const found = heads.map((q, h) => attend(q, keys[h], values[h], (i, j) => visible(h, i, j)));
  const outputs = linear(mergeHeads(found.map(([output]) => output)), W.W_o);
  return [outputs, found.map(([, weights]) => weights)];
}

// Keys and values of all heads, from X (K, D): what a cache keeps.
function project(W, X, numHeads) {
  return {
    keys: splitHeads(linear(X, W.W_k), numHeads),
    values: splitHeads(linear(X, W.W_v), numHeads),
  };
}

// A network for each token: X (n, D) -> (n, D)
function positionWise({ dense1, dense2 }, X) {
  const hidden = linear(X, dense1.weight, dense1.bias).map((x) => x.map((a) => Math.max(0, a)));
  return linear(hidden, dense2.weight, dense2.bias);
}

// X + Y, each row brought to mean 0 and variance 1, then scaled and moved: (n, D) -> (n, D)
function addNorm({ ln }, X, Y) {
  return X.map((x, i) => {
    const sum = plus(x, Y[i]);
    const mean = sum.reduce((a, b) => a + b) / sum.length;
    const centred = sum.map((a) => a - mean);
    const root = Math.sqrt(dot(centred, centred) / sum.length + 1e-5);
    return centred.map((a, k) => (a / root) * ln.weight[k] + ln.bias[k]);
  });
}

// Sine and cosine of a position, for D numbers: the even columns are sines, the odd ones cosines.
function positionalEncoding(position, D) {
  return Array.from({ length: D }, (_, column) => {
    const angle = position / 10000 ** ((column - (column % 2)) / D);
    return column % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}
