"""``compare``, and ``watch`` of an exercise: two runs, and the first name that differs."""

import base64
import json
import random
from collections import deque, namedtuple
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from d2l_attention import KeyValueCache, MultiHeadAttention, masked_softmax
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.views import compare, watch

MASK = torch.tensor([[True, True, False], [True, False, False]])


def in_place(scores, mask):
    hidden = scores
    hidden[~mask] = -1.0
    return hidden


def sent(view):
    return json.loads(view.run_text)


def test_compare_opens_both_at_the_first_name_that_differs():
    def mine(scores, mask):
        hidden = scores.masked_fill(~mask, 0.0)
        weights = hidden.softmax(-1)
        return weights

    def theirs(scores, mask):
        filler = -torch.inf
        hidden = scores.masked_fill(~mask, filler)
        weights = hidden.softmax(-1)
        return weights

    scores = torch.randn(2, 3)
    both = compare(mine, theirs, scores, MASK)
    assert (both.name, both.mine.step, both.theirs.step) == ("hidden", 1, 2)
    assert both.mine.title == "mine: hidden differs here"
    assert sent(both.mine)["scales"] == sent(both.theirs)["scales"]
    data, metadata = both._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert "hidden differs" in data["text/plain"]
    same = compare(theirs, theirs, scores, MASK)
    assert same.name is None and "no name of the same shape differs" in repr(same)


def test_compare_gives_each_run_the_same_inputs_and_random_numbers():
    def draws(X):
        X += torch.rand(3)
        return X

    X = torch.zeros(3)
    assert compare(draws, draws, X).name is None
    assert X.tolist() == [0, 0, 0]


def test_compare_gives_each_run_the_same_generators_and_buffers():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

    def draws(generator, rng, counts):
        counts.seen += 1
        seen = counts.seen.clone()
        drawn = torch.rand(3, generator=generator)
        more = torch.tensor(rng.random(3) + np.random.random(3))  # noqa: NPY002
        chance = torch.tensor(random.random())
        return seen, drawn, more, chance

    generator, rng, counts = torch.Generator().manual_seed(0), np.random.default_rng(0), Counts()
    before = generator.get_state()
    both = compare(draws, draws, generator, rng, counts)
    assert both.name is None
    assert both.mine.result[0] == both.theirs.result[0] == 1
    # What the caller gave is as it was.
    assert torch.equal(generator.get_state(), before) and counts.seen == 0


def test_compare_sees_an_input_that_is_changed_but_not_a_name_used_again():
    def again(scores, mask):
        scores = scores.masked_fill(~mask, -1.0)
        return scores

    def other(scores, mask):
        hidden = scores.masked_fill(~mask, -1.0)
        return hidden

    scores = torch.zeros(2, 3)
    assert compare(again, other, scores, MASK).name is None
    assert compare(in_place, other, scores, MASK).name == "scores"


def test_a_buffer_that_is_filled_in_a_loop_is_compared_when_it_is_full():
    def filled(X):
        output = torch.zeros(3)
        for i in range(3):
            output[i] = X[i] ** 2
        return output

    def at_once(X):
        output = X**2
        return output

    assert compare(filled, at_once, torch.arange(3.0)).name is None


@pytest.fixture
def exercises(monkeypatch, tmp_path):
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))
    room = import_module("d2l_attention.exercises")
    # Here, where no answer needs a process of its own.
    monkeypatch.setattr(room, "run", lambda *given: (examine(*given), ""))
    return room


def multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = queries @ W_q, keys @ W_k, values @ W_v
    D = q.shape[-1]
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (q, k, v))
    scores = q @ k.mT / D**0.5
    weights = masked_softmax(scores, valid_lens)
    merged = (weights @ v).transpose(1, 2).flatten(2)
    return merged @ W_o


def test_a_wrong_multi_head_is_replayed_at_its_wrong_line(exercises):
    result = exercises.check("6.4", multi_head)
    assert not result.solved
    assert result.message.endswith('import watch`, then `watch("6.4")`')
    state = torch.get_rng_state()
    view = exercises.watch("6.4")
    assert view.steps[view.step].source == "scores = q @ k.mT / D**0.5"
    assert view.title == "6.4 · multi_head: in the solution, scores has other numbers"
    assert watch("6.4").step == view.step  # the same function, from wherever it is imported
    assert torch.equal(torch.get_rng_state(), state)

    assert exercises.check("6.4", exercises.find("6.4").solution).solved
    with pytest.raises(ValueError, match='nothing to replay for "6.4"'):
        watch("6.4")


