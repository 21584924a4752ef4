"""The numbers of an attention: they add up to what the layer gave, or they are not shown."""

import math

import pytest
import torch
from torch import nn

from d2l_attention import AdditiveAttention, ALiBi, DotProductAttention, MultiHeadAttention
from d2l_attention.variants import GroupedQueryAttention, SinkAttention, SlidingWindowAttention
from d2l_attention.views.inside.looks import softmax_of
from d2l_attention.views.inside.recording import record
from d2l_attention.views.inside.sending import scores_of

B, H, Q, K, D, V = 2, 3, 5, 7, 4, 11


def look(layer, *inputs, **named):
    return record(layer, inputs, named, None).call.look


def adds_up(found, output):
    """Scores, bias and mask make the weights, weights and values the output, as it is shown."""
    weights = softmax_of(scores_of(found), found.bias, found.visible)
    torch.testing.assert_close(weights, found.weights)
    torch.testing.assert_close(found.weights @ found.values, output)


def test_one_number_by_hand():
    queries = torch.tensor([[[1.0, 2.0, 0.0, 1.0]]])
    keys = torch.tensor([[[2.0, 1.0, 5.0, 0.0], [0.0, 0.0, 1.0, 0.0]]])
    values = torch.tensor([[[8.0], [4.0]]])
    found = look(DotProductAttention(0.0), queries, keys, values)
    # 1 * 2 + 2 * 1 = 4, divided by the root of 4 is 2; e^2 / (e^2 + e^0)
    assert scores_of(found).tolist() == [[[2.0, 0.0]]]
    share = math.exp(2) / (math.exp(2) + 1)
    torch.testing.assert_close(found.weights, torch.tensor([[[share, 1 - share]]]))
    assert found.kind == "dot" and found.size == 4


@pytest.mark.parametrize("options", [{}, {"valid_lens": torch.tensor([6, 3])}, {"is_causal": True}])
def test_dot_products_add_up(options):
    torch.manual_seed(0)
    inputs = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, V)
    layer = DotProductAttention(0.0)
    found = look(layer, *inputs, **options)
    assert found.kind == "dot" and found.shape == (H, Q, K)
    adds_up(found, layer(*inputs, **options)[0])


def test_padding_that_is_nan_is_no_part_of_the_sum():
    torch.manual_seed(0)
    queries, keys, values = torch.randn(1, Q, D), torch.randn(1, K, D), torch.randn(1, K, V)
    keys[0, 5:], values[0, 5:] = math.nan, math.nan
    layer, lens = DotProductAttention(0.0), torch.tensor([5])
    found = look(layer, queries, keys, values, lens)
    adds_up(found, layer(queries, keys, values, lens))
    assert not found.visible[0, :, 5:].any()


def test_additive_scores_add_up():
    torch.manual_seed(0)
    inputs = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
    layer = AdditiveAttention(13, 0.0)
    layer(*inputs)
    found = look(layer, *inputs, torch.tensor([4, 7]))
    assert found.kind == "additive" and found.w_v.shape == (13,)
    adds_up(found, layer(*inputs, torch.tensor([4, 7]))[:1])


def test_a_bias_is_kept():
    torch.manual_seed(0)
    layer = MultiHeadAttention(6, H, 0.0, positions=ALiBi(H))
    X = torch.randn(1, Q, 6)
    found = look(layer, X, X, X)
    assert found.bias.shape == (H, Q, Q) and found.bias.min() < 0
    weights = softmax_of(scores_of(found), found.bias, None)
    layer(X, X, X)
    torch.testing.assert_close(weights, layer.attention_weights[0])


def test_a_multi_head_layer_with_a_cut_of_its_inside_is_the_layer():
    torch.manual_seed(0)
    layer, X = MultiHeadAttention(6, H, 0.0), torch.randn(B, Q, 6)
    found = look(layer, X, X, X, is_causal=True)
    heads = found.weights @ found.values
    expected = layer(X, X, X, is_causal=True)[0]
    torch.testing.assert_close(layer.W_o(heads.transpose(0, 1).flatten(1)), expected)


