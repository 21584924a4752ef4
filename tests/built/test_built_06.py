"""Chapter 6's own multi-head attention, as a loop and as one layer."""

import pytest
import torch
from builds import built

from d2l_attention import MultiHeadAttention

page = built("06")
B, H, Q, K = 2, 3, 5, 7  # all different: a swapped axis cannot pass
SIZES = 11, 13, 17  # of queries, keys and values


def inputs():
    rows = zip((Q, K, K), SIZES, strict=True)
    return tuple(torch.randn(B, n, size) for n, size in rows)


@pytest.mark.parametrize(
    "lens",
    [None, torch.tensor([K, 0]), torch.tensor([[1, 4, 0, 7, 2], [3, 0, 7, 5, 6]])],
    ids=["all", "one-a-sentence", "one-a-query"],
)
def test_the_layer_equals_the_packages_and_changes_nothing(lens):
    plain = page["PlainMultiHeadAttention"](num_hiddens=6, num_heads=H, dropout=0.0)
    package = MultiHeadAttention(num_hiddens=6, num_heads=H, dropout=0.0)
    given = inputs()
    before = [X.clone() for X in given]
    output = plain(*given, lens)
    package.load_state_dict(plain.state_dict(), strict=True)
    torch.testing.assert_close(output, package(*given, lens))
    torch.testing.assert_close(plain.attention_weights, package.attention_weights)
    assert all(map(torch.equal, given, before))
    if lens is not None:
        assert (output[1, 1] == 0).all() and not output.isnan().any()  # length 0 in both


def test_the_loop_over_heads_equals_the_layer():
    plain = page["PlainMultiHeadAttention"](num_hiddens=6, num_heads=H, dropout=0.0)
    given = inputs()
    output = plain(*given)
    loop = page["loop_over_heads"](*given, *plain.parameters(), num_heads=H)
    torch.testing.assert_close(loop, output)


def test_dropout_acts_on_the_weights_while_training():
    plain = page["PlainMultiHeadAttention"](num_hiddens=6, num_heads=H, dropout=0.5)
    given = inputs()
    kept = plain.eval()(*given)
    torch.manual_seed(0)
    assert not torch.allclose(plain.train()(*given), kept)
    torch.testing.assert_close(plain.eval()(*given), kept)
