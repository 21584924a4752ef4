"""Keep the student's copies of the notebooks up to date, before ``make lab`` opens them.

``work/`` gets a copy of every notebook of the course, and a list of what was delivered. The copies
have no outputs: whoever is asked to predict must not read the answer below. On an update a copy
that the student has not changed is replaced; beside one that was changed stands the new version,
as ``NN_name.new.ipynb``. What a student wrote is never written over. ``work/.delivered/`` keeps
each version as it came, so that ``changes`` can tell and merge what is new.
"""

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from d2l_attention.system.files import write_whole
from notebooks.publish.course import NOTEBOOKS, is_chapter

DELIVERED = ".delivered.json"
DELIVERED_COPIES = ".delivered"


def fingerprint(notebook: Path) -> str:
    """SHA-256 of the cells' kinds and text, or of the whole file where it is no notebook.

    Outputs do not count: JupyterLab rewrites a notebook as soon as it is opened and run, and a
    notebook that was only run is not one that was changed.
    """
    content = notebook.read_bytes()
    try:
        cells = [
            (cell["cell_type"], "".join(cell["source"])) for cell in json.loads(content)["cells"]
        ]
    except (ValueError, KeyError, TypeError):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def without_outputs(notebook: Path) -> bytes:
    """The notebook as it was before anybody ran it; a damaged one as it is."""
    content = notebook.read_bytes()
    try:
        whole = json.loads(content)
        for cell in whole["cells"]:
            if cell["cell_type"] == "code":
                cell.update(outputs=[], execution_count=None)
        whole["metadata"].pop("widgets", None)
    except (ValueError, KeyError, TypeError):
        return content
    return json.dumps(whole, ensure_ascii=False, indent=1).encode() + b"\n"


def deliver(
    notebooks: Path, work: Path, content: Callable[[Path], bytes] = without_outputs
) -> list[str]:
    """Bring ``work`` up to date with ``notebooks`` and return what there is to tell the student.

    ``content`` gives what is delivered of a notebook. Raises FileNotFoundError where
    ``notebooks`` holds none.
    """
    originals = sorted(filter(is_chapter, notebooks.glob("*.ipynb")))
    if not originals:
        raise FileNotFoundError(f"no notebooks in {notebooks}")
    work.mkdir(exist_ok=True)
    (work / DELIVERED_COPIES).mkdir(exist_ok=True)
    delivered = read_delivered(work)
    added, refreshed, sentences = [], [], []
    for original in originals:
        name, copy = original.name, work / original.name
        base = work / DELIVERED_COPIES / name
        newest, last = fingerprint(original), delivered.get(name)
        mine = fingerprint(copy) if copy.exists() else None
        delivered[name] = newest
        if mine in (None, newest, last) and (not base.exists() or fingerprint(base) != newest):
            remember(copy, content(original))
        if mine is None:
            write_whole(copy, content(original))
            added.append(name)
        elif newest in (mine, last):
            continue  # the student has this version, or was offered it before
        elif mine == last:
            write_whole(copy, content(original))
            refreshed.append(name)
        else:
            beside = free_place(copy, {newest, last})
            remember(beside, content(original))
            write_whole(beside, content(original))
            sentences.append(
                f"You changed {copy}, so it stays; the new version is {beside}. What is new: "
                f"python -m notebooks changes {name[:2]}"
            )
    write_whole(work / DELIVERED, json.dumps(delivered, indent=1).encode())
    if refreshed:
        sentences.insert(0, f"New versions in {work}: {', '.join(refreshed)}.")
    if added:
        sentences.insert(0, f"Copied to {work}: {', '.join(added)}.")
    return sentences


def read_delivered(work: Path) -> dict[str, str]:
    """The fingerprints of what was delivered last; none where the list is missing or damaged.

    Without it every copy counts as changed, which costs a file too many and no work.
    """
    try:
        delivered = json.loads((work / DELIVERED).read_bytes())
    except (OSError, ValueError):
        return {}
    return delivered if isinstance(delivered, dict) else {}


def remember(place: Path, content: bytes) -> None:
    """Note what a file of ``work`` was as it came, and keep all that a copy was made from before.

    A student who goes back to an older copy needs what tells its work from the course's.
    """
    noted = place.parent / DELIVERED_COPIES / place.name
    if noted.exists() and is_chapter(place):
        before = noted.read_bytes()
        digest = hashlib.sha256(before).hexdigest()[:8]
        write_whole(noted.with_suffix(f".{digest}.ipynb"), before)
    write_whole(noted, content)


def older(noted: Path) -> list[Path]:
    """The versions that a copy was made from before the one that is noted."""
    beside = noted.parent.glob(f"{noted.stem}.????????.ipynb")
    return sorted(path for path in beside if re.search(r"\.[0-9a-f]{8}\.ipynb$", path.name))


def as_delivered(place: Path) -> Path | None:
    """The file that holds a new version as it came, which may be itself; None: not known."""
    noted = place.parent / DELIVERED_COPIES / place.name
    if noted.exists():
        return noted
    # Once only what the copy was made from was kept: then it is as it came, or nobody knows.
    newest = read_delivered(place.parent).get(f"{place.name.partition('.')[0]}.ipynb")
    return place if fingerprint(place) == newest else None


def free_place(copy: Path, ours: set[str | None]) -> Path:
    """The first of name.new.ipynb, name.new2.ipynb, ... that holds no work of the student."""
    for number in itertools.count(1):
        place = copy.with_suffix(f".new{number if number > 1 else ''}.ipynb")
        if not place.exists() or fingerprint(place) in ours:
            return place
        course = as_delivered(place)
        if course is not None and fingerprint(course) == fingerprint(place):
            return place


def offered(copy: Path) -> list[Path]:
    """The new versions beside a copy, by their numbers; a copy of one is the student's own."""
    beside = copy.parent.glob(f"{copy.stem}.new*.ipynb")
    ours = [path for path in beside if re.fullmatch(r"new\d*", path.stem.partition(".")[2])]
    return sorted(ours, key=lambda path: (len(path.name), path.name))


if __name__ == "__main__":
    try:
        sentences = deliver(NOTEBOOKS, Path("work"))
    except OSError as error:
        sys.exit(f"Cannot fill work/: {error}")
    print(*sentences, sep="\n", end="\n" if sentences else "")
