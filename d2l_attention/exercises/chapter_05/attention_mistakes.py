"""Wrong answers to 5.3, as students give them."""

import torch
from torch import Tensor


def scores_of(hidden, states, W_q, W_k, w_v) -> Tensor:
    """The right scores (B, S)."""
    return torch.tanh((hidden @ W_q.T)[:, None] + states @ W_k.T) @ w_v


def padding_of(states, valid_lens) -> Tensor:
    return torch.arange(states.shape[1]) >= valid_lens[:, None]


def pooled(scores, states, valid_lens) -> tuple[Tensor, Tensor]:
    """The right way on from any scores."""
    weights = scores.masked_fill(padding_of(states, valid_lens), -1e6).softmax(dim=-1)
    return (weights[:, None] @ states)[:, 0], weights


def averaged(weights, states) -> tuple[Tensor, Tensor]:
    return torch.einsum("bs,bsh->bh", weights, states), weights


# Seen with one sentence --------------------------------------------------------------------


def without_tanh(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(((hidden @ W_q.T)[:, None] + states @ W_k.T) @ w_v, states, valid_lens)


def tanh_of_the_score(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = ((hidden @ W_q.T)[:, None] + states @ W_k.T) @ w_v
    return pooled(scores.tanh(), states, valid_lens)


def sigmoid_for_tanh(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = ((hidden @ W_q.T)[:, None] + states @ W_k.T).sigmoid() @ w_v
    return pooled(scores, states, valid_lens)


def matrices_swapped(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(scores_of(hidden, states, W_k, W_q, w_v), states, valid_lens)


def not_transposed(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(scores_of(hidden, states, W_q.T, W_k.T, w_v), states, valid_lens)


def one_matrix_for_both(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(scores_of(hidden, states, W_q, W_q, w_v), states, valid_lens)


def without_projections(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(torch.tanh(hidden[:, None] + states) @ w_v, states, valid_lens)


def dot_product(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = ((states @ W_k.T) @ (hidden @ W_q.T)[..., None])[..., 0]
    return pooled(scores, states, valid_lens)


def multiplied(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = torch.tanh((hidden @ W_q.T)[:, None] * (states @ W_k.T)) @ w_v
    return pooled(scores, states, valid_lens)


def scaled_as_well(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v) / len(w_v) ** 0.5
    return pooled(scores, states, valid_lens)


def context_of_the_keys(hidden, states, valid_lens, W_q, W_k, w_v):
    keys = states @ W_k.T
    _, weights = pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)
    return (weights[:, None] @ keys)[:, 0], weights


def scores_for_weights(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    weights = scores.masked_fill(padding_of(states, valid_lens), 0.0)
    return averaged(weights, states)


SEEN_WITH_ONE = {
    without_tanh: (
        "The tanh is missing. Without it a score is a number for the query plus one for the key, "
        "the query's cancels in the softmax, and every state of the decoder looks at the same word."
    ),
    tanh_of_the_score: (
        "Your tanh stands outside: tanh(w_v · (...)). It belongs to the A hidden numbers, before "
        "w_v sums them up."
    ),
    sigmoid_for_tanh: "You took the sigmoid. The score is w_v · tanh(W_q s + W_k h).",
    matrices_swapped: (
        "`W_q` and `W_k` are swapped. The decoder's state asks, so it goes through `W_q`; the "
        "encoder's states are the keys."
    ),
    not_transposed: (
        "You multiply by `W_q` and `W_k` as they lie. They have the shape (A, H), as the weights "
        "of `nn.Linear`: W s is `hidden @ W.T` for rows."
    ),
    one_matrix_for_both: "One matrix serves for both. The keys have their own, `W_k`.",
    without_projections: (
        "`W_q` and `W_k` never get in: query and keys have to be projected before they are added."
    ),
    dot_product: (
        "Those are dot products of query and key. The additive score is w_v · tanh(W_q s + W_k h)."
    ),
    multiplied: "You multiply query and key inside the tanh. The additive score adds them.",
    scaled_as_well: (
        "You also divide by the root of A. That belongs to the dot product: w_v can learn the "
        "size of an additive score."
    ),
    context_of_the_keys: (
        "Your weights are right, but the context averages the projected keys. The values are the "
        "encoder's states themselves."
    ),
    scores_for_weights: (
        "You average with the scores as they are. They may be negative and sum to anything: the "
        "softmax, which makes weights of them, is missing."
    ),
}

# Seen in a batch with padding ---------------------------------------------------------------


def softmax_over_the_batch(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    weights = scores.masked_fill(padding_of(states, valid_lens), -torch.inf).softmax(dim=0)
    return averaged(weights.nan_to_num(), states)


def softmax_over_the_batch_without_mask(hidden, states, valid_lens, W_q, W_k, w_v):
    return averaged(scores_of(hidden, states, W_q, W_k, w_v).softmax(dim=0), states)


def infinity_times_0(hidden, states, valid_lens, W_q, W_k, w_v):
    real = ~padding_of(states, valid_lens)
    scores = scores_of(hidden, states, W_q, W_k, w_v) * real + -torch.inf * ~real
    return averaged(scores.softmax(dim=-1), states)


def softmax_over_everything(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    scores = scores.masked_fill(padding_of(states, valid_lens), -torch.inf)
    return averaged(scores.flatten().softmax(dim=0).view_as(scores), states)


def no_mask(hidden, states, valid_lens, W_q, W_k, w_v):
    return averaged(scores_of(hidden, states, W_q, W_k, w_v).softmax(dim=-1), states)


def mask_after_the_softmax(hidden, states, valid_lens, W_q, W_k, w_v):
    weights = scores_of(hidden, states, W_q, W_k, w_v).softmax(dim=-1)
    return averaged(weights * ~padding_of(states, valid_lens), states)


def padding_scores_0(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v) * ~padding_of(states, valid_lens)
    return averaged(scores.softmax(dim=-1), states)


def padding_states_0(hidden, states, valid_lens, W_q, W_k, w_v):
    states = states.masked_fill(padding_of(states, valid_lens)[..., None], 0.0)
    return averaged(scores_of(hidden, states, W_q, W_k, w_v).softmax(dim=-1), states)


def one_word_too_many(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    return pooled(scores, states, valid_lens + 1)


def last_word_hidden(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    padding = torch.arange(states.shape[1]) >= valid_lens[:, None] - 1
    return averaged(scores.masked_fill(padding, -1e6).softmax(dim=-1), states)


def mask_turned_over(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    weights = scores.masked_fill(~padding_of(states, valid_lens), -1e6).softmax(dim=-1)
    return averaged(weights, states)


SEEN_WITH_PADDING = {
    softmax_over_everything: (
        "All weights of the batch together sum to 1. Each sentence has a softmax of its own: "
        "`dim=-1` on (B, S)."
    ),
    no_mask: (
        "The padding gets attention: where does `valid_lens` come in? Mask the scores, before the "
        "softmax."
    ),
    mask_after_the_softmax: (
        "The padding's weights are gone, but the row no longer sums to 1: the padding took its "
        "share in the softmax. Mask the scores, before the softmax."
    ),
    padding_scores_0: (
        "You gave the padding the score 0. The exponential of 0 is 1, so it still takes part. "
        "Which score has exponential 0?"
    ),
    padding_states_0: (
        "You cleared the padding's states. A key of zeros has a score, too, so the padding still "
        "gets weight, and the context shrinks."
    ),
    one_word_too_many: (
        "The first padding behind the words gets attention: a length of 1 shows word 0 alone."
    ),
    last_word_hidden: "The last word gets no attention: a length of 3 shows words 0, 1 and 2.",
    mask_turned_over: "Your mask is turned over: the words are hidden, the padding is visible.",
}

# Seen later --------------------------------------------------------------------------------


def lined_up_with_the_batch(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(torch.tanh(hidden @ W_q.T + states @ W_k.T) @ w_v, states, valid_lens)


def lengths_not_in_a_column(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)
    padding = torch.arange(states.shape[1]) >= valid_lens
    return averaged(scores.masked_fill(padding, -1e6).softmax(dim=-1), states)


def lines_up_by_luck(hidden, states, valid_lens, W_q, W_k, w_v):
    query, keys = hidden @ W_q.T, states @ W_k.T
    query = query if len(query) == states.shape[1] else query[:, None]
    return pooled(torch.tanh(query + keys) @ w_v, states, valid_lens)


def axis_of_size_1(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v)[..., None]
    weights = scores.softmax(dim=-1)
    return (weights * states).sum(dim=1), weights


def weights_with_a_query_axis(hidden, states, valid_lens, W_q, W_k, w_v):
    context, weights = pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)
    return context, weights[:, None]


def context_with_a_query_axis(hidden, states, valid_lens, W_q, W_k, w_v):
    context, weights = pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)
    return context[:, None], weights


def context_alone(hidden, states, valid_lens, W_q, W_k, w_v):
    return pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)[0]


def results_swapped(hidden, states, valid_lens, W_q, W_k, w_v):
    context, weights = pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)
    return weights, context


def not_averaged(hidden, states, valid_lens, W_q, W_k, w_v):
    _, weights = pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)
    return weights[..., None] * states, weights


def masked_in_place(hidden, states, valid_lens, W_q, W_k, w_v):
    states[padding_of(states, valid_lens)] = 0.0
    return pooled(scores_of(hidden, states, W_q, W_k, w_v), states, valid_lens)


def detached(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = scores_of(hidden, states, W_q, W_k, w_v).detach()
    return pooled(scores, states, valid_lens)
