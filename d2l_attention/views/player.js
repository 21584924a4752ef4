// A computation in drawn states, between which numbers fly; needs no kernel. In front of it: kit.js.

const FLIGHT = 300; // milliseconds
const GAP = 0.04; // of a unit, around each cell: as in player.py

function renderPlayer({ model, el }) {
  const root = add(el, "div", { class: "d2l-player" });
  const colour = coloursOf(root);
  let whole, stage, texts, back, next, dots, said, shown;

  function build() {
    whole = JSON.parse(model.get("states_text"));
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
    let [form, fill, edge, letters] = whole.kinds[cell.kind].map((name) => `var(--${name})`);
    form = whole.kinds[cell.kind][0];
    if (cell.kind === "weight") {
      const ramp = colour("--ramp").split(" ");
      [fill, letters] = [ramp[cell.level], `var(${lettersOn(cell.level / (ramp.length - 1))})`];
    }
    const [w, h] = [cell.w - 2 * GAP, cell.h - 2 * GAP];
    const node = add(parent, "g", { transform: `translate(${cell.x} ${cell.y})` });
    const style = `fill: ${form === "frame" ? "none" : fill}; stroke: ${edge}; stroke-width: ${form === "frame" ? 0.09 : 0.04}`;
    const box = (inset, more = {}) => add(node, "rect", {
      x: GAP + inset, y: GAP + inset, width: w - 2 * inset, height: h - 2 * inset, style, ...more,
    });
    if (form === "round") box(0, { rx: Math.min(w, h) / 2 });
    else if (form === "pointed") {
      const c = Math.min(w, h) / 4;
      const corners = [[0, h / 2], [c, 0], [w - c, 0], [w, h / 2], [w - c, h], [c, h]];
      add(node, "polygon", { points: corners.map(([x, y]) => `${GAP + x},${GAP + y}`).join(" "), style });
    } else if (form !== "left" && form !== "none") box(0, form === "dashed" ? { "stroke-dasharray": "0.08 0.08" } : {});
    if (form === "double") box(0.07);
    add(node, "text", {
      x: form === "left" ? GAP : cell.w / 2, y: cell.h / 2, "dominant-baseline": "central",
      "text-anchor": form === "left" ? "start" : "middle", style: `fill: ${letters}; font-size: ${cell.size}px`,
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
