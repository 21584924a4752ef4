"""All heads of all layers as small pictures, each of which opens: models have hundreds of them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence

import anywidget
import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor
from traitlets import Int, Unicode, validate

from d2l_attention.views.attention_view import as_labels, as_weights, within
from d2l_attention.views.picture import DPI, add_picture, draw_weights, png, ramp
from d2l_attention.views.script import joined, script
from d2l_attention.views.words import ALL_LITERAL, whole

ALL = -1
TILE = 16  # pixels of a head in the still picture of all
LEVELS = 255  # a weight is sent as one byte


class HeadsView(anywidget.AnyWidget):
    """The attention weights of every head in every layer, as thumbnails under one scale.

    Shape: weights (L, H, Q, K), or by the name of a layer (H, Q, K) or (B, H, Q, K), of which the
    first sequence is shown; layers may have different numbers of heads.
    ``HeadsView(attention_maps(model, input_ids=ids), words)`` shows a real model.

    ``queries`` and ``keys`` are labels; without keys the queries' serve both where they fit.
    ``layer`` and ``head``, counted from 0, are what is open, -1 all of them. Weights are shown to
    1/255 of the largest.

    Errors: ``ValueError`` for weights without layers, of unequal numbers of queries or keys, or
    that are negative or not finite; ``TypeError`` for what is no numbers or no list of str.
    """

    _esm = script("renderHeads", "inside/inside_drawing.js", "heads_view.js")
    _css = joined("inside/inside.css", "heads_view.css")

    layer = Int(ALL).tag(sync=True)
    head = Int(0).tag(sync=True)
    heads_text = Unicode().tag(sync=True)
    title = Unicode().tag(sync=True)
    alt = Unicode().tag(sync=True)
    ramp = Unicode(" ".join(ramp())).tag(sync=True)

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

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        return add_picture(bundle, self.still(), f"{self!r}", self.alt)

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
        num_queries, num_keys = layers[0].shape[-2:]
        columns = max(len(layer) for layer in self._layers.values())
        gap = max(1, num_keys // 10)
        shape = len(self._layers) * (num_queries + gap), columns * (num_keys + gap)
        tiles = np.full(shape, np.nan)
        for row, layer in enumerate(layers):
            for column, matrix in enumerate(layer):
                top, left = row * (num_queries + gap), column * (num_keys + gap)
                tiles[top : top + num_queries, left : left + num_keys] = matrix
        with matplotlib.rc_context(ALL_LITERAL | {"font.size": 12}):
            side = min(1.1, 7.0 / columns, 7.0 / len(self._layers))
            size = columns * side + 1.6, len(self._layers) * side * num_queries / num_keys + 1.0
            figure = Figure(figsize=(max(size[0], 4.5), size[1]), dpi=DPI, layout="constrained")
            ax = figure.subplots()
            colours = {"cmap": ListedColormap(ramp()), "vmin": 0, "vmax": self._largest}
            image = ax.imshow(tiles, interpolation="nearest", **colours)
            every = max(1, columns // 8), max(1, len(self._layers) // 12)
            ax.set_xticks(
                [(num_keys + gap) * i + num_keys / 2 for i in range(0, columns, every[0])],
                [str(i + 1) for i in range(0, columns, every[0])],
            )
            ax.set_yticks(
                [
                    (num_queries + gap) * i + num_queries / 2
                    for i in range(0, len(self._layers), every[1])
                ],
                list(self._layers)[:: every[1]],
            )
            ax.set(xlabel="head", ylabel="layer", title=self.title)
            ax.tick_params(length=0)
            ax.set_facecolor("#bdbdbd")  # between the tiles
            for spine in ax.spines.values():
                spine.set_visible(False)
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
    layers = {
        whole(str(name)): as_weights(f"weights of layer {name}", layer)[0].float()
        for name, layer in weights.items()
    }
    shapes = {tuple(layer.shape[-2:]) for layer in layers.values()}
    if len(shapes) > 1:
        raise ValueError(f"all layers must have as many queries and keys, got {sorted(shapes)}")
    return layers
