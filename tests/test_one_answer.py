"""Every attention layer says the same whichever way it is computed: for any lengths, mask, sizes.

A cache token by token and a compiled graph have tests of their own beside the layers.
"""

import random
from functools import partial

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from d2l_attention.attention import additive, fused
from d2l_attention.variants import LinformerAttention
from tests.devices.parts import ATTENTION, SELF_ATTENTION, B, D, H

LAYERS = ATTENTION | SELF_ATTENTION | {"Linformer": lambda: LinformerAttention(D, H, 37, 3, 0.0)}
SCALES = 1e-30, 1e-3, 1.0, 30.0, 1e4  # of queries and keys: up to scores of 1e8
DRAWS = range(12)


def draw(seed, name):
    """Inputs of random sizes, and a random part of what hides keys."""
    chosen = random.Random(seed)
    torch.manual_seed(seed)
    num_keys = chosen.choice([1, 2, 7, 17, 37])
    num_queries = num_keys if name in SELF_ATTENTION else chosen.choice([1, 3, 19])
    scale = chosen.choice(SCALES)
    queries, keys = scale * torch.randn(B, num_queries, D), scale * torch.randn(B, num_keys, D)
    options = {}
    if chosen.random() < 0.6:
        options["valid_lens"] = torch.randint(0, num_keys + 1, (B,))
        padding = torch.arange(num_keys) >= options["valid_lens"][:, None]
        keys[padding] = torch.nan
    if chosen.random() < 0.5 and name not in ("Linformer",):
        options["is_causal"] = True
    if chosen.random() < 0.3 and name not in ("Linformer",):
        options["mask"] = torch.rand(B, num_queries, num_keys) < 0.6
    # Values that are cleared with their keys. In self-attention a padded token is a query as well,
    # which must be finite where it sees a key.
    values = keys.clone()
    return (queries, keys, values), options


def ways(layer, inputs, options, monkeypatch):
    """The output in each way, and weights in two."""
    on_demand = layer(*inputs, **options), layer.attention_weights
    yield "weights on demand", *on_demand
    yield "weights asked for", *layer(*inputs, **options, need_weights=True)
    for use_reentrant in (False, True):
        leaf = inputs[0].clone().requires_grad_()
        again = checkpoint(
            lambda queries: layer(queries, *inputs[1:], **options),
            leaf,
            use_reentrant=use_reentrant,
        )
        yield "checkpoint", again.detach(), None
    with monkeypatch.context() as patch:
        patch.setattr(fused, "MANY_PAIRS_CPU", 0)
        patch.setattr(additive, "CHUNK_CPU", 100)
        yield "two kernels, small chunks", layer(*inputs, **options), None
    more = [torch.stack((X, X.nan_to_num() + 1)) for X in inputs]
    call = torch.vmap(lambda q, k, v: layer(q, k, v, **options), randomness="same")
    yield "vmap", call(*more)[0], None


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's kernel under vmap
@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("name", LAYERS)
def test_all_ways_agree(name, seed, monkeypatch):
    inputs, options = draw(seed, name)
    layer = LAYERS[name]()
    found = [
        (way, output.detach(), None if weights is None else weights.detach())
        for way, output, weights in ways(layer, inputs, options, monkeypatch)
    ]
    _, expected, expected_weights = found[0]
    assert expected.isfinite().all(), options
    for way, output, weights in found[1:]:
        say = partial("{}, {}: {}".format, way, options)
        assert_close(output, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item(), msg=say)
        if weights is not None:
            assert_close(weights, expected_weights, rtol=1e-4, atol=1e-5, msg=say)
