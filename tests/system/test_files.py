"""The one writer of files: all or nothing, with the user's own rights."""

import os
import stat

import pytest

from d2l_attention.system import files
from d2l_attention.system.files import write_whole, writing


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_text_and_bytes_arrive_as_they_are_and_folders_are_made(tmp_path):
    path = tmp_path / "né w" / "ü.txt"
    write_whole(path, "première\nligne")
    assert path.read_bytes() == "première\nligne".encode()
    write_whole(path, b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["ü.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_who_is_interrupted_finds_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "kept"
    write_whole(path, "old")
    with pytest.raises(error), writing(path) as file:
        file.write(b"ne")
        raise error
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask to speak of")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o007])
def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "new", "")
    finally:
        os.umask(before)
    assert rights(tmp_path / "new") == 0o666 & ~umask


@pytest.mark.skipif(os.name == "nt", reason="Windows knows only read-only")
def test_an_old_file_keeps_its_rights(tmp_path):
    path = tmp_path / "old"
    path.touch()
    path.chmod(0o640)
    write_whole(path, "new")
    assert (path.read_text("utf-8"), rights(path)) == ("new", 0o640)


def test_on_windows_it_waits_for_whoever_reads_the_file(tmp_path, monkeypatch):
    tries = []

    def replace(new, old):
        tries.append(1)
        if len(tries) < 3:
            raise PermissionError("in use")
        os.rename(new, old)

    monkeypatch.setattr(files, "os", _like_windows(replace))
    write_whole(tmp_path / "read", "new")
    assert len(tries) == 3
    assert (tmp_path / "read").read_text("utf-8") == "new"


def test_a_file_that_may_not_be_replaced_is_an_error_and_stays(tmp_path, monkeypatch):
    def replace(new, old):
        raise PermissionError("in use")

    (tmp_path / "read").write_text("old", "utf-8")
    monkeypatch.setattr(files, "os", _like_windows(replace))
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "read", "new")
    assert [entry.read_text("utf-8") for entry in tmp_path.iterdir()] == ["old"]


def _like_windows(replace):
    class Windows:
        name, fsync = "nt", staticmethod(os.fsync)

    Windows.replace = staticmethod(replace)
    return Windows
