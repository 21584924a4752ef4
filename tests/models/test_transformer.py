"""The Transformer, against PyTorch's and the book's blocks and by what must never matter."""

import math

import pytest
import torch
from d2l_oracle import load_d2l
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from d2l_attention import (
    AddNorm,
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    Positions,
    PositionWiseFFN,
    RotaryEncoding,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    causal_mask,
    length_mask,
)
from d2l_attention.models.encoder_decoder import EncoderDecoder, guidance_loss

# As many heads as sentences: a mask that falls on the wrong axis still has the right size.
B, H, S, T, D, FFN, N, M = 3, 3, 7, 5, 12, 17, 11, 13  # N target words, M source words
LENS = torch.tensor([7, 2, 4])
BOS, EOS = 1, 2
NORMS = pytest.mark.parametrize("pre_norm", [False, True], ids=["post-norm", "pre-norm"])


def model_of(pre_norm=False, dropout=0.0, positions=None, dtype=torch.float32):
    torch.manual_seed(1)
    sizes = (D, FFN, H, 2, dropout)
    make = positions or (lambda: None)
    encoder = TransformerEncoder(M, *sizes, pre_norm=pre_norm, positions=make())
    decoder = TransformerDecoder(N, *sizes, pre_norm=pre_norm, positions=make())
    return EncoderDecoder(encoder, decoder).to(dtype)


def batch():
    return torch.randint(M, (B, S)), torch.randint(N, (B, T))


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    return model_of(request.param)


def as_pytorch(attention):
    """The weights of our attention under PyTorch's names."""
    projections = [attention.W_q, attention.W_k, attention.W_v]
    weights = {
        "in_proj_weight": torch.cat([layer.weight for layer in projections]),
        "out_proj.weight": attention.W_o.weight,
        "in_proj_bias": torch.zeros(3 * D),
        "out_proj.bias": torch.zeros(D),
    }
    if attention.W_o.bias is not None:
        weights["in_proj_bias"] = torch.cat([layer.bias for layer in projections])
        weights["out_proj.bias"] = attention.W_o.bias
    return weights


def copy_block(block, layer, attentions):
    """Load our block into PyTorch's; ``attentions``: their name for each of our attentions."""
    weights = {}
    for ours, theirs in attentions.items():
        parts = as_pytorch(getattr(block, ours))
        weights |= {f"{theirs}.{name}": value for name, value in parts.items()}
    for i in range(1, len(attentions) + 2):
        norm = getattr(block, f"addnorm{i}").ln
        weights |= {f"norm{i}.weight": norm.weight, f"norm{i}.bias": norm.bias}
    for i in (1, 2):
        dense = getattr(block.ffn, f"dense{i}")
        weights |= {f"linear{i}.weight": dense.weight, f"linear{i}.bias": dense.bias}
    layer.load_state_dict(weights, strict=True)
    return layer


@NORMS
class TestAgainstPyTorch:
    @pytest.mark.parametrize("lens", [None, LENS], ids=["full", "padded"])
    def test_encoder_block(self, pre_norm, lens):
        block = TransformerEncoderBlock(D, FFN, H, 0.0, True, pre_norm=pre_norm)
        layer = nn.TransformerEncoderLayer(D, H, FFN, 0.0, batch_first=True, norm_first=pre_norm)
        copy_block(block, layer, {"attention": "self_attn"})
        X = torch.randn(B, S, D)
        hidden = None if lens is None else ~length_mask(lens, S)[:, 0]
        assert_close(block(X, lens), layer(X, src_key_padding_mask=hidden))

    @pytest.mark.parametrize("lens", [None, LENS], ids=["full", "padded"])
    def test_decoder_block(self, pre_norm, lens):
        block = TransformerDecoderBlock(D, FFN, H, 0.0, 0, pre_norm=pre_norm)
        layer = nn.TransformerDecoderLayer(D, H, FFN, 0.0, batch_first=True, norm_first=pre_norm)
        copy_block(block, layer, {"attention1": "self_attn", "attention2": "multihead_attn"})
        X, memory = torch.randn(B, T, D), torch.randn(B, S, D)
        hidden = None if lens is None else ~length_mask(lens, S)[:, 0]
        expected = layer(X, memory, tgt_mask=~causal_mask(T), memory_key_padding_mask=hidden)
        assert_close(block(X, [memory, lens, [None]])[0], expected)

    def test_a_stack_ends_on_a_norm(self, pre_norm):
        encoder = model_of(pre_norm).encoder
        X = encoder.embed(torch.randint(M, (B, S)))
        expected = X
        for block in encoder.blks:
            expected = block(expected, LENS)
        if pre_norm:
            expected = nn.functional.layer_norm(expected, (D,))
        encoder.embed = lambda tokens: X
        assert_close(encoder(torch.zeros(B, S, dtype=torch.long), LENS), expected)
        # Whichever norm it is, what leaves the stack is normalised.
        assert_close(expected.mean(dim=-1), torch.zeros(B, S), atol=1e-5, rtol=0)
        assert_close(expected.var(dim=-1, correction=0), torch.ones(B, S), atol=1e-2, rtol=0)


