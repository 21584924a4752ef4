"""4.7: the test that catches a wrong mask. Its suspects are in ``suspects.py``."""

import math

import torch

from d2l_attention import dot_product_attention
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_04 import suspects
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.steps import fails_on, passes_on


def test_hides_padding(attend): ...


def test_hides_padding_solution(attend):
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(3, 2, 7, generator=generator)
    keys = torch.randn(3, 5, 7, generator=generator)
    values = torch.randn(3, 5, 11, generator=generator)
    probe = torch.randn(3, 2, 11, generator=generator)
    valid_lens = torch.tensor([0, 3, 5])
    padding = torch.arange(5) >= valid_lens[:, None]

    def outcome(dye):
        """The output, and the gradients of queries, keys and values."""
        dyed = [tensor.masked_fill(padding[..., None], dye) for tensor in (keys, values)]
        inputs = [tensor.clone().requires_grad_() for tensor in (queries, *dyed)]
        output = attend(*inputs, valid_lens)
        return [output, *torch.autograd.grad((output * probe).sum(), inputs)]

    for clean, dyed in zip(outcome(0.0), outcome(math.nan), strict=True):
        assert torch.equal(clean, dyed), "what stands in the padding changes the result"


def calls_attend_and_sees_nan(attempt: Attempt) -> str | None:
    given = []

    def attend(queries, keys, values, valid_lens):
        given.append(torch.cat([keys.flatten(), values.flatten()]).isnan().any())
        return suspects.no_mask(queries, keys, values, valid_lens)

    passes = fails_on(attend, "has no mask at all")(attempt)
    if not given:
        return "Your test never calls `attend`, so it says the same of every implementation."
    if passes and "passes on" in passes and any(given):
        return (
            "You pour NaN into the padding, and your test passes on an implementation that has no "
            "mask, where all outputs become NaN. Can your comparison see that (with NaN every `>`, "
            "`<` and `==` is False), and does no `except` swallow the failure?"
        )
    return None


def accepts_another_score(attempt: Attempt) -> str | None:
    found = passes_on(suspects.by_distance)(attempt)
    return found and (
        "Your test fails on an attention that hides all padding and scores by distance instead "
        "of dot products. Do not ask for particular numbers: ask whether the padding changes "
        f"them. {found}"
    )


def catches(broken, what: str, clue: str) -> Step:
    """``fails_on``, with a clue to what would show it."""
    step = fails_on(broken, what)

    def with_clue(attempt: Attempt) -> str | None:
        found = step(attempt)
        return f"{found} {clue}" if found and "passes on" in found else found

    return with_clue


def given_inputs():
    """Queries, keys, values, lengths and where the padding is, for the wrong answers."""
    generator = torch.Generator().manual_seed(1)
    shapes = (3, 2, 7), (3, 5, 7), (3, 5, 11)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    valid_lens = torch.tensor([0, 3, 5])
    return *tensors, valid_lens, (torch.arange(5) >= valid_lens[:, None])[..., None]


