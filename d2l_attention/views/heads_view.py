"""All heads of all layers as small pictures, each of which opens: models have hundreds of them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor
from traitlets import Int, Unicode, validate

from d2l_attention.views.attention_view import as_labels, as_weights
from d2l_attention.views.palette import RULE, colormap
from d2l_attention.views.picture import DPI, draw_weights, png
from d2l_attention.views.view import View, script, styled, within
from d2l_attention.views.words import ALL_LITERAL, cut, whole

ALL = -1
TILE = 16  # pixels of a head in the still picture of all
LEVELS = 255  # a weight is sent as one byte


class HeadsView(View):
    """The attention weights of every head in every layer, as thumbnails under one scale.

    Shape: weights (L, H, Q, K), or by the name of a layer (H, Q, K) or (B, H, Q, K), of which the
    first sequence is shown; layers may have different numbers of heads.
    ``HeadsView(attention_maps(model, input_ids=ids), words)`` shows a real model.

    ``queries`` and ``keys`` are labels; without keys the queries' serve both where they fit.
    ``layer`` and ``head``, counted from 0, are what is open, -1 all of them. Weights are shown to
    1/255 of the largest.

    Errors: ``ValueError`` for weights without layers or heads, of unequal numbers of queries or
    keys, or that are negative or not finite, and for layers whose names are equal as text;
    ``TypeError`` for what is no numbers or no list of str.
    """

    _esm = script("renderHeads", "inside/inside_drawing.js", "heads_view.js")
    _css = styled("inside/inside.css", "heads_view.css")

    layer = Int(ALL).tag(sync=True)
    head = Int(0).tag(sync=True)
    heads_text = Unicode().tag(sync=True)

    def __init__(
        self,
        weights: Tensor | Mapping[object, Tensor],
        queries: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        *,
        title: str | None = None,
    ):
        self._layers = _by_layer(weights)
        num_queries, num_keys = next(iter(self._layers.values())).shape[-2:]
        if keys is None and queries is not None and num_queries == num_keys:
            keys = queries
        self._queries = as_labels("queries", queries, [str(i) for i in range(num_queries)])
        self._keys = as_labels("keys", keys, [str(i) for i in range(num_keys)])
        title = whole(title or "")
        self._largest = max(layer.max().item() for layer in self._layers.values()) or 1.0
        super().__init__(
            heads_text=self._text(),
            title=title,
            alt=f"{title}. {self!r}" if title else repr(self),
        )

    def _text(self) -> str:
        layers = [
            {"name": name, "heads": len(layer), "x": self._as_bytes(layer)}
            for name, layer in self._layers.items()
        ]
        whole = {"layers": layers, "queries": self._queries, "keys": self._keys}
        return json.dumps(whole | {"largest": self._largest}, ensure_ascii=False)

    def _as_bytes(self, layer: Tensor) -> str:
        levels = (layer / self._largest * LEVELS).round().to(torch.uint8)
        return b64encode(levels.numpy().tobytes()).decode("ascii")

    @validate("layer")
    def _layer_exists(self, proposal):
        return within("layer", proposal["value"], ALL, len(self._layers) - 1)

    @validate("head")
    def _head_exists(self, proposal):
        most = max(len(layer) for layer in self._layers.values())
        return within("head", proposal["value"], 0, most - 1)

    def __repr__(self) -> str:
        heads = sum(len(layer) for layer in self._layers.values())
        shape = f"{len(self._queries)} x {len(self._keys)}"
        return f"HeadsView({len(self._layers)} layers, {heads} heads, {shape})"

    def still(self) -> bytes:
        """All heads, or the one that is open, as a PNG, for a page that runs no widget."""
        return png(self._figure(), math=False)

    def _figure(self) -> Figure:
        if self.layer == ALL:
            return self._grid()
        name, layer = list(self._layers.items())[self.layer]
        head = min(self.head, len(layer) - 1)
        where = f"layer {name}, head {head + 1}"
        return draw_weights(
            layer[head : head + 1],
            self._queries,
            self._keys,
            largest=self._largest,
            panel_titles=[""],
            title=f"{self.title}: {where}" if self.title else where,
        )

    def _grid(self) -> Figure:
        """Every head as a tile of one picture."""
        layers = [_small(layer) for layer in self._layers.values()]
        rows, columns = len(layers), max(len(layer) for layer in layers)
        gap = max(1, layers[0].shape[-1] // 10)
        height, width = (side + gap for side in layers[0].shape[-2:])
        tiles = torch.full((rows, columns, height, width), torch.nan)
        for row, layer in enumerate(layers):
            tiles[row, : len(layer), : layer.shape[1], : layer.shape[2]] = layer
        side = min(1.1, 7.0 / columns, 7.0 / rows)
        size = max(columns * side + 1.6, 4.5), rows * side * height / width + 1.0
        with matplotlib.rc_context(ALL_LITERAL | {"font.size": 12}):
            figure = Figure(figsize=size, dpi=DPI, layout="constrained")
            ax = figure.subplots()
            image = ax.imshow(
                tiles.transpose(1, 2).flatten(2).flatten(0, 1).numpy(),
                **{"cmap": colormap(), "vmin": 0, "vmax": self._largest},
                interpolation="nearest",
            )
            names = [str(head + 1) for head in range(columns)], list(self._layers)
            for axis, labels, length, most in (
                (ax.xaxis, names[0], width, 8),
                (ax.yaxis, names[1], height, 12),
            ):
                shown = range(0, len(labels), max(1, len(labels) // most))
                middle = (length - 1 - gap) / 2
                axis.set_ticks([length * i + middle for i in shown], [labels[i] for i in shown])
            ax.set(xlabel="head", ylabel="layer", title=self.title, facecolor=RULE)
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            figure.colorbar(image, ax=ax, label="weight", shrink=0.8)
        return figure


def _small(layer: Tensor) -> Tensor:
    """At most ``TILE`` rows and columns; where there are more, the means of neighbours."""
    return F.adaptive_avg_pool2d(layer, tuple(min(side, TILE) for side in layer.shape[-2:]))


def _by_layer(weights) -> dict[str, Tensor]:
    """The weights (H, Q, K) of each layer by its name, checked."""
    if not isinstance(weights, Mapping):
        weights = dict(enumerate(weights, start=1))
    if not weights:
        raise ValueError("weights must have a layer, got none")
    for name, layer in weights.items():
        if np.ndim(layer) == 2:  # most likely (H, Q, K) was given, and this is a head
            shape = tuple(np.shape(layer))
            raise ValueError(f"weights of layer {name} must have heads, got shape {shape}")
    names = [whole(str(name)) for name in weights]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"layers must have different names as text, got {names.count(name)} layers "
                f"{cut(name, 40)!r}"
            )
    layers = {
        whole(str(name)): as_weights(f"weights of layer {name}", layer)[0].float()
        for name, layer in weights.items()
    }
    shapes = {tuple(layer.shape[-2:]) for layer in layers.values()}
    if len(shapes) > 1:
        raise ValueError(f"all layers must have as many queries and keys, got {sorted(shapes)}")
    return layers
