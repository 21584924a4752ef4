"""``look_inside`` in a real browser: mouse, keys, numbers, themes, a phone, a deck."""

from itertools import pairwise
from math import exp

import pytest
import torch
from accessibility import harms
from alone import open_in_a_deck
from conftest import wait_until
from torch import nn

from d2l_attention import DotProductAttention
from d2l_attention.data import BOS, EOS
from d2l_attention.training.presets import MODELS
from d2l_attention.training.translators import translator as stored
from d2l_attention.views import look_inside
from d2l_attention.views.inside.places import find

MARKUP = "<img src=x onerror=alert(1)>"
CROSS = "decoder/block 2/cross-attention"


def translator(**options):
    torch.manual_seed(0)
    model = MODELS["transformer"](17, 19, 16)
    inputs = torch.randint(17, (1, 4)), torch.randint(19, (1, 3))
    tokens = {"source": ["he", "sees", "her", MARKUP], "target": ["<bos>", "il", "la"]}
    tokens["output"] = [f"word {i}" for i in range(19)]
    return model, look_inside(model, *inputs, tokens=tokens, **options)


def by_hand():
    """One query, two keys: the products add up to 4, divided by the root of 4 to 2."""
    queries = torch.tensor([[[1.0, 2.0, 0.0, 1.0]]])
    keys = torch.tensor([[[2.0, 1.0, 5.0, 0.0], [0.0, 0.0, 1.0, 0.0]]])
    values = torch.tensor([[[8.0], [4.0]]])
    return look_inside(DotProductAttention(0.0), queries, keys, values, at="head 1/query 0, key 0")


def trail(page):
    return page.locator(".d2l-inside .trail li").all_inner_texts()


def part(page, name):
    return page.locator(f'.d2l-inside .part[data-name="{name}"]')


def test_the_mouse_goes_in_and_comes_out(shown):
    page = shown(translator()[1])
    assert trail(page) == ["EncoderDecoder"]
    assert page.locator(".part b").all_inner_texts()[:2] == ["encoder", "decoder"]
    part(page, "decoder").click()
    part(page, "block 2").click()
    part(page, "cross-attention").click()
    page.get_by_role("button", name="head 3, its map").click()
    assert trail(page) == ["EncoderDecoder", "decoder", "block 2", "cross-attention", "head 3"]
    canvas = page.locator("canvas.map")
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 20, box["y"] + box["height"] - 20)
    assert trail(page)[-1] == f"'la' looks at '{MARKUP}'"
    page.get_by_role("button", name="block 2").click()
    assert trail(page) == ["EncoderDecoder", "decoder", "block 2"]
    assert page.locator("img").count() == 0


def test_the_keyboard_does_the_same_and_the_focus_goes_along(shown):
    page = shown(translator()[1])
    part(page, "encoder").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert trail(page) == ["EncoderDecoder", "decoder"]
    for _ in range(3):  # embedding, positions, block 1, block 2
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert trail(page) == ["EncoderDecoder", "decoder", "block 2", "cross-attention"]
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert trail(page)[-1] == "head 2"
    page.keyboard.press("ArrowDown")
    assert page.locator(".readout").inner_text().startswith("'il' looks at 'he': 0.")
    page.keyboard.press("Enter")
    assert trail(page)[-1] == "'il' looks at 'he'"
    page.keyboard.press("ArrowRight")  # the cell beside it
    assert trail(page)[-1] == "'il' looks at 'sees'"
    for back in ("head 2", "cross-attention", "block 2", "decoder", "EncoderDecoder"):
        page.keyboard.press("Escape")
        assert trail(page)[-1] == back
    assert page.evaluate("document.activeElement.dataset.name") == "decoder"
    assert page.locator(".unseen").inner_text() == "EncoderDecoder, 2 parts"


