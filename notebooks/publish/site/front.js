// The first page: a sentence, its translation, and a line for every weight between them. A click
// on an English word hides it from the French. Before this, in one function with it, stand kit.js and
// the files of views/translator that translate: front.py joins them.

const EXAMPLES = ["she does not read these books", "the small house is old"];
const THINNEST = 0.04; // of the weights that are drawn

const inWords = (words) => words.map((word) => `‘${word}’`).join(" and ");

// Both sentences in one: [word, "lost", "new" or "same"]
function compared(before, after) {
  const [lost, found] = [changedWords(after, before), changedWords(before, after)];
  const all = [];
  for (let i = 0, j = 0; i < before.length || j < after.length; ) {
    if (lost[i]) all.push([before[i++], "lost"]);
    else if (found[j]) all.push([after[j++], "new"]);
    else all.push([before[i++], after[j++] && "same"]);
  }
  return all;
}

function frontView(place, translator) {
  const english = add(place, "div", { class: "words", role: "group", "aria-label": "English" });
  const lines = add(place, "svg", { "aria-hidden": "true" });
  const french = add(place, "div", { class: "words french", lang: "fr", "aria-label": "French" });
  const says = add(place, "p", { class: "says", "aria-live": "polite" });
  const choice = add(place, "div", { class: "examples" });
  let words, plain, now, hidden, pointed;

  for (const sentence of EXAMPLES) addButton(choice, sentence, () => start(sentence));

  function start(sentence) {
    words = sentence.split(" ");
    hidden = new Set();
    plain = translate(translator, words);
    english.replaceChildren();
    words.forEach((word, i) => {
      const hide = () => {
        hidden.delete(i) || hidden.add(i);
        button.setAttribute("aria-pressed", String(hidden.has(i)));
        translateNow();
      };
      const button = addButton(english, word, hide, { "aria-pressed": "false", title: "write the French without it" });
      followPointer(button);
    });
    for (const button of choice.children)
      button.setAttribute("aria-pressed", String(button.textContent === sentence));
    translateNow();
  }

  function translateNow() {
    const cuts = [...hidden].map((key) => readCut(`cross * * * ${key}`));
    now = hidden.size ? translate(translator, words, visibleWith(cuts)) : plain;
    pointed = null;
    french.replaceChildren();
    for (const [word, how] of compared(plain.words, now.words)) {
      const name = { lost: "del", new: "mark", same: "span" }[how];
      followPointer(add(french, name, {}, word));
      french.append(" ");
    }
    say();
    draw();
  }

  function say() {
    const parts = compared(plain.words, now.words);
    const [lost, found] = ["lost", "new"].map((how) => parts.filter((p) => p[1] === how).map((p) => p[0]));
    const without = `Without ${inWords([...hidden].map((i) => words[i]))}, `;
    const changes = (word, i) => `‘${word}’ becomes ‘${found[i]}’`;
    let what = "the French says something else.";
    if (!lost.length && !found.length)
      what = "the French stays: it needs no look there, or learns the same from another word.";
    else if (!found.length) what = `the French loses ${inWords(lost)}.`;
    else if (lost.length === found.length && lost.length < 3) what = `${lost.map(changes).join(" and ")}.`;
    says.textContent = hidden.size
      ? `${without}${what} Click again to show what you hid.`
      : "Click an English word, and the French is written without it. The thicker a line, the larger its share.";
    place.dataset.words = now.words.join(" "); // for those who test this
  }

  // The word under the pointer, and its lines alone.
  function followPointer(word) {
    const point = (what) => () => ((pointed = what), draw());
    Object.assign(word, { onpointerenter: point(word), onpointerleave: point(null) });
  }

  // From each French word to the English ones: the weights of one head, the first of the last layer.
  function draw() {
    const [head] = now.weights.cross.at(-1);
    const box = lines.getBoundingClientRect();
    const middle = (item) => {
      const { left, width } = item.getBoundingClientRect();
      return left + width / 2 - box.left;
    };
    const written = [...french.children].filter((item) => item.localName !== "del");
    lines.replaceChildren();
    written.forEach((item, i) =>
      [...english.children].forEach((other, j) => {
        const weight = head[i][j];
        if (weight < THINNEST) return;
        const [x, to, down] = [middle(item), middle(other), box.height];
        const faint = pointed && ![item, other].includes(pointed);
        add(lines, "path", {
          d: `M${x},${down} C${x},${down / 2} ${to},${down / 2} ${to},0`,
          "stroke-width": 1 + 9 * weight,
          opacity: faint ? 0.1 : 0.35 + 0.65 * weight,
        });
      }),
    );
  }

  new ResizeObserver(draw).observe(place);
  start(EXAMPLES[0]);
}

const place = document.getElementById("front-view");
const { transformer, vocabularies } = globalThis.storedTranslators;
const bytes = Uint8Array.from(atob(transformer.base64), (letter) => letter.charCodeAt(0)).buffer;
frontView(add(place, "div"), makeTranslator({ ...transformer, ...vocabularies, bytes }));

// Everything else that the translator shows: drawn when it is asked for. widgets.js has openWidgets.
const more = document.getElementById("front-more");
more.ontoggle = () => {
  if (more.childElementCount === 1)
    openWidgets({ view: { model_name: "AnyModel", state: wholeView } }).show("view", add(more, "div"));
};
