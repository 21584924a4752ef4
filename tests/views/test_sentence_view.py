"""The view in which the reader writes: what it shows, what it names, what stays text."""

import asyncio

import pytest
import torch

from d2l_attention.data import Vocab
from d2l_attention.views import SentenceView

WORDS = ["the", "cat", "sees", "a", "dog"]
VOCAB = Vocab([WORDS])


def look(words):
    n = len(words)
    return {"weights": torch.eye(n), "queries": words, "keys": words, "title": " ".join(words)}


def view_of(examples=("the cat sees", "a dog"), **options):
    return SentenceView(look, str.split, VOCAB, list(examples), max_words=4, **options)


def test_follows_the_text():
    view = view_of()
    assert view.view.key_labels == ["the", "cat", "sees"]
    view.text.value = "the dog sees a"
    assert view.view.key_labels == ["the", "dog", "sees", "a"]
    assert view.message.value == ""


def test_examples_are_one_click_away():
    view = view_of()
    view.examples[1].click()
    assert view.text.value == "a dog"
    assert view.view.query_labels == ["a", "dog"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  ", "Write a sentence."),
        ("the cat sees a dog", "5 words: the longest sentence the model has learned from has 4."),
        ("the zebra sees zebra gnus", "5 words"),
        ("the zebra sees gnus", "The model has never seen: zebra, gnus."),
        ("the <b>cat</b>", "The model has never seen: &lt;b&gt;cat&lt;/b&gt;."),
    ],
    ids=["nothing", "too-long", "too-long-first", "unknown", "markup"],
)
def test_says_what_cannot_be_shown_and_keeps_the_picture(text, said):
    view = view_of()
    view.text.value = text
    assert said in view.message.value and "<b>" not in view.message.value
    assert view.view.key_labels == ["the", "cat", "sees"]
    view.text.value = "the dog"
    assert view.message.value == "" and view.view.key_labels == ["the", "dog"]


def test_an_error_of_the_model_reaches_the_reader():
    def broken(words):
        if "dog" in words:
            raise RuntimeError("no <b>weights</b>")
        return look(words)

    view = SentenceView(broken, str.split, VOCAB, ["the cat"])
    view.text.value = "the dog"
    assert "RuntimeError: no &lt;b&gt;weights&lt;/b&gt;" in view.message.value


def test_a_burst_of_key_presses_gets_one_answer():
    seen = []

    def counting(words):
        seen.append(words)
        return look(words)

    async def type_it():
        view = SentenceView(counting, str.split, VOCAB, ["the cat"])
        for text in ("the cat ", "the cat s", "the cat sees", "the cat sees a"):
            view.text.value = text
        await asyncio.sleep(0.1)
        return view

    view = asyncio.run(type_it())
    assert seen == [["the", "cat"], ["the", "cat", "sees", "a"]]
    assert view.view.key_labels == ["the", "cat", "sees", "a"]


def test_shows_the_kind_of_attention_that_is_chosen():
    asked = []

    def looking(words, kind):
        asked.append((words, kind))
        shown = look(words)
        return shown if kind == "self" else shown | {"queries": [kind] * len(words)}

    view = SentenceView(looking, str.split, VOCAB, ["the cat"], kinds=["self", "cross"])
    assert view.kind in view.children
    assert view.view.query_labels == ["the", "cat"]
    view.kind.value = "cross"
    assert view.view.query_labels == ["cross", "cross"]
    view.text.value = "a dog sees"
    assert view.view.query_labels == ["cross", "cross", "cross"]
    assert asked == [
        (["the", "cat"], "self"),
        (["the", "cat"], "cross"),
        (["a", "dog", "sees"], "cross"),
    ]


def test_a_sentence_that_cannot_be_shown_does_not_change_the_kind_of_the_picture():
    view = SentenceView(
        lambda words, kind: look(words) | {"title": kind},
        str.split,
        VOCAB,
        ["the cat"],
        kinds=["self", "cross"],
    )
    view.text.value = "the zebra"
    view.kind.value = "cross"
    assert "zebra" in view.message.value and view.view.title == "self"
    view.text.value = "a dog"
    assert view.view.title == "cross" and view.message.value == ""


def test_without_kinds_nothing_is_there_to_choose():
    view = view_of()
    assert view.kind not in view.children


def test_has_a_text_form_and_a_picture():
    view = view_of()
    assert repr(view) == "SentenceView('the cat sees')"
    data, metadata = view._repr_mimebundle_()
    assert data["text/plain"].startswith("SentenceView('the cat sees'): the cat sees.")
    assert data["image/png"] and "3 queries by 3 keys" in metadata["image/png"]["alt"]


@pytest.mark.parametrize(
    ("examples", "message"),
    [([], "at least one sentence, got none"), (["the zebra"], "never seen: zebra")],
    ids=["none", "unknown"],
)
def test_needs_an_example_that_can_be_shown(examples, message):
    with pytest.raises(ValueError, match=message):
        view_of(examples)
