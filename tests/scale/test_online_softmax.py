"""One pass over the keys, a block at a time, gives what the whole row gives."""

import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from d2l_attention import causal_mask, dot_product_attention
from d2l_attention.scale.online_softmax import (
    merge_partial,
    online_softmax,
    partial_attention,
    running_sums,
    tiled_attention,
)

B, H, Q, K, D, V = 2, 3, 11, 13, 5, 7
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def qkv(num_queries=Q, num_keys=K, dtype=torch.float64):
    shapes = (B, H, num_queries, D), (B, H, num_keys, D), (B, H, num_keys, V)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def gradients(output, inputs):
    torch.manual_seed(1)
    return torch.autograd.grad(output, inputs, torch.randn_like(output))


class TestOnlineSoftmax:
    def test_running_sums_by_hand(self):
        """Scores 0, ln 2, ln 8: 1 = 1; then 1 / 2 + 1 = 1.5; then 1.5 * 2 / 8 + 1 = 1.375."""
        scores = torch.tensor([0.0, math.log(2), math.log(8)], dtype=torch.float64)
        steps = [(m.exp().item(), total.item()) for m, total in running_sums(scores, 1)]
        assert_close(torch.tensor(steps), torch.tensor([(1.0, 1.0), (2.0, 1.5), (8.0, 1.375)]))

    @given(st.integers(1, 17), st.integers(1, 19))
    def test_is_the_softmax_whatever_the_block(self, length, block_size):
        scores = torch.randn(3, length, dtype=torch.float64)
        before = scores.clone()
        assert_close(online_softmax(scores, block_size), scores.softmax(dim=-1))
        assert torch.equal(scores, before)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_extreme_scores(self, dtype):
        top = torch.finfo(dtype).max
        rows = [-top, 0.0, top], [top, top, -top], [-top, -top, -top]
        scores = torch.tensor(rows, dtype=dtype)
        for block_size in (1, 2, 3):
            assert_close(online_softmax(scores, block_size), scores.softmax(dim=-1))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_many_scores_in_half_precision(self, dtype):
        scores = torch.zeros(3001, dtype=dtype)
        weights = online_softmax(scores, 1)
        assert weights.dtype == dtype
        assert_close(weights, scores.softmax(dim=-1))

    def test_hidden_scores_have_weight_0_first_and_everywhere(self):
        inf = math.inf
        scores = torch.tensor([[-inf, -inf, 0.0, 0.0, -inf], [-inf] * 5])
        for block_size in (1, 2, 5):
            expected = [[0.0, 0.0, 0.5, 0.5, 0.0], [0.0] * 5]
            assert online_softmax(scores, block_size).tolist() == expected

    def test_the_gradient_is_the_softmax_s(self):
        scores = torch.randn(3, K, dtype=torch.float64, requires_grad=True)
        actual = gradients(online_softmax(scores, 4), [scores])
        assert_close(actual, gradients(scores.softmax(dim=-1), [scores]))

    def test_errors(self):
        with pytest.raises(ValueError, match="block_size must be .* got 0"):
            online_softmax(torch.zeros(3), 0)
        with pytest.raises(ValueError, match="block_size must be .* got 2.0"):
            tiled_attention(*qkv(), block_size=2.0)
        with pytest.raises(TypeError, match="scores must be a tensor of floats, got torch.int64"):
            online_softmax(torch.zeros(3, dtype=torch.long), 2)
        with pytest.raises(ValueError, match="at least one score"):
            online_softmax(torch.zeros(3, 0), 2)


class TestTiledAttention:
    @pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
    @pytest.mark.parametrize("block_size", [1, 4, 11, 13, 100])
    @pytest.mark.parametrize(
        "sizes", [(11, 13), (13, 11), (13, 13), (1, 1), (1, 5), (5, 1)], ids=str
    )
    def test_equals_plain_attention(self, sizes, block_size, is_causal):
        inputs = qkv(*sizes)
        actual = tiled_attention(*inputs, block_size=block_size, is_causal=is_causal)
        expected = dot_product_attention(*inputs, is_causal=is_causal)
        assert_close(actual, expected, atol=1e-10, rtol=0)
        assert_close(gradients(actual, inputs), gradients(expected, inputs), atol=1e-10, rtol=0)
        with torch.no_grad():
            again = tiled_attention(*inputs, block_size=block_size, is_causal=is_causal)
        assert torch.equal(again, actual)

    @pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
    @pytest.mark.parametrize("scale", [1.0, 100.0])
    def test_other_dtypes_and_extreme_scores(self, dtype, scale):
        queries, keys, values = (X.detach() for X in qkv(dtype=dtype))
        actual = tiled_attention(queries * scale, keys, values, block_size=4)
        assert actual.dtype == dtype
        expected = dot_product_attention(queries * scale, keys, values)
        tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.01}[dtype]
        assert_close(actual, expected, atol=tolerance, rtol=tolerance)

    def test_the_future_changes_nothing_before_it(self):
        inputs = qkv(13, 13)
        output = tiled_attention(*inputs, block_size=4, is_causal=True)
        for i in (0, 5, 12):
            for grad in torch.autograd.grad(output[:, :, i].sum(), inputs, retain_graph=True):
                assert (grad[:, :, i + 1 :] == 0).all()

    def test_nan_in_later_tiles_is_never_read(self):
        queries, keys, values = (X.detach() for X in qkv(13, 13))
        before = tiled_attention(queries, keys, values, block_size=4, is_causal=True)
        keys[:, :, 8:] = values[:, :, 8:] = math.nan
        after = tiled_attention(queries, keys, values, block_size=4, is_causal=True)
        assert torch.equal(after[:, :, :8], before[:, :, :8])

    def test_without_keys_or_queries(self):
        for queries, keys in ((3, 0), (0, 3)):
            inputs = torch.zeros(queries, D), torch.zeros(keys, D), torch.ones(keys, V)
            assert_close(tiled_attention(*inputs, block_size=2), torch.zeros(queries, V))

    def test_wrong_shapes(self):
        with pytest.raises(ValueError, match="same size"):
            tiled_attention(torch.zeros(3, 2), torch.zeros(3, 4), torch.zeros(3, 4), block_size=2)


