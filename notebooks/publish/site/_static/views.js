// The pictures of views that draw themselves make room for the views, without a kernel; where a
// browser cannot, the pictures stay. Before this file: widgets.js of the slides.
const saved = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
if (saved) {
  const widgets = openWidgets(JSON.parse(saved.textContent).state);
  for (const picture of document.querySelectorAll("img.live-view")) {
    const model = [...picture.classList].find((name) => name.startsWith("model-"));
    const place = document.createElement("div");
    picture.after(place);
    widgets.show(model.slice("model-".length), place).then(() => picture.remove());
  }
}

// The theme's switch marks <html>; a view looks for changes at <body>.
const follow = () => (document.body.dataset.theme = document.documentElement.dataset.theme);
new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["data-theme"] });
follow();
