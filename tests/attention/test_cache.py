import copy

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    ALiBi,
    KeyValueCache,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
    causal_mask,
)

B, H, N, S, D = 2, 3, 11, 7, 5
HIDDEN = 12
POSITIONS = {
    "none": lambda: None,
    "sinusoidal": lambda: PositionalEncoding(HIDDEN, 0.0),
    "learned": lambda: LearnedPositionalEncoding(HIDDEN, 0.0),
    "rotary": lambda: RotaryEncoding(HIDDEN // H),
    "alibi": lambda: ALiBi(H),
}
CHUNKS = {"one by one": [1] * N, "prompt, then steps": [7, 1, 1, 1, 1], "chunks": [3, 5, 2, 1]}


@pytest.fixture(params=[True, False], ids=["gradients", "no gradients"], autouse=True)
def gradients(request):
    """The cache grows in two ways: where there may be a way back it changes nothing in place."""
    with torch.set_grad_enabled(request.param):
        yield


def heads(n, batch=B):
    return torch.randn(batch, H, n, 4), torch.randn(batch, H, n, 4)


@pytest.fixture(params=POSITIONS)
def model(request):
    """Self-attention that also adds the positions of the embeddings, as a Transformer does."""
    layer = MultiHeadAttention(HIDDEN, H, 0.0, positions=POSITIONS[request.param]())
    layer.positions.dropout = torch.nn.Dropout(0.0)

    def attend(X, cache=None, **options):
        X = layer.positions(X, offset=0 if cache is None else len(cache))
        return layer(X, X, X, cache=cache, **options)

    attend.layer = layer
    return attend


class TestCache:
    def test_it_grows_by_what_is_appended(self):
        cache = KeyValueCache()
        assert len(cache) == 0
        assert cache.keys is cache.values is None
        pieces = [heads(n) for n in (3, 1, 1, 0, 7, 1)]
        for i in range(len(pieces)):
            keys, values = cache.append(*pieces[i])
            for result, own, j in ((keys, cache.keys, 0), (values, cache.values, 1)):
                expected = torch.cat([piece[j] for piece in pieces[: i + 1]], dim=2)
                assert torch.equal(result, expected)
                assert torch.equal(own, expected)
            assert len(cache) == expected.shape[2]

    def test_what_was_returned_stays_as_it_was(self):
        cache = KeyValueCache()
        results = [cache.append(*heads(n)) for n in (2, 1, 1, 1, 5)]
        copies = [[x.clone() for x in pair] for pair in results]
        cache.append(*heads(1))
        for result, then in zip(results, copies, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(result, then, strict=True))

    def test_a_copy_goes_its_own_way(self):
        one = KeyValueCache()
        one.append(*heads(3))
        one.append(*heads(1))
        other = copy.copy(one)
        start, ones, others = one.keys.clone(), heads(1), heads(2)
        one.append(*ones)
        other.append(*others)
        one.append(*ones)
        assert torch.equal(one.keys, torch.cat((start, ones[0], ones[0]), dim=2))
        assert torch.equal(other.keys, torch.cat((start, others[0]), dim=2))
        assert (len(one), len(other)) == (6, 6)

    @pytest.mark.parametrize("then", [torch.no_grad, torch.enable_grad, torch.inference_mode])
    @pytest.mark.parametrize("first", [torch.no_grad, torch.enable_grad, torch.inference_mode])
    def test_it_goes_on_in_another_mode_than_it_began_in(self, first, then):
        cache, (keys, values) = KeyValueCache(), heads(N)
        for mode, start, end in ((first, 0, 3), (first, 3, 4), (then, 4, 5), (then, 5, N)):
            with mode():
                cache.append(keys[:, :, start:end], values[:, :, start:end])
        assert torch.equal(cache.keys, keys) and torch.equal(cache.values, values)

    def test_select_picks_and_repeats_sentences(self):
        cache = KeyValueCache()
        cache.append(*heads(3))
        cache.append(*heads(2))
        chosen = cache.select(torch.tensor([1, 1, 0]))
        assert len(chosen) == 5
        assert torch.equal(chosen.keys, cache.keys[[1, 1, 0]])
        assert torch.equal(chosen.values, cache.values[[1, 1, 0]])
        before = cache.keys.clone()
        chosen.append(*heads(1, batch=3))
        assert torch.equal(cache.keys, before)
        assert len(cache) == 5
        assert len(KeyValueCache().select(torch.tensor([0]))) == 0

    def test_errors(self):
        cache = KeyValueCache()
        keys, values = heads(3)
        for name, pair in (("keys", (keys[0], values)), ("values", (keys, values[0]))):
            with pytest.raises(ValueError, match=rf"{name} must have shape \(B, H, new, D / H\)"):
                cache.append(*pair)
        with pytest.raises(ValueError, match=r"in pairs, got keys \(2, 3, 3, 4\) and values \(2"):
            cache.append(keys, values[:, :, 1:])
        assert len(cache) == 0
        cache.append(keys, values)
        for wrong in (keys[:1], keys[:, 1:], keys[..., 1:], keys.double()):
            with pytest.raises(ValueError, match=r"the cache holds keys \(2, 3, 3, 4\) in"):
                cache.append(wrong, values)
            with pytest.raises(ValueError, match=r"the cache holds values \(2, 3, 3, 4\) in"):
                cache.append(keys, wrong)
        assert len(cache) == 3


class TestSelfAttention:
    @pytest.mark.parametrize("sizes", CHUNKS.values(), ids=CHUNKS)
    def test_a_cache_changes_nothing(self, model, sizes):
        X = torch.randn(B, N, HIDDEN)
        expected, weights = model(X, is_causal=True, need_weights=True)
        cache, start = KeyValueCache(), 0
        for X_new in X.split(sizes, dim=1):
            rows = slice(start, start := start + X_new.shape[1])
            output = model(X_new, cache, is_causal=True)
            assert_close(output, expected[:, rows], atol=1e-6, rtol=1e-6)
            on_demand = model.layer.attention_weights
            assert_close(on_demand, weights[:, :, rows, :start], atol=1e-6, rtol=1e-6)
        assert len(cache) == N

    def test_without_causality_the_new_see_all_the_new(self, model):
        """Two chunks; the second chunk's queries see every key, as without a cache."""
        X, cache = torch.randn(B, N, HIDDEN), KeyValueCache()
        model(X[:, :4], cache)
        expected = model(X)
        assert_close(model(X[:, 4:], cache), expected[:, 4:], atol=1e-6, rtol=1e-6)

    def test_lengths_and_masks_count_all_that_is_in_the_cache(self, model):
        X, lens, mask = torch.randn(B, N, HIDDEN), torch.tensor([9, 0]), torch.rand(B, N, N) < 0.5
        for all_of_it, of_the_new in (
            (dict(valid_lens=lens), dict(valid_lens=lens)),
            (dict(mask=mask), dict(mask=mask[:, 6:])),
            (dict(mask=mask[0]), dict(mask=mask[0, 6:])),
            (dict(mask=mask[0, 0]), dict(mask=mask[0, 0])),
        ):
            for is_causal in (False, True):
                cache = KeyValueCache()
                model(X[:, :6], cache)
                expected, weights = model(X, is_causal=is_causal, need_weights=True, **all_of_it)
                output = model(X[:, 6:], cache, is_causal=is_causal, **of_the_new)
                assert_close(output, expected[:, 6:], atol=1e-6, rtol=1e-6)
                assert_close(model.layer.attention_weights, weights[:, :, 6:])

    def test_what_is_hidden_now_may_be_seen_later(self):
        """A cache keeps every key, also those that no query of this call may see."""
        layer, X, cache = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, N, HIDDEN), None
        expected = layer(X, X, X)
        cache = KeyValueCache()
        layer(X[:, :4], X[:, :4], X[:, :4], torch.tensor([2, 0]), cache=cache)
        layer(X[:, 4:8], X[:, 4:8], X[:, 4:8], mask=causal_mask(1, 8).expand(4, 8), cache=cache)
        output = layer(X[:, 8:], X[:, 8:], X[:, 8:], cache=cache)
        assert_close(output, expected[:, 8:], atol=1e-6, rtol=1e-6)

    def test_not_a_number_in_a_hidden_key_stays_there(self):
        layer, X, cache = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, N, HIDDEN), None
        lens = torch.tensor([4, 0])
        results = []
        for garbage in (0.0, torch.nan):
            keys, cache = X.clone(), KeyValueCache()
            keys[0, 4:8] = keys[1, :8] = garbage
            layer(X[:, :1], keys[:, :8], keys[:, :8], lens, cache=cache)
            results.append(layer(X[:, 8:9], X[:, 8:9], X[:, 8:9], lens, cache=cache))
        assert torch.equal(*results)
        assert (results[0][1] == 0).all()

    def test_selected_sentences_go_on_as_themselves(self, model):
        X, cache, index = torch.randn(B, N, HIDDEN), KeyValueCache(), torch.tensor([1, 0, 1])
        expected = model(X[index], is_causal=True)
        model(X[:, :4], cache, is_causal=True)
        model(X[:, 4:6], cache, is_causal=True)
        output = model(X[index, 6:], cache.select(index), is_causal=True)
        assert_close(output, expected[:, 6:], atol=1e-6, rtol=1e-6)

    def test_additive_attention_inside(self):
        attention = AdditiveAttention(HIDDEN // H, 0.0)
        layer = MultiHeadAttention(HIDDEN, H, 0.0, attention=attention, positions=ALiBi(H))
        X, cache = torch.randn(B, N, HIDDEN), KeyValueCache()
        expected = layer(X, X, X, is_causal=True)
        parts = [layer(x, x, x, is_causal=True, cache=cache) for x in X.split([4, 1, 6], dim=1)]
        assert_close(torch.cat(parts, dim=1), expected, atol=1e-6, rtol=1e-6)


class TestCrossAttention:
    @pytest.mark.parametrize("lens", [None, [4, 0]], ids=["", "padded"])
    def test_the_source_is_projected_once(self, lens):
        layer, source = MultiHeadAttention(HIDDEN, H, 0.0, bias=True), torch.randn(B, S, D)
        queries, cache = torch.randn(B, N, HIDDEN), KeyValueCache()
        lens = None if lens is None else torch.tensor(lens)
        expected, weights = layer(queries, source, source, lens, need_weights=True)
        first = layer(queries[:, :2], source, source, lens, cache=cache)
        projected = []
        hooks = [
            part.register_forward_hook(lambda *_: projected.append(1))
            for part in (layer.W_k, layer.W_v)
        ]
        rest = layer(queries[:, 2:], None, None, lens, cache=cache)
        assert_close(layer.attention_weights, weights[:, :, 2:])
        for hook in hooks:
            hook.remove()
        assert not projected
        assert len(cache) == S
        assert_close(torch.cat((first, rest), dim=1), expected, atol=1e-6, rtol=1e-6)

    def test_errors(self):
        layer, source = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, S, D)
        queries, cache = torch.randn(B, N, HIDDEN), KeyValueCache()
        with pytest.raises(TypeError, match="keys must be a tensor of floats, got NoneType"):
            layer(queries, None, None)
        with pytest.raises(ValueError, match="the cache is empty: give it keys and values once"):
            layer(queries, None, None, cache=cache)
        layer(queries, source, source, cache=cache)
        bad = [
            (ValueError, "values must be None as the keys are, got Tensor", source, {}),
            (ValueError, "without new keys this is cross-attention", None, {"is_causal": True}),
            (ValueError, "number of keys, 7", None, {"valid_lens": torch.tensor([8, 1])}),
            (ValueError, "does not fit scores", None, {"mask": torch.ones(N, N) > 0}),
        ]
        for error, message, values, options in bad:
            with pytest.raises(error, match=message):
                layer(queries, None, values, cache=cache, **options)
        with pytest.raises(TypeError, match="values must be a tensor of floats, got NoneType"):
            layer(queries, source, None, cache=cache)
        with pytest.raises(TypeError, match="queries must be a tensor of floats, got torch.int64"):
            layer(queries.long(), None, None, cache=cache)
        with pytest.raises(ValueError, match="the cache holds 2 sequences, got queries"):
            layer(queries[:1], None, None, cache=cache)
        assert len(cache) == S

    @pytest.mark.parametrize("positions", [PositionalEncoding(HIDDEN, 0.0), ALiBi(H)])
    def test_positions_are_for_self_attention(self, positions):
        layer, X = MultiHeadAttention(HIDDEN, H, 0.0, positions=positions), torch.randn(B, S, 12)
        cache = KeyValueCache()
        layer(X, X, X, cache=cache)
        with pytest.raises(ValueError, match="without new keys this is cross-attention"):
            layer(X, None, None, cache=cache)


