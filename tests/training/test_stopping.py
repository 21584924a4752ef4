"""Training stops and goes on as if it had not; its checkpoints are whole or refused."""

import math
import os
import signal
import time

import numpy as np
import pytest
import torch
from tiny import PAIRS, SRC, TGT, model_of, stop_after, train_on
from torch import nn
from torch.testing import assert_close

from d2l_attention.data import Vocab
from d2l_attention.training import History, loop, train
from d2l_attention.training.checkpoints import (
    FORMAT,
    StopRequest,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from d2l_attention.training.loop import validation_loss


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

    def test_a_loss_that_is_no_number_is_never_the_best(self, tmp_path, monkeypatch):
        losses = iter([math.nan, 0.5, 0.75])
        monkeypatch.setattr(loop, "validation_loss", lambda *_: next(losses))
        history = train_on(model_of(), steps=3, check_every=1, valid=PAIRS, folder=tmp_path)
        assert load_checkpoint(tmp_path / "best.pt")["history"]["valid"][1:] == [[2, 0.5]]
        assert history.best == 0.5

    def test_numbers_of_numpy_are_numbers(self, tmp_path):
        plain = {"steps": 4, "lr": 0.5**7, "clip": 0.5, "guidance": 0.25, "seed": 3}
        plain |= {"batch_size": 2, "check_every": 2}
        whole = {"steps", "seed", "batch_size", "check_every"}
        numpys = {k: np.int64(v) if k in whole else np.float64(v) for k, v in plain.items()}
        numpys["guidance"] = np.float32(0.25)
        expected = train_on(model_of(), **plain)
        assert train_on(model_of(), folder=tmp_path, **numpys).losses == expected.losses
        load_weights(model_of(), tmp_path / "last.pt")
        resumed = train_on(model_of(), folder=tmp_path, resume=True, **numpys)
        assert resumed.losses == expected.losses

    def test_ctrl_c_waits_for_the_end_of_the_step(self, tmp_path):
        def press(history):
            if history.step == 2:
                signal.raise_signal(signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="Stopped after step 2 of 7"):
            train_on(model_of(), folder=tmp_path, on_step=press)
        assert len(load_checkpoint(tmp_path / "last.pt")["history"]["losses"]) == 2
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_second_ctrl_c_acts_at_once(self):
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.asked
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
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

    @pytest.mark.parametrize(("name", "entry"), [("epoch", 3), (7, 3), ("decoder.dense.bias", "x")])
    def test_entries_that_are_no_tensors(self, path, name, entry):
        model, state = model_of(), torch.load(path)
        before = [X.clone() for X in model.state_dict().values()]
        weights = {key: X + 1 for key, X in state["model"].items()}
        torch.save(state | {"model": weights | {name: entry}}, path)
        said = f"another model: {name} should .* got {type(entry).__name__}"
        with pytest.raises(ValueError, match=said):
            load_weights(model, path)
        assert all(map(torch.equal, model.state_dict().values(), before))

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_other_words_under_the_same_numbers(self, path, side):
        """As many sentences, vocabularies of the same size, and every word another."""
        file = path.with_name(f"{side}.json")
        last, words = path.read_bytes(), file.read_bytes()
        vocabs = {"source": SRC, "target": TGT}
        vocabs[side] = Vocab([[f"{token}?" for token in vocabs[side].idx_to_token[4:]]])
        assert len(vocabs[side]) == len(Vocab.load(file))
        with pytest.raises(ValueError, match=rf"{side}\.json is of another run, .* token 4 is '"):
            train(
                model_of(),
                PAIRS,
                *vocabs.values(),
                steps=7,
                batch_size=5,
                folder=path.parent,
                resume=True,
            )
        assert path.read_bytes() == last and file.read_bytes() == words

    @pytest.mark.parametrize("option", [{"seed": 1}, {"batch_size": 4}, {"pairs": PAIRS[:22]}])
    def test_another_order_of_the_data(self, path, option):
        with pytest.raises(ValueError, match=r"last\.pt was trained with (seed|batch_size|sent)"):
            train_on(model_of(), folder=path.parent, resume=True, **option)

    def test_no_run_is_written_over(self, path):
        with pytest.raises(ValueError, match="there is a run in .* already"):
            train_on(model_of(), folder=path.parent)

    @pytest.mark.parametrize("odd", [np.float64(1), np.ones(2), lambda: 1, {1: [Vocab([])]}])
    def test_what_nobody_could_load_is_not_written(self, path, odd):
        old = path.read_bytes()
        with pytest.raises(ValueError, match=r"nobody could load what is in \['odd'\]"):
            save_checkpoint(path, {"fine": torch.ones(2), "odd": odd})
        with pytest.raises(ValueError, match=r"content\['format'\] must be 'd2l_.*, got 'mine'"):
            save_checkpoint(path, {"format": "mine"})
        assert path.read_bytes() == old
        save_checkpoint(path, load_checkpoint(path))
        assert load_checkpoint(path).keys() == {"format", *load_checkpoint(path)}

    @pytest.mark.parametrize("content", [{}, {"model": 3}, {"model": {"a": 3}}])
    def test_a_checkpoint_without_weights(self, path, content):
        save_checkpoint(path, content)
        with pytest.raises(ValueError, match=r"last\.pt holds (no weights|another model)"):
            load_weights(model_of(), path)
        with pytest.raises(ValueError, match=r"last\.pt holds no run that could go on"):
            train_on(model_of(), folder=path.parent, resume=True)

    def test_weights_for_layers_without_sizes(self, tmp_path):
        save_checkpoint(tmp_path / "w.pt", {"model": nn.Linear(3, 2).state_dict()})
        lazy = nn.LazyLinear(2)
        with pytest.raises(ValueError, match=r"called once .*w\.pt: until then weight has no"):
            load_weights(lazy, tmp_path / "w.pt")
        lazy(torch.zeros(1, 3))
        load_weights(lazy, tmp_path / "w.pt")

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


def test_the_history_of_nothing():
    assert History().speed == 0 and History().best == math.inf
    assert History(valid=[[1, math.nan]]).best == math.inf
    assert History(valid=[[1, math.nan], [2, 0.5], [3, math.nan]]).best == 0.5
