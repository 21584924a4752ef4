// The pictures of views that draw themselves make room for the views, without a kernel; where a
// browser cannot, the pictures stay, and on paper they come back. Before this file: widgets.js of
// the slides.
const saved = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
if (saved) {
  const widgets = openWidgets(JSON.parse(saved.textContent).state);
  for (const picture of document.querySelectorAll("img.live-view")) {
    const model = [...picture.classList].find((name) => name.startsWith("model-"));
    const place = document.createElement("div");
    place.className = "on-screen";
    picture.after(place);
    const show = widgets.show(model.slice("model-".length), place);
    show.then(() => (picture.className = "on-paper"));
  }
}

// Views that Python drew ahead, for every setting of their controls. Their pictures are a file of
// the chapter's, of a megabyte or two, which is loaded when the first of them comes near.
const drawnAhead = [...document.querySelectorAll("img.drawn-ahead")];
const theirFile = document.querySelector('meta[name="frames"]');
function openFrames(all) {
  for (const picture of drawnAhead) {
    const key = [...picture.classList].find((name) => name.startsWith("frames-"));
    const frames = all[key.slice("frames-".length)];
    if (!frames) {
      movesElsewhere(picture);
      continue;
    }
    const place = document.createElement("div");
    place.className = "frames";
    picture.replaceWith(place);
    place.append(picture);
    showFrames(place, frames);
    place.querySelector("canvas").style.width = `${picture.getAttribute("width")}px`;
  }
}
function movesElsewhere(picture) {
  const words = document.createElement("p");
  words.className = "moves-elsewhere";
  words.textContent = "A still of its first setting; its controls work in JupyterLab and in the slides.";
  picture.before(words);
}
if (theirFile) {
  const near = new IntersectionObserver(
    (seen) => {
      if (!seen.some((each) => each.isIntersecting)) return;
      near.disconnect();
      const script = Object.assign(document.createElement("script"), { src: theirFile.content });
      document.head.append(script);
    },
    { rootMargin: "1000px" },
  );
  drawnAhead.forEach((picture) => near.observe(picture));
} else {
  drawnAhead.forEach(movesElsewhere);
}

// The theme's switch marks <html>; a view looks for changes at <body>.
const follow = () => (document.body.dataset.theme = document.documentElement.dataset.theme);
new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["data-theme"] });
follow();

// Formulas are marked when they are there; a page without any is marked at once.
(window.MathJax?.startup?.promise ?? Promise.resolve()).then(markRoles);

// A folded cell says what it does; the label of all of them would hide that from a screen reader.
for (const fold of document.querySelectorAll("summary[aria-label='Toggle hidden content']")) {
  fold.removeAttribute("aria-label");
}