def test_no_tokens_at_first():
    layer, X = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, 4, HIDDEN)
    layer(X, X, X)
    cache = KeyValueCache()
    nothing = X[:, :0]
    assert layer(nothing, nothing, nothing, is_causal=True, cache=cache).shape == (B, 0, HIDDEN)
    assert_close(layer(X, X, X, is_causal=True, cache=cache), layer(X, X, X, is_causal=True))
    with pytest.raises(ValueError, match="the cache is empty"):
        KeyValueCache().pairs()


def test_the_rows_are_its_own(gradients):
    keys, values = torch.randn(2, B, H, N, D)
    kept, cache = keys.clone(), KeyValueCache()
    cache.append(keys, values)
    if not torch.is_grad_enabled():  # with gradients nobody may change them
        keys.zero_()
    assert torch.equal(cache.keys, kept)


def test_a_call_that_fails_leaves_the_cache_as_it_was():
    layer, X, cache = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, 4, HIDDEN), KeyValueCache()
    layer(X, X, X, cache=cache)
    before = cache.keys.clone()
    for message, inputs, positions, options in (
        ("number of keys, 8", X, None, {"valid_lens": torch.tensor([9, 1])}),
        ("mask .* does not fit scores", X, None, {"mask": torch.ones(4, 4) > 0}),
        ("mask .* fit", X, None, {"mask": torch.ones(3, 8) > 0, "is_causal": True}),
        ("bias .* does not fit scores", X, ALiBi(H + 1), {}),
        ("the cache holds keys", X[:1], None, {}),
    ):
        layer.positions = positions or Positions()
        with pytest.raises(ValueError, match=message):
            layer(inputs, inputs, inputs, cache=cache, **options)
        assert torch.equal(cache.keys, before)