def test_one_number_by_hand_adds_up_as_it_is_shown(shown):
    page = shown(by_hand())
    steps = page.locator(".steps .sum").all_inner_texts()
    assert steps[0].endswith("The 4 products add up to 4.")
    assert steps[1] == "Divided by √4 = 2: the score is 2."
    table = [row.split("\t")[:4] for row in page.locator(".softmax tr").all_inner_texts()]
    share = exp(2) / (exp(2) + 1)
    assert table[1] == ["0", "2", f"{exp(2):.3g}", f"{share:.3f}"]
    assert table[2] == ["1", "0", "1", f"{1 - share:.3f}"]
    assert table[3] == ["sum", "", f"{exp(2) + 1:.3g}", "1.000"]
    rows = page.locator(".steps table").first.locator("tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["query", "1", "2", "0", "1"], ["key", "2", "1", "5", "0"], ["product", "2", "2", "0", "0"],
    ]  # fmt: skip
    answer = page.locator(".steps table").last.locator("tr").all_inner_texts()
    assert answer[-1].split("\t") == ["answer", f"{8 * share + 4 * (1 - share):.2f}"]


def test_the_numbers_of_every_cell_are_the_models_own(shown):
    model, view = translator()
    page = shown(view)
    model.eval()(*[torch.zeros(1, n, dtype=torch.long) for n in (4, 3)])  # not what was recorded
    recorded = view._parts[0].call.calls[1].calls[3].calls[0].look  # decoder, block 2
    for q in range(3):
        for k in range(3):
            place = f"decoder/block 2/self-attention/head 2/query {q}, key {k}"
            page.evaluate("place => window.model.set('place', place)", place)
            table = [row.split("\t") for row in page.locator(".softmax tr").all_inner_texts()]
            weights = [float(row[3]) for row in table[1:4]]
            expected = recorded.weights[1, q].tolist()
            assert weights == pytest.approx(expected, abs=6e-4)
            assert [row[1] == "hidden" for row in table[1:4]] == [key > q for key in range(3)]
            hidden = page.locator(".steps .sum", has_text="The mask hides").count()
            assert hidden == (k > q)


class Signed(DotProductAttention):
    """Weights below 0, as in the Differential Transformer."""

    WEIGHTS = torch.tensor([[[-0.5, 0.0], [1.0, 0.25]]])

    def attend(self, q, k, v, visible, bias=None, need_weights=False):
        super().attend(q, k, v, visible, bias, need_weights)
        return self.WEIGHTS @ v, self.WEIGHTS if need_weights else None

    def _weights(self, *last):
        return self.WEIGHTS


# How light the four cells of a map of 2 by 2 are, beside the numbers in their middles.
LIGHTNESS = """(canvas) => {
    const [cell, zoom] = [56, canvas.width / canvas.clientWidth];
    const [left, top] = [canvas.clientWidth - 2 * cell - 8, canvas.clientHeight - 2 * cell - 4];
    const context = canvas.getContext("2d");
    return [0, 1].map((q) => [0, 1].map((k) => {
        const [x, y] = [left + (k + 0.15) * cell, top + (q + 0.15) * cell];
        const [red, green, blue] = context.getImageData(x * zoom, y * zoom, 1, 1).data;
        return red + green + blue;
    }));
}"""


def test_the_scale_of_a_map_begins_at_the_lowest_weight(shown):
    page = shown(look_inside(Signed(0.0), *[torch.ones(1, 2, 3)] * 3, at="head 1"))
    (lowest, zero), (largest, quarter) = page.locator("canvas.map").evaluate(LIGHTNESS)
    assert lowest > zero > quarter > largest


def test_the_words_that_the_output_prefers(shown):
    model, view = translator()
    page = shown(view)
    best = view._parts[0].call.outputs[0].best
    lines = page.locator(".tensor.out .best > span").all_inner_texts()
    assert lines[0].startswith(f"after <bos>: {best[0][0][0]} {best[0][0][1]:.2f}, ")
    assert len(lines) == 3


