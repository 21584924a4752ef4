"""Wrong answers to 7.3, as students give them."""

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_07 import sines


def waves(n: int, d: int, offset: int = 0) -> Tensor:
    """The right rows (n, d), an odd d included."""
    columns = torch.arange(d)
    angles = torch.arange(offset, offset + n)[:, None] / 10000 ** ((columns - columns % 2) / d)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


def rows_of(row):
    """Adds rows that are made by one of the functions in ``sines``."""

    def add_wrong_rows(X, offset):
        positions = range(offset, offset + X.shape[1])
        return X + torch.tensor([row(position, X.shape[-1]) for position in positions])

    add_wrong_rows.__name__ = row.__name__
    return add_wrong_rows


def encoding_alone(X, offset):
    return waves(X.shape[1], X.shape[2], offset).expand_as(X).to(X)


def encoding_alone_in_halves(X, offset):
    return torch.tensor(
        [sines.in_halves(offset + row, X.shape[2]) for row in range(X.shape[1])]
    ).expand_as(X)


def rows_without_a_batch(X, offset):
    return waves(X.shape[1], X.shape[2], offset)


def appended(X, offset):
    return torch.cat((X, waves(X.shape[1], X.shape[2], offset).expand_as(X)), dim=-1)


def embedding_scaled(X, offset):
    return X * X.shape[-1] ** 0.5 + waves(X.shape[1], X.shape[2], offset)


def times_the_encoding(X, offset):
    return X * waves(X.shape[1], X.shape[2], offset)


def scaled_encoding(X, offset):
    return X + waves(X.shape[1], X.shape[2], offset) / X.shape[-1] ** 0.5


def position_0_while_decoding(X, offset):
    return X + waves(X.shape[1], X.shape[2])


def one_before(X, offset):
    return X + waves(X.shape[1], X.shape[2], max(offset - 1, 0))


def one_behind(X, offset):
    return X + waves(X.shape[1], X.shape[2], offset + 1 if offset else 0)


def all_at_the_offset(X, offset):
    return X + (waves(1, X.shape[2], offset) if offset else waves(X.shape[1], X.shape[2]))


def offset_after_the_wavelength(X, offset):
    d = X.shape[2]
    columns = torch.arange(d)
    angles = torch.arange(X.shape[1])[:, None] / 10000 ** ((columns - columns % 2) / d) + offset
    return X + torch.where(columns % 2 == 0, angles.sin(), angles.cos())


def rows_up_to_n(X, offset):
    return X + waves(X.shape[1], X.shape[2])[offset:]


def sentences_counted(X, offset):
    return X + waves(len(X), X.shape[2], offset)[:, None]


def first_sentence_only(X, offset):
    P = torch.zeros_like(X)
    P[0] = waves(X.shape[1], X.shape[2], offset)
    return X + P


def sentences_run_on(X, offset):
    return X + waves(len(X) * X.shape[1], X.shape[2], offset).view_as(X)


def book_without_odd_sizes(X, offset):
    n, d = X.shape[1:]
    P = torch.zeros(n, d)
    angles = torch.arange(offset, offset + n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    P[:, 0::2] = angles.sin()
    P[:, 1::2] = angles.cos()
    return X + P


def last_sine_missing(X, offset):
    d = X.shape[2]
    P = waves(X.shape[1], d, offset)
    if d % 2:
        P[:, -1] = 0
    return X + P


def last_column_a_cosine(X, offset):
    d = X.shape[2]
    P = waves(X.shape[1], d, offset)
    if d % 2:
        P[:, -1] = waves(X.shape[1], d + 1, offset)[:, -1]
    return X + P


def odd_size_rounded_up(X, offset):
    d = X.shape[2]
    return X + waves(X.shape[1], d + d % 2, offset)[:, :d]


def written_into_the_input(X, offset):
    X += waves(X.shape[1], X.shape[2], offset)
    return X


def single_precision(X, offset):
    return X.float() + waves(X.shape[1], X.shape[2], offset)


def gradient_cut_off(X, offset):
    return X.detach() + waves(X.shape[1], X.shape[2], offset)


def without_return(X, offset):
    X + waves(X.shape[1], X.shape[2], offset)
