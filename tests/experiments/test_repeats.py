"""The experiment of chapter 13: its sequences, its scores by hand, and two steps of it."""

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from d2l_attention.experiments import repeats
from d2l_attention.experiments.repeats import (
    blind,
    induction,
    looks_back,
    repeated,
    silent,
    small_llama,
    train,
)
from d2l_attention.real_models import use_attention


def test_the_second_half_is_the_first():
    ids = repeated(3, 5, torch.Generator().manual_seed(0))
    assert ids.shape == (3, 10) and torch.equal(ids[:, :5], ids[:, 5:])
    assert 0 <= ids.min() and ids.max() < len(repeats.LETTERS) == len(set(repeats.LETTERS))


def test_scores_by_hand():
    """Tokens a b a b. Behind the earlier copy of token 2 is token 1, behind that of 3 token 2."""
    weights = torch.zeros(1, 2, 4, 4)
    for query, key in ((1, 0), (2, 1), (3, 2)):
        weights[0, 0, query, key] = 0.6
    weights[0, 1, 2, 1], weights[0, 1, 3, 2] = 1.0, 0.5
    assert_close(looks_back(weights), torch.tensor([0.6, 0.5]))
    assert_close(induction(weights), torch.tensor([0.6, 0.75]))


def test_the_loss_is_that_of_the_second_half():
    model, ids = small_llama(1), repeated(2, 8, torch.Generator().manual_seed(0))
    log = model(input_ids=ids).logits.log_softmax(dim=-1)
    chosen = [log[b, i, ids[b, i + 1]] for b in range(2) for i in range(8, 15)]
    assert_close(repeats.loss_on_repeats(model, ids), -torch.stack(chosen).mean())


def test_a_blind_head_has_equal_weights_and_the_others_their_own():
    queries, keys, values = torch.randn(3, 2, 4, 5, 7)
    before, mask = queries.clone(), torch.ones(5, 5).tril().bool()
    outputs = blind(1)(queries, keys, values, mask=mask)
    expected = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask
    )
    expected[:, 1] = values[:, 1].cumsum(dim=-2) / torch.arange(1, 6)[:, None]
    assert_close(outputs, expected)
    assert torch.equal(queries, before)
    expected[:, 1] = 0  # its output, and the others' as before
    assert_close(silent(1)(queries, keys, values, mask=mask), expected)


def test_heads_that_look_back_at_least_half_as_much_as_the_first():
    assert repeats.looking(torch.tensor([0.1, 0.45, 0.8, 0.39])) == [2, 1]
    assert repeats.looking(torch.tensor([0.98, 0.27, 0.0, 0.0])) == [0]


def test_a_guesser_by_position_is_right_at_23_of_99_places():
    """8 to 16 tokens a half: each of 23 positions is right for one of the lengths it stands for."""
    by_chance = 76 / 99 / 64
    assert repeats.by_position() == pytest.approx(23 / 99 + by_chance, abs=0.003)


def test_what_layer_2_gets_from_a_run_without_damage_changes_nothing():
    model = small_llama(2)
    train(model, steps=30)
    model.eval()
    own = repeats.accuracy(model)
    assert repeats.with_damaged(model, []) == pytest.approx([own] * 5)
    with use_attention(model, blind(0, 1, 2, 3), layers=[0]):
        damaged = repeats.accuracy(model)
    assert repeats.with_damaged(model, [0, 1, 2, 3])[4] != own != damaged


def test_a_start_is_the_same_each_time_and_leaves_the_random_numbers_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    losses = [repeats.train(small_llama(2, seed=3), steps=2, seed=3) for _ in range(2)]
    assert losses[0] == losses[1] and losses[0][0] == pytest.approx(math.log(64), abs=0.2)
    assert torch.equal(torch.get_rng_state(), state)


def test_two_steps_of_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["repeats", "--starts", "1", "--steps", "2"])
    repeats.main()
    head, row = capsys.readouterr().out.splitlines()
    assert len(head) == len(row) and row.split()[0] == "0"
    assert len(row.split()) == 1 + len(repeats.COLUMNS.split("|"))
    numbers = [float(number) for number in row.split()[1:]]
    heads = numbers.pop(repeats.COLUMNS.split("|").index("heads"))
    assert heads in (1, 2, 3, 4) and all(0 <= number <= 1 for number in numbers)


@pytest.mark.parametrize(("shift", "expected"), [(1, 1.0), (0, 0.0)], ids=["right", "one off"])
def test_the_accuracy_is_that_of_the_second_half(shift, expected):
    class Knows(torch.nn.Module):
        def forward(self, input_ids):
            said = input_ids.roll(-shift, dims=1)
            said[:, : input_ids.shape[1] // 2] = 0  # wrong, and not counted
            return SimpleNamespace(logits=torch.nn.functional.one_hot(said, 64).float())

    assert repeats.accuracy(Knows()) == pytest.approx(expected, abs=0.03)
