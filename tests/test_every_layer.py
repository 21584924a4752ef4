"""What every layer of the package promises, in whatever form it attends.

That its ways of computing agree is in test_one_answer.py; values are in each layer's own file.
"""

import copy
import inspect
import math
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from d2l_attention import AdditiveAttention, DotProductAttention, MultiHeadAttention, attention_mask
from d2l_attention.variants import (
    BigBirdAttention,
    ChosenBlocksAttention,
    GlobalLocalAttention,
    GroupedQueryAttention,
    LearnedQueries,
    LinformerAttention,
    MultiHeadLatentAttention,
    MultiTokenAttention,
    SinkAttention,
    SlidingWindowAttention,
    WindowAttention,
)
from tests.devices.parts import APART, ATTENTION, OF_ONE_SEQUENCE, SELF_ATTENTION, B, D, H, K, Q

OF_THREE = ATTENTION | SELF_ATTENTION | {"Linformer": APART["Linformer"]}
LAYERS = {name: (make, {}) for name, make in OF_THREE.items()} | OF_ONE_SEQUENCE
CAUSAL = [
    name
    for name, (make, _) in LAYERS.items()
    if "is_causal" in inspect.signature(make().forward).parameters and name != "Linformer"
]
WITH_STATE = ["delta rule", "Hyena"]  # these look back without being told
# Layers of one sequence in which padding is a query as well, and is told what it is.
PADDING_ASKS = [name for name in OF_ONE_SEQUENCE if name not in ("learned queries", *WITH_STATE)]
CHOOSING = ["chosen blocks", "indexer"]  # where numbers are rounded they choose otherwise
LENGTHS = torch.tensor([4, 0, K])


def made(name):
    """The layer in double precision as if it had learned a little, and how it is called."""
    make, options = LAYERS[name]
    layer = make()
    layer(*(X.float() for X in inputs(name)), **options)  # makes lazy parameters
    with torch.no_grad():
        for parameter in layer.parameters():  # some begin as zeros, or as what changes nothing
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.double(), options


def inputs(name):
    """Queries, keys and values that differ, or one sequence."""
    if name in OF_ONE_SEQUENCE:
        return [torch.randn(B, K, D).double()]
    num_queries = K if name in SELF_ATTENTION else Q
    return [torch.randn(B, n, D).double() for n in (num_queries, K, K)]


def same_tokens(name, X):
    return [X] if name in OF_ONE_SEQUENCE else [X, X, X]


def output_of(result):
    return result[0] if isinstance(result, tuple) else result


def outcome(name, layer, given, lens, options):
    """The output of the real tokens, and the gradients of all that it is made from."""
    given = [X.clone().requires_grad_() for X in given]
    layer.zero_grad()
    output = output_of(layer(*given, lens, **options))
    learned = list(layer.parameters())
    if name in PADDING_ASKS:
        output, learned = output[torch.arange(K) < lens[:, None]], []
    output.square().sum().backward()
    return [output, *(X.grad for X in (*given, *learned))]


@pytest.mark.parametrize("garbage", [math.nan, math.inf])
@pytest.mark.parametrize(
    "name", [name for name in LAYERS if "block" not in name or "blocks" in name]
)
def test_padding_changes_nothing_not_even_gradients(name, garbage):
    layer, options = made(name)
    clean = inputs(name)
    dirty = [X.clone() for X in clean]
    dirty[0][1] = garbage  # the second sentence has no key
    for X in dirty[1:] or dirty:
        X[0, 4:], X[1] = 100.0 if name in PADDING_ASKS else garbage, garbage
    ways = [{"is_causal": True}] * (name in CAUSAL) + [{"need_weights": True}] * (name in OF_THREE)
    for way in ({}, *ways):
        one, other = (outcome(name, layer, X, LENGTHS, options | way) for X in (clean, dirty))
        assert all(X.isfinite().all() for X in other)
        assert_close(other, one)
        if name in OF_THREE:
            output, *gradients = other[:4]
            assert not output[1].any() and not any(gradient[1].any() for gradient in gradients)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("name", [*ATTENTION, *SELF_ATTENTION])
def test_a_query_that_sees_nothing_may_hold_anything(name, need_weights):
    layer, _ = made(name)
    clean = inputs(name)
    lens = torch.arange(B * clean[0].shape[1]).reshape(B, -1) % 4  # no query sees keys 3 to 6
    dirty = [
        clean[0].masked_fill((lens == 0)[..., None], math.nan),
        *(X.clone() for X in clean[1:]),
    ]
    for X in dirty[1:]:
        X[:, 3:] = math.nan
    options = {"need_weights": need_weights}
    one, other = (outcome(name, layer, X, lens, options) for X in (clean, dirty))
    assert all(X.isfinite().all() for X in other)
    assert_close(other, one)