def test_an_error_is_replayed_and_a_compiled_answer_as_it_was_written(exercises):
    def stops_at_scores(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
        scores = queries @ keys
        return scores

    compiled = torch.compile(stops_at_scores, backend="eager")
    assert exercises.check("6.4", compiled).message.endswith('`watch("6.4")`')
    view = watch("6.4")
    assert view.steps[view.step].source == "scores = queries @ keys" and view.steps[-1].error


def test_an_input_changed_in_place_is_shown_where_that_happens(exercises):
    solution = exercises.find("4.2").solution

    def answer(scores, valid_lens):
        weights = solution(scores.clone(), valid_lens)
        scores.mul_(2)
        return weights

    message = exercises.check("4.2", answer).message
    assert "changes its input" in message and message.endswith('`watch("4.2")`')
    view = watch("4.2")
    assert view.steps[view.step].source == "scores.mul_(2)"


def test_values_and_hunts_for_bugs_are_not_replayed(exercises):
    stub = exercises.find("6.5").stub
    edited = torch.no_grad()(stub)
    for exercise_id, answer in (("6.5", edited), ("6.2", 1000.0)):
        result = exercises.check(exercise_id, answer)
        assert not result.solved and "watch" not in result.message


Pair = namedtuple("Pair", "X n")


@dataclass
class State:
    X: torch.Tensor


def test_compare_gives_each_run_copies_of_inputs_that_are_no_tensors():
    layer = MultiHeadAttention(4, 2, 0.0)
    layer(*[torch.zeros(1, 3, 4)] * 3)

    def uses(cache, rng, other, pair, state, deck):
        Y = layer(*[torch.ones(1, 3, 4)] * 3, is_causal=True, cache=cache)
        drawn = torch.tensor([rng.random(), other.rand()])
        pair.X.add_(1)
        state.X += 1
        deck.append(torch.ones(1))
        return Y, drawn, pair.X, state.X, torch.tensor(len(deck)), torch.tensor(len(cache))

    cache, rng, deck = KeyValueCache(), random.Random(0), deque()
    pair, state = Pair(torch.zeros(2), 1), State(torch.zeros(2))
    other = np.random.RandomState(0)  # noqa: NPY002
    both = compare(uses, uses, cache, rng, other, pair, state, deck)
    assert both.name is None
    for result in (both.mine.result, both.theirs.result):
        assert [X.tolist() for X in result[2:]] == [[1, 1], [1, 1], 1, 3]
    # What the caller gave is as it was.
    assert (len(cache), len(deck), rng.random()) == (0, 0, random.Random(0).random())
    assert pair.X.tolist() == state.X.tolist() == [0, 0]


def test_compare_shares_what_cannot_be_copied_and_says_so():
    def takes(numbers):
        x = torch.tensor(next(numbers))
        return x

    both = compare(takes, takes, (n for n in range(2)))
    assert [both.mine.result.item(), both.theirs.result.item()] == [0, 1]
    words = " ".join(compare.__doc__.split())
    assert "refuses (a generator, " in words and "both runs share" in words


HIDDEN = torch.tensor([False, False, True])
LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize("fill", [-1e4, -1e6, -1e9, LOWEST, 1e9])
@pytest.mark.parametrize("added", [False, True], ids=["filled", "added"])
def test_a_mask_s_large_number_hides_no_difference_of_the_others(fill, added):
    def hide(X):
        return X + HIDDEN * fill if added else X.masked_fill(HIDDEN, fill)

    def mine(X):
        scores = hide(X)
        weights = scores.softmax(-1)
        return weights

    def theirs(X):
        scores = hide(1.001 * X)
        weights = scores.softmax(-1)
        return weights

    def rounded(X):
        scores = hide(X * (1 + 1e-6))
        weights = scores.softmax(-1)
        return weights

    X = torch.tensor([[1.0, 2.0, 3.0]])
    assert compare(mine, theirs, X).name == "scores"
    assert compare(mine, rounded, X).name is None


def test_beside_nothing_but_large_numbers_rounding_is_as_large_as_they_are():
    def mine(X):
        sums = X * 1e6 - 1e6
        return sums

    def theirs(X):
        sums = (X - 1) * 1e6
        return sums

    X = 1 + torch.tensor([0.3, 0.7, 11.0])
    assert compare(mine, theirs, X).name is None
