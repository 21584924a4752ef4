"""Vocabulary and batches."""

import numpy as np
import pytest
import torch

from d2l_attention.data import Pair, Vocab, data_loader, make_batch
from d2l_attention.data.batches import SimilarLengths

SENTENCES = [["un", "ami", "et", "un", "ours"], ("un", "ours"), ["œuf"]]


def test_numbers_by_hand():
    vocab = Vocab(SENTENCES)
    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert vocab.idx_to_token == [*special, "un", "ours", "ami", "et", "œuf"]
    assert len(vocab) == 9
    assert vocab["un"] == 4 and vocab["zèbre"] == 3 and vocab["<eos>"] == 2
    assert vocab[["ours", "zèbre"]] == vocab[("ours", "zèbre")] == [5, 3]
    assert vocab[[["un"], ["ami", "et"]]] == [[4], [6, 7]]
    assert "ours" in vocab and "zèbre" not in vocab


def test_min_freq_leaves_out_the_rare():
    assert Vocab(SENTENCES, min_freq=2).idx_to_token[4:] == ["un", "ours"]
    assert len(Vocab([])) == 4


def test_text_cannot_pass_for_a_special_token():
    vocab = Vocab([["<eos>", "a", "<eos>"], ["<pad>"]])
    assert vocab.idx_to_token == ["<pad>", "<bos>", "<eos>", "<unk>", "a"]


def test_back_to_tokens():
    vocab = Vocab(SENTENCES)
    assert vocab.to_tokens(4) == "un"
    assert vocab.to_tokens([4, 3]) == ["un", "<unk>"]
    assert vocab.to_tokens(torch.tensor([[4], [2]])) == [["un"], ["<eos>"]]
    assert vocab.to_tokens(torch.tensor(5)) == "ours"
    assert vocab.to_tokens(np.int64(4)) == vocab.to_tokens(np.array(4)) == "un"
    assert vocab.to_tokens(np.array([[4], [2]])) == [["un"], ["<eos>"]]
    assert vocab.to_tokens([np.int64(4), torch.tensor(5)]) == ["un", "ours"]
    for wrong, came in (("un", "'un'"), (4.0, "4.0"), ([4, None], "None"), (np.ones(1), "1.0")):
        with pytest.raises(TypeError, match=f"indices must be whole numbers, got {came}"):
            vocab.to_tokens(wrong)
    for wrong in (9, -1, [4, 9]):
        with pytest.raises(IndexError, match="outside a vocabulary of 9 tokens"):
            vocab.to_tokens(wrong)


def test_unknown_words_are_named_once_and_in_order():
    assert Vocab(SENTENCES).unknown(["zèbre", "un", "Ami", "zèbre"]) == ["zèbre", "Ami"]


def test_a_string_is_no_sentence():
    with pytest.raises(TypeError, match="sequences of tokens, got text: 'un ours'"):
        Vocab(["un ours"])


def test_save_and_load(tmp_path):
    path = tmp_path / "vocab.json"
    vocab = Vocab(SENTENCES)
    vocab.save(path)
    loaded = Vocab.load(path)
    assert loaded.idx_to_token == vocab.idx_to_token
    assert loaded[["un", "zèbre"]] == [4, 3]
    assert [file.name for file in tmp_path.iterdir()] == ["vocab.json"]


def test_halves_of_characters_are_saved_as_they_are(tmp_path):
    """Also beside a "?" and the whole character, and two halves that would make one."""
    path, odd = (
        tmp_path / "vocab.json",
        ["\ud83d", "\ude00", "\ud83d\ude00", "\U0001f600", "?", "é"],
    )
    vocab = Vocab([odd, odd[:3], odd[:2]])
    vocab.save(path)
    loaded = Vocab.load(path)
    assert loaded.idx_to_token == vocab.idx_to_token
    assert sorted(loaded[odd]) == [4, 5, 6, 7, 8, 9] and loaded[odd] == vocab[odd]
    Vocab([["?", "é", "\U0001f600"]]).save(path)
    assert path.read_text("utf-8").split('"')[11:16:2] == ["?", "é", "\U0001f600"]


