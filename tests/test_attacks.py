"""What an attacker found: each was silently wrong before, or a crash without words."""

import copy
import math

import pytest
import torch
from accelerate import Accelerator
from torch import nn
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    ALiBi,
    DotProductAttention,
    KeyValueCache,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEncoding,
    dot_product_attention,
    gaussian_score,
)
from d2l_attention.attention.kernels import boxcar, epanechikov, gaussian
from d2l_attention.attention.positional import rotary_speeds
from d2l_attention.data import Pair, Vocab
from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from d2l_attention.training.loop import validation_loss
from d2l_attention.variants import (
    BigBirdAttention,
    ChosenBlocksAttention,
    GatedDeltaNet,
    GlobalLocalAttention,
    HyenaOperator,
    Indexer,
    LinearAttention,
    MultiHeadLatentAttention,
    SlidingWindowAttention,
    follow_loss,
)
from d2l_attention.variants.chosen_blocks import chosen_blocks_mask
from d2l_attention.variants.delta_rule import delta_rule, delta_rule_step
from d2l_attention.variants.linear import linear_attention_step


class TestDropoutIsTheModulesOwn:
    def test_none_at_all(self):
        layer, X = MultiHeadAttention(8, 2, 0.5), torch.randn(1, 5, 8)
        layer.attention.dropout = nn.Identity()
        assert torch.equal(layer(X, X, X), layer(X, X, X))

    def test_between_the_layers_of_a_gru(self):
        decoder = Seq2SeqAttentionDecoder(11, 4, 6, 2, 0.5).eval()
        state = decoder.init_state((torch.randn(5, 3, 6), torch.randn(2, 3, 6)))
        X = torch.randint(0, 11, (3, 4))
        assert torch.equal(decoder(X, state)[0], decoder(X, state)[0])
        decoder.rnn.train()
        assert not torch.equal(decoder(X, state)[0], decoder(X, state)[0])


class TestWhatOthersChangeLater:
    def test_a_buffer_that_is_used_again(self):
        cache, buffer = KeyValueCache(), torch.empty(1, 1, 1, 1)
        for number in range(3):
            buffer.fill_(number)
            cache.append(buffer, buffer)
        assert cache.keys.flatten().tolist() == [0, 1, 2]

    def test_speeds(self):
        speeds = rotary_speeds(8)
        encoding, X = RotaryEncoding(8, speeds=speeds), torch.randn(1, 1, 5, 8)
        expected = encoding.transform(X)
        speeds /= 4
        assert torch.equal(encoding.transform(X), expected)
        with pytest.raises(ValueError, match="speeds must be fixed numbers"):
            RotaryEncoding(8, speeds=nn.Parameter(rotary_speeds(8).float()))

    def test_a_learned_bias(self):
        bias, X = nn.Parameter(torch.randn(5, 5)), torch.randn(2, 5, 8)
        layer = DotProductAttention(0.0)
        _, expected = layer(X, X, X, bias=bias, need_weights=True)
        layer(X, X, X, bias=bias)
        with torch.no_grad():
            bias.add_(torch.randn(5, 5))  # as an optimizer does
        assert_close(layer.attention_weights, expected.detach())


@pytest.mark.parametrize("index", [1, torch.tensor(1), torch.tensor([[0]])])
def test_a_cache_selects_a_list_of_sentences(index):
    cache = KeyValueCache()
    cache.append(*torch.randn(2, 3, 2, 4, 5))
    with pytest.raises(ValueError, match="index must be a tensor"):
        cache.select(index)
    assert len(copy.copy(cache).select(torch.tensor([2, 0]))) == 4


class TestGates:
    def rows(self, dtype=torch.float32):
        return [X.to(dtype) for X in (*torch.randn(3, 2, 3, 4), torch.rand(2, 3))]

    def test_a_prefilled_state_goes_on_in_half_precision(self):
        query, key, value, beta = self.rows(torch.bfloat16)
        each = (X[:, :, None] for X in (query, key, value, beta))
        _, state = delta_rule(*each)
        output, state = delta_rule_step(query, key, value, beta, state=state)
        assert output.dtype == torch.bfloat16 and state.dtype == torch.float32

    def test_many_steps_in_half_precision(self):
        # Right: the same inputs in float64. What is left is the rounding of the output alone.
        state = exact_state = None
        for _ in range(300):
            rows = self.rows(torch.bfloat16)
            rows[1] = nn.functional.normalize(rows[1], dim=-1)
            output, state = delta_rule_step(*rows, state=state)
            exact, exact_state = delta_rule_step(*(X.double() for X in rows), state=exact_state)
        assert_close(output.double(), exact, rtol=2**-8, atol=1e-3)

    def test_shapes_of_gates_and_states(self):
        query, key, value, beta = self.rows()
        one = beta[:, 0]
        for gates in ({"beta": one}, {"beta": beta, "decay": one}):
            with pytest.raises(ValueError, match=r"expected a tensor of shape \(2, 3\)"):
                delta_rule_step(query, key, value, **gates)
        small = torch.zeros(1, 3, 4, 4)
        with pytest.raises(ValueError, match=r"\(2, 3, 4, 4\), got \(1, 3, 4, 4\)"):
            delta_rule_step(query, key, value, beta, state=small)
        with pytest.raises(ValueError, match=r"\(2, 3, 4, 5\), got \(1, 3, 4, 5\)"):
            linear_attention_step(query, key, value, torch.zeros(1, 3, 4, 5))
        layer, X = GatedDeltaNet(12, 3), torch.randn(2, 5, 12)
        _, state = layer(X, need_state=True)
        with pytest.raises(ValueError, match="expected a tensor of shape"):
            layer(X, state=state[:1])


