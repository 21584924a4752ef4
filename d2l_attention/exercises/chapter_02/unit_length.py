"""2.7: for keys of length 1, the Gaussian score is the dot product and a constant."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

CONSTANTS = {
    -2.5: "you left out |k|² = 1. Both squares stay when the bracket is multiplied out.",
    -6: "the factor 1/2 belongs to |q|² + |k|², not to the dot product only.",
    3: "the sign is wrong: |q|² and |k|² make the distance larger, so the score lower.",
    0: "the score is not the dot product itself: something is left over, the same for each key.",
}
GAUSSIAN = "that is the Gaussian score. The dot product is q · k."
EXCHANGED = "you exchanged the two components of q."
TWICE = "that is 2 q · k. The factor 1/2 of the score takes the 2 away."

keys_of_unit_length = Exercise(
    **heading("2.7", "Keys of unit length", "medium", minutes=8),
    section="From distance to product",
    hints=[
        "|q - k|² is a dot product of q - k with itself. Multiply it out: three terms.",
        "-(|q|² - 2 q · k + |k|²)/2. Which two of the terms are the same for all three keys?",
    ],
    solution=[-3, 1, 2, 2.2],
    explanation="-|q - k|²/2 = q · k - (|q|² + |k|²)/2. With |q|² = 5 and |k|² = 1 the constant is "
    "-3, and the scores are -2, -1 and -0.8. By distance and by dot product the same key wins, the "
    "last. For keys of equal length the dot product gives the weights of the Gaussian score.",
    steps=[
        parts(
            Part("c", -3, CONSTANTS, 0.005),
            Part("q · k for (1, 0)", 1, {-2: GAUSSIAN, 2: EXCHANGED}, 0.005),
            Part("q · k for (0, 1)", 2, {-1: GAUSSIAN, 1: EXCHANGED, 4: TWICE}, 0.005),
            Part("q · k for (0.6, 0.8)", 2.2, {-0.8: GAUSSIAN, 2: EXCHANGED, 4.4: TWICE}, 0.005),
            give="one flat list of four numbers: c, then q · k for the three keys",
            otherwise="multiply the bracket out once more, on paper.",
        )
    ],
)