@pytest.mark.parametrize("name", [*CAUSAL, *WITH_STATE])
def test_the_future_changes_nothing(name):
    layer, options = made(name)
    if name in CAUSAL:
        options = options | {"is_causal": True}
    X = torch.randn(B, K, D).double().requires_grad_()
    output = output_of(layer(*same_tokens(name, X), **options))
    for now in range(K - 1):
        (gradient,) = torch.autograd.grad(output[:, now].sum(), X, retain_graph=True)
        assert gradient[:, now + 1 :].abs().max() < 1e-14  # a Fourier transform rounds
        assert gradient[:, now].any()
        later = X.detach().clone()
        later[:, now + 1 :] += 3
        after = output_of(layer(*same_tokens(name, later), **options))
        assert_close(after[:, : now + 1], output[:, : now + 1], rtol=0, atol=1e-14)
        assert not torch.allclose(after[:, now + 1 :], output[:, now + 1 :])


@pytest.mark.parametrize("lens", [None, LENGTHS, "by query"], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("name", ["dot product", "additive", "heads", "heads, additive"])
def test_weights_are_zero_where_nothing_is_seen_and_sum_to_one(name, lens, masked):
    layer, _ = made(name)
    lens = torch.arange(B * Q).reshape(B, Q) % (K + 1) if lens == "by query" else lens
    mask = torch.rand(B, Q, K) < 0.5 if masked else None
    for is_causal in (False, True):
        options = {"mask": mask, "is_causal": is_causal}
        output, weights = layer(*inputs(name), lens, **options, need_weights=True)
        visible = attention_mask((B, Q, K), lens, mask, is_causal)
        visible = torch.ones(B, Q, K).bool() if visible is None else visible.expand(B, Q, K)
        visible = (visible[:, None] if weights.ndim == 4 else visible).expand(weights.shape)
        assert not weights[~visible].any()
        assert_close(weights.sum(-1), visible.any(-1).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_dtypes(name, dtype):
    layer, options = made(name)
    given, tolerance = inputs(name), max(5e-4, 32 * torch.finfo(dtype).eps)
    lens = torch.tensor([4, 2, K])
    for way in ({}, {"is_causal": True})[: 1 + (name in CAUSAL)]:
        expected = output_of(layer.double()(*given, lens, **options | way))
        result = layer.to(dtype)(*(X.to(dtype) for X in given), lens, **options | way)
        assert output_of(result).dtype == dtype
        if name not in CHOOSING:
            assert_close(output_of(result).double(), expected, atol=tolerance, rtol=tolerance)
        if name in OF_THREE:
            assert layer.attention_weights.dtype == dtype


@pytest.mark.parametrize("name", LAYERS)
def test_mixed_precision(name):
    layer, options = made(name)
    layer, given = layer.float(), [X.float() for X in inputs(name)]
    expected = output_of(layer(*given, LENGTHS, **options))
    with torch.autocast("cpu", torch.bfloat16):
        output = output_of(layer(*given, LENGTHS, **options))
    if name not in CHOOSING:
        assert_close(output.float(), expected, atol=0.1, rtol=0.1)
    if name in OF_THREE:
        assert layer.attention_weights.shape[-2] == output.shape[-2]


# Each with dropout 0.5, the last number that it takes.
DROPPING = {
    "dot": lambda: DotProductAttention(0.5),
    "additive": lambda: AdditiveAttention(8, 0.5),
    "heads": lambda: MultiHeadAttention(D, H, 0.5),
    "heads, additive": lambda: MultiHeadAttention(D, H, 0, attention=AdditiveAttention(4, 0.5)),
    "grouped": lambda: GroupedQueryAttention(D, H, 1, 0.5),
    "heads, sinks": lambda: MultiHeadAttention(D, H, 0.0, attention=SinkAttention(H, 0.5)),
    "window": lambda: SlidingWindowAttention(2, 0.5),
    "window and global": lambda: GlobalLocalAttention(1, 2, 0.5),
    "BigBird": lambda: BigBirdAttention(2, 0, 1, 1, 0.5, seed=0),
    "chosen blocks": lambda: ChosenBlocksAttention(2, 1, 0.5),
    "Linformer": lambda: LinformerAttention(D, H, K, 3, 0.5),
    "multi-token": lambda: MultiTokenAttention(D, H, 0.5, query_size=2, key_size=3, mix_heads=H),
    "latent": lambda: MultiHeadLatentAttention(D, H, 4, 6, 2, 0.5),
    "learned queries": lambda: LearnedQueries(Q, D, H, 0.5),
    "Swin": lambda: WindowAttention(D, H, 3, dropout=0.5),
}


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("name", DROPPING)
def test_dropout_is_the_modules_own_and_spares_the_weights(name, need_weights):
    layer = DROPPING[name]()
    X = torch.randn(B, K, K, D) if name == "Swin" else torch.randn(B, K, D)
    given = (X,) if name in ("latent", "learned queries", "Swin") else (X, X, X)

    def call():
        return output_of(layer(*given, need_weights=need_weights))

    clean, weights = layer.eval() and call(), layer.attention_weights
    assert torch.equal(call(), clean)
    dropouts = [part for part in layer.modules() if isinstance(part, nn.Dropout)]
    for part in dropouts:
        part.train()  # as in Monte Carlo dropout
    assert not torch.allclose(call(), clean) and not torch.equal(call(), call())
    assert_close(layer.attention_weights, weights)
    layer.train()
    for part in dropouts:
        part.eval()
    assert_close(call(), clean)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, "0.1", None, True, math.nan, 1])
