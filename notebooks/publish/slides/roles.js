// Queries, keys, values and weights have their colours in formulas and in code, and pointing at one of
// them lights all of its role. Without this script, and elsewhere, all is ink. In a formula a letter
// says its role by its form: q is a query, bold Q are all of them; K in italics counts the keys.

// The chapters in which every q, k and v is one: in 02, 10 and 11 k also counts.
const LINKED = /(^|\/)(0[13-9]|1[23])_\w+\.html$/;
const ROLES = {
  query: ["query", "queries", "q", "W_q", "1D45E", "1D410", "1D42A"],
  key: ["key", "keys", "k", "W_k", "1D458", "1D40A", "1D424"],
  value: ["value", "values", "v", "W_v", "1D463", "1D415", "1D42F"],
  weight: ["weight", "weights", "attention weight", "attention_weights", "1D6FC"],
};
const roleOf = new Map(Object.entries(ROLES).flatMap(([role, signs]) => signs.map((sign) => [sign, role])));

const say = (element, sign) => roleOf.has(sign) && (element.dataset.role = roleOf.get(sign));

// The v of w_v, which turns the additive score into one number, is no value.
const SUBS = "mjx-msub, mjx-msubsup, [data-mml-node=msub], [data-mml-node=msubsup]";
const isWv = (sign) => sign.closest(SUBS)?.querySelector("[data-c]").dataset.c === "1D464";

function markRoles() {
  if (!LINKED.test(location.pathname)) return;
  for (const sign of document.querySelectorAll("mjx-container [data-c]")) isWv(sign) || say(sign, sign.dataset.c);
  for (const word of document.querySelectorAll("strong")) say(word, word.textContent);
  for (const name of document.querySelectorAll(".highlight .n")) {
    const before = name.previousSibling?.textContent ?? "";
    if (name.nextSibling?.nodeType === 1 && name.nextSibling.textContent === "=") continue; // value=0
    const own = !before.endsWith(".") || name.previousElementSibling?.previousElementSibling?.textContent === "self";
    if (own && !name.closest("details")) say(name, name.textContent);
  }
  const light = (role) => (role ? (document.body.dataset.lit = role) : delete document.body.dataset.lit);
  const follow = (event) => light(event.target.closest?.("[data-role]")?.dataset.role);
  document.addEventListener("pointerover", follow);
  document.addEventListener("focusin", follow);
  document.addEventListener("focusout", () => light());
  // For the keyboard, and to say what the colours mean: the roles by their names and forms.
  const row = Object.assign(document.createElement("p"), { className: "roles", textContent: "Colours:" });
  for (const name of ["● query", "■ key", "◆ value", "▬ weight"]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    button.dataset.role = name.slice(2);
    row.append(button, " ");
  }
  document.querySelector(".bd-article h1")?.after(row);
}
