"""The translators that chapters 5 and 8 build: the package's scores, and the same sentences."""

import pytest
import torch
from builds import built
from torch.testing import assert_close

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder

B, H, S, T, E, D, HIDDEN, MOST = 3, 3, 7, 5, 11, 12, 17, 9  # all different: no axis can be swapped
SOURCE_WORDS, TARGET_WORDS = 19, 23
LENS = torch.tensor([S, 2, 1])
BOS, EOS = 1, 2


@pytest.fixture
def tokens():
    return torch.randint(SOURCE_WORDS, (B, S)), torch.randint(TARGET_WORDS, (B, T))


def decoders(num_layers=1, dropout=0.0):
    """Chapter 5's decoder and the package's, with the same parameters."""
    sizes = TARGET_WORDS, E, D, num_layers, dropout
    plain, package = built("05")["PlainAttentionDecoder"](*sizes), Seq2SeqAttentionDecoder(*sizes)
    package.load_state_dict(plain.state_dict(), strict=True)
    return plain.eval(), package.eval()


def encoder():
    return Seq2SeqEncoder(SOURCE_WORDS, E, D, 1, bidirectional=True)


def transformers():
    """Chapter 8's translator and the package's, with the same parameters."""
    sizes = D, HIDDEN, H, 2
    plain = built("08")["OurTranslator"](SOURCE_WORDS, TARGET_WORDS, *sizes)
    encoder = TransformerEncoder(SOURCE_WORDS, *sizes, 0.0)
    decoder = TransformerDecoder(TARGET_WORDS, *sizes, 0.0)
    for part, its in (
        (encoder.embedding, plain.english),
        (decoder.embedding, plain.french),
        (decoder.dense, plain.dense),
        *zip(encoder.blks, plain.reading, strict=True),
        *zip(decoder.blks, plain.writing, strict=True),
    ):
        part.load_state_dict(its.state_dict(), strict=True)
    return plain.eval(), EncoderDecoder(encoder, decoder).eval()


def up_to_the_end(rows):
    return [row[: row.index(EOS)] if EOS in row else row for row in rows.tolist()]


@pytest.mark.parametrize("num_layers", [1, 2], ids="05_layers-{}".format)
def test_the_gru_decoder_is_the_packages(tokens, num_layers):
    plain, package = both = decoders(num_layers)
    states, summary = encoder()(tokens[0], LENS)
    encoded, before = (states, summary.expand(num_layers, -1, -1)), states.clone()
    results = []
    for decoder in both:
        logits, state = decoder(tokens[1], decoder.init_state(encoded, LENS))
        again, last = decoder(tokens[1][:, :1], state)  # the step after that
        (logits.square().sum() + again.square().sum()).backward(retain_graph=True)
        gradients = {name: parameter.grad for name, parameter in decoder.named_parameters()}
        results.append([logits, again, state[:2], last[:2], gradients])
    assert_close(*results)
    assert_close(plain.attention_weights, package.attention_weights)
    assert torch.equal(states, before)


def test_built_05_dropout_acts_in_training_only(tokens):
    plain, _ = decoders(num_layers=2, dropout=0.5)
    states, summary = encoder()(tokens[0], LENS)
    state = plain.init_state((states, summary.expand(2, -1, -1)), LENS)
    kept = plain(tokens[1], state)[0]
    assert_close(plain(tokens[1], state)[0], kept)
    assert not torch.allclose(plain.train()(tokens[1], state)[0], kept)


@pytest.mark.parametrize("lens", [LENS, torch.tensor([3, 0, 7])], ids="08_lens-{}".format)
def test_the_transformer_is_the_packages(tokens, lens):
    plain, package = transformers()
    assert_close(plain(*tokens, lens), package(*tokens, lens))


@pytest.mark.parametrize("chapter", ["05_", "08_", "08_with a cache"])
def test_greedy_loops_write_what_the_packages_writes(tokens, chapter):
    number, (plain, package) = chapter[:2], decoders() if chapter == "05_" else transformers()
    page = built(number)
    if number == "05":
        package = EncoderDecoder(encoder(), package)
    elif chapter == "08_with a cache":
        plain = page["WithCache"](plain)
    expected = greedy_decode(package, tokens[0], LENS, bos=BOS, eos=EOS, max_len=MOST)
    for _ in range(2):  # a second sentence finds nothing of the first one's in a cache
        if number == "05":
            written = page["plain_translate"](package.encoder, plain, tokens[0], LENS, BOS, MOST)
        else:
            written = page["write"](plain, tokens[0], LENS, BOS, EOS, MOST)
        assert up_to_the_end(written) == expected.sentences()


def test_built_08_step_with_the_cache_gives_the_scores_of_the_whole_beginning(tokens):
    page, (plain, _), (source, said) = built("08"), transformers(), tokens
    encoded, cached = plain.encoder(source, LENS), page["WithCache"](plain)
    whole = plain.decoder(said, encoded, LENS)
    for t in range(T):
        assert_close(cached.decoder(said[:, : t + 1], encoded, LENS)[:, 0], whole[:, t])
        assert [keys.shape[2] for keys, _ in cached.caches] == [t + 1] * 2
    before = [each.clone() for each in cached.caches[0]]
    layer = page["PlainMultiHeadAttention"](D, H, 0.0)
    page["attend_with_cache"](layer, torch.randn(B, 1, D), cached.caches[0])
    assert all(map(torch.equal, cached.caches[0], before))  # it grows a copy
