import pytest
import torch

from d2l_attention import KeyValueCache
from d2l_attention.scale.cache_size import PUBLISHED, cache_bytes
from d2l_attention.variants import GroupedQueryAttention

MIB, GIB = 2**20, 2**30


def test_published_models_by_hand():
    """At 4,096 tokens: 2 * layers * groups * size * 4096 * 2 bytes."""
    sizes = {shape.name: shape.bytes(4096) for shape in PUBLISHED}
    assert sizes == {
        "Llama 2 7B": 2 * GIB,
        "Llama 2 70B": 1.25 * GIB,
        "Mistral 7B": 0.5 * GIB,
        "Falcon 40B": 480 * MIB,
        "Llama 3.1 8B": 0.5 * GIB,
    }


def test_published_shapes_agree_with_the_width_of_their_models():
    widths = {shape.name: shape.num_heads * shape.head_size for shape in PUBLISHED}
    assert widths == {
        "Llama 2 7B": 4096,
        "Llama 2 70B": 8192,
        "Mistral 7B": 4096,
        "Falcon 40B": 8192,
        "Llama 3.1 8B": 4096,
    }
    assert all(shape.num_heads % shape.num_kv_heads == 0 and shape.source for shape in PUBLISHED)


def test_a_window_is_where_the_cache_stops_to_grow():
    mistral = next(shape for shape in PUBLISHED if shape.window)
    assert mistral.bytes(1000) < mistral.bytes(4096) == mistral.bytes(32_768)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_cache_really_holds(dtype):
    layer, cache = GroupedQueryAttention(30, 6, 2, 0.0).to(dtype), KeyValueCache()
    X = torch.randn(1, 7, 30, dtype=dtype)
    layer(X, X, X, is_causal=True, cache=cache)
    held = sum(rows.numel() * rows.element_size() for rows in (cache.keys, cache.values))
    assert held == cache_bytes(1, 2, 5, 7, bytes_per_number=dtype.itemsize)


def test_errors():
    right = dict(
        num_layers=1, num_kv_heads=2, head_size=3, num_tokens=4, bytes_per_number=2, window=5
    )
    assert cache_bytes(**(right | {"num_tokens": 0})) == 0
    for name in right:
        with pytest.raises(ValueError, match=f"{name} must be a whole number from . on, got -1"):
            cache_bytes(**(right | {name: -1}))
