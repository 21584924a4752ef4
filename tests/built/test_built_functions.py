"""The functions that chapters build: values and gradients are the package's, inputs stay."""

import pytest
import torch
from builds import built, from_page
from torch.testing import assert_close

import d2l_attention as ours
from d2l_attention import ALiBi, MultiHeadAttention, RotaryEncoding, causal_mask
from d2l_attention import dot_product_attention as attend
from d2l_attention import gaussian_score as distances
from d2l_attention.models.encoder_decoder import sequence_loss
from d2l_attention.scale.online_softmax import merge_partial, partial_attention
from d2l_attention.variants import (
    HyenaOperator,
    LinformerAttention,
    SinkAttention,
    SlidingWindowAttention,
    best_keys,
    delta_rule,
    elu_plus_one,
    linear_attention,
    long_convolution,
    partition_windows,
)
from d2l_attention.variants.grouped import GroupedDotProductAttention
from d2l_attention.variants.masks import global_tokens_mask, sliding_window_mask
from d2l_attention.variants.multi_token import multi_token_weights

B, H, Q, K, D, V, N = 2, 6, 3, 5, 14, 11, 13  # all different: a swapped axis cannot pass
LENS = [None, torch.tensor([K, 0]), torch.tensor([[1, 0, K], [4, 2, 3]])]


def X(*shape):
    return torch.randn(shape, dtype=torch.float64)


def qkv(*leading):
    return X(*leading, Q, D), X(*leading, K, D), X(*leading, K, V)


def of_tokens(*leading):
    """Queries, keys and values of the same tokens."""
    return X(*leading, N, D), X(*leading, N, D), X(*leading, N, V)


def some(*shape):
    """A mask in which each query sees a key."""
    mask = torch.rand(shape) < 0.5
    mask[..., 0] = True
    return mask


def pooled(scores, values, **options):
    output, weights = ours.attention_pooling(scores, values[:, None], **options)
    return output[:, 0], weights


def leave_one_out(keys, values, width):
    """Each point is smoothed from the others."""
    mask = ~torch.eye(len(keys), dtype=torch.bool)
    return pooled(distances(keys, keys, width), values, mask=mask)


def with_dyed_padding():
    """What a length hides is not a number, and reaches neither output nor gradient."""
    (queries, keys, values), lens = qkv(B), LENS[1]
    hidden = torch.arange(K)[:, None] >= lens[:, None, None]
    return queries, *(Y.masked_fill(hidden, torch.nan) for Y in (keys, values)), lens


def linformer(queries, keys, values, E_k, E_v):
    layer = LinformerAttention(D, 1, max_len=N, rank=len(E_k), dropout=0.0).double().attention
    state = torch.func.functional_call
    given = (Y[None, None] for Y in (queries, keys, values))
    return state(layer, {"E": E_k, "F": E_v}, tuple(given))[0, 0]


def sinks(queries, keys, values, numbers):
    given = queries, keys, values
    layer = SinkAttention(len(numbers), 0.0).double()
    return torch.func.functional_call(layer, {"sinks": numbers}, given, {"is_causal": True})


def with_weights(queries, keys, values, mask):
    scores = queries @ keys.mT / D**0.5
    return attend(queries, keys, values, mask=mask), ours.masked_softmax(scores, mask=mask)


def with_column(output, log_sum):
    """A log_sum (*, Q) as (*, Q, 1)."""
    return output, log_sum[..., None]


def far_out():
    """Scores of some hundred, and 1000 more: the exponentials overflow."""
    return torch.ones(Q, 1).double(), 100 * X(K, 1) + 1000, X(K, V)


def delta_inputs(n):
    keys = torch.nn.functional.normalize(torch.randn(n, 7), dim=-1)
    return torch.randn(n, 7), keys, torch.randn(n, 3), torch.rand(n), torch.rand(n)


