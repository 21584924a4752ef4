"""Wrong answers to 4.2, as students give them."""

import math

import torch

from d2l_attention import masked_softmax


def softmax_over_the_queries(scores, mask):
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-2).nan_to_num()


def mask_after_the_softmax(scores, mask):
    return scores.softmax(dim=-1) * mask


def divided_after_the_softmax(scores, mask):
    weights = scores.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


def exponentials_masked(scores, mask):
    exponentials = scores.exp() * mask
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def exponentials_of_masked_scores(scores, mask):
    exponentials = scores.masked_fill(~mask, -math.inf).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def inverted_mask(scores, mask):
    return scores.masked_fill(mask, -math.inf).softmax(dim=-1).nan_to_num()


def fill_with_zero(scores, mask):
    return (scores * mask).softmax(dim=-1)


def no_mask(scores, mask):
    return scores.softmax(dim=-1)


def mask_added(scores, mask):
    return (scores + mask).softmax(dim=-1)


def fill_with_minus_infinity_only(scores, mask):
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)


def lowest_number_only(scores, mask):
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


def looped_over_a_matrix(scores, mask):
    weights = torch.zeros_like(scores)
    for query in range(scores.shape[0]):
        for key in range(scores.shape[1]):
            if mask[query, key]:
                weights[query, key] = scores[query, key].exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def book_fill_assigned(scores, mask):
    filled = scores.clone()
    filled[~mask] = -1e6
    return filled.softmax(dim=-1) * mask


def fill_with_minus_a_billion(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


def hidden_queries(scores, mask):
    row = mask.any(dim=-1, keepdim=True)
    return scores.softmax(dim=-1).masked_fill(~row, 0.0)


def fill_with_minus_ten_thousand(scores, mask):
    return scores.masked_fill(~mask, -1e4).softmax(dim=-1).masked_fill(~mask, 0.0)


def lowest_number_of_another_type(scores, mask):
    lowest = torch.finfo(torch.float32).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def mask_written_into_the_scores(scores, mask):
    scores[~mask] = -math.inf
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


def weights_as_a_list(scores, mask):
    return masked_softmax(scores, mask=mask).tolist()


def weights_in_double_precision(scores, mask):
    return masked_softmax(scores.double(), mask=mask)


def half_becomes_single(scores, mask):
    return masked_softmax(scores.float(), mask=mask)


def without_return(scores, mask):
    masked_softmax(scores, mask=mask)


MISTAKES = {
    no_mask: "The hidden key keeps the weight that it has without a mask.",
    fill_with_zero: (
        "Your hidden key has the score 0 now, and takes part with weight. The exponential of 0 is "
        "1: multiplying hides no score."
    ),
    mask_added: (
        "You added the mask. True counts as 1: a visible score gains 1, a hidden one stays as it "
        "was."
    ),
    inverted_mask: (
        "You hid the visible key and kept the hidden one. True means 'may attend' here, and "
        "`masked_fill` writes where it is given True."
    ),
}
