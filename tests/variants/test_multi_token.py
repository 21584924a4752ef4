"""Multi-token attention against loops over queries, keys and heads."""

import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import MultiHeadAttention, attention_mask
from d2l_attention.variants import MultiTokenAttention

B, H, Q, K, D, HIDDEN = 2, 6, 5, 7, 11, 12
QUERY_SIZE, KEY_SIZE, HEAD_SIZE = 3, 5, 2
EXACT = {"atol": 1e-10, "rtol": 1e-10}
ONE = {"query_size": 1, "key_size": 1, "mix_heads": 1}
SETTINGS = {
    "plain": {},
    "causal": {"is_causal": True},
    "padded": {"valid_lens": torch.tensor([4, 0])},
    "causal, padded": {"is_causal": True, "valid_lens": torch.tensor([3, 6])},
    "mask": {"mask": torch.rand(B, Q, K, generator=torch.Generator().manual_seed(1)) < 0.5},
    "per query": {"valid_lens": torch.tensor([[1, 2, 0, 7, 0], [0] * 5])},
}


def make(identity=False, sizes=(QUERY_SIZE, KEY_SIZE, HEAD_SIZE), dropout=0.0):
    query_size, key_size, mix_heads = sizes
    layer = MultiTokenAttention(
        HIDDEN, H, dropout, query_size=query_size, key_size=key_size, mix_heads=mix_heads
    )
    layer(*(x.float() for x in inputs()))
    if not identity:
        with torch.no_grad():
            layer.attention.kernel.normal_()
            layer.attention.mix.normal_()
    return layer.double()


def inputs(num_queries=Q, num_keys=K):
    return [torch.randn(B, n, D, dtype=torch.float64) for n in (num_queries, num_keys, num_keys)]


def by_loops(layer, queries, keys, visible):
    """The weights as the paper's sums say. visible (B, Q, K) bool."""
    kernel, mix = layer.attention.kernel, layer.attention.mix
    _, query_size, key_size = kernel.shape
    q, k = (layer.split_heads(W(X)) for W, X in ((layer.W_q, queries), (layer.W_k, keys)))
    scores = q @ k.mT / math.sqrt(HIDDEN // H)
    num_queries, num_keys = scores.shape[-2:]
    weights = torch.zeros_like(scores)
    for b in range(B):
        for h in range(H):
            for i in range(num_queries):
                row = torch.full((num_keys,), -math.inf, dtype=torch.float64)
                for j in range(num_keys):
                    if not visible[b, i, j]:
                        continue
                    row[j] = 0.0
                    for back in range(query_size):  # the query itself and those before it
                        for column in range(key_size):
                            s, t = i - back, j + column - (key_size - 1) // 2
                            if s >= 0 and 0 <= t < num_keys and visible[b, s, t]:
                                row[j] += (
                                    kernel[h, query_size - 1 - back, column] * scores[b, h, s, t]
                                )
                if visible[b, i].any():
                    weights[b, h, i] = row.softmax(-1)
    mixed, size = torch.zeros_like(weights), mix.shape[-1]
    for h in range(H):
        for other in range(size):
            group = h // size
            mixed[:, h] += mix[group, h % size, other] * weights[:, group * size + other]
    return mixed


def whole_mask(options):
    visible = attention_mask(
        (B, Q, K),
        *(options.get(n) for n in ("valid_lens", "mask")),
        options.get("is_causal", False),
    )
    return torch.ones(B, Q, K) > 0 if visible is None else visible.expand(B, Q, K)


def gradients(layer, given, **options):
    given = [x.clone().requires_grad_() for x in given]
    layer.zero_grad()
    output = layer(*given, **options)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    named = {name: p.grad.clone() for name, p in layer.named_parameters()}
    return [output, *(x.grad for x in given)], named


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_identity_kernels_are_plain_multi_head_attention(options):
    layer, given = make(identity=True), inputs()
    plain = MultiHeadAttention(HIDDEN, H, 0.0).double()
    plain(*given)
    plain.load_state_dict({n: x for n, x in layer.state_dict().items() if n.startswith("W_")})
    (ours, named), (theirs, expected) = (gradients(x, given, **options) for x in (layer, plain))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **EXACT)
    for name, grad in expected.items():
        assert_close(named[name], grad, **EXACT)
    assert_close(layer.attention_weights, plain.attention_weights, **EXACT)


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("sizes", [(3, 5, 2), (1, 1, 1), (2, 4, 3), (7, 9, 6)], ids=str)
def test_equals_the_sums_of_the_paper(options, sizes):
    layer, given = make(sizes=sizes), inputs()
    output, weights = layer(*given, **options, need_weights=True)
    with torch.no_grad():
        expected = by_loops(layer, given[0], given[1], whole_mask(options))
    assert_close(weights, expected, **EXACT)
    heads = layer.split_heads(layer.W_v(given[2]))
    assert_close(output, layer.W_o(layer.merge_heads(expected @ heads)), **EXACT)
    assert_close(layer(*given, **options), output, **EXACT)
    assert_close(layer.attention_weights, expected, **EXACT)


