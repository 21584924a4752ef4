"""A sentence that the reader writes, and what attention makes of it at every key press."""

import asyncio
import html
from collections.abc import Callable, Sequence

import ipywidgets as widgets

from d2l_attention.data import Vocab
from d2l_attention.views.attention_view import AttentionView
from d2l_attention.views.picture import add_picture

# One answer for a burst of key presses, sooner than a hand can press two keys.
PAUSE_SECONDS = 0.02


class SentenceView(widgets.VBox):
    """A text field and some examples above an ``AttentionView``.

    ``look(words)`` gives the arguments of ``AttentionView`` for the words that stand in the
    field; ``tokenize`` makes words of the text. Words that are not in ``vocab`` are named, and
    so is a sentence of more than ``max_words``; the last picture then stays.

    Where there are ``kinds`` of attention to choose from, a row of buttons names them, and it is
    ``look(words, kind)`` that is called.

    Errors: ``ValueError`` where there is no example; the first must be a sentence that can be
    shown.
    """

    def __init__(
        self,
        look: Callable[..., dict],
        tokenize: Callable[[str], list[str]],
        vocab: Vocab,
        examples: Sequence[str],
        *,
        max_words: int = 16,
        kinds: Sequence[str] = (),
    ):
        if not examples:
            raise ValueError("examples must hold at least one sentence, got none")
        self._look, self._tokenize, self._vocab = look, tokenize, vocab
        self._max_words = max_words
        self._pending: asyncio.TimerHandle | None = None
        self.text = widgets.Text(
            examples[0],
            description="Your sentence",
            layout=widgets.Layout(width="100%"),
            style={"description_width": "initial"},
        )
        self.examples = [
            widgets.Button(description=example, layout=widgets.Layout(width="auto"))
            for example in examples
        ]
        self.kind = widgets.ToggleButtons(
            options=kinds,
            description="Attention",
            style={"button_width": "auto", "description_width": "initial"},
        )
        self.message = widgets.HTML()
        words = tokenize(examples[0])
        if found := self.problem(words):
            raise ValueError(f"the first example cannot be shown: {found}")
        self.view = AttentionView(**self._ask(words))
        row = widgets.HBox(self.examples, layout=widgets.Layout(flex_flow="row wrap"))
        choice = [self.kind] if kinds else []
        super().__init__([self.text, row, *choice, self.message, self.view])
        self.text.observe(self._changed, "value")
        self.kind.observe(self._changed, "value")
        for button in self.examples:
            button.on_click(self._take_example)

    def problem(self, words: list[str]) -> str | None:
        """Why these words cannot be shown, or nothing."""
        if not words:
            return "Write a sentence."
        if len(words) > self._max_words:
            return (
                f"{len(words)} words: the longest sentence the model has learned from has "
                f"{self._max_words}."
            )
        if unknown := self._vocab.unknown(words):
            return f"The model has never seen: {', '.join(unknown)}."
        return None

    def redraw(self) -> None:
        """Show the sentence in the field, or say why that cannot be."""
        self._pending = None
        words = self._tokenize(self.text.value)
        said = self.problem(words)
        if said is None:
            try:
                self.view.update(**self._ask(words))
            except Exception as error:  # the reader is to see it, wherever it comes from
                said = f"{type(error).__name__}: {error}"
        # What the reader typed is text, also where it looks like HTML.
        self.message.value = f'<span role="alert">{html.escape(said)}</span>' if said else ""

    def _ask(self, words: list[str]) -> dict:
        return self._look(words, self.kind.value) if self.kind.options else self._look(words)

    def _take_example(self, button: widgets.Button) -> None:
        self.text.value = button.description

    def _changed(self, _change) -> None:
        """Answer once no further key press waits; without an event loop, at once."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.redraw()
            return
        if self._pending is not None:
            self._pending.cancel()
        self._pending = loop.call_later(PAUSE_SECONDS, self.redraw)

    def __repr__(self) -> str:
        return f"SentenceView({self.text.value!r})"

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        still, alt = self.view.still(), self.view.alt
        return add_picture(bundle, still, f"{self!r}: {alt}", alt)
