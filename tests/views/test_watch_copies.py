"""``watch`` keeps each value as it was then, ``compare`` what an input holds twice."""

import copy
import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
import torch
from torch import nn

from d2l_attention.views import compare, watch
from d2l_attention.views.watch_drawing import in_words
from d2l_attention.views.watch_view import Watch


def changes(view, name="held"):
    return [step.changed[name] for step in view.steps if name in step.changed]


def test_counters_are_seen_to_change_and_kept_as_they_were():
    def count(word):
        held = Counter()
        held["a"] += 1
        held[word] += 2
        return held

    assert changes(watch(count, "b")) == [Counter(), Counter(a=1), Counter(a=1, b=2)]
    assert [in_words(each) for each in changes(watch(count, "b"))][1:] == [
        "{'a': 1}",
        "{'a': 1, 'b': 2}",
    ]


@pytest.mark.parametrize("kind", [OrderedDict, lambda: defaultdict(list)])
def test_dicts_of_other_kinds_are_kept_as_they_were(kind):
    def fill(held):
        held["a"] = [2]
        held["a"].append(3)
        held["b"] = torch.zeros(2)
        held["b"] += 5
        return held

    first, second, third, fourth, fifth = changes(watch(fill, kind()))
    assert type(first) is type(fifth) is type(kind()) and dict(first) == {}
    assert (dict(second), dict(third)) == ({"a": [2]}, {"a": [2, 3]})
    assert (fourth["b"].tolist(), fifth["b"].tolist()) == ([0, 0], [5, 5])


Pair = namedtuple("Pair", "X n")


class Checked(Pair):
    """Built from one argument, of which deepcopy knows nothing."""

    def __new__(cls, n):
        return super().__new__(cls, torch.zeros(2), n)


def test_tuples_with_names_are_kept_as_they_were():
    def change(X):
        held = Pair(torch.zeros(2), [2])
        held.X.add_(1)
        held.n.append(3)
        most = X.max(1)
        most.values.mul_(7)
        return held, most

    view = watch(change, torch.tensor([[1.0, 2.0], [5.0, 3.0]]))
    seen = [(type(each), each.X.tolist(), each.n) for each in changes(view)]
    assert seen == [(Pair, [0, 0], [2]), (Pair, [1, 1], [2]), (Pair, [1, 1], [2, 3])]
    assert [each.values.tolist() for each in changes(view, "most")] == [[2, 5], [14, 35]]


def test_a_tuple_that_cannot_be_built_again_does_not_stop_the_run():
    def change():
        held = Checked(3)
        held.X.add_(1)
        return held.n

    view = watch(change)
    assert view.result == 3 and len(changes(view)) == 2 and not view._recording.note


def test_a_list_in_itself_is_kept_as_it_was():
    def grow():
        held = [2]
        held.append(held)
        held.append(3)
        return len(held)

    assert [(each[0], len(each)) for each in changes(watch(grow))] == [(2, 1), (2, 2), (2, 3)]


def test_what_stands_in_a_container_is_no_other_object_but_for_what_can_change():
    layer = nn.Linear(2, 3)

    def hold(layer):
        held = deque([layer, [layer]], maxlen=5)
        return held

    [held] = changes(watch(hold, layer))
    assert held[0] is layer and held[1][0] is layer and held.maxlen == 5


def test_the_student_reads_which_values_are_not_as_they_were():
    assert "does not see change, the object itself" in " ".join(Watch.__doc__.split())


def test_a_row_that_stands_twice_in_a_list_is_one_row_in_the_copy():
    def first(rows):
        rows[0][0] = 1
        return torch.tensor([row[0] for row in rows])

    rows = [[0]] * 3
    both = compare(first, first, rows)
    assert watch(first, copy.deepcopy(rows)).result.tolist() == [1, 1, 1]
    assert both.mine.result.tolist() == both.theirs.result.tolist() == [1, 1, 1]
    assert rows == [[0]] * 3