@pytest.mark.parametrize(
    "layer",
    [GroupedQueryAttention(12, 4, 2, 0.0), SinkAttention(H, 0.0), SlidingWindowAttention(2, 0.0)],
    ids=lambda layer: type(layer).__name__,
)
def test_forms_show_their_weights_and_only_sums_that_are_right(layer):
    torch.manual_seed(0)
    whole = isinstance(layer, GroupedQueryAttention)
    inputs = [torch.randn(1, Q, 12)] * 3 if whole else [torch.randn(1, H, Q, D) for _ in range(3)]
    found = look(layer, *inputs)
    layer(*inputs)
    torch.testing.assert_close(found.weights, layer.attention_weights[0])
    if found.kind == "dot":
        weights = softmax_of(scores_of(found), found.bias, found.visible)
        torch.testing.assert_close(weights, found.weights)
    if found.values is not None and not whole:
        torch.testing.assert_close(found.weights @ found.values, layer(*inputs)[0])


@pytest.mark.parametrize(
    "case", ["plain", "sizes", "bias_kv", "zero", "padding", "causal", "added"]
)
def test_pytorchs_layer_is_made_again_from_its_weights(case):
    torch.manual_seed(0)
    options = {
        "sizes": {"kdim": 5, "vdim": 3},
        "bias_kv": {"add_bias_kv": True},
        "zero": {"add_zero_attn": True},
    }
    layer = nn.MultiheadAttention(
        12, H, batch_first=case != "plain", **options.get(case, {})
    ).eval()
    key_size, value_size = (5, 3) if case == "sizes" else (12, 12)
    inputs = [torch.randn(1, Q, 12), torch.randn(1, K, key_size), torch.randn(1, K, value_size)]
    if case == "plain":
        inputs = [X.transpose(0, 1) for X in inputs]
    named = {
        "padding": {"key_padding_mask": torch.arange(K)[None] > 4},
        "causal": {"attn_mask": torch.ones(Q, K, dtype=torch.bool).triu(2)},
        "added": {"attn_mask": torch.randn(H, Q, K)},
    }.get(case, {})
    found = look(layer, *inputs, **named)
    with torch.no_grad():
        output, weights = layer(*inputs, **named, average_attn_weights=False)
    torch.testing.assert_close(found.weights, weights[0])
    torch.testing.assert_close(softmax_of(scores_of(found), found.bias, found.visible), weights[0])
    heads = (found.weights @ found.values).transpose(0, 1).flatten(1)
    whole = layer.out_proj(heads)
    torch.testing.assert_close(whole, (output if case != "plain" else output.transpose(0, 1))[0])


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_sees_nothing_is_shown_as_pytorchs_layer_has_it(need_weights):
    layer, X = nn.MultiheadAttention(12, H).eval(), torch.randn(Q, 1, 12)
    mask = torch.eye(Q, dtype=torch.bool).masked_fill(torch.arange(Q)[:, None] == 2, True)
    found = look(layer, X, X, X, attn_mask=mask, need_weights=need_weights)
    _, weights = layer(X, X, X, attn_mask=mask, average_attn_weights=False)
    assert weights[0, :, 2].isnan().all()
    expected = weights[0] if need_weights else weights[0].nan_to_num(0.0)
    torch.testing.assert_close(found.weights, expected, equal_nan=True)


class Sharper(nn.MultiheadAttention):
    def forward(self, query, key, value, **options):
        return super().forward(4 * query, key, value, **options)


class Later(nn.MultiheadAttention):
    """Its output alone, with something added."""

    def forward(self, query, key, value):
        return super().forward(query, key, value)[0] + query


class Alone(nn.MultiheadAttention):
    def forward(self, query, key, value):
        return super().forward(query, key, value)[0]


def replaced(layer):
    plain = layer.forward
    layer.forward = lambda query, key, value: plain(query, key, value * 2)
    return layer


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        (Sharper(12, H, batch_first=True), False),
        (Sharper(12, H), False),
        (Later(12, H, batch_first=True), False),
        (replaced(nn.MultiheadAttention(12, H, batch_first=True)), False),
        (Alone(12, H, batch_first=True), True),
        (Alone(12, H), True),
    ],
)
def test_a_layer_that_attends_otherwise_than_pytorchs_has_no_look(layer, shown):
    torch.manual_seed(0)
    inputs = [torch.randn(B, n, 12) for n in (Q, K, K)]
    found = look(layer, *(inputs if layer.batch_first else [X.transpose(0, 1) for X in inputs]))
    assert (found is not None) == shown
    if shown:
        plain = nn.MultiheadAttention(12, H, batch_first=True)
        plain.load_state_dict(layer.state_dict())
        weights = plain(*inputs, average_attn_weights=False)[1]
        torch.testing.assert_close(found.weights, weights[0].detach())


