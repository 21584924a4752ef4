// The first page's view: one of the sentences is open. Before this file: widgets.js, which draws
// widgets without a kernel, and translator_views.js, the recorded runs.
const front = document.getElementById("front-view");
if (front) {
  const label = front.appendChild(document.createElement("label"));
  label.append("Sentence: ");
  const choice = label.appendChild(document.createElement("select"));
  for (const { title } of translatorViews) choice.append(new Option(title));
  const place = front.appendChild(document.createElement("div"));
  const show = () => {
    place.replaceChildren();
    const state = { ...translatorViews[choice.selectedIndex], title: "" };
    openWidgets({ view: { model_name: "AnyModel", state } }).show("view", place);
  };
  choice.onchange = show;
  show();
}
