"""The slope of our functions where they are joined from pieces, the same on every PyTorch.

What clamp answers at its bound has changed in PyTorch 2.14. So what ours answer at a corner is
written down here: where the two pieces agree it is their slope, elsewhere that of ReLU, which
is 0 on the flat side and at the corner itself.
"""

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import PositionWiseFFN, boxcar, constant, epanechikov, gaussian, nadaraya_watson
from d2l_attention.models.encoder_decoder import guidance_loss
from d2l_attention.scale.online_softmax import (
    merge_partial,
    online_softmax,
    partial_attention,
    running_sums,
    tiled_attention,
)
from d2l_attention.variants import GatedDeltaNet, Indexer, elu_plus_one, linear_attention

TINY = torch.finfo(torch.float64).tiny


def network(x):
    """The position-wise network with all its weights 1: a ReLU alone."""
    layer = PositionWiseFFN(1, 1)
    layer(torch.zeros(1, 1))
    for parameter in layer.double().parameters():
        torch.nn.init.constant_(parameter, float(parameter.ndim == 2))
    return layer(x[:, None])[:, 0]


def indexer(x):
    """The score of a token that has x with one that has 1: ReLU(x), with all weights 1."""
    scorer = Indexer(2, 1, 1).double()
    for layer, weights in ((scorer.W_q, [1, 0]), (scorer.W_k, [0, 1]), (scorer.W_w, [0, 1])):
        layer.weight.data = torch.tensor([weights]).double()
    return torch.stack([scorer(torch.stack((each, each.new_ones(())))[None, None]) for each in x])


def regression(x):
    """A prediction at x from the one example (0, 1)."""
    first, one = x.new_zeros(1), x.new_ones(1)
    return nadaraya_watson(first, one, x, epanechikov)[0]


def guidance(x):
    """The loss of one word whose right source word has the weight x."""
    links = torch.tensor([[[True, False]]])
    return sum(guidance_loss(torch.stack((each, 1 - each))[None, None], links) for each in x)


def linear_by_relu(x):
    """The output of a query x for the value 1, where the feature map leaves nothing below 0."""
    queries, one = x[:, None, None], x.new_ones(len(x), 1, 1)
    return linear_attention(queries, one, one, feature_map=torch.relu)


CORNERS = {
    elu_plus_one: ([0.0, -1e-9, 1e-9, 1000.0, -1000.0], [1.0, 1.0, 1.0, 1.0, 0.0]),
    epanechikov: ([-1.0, 0.0, 1.0, -0.5, 0.5, 2.0], [0.0, 0.0, 0.0, 1.0, -1.0, 0.0]),
    gaussian: ([0.0, 1000.0], [0.0, 0.0]),
    regression: ([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]),
    network: ([0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
    indexer: ([0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
    guidance: ([0.0, TINY, 0.5], [0.0, 0.0, -2.0]),
    linear_by_relu: ([0.0, -1.0, 1.0], [0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("function", CORNERS, ids=lambda function: function.__name__)
def test_the_slope_at_a_corner(function):
    corners, slopes = CORNERS[function]
    x = torch.tensor(corners, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert_close(slope, torch.tensor(slopes).double(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [boxcar, constant])
def test_a_kernel_of_steps_has_no_slope_to_ask_for(kernel):
    x = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    assert not kernel(x).requires_grad


# Equal scores, in one block and in several: a corner of the maximum, and none of the result.
TIES = torch.tensor([[2.0, 2.0, 0.0, 2.0, 2.0, -1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]).double()


def slopes_of(function, x):
    x = x.clone().requires_grad_()
    loss = (function(x) * torch.arange(1.0, 7.0)).sum()
    return torch.autograd.grad(loss, x)[0]


@pytest.mark.parametrize("block_size", [1, 2, 4, 6])
def test_equal_scores_have_the_softmax_s_slopes(block_size):
    expected = slopes_of(lambda x: x.softmax(dim=-1), TIES)
    assert_close(slopes_of(lambda x: online_softmax(x, block_size), TIES), expected)

    def log_sum(x):
        *_, (maximum, total) = running_sums(x, block_size)
        return maximum + total.log()

    assert_close(slopes_of(log_sum, TIES), slopes_of(lambda x: x.logsumexp(-1, keepdim=True), TIES))


def by_tiles(queries, keys, values):
    return tiled_attention(queries, keys, values, block_size=2)


def by_parts(queries, keys, values):
    parts = zip(keys.split(2, dim=-2), values.split(2, dim=-2), strict=True)
    return merge_partial(*zip(*(partial_attention(queries, *part) for part in parts), strict=True))[
        0
    ]


@pytest.mark.parametrize("way", [by_tiles, by_parts])
def test_equal_keys_have_plain_attention_s_slopes(way):
    queries, values = torch.randn(1, 3, 4).double(), torch.randn(1, 6, 5).double()
    keys = torch.randn(1, 1, 4).double().repeat(1, 6, 1)
    given = [X.requires_grad_() for X in (queries, keys, values)]
    plain = (queries @ keys.mT / 2).softmax(dim=-1) @ values
    expected = torch.autograd.grad(plain.square().sum(), given)
    assert_close(torch.autograd.grad(way(*given).square().sum(), given), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_token_of_zeros_is_no_division_by_its_length(dtype):
    layer = GatedDeltaNet(8, 2)
    layer(torch.randn(1, 1, 8))  # the first call makes the parameters
    layer, X = layer.to(dtype), torch.randn(2, 5, 8, dtype=dtype)
    X[1, 3:] = 0
    X.requires_grad_()
    output = layer(X)
    output.sum().backward()
    assert output.isfinite().all() and (output[1, 3:] == 0).all()
    assert all(x.grad.isfinite().all() for x in (X, *layer.parameters()))