@pytest.mark.parametrize(
    "make",
    [
        DotProductAttention,
        lambda p: AdditiveAttention(8, p),
        lambda p: MultiHeadAttention(D, H, p),
        lambda p: GroupedQueryAttention(D, H, 1, p),
        lambda p: SlidingWindowAttention(2, p),
        lambda p: LinformerAttention(D, H, K, 3, p),
        lambda p: MultiTokenAttention(D, H, p, query_size=2, key_size=3, mix_heads=H),
        lambda p: LearnedQueries(Q, D, H, p),
    ],
)
def test_rates_of_dropout_that_are_none(make, dropout):
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got"):
        make(dropout)


@pytest.mark.parametrize("name", LAYERS)
def test_copies_pickles_and_checkpoints(name):
    layer, options = made(name)
    given, lens, fresh = inputs(name), torch.tensor([4, 7, 7]), LAYERS[name][0]()
    size, expected = len(pickle.dumps(layer)), output_of(layer(*given, lens, **options))
    assert len(pickle.dumps(layer)) == size  # without the batch
    output_of(fresh(*(X.float() for X in given), **options))
    fresh.double().load_state_dict(layer.state_dict(), strict=True)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), fresh):
        if other is not fresh:
            assert not hasattr(other, "attention_weights")
        assert torch.equal(output_of(other(*given, lens, **options)), expected)


# One of each kind: to compile takes seconds.
COMPILED = [
    *["heads, additive", "heads, linear", "heads, sinks", "heads, ALiBi", "grouped, rotary"],
    *["multi-token", "Linformer", "window and global", "BigBird"],
]


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin .*Generator")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_in_one_graph(name):
    layer, options = made(name)
    if name in CAUSAL:
        options = options | {"is_causal": True}
    one_graph = name != "BigBird"  # a generator does not go into a graph
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=one_graph)
    given = [X.requires_grad_() for X in inputs(name)]
    found, expected = (output_of(each(*given, LENGTHS, **options)) for each in (compiled, layer))
    assert_close(found, expected)
    learned = [*given, *(p for p in layer.parameters() if p.requires_grad)]
    found, expected = (
        torch.autograd.grad(output.square().sum(), learned, allow_unused=True)
        for output in (found, expected)
    )
    assert_close(found, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_inputs_are_left_as_they_are_and_a_batch_may_be_empty(name):
    layer, options = made(name)
    given, lens = inputs(name), LENGTHS.clone()
    before = [X.clone() for X in given]
    expected = output_of(layer(*given, lens, **options))
    assert all(map(torch.equal, (*given, lens), (*before, LENGTHS)))
    empty = output_of(layer(*(X[:0] for X in given), lens[:0], **options))
    assert empty.shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("name", OF_THREE)
def test_weights_are_those_of_the_last_pass(name):
    layer, _ = made(name)
    lens = torch.tensor([4, 2, 6])
    layer(*inputs(name), lens)
    before = layer.attention_weights
    assert not before.requires_grad
    lens += 1  # as a loop that decodes may do
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(3)  # as an optimizer does
    assert torch.equal(layer.attention_weights, before)
