import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, create_mask, flex_attention, or_masks
from torch.testing import assert_close

from d2l_attention import (
    attention_mask,
    causal_mask,
    dot_product_attention,
    global_tokens_mask,
    sliding_window_mask,
)
from d2l_attention.variants import flex

B, H, Q, K = 3, 2, 11, 13
LENS = torch.tensor([13, 4, 0])
IS_GLOBAL = torch.arange(K) % 5 == 2
RULES = {
    "causal": (flex.causal_rule, causal_mask(Q, K)),
    "window": (flex.window_rule(3), sliding_window_mask(Q, K, window=3)),
    "lengths": (flex.length_rule(LENS, K), attention_mask((B, H, Q, K), LENS)),
    "global": (flex.global_rule(IS_GLOBAL), global_tokens_mask(IS_GLOBAL)[:Q]),
    "causal window": (
        and_masks(flex.causal_rule, flex.window_rule(3)),
        causal_mask(Q, K) & sliding_window_mask(Q, K, window=3),
    ),
    "window or global": (
        or_masks(flex.window_rule(1), flex.global_rule(IS_GLOBAL)),
        sliding_window_mask(Q, K, window=1) | global_tokens_mask(IS_GLOBAL)[:Q],
    ),
}


@pytest.mark.parametrize(("rule", "mask"), RULES.values(), ids=RULES)
def test_a_rule_is_the_mask(rule, mask):
    assert torch.equal(create_mask(rule, B, H, Q, K, device="cpu"), mask.expand(B, H, Q, K))


@pytest.mark.parametrize(("rule", "mask"), RULES.values(), ids=RULES)
def test_flex_attention_under_the_rule(rule, mask):
    """Its eager path, which is for checking: it builds the whole matrix and says so."""
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(B, H, n, 16) for n in (Q, K, K))
    block_mask = torch.nn.attention.flex_attention.create_block_mask(
        rule, B, H, Q, K, device="cpu", BLOCK_SIZE=4
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        output = flex_attention(queries, keys, values, block_mask=block_mask)
    expected = dot_product_attention(queries, keys, values, mask=mask)
    seeing = mask.expand(B, H, Q, K).any(-1)
    assert_close(output[seeing], expected[seeing])


def test_compiles_where_there_is_a_compiler(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(flex.shutil, "which", lambda name: None)
    assert "no C++ compiler" in flex.why_not_compiled()
    monkeypatch.setattr(flex.shutil, "which", lambda name: "/bin/g++" if name == "g++" else None)
    assert flex.why_not_compiled() is None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: flex.window_rule(-1), ValueError, "window must be a whole number"),
        (lambda: flex.length_rule(torch.ones(2), 3), TypeError, "integers"),
        (lambda: flex.length_rule(torch.tensor([4]), 3), ValueError, "between 0 and"),
        (lambda: flex.length_rule(torch.ones(2, 2).long(), 3), ValueError, r"shape \(B,\)"),
        (lambda: flex.global_rule(torch.ones(3)), TypeError, "boolean"),
        (lambda: flex.global_rule(torch.ones(3, 3).bool()), ValueError, r"shape \(n,\)"),
    ],
)
def test_errors(make, error, words):
    with pytest.raises(error, match=words):
        make()
