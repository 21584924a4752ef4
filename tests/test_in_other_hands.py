"""What people do with layers in models of their own: other makers, wrappers, tools of PyTorch."""

import copy
import inspect
import pickle
import sys

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from d2l_attention import (
    AdditiveAttention,
    ALiBi,
    DotProductAttention,
    KeyValueCache,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEncoding,
    causal_mask,
    dot_product_attention,
    masked_softmax,
)
from d2l_attention.variants import (
    BigBirdAttention,
    ChosenBlocksAttention,
    GatedDeltaNet,
    GlobalLocalAttention,
    HyenaOperator,
    MultiHeadLatentAttention,
    SinkAttention,
    SlidingWindowAttention,
    WindowAttention,
)
from d2l_attention.variants.masks import sliding_window_mask
from tests.devices.parts import ATTENTION, OF_ONE_SEQUENCE, PLAIN, B, D, H, K

HUGE = [10**6, sys.maxsize, 2**63, 10**30]


class TestBuiltOnMeta:
    COMPUTED = {
        "sinusoidal": (lambda: PositionalEncoding(D, 0.0, max_len=11), torch.zeros(B, K, D)),
        "ALiBi": (lambda: MultiHeadAttention(D, H, 0.0, positions=ALiBi(H)), torch.randn(B, K, D)),
        "Hyena": (lambda: HyenaOperator(D, 11), torch.randn(B, K, D)),
        "Swin": (lambda: WindowAttention(D, H, 3, shift=1), torch.randn(B, 4, 7, D)),
    }

    @staticmethod
    def call(module, X):
        return module(X, X, X) if isinstance(module, MultiHeadAttention) else module(X)

    @pytest.mark.parametrize("assign", [False, True])
    @pytest.mark.parametrize("name", COMPUTED)
    def test_loaded_weights_bring_the_computed_numbers(self, name, assign):
        make, X = self.COMPUTED[name]
        right = make()
        expected = self.call(right, X)
        with torch.device("meta"):
            built = make()
            self.call(built, X.to("meta"))  # lazy layers learn their sizes
        assert all(numbers.is_meta for numbers in built.buffers())
        if not assign:
            built.to_empty(device="cpu")
            for buffer in built.buffers():
                buffer.fill_(7)  # whatever was in memory
        built.load_state_dict(right.state_dict(), assign=assign)
        assert_close(self.call(built, X), expected, rtol=0, atol=0)

    def test_device_dtype_copies_and_pickles_stay(self):
        built = PositionalEncoding(D, 0.0, max_len=11).to(torch.bfloat16)
        for twin in (built, copy.deepcopy(built), pickle.loads(pickle.dumps(built))):
            twin.P.fill_(7)
            twin.load_state_dict({})
            assert torch.equal(twin.P, PositionalEncoding(D, 0.0, max_len=11).P.bfloat16())
        assert "P" not in built.state_dict()


@pytest.mark.parametrize("name", [*ATTENTION, "latent", "delta rule", "encoder block", "network"])
def test_a_first_call_for_inference_leaves_all_trainable(name):
    if name in ATTENTION:
        layer = ATTENTION[name]()
    else:
        layer = (OF_ONE_SEQUENCE | PLAIN)[name][0]()
    X = torch.randn(B, K, D, requires_grad=True)
    inputs = (X, X, X) if name in ATTENTION else (X,)
    with torch.inference_mode():
        layer(*inputs)
    layer(*inputs).square().sum().backward()
    assert [name for name, p in layer.named_parameters() if p.grad is None] == []


