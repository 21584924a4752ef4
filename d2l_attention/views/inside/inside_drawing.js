// What the view into a model draws: tensors and maps as canvases, the numbers of a cell as tables.

const shapeWords = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

// A number in a few digits, with a real minus sign, and never 0 for what is not 0.
function brief(x, digits = 3) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "inf" : "−inf";
  return String(Number(x.toPrecision(digits))).replace("-", "−");
}

function decimals(x) {
  if (!Number.isFinite(x) || Number.isInteger(x) || Math.abs(x) >= 1e3) return brief(x);
  return (Math.abs(x) >= 0.005 ? x.toFixed(2) : x.toExponential(0)).replaceAll("-", "−");
}

const twoDecimals = (x) => (Number.isInteger(x) ? brief(x) : x.toFixed(2).replace("-", "−").replace("−0.00", "0.00"));

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer); // browsers run on machines of one byte order
}

// Numbers are read when they are first drawn.
function readRun(text) {
  const run = JSON.parse(text);
  for (const value of run.values) {
    Object.defineProperty(value, "numbers", { get: () => (value.read ??= floats(value.x)) });
  }
  for (const look of run.looks) readLook(look);
  return run;
}

function readLook(look) {
  const [, Q, K] = look.sent;
  const read = {};
  const all = (name) => (read[name] ??= look[name] === undefined ? null : floats(look[name]));
  const at = (head, q, k) => (head * Q + q) * K + k;
  look.weight = (head, q, k) => all("weights")[at(head, q, k)];
  look.score = (head, q, k) => all("scores")?.[at(head, q, k)];
  look.added = (head, q, k) => all("bias")?.[at(head, q, k)] ?? 0;
  look.seen = (head, q, k) => !look.visible || look.visible[at(head, q, k)] === "1";
  // Row i of the queries, keys or values of a head.
  look.row = (name, head, i) => {
    const size = look[`${name}_size`];
    const rows = name === "queries" ? Q : K;
    return all(name)?.subarray((head * rows + i) * size, (head * rows + i + 1) * size);
  };
  look.w = () => all("w_v");
  look.largest = () => (read.largest ??= all("weights").reduce((a, b) => Math.max(a, b), 0) || 1);
}

function sumsToOne(look, head) {
  if (look.sent[2] < look.all[2]) return true; // the rest is not here
  for (let q = 0; q < look.sent[1]; q++) {
    let sum = 0;
    for (let k = 0; k < look.sent[2]; k++) sum += look.weight(head, q, k);
    if (Math.abs(sum - 1) > 1e-3) return false;
  }
  return true;
}

// Which part of a value is drawn, of r rows and c columns.
function partWords({ all: [R, C], shape }, [r, c]) {
  const parts = [];
  if (shape.slice(0, -2).some((n) => n > 1) && shape.filter((n) => n > 1).length > 2) parts.push("the first");
  if (r < R || c < C) parts.push(`here ${r} × ${c}`);
  return parts.map((each) => `, ${each}`).join("");
}

const tensorWords = (value, drawn) => {
  const most = largestOf(value.numbers);
  const squares = value.kind !== "bool" && !isWhole(value.kind) && most;
  return `${shapeWords(value.shape)}${partWords(value, drawn)}${squares ? `, up to ${brief(most, 2)}` : ""}`;
};

// Words stand at the rows, or where they do not fit there at the columns.
function placed(words, [R, C]) {
  if (!words) return {};
  if (R > 1 && words.length === R) return { rows: words };
  if (words.length === C) return { columns: words };
  return words.length === R ? { rows: words } : {};
}

// Of scores for the words of a language: the words that got most, with their shares.
function bestWords(item, best, words) {
  const box = add(item, "span", { class: "best" });
  best.forEach((row, i) => {
    const line = add(box, "span");
    add(line, "span", { class: "faint" }, `after ${words?.[i] ?? i}: `);
    row.forEach(([word, share], at) => {
      add(line, at ? "span" : "b", {}, `${at ? ", " : ""}${word} ${share.toFixed(2)}`);
    });
  });
}

