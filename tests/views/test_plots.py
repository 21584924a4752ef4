import math
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from d2l_attention.views import AttentionView
from d2l_attention.views.palette import GROUND, KEY, ON_STRONG, ON_WEAK, QUERY
from d2l_attention.views.plots import (
    compare_heatmaps,
    hatch_zeros,
    heatmap,
    on_cpu,
    set_style,
    show_heatmaps,
    squares,
)

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    set_style()
    yield
    plt.close("all")


def test_heatmap_shows_the_weights_under_their_labels():
    weights = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    _, ax = plt.subplots()
    assert heatmap(ax, weights, ["a", "b"], ["x", "y", "z"], numbers=True) is ax
    assert ax.images[0].get_array().tolist() == pytest.approx(weights.numpy(), abs=1e-6)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "z"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.texts] == ["0.90", "0.10", "0.00", "0.20", "0.30", "0.50"]


def test_the_sides_of_a_heat_map_are_named_once_in_the_colours_of_their_roles():
    figure, axes = plt.subplots(2, 3)
    axes[0, 0].plot([0, 1])
    for ax in axes.flat[1:]:
        heatmap(ax, torch.eye(2))
    assert [ax.get_ylabel() for ax in axes.flat] == ["", "queries", "", "queries", "", ""]
    assert [ax.get_xlabel() for ax in axes.flat] == ["", "keys", "keys", "keys", "", ""]
    label = axes[0, 1].xaxis.label, axes[0, 1].yaxis.label
    assert [each.get_color() for each in label] == [KEY, QUERY]
    (ax,) = plt.subplots(1, 1, squeeze=False)[1].flat
    assert heatmap(ax, torch.eye(2), sides=("French", "English")).get_xlabel() == "English"
    (ax,) = plt.subplots(1, 1, squeeze=False)[1].flat
    assert heatmap(ax, torch.eye(2), sides=None).get_xlabel() == ""


@pytest.mark.parametrize(
    ("width", "words", "angle"),
    [
        (6, "The cat did not cross the street".split(), 0),
        (6, list("abcdefghijklmnopqrstuvwxyz"), 0),
        (5, "The little animals crossed another street slowly".split(), 45),
        (5, 30 * ["street"], 90),
    ],
)
def test_labels_stand_level_where_they_fit(width, words, angle):
    _, ax = plt.subplots(figsize=(width, 3))
    heatmap(ax, torch.ones(1, len(words)), keys=words)
    assert {tick.label2.get_rotation() for tick in ax.xaxis.get_major_ticks()} == {angle}


def test_squares_show_sign_and_size():
    _, ax = plt.subplots()
    squares(ax, torch.tensor([[1.0, -0.25, 0.0]]), ["a"], color=KEY)
    (boxes,) = ax.collections
    assert [to_hex(colour).upper() for colour in boxes.get_facecolors()] == [KEY, GROUND, GROUND]
    sides = [np.ptp(path.vertices[:, 0]) for path in boxes.get_paths()]
    assert sides[1] / sides[0] == pytest.approx(0.5) and sides[2] == 0  # a quarter of the area


def test_heatmap_errors():
    _, ax = plt.subplots()
    for shape in ((2,), (0, 3), (3, 0)):
        with pytest.raises(ValueError, match=rf"shape \(Q, K\), .*got {re.escape(str(shape))}"):
            heatmap(ax, torch.zeros(shape))
    with pytest.raises(ValueError, match=r"got 1 labels for weights \(2, 3\)"):
        heatmap(ax, torch.zeros(2, 3), ["a"])


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("cell", [(0, 0, 0, 0), (1, 2, 4, 6)])
def test_a_cell_without_a_number_is_no_part_of_the_scale(odd, cell):
    matrices = torch.linspace(0, 0.75, 210).reshape(2, 3, 5, 7)
    matrices[0, 1, 0, 0], matrices[cell] = 0.75, odd
    show_heatmaps(matrices, "Keys", "Queries")
    assert {ax.images[0].get_clim() for ax in plt.gcf().axes[:-1]} == {(0.0, 0.75)}
    _, ax = plt.subplots()
    heatmap(ax, matrices[cell[:2]].fill_(odd), numbers=True)
    assert ax.images[0].get_clim() == (0.0, 1.0)


def test_what_numpy_masks_is_not_drawn():
    weights = np.ma.masked_array([[1, 2], [3, 9]], [[0, 0], [0, 1]])
    _, ax = plt.subplots()
    image = heatmap(ax, weights).images[0]
    assert image.get_array().tolist() == [[1, 2], [3, None]] and image.get_clim() == (0, 3)


def test_nan_is_a_cross_and_infinity_the_end_of_the_scale():
    weights = torch.tensor([[0.5, math.nan, 0.0], [math.inf, -math.inf, 1.0]])
    figure, (ax, numbered) = plt.subplots(1, 2)
    heatmap(ax, weights)
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1.0, 0.0]]]  # row 0, column 1
    assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 2.5), (1.5, -0.5))
    colours = ax.images[0].to_rgba(ax.images[0].get_array())
    assert np.array_equal(colours[1, 0], colours[1, 2])  # infinity as 1
    assert np.array_equal(colours[1, 1], colours[0, 2])  # minus infinity as 0
    heatmap(numbered, weights, numbers=True)
    named = {text.get_text(): text.get_color() for text in numbered.texts}
    assert not numbered.lines and named["nan"] == ON_WEAK and named["inf"] == ON_STRONG


