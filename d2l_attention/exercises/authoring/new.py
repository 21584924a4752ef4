"""``python -m d2l_attention.exercises new 3.9 zero_query "Title"``: an exercise to begin with."""

import re
import textwrap
from pathlib import Path

from d2l_attention.exercises import authoring

EXERCISES = Path(__file__).resolve().parents[1]
LEFT_TO_DO = """\
{file} has the example of `authoring`: change it.

Its task, in notebooks/src/{number:02d}_*.py (title, minutes and stub come by themselves):

# %% [markdown] slideshow={{"slide_type": "skip"}}
# **{id}** · complete a function
#
# Complete `{name}`. ...

Its answers, in tests/exercises/wrong_answers/chapter_{number:02d}.py:

@right("{id}")
def in_other_words(...):

@wrong("{id}", "what it is told")  # two of these
def another_way(...):

Then: python -m notebooks.publish.minutes --write, make notebooks, make test, each of the last two
with NB={number:02d}; and a line in CHANGELOG.md."""


def example(id: str, name: str, title: str) -> str:
    """The file of the example in ``authoring``, under another id, name and title."""
    text = authoring.__doc__
    lines = text[text.index("    '''4.9") : text.index("**What you get.**")]
    lines = re.sub("(?<!may )attend", name, textwrap.dedent(lines).rstrip() + "\n")
    for old, new in {"4.9": id, "Softmax with a mask": title, "'''": '"""'}.items():
        lines = lines.replace(old, new)
    return lines


def write_new(id: str, name: str, title: str) -> str:
    """Write the file of a new exercise, and say what is left to do.

    Errors: ``ValueError`` for what is no id or no name and for a chapter without exercises,
    ``FileExistsError``.
    """
    if not re.fullmatch(r"\d+\.\d+", id) or not re.fullmatch(r"[a-z]\w*", name):
        raise ValueError(f"give an id such as 3.9 and a name such as zero_query, got {id} {name}")
    number = int(id.partition(".")[0])
    folder = EXERCISES / f"chapter_{number:02d}"
    if not folder.is_dir():
        raise ValueError(f"make {folder / '__init__.py'} first, with TITLE = ... as its neighbours")
    file = folder / f"{name}.py"
    with file.open("x", encoding="utf-8", newline="\n") as new:
        new.write(example(id, name, title))
    return LEFT_TO_DO.format(file=file, number=number, id=id, name=name)
