"""The pretended accelerator itself: it computes, and it refuses to mix."""

import pytest
import torch
from pretended import NAME
from torch import nn


def ours(*numbers):
    return torch.tensor(numbers, device=NAME)


def test_by_hand():
    X = ours([1.0, 2.0], [3.0, 4.0])
    assert X.device.type == NAME and not X.is_cpu
    assert (X @ X).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert (X + 6).tolist() == [[7.0, 8.0], [9.0, 10.0]]
    assert (ours(7, 8) % 6).tolist() == [1, 2]
    assert X.sum().item() == 10.0


def test_copies_move_and_share_nothing():
    X = torch.arange(6.0).reshape(2, 3)
    there = X.to(NAME)
    back = there.cpu()
    assert there.device.type == NAME and back.device.type == "cpu" and torch.equal(X, back)
    there[0, 0] = 9.0
    assert X[0, 0] == 0.0 and back[0, 0] == 0.0


def test_views_share_their_memory():
    X = ours([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    X.T[2, 0] = 9.0
    X[1, 1:].zero_()
    assert X.tolist() == [[1.0, 2.0, 9.0], [4.0, 0.0, 0.0]]


def test_factories_and_sizes_that_are_found_later():
    assert torch.arange(2, 5, device=NAME).tolist() == [2, 3, 4]
    assert torch.eye(2, device=NAME).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert ours(0, 3, 0, 5).nonzero().tolist() == [[1], [3]]
    assert ours(0, 3)[ours(True, False)].tolist() == [0]
    assert torch.empty(0, 3, device=NAME).shape == (0, 3)


def test_gradients_arrive():
    X = ours(1.0, 2.0, 3.0).requires_grad_()
    (X * X)[1:].sum().backward()
    assert X.grad.device.type == NAME and X.grad.tolist() == [0.0, 4.0, 6.0]


def test_gradients_of_what_is_written_to_a_view():
    X = ours(1.0, 2.0).requires_grad_()
    whole = torch.zeros(3, 2, device=NAME)
    whole[1] = X
    (whole * ours([5.0, 5.0], [3.0, 4.0], [5.0, 5.0])).sum().backward()
    assert X.grad.tolist() == [3.0, 4.0]


MIXED = {
    "a sum": lambda X, here: X + here,
    "the other way round": lambda X, here: here + X,
    "a product": lambda X, here: X @ here,
    "written to ours": lambda X, here: X.add_(here),
    "written to the CPU's": lambda X, here: here.add_(X),
    "a number that is written to": lambda X, here: torch.zeros(()).add_(X.sum()),
    "a mask": lambda X, here: X.masked_fill(here > 0, 0.0),
    "a choice": lambda X, here: torch.where(here > 0, X, X),
    "joined": lambda X, here: torch.cat((X, here)),
    "gathered": lambda X, here: X.gather(0, here.long()),
    "selected": lambda X, here: X.index_select(0, here[0].long()),
    "looked up": lambda X, here: nn.functional.embedding(here.long(), X),
    "an index of ours for the CPU's": lambda X, here: here[X.long()],
    "what is stored at an index": lambda X, here: X.index_put_((ours(0),), here[0]),
    "attention": lambda X, here: nn.functional.scaled_dot_product_attention(X, X, here),
    "a mask of attention": lambda X, here: nn.functional.scaled_dot_product_attention(
        X, X, X, attn_mask=here > 0
    ),
    "a layer that was not moved": lambda X, here: nn.Linear(2, 2)(X),
    "a generator": lambda X, here: torch.rand(2, device=NAME, generator=torch.Generator()),
}


@pytest.mark.parametrize("mixed", MIXED.values(), ids=MIXED)
def test_it_refuses_to_mix(mixed):
    X, here = torch.ones(2, 2, device=NAME), torch.ones(2, 2)
    with pytest.raises(
        (RuntimeError, IndexError), match="Expected|expected|same device|on cpu|indices"
    ):
        mixed(X, here)


def test_numbers_and_indices_may_be_on_the_cpu():
    X = ours([1.0, 2.0], [3.0, 4.0])
    assert (X + torch.tensor(1.0)).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert X[torch.tensor([1])].tolist() == [[3.0, 4.0]]
    X[torch.tensor([0])] = 0.0
    assert X.tolist() == [[0.0, 0.0], [3.0, 4.0]]
