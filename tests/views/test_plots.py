import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from d2l_attention.views.plots import compare_heatmaps, heatmap, set_style, show_heatmaps

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


def test_heatmap_errors():
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"shape \(Q, K\), got \(2,\)"):
        heatmap(ax, torch.zeros(2))
    with pytest.raises(ValueError, match=r"got 1 labels for weights \(2, 3\)"):
        heatmap(ax, torch.zeros(2, 3), ["a"])


def test_show_heatmaps_shares_one_scale():
    """d2l scales each panel on its own under the colour bar of the last."""
    matrices = torch.zeros(2, 3, 5, 7)
    matrices[0, 0, 0, 0], matrices[1, 2, 1, 1] = 0.25, 1.0
    show_heatmaps(matrices, "Keys", "Queries", titles=["a", "b", "c"])
    *panels, bar = plt.gcf().axes
    assert len(panels) == 6
    assert {ax.images[0].get_clim() for ax in panels} == {(0.0, 1.0)}
    assert [ax.get_title() for ax in panels] == ["a", "b", "c", "", "", ""]
    assert [ax.get_xlabel() for ax in panels] == [""] * 3 + ["Keys"] * 3
    assert [ax.get_ylabel() for ax in panels] == ["Queries", "", ""] * 2
    assert bar.get_ylim() == (0.0, 1.0)


def test_show_heatmaps_takes_weights_with_a_gradient():
    show_heatmaps(torch.rand(1, 1, 2, 2, requires_grad=True), "Keys", "Queries")


def test_show_heatmaps_errors():
    with pytest.raises(ValueError, match=r"\(rows, columns, Q, K\), got \(2, 2\)"):
        show_heatmaps(torch.zeros(2, 2), "Keys", "Queries")
    with pytest.raises(ValueError, match="got 1 titles for 2 columns"):
        show_heatmaps(torch.zeros(1, 2, 3, 3), "Keys", "Queries", titles=["a"])


def test_compare_heatmaps_hatches_what_is_exactly_zero():
    weights = torch.tensor([[1.0, 0.0], [0.997, 0.003]])
    axes = compare_heatmaps([[weights], [weights]], ["one"], [["a", "b"]], "finding", ["x", "y"])
    assert axes.shape == (2, 1)
    assert [len(ax.patches) for ax in axes[:, 0]] == [1, 1]
    assert axes[0, 0].patches[0].get_xy() == (0.5, -0.5)  # row 0, column 1
    assert {ax.images[0].get_clim() for ax in axes[:, 0]} == {(0.0, 1.0)}
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["x\nquery", "y\nquery"]
    assert plt.gcf().get_suptitle() == "finding"
