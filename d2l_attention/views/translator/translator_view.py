"""A translator that works in the browser: anybody's sentence, and cuts, without a kernel."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from traitlets import Unicode

from d2l_attention.attention.layers import AdditiveAttention, DotProductAttention
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.positional import PositionalEncoding, Positions
from d2l_attention.data import BOS, EOS, Vocab
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from d2l_attention.models.transformer import TransformerDecoder, TransformerEncoder
from d2l_attention.models.transformer_blocks import (
    AddNorm,
    PositionWiseFFN,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from d2l_attention.training import translators
from d2l_attention.views.picture import draw_weights, png
from d2l_attention.views.view import View, script, styled
from d2l_attention.views.words import whole

HERE = Path(__file__).parent
MODEL_FILES = ("attention.js", "transformer.js", "bahdanau.js", "translate.js")
MOST_WORDS = 24  # as in cuts.js
COMPUTED = {  # what the page knows how to compute
    *(TransformerEncoder, TransformerEncoderBlock, TransformerDecoder, TransformerDecoderBlock),
    *(AddNorm, PositionWiseFFN, PositionalEncoding, Positions, Seq2SeqEncoder),
    *(Seq2SeqAttentionDecoder, MultiHeadAttention, DotProductAttention, AdditiveAttention),
    *(nn.Dropout, nn.Embedding, nn.GRU, nn.Identity, nn.LayerNorm, nn.Linear, nn.ReLU),
    nn.Sequential,
}

EXAMPLES = ("she does not read these books", "he sees her", "the small house is old")
NOT_READ, OLD_GIRL = EXAMPLES[0], "the girl that i see is old"


def _guide(label: str, sentence: str, cut: str, says: str) -> dict[str, Any]:
    """What to try: ``cut`` is a line of cuts.js, "place layer head query key", from 0."""
    return {"label": label, "sentence": sentence, "cuts": [cut], "says": says}


GUIDED: dict[str, list[dict[str, Any]]] = {
    "transformer": [
        _guide(
            *("Hide 'not' from the French", NOT_READ, "cross * * * 2"),
            "Without a look at 'not', 'ne' and 'pas' are gone.",
        ),
        _guide(
            *("In 'the girl that i see is old': hide 'fille'", OLD_GIRL, "decoder * * * 2"),
            "The ending of 'vieille' agrees with 'fille', and stays without a look at it.",
        ),
        _guide(
            *("The same: hide 'la'", OLD_GIRL, "decoder * * * 1"),
            "Without a look at the article the ending is the masculine one.",
        ),
        _guide(
            *("No French word looks at itself", NOT_READ, "decoder * * * ="),
            "Some words are written twice if a position may not look at itself.",
        ),
        _guide(
            *("No looks in layer 2 of the encoder", EXAMPLES[1], "encoder 1 * * *"),
            "'her' is now read as in 'her cat', and the translator invents the cat.",
        ),
    ],
    "bahdanau": [
        _guide(
            *("Hide 'not' from the French", NOT_READ, "cross * * * 2"),
            "The states of the words beside it have read 'not', too.",
        ),
        _guide(
            *("Hide 'books'", NOT_READ, "cross * * * 5"),
            "Another plural comes: only the state of 'books' says which one.",
        ),
    ],
}


class TranslatorView(View):
    """A translator of the course, alive in the page, that a reader can cut.

    ``TranslatorView("transformer")`` or ``("bahdanau")`` shows a stored translator: on the site
    and in a deck it needs no kernel. ``TranslatorView(model, src_vocab, tgt_vocab)`` shows a model
    that you trained: while a kernel runs, its weights go to the page once, and the page computes.

    ``sentence`` is what stands in the field at first. ``cuts`` are looks that are forbidden at
    first, each "place layer head query key", where a place is encoder, decoder or cross, "*" is
    any, and all count from 0: "cross * * * 2" hides the third English word from the French.

    Errors: ``TypeError`` for a model that the page cannot compute, ``ValueError`` for a name that
    is not stored, a model without vocabularies, a cut that is none, and words that are not known.
    """

    _esm = script(
        "renderTranslator",
        *(f"translator/{name}" for name in (*MODEL_FILES, "cuts.js", "live_run.js")),
        *("inside/inside_drawing.js", "inside/inside.js", "translator/translator_view.js"),
    )
    _css = styled("inside/inside.css", "translator/translator.css")

    stored = Unicode().tag(sync=True)  # a stored translator's name, "" for a model of one's own
    sentence = Unicode().tag(sync=True)
    cuts_text = Unicode().tag(sync=True)
    examples_text = Unicode().tag(sync=True)
    guided_text = Unicode("[]").tag(sync=True)

    def __init__(
        self,
        model: str | EncoderDecoder,
        src_vocab: Vocab | None = None,
        tgt_vocab: Vocab | None = None,
        *,
        sentence: str = EXAMPLES[0],
        cuts: Sequence[str] = (),
        title: str = "",
    ):
        stored = model if isinstance(model, str) else ""
        if isinstance(model, str):
            model, src_vocab, tgt_vocab = translators.translator(model)
        if src_vocab is None or tgt_vocab is None:
            raise ValueError("a model of your own needs src_vocab and tgt_vocab")
        self._name, self._sizes = _kind_and_sizes(model)
        self._model, self._vocabs = model, (src_vocab, tgt_vocab)
        words = sentence.split()
        _check(words, src_vocab, cuts)
        examples = [text for text in EXAMPLES if all(word in src_vocab for word in text.split())]
        super().__init__(
            stored=stored,
            sentence=sentence,
            cuts_text=json.dumps(list(cuts)),
            examples_text=json.dumps(examples),
            guided_text=json.dumps(GUIDED[stored] if stored else []),
            title=whole(title),
            alt=f"A translator: {sentence} becomes {' '.join(self._translated(words)[0])}.",
        )
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        return f"TranslatorView({self._name}, {self.sentence!r})"

    def _answer(self, _, message: Mapping[str, str], buffers) -> None:
        """The page asks for the model: its weights in float32, and what they mean."""
        if message.get("kind") != "model, please":
            return
        weights = {name: tensor.float().cpu() for name, tensor in self._model.state_dict().items()}
        bits = b"".join(tensor.numpy().astype("<f4").tobytes() for tensor in weights.values())
        source, target = (vocab.to_tokens(range(len(vocab))) for vocab in self._vocabs)
        self.send(
            {
                "kind": "model",
                "name": self._name,
                "sizes": self._sizes,
                "shapes": {name: list(tensor.shape) for name, tensor in weights.items()},
                "number": "float32",
                "source": source,
                "target": target,
            },
            [bits],
        )

    def still(self) -> bytes:
        """The sentence, its translation and the last head of the last layer, as a PNG, uncut."""
        english = self.sentence.split()
        french, weights = self._translated(english)
        title = self.title or f"{self.sentence} → {' '.join(french)}"
        figure = draw_weights(
            weights[-1:, : len(french) + 1],
            [*french, EOS],
            [*english, EOS],
            largest=1.0,
            panel_titles=[""],
            title=title + (f": head {len(weights)}" if len(weights) > 1 else ""),
        )
        return png(figure, math=False)

    def _translated(self, english: list[str]) -> tuple[list[str], torch.Tensor]:
        """The French words, and the last layer's weights that chose them, (H, T + 1, S + 1)."""
        src_vocab, tgt_vocab = self._vocabs
        read = [*english, EOS]
        source, lens = torch.tensor([src_vocab[read]]), torch.tensor([len(read)])
        ends = {"bos": tgt_vocab[BOS], "eos": tgt_vocab[EOS]}
        model = self._model
        was_training = model.training
        model.eval()
        device = next(model.parameters()).device
        source, lens = source.to(device), lens.to(device)
        found = greedy_decode(model, source, lens, **ends, max_len=64)
        french = tgt_vocab.to_tokens(found.sentences()[0])
        with torch.no_grad():
            model(source, torch.tensor([tgt_vocab[[BOS, *french]]], device=device), lens)
        decoder = model.decoder
        if isinstance(decoder, TransformerDecoder):
            weights = decoder.cross_attention_weights[-1][0]
        else:
            weights = decoder.attention_weights
        model.train(was_training)
        return french, weights.cpu()


