"""How a training run stops and goes on: what it saw, what it needs, and one file to hold it."""

import math
import signal
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn

from d2l_attention.data.files import writing

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
        """Target tokens per second."""
        return self.tokens / self.seconds

    @property
    def best(self) -> float:
        """The lowest validation loss; infinite before the first check."""
        return min((loss for _, loss in self.valid), default=math.inf)


def save_checkpoint(path: str | Path, content: dict) -> None:
    """Write ``content``: tensors, numbers, text, lists and dicts of them, all or nothing."""
    with writing(path) as file:
        torch.save({"format": FORMAT, **content}, file)


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

    Errors: those of ``load_checkpoint``; ``ValueError`` where they are a different model's:
    then the model stays as it was.
    """
    weights = load_checkpoint(path)["model"]
    check_same_model(model, weights, path)
    model.load_state_dict(weights)


def check_same_model(model: nn.Module, weights: dict, path: str | Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    actual = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected | actual):
        if expected.get(name) != actual.get(name):
            raise ValueError(
                f"{path} holds another model: {name} should have shape "
                f"{expected.get(name, 'none')}, got {actual.get(name, 'none')}"
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
