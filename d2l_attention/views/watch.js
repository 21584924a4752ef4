// A recorded run in the browser: steps through its lines, needs no kernel. In front of it is kit.js.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const ODD = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const MOST_WITH_NUMBERS = 8; // rows and columns

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
const exact = (x) => (Number.isNaN(x) ? "NaN" : String(x).replace("Infinity", "inf"));
const brief = (x) => String(Number(x.toPrecision(3)));

// A number for a cell: short, and never 0 for what is not 0.
function short(x) {
  if (!Number.isFinite(x)) return exact(x);
  if (Number.isInteger(x) && Math.abs(x) < 1e5) return String(x);
  if (Math.abs(x) >= 0.005 && Math.abs(x) < 1e3) return x.toFixed(2);
  return x.toExponential(0).replace("+", "");
}

// All steps, each with every name of its call: name -> the number of its value.
function readRun(text) {
  const run = JSON.parse(text);
  const calls = new Map();
  for (const step of run.steps) {
    const known = { ...calls.get(step.n), ...step.c };
    const names = step.names ? step.names.split(" ") : [];
    step.state = Object.fromEntries(names.map((name) => [name, known[name]]));
    calls.set(step.n, step.state);
  }
  return run;
}

// The numbers of a value, read when it is first drawn.
function numbersOf(value) {
  return (value.numbers ??= value.x.split(" ").map((text) => ODD[text] ?? Number(text)));
}

