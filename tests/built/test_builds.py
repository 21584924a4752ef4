"""Build cells are plain and short; the other files here compare what they make with the package."""

import pytest
import torch
from builds import ALLOWED, MOST_LINES, build_cells, imported_by

from notebooks.publish.clock import lines_of

WITH_BUILDS = ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "13"]


@pytest.mark.parametrize("number", WITH_BUILDS, ids="{}_".format)
def test_build_cells_are_plain_and_short(number):
    cells = build_cells(number)
    assert cells, "the chapter builds its mechanism on the page"
    assert sum(map(lines_of, cells)) <= MOST_LINES
    assert set().union(*map(imported_by, cells)) <= ALLOWED
    assert not [source for source in cells if "assert " in source], "checks have cells of their own"


def test_built_04_layer_stands_in_one_cell():
    (cell,) = (source for source in build_cells("04") if "class " in source)
    names = {}
    exec(compile(cell, "<the cell that a student takes along>", "exec"), names)
    layer = names["PlainCausalSelfAttention"](8)
    assert layer(torch.randn(2, 4, 8), torch.ones(2, 4).bool()).shape == (2, 4, 8)