def test_negative_weights_have_colours_of_their_own():
    _, ax = plt.subplots()
    image = heatmap(ax, torch.tensor([[-0.75, 0.0, 0.5]])).images[0]
    assert image.get_clim() == (-0.75, 0.5)
    assert len({tuple(color) for color in image.to_rgba(image.get_array())[0]}) == 3
    assert heatmap(ax, torch.tensor([[-0.75, 0.5]]), vmin=0).images[1].get_clim() == (0, 0.5)
    lower, higher = torch.tensor([[-0.5, 1.0]] * 2), torch.tensor([[0.25, 0.75]] * 2)
    axes = compare_heatmaps([[lower, higher]], ["a", "b"], [["x", "y"]] * 2, "finding")
    assert {ax.images[0].get_clim() for ax in axes.flat} == {(-0.5, 1.0)}


def test_arrays_of_numpy_are_drawn_as_tensors_are():
    weights = np.array([[0.75, 0.25], [0.5, 0.5]])
    weights.flags.writeable = False
    _, ax = plt.subplots()
    heatmap(ax, weights, ["a", "b"], ["x", "y"], numbers=True)
    assert ax.images[0].get_array().tolist() == weights.tolist()
    show_heatmaps(weights[None, None], "Keys", "Queries", titles=["a"])
    assert plt.gcf().axes[0].images[0].get_clim() == (0.0, 0.75)
    axes = compare_heatmaps([[np.eye(2)]], ["a"], [["x", "y"]], "finding")
    assert len(axes[0, 0].patches) == 2


def test_show_heatmaps_shares_one_scale():
    """d2l scales each panel on its own under the colour bar of the last."""
    matrices = torch.zeros(2, 3, 5, 7)
    matrices[0, 0, 0, 0], matrices[1, 2, 1, 1] = 0.25, 1.0
    show_heatmaps(matrices, "Keys", "Queries", titles=["a", "b", "c"])
    *panels, bar = plt.gcf().axes
    assert len(panels) == 6
    assert {ax.images[0].get_clim() for ax in panels} == {(0.0, 1.0)}
    assert [ax.get_title() for ax in panels] == ["a", "b", "c", "", "", ""]
    assert [ax.get_xlabel() for ax in panels] == ["Keys"] * 3 + [""] * 3
    assert [ax.get_ylabel() for ax in panels] == ["Queries", "", ""] * 2
    assert bar.get_ylim() == (0.0, 1.0)


def test_show_heatmaps_takes_weights_with_a_gradient():
    show_heatmaps(torch.rand(1, 1, 2, 2, requires_grad=True), "Keys", "Queries")


def test_show_heatmaps_errors():
    for shape in ((2, 2), (1, 1, 0, 3), (0, 1, 2, 2)):
        got = re.escape(str(shape))
        with pytest.raises(ValueError, match=rf"\(rows, columns, Q, K\), .*got {got}"):
            show_heatmaps(torch.zeros(shape), "Keys", "Queries")
    with pytest.raises(ValueError, match="got 1 titles for 2 columns"):
        show_heatmaps(torch.zeros(1, 2, 3, 3), "Keys", "Queries", titles=["a"])


def test_compare_heatmaps_hatches_what_is_exactly_zero():
    weights = torch.tensor([[1.0, 0.0], [0.997, 0.003]])
    axes = compare_heatmaps([[weights], [weights]], ["one"], [["a", "b"]], "finding", ["x", "y"])
    assert axes.shape == (2, 1)
    assert [len(ax.patches) for ax in axes[:, 0]] == [1, 1]
    assert axes[0, 0].patches[0].get_xy() == (0.5, -0.5)  # row 0, column 1
    assert {ax.images[0].get_clim() for ax in axes[:, 0]} == {(0.0, 1.0)}
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["x\nqueries", "y\nqueries"]
    assert plt.gcf().get_suptitle() == "finding"


def test_what_only_float64_tells_from_zero_or_from_infinity():
    weights = np.array([[1.0, 1e-60, 0.0], [1e39, 1.0, 1.0]])
    _, ax = plt.subplots()
    hatch_zeros(heatmap(ax, weights, numbers=True), weights)
    assert [patch.get_xy() for patch in ax.patches] == [(1.5, -0.5)]
    assert ax.images[0].get_clim() == (0.0, 1e39)


def test_masked_arrays_are_stacked_as_the_docstrings_say():
    half = np.ma.masked_array([[0.5, 0.5], [0.2, 0.8]], mask=[[1, 0], [0, 0]])
    assert on_cpu(np.ma.stack([half])).isnan().tolist() == [[[True, False], [False, False]]]
    assert on_cpu([half])[0, 0, 0] == 0.5  # NumPy has dropped the mask
    assert all("np.ma.stack" in each.__doc__ for each in (AttentionView, show_heatmaps))
