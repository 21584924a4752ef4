"""The cells that a view needs, found in code that is written for it."""

import pytest

from notebooks.publish.needed_cells import (
    changed_in_place,
    needed_cells,
    used_and_defined,
    view_cells,
)

VIEW = [{"data": {"application/vnd.jupyter.widget-view+json": {}}}]


def notebook(*sources: str) -> list[dict]:
    """Cells of which the last one shows a view."""
    cells = [{"cell_type": "code", "source": source, "outputs": []} for source in sources]
    cells[-1]["outputs"] = VIEW
    return cells


@pytest.mark.parametrize(
    ("sources", "numbers"),
    [
        (["import torch", "print(1)", "torch.ones(2)"], [0, 2]),
        (["x = 1", "x = 2", "y = x", "z = 3", "print(y)"], [1, 2, 4]),  # the last x alone
        (["def f():\n    return a + b", "a = 1", "b = 2", "c = 3", "f()"], [0, 1, 2, 4]),
        (["a = 1", "b = 2", "def f(b):\n    return lambda: a + b", "f(1)"], [0, 2, 3]),
        (["xs = []", "xs.append(1)", "ys = [x for x in xs]", "ys"], [0, 1, 2, 3]),
        (["w = {}", "w['a'] = 1", "len(w)", "w"], [0, 1, 3]),
        (["import torch as t", "t.manual_seed(0)", "t.ones(1)"], [0, 2]),  # modules do not change
        (["x = 1", "x = x + 1", "x"], [0, 1, 2]),
    ],
    ids=["import", "latest", "late-global", "scopes", "method", "item", "module", "itself"],
)
def test_what_a_view_needs_and_nothing_else(sources, numbers):
    cells = notebook(*sources)
    assert needed_cells(cells, view_cells(cells)) == numbers


def test_without_a_view_no_cell_is_needed():
    cells = notebook("x = 1", "x")
    cells[-1]["outputs"] = []
    assert view_cells(cells) == []
    assert needed_cells(cells, []) == []


def test_text_cells_are_passed_over():
    cells = notebook("x = 1", "is this $x$?", "x")
    cells[1]["cell_type"] = "markdown"
    assert needed_cells(cells, [2]) == [0, 2]


def test_names_of_a_class_and_of_its_methods():
    source = "class A(Base):\n    size = n\n    def f(self, q):\n        return q @ W"
    assert used_and_defined(source) == ({"Base", "n", "W", "__name__"}, {"A"})


def test_an_attribute_and_an_item_of_an_item_change_the_object():
    assert changed_in_place("a.b[0].c = 1\nd[e] = f\nprint(g)\nh.i(j)") == {"a", "d", "h"}
