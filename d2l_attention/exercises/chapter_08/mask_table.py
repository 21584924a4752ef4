"""Mistakes in each of the three masks of 8.3, and what to say about them."""

import torch
from torch import Tensor

# What the mask is for, who asks and who is asked.
ROLES = [
    ("The encoder's self-attention", "source", "source"),
    ("The decoder's self-attention", "target", "target"),
    ("The decoder's attention to the source", "target", "source"),
]


class Sizes:
    """Lengths and numbers of places of both sides, by name."""

    def __init__(self, src_lens: Tensor, tgt_lens: Tensor, num_src: int, num_tgt: int):
        self.lens = {"source": src_lens, "target": tgt_lens}
        self.places = {"source": num_src, "target": num_tgt}

    def shape(self, axes: tuple[str, str] | list[str]) -> tuple[int, int, int]:
        return (len(self.lens["source"]), *(self.places[side] for side in axes))

    def words(self, side: str, *, lens_of: str | None = None, more: int = 0) -> Tensor:
        """(B, n): which places of ``side`` hold words, by its own lengths or another's."""
        lens = self.lens[lens_of or side] + more
        return torch.arange(self.places[side]) < lens[:, None]

    def distance(self, asks: str, asked: str) -> Tensor:
        """(Q, K): how many places behind the query a key stands."""
        keys, queries = torch.arange(self.places[asked]), torch.arange(self.places[asks])
        return keys - queries[:, None]


# Each takes (sizes, asks, asked) and gives a mask that broadcasts to (B, Q, K).


def everything(sizes, asks, asked):
    return torch.ones(sizes.shape((asks, asked)), dtype=torch.bool)


def padding(sizes, asks, asked):
    return sizes.words(asked)[:, None]


def rows(sizes, asks, asked):
    return sizes.words(asks)[..., None]


def turned(sizes, asks, asked):
    """The right mask with its axes swapped, which fits where both sides are equally long."""
    return rows(sizes, asked, asks)


def other_padding(sizes, asks, asked):
    other = "target" if asked == "source" else "source"
    return sizes.words(asked, lens_of=other)[:, None]


def one_word_more(sizes, asks, asked):
    return sizes.words(asked, more=1)[:, None]


def one_word_less(sizes, asks, asked):
    return sizes.words(asked, more=-1)[:, None]


def turned_over(sizes, asks, asked):
    return ~padding(sizes, asks, asked)


def causal(sizes, asks, asked):
    return sizes.distance(asks, asked) <= 0


def causal_and(another):
    def both(sizes, asks, asked):
        return causal(sizes, asks, asked) & another(sizes, asks, asked)

    return both


def strictly_past(sizes, asks, asked):
    return sizes.distance(asks, asked) < 0


def one_ahead(sizes, asks, asked):
    return sizes.distance(asks, asked) <= 1


def future(sizes, asks, asked):
    return sizes.distance(asks, asked) >= 0


def strictly_future(sizes, asks, asked):
    return sizes.distance(asks, asked) > 0


def and_padding(mistake):
    def both(sizes, asks, asked):
        return mistake(sizes, asks, asked) & padding(sizes, asks, asked)

    return both


def with_padding(mistake, why: str) -> list[tuple]:
    """The same mistake with and without the target's padding, which is hidden anyway."""
    return [(mistake, why), (and_padding(mistake), why)]


VISIBLE = "the source's padding is visible. Its embeddings are no words; hide them by `src_lens`."
ROWS = (
    "the source's padding is visible. You hide rows, those who ask. Hide columns, those who are "
    "asked: the mask is (B, 1, K)."
)
SWAPPED = "queries and keys are swapped: rows are who asks, columns who is asked."
TURNED = (
    "your mask is turned over: the words are hidden, the padding is visible. True = may attend."
)
MORE = "one padding place is visible: a length of 2 shows words 0 and 1."
LESS = "each sentence's last word is hidden: a length of 2 shows words 0 and 1."
AHEAD = (
    "one too many: each token sees the next one, which is the very word that it should predict. "
    "It sees itself and what comes before: `key <= query`."
)
FEW = (
    "one too few: no token sees itself, and the first sees nothing. What goes in at a place is "
    "the word before the one to predict: it may see itself, `key <= query`."
)

SOURCE = [
    (rows, ROWS),
    (everything, VISIBLE),
    (turned_over, TURNED),
    (one_word_more, MORE),
    (one_word_less, LESS),
]
ENCODER_CAUSAL = (
    "the future is hidden. The source is there in full before anything is translated: each of its "
    "words may see all the others."
)
CROSS_CAUSAL = (
    "your mask is causal, and there is no future in the source: it is there in full. The first "
    "word written may need the last word read."
)
OTHER_LENS = (
    "you hide by `tgt_lens`, which counts the target's words. Those asked are the source's."
)
SHOWS = [
    [
        *SOURCE,
        (causal, ENCODER_CAUSAL),
        (causal_and(padding), ENCODER_CAUSAL),
        (strictly_past, ENCODER_CAUSAL),
        (other_padding, OTHER_LENS),
    ],
    [
        (everything, "everything is visible, the future, too. Nobody has written it yet."),
        (
            padding,
            "the future is visible: your mask hides the padding alone. A word that is not written "
            "yet cannot be seen, in training no more than in translation.",
        ),
        (
            other_padding,
            "you hide by `src_lens`, which counts the source's words, and the future is visible.",
        ),
        (
            causal_and(other_padding),
            "you hide by `src_lens`, which counts the source's words. Those asked are the "
            "target's; the future is all that has to be hidden.",
        ),
        *with_padding(one_ahead, AHEAD),
        *with_padding(strictly_past, FEW),
        *with_padding(
            future, "the past is hidden and the future visible: rows are who asks, `key <= query`."
        ),
        *with_padding(
            strictly_future,
            "your mask is turned over: the past is hidden, the future visible. True = may attend.",
        ),
    ],
    [
        *SOURCE,
        (turned, SWAPPED),
        (other_padding, OTHER_LENS),
        (causal, CROSS_CAUSAL),
        (causal_and(padding), CROSS_CAUSAL),
        (causal_and(other_padding), CROSS_CAUSAL),
    ],
]