class Adapted(nn.Module):
    """A linear layer and a low-rank addition, as LoRA has it, without the layer's attributes."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, 2, bias=False)
        self.up = nn.Linear(2, linear.out_features, bias=False)

    def forward(self, X):
        return self.linear(X) + self.up(self.down(X))

    def merged(self):
        weight = self.linear.weight + self.up.weight @ self.down.weight
        plain = nn.Linear(*weight.mT.shape, bias=False)
        plain.weight = nn.Parameter(weight.detach())
        return plain


class TestWrappedProjections:
    def check(self, layer, name, call):
        expected = copy.deepcopy(layer)
        setattr(layer, name, Adapted(getattr(layer, name)))
        setattr(expected, name, getattr(layer, name).merged())
        assert_close(call(layer), call(expected), rtol=1e-5, atol=1e-5)
        call(layer).square().sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in getattr(layer, name).parameters())

    @pytest.mark.parametrize("size", [3, 90], ids=["plain", "chunks"])
    def test_the_weight_of_the_additive_score(self, size):
        layer, X = AdditiveAttention(37, 0.0), torch.randn(2, size, 5)
        layer(X, X, X)
        self.check(layer, "w_v", lambda layer: layer(X, X, X))

    @pytest.mark.parametrize("absorbed", [False, True], ids=["explicit", "absorbed"])
    @pytest.mark.parametrize("name", ["W_uk", "W_uv"])
    def test_what_makes_keys_and_values_of_latents(self, name, absorbed):
        layer, X = MultiHeadLatentAttention(12, 3, 4, 5, 2), torch.randn(2, 7, 12)
        layer(X)
        self.check(layer, name, lambda layer: layer(X, absorbed=absorbed))

    def test_hooks_are_called(self):
        layer, X = AdditiveAttention(5, 0.0), torch.randn(2, 3, 5)
        layer(X, X, X)
        layer.w_v.register_forward_hook(lambda module, inputs, output: 0 * output)
        _, weights = layer(X, X, X, need_weights=True)
        assert_close(weights, torch.full((2, 3, 3), 1 / 3))

    @pytest.mark.parametrize("name", ["additive", "absorbed", "delta rule"])
    def test_weights_that_come_when_a_layer_is_called(self, name):
        layer = {
            "additive": AdditiveAttention(5, 0.0),
            "absorbed": MultiHeadLatentAttention(12, 3, 4, 5, 2),
            "delta rule": GatedDeltaNet(12, 3),
        }[name]
        X = torch.randn(2, 3, 12)
        inputs = (X, X, X) if name == "additive" else (X,)
        options = {"absorbed": True} if name == "absorbed" else {}
        with torch.no_grad():
            expected = layer(*inputs, **options)
            assert_close(cpu_offload(layer, "cpu")(*inputs, **options), expected)

    def test_another_forward(self):
        layer, X = AdditiveAttention(5, 0.0), torch.randn(2, 3, 5)
        layer(X, X, X)
        layer.w_v.forward = lambda X: X.new_zeros(*X.shape[:-1], 1)
        assert_close(layer(X, X, X, need_weights=True)[1], torch.full((2, 3, 3), 1 / 3))

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
    @pytest.mark.parametrize("make", [lambda: AdditiveAttention(8, 0.0), lambda: None])
    def test_quantised(self, make):
        if not torch.backends.quantized.supported_engines[1:]:
            pytest.skip("no engine for quantised products here")
        layer, X = make() or MultiHeadLatentAttention(8, 2, 4, 5, 2), torch.randn(2, 7, 8)
        inputs = (X,) * (3 if make() else 1)
        expected = layer(*inputs)
        small = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
        assert_close(small(*inputs), expected, rtol=0.1, atol=0.1)


class TestWeightsThatAreNotThereYet:
    LAYERS = {
        "dot": lambda: DotProductAttention(0.0),
        "heads": lambda: MultiHeadAttention(D, H, 0.0),
        "sinks": lambda: SinkAttention(H, 0.0),
        "latent": lambda: MultiHeadLatentAttention(D, H, 4, 5, 2),
    }

    @pytest.mark.parametrize("name", LAYERS)
    def test_has_none_then_one_then_lets_go(self, name):
        layer = self.LAYERS[name]()
        assert not hasattr(layer, "attention_weights")
        assert dict(inspect.getmembers(layer))  # reads all there is
        shape = (B, H, K, D) if name == "sinks" else (B, K, D)
        X = torch.randn(shape)
        layer(X) if name == "latent" else layer(X, X, X)
        assert layer.attention_weights.shape[-2:] == (K, K)
        del layer.attention_weights
        assert not any(hasattr(part, "attention_weights") for part in layer.modules())

    def test_two_layers_that_share_an_attention_keep_their_own(self):
        shared, X = DotProductAttention(0.0), torch.randn(B, K, D)
        first, second = (MultiHeadAttention(D, H, 0.0, attention=shared) for _ in range(2))
        _, expected = first(X, X, X, need_weights=True)
        first(X, X, X)
        second(X, X, X)
        assert_close(first.attention_weights, expected)
        assert not torch.equal(second.attention_weights, expected)


class TestACacheAndCheckpoint:
    @pytest.mark.parametrize("use_reentrant", [True, False])
    def test_one_that_would_grow_twice_is_refused(self, use_reentrant):
        layer, cache = MultiHeadAttention(D, H, 0.0), KeyValueCache()
        X = torch.randn(B, K, D, requires_grad=True)

        def call(X):
            return layer(X, X, X, is_causal=True, cache=cache)

        output = checkpoint(call, X, use_reentrant=use_reentrant)
        with pytest.raises(RuntimeError, match="cache, or a copy of it, inside the function"):
            output.sum().backward()
        assert len(cache) == K

    @pytest.mark.parametrize("use_reentrant", [True, False])
    def test_a_copy_inside_is_right(self, use_reentrant):
        layer, past = MultiHeadAttention(D, H, 0.0), KeyValueCache()
        with torch.no_grad():
            before = torch.randn(B, 2, D)
            layer(before, before, before, cache=past)
        X = torch.randn(B, K, D, requires_grad=True)

        def call(X):
            return layer(X, X, X, is_causal=True, cache=copy.copy(past))

        (expected,) = torch.autograd.grad(call(X).square().sum(), X)
        output = checkpoint(call, X, use_reentrant=use_reentrant)
        (got,) = torch.autograd.grad(output.square().sum(), X) if not use_reentrant else (None,)
        if use_reentrant:  # PyTorch: only with .backward()
            output.square().sum().backward()
            got = X.grad
        assert_close(got, expected)
        assert len(past) == 2


class TestGraphs:
    class WithLengths(nn.Module):
        def __init__(self, layer, **options):
            super().__init__()
            self.layer, self.options = layer, options

        def forward(self, X, lens):
            return self.layer(X, X, X, lens, **self.options)

    @pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"need_weights": True}], ids=str)
    def test_exported_for_any_batch_and_length(self, options):
        layer = MultiHeadAttention(D, H, 0.0)
        X = torch.randn(2, 5, D)
        layer(X, X, X)
        batch, n = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("n", min=2, max=4096)
        module = self.WithLengths(layer.eval(), **options)
        program = torch.export.export(
            module, (X, torch.tensor([5, 3])), dynamic_shapes=({0: batch, 1: n}, {0: batch})
        )
        for size in (7, 301):  # the second is where a call outside takes two kernels
            X, lens = torch.randn(3, size, D), torch.tensor([size, 2, 0])
            assert_close(program.module()(X, lens), module(X, lens), rtol=1e-4, atol=1e-5)

    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
    @pytest.mark.filterwarnings("ignore:.*torch.jit.trace:FutureWarning")  # of torch 2.14
    @pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
    def test_traced_with_other_lengths(self):
        layer = MultiHeadAttention(D, H, 0.0)
        X = torch.randn(3, 5, D)
        layer(X, X, X)
        module = self.WithLengths(layer)
        traced = torch.jit.trace(module, (X, torch.tensor([5, 5, 5])))
        lens = torch.tensor([1, 0, 4])
        assert_close(traced(X, lens), module(X, lens))

    @pytest.mark.filterwarnings("ignore:There is a performance drop")
    @pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"need_weights": True}], ids=str)
    def test_lengths_of_their_own_under_vmap(self, options):
        X, lens = torch.randn(4, 2, 7, 5), torch.randint(0, 8, (4, 2))

        def call(X, lens):
            return dot_product_attention(X, X, X, lens, **options)

        got = torch.vmap(call)(X, lens)
        each = [call(*pair) for pair in zip(X, lens, strict=True)]
        if options.get("need_weights"):
            got, each = got[0], [output for output, _ in each]
        assert_close(got, torch.stack(each))


class TestHugeNumbers:
    @pytest.mark.parametrize("huge", HUGE)
    @pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["all", "causal"])
    def test_a_window_beyond_the_text_is_the_text(self, huge, options):
        X, lens = torch.randn(2, 7, 6), torch.tensor([5, 7])
        expected = dot_product_attention(X, X, X, lens, **options)
        for layer in (
            SlidingWindowAttention(huge, 0.0),
            GlobalLocalAttention(huge, 2, 0.0),
            GlobalLocalAttention(1, huge, 0.0),
            BigBirdAttention(huge, 0, 0, 0, 0.0, seed=0),
            BigBirdAttention(2, huge, 0, 0, 0.0, seed=0),
            BigBirdAttention(2, 0, huge, 0, 0.0, seed=0),
            BigBirdAttention(2, 0, 0, huge, 0.0, seed=0),
            ChosenBlocksAttention(huge, 0, 0.0),
            ChosenBlocksAttention(2, huge, 0.0),
        ):
            assert_close(layer(X, X, X, lens, **options), expected)
            assert_close(layer(X, X, X, lens, **options, need_weights=True)[0], expected)

    @pytest.mark.parametrize("huge", HUGE)
    def test_gaps_beyond_the_text_leave_the_token_itself(self, huge):
        X = torch.randn(2, 7, 6)
        layer = SlidingWindowAttention(3, 0.0, dilation=huge)
        assert_close(layer(X, X, X), X)
        assert_close(layer(X, X, X, need_weights=True)[0], X)
        assert sliding_window_mask(3, window=2, dilation=huge).equal(torch.eye(3).bool())

    @pytest.mark.parametrize("window", [10**6, sys.maxsize])
    def test_memory_follows_the_text(self, window, monkeypatch):
        made = []
        real = torch.nn.functional.pad
        monkeypatch.setattr(
            torch.nn.functional, "pad", lambda *a, **k: made.append(real(*a, **k)) or made[-1]
        )
        X = torch.randn(1, 3, 6)
        SlidingWindowAttention(window, 0.0)(X, X, X)
        SlidingWindowAttention(1, 0.0, dilation=window)(X, X, X)
        assert made and max(X.numel() for X in made) <= 3 * 3 * 6

    @pytest.mark.parametrize("offset", [2**62, sys.maxsize, 2**63, 2.5, True, None, "1"])
    def test_offsets_that_no_position_can_have(self, offset):
        X = torch.randn(2, 3, 4)
        calls = [
            lambda: causal_mask(3, 5, offset=offset),
            lambda: sliding_window_mask(3, 5, window=1, offset=offset),
            lambda: RotaryEncoding(4).transform(X[:, None], offset=offset),
            lambda: ALiBi(2).bias(2, 3, offset=offset),
        ]
        if offset is not None:
            calls += [
                lambda: masked_softmax(X, is_causal=True, offset=offset),
                lambda: dot_product_attention(X, X, X, is_causal=True, offset=offset),
            ]
        for call in calls:
            with pytest.raises(ValueError, match="offset must be"):
                call()
        assert causal_mask(2, 3, offset=np.int64(1)).tolist() == [[True, True, False], [True] * 3]


class TestSizes:
    def test_numpys_integers_are_sizes(self):
        X = torch.randn(B, K, D)
        for layer in (
            MultiHeadAttention(np.int64(D), np.int64(H), 0.0, positions=ALiBi(np.int32(H))),
            AdditiveAttention(np.int64(5), 0.0),
            MultiHeadAttention(D, H, 0.0, positions=RotaryEncoding(np.int64(D // H))),
            SlidingWindowAttention(np.int64(2), 0.0),
        ):
            assert layer(X, X, X).shape == (B, K, D)
        assert PositionalEncoding(np.int64(D), 0.0, np.int64(K))(X).shape == X.shape

    @pytest.mark.parametrize("size", [0, -3, 8.0, True, "8"])
    def test_sizes_that_are_none_are_named(self, size):
        for make, name in (
            (lambda: AdditiveAttention(size, 0.0), "num_hiddens"),
            (lambda: PositionalEncoding(size, 0.0), "num_hiddens"),
            (lambda: PositionalEncoding(8, 0.0, size), "max_len"),
            (lambda: LearnedPositionalEncoding(size, 0.0), "num_hiddens"),
            (lambda: LearnedPositionalEncoding(8, 0.0, size), "max_len"),
            (lambda: MultiHeadAttention(size, 1, 0.0), "num_hiddens"),
            (lambda: MultiHeadAttention(8, size, 0.0), "num_heads"),
            (lambda: RotaryEncoding(size), "head_size"),
            (lambda: ALiBi(size), "num_heads"),
            (lambda: MultiHeadLatentAttention(size, 1, 2, 2, 2), "num_hiddens"),
            (lambda: GatedDeltaNet(size, 1), "num_hiddens"),
        ):
            with pytest.raises(ValueError, match=name):
                make()

    @pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
    def test_lengths_of_types_that_pytorch_hardly_knows(self, dtype):
        with pytest.raises(TypeError, match=r"valid_lens .* got torch.uint.*valid_lens.long\(\)"):
            masked_softmax(torch.zeros(2, 3, 3), torch.tensor([1, 2], dtype=dtype))
