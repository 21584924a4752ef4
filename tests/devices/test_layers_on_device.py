"""Every layer on the device: outputs, weights and gradients are the CPU's."""

import copy
import importlib
import pkgutil

import pytest
import torch
from both import same_on
from parts import (
    APART,
    ATTENTION,
    CACHED,
    LENGTHS,
    MODES,
    OF_ONE_SEQUENCE,
    PLAIN,
    SELF_ATTENTION,
    B,
    D,
    K,
    Q,
    every_part,
)
from torch import nn

from d2l_attention import KeyValueCache
from d2l_attention.attention import additive
from d2l_attention.testing import check_attention


def public_modules():
    """The layers and models of the three rooms, by the names under which they are defined."""
    for room in ("attention", "models", "variants"):
        package = importlib.import_module(f"d2l_attention.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for name, kind in vars(module).items():
                is_layer = isinstance(kind, type) and issubclass(kind, nn.Module)
                if is_layer and kind.__module__ == found.name and not name.startswith("_"):
                    yield kind


def test_every_public_layer_and_model_is_here():
    parts = [
        inner for part in every_part() if isinstance(part, nn.Module) for inner in part.modules()
    ]
    here = {kind for part in parts for kind in type(part).__mro__}
    assert {kind.__name__ for kind in public_modules()} - {kind.__name__ for kind in here} == set()


def attend(layer, queries, keys, values, options):
    return layer(queries, keys, values, **options), layer.attention_weights


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*ATTENTION, *SELF_ATTENTION])
def test_attention(device, name, mode):
    n = Q if name in ATTENTION else K
    layer = (ATTENTION | SELF_ATTENTION)[name]()
    inputs = torch.randn(B, n, D), torch.randn(B, K, D), torch.randn(B, K, D)
    same_on(device, attend, layer, *inputs, MODES[mode](n), reads=False)


# Masks for scores (B, Q, K) that a kernel may not take as they are.
BROADCAST = {
    "one for all": lambda M: M[:1, :1, :1],
    "for each sequence": lambda M: M[:, :1, :1],
    "for each query": lambda M: M[:, :, :1],
    "for each query of all sequences": lambda M: M[0, :, :1],
    "for each key": lambda M: M[:, :1],
    "for each key of all queries": lambda M: M[0, 0],
    "expanded over keys": lambda M: M[:, :, :1].expand(B, Q, K),
    "expanded over queries": lambda M: M[:, :1].expand(B, Q, K),
    "transposed": lambda M: M.transpose(1, 2).contiguous().transpose(1, 2),
    "every other column": lambda M: M.repeat_interleave(2, dim=2)[:, :, ::2],
    "part of a larger one": lambda M: torch.cat((M, M), dim=2)[:, :, 1 : K + 1],
}


@pytest.mark.parametrize("form", BROADCAST)
@pytest.mark.parametrize("name", ["dot product", "heads", "heads, sinks", "grouped"])
def test_masks_that_broadcast(device, name, form):
    def run(layer, queries, keys, values, mask):
        return attend(layer, queries, keys, values, {"mask": BROADCAST[form](mask)})

    inputs = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, D)
    mask = torch.arange(B * Q * K).reshape(B, Q, K) % 3 > 0
    same_on(device, run, ATTENTION[name](), *inputs, mask)


@pytest.mark.parametrize("sizes", [(0, Q, K), (B, 0, K), (B, Q, 0)], ids=["B", "Q", "K"])
@pytest.mark.parametrize("name", ["dot product", "additive", "heads", "grouped", "heads, sinks"])
def test_nothing_to_attend_to(device, name, sizes):
    num_sequences, num_queries, num_keys = sizes
    inputs = [torch.randn(num_sequences, n, D) for n in (num_queries, num_keys, num_keys)]
    same_on(device, attend, ATTENTION[name](), *inputs, {})


@pytest.mark.parametrize("mode", ["plain", "lengths", "weights, lengths"])
def test_linformer(device, mode):
    inputs = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, D)
    same_on(device, attend, APART["Linformer"](), *inputs, MODES[mode](Q))


