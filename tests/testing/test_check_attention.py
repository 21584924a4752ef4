"""Every known mistake is found by the property that names it; what is right passes."""

import textwrap

import pytest
import torch
import torch.nn.functional as F
from d2l_oracle import load_d2l
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    dot_product_attention,
)
from d2l_attention.testing import PROPERTIES, check_attention
from d2l_attention.variants import GroupedQueryAttention

NAMES = [known.name for known in PROPERTIES]
LABELS = {"FAILS", "-", "ok", ""}
SHAPE, KEYS, QUERIES, SENTENCES, SUM, EVERY, PADDING, NOTHING, FUTURE, INPUTS = NAMES
PLAIN = """
def attend(queries, keys, values, valid_lens=None, is_causal=False):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    visible = torch.ones_like(scores, dtype=torch.bool)
    if valid_lens is not None:
        visible &= torch.arange(keys.shape[1]) < valid_lens[:, None, None]
    if is_causal:
        visible &= torch.ones_like(visible[0]).tril()
    scores = scores.masked_fill(~visible, -1e9)
    weights = scores.softmax(-1).masked_fill(~visible, 0.0)
    return weights @ values
"""
HEADS = """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(12, 12) for _ in range(4))

    def split(self, X):
        return X.reshape(*X.shape[:2], 3, 4).transpose(1, 2)

    def forward(self, queries, keys, values, valid_lens=None, is_causal=False):
        q, k, v = (self.split(W(X)) for W, X in (
            (self.W_q, queries), (self.W_k, keys), (self.W_v, values)))
        scores = q @ k.mT / 2
        visible = torch.ones(len(q), 1, q.shape[2], k.shape[2], dtype=torch.bool)
        if valid_lens is not None:
            visible &= torch.arange(k.shape[2]) < valid_lens[:, None, None, None]
        if is_causal:
            visible &= torch.ones_like(visible[0, 0]).tril()
        weights = scores.masked_fill(~visible, -1e9).softmax(-1).masked_fill(~visible, 0.0)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))
"""
ON_DEVICE = {
    "dtype=torch.bool)\n": "dtype=torch.bool, device=q.device)\n",
    "arange(k.shape[2])": "arange(k.shape[2], device=k.device)",
}
# What is written instead of what, and the properties that must fail, no others.
MISTAKES = {
    "no softmax": ({"scores.softmax(-1)": "scores"}, {SUM}),
    "softmax over the queries": ({"softmax(-1)": "softmax(1)"}, {QUERIES, SUM, FUTURE}),
    "softmax over the batch": ({"softmax(-1)": "softmax(0)"}, {SENTENCES, SUM, PADDING}),
    "mask behind the softmax": (
        {"scores = scores.masked_fill(~visible, -1e9)": "pass"},
        {PADDING, FUTURE},
    ),
    "mask inverted": (
        {
            "masked_fill(~visible, -1e9)": "masked_fill(visible, -1e9)",
            "(~visible, 0.0)": "(visible, 0)",
        },
        {EVERY, PADDING, FUTURE},
    ),
    "no mask": (
        {"masked_fill(~visible, -1e9)": "clone()", ".masked_fill(~visible, 0.0)": ""},
        None,
    ),
    "minus infinity": ({"-1e9": "-torch.inf", ".masked_fill(~visible, 0.0)": ""}, {NOTHING}),
    "equal weights over padding": ({".masked_fill(~visible, 0.0)": ""}, {NOTHING}),
    "one key too many": ({"< valid_lens": "<= valid_lens"}, {PADDING, NOTHING}),
    "one key too few": ({"None, None]\n": "None, None] - 1\n"}, {PADDING}),
    "lengths hide queries": (
        {
            "visible &= torch.arange(keys.shape[1]) < valid_lens[:, None, None]": (
                "visible &= (torch.arange(queries.shape[1]) < valid_lens[:, None])[..., None]"
            )
        },
        {PADDING},
    ),
    "causal mask transposed": ({"tril()": "triu()"}, {FUTURE}),
    "causal mask one off": ({"tril()": "tril(1)"}, {FUTURE}),
    "lengths in place of the causal mask": ({"if is_causal:": "elif is_causal:"}, {FUTURE}),
    "the causal mask in place of lengths": (
        {"if valid_lens is not None:": "if valid_lens is not None and not is_causal:"},
        {PADDING},
    ),
    "only the diagonal": (
        {"queries @ keys.mT": "torch.diag_embed((queries * keys[:, :queries.shape[1]]).sum(-1))"},
        None,
    ),
    "values in another order": ({"@ values": "@ values.flip(1)"}, None),
    "inputs scaled in place": (
        {"queries @ keys.mT / queries.shape[-1] ** 0.5": "queries.div_(2) @ keys.mT"},
        None,
    ),
    "mean over the batch": ({"return weights": "return weights.mean(0)"}, None),
    "swapped output": ({"weights @ values": "(weights @ values).mT"}, None),
    "scores that cannot learn": ({"scores.softmax(-1)": "scores.softmax(-1).detach()"}, {EVERY}),
    "values that cannot learn": ({"weights @ values": "weights @ values.detach()"}, {EVERY}),
    "infinite in a corner": ({"return weights @": "return weights / weights.ne(0) @"}, None),
}
MISTAKES_IN_HEADS = {
    "view in place of transpose": (
        {"X.reshape(*X.shape[:2], 3, 4).transpose(1, 2)": "X.reshape(len(X), 3, -1, 4)"},
        {QUERIES, KEYS},
    ),
    "a mask (B, Q, K), right only where B is not H": (
        {
            "(len(q), 1, q": "(len(q), q",
            "[:, None, None, None]": "[:, None, None]",
            "[0, 0]": "[0]",
        },
        {SENTENCES, PADDING},
    ),
    "heads put back by view": (
        {".transpose(1, 2).flatten(2)": ".reshape(len(q), -1, 12)"},
        {QUERIES},
    ),
    "causal only while training": ({"if is_causal:": "if is_causal and self.training:"}, {FUTURE}),
    "causal only in eval mode": (
        {"if is_causal:": "if is_causal and not self.training:"},
        {FUTURE},
    ),
}