class TestHalfPrecision:
    """Whatever is divided is divided before it is multiplied or summed."""

    def test_the_indexers_scores(self):
        indexer = Indexer(64, 2, 64)
        with torch.no_grad():
            indexer.W_q.weight.copy_(torch.eye(64).repeat(2, 1))
            indexer.W_k.weight.copy_(torch.eye(64))
            indexer.W_w.weight.zero_()
            indexer.W_w.weight[0, 0] = 0.01
        X = torch.ones(1, 6, 64) * torch.tensor([40.0, 41, 42, 39, 38, 37])[None, :, None]
        expected = indexer(X)
        assert_close(indexer.half()(X.half()).float(), expected, rtol=5e-3, atol=0)

    def test_the_means_of_blocks(self):
        means = (270.0, 290.0, 280.0, 10.0)
        keys = torch.cat([torch.full((1, 256, 1), mean) for mean in means], dim=1)
        query = -torch.ones(1, 1, 1)
        options = dict(block_size=256, num_chosen=1, offset=768)
        # The query's own block, the last, and the one whose mean is lowest: 270.
        for dtype in (torch.float32, torch.float16):
            mask = chosen_blocks_mask(query.to(dtype), keys.to(dtype), **options)
            assert mask[0, 0, ::256].tolist() == [True, False, False, True]

    def test_the_loss_that_follows(self):
        scores = torch.zeros(1, 3, 3)
        scores[..., 0] = 20
        visible = torch.ones(1, 3, 3).tril().bool()
        weights = visible.float() / visible.sum(dim=-1, keepdim=True)
        # Row 0 costs 0; rows 1 and 2: the mean of 0 and 20, of 0, 20 and 20, less log 2 and log 3.
        right = torch.tensor((10 - math.log(2) + 40 / 3 - math.log(3)) / 3)
        for dtype in (torch.float32, torch.float16):
            loss = follow_loss(scores.to(dtype), weights[:, None].to(dtype), visible)
            assert_close(loss.float(), right, rtol=1e-3, atol=0)

    def test_the_gaussian_score(self):
        queries, keys = torch.zeros(1, 64).half(), torch.full((1, 64), 33.0).half()
        right = torch.tensor([[-64 * 0.33**2 / 2]])
        assert_close(gaussian_score(queries, keys, 100.0).float(), right, rtol=2e-3, atol=0)
        width = torch.tensor([[100.0]]).half()
        assert_close(gaussian_score(queries, keys, width).float(), right, rtol=2e-3, atol=0)

    def test_far_away_with_a_flat_slope(self):
        bias = ALiBi(8).half().bias(1, 60_001, offset=60_000)
        assert bias.isfinite().all() and bias[-1, 0, 0] == -60_000 / 256


