"""A task in a chapter's text gets its heading and its stub from the exercise."""

import pytest

from d2l_attention.exercises.engine.registry import UnknownExercise, find
from notebooks.publish.tasks import stub
from notebooks.publish.text import read_text

TEXT = """\
# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises
#
# **1.1** · by hand
#
# One query scores 0, **1.2** · and 2.

# %% slideshow={"slide_type": "-"}
from d2l_attention.exercises import check

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.2** · complete a function

# %%
print(1)
"""


def test_heading_and_stub(tmp_path):
    path = tmp_path / "01_name.py"
    path.write_text(TEXT, "utf-8")
    by_hand, answer, function, its_stub, other = read_text(path).cells
    assert by_hand.source == (
        "### Exercises\n\n**1.1** Attention by hand · *easy, 2 minutes* · by hand\n\n"
        "One query scores 0, **1.2** · and 2."
    )
    assert answer.source == (
        'from d2l_attention.exercises import check\n\nanswer = None\n\ncheck("1.1", answer)'
    )
    assert answer.metadata.slideshow.slide_type == "-"
    assert function.source.endswith("*easy, 5 minutes* · complete a function")
    assert its_stub.source.startswith('def attend(scores, values):\n    """Attention pooling')
    assert its_stub.source.endswith('    ...\n\n\ncheck("1.2", attend)')
    assert its_stub.metadata.slideshow.slide_type == "skip"
    assert other.source == "print(1)"


def test_a_stub_with_bugs_is_shown_with_them():
    assert "scores = (queries * keys).sum(-1, keepdim=True)" in stub(find("1.5"))


def test_a_task_without_an_exercise(tmp_path):
    path = tmp_path / "01_name.py"
    path.write_text(TEXT.replace("**1.1**", "**1.77**"), "utf-8")
    with pytest.raises(UnknownExercise, match="There is no exercise `1.77`"):
        read_text(path)
