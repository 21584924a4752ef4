"""What texts, README and pages announce is what the clock says."""

import pytest

from notebooks.publish.course import texts
from notebooks.publish.minutes import announced, in_chapter, read_chapter, write

TEXT = """\
# %% [markdown]
# # Title
#
# Core path: 40 to 60 minutes. Going further: 10.
# Exercises: 6.
#
# WORDS

# %% [markdown]
# ## Going further
#
# - *Why (not)?*, 8 minutes: a list.
# - *Or both*, 9 minutes.

# %% [markdown]
# ### Why (not)?
#
# *8 minutes.* Few words.

# %% [markdown]
# ### Or both
#
# *9 minutes.* WORDS
"""


def chapter_of(path, text):
    path.write_text(text.replace("WORDS", "word " * 1000), "utf-8")
    return read_chapter(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "01_name.py"


def test_all_that_is_announced_is_what_the_clock_says():
    """Within five minutes; ``python -m notebooks.publish.minutes --write`` puts it right."""
    numbers = list(announced([read_chapter(text) for text in texts()]))
    assert len(numbers) > 100
    assert [str(each) for each in numbers if not each.is_right] == []


def test_wrong_numbers_are_named_with_the_right_ones_and_put_right(path):
    chapter = chapter_of(path, TEXT)
    every = sum(chapter.exercises.values())
    wrong = [str(each) for each in in_chapter(chapter) if not each.is_right]
    assert wrong == [
        f"{path}:4: 40 should be 10",
        f"{path}:4: 60 should be 15",
        f"{path}:5: 6 should be {every}",
        f"{path}:18: 8 should be 1",
        f"{path}:12: 8 should be 1",
    ]
    write(list(in_chapter(chapter)))
    written = path.read_text("utf-8")
    expected = ["Core path: 10 to 15 minutes. Going further: 10.", f"Exercises: {every}."]
    expected += ["*Why (not)?*, 1 minute: a list.", "*1 minute.* Few words."]
    expected += ["*Or both*, 10 minutes.", "*10 minutes.* word"]
    assert [words for words in expected if words not in written] == []
    assert len(written.splitlines()) == len(TEXT.splitlines())
    assert [each.said - each.number.right for each in in_chapter(read_chapter(path))] == [0] * 8


@pytest.mark.parametrize(
    "missing", ["Core path: 40 to 60 minutes. ", "*8 minutes.* Few", "Exercises: 6"]
)
def test_a_missing_number_is_named(path, missing):
    chapter = chapter_of(path, TEXT.replace(missing, ""))
    with pytest.raises(ValueError, match="01_name.py lacks a sentence that the clock fills in"):
        list(in_chapter(chapter))
