// A recorded run of a model in the browser: opens its parts, needs no kernel. In front of it are
// kit.js and inside_drawing.js.

const AT_ONCE = 60; // parts of a list, before one asks for more
const OPENED = 16; // numbers of a vector that are written out
const WORDS = 240; // pixels of the words beside a drawing
const MOST_LINES = 6; // where there are more, each says less
const TRACKS = 6; // of arrows that go past parts
const LEGEND = "■ above 0, □ below 0: the area is the size. Hatched: no number.";

// What a place names: a part, and in it a head, and in that a cell, [query, key].
function readPlace(run, text) {
  const found = { parts: [run.parts[0]], head: null, cell: null };
  for (const name of text ? text.split("/") : []) {
    const part = found.parts.at(-1);
    const below = part.below.map((number) => run.parts[number]);
    const next = below.find((each) => each.name === name);
    if (next && found.head === null) {
      found.parts.push(next);
      continue;
    }
    const look = run.looks[part.look];
    const [head, cell] = [/^head (\d+)$/.exec(name), /^query (\d+), key (\d+)$/.exec(name)];
    if (!look) return found;
    if (head && Number(head[1]) <= look.sent[0]) found.head = Number(head[1]) - 1;
    else if (cell && found.head !== null) {
      const [q, k] = [Number(cell[1]), Number(cell[2])];
      if (q < look.sent[1] && k < look.sent[2]) found.cell = [q, k];
    }
  }
  return found;
}

function writePlace({ parts, head, cell }) {
  const names = parts.slice(1).map((part) => part.name);
  if (head !== null) names.push(`head ${head + 1}`);
  if (cell) names.push(`query ${cell[0]}, key ${cell[1]}`);
  return names.join("/");
}

// Arrows from the rows to those that read them. Where one goes past a line it has a track at the
// right; all else is between the lines, so that no arrow crosses a part.
function drawArrows(svg, items, { arrows, tracks }, lineOf) {
  svg.replaceChildren();
  const list = svg.parentNode;
  svg.setAttribute("width", list.clientWidth);
  svg.setAttribute("height", list.scrollHeight);
  const past = new Map(tracks);
  const side = Math.max(...[...items.values()].map((item) => item.offsetLeft + item.offsetWidth));
  for (const [from, to] of arrows) {
    if (!items.has(from) || !items.has(to)) continue; // of a portion that is not shown yet
    const [a, b] = [items.get(from), items.get(to)];
    const [over, end] = [Math.round(b.offsetLeft + b.offsetWidth / 2), b.offsetTop - 1];
    const [middle, y] = [Math.round(a.offsetLeft + a.offsetWidth / 2), a.offsetTop + a.offsetHeight];
    const x = Math.abs(middle - over) < 3 ? over : middle;
    const number = past.get(from) % TRACKS;
    const [track, low] = [side + 6 + 8 * number, y + 3 + number];
    const far = lineOf(to) - lineOf(from) > 1;
    const way = far ? ` L${x},${low} L${track},${low} L${track},${end - 8}` : "";
    add(svg, "path", { d: `M${x},${y}${way} L${over},${end - 8} L${over},${end}` });
    add(svg, "path", { d: `M${over - 4},${end - 6} l4,6 l4,-6 z`, class: "head" });
  }
}

