import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, create_mask, flex_attention
from torch.testing import assert_close

from d2l_attention import causal_mask, dot_product_attention, sliding_window_mask
from d2l_attention.variants import flex

B, H, Q, K = 3, 2, 11, 13
RULES = {
    "causal": (flex.causal_rule, causal_mask(Q, K)),
    "window": (flex.window_rule(3), sliding_window_mask(Q, K, window=3)),
    "causal window": (
        and_masks(flex.causal_rule, flex.window_rule(3)),
        causal_mask(Q, K) & sliding_window_mask(Q, K, window=3),
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


def test_a_window_has_a_size():
    with pytest.raises(ValueError, match="window must be a whole number"):
        flex.window_rule(-1)
