// AttentionView in the browser: reads the model's traits, answers hand and keyboard, needs no
// kernel. In front of it are kit.js and attention_drawing.js.

const ALL_HEADS = -1;
const STEP_MS = 700; // one frame, when playing

function renderAttention({ model, el }) {
  const root = add(el, "div", { class: "d2l-attention" });
  const colour = coloursOf(root);
  let data, parts, panels, labels;
  let focus = null; // the cell that the reader looks at: {q, k, side, panel}
  let timer = null;

  const choose = (name, value) => (model.set(name, value), model.save_changes());
  const frame = () => clamp(model.get("frame"), 0, data.F - 1);
  const shown = () => {
    const head = data.H === 1 ? 0 : clamp(model.get("head"), ALL_HEADS, data.H - 1);
    return head === ALL_HEADS ? [...Array(data.H).keys()] : [head];
  };

  function build() {
    data = readData(model);
    stop();
    focus = null;
    root.replaceChildren();
    parts = { heads: [] };
    if (model.get("title")) add(root, "div", { class: "title" }, model.get("title"));
    const row = add(root, "div", { class: "row" });
    const other = () => (model.get("mode") === "lines" ? "heatmap" : "lines");
    parts.mode = addButton(row, "", () => choose("mode", other()));
    add(row, "span", {}, "weight 0");
    parts.bar = add(row, "span", { class: "bar", role: "img", "aria-label": "colour scale" });
    add(row, "span", {}, format(data.largest));
    if (model.get("compare_text")) {
      parts.swatch = add(row, "span", { class: "swatch" });
      add(row, "span", {}, model.get("compare_label"));
    }
    if (data.H > 1) buildHeads();
    if (data.F > 1) buildFrames();
    parts.readout = add(root, "div", { class: "readout", "aria-live": "polite" });
    const stage = add(root, "div", { class: "stage" });
    parts.plot = add(stage, "div", {
      ...KEYS_ARE_MINE, class: "plot", tabindex: 0, role: "application",
      "aria-label": `${model.get("alt")} The arrow keys move between cells.`,
    });
    parts.canvas = add(parts.plot, "canvas");
    parts.layer = add(parts.plot, "svg", { "aria-hidden": "true" });
    parts.tip = add(parts.plot, "div", { class: "tip", "aria-hidden": "true", hidden: "" });
    parts.plot.onpointermove = parts.plot.onpointerdown = (event) => look(under(event));
    parts.plot.onpointerleave = () => document.activeElement === parts.plot || look(null);
    parts.plot.onclick = (event) => {
      const cell = under(event);
      if (cell && shown().length > 1) choose("head", cell.panel.head);
    };
    parts.plot.onkeydown = onKey;
    parts.plot.onfocus = () => focus || (panels && look(first()));
    parts.plot.onblur = () => look(null);
    layout();
  }

  function buildHeads() {
    const row = add(root, "div", { class: "row heads", role: "group", "aria-label": "heads" });
    const offer = (head, text) => {
      parts.heads.push([head, addButton(row, text, () => choose("head", head))]);
    };
    offer(ALL_HEADS, "all heads");
    data.heads.forEach((label, head) => offer(head, label));
  }

  function buildFrames() {
    const row = add(root, "div", { class: "row" });
    parts.play = addButton(row, "Play", () => (timer ? stop() : play()));
    parts.slider = add(row, "input", {
      ...KEYS_ARE_MINE, type: "range", min: 0, max: data.F - 1, step: 1, "aria-label": "frame",
    });
    parts.slider.oninput = () => choose("frame", Number(parts.slider.value));
    parts.frame = add(row, "span");
  }

  function play() {
    if (frame() === data.F - 1) choose("frame", 0);
    parts.play.textContent = "Pause";
    timer = setInterval(() => {
      choose("frame", frame() + 1);
      if (frame() === data.F - 1) stop();
    }, STEP_MS);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    if (parts?.play) parts.play.textContent = "Play";
  }

  // Where everything stands: again when the width, the mode or the number of panels changes.
  function layout() {
    const width = root.clientWidth - 16;
    if (width <= 0) return; // not on the page yet: the observer calls again
    const heads = shown();
    const small = heads.length > 1;
    const wanted = Math.min(heads.length, Math.max(1, Math.floor(width / 220)));
    const lines = model.get("mode") === "lines";
    const shape = (lines ? lineGeometry : heatGeometry)(data, Math.floor(width / wanted), small);
    const columns = clamp(Math.floor(width / shape.width), 1, wanted);
    const pitch = small ? Math.max(shape.width, Math.floor(width / columns)) : shape.width;
    panels = heads.map((head, i) => ({
      ...shape, head, x: (i % columns) * pitch, y: Math.floor(i / columns) * shape.height,
    }));
    const size = [columns * pitch, Math.ceil(heads.length / columns) * shape.height];
    const dots = window.devicePixelRatio || 1;
    for (const side of [0, 1]) {
      const name = ["width", "height"][side];
      parts.canvas[name] = size[side] * dots;
      for (const part of [parts.plot, parts.canvas]) part.style[name] = `${size[side]}px`;
      parts.layer.setAttribute(name, size[side]);
    }
    parts.layer.replaceChildren();
    labels = panels.map((panel) => labelPanel(parts.layer, panel, data, data.heads[panel.head]));
    if (focus) focus.panel = panels.find((panel) => panel.head === focus.panel.head) ?? panels[0];
    parts.mode.textContent = lines ? "Show heat map" : "Show lines";
    parts.bar.style.background = lines
      ? "linear-gradient(to right, transparent, var(--role-weight))"
      : `linear-gradient(to right, ${colour("--ramp").split(" ")})`;
    parts.swatch?.classList.toggle("dashed", lines);
    for (const [head, button] of parts.heads) {
      button.setAttribute("aria-pressed", String(head === (small ? ALL_HEADS : heads[0])));
    }
    paint();
  }

  function paint() {
    if (!panels) return;
    const context = parts.canvas.getContext("2d");
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, parts.canvas.width, parts.canvas.height);
    for (const [i, panel] of panels.entries()) {
      context.setTransform(dots, 0, 0, dots, panel.x * dots, panel.y * dots);
      const matrix = data.matrix(frame(), panel.head);
      const reference = data.reference(frame(), panel.head);
      const paintPanel = panel.kind === "lines" ? paintLines : paintHeat;
      paintPanel({ context, panel, data, matrix, reference, focus, colour });
      labels[i].q.forEach((label, q) => label.classList.toggle("on", focus?.q === q));
      labels[i].k.forEach((label, k) => label.classList.toggle("on", focus?.k === k));
    }
    if (parts.slider) {
      const text = data.frames[frame()];
      parts.slider.value = frame();
      parts.slider.setAttribute("aria-valuetext", text);
      parts.frame.textContent = `${text} (${frame() + 1} of ${data.F})`;
    }
    say();
  }

  function say() {
    parts.tip.hidden = !focus || hasNumbers(focus.panel);
    if (!focus) return void (parts.readout.textContent = "");
    const { q, k, panel } = focus;
    const weight = data.matrix(frame(), panel.head)[q * data.K + k];
    const reference = data.reference(frame(), panel.head);
    const start = panels.length > 1 ? `${data.heads[panel.head]}, ` : "";
    const pair = `query "${data.queries[q]}", key "${data.keys[k]}": ${format(weight)}`;
    const other = reference && format(reference[q * data.K + k]);
    const end = reference ? `; ${model.get("compare_label")}: ${other}` : "";
    parts.readout.textContent = start + pair + end;
    parts.tip.textContent = format(weight);
    const lines = panel.kind === "lines";
    const leftwards = !lines && k > data.K / 2; // else it would hang over the right edge
    const beside = leftwards ? k * panel.cell - 4 : (k + 1) * panel.cell + 4;
    const column = lines ? panel.span / 2 : beside;
    const row = lines ? ((q + k) / 2) * panel.cell : (q - 0.5) * panel.cell - 12;
    parts.tip.style.transform = leftwards ? "translateX(-100%)" : "";
    parts.tip.style.left = `${panel.x + panel.left + column}px`;
    parts.tip.style.top = `${Math.max(0, panel.y + panel.top + row)}px`;
  }

  const first = () => ({ q: 0, k: 0, side: "query", panel: panels[0] });

  function look(cell) {
    focus = cell;
    paint();
  }

  function under(event) {
    const [x, y] = pointOn(parts.plot, event);
    for (const panel of panels ?? []) {
      const [px, py] = [x - panel.x, y - panel.y];
      if (px < 0 || py < 0 || px >= panel.width || py >= panel.height) continue;
      const cell = cellAt(panel, data, data.matrix(frame(), panel.head), px, py);
      return cell && { ...cell, panel };
    }
    return null;
  }

  function onKey(event) {
    const step = ARROWS[event.key];
    if (!step || !panels) return;
    taken(event);
    const { panel, ...at } = focus ?? first();
    const [q, k] = moved([at.q, at.k], step, [data.Q, data.K]);
    look({ q, k, side: "query", panel });
    parts.tip.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  let waiting = false;
  const rebuild = () => {
    if (waiting) return; // one update changes many traits: build once, after the last of them
    waiting = true;
    queueMicrotask(() => ((waiting = false), build()));
  };
  const handlers = { frame: paint, head: layout, mode: layout };
  for (const name of ["weights_text", "compare_text", "query_labels", "key_labels", "title"]) {
    handlers[name] = rebuild;
  }
  const end = follow(root, model, handlers, paint, layout);
  build();
  return () => (stop(), end());
}