# What a page builds, the package's counterpart, and lists of arguments for both.
CASES = {
    "01_distance_score": (distances, lambda: [(X(Q, D), X(K, D))]),
    "01_pool": (
        ours.attention_pooling,  # the exponential of 1000 overflows
        lambda: [(size * X(*b, Q, K), X(*b, K, V)) for b in ((), (B,)) for size in (1, 1000)],
    ),
    **{
        f"02_{name}": (
            getattr(ours, name),
            lambda: [(torch.tensor([-2, -1, -0.3, 0.01, 0.99, 1, 3]).double(),)],
        )
        for name in ("gaussian", "boxcar", "constant", "epanechikov")
    },
    "02_smooth": (
        ours.nadaraya_watson,  # within 9 every kernel reaches some key
        lambda: [
            (X(K), X(K), X(Q), lambda difference, kernel=kernel: kernel(difference / 9))
            for kernel in (ours.gaussian, ours.boxcar, ours.constant, ours.epanechikov)
        ],
    ),
    "02_gaussian_pooling": (
        lambda queries, keys, values, width: pooled(
            distances(queries / width, keys / width), values
        ),
        lambda: [(X(Q, D), X(K, D), X(K), width) for width in (0.7, 0.5 + X(D).square())],
    ),
    "02_other_points": (leave_one_out, lambda: [(X(K, D), X(K), 0.7)]),
    "03_plain_masked_softmax": (
        ours.masked_softmax,
        lambda: [(X(B, Q, K), lens) for lens in LENS],
    ),
    "04_plain_length_mask": (ours.length_mask, lambda: [(lens, K) for lens in LENS[1:]]),
    "04_plain_softmax_where": (
        lambda scores, mask: ours.masked_softmax(scores, mask=mask),
        lambda: [(X(B, Q, K), ours.length_mask(lens, K)) for lens in LENS[1:]],
    ),
    "04_plain_causal_mask": (causal_mask, lambda: [(n,) for n in (1, 2, 7)]),
    "04_plain_attention": (
        lambda *given: attend(*given[:3], mask=given[3]),
        lambda: [(*qkv(B), ours.length_mask(LENS[1], K))],
    ),
    "04_plain_safe_attention": (attend, lambda: [(*qkv(B), LENS[1]), with_dyed_padding()]),
    "05_plain_loss": (
        sequence_loss,
        lambda: [(X(3, Q, N), torch.randint(N, (3, Q)), torch.tensor([3, 1, 0]))],
    ),
    "07_plain_attend": (attend, lambda: [qkv(B)]),
    "07_plain_rotate": (
        lambda Y, offset: RotaryEncoding(D).transform(Y, offset=offset),
        lambda: [(X(B, H, K, D).float(), offset) for offset in (0, 1, 30)],
    ),
    "07_plain_alibi_bias": (
        lambda num_heads, n: ALiBi(num_heads).bias(n, n),
        lambda: [(num_heads, K) for num_heads in (1, 2, 8)],
    ),
    "09_attend": (
        lambda *given: attend(*given[:3], mask=given[3]),
        lambda: [(*qkv(B), None), (*qkv(B), some(B, Q, K))],
    ),
    "09_plain_grouped_attention": (
        GroupedDotProductAttention(0.0),
        lambda: [(qkv(B, H)[0], *qkv(B, groups)[1:]) for groups in (1, 2, 3, H)],
    ),
    "09_plain_window_mask": (
        lambda n, window: sliding_window_mask(n, window=window),
        lambda: [(N, window) for window in (0, 1, 4, N, 2 * N)],
    ),
    "09_plain_window_attention": (
        lambda q, k, v, window: SlidingWindowAttention(window, 0.0)(q[None], k[None], v[None])[0],
        lambda: [(*of_tokens(), window) for window in (0, 1, 4, N, 2 * N)],
    ),
    "09_plain_global_mask": (
        lambda n, num_global: global_tokens_mask(torch.arange(n) < num_global),
        lambda: [(N, num_global) for num_global in (0, 2, N)],
    ),
    "09_plain_windows": (partition_windows, lambda: [(X(B, 6, 15, D), 3)]),
    "09_plain_linformer": (linformer, lambda: [(*X(3, N, D), *X(2, 5, N))]),
    "09_phi": (elu_plus_one, lambda: [(X(N, D),)]),
    "09_plain_linear_attention": (
        lambda *given: linear_attention(*given, is_causal=True),
        lambda: [of_tokens()],
    ),
    "09_plain_long_convolution": (long_convolution, lambda: [(X(N, D), X(N, D))]),
    "09_plain_multi_token_weights": (
        lambda scores, kernel, mask: multi_token_weights(
            scores[None],
            torch.eye(N).double().expand(1, 3, N, N) * N**0.5,
            kernel,
            torch.ones(3, 1, 1).double(),
            mask=mask,
        )[0],
        lambda: [
            (X(3, N, N), X(3, rows, 5), mask)
            for rows in (1, 2, 3)
            for mask in (causal_mask(N), torch.ones(N, N).bool())
        ],
    ),  # fmt: skip
    "10_plain_attention": (attend, lambda: [qkv(B, H)]),
    "10_plain_tiled_attention": (
        lambda *given: attend(*given[:3]),
        lambda: [(*given, size) for size in (1, 2, 3, K, 17) for given in (qkv(B, H), far_out())],
    ),
    "10_plain_partial_attention": (
        lambda *given: with_column(*partial_attention(*given)),
        lambda: [qkv(B, H), far_out(), (*qkv(B, H), some(Q, K))],
    ),
    "10_plain_merge": (
        lambda parts: merge_partial(*zip(*((o, s.squeeze(-1)) for o, s in parts), strict=True))[0],
        lambda: [
            ([(X(B, Q, V), size * X(B, Q, 1)) for _ in range(number)],)
            for number in (1, 2, 3, 5)
            for size in (1, 1000)
        ],
    ),
    "11_plain_delta_rule": (delta_rule, lambda: [delta_inputs(n) for n in (1, 5, 67)]),
    "11_plain_delta_at_once": (
        lambda *given: delta_rule(*given)[0],
        lambda: [delta_inputs(n)[:-1] for n in (1, 5, 31)],
    ),
    "11_plain_sink_attention": (sinks, lambda: [(*of_tokens(B, H), X(H))]),
    "11_best_keys": (
        lambda scores, k: best_keys(scores, causal_mask(N), k),
        lambda: [(X(N, N), k) for k in (1, 3, N, 20)],
    ),
    "13_my_attention": (
        with_weights,
        lambda: [(*qkv(B, H), mask) for mask in (None, causal_mask(Q, K), some(B, 1, Q, K))],
    ),
}


