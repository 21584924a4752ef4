"""The additive score in chunks against the plain formula, over the whole range of floats."""

import pytest
import torch
from torch.testing import assert_close

from d2l_attention.attention import additive
from d2l_attention.attention.additive import additive_score_in_chunks, worth_chunking
from d2l_attention.attention.scores import additive_score


def plain(queries, keys, w_v):
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ w_v


def inputs(batch=3, num_queries=7, num_keys=5, size=11, scale=1.0, dtype=torch.float64):
    return (
        (scale * torch.randn(batch, num_queries, size, dtype=dtype)).requires_grad_(),
        (scale * torch.randn(batch, num_keys, size, dtype=dtype)).requires_grad_(),
        torch.randn(size, dtype=dtype, requires_grad=True),
    )


# One query at a time, two or three of seven, one sequence, two of three, all: numbers in a chunk
# where a query meets 5 keys of 11 numbers.
@pytest.fixture(params=[1, 2 * 55, 3 * 55, 7 * 55, 2 * 7 * 55, 10**6])
def chunk_size(request, monkeypatch):
    monkeypatch.setattr(additive, "CHUNK_CPU", request.param)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 5.0, 100.0])
@pytest.mark.usefixtures("chunk_size")
def test_equals_the_plain_formula_with_its_gradients(scale):
    torch.manual_seed(1)
    given = inputs(scale=scale)
    expected, scores = plain(*given), additive_score_in_chunks(*given)
    torch.testing.assert_close(scores, expected, atol=1e-13, rtol=1e-12)
    upstream = torch.randn_like(scores)
    torch.testing.assert_close(
        torch.autograd.grad(scores, given, upstream),
        torch.autograd.grad(expected, given, upstream),
        atol=1e-13,
        rtol=1e-12,
    )


@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["exponentials", "tanh"])
@pytest.mark.usefixtures("chunk_size")
def test_gradcheck(scale):
    torch.manual_seed(2)
    assert torch.autograd.gradcheck(additive_score_in_chunks, inputs(2, 3, 2, 5, scale))


