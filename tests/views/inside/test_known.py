"""The formula that a view shows is the one that ran, or there is none."""

import json

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    AddNorm,
    ALiBi,
    DotProductAttention,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionWiseFFN,
    RotaryEncoding,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder
from d2l_attention.variants import LinearAttention, SinkAttention
from d2l_attention.views import look_inside
from d2l_attention.views.inside.known import known

D, FFN, H = 8, 16, 2
HEADS = "head i = softmax(q · k / √d) v  of W_q X, W_k X, W_v X"


def said(shown):
    """The kinds of parts -> what is said of them."""
    run = json.loads(shown.run_text)
    return {part["kind"]: run["about"][part["about"]] for part in run["parts"]}


def block(**how):
    return TransformerEncoderBlock(D, FFN, H, 0.0, **how).eval()


def test_the_formula_of_a_block_gives_its_output():
    torch.manual_seed(0)
    X = torch.randn(1, 5, D)
    post, pre = block(), block(pre_norm=True)
    attention, network = pre.attention, pre.ffn
    first, second = pre.addnorm1.ln, pre.addnorm2.ln
    assert known(pre).formula == (
        "Y = norm(X),  X = X + attention(Y, Y, Y),  X = X + network(norm(X))"
    )
    Y = first(X)
    Z = X + attention(Y, Y, Y)
    assert_close(pre(X), Z + network(second(Z)))
    assert known(post).formula == "X = norm(X + attention(X, X, X)),  X = norm(X + network(X))"
    Z = post.addnorm1.ln(X + post.attention(X, X, X))
    assert_close(post(X), post.addnorm2.ln(Z + post.ffn(Z)))
    shown = said(look_inside(pre, X))
    assert shown["TransformerEncoderBlock"]["formula"] == known(pre).formula
    assert shown["AddNorm"]["formula"] == "X + Y"
    assert shown["AddNorm"]["does"] == "Adds what a part found to what came in."


def test_of_residual_connections_of_two_kinds_there_is_no_formula():
    mixed, bare, other = block(), block(), block()
    mixed.addnorm2 = AddNorm(D, 0.0, pre_norm=True)
    bare.addnorm1.ln = nn.Identity()
    other.addnorm1 = nn.Bilinear(D, D, D)
    assert [known(each).formula for each in (mixed, bare, other)] == ["", "", ""]
    assert known(AddNorm(D, 0.0)).formula == "norm(X + Y)"
    assert known(bare.addnorm1).formula == "" and "scale" not in known(bare.addnorm1).does
    decoder = TransformerDecoderBlock(D, FFN, H, 0.0, 0, pre_norm=True)
    assert "attention(norm(X), source, source)" in known(decoder).formula
    decoder.addnorm3.pre_norm = False
    assert known(decoder).formula == ""


@pytest.mark.parametrize(
    ("how", "encoded", "decoded"),
    [
        ({}, " + positions, then block after block", " + positions, block after block"),
        ({"pre_norm": True}, " + positions, block after block, then norm", ", norm, then a linear"),
        (
            {"positions": RotaryEncoding(D // H)},
            "D, then block after block",
            "√D, block after block, then",
        ),
    ],
)
def test_the_formula_of_a_stack(how, encoded, decoded):
    sizes = (13, D, FFN, H, 1, 0.0)
    assert known(TransformerEncoder(*sizes, **how)).formula.endswith(encoded)
    assert decoded in known(TransformerDecoder(*sizes, **how)).formula


def heads(bias=False, dropout=0.0, **how):
    layer = MultiHeadAttention(D, H, dropout, bias, **how)
    layer(*[torch.randn(1, 5, D)] * 3)
    return layer


def test_the_formula_of_heads_is_that_of_their_attention():
    assert known(heads()).formula == f"W_o · [head 1; ...; head H],  {HEADS}"
    assert known(heads(True)).formula.endswith("of W_q X + b_q, W_k X + b_k, W_v X + b_v")
    assert "head H] + b_o," in known(heads(True)).formula
    assert known(heads(positions=LearnedPositionalEncoding(D, 0.0))).formula.endswith(HEADS)
    for other in (AdditiveAttention(4, 0.0), LinearAttention(), SinkAttention(H, 0.0)):
        formula = known(heads(attention=other)).formula
        assert formula.endswith("head i = attention(q, k, v)  of W_q X, W_k X, W_v X")
    for positions in (RotaryEncoding(D // H), ALiBi(H)):
        assert known(heads(positions=positions)).formula == ""
    layer = heads()
    layer.W_q = nn.Sequential(nn.Linear(D, D), nn.ReLU())
    assert known(layer).formula == ""


def test_the_formula_of_a_score_and_of_a_network():
    layer, decoder = AdditiveAttention(4, 0.0), Seq2SeqAttentionDecoder(13, 5, D, 1)
    layer(*[torch.randn(1, 5, D)] * 3)
    assert known(layer).formula == "softmax(w_v · tanh(W_q q + W_k k)) v"
    assert known(decoder).formula == "context = Σ softmax(w_v · tanh(W_q s + W_k h)) h"
    layer.W_q = decoder.attention.W_q = nn.Linear(D, D)  # with a bias
    assert known(layer).formula == known(decoder).formula == ""
    ffn = PositionWiseFFN(FFN, D)
    ffn(torch.randn(1, D))
    assert known(ffn).formula == "W₂ · max(0, W₁ x + b₁) + b₂"
    ffn.relu = nn.GELU()
    assert known(ffn).formula == "" and known(ffn).chapter == 8


def test_an_attention_with_a_bias_on_its_scores_has_no_formula():
    X, layer = torch.randn(1, 5, D), DotProductAttention(0.0)

    def formula(**how):
        return said(look_inside(layer, X, X, X, **how))["DotProductAttention"]["formula"]

    assert formula() == "softmax(q · k / √d) v"
    assert formula(bias=torch.randn(5, 5)) == ""


def test_of_a_subclass_nothing_is_said_but_of_positions():
    class Shifted(nn.Dropout):
        def forward(self, X):
            return X + 1

    class Low(nn.Linear):
        pass

    assert known(SinkAttention(H, 0.0)) is known(Shifted()) is known(Low(1, 1)) is None
    assert known(nn.Linear(1, 1)).does == "Multiplies each token by a matrix."
    assert known(ALiBi(H)).does == "Tells each token where it stands."
