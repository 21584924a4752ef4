"""The layers that chapters build: with the same parameters they are the package's."""

import pytest
import torch
from builds import built, from_page
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    dot_product_attention,
)
from d2l_attention.models.seq2seq import Seq2SeqEncoder
from d2l_attention.variants import Indexer, LearnedQueries, MultiHeadLatentAttention

B, H, Q, K, D, HIDDEN, S, T = 2, 3, 5, 7, 12, 17, 7, 5  # all different: no axis can be swapped
WORDS = 19, 23  # of the source, of the target
LENS = [None, torch.tensor([K, 0]), torch.tensor([[1, 4, 0, 7, 2], [3, 0, 7, 5, 6]])]
OF_SOURCE = [torch.tensor([S, 4]), torch.tensor([3, 0])]  # 0: nothing to read
LATENT = 11, H, 7, 13, 4  # num_hiddens, num_heads, head_size, latent_size, rotary_size


def X(*shape):
    return torch.randn(*shape)


def apart(size=D):
    """Queries, keys and values, each of another size, but what a dot product needs."""
    return X(B, Q, 11), X(B, K, size), X(B, K, 13)


def tokens():
    return torch.randint(WORDS[0], (B, S)), torch.randint(WORDS[1], (B, T))


def case(make, sizes, inputs, call=lambda layer, *given: layer(*given)):
    """The package's layer, the sizes of the page's; inputs; how the package's is called."""
    return make, sizes, inputs, call


def absorbed(layer, Y):
    return layer(Y, is_causal=True, absorbed=True)


def one_query(layer, query, states, lens):
    output, weights = layer(query[:, None], states, states, lens, need_weights=True)
    return output[:, 0], weights[:, 0]


def without_batch(layer, Y):
    return layer(Y[None])[0]


def with_offset(layer, Y, offset):
    return layer(Y, offset=offset)


CASES = {
    "03_PlainDotProductAttention": case(
        lambda: DotProductAttention(0.0), (0.0,), lambda: [(*apart(11), lens) for lens in LENS]
    ),
    "03_PlainAdditiveAttention": case(
        lambda: AdditiveAttention(HIDDEN, 0.0),
        (HIDDEN, 0.0),
        lambda: [(*apart(), lens) for lens in LENS],
    ),
    "05_PlainAdditiveAttention": case(
        lambda: AdditiveAttention(D, 0.0),
        (D, 0.0),
        lambda: [(X(B, D), X(B, K, D), LENS[1])],
        one_query,
    ),
    "05_PlainEncoder": case(
        lambda: Seq2SeqEncoder(WORDS[0], 11, D, 1, bidirectional=True),
        (WORDS[0], 11, D),
        lambda: [(tokens()[0], OF_SOURCE[0])],
    ),
    "06_PlainMultiHeadAttention": case(
        lambda: MultiHeadAttention(6, H, 0.0),
        (6, H, 0.0),
        lambda: [(*apart(), lens) for lens in LENS],
    ),
    "07_PlainPositionalEncoding": case(
        lambda: PositionalEncoding(D, 0.0),
        (D, 0.0),
        lambda: [(X(B, K, D), offset) for offset in (0, 1, 30)],
        with_offset,
    ),
    "07_PlainLearnedEncoding": case(
        lambda: LearnedPositionalEncoding(D, 0.0),
        (D, 0.0),
        lambda: [(X(B, K, D), offset) for offset in (0, 1, 30)],
        with_offset,
    ),
    "08_PlainEncoderBlock": case(
        lambda: TransformerEncoderBlock(D, HIDDEN, H, 0.0),
        (D, HIDDEN, H, 0.0),
        lambda: [(X(B, S, D), lens) for lens in OF_SOURCE],
    ),
    "08_PlainDecoderBlock": case(
        lambda: TransformerDecoderBlock(D, HIDDEN, H, 0.0, 0),
        (D, HIDDEN, H, 0.0),
        lambda: [(X(B, T, D), X(B, S, D), lens) for lens in OF_SOURCE],
        lambda block, Y, sources, lens: block(Y, [sources, lens, [None]])[0],
    ),
    "11_PlainLatentAttention": case(
        lambda: MultiHeadLatentAttention(*LATENT),
        LATENT,
        lambda: [(X(B, Q, 17),)],
        lambda layer, Y: layer(Y, is_causal=True),
    ),
    "11_PlainAbsorbedAttention": case(
        lambda: MultiHeadLatentAttention(*LATENT), LATENT, lambda: [(X(B, Q, 17),)], absorbed
    ),
    "11_PlainIndexer": case(
        lambda: Indexer(D, H, 7), (D, H, 7), lambda: [(X(Q, D),)], without_batch
    ),
}


