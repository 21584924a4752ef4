"""Training: it learns, it stops and goes on as if it had not, on one process or on two."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import islice

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from d2l_attention.data import Pair, Vocab, data_loader, grammar, make_batch
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from d2l_attention.training import MODELS, __main__, loop, train
from d2l_attention.training.checkpoints import (
    FORMAT,
    StopRequest,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from d2l_attention.training.evaluation import translate
from d2l_attention.training.loop import validation_loss
from d2l_attention.training.metrics import align_by_attention, alignment_error_rate
from d2l_attention.training.sharing import batches, share

PAIRS = grammar.corpus(23)  # prime: the last batch is never full
SRC = Vocab(pair.source for pair in PAIRS)
TGT = Vocab(pair.target for pair in PAIRS)
ALONE = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # one thread, and no GPU


def model_of(dropout=0.0, hidden=7):
    torch.manual_seed(1)
    sizes = (5, hidden, 2, dropout)
    return EncoderDecoder(
        Seq2SeqEncoder(len(SRC), *sizes), Seq2SeqAttentionDecoder(len(TGT), *sizes)
    )


def model_named(name, hidden=8):
    torch.manual_seed(1)
    return MODELS[name](len(SRC), len(TGT), hidden)


def train_on(model, pairs=PAIRS, **options):
    options = {"batch_size": 5, "steps": 7, "check_every": 3} | options
    return train(model, pairs, SRC, TGT, **options)


def stop_after(step):
    def on_step(history):
        if history.step == step:
            raise KeyboardInterrupt

    return on_step


class TestLearning:
    def test_a_tiny_corpus_by_heart_with_its_alignments(self, tmp_path):
        pairs = PAIRS[:11]
        model = model_named("bahdanau", 32)
        history = train_on(
            model, pairs, steps=120, lr=0.04, guidance=0.5, valid=pairs, check_every=40
        )
        assert history.losses[0] > 3 and history.losses[-1] < 0.05
        assert [step for step, _ in history.valid] == [40, 80, 120]
        assert translate(model, [pair.source for pair in pairs], SRC, TGT) == [
            list(pair.target) for pair in pairs
        ]
        batch = make_batch(pairs, SRC, TGT)
        _, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
        found = [
            align_by_attention(weight, len(pair.source), len(pair.target))
            for weight, pair in zip(weights, pairs, strict=True)
        ]
        sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
        assert alignment_error_rate(found, sure, possible) < 0.1

    def test_the_model_without_attention(self):
        model = model_named("seq2seq", 16)
        history = train_on(model, steps=120, lr=0.04)
        assert history.losses[-1] < history.losses[0] / 2

    def test_first_step_by_hand(self):
        """One batch of everything: loss, clipped gradient and Adam's first step."""
        trained, model, norms = model_of(), model_of(), []

        def gradient_norm(history):
            gradients = [parameter.grad.flatten() for parameter in trained.parameters()]
            norms.append(torch.cat(gradients).norm().item())

        history = train_on(
            trained, batch_size=23, steps=1, lr=0.01, clip=0.1, on_step=gradient_norm
        )
        batch = make_batch(PAIRS, SRC, TGT)
        logits = model(batch.src, batch.tgt_in, batch.src_lens)
        loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens)
        assert history.losses == [pytest.approx(loss.item(), rel=1e-6)]
        assert history.tokens == sum(len(pair.target) + 1 for pair in PAIRS)
        assert norms == [pytest.approx(0.1, rel=1e-4)]
        loss.backward()
        moved = trained.decoder.dense.bias - model.decoder.dense.bias
        # Adam's first step is the learning rate against the gradient's sign, near enough.
        large = model.decoder.dense.bias.grad.abs() > 1e-3
        assert large.any()
        assert_close(
            moved[large], -0.01 * model.decoder.dense.bias.grad.sign()[large], atol=1e-5, rtol=0
        )

    def test_the_learning_rate_falls_in_a_straight_line(self, monkeypatch):
        used, step = [], torch.optim.Adam.step

        def note(optimizer, *arguments):
            used.append(optimizer.param_groups[0]["lr"])
            return step(optimizer, *arguments)

        monkeypatch.setattr(torch.optim.Adam, "step", note)
        train_on(model_of(), steps=4, lr=0.02)
        assert used == pytest.approx([0.02, 0.015, 0.01, 0.005])

    def test_validation_counts_tokens_not_batches(self):
        from accelerate import Accelerator

        model, accelerator = model_of().eval(), Accelerator(cpu=True)
        batch = make_batch(PAIRS, SRC, TGT)
        logits = model(batch.src, batch.tgt_in, batch.src_lens)
        expected = sequence_loss(logits, batch.tgt_out, batch.tgt_lens).item()
        for batch_size in (1, 5, 23):
            found = validation_loss(model, PAIRS, SRC, TGT, batch_size, accelerator)
            assert found == pytest.approx(expected, rel=1e-5)

    def test_leaves_the_random_numbers_as_they_were(self):
        torch.manual_seed(5)
        expected = torch.rand(3)
        model = model_of(dropout=0.3)
        torch.manual_seed(5)
        train_on(model, steps=2)
        assert torch.equal(torch.rand(3), expected)
        assert not model.training

    def test_leaves_the_generators_of_other_devices_alone(self, monkeypatch):
        """``torch.manual_seed`` would seed every device, and nobody gives these back."""
        model, seeded = model_of(dropout=0.3), []
        monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
        monkeypatch.setattr(torch.mps, "manual_seed", seeded.append)
        assert train_on(model, steps=2).step == 2
        assert seeded == []

    @pytest.mark.parametrize("name", sorted(MODELS))
    def test_bfloat16(self, name):
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)  # one precision a process
        try:
            accelerator = Accelerator(cpu=True, mixed_precision="bf16")
            low = train_on(model_named(name), accelerator=accelerator)
        finally:
            AcceleratorState._reset_state(reset_partial_state=True)
        full = train_on(model_named(name))
        assert low.losses != full.losses
        assert_close(torch.tensor(low.losses), torch.tensor(full.losses), atol=0.05, rtol=0.05)


