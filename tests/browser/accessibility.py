"""What stands in the way of people who cannot see, or cannot use a mouse: axe-core's answer."""

from axe_playwright_python.sync_playwright import Axe

HARMFUL = ("serious", "critical")
# These follow from the colours and letters of a text, of a link also from its style and from the
# colour and the letters of the text around it. They take axe 20 ms a text: of each kind that was
# not seen before, the first one is marked. Answers with the new kinds.
CONTRAST = ["color-contrast", "link-in-text-block"]
MARK_NEW_KINDS = """(seen) => {
  const known = new Set(seen);
  const clear = (colour) => colour === "transparent" || /, 0\\)$/.test(colour);
  const grounds = new Map([[null, ""]]);
  function ground(element) {
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = `${backgroundColor} ${backgroundImage} ${opacity}`;
      const bare = clear(backgroundColor) && backgroundImage === "none" && opacity === "1";
      const below = ground(element.parentElement);
      grounds.set(element, bare ? below : `${below} / ${own}`);
    }
    return grounds.get(element);
  }
  function around(link) {
    let block = link.parentElement;
    while (getComputedStyle(block).display === "inline") block = block.parentElement;
    const letters = (element) => element.textContent.replace(/\\s/g, "").length;
    const inLinks = [...block.querySelectorAll("a")].reduce((sum, a) => sum + letters(a), 0);
    const { textDecorationLine, borderBottom } = getComputedStyle(link);
    const { color, font } = getComputedStyle(block);
    const isText = letters(block) - inLinks > inLinks; // else axe takes the block for a list
    return [textDecorationLine, borderBottom, color, font, isText];
  }
  const kinds = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("script, style, noscript, mjx-container")
      || !element.checkVisibility({ visibilityProperty: true })) continue;
    const { color, font, fontSize, fontWeight } = getComputedStyle(element);
    const link = element.closest("a");
    const more = link ? [font, ...around(link)] : [];
    const kind = [color, fontSize, fontWeight, ground(element), ...more].join(" ");
    if (known.has(kind)) continue;
    known.add(kind);
    kinds.push(kind);
    (link ?? element).dataset.kindOfText = "new";
  }
  return kinds;
}"""


def harms(page, seen: set[str]) -> list[str]:
    """A line for each thing on the page that axe-core calls serious or critical.

    ``seen`` are the kinds of text, by colours and size, whose contrast other pages have shown
    already; those of this page are added.
    """
    found = violations(page, options={"rules": {rule: {"enabled": False} for rule in CONTRAST}})
    return found + contrast_harms(page, seen)


def contrast_harms(page, seen: set[str]) -> list[str]:
    """As ``harms``, but of colours only, which depend on the theme."""
    kinds = page.evaluate(MARK_NEW_KINDS, sorted(seen))
    seen.update(kinds)
    if not kinds:
        return []
    return violations(page, {"include": [["[data-kind-of-text]"]]}, {"runOnly": CONTRAST})


def violations(page, where: dict | None = None, options: dict | None = None) -> list[str]:
    # Without a preload: axe would ask for style sheets, which a page in a folder may not read.
    options = {"resultTypes": ["violations"], "preload": False, **(options or {})}
    return [
        f"{rule['id']}: {node['html'][:200]} ({why['message']})"
        for rule in Axe().run(page, where, options).response["violations"]
        if rule["impact"] in HARMFUL
        for node in rule["nodes"]
        for why in (node["any"] + node["all"] + node["none"])[:1]  # the first reason says enough
    ]
