"""``python -m notebooks.publish.slides``: decks made side by side, and stopped in the middle."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

SECONDS = 600  # ends what hangs
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(folder, *numbers):
    command = [sys.executable, "-m", "notebooks.publish.slides", "--out", str(folder), *numbers]
    return subprocess.Popen(
        command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_two_decks_are_written_side_by_side(tmp_path):
    process = start(tmp_path, "00", "06")
    parent, most = psutil.Process(process.pid), 0
    while process.poll() is None:
        most = max(most, len(parent.children()))  # one that ended is there until it was waited for
        time.sleep(0.02)
    out, errors = process.communicate()
    assert (process.returncode, errors, most) == (0, "", 2)
    said = [re.sub(r"\d+(\.\d)?", "#", line[2:]) for line in out.splitlines()]
    assert sorted(said) == [
        "_multi_head_attention: # slides, # MB, # s",
        "_start_here: # slides, # MB, # s",
    ]
    assert sorted(file.stem[:2] for file in tmp_path.glob("*.html")) == ["00", "06"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_a_stop_ends_every_process_and_leaves_old_decks_alone(tmp_path, sent):
    old = tmp_path / "01_queries_keys_values.html"
    old.write_text("old")
    os.utime(old, (0, 0))
    process = start(tmp_path, "01", "02", "04")  # all three have frames to draw, in a kernel
    parent = psutil.Process(process.pid)
    wait_for(lambda: len(parent.children(recursive=True)) >= 3)  # a kernel is there
    children = parent.children(recursive=True)
    process.send_signal(sent)
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert (out, errors) == ("", "Stopped: the decks that were not finished stay as they were.\n")
    wait_for(lambda: not any(map(is_alive, children)))
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
