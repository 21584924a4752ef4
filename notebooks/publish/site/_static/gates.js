// A prediction comes before its answer, which waits behind a field. What a reader writes there is
// kept in this browser, and stands beside the answer. Without this script, and on paper, all is open.

// The elements between a question's mark and the next end, each as large as can be.
function answerOf(mark) {
  const found = [];
  for (let node = mark; ; ) {
    while (!node.nextElementSibling) node = node.parentElement;
    node = node.nextElementSibling;
    while (node.querySelector(".gate-ends")) node = node.firstElementChild;
    if (node.matches(".gate-ends")) return found;
    found.push(node);
  }
}

// Hidden so that the browser's search, and a link to a heading in it, still find it.
function closed(elements) {
  const boxes = [];
  for (const element of elements) {
    if (boxes.at(-1) !== element.previousElementSibling || !boxes.length) {
      boxes.push(document.createElement("div"));
      boxes.at(-1).className = "gate-answer";
      boxes.at(-1).setAttribute("hidden", "until-found");
      element.before(boxes.at(-1));
    }
    boxes.at(-1).append(element);
  }
  return boxes;
}

const memory = {
  get: (key) => { try { return localStorage.getItem(key) ?? ""; } catch { return ""; } },
  set: (key, text) => { try { localStorage.setItem(key, text); } catch { /* a private window */ } },
};

for (const mark of document.querySelectorAll(".gate-starts")) {
  const boxes = closed(answerOf(mark));
  const key = `prediction ${mark.dataset.cell}`; // the decks have the same
  const gate = document.createElement("form");
  gate.className = "gate";
  const field = Object.assign(document.createElement("input"), { value: memory.get(key), autocomplete: "off", placeholder: "your prediction" });
  field.setAttribute("aria-label", "Your prediction");
  const button = Object.assign(document.createElement("button"), { textContent: "Show the answer" });
  gate.append(field, button);
  mark.replaceWith(gate);
  const open = () => {
    boxes.forEach((box) => box.removeAttribute("hidden"));
    button.remove();
  };
  gate.onsubmit = (event) => {
    event.preventDefault();
    open();
  };
  field.oninput = () => memory.set(key, field.value);
  boxes.forEach((box) => box.addEventListener("beforematch", open));
  const goThere = () => {
    const place = document.getElementById(location.hash.slice(1));
    // A section's heading may stand in a box, and the section around it.
    if (place && boxes.some((box) => box.contains(place) || box.contains(place.firstElementChild))) open();
  };
  addEventListener("hashchange", goThere);
  goThere();
  if (field.value) open();
}
