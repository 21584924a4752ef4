// The translator in the page: write a sentence, see who looks at whom, forbid a look, see what
// becomes of the translation. In front of it are kit.js, the model, and the view into a model.

const PLACES = { cross: "French looks at English", decoder: "French looks at French", encoder: "English looks at English" };
const HINT = "Click a cell of the map, and this head may no longer look there. Click a word beside the map, and no head may look at it.";
const NOTHING = "Other heads, layers or words may bring the same.";
const KEYS = { Enter: "cell", " ": "cell", r: "row", R: "row", c: "column", C: "column" };
const PAUSE = 120; // milliseconds after the last key, before a sentence is translated

// The stored translators are in the page (site, deck), or the kernel sends the model.
function findModel(model) {
  const stored = globalThis.storedTranslators?.[model.get("stored")];
  if (stored) {
    const bytes = Uint8Array.from(atob(stored.base64), (letter) => letter.charCodeAt(0)).buffer;
    return Promise.resolve(makeTranslator({ ...stored, ...globalThis.storedTranslators.vocabularies, bytes }));
  }
  return new Promise((resolve) => {
    const answer = (message, buffers) => {
      if (message.kind !== "model") return;
      model.off("msg:custom", answer);
      const { buffer, byteOffset, byteLength } = buffers[0];
      resolve(makeTranslator({ ...message, bytes: buffer.slice(byteOffset, byteOffset + byteLength) }));
    };
    model.on("msg:custom", answer);
    model.send?.({ kind: "model, please" });
  });
}

async function renderTranslator({ model, el }) {
  const root = add(el, "div", { class: `d2l-inside d2l-translator` });
  if (model.get("title")) add(root, "div", { class: "title" }, model.get("title"));
  const waiting = add(root, "div", { class: "faint" }, "The translator is being read …");
  const translator = await findModel(model);
  waiting.remove();
  return show(translator, model, root);
}

