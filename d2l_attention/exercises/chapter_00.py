"""The exercise of chapter 0: to see how exercises work."""

from d2l_attention.exercises.authoring import Exercise, heading, number

TITLE = "Start here"

sum_of_weights = Exercise(
    **heading("0.1", "What a row sums to", "easy", minutes=1),
    section="From scores to weights",
    solution=1.0,
    explanation="Attention weights are shares: the softmax makes them positive and divides by "
    "their sum. Chapter 1 shows what that is good for.",
    hints=[
        "The picture rounds to two digits. Add up the row 'it was too tired'.",
        "0.77 and six times 0.04 make 1.01: two digits are rounded. What is it exactly?",
    ],
    steps=[
        number(
            1.0,
            mistakes={
                1.01: "that is the sum of the rounded weights. What is it before rounding?",
                0.77: "that is the largest weight. All seven count.",
                0.23: "that is what the other six words have together. All seven count.",
                7.0: "that is how many there are. Add up the weights.",
            },
        )
    ],
)
