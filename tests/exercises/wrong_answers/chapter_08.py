"""Answers to chapter 8 in a student's own voice: wrong ones with their words, and right ones."""

from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import causal_mask, length_mask

# 8.3 --------------------------------------------------------------------------------------


def masks_by_the_package(src_lens, tgt_lens, num_src, num_tgt):
    words = length_mask(src_lens, num_src)
    return words, causal_mask(num_tgt) & length_mask(tgt_lens, num_tgt), words


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


def masks_by_numpy(src_lens, tgt_lens, num_src, num_tgt):
    words = np.arange(num_src)[None, None] < src_lens.numpy()[:, None, None]
    past = np.tril(np.ones((num_tgt, num_tgt), dtype=bool))
    return torch.tensor(words), torch.tensor(past), torch.tensor(words.repeat(num_tgt, axis=1))


def one_stacked_tensor(src_lens, tgt_lens, num_src, num_tgt):
    return torch.ones(3, len(src_lens), 1, num_src, dtype=torch.bool)


def cross_of_the_decoder(src_lens, tgt_lens, num_src, num_tgt):
    words, past, _ = masks_by_loops(src_lens, tgt_lens, num_src, num_tgt)
    return words, past, past


def true_hides(src_lens, tgt_lens, num_src, num_tgt):
    return [~mask for mask in masks_by_numpy(src_lens, tgt_lens, num_src, num_tgt)]


def triu_that_shows_the_future(src_lens, tgt_lens, num_src, num_tgt):
    words, _, cross = masks_by_numpy(src_lens, tgt_lens, num_src, num_tgt)
    return words, torch.ones(num_tgt, num_tgt).triu().bool(), cross


def seen_by_the_last(src_lens, tgt_lens, num_src, num_tgt):
    words, past, _ = masks_by_numpy(src_lens, tgt_lens, num_src, num_tgt)
    return words, past, words[-1:]


def lists(src_lens, tgt_lens, num_src, num_tgt):
    masks = masks_by_numpy(src_lens, tgt_lens, num_src, num_tgt)
    return tuple(mask.tolist() for mask in masks)


# 8.4 --------------------------------------------------------------------------------------


