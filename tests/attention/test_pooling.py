import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from d2l_attention import (
    additive_score,
    attention_mask,
    attention_pooling,
    bilinear_score,
    dot_product_attention,
    dot_score,
    gaussian_score,
    masked_softmax,
    scaled_dot_score,
)

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13  # all different: a swapped axis cannot pass
LENS = {
    "none": None,
    "padded": torch.tensor([7, 2]),
    "nothing-visible": torch.tensor([3, 0]),
    "per-query": torch.tensor([[1, 2, 3, 4, 5], [7, 0, 6, 2, 1]]),
}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def random_qkv(*leading, num_queries=Q, num_keys=K, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    shapes = ((num_queries, D), (num_keys, D), (num_keys, V))
    return [torch.randn(*leading, *s).to(dtype) for s in shapes]


def explicit_attention(queries, keys, values, visible):
    """The formula with loops and Python numbers: slow, plain, in float64."""
    output = torch.zeros(*queries.shape[:-1], values.shape[-1], dtype=torch.float64)
    weights = torch.zeros(*queries.shape[:-1], keys.shape[-2], dtype=torch.float64)
    visible = visible.expand(weights.shape)
    for b in range(queries.shape[0]):
        for q in range(queries.shape[1]):
            seen = [k for k in range(keys.shape[1]) if visible[b, q, k]]
            scores = {k: float(queries[b, q].double() @ keys[b, k].double()) for k in seen}
            exps = {k: math.exp(s / math.sqrt(queries.shape[-1])) for k, s in scores.items()}
            for k in seen:
                weights[b, q, k] = exps[k] / sum(exps.values())
                output[b, q] += weights[b, q, k] * values[b, k].double()
    return output, weights


class TestMaskedSoftmax:
    def test_by_hand_and_without_touching_the_input(self):
        scores, mask = torch.zeros(1, 3), torch.tensor([True, True, False])
        assert masked_softmax(scores, mask=mask).tolist() == [[0.5, 0.5, 0.0]]
        assert scores.tolist() == [[0.0, 0.0, 0.0]]

    @given(st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 2**16), st.floats(0, 1))
    def test_rows_sum_to_one_or_to_nothing(self, shape, seed, share):
        torch.manual_seed(seed)
        scores = torch.randn(shape, dtype=torch.float64) * 50
        mask = torch.rand(shape) < share
        weights = masked_softmax(scores, mask=mask)
        assert_close(weights.sum(-1), mask.any(-1).double())
        assert (weights[~mask] == 0).all()
        rows = zip(*(x.flatten(0, 1) for x in (weights, mask, scores)), strict=True)
        for row, visible, line in rows:
            assert_close(row[visible], line[visible].softmax(-1))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_with_large_scores(self, dtype):
        scores = torch.tensor([[[3e4, 3e4, -3e4], [1.0, 2.0, 3.0]]], dtype=dtype)
        weights = masked_softmax(scores, torch.tensor([2]))
        assert weights.dtype == dtype
        assert weights[0, 0].tolist() == [0.5, 0.5, 0.0]
        assert_close(weights[0, 1, :2], torch.tensor([1.0, 2.0], dtype=dtype).softmax(-1))

    def test_empty_axes(self):
        assert masked_softmax(torch.zeros(0, 3, 5), torch.empty(0, dtype=torch.int64)).numel() == 0
        assert masked_softmax(torch.zeros(2, 3, 0), torch.tensor([0, 0])).shape == (2, 3, 0)