def generator():
    yield 7


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("kind", [list, tuple, lambda entries: dict(enumerate(entries))])
def test_one_tensor_or_module_is_one_in_the_copy_whatever_stands_beside_it(kind, refuses):
    leaf, net = torch.zeros(3), nn.Linear(3, 2)
    made = torch.zeros(5, requires_grad=True) * 2  # deepcopy refuses what is computed
    numbers = generator()
    entries = [leaf, leaf, net, net, made, made] if not refuses else [
        leaf, leaf, net, net, made, made, numbers, random.Random(0), np.zeros(2)
    ]  # fmt: skip

    def change(held, other):
        held[0].add_(1)
        held[4].add_(1)
        assert held[2] is held[3] is not net and other is held[0]
        assert not refuses or held[6] is numbers
        return held[1], held[5]

    both = compare(change, change, kind(entries), leaf)
    for result in (both.mine.result, both.theirs.result):
        assert [X.tolist() for X in result] == [[1] * 3, [1] * 5]
    assert not leaf.any() and not made.any()


def test_a_key_that_cannot_be_copied_is_shared():
    numbers = generator()
    both = compare(lambda held: held[numbers] + 1, lambda held: held[numbers] + 1, {numbers: 2})
    assert both.mine.result == both.theirs.result == 3


def test_an_optimizer_belongs_to_its_model_in_the_copy_too():
    def step(net, optimizer):
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        return net.weight.detach()

    net = nn.Linear(3, 2)
    before = net.weight.detach().clone()
    both = compare(step, step, net, torch.optim.SGD(net.parameters(), 0.5))
    for view in (both.mine, both.theirs):
        torch.testing.assert_close(view.result, before - 0.5)
    assert torch.equal(net.weight, before) and net.weight.grad is None


def test_leaves_stay_leaves_and_parameters_parameters():
    def slope(weight, X):
        assert isinstance(weight, nn.Parameter) and X.is_leaf
        (weight * X).sum().backward()
        return weight.grad, X.grad

    weight = nn.Parameter(torch.tensor([2.0, 3.0]))
    X = torch.tensor([5.0, 7.0], requires_grad=True)
    both = compare(slope, slope, weight, X)
    assert [each.tolist() for each in both.theirs.result] == [[5, 7], [2, 3]]
    assert weight.grad is None and X.grad is None


def returns(value):
    def function():
        return value

    return function


EQUAL = [
    (torch.tensor([2, 7]), torch.tensor([2, 7], dtype=torch.int16)),
    (torch.tensor([2, 7], dtype=torch.uint64), torch.tensor([2, 7])),
    (np.int64(20_011), 20_011),
    (torch.tensor([1e4, torch.inf, torch.nan]), torch.tensor([1e4 + 0.1, torch.inf, torch.nan])),
    (torch.tensor(20_011.0), torch.tensor(20_012)),
    (torch.tensor([1 + 2j, 3j]), torch.tensor([1 + 2.00001j, 3j])),
    (2**70, 2**70),
    (True, 1),
]
OTHERS = [
    (torch.tensor([20_011, 7]), torch.tensor([20_012, 7])),
    (torch.tensor([1, 2, 200_003]), torch.tensor([2, 1, 200_003])),
    (np.array([20_011, 7]), np.array([20_012, 7])),
    (torch.tensor([2**53]), torch.tensor([2**53 + 1])),
    (torch.tensor([20_011], dtype=torch.uint16), torch.tensor([20_012])),
    (torch.tensor([True, False]), torch.tensor([True, True])),
    (np.int64(20_011), np.int64(20_012)),
    (np.float32(2.5), np.float32(2.75)),
    (np.bool_(True), np.bool_(False)),
    (1_000_003, 1_000_004),
    (2**70, 2**70 + 1),
    ([3, 1_000_003], [3, 1_000_004]),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 3j])),
    (1 + 2j, 1 + 3j),
    (torch.tensor([1e4]), torch.tensor([1e4 + 11])),
]


@pytest.mark.parametrize(("mine", "theirs"), EQUAL)
def test_numbers_that_are_equal_but_for_rounding(mine, theirs):
    assert compare(returns(mine), returns(theirs)).name is None


@pytest.mark.parametrize(("mine", "theirs"), OTHERS)
def test_whole_numbers_do_not_round(mine, theirs):
    assert compare(returns(mine), returns(theirs)).name in ("value", "return")


def test_compare_says_that_it_compares_numbers():
    assert compare(returns("a"), returns("b")).name is None
    assert "only numbers are: texts, dicts and other" in " ".join(compare.__doc__.split())