DAMAGED = [
    "",
    "{",
    "[]",
    "{}",
    '{"tokens": 7}',
    '{"tokens": ["a"]}',
    '{"tokens": ["<pad>", "<bos>", "<eos>", "<unk>", 4]}',
    '{"tokens": ["<pad>", "<bos>", "<eos>", "<unk>", "a", "a"]}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_a_named_error(tmp_path, text):
    path = tmp_path / "vocab.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"vocab\.json holds no vocabulary"):
        Vocab.load(path)


def test_other_files_are_named_errors(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="binary holds no vocabulary"):
        Vocab.load(tmp_path / "binary")
    with pytest.raises(FileNotFoundError, match="missing"):
        Vocab.load(tmp_path / "missing")


# ---- Batches -------------------------------------------------------------------------------------

APPLE = Pair(
    source=("she", "eats", "it"),
    targets=(("elle", "la", "mange"),),
    sure=((0, 0), (1, 2), (2, 1)),
    possible=((0, 0), (1, 1), (1, 2), (2, 1)),
)
ATE = Pair(
    source=("she", "ate"),
    targets=(("elle", "a", "mangé"),),
    sure=((0, 0), (1, 2)),
    possible=((0, 0), (1, 1), (1, 2)),
)
ALIGNED_BY_NOBODY = Pair(source=("go",), targets=(("va",), ("allez", "y")))
PAIRS = [APPLE, ATE, ALIGNED_BY_NOBODY]


@pytest.fixture
def vocabs():
    return Vocab(p.source for p in PAIRS), Vocab(t for p in PAIRS for t in p.targets)


def test_a_batch_by_hand(vocabs):
    src_vocab, tgt_vocab = vocabs
    assert src_vocab.idx_to_token[4:] == ["she", "ate", "eats", "go", "it"]
    assert tgt_vocab.idx_to_token[4:] == ["elle", "a", "allez", "la", "mange", "mangé", "va", "y"]
    batch = make_batch(PAIRS, src_vocab, tgt_vocab)
    assert batch.src.tolist() == [[4, 6, 8, 2], [4, 5, 2, 0], [7, 2, 0, 0]]
    assert batch.src_lens.tolist() == [4, 3, 2]
    assert batch.tgt_in.tolist() == [[1, 4, 7, 8], [1, 4, 5, 9], [1, 10, 0, 0]]
    assert batch.tgt_out.tolist() == [[4, 7, 8, 2], [4, 5, 9, 2], [10, 2, 0, 0]]
    assert batch.tgt_lens.tolist() == [4, 4, 2]
    assert batch.links.dtype == torch.bool
    # Where a word has a sure link, what is only possible does not count; <eos> stands for <eos>.
    assert batch.links.nonzero().tolist() == [
        *[[0, 0, 0], [0, 1, 2], [0, 2, 1], [0, 3, 3]],
        *[[1, 0, 0], [1, 1, 1], [1, 2, 1], [1, 3, 2]],
    ]
    assert batch.links.shape == (3, 4, 4)


@pytest.mark.parametrize("link", [(2, 0), (0, 3), (-1, 0), (0, -1)])
def test_a_link_is_between_words_of_the_two_sentences(link):
    """Links that somebody counts from 1 would mark padding beside a longer sentence."""
    sentences = ("un", "ami"), (("a", "good", "friend"),)
    Pair(*sentences, sure=((1, 2),), possible=((1, 2), (0, 0)))
    for links in ({"sure": (link,), "possible": (link,)}, {"possible": ((0, 0), link)}):
        message = rf"counted from 0, in sentences of 2 and 3 tokens, got \({link[0]}, {link[1]}\)"
        with pytest.raises(ValueError, match=message):
            Pair(*sentences, **links)


def test_unknown_words_and_pairs_without_links(vocabs):
    batch = make_batch([Pair(("zebra",), (("zèbre",),))], *vocabs)
    assert batch.src.tolist() == [[3, 2]] and batch.tgt_in.tolist() == [[1, 3]]
    assert not batch.links.any()


def numbers(loader):
    return [batch.src.tolist() for batch in loader]


def many(n):
    words = [f"w{i}" for i in range(n)]
    pairs = [Pair((w,) * (1 + i % 7), ((w,) * (1 + i % 5),)) for i, w in enumerate(words)]
    return pairs, Vocab(pair.source for pair in pairs)


def seeded(seed):
    return torch.Generator(device=torch.get_default_device()).manual_seed(seed)


def test_without_a_generator_the_order_stays_and_every_target_comes(vocabs):
    batches = list(data_loader(PAIRS, *vocabs, 3))
    assert [len(batch.src) for batch in batches] == [3, 1]
    assert batches[0].src.tolist() == make_batch(PAIRS, *vocabs).src.tolist()
    assert vocabs[1].to_tokens(batches[1].tgt_out) == [["allez", "y", "<eos>"]]


@pytest.mark.parametrize("by_length", [False, True])
def test_a_seed_gives_the_same_batches_and_every_pass_another_order(by_length):
    pairs, vocab = many(97)

    def loader(seed):
        return data_loader(pairs, vocab, vocab, 8, generator=seeded(seed), by_length=by_length)

    first, again = loader(3), loader(3)
    passes = [numbers(first), numbers(first)]
    assert passes == [numbers(again), numbers(again)]
    assert passes[0] != passes[1]
    assert numbers(loader(4)) not in passes
    for one in passes:
        words = sorted(sentence[0] for batch in one for sentence in batch)
        assert words == sorted(vocab[pair.source[0]] for pair in pairs)
        assert [len(batch) for batch in one] == [8] * 12 + [1]


def test_a_pass_leaves_the_global_random_numbers_alone():
    pairs, vocab = many(11)
    before = torch.get_rng_state()
    numbers(data_loader(pairs, vocab, vocab, 4, generator=seeded(0)))
    numbers(data_loader(pairs, vocab, vocab, 4, generator=seeded(0), by_length=True))
    numbers(data_loader(pairs, vocab, vocab, 4))
    assert torch.equal(torch.get_rng_state(), before)


def test_shuffled_batches_hold_similar_lengths():
    lengths = [i * 37 % 23 for i in range(648)]
    batches = list(SimilarLengths(lengths, 16, seeded(0)))
    assert sorted(i for batch in batches for i in batch) == list(range(648))
    assert len(batches) == len(SimilarLengths(lengths, 16, seeded(0))) == 41
    assert [len(batch) for batch in batches] == [16] * 40 + [8]
    spread = [max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in batches]
    assert max(spread[:-1]) <= 3
    one_pool = [lengths[batch[0]] for batch in SimilarLengths(lengths[:320], 16, seeded(0))]
    assert one_pool != sorted(one_pool)


def test_batch_errors(vocabs):
    with pytest.raises(ValueError, match="pairs must not be empty"):
        make_batch([], *vocabs)
    with pytest.raises(ValueError, match="pairs must not be empty"):
        data_loader([], *vocabs, 2)
    with pytest.raises(ValueError, match="batch_size must be positive, got 0"):
        data_loader(PAIRS, *vocabs, 0)
    with pytest.raises(ValueError, match="by_length shuffles, so it needs a generator, got None"):
        data_loader(PAIRS, *vocabs, 2, by_length=True)
