"""The translator in the page: equal to PyTorch word for word and map for map, and in the hand."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from accessibility import harms
from conftest import wait_until

from d2l_attention import MultiHeadAttention
from d2l_attention.attention.masks import Visible
from d2l_attention.data import BOS, EOS, load
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.training import translators
from d2l_attention.views import TranslatorView
from d2l_attention.views.translator.translator_view import HERE, MODEL_FILES, stored_script


@pytest.fixture(scope="module")
def sentences():
    return [list(pair.source) for pair in load("grammar").test]


LONGEST = 64  # words, in translate.js

TRANSLATE = """([name, jobs]) => jobs.map(([words, cuts]) => {
    const visible = visibleWith(cuts.map(readCut));
    const found = translate(window.translators[name], words, visible);
    return [found.words, found.weights];
})"""


def computed(new_page, name, jobs):
    """What the page makes of these sentences with these cuts."""
    page = new_page()
    page.add_script_tag(content=stored_script())
    files = [(HERE / file).read_text("utf-8") for file in (*MODEL_FILES, "cuts.js")]
    page.add_script_tag(content="\n".join(files))
    page.evaluate("""() => {
        const { vocabularies, ...stored } = storedTranslators;
        window.translators = {};
        for (const [name, one] of Object.entries(stored)) {
            const bytes = Uint8Array.from(atob(one.base64), (c) => c.charCodeAt(0)).buffer;
            window.translators[name] = makeTranslator({ ...one, ...vocabularies, bytes });
        }
    }""")
    return page.evaluate(TRANSLATE, [name, jobs])


def with_pytorch(name, words, french, visible):
    """The word that PyTorch writes after each beginning of ``french``, and its weights.

    One pass, no cache: no word sees a later one.
    """
    model, src_vocab, tgt_vocab = TRANSLATORS[name]
    source = torch.tensor([src_vocab[[*words, EOS]]])
    target = torch.tensor([tgt_vocab[[BOS, *french][:LONGEST]]])
    with cut_by(model, visible) as weights, torch.no_grad():
        tokens = model(source, target)[0].argmax(dim=-1)
        return tgt_vocab.to_tokens(tokens.tolist()), weights()


TRANSLATORS = {name: translators.translator(name) for name in translators.NAMES}


@contextmanager
def cut_by(model, visible) -> Iterator:
    """The model attends with ``visible(place, layer, head, query, key)``; gives its weights."""
    if not hasattr(model.decoder, "blks"):
        attend, step = model.decoder.attend, iter(range(10_000))

        def cut(hidden, keys, values, _):
            position = next(step)
            row = [visible("cross", 0, 0, position, key) for key in range(keys.shape[1])]
            seen = Visible.by_mask(torch.tensor(row)[None, None])
            return attend(hidden, keys, values, seen)

        def begin(*args):
            nonlocal step
            step = iter(range(10_000))

        model.decoder.attend = cut
        handle = model.register_forward_pre_hook(begin)
        try:
            yield lambda: {"cross": model.decoder.attention_weights[None]}
        finally:
            del model.decoder.attend
            handle.remove()
        return
    handles = []
    layers = {"encoder": [], "decoder": [], "cross": []}
    for block in model.encoder.blks:
        layers["encoder"].append(block.attention)
    for block in model.decoder.blks:
        layers["decoder"].append(block.attention1)
        layers["cross"].append(block.attention2)
    for place, found in layers.items():
        for number, layer in enumerate(found):

            def hide(layer, args, kwargs, place=place, number=number):
                Q, K = args[0].shape[1], args[1].shape[1]
                numbers = torch.ones(layer.num_heads, Q, K, dtype=torch.bool).nonzero().tolist()
                seen = [visible(place, number, *cell) for cell in numbers]
                kwargs["mask"] = torch.tensor(seen).view(1, layer.num_heads, Q, K)
                return args, kwargs

            handles.append(layer.register_forward_pre_hook(hide, with_kwargs=True))
    try:
        yield lambda: {
            place: torch.stack([layer.attention_weights[0] for layer in found])
            for place, found in layers.items()
        }
    finally:
        for handle in handles:
            handle.remove()


def random_cut(draw, place):
    """As cuts.js reads it, and what it means here."""
    numbers = {
        "layer": draw.choice(["*", "*", 0, 1]) if place != "only cross" else "*",
        "head": draw.choice(["*", "*", "*", 0, 1, 2, 3]) if place != "only cross" else "*",
        "query": draw.choice(["*", "*", 0, 1, 2, 3, 4]),
        "key": draw.choice(["*", "=", "<", 0, 1, 2, 3, 4]),
    }
    if numbers["query"] == numbers["key"] == "*":  # else next to nothing is left
        numbers["key"] = 1
    where = "cross" if place == "only cross" else place

    def forbids(place, layer, head, query, key):
        wanted = {"=": query, "<": query - 1}.get(numbers["key"], numbers["key"])
        given = (numbers["layer"], layer), (numbers["head"], head), (numbers["query"], query)
        same = all(want in ("*", number) for want, number in (*given, (wanted, key)))
        return place == where and same

    return " ".join(map(str, (where, *numbers.values()))), forbids


def compare(name, jobs, rules, found):
    worst = 0.0
    for (words, _), rule, (french, weights) in zip(jobs, rules, found, strict=True):
        expected, maps = with_pytorch(name, words, french, rule)
        assert expected == [*french, EOS][:LONGEST], words
        for place, theirs in maps.items():
            for layer, mine in zip(theirs.flatten(0, 1), sum(weights[place], []), strict=True):
                # A row of the page ends before the later words, which have weight 0.
                rows = [row + [0.0] * (layer.shape[1] - len(row)) for row in mine]
                assert len(rows) == layer.shape[0]
                worst = max(worst, (layer - torch.tensor(rows)).abs().max().item())
    assert worst < 1e-4


@pytest.mark.parametrize("name", translators.NAMES)
def test_the_page_writes_the_words_of_pytorch_and_looks_where_it_looks(name, new_page, sentences):
    jobs = [(words, []) for words in sentences[:100]]
    found = computed(new_page, name, jobs)
    compare(name, jobs, [lambda *_: True] * len(jobs), found)


@pytest.mark.parametrize("name", translators.NAMES)
def test_cuts_are_what_a_mask_is_to_pytorch(name, new_page, sentences):
    draw = random.Random(0)
    places = ["encoder", "decoder", "cross"] if name == "transformer" else ["only cross"]
    jobs, rules = [], []
    for words in sentences[300:340]:
        cuts = [random_cut(draw, draw.choice(places)) for _ in range(draw.randint(2, 5))]
        jobs.append((words, [text for text, _ in cuts]))
        forbidden = [forbids for _, forbids in cuts]
        rules.append(lambda *at, forbidden=forbidden: not any(f(*at) for f in forbidden))
    found = computed(new_page, name, jobs)
    compare(name, jobs, rules, found)
    plain = computed(new_page, name, [(words, []) for words, _ in jobs])
    changed = sum(a[0] != b[0] for a, b in zip(found, plain, strict=True))
    assert changed > 5  # the cuts cut


@pytest.fixture
def opened(shown):
    """The view on a page of its own, with the stored translators."""

    def open_view(name="transformer", color_scheme="light", **options):
        page = shown(TranslatorView(name, **options), color_scheme, stored_script())
        page.wait_for_selector("canvas.map")
        return page

    return open_view


def french(page):
    return page.locator(".original").inner_text().strip()


def with_cuts(page):
    return page.locator(".changed").inner_text().strip()


SAME = "(nothing has changed)"
GUIDED = {
    "transformer": {
        "Hide 'not' from the French": "elle lit ces livres",
        "In 'the girl that i see is old': hide 'fille'": f"la fille que je vois est vieille {SAME}",
        "The same: hide 'la'": "la fille que je vois est vieux",
        "No French word looks at itself": "elle ne lit pas pas ces livres",
        "No looks in layer 2 of the encoder": "il voit son chat",
    },
    "bahdanau": {
        "Hide 'not' from the French": f"elle ne lit pas ces livres {SAME}",
        "Hide 'books'": "elle ne lit pas ces chiens",
    },
}


@pytest.mark.parametrize("name", translators.NAMES)
def test_each_guided_cut_does_what_it_says(name, opened):
    page = opened(name)
    assert page.locator(".guided").all_inner_texts() == list(GUIDED[name])
    for label, words in GUIDED[name].items():
        page.get_by_role("button", name=label, exact=True).click()
        assert with_cuts(page) == f"with your cuts: {words}"
        assert page.locator(".says").count() == 1
    page.get_by_role("button", name="all back").click()
    assert page.locator(".cut").count() == 0


def test_chapter_8_hides_noun_and_article_together(opened):
    words = "the girl that i see is old"
    for cuts, ending in ((["1"], "vieux"), (["2"], "vieille"), (["1", "2"], "vieille")):
        cuts = [f"decoder * * * {key}" for key in cuts]
        page = opened(sentence=words, cuts=cuts)
        assert with_cuts(page).removesuffix(f" {SAME}").endswith(f"est {ending}")


def test_what_has_changed_is_marked(opened):
    page = opened()
    page.get_by_role("button", name="No looks in layer 2 of the encoder").click()
    assert [mark.strip() for mark in page.locator("mark").all_inner_texts()] == ["son", "chat"]
    assert page.locator("del").inner_text().strip() == "la"


def test_cells_rows_columns_heads_and_layers_by_mouse(opened):
    page = opened(sentence="he sees her")
    canvas = page.locator("canvas.map")
    box = canvas.bounding_box()
    corner = box["x"] + box["width"] - 20, box["y"] + box["height"] - 20
    page.mouse.click(*corner)
    assert page.locator(".cut").all_inner_texts() == [
        "✕ French looks at English, layer 2, head 1, from '<eos>', to '<eos>'"
    ]
    page.mouse.click(*corner)  # allowed again
    assert page.locator(".cut").count() == 0
    page.mouse.click(box["x"] + 5, corner[1])
    assert page.locator(".cut").inner_text() == "✕ French looks at English, from '<eos>'"
    page.mouse.click(*corner)  # a cell of a row that is forbidden: the row is allowed again
    assert page.locator(".cut").count() == 0
    page.mouse.click(corner[0] - 3 * (box["width"] / 6), box["y"] + 30)
    assert page.locator(".cut").inner_text().startswith("✕ French looks at English, to '")
    page.get_by_role("button", name="one step back").click()
    page.get_by_role("button", name="forbid this head").click()
    assert page.locator(".cut").inner_text() == "✕ French looks at English, layer 2, head 1"
    page.get_by_role("button", name="forbid this layer").click()
    page.get_by_role("button", name="English looks at English").click()
    assert page.locator(".cut").count() == 2
    page.get_by_role("button", name="all back").click()
    assert french(page) == "il la voit"


def test_by_keyboard(opened):
    page = opened(sentence="he sees her")
    page.locator("canvas.map").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = page.locator(".readout").inner_text()
    assert said.startswith("To choose 'la' this head looks at 'sees': 0")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator(".cut").count() == 0
    page.keyboard.press("c")
    assert page.locator(".cut").inner_text() == "✕ French looks at English, to 'sees'"
    page.keyboard.press("Enter")
    page.keyboard.press("r")
    assert page.locator(".cut").inner_text().startswith("✕ French looks at English, from '")
    assert page.evaluate("document.activeElement.className") == "map"


TYPED = {
    "": "Write an English sentence.",
    "  ...  ": "Write an English sentence.",
    "the dog slepes": "The translator has never read 'slepes'. Words close to it:",
    "😀 the dog": "The translator has never read '😀'.",
    "<img src=x onerror=alert(1)>": "The translator has never read 'img'.",
    "the dog " * 30: "These are 60 words. At most 24 fit on the maps.",
    "a pasted page. " * 100: "These are 300 words.",
}


def test_what_is_typed_is_translated_or_answered_with_a_sentence(opened):
    page = opened(sentence="he sees her")
    field, trouble = page.get_by_label("English:"), page.locator(".trouble")
    for text, answer in TYPED.items():
        field.fill(text)
        field.press("Enter")
        assert trouble.inner_text().startswith(answer), text
        assert french(page) == "il la voit"  # the last one stays, in grey
        assert page.locator(".d2l-translator.stale").count() == 1
    page.get_by_role("button", name="layer 1").click()  # paints anew, with the words of before
    assert "4 queries by 4 keys" in page.locator("canvas.map").get_attribute("aria-label")
    field.fill("the dog slepes")
    field.press("Enter")
    page.locator(".trouble button", has_text="slept").click()
    assert french(page) == "le chien a dormi" and field.input_value() == "the dog slept"
    field.fill("The dog ISN’T old!")
    wait_until(lambda: french(page) == "le chien n' est pas vieux", "it is translated by itself")
    assert trouble.inner_text() == "" and page.locator("img").count() == 0
    assert page.locator(".d2l-translator.stale").count() == 0


def test_a_link_carries_sentence_and_cuts(opened):
    page = opened()
    page.get_by_role("button", name="The same: hide 'la'").click()
    page.get_by_role("button", name="copy a link").click()
    link = page.locator(".d2l-translator").get_attribute("data-link")
    assert link.endswith("?translate=the+girl+that+i+see+is+old%7Cdecoder+*+*+*+1")


def test_look_inside_has_the_numbers_of_the_moment(opened):
    page = opened(sentence="he sees her")
    page.get_by_text("Look inside").click()
    inside = page.locator(".inside .d2l-inside")
    inside.locator(".tensor.out .best b").first.wait_for()
    best = inside.locator(".tensor.out .best b").all_inner_texts()
    assert [line.split()[0] for line in best] == ["il", "la", "voit", "<eos>"]
    arrows = inside.locator(".arrows path:not(.head)")
    wait_until(lambda: arrows.count() == 2, "encoder, decoder, scores")
    for name, count in (("decoder", 5), ("block 2", 11), ("cross-attention", 3)):
        inside.locator(f'.part[data-name="{name}"]').click()
        wait_until(lambda count=count: arrows.count() == count, f"the arrows of {name}")
    inside.locator('[data-name="head 1"]').click()
    inside.locator("canvas.map").focus()
    seen = inside.locator(".readout").inner_text()
    outer = page.locator("canvas.map").first
    outer.focus()
    assert page.locator(".readout").first.inner_text() == f"To choose 'il' this head {seen[8:]}"
    page.locator(".readout").first.inner_text()
    page.get_by_role("button", name="forbid this layer").click()
    inside.locator("canvas.map").focus()
    assert inside.locator(".readout").inner_text().endswith("hidden by the mask")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", translators.NAMES)
def test_axe_finds_nothing_in_either_theme(opened, name, scheme):
    page = opened(name, scheme)
    seen: set[str] = set()
    assert harms(page, seen) == []
    page.locator(".guided").first.click()
    assert harms(page, seen) == []
    page.get_by_label("English:").fill("slepes")
    page.get_by_label("English:").press("Enter")
    assert harms(page, seen) == []


def test_a_page_as_wide_as_a_phone_does_not_break(opened):
    page = opened()
    page.set_viewport_size({"width": 390, "height": 700})
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator(".guided").first.click()


def test_the_greedy_search_of_the_package_writes_the_same(sentences):
    """The oracle above is one of its own: here it meets the package's."""
    for name, (model, src_vocab, tgt_vocab) in TRANSLATORS.items():
        ends = {"bos": tgt_vocab[BOS], "eos": tgt_vocab[EOS]}
        for words in sentences[:5]:
            source = torch.tensor([src_vocab[[*words, EOS]]])
            lens = torch.tensor([source.shape[1]])
            found = greedy_decode(model, source, lens, **ends, max_len=64)
            expected = tgt_vocab.to_tokens(found.sentences()[0])
            written, _ = with_pytorch(name, words, expected, lambda *_: True)
            assert written == [*expected, EOS]
    assert all(
        not layer._forward_pre_hooks
        for model, *_ in TRANSLATORS.values()
        for layer in model.modules()
        if isinstance(layer, MultiHeadAttention)
    )