def test_numbers_of_a_tensor_answer_the_keys(shown):
    model, view = translator(at="encoder")
    page = shown(view)
    canvas = page.locator(".tensor.out canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    number = view._parts[1].call.outputs[0].numbers[1, 1].item()
    said = page.locator(".readout").inner_text().replace("−", "-")
    assert said == f"output, sees, number 1: {float(f'{number:.4g}')}"


def test_a_list_of_many_parts_is_shown_in_portions(shown):
    page = shown(look_inside(nn.Sequential(*[nn.ReLU() for _ in range(150)]), torch.ones(2)))
    assert page.locator(".part").count() == 60
    page.get_by_role("button", name="Show 60 of 90 more parts").click()
    page.get_by_role("button", name="Show 30 of 30 more parts").click()
    assert page.locator(".part").count() == 150 and page.locator(".tensor.out").count() == 1


PLACES = ["", "decoder/block 2", CROSS, f"{CROSS}/head 1", f"{CROSS}/head 1/query 1, key 2"]


# The boxes of the rows, as the arrows count them, and the points of the arrows, in pixels.
DRAWN = """async () => {
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const list = document.querySelector(".flow");
    const zero = list.getBoundingClientRect();
    const boxes = [...list.querySelectorAll(".item")].map((item) => {
        const { left, top, width, height } = item.getBoundingClientRect();
        return [left - zero.left, top - zero.top, width, height];
    });
    const paths = [...list.querySelectorAll(".arrows path:not(.head)")];
    const points = paths.map((path) => path.getAttribute("d").match(/[-0-9.]+/g).map(Number));
    return [boxes, points];
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_arrows_are_those_of_the_run_and_cross_no_part(shown, width):
    model, view = translator()
    page = shown(view)
    page.set_viewport_size({"width": width, "height": 720})
    for place in ("", "decoder", "decoder/block 2", CROSS):
        page.evaluate("place => window.model.set('place', place)", place)
        boxes, paths = page.evaluate(DRAWN)
        placed = find(view._parts, place).part.lanes
        order = [row for line in placed.lines for row in line]
        box_of = dict(zip(order, boxes, strict=True))
        assert len(paths) == len(placed.arrows)
        for (source, to), numbers in zip(placed.arrows, paths, strict=True):
            points = list(zip(numbers[::2], numbers[1::2], strict=True))
            left, top, wide, high = box_of[source]
            assert points[0] == pytest.approx((left + wide / 2, top + high), abs=2)
            left, top, wide, _ = box_of[to]
            assert points[-1] == pytest.approx((left + wide / 2, top), abs=3)
            for (x, y), (u, v) in pairwise(points):
                for part in range(51):
                    at = x + (u - x) * part / 50, y + (v - y) * part / 50
                    for left, top, wide, high in boxes:
                        inside = left < at[0] < left + wide and top + 1 < at[1] < top + high - 1
                        assert not inside, (place, source, to)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_three_projections_stand_side_by_side(shown, width):
    page = shown(translator(at=CROSS)[1])
    page.set_viewport_size({"width": width, "height": 720})
    tops = [part(page, name).bounding_box()["y"] for name in ("W_q", "W_k", "W_v", "W_o")]
    heads = page.locator(".heads").bounding_box()["y"]
    assert tops[0] == tops[1] == tops[2] < heads < tops[3]


# What is drawn on canvases: squares that are filled, those that are not, words.
PENCIL = """window.drawn = [];
for (const [name, keep] of [["fillRect", 4], ["strokeRect", 4], ["fillText", 1]]) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) {
        window.drawn.push([name, ...given.slice(0, keep)]);
        return draw.apply(this, given);
    };
}"""


def test_signs_are_filled_and_hollow_squares_whose_area_is_the_size(shown):
    X = torch.tensor([[4.0, -1.0, 0.0] * 3])
    page = shown(look_inside(nn.Identity(), X), script=PENCIL)
    drawn = page.evaluate("window.drawn")
    filled = {width for name, *_, width, height in drawn if name == "fillRect" and width == height}
    hollow = {
        width + 1 for name, *_, width, height in drawn if name == "strokeRect" and width == height
    }
    assert len(filled) == len(hollow) == 1 and max(hollow) == pytest.approx(max(filled) / 2, abs=1)
    assert "□ below 0" in page.locator(".legend").inner_text()


def test_whole_numbers_are_written(shown):
    X = torch.arange(100, 120)[None]
    page = shown(look_inside(nn.Identity(), X), script=PENCIL)
    words = [given[0] for name, *given in page.evaluate("window.drawn") if name == "fillText"]
    assert {"100", "104", "109"} <= set(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_either_theme(shown, scheme):
    page = shown(translator()[1], scheme)
    ground, ink = page.locator(".d2l-inside").evaluate(
        "view => [getComputedStyle(view).backgroundColor, getComputedStyle(view).color]"
    )
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light") and ground != ink
    seen: set[str] = set()
    for place in PLACES:
        page.evaluate("place => window.model.set('place', place)", place)
        for summary_ in page.locator("summary").all():
            summary_.click()
        assert harms(page, seen) == [], place


def test_a_page_as_wide_as_a_phone_does_not_break(shown):
    page = shown(translator()[1])
    page.set_viewport_size({"width": 390, "height": 700})
    for place in PLACES:
        page.evaluate("place => window.model.set('place', place)", place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place


def test_sixteen_numbers_and_their_names_fit_on_a_page(shown):
    model, src_vocab, tgt_vocab = stored("transformer")
    english, french = ["he", "sees", "her", EOS], [BOS, "il", "la", "voit"]
    inputs = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
    tokens = {"source": english, "target": french}
    at = f"{CROSS}/head 4/la, sees"
    page = shown(look_inside(model, *inputs, tokens=tokens, at=at))
    page.set_viewport_size({"width": 820, "height": 700})
    hidden = "element => element.scrollWidth - element.clientWidth"
    parts = page.locator(".scroll").all()
    assert [part.evaluate(hidden) for part in parts] == [0, 0, 0]


FITS = """() => {
    const slide = document.querySelector(".present.slide, section.present").getBoundingClientRect();
    const view = document.querySelector(".d2l-inside");
    const scrolls = (each) => getComputedStyle(each).overflowY !== "visible";
    const scroll = [view, ...view.querySelectorAll(".body, .flow")].some(scrolls);
    const scale = slide.width / 1280;
    return !scroll && (view.getBoundingClientRect().bottom - slide.top) / scale <= 690;
}"""


def test_without_a_kernel_in_a_deck(new_page, tmp_path):
    page = new_page()
    open_in_a_deck(page, translator()[1], tmp_path)
    before = page.evaluate("Reveal.getSlidePastCount()")
    part(page, "encoder").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert trail(page) == ["EncoderDecoder", "decoder"]
    page.keyboard.press("Escape")
    assert trail(page) == ["EncoderDecoder"]

    # All that is opened fits on the slide, and nothing scrolls in it.
    def fits() -> bool:
        return page.evaluate(FITS)

    wait_until(fits, "the model fits on the slide")
    for name in ("decoder", "block 2", "cross-attention"):
        part(page, name).click()
        wait_until(fits, f"{name} fits on the slide")
    page.get_by_role("button", name="EncoderDecoder").click()
    wait_until(fits, "the model fits again")
    assert page.evaluate("Reveal.getSlidePastCount()") == before
    assert not page.evaluate("Reveal.isOverview()")

    # Slides are scaled: the cell under the pointer must be the one that is named.
    for name in ("decoder", "block 1", "cross-attention"):
        part(page, name).click()
    page.get_by_role("button", name="head 1, its map").click()
    canvas, readout = page.locator("canvas.map"), page.locator(".readout")

    def is_named() -> bool:
        canvas.scroll_into_view_if_needed()  # with other fonts it may lie below the window
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 15, box["y"] + box["height"] - 15)
        return readout.inner_text().startswith(f"'la' looks at '{MARKUP}'")

    wait_until(is_named, "the cell under the pointer is named")
