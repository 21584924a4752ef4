"""How a training run stops and goes on: what it saw, what it needs, and one file to hold it."""

import io
import math
import pickle
import signal
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from d2l_attention.data import Vocab
from d2l_attention.system.files import write_whole

FORMAT = "d2l_attention training 1"


@dataclass
class History:
    """What training saw so far.

    ``losses`` of each step, per target token and without guidance; ``valid``, [step, validation
    loss] at each check; the target ``tokens`` read, and the ``seconds`` the steps took.
    """

    losses: list[float] = field(default_factory=list)
    valid: list[list[float]] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        self.losses.append(loss)
        self.tokens += tokens
        self.seconds += seconds

    @property
    def step(self) -> int:
        return len(self.losses)

    @property
    def speed(self) -> float:
        """Target tokens per second; 0 before the first step."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def best(self) -> float:
        """The lowest validation loss that is a number; infinite before there is one."""
        return min((loss for _, loss in self.valid if not math.isnan(loss)), default=math.inf)


def save_checkpoint(path: str | Path, content: dict) -> None:
    """Write ``content``: tensors, numbers, text, lists and dicts of them, all or nothing.

    Errors: ``ValueError`` for what ``load_checkpoint`` would refuse; then nothing is written.
    """
    if content.get("format", FORMAT) != FORMAT:
        raise ValueError(f"content['format'] must be {FORMAT!r}, got {content['format']!r}")
    file = as_file({"format": FORMAT, **content})
    if file is None:
        refused = [name for name, part in content.items() if as_file(part) is None]
        raise ValueError(
            "content must hold tensors, Python's own numbers, text, lists and dicts: nobody could "
            f"load what is in {refused or list(content)}"
        )
    write_whole(path, file)


def as_file(content: Any) -> bytes | None:
    """The bytes of a checkpoint; ``None`` where they could not be read without running code."""
    file = io.BytesIO()
    try:
        torch.save(content, file)
        file.seek(0)
        torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.PickleError, AttributeError, RuntimeError, TypeError, ValueError):
        return None
    return file.getvalue()


def load_checkpoint(path: str | Path) -> dict:
    """What ``save_checkpoint`` wrote, on the CPU. No code in the file is run.

    Errors: ``FileNotFoundError``; ``ValueError`` where the file is damaged or something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # a changed byte, which torch does not look for
                raise ValueError("a checksum is wrong")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail anywhere, in a dozen ways
        raise ValueError(f"{path} is damaged, or no checkpoint of this course") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} holds something else than a checkpoint of this course")
    return content


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Give the model the weights of a checkpoint, ``best.pt`` for example.

    Errors: those of ``load_checkpoint``; ``ValueError`` where there are none, where they are a
    different model's, and for layers whose sizes their first call is to fix: then the model stays
    as it was.
    """
    weights = load_checkpoint(path).get("model")
    if not isinstance(weights, dict):
        raise ValueError(f"{path} holds no weights: 'model' should be a dict of tensors")
    check_same_model(model, weights, path)
    model.load_state_dict(weights)


def check_same_model(model: nn.Module, weights: dict, path: str | Path) -> None:
    own = model.state_dict()
    if lazy := [name for name, tensor in own.items() if is_lazy(tensor)]:
        raise ValueError(
            f"model must be called once before it gets the weights of {path}: "
            f"until then {lazy[0]} has no shape"
        )
    expected, actual = shapes_of(own), shapes_of(weights)
    for name in sorted(expected | actual, key=str):
        if expected.get(name) != actual.get(name):
            raise ValueError(
                f"{path} holds another model: {name} should have shape "
                f"{expected.get(name, 'none')}, got {actual.get(name, 'none')}"
            )
    first: dict[nn.Parameter, str] = {}
    for name, shared in model.named_parameters(remove_duplicate=False):
        one = first.setdefault(shared, name)
        if one != name and not torch.equal(weights[one], weights[name]):
            raise ValueError(f"{path} holds another model: there {one} and {name} are not tied")


def shapes_of(weights: dict) -> dict[str, Any]:
    """The shape of each tensor; of what is none, its type."""
    return {
        name: tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        for name, x in weights.items()
    }


def check_same_words(folder: Path, **vocabs: Vocab) -> None:
    """Raise where the run in ``folder`` has other vocabularies: its numbers mean other words."""
    for side, vocab in vocabs.items():
        path = folder / f"{side}.json"
        before = Vocab.load(path).idx_to_token if path.exists() else vocab.idx_to_token
        for i, (old, new) in enumerate(zip_longest(before, vocab.idx_to_token)):
            if old != new:
                raise ValueError(
                    f"{path} is of another run, with other words: token {i} is {old!r}, got {new!r}"
                )


def state_of(model: nn.Module, optimizer, scaler, history: History) -> dict:
    """All that training changes; ``scaler`` is ``None`` without float16."""
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "history": asdict(history),
    }


def restore(
    path: Path, run: dict, model: nn.Module, optimizer, scaler
) -> tuple[History, dict[str, float]]:
    """Bring all that training changes to where the checkpoint is; ``run`` is what must agree.

    Beside what training saw so far: with which settings.
    """
    state = load_checkpoint(path)
    if missing := {*run, "model", "optimizer", "scaler", "history"} - state.keys():
        raise ValueError(f"{path} holds no run that could go on: without {sorted(missing)}")
    for name, value in run.items():
        if state[name] != value:
            raise ValueError(f"{path} was trained with {name} = {state[name]}, got {value}")
    check_same_model(model, state["model"], path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if scaler is not None and state["scaler"] is not None:
        scaler.load_state_dict(state["scaler"])
    return History(**state["history"]), state.get("settings", {})


class StopRequest:
    """Ctrl-C as a request, for a loop to see between two steps; a second one acts at once.

    SIGTERM too: launchers and clusters send it to a process that they are about to end. (Windows
    ends a process without asking it.)
    """

    def __enter__(self) -> "StopRequest":
        self.asked, self.before = False, {}
        if threading.current_thread() is threading.main_thread():  # others must not
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self.ask) or signal.SIG_DFL
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ask(self, number: int, frame) -> None:
        self.asked = True
        signal.signal(number, self.before[number])

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Take a ``KeyboardInterrupt`` in this block for the request."""
        try:
            yield
        except KeyboardInterrupt:
            self.asked = True