@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen keys"])
def test_gradients_are_those_without_a_cache(frozen):
    layer, X, grads = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(B, N, HIDDEN), []
    layer(X, X, X)
    layer.W_k.requires_grad_(not frozen)
    for sizes in ([N], [4, 1, 1, 5]):
        cache = KeyValueCache()
        layer.zero_grad()
        with torch.enable_grad():
            parts = [layer(x, x, x, is_causal=True, cache=cache) for x in X.split(sizes, dim=1)]
            torch.cat(parts, dim=1).square().sum().backward()
        grads.append([p.grad.clone() for p in layer.parameters() if p.requires_grad])
    assert_close(*grads)


def test_one_query_before_several_new_keys_sees_itself_at_most():
    layer, X = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(2, 5, HIDDEN)
    cache = KeyValueCache()
    with torch.no_grad():
        layer(X[:, :2], X[:, :2], X[:, :2], cache=cache)
        layer(X[:, 2:3], X[:, 2:], X[:, 2:], is_causal=True, cache=cache)
    weights = layer.attention_weights
    assert weights.shape == (2, H, 1, 5)
    assert (weights[..., :3] > 0).all() and (weights[..., 3:] == 0).all()


def test_nan_in_a_query_that_sees_nothing_spoils_no_gradient():
    layer, X = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(2, 5, HIDDEN)
    cache = KeyValueCache()
    with torch.no_grad():
        layer(X, X, X, cache=cache)
    queries, lens = X.clone(), torch.full((2, 5), 5)
    queries[0, 1], lens[0, 1] = torch.nan, 0
    with torch.enable_grad():
        layer(queries, None, None, lens, cache=cache).sum().backward()
    assert layer.W_q.weight.grad.isfinite().all()
