import pytest
import torch
from torch.testing import assert_close

from d2l_attention import DotProductAttention, KeyValueCache, MultiHeadAttention, attention_mask
from d2l_attention.variants.chosen_blocks import ChosenBlocksAttention, chosen_blocks_mask

B, H, N, D, V = 2, 3, 11, 5, 7  # the last block of 4 has three tokens
LENS = {"none": None, "padded": torch.tensor([6, 0]), "per query": torch.randint(0, N + 1, (B, N))}
MASKS = {"none": None, "one": torch.rand(N, N) < 0.6}


def inputs(seed=0):
    torch.manual_seed(seed)
    return [torch.randn(B, H, N, size, dtype=torch.float64) for size in (D, D, V)]


def by_hand(queries, keys, visible, block_size, num_chosen, is_causal):
    """One query after the other, with lists."""
    result = torch.zeros_like(visible)
    blocks = [range(a, min(a + block_size, N)) for a in range(0, N, block_size)]
    for b in range(B):
        for h in range(H):
            for i in range(N):
                own, means = i // block_size, []
                for block in blocks:
                    rows = [keys[b, h, j] for j in block if visible[b, h, i, j]]
                    means.append(torch.stack(rows).mean(0) if rows else torch.zeros(D).double())
                scored = [
                    (float(queries[b, h, i] @ means[k]), k)
                    for k, block in enumerate(blocks)
                    if (k < own if is_causal else k != own) and visible[b, h, i, list(block)].any()
                ]
                for k in [own, *(k for _, k in sorted(scored, reverse=True)[:num_chosen])]:
                    result[b, h, i, list(blocks[k])] = True
    return result & visible


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("num_chosen", [0, 1, 2])
def test_the_choice_block_by_block(lens, mask, is_causal, num_chosen):
    queries, keys, _ = inputs()
    options = dict(mask=mask, is_causal=is_causal)
    visible = attention_mask((B, H, N, N), lens, **options)
    visible = torch.ones(B, H, N, N).bool() if visible is None else visible.expand(B, H, N, N)
    mine = chosen_blocks_mask(queries, keys, lens, block_size=4, num_chosen=num_chosen, **options)
    assert torch.equal(mine, by_hand(queries, keys, visible, 4, num_chosen, is_causal))


@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("need_weights", [False, True])
def test_all_blocks_chosen_is_plain_attention(is_causal, need_weights):
    given, lens = inputs(), torch.tensor([6, 11])
    options = dict(is_causal=is_causal, need_weights=need_weights)
    layer = ChosenBlocksAttention(4, 3, 0.0)
    assert_close(layer(*given, lens, **options), DotProductAttention(0.0)(*given, lens, **options))


def test_it_finds_the_block_that_was_made_for_it():
    """Keys of block 2 point along the query, all others against it."""
    keys = -torch.ones(1, 12, D)
    keys[:, 8:] = 1.0
    mask = chosen_blocks_mask(torch.ones(1, 12, D), keys, block_size=4, num_chosen=1)
    assert mask[0, 0].tolist() == [True] * 4 + [False] * 4 + [True] * 4


def test_it_misses_a_single_key_whose_block_points_elsewhere():
    keys = torch.zeros(1, 8, 1)
    keys[:, 4:] = torch.tensor([[9.0], [-4.0], [-4.0], [-4.0]])
    queries = torch.ones(1, 12, 1)
    keys = torch.cat((keys, torch.zeros(1, 4, 1)), dim=1)
    mask = chosen_blocks_mask(queries, keys, block_size=4, num_chosen=1, is_causal=True)
    assert not mask[0, 11, 4] and mask[0, 11, 0]


def test_token_by_token():
    torch.manual_seed(0)
    heads = MultiHeadAttention(12, H, 0.0, attention=ChosenBlocksAttention(4, 1, 0.0)).double()
    X = torch.randn(B, N, 12, dtype=torch.float64)
    whole, cache = heads(X, X, X, is_causal=True), KeyValueCache()
    steps = [heads(x, x, x, is_causal=True, cache=cache) for x in X.split(1, dim=1)]
    assert_close(torch.cat(steps, dim=1), whole)


def test_errors():
    queries, keys, _ = inputs()
    with pytest.raises(ValueError, match="block_size must be a whole number from 1 on, got 0"):
        chosen_blocks_mask(queries, keys, block_size=0, num_chosen=1)
    with pytest.raises(ValueError, match="num_chosen must be a whole number from 0 on, got -1"):
        ChosenBlocksAttention(4, -1, 0.0)
