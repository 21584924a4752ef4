import pytest
import torch

from d2l_attention import KeyValueCache
from d2l_attention.scale.cache_size import PUBLISHED, RECENT, cache_bytes
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
    widths = [shape.num_heads * shape.head_size for shape in PUBLISHED]
    assert widths == [4096, 8192, 4096, 8192, 4096]
    assert all(shape.num_heads % shape.num_kv_heads == 0 and shape.source for shape in PUBLISHED)


def test_a_window_is_where_the_cache_stops_to_grow():
    mistral = next(shape for shape in PUBLISHED if shape.window)
    assert mistral.bytes(1000) < mistral.bytes(4096) == mistral.bytes(32_768)


def test_recent_models_by_hand():
    """Bytes a token beyond every window: numbers a layer, times global layers, times 2."""
    growth = {shape.name: shape.bytes(40_001) - shape.bytes(40_000) for shape in RECENT}
    assert growth == {
        "Llama 3.1 70B": 80 * 2 * 8 * 128 * 2,
        "DeepSeek-V2": 60 * 576 * 2,
        "DeepSeek-V3": 61 * 576 * 2,
        "Gemma 3 27B": 10 * 2 * 16 * 128 * 2,
        "gpt-oss-20b": 12 * 2 * 8 * 64 * 2,
    }
    windows = {shape.name: shape.bytes(40_000) - 40_000 * growth[shape.name] for shape in RECENT}
    assert windows["Gemma 3 27B"] == 52 * 2 * 16 * 128 * 2 * 1024
    assert windows["gpt-oss-20b"] == 12 * 2 * 8 * 64 * 2 * 128
    assert windows["DeepSeek-V2"] == windows["Llama 3.1 70B"] == 0


def test_deepseeks_figure():
    """Their table 1: the latent is as small as grouped queries with 2.25 groups."""
    v2 = next(shape for shape in RECENT if shape.name == "DeepSeek-V2")
    assert v2.bytes(100) == cache_bytes(60, 1, 128, 100) * 2.25


def test_before_a_window_is_full_a_mixed_model_grows_like_any_other():
    gemma = next(shape for shape in RECENT if shape.num_global == 10)
    assert gemma.bytes(1000) == cache_bytes(62, 16, 128, 1000)


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
