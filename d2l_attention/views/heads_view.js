// All heads of all layers in the browser: thumbnails, each of which opens; needs no kernel. In front
// of it are kit.js and inside_drawing.js.

const ALL = -1;
const ROOM = 640; // pixels for a row of thumbnails

// The weights of a layer in the form that inside_drawing.js draws; bytes are read when drawn.
function asLook(whole, layer) {
  const [Q, K] = [whole.queries.length, whole.keys.length];
  let bytes = null;
  return {
    sent: [layer.heads, Q, K],
    weight: (head, q, k) => {
      bytes ??= Uint8Array.from(atob(layer.x), (letter) => letter.charCodeAt(0));
      return (bytes[(head * Q + q) * K + k] / 255) * whole.largest;
    },
    seen: () => true,
    range: () => [0, whole.largest],
  };
}

function renderHeads({ model, el }) {
  const root = add(el, "div", { class: "d2l-inside d2l-heads" });
  let whole, looks, body, said;
  let painters = [];
  let last = [0, 0]; // the thumbnail that was open or has the focus

  const choose = (layer, head) => {
    if (head >= 0) model.set("head", head);
    model.set("layer", layer);
    model.save_changes();
    paint();
  };

  function build() {
    whole = JSON.parse(model.get("heads_text"));
    looks = whole.layers.map((layer) => asLook(whole, layer));
    root.replaceChildren();
    if (model.get("title")) add(root, "div", { class: "title" }, model.get("title"));
    body = add(root, "div");
    said = add(root, "div", { class: "unseen", "aria-live": "polite" });
    drawn = null;
    paint();
  }

  let drawn = null; // one change of layer and head is told twice: draw once
  function paint() {
    const layer = clamp(model.get("layer"), ALL, looks.length - 1);
    const head = layer === ALL ? 0 : clamp(model.get("head"), 0, looks[layer].sent[0] - 1);
    const now = `${layer} ${head}`;
    if (drawn === now) return;
    const hadFocus = root.contains(document.activeElement);
    drawn = now;
    painters = [];
    body.replaceChildren();
    if (layer === ALL) grid();
    else open(layer, head);
    painters.forEach((draw) => draw());
    if (!hadFocus) return;
    body.querySelector(layer === ALL ? '[tabindex="0"].thumbnail' : ".map").focus();
    said.textContent = layer === ALL ? "all heads" : `layer ${whole.layers[layer].name}, head ${head + 1}`;
  }

  function grid() {
    const most = Math.max(...looks.map((look) => look.sent[0]));
    add(body, "div", { class: "does" }, "A row is a layer, a column a head. Open one by click or with Enter.");
    const box = add(body, "div", { class: "grid", role: "group", "aria-label": model.get("alt") });
    const side = clamp(Math.floor(ROOM / most) - 6, 16, 96);
    const buttons = looks.map((look, layer) => {
      const row = add(box, "div", { class: "layer" });
      const { name } = whole.layers[layer];
      add(row, "span", { class: "name" }, name);
      return Array.from({ length: look.sent[0] }, (_, head) => {
        const open = () => ((last = [layer, head]), choose(layer, head));
        const button = addButton(row, "", open, {
          class: "thumbnail", tabindex: layer === last[0] && head === last[1] ? 0 : -1,
          "aria-label": `layer ${name}, head ${head + 1}`,
        });
        const canvas = add(button, "canvas", { "aria-hidden": "true" });
        painters.push(() => thumbnail(canvas, look, head, side));
        button.onfocus = () => (last = [layer, head]);
        return button;
      });
    });
    box.onkeydown = (event) => {
      const move = ARROWS[event.key];
      if (!move) return;
      taken(event);
      const [layer, head] = last;
      const row = clamp(layer + move[0], 0, buttons.length - 1);
      const column = clamp(head + move[1], 0, buttons[row].length - 1);
      buttons[layer][head].tabIndex = -1;
      buttons[row][column].tabIndex = 0;
      buttons[row][column].focus();
    };
  }

  function thumbnail(canvas, look, head, side) {
    const [, Q, K] = look.sent;
    const scale = side / Math.max(Q, K);
    const size = [Math.max(4, Math.round(K * scale)), Math.max(4, Math.round(Q * scale))];
    const context = prepare(canvas, ...size);
    context.imageSmoothingEnabled = scale < 1; // many weights a pixel: their mean
    const image = pixels(headOf(look, head), Q, K, ...look.range(), ramp());
    context.drawImage(image, 0, 0, ...size);
  }

  function open(layer, head) {
    const look = looks[layer];
    const [H, Q, K] = look.sent;
    const row = add(body, "div", { class: "row" });
    const step = (sign, label, to) =>
      addButton(row, sign, () => choose(layer, to), { "aria-label": label });
    addButton(row, "all heads", () => choose(ALL, head));
    step("‹", "previous head", head - 1).disabled = head === 0;
    add(row, "b", {}, `layer ${whole.layers[layer].name}, head ${head + 1} of ${H}`);
    step("›", "next head", head + 1).disabled = head === H - 1;
    const canvas = add(body, "canvas", {
      ...KEYS_ARE_MINE, tabindex: 0, role: "application", class: "map",
      "aria-label": `Map of layer ${whole.layers[layer].name}, head ${head + 1}, ${Q} queries by ${K} keys. ` +
        "The arrow keys move between cells, Escape goes back to all heads.",
    });
    const readout = add(body, "div", { class: "readout", "aria-live": "polite" });
    const labels = [whole.queries, whole.keys];
    const said = ([q, k]) =>
      `${quoted(labels[0][q])} looks at ${quoted(labels[1][k])}: ${brief(look.weight(head, q, k), 2)}`;
    painters.push(openMap(canvas, look, head, labels, { root, ramp, colour, readout, said }).draw);
  }

  root.onkeydown = (event) => {
    if (event.key !== "Escape" || model.get("layer") === ALL) return;
    taken(event);
    choose(ALL, -1);
  };

  const ramp = () => colour("--ramp").split(" ");
  const colour = coloursOf(root);
  const handlers = { layer: paint, head: paint, heads_text: build };
  const end = follow(root, model, handlers, () => painters.forEach((draw) => draw()));
  build();
  return end;
}