class Self(nn.MultiheadAttention):
    def forward(self, X):
        return super().forward(X, X, X)[0]


class Mine(DotProductAttention):
    def forward(self, q, k, v):
        return super().forward(q, k, v)


def lettered(layer):
    plain = layer.forward
    layer.forward = lambda q, k, v, **options: plain(q, k, v, **options)
    return layer


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        (Self(12, H, batch_first=True), 1),
        (Mine(0.0), 3),
        (lettered(nn.MultiheadAttention(12, H, batch_first=True)), 3),
        (lettered(DotProductAttention(0.0)), 3),
    ],
)
def test_an_attention_that_names_its_inputs_otherwise_opens_without_its_heads(layer, count):
    run = record(layer, [torch.randn(B, Q, 12)] * count, {}, None)
    assert run.call.look is None and run.call.outputs[0].shape == (B, Q, 12)


class StudentAttention(nn.Module):
    def forward(self, X):
        self.attention_weights = (X @ X.mT).softmax(-1)
        return self.attention_weights @ X


class OtherLibrarysAttention(nn.Module):
    def forward(self, X):
        weights = (X @ X.mT).softmax(-1)[:, None].expand(-1, H, -1, -1)
        return X, weights


@pytest.mark.parametrize(
    ("layer", "heads"), [(StudentAttention(), 1), (OtherLibrarysAttention(), H)]
)
def test_weights_of_another_making_are_found(layer, heads):
    X = torch.randn(1, Q, D)
    found = look(layer, X)
    assert found.kind == "weights" and found.queries is None and found.values is None
    torch.testing.assert_close(found.weights, (X @ X.mT).softmax(-1).expand(heads, -1, -1))


def test_weights_of_an_earlier_call_are_not_those_of_this_one():
    class Keeps(StudentAttention):
        def forward(self, X):
            return super().forward(X) if self.training else X

    layer = Keeps()
    layer(torch.randn(1, Q, D))
    assert look(layer, torch.randn(1, Q, D)) is None


class AttnDecoderRNN(nn.Module):
    """As in PyTorch's tutorial: words, state and weights; N words, which may be as many as keys."""

    def __init__(self, num_words):
        super().__init__()
        self.num_words = num_words

    def forward(self, encoder_outputs, encoder_hidden, target):
        weights = torch.rand(B, Q, encoder_outputs.shape[1]).softmax(-1)
        return torch.rand(B, Q, self.num_words).softmax(-1), encoder_hidden, weights


def test_probabilities_of_words_are_no_attention():
    inputs = torch.randn(B, K, D), torch.randn(1, B, D), torch.randint(11, (B, Q))
    torch.manual_seed(0)
    found = look(AttnDecoderRNN(11), *inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(found.weights[0], torch.rand(B, Q, K).softmax(-1)[0])
    assert look(AttnDecoderRNN(K), *inputs) is None  # nobody can tell which is which


def test_a_softmax_is_no_attention():
    class Classifier(nn.Module):
        def forward(self, X):
            return X.softmax(-1)

    assert look(Classifier(), torch.randn(1, Q, K)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"valid_lens": torch.tensor([3])},
        {"mask": torch.eye(Q, dtype=torch.bool)},
        {"bias": torch.randn(H, Q, Q)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_sinks_show_their_weights_under_every_mask(options):
    torch.manual_seed(0)
    layer, inputs = SinkAttention(H, 0.0), torch.randn(3, 1, H, Q, D)
    found = look(layer, *inputs, **options)
    output, weights = layer(*inputs, **options, need_weights=True)
    torch.testing.assert_close(found.weights, weights[0].detach())
    torch.testing.assert_close(found.weights @ found.values, output[0].detach())
    assert found.kind == "weights"  # the sink's score is not among them
