// What the scripts of all views share. Python puts this file in front of a view's own: together they
// are one module (view.py). Words come from users: they only ever become text nodes.

const SVG = "http://www.w3.org/2000/svg";
// JupyterLab takes the arrow keys for itself, except from elements that carry this attribute.
const KEYS_ARE_MINE = { "data-lm-suppress-shortcuts": "true" };
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function add(parent, tag, attributes = {}, text = "") {
  const svg = tag === "svg" || parent.namespaceURI === SVG;
  const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return parent.appendChild(made);
}

function addButton(parent, text, act, attributes = {}) {
  const made = add(parent, "button", { type: "button", ...KEYS_ARE_MINE, ...attributes }, text);
  made.onclick = act;
  return made;
}

const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const moved = ([row, column], [down, right], [R, C]) => [
  clamp(row + down, 0, R - 1), clamp(column + right, 0, C - 1),
];

// A key that a view has answered: the page does not scroll, and a deck does not turn its slide.
function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}

// Where the pointer is on an element, in the element's own pixels: slides are scaled.
function pointOn(element, event) {
  const box = element.getBoundingClientRect();
  const scale = element.offsetWidth / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

// A canvas of cells that the hand and the arrow keys look at. `look` gets [row, column], or null
// where nobody looks any more; `under` finds the cell of an event, `sizes` are rows and columns.
// Other keys go to `press(key, cell)`, which says whether it knew the key. `at` is where keys begin.
function lookedAt(canvas, { under, sizes, look, press = () => false, at = [0, 0] }) {
  let focus = null;
  const show = (cell) => look((focus = cell));
  canvas.onpointermove = canvas.onpointerdown = (event) => show(under(event));
  canvas.onpointerleave = () => document.activeElement === canvas || show(null);
  canvas.onblur = () => show(null);
  canvas.onfocus = () => show(focus ?? at);
  canvas.onkeydown = (event) => {
    const [move, cell] = [ARROWS[event.key], focus ?? at];
    if (move) show(moved(cell, move, sizes));
    else if (!press(event.key, cell)) return;
    taken(event);
  };
}

// The canvas in this size, with as many dots as the screen has, cleared.
function prepare(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * dots, height * dots];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const ruler = document.createElement("canvas").getContext("2d");

function widest(texts, font) {
  ruler.font = font;
  return Math.max(0, ...texts.map((text) => ruler.measureText(text).width));
}

// A text on a canvas that turns by so many degrees around its place.
function turned(context, x, y, degrees, text) {
  context.save();
  context.translate(x, y);
  context.rotate((degrees * Math.PI) / 180);
  context.fillText(text, 0, 0);
  context.restore();
}

// The degrees at which labels so many pixels wide stand above cells: as words.py has it.
function angleAbove(widths, cell, font) {
  const level = widths.every((wide, i) => i === 0 || (wide + widths[i - 1] + font) / 2 <= cell);
  return level ? 0 : cell >= 1.4 * font ? -45 : -90;
}

// The cells as an image of one pixel each, which the browser enlarges: fast for any number of them.
// What is no number, or infinite, has the colour `odd`.
function pixels(numbers, R, C, low, high, ramp, odd = ramp[0]) {
  const image = document.createElement("canvas");
  [image.width, image.height] = [C, R];
  const context = image.getContext("2d");
  const data = context.createImageData(C, R);
  const colours = [...ramp, odd];
  const byte = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  const bytes = colours.map((hex) => [byte(hex, 1), byte(hex, 3), byte(hex, 5), 255]);
  numbers.forEach((x, i) => {
    const level = Math.round(clamp((x - low) / (high - low || 1), 0, 1) * (ramp.length - 1));
    data.data.set(bytes[Number.isFinite(x) ? level : ramp.length], 4 * i);
  });
  context.putImageData(data, 0, 0);
  return image;
}

// A number as a square in its cell: the area is its size, filled above 0, hollow below; NaN and what
// has no end is hatched. `largest` fills the cell.
function square(context, x, largest, [left, top, width, height], { ink, faint }) {
  if (!Number.isFinite(x)) return hatch(context, left, top, width, height, faint, Number.isNaN(x));
  const least = x > 0 ? 1 : 3; // a smaller one would not be hollow
  const most = Math.min(width, height) - 1;
  const side = Math.max(least, Math.round(most * Math.sqrt(Math.min(1, Math.abs(x) / largest))));
  const [across, down] = [left + Math.floor((width - side) / 2), top + Math.floor((height - side) / 2)];
  [context.fillStyle, context.strokeStyle, context.lineWidth] = [ink, ink, 1];
  if (x > 0) context.fillRect(across, down, side, side);
  if (x < 0) context.strokeRect(across + 0.5, down + 0.5, side - 1, side - 1);
}

const isWhole = (kind) => /^u?int/.test(kind);
const largestOf = (numbers) => numbers.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);

// The colours of a view, by their names in palette.py; they follow the theme.
function coloursOf(root) {
  const style = getComputedStyle(root);
  return (name) => style.getPropertyValue(name);
}

const TURN = 0.6; // of the ramp, as in palette.py: letters on what is stronger have the other colour
const lettersOn = (share) => (share > TURN ? "--on-strong" : "--on-weak");

// Lines at 45 degrees: nobody may look there; or, with `crossed`, there is no number.
function hatch(context, x, y, width, height, style, crossed = false) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.beginPath();
  for (let i = -height; i < width; i += 5) {
    context.moveTo(x + i, y + height);
    context.lineTo(x + i + height, y);
    if (!crossed) continue;
    context.moveTo(x + i, y);
    context.lineTo(x + i + height, y + height);
  }
  context.strokeStyle = style;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

// Draws again where the page's theme changes, lays out again where the view's width does, and calls
// the handlers where the model's traits do. Returns what ends all that.
function follow(root, model, handlers, redraw, layOut = redraw) {
  let width = root.clientWidth;
  const sizes = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    layOut();
  });
  sizes.observe(root);
  const themes = new MutationObserver(() => redraw());
  themes.observe(document.body, { attributes: true });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  const changes = Object.entries(handlers).map(([name, handler]) => [`change:${name}`, handler]);
  for (const change of changes) model.on(...change);
  return () => {
    sizes.disconnect();
    themes.disconnect();
    dark.removeEventListener("change", redraw);
    for (const change of changes) model.off?.(...change);
  };
}
