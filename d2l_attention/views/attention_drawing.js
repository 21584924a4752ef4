// What AttentionView draws: numbers and labels in, a canvas under a layer of SVG labels out.

const numbers = (text) => (text ? Float32Array.from(text.split(" "), Number) : null);
const format = (weight) => String(Number(weight.toPrecision(3)));

// Everything about the weights that does not move: parsed once for each change of the data.
function readData(model) {
  const [F, H, Q, K] = model.get("shape");
  const weights = numbers(model.get("weights_text"));
  const compare = numbers(model.get("compare_text"));
  const [compareF, compareH] = model.get("compare_shape");
  const matrix = (frame, head) => weights.subarray((frame * H + head) * Q * K).subarray(0, Q * K);
  const reference = (frame, head) => {
    if (!compare) return null;
    const index = (frame % compareF) * compareH + (head % compareH);
    return compare.subarray(index * Q * K, (index + 1) * Q * K);
  };
  return {
    F, H, Q, K, matrix, reference,
    largest: model.get("largest") || 1,
    strongest: compare ? compare.reduce((a, b) => Math.max(a, b), 0) || 1 : 1,
    queries: model.get("query_labels"),
    keys: model.get("key_labels"),
    heads: model.get("head_labels"),
    frames: model.get("frame_labels"),
  };
}

// The label in focus is bold.
const textWidth = (labels, font) => widest(labels, `bold ${font}px system-ui, sans-serif`);

// The geometry of one panel: `cell` pixels a token; labels only where they can be read.
function heatGeometry(data, room, small) {
  const letters = small ? 8 : data.K > 30 ? 12 : 18;
  const queries = data.queries.map((label) => cut(label, letters));
  const keys = data.keys.map((label) => cut(label, letters));
  const fit = (space) =>
    clamp(Math.floor(Math.min(space / data.K, 440 / data.Q)), small ? 2 : 11, small ? 30 : 60);
  const axis = 18; // room for 'queries' and 'keys'
  let left = textWidth(queries, 13) + 10 + axis;
  let cell = fit(room - left - 12);
  const labelled = cell >= 11;
  if (!labelled) cell = fit(room - 16 - axis), (left = 4 + axis);
  const font = clamp(cell, 10, 13);
  const widths = keys.map((key) => textWidth([key], font));
  const long = Math.max(...widths);
  const angle = angleAbove(widths, cell, font);
  const slope = Math.sin((-angle * Math.PI) / 180);
  const top = axis + 4 + (labelled ? long * slope + font + 4 : 0);
  const right = angle === -45 ? long * 0.71 : Math.max(4, (widths.at(-1) - cell) / 2);
  return {
    kind: "heatmap", queries, keys, cell, labelled, font, angle, small,
    left: Math.ceil(left), top: Math.ceil(top),
    width: Math.ceil(left + data.K * cell + right + 8),
    height: Math.ceil(top + data.Q * cell + 14),
  };
}

function lineGeometry(data, room, small) {
  const letters = small ? 8 : 24;
  const queries = data.queries.map((label) => cut(label, letters));
  const keys = data.keys.map((label) => cut(label, letters));
  const rows = Math.max(data.Q, data.K);
  const cell = small ? clamp(Math.floor(200 / rows), 3, 22) : clamp(Math.floor(440 / rows), 13, 34);
  const labelled = cell >= 11;
  const font = clamp(cell - 1, 10, 14);
  const left = labelled ? textWidth([...queries, "queries"], font) + 12 : 8;
  const right = labelled ? textWidth([...keys, "keys"], font) + 12 : 8;
  const span = clamp(room - left - right - 16, 60, 380);
  const top = small ? 22 : 24;
  return {
    kind: "lines", queries, keys, cell, labelled, font, small, span,
    left: Math.ceil(left), top,
    width: Math.ceil(left + span + right + 8),
    height: top + rows * cell + 14,
  };
}

const hasNumbers = (panel) => panel.kind === "heatmap" && panel.cell >= 38;

function paintHeat({ context, panel, data, matrix, reference, focus, colour }) {
  const { cell, left, top } = panel;
  const { Q, K, largest } = data;
  const ramp = colour("--ramp").split(" ");
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(matrix, Q, K, 0, largest, ramp), left, top, K * cell, Q * cell);
  const outline = (q, k, rows, columns, style, width) => {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.strokeRect(left + k * cell, top + q * cell, columns * cell, rows * cell);
  };
  if (cell >= 14) {
    for (let q = 0; q < Q; q++) outline(q, 0, 1, K, colour("--ground"), 1);
    for (let k = 0; k < K; k++) outline(0, k, Q, 1, colour("--ground"), 1);
  }
  outline(0, 0, Q, K, colour("--rule"), 1);
  if (hasNumbers(panel)) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    matrix.forEach((weight, i) => {
      context.fillStyle = colour(lettersOn(weight / largest));
      const text = weight ? weight.toFixed(2) : "0";
      context.fillText(text, left + ((i % K) + 0.5) * cell, top + (Math.floor(i / K) + 0.5) * cell);
    });
  }
  if (reference) {
    reference.forEach((value, i) => {
      if (value === 0) return;
      context.globalAlpha = value / data.strongest;
      const wide = cell < 8 ? 1 : 2;
      outline(Math.floor(i / K), i % K, 1, 1, colour("--ground"), 2 * wide);
      outline(Math.floor(i / K), i % K, 1, 1, colour("--ink"), wide);
    });
    context.globalAlpha = 1;
  }
  if (focus) {
    outline(focus.q, 0, 1, K, colour("--role-query"), 2);
    outline(0, focus.k, Q, 1, colour("--role-key"), 2);
    outline(focus.q, focus.k, 1, 1, colour("--ink"), 4);
    outline(focus.q, focus.k, 1, 1, colour("--ground"), 2);
  }
}

