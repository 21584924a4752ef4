"""An indexer chooses the keys of each query: what it scores, what it picks, what it follows."""

import pytest
import torch

from d2l_attention import causal_mask
from d2l_attention.variants import IndexedAttention, Indexer, best_keys, follow_loss

B, N, D, H, K = 2, 7, 6, 3, 4  # all different: a swapped axis cannot pass


def layer(num_chosen=K):
    made = IndexedAttention(D, H, num_chosen, index_heads=5, index_size=11)
    made(torch.randn(1, 2, D))  # the first call makes the attention's parameters
    return made


def test_the_scores_are_the_formula_s_pair_by_pair():
    torch.manual_seed(0)
    indexer, X = Indexer(D, 5, 11), torch.randn(B, N, D)
    scores = indexer(X)
    assert scores.shape == (B, N, N)
    for b, t, s in ((0, 0, 0), (1, 6, 2), (0, 3, 5)):
        queries = indexer.W_q(X[b, t]).view(5, 11)
        products = torch.relu(queries @ indexer.W_k(X[b, s]) / 11**0.5)
        torch.testing.assert_close(scores[b, t, s], indexer.W_w(X[b, t]) @ products)


def test_best_keys_by_hand():
    scores = torch.tensor([[5.0, 1, 3], [1, 2, 9], [7, 8, 9]])
    future = causal_mask(3)
    assert best_keys(scores, future, 1).tolist() == [[True, False, False], [False, True, False]] + [
        [False, False, True]
    ]
    assert best_keys(scores, None, 2)[0].tolist() == [True, False, True]
    ties = torch.tensor([[0.0, 2, 2, 0, 2, 0, 2, 0]])
    assert best_keys(ties, None, 3).tolist() == [[False, True, True, False, True] + [False] * 3]
    assert best_keys(ties, None, 6)[0, :4].all() and best_keys(ties, None, 6).sum() == 6
    lowest = torch.tensor([[0.0, -torch.inf, -torch.inf]])  # what is hidden is below even that
    assert best_keys(lowest, torch.tensor([False, True, True]), 2).tolist() == [[False, True, True]]
    nobody = torch.zeros(3, 3, dtype=torch.bool)
    assert not best_keys(scores, nobody, 2).any()


@pytest.mark.parametrize("k", [1, 3, 7, 20])
def test_each_query_gets_k_keys_or_all_that_it_sees(k):
    visible = causal_mask(N).expand(B, N, N) & (torch.arange(N) != 2)
    chosen = best_keys(torch.randn(B, N, N), visible, k)
    assert torch.equal(chosen.sum(-1), visible.sum(-1).clamp(max=k))
    assert not (chosen & ~visible).any()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lens", [None, [7, 3]])
def test_with_all_keys_it_is_multi_head_attention(is_causal, lens):
    torch.manual_seed(0)
    whole, X = layer(num_chosen=N), torch.randn(B, N, D)
    valid_lens = None if lens is None else torch.tensor(lens)
    found, _ = whole(X, valid_lens, is_causal=is_causal)
    expected = whole.attention(X, X, X, valid_lens, is_causal=is_causal)
    torch.testing.assert_close(found, expected)


def test_another_layer_s_choice_is_used_and_still_masked():
    torch.manual_seed(0)
    first, second, X = layer(2), layer(2), torch.randn(B, N, D)
    _, chosen = first(X)
    output, used, weights = second(X, is_causal=True, chosen=chosen, need_weights=True)
    assert torch.equal(used, chosen & causal_mask(N))
    assert not weights[~used[:, None].expand_as(weights)].any()
    torch.testing.assert_close(output, second.attention(X, X, X, mask=used))


def test_following_is_zero_where_the_softmax_is_the_attention_and_positive_elsewhere():
    weights = torch.rand(B, 1, N, N).softmax(dim=-1)
    assert follow_loss(weights[:, 0].log(), weights).abs() < 1e-6
    assert follow_loss(torch.zeros(B, N, N), weights) > 0


def test_following_by_hand_with_hidden_keys_and_a_query_that_sees_nothing():
    weights = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])  # query 1 sees nothing
    visible = torch.tensor([[[True, False], [False, False]]])
    scores = torch.tensor([[[0.0, 50.0], [3.0, 3.0]]], requires_grad=True)
    loss = follow_loss(scores, weights, visible)
    assert loss.abs() < 1e-6
    (gradient,) = torch.autograd.grad(loss, scores)
    assert gradient.isfinite().all() and gradient[0, 0, 1] == 0


def test_training_follows_and_leaves_the_attention_alone():
    torch.manual_seed(0)
    made, X = layer(), torch.randn(B, N, D)
    _, weights = made.attention(X, X, X, need_weights=True)
    optimizer = torch.optim.Adam(made.indexer.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = follow_loss(made.indexer(X), weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert all(p.grad is None for p in made.attention.parameters())


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="num_chosen"):
        IndexedAttention(D, H, 0, index_heads=2, index_size=3)
    with pytest.raises(ValueError, match=r"\(B, n, num_hiddens\), got \(7, 6\)"):
        layer()(torch.randn(N, D))
