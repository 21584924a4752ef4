"""Training on the device: the CPU's losses, a run that stops and goes on, the command line."""

import contextlib
import dataclasses
import sys

import pytest
import torch
from accelerate.state import AcceleratorState, GradientState

from d2l_attention import try_gpu
from d2l_attention.data import Vocab, grammar, load
from d2l_attention.training import MODELS, __main__, load_checkpoint, loop, train
from d2l_attention.training.evaluation import evaluate

PAIRS = grammar.corpus(11)
WORDS = Vocab(pair.source for pair in PAIRS), Vocab(pair.target for pair in PAIRS)


@pytest.fixture(autouse=True)
def own_accelerate():
    """Accelerate keeps its first device for the whole process."""
    yield
    forget()


def forget():
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def on(name):
    forget()
    accelerator = __main__.on_device(str(name))
    assert accelerator.device.type == torch.device(name).type
    return accelerator


def model_named(name):
    torch.manual_seed(1)
    return MODELS[name](*map(len, WORDS), 8)


def trained(name, device, **options):
    model = model_named(name)
    options = {"steps": 4, "batch_size": 4, "valid": PAIRS[:3], "check_every": 2} | options
    history = train(model, PAIRS, *WORDS, accelerator=on(device), **options)
    return model, history


@pytest.mark.parametrize(("name", "guidance"), [("bahdanau", 0.5), ("transformer", 0.0)])
def test_the_losses_are_those_of_the_cpu(device, name, guidance):
    here, expected = trained(name, "cpu", guidance=guidance)
    there, history = trained(name, device, guidance=guidance)
    assert history.losses == pytest.approx(expected.losses, rel=1e-3)
    assert history.valid == [pytest.approx(pair, rel=1e-3) for pair in expected.valid]
    found, wanted = (evaluate(model, PAIRS[:3], *WORDS) for model in (there, here))
    assert str(found) == str(wanted)


def devices(model):
    return {parameter.device.type for parameter in model.parameters()}


@pytest.mark.parametrize("end", ["done", "interrupted", "no number"])
@pytest.mark.parametrize("home", ["cpu", "there"])
def test_the_model_comes_home(device, home, end):
    """A notebook goes on with the CPU's tensors, on whatever device the model was trained."""
    model, seen = model_named("bahdanau"), []
    if home == "there":
        model.to(device)

    def look(history):
        seen.append(devices(model))
        if end == "interrupted":
            raise KeyboardInterrupt

    options = {"steps": 2, "batch_size": 4, "accelerator": on(device), "on_step": look}
    if end == "no number":
        options |= {"lr": 1e30, "steps": 9}
    expected = {"interrupted": KeyboardInterrupt, "no number": FloatingPointError}.get(end)
    with pytest.raises(expected) if expected else contextlib.nullcontext():
        train(model, PAIRS, *WORDS, **options)
    assert seen[0] == {device.type}
    assert devices(model) == {"cpu" if home == "cpu" else device.type}


def test_a_device_by_its_name(device):
    """``D2L_ATTENTION_DEVICE``, set for all tests here, is where chapters train."""
    forget()
    assert try_gpu().type == loop.default_accelerator().device.type == device.type


@pytest.mark.parametrize("moves", [False, True], ids=["stays there", "begins on the CPU"])
def test_a_run_goes_on(device, tmp_path, moves):
    def stop(history):
        if history.step == 3:
            raise KeyboardInterrupt

    _, expected = trained("bahdanau", device)
    with pytest.raises(KeyboardInterrupt, match="after step 3 of 4"):
        trained("bahdanau", "cpu" if moves else device, folder=tmp_path, on_step=stop)
    weights = load_checkpoint(tmp_path / "last.pt")["model"].values()
    assert {weight.device.type for weight in weights} == {"cpu"}
    _, history = trained("bahdanau", device, folder=tmp_path, resume=True)
    assert history.losses == pytest.approx(expected.losses, rel=1e-3 if moves else 1e-6)


def test_the_command_line(device, monkeypatch, capsys):
    few = load("grammar")
    parts = {"train": few.train[:40], "valid": few.valid[:3], "test": few.test[:3]}
    few = dataclasses.replace(few, **parts, compositional=[])
    monkeypatch.setattr(__main__, "load", lambda name: few)
    arguments = ["training", "--steps", "2", "--num-hiddens", "8", "--device", str(device)]
    monkeypatch.setattr(sys, "argv", arguments)
    forget()
    __main__.main()
    printed = capsys.readouterr().out
    assert f"bahdanau on 1 x {device.type}" in printed and "test          BLEU" in printed
