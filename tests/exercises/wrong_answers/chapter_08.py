"""Answers to chapter 8 in a student's own voice: wrong ones with their words, and right ones."""

from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong


@right("8.3")
def masks_by_loops(src_lens, tgt_lens, num_src, num_tgt):
    encoder = torch.zeros(len(src_lens), num_src, num_src, dtype=torch.bool)
    decoder = torch.zeros(len(src_lens), num_tgt, num_tgt, dtype=torch.bool)
    cross = torch.zeros(len(src_lens), num_tgt, num_src, dtype=torch.bool)
    for b, (source, target) in enumerate(zip(src_lens.tolist(), tgt_lens.tolist(), strict=True)):
        encoder[b, :source, :source] = True
        cross[b, :target, :source] = True
        for step in range(target):
            decoder[b, step, : step + 1] = True
    return [encoder, decoder, cross]


@wrong("8.3", "returned one result")
def one_stacked_tensor(src_lens, tgt_lens, num_src, num_tgt):
    return torch.ones(3, len(src_lens), 1, num_src, dtype=torch.bool)


@wrong("8.3", "The decoder's attention to the source: in sentence 0 your mask")
def seen_by_the_last(src_lens, tgt_lens, num_src, num_tgt):
    words, past, cross = masks_by_loops(src_lens, tgt_lens, num_src, num_tgt)
    return words, past, cross[-1:]


@wrong("8.3", "a mask is a boolean tensor")
def lists(src_lens, tgt_lens, num_src, num_tgt):
    masks = masks_by_loops(src_lens, tgt_lens, num_src, num_tgt)
    return tuple(mask.tolist() for mask in masks)


@right("8.4")
def with_a_sublayer_function(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    def sublayer(X, number, f):
        before, after = (norms[number], lambda Y: Y) if pre_norm else (lambda Y: Y, norms[number])
        return after(torch.stack([X, dropout(f(before(X)))]).sum(dim=0))

    X = sublayer(X, 0, lambda Y: attention1(*[Y] * 3))
    X = sublayer(X, 1, lambda Y: attention2(Y, *[sources] * 2))
    return sublayer(X, 2, ffn)


@wrong("8.4", "Post-norm is right. With `pre_norm` your block is not")
def norms_inside_only(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    if not pre_norm:
        return with_a_sublayer_function(
            X, sources, attention1, attention2, ffn, norms, dropout, False
        )
    for f, norm in zip((lambda Y: attention1(Y, Y, Y), ffn), (norms[0], norms[2]), strict=True):
        X = X + dropout(f(norm(X)))
    return X


@wrong("8.4", "Attention takes queries, keys and values")
def one_argument(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return norms[0](X + dropout(attention1(X)))


@right("8.5")
def keys_turned_when_read(query, key, value, cache, rotate):
    """The cache keeps the keys as they came; right as well."""
    keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
    q, k = rotate(query, offset=keys.shape[2] - 1), rotate(keys, offset=0)
    return F.scaled_dot_product_attention(q, k, values), (keys, values)


@wrong("8.5", "For one sentence and one head your step is right")
def first_sentence_for_all(query, key, value, cache, rotate):
    output, cache = keys_turned_when_read(query, key, value, cache, rotate)
    return output[:1].expand_as(output), cache


@wrong("8.5", "Return two results")
def only_the_output(query, key, value, cache, rotate):
    return keys_turned_when_read(query, key, value, cache, rotate)[0]


@wrong("8.5", "A beam search goes on from one cache")
def appended_in_place(query, key, value, cache, rotate):
    output, (keys, values) = keys_turned_when_read(query, key, value, cache, rotate)
    cache[0], cache[1] = keys, values
    return output, cache


def text(B=3, T=6):
    return torch.randint(10, (B, T), generator=torch.Generator().manual_seed(5))


@right("8.6")
def changes_and_cuts(decoder):
    """One test for the future, one for length and neighbours."""
    tokens, other = text(B=4, T=8), text(B=4, T=8)
    other[:, 4:] = (tokens[:, 4:] + torch.tensor([1, 2, 3, 4])) % 10
    other[:, :4] = tokens[:, :4]
    for mode in (True, False):
        decoder.train(mode)
        for t in range(1, 8):
            future = torch.cat([tokens[:, :t], (tokens[:, t:] + 3) % 10], dim=1)
            assert (decoder(future)[:, :t] - decoder(tokens)[:, :t]).abs().max() < 1e-4
        assert (decoder(other[:1, :4]) - decoder(tokens)[:1, :4]).abs().max() < 1e-4


@wrong("8.6", "never calls `decoder.eval()`")
def in_the_mode_it_comes_in(decoder):
    tokens = text()
    for t in range(1, 7):
        for b in range(3):
            torch.testing.assert_close(decoder(tokens[b, None, :t])[0], decoder(tokens)[b, :t])


@wrong("8.6", "give a beginning alone")
def full_length_only(decoder):
    tokens = text()
    for training in (True, False):
        decoder.train(training)
        for t in range(1, 6):
            other = torch.cat([tokens[:, :t], 9 - tokens[:, t:]], dim=1)
            for b in range(3):
                alone = decoder(other[b, None])[0, :t]
                torch.testing.assert_close(alone, decoder(tokens)[b, :t])


POST, PRE = [1, -1, -1, 1], [-2.04, -0.96, 0.04, 4.96]


right("8.1")(([np.float32(x) for x in POST], [Fraction(x).limit_denominator(100) for x in PRE]))
wrong("8.1", "the other way round")([torch.tensor(PRE), torch.tensor(POST)])
wrong("8.1", "Pre-norm: the token itself is missing")([POST, [1.96, 0.04, 0.04, 1.96]])
right("8.2")([[torch.tensor(55), np.int64(10)], [70.0, Fraction(7)], (385, 55)])
wrong("8.2", "The cache saves work")([(10, 55), (7, 70), (55, 385)])
wrong("8.2", "Give three pairs")((55, 70, 385))