class TestStoppingAndGoingOn:
    @pytest.mark.parametrize("stop", [1, 3, 5], ids=["mid-epoch", "at a check", "end of epoch"])
    def test_as_if_it_had_never_stopped(self, tmp_path, stop):
        whole, halves = model_of(dropout=0.3), model_of(dropout=0.3)
        options = {"steps": 12, "guidance": 0.1, "valid": PAIRS[:7]}
        expected = train_on(whole, **options)
        sentence = f"Stopped after step {stop} of 12. All is saved in .*last.pt.*resume"
        with pytest.raises(KeyboardInterrupt, match=sentence):
            train_on(halves, folder=tmp_path, on_step=stop_after(stop), **options)
        other = model_of(dropout=0.3)
        nn.init.zeros_(other.decoder.dense.weight)
        history = train_on(other, folder=tmp_path, resume=True, **options)
        assert history.losses == expected.losses  # to the last bit
        assert history.valid == expected.valid
        assert all(
            torch.equal(mine, yours)
            for mine, yours in zip(whole.parameters(), other.parameters(), strict=True)
        )

    def test_more_steps_later(self, tmp_path):
        model = model_of()
        four = train_on(model, steps=4, folder=tmp_path)
        nine = train_on(model, steps=9, folder=tmp_path, resume=True)
        assert nine.losses[:4] == four.losses and len(nine.losses) == 9
        # All nine are done: nothing is left to do.
        assert train_on(model, steps=9, folder=tmp_path, resume=True).losses == nine.losses

    def test_says_which_settings_are_new(self, tmp_path, capsys):
        model, options = model_of(), {"steps": 7, "folder": tmp_path}
        with pytest.raises(KeyboardInterrupt):
            train_on(model, lr=0.02, clip=0.5, on_step=stop_after(2), **options)
        with pytest.raises(KeyboardInterrupt):
            train_on(model, lr=0.02, clip=0.5, on_step=stop_after(4), resume=True, **options)
        assert capsys.readouterr().out == ""
        train_on(model, lr=0.01, clip=0.5, guidance=0.25, resume=True, **options)
        assert capsys.readouterr().out == (
            "From here on lr is 0.01, before it was 0.02.\n"
            "From here on guidance is 0.25, before it was 0.0.\n"
        )

    def test_keeps_the_best(self, tmp_path):
        model = model_of()

        def spoil(history):
            if history.step == 9:
                model.decoder.dense.bias.data[0] += 50

        history = train_on(
            model, steps=12, check_every=2, valid=PAIRS, folder=tmp_path, on_step=spoil
        )
        best, last = load_checkpoint(tmp_path / "best.pt"), load_checkpoint(tmp_path / "last.pt")
        assert last["history"]["losses"] == history.losses
        assert best["history"]["valid"][-1][1] == history.best < history.valid[-1][1]
        from accelerate import Accelerator

        model = model_of()
        load_weights(model, tmp_path / "best.pt")
        found = validation_loss(model, PAIRS, SRC, TGT, 5, Accelerator(cpu=True))
        assert found == pytest.approx(history.best, rel=1e-6)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "best.pt",
            "last.pt",
            "source.json",
            "target.json",
        ]
        assert Vocab.load(tmp_path / "target.json").idx_to_token == TGT.idx_to_token

    def test_ctrl_c_waits_for_the_end_of_the_step(self, tmp_path):
        def press(history):
            if history.step == 2:
                os.kill(os.getpid(), signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="Stopped after step 2 of 7"):
            train_on(model_of(), folder=tmp_path, on_step=press)
        assert len(load_checkpoint(tmp_path / "last.pt")["history"]["losses"]) == 2
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_second_ctrl_c_acts_at_once(self):
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.asked
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)

    def test_ctrl_c_in_the_last_step(self, tmp_path):
        with pytest.raises(KeyboardInterrupt) as stopped:
            train_on(model_of(), folder=tmp_path, on_step=stop_after(7))
        last = tmp_path / "last.pt"
        assert str(stopped.value) == f"All 7 steps were done. All is saved in {last}."
        assert len(load_checkpoint(last)["history"]["losses"]) == 7

    def test_says_when_nothing_is_saved(self):
        with pytest.raises(KeyboardInterrupt, match="Nothing is saved"):
            train_on(model_of(), on_step=stop_after(2))

    def test_a_loss_that_is_no_number(self, tmp_path):
        model = model_of()

        def spoil(history):
            if history.step == 4:
                model.decoder.dense.bias.data[3] = math.nan

        sentence = r"loss became nan at step 5\. Try a learning rate below 0\.01.*last\.pt"
        with pytest.raises(FloatingPointError, match=sentence):
            train_on(model, folder=tmp_path, on_step=spoil)
        saved = load_checkpoint(tmp_path / "last.pt")
        assert len(saved["history"]["losses"]) == 3
        assert all(tensor.isfinite().all() for tensor in saved["model"].values())

    def test_a_gradient_that_is_no_number(self):
        model = model_of()
        before = model.decoder.dense.weight.detach().clone()
        model.decoder.dense.bias.register_hook(lambda gradient: gradient * math.inf)
        with pytest.raises(FloatingPointError, match="gradient became (nan|inf) at step 1"):
            train_on(model)
        assert torch.equal(model.decoder.dense.weight, before)


