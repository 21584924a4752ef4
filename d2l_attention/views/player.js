// A computation in drawn states, between which numbers fly; needs no kernel. In front of it: kit.js.

const FLIGHT = 300; // milliseconds

function renderPlayer({ model, el }) {
  const root = add(el, "div", { class: "d2l-player" });
  const colour = coloursOf(root);
  let whole, stage, texts, back, next, dots, said, shown;

  function build() {
    whole = JSON.parse(model.get("states_text"));
    for (const state of whole.states) {
      state.cells = state.cells.map(([text, x, y, shape, size, level, id, from]) => {
        const [kind, w, h, outlines] = whole.shapes[shape];
        return { text, x, y, w, h, kind, outlines, size, level, id, from };
      });
    }
    root.replaceChildren();
    root.style.setProperty("--units", whole.size[0]);
    const stacked = (part) => {
      const box = add(root, "div", { class: `texts ${part}` });
      return whole.states.map((state) => add(box, "div", {}, state[part]));
    };
    texts = [stacked("title")];
    stage = picture(root, { ...KEYS_ARE_MINE, tabindex: 0 });
    texts.push(stacked("words"));
    const row = add(root, "div", { class: "steps", role: "group", "aria-label": "Steps" });
    back = addButton(row, "back", () => choose(at() - 1));
    next = addButton(row, "next", () => choose(at() + 1));
    const places = add(row, "div", { class: "dots" });
    dots = whole.states.map(({ title }, i) =>
      addButton(places, "", () => choose(i), { class: "dot", "aria-label": `step ${i + 1}: ${title}` }));
    said = add(root, "div", { class: "unseen", "aria-live": "polite" });
    const all = add(root, "div", { class: "all", "aria-hidden": "true" }); // on paper
    for (const state of whole.states) {
      const panel = add(all, "div");
      add(panel, "div", { class: "title" }, state.title);
      state.small = picture(panel);
      add(panel, "div", {}, state.words);
    }
    paint();
  }

  const picture = (parent, attributes = {}) => add(parent, "svg", {
    role: "img", viewBox: `0 0 ${whole.size.join(" ")}`, style: `aspect-ratio: ${whole.size.join(" / ")}`,
    ...attributes,
  });
  const at = () => clamp(model.get("step"), 0, whole.states.length - 1);

  function choose(step) {
    model.set("step", clamp(step, 0, whole.states.length - 1));
    model.save_changes();
    show();
  }

  // All anew, as where the theme has changed.
  function paint() {
    for (const state of whole.states) {
      state.small.replaceChildren();
      state.cells.forEach((cell) => draw(state.small, cell));
    }
    shown = null;
    show();
  }

  function show() {
    const step = at();
    if (shown === step) return; // one change of the step is told twice
    const state = whole.states[step];
    const before = shown === null ? null : whole.states[shown].cells;
    stage.replaceChildren();
    const nodes = state.cells.map((cell) => draw(stage, cell));
    if (before && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      state.cells.forEach((cell, i) => fly(nodes[i], cell, before));
      said.textContent = `step ${step + 1}: ${state.title}`;
    }
    stage.setAttribute("aria-label", `Step ${step + 1} of ${whole.states.length}. ${state.said}`);
    for (const stack of texts) stack.forEach((text, i) => text.classList.toggle("now", i === step));
    dots.forEach((dot, i) => (i === step ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current")));
    [back.disabled, next.disabled] = [step === 0, step === dots.length - 1];
    shown = step;
  }

  // From where the state before has it, or from those that it is made of; else it appears.
  function fly(node, cell, before) {
    const found = (id) => before.find((other) => id && other.id === id);
    const same = found(cell.id);
    const starts = same ? [same] : cell.from.map(found).filter(Boolean);
    const lasts = { duration: FLIGHT, easing: "ease-in-out" };
    const place = ({ x, y }) => ({ transform: `translate(${x}px, ${y}px)` });
    starts.forEach((start, i) => {
      if (start.x === cell.x && start.y === cell.y) return;
      const moving = i ? draw(stage, start) : stage.appendChild(node);
      const flight = moving.animate([place(start), place(cell)], lasts);
      if (i) flight.onfinish = () => moving.remove();
    });
    const known = starts.length || before.some((o) => o.text === cell.text && o.x === cell.x && o.y === cell.y);
    if (!known) node.animate([{ opacity: 0 }, { opacity: 1 }], lasts);
  }

  function draw(parent, cell) {
    const node = add(parent, "g", { transform: `translate(${cell.x} ${cell.y})` });
    let [box, letters] = whole.styles[cell.kind];
    if (cell.kind === "weight") {
      const ramp = colour("--ramp").split(" ");
      box += `; fill: ${ramp[cell.level]}`;
      letters += `; fill: var(${lettersOn(cell.level / (ramp.length - 1))})`;
    }
    for (const corners of cell.outlines) add(node, "polygon", { points: corners.join(" "), style: box });
    add(node, "text", {
      x: cell.kind === "label" ? 0.04 : cell.w / 2, y: cell.h / 2, "dominant-baseline": "central",
      style: `${letters}; font-size: ${cell.size}px`,
    }, cell.text);
    return node;
  }

  root.onkeydown = (event) => {
    const ends = { Home: 0, End: whole.states.length - 1 };
    const step = { ArrowLeft: at() - 1, ArrowRight: at() + 1, ...ends }[event.key];
    if (step === undefined) return;
    taken(event);
    choose(step);
  };
  const end = follow(root, model, { step: show, states_text: build }, paint, () => {});
  build();
  return end;
}
