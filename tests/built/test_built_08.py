"""Chapter 8's own Transformer: its blocks, the whole translator, and the loop that writes."""

import pytest
import torch
from builds import built

from d2l_attention import (
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder

page = built("08")
B, H, S, T, D, HIDDEN = 2, 3, 7, 5, 12, 17  # all different: a swapped axis cannot pass
SOURCE_WORDS, TARGET_WORDS = 19, 23
SIZES = D, HIDDEN, H, 2, 0.0
LENS = [torch.tensor([S, 4]), torch.tensor([3, 0])]  # 0: nothing to read
lens_given = pytest.mark.parametrize("lens", LENS, ids=["padded", "nothing-to-read"])


def translators():
    """The page's translator and the package's, with the same parameters."""
    torch.manual_seed(0)
    plain = page["PlainTranslator"](
        page["PlainEncoder"](SOURCE_WORDS, *SIZES), page["PlainDecoder"](TARGET_WORDS, *SIZES)
    )
    package = EncoderDecoder(
        TransformerEncoder(SOURCE_WORDS, *SIZES), TransformerDecoder(TARGET_WORDS, *SIZES)
    )
    package.load_state_dict(plain.state_dict(), strict=True)
    return plain.eval(), package.eval()


@lens_given
def test_the_encoders_block_equals_the_packages_and_changes_nothing(lens):
    plain = page["PlainEncoderBlock"](D, HIDDEN, H, 0.0)
    package = TransformerEncoderBlock(D, HIDDEN, H, 0.0)
    package.load_state_dict(plain.state_dict(), strict=True)
    X = torch.randn(B, S, D)
    before = X.clone()
    torch.testing.assert_close(plain(X, lens), package(X, lens))
    assert torch.equal(X, before)


@lens_given
def test_the_decoders_block_equals_the_packages_and_changes_nothing(lens):
    plain = page["PlainDecoderBlock"](D, HIDDEN, H, 0.0)
    package = TransformerDecoderBlock(D, HIDDEN, H, 0.0, 0)
    package.load_state_dict(plain.state_dict(), strict=True)
    X, sources = torch.randn(B, T, D), torch.randn(B, S, D)
    before = X.clone(), sources.clone()
    expected, _ = package(X, [sources, lens, [None]])
    torch.testing.assert_close(plain(X, sources, lens), expected)
    assert torch.equal(X, before[0]) and torch.equal(sources, before[1])


@lens_given
def test_the_translator_equals_the_packages(lens):
    plain, package = translators()
    source = torch.randint(SOURCE_WORDS, (B, S))
    target = torch.randint(TARGET_WORDS, (B, T))
    torch.testing.assert_close(plain(source, target, lens), package(source, target, lens))


@pytest.mark.parametrize("kept", [False, True], ids=["reads-all", "with-a-cache"])
def test_the_loop_writes_what_the_packages_greedy_search_writes(kept):
    plain, package = translators()
    source, bos, eos = torch.randint(SOURCE_WORDS, (B, S)), 1, 2
    expected = greedy_decode(package, source, LENS[0], bos=bos, eos=eos, max_len=11)
    if kept:
        plain = page["PlainTranslator"](plain.encoder, page["CachedDecoder"](plain.decoder))
    for _ in range(2):  # a second sentence finds nothing of the first one's in the cache
        said = page["write"](plain, source, LENS[0], bos, eos, 11)
        assert said.shape == expected.tokens.shape
        for row, tokens, length in zip(said, expected.tokens, expected.lens, strict=True):
            assert torch.equal(row[:length], tokens[:length])


def test_a_step_with_the_cache_gives_the_scores_of_the_whole_beginning():
    plain, _ = translators()
    source, said = torch.randint(SOURCE_WORDS, (B, S)), torch.randint(TARGET_WORDS, (B, T))
    encoded, cached = plain.encoder(source, LENS[0]), page["CachedDecoder"](plain.decoder)
    whole = plain.decoder(said, encoded, LENS[0])
    for t in range(T):
        scores = cached(said[:, : t + 1], encoded, LENS[0])
        torch.testing.assert_close(scores[:, 0], whole[:, t])
        assert [keys.shape[2] for keys, _ in cached.caches] == [t + 1] * 2


def test_attention_with_a_cache_leaves_the_cache_as_it_was():
    layer = page["PlainMultiHeadAttention"](D, H, 0.0)
    cache = torch.randn(2, B, H, T, D // H).unbind()
    before = [each.clone() for each in cache]
    _, grown = page["attend_with_cache"](layer, torch.randn(B, 1, D), cache)
    assert [each.shape[2] for each in grown] == [T + 1] * 2
    assert all(torch.equal(each, old) for each, old in zip(cache, before, strict=True))


def test_dropout_acts_while_training():
    block = page["PlainEncoderBlock"](D, HIDDEN, H, 0.5)
    X = torch.randn(B, S, D)
    kept = block.eval()(X, LENS[0])
    torch.manual_seed(0)
    assert not torch.allclose(block.train()(X, LENS[0]), kept)
    torch.testing.assert_close(block.eval()(X, LENS[0]), kept)
