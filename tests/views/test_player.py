"""``Player``: what is sent of its states, where numbers come from, the still, named errors."""

import io
import json

import pytest
import torch
from PIL import Image
from traitlets import TraitError

from d2l_attention.views import Player, State, grid
from d2l_attention.views.palette import NUM_COLOURS
from d2l_attention.views.player import KINDS, as_text

SCORES = torch.tensor([[0.0, 2.0], [1.0, -1.0]])


def states():
    weights = SCORES.softmax(dim=-1)
    first = grid(SCORES, 1, 0, "key", name="score", label="scores")
    second = grid(weights, 1, 0, "weight", name="weight", origin="score", label="weights")
    row_sums = grid(weights.sum(dim=1)[:, None], 3, 0, "output", name="sum", origin="weight")
    third = grid(weights.T, 1, 2, "weight", name="weight")
    drawn = {"One": first, "Two": second, "Three": row_sums + third}
    return [State(title, "It is.", cells) for title, cells in drawn.items()]


def sent():
    """Of each state what is said, and its cells by their ids: text, x, y, level, from where."""
    parsed = json.loads(Player(states()).states_text)["states"]
    cells = [
        {id: (text, x, y, level, start) for text, x, y, _, _, level, id, start in state["cells"]}
        for state in parsed
    ]
    return [state["said"] for state in parsed], cells


def test_the_cells_that_are_sent_hold_the_numbers():
    said, (one, two, _) = sent()
    assert [cell[0] for cell in one.values()] == ["scores", "0.00", "2.00", "1.00", "−1.00"]
    weights = SCORES.softmax(-1).flatten().tolist()
    for (text, _, _, level, _), weight in zip(list(two.values())[1:], weights, strict=True):
        assert (text, level) == (f"{weight:.2f}", round(weight * (NUM_COLOURS - 1)))
    assert said[1] == "weights 0.12 0.88 0.88 0.12"


def test_ids_are_rows_and_columns_and_say_where_a_number_comes_from():
    _, (one, two, three) = sent()
    assert list(one) == ["", "score 0 0", "score 0 1", "score 1 0", "score 1 1"]
    assert two["weight 1 0"][-1] == ["score 1 0"]  # new: from its origin, cell by cell
    assert three["weight 1 0"][-1] == ["weight 1 0"]  # known: from where it was
    assert three["weight 1 0"][1:3] == (1, 3)
    assert three["sum 1 0"][-1] == ["weight 1 0", "weight 1 1"]  # a sum, from what it sums


def test_each_cell_may_have_its_own_name_and_kind():
    cells = grid([["a", "b"]], 0, 0, [["query", "value"]], name=[["B", "A"]])
    assert [(cell.id, cell.kind) for cell in cells] == [
        (("B", 0, 0), "query"),
        (("A", 0, 0), "value"),
    ]


def test_numbers_as_they_are_written():
    numbers = [3, -0.001, -2.5, float("-inf"), float("nan"), "$x$"]
    assert [as_text(each) for each in numbers] == ["3", "0.00", "−2.50", "−∞", "NaN", "$x$"]


def test_the_still_has_all_states_and_the_alt_says_them():
    size = {n: Image.open(io.BytesIO(Player(n * states()[:1]).still())).size for n in (1, 3)}
    assert size[3][0] == pytest.approx(3 * size[1][0], abs=2)
    view = Player(states())
    assert view.alt == "1. One: It is. 2. Two: It is. 3. Three: It is."
    assert repr(view) == "Player(3 states)"
    before = view.still()
    view.step = 2
    assert view.still() == before == Player(states()).still()


def test_every_kind_is_drawn():
    cells = [cell for i, kind in enumerate(KINDS) for cell in grid(0.5, 0, i, kind)]
    assert Player([State("All", "kinds.", cells)]).still().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Player([]), ValueError, "must have a state"),
        (lambda: Player(["a"]), TypeError, "list of State, got str"),
        (lambda: Player([State("", "", 2 * grid(1, 0, 0, name="a"))]), ValueError, "state 1: two"),
        (lambda: grid(1, 0, 0, "star"), ValueError, "kind must be one of plain, .*, got 'star'"),
        (lambda: grid(2.0, 0, 0, "weight"), ValueError, "from 0 to 1, got 2.0"),
        (
            lambda: Player([states()[0], State("", "", grid(1, 0, 0, name="a", origin="b"))]),
            ValueError,
            "state 2: no cell of the state before is named 'b'",
        ),
    ],
)
def test_bad_arguments_are_said(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_only_a_state_that_is_there_can_be_shown():
    with pytest.raises(TraitError, match="step must be from 0 to 2"):
        Player(states()).step = 3
