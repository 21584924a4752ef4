// A view that Python drew in advance for every combination of its controls' values. The pictures
// are mosaics: a frame lists its tiles, and tiles that frames share are there once.

function showFrames(element, { controls, frames, tiles, size, columns, rows }) {
  const still = element.querySelector("img");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = size;
  canvas.className = still.className;
  if (still.dataset.width) canvas.dataset.width = still.dataset.width;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", still.alt);
  const words = still.getAttribute("aria-describedby");
  if (words) canvas.setAttribute("aria-describedby", words);
  const context = canvas.getContext("2d");
  context.drawImage(still, 0, 0, ...size);
  still.replaceWith(canvas);
  const row = document.createElement("div");
  row.className = "controls-row";
  element.prepend(row);
  const chosen = controls.map((control) => control.start);

  const known = new Map();
  async function tile(index) {
    if (!known.has(index)) {
      const image = new Image();
      image.src = `data:image/png;base64,${tiles[index]}`;
      known.set(index, image.decode().then(() => image));
    }
    return known.get(index);
  }
  const edge = (i, parts, length) => Math.floor((i * length) / parts);
  let wanted = 0; // a slider moves on while tiles are decoded: only the last call may draw
  async function show() {
    const call = ++wanted;
    const index = controls.reduce((sum, { shown }, i) => sum * shown.length + chosen[i], 0);
    const images = await Promise.all(frames[index].map(tile));
    if (call !== wanted) return;
    images.forEach((image, i) => {
      const [x, y] = [i % columns, Math.floor(i / columns)];
      context.drawImage(image, edge(x, columns, size[0]), edge(y, rows, size[1]));
    });
    canvas.dataset.shown = index;
  }
  const make = (parent, tag, properties = {}, text = "") => {
    const made = Object.assign(document.createElement(tag), properties);
    if (text) made.textContent = text;
    return parent.appendChild(made);
  };
  const kinds = {
    slider({ name, shown, start }, i) {
      const label = make(row, "label", {}, name);
      const input = make(label, "input", { type: "range", min: 0, max: shown.length - 1, value: start });
      const output = make(label, "output", {}, shown[start]);
      input.oninput = () => {
        chosen[i] = Number(input.value);
        output.textContent = shown[chosen[i]];
        input.setAttribute("aria-valuetext", shown[chosen[i]]);
        show();
      };
    },
    choice({ name, shown, start }, i) {
      const group = make(row, "span", { role: "group", ariaLabel: name }, name);
      const buttons = shown.map((text, value) => {
        const button = make(group, "button", { type: "button" }, text);
        button.onclick = () => {
          chosen[i] = value;
          buttons.forEach((other, j) => other.setAttribute("aria-pressed", String(j === value)));
          show();
        };
        button.setAttribute("aria-pressed", String(value === start));
        return button;
      });
    },
    box({ name, start }, i) {
      const label = make(row, "label");
      const input = make(label, "input", { type: "checkbox", checked: Boolean(start) });
      label.append(name);
      input.onchange = () => ((chosen[i] = Number(input.checked)), show());
    },
  };
  controls.forEach((control, i) => kinds[control.kind](control, i));
  show();
}
