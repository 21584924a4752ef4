// The first page's view. Before this file: widgets.js, which draws widgets without a kernel,
// translators.js, the weights, and front_view.js, the state of the view.
const front = document.getElementById("front-view");
if (front) openWidgets({ view: { model_name: "AnyModel", state: frontView } }).show("view", front);
