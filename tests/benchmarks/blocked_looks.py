"""Chapter 8's table: does the ending of 'mangée' change when looks are forbidden?

``python -m tests.benchmarks.blocked_looks`` trains five translators for a minute each.
"""

import argparse
from collections.abc import Iterator

import torch
from torch import nn

from d2l_attention.data import BOS, EOS, Pair, Vocab, load
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.training import MODELS, train
from d2l_attention.training.translators import translator

AUXILIARIES = {"a", "ai", "as", "avons", "avez", "ont"}
DETERMINERS = set("a an the this that these those my your his her our their two three some".split())
Look = tuple[str, slice, slice]  # kind of attention, queries, keys


def chosen(pairs: list[Pair]) -> list[Pair]:
    """Sentences that end with a noun, 'and', a verb in the past, and 'it' or 'them'."""
    return [
        pair
        for pair in pairs
        if pair.source[-1] in ("it", "them")
        and pair.source[-3] == "and"
        and pair.target[-3] in ("l'", "les")
        and pair.target[-2] in AUXILIARIES
        and "of" not in pair.source
    ]


def cases(pair: Pair) -> dict[str, list[Look]]:
    """What is forbidden. A French query or key is counted as the decoder reads it, behind <bos>."""
    noun = len(pair.source) - 4
    first = max(i for i in range(noun) if pair.source[i] in DETERMINERS)
    links = sorted(j for i, j in pair.possible if first <= i <= noun)
    et = len(pair.target) - 1 - pair.target[::-1].index("et")
    french = [j + 1 for j in links if j < et]
    phrase, says = slice(french[0], french[-1] + 1), slice(len(pair.target) - 1, None)
    behind, later = slice(noun + 1, None), slice(et + 1, None)
    english, words = slice(first, noun + 1), noun + 1 - first
    it = ("attention", slice(noun + 3, noun + 4), slice(noun, noun + 1))
    la = ("attention1", says, slice(phrase.start, phrase.start + 1))
    paths = [
        ("attention", behind, english),
        ("attention1", later, phrase),
        ("attention2", later, english),
    ]
    fourth = ("attention2", slice(None, later.start), english)
    every = [
        *paths,
        fourth,
        ("attention", slice(None, first), english),
        ("attention1", slice(phrase.stop, None), phrase),
    ]
    before = slice(max(0, first - words), first)
    before_phrase = slice(max(1, phrase.start - len(french)), phrase.start)
    control = [
        ("attention", behind, before),
        ("attention1", later, before_phrase),
        ("attention2", later, before),
    ]
    return {
        "nothing": [],
        "it -> noun": [it],
        "ending -> French article": [la],
        "both looks": [it, la],
        "path 1: English words behind -> English phrase": paths[:1],
        "path 2: French words behind -> French phrase": paths[1:2],
        "path 3: French words behind -> English phrase": paths[2:],
        "paths 1 and 2": paths[:2],
        "paths 1 and 3": [paths[0], paths[2]],
        "paths 2 and 3": paths[1:],
        "all three paths": paths,
        "these three, and earlier French -> English": [*paths, fourth],
        "every path: no other word sees the phrases": every,
        "control: as many words before the phrases": control,
    }


def layers(model: EncoderDecoder, kind: str) -> Iterator[nn.Module]:
    half = model.encoder if kind == "attention" else model.decoder
    for block in half.blks:
        yield getattr(block, kind)


def forbid(layer: nn.Module, queries: slice, keys: slice) -> torch.utils.hooks.RemovableHandle:
    def hide(layer, inputs, named):
        allowed = torch.ones(inputs[0].shape[1], inputs[1].shape[1], dtype=torch.bool)
        allowed[queries, keys] = False
        before = named.get("mask")  # of another look in the same layer
        return inputs, {**named, "mask": allowed if before is None else allowed & before}

    return layer.register_forward_pre_hook(hide, with_kwargs=True)


@torch.no_grad()
def last_word(
    model: EncoderDecoder, src_vocab: Vocab, tgt_vocab: Vocab, pair: Pair, looks: list[Look]
) -> str:
    """The last word of the translation, when all before it are given and looks are forbidden."""
    source = torch.tensor([src_vocab[[*pair.source, EOS]]])
    so_far = torch.tensor([tgt_vocab[[BOS, *pair.target[:-1]]]])
    hooks = [forbid(layer, *where) for kind, *where in looks for layer in layers(model, kind)]
    best = model(source, so_far)[0, -1].argmax()
    for hook in hooks:
        hook.remove()
    return tgt_vocab.to_tokens([best])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = load("grammar")
    pairs = chosen([*corpus.test, *corpus.valid, *corpus.compositional])
    vocabs = (
        Vocab((pair.source for pair in corpus.train), min_freq=2),
        Vocab((pair.target for pair in corpus.train), min_freq=2),
    )
    models = [translator("transformer")]
    for seed in range(options.starts):
        torch.manual_seed(seed)
        model = MODELS["transformer"](*map(len, vocabs), num_hiddens=64, num_heads=4, num_blks=2)
        train(model, corpus.train, *vocabs, steps=options.steps, lr=0.006, seed=seed)
        models.append((model.eval(), *vocabs))
    feminine = sum(pair.target[-1].endswith(("e", "es")) for pair in pairs)
    print(f"right endings of {len(pairs)}, of which {feminine} are feminine")
    for name in cases(pairs[0]):
        right = []
        for each in models:
            says = [last_word(*each, pair, cases(pair)[name]) for pair in pairs]
            right.append(sum(map(str.__eq__, says, [pair.target[-1] for pair in pairs])))
        print(f"{name:47}", *(f"{count:3}" for count in right), flush=True)


if __name__ == "__main__":
    main()
