"""What is left on the CPU by mistake makes these tests fail: shown with a mistake of each kind."""

from functools import partial

import pytest
import torch
from both import same_on
from parts import LENGTHS, B, D, K, heads

from d2l_attention import KeyValueCache, PositionalEncoding
from d2l_attention.attention import cache, masks


def refused():
    return pytest.raises(RuntimeError, match="on the same device|but got|different device")


def attend(layer, X, lens=None, **options):
    return layer(X, X, X, lens, **options)


def tokens():
    return torch.randn(B, K, D)


def test_a_causal_mask(device, monkeypatch):
    whole = masks.Visible.hidden_and_future
    monkeypatch.setattr(
        masks.Visible, "hidden_and_future", lambda self, shape, device: whole(self, shape)
    )
    with refused():
        same_on(device, partial(attend, is_causal=True, need_weights=True), heads(), tokens())


def test_a_mask_of_lengths(device, monkeypatch):
    whole = masks.Visible._by_length
    monkeypatch.setattr(
        masks.Visible, "_by_length", lambda *given: whole(*given[:-1], None)
    )  # the last one is the device
    with refused():
        same_on(device, attend, heads(), tokens(), LENGTHS)


def test_lengths(device):
    with refused():
        same_on(device, lambda layer, X: attend(layer, X, LENGTHS), heads(), tokens())


def test_a_table_of_positions(device):
    layer = PositionalEncoding(D, 0.0, max_len=K)
    vars(layer)["P"] = layer._buffers.pop("P")  # an attribute does not move with its layer
    with refused():
        same_on(device, lambda layer, X: layer(X), layer, tokens())


def test_the_rows_of_a_cache(device, monkeypatch):
    monkeypatch.setattr(
        cache, "_empty_like", lambda rows, size: torch.empty(*rows.shape[:2], size, rows.shape[3])
    )

    def run(layer, X):
        so_far = KeyValueCache()
        with torch.no_grad():
            return [layer(Y, Y, Y, cache=so_far) for Y in X.split(1, dim=1)]

    with refused():
        same_on(device, run, heads(), tokens())