// What the axes are called: letters where they were given and fit, else sizes alone.
function shapeWords(shape, letters = "") {
  if (letters.length === shape.length) return shape.map((n, i) => `${letters[i]} ${n}`).join(", ");
  return `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
}

function place(index, sizes) {
  return sizes.map((size, i) => Math.floor(index / product(sizes.slice(i + 1))) % size);
}

function renderWatch({ model, el }) {
  const root = add(el, "div", { class: "d2l-watch" });
  const chosen = new Map(); // name -> which of its matrices is shown
  const colour = coloursOf(root);
  let run, parts, cards, listing, call;

  const at = () => clamp(model.get("step"), 0, run.steps.length - 1);
  const go = (step) => {
    const next = clamp(step, 0, run.steps.length - 1);
    if (next === at()) return;
    model.set("step", next);
    model.save_changes();
  };

  function build() {
    run = readRun(model.get("run_text"));
    parts = {};
    cards = new Map();
    listing = call = null;
    root.replaceChildren();
    add(root, "div", { class: "title" }, model.get("title"));
    const row = add(root, "div", { class: "row" });
    const step = (sign, label, move) => addButton(row, sign, () => go(at() + move), { "aria-label": label });
    parts.back = step("◀", "one step back", -1);
    parts.on = step("▶", "one step on", 1);
    parts.slider = add(row, "input", {
      ...KEYS_ARE_MINE, type: "range", min: 0, max: run.steps.length - 1, "aria-label": "step",
    });
    parts.slider.oninput = () => go(Number(parts.slider.value));
    parts.where = add(row, "span", { class: "where" });
    if (run.note) add(root, "div", { class: "partial" }, run.note);
    const panes = add(root, "div", { class: "panes" });
    parts.source = add(panes, "div", {
      ...KEYS_ARE_MINE, class: "code", tabindex: 0, role: "region", "aria-label": "source",
    });
    const right = add(panes, "div", { class: "right" });
    parts.error = add(right, "div", { class: "error", role: "alert" });
    parts.readout = add(right, "div", { class: "readout" });
    parts.names = add(right, "div", { class: "names" });
    add(right, "div", { class: "faint" }, "■ above 0, □ below 0: the area is the size, on one scale for each name.");
    parts.said = add(root, "div", { class: "unseen", "aria-live": "polite" });
    paint();
  }

  function showListing(step) {
    if (listing !== step.f) {
      listing = step.f;
      parts.source.replaceChildren();
      parts.lines = new Map();
      for (const [number, text] of run.listings[listing][1]) {
        const line = add(parts.source, "div", { class: "line" });
        add(line, "span", { class: "number" }, number);
        add(line, "code", {}, text || " ");
        parts.lines.set(number, line);
      }
    }
    for (const [number, line] of parts.lines) {
      line.classList.toggle("now", number === step.l);
      line.toggleAttribute("aria-current", number === step.l);
    }
    const [line, pane] = [parts.lines.get(step.l), parts.source];
    if (!line) return;
    // Only the pane moves, never the page.
    const above = line.offsetTop - pane.offsetTop - pane.clientHeight / 2;
    if (pane.scrollHeight > pane.clientHeight) pane.scrollTop = above;
  }

  function paint() {
    const number = at();
    const step = run.steps[number];
    parts.slider.value = number;
    parts.back.disabled = number === 0;
    parts.on.disabled = number === run.steps.length - 1;
    const [name] = run.listings[step.f];
    const inside = step.d || run.listings.length > 1 ? ` of ${name}` : "";
    const depth = step.d ? `, ${step.d} ${step.d === 1 ? "call" : "calls"} deep` : "";
    const where = `step ${number + 1} of ${run.steps.length}, line ${step.l}${inside}${depth}`;
    parts.where.textContent = where;
    parts.slider.setAttribute("aria-valuetext", where);
    parts.error.textContent = step.e ?? "";
    parts.readout.textContent = "";
    showListing(step);
    if (call !== step.n) {
      call = step.n;
      parts.names.replaceChildren();
      // All names of the call, in the order in which they come: each has its place from the start.
      const mine = run.steps.filter((each) => each.n === call);
      const names = new Set(mine.flatMap((each) => Object.keys(each.state)));
      cards = new Map([...names].map((name) => [name, makeCard(name, mine)]));
    }
    for (const [name, card] of cards) {
      card.box.classList.toggle("absent", !(name in step.state));
      card.mark.textContent = step.i?.includes(name) ? "changed in place" : "new";
      card.box.classList.toggle("changed", name in step.c);
      if (name in step.state) fill(card, step.state[name]);
    }
    const changed = Object.keys(step.c).filter((name) => name in step.state);
    parts.said.textContent = `${where}. ${changed.length ? "Changed: " + changed.join(", ") : ""}`;
  }

  function makeCard(name, steps) {
    const box = add(parts.names, "div", { class: "held" });
    const head = add(box, "div", { class: "head" });
    add(head, "b", {}, name);
    const card = { name, box, shape: add(head, "span", { class: "shape" }) };
    card.mark = add(head, "span", { class: "change" });
    card.body = add(box, "div", { class: "body" });
    keepRoom(card, steps.filter((step) => name in step.state));
    return card;
  }

  // As much as the largest of its values needs, so that no other box moves when it changes.
  function keepRoom(card, mine) {
    const inPlace = mine.some((step) => step.i?.includes(card.name));
    card.mark.textContent = inPlace ? "changed in place" : "new";
    let [width, height] = [0, 0];
    for (const index of new Set(mine.map((step) => step.state[card.name]))) {
      fill(card, index);
      width = Math.max(width, card.box.offsetWidth);
      height = Math.max(height, card.box.offsetHeight);
    }
    Object.assign(card.box.style, { minWidth: `min(100%, ${width}px)`, minHeight: `${height}px` });
  }

  function fill(card, index) {
    if (card.index === index) return;
    card.index = index;
    card.focus = null;
    card.canvas = null;
    card.body.replaceChildren();
    const value = (card.value = run.values[index]);
    card.shape.textContent = "";
    if ("t" in value) return void add(card.body, "code", {}, value.t);
    const letters = run.axes[card.name];
    card.letters = letters?.length === value.s.length ? letters : "";
    const kind = value.d === "float32" ? "" : ` ${value.d}`;
    card.shape.textContent = shapeWords(value.s, letters) + kind;
    const [most, R, C] = value.m;
    if (!most) return void add(card.body, "div", { class: "faint" }, "too much to be kept here");
    const leading = value.s.slice(0, -2);
    if (product(leading) > 1) addSelector(card, leading, most);
    card.canvas = add(card.body, "canvas", {
      ...KEYS_ARE_MINE, tabindex: 0, role: "img",
      "aria-label": `${card.name}, ${card.shape.textContent}. The arrow keys move between numbers.`,
    });
    lookedAt(card.canvas, {
      under: (event) => under(card, event), sizes: [R, C], look: (cell) => look(card, cell),
    });
    card.words = add(card.body, "div", { class: "faint" });
    const of = (part, all, what) => (part < all ? `${part} of ${all} ${what}` : "");
    const rows = value.s.length > 1 ? value.s.at(-2) : 1;
    card.part = [
      of(most, product(leading), "matrices"), of(R, rows, "rows"), of(C, value.s.at(-1), "columns"),
    ].filter(Boolean).join(", ");
    draw(card);
  }

  // Two buttons and not a list: a click on a slide gives the focus back, which would close a list.
  function addSelector(card, leading, most) {
    const row = add(card.body, "div", { class: "row" });
    const show = (matrix) => {
      chosen.set(card.name, (card.matrix = clamp(matrix, 0, most - 1)));
      [back.disabled, on.disabled] = [card.matrix === 0, card.matrix === most - 1];
      const where = place(card.matrix, leading);
      const letters = where.map((index, axis) => `${card.letters[axis]} ${index}`);
      text.textContent = card.letters ? letters.join(", ") : `[${where.join(", ")}]`;
      if (card.canvas) draw(card);
    };
    const step = (sign, what, move) => addButton(row, sign, () => show(card.matrix + move), {
      "aria-label": `${what} matrix of ${card.name}`,
    });
    const back = step("‹", "previous", -1);
    const text = add(row, "span", { class: "matrix" });
    const on = step("›", "next", 1);
    show(chosen.get(card.name) ?? 0);
  }

  const matrixOf = ({ value, matrix }) => {
    const [, R, C] = value.m;
    const start = value.s.length > 2 ? (matrix ?? 0) * R * C : 0;
    return numbersOf(value).slice(start, start + R * C);
  };

  function draw(card) {
    const { canvas, value, name } = card;
    const [, R, C] = value.m;
    const matrix = matrixOf(card);
    const mask = value.d === "bool";
    const [low, high] = run.scales[name] ?? [0, 1];
    const largest = Math.max(-low, high) || 1;
    const whole = isWhole(value.d);
    const font = `11px ${colour("font-family")}`;
    const written = !mask && (whole || (R <= MOST_WITH_NUMBERS && C <= MOST_WITH_NUMBERS));
    const texts = written ? matrix.map(short) : [];
    const mark = written && !whole ? 14 : 0; // the square beside the number
    const width = written ? Math.ceil(widest(texts, font)) + mark + 8 : mask && C <= 8 ? 18 : 10;
    const height = written ? 20 : mask && R <= 8 ? 18 : 10;
    Object.assign(card, { width, height });
    const context = prepare(canvas, C * width + 2, R * height + 2);
    context.translate(1, 1);
    context.font = font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const [ink, faint, rule, ground] = ["ink", "faint", "rule", "ground"].map((name) => colour(`--${name}`));
    matrix.forEach((number, i) => {
      const [x, y] = [(i % C) * width, Math.floor(i / C) * height];
      context.fillStyle = mask && number ? ink : ground;
      context.fillRect(x, y, width, height);
      const odd = written && !Number.isFinite(number);
      if (!mask && !whole) square(context, number, largest, [x, y, odd ? width : mark || width, height], { ink, faint });
      [context.strokeStyle, context.lineWidth] = [rule, 0.5];
      if (height > 10) context.strokeRect(x, y, width, height);
      if (odd) return label(context, texts[i], x + width / 2, y + height / 2);
      context.fillStyle = ink;
      if (written) context.fillText(texts[i], x + (width + mark) / 2, y + height / 2);
    });
    [context.strokeStyle, context.lineWidth] = [colour("--faint"), 1];
    context.strokeRect(0, 0, C * width, R * height);
    if (card.focus) {
      const [row, column] = card.focus;
      for (const [style, line] of [[colour("--ink"), 4], [colour("--ground"), 2]]) {
        [context.strokeStyle, context.lineWidth] = [style, line];
        context.strokeRect(column * width, row * height, width, height);
      }
    }
    const count = (what, test) => {
      const found = matrix.filter(test).length;
      return found ? `hatched: ${found} × ${what}` : "";
    };
    const axes = card.letters.length > 1 ? `rows ${card.letters.at(-2)}, columns ${card.letters.at(-1)}` : "";
    card.words.textContent = [
      axes,
      mask ? "filled True, empty False" : whole ? "" : `up to ${brief(largest)}`,
      count("-inf", (x) => x === -Infinity), count("inf", (x) => x === Infinity),
      count("NaN", Number.isNaN), card.part && `shown: ${card.part}`,
    ].filter(Boolean).join("; ");
  }

  function label(context, text, x, y) {
    const half = context.measureText(text).width / 2 + 1;
    context.fillStyle = colour("--ground");
    context.fillRect(x - half, y - 7, 2 * half, 14);
    context.fillStyle = colour("--ink");
    context.fillText(text, x, y);
  }

  function under(card, event) {
    const [, R, C] = card.value.m;
    const [x, y] = pointOn(card.canvas, event);
    const [row, column] = [Math.floor((y - 1) / card.height), Math.floor((x - 1) / card.width)];
    return [clamp(row, 0, R - 1), clamp(column, 0, C - 1)];
  }

  function look(card, cell) {
    if (!card.canvas) return;
    card.focus = cell;
    draw(card);
    parts.readout.textContent = "";
    if (!cell) return;
    const { s } = card.value;
    const leading = place(card.matrix ?? 0, s.slice(0, -2));
    const index = s.length > 1 ? [...leading, ...cell] : [cell[1]];
    const number = matrixOf(card)[cell[0] * card.value.m[2] + cell[1]];
    const truth = number ? "True" : "False";
    const text = card.value.d === "bool" ? truth : exact(number);
    parts.readout.textContent = `${card.name}[${index.join(", ")}] = ${text}`;
  }

  root.onkeydown = (event) => {
    if (!(event.key in STEPS) || event.target.tagName === "INPUT") return;
    event.preventDefault();
    go(at() + STEPS[event.key]);
  };
  const redraw = () => cards.forEach((card) => card.canvas && draw(card));
  const end = follow(root, model, { step: paint, run_text: build }, redraw);
  build();
  return end;
}
