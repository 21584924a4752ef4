"""Answers to chapter 4 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
from answers import right, wrong

from d2l_attention import causal_mask, length_mask


@right("4.2")
def softmax_row_by_row(scores, mask):
    rows = []
    for row, seen in zip(scores.flatten(0, -2), mask.flatten(0, -2), strict=True):
        weights = torch.zeros_like(row)
        weights[seen] = torch.softmax(row[seen], 0)
        rows.append(weights)
    return torch.stack(rows).view(scores.shape)


def infinity_twice(scores, mask):
    filled = scores.masked_fill(~mask, -math.inf)
    return filled.softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong("4.2", "stops at a batch of them")
def matrix_by_matrix(scores, mask):
    weights = torch.zeros_like(scores)
    for q in range(len(scores)):
        for k in range(scores.shape[1]):
            if mask[q, k]:
                weights[q, k] = scores[q, k].exp()
    return weights / weights.sum(1, keepdim=True)


@wrong("4.2", "0 times infinity is NaN")
def numpy_softmax(scores, mask):
    shares = np.exp(scores.numpy()) * mask.numpy()
    return torch.from_numpy(shares / shares.sum(-1, keepdims=True))


def last_tokens_that_reach(layers=3, tokens=10, position=2):
    """Measured: which tokens can change the answer, under a mask that is wrong by one."""
    torch.manual_seed(0)
    X = torch.randn(tokens, 8)
    one_too_far = causal_mask(tokens, tokens, offset=1)
    changed = []
    for token in range(tokens):
        other = X.clone()
        other[token] += 1
        before, after, differ = X, other, []
        for _ in range(layers):
            before, after = (
                infinity_twice(x @ x.T / 8**0.5, one_too_far) @ x for x in (before, after)
            )
            differ.append(not torch.equal(before[position], after[position]))
        changed.append(differ)
    return [max(t for t in range(tokens) if changed[t][layer]) for layer in range(layers)]


@right("4.4")
def lens_in_lists(valid_lens, num_steps):
    return torch.tensor([[min(i + 1, n) for i in range(num_steps)] for n in valid_lens.tolist()])


@wrong("4.4", "Asked for are the lengths")
def mask_itself(valid_lens, num_steps):
    return length_mask(valid_lens, num_steps) & causal_mask(num_steps)


@wrong("4.4", "The sentences have to be the rows")
def lens_on_their_side(valid_lens, num_steps):
    return lens_in_lists(valid_lens, num_steps).T


@right("4.5")
def mean_in_double(losses, valid_lens):
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row, n in zip(losses, valid_lens.tolist(), strict=True):
        for loss in row[:n]:
            total, count = total + loss.double(), count + 1
    return (total + losses[:, :0].sum()).to(losses.dtype) / (count or 1)


@wrong("4.5", "One number for the whole batch")
def mean_per_sentence(losses, valid_lens):
    return torch.stack([row[:n].mean() for row, n in zip(losses, valid_lens, strict=True)])


@wrong("4.5", "It has no gradient")
def a_number(losses, valid_lens):
    return mean_in_double(losses, valid_lens).item()


@right("4.6")
def attend_in_loops(queries, keys, values, valid_lens):
    answers = []
    for q, k, v, n in zip(queries, keys, values, valid_lens.tolist(), strict=True):
        scores = q @ k[:n].T / math.sqrt(q.shape[-1])
        answers.append(scores.softmax(-1) @ v[:n])
    return torch.stack(answers)


@wrong("4.6", "the gradient of `queries` is NaN")
def attend_with_a_bias(queries, keys, values, valid_lens):
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    bias = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
    return (queries @ keys.mT / queries.shape[-1] ** 0.5 + bias).softmax(-1).nan_to_num() @ values


@wrong("4.6", "three lengths give three")
def attend_if(queries, keys, values, valid_lens):
    if valid_lens == 0:
        return queries.new_zeros(1, queries.shape[1], values.shape[2])
    return attend_in_loops(queries, keys, values, valid_lens)


def given():
    """Queries, keys, values, lengths, and where the padding is."""
    tensors = [torch.randn(shape) for shape in ((3, 2, 7), (3, 5, 7), (3, 5, 11))]
    valid_lens = torch.tensor([0, 3, 5])
    return *tensors, valid_lens, (torch.arange(5) >= valid_lens[:, None])[..., None]


def poured(padding, dye, *tensors):
    return [X.masked_fill(padding, dye) for X in tensors]


@right("4.7")
def three_dyes(attend):
    queries, keys, values, valid_lens, padding = given()
    seen = [
        attend(queries, *poured(padding, dye, keys, values), valid_lens).numpy()
        for dye in (0.0, 1e4, float("nan"))
    ]
    for other in seen[1:]:
        np.testing.assert_allclose(other, seen[0], rtol=1e-4, atol=1e-5)


@wrong("4.7", "can your comparison see it")
def largest_difference(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    dyed = attend(queries, *poured(padding, torch.nan, keys, values), valid_lens)
    assert not (dyed - clean).abs().max() > 1e-6


@wrong("4.7", "Do not ask for particular numbers")
def particular_numbers(attend):
    *inputs, _ = given()
    torch.testing.assert_close(attend(*inputs), attend_in_loops(*inputs))


right("4.1")([Fraction(3, 4), Fraction(1, 4), 0])
wrong("4.1", "you gave the hidden key the score 0")(torch.tensor([0.6, 0.2, 0.2]))
wrong("4.1", "two weights for three keys")((3 / 4, 1 / 4))
right("4.3")(torch.tensor(last_tokens_that_reach()))
wrong("4.3", "each layer reads what the layer before it wrote")((3, 3, 3))
wrong("4.3", "Give one for each of the three layers")(5)
