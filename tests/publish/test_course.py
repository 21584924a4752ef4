"""The one place that knows where the chapters are."""

import pytest

from notebooks.publish.course import NOTEBOOKS, chosen, notebook_of, text_of, texts


def test_each_text_has_its_notebook_and_each_notebook_its_text():
    notebooks = [notebook_of(text) for text in texts()]
    assert notebooks == sorted(NOTEBOOKS.glob("*.ipynb"))
    assert [text_of(notebook) for notebook in notebooks] == texts()


def test_chapters_are_chosen_by_their_numbers():
    assert [text.stem for text in chosen(["04", "00"])] == ["04_masked_softmax", "00_start_here"]
    assert chosen([]) == texts()


@pytest.mark.parametrize("number", ["**", "[0-9][0-9]", "/tmp/03_x.ipynb", "99", "4"])
def test_what_is_no_chapter_is_told_even_beside_one_that_is(number):
    with pytest.raises(SystemExit, match="No chapter"):
        chosen(["03", number])
