// Jupyter widgets without a kernel: what draws itself in the browser (anywidget) lives, boxes hold
// it, linked sliders move it. What only Python could answer (buttons, text fields) is left out.

function openWidgets(states) {
  const models = new Map();
  const modules = new Map(); // one import for all views of the same code
  const REFERENCE = "IPY_MODEL_";
  const found = (text) => models.get(text.slice(REFERENCE.length));

  class Model {
    constructor({ model_name, state }) {
      Object.assign(this, { name: model_name, state: { ...state }, handlers: {} });
    }
    get(key) { return this.state[key]; }
    set(key, value) {
      if (this.state[key] === value) return;
      this.state[key] = value;
      for (const handler of [...(this.handlers[`change:${key}`] ?? [])]) handler();
    }
    save_changes() {}
    on(event, handler) { (this.handlers[event] ??= []).push(handler); }
    off(event, handler) {
      this.handlers[event] = (this.handlers[event] ?? []).filter((other) => other !== handler);
    }
  }

  for (const [id, saved] of Object.entries(states)) models.set(id, new Model(saved));
  const linked = new Set();
  for (const link of [...models.values()].filter((model) => /LinkModel$/.test(model.name))) {
    const ends = [link.get("source"), link.get("target")].map(([end, key]) => [found(end), key]);
    const [[source, from], [target, to]] = ends;
    const follow = (a, key, b, other) => a.on(`change:${key}`, () => b.set(other, a.get(key)));
    target.set(to, source.get(from));
    follow(source, from, target, to);
    if (link.name === "LinkModel") follow(target, to, source, from);
    linked.add(source).add(target);
  }

  async function drawItself(model, el) {
    const code = model.get("_esm");
    if (!modules.has(code)) {
      const blob = new Blob([code], { type: "text/javascript" });
      modules.set(code, import(URL.createObjectURL(blob)));
      const style = document.createElement("style");
      style.textContent = model.get("_css") ?? "";
      document.head.append(style);
    }
    const module = await modules.get(code);
    await module.default.render({ model, el });
  }

  function slider(model, el) {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: model.get("min"), max: model.get("max") });
    Object.assign(input, { step: model.get("step") ?? 1, value: model.get("value") });
    const label = document.createElement("label");
    label.append(`${model.get("description")} `, input);
    input.oninput = () => model.set("value", Number(input.value));
    model.on("change:value", () => (input.value = model.get("value")));
    el.append(label);
  }

  async function draw(model, el) {
    if (model.name === "AnyModel") return drawItself(model, el);
    if (/^(Int|Float)SliderModel$/.test(model.name) && linked.has(model)) return slider(model, el);
    const children = (model.get("children") ?? []).map(found);
    const beside = model.name === "HBoxModel";
    if (beside) Object.assign(el.style, { display: "flex", flexWrap: "wrap" });
    for (const child of children) {
      const box = el.appendChild(document.createElement("div"));
      if (beside && child.name === "AnyModel") Object.assign(box.style, { flex: "1 1 340px", minWidth: 0 });
      await draw(child, box);
    }
  }

  return { models, show: (id, el) => draw(models.get(id), el) };
}