function paintLines({ context, panel, data, matrix, reference, focus, colour }) {
  const { left, top, span, cell, small } = panel;
  const { Q, K, largest, strongest } = data;
  const line = (q, k, strength, width) => {
    context.globalAlpha = strength;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(left, top + (q + 0.5) * cell);
    context.lineTo(left + span, top + (k + 0.5) * cell);
    context.stroke();
  };
  const [thick, faintest] = small ? [3, 0.04] : [6, 0.02];
  const dimmed = (q, k) => focus && (focus.side === "key" ? k !== focus.k : q !== focus.q);
  context.strokeStyle = colour("--role-weight");
  for (let q = 0, i = 0; q < Q; q++) {
    for (let k = 0; k < K; k++, i++) {
      const share = matrix[i] / largest;
      if (share < faintest) continue;
      line(q, k, (0.4 + 0.6 * share) * (dimmed(q, k) ? 0.12 : 1), Math.max(1, thick * share));
    }
  }
  context.setLineDash([6, 5]);
  context.strokeStyle = colour("--ink");
  for (let i = 0; reference && i < Q * K; i++) {
    const [q, k] = [Math.floor(i / K), i % K];
    const strength = (reference[i] / strongest) * (dimmed(q, k) ? 0.2 : 1);
    if (strength) line(q, k, strength, small ? 1 : 2);
  }
  context.setLineDash([]);
  context.strokeStyle = colour("--ink");
  if (focus) line(focus.q, focus.k, 1, 1.5);
  context.globalAlpha = 1;
}

function labelPanel(layer, panel, data, title) {
  const { cell, left, top, font, angle, labelled, small } = panel;
  const group = add(layer, "g", { transform: `translate(${panel.x},${panel.y})` });
  const place = (x, y, text, anchor, extra = {}) => add(group, "text", {
    x, y, "text-anchor": anchor, "dominant-baseline": "central", "font-size": font, ...extra,
  }, text);
  const lines = panel.kind === "lines";
  const bottomOfKeys = top - 8;
  if (small) place(left, 10, title, "start", { "font-size": 13 });
  if (lines && !small) {
    place(left, 10, "queries", "end", { class: "query", "font-size": 13 });
    place(left + panel.span, 10, "keys", "start", { class: "key", "font-size": 13 });
  } else if (!lines && data.K * cell > (small ? 100 : 0)) {
    const middle = top + (data.Q * cell) / 2;
    const [x, anchor] = small ? [left + data.K * cell, "end"] : [left + (data.K * cell) / 2, "middle"];
    place(x, 10, "keys", anchor, { class: "key", "font-size": 13 });
    place(9, middle, "queries", "middle", {
      class: "query", "font-size": 13, transform: `rotate(-90 9 ${middle})`,
    });
  }
  if (!labelled) return { q: [], k: [] };
  const row = (i) => top + (i + 0.5) * cell;
  const q = panel.queries.map((label, i) => place(left - 6, row(i), label, "end"));
  const k = panel.keys.map((label, i) => {
    if (lines) return place(left + panel.span + 6, row(i), label, "start");
    const x = left + (i + 0.5) * cell;
    if (!angle) return place(x, bottomOfKeys, label, "middle");
    const transform = `rotate(${angle} ${x} ${bottomOfKeys})`;
    return place(x, bottomOfKeys, label, "start", { transform });
  });
  return { q, k };
}

// The query and key under the pointer; beside the lines, the strongest partner of a token.
function cellAt(panel, data, matrix, x, y) {
  const row = Math.floor((y - panel.top) / panel.cell);
  const { Q, K } = data;
  if (panel.kind === "heatmap") {
    const k = Math.floor((x - panel.left) / panel.cell);
    return row >= 0 && row < Q && k >= 0 && k < K ? { q: row, k, side: "query" } : null;
  }
  const side = x < panel.left + panel.span / 2 ? "query" : "key";
  if (row < 0 || row >= (side === "query" ? Q : K)) return null;
  const others = [...Array(side === "query" ? K : Q).keys()];
  const weight = (other) => (side === "query" ? matrix[row * K + other] : matrix[other * K + row]);
  const best = others.reduce((a, b) => (weight(b) > weight(a) ? b : a));
  return side === "query" ? { q: row, k: best, side } : { q: best, k: row, side };
}