def test_one_pair_by_hand():
    # tanh(ln 2 + ln 3) = (36 - 1) / (36 + 1)
    queries, keys = torch.tensor([[[2.0]]]).log(), torch.tensor([[[3.0]]]).log()
    scores = additive_score_in_chunks(queries, keys, torch.tensor([37.0]))
    torch.testing.assert_close(scores, torch.tensor([[[35.0]]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_whole_range_of_floats(dtype):
    highest = torch.finfo(dtype).max / 2
    ends = [0.0, torch.finfo(dtype).tiny, 1e-8, 1e-3, 0.5, 1.0, 9.0, 19.9, 20.0, 20.1, 44.0, 89.0]
    ends = torch.tensor([*ends, 100.0, 355.0, 710.0, 1e4, 1e30, highest], dtype=dtype)
    numbers = torch.cat([-ends.flip(0), ends])
    # One feature a row, every number with every other: (1, n, 1) and (1, n, 1).
    everything = additive_score_in_chunks(
        numbers[None, :, None], numbers[None, :, None], torch.ones(1, dtype=dtype)
    )
    inside = numbers[numbers.abs() <= additive.LARGEST]
    by_exponentials = additive_score_in_chunks(
        inside[None, :, None], inside[None, :, None], torch.ones(1, dtype=dtype)
    )
    eps = torch.finfo(dtype).eps
    for given, scores in ((numbers, everything), (inside, by_exponentials)):
        exact = torch.tanh(given[:, None].double() + given.double())[None]
        torch.testing.assert_close(scores.double(), exact, atol=4 * eps, rtol=0.0)


def test_nan_stays_in_its_rows():
    queries, keys, w_v = (X.detach() for X in inputs())
    queries[1, 2, 3] = torch.nan
    scores = additive_score_in_chunks(queries, keys, w_v)
    assert scores[1, 2].isnan().all()
    assert scores.isnan().sum() == keys.shape[1]


def test_leading_axes_broadcast():
    torch.manual_seed(3)
    queries = torch.randn(2, 1, 5, 3, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(7, 4, 3, dtype=torch.float64, requires_grad=True)
    w_v = torch.randn(3, dtype=torch.float64, requires_grad=True)
    expected, scores = plain(queries, keys, w_v), additive_score_in_chunks(queries, keys, w_v)
    assert scores.shape == (2, 7, 5, 4)
    torch.testing.assert_close(scores, expected)
    given = queries, keys, w_v
    torch.testing.assert_close(
        torch.autograd.grad(scores.sum(), given), torch.autograd.grad(expected.sum(), given)
    )


class TestSecondDerivatives:
    @pytest.mark.parametrize("scale", [1.0, 30.0], ids=["exponentials", "tanh"])
    @pytest.mark.usefixtures("chunk_size")
    def test_gradgradcheck(self, scale):
        torch.manual_seed(3)
        assert torch.autograd.gradgradcheck(additive_score_in_chunks, inputs(2, 3, 2, 5, scale))

    def test_by_hand(self):
        # One pair: w tanh(q + k), twice: -2 w t (1 - t^2). With t = 35 / 37 and w = 37 that is
        # -2 * 35 * (37^2 - 35^2) / 37^2 = -10080 / 1369.
        query, key = torch.tensor([[[2.0]]]).log(), torch.tensor([[[3.0]]]).log()
        w_v = torch.tensor([37.0])

        def call(query):
            return additive_score_in_chunks(query, key, w_v).sum()

        by_hand = torch.tensor(-10080 / 1369)
        hessian = torch.autograd.functional.hessian(call, query)
        assert_close(hessian.squeeze(), by_hand, rtol=1e-5, atol=0)
        _, product = torch.autograd.functional.hvp(call, query, torch.ones_like(query))
        assert_close(product.squeeze(), by_hand, rtol=1e-5, atol=0)
        twice = torch.func.grad(lambda query: torch.func.grad(call)(query).sum())
        assert_close(twice(query).squeeze(), by_hand, rtol=1e-5, atol=0)


@pytest.mark.usefixtures("chunk_size")
def test_vmap_and_gradients_under_it():
    given = [torch.stack((X, -X)).detach() for X in inputs()]
    each = [additive_score_in_chunks(*one) for one in zip(*given, strict=True)]
    assert_close(torch.vmap(additive_score_in_chunks)(*given), torch.stack(each))
    queries, keys, w_v = given
    together = torch.vmap(additive_score_in_chunks, in_dims=(0, None, None))
    expected = torch.stack([plain(X, keys[0], w_v[0]) for X in queries])
    assert_close(together(queries, keys[0], w_v[0]), expected)
    of_one = torch.func.grad(lambda *one: additive_score_in_chunks(*one).square().sum())
    assert_close(
        torch.vmap(of_one)(*given), torch.stack([of_one(*one) for one in zip(*given, strict=True)])
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"num_queries": 1}, False),
        ({"num_keys": 1}, False),
        ({"size": 1}, False),  # few numbers
        ({"dtype": torch.bfloat16}, False),
        ({"dtype": torch.float64}, True),
    ],
)
def test_who_takes_the_chunks(change, expected):
    sizes = {"num_queries": 67, "num_keys": 101, "size": 41, "dtype": torch.float32} | change
    queries, keys, w_v = inputs(**sizes)
    assert worth_chunking(queries, keys, w_v) is expected
    torch.testing.assert_close(
        additive_score(queries, keys, w_v), plain(queries, keys, w_v), atol=1e-4, rtol=1e-2
    )


def test_autocast_mixed_types_and_traces_take_the_plain_formula(monkeypatch):
    queries, *others = given = inputs(3, 67, 101, 41, dtype=torch.float32)
    assert not worth_chunking(queries.double(), *others)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not worth_chunking(*given)
    assert worth_chunking(*given)
    monkeypatch.setattr(torch.jit, "is_tracing", lambda: True)
    assert not worth_chunking(*given)