class TestAgainstTheBook:
    @pytest.mark.parametrize("use_bias", [False, True])
    def test_a_checkpoint_of_the_encoder_loads(self, use_bias):
        book = load_d2l().TransformerEncoder(M, D, FFN, H, 2, 0.0, use_bias)
        encoder = TransformerEncoder(M, D, FFN, H, 2, 0.0, use_bias)
        X = torch.randint(M, (B, S))
        expected = book(X, LENS)
        encoder.load_state_dict(book.state_dict(), strict=True)
        assert_close(encoder(X, LENS), expected, atol=1e-5, rtol=1e-5)
        for weights, books in zip(encoder.attention_weights, book.attention_weights, strict=True):
            assert_close(weights, books.reshape(B, H, S, S), atol=1e-5, rtol=1e-5)
        book.load_state_dict(encoder.state_dict(), strict=True)

    def test_its_calls(self):
        # As in sections 11.7.2 to 11.7.5, the state written out.
        X = torch.ones(2, 100, 24)
        assert PositionWiseFFN(4, 8)(torch.ones(2, 3, 4)).shape == (2, 3, 8)
        assert AddNorm([3, 4], 0.5)(torch.ones(2, 3, 4), torch.ones(2, 3, 4)).shape == (2, 3, 4)
        lens = torch.tensor([3, 2])
        encoded = TransformerEncoderBlock(24, 48, 8, 0.5)(X, lens)
        output, state = TransformerDecoderBlock(24, 48, 8, 0.5, 0)(X, [encoded, lens, [None]])
        assert encoded.shape == output.shape == X.shape
        assert len(state) == 3

    def test_names_of_the_decoder(self):
        names = {name.removeprefix("blks.block1.") for name in model_of().decoder.state_dict()}
        attentions = {f"attention{i}.W_{w}.weight" for i in (1, 2) for w in "qkvo"}
        norms = {f"addnorm{i}.ln.{part}" for i in (1, 2, 3) for part in ("weight", "bias")}
        ffn = {f"ffn.dense{i}.{part}" for i in (1, 2) for part in ("weight", "bias")}
        outside = {"embedding.weight", "dense.weight", "dense.bias"}
        expected = attentions | norms | ffn | outside
        assert {name for name in names if not name.startswith("blks")} == expected


class TestEncoderAndDecoder:
    @pytest.mark.parametrize("garbage", [math.nan, math.inf])
    def test_nan_in_padding_changes_nothing_not_even_gradients(self, model, garbage):
        source, target = batch()
        padding = ~length_mask(LENS, S)[:, 0]
        source = source.clamp(max=M - 2).masked_fill(padding, M - 1)
        results = []
        for value in (0.0, garbage):
            with torch.no_grad():
                model.encoder.embedding.weight[M - 1] = value
            model.zero_grad()
            logits = model(source, target, LENS)
            logits.square().sum().backward()
            results.append([logits, *(parameter.grad for parameter in model.parameters())])
        for one, other in zip(*results, strict=True):
            assert one.isfinite().all() and torch.equal(one, other)

    def test_nan_in_the_padding_of_encoder_outputs(self, model):
        target, encoded = batch()[1], torch.randn(B, S, D)
        padding = ~length_mask(LENS, S)[:, 0]
        results = []
        for value in (0.0, math.nan):
            encoded[padding] = value
            model.zero_grad()
            logits, _ = model.decoder(target, model.decoder.init_state(encoded, LENS))
            logits.square().sum().backward()
            grads = (parameter.grad for parameter in model.decoder.parameters())
            results.append([logits, *grads])
        for one, other in zip(*results, strict=True):
            assert one.isfinite().all() and torch.equal(one, other)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    def test_dtypes(self, dtype):
        source, target = batch()
        expected, logits = (model_of(dtype=d)(source, target, LENS) for d in (torch.double, dtype))
        assert logits.dtype == dtype
        tolerance = {torch.float64: 0, torch.float32: 1e-5}.get(dtype, 0.1)
        assert_close(logits.double(), expected, atol=tolerance, rtol=tolerance)

    def test_dropout_acts_in_training_only(self):
        model, (source, target) = model_of(dropout=0.5), batch()
        assert not torch.equal(model(source, target, LENS), model(source, target, LENS))
        model.eval()
        expected = model_of().eval()(source, target, LENS)
        assert_close(model(source, target, LENS), expected)

    def test_compiled_in_one_graph(self):
        torch.compiler.reset()
        model, (source, target) = model_of(), batch()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        assert_close(compiled(source, target, LENS), model(source, target, LENS))