def looks_at_the_shape(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    assert attend(queries, keys, values, valid_lens).shape == (3, 2, 11)


def the_same_padding_twice(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    first = attend(queries, keys, values, valid_lens)
    assert torch.equal(first, attend(queries, keys, values, valid_lens))


def dyes_values_only(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    assert torch.equal(
        clean, attend(queries, keys, values.masked_fill(padding, math.nan), valid_lens)
    )


def dyes_with_a_number(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, 7.0) for tensor in (keys, values))
    torch.testing.assert_close(attend(queries, *dyed, valid_lens), clean)


def without_gradients(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    assert torch.equal(attend(queries, *dyed, valid_lens), clean)


def without_a_length_of_0(attend):
    queries, keys, values, _, _ = given_inputs()
    valid_lens = torch.tensor([2, 3, 5])
    padding = (torch.arange(5) >= valid_lens[:, None])[..., None]
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    assert torch.equal(attend(queries, *dyed, valid_lens), clean)


def not_larger(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    assert not ((attend(queries, *dyed, valid_lens) - clean).abs() > 1e-6).any()


def ignores_nan(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    for dye in (7.0, math.nan):
        dyed = (tensor.masked_fill(padding, dye) for tensor in (keys, values))
        output = attend(queries, *dyed, valid_lens)
        assert torch.allclose(output, clean, equal_nan=True) or output.isnan().any()


def compares_with_the_package(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    right = dot_product_attention(queries, keys, values, valid_lens)
    torch.testing.assert_close(attend(queries, keys, values, valid_lens), right)


def dyes_words_as_well(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    assert torch.equal(clean, attend(queries, keys + 1, values + 1, valid_lens))


def dyes_one_place_too_far(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    padding = (torch.arange(5) > valid_lens[:, None])[..., None]
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    assert torch.equal(clean, attend(queries, *dyed, valid_lens))


def says_true_or_false(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    return torch.equal(clean, attend(queries, *dyed, valid_lens))


def raises_another_error(attend):
    queries, keys, values, valid_lens, padding = given_inputs()
    clean = attend(queries, keys, values, valid_lens)
    dyed = (tensor.masked_fill(padding, math.nan) for tensor in (keys, values))
    if not torch.equal(clean, attend(queries, *dyed, valid_lens)):
        raise ValueError("the padding leaks")


def never_calls(attend):
    assert callable(attend)


def always_fails(attend):
    queries, keys, values, valid_lens, _ = given_inputs()
    assert attend(queries, keys, values, valid_lens) is None


write_the_test = Exercise(
    id="4.7",
    title="The test that catches a wrong mask",
    task=(
        "Write `test_hides_padding(attend)` for functions `attend(queries, keys, values, "
        "valid_lens)` with the shapes of 4.6 and scores of any kind. It must pass where outputs "
        "and gradients are independent of what stands in the padding, NaN included, as in "
        "`dot_product_attention`, and fail by an `assert` on each of seven others: no mask; a "
        "mask after the softmax; rows hidden instead of columns; one key too many; a length of "
        "0 taken for 1; NaN let through to the output; NaN let through to the gradients."
    ),
    difficulty="hard",
    minutes=25,
    hints=[
        "As in 'Proof 1': call `attend` twice, with the same words and another padding, and "
        "compare. Different sizes for B, Q, K, D and V, and lengths that include 0 and K.",
        "Dye keys and values. Which dye shows the most? Mind how you compare: with NaN "
        "`>`, `<` and `==` are all False.",
        "Gradients: `inputs = [t.clone().requires_grad_() for t in (queries, keys, values)]`, "
        "then `torch.autograd.grad(output.sum(), inputs)` gives all three; compare them as well.",
    ],
    stub=test_hides_padding,
    solution=test_hides_padding_solution,
    explanation=(
        "Two runs that differ in nothing but the padding, 0 once and NaN once, must give the same "
        "bits: outputs, and gradients of queries, keys and values. Masks that let a key in, or "
        "a weight that multiplies NaN by 0, show in the output; keys that were hidden too late "
        "show in the queries' gradient only."
    ),
    steps=[
        passes_on(dot_product_attention),
        calls_attend_and_sees_nan,
        catches(
            suspects.no_mask,
            "has no mask at all",
            "Let two runs differ in the padding and in nothing else, and `assert` that they agree. "
            "(After `b = a` both are one tensor: change a copy.)",
        ),
        accepts_another_score,
        catches(
            suspects.rows_instead_of_columns,
            "hides rows (queries) instead of columns (keys)",
            "Its visible queries read the padding.",
        ),
        catches(
            suspects.one_key_too_many,
            "sees one key too many",
            "Is the very first place behind the words among those that you change?",
        ),
        catches(
            suspects.mask_after_the_softmax,
            "masks after the softmax",
            "There no padding reaches the output by its value, but its key takes a share of the "
            "sum. Do you change the padding's keys?",
        ),
        catches(
            suspects.at_least_one_key,
            "takes a length of 0 for a length of 1",
            "Which of your lengths would tell?",
        ),
        catches(
            suspects.nan_let_through,
            "has the right weights and lets NaN in the padding through (0 times NaN)",
            "Is there NaN in your padding's values? And can your comparison see it? With NaN "
            "every `>`, `<` and `==` is False.",
        ),
        catches(
            suspects.nan_in_the_gradients,
            "has right outputs, whatever the padding, and lets NaN in the padding's keys into "
            "the gradient of the queries",
            "Compare the gradients of queries, keys and values, too.",
        ),
    ],
    wrong=[
        Wrong(looks_at_the_shape, "has no mask at all"),
        Wrong(the_same_padding_twice, "Let two runs differ in the padding"),
        Wrong(dyes_values_only, "Do you change the padding's keys?"),
        Wrong(dyes_with_a_number, "Is there NaN in your padding's values?"),
        Wrong(without_gradients, "the gradient of the queries"),
        Wrong(without_a_length_of_0, "takes a length of 0"),
        Wrong(not_larger, "Can your comparison see that"),
        Wrong(ignores_nan, "can your comparison see it"),
        Wrong(compares_with_the_package, "Do not ask for particular numbers"),
        Wrong(dyes_words_as_well, "fails on a right implementation"),
        Wrong(dyes_one_place_too_far, "the very first place behind the words"),
        Wrong(says_true_or_false, "Your test returned True"),
        Wrong(raises_another_error, "let an `assert` say what is wrong"),
        Wrong(never_calls, "never calls `attend`"),
        Wrong(always_fails, "fails on a right implementation"),
    ],
)