def leaves(given):
    """All tensors in lists and tuples."""
    if isinstance(given, list | tuple):
        return [tensor for part in given for tensor in leaves(part)]
    return [given] if isinstance(given, torch.Tensor) else []


def gradients(output, given):
    loss = sum(Y.square().sum() for Y in leaves(output) if Y.requires_grad)
    learned = [Y for Y in leaves(given) if Y.requires_grad]
    return torch.autograd.grad(loss, learned, allow_unused=True) if torch.is_tensor(loss) else []


@pytest.mark.parametrize("case", CASES)
def test_a_function_is_the_packages(case):
    package, inputs = CASES[case]
    for given in inputs():
        floats = [Y for Y in leaves(given) if Y.is_floating_point()]
        before = [Y.clone() for Y in floats]
        for Y in floats:
            Y.requires_grad_()
        mine, expected = from_page(case)(*given), package(*given)
        assert_close(mine, expected, rtol=1e-4, atol=1e-5)
        assert_close(gradients(mine, given), gradients(expected, given), rtol=1e-4, atol=1e-5)
        assert_close(floats, before, rtol=0, atol=0, equal_nan=True)  # no input was changed


def test_built_09_hyena_is_the_packages():
    for order in (1, 2, 3):
        hyena, Y = HyenaOperator(D, max_len=N, order=order), torch.randn(1, N, D)
        projected = torch.nn.functional.pad(hyena.W_in(Y).transpose(1, 2), (2, 0))
        v, *gates = hyena.short(projected).transpose(1, 2)[0].chunk(order + 1, dim=-1)
        found = hyena.W_o(built("09")["plain_hyena"](v, gates, hyena.filters(N)))
        assert_close(found, hyena(Y)[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", [None, RotaryEncoding(D), ALiBi(8)], ids="07_{}".format)
def test_attention_with_positions_is_a_layers(positions):
    page, num_heads = built("07"), 8 if positions else 1
    layer = MultiHeadAttention(num_heads * D, num_heads, 0.0, positions=positions)
    Y = torch.randn(B, K, 7)
    expected = layer(Y, Y, Y)
    if positions is None:
        matrices = layer.W_q.weight, layer.W_k.weight, layer.W_v.weight
        assert_close(layer.W_o(page["plain_self_attention"](Y, *matrices)), expected)
        return
    q, k, v = (layer.split_heads(W(Y)) for W in (layer.W_q, layer.W_k, layer.W_v))
    if isinstance(positions, ALiBi):
        output = page["plain_attend"](q, k, v, page["plain_alibi_bias"](8, K))
    else:
        output = page["plain_attend"](page["plain_rotate"](q), page["plain_rotate"](k), v)
    assert_close(layer.W_o(layer.merge_heads(output)), expected)