def written_out(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    first, second, third = norms
    if not pre_norm:
        Y = first(X + dropout(attention1(queries=X, keys=X, values=X)))
        Z = second(Y + dropout(attention2(queries=Y, keys=sources, values=sources)))
        return third(Z + dropout(ffn(Z)))
    Y = first(X)
    Y = X + dropout(attention1(Y, keys=Y, values=Y))
    Z = Y + dropout(attention2(second(Y), sources, sources))
    return Z.add(dropout(ffn(third(Z))))


def with_a_sublayer_function(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    def sublayer(X, number, f):
        before, after = (norms[number], lambda Y: Y) if pre_norm else (lambda Y: Y, norms[number])
        return after(torch.stack([X, dropout(f(before(X)))]).sum(dim=0))

    X = sublayer(X, 0, lambda Y: attention1(*[Y] * 3))
    X = sublayer(X, 1, lambda Y: attention2(Y, *[sources] * 2))
    return sublayer(X, 2, ffn)


def sentence_by_sentence(X, sources, *others):
    pairs = zip(X.split(1), sources.split(1), strict=True)
    return torch.cat([written_out(x, source, *others) for x, source in pairs])


def residual_detached(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    for f, norm in (
        (lambda Y: attention1(Y, Y, Y), norms[0]),
        (lambda Y: attention2(Y, sources.detach(), sources.detach()), norms[1]),
        (ffn, norms[2]),
    ):
        X = X + dropout(f(norm(X))) if pre_norm else norm(X + dropout(f(X)))
    return X


def single_precision(X, sources, *others):
    return written_out(X, sources, *others).float()


def self_attention_once_more(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    if pre_norm:
        return written_out(X, sources, attention1, attention2, ffn, norms, dropout, True)
    X = norms[0](X + dropout(attention1(X, X, X)))
    X = norms[1](X + dropout(attention2(X, X, X)))
    return norms[2](X + dropout(ffn(X)))


def norms_inside_only(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    if not pre_norm:
        return written_out(X, sources, attention1, attention2, ffn, norms, dropout, False)
    for f, norm in zip((lambda Y: attention1(Y, Y, Y), ffn), (norms[0], norms[2]), strict=True):
        X = X + dropout(f(norm(X)))
    return X


def one_argument(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return norms[0](X + dropout(attention1(X)))


def mean_over_the_sublayers(X, sources, *others):
    return written_out(X, sources, *others) / 3


# 8.5 --------------------------------------------------------------------------------------


def keys_turned_when_read(query, key, value, cache, rotate):
    """The cache keeps the keys as they came; right as well."""
    keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
    q, k = rotate(query, offset=keys.shape[2] - 1), rotate(keys, offset=0)
    return F.scaled_dot_product_attention(q, k, values), (keys, values)


def token_by_token(query, key, value, cache, rotate):
    n = cache[0].size(2)
    keys = [*cache[0].unbind(2), rotate(key, offset=n).squeeze(2)]
    values = [*cache[1].unbind(2), value.squeeze(2)]
    q = rotate(query, offset=n).squeeze(2).double()
    shares = [((q * k).sum(-1, keepdim=True) / q.shape[-1] ** 0.5).exp() for k in keys]
    output = sum(share * v for share, v in zip(shares, values, strict=True)) / sum(shares)
    return [output.to(query)[:, :, None], [torch.stack(keys, 2), torch.stack(values, 2)]]


def newest_first(query, key, value, cache, rotate):
    key = rotate(key, offset=cache[0].shape[2])
    keys, values = torch.cat([key, cache[0]], 2), torch.cat([value, cache[1]], 2)
    scores = torch.einsum("bhqd,bhkd->bhqk", rotate(query, offset=cache[0].shape[2]), keys)
    return (scores / scores.new_tensor(key.shape[3]).sqrt()).softmax(3) @ values, (keys, values)


def position_never_counts(query, key, value, cache, rotate):
    keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
    return F.scaled_dot_product_attention(query, keys, values), (keys, values)


def forgets(query, key, value, cache, rotate):
    output, (keys, values) = newest_first(query, key, value, cache, rotate)
    return output, (keys[:, :, :1], values[:, :, :1])


def causal_again(query, key, value, cache, rotate):
    """`is_causal` of a single query shows it only the first key."""
    keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
    q, k = rotate(query, offset=keys.shape[2] - 1), rotate(keys, offset=0)
    return F.scaled_dot_product_attention(q, k, values, is_causal=True), (keys, values)


def first_sentence_for_all(query, key, value, cache, rotate):
    output, cache = keys_turned_when_read(query, key, value, cache, rotate)
    return output[:1].expand_as(output), cache


def only_the_output(query, key, value, cache, rotate):
    return keys_turned_when_read(query, key, value, cache, rotate)[0]


def appended_in_place(query, key, value, cache, rotate):
    output, (keys, values) = keys_turned_when_read(query, key, value, cache, rotate)
    cache[0], cache[1] = keys, values
    return output, cache


def in_single_precision(query, key, value, cache, rotate):
    output, cache = keys_turned_when_read(query, key, value, cache, rotate)
    return output.float(), cache


# 8.6 --------------------------------------------------------------------------------------


def text(B=3, T=6):
    return torch.randint(10, (B, T), generator=torch.Generator().manual_seed(5))


def beginnings_alone(decoder):
    tokens = text()
    for mode in ("train", "eval"):
        decoder = getattr(decoder, mode)()
        for b, sentence in enumerate(tokens):
            for t in range(1, 7):
                mine, theirs = decoder(sentence[None, :t])[0, -1], decoder(tokens)[b, t - 1]
                assert torch.allclose(mine, theirs, atol=1e-4), (b, t)


def by_numpy_and_modes(decoder):
    tokens = text(B=2, T=16)
    for training in (False, True):
        decoder.train(training)
        with torch.no_grad():
            together = decoder(tokens).numpy()
            for t in (1, 2, 3, 5, 9, 16):
                for b in (0, 1):
                    mine = decoder(tokens=tokens[b : b + 1, :t]).numpy()
                    np.testing.assert_allclose(mine[0], together[b, :t], rtol=1e-3, atol=1e-3)


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


def in_the_mode_it_comes_in(decoder):
    tokens = text()
    for t in range(1, 7):
        for b in range(3):
            torch.testing.assert_close(decoder(tokens[b, None, :t])[0], decoder(tokens)[b, :t])


def only_in_evaluation(decoder):
    in_the_mode_it_comes_in(decoder.eval())


def full_length_only(decoder):
    tokens = text()
    for training in (True, False):
        decoder.train(training)
        for t in range(1, 6):
            other = torch.cat([tokens[:, :t], 9 - tokens[:, t:]], dim=1)
            for b in range(3):
                alone = decoder(other[b, None])[0, :t]
                torch.testing.assert_close(alone, decoder(tokens)[b, :t])


def whole_batches_only(decoder):
    tokens = text()
    for training in (True, False):
        decoder.train(training)
        for t in range(1, 7):
            torch.testing.assert_close(decoder(tokens[:, :t]), decoder(tokens)[:, :t])


def to_the_last_digit(decoder):
    tokens = text()
    for training in (True, False):
        decoder.train(training)
        for t in range(1, 7):
            for b in range(3):
                assert (decoder(tokens[b, None, :t])[0] == decoder(tokens)[b, :t]).all()


def nothing_but_shapes(decoder):
    assert decoder(text()).shape == (3, 6, 10)


def without_a_call(decoder):
    decoder.train()


def own_place_too(decoder):
    tokens = text()
    other = torch.cat([tokens[:, :3], 9 - tokens[:, 3:]], dim=1)
    torch.testing.assert_close(decoder(other)[:, :4], decoder(tokens)[:, :4])


def says_it(decoder):
    tokens = text()
    return bool((decoder(tokens[:, :3]) - decoder(tokens)[:, :3]).abs().max() < 1e-4)


POST, PRE = [1, -1, -1, 1], [-2.04, -0.96, 0.04, 4.96]

RIGHT = {
    "8.1": [
        [POST, PRE],
        [torch.tensor(POST), torch.tensor(PRE)],
        ([np.float32(x) for x in POST], [Fraction(x).limit_denominator(100) for x in PRE]),
        torch.tensor([POST, PRE]),
        [[[torch.tensor(x)] for x in row] for row in (POST, PRE)],
    ],
    "8.2": [
        [(55, 10), (70, 7), (385, 55)],
        torch.tensor([[55, 10], [70, 7], [385, 55]]),
        [[torch.tensor(55), np.int64(10)], [70.0, Fraction(7)], (385, 55)],
        (55, 10, 70, 7, 385, 55),
    ],
    "8.3": [masks_by_the_package, masks_by_loops, masks_by_numpy],
    "8.4": [written_out, with_a_sublayer_function, sentence_by_sentence],
    "8.5": [keys_turned_when_read, token_by_token, newest_first],
    "8.6": [beginnings_alone, by_numpy_and_modes, changes_and_cuts],
}
WRONG = {
    "8.1": [
        ([torch.tensor(PRE), torch.tensor(POST)], "the other way round"),
        ([POST, [1.96, 0.04, 0.04, 1.96]], "Pre-norm: the token itself is missing"),
        ([[0.866, -0.866, -0.866, 0.866], PRE], "Layer norm takes their mean, over all 4"),
        ([POST, [-2.0, -1.0, 0.0, 5.0]], "too"),
        (POST, "Give two"),
        ("post", "Give a list of numbers"),
    ],
    "8.2": [
        ([(10, 55), (7, 70), (55, 385)], "The cache saves work"),
        ([(55, 10), (70, 7), (220, 55)], "you left out the hidden ones"),
        ([(55, 10), (70, 7), (385, 54)], "count with a hook"),
        ((55, 70, 385), "Give three pairs"),
    ],
    "8.3": [
        (one_stacked_tensor, "returned one result"),
        (cross_of_the_decoder, "The decoder's attention to the source: your mask is causal"),
        (true_hides, "The encoder's self-attention: your mask is turned over"),
        (triu_that_shows_the_future, "the past is hidden and the future visible"),
        (seen_by_the_last, "The decoder's attention to the source: in sentence 0 your mask"),
        (lists, "a mask is a boolean tensor"),
    ],
    "8.4": [
        (residual_detached, "no gradient reaches `sources`"),
        (single_precision, "is float32; for these inputs it should be float64"),
        (self_attention_once_more, "`sources` never get in"),
        (norms_inside_only, "Post-norm is right. With `pre_norm` your block is not"),
        (one_argument, "Attention takes queries, keys and values"),
        (mean_over_the_sublayers, "it should be"),
    ],
    "8.5": [
        (position_never_counts, "Every token is given the same position"),
        (forgets, "holds only the newest token"),
        (causal_again, "it should be"),
        (first_sentence_for_all, "For one sentence and one head your step is right"),
        (only_the_output, "Return two results"),
        (appended_in_place, "A beam search goes on from one cache"),
        (in_single_precision, "is float32"),
    ],
    "8.6": [
        (in_the_mode_it_comes_in, "never calls `decoder.eval()`"),
        (only_in_evaluation, "looks only at evaluation mode"),
        (full_length_only, "give a beginning alone"),
        (whole_batches_only, "Give it alone as well"),
        (to_the_last_digit, "wants every digit to agree"),
        (nothing_but_shapes, "logits are drawn by lot"),
        (without_a_call, "without ever calling `decoder`"),
        (own_place_too, "hides each token from itself"),
        (says_it, "A test speaks by failing"),
    ],
}
