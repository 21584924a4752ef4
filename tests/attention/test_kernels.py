import pytest
import torch
from torch.testing import assert_close

from d2l_attention import (
    attention_pooling,
    boxcar,
    constant,
    epanechikov,
    gaussian,
    gaussian_score,
    nadaraya_watson,
)


def test_kernels_by_hand():
    x = torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.25])
    assert_close(gaussian(x), torch.tensor([0.1353353, 0.6065307, 0.8824969, 1.0, 0.9692332]))
    assert boxcar(x).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert constant(x).tolist() == [1.0] * 5
    assert epanechikov(x).tolist() == [0.0, 0.0, 0.5, 1.0, 0.75]


def test_differences_of_whole_numbers_may_be_large():
    """2**32 milliseconds are 50 days; their square has more digits than an int64."""
    days = torch.tensor([0, 1, 2**32, 4_000_000_000, -(2**40)])
    assert gaussian(days).tolist() == [1.0, pytest.approx(0.6065307), 0.0, 0.0, 0.0]
    stamps, values = torch.tensor([0, 2**32]), torch.tensor([1.0, 5.0])
    y_hat, weights = nadaraya_watson(stamps, values, stamps[:1], gaussian)
    assert (y_hat.tolist(), weights.tolist()) == ([1.0], [[1.0, 0.0]])


def test_regression_by_hand():
    x_train, y_train = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([4.0, 8.0, 100.0])
    y_hat, weights = nadaraya_watson(x_train, y_train, torch.tensor([0.25, 2.0]), epanechikov)
    assert weights.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]
    assert y_hat.tolist() == [5.0, 0.0]  # at 2.0 no key is in reach


@pytest.mark.parametrize("kernel", [gaussian, boxcar, constant, epanechikov])
def test_agrees_with_loops(kernel):
    x_train, y_train, x_val = torch.rand(7) * 5, torch.randn(7), torch.rand(5) * 5
    y_hat, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    assert weights.shape == (5, 7)
    for q in range(5):
        similarity = [kernel(x_val[q] - x).item() for x in x_train]
        total = sum(similarity)
        expected = sum(s * y.item() for s, y in zip(similarity, y_train, strict=True))
        assert y_hat[q].item() == pytest.approx(expected / total if total else 0.0, rel=1e-4)


def test_gaussian_kernel_is_a_softmax():
    x_train, y_train, x_val = torch.rand(7) * 5, torch.randn(7), torch.rand(5) * 5
    y_hat, weights = nadaraya_watson(x_train, y_train, x_val, lambda x: gaussian(x / 0.7))
    scores = gaussian_score(x_val[:, None], x_train[:, None], width=0.7)
    output, softmax_weights = attention_pooling(scores, y_train[:, None])
    assert_close(weights, softmax_weights)
    assert_close(y_hat, output[:, 0])


@pytest.mark.parametrize(
    ("x_dtype", "y_dtype"),
    [(torch.float64, torch.float32), (torch.float32, torch.float64), (torch.int64, torch.float64)]
    + [(torch.uint8, torch.float64)],  # 1 - 4 is 253 in bytes
)
def test_x_and_y_may_be_of_two_dtypes(x_dtype, y_dtype):
    x_train, y_train = torch.tensor([0, 4, 7]), torch.tensor([4.0, 8.0, 100.0])
    x_val = torch.tensor([1, 5]).to(x_dtype)
    y_hat, _ = nadaraya_watson(x_train.to(x_dtype), y_train.to(y_dtype), x_val, gaussian)
    exact = nadaraya_watson(x_train.double(), y_train.double(), x_val.double(), gaussian)[0]
    assert y_hat.dtype == torch.float64
    assert_close(y_hat, exact, atol=1e-5, rtol=1e-5)


def test_a_query_out_of_reach_has_no_gradient_and_no_nan():
    x_train = torch.tensor([0.0, 1.0], requires_grad=True)
    y_hat, _ = nadaraya_watson(x_train, torch.ones(2), torch.tensor([9.0]), epanechikov)
    y_hat.sum().backward()
    assert x_train.grad.tolist() == [0.0, 0.0]


def test_errors():
    x = torch.zeros(3)
    with pytest.raises(ValueError, match=r"same length, got 3 and 2"):
        nadaraya_watson(x, x[:2], x, gaussian)
    with pytest.raises(ValueError, match=r"x_train must have one axis, got shape \(1, 3\)"):
        nadaraya_watson(x[None], x, x, gaussian)
    with pytest.raises(ValueError, match=r"x_val must have one axis, got shape \(1, 3\)"):
        nadaraya_watson(x, x, x[None], gaussian)
    with pytest.raises(TypeError, match="y_train must be a tensor of floats, got torch.int64"):
        nadaraya_watson(x, torch.arange(3), x, gaussian)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_keys_in_half_precision(dtype):
    """70,000 equal weights: their sum is more than float16 can hold."""
    x, y = torch.zeros(70_000, dtype=dtype), torch.full((70_000,), 3.0, dtype=dtype)
    y_hat, weights = nadaraya_watson(x, y, x[:2], constant)
    assert y_hat.dtype == weights.dtype == dtype
    assert_close(y_hat.float(), torch.full((2,), 3.0), rtol=0.01, atol=0)