function numberInWords(name, value, words, [row, column]) {
  const { rows, columns } = placed(words, value.all);
  const where = rows ? `${rows[row]}, number ${column}` : columns ? columns[column] : `${row}, ${column}`;
  const number = value.numbers[row * value.sent[1] + column];
  const text = value.kind === "bool" ? (number ? "True" : "False") : brief(number, 4);
  return `${name}, ${where}: ${text}`;
}

function rangeOf(numbers) {
  let [low, high] = [0, 0]; // zero is on the scale
  for (const x of numbers) if (Number.isFinite(x)) [low, high] = [Math.min(low, x), Math.max(high, x)];
  return [low, high];
}

const MOST_HIGH = 66; // pixels of a matrix or a map among the parts

// A tensor's matrix with its words, as much of it as there is room for; the geometry, for the hand.
function heat(canvas, value, words, [room, high], { focus, colour }) {
  if (!value.sent[0] || !value.sent[1]) return prepare(canvas, 1, 1), null;
  const font = "12px system-ui, sans-serif";
  const { rows, columns } = placed(words, value.all);
  const few = !rows && !columns && value.sent[0] * value.sent[1] <= 8; // so few that they are written out
  const mask = value.kind === "bool";
  const written = !mask && (isWhole(value.kind) || few || (columns && value.sent[0] === 1));
  const texts = written ? Array.from(value.numbers, (x) => brief(x)) : [];
  const mark = written && !isWhole(value.kind) ? 14 : 0; // the square beside the number
  const above = columns?.map((word) => cut(word, 12)) ?? [];
  const labels = rows?.map((word) => cut(word, 12));
  const left = labels ? Math.ceil(widest(labels, font)) + 8 : 0;
  const least = Math.max(written ? Math.ceil(widest(texts, font)) + mark + 8 : 6, Math.ceil(widest(above, font)) + 6);
  const C = clamp(Math.floor((room - left - 2) / least), 1, value.sent[1]);
  const cell = written || columns ? least : clamp(Math.floor((room - left - 2) / C), 6, 14);
  const R = Math.min(value.sent[0], Math.floor(high / (written ? 16 : 6)));
  const line = written ? 16 : clamp(Math.floor(high / R), 6, 16);
  const top = columns ? 18 : 0;
  const drawn = prepare(canvas, left + C * cell + 2, top + R * line + 2);
  drawn.font = font;
  drawn.textBaseline = "middle";
  const [ink, faint] = [colour("--ink"), colour("--faint")];
  drawn.fillStyle = ink;
  labels?.slice(0, R).forEach((label, row) => line >= 12 && drawn.fillText(label, 0, top + (row + 0.5) * line));
  drawn.textAlign = "center";
  above.slice(0, C).forEach((label, column) => drawn.fillText(label, left + 1 + (column + 0.5) * cell, 8));
  const largest = largestOf(value.numbers) || 1;
  for (let row = 0; row < R; row++) {
    for (let column = 0; column < C; column++) {
      const at = row * value.sent[1] + column;
      const [x, y] = [left + 1 + column * cell, top + 1 + row * line];
      drawn.fillStyle = ink;
      if (mask && value.numbers[at]) drawn.fillRect(x, y, cell, line);
      if (!mask && !isWhole(value.kind)) square(drawn, value.numbers[at], largest, [x, y, mark || cell, line], { ink, faint });
      if (written) drawn.fillText(texts[at], x + (cell + mark) / 2, y + line / 2);
    }
  }
  [drawn.strokeStyle, drawn.lineWidth] = [faint, 1];
  drawn.strokeRect(left + 0.5, top + 0.5, C * cell + 1, R * line + 1);
  const shape = { left: left + 1, top: top + 1, cell, line, R, C };
  if (focus) outline(drawn, shape, focus, colour);
  return shape;
}

function outline(context, { left, top, cell, line }, [row, column], colour) {
  for (const [style, width] of [[colour("--ink"), 4], [colour("--ground"), 2]]) {
    [context.strokeStyle, context.lineWidth] = [style, width];
    context.strokeRect(left + column * cell, top + row * line, cell, line);
  }
  context.lineWidth = 1;
}