def stored_script(names: Sequence[str] = translators.NAMES) -> str:
    """These stored translators as a script for a page: it sets ``storedTranslators``."""
    held: dict[str, Any] = {name: _stored(name) for name in names}
    _, *vocabs = translators.translator("transformer")
    source, target = (vocab.to_tokens(range(len(vocab))) for vocab in vocabs)
    held["vocabularies"] = {"source": source, "target": target}
    return f"globalThis.storedTranslators = {json.dumps(held, ensure_ascii=False)};\n"


def _stored(name: str) -> dict[str, Any]:
    card = translators.model_card(name)
    content = (translators.HERE / f"{name}.float16").read_bytes()
    return {
        "name": name,
        "sizes": card["sizes"],
        "shapes": card["weights"],
        "number": "float16",
        "base64": b64encode(content).decode("ascii"),
    }


def _kind_and_sizes(model: Any) -> tuple[str, dict[str, int]]:
    """Which of the two translators this is, and the sizes that its weights do not tell."""
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    sides = [side for side in (encoder, decoder) if isinstance(side, nn.Module)]
    kinds = tuple(map(type, sides)) if _computed(sides) else ()
    if kinds == (TransformerEncoder, TransformerDecoder):
        heads = {m.num_heads for m in model.modules() if isinstance(m, MultiHeadAttention)}
        plain = isinstance(encoder.ln, nn.Identity) and isinstance(decoder.ln, nn.Identity)
        sines = all(type(side.pos_encoding) is PositionalEncoding for side in sides)
        if plain and sines and len(heads) == 1 and _no_bias(model):
            return "transformer", {"num_hiddens": encoder.num_hiddens, "num_heads": heads.pop()}
    if kinds == (Seq2SeqEncoder, Seq2SeqAttentionDecoder):
        if encoder.rnn.bidirectional and encoder.rnn.num_layers == decoder.rnn.num_layers == 1:
            return "bahdanau", {"num_hiddens": decoder.rnn.hidden_size}
    raise TypeError(
        "the page computes the translators of chapters 5 (two directions, one layer) and 8 "
        f"(post-norm, sines and cosines, no bias in attention), got {type(model).__name__}"
    )


def _computed(sides: Sequence[nn.Module]) -> bool:
    """Whether the page knows all parts: one of another kind has weights of the same names."""
    return {type(part) for side in sides for part in side.modules()} <= COMPUTED


def _no_bias(model: nn.Module) -> bool:
    layers = (module for module in model.modules() if isinstance(module, MultiHeadAttention))
    return all(layer.W_q.bias is None for layer in layers)


def _check(words: Sequence[str], vocab: Vocab, cuts: Sequence[str]) -> None:
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"sentence must have 1 to {MOST_WORDS} words, got {len(words)}")
    unknown = [word for word in words if word not in vocab]
    if unknown:
        raise ValueError(f"the translator does not know {', '.join(map(repr, unknown))}")
    for cut in cuts:
        place, *numbers = cut.split()
        right = place in ("encoder", "decoder", "cross", "*") and len(numbers) == 4
        if not right or not all(n in ("*", "=", "<") or n.isdigit() for n in numbers):
            raise ValueError(
                f"a cut is 'place layer head query key', such as 'cross * * * 2', got {cut!r}"
            )