def learned(layer, output):
    layer.zero_grad()
    parts = output if isinstance(output, tuple) else (output,)
    sum(part.square().sum() for part in parts).backward()
    return {name: parameter.grad for name, parameter in layer.named_parameters()}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_packages(name):
    make, sizes, inputs, call = CASES[name]
    plain, package = from_page(name)(*sizes), make()
    for given in inputs():
        before = [Y.clone() for Y in given if isinstance(Y, torch.Tensor)]
        plain(*given), call(package, *given)  # the first call makes lazy parameters
        package.load_state_dict(plain.state_dict(), strict=True)
        output, expected = plain(*given), call(package, *given)
        assert_close(output, expected, rtol=1e-4, atol=1e-5)
        if hasattr(plain, "attention_weights"):
            assert_close(plain.attention_weights, package.attention_weights)
        if list(plain.parameters()):
            assert_close(learned(plain, output), learned(package, expected), rtol=1e-3, atol=1e-4)
        assert all(map(torch.equal, (Y for Y in given if isinstance(Y, torch.Tensor)), before))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][1][-1] == 0.0])
def test_dropout_acts_in_training_only(name):
    _, sizes, inputs, _ = CASES[name]
    layer, given = from_page(name)(*sizes[:-1], 0.5), inputs()[0]
    first = lambda output: output[0] if isinstance(output, tuple) else output  # noqa: E731
    kept = first(layer.eval()(*given))
    assert not torch.allclose(first(layer.train()(*given)), kept)
    assert_close(first(layer.eval()(*given)), kept)


def test_built_04_layer_is_the_packages_attention_wherever_the_padding_is():
    layer, Y, is_word = (
        built("04")["PlainCausalSelfAttention"](7),
        X(4, K, 7),
        torch.ones(4, K).bool(),
    )
    is_word[1, 3:], is_word[2, :2], is_word[3] = False, False, False  # right, left, everything
    projected = layer.W_q(Y), layer.W_k(Y), layer.W_v(Y)
    expected = dot_product_attention(*projected, mask=is_word[:, None], is_causal=True)
    output = layer(Y, is_word)
    assert_close(output, expected)
    assert_close(learned(layer, output), learned(layer, expected))


def test_built_06_loop_over_heads_is_the_layer():
    page, given = built("06"), apart()
    plain = page["PlainMultiHeadAttention"](num_hiddens=6, num_heads=H, dropout=0.0)
    output = plain(*given)
    assert_close(page["loop_over_heads"](*given, *plain.parameters(), num_heads=H), output)


def test_built_09_learned_queries_are_the_packages_without_their_other_projections():
    plain, package = built("09")["PlainLearnedQueries"](Q, D), LearnedQueries(Q, D, 1, 0.0)
    Y = X(B, K, 11)
    plain(Y), package(Y)
    state = {f"attention.W_{name}.weight": torch.eye(D) for name in "qo"}
    state |= {f"attention.W_{name}.weight": getattr(plain, f"W_{name}").weight for name in "kv"}
    package.load_state_dict(state | {"queries": plain.queries}, strict=True)
    assert_close(plain(Y), package(Y))