function show(translator, model, root) {
  const isTransformer = translator.model instanceof Transformer;
  const linked = new URLSearchParams(location.search).get("translate")?.split("|");
  let cuts = (linked?.slice(1) ?? JSON.parse(model.get("cuts_text"))).filter(Boolean).map(readCut);
  let history = [];
  let words = [];
  let plain, now, visible;
  let place = "cross";
  let [layer, head] = [translator.model.decoder.blks ? translator.model.decoder.blks.length - 1 : 0, 0];
  let painters = [];

  // ---- The sentence ----

  const line = add(root, "div", { class: "row" });
  const label = add(line, "label", {}, "English: ");
  const input = add(label, "input", { type: "text", class: "sentence", maxlength: 2000, autocomplete: "off", spellcheck: "false", ...KEYS_ARE_MINE });
  input.value = linked?.[0] ?? model.get("sentence");
  const examples = add(root, "div", { class: "row" });
  add(examples, "span", { class: "faint" }, "or");
  for (const sentence of JSON.parse(model.get("examples_text")))
    addButton(examples, sentence, () => take(sentence, []));
  const trouble = add(root, "div", { class: "trouble", "aria-live": "polite" });
  const french = add(root, "div", { class: "french" });
  const guided = add(root, "div", { class: "row" });
  if (model.get("guided_text") !== "[]") add(guided, "span", { class: "faint" }, "Try");
  const known = JSON.parse(model.get("guided_text"));
  for (const { label: text, sentence, cuts: texts } of known)
    addButton(guided, text, () => take(sentence, texts.map(readCut)), { class: "guided", title: sentence });
  const maps = add(root, "div", { class: "maps" });
  const inside = isTransformer ? add(root, "details", { class: "inside" }) : null;
  if (inside) add(inside, "summary", {}, "Look inside: every part with the numbers of this sentence");
  const insideBox = inside && add(inside, "div");
  let insideModel = null;

  function take(sentence, wanted) {
    input.value = sentence;
    keep();
    cuts = wanted;
    if (wanted[0] && wanted[0].place !== "*") place = wanted[0].place;
    if (wanted[0] && wanted[0].layer !== "*") layer = Number(wanted[0].layer);
    read();
  }

  // ---- Cuts ----

  const keep = () => history.push({ text: input.value, cuts });
  function change(wanted) {
    keep();
    cuts = wanted;
    translateNow();
  }
  const same = (a, b) => cutText(a) === cutText(b);
  function toggle(cut) {
    const without = cuts.filter((other) => !same(other, cut));
    change(without.length < cuts.length ? without : [...cuts, cut]);
  }
  function back() {
    const before = history.pop();
    if (!before) return;
    cuts = before.cuts;
    input.value = before.text;
    read();
  }

  function inWords(cut) {
    const where = PLACES[cut.place] ?? "everywhere";
    const parts = [where];
    if (cut.layer !== "*") parts.push(`layer ${Number(cut.layer) + 1}`);
    if (cut.head !== "*") parts.push(`head ${Number(cut.head) + 1}`);
    const [from, to] = labels(cut.place);
    if (cut.query !== "*") parts.push(`from '${from[cut.query] ?? cut.query}'`);
    if (cut.key === "=") parts.push("to the word just written");
    else if (cut.key === "<") parts.push("to the word before that");
    else if (cut.key !== "*") parts.push(`to '${to[cut.key] ?? cut.key}'`);
    return parts.join(", ");
  }

  // ---- Translating ----

  function read() {
    const typed = wordsOf(input.value);
    const wrong = problem(typed, translator.source);
    trouble.replaceChildren();
    root.classList.toggle("stale", wrong !== null); // what stands below is of the sentence before
    if (wrong) {
      add(trouble, "span", {}, wrong.text + " ");
      for (const other of wrong.nearest ?? []) {
        addButton(trouble, other, () => {
          input.value = typed.map((word) => (word === wrong.word ? other : word)).join(" ");
          read();
          input.focus();
        });
      }
      if (wrong.nearest) {
        const all = translator.source.filter(isWord).sort();
        const list = add(trouble, "details");
        add(list, "summary", {}, `All ${all.length} words that it knows`);
        add(list, "div", {}, all.join(" "));
      }
      return;
    }
    words = typed;
    plain = translate(translator, words);
    translateNow();
  }

  function translateNow() {
    visible = visibleWith(cuts);
    now = cuts.length ? translate(translator, words, visible) : plain;
    paint();
    root.dataset.words = now.words.join(" "); // for those who test this
  }

  // Who looks, and at whom. A French word is chosen by a query that has read the word before it.
  function labels(at) {
    const [reads, writes] = [[...words, "<eos>"], [...now.words, "<eos>"]];
    if (at === "encoder") return [reads, reads];
    return at === "cross" ? [writes, reads] : [writes, ["<bos>", ...now.words]];
  }

  function paint() {
    painters = [];
    paintFrench();
    paintMaps();
    painters.forEach((draw) => draw());
    if (inside?.open) paintInside();
  }

  function paintFrench() {
    french.replaceChildren();
    const first = add(french, "div");
    add(first, "span", { class: "faint" }, "French: ");
    const original = add(first, "b", { class: "original" });
    const lost = changedWords(now.words, plain.words);
    plain.words.forEach((word, i) => add(original, lost[i] ? "del" : "span", {}, `${word} `));
    const second = add(french, "div", { class: "changed", "aria-live": "polite" });
    if (!cuts.length) return void add(second, "span", { class: "faint" }, HINT);
    add(second, "span", { class: "faint" }, "with your cuts: ");
    const changed = changedWords(plain.words, now.words);
    now.words.forEach((word, i) => add(second, changed[i] ? "mark" : "span", {}, `${word} `));
    if (!now.words.length) add(second, "mark", {}, "(nothing)");
    if (now.words.join(" ") === plain.words.join(" ")) add(second, "span", { class: "faint" }, "(nothing has changed)");
    const guide = known.find((each) => each.sentence === words.join(" ") && each.cuts.join() === cuts.map(cutText).join());
    if (guide) add(french, "div", { class: "says" }, guide.says);
    const row = add(french, "div", { class: "row cuts" });
    for (const cut of cuts) addButton(row, `✕ ${inWords(cut)}`, () => toggle(cut), { class: "cut", title: "allow it again" });
    if (history.length) addButton(row, "one step back", back);
    addButton(row, "all back", () => change([]));
    if (globalThis.storedTranslators) addButton(row, "copy a link", copyLink);
    if (!guide && now.words.join(" ") === plain.words.join(" ")) add(row, "span", { class: "faint" }, NOTHING);
  }

  function copyLink(event) {
    const address = new URL(location.href);
    address.searchParams.set("translate", [words.join(" "), ...cuts.map(cutText)].join("|"));
    const said = (text) => (event.target.textContent = text);
    navigator.clipboard?.writeText(address.href).then(() => said("copied"), () => said(address.href)) ?? said(address.href);
    root.dataset.link = address.href;
  }

  function paintMaps() {
    const hadFocus = maps.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    maps.replaceChildren();
    const chooser = add(maps, "div", { class: "row" });
    add(chooser, "span", { class: "faint" }, "Who looks at whom");
    const choose = (parent, text, pressed, act) => {
      addButton(parent, text, () => (act(), paint()), { "aria-pressed": String(pressed), "data-name": text });
    };
    const places = Object.keys(PLACES).filter((name) => now.weights[name]);
    if (places.length > 1) for (const name of places) choose(chooser, PLACES[name], name === place, () => (place = name));
    const layers = now.weights[place];
    layer = Math.min(layer, layers.length - 1);
    if (layers.length > 1) layers.forEach((_, i) => choose(chooser, `layer ${i + 1}`, i === layer, () => (layer = i)));
    const heads = layers[layer];
    head = Math.min(head, heads.length - 1);
    const look = asLook(heads, (h, i, j) => visible(place, layer, h, i, j) && (place !== "decoder" || j <= i));
    if (heads.length > 1) {
      const row = add(maps, "div", { class: "row" });
      heads.forEach((_, h) => {
        const name = `head ${h + 1}`;
        const button = addButton(row, "", () => ((head = h), paint()), {
          class: "head", "aria-pressed": String(h === head), "data-name": name, "aria-label": name,
        });
        const canvas = add(button, "canvas", { "aria-hidden": "true" });
        add(button, "span", {}, name);
        painters.push(() => smallMap(canvas, look, h, ramp(), colour));
      });
    }
    const [queries, keys] = labels(place);
    const beside = add(maps, "div", { class: "beside" });
    const canvas = add(beside, "canvas", {
      ...KEYS_ARE_MINE, tabindex: 0, role: "application", class: "map", "data-name": "map",
      "aria-label": `Map of head ${head + 1}, ${queries.length} queries by ${keys.length} keys. ` +
        "The arrow keys move between cells. Enter forbids this look, R all looks of the row, C those of the column; once more allows them again.",
    });
    const lines = add(beside, "canvas", { class: "lines", "aria-hidden": "true" });
    const readout = add(maps, "div", { class: "readout", "aria-live": "polite" });
    const whole = add(maps, "div", { class: "row" });
    const own = (cut) => toggle({ place, layer: "*", head: "*", query: "*", key: "*", ...cut });
    const forbid = (name, cut) => addButton(whole, name, () => own(cut), { "data-name": name });
    if (heads.length > 1) forbid("forbid this head", { layer: String(layer), head: String(head) });
    forbid("forbid this layer", { layer: String(layer) });
    const said = ([q, k]) => {
      const who = place === "encoder" ? quoted(queries[q]) : `To choose ${quoted(queries[q])} this head`;
      const hidden = look.seen(head, q, k) ? "" : ", forbidden";
      return `${who} looks at ${quoted(keys[k])}: ${brief(look.weight(head, q, k))}${hidden}`;
    };
    // A cell that is forbidden is allowed again, whatever cuts forbid it.
    const cell = ([q, k]) => {
      const others = cuts.filter((each) => !forbids(each, place, layer, head, q, k));
      if (others.length < cuts.length) return change(others);
      own({ layer: String(layer), head: String(head), query: String(q), key: String(k) });
    };
    const row = ([q]) => own({ query: String(q) });
    const column = ([, k]) => own({ key: String(k) });
    const act = (what, at) => ({ cell, row, column })[what]((last = at));
    const press = (key, at) => KEYS[key] && (act(KEYS[key], at), true);
    const also = (focus) => drawLines(lines, look, head, [queries, keys], focus, colour);
    // Where a cell was forbidden, the keyboard goes on.
    const at = hadFocus === "map" && last ? moved(last, [0, 0], [queries.length, keys.length]) : undefined;
    const map = openMap(canvas, look, head, [queries, keys], { root: maps, ramp, colour, readout, said, press, also, at });
    painters.push(map.draw);
    canvas.onclick = (event) => {
      const [x, y] = pointOn(canvas, event);
      const { left, top } = map.shape();
      act(x < left ? "row" : y < top ? "column" : "cell", map.under(event));
    };
    if (!hadFocus) return;
    const target = [...maps.querySelectorAll("[data-name]")].find((each) => each.dataset.name === hadFocus);
    target?.focus({ preventScroll: true });
  }
  let last = null; // the cell that was clicked: the keyboard goes on there

  function paintInside() {
    const text = liveRun(translator, words, now.words, visible);
    if (insideModel) return insideModel.set("run_text", text);
    insideModel = smallModel({ run_text: text, place: "", title: "" });
    renderInside({ model: insideModel, el: insideBox });
  }
  if (inside) inside.ontoggle = () => inside.open && now && paintInside();

  // ---- Keys, themes, sizes ----

  let timer = null;
  input.oninput = () => (clearTimeout(timer), (timer = setTimeout(read, PAUSE)));
  input.onkeydown = (event) => {
    event.stopPropagation(); // else a deck turns its slide
    if (event.key === "Enter") (clearTimeout(timer), read());
  };
  const ramp = () => colour("--ramp").split(" ");
  const colour = coloursOf(root);
  const end = follow(root, model, {}, () => painters.forEach((draw) => draw()));
  read();
  return () => (end(), clearTimeout(timer));
}

