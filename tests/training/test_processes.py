"""Training in processes of its own: two that share the work, and the command line."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest
import torch
from tiny import PAIRS, model_of, train_on
from torch.testing import assert_close

from d2l_attention.training import __main__

ALONE = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # one thread, and no GPU

TWO = """
import sys, torch
from accelerate import Accelerator
sys.path.insert(0, {tests!r})
import tiny as t

accelerator = Accelerator(cpu=True)
model, seen = t.model_of(), []

def on_step(history):
    seen.append([parameter.grad.clone() for parameter in model.parameters()])

history = t.train_on(
    model, batch_size=11, steps=3, guidance=0.3, clip=1e9, valid=t.PAIRS[:7], check_every=2,
    on_step=on_step, accelerator=accelerator,
)
result = dict(
    gradients=seen, losses=history.losses, valid=history.valid, tokens=history.tokens,
    processes=accelerator.num_processes,
)
torch.save(result, {out!r} + str(accelerator.process_index))

# The second process alone is asked to stop: both do, after the same step.
def stop(history):
    if accelerator.process_index == 1 and history.step == 2:
        raise KeyboardInterrupt

try:
    t.train_on(t.model_of(), folder={folder!r}, on_step=stop, accelerator=accelerator)
except KeyboardInterrupt as stopped:
    print(stopped, flush=True)
accelerator.end_training()
"""


def launch(script, timeout=900):
    """Run the script in two processes; none is left where they wait for each other for ever."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", "2", "--main_process_port", "0", str(script)]
    launcher = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | ALONE,
    )
    family = psutil.Process(launcher.pid)
    try:
        stdout, stderr = launcher.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*family.children(recursive=True), family]:
                process.kill()
    assert launcher.returncode == 0, stderr[-3000:]
    return stdout


def test_two_processes_give_the_gradients_of_one(tmp_path):
    script = tmp_path / "two.py"
    out, folder = str(tmp_path / "result"), str(tmp_path / "run")
    filled = TWO.format(tests=os.path.dirname(__file__), out=out, folder=folder)
    script.write_text(filled, "utf-8")
    stdout = launch(script)

    model, gradients = model_of(), []
    options = {"batch_size": 11, "steps": 3, "guidance": 0.3, "clip": 1e9, "check_every": 2}
    history = train_on(
        model,
        valid=PAIRS[:7],
        on_step=lambda _: gradients.append([p.grad.clone() for p in model.parameters()]),
        **options,
    )
    for process in "01":  # the third batch has one row: the second process has none of it
        two = torch.load(out + process)
        assert two["processes"] == 2
        assert two["tokens"] == history.tokens
        assert_close(two["losses"], history.losses, atol=1e-5, rtol=1e-5)
        assert_close(two["valid"], history.valid, atol=1e-5, rtol=1e-5)
        assert_close(two["gradients"], gradients, atol=1e-6, rtol=1e-4)
    assert stdout.count("Stopped after step 2 of 7") == 2
    # Two processes stopped; one goes on.
    resumed = train_on(model_of(), folder=folder, resume=True)
    assert_close(resumed.losses, train_on(model_of()).losses, atol=1e-5, rtol=1e-5)


def test_command_line(tmp_path):
    """On a file from Tatoeba, whose words all come twice."""
    lines = [f"Go {a} {b}!\tVa {a} {b} !\n" for a in "abcdefg" for b in "hijklm"]
    (tmp_path / "fra.txt").write_text("".join(lines), "utf-8")
    command = [sys.executable, "-m", "d2l_attention.training", "--steps", "3"]
    command += ["--data", str(tmp_path / "fra.txt"), "--out", str(tmp_path / "run")]
    command += ["--num-hiddens", "8", "--batch-size", "16"]
    command += ["--check-every", "2", "--resume"]  # there is nothing to resume yet
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=900, env=os.environ | ALONE
    )
    assert done.returncode == 0, done.stderr
    assert "38 source sentences" in done.stdout and "bahdanau on 1 x cpu" in done.stdout
    assert "training begins at the beginning" in done.stdout
    assert "step 2: loss " in done.stdout and "step 3: loss " in done.stdout
    assert "test          BLEU" in done.stdout and "compositional" not in done.stdout
    assert done.stderr == ""  # no bar where nobody watches


@pytest.mark.parametrize(
    "error, code",
    [(ValueError("no such thing"), "no such thing"), (KeyboardInterrupt("Stopped"), 130)],
)
def test_command_line_answers_in_a_sentence(monkeypatch, error, code):
    def run(options):
        raise error

    monkeypatch.setattr(__main__, "run", run)
    monkeypatch.setattr(sys, "argv", ["training"])
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == code
