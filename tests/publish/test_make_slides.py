"""``python -m notebooks.publish.slides``: decks made side by side, and stopped in the middle."""

import os
import re
import subprocess
import sys
import time

import psutil

SECONDS = 600  # ends what hangs
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
# Windows has one signal that can be sent to a process: its end.
AS_ON_WINDOWS = """
import runpy, signal, subprocess

def send_signal(process, sent, as_it_is=subprocess.Popen.send_signal):
    if sent != signal.SIGTERM:
        raise ValueError(f"Unsupported signal: {sent}")
    as_it_is(process, sent)

subprocess.Popen.send_signal = send_signal
runpy.run_module("notebooks.publish.slides", run_name="__main__", alter_sys=True)
"""


def start(folder, *numbers, python=("-m", "notebooks.publish.slides")):
    command = [sys.executable, *python, "--out", str(folder), *numbers]
    return subprocess.Popen(
        command,
        env=ENVIRONMENT,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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


def test_a_stop_ends_every_process_and_leaves_old_decks_alone(tmp_path):
    old = tmp_path / "01_queries_keys_values.html"
    old.write_text("old", "utf-8")
    os.utime(old, (0, 0))
    # All three have frames to draw, in a kernel.
    process = start(tmp_path, "01", "02", "04", python=["-c", AS_ON_WINDOWS])
    parent = psutil.Process(process.pid)
    wait_for(lambda: len(parent.children(recursive=True)) >= 3)  # a kernel is there
    children = parent.children(recursive=True)
    process.terminate()  # Ctrl-C has the same handler
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert (out, errors) == ("", "Stopped: the decks that were not finished stay as they were.\n")
    wait_for(lambda: not any(map(is_alive, children)))
    assert old.read_text("utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
