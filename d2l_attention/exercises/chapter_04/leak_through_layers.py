"""4.3: a mask that is wrong by one, in several layers."""

from d2l_attention.exercises.authoring import Exercise, heading, number

MISTAKES = {
    (3, 3, 3): "each layer reads what the layer before it wrote. After layer 1 the token at "
    "position 3 already holds something of token 4.",
    (2, 2, 2): "that is a right causal mask. This one shows query 2 the key at position 3 as well.",
    (3, 5, 7): "one layer adds one position, not two: each token sees one token too far.",
    (4, 5, 6): "that counts positions from 1. Here the first token is at position 0.",
    (2, 3, 4): "in layer 1 query 2 sees key 3 already.",
    (1, 2, 3): "that is how far the leak goes beyond position 2. Give the positions themselves.",
    (9, 9, 9): "that is what a model without any mask does. This mask is wrong by one position.",
}

leak_through_layers = Exercise(
    **heading("4.3", "How far does a leak reach?", "easy", minutes=8),
    section="Two tests for a mask",
    hints=[
        "Layer 1: which keys does query 2 see? Layer 2: it sees the same positions, but what do "
        "the tokens there hold after layer 1?",
        "The mask is `torch.ones(10, 10).tril(1).bool()`. Apply `plain_attention(X, X, X, mask)` "
        "to its own answers.",
        "Test 2, once for each position j: change token j, run three layers, and see whether the "
        "answer at position 2 has changed.",
    ],
    solution=[3, 4, 5],
    explanation="In layer 1 position 2 sees token 3. In layer 2 it sees position 3 again, which "
    "holds something of token 4 by now. Each layer leaks one position further: what is wrong by "
    "one in a layer is wrong by twelve in a model of twelve layers. Under a right causal mask "
    "the answer is 2 after any number of layers.",
    steps=[
        number(
            [3, 4, 5],
            tolerance=0.1,
            mistakes=MISTAKES,
            counts={1: "That is one position. Give one for each of the three layers."},
        )
    ],
)
