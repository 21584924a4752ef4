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


@pytest.mark.parametrize("token", TOKENS, ids=repr)
def test_a_heatmap_writes_tokens_as_they_are(token):
    figure, ax = plt.subplots()
    heatmap(ax, W, [token, "x"], ["y", token], numbers=True)
    assert saved(figure).startswith(b"\x89PNG")
    assert words_of(ax.yaxis) == [token, "x"] and words_of(ax.xaxis) == ["y", token]
    assert {token, "x", "y"} <= lettered(figure)
    compare_heatmaps([[W, W]], ["a", "b"], [[token, "x"], ["y", token]], "finding")
    assert saved(plt.gcf()) and token in lettered(plt.gcf())


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


@pytest.mark.parametrize("token", MISSING, ids=repr)
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


@pytest.mark.parametrize("token", [*HALF, "".join(HALF)], ids=ascii)
def test_half_a_character_stops_no_picture_and_reaches_no_file(token):
    figure, ax = plt.subplots()
    heatmap(ax, W, [token, "x"])
    saved(figure)
    assert words_of(ax.yaxis) == [whole(token), "x"]
    labels = {"heads": [token], "frames": [token], "compare": W, "compare_label": token}
    views = [
        AttentionView(W, [token, "x"], title=token, **labels),
        HeadsView({token: W[None], "b": W[None]}, [token, "x"], title=token),
        look_inside(nn.ReLU(), W, tokens={"input": [token, "x"], "output": ["y", token]}),
        look_inside(nn.ReLU(), W, title=token),
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


@pytest.mark.parametrize("token", [*TOKENS, *MISSING], ids=repr)
def test_every_view_draws_the_token_letter_by_letter_and_sends_it_as_it_is(token):
    heads = HeadsView({token: W[None], "b": W[None]}, [token, "x"], title=token)
    assert lettered(heads._figure()) >= {token, "b"}
    heads.layer = 0
    assert token in lettered(heads._figure())
    sent = json.loads(heads.heads_text)
    assert sent["queries"] == [token, "x"] and sent["layers"][0]["name"] == token

    view = AttentionView(W, [token, "x"], title=token)
    assert view.query_labels == [token, "x"] and token in lettered(view._figure())

    opened = look_inside(nn.Sequential(nn.ReLU()), W, tokens=[token, "x"], title=token)
    assert [token, "x"] in json.loads(opened.run_text)["words"]
    figure = draw(opened._parts, find(opened._parts, ""), token)
    assert token in lettered(figure)
    if len(token) <= 10:
        assert token in {text for ax in figure.axes for text in words_of(ax.yaxis)}
    for each in (heads, view, opened, watch(raises, token)):
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