class TestScores:
    def test_by_hand(self):
        queries, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.0]])
        assert dot_score(queries, keys).tolist() == [[11.0, -1.0]]
        assert_close(scaled_dot_score(queries, keys), torch.tensor([[11.0, -1.0]]) / 2**0.5)
        assert gaussian_score(queries, keys).tolist() == [[-4.0, -4.0]]
        assert gaussian_score(queries, keys, width=2.0).tolist() == [[-1.0, -1.0]]
        M = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        assert bilinear_score(queries, keys, M).tolist() == [[10.0, -2.0]]
        w_v = torch.tensor([2.0, -1.0])
        expected = [[2 * math.tanh(4) - math.tanh(6), 2 * math.tanh(0) - math.tanh(2)]]
        assert_close(additive_score(queries, keys, w_v), torch.tensor(expected))

    @pytest.mark.parametrize("leading", [(), (B,), (B, H)])
    def test_shapes_and_pairs(self, leading):
        queries, keys, _ = random_qkv(*leading)
        w_v, M = torch.randn(D), torch.randn(D, D)
        cases = {
            dot_score: (lambda q, k: q @ k, ()),
            scaled_dot_score: (lambda q, k: q @ k / D**0.5, ()),
            gaussian_score: (lambda q, k: -((q - k) ** 2).sum() / 2, ()),
            bilinear_score: (lambda q, k: q @ M @ k, (M,)),
            additive_score: (lambda q, k: w_v @ torch.tanh(q + k), (w_v,)),
        }
        for score, (one_pair, extra) in cases.items():
            scores = score(queries, keys, *extra)
            assert scores.shape == (*leading, Q, K)
            for q, k in [(0, 0), (4, 6), (1, 5)]:
                first = (0,) * len(leading)
                expected = one_pair(queries[(*first, q)], keys[(*first, k)])
                assert_close(scores[(*first, q, k)], expected, atol=1e-5, rtol=1e-5)

    def test_unequal_sizes_through_a_bilinear_form(self):
        queries, keys, M = torch.randn(Q, 2), torch.randn(K, 3), torch.randn(2, 3)
        assert_close(bilinear_score(queries, keys, M), queries @ M @ keys.T)

    def test_scaled_scores_do_not_overflow_in_half_precision(self):
        queries = keys = torch.full((1, 256), 20.0, dtype=torch.float16)
        assert dot_score(queries, keys).isinf().all()  # 102,400 is beyond float16
        assert scaled_dot_score(queries, keys).item() == 6400

    def test_errors(self):
        queries, keys = torch.randn(Q, 2), torch.randn(K, 3)
        for score in (dot_score, scaled_dot_score, gaussian_score):
            with pytest.raises(
                ValueError, match=r"same size .* queries \(5, 2\) and keys \(7, 3\)"
            ):
                score(queries, keys)
            with pytest.raises(ValueError, match=r"must be matrices .* got queries \(5,\) and"):
                score(torch.randn(5), torch.randn(7))
            with pytest.raises(TypeError, match="queries must be a tensor of floats"):
                score(queries.byte(), queries.byte())
        with pytest.raises(ValueError, match=r"same size"):
            additive_score(queries, keys, torch.randn(2))
        with pytest.raises(ValueError, match=r"w_v must have shape \(2,\), got \(3,\)"):
            additive_score(queries, queries, torch.randn(3))
        with pytest.raises(ValueError, match=r"M must have shape .* \(2, 3\), got \(3, 2\)"):
            bilinear_score(queries, keys, torch.randn(3, 2))
        with pytest.raises(ValueError, match="width must be positive, got 0"):
            gaussian_score(queries, queries, width=0)


@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
class TestAgainstOracles:
    def test_explicit_formula(self, lens, is_causal, masked):
        queries, keys, values = random_qkv(B)
        mask = torch.rand(B, Q, K) < 0.6
        mask = mask if masked else None
        visible = attention_mask((B, Q, K), lens, mask, is_causal)
        visible = torch.tensor(True) if visible is None else visible
        expected, expected_weights = explicit_attention(queries, keys, values, visible)
        options = dict(mask=mask, is_causal=is_causal)
        fused = dot_product_attention(queries, keys, values, lens, **options)
        output, weights = dot_product_attention(
            queries, keys, values, lens, need_weights=True, **options
        )
        assert_close(fused.double(), expected, atol=1e-5, rtol=1e-5)
        assert_close(output.double(), expected, atol=1e-5, rtol=1e-5)
        assert_close(weights.double(), expected_weights, atol=1e-6, rtol=1e-5)

    def test_pytorch_with_gradients(self, lens, is_causal, masked):
        mask = torch.rand(B, H, Q, K) < 0.6
        mask = mask if masked else None
        visible = attention_mask((B, H, Q, K), lens, mask, is_causal)
        inputs = [x.double().requires_grad_() for x in random_qkv(B, H)]
        expected = F.scaled_dot_product_attention(*inputs, attn_mask=visible)
        cotangent = torch.randn_like(expected)
        expected_grads = torch.autograd.grad(expected, inputs, cotangent)
        for need_weights in (False, True):
            output = dot_product_attention(
                *inputs, lens, mask=mask, is_causal=is_causal, need_weights=need_weights
            )
            output = output[0] if need_weights else output
            assert_close(output, expected)
            assert_close(torch.autograd.grad(output, inputs, cotangent), expected_grads)


class TestPooling:
    def test_by_hand(self):
        scores = torch.tensor([[0.0, math.log(3.0)]])
        values = torch.tensor([[4.0, 0.0], [0.0, 8.0]])
        output, weights = attention_pooling(scores, values)
        assert_close(weights, torch.tensor([[0.25, 0.75]]))
        assert_close(output, torch.tensor([[1.0, 6.0]]))

    def test_dropout_scales_the_average_and_spares_the_weights(self):
        torch.manual_seed(0)
        scores, values = torch.zeros(2000, 4), torch.eye(4)
        output, weights = attention_pooling(scores, values, dropout=0.25)
        assert (weights == 0.25).all()
        assert output.unique().tolist() == pytest.approx([0.0, 0.25 / 0.75])
        assert_close(output.mean(), torch.tensor(0.25), atol=0.01, rtol=0)

    def test_errors(self):
        for values in (torch.zeros(B, Q, V), torch.zeros(K, V), torch.zeros(K)):
            with pytest.raises(ValueError, match="one row for each key, got scores .* and values"):
                attention_pooling(torch.zeros(B, Q, K), values)
        with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got 1"):
            attention_pooling(torch.zeros(Q, K), torch.zeros(K, V), dropout=1)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
