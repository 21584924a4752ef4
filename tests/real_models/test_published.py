"""The figures of a published BERT, made of a tiny one that the test saves in a folder."""

import json
import math
import sys

import pytest
import torch
import transformers
from small_models import READERS
from torch.testing import assert_close

from d2l_attention.real_models import published, use_attention
from d2l_attention.real_models.published import COMPOUNDS, FRAME, SENTENCES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two layers with four heads, whose tokenizer knows the words of the sentences."""
    folder = tmp_path_factory.mktemp("published")
    text = " ".join([*SENTENCES, *COMPOUNDS, FRAME.format("")]).lower()
    words = sorted(set(text.replace(".", " .").replace(",", " ,").split()))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), "utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    model = READERS["BERT"](vocab_size=len(vocabulary)).bert
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return published.measure(folder)


def test_looks_by_hand():
    """[CLS] a b c [SEP]: three words, two of which have a word before them."""
    map_ = torch.zeros(1, 1, 5, 5)
    map_[0, 0, 1, 0] = 0.3  # a looks at [CLS], which is no word before it
    map_[0, 0, 2, 1], map_[0, 0, 3, 2] = 0.6, 0.2  # words look at the word before
    map_[0, 0, 1, 2] = 0.7  # a looks at the word after it
    map_[0, 0, 3, 4] = 0.9  # c looks at [SEP]
    map_[0, 0, 3, 3] = 0.6  # c looks at itself
    map_[0, 0, 0], map_[0, 0, 4, :4] = 1.0, 1.0  # [CLS] and [SEP] are no words
    by_hand = {"token before": 0.4, "token after": 0.35, "itself": 0.2, "[CLS]": 0.1, "[SEP]": 0.3}
    found = published.looks(map_)
    assert found.keys() == by_hand.keys()
    for place, weight in by_hand.items():
        assert found[place].item() == pytest.approx(weight)


def test_the_best_heads_are_called_by_layer_and_number():
    maps = torch.zeros(2, 3, 4, 4)  # [CLS] a b [SEP]
    maps[1, 2, 2, 1], maps[0, 1, 2, 1] = 0.8, 0.5
    assert published.best_heads([maps], 2)["token before"] == [["2.3", 0.8], ["1.2", 0.5]]


def test_all_that_is_stored_is_measured(found, folder):
    stored = published.stored()
    assert stored.keys() == found.keys() and stored["looks"].keys() == found["looks"].keys()
    assert stored["order"].keys() == found["order"].keys()
    assert found["the same"] and stored["the same"]
    weights = torch.tensor([*found["maps"].values()])
    assert weights.shape[1:] == (len(found["tokens"]),) * 2
    assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2]), atol=0.02, rtol=0)
    again = published.measure(folder)
    assert json.dumps(again) == json.dumps(found)


def test_one_head_away_is_that_head(folder):
    model = transformers.AutoModel.from_pretrained(folder).eval()
    X = torch.randint(5, 60, (2, 9))
    with torch.no_grad():
        own = model(X)[0]
        model.encoder.layer[1].attention.output.dense.weight[:, 8:16] = 0  # head 2 of 4, 8 wide
        expected = model(X)[0]
        model = transformers.AutoModel.from_pretrained(folder).eval()
        with use_attention(model, published.silent(published.plain, 1), layers=[1]):
            silent = model(X)[0]
        names = []
        for name in published.each_head_away(model, lambda h: published.blind(published.plain, h)):
            names.append(name)
            assert (model(X)[0] - own).abs().max() > 1e-4
    assert names == [f"{layer}.{head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
    assert_close(silent, expected)
    assert_close(model(X)[0].detach(), own)


def test_a_blind_head_gives_the_mean_of_what_it_sees():
    queries, keys, values = torch.randn(3, 2, 4, 5, 7)
    mask = torch.arange(5) < 3
    outputs = published.blind(published.plain, 2)(queries, keys, values, mask=mask)
    assert_close(outputs[:, 2], values[:, 2, :3].mean(dim=-2, keepdim=True).expand(2, 5, 7))
    own = published.plain(queries, keys, values, mask=mask)
    assert_close(outputs[:, :2], own[:, :2])
    expected = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask[None]
    )
    assert_close(own, expected)


def test_another_attention_is_not_the_same(folder):
    def uniform(queries, keys, values, mask=None):
        return published.plain(0 * queries, keys, values, mask), None

    found = published.measure(folder, uniform)
    assert not found["the same"] and not math.isnan(found["order"]["whole"][0])


def test_the_command_prints_and_writes(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(published, "STORED", tmp_path / "figures.json")
    monkeypatch.setattr(sys, "argv", ["published", str(folder), "--write"])
    published.main()
    printed = capsys.readouterr().out
    stored = published.stored()
    for line in [*published.lines_of_looks(stored), *published.lines_of_order(stored)]:
        assert line in printed
    assert "within 1e-05: True" in printed