class TestWeights:
    def test_those_of_guidance(self, model):
        source, target = batch()
        expected = model(source, target, LENS)
        logits, weights = model(source, target, LENS, need_weights=True)
        assert_close(logits, expected)
        assert weights.shape == (B, T, S)
        assert_close(weights.sum(dim=-1), torch.ones(B, T))
        assert (weights[~length_mask(LENS, S).expand(B, T, S)] == 0).all()
        assert_close(model.decoder.attention_weights, weights.detach())
        guidance_loss(weights, torch.rand(B, T, S) < 0.3).backward()
        last = model.decoder.blks[-1].attention2
        assert last.W_q.weight.grad.abs().sum() > 0 and last.W_k.weight.grad.abs().sum() > 0

    def test_of_all_heads(self, model):
        source, target = batch()
        model(source, target, LENS)
        decoder = model.decoder
        for weights in model.encoder.attention_weights:
            assert weights.shape == (B, H, S, S)
            hidden = ~length_mask(LENS, S)[:, None].expand(weights.shape)
            assert (weights[hidden] == 0).all()
        for weights in decoder.self_attention_weights:
            assert weights.shape == (B, H, T, T)
            assert (weights[~causal_mask(T).expand(weights.shape)] == 0).all()
        for weights in decoder.cross_attention_weights:
            assert weights.shape == (B, H, T, S)
        assert_close(decoder.attention_weights, decoder.cross_attention_weights[1].mean(dim=1))
        every = (model.encoder.attention_weights, decoder.self_attention_weights)
        for weights in (*every[0], *every[1], *decoder.cross_attention_weights):
            assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))

    def test_no_matrix_of_weights_unless_they_are_asked_for(self):
        class Largest(TorchDispatchMode):
            numel = 0

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                result = func(*args, **(kwargs or {}))
                for part in result if isinstance(result, tuple | list) else [result]:
                    if isinstance(part, torch.Tensor):
                        self.numel = max(self.numel, part.numel())
                return result

        model, n = model_of(), 400
        sentences = torch.randint(N, (1, n))
        with Largest() as largest:
            model(sentences, sentences, torch.tensor([n // 2])).sum().backward()
        assert largest.numel < n * n / 4
        with Largest() as largest:
            model(sentences, sentences, torch.tensor([n // 2]), need_weights=True)
        assert largest.numel >= H * n * n


def test_pre_norm_and_post_norm_by_hand():
    X, Y = torch.tensor([[1.0, 3.0]]), torch.tensor([[4.0, 0.0]])
    after, before = AddNorm(2, 0.0), AddNorm(2, 0.0, pre_norm=True)
    assert torch.equal(after.before(X), X)
    assert_close(after(X, Y), torch.tensor([[1.0, -1.0]]))  # 5 and 3, normalised
    assert_close(before.before(X), torch.tensor([[-1.0, 1.0]]))
    assert torch.equal(before(X, Y), torch.tensor([[5.0, 3.0]]))


def test_dropout_falls_on_the_sublayer_alone():
    X, Y = torch.full((50, 40), 3.0), torch.ones(50, 40)
    layer = AddNorm(40, 0.5, pre_norm=True)
    assert layer(X, Y).unique().tolist() == [3.0, 5.0]  # 1 is dropped, or doubled
    assert layer.eval()(X, Y).unique().tolist() == [4.0]
    post, seed = AddNorm(40, 0.5), torch.get_rng_state()
    dropped = nn.functional.dropout(Y, 0.5)
    torch.set_rng_state(seed)
    assert_close(post(X, Y), nn.functional.layer_norm(X + dropped, (40,)))


@pytest.mark.parametrize("stack", [TransformerEncoder, TransformerDecoder])
class TestDropoutOfTheEmbeddings:
    def stack_of(self, stack, positions, dropout=0.5):
        model = stack(M, D, FFN, H, 1, dropout, positions=positions)
        nn.init.ones_(model.embedding.weight)  # a zero is a dropped one
        return model

    @pytest.mark.parametrize("positions", [lambda: RotaryEncoding(4), lambda: ALiBi(H), Positions])
    def test_positions_that_are_not_added_leave_it_to_the_model(self, stack, positions):
        model, X = self.stack_of(stack, positions()), torch.zeros(50, 40, dtype=torch.long)
        embedded, whole = model.embed(X), math.sqrt(D)
        assert_close(embedded.unique(), torch.tensor([0.0, 2 * whole]))  # dropped, or doubled
        assert abs((embedded == 0).float().mean() - 0.5) < 0.02
        assert_close(model.eval().embed(X).unique(), torch.tensor([whole]))

    @pytest.mark.parametrize("own, share", [(0.0, 0.0), (0.25, 0.25), (None, 0.5)])
    @pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
    def test_added_positions_have_their_own_and_once(self, stack, kind, own, share):
        model = self.stack_of(stack, None if own is None else kind(D, own))
        embedded = model.embed(torch.zeros(50, 40, dtype=torch.long))
        assert abs((embedded == 0).float().mean() - share) < 0.02

    def test_names_of_the_parameters_stay(self, stack):
        names = set(self.stack_of(stack, None).state_dict())
        for positions in (RotaryEncoding(4), ALiBi(H), PositionalEncoding(D, 0.0)):
            assert set(self.stack_of(stack, positions).state_dict()) == names
        assert not [name for name in names if "dropout" in name]


def test_errors():
    model, (source, target) = model_of(), batch()
    encoded, far = model.encoder(source, LENS), torch.tensor([8, 1, 1])
    start, block = model.decoder.init_state, model.decoder.blks[0]
    state = start(encoded, LENS)
    for message, call in (
        ("num_blks must be 1 or more, got 0", lambda: TransformerEncoder(M, D, FFN, H, 0, 0.0)),
        ("num_hiddens=12 and num_heads=5", lambda: TransformerDecoder(N, D, FFN, 5, 1, 0.0)),
        (r"dropout must lie in \[0, 1\), got 1", lambda: TransformerEncoder(M, D, FFN, H, 1, 1)),
        ("between 0 and the number of keys, 7", lambda: model.encoder(source, far)),
        ("between 0 and the number of keys, 7", lambda: start(encoded, far)),
        (r"enc_outputs .* \(B, n, 12\), got \(3, 7, 11\)", lambda: start(encoded[..., 1:], LENS)),
        ("as many rows as the state, 3, got 2", lambda: model.decoder(target[:2], state)),
        (r"X .* \(B, n, 12\), got \(3, 5, 11\)", lambda: block(torch.zeros(B, T, 11), state)),
        (r"X .* \(B, n, 12\), got \(3, 12\)", lambda: model.encoder.blks[0](torch.zeros(B, D))),
        (r"got \(3, 1\) and \(3, 2\)", lambda: AddNorm(2, 0.0)(torch.ones(3, 1), torch.ones(3, 2))),
        ("positions 0 to 1000 do not fit", lambda: model.encoder(source[:1, :1].expand(1, 1001))),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for X, came in (
        ([[1, 2]], "got list"),
        (source.float(), r"got torch.float32 of shape \(3, 7\)"),
        (target.bool(), r"got torch.bool of shape \(3, 5\)"),
        (target.byte(), r"got torch.uint8 of shape \(3, 5\)"),
        (target[0, :B], r"got torch.int64 of shape \(3,\)"),
    ):
        for call in (model.encoder, lambda X: model.decoder(X, state)):
            with pytest.raises(ValueError, match=f"X must hold token numbers, .* {came}"):
                call(X)
    # A length for all sentences, or one a query, is none a sentence.
    for lens in (LENS[:1], LENS[:, None], LENS[:2], LENS[:, None].expand(B, S)):
        with pytest.raises(ValueError, match=r"valid_lens must have shape \(3,\)") as raised:
            start(encoded, lens)
        assert f"got {tuple(lens.shape)}" in str(raised.value)
    assert not hasattr(model_of().decoder, "attention_weights")


def test_positions_of_one_s_own_may_be_empty():
    """A module with a length of 0 is false, and still the one that was given."""

    class NoKinds(Positions):
        def __len__(self):
            return 0

    for model in (TransformerEncoder, TransformerDecoder):
        positions = NoKinds()
        layer = model(M, D, FFN, H, 1, 0.0, positions=positions)
        assert layer.pos_encoding is positions


def test_embedded_tokens_are_about_as_large_as_their_positions():
    """PyTorch's own start would make them sqrt(D) times as large, and drown the positions."""
    torch.manual_seed(0)
    encoder = TransformerEncoder(500, 64, 8, 4, 1, 0.0)
    X = torch.arange(500)[None]
    tokens = encoder.embedding(X) * math.sqrt(64)
    assert 0.98 < tokens.std() < 1.02
    positions = encoder.embed(X) - tokens
    assert 0.5 < positions.norm() / tokens.norm() < 0.9  # sines and cosines: sqrt(1 / 2)