class TestMergePartial:
    def test_two_halves_by_hand(self):
        """One key with exp(score) 1 and value 4, one with 3 and value 8: 4 / 4 + 8 * 3 / 4 = 7."""
        outputs = torch.tensor([[4.0]]), torch.tensor([[8.0]])
        log_sums = torch.tensor([0.0]), torch.tensor([math.log(3)])
        output, log_sum = merge_partial(outputs, log_sums)
        assert_close((output, log_sum), (torch.tensor([[7.0]]), torch.tensor([math.log(4)])))

    @pytest.mark.parametrize("cuts", [[13], [6, 7], [1, 5, 7]], ids=str)
    @pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
    def test_parts_of_the_keys_make_the_whole(self, cuts, is_causal):
        queries, keys, values = inputs = qkv(13, 13)
        parts = zip(
            keys.split(cuts, -2),
            values.split(cuts, -2),
            causal_mask(13).split(cuts, -1),
            strict=True,
        )
        pieces = [partial_attention(queries, k, v, m if is_causal else None) for k, v, m in parts]
        output, log_sum = merge_partial(*zip(*pieces, strict=True))
        expected = dot_product_attention(*inputs, is_causal=is_causal)
        assert_close(output, expected, atol=1e-10, rtol=0)
        whole = partial_attention(*inputs, causal_mask(13) if is_causal else None)
        assert_close((output, log_sum), whole)
        if not is_causal:  # there some parts see nothing, and -inf has no gradient
            assert_close(gradients(output, inputs), gradients(expected, inputs))

    def test_merging_in_any_order_and_what_saw_nothing(self):
        pieces = [(torch.randn(3, V), torch.randn(3) * 100) for _ in range(3)]
        whole = merge_partial(*zip(*pieces, strict=True))
        first = merge_partial(*zip(*pieces[:2], strict=True))
        assert_close(merge_partial(*zip(pieces[2], first, strict=True)), whole)
        nothing = torch.zeros(3, V), torch.full((3,), -math.inf)
        assert_close(merge_partial(*zip(*pieces, nothing, strict=True)), whole)
        assert_close(merge_partial(*zip(nothing, nothing, strict=True)), nothing)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_sums_of_half_precision_are_kept_in_single(self, dtype):
        """Equal values: every average of them is the same, however many parts it has."""
        queries, keys, ones = (torch.randn(n, 16).to(dtype) for n in (8, 4096, 4096))
        parts = zip(keys.chunk(4), ones.fill_(1).chunk(4), strict=True)
        pieces = [partial_attention(queries, *part) for part in parts]
        output, log_sum = merge_partial(*zip(*pieces, strict=True))
        assert output.dtype == pieces[0][0].dtype == dtype
        assert torch.equal(output, torch.ones_like(output))
        exact = (queries.double() @ keys.double().mT / 4).logsumexp(-1)
        assert_close(log_sum.double(), exact, atol=1e-5, rtol=0)

    def test_errors(self):
        with pytest.raises(ValueError, match="in pairs, got 1 and 2"):
            merge_partial([torch.zeros(3, V)], [torch.zeros(3)] * 2)
        with pytest.raises(ValueError, match="in pairs, got 0 and 0"):
            merge_partial([], [])
        with pytest.raises(ValueError, match=r"got \(3, 7\) and \(2,\)"):
            merge_partial([torch.zeros(3, V)], [torch.zeros(2)])


MEASURE = """
import re, sys, torch
from pathlib import Path
from d2l_attention.scale.online_softmax import tiled_attention
torch.set_num_threads(1)
def step(n):
    X = torch.randn(1, n, 64, requires_grad=True)
    tiled_attention(X, X, X, block_size=128, is_causal=True).sum().backward()
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
step(1024)
start = peak()
step(4096)
print(peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_memory_is_linear_backward_included():
    # With torch 2.11 the C library keeps freed tiles for later, if it is not told otherwise.
    given_back = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # a tile of floats
    run = subprocess.run(
        [sys.executable, "-c", MEASURE],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env=given_back,
    )
    # One (4096, 4096) matrix of floats would be 64 MiB, and the way back needs several.
    assert 0 < float(run.stdout) < 64, run.stdout
