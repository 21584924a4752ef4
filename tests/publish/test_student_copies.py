"""What a student wrote survives every update."""

import json
import os

import pytest

from notebooks.publish.student_copies import DELIVERED, deliver, fingerprint

NAME = "01_queries.ipynb"


def notebook(text, output=None):
    cell = {
        "cell_type": "code",
        "source": [text],
        "outputs": [output] if output else [],
        "execution_count": 1 if output else None,
    }
    whole = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


@pytest.fixture
def course(tmp_path):
    """A folder of originals, and work/ as the first delivery leaves it."""
    notebooks, work = tmp_path / "notebooks", tmp_path / "work"
    notebooks.mkdir()
    (notebooks / NAME).write_text(notebook("version 1"), "utf-8")
    (notebooks / "02_pooling.ipynb").write_text(notebook("never touched"), "utf-8")
    deliver(notebooks, work)
    return notebooks, work


def new_version(course, text="version 2", name=NAME):
    """The course delivers a chapter anew: what it tells the student."""
    notebooks, work = course
    (notebooks / name).write_text(notebook(text), "utf-8")
    return deliver(notebooks, work)


def holds(work, name=NAME):
    return (work / name).read_text("utf-8")


def files(work):
    return sorted(path.name for path in work.iterdir() if path.is_file())


def test_the_first_delivery_copies_everything_and_says_so(tmp_path, course):
    notebooks, work = course
    assert (work / NAME).read_bytes() == (notebooks / NAME).read_bytes()
    assert files(work) == [DELIVERED, NAME, "02_pooling.ipynb"]
    assert deliver(notebooks, tmp_path / "elsewhere") == [
        f"Copied to {tmp_path / 'elsewhere'}: {NAME}, 02_pooling.ipynb."
    ]


