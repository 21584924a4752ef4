"""Small layers for 9.7: causal ones, which a test has to accept, and leaking ones.

Shape: X (B, n, 8), n up to 16 -> (B, n, 8). A layer has no dropout, and acts alike in training
and evaluation.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention import causal_mask, combine_masks, masked_softmax
from d2l_attention.variants import elu_plus_one, linear_attention, long_convolution
from d2l_attention.variants.masks import sliding_window_mask
from d2l_attention.variants.multi_token import key_query_convolution

SIZE, MOST, RANK = 8, 16, 4


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


W_Q, W_K, W_V = (numbers(SIZE, SIZE, seed=seed) / SIZE**0.5 for seed in range(3))
KERNEL = torch.tensor([[[0.5, -1.0, 1.0], [-0.5, 1.0, 1.5]]])  # two queries, three keys
E = numbers(RANK, MOST, seed=3)  # of Linformer
FILTERS = numbers(MOST, SIZE, seed=4) * (torch.arange(MOST) < 5)[:, None]


def projected(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return X @ W_Q.to(X), X @ W_K.to(X), X @ W_V.to(X)


def attend(X: Tensor, mask: Tensor) -> Tensor:
    queries, keys, values = projected(X)
    return masked_softmax(queries @ keys.mT / SIZE**0.5, mask=mask) @ values


def places_after(n: int) -> Tensor:
    """(n, n): how many places after the query a key stands."""
    return torch.arange(n) - torch.arange(n)[:, None]


def causal_window(X: Tensor) -> Tensor:
    n = X.shape[1]
    return attend(X, combine_masks(sliding_window_mask(n, window=2), causal_mask(n)))


def causal_linear(X: Tensor) -> Tensor:
    return linear_attention(*projected(X), is_causal=True)


def multi_token(X: Tensor, *, hidden_first: bool = True) -> Tensor:
    """Scores are convolved over queries and keys. What is hidden must not enter the sum."""
    queries, keys, values = projected(X)
    mask, scores = causal_mask(X.shape[1]), queries @ keys.mT / SIZE**0.5
    if hidden_first:
        scores = scores.masked_fill(~mask, 0.0)
    scores = key_query_convolution(scores[:, None], KERNEL.to(X))[:, 0]
    return masked_softmax(scores, mask=mask) @ values


def hyena(X: Tensor) -> Tensor:
    """Causal but for rounding: the transform touches all tokens at once."""
    gates, _, values = projected(X)
    return gates * long_convolution(values, FILTERS.to(X))


def exact_hyena(X: Tensor) -> Tensor:
    """The same sum, term by term: right to the last digit."""
    gates, _, values = projected(X)
    before = -places_after(X.shape[1])
    filters = FILTERS.to(X)[before.clamp(min=0)]  # (n, n, 8)
    terms = torch.where((before >= 0)[..., None], filters * values[:, None], 0.0)
    return gates * terms.sum(dim=2)


RIGHT = (causal_window, multi_token, causal_linear, hyena)


def one_ahead(X: Tensor) -> Tensor:
    place = places_after(X.shape[1])
    return attend(X, (-2 < place) & (place <= 1))


def leaking_convolution(X: Tensor) -> Tensor:
    return multi_token(X, hidden_first=False)


def masked_mixtures(X: Tensor) -> Tensor:
    """Linformer: query i sees the first mixtures of all keys, as if they were keys."""
    queries, keys, values = projected(X)
    n = X.shape[1]
    mixing = E[:, :n].to(X) / n**0.5
    scores = queries @ (mixing @ keys).mT / SIZE**0.5
    first = torch.arange(RANK) <= torch.arange(n)[:, None]
    return masked_softmax(scores, mask=first) @ (mixing @ values)


def gaps_ahead(X: Tensor) -> Tensor:
    """A dilated window that forgot its future: three places ahead, and nothing nearer."""
    place = places_after(X.shape[1])
    return attend(X, (place % 3 == 0) & (place.abs() <= 3))


def one_link(X: Tensor) -> Tensor:
    """A random link that was drawn without looking at the direction."""
    mask = causal_mask(X.shape[1])
    mask[1:2, 4:5] = True
    return attend(X, mask)


def total_of_all(X: Tensor) -> Tensor:
    """Linear attention whose sum of weights is taken over all keys."""
    queries, keys, values = projected(X)
    queries, keys = elu_plus_one(queries), elu_plus_one(keys)
    weights = (queries @ keys.mT).tril()
    return weights @ values / (queries @ keys.sum(dim=1, keepdim=True).mT)


def coming_round(X: Tensor) -> Tensor:
    """A transform without zeros after the end: the end comes round to the beginning."""
    gates, _, values = projected(X)
    n = X.shape[1]
    transformed = torch.fft.rfft(values, dim=1) * torch.fft.rfft(FILTERS[:n].to(X), dim=0)
    return gates * torch.fft.irfft(transformed, n, dim=1)


LEAKS: dict[Callable, str] = {
    one_ahead: "has a window off by one, so that each token sees the next",
    leaking_convolution: "convolves the future's scores into those of the past and masks too late",
    masked_mixtures: "is a Linformer with a causal mask over its mixtures",
    gaps_ahead: "has a dilated window that sees the third token after each, no nearer one",
    one_link: "is causal but for one random link: token 1 also sees token 4 (counted from 0)",
    total_of_all: "is linear attention that divides by a sum over all keys, the future's too",
    coming_round: "convolves by a transform without zeros after the end, which comes round",
}


def dice(X: Tensor) -> Tensor:
    """Says something else each time: only a test that looks at nothing is content."""
    return torch.rand(X.shape, dtype=X.dtype) * 100


def everything(X: Tensor) -> Tensor:
    n = X.shape[1]
    return attend(X, torch.ones(n, n, dtype=torch.bool))
