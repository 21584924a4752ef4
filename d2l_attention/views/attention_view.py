"""A view of attention weights that the browser draws alone, with or without a kernel."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from traitlets import Enum, Float, Int, List, Unicode, validate

from d2l_attention.views.picture import draw_weights, png
from d2l_attention.views.view import View, script, styled, within
from d2l_attention.views.words import whole

ALL_HEADS = -1


class AttentionView(View):
    """Attention weights as a heat map or as lines between tokens.

    Shape: weights (F, H, Q, K), (H, Q, K) or (Q, K): F frames (layers, steps of decoding, steps
    of training) of H heads. ``compare`` is a second matrix that broadcasts to the weights, for
    example true alignments: drawn as outlined cells or dashed lines, fainter where smaller.

    ``queries``, ``keys``, ``heads`` and ``frames`` are labels, each a list of str.
    The state ``frame``, ``head`` (-1 is all heads) and ``mode`` ("heatmap" or "lines") may be
    set, observed and linked, also with ``ipywidgets.jslink``. NumPy drops the masks of masked
    arrays in a list: give ``np.ma.stack`` of them, which is refused where something is masked.

    Errors: ``ValueError`` where weights have not 2 to 4 axes, are empty, negative, infinite or
    NaN, where an axis has another number of labels than entries, where ``compare`` does not
    broadcast to the weights; ``TypeError`` for what is no numbers or no list of str.
    """

    _esm = script("renderAttention", "attention_drawing.js", "attention_view.js")
    _css = styled("attention_view.css")

    frame = Int(0).tag(sync=True)
    head = Int(0).tag(sync=True)
    mode = Enum(["heatmap", "lines"], "heatmap").tag(sync=True)

    shape = List(Int()).tag(sync=True)
    # Numbers travel as text: a saved notebook would give each entry of a list its own line.
    weights_text = Unicode().tag(sync=True)
    compare_shape = List(Int()).tag(sync=True)
    compare_text = Unicode().tag(sync=True)
    compare_label = Unicode().tag(sync=True)
    largest = Float().tag(sync=True)
    query_labels = List(Unicode()).tag(sync=True)
    key_labels = List(Unicode()).tag(sync=True)
    head_labels = List(Unicode()).tag(sync=True)
    frame_labels = List(Unicode()).tag(sync=True)

    def __init__(
        self,
        weights,
        queries: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        *,
        heads: Sequence[str] | None = None,
        frames: Sequence[str] | None = None,
        compare=None,
        compare_label: str = "reference",
        title: str | None = None,
    ):
        more = {"heads": heads, "frames": frames, "compare": compare, "title": title}
        super().__init__(
            **self._checked(weights, queries, keys, compare_label=compare_label, **more)
        )

    def update(self, weights, queries=None, keys=None, **more) -> None:
        """Show other weights in the same place; arguments and errors as in the constructor.

        The frame and the head stay where the new weights have them, else go back to 0.
        """
        state = self._checked(weights, queries, keys, **more)
        num_frames, num_heads = state["shape"][:2]
        state["frame"] = self.frame if self.frame < num_frames else 0
        state["head"] = self.head if self.head < num_heads else 0
        # One message for all, so that the browser never sees half of a change.
        with self.hold_sync():
            for name, value in state.items():
                setattr(self, name, value)

    def _checked(
        self,
        weights,
        queries=None,
        keys=None,
        *,
        heads=None,
        frames=None,
        compare=None,
        compare_label="reference",
        title=None,
    ) -> dict:
        """The traits that show these arguments, once every one of them has been checked."""
        weights = as_weights("weights", weights)
        shape = num_frames, num_heads, num_queries, num_keys = tuple(weights.shape)
        state = {
            "shape": list(shape),
            "query_labels": as_labels("queries", queries, [str(i) for i in range(num_queries)]),
            "key_labels": as_labels("keys", keys, [str(i) for i in range(num_keys)]),
            "head_labels": as_labels("heads", heads, _numbered("head", num_heads)),
            "frame_labels": as_labels("frames", frames, _numbered("frame", num_frames)),
            "compare_shape": [],
            "compare_text": "",
            "compare_label": whole(compare_label),
            "title": whole(title or ""),
        }
        if compare is not None:
            compare = as_weights("compare", compare)
            try:
                compare.expand(shape)
            except RuntimeError:
                raise ValueError(
                    f"compare must broadcast to the weights {shape}, got {tuple(compare.shape)}"
                ) from None
            compare = compare.expand(*compare.shape[:2], num_queries, num_keys)
            state["compare_shape"] = list(compare.shape)
            state["compare_text"] = _as_text(compare)
        self._weights, self._compare = weights, compare
        state["weights_text"] = _as_text(weights)
        state["largest"] = float(f"{weights.max().item():.4g}")
        state["alt"] = _describe(state["title"], shape)
        return state

    @validate("frame")
    def _frame_exists(self, proposal):
        return within("frame", proposal["value"], 0, self.shape[0] - 1)

    @validate("head")
    def _head_exists(self, proposal):
        return within("head", proposal["value"], ALL_HEADS, self.shape[1] - 1)

    def __repr__(self) -> str:
        num_frames, num_heads, num_queries, num_keys = self.shape
        frames, heads = _count(num_frames, "frame"), _count(num_heads, "head")
        return f"AttentionView({frames}, {heads}, {num_queries} x {num_keys})"

    def still(self) -> bytes:
        """The present frame and head as a PNG, for a page that runs no widget."""
        return png(self._figure(), math=False)

    def _figure(self):
        """The present frame and head as a still picture."""
        heads = slice(None) if self.head == ALL_HEADS else slice(self.head, self.head + 1)
        compare = self._compare
        if compare is not None:
            compare = compare.expand(self.shape)[self.frame, heads]
        parts = [self.title]
        if self.shape[0] > 1:
            parts.append(self.frame_labels[self.frame])
        if self.shape[1] > 1 and self.head != ALL_HEADS:
            parts.append(self.head_labels[self.head])
        return draw_weights(
            self._weights[self.frame, heads],
            self.query_labels,
            self.key_labels,
            largest=self.largest or 1.0,
            panel_titles=self.head_labels[heads],
            title=", ".join(part for part in parts if part),
            compare=compare,
        )


def as_weights(name: str, value) -> Tensor:
    """Finite numbers from 0 up with exactly four axes, the leading ones filled with 1."""
    if isinstance(value, Tensor):
        tensor = value.detach().cpu().double()
    else:
        try:
            tensor = torch.tensor(np.ma.filled(np.asanyarray(value, dtype=float), np.nan))
        except (TypeError, ValueError, RuntimeError):
            kind = type(value).__name__
            raise TypeError(f"{name} must be a tensor or array of numbers, got {kind}") from None
    shape = tuple(tensor.shape)
    if not 2 <= tensor.ndim <= 4:
        raise ValueError(f"{name} must have 2 to 4 axes (frames, heads, Q, K), got shape {shape}")
    if tensor.numel() == 0:
        raise ValueError(f"{name} must not be empty, got shape {shape}")
    if tensor.isnan().any():
        raise ValueError(f"{name} must not be NaN, got {int(tensor.isnan().sum())} NaN")
    if tensor.min() < 0 or tensor.max().isinf():
        low, high = tensor.min().item(), tensor.max().item()
        raise ValueError(f"{name} must be from 0 up and finite, got {low:.4g} to {high:.4g}")
    return tensor.reshape((1,) * (4 - tensor.ndim) + shape)


def _numbered(noun: str, number: int) -> list[str]:
    return [f"{noun} {i}" for i in range(1, number + 1)]


def as_labels(name: str, labels: Sequence[str] | None, default: list[str]) -> list[str]:
    """The labels, as many as there are in ``default``; without any, the default."""
    if labels is None:
        return default
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"{name} must be a list of str, got {type(labels).__name__}")
    for i, label in enumerate(labels):
        if not isinstance(label, str):
            raise TypeError(f"{name} must be a list of str, got {label!r} at {i}")
    if len(labels) != len(default):
        raise ValueError(f"{name} must have {len(default)} labels, got {len(labels)}")
    return [whole(label) for label in labels]


def _as_text(tensor: Tensor) -> str:
    return " ".join(f"{number:.4g}" for number in tensor.flatten().tolist())


def _describe(title: str | None, shape: tuple[int, ...]) -> str:
    num_frames, num_heads, num_queries, num_keys = shape
    text = f"Attention weights, {_count(num_queries, 'query')} by {_count(num_keys, 'key')}"
    if num_heads > 1:
        text += f", {num_heads} heads"
    if num_frames > 1:
        text += f", {num_frames} frames"
    return f"{title}. {text}." if title else f"{text}."


def _count(number: int, noun: str) -> str:
    plural = {"query": "queries"}.get(noun, noun + "s")
    return f"{number} {noun if number == 1 else plural}"
