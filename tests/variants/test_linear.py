"""Linear attention against the kernel summed one pair at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from d2l_attention.variants import (
    LinearAttention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
)
from d2l_attention.variants.linear import CHUNK

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13
EXACT = {"atol": 1e-10, "rtol": 1e-10}
SIZES = [(1, 1), (5, 7), (7, 5), (CHUNK - 1,) * 2, (CHUNK,) * 2, (CHUNK + 1,) * 2, (211, 149)]


def qkv(num_queries=Q, num_keys=K, dtype=torch.float64):
    shapes = (B, num_queries, D), (B, num_keys, D), (B, num_keys, V)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def kernel_sum(queries, keys, values, lens=None, *, is_causal=False):
    """One sum for each query, over the keys that it sees."""
    f = lambda X: F.elu(X) + 1  # noqa: E731
    output = torch.zeros(*queries.shape[:2], V, dtype=queries.dtype)
    for b in range(B):
        length = keys.shape[1] if lens is None else int(lens[b])
        for i in range(queries.shape[1]):
            seen = min(length, i + 1) if is_causal else length
            kernel = f(keys[b, :seen]) @ f(queries[b, i])
            if seen:
                output[b, i] = kernel @ values[b, :seen] / kernel.sum()
    return output


def gradients(run, given):
    given = [x.clone().requires_grad_() for x in given]
    output = run(*given)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    return [output, *(x.grad for x in given)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
def test_equals_the_explicit_kernel_sum(sizes, is_causal, padded):
    given, lens = qkv(*sizes), torch.tensor([(sizes[1] + 1) // 2, 0]) if padded else None
    expected = gradients(lambda *x: kernel_sum(*x, lens, is_causal=is_causal), given)
    options = {"is_causal": is_causal}
    fast = gradients(lambda *x: linear_attention(*x, lens, **options), given)
    explicit = gradients(
        lambda *x: linear_attention(*x, lens, **options, need_weights=True)[0], given
    )
    for one, two, three in zip(fast, explicit, expected, strict=True):
        assert_close(one, three, **EXACT)
        assert_close(two, three, **EXACT)


def test_by_hand():
    queries, keys = torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]])  # features 1; 1 and 3
    output, weights = linear_attention(
        queries, keys, torch.tensor([[4.0], [8.0]]), need_weights=True
    )
    assert weights.tolist() == [[0.25, 0.75]]
    assert output.tolist() == [[7.0]]


def test_a_step_at_a_time_is_the_causal_form():
    queries, keys, values = qkv(CHUNK + 7, CHUNK + 7)
    state, outputs, sizes = None, [], set()
    for token in zip(*(x.unbind(1) for x in (queries, keys, values)), strict=True):
        before = None if state is None else (state, state.clone())
        output, state = linear_attention_step(*token, state)
        assert before is None or torch.equal(*before)  # left as it was
        outputs.append(output)
        sizes.add(tuple(state.shape))
    expected = linear_attention(queries, keys, values, is_causal=True)
    assert_close(torch.stack(outputs, 1), expected, **EXACT)
    assert sizes == {(B, D, V + 1)}


def test_a_mask_is_the_explicit_sum():
    given, mask, layer = qkv(), torch.rand(B, Q, K) < 0.5, LinearAttention()
    output, weights = layer(*given, mask=mask, need_weights=True)
    kernel = (elu_plus_one(given[0]) @ elu_plus_one(given[1]).mT) * mask
    expected = kernel / kernel.sum(-1, keepdim=True).clamp(min=1e-300)
    assert_close(weights, expected, **EXACT)
    assert_close(layer(*given, mask=mask), expected @ given[2], **EXACT)


def test_elu_plus_one_is_positive_where_elu_is_rounded_to_minus_one():
    X = torch.linspace(-5, 5, 101, dtype=torch.float64)
    assert_close(elu_plus_one(X), F.elu(X) + 1)
    assert elu_plus_one(torch.tensor(-40.0)).item() == pytest.approx(math.exp(-40), rel=1e-6, abs=0)
    assert torch.autograd.gradcheck(
        elu_plus_one, torch.tensor([-1.0, 0.5]).double().requires_grad_()
    )
    X = torch.zeros(1, requires_grad=True)
    elu_plus_one(X).backward()
    assert X.grad.item() == 1


def test_another_feature_map_and_features_that_meet_nothing():
    queries, keys, values = qkv()
    queries[:, 0] = -1.0  # relu leaves nothing of this query
    output = linear_attention(queries, keys, values, feature_map=torch.relu)
    weights = queries.relu() @ keys.relu().mT
    assert (output[:, 0] == 0).all()
    expected = weights @ values / weights.sum(-1, keepdim=True)
    assert_close(output[:, 1:], expected[:, 1:], **EXACT)
    layer = LinearAttention(feature_map=nn.Sequential(nn.Linear(D, 3), nn.Softplus())).double()
    assert layer(queries, keys, values).shape == (B, Q, V)
    assert len(list(layer.parameters())) == 2


@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_over_a_sequence_whose_sums_leave_half_precision(dtype, is_causal):
    given = [x + 3 for x in qkv(3001, 3001)]
    expected = linear_attention(*given, is_causal=is_causal)
    given = [x.to(dtype) for x in given]
    output = linear_attention(*given, is_causal=is_causal)
    assert output.dtype == dtype
    tolerance = max(1e-5, 16 * torch.finfo(dtype).eps)
    assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)
    step, state = linear_attention_step(*(x[:, 0] for x in given))
    assert step.dtype == dtype and state.dtype == torch.float32
    layer = LinearAttention()
    assert layer(*(x[:, :7] for x in given)).dtype == layer.attention_weights.dtype == dtype


def test_mixed_precision_leaves_the_sums_alone():
    given = [x.float() for x in qkv()]
    expected = linear_attention(*given, is_causal=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear_attention(*given, is_causal=True), expected)


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any step makes, on the way back too."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_no_step_makes_a_matrix_of_all_pairs(is_causal):
    n = 16 * CHUNK
    given = [x.requires_grad_() for x in qkv(n, n)]
    with Largest() as largest:
        linear_attention(*given, torch.tensor([n, 3]), is_causal=is_causal).sum().backward()
    assert 0 < largest.numbers <= B * n * CHUNK < B * n * n


@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_empty_and_one_axis_less(is_causal):
    empty = [x[:0] for x in qkv()]
    lens = torch.empty(0, dtype=torch.int64)
    assert linear_attention(*empty, lens, is_causal=is_causal).shape == (0, Q, V)
    given = qkv()
    alone = linear_attention(*(x[0] for x in given), is_causal=is_causal)
    assert_close(alone, linear_attention(*given, is_causal=is_causal)[0], **EXACT)


@pytest.mark.parametrize(
    ("error", "message", "change", "options"),
    [
        (ValueError, "keys and values must come in pairs", {2: torch.ones(B, 3, V)}, {}),
        (ValueError, "same size", {0: torch.ones(B, Q, 3)}, {}),
        (ValueError, "leading axes", {0: torch.ones(Q, D)}, {}),
        (TypeError, "values must be a tensor of floats", {2: torch.ones(B, K, V).int()}, {}),
        (ValueError, "from 1 to 8", {}, {"valid_lens": torch.tensor([1, 8])}),
        (TypeError, "feature_map must be a function, got float", {}, {"feature_map": 0.0}),
    ],
)
def test_errors(error, message, change, options):
    given = [change.get(i, x) for i, x in enumerate(qkv())]
    with pytest.raises(error, match=message):
        linear_attention(*given, **options)
    if change:
        with pytest.raises(error, match=message):
            LinearAttention()(*given)


def test_no_bias_and_no_wrong_map():
    with pytest.raises(ValueError, match="no scores to add a bias to"):
        LinearAttention()(*qkv(), bias=torch.zeros(Q, K))
    with pytest.raises(TypeError, match="feature_map must be a function, got int"):
        LinearAttention(feature_map=1)
    with pytest.raises(ValueError, match="same size"):
        linear_attention_step(torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 5))