def test_a_copy_comes_without_outputs_and_without_the_state_of_views(course):
    """A student who is to predict must not read the answer below the cell."""
    notebooks, work = course
    whole = json.loads(notebook("version 2", output={"output_type": "stream", "text": "42"}))
    whole["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    (notebooks / NAME).write_text(json.dumps(whole), "utf-8")
    deliver(notebooks, work)
    assert holds(work) == notebook("version 2")


def test_nothing_new_changes_nothing_and_says_nothing(course):
    notebooks, work = course
    before = {name: (work / name).read_bytes() for name in files(work)}
    assert deliver(notebooks, work) == []
    assert {name: (work / name).read_bytes() for name in files(work)} == before


def test_an_unchanged_copy_is_replaced(course):
    work = course[1]
    assert new_version(course) == [f"New versions in {work}: {NAME}."]
    assert holds(work) == notebook("version 2")


def test_a_copy_that_was_only_run_counts_as_unchanged(course):
    work = course[1]
    (work / NAME).write_text(notebook("version 1", output={"output_type": "stream"}), "utf-8")
    new_version(course)
    assert holds(work) == notebook("version 2")


@pytest.mark.parametrize("mine", [notebook("my answer"), "{ torn", "[]", "", "\x00\xff"])
def test_a_changed_copy_stays_and_the_new_version_stands_beside_it(course, mine):
    notebooks, work = course
    (work / NAME).write_text(mine, "utf-8")
    assert deliver(notebooks, work) == []
    (sentence,) = new_version(course)
    assert str(work / NAME) in sentence and "01_queries.new.ipynb" in sentence
    assert holds(work) == mine
    assert holds(work, "01_queries.new.ipynb") == notebook("version 2")
    assert deliver(notebooks, work) == []


def test_a_new_version_that_was_worked_in_stays_too(course):
    work = course[1]
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    new_version(course)
    (work / "01_queries.new.ipynb").write_text(notebook("my second answer"), "utf-8")
    for version in ("version 3", "version 4"):
        assert "01_queries.new2.ipynb" in new_version(course, version)[0]
        assert holds(work, "01_queries.new2.ipynb") == notebook(version)
    assert holds(work, "01_queries.new.ipynb") == notebook("my second answer")
    assert holds(work) == notebook("my answer")
    assert "01_queries.new3.ipynb" not in files(work)


def test_who_takes_the_new_version_over_gets_the_next_one_in_place(course):
    notebooks, work = course
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    new_version(course)
    (work / "01_queries.new.ipynb").replace(work / NAME)
    deliver(notebooks, work)
    new_version(course, "version 3")
    assert holds(work) == notebook("version 3")


def test_a_deleted_copy_comes_back_and_a_new_chapter_arrives(course):
    work = course[1]
    (work / NAME).unlink()
    new_version(course, "a new chapter", "03_scoring.ipynb")
    assert holds(work) == notebook("version 1")
    assert holds(work, "03_scoring.ipynb") == notebook("a new chapter")


@pytest.mark.parametrize("damage", [None, "{ torn", "[]", '{"01_queries.ipynb": 7}'])
def test_without_its_list_every_copy_counts_as_changed(course, damage):
    notebooks, work = course
    (work / DELIVERED).unlink()
    if damage is not None:
        (work / DELIVERED).write_text(damage, "utf-8")
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    assert len(new_version(course, name="02_pooling.ipynb")) == 2
    assert holds(work) == notebook("my answer")
    assert holds(work, "02_pooling.ipynb") == notebook("never touched")
    assert holds(work, "02_pooling.new.ipynb") == notebook("version 2")
    assert deliver(notebooks, work) == []


def test_a_copy_that_equals_the_original_needs_no_list(course):
    notebooks, work = course
    (work / DELIVERED).unlink()
    assert deliver(notebooks, work) == []
    assert files(work) == [DELIVERED, NAME, "02_pooling.ipynb"]


@pytest.mark.parametrize(
    "stray", ["Untitled", "01_queries-Copy1", "01_queries.new", "01_queries (1)", "1_x", "my_test"]
)
def test_only_chapters_are_delivered(course, stray):
    work = course[1]
    assert new_version(course, "a trial", f"{stray}.ipynb") == []
    assert files(work) == [DELIVERED, NAME, "02_pooling.ipynb"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_copy_that_an_editor_saved_with_a_bom_counts_as_unchanged(course, encoding):
    work = course[1]
    for path in (work / NAME, work / DELIVERED):
        path.write_text(path.read_text("utf-8"), encoding)
    new_version(course)
    assert holds(work) == notebook("version 2")


def test_other_files_of_the_student_are_left_alone(course):
    notebooks, work = course
    (work / "my_notes.ipynb").write_text("mine", "utf-8")
    (work / "data").mkdir()
    deliver(notebooks, work)
    assert holds(work, "my_notes.ipynb") == "mine" and (work / "data").is_dir()


def test_an_interruption_leaves_the_old_file_and_is_made_good(course, monkeypatch):
    notebooks, work = course
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")

    def interrupted(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            deliver(notebooks, work)
    assert holds(work) == notebook("version 1")
    deliver(notebooks, work)
    assert holds(work) == notebook("version 2")
    assert files(work) == [DELIVERED, NAME, "02_pooling.ipynb"]


def test_an_empty_folder_of_originals_is_a_named_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no notebooks in .*tmp"):
        deliver(tmp_path / "tmp", tmp_path / "work")


def test_the_fingerprint_sees_kind_and_text_of_every_cell(tmp_path):
    def of(*cells):
        path = tmp_path / "n.ipynb"
        path.write_text(
            json.dumps({"cells": [{"cell_type": k, "source": s} for k, s in cells]}), "utf-8"
        )
        return fingerprint(path)

    assert of(("code", "a\nb")) == of(("code", ["a\n", "b"]))
    different = {of(("code", "ab")), of(("markdown", "ab")), of()}
    different |= {of(("code", "a"), ("code", "b")), of(("code", "b"), ("code", "a"))}
    assert len(different) == 5
