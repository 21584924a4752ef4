"""Run the ten properties on an attention, and say what came out."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from d2l_attention.testing.properties import PROPERTIES, Attention, Property, adapted

COLUMNS = 88  # of a printed report: so many fit on a page and on a slide


@dataclass
class Report:
    """What ``check_attention`` found: names of properties, and what was seen where one fails."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    not_tried: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        """What fails comes first, then what was not tried; what passes is one list at the end."""
        lines = []
        for known in PROPERTIES:
            if known.name in self.failed:
                lines += [f"FAILS  {known.name}"]
                lines += _wrapped(known.meaning)
                lines += _wrapped(f"Seen: {self.failed[known.name]}.")
                lines += _wrapped(f"Common reasons: {known.breaks}.")
        for name, why in self.not_tried.items():
            lines += _wrapped(f"{name}: {why}", label="-")
        if self.passed:
            lines += _wrapped("; ".join(self.passed), label="ok")
        return "\n".join(lines)


def _wrapped(text: str, label: str = "") -> list[str]:
    """Lines of at most ``COLUMNS``; from the second on they hang below the first."""
    hanging = " " * (7 if label else 9)
    return textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=f"{label:7}",
        subsequent_indent=hanging,
        break_on_hyphens=False,
    )


def check_attention(
    attention: Callable[..., object], size: int = 12, dtype: torch.dtype = torch.float32
) -> Report:
    """Try ten properties of attention on a layer or a function; print the report to read it.

    ``attention`` takes queries (B, Q, size), keys (B, K, size) and values (B, K, size), and, where
    it hides anything, ``valid_lens`` (B,), ``is_causal``, or a boolean ``mask`` (True = may
    attend); ``torch.nn.MultiheadAttention`` is known. A property that needs what the attention
    does not take is not tried. A layer is put in eval mode, because dropout is random, and back.
    Inputs are made on the device of a layer, for a function on PyTorch's default device, in
    ``dtype``: a layer in half precision takes half precision. Random generators are given back.

    Nothing is raised where a property fails, and an exception of the attention is a failure with
    its words.

    Errors: ``TypeError`` unless ``attention`` takes queries, keys and values.
    """
    called, report = adapted(attention, dtype), Report()
    training = called.module is not None and called.module.training
    if called.module is not None:
        called.module.eval()
    try:
        with torch.inference_mode(False), torch.enable_grad():
            for known in PROPERTIES:
                _try(known, called, size, report)
    finally:
        if called.module is not None:
            called.module.train(training)
    return report


def _try(known: Property, attention: Attention, size: int, report: Report) -> None:
    if why := known.not_tried(attention):
        report.not_tried[known.name] = why
        return
    try:
        wrong = known.find(attention, size)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong is None:
        report.passed.append(known.name)
    else:
        report.failed[known.name] = wrong
