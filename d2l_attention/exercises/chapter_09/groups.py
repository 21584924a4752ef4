"""9.4: query heads that read another group's keys, where no special case shows it."""

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_09 import group_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import none_of, normal
from d2l_attention.exercises.steps import agrees, explains, like


def grouped_attention(queries, keys, values):
    share = queries.shape[1] // keys.shape[1]
    keys, values = (X.repeat(1, share, 1, 1) for X in (keys, values))
    weights = (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values


def grouped_attention_solution(queries, keys, values):
    share = queries.shape[1] // keys.shape[1]
    # (0, 1) becomes (0, 0, 1, 1); `repeat` makes (0, 1, 0, 1) of it.
    keys, values = (X.repeat_interleave(share, dim=1) for X in (keys, values))
    weights = (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values


def by_groups(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Nothing is repeated: the heads of a group have an axis of their own."""
    queries = queries.unflatten(1, (keys.shape[1], queries.shape[1] // keys.shape[1]))
    scores = torch.einsum("bgsqd,bgkd->bgsqk", queries, keys) / keys.shape[-1] ** 0.5
    return torch.einsum("bgsqk,bgkv->bgsqv", scores.softmax(dim=-1), values).flatten(1, 2)


def probes(num_heads: int, num_groups: int) -> tuple[tuple, tuple, Tensor]:
    """Inputs that show whose values each head reads, and whose keys; and the right answer.

    Each head gives a group's number. In the first there is one key, and a value is the number of
    its group. In the second there are as many keys as groups, values number the keys, and of
    group g only key g fits the queries.
    """
    numbers = torch.arange(float(num_groups))
    queries = torch.ones(1, num_heads, 1, 1)
    whose_values = queries, torch.ones(1, num_groups, 1, 1), numbers.reshape(1, -1, 1, 1)
    keys = 40 * torch.eye(num_groups)[None, ..., None]
    whose_keys = queries, keys, numbers[:, None].repeat(1, num_groups, 1, 1)
    return whose_values, whose_keys, numbers.repeat_interleave(num_heads // num_groups)


def assignment(num_heads: int, num_groups: int):
    """Which group each head of queries reads, told by probes."""
    *cases, right = probes(num_heads, num_groups)

    def step(attempt: Attempt) -> str | None:
        for what, inputs in zip(("values", "keys"), cases, strict=True):
            got = attempt(*inputs).detach().flatten()
            if torch.allclose(got, right, atol=1e-3):
                continue
            return told(got, right, what) + f" Smallest case that shows it: {attempt.case(inputs)}."
        return None

    return step


def told(got: Tensor, right: Tensor, what: str) -> str:
    whole = got.round()
    if not torch.allclose(got, whole, atol=1e-3):
        read = ", ".join(f"{number:.3g}" for number in got.tolist())
        return (
            f"The {what} of several groups are mixed: each head should read one group alone, the "
            f"first heads {listed(right)}; what yours read is {read} on average."
        )
    if torch.equal(whole.unique(), right[:1]):
        why = "All heads read the first group."
    elif torch.equal(whole, right.flip(0)):
        why = "The right groups, the other way round."
    elif (right == 0).sum() == 1:
        why = "With as many groups as heads each head has its own."
    else:
        why = (
            f"Of {len(right)} heads in {int(right[-1]) + 1} groups, neighbours share: the first "
            f"{int((right == 0).sum())} belong to group 0."
        )
    return (
        f"Your query heads 0 to {len(right) - 1} read the {what} of groups {listed(whole)}; they "
        f"should read those of {listed(right)}. {why}"
    )


def listed(numbers: Tensor) -> str:
    return ", ".join(f"{number:.0f}" for number in numbers.tolist())


def case(
    num_heads: int, num_groups: int, *, batch: int = 2, Q: int = 3, K: int = 5, D: int = 4, V=7
) -> tuple:
    shapes = (batch, num_heads, Q, D), (batch, num_groups, K, D), (batch, num_groups, K, V)
    return normal(num_heads + num_groups, *shapes)


ONE_HEAD = case(1, 1, batch=1, Q=2, K=2, D=4, V=1)
EASY = [ONE_HEAD, case(3, 3), case(4, 1)]
RANDOM = [
    case(4, 2),
    case(6, 3, batch=1),
    case(6, 2, K=1),
    case(2, 1, batch=2, Q=2, K=2, D=2, V=2),
    case(8, 4, batch=4, D=1),
    case(4, 2, Q=0),
    case(4, 2, batch=0),
]
UNMENDED = {
    mistakes.not_scaled: "The division by the root of D is missing; it was no bug.",
    mistakes.softmax_over_queries: "Your softmax runs over the queries. It was right: `dim=-1`.",
}
ERRORS = {
    "must match the size of tensor": (
        "Heads of queries and heads of keys do not line up. Each of the G heads of keys and values "
        "is needed H / G times."
    ),
}

mend_the_groups = Exercise(
    id="9.4",
    title="In the wrong group",
    task=(
        "`grouped_attention(queries, keys, values)` gets H heads of queries (B, H, Q, D), and G "
        "heads of keys (B, G, K, D) and of values (B, G, K, V). It should give (B, H, Q, V), where "
        "query heads 0 to H / G - 1 read the first head of keys and values, the next H / G the "
        "second, and so on. Two tests were written for it: with G = H it equals multi-head "
        "attention, with G = 1 multi-query attention. It passes both, and a model whose weights "
        "are loaded into it talks nonsense. Mend it."
    ),
    difficulty="easy",
    minutes=6,
    hints=[
        "Which is the smallest H and G that neither test covers? Which head of keys should each "
        "head of queries read there?",
        "Give it H = 4, G = 2, one key, and values that are the number of their group: "
        "`torch.tensor([0.0, 1.0]).reshape(1, 2, 1, 1)`. Each head then tells what it read.",
        "(0, 1) should become (0, 0, 1, 1), not (0, 1, 0, 1). For G = H and for G = 1 there is no "
        "difference. PyTorch has a function for each of the two.",
    ],
    stub=grouped_attention,
    solution=grouped_attention_solution,
    explanation=(
        "`repeat` lays copies of all groups one after the other, `repeat_interleave` puts the "
        "copies of a group beside each other. With one group, or one head a group, both are the "
        "same, so a test of the two special cases is blind. A model trained from the beginning "
        "would not mind, either: only weights that were learned under another order show it."
    ),
    steps=[
        explains(ERRORS, [*EASY, *probes(4, 2)[:2]]),
        like(by_groups, EASY),
        none_of(UNMENDED, ONE_HEAD),
        assignment(3, 3),
        agrees(by_groups, EASY),
        assignment(4, 2),
        assignment(6, 3),
        assignment(6, 2),
        agrees(by_groups, RANDOM),
    ],
    wrong=[
        Wrong(mistakes.keys_alone, "read the values of groups 0, 1, 0, 1"),
        Wrong(mistakes.values_alone, "read the keys of groups 0, 1, 0, 1"),
        Wrong(mistakes.other_way_of_repeating, "read the values of groups 0, 1, 0, 1"),
        Wrong(mistakes.by_the_remainder, "read the values of groups 0, 1, 0, 1"),
        Wrong(mistakes.groups_as_the_number, "do not line up"),
        Wrong(mistakes.along_the_tokens, "do not line up"),
        Wrong(mistakes.along_the_batch, "do not line up"),
        Wrong(mistakes.first_group_for_all, "groups 0, 0, 0; they should"),
        Wrong(mistakes.first_group_where_shared, "All heads read the first group"),
        Wrong(mistakes.last_group_first, "the other way round"),
        Wrong(mistakes.mean_of_the_groups, "are mixed"),
        Wrong(mistakes.output_moved_alone, "read the values of groups"),
        Wrong(mistakes.queries_moved_alone, "read the values of groups"),
        Wrong(mistakes.one_head_a_group, "it should be (2, 4, 3, 7)"),
        Wrong(mistakes.groups_left_apart, "it should be (1, 1, 2, 1)"),
        Wrong(mistakes.not_scaled, "it was no bug"),
        Wrong(mistakes.softmax_over_queries, "It was right"),
        Wrong(mistakes.two_a_group, "do not line up"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
