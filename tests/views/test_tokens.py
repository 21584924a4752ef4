"""Tokens are data: each picture and each view shows them as they are, also '$_$'."""

import json
import warnings
from io import BytesIO

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from torch import nn

from d2l_attention.views import AttentionView, HeadsView, look_inside, watch
from d2l_attention.views.inside.places import find
from d2l_attention.views.inside.still import draw
from d2l_attention.views.picture import draw_weights, pixels
from d2l_attention.views.plots import compare_heatmaps, heatmap
from d2l_attention.views.source import show_source
from d2l_attention.views.words import whole

matplotlib.use("Agg")

TOKENS = [
    *("$_$", "$x$", "$$", r"$\frac$", "$", r"\$", "\\", r"\n", "a\nb", "_a", "%", "#", "{", "&lt;"),
    *("<b>", "&", '"', "", " ", "😀", "e\u0301"),
]
MISSING = ["注意", "\t", "\x00", "\r"]  # no letter of matplotlib's font
HALF = "\ud83d", "\ude00"  # the halves of one character
W = torch.eye(2)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def saved(figure):
    figure.savefig(file := BytesIO())
    return file.getvalue()


def words_of(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def lettered(figure):
    """The texts of a figure that are drawn letter by letter, after a drawing."""
    texts = figure.findobj(matplotlib.text.Text)
    return {text.get_text() for text in texts if not text.get_parse_math()}


def test_a_heatmap_writes_tokens_as_they_are():
    figure, ax = plt.subplots()
    weights = torch.eye(len(TOKENS))
    heatmap(ax, weights, TOKENS, TOKENS[::-1])
    assert saved(figure).startswith(b"\x89PNG")
    assert words_of(ax.yaxis) == TOKENS and words_of(ax.xaxis) == TOKENS[::-1]
    assert {*TOKENS} <= lettered(figure)
    compare_heatmaps([[weights[:4, :4]]], ["a"], [TOKENS[:4]], "finding")
    assert saved(plt.gcf()) and {*TOKENS[:4]} <= lettered(plt.gcf())


def test_a_dollar_is_drawn_as_many_times_as_it_is_there():
    """Read from the picture: what is parsed as a formula has lost its dollars."""

    def drawn(token):
        figure, ax = plt.subplots()
        return saved(heatmap(ax, W, [token, "x"]).figure)

    assert len({drawn(token) for token in ("x", "$x$", "$$x$$", r"\$x\$")}) == 4


def test_titles_and_axis_labels_of_an_author_stay_formulas():
    figure, ax = plt.subplots()
    heatmap(ax, W, ["$a$", "b"], ["$a$", "b"])
    ax.set(title=r"$\sqrt{d}$", xlabel="$k$", ylabel="$q$")
    saved(figure)
    texts = ax.title, ax.xaxis.label, ax.yaxis.label
    assert all(text.get_parse_math() for text in texts)
    axes = compare_heatmaps([[W]], ["$W_q$"], [["$_$", "b"]], "$n^2$", ["$W_k$"])
    assert axes[0, 0].title.get_parse_math() and saved(plt.gcf())


@pytest.mark.parametrize("first", [True, False], ids=["first drawn", "last drawn"])
def test_axes_that_share_the_labels_write_them_as_they_are_too(first):
    figure, axes = plt.subplots(2, 2, sharex=True, sharey=True)
    heatmap(axes[0, 0] if first else axes[1, 1], W, ["$_$", "x"], ["$$", "x"])
    for ax in axes.flat:
        ax.tick_params(labelbottom=True, labelleft=True)
    saved(figure)
    assert {text for ax in axes.flat for text in words_of(ax.yaxis)} == {"$_$", "x"}
    assert not any(text.get_parse_math() for ax in axes.flat for text in ax.get_xticklabels())


def test_labels_that_are_no_str_and_axes_that_had_other_ticks():
    figure, ax = plt.subplots()
    ax.plot([0, 90], [0, 1])  # ticks of its own
    saved(figure)
    heatmap(ax, torch.eye(3), range(3), ["$_$", "$$", "c"])
    saved(figure)
    assert words_of(ax.yaxis) == ["0", "1", "2"]


@pytest.mark.parametrize("token", ["注意", "\x00"], ids=repr)
def test_a_glyph_that_the_font_lacks_is_told_and_drawn_as_a_box(token):
    """The drawing is the caller's, and so is the font: matplotlib's warning is the right word."""
    figure, ax = plt.subplots()
    heatmap(ax, W, [token, "x"])
    with pytest.warns(UserWarning, match="Glyph .* missing from font"):
        saved(figure)
    assert words_of(ax.yaxis) == [token, "x"]
    assert AttentionView(W, [token, "x"]).still()  # a view's browser has the glyph: no warning


def test_latex_writes_no_token():
    """With LaTeX '_', '%' and '#' are commands; where it is missing, no picture would come."""
    with matplotlib.rc_context({"text.usetex": True}):
        figure, ax = plt.subplots()
        heatmap(ax, W, ["a_b", "50%"])
        assert not any(text.get_usetex() for text in ax.get_yticklabels())
        assert AttentionView(W, ["a_b", "50%"], title="#").still()
        assert HeadsView(W[None, None], ["a_b", "50%"]).still()
        assert watch(lambda token: token, "a_b").still()
        assert look_inside(nn.Sequential(nn.ReLU()), W, tokens=["a_b", "#"]).still()


def test_halves_of_a_character_are_joined_or_replaced():
    assert whole("".join(HALF)) == "😀"
    assert whole(f"a{HALF[0]}b{HALF[1]}") == "a\ufffdb\ufffd"
    for text in (*TOKENS, *MISSING, "\ufeffx", "\u200d"):
        assert whole(text) == text


def test_half_a_character_stops_no_picture_and_reaches_no_file():
    figure, ax = plt.subplots()
    heatmap(ax, W, HALF)
    saved(figure)
    assert words_of(ax.yaxis) == ["\ufffd", "\ufffd"]
    token, joined = HALF[0], "".join(HALF)
    labels = {"heads": [token], "frames": [joined], "compare": W, "compare_label": token}
    views = [
        AttentionView(W, HALF, title=token, **labels),
        HeadsView({token: W[None], "b": W[None]}, HALF, title=joined),
        look_inside(nn.ReLU(), W, title=token, tokens={"input": HALF, "output": ["y", token]}),
        watch(lambda token: {}[token], token),
        watch(raises, token),
    ]
    for view in views:
        assert view.still().startswith(b"\x89PNG")
        state = {name: value for name, value in view.get_state().items() if name[0] != "_"}
        bundle, metadata = view._repr_mimebundle_()
        # A saved notebook is text in UTF-8.
        json.dumps([state, bundle, metadata, repr(view)], ensure_ascii=False).encode("utf-8")


def raises(token):
    raise ValueError(token)


@pytest.mark.parametrize("start", range(0, len(TOKENS), 7))
def test_every_view_draws_tokens_letter_by_letter_and_sends_them_as_they_are(start):
    tokens = [*TOKENS[start : start + 7], MISSING[start // 7]]
    W, title = torch.eye(len(tokens)), tokens[0]
    heads = HeadsView({token: W[None] for token in tokens}, tokens, title=title)
    assert lettered(heads._figure()) >= {*tokens}
    heads.layer = 0
    assert lettered(heads._figure()) >= {*tokens}
    sent = json.loads(heads.heads_text)
    assert sent["queries"] == [layer["name"] for layer in sent["layers"]] == tokens

    view = AttentionView(W, tokens, title=title)
    assert view.query_labels == tokens and lettered(view._figure()) >= {*tokens}

    opened = look_inside(nn.Sequential(nn.ReLU()), W, tokens=tokens, title=title)
    assert tokens in json.loads(opened.run_text)["words"]
    figure = draw(opened._parts, find(opened._parts, ""), title)
    assert lettered(figure) >= {*tokens, title}
    for each in (heads, view, opened, watch(raises, "".join(tokens))):
        assert each.still().startswith(b"\x89PNG")


def test_a_still_is_letter_by_letter_however_it_is_drawn():
    """Also by ``savefig``, outside the setting under which it was made."""
    figure = draw_weights(
        torch.eye(2).expand(3, 2, 2), ["$_$", "x"], ["$$", "x"],
        largest=1.0, panel_titles=["$_$", "$$", "c"], title="$_$",
    )  # fmt: skip
    assert saved(figure) and pixels(figure)
    assert {"$_$", "$$"} <= lettered(figure)


def test_a_tab_in_the_source_is_drawn_as_spaces(tmp_path):
    file = tmp_path / "tabs.py"
    file.write_text("def tabs(x):\n\tif x:\n\t\treturn x\n", "utf-8")
    exec(compile(file.read_text("utf-8"), file, "exec"), found := {})
    view = watch(found["tabs"], 1)
    from d2l_attention.views.watch_drawing import draw as draw_steps

    figure = draw_steps([view.page()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved(figure)
    assert "        return x" in {text.get_text() for text in figure.texts}


def test_a_fence_in_a_docstring_does_not_end_the_shown_source():
    text = show_source(fenced)._repr_markdown_()
    first, *_, last = text.splitlines()
    assert (first, last) == ("`````python", "`````") and "````\n" in text
    assert show_source(raises)._repr_markdown_().startswith("```python\n")


def fenced():
    """An example.

    ````
    ```
    ````
    """
