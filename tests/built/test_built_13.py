"""Chapter 13's own attention, which models of the library call."""

import pytest
import torch
from builds import built

from d2l_attention import causal_mask, dot_product_attention, masked_softmax

page = built("13")
B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13  # all different: a swapped axis cannot pass


@pytest.mark.parametrize(
    "mask",
    [None, causal_mask(Q, K, offset=K - Q), torch.rand(B, 1, Q, K) < 0.5],
    ids=["none", "causal", "one for each text"],
)
def test_my_attention_equals_the_packages_and_changes_nothing(mask):
    if mask is not None:
        mask = mask.clone()
        mask[..., 0] = True  # the library opens rows that see nothing
    given = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, V)
    before = [X.clone() for X in given]
    outputs, weights = page["my_attention"](*given, mask=mask)
    torch.testing.assert_close(outputs, dot_product_attention(*given, mask=mask))
    scores = given[0] @ given[1].mT / D**0.5
    torch.testing.assert_close(weights, masked_softmax(scores, mask=mask))
    assert all(map(torch.equal, given, before))