def written(source, edits=()):
    for old, new in dict(edits).items():
        assert old in source, old
        source = source.replace(old, new)
    names = {"torch": torch, "nn": nn}
    exec(textwrap.dedent(source), names)
    torch.manual_seed(0)
    return names["Heads"]() if "Heads" in names else names["attend"]


@pytest.mark.parametrize("source", [PLAIN, HEADS], ids=["plain", "heads"])
def test_what_is_right_passes_everything(source):
    report = check_attention(written(source))
    assert report.ok and report.passed == NAMES, str(report)


@pytest.mark.parametrize(("edits", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_of_a_function(edits, expected):
    report = check_attention(written(PLAIN, edits))
    assert report.failed
    assert expected is None or expected <= set(report.failed), str(report)


@pytest.mark.parametrize(("edits", "expected"), MISTAKES_IN_HEADS.values(), ids=MISTAKES_IN_HEADS)
def test_mistakes_of_a_layer_with_heads(edits, expected):
    report = check_attention(written(HEADS, edits))
    assert expected <= set(report.failed), str(report)


@pytest.mark.parametrize(
    "attention",
    [
        DotProductAttention(0.3),
        AdditiveAttention(8, 0.3),
        MultiHeadAttention(12, 3, 0.3),
        GroupedQueryAttention(12, 6, 2, 0.3),
        dot_product_attention,
        lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    ],
    ids=["dot", "additive", "heads", "grouped", "function", "kernel"],
)
def test_the_courses_layers_and_pytorchs_kernel(attention):
    report = check_attention(attention)
    assert report.passed == NAMES, str(report)


@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorchs_layer_as_a_user_calls_it(batch_first):
    """With ``need_weights`` left at True, a sentence of length 0 is NaN."""
    report = check_attention(nn.MultiheadAttention(12, 3, dropout=0.3, batch_first=batch_first))
    seen = "a sentence of length 0: there is NaN or infinity in the output"
    assert report.failed == {NOTHING: seen}, str(report)


@pytest.mark.parametrize("name", ["DotProductAttention", "AdditiveAttention", "MultiHeadAttention"])
def test_what_is_known_of_d2l(name):
    """Padding gets equal weights where a sentence has length 0; nothing else can be seen."""
    sizes = {"DotProductAttention": (), "AdditiveAttention": (8,), "MultiHeadAttention": (12, 3)}
    report = check_attention(getattr(load_d2l(), name)(*sizes[name], 0.0))
    assert list(report.failed) == [NOTHING]
    assert list(report.not_tried) == [FUTURE]


def test_the_report_reads_like_a_page():
    """What fails comes first, and no line is too long for a page or a slide."""
    text = str(check_attention(written(PLAIN, {"tril()": "tril(1)"})))
    first, meaning, *seen = text.splitlines()
    assert first == "FAILS  the future changes nothing"
    assert meaning.startswith("       With a causal mask, later tokens change no earlier answer")
    assert (
        seen[0] == "       Seen: tokens from position 1 on were changed, in eval mode: the largest"
    )
    assert seen[1].startswith("         difference is ")
    assert "\nok     an answer for each query; keys in any order; " in text
    assert text.index("FAILS") < text.index("\nok ") and text.count("\nok ") == 1
    report = check_attention(lambda queries, keys, values: values)
    assert "-      padding changes nothing: it takes neither valid_lens nor a mask" in str(report)
    report = check_attention(lambda queries, keys, values: 1 / 0)
    assert report.failed[SHAPE] == "ZeroDivisionError: division by zero"
    assert "\nok " not in str(report)


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize(("edits", "_"), MISTAKES.values(), ids=MISTAKES)
def test_a_report_fits_88_columns_and_says_everything(edits, _):
    report = check_attention(written(PLAIN, edits))
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 88 and all(line[:7].strip() in LABELS for line in lines)
    said = flat(str(report))
    for known in PROPERTIES:
        assert known.name in said
        if known.name in report.failed:
            assert known.meaning in said and flat(f"Seen: {report.failed[known.name]}.") in said
            assert known.breaks in said


def test_it_leaves_the_layer_and_the_random_numbers_as_they_were():
    layer, state = nn.MultiheadAttention(12, 3, dropout=0.5), torch.get_rng_state()
    layer.train()
    before = [parameter.clone() for parameter in layer.parameters()]
    check_attention(layer)
    assert layer.training and torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, layer.parameters(), before))