def test_a_padded_query_reaches_no_token_before_it():
    layer, (X, *_) = make(), inputs(num_queries=K)
    expected = layer(X, X, X, torch.tensor([4, 6]))
    X[0, 4:] = X[1, 6:] = math.nan
    output = layer(X, X, X, torch.tensor([4, 6]))
    assert torch.equal(output[0, :4], expected[0, :4])
    assert torch.equal(output[1, :6], expected[1, :6])


def test_two_tokens_together_find_a_key_that_neither_finds_alone():
    """A key counts where its left neighbour suits the query before, as in 'Alice' 'rabbit'."""
    layer = MultiTokenAttention(2, 1, 0.0, query_size=2, key_size=3, mix_heads=1)
    eye = torch.eye(2)
    names = torch.tensor([[0, 1], [0, 0], [1, 0], [0, 1], [0, 0]]).float()  # b . a b .
    queries = torch.tensor([[1, 0], [0, 1]]).float()  # a, then b
    layer(queries[None], names[None], names[None])
    with torch.no_grad():
        for W in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
            W.weight.copy_(eye * 10)
    layer(queries[None], names[None], names[None])
    alone = layer.attention_weights[0, 0, 1]
    assert alone[0] == alone[3] == pytest.approx(0.5)  # both b
    with torch.no_grad():
        layer.attention.kernel[0, 0, 0] = 1.0  # the query before, the key on the left
    layer(queries[None], names[None], names[None])
    assert layer.attention_weights[0, 0, 1, 3] > 0.99


@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (5, 1)], ids=str)
def test_fewer_tokens_than_the_kernel(sizes):
    layer, given = make(), inputs(*sizes)
    output, weights = layer(*given, need_weights=True)
    assert output.shape == (B, sizes[0], HIDDEN) and weights.shape == (B, H, *sizes)
    with torch.no_grad():
        expected = by_loops(layer, *given[:2], torch.ones(B, *sizes) > 0)
    assert_close(weights, expected, **EXACT)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            ValueError,
            "num_hiddens=12 and num_heads=5",
            lambda: MultiTokenAttention(12, 5, 0.0, **ONE),
        ),
        (ValueError, "num_heads=6 and mix_heads=4", lambda: make(sizes=(3, 5, 4))),
        (ValueError, "query_size must be .* from 1 on, got 0", lambda: make(sizes=(0, 5, 2))),
        (ValueError, "key_size must be .* from 1 on, got 2.5", lambda: make(sizes=(3, 2.5, 2))),
        (ValueError, "mix_heads must be .* from 1 on, got -1", lambda: make(sizes=(3, 5, -1))),
        (ValueError, "from 1 to 8", lambda: make()(*inputs(), torch.tensor([1, 8]))),
        (TypeError, "mask must be a boolean", lambda: make()(*inputs(), mask=torch.ones(Q, K))),
        (TypeError, "unexpected keyword argument 'cache'", lambda: make()(*inputs(), cache=None)),
        (
            ValueError,
            "takes no bias",
            lambda: make().attention(
                *(x.view(B, 1, -1, D).expand(B, H, -1, D) for x in inputs()), bias=torch.zeros(Q, K)
            ),
        ),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_what_one_head_may_not_see_stays_hidden_after_the_mixing():
    torch.manual_seed(9)
    layer = make(sizes=(QUERY_SIZE, KEY_SIZE, H))
    mask = torch.ones(1, H, 1, K, dtype=torch.bool)
    mask[0, 0, 0, 2] = False
    _, weights = layer(*inputs(), mask=mask, need_weights=True)
    assert (weights[:, 0, :, 2] == 0).all() and (weights[:, 1, :, 2] != 0).all()
    assert torch.equal(layer.attention_weights, weights)


def test_no_tokens_give_no_tokens():
    given = inputs(num_queries=0, num_keys=0)
    assert make()(*given).shape == (B, 0, HIDDEN)