function cellUnder(canvas, shape, event) {
  if (!shape) return null;
  const [x, y] = pointOn(canvas, event);
  const { left, top, cell, line, R, C } = shape;
  return [clamp(Math.floor((y - top) / line), 0, R - 1), clamp(Math.floor((x - left) / cell), 0, C - 1)];
}

const headOf = (look, head) => {
  const [, Q, K] = look.sent;
  return Array.from({ length: Q * K }, (_, i) => look.weight(head, Math.floor(i / K), i % K));
};

// Where nobody may look.
function hatchUnseen(context, look, head, left, top, cell, colour) {
  for (let q = 0; q < look.sent[1]; q++)
    for (let k = 0; k < look.sent[2]; k++)
      if (!look.seen(head, q, k)) hatch(context, left + k * cell, top + q * cell, cell, cell, colour("--role-forbidden"));
}

function smallMap(canvas, look, head, ramp, colour, room = 96) {
  const [, Q, K] = look.sent;
  const cell = clamp(Math.floor(room / Math.max(Q, K)), 3, 24);
  const context = prepare(canvas, K * cell + 2, Q * cell + 2);
  context.imageSmoothingEnabled = false;
  const image = pixels(headOf(look, head), Q, K, 0, look.largest(), ramp, colour("--role-cut"));
  context.drawImage(image, 1, 1, K * cell, Q * cell);
  hatchUnseen(context, look, head, 1, 1, cell, colour);
  context.strokeStyle = colour("--faint");
  context.strokeRect(0.5, 0.5, K * cell + 1, Q * cell + 1);
}

function largeMap(canvas, look, head, [queries, keys], root, { focus, ramp, colour }) {
  const [, Q, K] = look.sent;
  const font = "13px system-ui, sans-serif";
  const words = keys.slice(0, K).map((text) => cut(text, 14));
  const widths = words.map((word) => widest([word], font));
  const high = Math.max(...widths); // of labels that stand upright
  const left = Math.ceil(widest(queries.slice(0, Q).map((text) => cut(text, 14)), font)) + 28;
  const room = clamp(root.clientWidth - 40, 200, 620) - left;
  const fit = (space) => clamp(Math.floor(Math.min(space / K, 420 / Q)), 9, 56);
  let [cell, beyond] = [fit(room), 8];
  let angle = angleAbove(widths, cell, 13);
  if (angle === -45) [cell, beyond] = [fit(room - 0.71 * high), 8 + 0.71 * high]; // the last leans out
  if (angle === -45) angle = angleAbove(widths, cell, 13);
  const top = Math.ceil({ 0: 0, "-45": 0.71 * high, "-90": high }[angle]) + 38;
  const context = prepare(canvas, left + K * cell + Math.ceil(beyond), top + Q * cell + 4);
  context.font = font;
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.fillStyle = colour("--role-key");
  context.fillText("keys", left + (K * cell) / 2, 8);
  context.fillStyle = colour("--role-query");
  turned(context, 8, top + (Q * cell) / 2, -90, "queries");
  context.fillStyle = colour("--ink");
  if (cell >= 11) {
    context.textAlign = angle ? "left" : "center";
    words.forEach((word, k) => turned(context, left + (k + 0.5) * cell, top - (angle ? 4 : 10), angle, word));
    context.textAlign = "left";
    queries.slice(0, Q).forEach((word, q) => context.fillText(cut(word, 14), 18, top + (q + 0.5) * cell));
  }
  const weights = headOf(look, head);
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(weights, Q, K, 0, look.largest(), ramp, colour("--role-cut")), left, top, K * cell, Q * cell);
  context.strokeStyle = colour("--faint");
  context.strokeRect(left - 0.5, top - 0.5, K * cell + 1, Q * cell + 1);
  context.textAlign = "center";
  hatchUnseen(context, look, head, left, top, cell, colour);
  weights.forEach((weight, i) => {
    const [q, k] = [Math.floor(i / K), i % K];
    const [x, y] = [left + (k + 0.5) * cell, top + (q + 0.5) * cell];
    context.fillStyle = colour(lettersOn(weight / look.largest()));
    if (cell >= 30 && look.seen(head, q, k)) context.fillText(weight.toFixed(2), x, y);
  });
  const shape = { left, top, cell, line: cell, R: Q, C: K };
  if (focus) outline(context, shape, focus, colour);
  return shape;
}

