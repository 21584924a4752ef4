"""Wrong answers to 6.3, as students give them."""

import torch


def view_alone(X, num_heads):
    batch, n, num_hiddens = X.shape
    return X.reshape(batch, num_heads, n, num_hiddens // num_heads)


def transposed_then_reshaped(X, num_heads):
    batch, n, num_hiddens = X.shape
    return X.transpose(1, 2).reshape(batch, num_heads, n, num_hiddens // num_heads)


def interleaved(X, num_heads):
    return torch.stack([X[..., head::num_heads] for head in range(num_heads)], dim=1)


def last_head_first(X, num_heads):
    return torch.stack(X.chunk(num_heads, dim=-1), dim=1).flip(1)


def first_columns_for_all(X, num_heads):
    width = X.shape[-1] // num_heads
    return torch.stack([X[..., :width] for _ in range(num_heads)], dim=1)


def without_transpose(X, num_heads):
    return X.unflatten(-1, (num_heads, -1))


def heads_last(X, num_heads):
    return X.unflatten(-1, (-1, num_heads))


def wrong_axes_transposed(X, num_heads):
    return X.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


def heads_first(X, num_heads):
    return torch.stack(X.chunk(num_heads, dim=-1))


def folded_into_the_batch(X, num_heads):
    heads = X.reshape(X.shape[0], X.shape[1], num_heads, -1).permute(0, 2, 1, 3)
    return heads.reshape(-1, heads.shape[2], heads.shape[3])


def copied(X, num_heads):
    return X.unsqueeze(1).repeat(1, num_heads, 1, 1)


def pieces_of_that_size(X, num_heads):
    return X.unflatten(-1, (-1, num_heads)).transpose(1, 2)


def pieces_in_a_list(X, num_heads):
    return X.chunk(num_heads, dim=-1)


def tokens_cut(X, num_heads):
    return torch.stack(X.chunk(num_heads, dim=1), dim=1)


def batch_mixed_in(X, num_heads):
    batch, n, num_hiddens = X.shape
    cut = X.transpose(0, 1).reshape(batch, n, num_heads, num_hiddens // num_heads)
    return cut.transpose(1, 2)


def divided_to_a_float(X, num_heads):
    batch, n, num_hiddens = X.shape
    return X.reshape(batch, n, num_heads, num_hiddens / num_heads).transpose(1, 2)


def one_sentence_only(X, num_heads):
    return torch.stack(X[0].chunk(num_heads, dim=-1))[None]


def numbers_copied_out(X, num_heads):
    heads = torch.zeros(len(X), num_heads, X.shape[1], X.shape[2] // num_heads, dtype=X.dtype)
    heads[:] = X.detach().unflatten(-1, (num_heads, -1)).transpose(1, 2)
    return heads


def single_precision(X, num_heads):
    heads = torch.zeros(len(X), num_heads, X.shape[1], X.shape[2] // num_heads)
    heads[:] = X.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    return heads


def without_return(X, num_heads):
    X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


MISTAKES = {
    view_alone: (
        "Your result has the right shape and the wrong numbers: the first head begins with the "
        "first token's first columns, then its next ones, as if they were another token. A `view` "
        "or `reshape` alone moves no number, it only refills the shape in the old order. Cut the "
        "last axis first, then swap two axes."
    ),
    transposed_then_reshaped: (
        "Each row of your result mixes several tokens: a `reshape` after a `transpose` reads the "
        "turned matrix, column by column. First cut the last axis, then transpose."
    ),
    interleaved: (
        "With two heads, your first one gets every second column: 0, 2, ... Its columns should be "
        "the first D / H: cut D into (H, D / H), in this order."
    ),
    last_head_first: "Your first head has the last columns. It should get the first D / H.",
    first_columns_for_all: (
        "All your heads hold the same columns, the first D / H. Each head owns others."
    ),
}
