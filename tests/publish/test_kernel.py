"""Where and with what the chapters' cells are run."""

import tempfile
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_notebook

from notebooks.publish.kernel import run_cells


@pytest.mark.parametrize("fails", [False, True])
def test_the_authors_progress_is_left_alone_and_nothing_is_left_behind(
    fails, monkeypatch, tmp_path
):
    seen = {}

    def execute(client, env):
        seen.update(env, path=client.resources["metadata"]["path"])
        assert Path(env["D2L_ATTENTION_PROGRESS"]).parent.is_dir()
        if fails:
            raise RuntimeError("a cell")

    monkeypatch.setattr(NotebookClient, "execute", execute)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        run_cells(new_notebook(), Path("somewhere"), MORE="1")
    except RuntimeError:
        assert fails
    assert seen["D2L_ATTENTION_PROGRESS"].startswith(str(tmp_path))
    assert (seen["path"], seen["OMP_NUM_THREADS"], seen["MORE"]) == ("somewhere", "1", "1")
    assert list(tmp_path.iterdir()) == []
