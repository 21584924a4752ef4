"""Traffic and operations of a training step, counted on paper."""

import pytest

from d2l_attention.scale.parallel import (
    LayerShape,
    bytes_per_layer,
    flops_per_layer,
    layer_times,
)


def test_traffic_by_hand():
    """D = 4, two sequences of 6 tokens, 2 processes, 2 bytes a number."""
    sent = bytes_per_layer(LayerShape(4, 6, batch_size=2), 2)
    assert sent == {
        "data": 2 * (1 / 2) * 12 * 16 * 2,  # the gradients of 192 parameters
        "tensor": 4 * 2 * (1 / 2) * 48 * 2,  # four times 48 activations
        "context": (2 + 2 + 4) * 24 * 2,  # there, there again, and gradients there and back
    }
    assert set(bytes_per_layer(LayerShape(4, 6), 1).values()) == {0}  # one process sends nothing


def test_operations_by_hand():
    """D = 2, one sequence of 3 tokens: 48 parameters and 3 keys a token, forward and twice back."""
    assert flops_per_layer(LayerShape(2, 3)) == 3 * 3 * (2 * 48 + 4 * 3 * 2)


def test_when_the_network_is_the_limit():
    shape = LayerShape(4096, 4096, batch_size=8)
    fast = layer_times(shape, 8, flops_per_second=4e14, bytes_per_second=4e11)
    slow = layer_times(shape, 8, flops_per_second=4e14, bytes_per_second=1e9)
    assert not any(times.moving > times.computing for times in fast.values())
    assert all(times.moving > times.computing for times in slow.values())
    assert fast["data"].moving == bytes_per_layer(shape, 8)["data"] / 4e11
    assert fast["data"].computing == flops_per_layer(shape) / 8 / 4e14
    # More tokens hide the gradients of data parallel, and nothing of tensor parallel's sums.
    larger = LayerShape(4096, 4096, batch_size=64)
    many = layer_times(larger, 8, flops_per_second=4e14, bytes_per_second=1e9)
    assert many["data"].moving == slow["data"].moving
    assert many["tensor"].moving == 8 * slow["tensor"].moving


def test_paper_refuses_nonsense():
    with pytest.raises(ValueError, match="num_tokens must be .* got 0"):
        LayerShape(4, 0)
    with pytest.raises(ValueError, match="num_processes must be .* got 1.5"):
        bytes_per_layer(LayerShape(4, 6), 1.5)
    with pytest.raises(ValueError, match="bytes_per_second must be positive, got 0"):
        layer_times(LayerShape(4, 6), 2, flops_per_second=1.0, bytes_per_second=0)
