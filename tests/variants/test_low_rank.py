"""Linformer against plain attention to keys that were mixed by hand."""

import math

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import KeyValueCache, MultiHeadAttention
from d2l_attention.variants import LinformerAttention
from d2l_attention.variants.low_rank import LowRankDotProductAttention

B, H, Q, K, D, HIDDEN, MAX_LEN, RANK = 2, 3, 5, 7, 11, 6, 13, 4
EXACT = {"atol": 1e-10, "rtol": 1e-10}


def make(max_len=MAX_LEN, rank=RANK, dropout=0.0):
    layer = LinformerAttention(HIDDEN, H, max_len, rank, dropout)
    layer(*inputs(torch.float32))
    return layer.double()


def inputs(dtype=torch.float64, num_keys=K):
    return [torch.randn(B, n, D, dtype=dtype) for n in (Q, num_keys, num_keys)]


def gradients(layer, given, lens=None, need_weights=False):
    given = [x.clone().requires_grad_() for x in given]
    layer.zero_grad()
    output = layer(*given, lens, need_weights=need_weights)
    output = output[0] if need_weights else output
    output.square().sum().backward()
    parameters = dict(layer.named_parameters())
    return [output, *(x.grad for x in given)], {n: p.grad.clone() for n, p in parameters.items()}


def test_identity_projection_of_full_rank_is_plain_attention():
    layer, plain, given = make(K, K), MultiHeadAttention(HIDDEN, H, 0.0).double(), inputs()
    with torch.no_grad():
        layer.attention.E.copy_(torch.eye(K))
        layer.attention.F.copy_(torch.eye(K))
    plain(*given)
    plain.load_state_dict({n: x for n, x in layer.state_dict().items() if n.startswith("W_")})
    output, weights = layer(*given, need_weights=True)
    expected, expected_weights = plain(*given, need_weights=True)
    assert_close(output, expected, **EXACT)
    assert_close(weights, expected_weights, **EXACT)
    ours, theirs = gradients(layer, given), gradients(plain, given)
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert_close(one, other, **EXACT)
    for name, expected in theirs[1].items():
        assert_close(ours[1][name], expected, **EXACT)


@pytest.mark.parametrize("lens", [None, [4, 7]], ids=["all", "padded"])
def test_step_by_step(lens):
    layer, (queries, keys, values) = make(), inputs()
    lengths = [K, K] if lens is None else lens
    output, weights = layer(
        queries, keys, values, None if lens is None else torch.tensor(lens), need_weights=True
    )
    for b, length in enumerate(lengths):
        E, F = layer.attention.E[:, :length], layer.attention.F[:, :length]
        mixed_keys = E @ (keys[b, :length] @ layer.W_k.weight.T)  # first project, then mix
        mixed_values = F @ (values[b, :length] @ layer.W_v.weight.T)
        heads = []
        for h in range(H):
            cut = slice(h * HIDDEN // H, (h + 1) * HIDDEN // H)
            q = queries[b] @ layer.W_q.weight.T[:, cut]
            w = (q @ mixed_keys[:, cut].T / math.sqrt(HIDDEN // H)).softmax(-1)
            assert_close(weights[b, h], w, **EXACT)
            heads.append(w @ mixed_values[:, cut])
        assert_close(output[b], torch.cat(heads, -1) @ layer.W_o.weight.T, **EXACT)


def test_a_projection_with_a_bias_does_not_fill_the_padding():
    pooling = LowRankDotProductAttention(MAX_LEN, RANK, 0.0)
    layer, given = MultiHeadAttention(HIDDEN, H, 0.0, bias=True, attention=pooling), inputs()
    given = [x.float() for x in given]
    output = layer(*given, torch.tensor([4, 7]))
    short = [given[0], *(x[:, :4] for x in given[1:])]
    assert_close(output[0], layer(*short)[0])


def test_the_cost_grows_with_the_number_of_tokens():
    layer = LinformerAttention(HIDDEN, H, 512, RANK, 0.0)

    def flops(n):
        X = torch.randn(1, n, D)
        with FlopCounterMode(display=False) as counter:
            layer(X, X, X, need_weights=True)
        return counter.get_total_flops()

    flops(8)  # makes the parameters
    assert 0 < 8 * flops(64) == flops(512)


@pytest.mark.parametrize("num_keys", [1, MAX_LEN])
def test_one_key_and_as_many_as_there_may_be(num_keys):
    output, weights = make()(*inputs(num_keys=num_keys), need_weights=True)
    assert output.shape == (B, Q, HIDDEN) and weights.shape == (B, H, Q, RANK)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("there is no is_causal", {"is_causal": True}),
        ("one key cannot be hidden from one query", {"mask": torch.ones(Q, K) > 0}),
        (r"no valid_lens \(B, Q\)", {"valid_lens": torch.ones(B, Q).int()}),
    ],
)
def test_no_form_that_hides_a_key_from_one_query(message, options):
    fresh = LinformerAttention(HIDDEN, H, MAX_LEN, RANK, 0.0)
    with pytest.raises(ValueError, match=message):
        fresh(*inputs(), **options)
    assert isinstance(fresh.W_q.weight, torch.nn.UninitializedParameter)  # before any work
    with pytest.raises(ValueError, match=message):
        LowRankDotProductAttention(MAX_LEN, RANK, 0.0).double()(*inputs(), **options)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "max_len=13, got 17", lambda: make()(*inputs(num_keys=17))),
        (ValueError, "rank=14 and max_len=13", lambda: make(13, 14)),
        (ValueError, "rank=0 and max_len=13", lambda: make(13, 0)),
        (ValueError, "rank=2.0", lambda: make(13, 2.0)),
        (ValueError, "num_heads=4", lambda: LinformerAttention(6, 4, 13, 4, 0.0)),
        (ValueError, "from 1 to 8", lambda: make()(*inputs(), torch.tensor([1, 8]))),
        (TypeError, "queries must be a tensor", lambda: make()([1.0], *inputs()[1:])),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_no_bias_where_keys_have_no_scores():
    with pytest.raises(ValueError, match="no score for each key"):
        LowRankDotProductAttention(MAX_LEN, RANK, 0.0).double()(*inputs(), bias=torch.zeros(Q, K))


def test_no_causal_form_behind_a_cache():
    layer = LinformerAttention(HIDDEN, H, MAX_LEN, RANK, 0.0)
    X, cache = torch.randn(1, 3, 5), KeyValueCache()
    layer(X, X, X, cache=cache)
    with pytest.raises(ValueError, match="there is no is_causal"):
        layer(X[:, :1], X[:, :1], X[:, :1], is_causal=True, cache=cache)