class TestClearWords:
    def test_a_projection_with_a_bias_cannot_be_absorbed(self):
        layer, X = MultiHeadLatentAttention(12, 3, 4, 6, 2), torch.randn(2, 5, 12)
        layer(X)
        layer.W_uv = nn.Linear(6, 12)
        layer(X)
        with pytest.raises(ValueError, match="a matrix alone, got a linear layer with a bias"):
            layer(X, absorbed=True)

    @pytest.mark.filterwarnings("ignore:There is a performance drop")
    def test_no_weights_come_out_of_torch_func(self):
        layer, X = DotProductAttention(0.0), torch.randn(4, 2, 5, 6)
        layer(X[0], X[0], X[0])
        torch.vmap(lambda X: layer(X, X, X))(X)
        assert not hasattr(layer, "attention_weights")  # not those of the call before, either

    def test_a_first_call_inside_torch_func(self):
        layer, X = MultiHeadAttention(12, 3, 0.0), torch.randn(2, 5, 12)
        with pytest.raises(RuntimeError, match="call it once outside torch.func"):
            torch.func.grad(lambda X: layer(X, X, X).sum())(X)

    def test_dropout_of_many_weights_under_torch_func(self, monkeypatch):
        monkeypatch.setattr("d2l_attention.attention.fused.MANY_WEIGHTS", 10)
        X = torch.randn(1, 2, 5, 4)
        slopes = torch.func.grad(lambda X: dot_product_attention(X, X, X, dropout=0.1).sum())(X)
        assert slopes.isfinite().all() and slopes.any()

    def test_heads_of_size_0(self):
        queries, values = torch.zeros(2, 3, 0), torch.randn(2, 3, 4)
        mean = values.mean(dim=1, keepdim=True).expand(2, 3, 4)
        assert_close(dot_product_attention(queries, queries, values), mean)
        assert_close(dot_product_attention(queries, queries, values, need_weights=True)[0], mean)

    @pytest.mark.parametrize("offset", [2.5, None, "1", True])
    def test_offsets_of_embeddings(self, offset):
        with pytest.raises(ValueError, match="offset must be a whole number"):
            PositionalEncoding(12, 0.0)(torch.randn(1, 3, 12), offset=offset)

    def test_numbers_that_are_none(self):
        with pytest.raises(ValueError, match="base must be positive, got nan"):
            RotaryEncoding(8, math.nan)
        with pytest.raises(ValueError, match="width must be positive, got nan"):
            gaussian_score(torch.randn(1, 2), torch.randn(1, 2), math.nan)


def test_the_translator_takes_parameters_from_elsewhere():
    model = EncoderDecoder(Seq2SeqEncoder(11, 4, 6, 1), Seq2SeqAttentionDecoder(11, 4, 6, 1))
    tokens = torch.randint(0, 11, (2, 5))
    half = {name: (p / 2).detach() for name, p in model.named_parameters()}
    got = torch.func.functional_call(model, half, (tokens, tokens))
    model.load_state_dict(half)
    assert_close(got, model(tokens, tokens))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_lengths_of_small_types_for_long_sentences(dtype):
    encoder, X = Seq2SeqEncoder(11, 4, 6, 1), torch.randint(0, 11, (2, 300))
    lens = torch.tensor([120, 7])
    assert_close(encoder(X, lens.to(dtype)), encoder(X, lens))


def test_features_that_underflow_are_said_to_see_nothing():
    query, keys = torch.full((1, 1), -110.0), torch.tensor([[0.0], [1.0]])
    assert LinearAttention()(query, keys, keys).tolist() == [[0.0]]


class TestPackedTexts:
    """Two texts in one sequence, kept apart by a mask: what is hidden decides nothing."""

    def test_which_blocks_are_read(self):
        num_tokens = 24
        text = torch.arange(num_tokens) >= 6  # the border is inside a block of 4
        apart = text[:, None] == text
        layer = ChosenBlocksAttention(4, 1, 0.0)
        for seed in range(10):
            torch.manual_seed(seed)
            X = torch.randn(1, num_tokens, 8)
            other = torch.where(text[:, None], X, 5 * torch.randn(1, num_tokens, 8))
            for options in ({"mask": apart}, {"mask": apart, "is_causal": True}):
                one, two = (layer(Y, Y, Y, **options)[:, 6:] for Y in (X, other))
                assert_close(one, two)

    def test_a_block_is_chosen_by_what_the_query_sees(self):
        # Blocks of two keys; the second key of block 0 is hidden from query 5. What it sees there,
        # 3, is more than the mean of block 1, 2, and less than it with the hidden 9.
        keys = torch.tensor([3.0, -9, 2, 2, 0, 0])[None, :, None]
        mask = torch.ones(6, 6, dtype=torch.bool)
        mask[5, 1] = False
        chosen = chosen_blocks_mask(
            torch.ones(1, 6, 1), keys, block_size=2, num_chosen=1, mask=mask
        )
        assert chosen[0, 5].tolist() == [True, False, False, False, True, True]
        assert chosen[0, 4].tolist() == [False, False, True, True, True, True]


def test_a_sentence_of_length_0_says_nothing_of_its_padding():
    encoder, lens = Seq2SeqEncoder(11, 4, 6, 1, bidirectional=True), torch.tensor([3, 0])
    X = torch.randint(0, 11, (2, 5))
    other = X.clone()
    other[1] = (X[1] + 1) % 11
    for one, two in zip(encoder(X, lens), encoder(other, lens), strict=True):
        assert_close(one, two)


def test_masks_are_made_beside_the_inputs_whatever_the_default_device():
    X = torch.randn(2, 7, 8)
    for layer in (SlidingWindowAttention(1, 0.0), GlobalLocalAttention(1, 2, 0.0)):
        expected = layer(X, X, X)
        with torch.device("meta"):
            output, weights = layer(X, X, X, need_weights=True)
        assert_close(output, expected)
        assert weights.device.type == "cpu"