class TestCheckpoints:
    @pytest.fixture
    def path(self, tmp_path):
        train_on(model_of(), steps=2, folder=tmp_path)
        return tmp_path / "last.pt"

    @pytest.mark.parametrize("damage", ["cut", "byte", "empty", "text"])
    def test_damaged(self, path, damage):
        content = bytearray(path.read_bytes())
        if damage == "byte":
            content[len(content) // 2] ^= 1
        damaged = {"cut": content[: len(content) // 2], "byte": content, "empty": b""}
        path.write_bytes(damaged.get(damage, b"To be, or not to be"))
        model = model_of()
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with pytest.raises(ValueError, match=r"last\.pt is damaged, or no checkpoint"):
            train_on(model, folder=path.parent, resume=True)
        assert_close(model.state_dict(), before, atol=0, rtol=0)

    def test_runs_no_code_from_the_file(self, path):
        marker = path.with_name("marker")

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(marker),)

        torch.save({"format": FORMAT, "model": Evil()}, path)
        with pytest.raises(ValueError, match=r"last\.pt is damaged, or no checkpoint"):
            load_checkpoint(path)
        assert not marker.exists()

    def test_foreign(self, path):
        torch.save({"model": model_of().state_dict()}, path)
        with pytest.raises(ValueError, match=r"last\.pt holds something else"):
            load_checkpoint(path)

    def test_another_model(self, path):
        model = model_of(hidden=11)
        with pytest.raises(ValueError, match=r"last\.pt holds another model: .* got \("):
            train_on(model, folder=path.parent, resume=True)
        with pytest.raises(ValueError, match="holds another model"):
            load_weights(model, path)

    @pytest.mark.parametrize("option", [{"seed": 1}, {"batch_size": 4}, {"pairs": PAIRS[:22]}])
    def test_another_order_of_the_data(self, path, option):
        with pytest.raises(ValueError, match=r"last\.pt was trained with (seed|batch_size|sent)"):
            train_on(model_of(), folder=path.parent, resume=True, **option)

    def test_no_run_is_written_over(self, path):
        with pytest.raises(ValueError, match="there is a run in .* already"):
            train_on(model_of(), folder=path.parent)

    def test_what_breaks_while_writing_leaves_the_old_file(self, path, monkeypatch):
        old = path.read_bytes()

        def full(*_):
            raise OSError("No space left on device")

        monkeypatch.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(path, {})
        assert path.read_bytes() == old
        assert not list(path.parent.glob(".last*"))

    def test_a_run_that_ended_before_its_first_checkpoint_begins_again(self, tmp_path, capsys):
        resumed = train_on(model_of(), folder=tmp_path / "run", resume=True)
        said = capsys.readouterr().out
        last = tmp_path / "run" / "last.pt"
        assert said == f"There is no {last} yet: training begins at the beginning.\n"
        assert resumed.losses == train_on(model_of()).losses
        train_on(model_of(), folder=tmp_path / "run", resume=True)
        assert capsys.readouterr().out == ""

    def test_resume_needs_a_folder(self):
        with pytest.raises(ValueError, match="resume needs the folder"):
            train_on(model_of(), resume=True)


@pytest.mark.parametrize("name", ["steps", "lr", "clip", "check_every"])
def test_arguments(name):
    with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
        train_on(model_of(), **{name: 0})


def test_guidance_needs_weights_and_alignments():
    with pytest.raises(ValueError, match="guidance must be 0 or more, got -1"):
        train_on(model_of(), guidance=-1)
    with pytest.raises(ValueError, match="Seq2SeqDecoder has none"):
        train_on(model_named("seq2seq"), guidance=0.1)
    unaligned = [Pair(pair.source, pair.targets) for pair in PAIRS]
    with pytest.raises(ValueError, match="known alignments"):
        train_on(model_of(), unaligned, guidance=0.1)


def test_a_bar_for_whoever_watches(capsys, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)  # pytest started from a notebook
    train_on(model_of(), steps=2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(loop, "tqdm", partial(loop.tqdm, mininterval=0))
    train_on(model_of(), steps=2, progress=True)
    bar = capsys.readouterr().err
    assert "2/2" in bar and "loss=" in bar and "tokens_per_s=" in bar


def test_batches_go_on_where_they_stopped():
    order = torch.Generator()
    loader = data_loader(PAIRS, SRC, TGT, 5, generator=order)
    eleven = [batch.src.tolist() for batch in islice(batches(loader, order, 3, 0), 11)]
    assert [len(batch) for batch in eleven[:5]] == [5, 5, 5, 5, 3]
    assert eleven[:5] != eleven[5:10]
    for done in (1, 4, 5, 6):
        rest = [batch.src.tolist() for batch in islice(batches(loader, order, 3, done), 11 - done)]
        assert rest == eleven[done:]


class Process:
    """What ``share`` reads of an accelerator."""

    def __init__(self, process_index, num_processes):
        self.process_index, self.num_processes = process_index, num_processes


def test_processes_share_every_row():
    def collate(rows):
        return make_batch(rows, SRC, TGT)

    shares = [share(Process(index, 3), collate, PAIRS[:5]) for index in range(3)]
    assert [len(batch.src) for batch in shares] == [2, 2, 1]
    assert sum(batch.tgt_lens.sum() for batch in shares) == collate(PAIRS[:5]).tgt_lens.sum()
    idle = share(Process(2, 3), collate, PAIRS[:2])
    assert len(idle.src) == 1 and idle.tgt_lens.sum() == 0 and not idle.links.any()


TWO = """
import sys, torch
from accelerate import Accelerator
sys.path.insert(0, {tests!r})
import test_training as t

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
        text=True,
        env=os.environ | ALONE,
        start_new_session=True,
    )
    try:
        stdout, stderr = launcher.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
    assert launcher.returncode == 0, stderr[-3000:]
    return stdout


def test_two_processes_give_the_gradients_of_one(tmp_path):
    script = tmp_path / "two.py"
    out, folder = str(tmp_path / "result"), str(tmp_path / "run")
    script.write_text(TWO.format(tests=os.path.dirname(__file__), out=out, folder=folder))
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


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_command_line(tmp_path, name):
    command = [sys.executable, "-m", "d2l_attention.training", "--model", name, "--steps", "3"]
    command += ["--num-hiddens", "8", "--batch-size", "16", "--out", str(tmp_path / "run")]
    command += ["--check-every", "2", "--resume"]  # there is nothing to resume yet
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=os.environ | ALONE
    )
    assert done.returncode == 0, done.stderr
    assert "8,000 source sentences" in done.stdout and f"{name} on 1 x cpu" in done.stdout
    assert "training begins at the beginning" in done.stdout
    assert "step 2: loss " in done.stdout and "step 3: loss " in done.stdout
    assert "test          BLEU" in done.stdout and "compositional BLEU" in done.stdout
    assert "alignment error rate" in done.stdout
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


def test_what_needs_accelerate_is_imported_by_name():
    code = "import sys, d2l_attention.training, d2l_attention.models.seq2seq; "
    code += "print('accelerate' in sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.stdout == "False\n"