// Heads of weights, rows of unequal lengths among them, in the form that inside_drawing.js draws.
function asLook(heads, seen) {
  const [H, Q, K] = [heads.length, heads[0].length, Math.max(...heads[0].map((row) => row.length))];
  return {
    sent: [H, Q, K],
    weight: (head, q, k) => heads[head][q][k] ?? 0,
    seen: (head, q, k) => k < heads[head][q].length && seen(head, q, k),
    range: () => [0, 1],
  };
}

// Words above each other in two columns, with a line for each weight, thick for a large one.
function drawLines(canvas, look, head, [queries, keys], focus, colour) {
  const [, Q, K] = look.sent;
  const [step, width] = [22, 280];
  const context = prepare(canvas, width, Math.max(Q, K) * step + 8);
  context.font = "13px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let q = 0; q < Q; q++)
    for (let k = 0; k < K; k++) {
      const weight = look.weight(head, q, k);
      if (weight < 0.02) continue;
      context.globalAlpha = !focus || focus[0] === q ? 0.25 + 0.75 * weight : 0.08;
      context.strokeStyle = colour("--role-weight");
      context.lineWidth = 0.5 + 6 * weight;
      context.beginPath();
      context.moveTo(100, 12 + q * step);
      context.lineTo(width - 100, 12 + k * step);
      context.stroke();
    }
  context.globalAlpha = 1;
  context.fillStyle = colour("--ink");
  context.textAlign = "right";
  queries.slice(0, Q).forEach((word, q) => context.fillText(cut(word, 14), 94, 12 + q * step));
  context.textAlign = "left";
  keys.slice(0, K).forEach((word, k) => context.fillText(cut(word, 14), width - 94, 12 + k * step));
}

// What a widget's model can do, for a view within this one.
function smallModel(state) {
  const handlers = {};
  return {
    get: (key) => state[key],
    set(key, value) {
      if (state[key] === value) return;
      state[key] = value;
      for (const handler of handlers[`change:${key}`] ?? []) handler();
    },
    save_changes() {},
    on: (event, handler) => (handlers[event] ??= []).push(handler),
    off: (event, handler) => (handlers[event] = (handlers[event] ?? []).filter((h) => h !== handler)),
  };
}