@pytest.mark.parametrize("attention", [MultiHeadAttention(12, 3, 0.5), written(HEADS, ON_DEVICE)])
def test_nothing_is_made_on_another_device_than_the_layers(attention):
    """The default device stands for any other: what is made there does not mix with the layer's."""
    attention(*torch.zeros(3, 1, 2, 12))  # makes lazy parameters here
    with torch.device("meta"):
        report = check_attention(attention)
    assert report.passed == NAMES, str(report)


def test_a_function_gets_its_inputs_on_the_default_device():
    devices = set()

    def attend(queries, keys, values, mask):
        devices.update(X.device.type for X in (queries, keys, values, mask))
        return queries

    with torch.device("meta"):
        check_attention(attend)
    assert devices == {"meta"}


def test_generators_of_devices_that_are_not_used_are_left_alone(monkeypatch):
    """``torch.manual_seed`` would seed every device, and nobody gives these back."""
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    monkeypatch.setattr(torch.mps, "manual_seed", seeded.append)
    assert check_attention(MultiHeadAttention(12, 3, 0.5)).ok
    assert seeded == []


def test_what_is_changed_in_place_is_seen_in_half_precision_too():
    changing = written(PLAIN, {"scores = queries @": "scores = queries.div_(2) @"})
    report = check_attention(changing, dtype=torch.bfloat16)
    assert report.failed[INPUTS] == "queries were changed in place"


def test_what_cannot_be_called():
    with pytest.raises(TypeError, match="a layer or a function, got int"):
        check_attention(3)
    with pytest.raises(TypeError, match=r"must take queries, keys and values, got .*\['X'\]"):
        check_attention(lambda X: X)


def test_in_half_precision():
    right = written(PLAIN, {"-1e9": "torch.finfo(scores.dtype).min"})
    assert check_attention(right, dtype=torch.float16).passed == NAMES
    fills = {"scores.masked_fill(~visible, -1e9)": "scores.where(visible, scores.new_tensor(-1e9))"}
    zeros = {".masked_fill(~visible, 0.0)": " * visible"}
    broken = written(PLAIN, fills | zeros)
    assert check_attention(broken).ok and check_attention(broken, dtype=torch.bfloat16).ok
    assert set(check_attention(broken, dtype=torch.float16).failed) == {NOTHING}
    layer = MultiHeadAttention(12, 3, 0.0)
    layer(*(torch.zeros(1, 2, 12),) * 3)
    assert check_attention(layer.half(), dtype=torch.float16).ok


def test_where_nobody_asks_for_gradients():
    for quiet in (torch.no_grad(), torch.inference_mode()):
        with quiet:
            assert check_attention(written(PLAIN)).ok


def test_a_mask_that_must_be_given():
    def attend(queries, keys, values, mask):
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    assert check_attention(attend).passed == NAMES


def test_what_does_not_say_its_arguments():
    with pytest.raises(TypeError, match="wrap it in a function"):
        check_attention(F.scaled_dot_product_attention)


@pytest.mark.parametrize(
    "edits",
    [
        {"weights @ values": "2 * weights @ values"},
        {"weights @ values": "weights @ values + (~visible.any(-1, keepdim=True)) * 3.0"},
        {"queries.shape[-1] ** 0.5": "queries.shape[-1]"},
    ],
    ids=["doubled", "three where nothing is seen", "another scale"],
)
def test_what_the_ten_do_not_see(edits):
    """A layer may do more with its average: the names promise no sum of one, and no zeros."""
    assert check_attention(written(PLAIN, edits)).passed == NAMES
    assert not {"weights sum to one", "nothing to see is zero"} & {*NAMES}
