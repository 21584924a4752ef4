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
    assert (work / NAME).read_text("utf-8") == notebook("version 2")


def test_nothing_new_changes_nothing_and_says_nothing(course):
    notebooks, work = course
    before = {name: (work / name).read_bytes() for name in files(work)}
    assert deliver(notebooks, work) == []
    assert {name: (work / name).read_bytes() for name in files(work)} == before


def test_an_unchanged_copy_is_replaced(course):
    notebooks, work = course
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    assert deliver(notebooks, work) == [f"New versions in {work}: {NAME}."]
    assert (work / NAME).read_text("utf-8") == notebook("version 2")


def test_a_copy_that_was_only_run_counts_as_unchanged(course):
    notebooks, work = course
    (work / NAME).write_text(notebook("version 1", output={"output_type": "stream"}), "utf-8")
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 2")


@pytest.mark.parametrize("mine", [notebook("my answer"), "{ torn", "[]", "", "\x00\xff"])
def test_a_changed_copy_stays_and_the_new_version_stands_beside_it(course, mine):
    notebooks, work = course
    (work / NAME).write_text(mine, "utf-8")
    assert deliver(notebooks, work) == []
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    (sentence,) = deliver(notebooks, work)
    assert str(work / NAME) in sentence and "01_queries.new.ipynb" in sentence
    assert (work / NAME).read_text("utf-8") == mine
    assert (work / "01_queries.new.ipynb").read_text("utf-8") == notebook("version 2")
    assert deliver(notebooks, work) == []


def test_a_new_version_that_was_worked_in_stays_too(course):
    notebooks, work = course
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    deliver(notebooks, work)
    (work / "01_queries.new.ipynb").write_text(notebook("my second answer"), "utf-8")
    for version in ("version 3", "version 4"):
        (notebooks / NAME).write_text(notebook(version), "utf-8")
        assert "01_queries.new2.ipynb" in deliver(notebooks, work)[0]
        assert (work / "01_queries.new2.ipynb").read_text("utf-8") == notebook(version)
    assert (work / "01_queries.new.ipynb").read_text("utf-8") == notebook("my second answer")
    assert (work / NAME).read_text("utf-8") == notebook("my answer")
    assert "01_queries.new3.ipynb" not in files(work)


def test_who_takes_the_new_version_over_gets_the_next_one_in_place(course):
    notebooks, work = course
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    deliver(notebooks, work)
    (work / "01_queries.new.ipynb").replace(work / NAME)
    deliver(notebooks, work)
    (notebooks / NAME).write_text(notebook("version 3"), "utf-8")
    deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 3")


def test_a_deleted_copy_comes_back_and_a_new_chapter_arrives(course):
    notebooks, work = course
    (work / NAME).unlink()
    (notebooks / "03_scoring.ipynb").write_text(notebook("a new chapter"), "utf-8")
    deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 1")
    assert (work / "03_scoring.ipynb").read_text("utf-8") == notebook("a new chapter")


@pytest.mark.parametrize("damage", [None, "{ torn", "[]", '{"01_queries.ipynb": 7}'])
def test_without_its_list_every_copy_counts_as_changed(course, damage):
    notebooks, work = course
    (work / DELIVERED).unlink()
    if damage is not None:
        (work / DELIVERED).write_text(damage, "utf-8")
    (work / NAME).write_text(notebook("my answer"), "utf-8")
    (notebooks / "02_pooling.ipynb").write_text(notebook("version 2"), "utf-8")
    assert len(deliver(notebooks, work)) == 2
    assert (work / NAME).read_text("utf-8") == notebook("my answer")
    assert (work / "02_pooling.ipynb").read_text("utf-8") == notebook("never touched")
    assert (work / "02_pooling.new.ipynb").read_text("utf-8") == notebook("version 2")
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
    notebooks, work = course
    (notebooks / f"{stray}.ipynb").write_text(notebook("a trial"), "utf-8")
    assert deliver(notebooks, work) == []
    assert files(work) == [DELIVERED, NAME, "02_pooling.ipynb"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_copy_that_an_editor_saved_with_a_bom_counts_as_unchanged(course, encoding):
    notebooks, work = course
    for path in (work / NAME, work / DELIVERED):
        path.write_text(path.read_text("utf-8"), encoding)
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")
    deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 2")


def test_other_files_of_the_student_are_left_alone(course):
    notebooks, work = course
    (work / "my_notes.ipynb").write_text("mine", "utf-8")
    (work / "data").mkdir()
    deliver(notebooks, work)
    assert (work / "my_notes.ipynb").read_text("utf-8") == "mine" and (work / "data").is_dir()


def test_an_interruption_leaves_the_old_file_and_is_made_good(course, monkeypatch):
    notebooks, work = course
    (notebooks / NAME).write_text(notebook("version 2"), "utf-8")

    def interrupted(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 1")
    deliver(notebooks, work)
    assert (work / NAME).read_text("utf-8") == notebook("version 2")
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
    different = {
        of(("code", "ab")),
        of(("markdown", "ab")),
        of(("code", "a"), ("code", "b")),
        of(("code", "b"), ("code", "a")),
        of(),
    }
    assert len(different) == 5
