"""A lecture's minutes, as the notes of its slides say them."""

import pytest

from notebooks.publish.course import texts
from notebooks.publish.slides.__main__ import main
from notebooks.publish.slides.plan import LECTURE, minutes_of_note, plan_of

# Delete a chapter here when its notes are planned for the slot.
TOO_LONG: set[str] = set()
TEXT = """\
# %% [markdown] slideshow={"slide_type": "slide"}
# # Title

# %% [markdown] slideshow={"slide_type": "notes"}
# 7 minutes: 4 for one and 3 for two.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute, in pairs. Then vote. 4½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Behind one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Leave them half a minute to look.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A view

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; 3 minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Vote.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further

# %% [markdown] slideshow={"slide_type": "notes"}
# Twelve minutes.
"""


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("Two minutes. Ask.", 2),
        ("Two minutes with pencil and paper.", 2),
        ("A minute in pairs.", 1),
        ("Ask for the map. 1½ minutes.", 1.5),
        ("Vote.\n½ minute.", 0.5),
        ("Half a minute. Then go on.", 0.5),
        ("One minute, in pairs. Then vote. 12 minutes.", 12),
        ("The cell takes two minutes.", None),
        ("Wait for two minutes, then vote.", None),
        ("", None),
    ],
)
def test_minutes_of_a_note(note, expected):
    assert minutes_of_note(note) == expected


def test_a_plan_by_hand(tmp_path):
    (tmp_path / "04_name.py").write_text(TEXT, "utf-8")
    plan = plan_of(tmp_path / "04_name.py")
    assert (plan.minutes, plan.announced, plan.lectures) == (7.5, 7, 1)
    assert plan.silent == ["3 One"]
    assert str(plan) == "7.5 minutes (7 announced), room for 36\n    no minutes: 3 One"


def chapters():
    for text in texts():
        reason = "its notes plan more than a lecture"
        mark = pytest.mark.xfail(strict=True, reason=reason)
        yield pytest.param(text, id=text.stem, marks=mark if text.stem[:2] in TOO_LONG else ())


@pytest.mark.parametrize("text", list(chapters()))
def test_a_lecture_with_minutes_on_every_slide_fits_its_slot(text):
    plan = plan_of(text)
    if plan.silent:
        return  # python -m notebooks.publish.slides --plan lists them
    assert plan.announced is None or abs(plan.announced - plan.minutes) <= 1
    assert plan.minutes <= LECTURE * plan.lectures


def test_the_command_prints_plans_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["slides", "--plan", "00", "--out", str(tmp_path / "decks")])
    main()
    assert capsys.readouterr().out.startswith("00_start_here: ")
    assert not (tmp_path / "decks").exists()
