"""Answers to chapter 4 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import (
    attention_pooling,
    causal_mask,
    dot_product_attention,
    length_mask,
    masked_softmax,
    scaled_dot_score,
)

# 4.2 --------------------------------------------------------------------------------------


def softmax_of_the_package(scores, mask):
    return masked_softmax(scores, mask=mask)


def softmax_from_exponentials(scores, mask):
    wide = scores.double()
    largest = torch.where(mask, wide, -math.inf).amax(-1, keepdim=True).clamp(min=-1e300)
    shares = torch.exp(torch.where(mask, wide - largest, -math.inf))
    return (shares / shares.sum(-1, keepdim=True).clamp(min=1e-300)).to(scores.dtype)


def softmax_row_by_row(scores, mask):
    rows = []
    for row, seen in zip(scores.flatten(0, -2), mask.flatten(0, -2), strict=True):
        weights = torch.zeros_like(row)
        weights[seen] = torch.softmax(row[seen], 0)
        rows.append(weights)
    return torch.stack(rows).view(scores.shape)


def softmax_without_nan(scores, mask):
    return F.softmax(torch.where(mask, scores, -torch.inf), -1).nan_to_num()


def softmax_by_logsumexp(scores, mask):
    hidden = scores.masked_fill(~mask, -torch.inf)
    total = hidden.logsumexp(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return (hidden - total).exp()


def minus_a_billion(scores, mask):
    weights = scores.float().masked_fill(~mask, -1e9).softmax(-1).masked_fill(~mask, 0.0)
    return weights.to(scores.dtype)


def nan_in_the_gradient(scores, mask):
    bias = torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    return (scores + bias).softmax(dim=-1).nan_to_num()


def matrix_by_matrix(scores, mask):
    weights = torch.zeros_like(scores)
    for q in range(len(scores)):
        for k in range(scores.shape[1]):
            if mask[q, k]:
                weights[q, k] = scores[q, k].exp()
    return weights / weights.sum(1, keepdim=True)


def numpy_softmax(scores, mask):
    shares = np.exp(scores.numpy()) * mask.numpy()
    return torch.from_numpy(shares / shares.sum(-1, keepdims=True))


def divided_again(scores, mask):
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def single_precision(scores, mask):
    return masked_softmax(scores.float(), mask=mask)


def mask_on_its_side(scores, mask):
    flipped = mask.mT if mask.shape[-1] == mask.shape[-2] else mask
    return masked_softmax(scores, mask=flipped)


def written_into(scores, mask):
    scores[~mask] = -math.inf
    return scores.softmax(-1).nan_to_num()


# 4.4 --------------------------------------------------------------------------------------


def lens_in_lists(valid_lens, num_steps):
    return torch.tensor([[min(i + 1, n) for i in range(num_steps)] for n in valid_lens.tolist()])


def lens_by_clamp(valid_lens, num_steps):
    return torch.stack([torch.arange(1, num_steps + 1).clamp(max=n) for n in valid_lens])


def lens_counted_in_the_mask(valid_lens, num_steps):
    return (length_mask(valid_lens, num_steps) & causal_mask(num_steps)).sum(dim=-1)


def lens_by_numpy(valid_lens, num_steps):
    return torch.from_numpy(np.minimum.outer(valid_lens.numpy(), np.arange(num_steps) + 1))


def lists_of_lens(valid_lens, num_steps):
    return lens_in_lists(valid_lens, num_steps).tolist()


def mask_itself(valid_lens, num_steps):
    return length_mask(valid_lens, num_steps) & causal_mask(num_steps)


def first_sentence_only(valid_lens, num_steps):
    return torch.arange(1, num_steps + 1).clamp(max=valid_lens[0].item())[None]


def lens_on_their_side(valid_lens, num_steps):
    return lens_in_lists(valid_lens, num_steps).T


def floats(valid_lens, num_steps):
    return torch.cumsum(torch.ones(num_steps), 0).minimum(valid_lens[:, None].float())


def padding_asks_nothing(valid_lens, num_steps):
    lens = lens_in_lists(valid_lens, num_steps)
    for row, n in zip(lens, valid_lens, strict=True):
        row[n:] = 0
    return lens


# 4.5 --------------------------------------------------------------------------------------


def mean_by_index(losses, valid_lens):
    words = losses[length_mask(valid_lens, losses.shape[1])[:, 0]]
    return words.sum() / max(len(words), 1)


def mean_by_slices(losses, valid_lens):
    words = torch.cat([row[:n] for row, n in zip(losses, valid_lens, strict=True)])
    return words.sum() if words.numel() == 0 else words.mean()


def mean_in_double(losses, valid_lens):
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row, n in zip(losses, valid_lens.tolist(), strict=True):
        for loss in row[:n]:
            total, count = total + loss.double(), count + 1
    return (total + losses[:, :0].sum()).to(losses.dtype) / (count or 1)


def mean_by_where(losses, valid_lens):
    words = torch.arange(losses.shape[-1]).expand_as(losses) < valid_lens.unsqueeze(1)
    return torch.where(words, losses, 0).sum().div(valid_lens.sum().clamp(min=1))


def nan_cured(losses, valid_lens):
    words = torch.arange(losses.shape[1]) < valid_lens[:, None]
    return (losses.nan_to_num() * words).sum() / valid_lens.sum().clamp(min=1)


def nan_left_out(losses, valid_lens):
    words = torch.arange(losses.shape[1]) < valid_lens[:, None]
    return losses.masked_fill(~words, torch.nan).nanmean().nan_to_num()


def mean_per_sentence(losses, valid_lens):
    return torch.stack([row[:n].mean() for row, n in zip(losses, valid_lens, strict=True)])


def sentences_first(losses, valid_lens):
    return mean_per_sentence(losses, valid_lens).mean()


def a_number(losses, valid_lens):
    return mean_by_where(losses, valid_lens).item()


def a_zero(losses, valid_lens):
    return mean_by_where(losses, valid_lens) if valid_lens.any() else torch.zeros(())


def rounded_away(losses, valid_lens):
    return torch.tensor(mean_by_where(losses, valid_lens).item())


def three_axes(losses, valid_lens):
    words = length_mask(valid_lens, losses.shape[1])
    return torch.where(words, losses, 0).sum() / words.sum().clamp(min=1)


# 4.6 --------------------------------------------------------------------------------------


def attend_in_loops(queries, keys, values, valid_lens):
    answers = []
    for q, k, v, n in zip(queries, keys, values, valid_lens.tolist(), strict=True):
        scores = q @ k[:n].T / math.sqrt(q.shape[-1])
        answers.append(scores.softmax(-1) @ v[:n])
    return torch.stack(answers)


def attend_by_pytorch(queries, keys, values, valid_lens):
    mask = length_mask(valid_lens, keys.shape[1]).expand(-1, queries.shape[1], -1)
    answers = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return answers.masked_fill((valid_lens == 0)[:, None, None], 0.0)


def attend_by_einsum(queries, keys, values, valid_lens):
    scores = torch.einsum("bqd,bkd->bqk", queries.double(), keys.double())
    scores = scores.mul(queries.shape[-1] ** -0.5).masked_fill(
        ~length_mask(valid_lens, keys.shape[1]), -torch.inf
    )
    return torch.einsum("bqk,bkv->bqv", scores.softmax(2).nan_to_num(), values.double()).float()


def attend_with_a_number(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    scores[hidden.expand_as(scores)] = -1e6
    return scores.softmax(dim=-1).masked_fill(hidden, 0.0) @ values


def attend_with_a_bias(queries, keys, values, valid_lens):
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    bias = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
    return (queries @ keys.mT / queries.shape[-1] ** 0.5 + bias).softmax(-1).nan_to_num() @ values


def attend_if(queries, keys, values, valid_lens):
    if valid_lens == 0:
        return queries.new_zeros(1, queries.shape[1], values.shape[2])
    return attend_in_loops(queries, keys, values, valid_lens)


def attend_with_weights(queries, keys, values, valid_lens):
    return dot_product_attention(queries, keys, values, valid_lens, need_weights=True)


def attend_with_detached_keys(queries, keys, values, valid_lens):
    return dot_product_attention(queries, keys.detach(), values, valid_lens)


def attend_on_its_side(queries, keys, values, valid_lens):
    scores = scaled_dot_score(queries, keys)
    mask = length_mask(valid_lens, keys.shape[1]).expand_as(scores)
    mask = mask.mT if mask.shape[1] == mask.shape[2] else mask
    return attention_pooling(scores, values, mask=mask)[0]


def attend_without_scale(queries, keys, values, valid_lens):
    return masked_softmax(queries.bmm(keys.mT), valid_lens).bmm(values)


# 4.7 --------------------------------------------------------------------------------------


def given(lens=(0, 3, 5)):
    """Queries, keys, values, lengths, and where the padding is."""
    tensors = [torch.randn(shape) for shape in ((3, 2, 7), (3, 5, 7), (3, 5, 11))]
    valid_lens = torch.tensor(lens)
    return *tensors, valid_lens, (torch.arange(5) >= valid_lens[:, None])[..., None]


def poured(padding, dye, *tensors):
    return [X.masked_fill(padding, dye) for X in tensors]


def gradients_by_backward(attend):
    queries, keys, values, valid_lens, padding = given()
    seen = []
    for dye in (0.0, 1e4, float("inf"), float("nan")):
        inputs = [
            X.clone().requires_grad_() for X in (queries, *poured(padding, dye, keys, values))
        ]
        output = attend(*inputs, valid_lens)
        output.square().sum().backward()
        seen.append([X.detach().numpy() for X in (output, *(X.grad for X in inputs))])
    for results in seen[1:]:
        for first, other in zip(seen[0], results, strict=True):
            np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-5)


def cut_off(attend):
    queries, keys, values, valid_lens, padding = given((1, 3, 0))
    keys, values = poured(padding, torch.nan, keys, values)
    for X in (queries, keys, values):
        X.requires_grad_()
    output = attend(queries, keys, values, valid_lens)
    alone = []
    for b, n in enumerate(valid_lens.tolist()):
        own = slice(b, b + 1)
        words = keys[own, :n], values[own, :n]
        alone.append(
            attend(queries[own], *words, valid_lens[own]) if n else torch.zeros_like(output[own])
        )
    alone = torch.cat(alone)
    torch.testing.assert_close(output, alone)
    (expected,) = torch.autograd.grad(alone.sum(), queries)
    for found in torch.autograd.grad(output.sum(), (queries, keys, values)):
        assert found.isfinite().all()
    (found,) = torch.autograd.grad(attend(queries, keys, values, valid_lens).sum(), queries)
    torch.testing.assert_close(found, expected)


def shape_only(attend):
    queries, keys, values, valid_lens, _ = given()
    assert attend(queries, keys, values, valid_lens).shape == (3, 2, 11)


def all_swallowed(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    try:
        assert clean.equal(attend(queries, *poured(padding, 9.0, keys, values), valid_lens))
    except AssertionError:
        print("the padding leaks")


def values_only(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    assert clean.equal(attend(queries, keys, *poured(padding, torch.nan, values), valid_lens))


def a_number_as_dye(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    dyed = attend(queries, *poured(padding, 9.0, keys, values), valid_lens)
    torch.testing.assert_close(dyed, clean)


def outputs_only(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    dyed = attend(queries, *poured(padding, torch.nan, keys, values), valid_lens)
    torch.testing.assert_close(dyed, clean)


def no_length_of_0(attend):
    queries, keys, values, valid_lens, padding = given((1, 3, 5))
    clean = attend(queries, keys, values, valid_lens)
    assert clean.equal(attend(queries, *poured(padding, torch.nan, keys, values), valid_lens))


def largest_difference(attend):
    queries, keys, values, valid_lens, padding = given()
    clean = attend(queries, keys, values, valid_lens)
    dyed = attend(queries, *poured(padding, torch.nan, keys, values), valid_lens)
    assert not (dyed - clean).abs().max() > 1e-6


def particular_numbers(attend):
    *inputs, _ = given()
    torch.testing.assert_close(attend(*inputs), attend_in_loops(*inputs))


RIGHT = {
    "4.1": [
        (0.75, 0.25, 0),
        [torch.tensor(0.75), np.float32(0.25), 0],
        torch.tensor([[3, 1, 0]]) / 4,
        [Fraction(3, 4), Fraction(1, 4), 0],
    ],
    "4.2": [
        softmax_of_the_package,
        softmax_from_exponentials,
        softmax_row_by_row,
        softmax_without_nan,
        softmax_by_logsumexp,
    ],
    "4.3": [25 / 48, Fraction(25, 48), np.float32(0.521), torch.tensor(0.5208), [0.521]],
    "4.4": [lens_in_lists, lens_by_clamp, lens_counted_in_the_mask, lens_by_numpy],
    "4.5": [mean_by_index, mean_by_slices, mean_in_double, mean_by_where],
    "4.6": [attend_in_loops, attend_by_pytorch, attend_by_einsum],
    "4.7": [gradients_by_backward, cut_off],
}
WRONG = {
    "4.1": [
        ([0.02, 0.0066, 0.9738], "nothing is hidden here"),
        (torch.tensor([0.6, 0.2, 0.2]), "you gave the hidden key the score 0"),
        ((3 / 4, 1 / 4), "two weights for three keys"),
        ([75, 25, 0], "looks like a percentage"),
        ("3/4 1/4 0", "Give a list of numbers"),
        ([0.7, 0.3, 0], "0.7 is too small"),
    ],
    "4.2": [
        (minus_a_billion, "loses to the hidden key"),
        (nan_in_the_gradient, "the gradient of `scores` is NaN"),
        (matrix_by_matrix, "stops at a batch of them"),
        (numpy_softmax, "0 times infinity is NaN"),
        (divided_again, "no division brings back"),
        (single_precision, "is float32; for these inputs it should be float16"),
        (mask_on_its_side, "it should be [[1, 0], [0.2689, 0.7311]]"),
        (written_into, "changes its input: `scores`"),
    ],
    "4.3": [
        (0.25, "the share without a mask"),
        (0.52, "very close"),
        (52.08, "looks like a percentage"),
        ([1, 1 / 2, 1 / 3, 1 / 4], "One number is asked for"),
        (Fraction(25, 12), "the sum over the four queries"),
        ("25/48", "Give a number"),
    ],
    "4.4": [
        (lists_of_lens, "returned a list"),
        (mask_itself, "Asked for are the lengths"),
        (first_sentence_only, "each has its own padding"),
        (lens_on_their_side, "The sentences have to be the rows"),
        (floats, "a number of keys is an integer"),
        (padding_asks_nothing, "A mask hides keys, not queries"),
    ],
    "4.5": [
        (nan_cured, "A word's loss is NaN"),
        (nan_left_out, "A word's loss is NaN"),
        (mean_per_sentence, "One number for the whole batch"),
        (sentences_first, "the mean of the sentences' means"),
        (a_number, "It has no gradient"),
        (a_zero, "no gradient comes through"),
        (rounded_away, "no gradient comes through"),
        (three_axes, "it broadcasts to (B, B, Q)"),
    ],
    "4.6": [
        (attend_with_a_number, "A word may score less"),
        (attend_with_a_bias, "the gradient of `queries` is NaN"),
        (attend_if, "three lengths give three"),
        (attend_with_weights, "returned a tuple"),
        (attend_with_detached_keys, "no gradient reaches `keys`"),
        (attend_on_its_side, "Entry [0, 0, 0]"),
        (attend_without_scale, "the root of D was no bug"),
    ],
    "4.7": [
        (shape_only, "Let two runs differ in the padding"),
        (all_swallowed, "does anything catch its `assert`?"),
        (values_only, "Do you change the padding's keys?"),
        (a_number_as_dye, "Is there NaN in your padding's values?"),
        (outputs_only, "Compare the gradients"),
        (no_length_of_0, "takes a length of 0"),
        (largest_difference, "can your comparison see it"),
        (particular_numbers, "Do not ask for particular numbers"),
    ],
}
