"""4.7: the test that catches a wrong mask."""

import torch

from d2l_attention import dot_product_attention, gaussian_score, length_mask, masked_softmax
from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading


def test_hides_padding(attend):
    """Pass where the padding changes nothing, and fail by an `AssertionError` where it does.

    `attend(queries, keys, values, valid_lens)` is called as in 4.6. A test that looks at the shape
    only would be `assert attend(queries, keys, values, valid_lens).shape == (B, Q, V)`.
    """
    ...


def test_hides_padding_solution(attend):
    generator = torch.Generator().manual_seed(0)
    shapes = (3, 2, 7), (3, 5, 7), (3, 5, 11)
    queries, keys, values = (torch.randn(shape, generator=generator) for shape in shapes)
    valid_lens = torch.tensor([0, 3, 5])
    padding = torch.arange(5)[:, None] >= valid_lens[:, None, None]  # (B, K, 1)
    dyed = [tensor.masked_fill(padding, torch.nan) for tensor in (keys, values)]
    before = attend(queries, keys, values, valid_lens)
    after = attend(queries, *dyed, valid_lens)
    assert torch.equal(before, after), "what is in the padding changes the output"


def attend_by_distance(queries, keys, values, valid_lens):
    visible = length_mask(valid_lens, keys.shape[1])  # (B, 1, K)
    keys = keys.masked_fill(~visible.mT, 0.0)
    values = values.masked_fill(~visible.mT, 0.0)
    scores = gaussian_score(queries, keys)
    return masked_softmax(scores, mask=visible) @ values


def always_fails(*_):
    raise AssertionError


def noise(queries, keys, values, valid_lens):
    return torch.randn(*queries.shape[:2], values.shape[2])


COMPARE = "Let two runs differ in the padding and in nothing else (change a copy), and compare."
LENS, SOFTMAX = "length_mask(valid_lens, keys.shape[1])", "masked_softmax(scores, mask=visible)"
RAW_KEYS = {"keys.masked_fill(~visible.mT, 0.0)": "keys"}
RAW = RAW_KEYS | {"values.masked_fill(~visible.mT, 0.0)": "values"}
DOT_PRODUCTS = "scores by dot products (others are allowed. Do not ask for particular numbers)"


def no_nan_in(keys):
    return not keys.isnan().any()


write_the_test = Exercise(
    **heading("4.7", "The test that catches a wrong mask", "hard", minutes=20),
    section="Two tests for a mask",
    stub=test_hides_padding,
    solution=test_hides_padding_solution,
    explanation="Run, dye, run, compare, with NaN as the dye: it shows what every other number "
    "shows, and 0 times NaN besides. The lengths include 0, and one between 0 and K.",
    hints=[
        "As in 'Test 1': call `attend` twice, with the same words and another padding, and "
        "compare. Different sizes for B, Q, K, D and V, and lengths that include 0 and K.",
        "Dye keys and values. Which dye shows the most? Mind how you compare: with NaN "
        "`>`, `<` and `==` are all False.",
        "`dyed = [x.masked_fill(padding, torch.nan) for x in (keys, values)]`, where `padding` has "
        "the shape (B, K, 1). `torch.equal` is False where one of two tensors holds NaN.",
    ],
    steps=[
        catches(
            attend_by_distance,
            Suspect({LENS: "length_mask(valid_lens, keys.shape[1]) | True"}, "has no mask at all"),
            Suspect(
                RAW | {LENS: "torch.arange(queries.shape[1])[:, None] < valid_lens[:, None, None]"},
                "hides rows (queries) instead of columns (keys)",
                [(lambda: True, "Its visible queries read the padding.")],
            ),
            Suspect(
                {LENS: "length_mask((valid_lens + 1).clamp(max=keys.shape[1]), keys.shape[1])"},
                "sees one key too many",
                [
                    (
                        lambda: True,
                        "Is the very first place behind the words among those that you change?",
                    )
                ],
            ),
            Suspect(
                RAW_KEYS | {SOFTMAX: "scores.softmax(dim=-1).masked_fill(~visible, 0.0)"},
                "masks after the softmax",
                [(no_nan_in, "Its values are clean. Do you change the padding's keys?")],
            ),
            Suspect(
                {LENS: "length_mask(valid_lens.clamp(min=1), keys.shape[1])"},
                "takes a length of 0 for a length of 1",
                [
                    (
                        lambda valid_lens: (valid_lens > 0).all(),
                        "Which of your lengths would tell? None is 0.",
                    )
                ],
            ),
            Suspect(
                RAW,
                "has the right weights and lets NaN in the padding through (0 times NaN)",
                [
                    (
                        lambda values: not values.isnan().any(),
                        "Is there NaN in your padding's values?",
                    )
                ],
            ),
            name="attend",
            also_right=[dot_product_attention],
            beliefs=[Suspect(dot_product_attention, DOT_PRODUCTS)],
            nothing=always_fails,
            little=noise,
            little_why="It even passes where each call gives other numbers: does anything catch "
            f"its `assert`? {COMPARE}",
            notice=f"{COMPARE} If your padding holds NaN, can your comparison see it? With NaN "
            "every `>`, `<` and `==` is False.",
        )
    ],
)
