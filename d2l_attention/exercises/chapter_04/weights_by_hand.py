"""4.1: masked weights worked out on paper."""

import math

from d2l_attention.exercises.authoring import Exercise, heading, number

LN_3 = math.log(3)
HIDDEN = math.exp(5)  # what the hidden key would put into the sum
MISTAKES = {
    (3 / (4 + HIDDEN), 1 / (4 + HIDDEN), HIDDEN / (4 + HIDDEN)): "nothing is hidden here. Of three "
    "keys the first two are words, and the third must not take part.",
    (3 / (4 + HIDDEN), 1 / (4 + HIDDEN), 0): "your weights sum to 0.03. The third key gets "
    "nothing, but its exponential still stands in the sum that you divide by.",
    (0.6, 0.2, 0.2): "you gave the hidden key the score 0, and it got a fifth. Hiding needs a "
    "score whose exponential is 0.",
    (0.6, 0.2, 0): "your weights sum to 0.8. The hidden key's score 0 has put its exponential, 1, "
    "into the sum that you divide by.",
    (1, 0, 0): "the second key gets nothing, though it is a word. A score of 0 does not say 'no': "
    "what is the exponential of 0?",
    (LN_3, 0, 0): "those are scores. Take their exponentials, then divide by the sum.",
    (3, 1, 0): "those are the exponentials. Divide each by their sum.",
    (0.25, 0.75, 0): "the right weights on the wrong keys: the larger score gets more.",
    (0.5, 0.5, 0): "equal weights belong to equal scores. Those of the two words differ.",
}
COUNTS = {
    1: "That is one number. Give the weights of all three keys as a list.",
    2: "That is two weights for three keys. The hidden key has a weight, too: list it.",
}

weights_by_hand = Exercise(
    **heading("4.1", "Masked weights by hand", "easy", minutes=3),
    section="Where the mask acts",
    hints=[
        "The length says how many keys, from the front, take part at all. Cross out the others.",
        "The exponential of ln 3 is 3. What is the exponential of 0?",
        "Divide each exponential by the sum of those that you have not crossed out.",
    ],
    solution=[0.75, 0.25, 0.0],
    explanation="Length 2: the third key is out, however high it scores. The exponentials of the "
    "other two are 3 and 1, their sum is 4. The hidden key is missing above the fraction and below "
    "it, which is what masking before the softmax does.",
    steps=[number([0.75, 0.25, 0.0], tolerance=0.002, mistakes=MISTAKES, counts=COUNTS)],
)