// The map of a head that the hand and the keys look at; `readout` says what they see, as `said(cell)`
// has it. Returns how to draw it, and its shape.
function openMap(canvas, look, head, labels, { root, ramp, colour, readout, said, press, also, at }) {
  let [focus, shape] = [null, null];
  const draw = () => {
    shape = largeMap(canvas, look, head, labels, root, { focus, ramp: ramp(), colour });
    also?.(focus);
  };
  const show = (cell) => {
    focus = cell;
    draw();
    readout.textContent = cell ? said(cell) : "";
  };
  const under = (event) => cellUnder(canvas, shape, event);
  lookedAt(canvas, { under, sizes: look.sent.slice(1), look: show, press, at });
  return { draw, under, shape: () => shape };
}

// ---- The numbers of one cell ----

const quoted = (word) => `'${word}'`;

function cellNumbers(box, look, head, [q, k], { queries, keys, ramp, opened }) {
  const list = add(box, "ol", { class: "steps" });
  const step = (text) => {
    const item = add(list, "li");
    add(item, "div", { class: "sum" }, text);
    return item;
  };
  const [query, key] = [quoted(queries[q]), quoted(keys[k])];
  const seen = look.seen(head, q, k);
  const weight = look.weight(head, q, k);
  if (look.kind === "dot") product(step, look, head, [q, k], { query, key, ramp, opened });
  if (look.kind === "additive") tanhs(step, look, head, [q, k], { query, key, ramp, opened });
  const score = look.score(head, q, k);
  const bias = look.added(head, q, k);
  if (score !== undefined && bias) {
    step(`The layer adds its bias ${decimals(bias)}: the score is ${decimals(score + bias)}.`);
  }
  if (!seen) step(`The mask hides ${key} from ${query}: its weight is 0, whatever the score.`);
  const shares = step(
    score === undefined
      ? `${query} gives ${key} the weight ${weight.toFixed(3)}. This layer tells its weights only.`
      : `The softmax: e to the power of each score, divided by the sum of all. ` +
        `${key} gets the weight ${weight.toFixed(3)}.`,
  );
  softmaxTable(shares, look, head, q, k, keys);
  if (look.values) weighted(step, look, head, [q, k], { query, keys, ramp, opened });
  add(box, "div", { class: "faint" }, "The numbers are rounded here; the sums are of the exact ones.");
}

function product(step, look, head, [q, k], { query, key, ramp, opened }) {
  const [a, b] = [look.row("queries", head, q), look.row("keys", head, k)];
  const products = a.map((x, i) => x * b[i]);
  const score = look.score(head, q, k);
  const root = Math.sqrt(look.size);
  const item = step(
    `The query of ${query} times the key of ${key}, number by number. ` +
      `The ${look.size} products add up to ${decimals(score * root)}.`,
  );
  const rows = [["query", a], ["key", b], ["product", products]];
  vectors(item, rows, look.size, opened, ramp, score * root);
  step(`Divided by √${look.size} = ${brief(root)}: the score is ${decimals(score)}.`);
}

function tanhs(step, look, head, [q, k], { query, key, ramp, opened }) {
  const [a, b, w] = [look.row("queries", head, q), look.row("keys", head, k), look.w()];
  const bent = a.map((x, i) => Math.tanh(x + b[i]));
  const score = look.score(head, q, k);
  const item = step(
    `The query of ${query} plus the key of ${key}, through tanh, times w_v. ` +
      `The ${look.size} products add up to the score ${decimals(score)}.`,
  );
  const products = bent.map((x, i) => x * w[i]);
  const rows = [["query", a], ["key", b], ["tanh of the sum", bent], ["w_v", w], ["product", products]];
  vectors(item, rows, look.size, opened, ramp, score);
}

