"""The view into a model: from the whole to a part, to a head, to one number, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from traitlets import TraitError, Unicode, validate

from d2l_attention.views.inside.places import find
from d2l_attention.views.inside.recording import Run, record
from d2l_attention.views.inside.sending import as_text, parts_of
from d2l_attention.views.inside.still import draw
from d2l_attention.views.picture import png
from d2l_attention.views.view import View, script, styled
from d2l_attention.views.words import whole


class LookInside(View):
    """A recorded run of a model, as ``look_inside`` returns it.

    ``place`` is what is open, "" the whole: it may be set, observed and linked.
    """

    _esm = script("renderInside", "inside/inside_drawing.js", "inside/inside.js")
    _css = styled("inside/inside.css")

    place = Unicode().tag(sync=True)
    run_text = Unicode().tag(sync=True)

    def __init__(self, run: Run, title: str, at: str):
        self._parts = parts_of(run)
        place = find(self._parts, at)
        super().__init__(
            place=str(place), title=title, run_text=as_text(run), alt=self._described(title)
        )

    @validate("place")
    def _place_exists(self, proposal):
        try:
            return str(find(self._parts, proposal["value"]))
        except ValueError as error:
            raise TraitError(str(error)) from None

    def __repr__(self) -> str:
        count = len(self._parts)
        return f"look_inside({self._parts[0].name}, {count} part{'s' if count > 1 else ''})"

    def _described(self, title: str) -> str:
        whole = self._parts[0]
        inner = ", ".join(self._parts[number].name for number in whole.below[:8])
        text = f"A run of {whole.name} from the outside: {inner or 'it has no parts'}."
        return f"{title}. {text}" if title else text

    def still(self, at: str | None = None, title: str | None = None) -> bytes:
        """The place that is open, or ``at``, as a PNG, for a page that runs no widget."""
        place = find(self._parts, self.place if at is None else at)
        figure = draw(self._parts, place, self.title if title is None else title)
        return png(figure, math=False)


def look_inside(
    model: nn.Module,
    *inputs: Any,
    tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    at: str = "",
    title: str = "",
    **named: Any,
) -> LookInside:
    """Run a model once and open it: from the outside to its parts, heads and single numbers.

    ``look_inside(model, source, target, tokens={"source": [...], "target": [...]})`` calls
    ``model(source, target)``, without gradients and without dropout, and leaves the model as it
    was, but for what its own ``forward`` writes down, in a buffer or a cache, and for lazy layers,
    whose parameters it makes as any first call does.

    ``tokens`` are the words of the first input, or words by the names of the inputs: give those of
    all, because where two inputs are equally long and one has no words, none are guessed. Under the
    name "output" stand the words that the model scores, so that the view can say which it prefers,
    by the softmax of its outputs or, where each row is from 0 up and sums to 1, by these
    themselves. Words turn round with ``flip``; a model that moves its tokens otherwise (``roll``,
    an index) has them where they were. The last axis of what is computed may be features: where the
    tokens stand there, as in (B, D, n) before a convolution, no words are written.

    ``at`` is the place that is open at first, for example "decoder/block 2/cross-attention/head 1".
    ``named`` goes to the model. Large tensors are shown in part, and the view says which part.
    An ``nn.Dropout`` or ``nn.Identity`` that gives back what it was given, and has no hook, is left
    out. Parts that read the same stand side by side. An arrow is a tensor that one gave and the
    other read, straight or through operations between them; of what NumPy or another thread does
    there is none. Of tensors without numbers (nested, sparse, on meta, inside ``vmap``) the shape
    is shown. An attention that has no weight for each query and key, or has them without a batch,
    opens without its heads (linear attention, Linformer), and so does a subclass of PyTorch's layer
    that attends in another way. A part whose exception the model caught is called so: "encoder
    (raised)".

    Errors: ``TypeError`` for what is no ``nn.Module``; ``ValueError`` for a place that is not there
    or for tokens that fit no input, one of as many sentences, or one with other words already; what
    the model raises.
    """
    return LookInside(record(model, inputs, named, tokens), whole(title), at)