class TestProperties:
    def attend(self, *args, need_weights, **options):
        result = dot_product_attention(*args, need_weights=need_weights, **options)
        return result[0] if need_weights else result

    def test_keys_that_only_a_mask_hides(self, need_weights):
        queries, keys, values = random_qkv(B)
        mask = torch.rand(Q, K) < 0.5
        mask[:, 2] = False
        expected = self.attend(queries, keys, values, mask=mask, need_weights=need_weights)
        keys[:, 2] = values[:, 2] = math.nan
        actual = self.attend(queries, keys, values, mask=mask, need_weights=need_weights)
        assert torch.equal(actual, expected)

    def test_causal_keys_beyond_the_last_query(self, need_weights):
        queries, keys, values = random_qkv(B)
        expected = self.attend(queries, keys, values, is_causal=True, need_weights=need_weights)
        keys[:, Q:] = values[:, Q:] = math.nan
        actual = self.attend(queries, keys, values, is_causal=True, need_weights=need_weights)
        assert torch.equal(actual, expected)

    @given(
        b=st.integers(0, 3),
        q=st.integers(1, 4),
        k=st.integers(1, 4),
        d=st.integers(1, 4),
        v=st.integers(1, 4),
        is_causal=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def test_any_shape(self, b, q, k, d, v, is_causal, seed, need_weights):
        torch.manual_seed(seed)
        shapes = ((b, q, d), (b, k, d), (b, k, v))
        queries, keys, values = (torch.randn(s) for s in shapes)
        lens = torch.randint(0, k + 1, (b,))
        visible = attention_mask((b, q, k), lens, None, is_causal)
        expected, _ = explicit_attention(queries, keys, values, visible)
        options = dict(is_causal=is_causal, need_weights=need_weights)
        output = self.attend(queries, keys, values, lens, **options)
        assert_close(output.double(), expected, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("leading", [(), (B,), (B, H), (B, 1, H)])
    def test_leading_axes(self, leading, need_weights):
        queries, keys, values = random_qkv(*leading)
        output = self.attend(queries, keys, values, need_weights=need_weights)
        assert output.shape == (*leading, Q, V)
        first = (0,) * len(leading)
        one = self.attend(queries[first], keys[first], values[first], need_weights=need_weights)
        assert_close(output[first], one)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
    def test_dtypes(self, dtype, is_causal, need_weights):
        inputs, lens = random_qkv(B, dtype=dtype), torch.tensor([4, 0])
        visible = attention_mask((B, Q, K), lens, None, is_causal)
        expected, _ = explicit_attention(*inputs, visible)
        output = self.attend(*inputs, lens, is_causal=is_causal, need_weights=need_weights)
        assert output.dtype == dtype
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype)
        tolerance = tolerance or 4 * torch.finfo(dtype).eps
        assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)

    def test_errors_come_before_any_work(self, need_weights):
        queries, keys, values = right = random_qkv(B)
        bad = [
            (ValueError, "same size", (queries[..., 1:], keys, values), {}),
            (ValueError, "pairs", (queries, keys, values[:, 1:]), {}),
            (ValueError, "leading axes", (queries[:1], keys, values), {}),
            (ValueError, "at least two axes", (queries[0, 0], keys, values), {}),
            (ValueError, r"dropout must lie in \[0, 1\), got 1.0", right, {"dropout": 1.0}),
            (TypeError, "mask must be a boolean", right, {"mask": torch.ones(Q, K)}),
            (TypeError, "integers, got list", right, {"valid_lens": [1, 2]}),
            (ValueError, "number of keys, 7", right, {"valid_lens": torch.tensor([1, 8])}),
        ]
        for error, message, args, options in bad:
            with pytest.raises(error, match=message):
                dot_product_attention(*args, need_weights=need_weights, **options)


@pytest.mark.parametrize("leading", [(B,), (B, H)], ids=["3 axes", "4 axes"])
@pytest.mark.parametrize("value_size", [D, V, 5], ids=["V = D", "V > D", "V < D"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("lens", [None, [101, 0]], ids=["", "padded"])
def test_no_matrix_of_all_pairs_is_kept_for_the_way_back(leading, value_size, is_causal, lens):
    n = 211
    inputs = [torch.randn(*leading, n, size, requires_grad=True) for size in (D, D, value_size)]
    lens = None if lens is None else torch.tensor(lens)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        dot_product_attention(*inputs, lens, is_causal=is_causal)
    assert max(sizes) <= math.prod(leading) * n * V  # no factor n * n


def test_scores_that_are_no_floats_are_named():
    with pytest.raises(TypeError, match="scores must be a tensor of floats, got torch.int64"):
        attention_pooling(torch.ones(2, 3, dtype=torch.int64), torch.randn(3, 2))