// Rows of numbers as a table of coloured cells; of the last row also what the others add up to.
function vectors(item, rows, size, opened, ramp, total, range) {
  const shown = Math.min(opened, rows[0][1].length);
  const scroll = add(item, "div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "numbers" });
  const table = add(scroll, "table", { class: "vectors" });
  rows.forEach(([name, numbers], at) => {
    const row = add(table, "tr");
    add(row, "th", { scope: "row", class: `for-${name}` }, name);
    colouredCells(row, numbers.subarray(0, shown), ramp, range);
    if (shown === size) return;
    const last = at === rows.length - 1 && total !== null;
    const here = numbers.subarray(0, shown).reduce((a, b) => a + b, 0);
    add(row, "td", { class: "rest" }, last ? `${size - shown} more: ${decimals(total - here)}` : "…");
  });
}

function colouredCells(row, numbers, ramp, range) {
  const [low, high] = range ?? rangeOf(numbers);
  for (const x of numbers) {
    const level = clamp((x - low) / (high - low || 1), 0, 1);
    const ground = ramp[Math.round(level * (ramp.length - 1))];
    add(row, "td", { style: `background:${ground};color:var(${lettersOn(level)})` }, twoDecimals(x));
  }
}

function softmaxTable(item, look, head, q, k, keys) {
  const [, , K] = look.sent;
  const scored = look.score(head, q, k) !== undefined;
  const scroll = add(item, "div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "the row of the softmax" });
  const table = add(scroll, "table", { class: "softmax" });
  const top = add(table, "tr");
  for (const name of ["key", ...(scored ? ["score", "e^score"] : []), "weight", ""]) {
    add(top, name ? "th" : "td", name ? { scope: "col" } : {}, name);
  }
  const powers = [];
  for (let i = 0; i < K; i++) {
    const row = add(table, "tr", i === k ? { class: "chosen" } : {});
    add(row, "th", { scope: "row" }, keys[i]);
    const weight = look.weight(head, q, i);
    if (scored) {
      const score = look.score(head, q, i) + look.added(head, q, i);
      const seen = look.seen(head, q, i);
      powers.push(seen ? Math.exp(score) : 0);
      add(row, "td", {}, seen ? decimals(score) : "hidden");
      add(row, "td", {}, brief(powers.at(-1)));
    }
    add(row, "td", {}, weight.toFixed(3));
    const bar = add(add(row, "td", { class: "bar", "aria-hidden": "true" }), "span");
    bar.style.width = `${Math.round(120 * weight)}px`;
  }
  const left = look.all[2] - K;
  if (left) return void add(item, "div", { class: "faint" }, `and ${left} keys more, which are not kept here`);
  if (!scored) return;
  const end = add(table, "tr", { class: "total" });
  add(end, "th", { scope: "row" }, "sum");
  add(end, "td");
  add(end, "td", {}, brief(powers.reduce((a, b) => a + b, 0)));
  let sum = 0;
  for (let i = 0; i < K; i++) sum += look.weight(head, q, i);
  add(end, "td", {}, sum.toFixed(3));
  add(end, "td");
}

function weighted(step, look, head, [q], { query, keys, ramp, opened }) {
  const K = look.sent[2];
  const shown = Math.min(opened, look.values_size);
  const part = shown < look.values_all ? `, the first ${shown} of ${look.values_all} numbers` : "";
  const item = step(`The answer for ${query}: each value times its weight, and the columns added up${part}.`);
  const sum = new Float32Array(shown);
  const rows = [];
  for (let k = 0; k < K; k++) {
    const weight = look.weight(head, q, k);
    const value = look.row("values", head, k).subarray(0, shown);
    const part = value.map((x) => weight * x);
    part.forEach((x, i) => (sum[i] += x));
    rows.push([`${weight.toFixed(3)} × ${quoted(keys[k])}`, part]);
  }
  rows.push(["answer", sum]);
  vectors(item, rows, shown, opened, ramp, null, rangeOf(rows.flatMap(([, row]) => [...row])));
}