function renderInside({ model, el }) {
  const root = add(el, "div", { class: "d2l-inside" });
  let run, here, body, said, readout;
  let painters = []; // what has to be drawn again where the theme or the width changes

  const words = (number, count) =>
    run.words[number] ?? Array.from({ length: count }, (_, i) => String(i));
  const go = (place) => {
    const text = writePlace(place);
    if (text === writePlace(here)) return;
    model.set("place", text);
    model.save_changes();
  };
  const into = (part) => go({ parts: [...here.parts, part], head: null, cell: null });

  function build() {
    run = readRun(model.get("run_text"));
    root.replaceChildren();
    if (model.get("title")) add(root, "div", { class: "title" }, model.get("title"));
    body = add(root, "div", { class: "body", tabindex: -1, ...KEYS_ARE_MINE });
    readout = null;
    said = add(root, "div", { class: "unseen", "aria-live": "polite" });
    here = null;
    paint();
  }

  function paint() {
    const before = here;
    const hadFocus = root.contains(document.activeElement);
    here = readPlace(run, model.get("place"));
    painters = [];
    body.replaceChildren();
    trail();
    readout = null;
    const part = here.parts.at(-1);
    if (here.cell) numbers(part, run.looks[part.look]);
    else if (here.head !== null) map(part, run.looks[part.look]);
    else flow(part);
    painters.forEach((draw) => draw());
    if (!before) return;
    said.textContent = inWords(part);
    if (hadFocus) refocus(before);
  }

  // The keyboard goes on where it was: into what was opened, or on what was closed.
  function refocus(before) {
    if (here.cell) return body.querySelector(".numbers").focus();
    const closed = writePlace(here);
    const was = writePlace(before);
    const name = was.startsWith(closed) ? was.slice(closed.length).split("/").filter(Boolean)[0] : null;
    const stops = [...body.querySelectorAll(".stop")];
    const target = stops.find((stop) => stop.dataset.name === name) ?? stops[0] ?? body;
    target.focus();
  }

  function inWords(part) {
    if (here.cell) return body.querySelector(".sum")?.textContent ?? "numbers";
    if (here.head !== null) return `head ${here.head + 1} of ${part.name}, a map`;
    const count = part.below.length;
    return `${part.name}, ${count === 1 ? "1 part" : `${count} parts`}`;
  }

  // ---- Where one is ----

  function trail() {
    const nav = add(body, "nav", { class: "trail", "aria-label": "where you are in the model" });
    const list = add(nav, "ol");
    const steps = here.parts.map((part, i) => [
      part.name, { parts: here.parts.slice(0, i + 1), head: null, cell: null },
    ]);
    if (here.head !== null) steps.push([`head ${here.head + 1}`, { ...here, cell: null }]);
    if (here.cell) {
      const look = run.looks[here.parts.at(-1).look];
      const [q, k] = here.cell;
      const pair = [words(look.qwords, look.sent[1])[q], words(look.kwords, look.sent[2])[k]];
      steps.push([`${quoted(pair[0])} looks at ${quoted(pair[1])}`, here]);
    }
    steps.forEach(([name, place], i) => {
      const item = add(list, "li");
      if (i === steps.length - 1) add(item, "span", { "aria-current": "location" }, name);
      else addButton(item, name, () => go(place));
    });
  }

  function heading(part) {
    const head = add(body, "div", { class: "heading" });
    const about = run.about[part.about];
    if (part.kind !== part.name) add(head, "span", { class: "kind" }, part.kind);
    if (part.params) add(head, "span", {}, `${part.params.toLocaleString("en")} parameters`);
    if (about.does) add(head, "span", { class: "does" }, about.does);
    for (const [name, shape] of part.own ?? []) add(head, "span", { class: "faint" }, `${name} ${shapeWords(shape)}`);
    if (!about.formula && !about.code) return;
    const details = add(body, "details");
    const held = ["formula", "chapter", "code"].filter((each) => about[each]).join(", ");
    add(details, "summary", {}, held[0].toUpperCase() + held.slice(1));
    if (about.formula) add(details, "div", { class: "formula" }, about.formula);
    if (about.chapter) add(details, "div", {}, `${about.chapter}, builds it.`);
    if (about.code) add(add(details, "pre", { tabindex: 0 }), "code", {}, about.code);
  }

  // ---- A part: what goes in, what it calls, what comes out ----

  function flow(part) {
    heading(part);
    const list = add(body, "ol", { class: "flow", ...KEYS_ARE_MINE });
    const svg = add(list, "svg", { class: "arrows", "aria-hidden": "true" });
    list.style.padding = `0 ${8 * Math.min(TRACKS, 1 + Math.max(-1, ...part.tracks.map(([, track]) => track)))}px`;
    const makers = part.below.map((number) => (line) => card(line, run.parts[number]));
    if (part.look !== undefined) makers.splice(part.heads_at, 0, (line) => heads(line, part));
    const only = part.out.length === 1;
    makers.unshift(...part.in.map((held) => (line) => tensor(line, "in", held)));
    makers.push(...part.out.map((held) => (line) => tensor(line, "out", held, only)));
    const items = new Map();
    const lineOf = (row) => part.lines.findIndex((line) => line.includes(row));
    const put = (line) => {
      const item = add(list, "li", { class: line.length > 1 ? "line" : "line alone" });
      for (const row of line) items.set(row, makers[row](item));
    };
    const inside = part.lines.filter(([row]) => row >= part.in.length && row < makers.length - part.out.length);
    const show = (from) => {
      inside.slice(from, from + AT_ONCE).forEach(put);
      const left = inside.slice(from + AT_ONCE);
      if (!left.length) return end();
      const item = add(list, "li");
      const text = `Show ${left.slice(0, AT_ONCE).flat().length} of ${left.flat().length} more parts`;
      const more = () => {
        item.remove();
        show(from + AT_ONCE);
        painters.forEach((draw) => draw());
      };
      addButton(item, text, more, { class: "stop" });
    };
    const end = () => {
      if (part.more) add(list, "li", { class: "faint" }, `${part.more} calls more are not kept.`);
      part.lines.filter(([row]) => row >= makers.length - part.out.length).forEach(put);
      const never = part.never?.join(", ");
      if (never) add(list, "li", { class: "faint" }, `Not called as a part in this run: ${never}.`);
    };
    part.lines.filter(([row]) => row < part.in.length).forEach(put);
    show(0);
    painters.push(() => requestAnimationFrame(() => drawArrows(svg, items, part, lineOf)));
    add(body, "div", { class: "faint legend" }, LEGEND);
    if (run.left_out && here.parts.length === 1) {
      add(body, "div", { class: "faint" }, `${run.left_out} inner calls of this run are not kept.`);
    }
    readout = add(body, "div", { class: "readout", "aria-live": "polite" });
  }

  // How wide and high the drawing of an item may be: alone in its line it stands beside its words.
  function roomIn(line) {
    const width = line.clientWidth / line.childElementCount - 24;
    const beside = line.childElementCount === 1 && line.clientWidth > 480;
    const high = clamp(Math.floor(420 / here.parts.at(-1).lines.length), 40, MOST_HIGH);
    return [beside ? Math.min(width, 560) - WORDS : width, high];
  }

  function tensor(line, side, [name, number, labels, best], only) {
    const value = run.values[number];
    const item = add(line, "div", { class: `item tensor ${side}` });
    const text = add(item, "div", { class: "text" });
    add(text, "span", { class: "side" }, side);
    if (!only) add(text, "b", {}, name);
    const shown = add(text, "span", { class: "faint" });
    const canvas = add(item, "canvas", {
      ...KEYS_ARE_MINE, tabindex: 0, role: "img",
      "aria-label": `${side} ${name}, ${shapeWords(value.shape)}. The arrow keys move between numbers.`,
    });
    if (best) bestWords(item, best, run.words[labels]);
    let focus = null;
    let shape = null;
    const sizes = [...value.sent];
    const draw = () => {
      shape = heat(canvas, value, run.words[labels], roomIn(line), { focus, colour });
      if (shape) [sizes[0], sizes[1]] = [shape.R, shape.C];
      shown.textContent = tensorWords(value, sizes);
    };
    painters.push(draw);
    const look = (cell) => {
      focus = cell;
      draw();
      readout.textContent = cell ? numberInWords(name, value, run.words[labels], cell) : "";
    };
    if (value.sent[0]) lookedAt(canvas, { under: (event) => cellUnder(canvas, shape, event), sizes, look });
    return item;
  }

  function card(line, part) {
    const button = addButton(line, "", () => into(part), { class: "item part stop", "data-name": part.name });
    const text = add(button, "span", { class: "text" });
    add(text, "b", {}, part.name);
    const inside = part.below.length + (part.look === undefined ? 0 : 1);
    const kind = part.kind === part.name ? "" : part.kind;
    add(text, "span", { class: "faint" }, inside ? `${kind} ▸` : kind);
    const does = run.about[part.about].does;
    if (does && here.parts.at(-1).lines.length < MOST_LINES) add(text, "span", { class: "does" }, does);
    const [held] = part.out;
    if (!held) return button;
    const value = run.values[held[1]];
    const shown = add(text, "span", { class: "faint" });
    const canvas = add(button, "canvas", { "aria-hidden": "true" });
    painters.push(() => {
      const { R, C } = heat(canvas, value, run.words[held[2]], roomIn(line), { colour }) ?? { R: 0, C: 0 };
      shown.textContent = `gives ${tensorWords(value, [R, C])}`;
    });
    return button;
  }

  function heads(line, part) {
    const look = run.looks[part.look];
    const [H, Q, K] = look.sent;
    const item = add(line, "div", { class: "item heads" });
    const all = look.all[0];
    const text = add(item, "div", { class: "text" });
    add(text, "b", {}, all === 1 ? "who looks at whom" : `${all} heads: who looks at whom`);
    const whole = H === all && Q === look.all[1] && K === look.all[2];
    const cut = whole ? "" : `, of them the first ${H} × ${Q} × ${K}`;
    add(text, "span", { class: "faint" }, `weights ${shapeWords(look.all)}${cut}`);
    const row = add(item, "div", { class: "row" });
    for (let head = 0; head < H; head++) {
      const name = `head ${head + 1}`;
      const button = addButton(row, "", () => go({ ...here, head, cell: null }), {
        class: "stop head", "data-name": name,
        "aria-label": `${name}, its map of ${Q} queries and ${K} keys`,
      });
      const canvas = add(button, "canvas", { "aria-hidden": "true" });
      add(button, "span", {}, all === 1 ? "the map" : name);
      painters.push(() => smallMap(canvas, look, head, ramp(), colour, Math.min(MOST_HIGH, line.clientWidth / Math.min(H, 4) - 20)));
    }
    return item;
  }

  // ---- A head: its map; a cell of the map: its numbers ----

  function map(part, look) {
    const [H, Q, K] = look.sent;
    const labels = [words(look.qwords, Q), words(look.kwords, K)];
    if (H > 1) {
      const row = add(body, "div", { class: "row" });
      for (let head = 0; head < H; head++) {
        const pressed = { "aria-pressed": String(head === here.head) };
        addButton(row, `head ${head + 1}`, () => go({ ...here, head }), pressed);
      }
    }
    const hint = "Each row is a query, its weights add up to 1. Open a cell to see its numbers.";
    add(body, "div", { class: "does" }, sumsToOne(look, here.head) ? hint : hint.replace(", its weights add up to 1", ""));
    const canvas = add(body, "canvas", {
      ...KEYS_ARE_MINE, tabindex: 0, role: "application", class: "stop map", "data-name": "",
      "aria-label": `Map of head ${here.head + 1} of ${part.name}, ${Q} queries by ${K} keys. ` +
        "The arrow keys move between cells, Enter opens one, Escape goes back.",
    });
    readout = add(body, "div", { class: "readout", "aria-live": "polite" });
    const said = ([q, k]) => {
      const weight = brief(look.weight(here.head, q, k));
      const hidden = look.seen(here.head, q, k) ? "" : ", hidden by the mask";
      return `${quoted(labels[0][q])} looks at ${quoted(labels[1][k])}: ${weight}${hidden}`;
    };
    const press = (key, cell) => (key === "Enter" || key === " ") && (go({ ...here, cell }), true);
    const { draw, under } = openMap(canvas, look, here.head, labels, { root, ramp, colour, readout, said, press });
    painters.push(draw);
    canvas.onclick = (event) => go({ ...here, cell: under(event) });
  }

  function numbers(part, look) {
    const [q, k] = here.cell;
    const [, Q, K] = look.sent;
    const box = add(body, "div", {
      class: "numbers", tabindex: 0, role: "group", ...KEYS_ARE_MINE,
      "aria-label": "The numbers of this cell. The arrow keys go to the cells beside it.",
    });
    painters.push(() => {
      box.replaceChildren();
      cellNumbers(box, look, here.head, [q, k], {
        queries: words(look.qwords, Q), keys: words(look.kwords, K), ramp: ramp(), opened: OPENED,
      });
    });
    box.onkeydown = (event) => {
      const move = ARROWS[event.key];
      if (!move || event.target !== box) return;
      taken(event);
      go({ ...here, cell: moved([q, k], move, [Q, K]) });
    };
  }

  // ---- Keys, themes, sizes ----

  root.onkeydown = (event) => {
    if (event.key === "Escape") {
      if (here.parts.length === 1 && here.head === null) return; // outside: the page's own key
      taken(event);
      if (here.cell) return go({ ...here, cell: null });
      if (here.head !== null) return go({ ...here, head: null });
      return go({ ...here, parts: here.parts.slice(0, -1) });
    }
    const move = ARROWS[event.key];
    const stops = [...body.querySelectorAll(".stop")];
    const at = stops.indexOf(document.activeElement);
    if (!move || at < 0) return;
    taken(event);
    stops[clamp(at + move[0] + move[1], 0, stops.length - 1)].focus();
  };

  const ramp = () => colour("--ramp").split(" ");
  const colour = coloursOf(root);
  const handlers = { place: paint, run_text: build };
  const end = follow(root, model, handlers, () => painters.forEach((draw) => draw()));
  build();
  return end;
}