def test_shapes_on_meta():
    layer, X = AdditiveAttention(8, 0.0), torch.randn(2, 90, 8)
    layer(X, X, X)
    X = X.to("meta")
    assert layer.to("meta")(X, X, X).shape == X.shape


class TestAnotherDefaultDtype:
    """It decides what new parameters are, and nothing else: models are built before it changes."""

    @pytest.fixture(params=[torch.float64, torch.bfloat16, torch.float16])
    def change(self, request):
        yield lambda: torch.set_default_dtype(request.param)
        torch.set_default_dtype(torch.float32)

    @pytest.mark.parametrize("make", [
        lambda: BigBirdAttention(1, 0, 0, 1, 0.0, seed=0),
        lambda: HyenaOperator(8, 4096),
        lambda: HyenaOperator(8, 4096).half(),
    ], ids=["bigbird", "hyena", "hyena in half"])  # fmt: skip
    def test_of_layers(self, change, make):
        layer = make()
        X = torch.randn(1, 1024, 8, dtype=next((p.dtype for p in layer.parameters()), torch.float))
        expected = layer(X) if isinstance(layer, HyenaOperator) else layer(X, X, X)
        change()
        assert torch.equal(
            layer(X) if isinstance(layer, HyenaOperator) else layer(X, X, X), expected
        )

    @pytest.mark.parametrize("search", [beam_search, greedy_decode])
    def test_of_searches(self, change, search):
        source, options = torch.zeros(3, 1, dtype=torch.long), {"bos": 0, "eos": 1, "max_len": 300}
        torch.manual_seed(334)
        model = EncoderDecoder(nn.Identity(), FromTable(torch.randn(300, 3)))
        model.encoder.forward = lambda source, lens: source
        expected = search(model, source, None, **options)
        change()
        got = search(model, source, None, **options)
        assert torch.equal(got.tokens, expected.tokens) and torch.equal(got.scores, expected.scores)

    def test_of_the_validation_loss(self, change):
        pairs, words = [Pair(("a",), (("b",),))] * 300, Vocab([["a", "b"]])
        model = EncoderDecoder(
            Seq2SeqEncoder(len(words), 4, 6, 1), Seq2SeqAttentionDecoder(len(words), 4, 6, 1)
        )
        accelerator = Accelerator(cpu=True)
        expected = validation_loss(model, pairs, words, words, 7, accelerator)
        change()
        assert validation_loss(model, pairs, words, words, 7, accelerator) == expected


class FromTable(nn.Module):
    """A decoder whose logits (T, N) are those of the step, whatever it has read."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def init_state(self, enc_outputs, lens):
        return [enc_outputs, 0]

    def forward(self, X, state):
        enc_outputs, step = state
        return self.logits[step].expand(len(X), 1, -1).clone(), [enc_outputs, step + 1]

    def select(self, state, index):
        return [state[0][index], state[1]]


@pytest.mark.parametrize("make", [lambda: PositionalEncoding(8, 0.0), lambda: ALiBi(3)])
def test_loading_what_was_saved_changes_no_number(make):
    model = make().double()
    before = [buffer.clone() for buffer in model.buffers()]
    model.load_state_dict(model.state_dict())
    assert all(map(torch.equal, model.buffers(), before)) and before


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_kernels_of_small_whole_numbers(dtype):
    x = torch.tensor([0, 1, 2, 100, 127]).to(dtype)
    for kernel in (gaussian, boxcar, epanechikov):
        assert_close(kernel(x).double(), kernel(x.double()), check_dtype=False, rtol=1e-6, atol=0)
    assert boxcar(torch.tensor([-128], dtype=torch.int8)).tolist() == [0]


@pytest.mark.parametrize("lens", [None, [2]])
def test_second_derivatives_behind_padding(lens):
    torch.manual_seed(0)
    net, X = GatedDeltaNet(4, 2).double(), torch.randn(1, 3, 4, dtype=torch.double)
    X[0, 2] = 0.0
    lens = None if lens is None else torch.tensor(lens)
    net(X)
    weight = net.W_k.weight.detach().clone()

    def penalty(weight):
        weight = weight if weight.requires_grad else weight.clone().requires_grad_()
        output = torch.func.functional_call(net, {"W_k.weight": weight}, (X, lens))
        (slope,) = torch.autograd.grad(output.square().sum(), weight, create_graph=True)
        return slope.square().sum()

    (got,) = torch.autograd.grad(penalty(weight.requires_grad_()), weight)
    step = 1e-5 * torch.randn_like(weight)
    change = penalty((weight + step).detach()) - penalty((weight - step).detach())
    assert_close((got * step).sum() * 2, change, rtol=1e-5, atol=0)