def test_additive_attention_in_chunks(device, monkeypatch):
    monkeypatch.setattr(additive, "CHUNK_GPU", 100)
    monkeypatch.setattr(additive, "WHOLE_GPU", 100)
    monkeypatch.setattr(additive, "CHUNK_CPU", 100)
    inputs = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, D)
    same_on(device, attend, ATTENTION["additive"](), *inputs, MODES["lengths"](Q))


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", OF_ONE_SEQUENCE)
def test_one_sequence(device, name, padded):
    make, options = OF_ONE_SEQUENCE[name]

    def run(layer, X, lens):
        return layer(X, lens, **options)

    same_on(device, run, make(), torch.randn(B, K, D), LENGTHS if padded else None, reads=False)


@pytest.mark.parametrize("name", PLAIN)
def test_plain(device, name):
    make, shape = PLAIN[name]
    same_on(device, lambda layer, X: layer(X), make(), torch.randn(shape))


def test_add_and_norm(device):
    inputs = torch.randn(B, K, D), torch.randn(B, K, D)
    same_on(device, lambda layer, X, Y: layer(layer.before(X), Y), APART["add and norm"](), *inputs)


def test_decoder_block(device):
    def run(block, X, encoded, lens):
        X, state, weights = block(X, [encoded, lens, [None]], need_weights=True)
        return X, weights, [part.keys for part in state[2][0]]

    inputs = torch.randn(B, Q, D), torch.randn(B, K, D), LENGTHS
    same_on(device, run, APART["decoder block"](), *inputs)


@pytest.mark.parametrize("training", [True, False], ids=["with gradient", "without"])
@pytest.mark.parametrize("name", CACHED)
def test_decoding_behind_a_cache(device, name, training):
    """Some tokens at once, then one by one, with the sentences in another order on the way."""

    def run(layer, X, order):
        cache, outputs = KeyValueCache(), []
        with torch.set_grad_enabled(training):
            for start, end in ((0, 3), (3, 4), (4, 5), (5, K)):
                Y = X[:, start:end]
                outputs.append(layer(Y, Y, Y, is_causal=True, cache=cache))
                if end == 4:
                    cache, X = copy.copy(cache).select(order), X[order]
        return outputs, cache.keys, cache.values

    same_on(device, run, CACHED[name](), torch.randn(B, K, D), torch.tensor([2, 0, 0]))


def test_latent_decoding_behind_a_cache(device):
    def run(layer, X):
        cache = KeyValueCache()
        steps = [X[:, :3], X[:, 3:4], X[:, 4:]]
        return [layer(Y, is_causal=True, cache=cache, absorbed=True) for Y in steps]

    same_on(device, run, OF_ONE_SEQUENCE["latent"][0](), torch.randn(B, K, D))


def test_cross_attention_behind_a_cache(device):
    def run(layer, queries, memory, lens):
        cache = KeyValueCache()
        first = layer(queries[:, :2], memory, memory, lens, cache=cache)
        return first, layer(queries[:, 2:], None, None, lens, cache=cache)

    same_on(device, run, CACHED["heads"](), torch.randn(B, Q, D), torch.randn(B, K, D), LENGTHS)


def test_a_state_goes_on(device):
    def run(layer, X):
        first, state = layer(X[:, :3], need_state=True)
        return first, layer(X[:, 3:], state=state, need_state=True)

    same_on(device, run, OF_ONE_SEQUENCE["delta rule"][0](), torch.randn(B, K, D))


@pytest.mark.parametrize("name", ["additive", "heads"])
def test_check_attention_says_the_same_there(device, name):
    X, layer = torch.randn(2, K, D), (ATTENTION | SELF_ATTENTION)[name]()
    layer(X, X, X)  # now the weights are there, to be the same on both
    there = copy.deepcopy(layer).to(device)
    assert str(check_attention(there)) == str(check_attention(layer))
