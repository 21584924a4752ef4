"""The course's two translators, trained once: to look at one, nobody has to train it first.

::

    from d2l_attention.training.evaluation import translate
    from d2l_attention.training.translators import translator

    model, src_vocab, tgt_vocab = translator("transformer")
    translate(model, [["he", "sees", "her"]], src_vocab, tgt_vocab)  # [["il", "la", "voit"]]

This folder holds them in a form that other languages read with little code. ``source.json`` and
``target.json`` are the vocabularies of both. ``NAME.json`` is a model's card. ``NAME.float16`` is
all its weights and nothing else: one tensor after the other, in the order of the card, row by row,
in half precision, little-endian. ``python -m d2l_attention.training.translators`` makes the files.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from d2l_attention.data import Vocab
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.training.devices import own_randomness
from d2l_attention.training.presets import MODELS

HERE = Path(__file__).parent
NAMES = "bahdanau", "transformer"

__all__ = ["model_card", "translator"]


def translator(name: str, folder: str | Path = HERE) -> tuple[EncoderDecoder, Vocab, Vocab]:
    """A trained translator and its two vocabularies, English and French.

    ``name``: "bahdanau" (chapter 5) or "transformer" (chapter 8). Each call gives a new model, in
    eval mode, of the default dtype. Its weights have the values of the stored float16, so that
    another language computes with the same numbers. The caller's random numbers stay as they were.

    Errors: ``ValueError`` for another name, and where a file is damaged; ``FileNotFoundError``
    where one is missing.
    """
    card = model_card(name, folder)
    src_vocab, tgt_vocab = (
        Vocab.load(existing(Path(folder, f"{side}.json"))) for side in ("source", "target")
    )
    weights = read_weights(existing(Path(folder, f"{name}.float16")), card)
    with own_randomness(torch.get_default_device()):
        model = MODELS[name](len(src_vocab), len(tgt_vocab), **card["sizes"])
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{folder}: {name}.json does not fit its weights or words") from error
    return model.eval(), src_vocab, tgt_vocab


def model_card(name: str, folder: str | Path = HERE) -> dict[str, Any]:
    """How this translator is built, how it was trained, and what it reaches.

    ``sizes``: what ``MODELS[name]`` takes beside the vocabularies' sizes. ``parameters``: how many
    numbers were learned. ``training``: data, steps, batch size, learning rate, seed, versions.
    ``test`` and ``compositional``: what the stored weights reach on these splits. ``weights``: the
    shape of each tensor in the file, in their order.

    Errors: those of ``translator``. Source: Mitchell et al. (2019), *Model Cards for Model
    Reporting*.
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    path = existing(Path(folder, f"{name}.json"))
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        complete = card.keys() >= {"sizes", "sha256", "weights"}
    except (ValueError, AttributeError):
        complete = False
    if not complete:
        raise ValueError(f"{path} holds no model card: it is damaged or another kind of file")
    return card


def read_weights(path: Path, card: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of the file, by name, in float32."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise ValueError(f"{path} is damaged, or not the file of its model card")
    numbers = torch.frombuffer(bytearray(content), dtype=torch.float16).float()
    shapes = card["weights"]
    parts = numbers.split([math.prod(shape) for shape in shapes.values()])
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: python -m d2l_attention.training.translators makes it"
        )
    return path
