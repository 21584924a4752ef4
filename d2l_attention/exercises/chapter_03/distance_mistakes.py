"""What goes wrong in 3.4 before any shape does, each with its sentence."""

import torch


def products(queries, keys):
    return queries @ keys.transpose(-2, -1)


def squares_of_queries(queries):
    return queries.square().sum(dim=-1).unsqueeze(-1)


def squares_of_keys(keys):
    return keys.square().sum(dim=-1).unsqueeze(-2)


def squared_distance(queries, keys):
    return squares_of_queries(queries) + squares_of_keys(keys) - 2 * products(queries, keys)


def without_the_half(queries, keys):
    return -squared_distance(queries, keys)


def sign_forgotten(queries, keys):
    return squared_distance(queries, keys) / 2


def root_of_the_square(queries, keys):
    return -squared_distance(queries, keys).sqrt()


def half_of_the_root(queries, keys):
    return -torch.cdist(queries, keys) / 2


def kernel_itself(queries, keys):
    return (-squared_distance(queries, keys) / 2).exp()


def product_not_doubled(queries, keys):
    squares = squares_of_queries(queries) + squares_of_keys(keys)
    return -(squares - products(queries, keys)) / 2


def squares_not_halved(queries, keys):
    return products(queries, keys) - squares_of_queries(queries) - squares_of_keys(keys)


def product_with_the_wrong_sign(queries, keys):
    squares = squares_of_queries(queries) + squares_of_keys(keys)
    return -(squares + 2 * products(queries, keys)) / 2


def product_scaled(queries, keys):
    squares = squares_of_queries(queries) + squares_of_keys(keys)
    return products(queries, keys) / queries.shape[-1] ** 0.5 - squares / 2


def query_term_left_out(queries, keys):
    return products(queries, keys) - squares_of_keys(keys) / 2


def key_term_left_out(queries, keys):
    return products(queries, keys) - squares_of_queries(queries) / 2


def lengths_not_squared(queries, keys):
    lengths = queries.norm(dim=-1).unsqueeze(-1) + keys.norm(dim=-1).unsqueeze(-2)
    return products(queries, keys) - lengths / 2


def mean_of_the_squares(queries, keys):
    means = queries.square().mean(-1).unsqueeze(-1) + keys.square().mean(-1).unsqueeze(-2)
    return products(queries, keys) - means / 2


def sum_over_everything(queries, keys):
    return products(queries, keys) - (queries.square().sum() + keys.square().sum()) / 2


def absolute_differences(queries, keys):
    return -torch.cdist(queries, keys, p=1) / 2


def weights_instead_of_scores(queries, keys):
    return (-squared_distance(queries, keys) / 2).softmax(dim=-1)


MISTAKES = [
    (without_the_half, "Every score is twice what it should be: the Gaussian's exponent has a ½."),
    (
        sign_forgotten,
        "The sign is wrong: yours is a distance, large for keys that are far. A score is large "
        "for keys that are near.",
    ),
    (
        squared_distance,
        "That is the squared distance, large for keys that are far. The score is made from it, "
        "so that near keys score high: look at the Gaussian's exponent.",
    ),
    (root_of_the_square, "That is minus the distance; the Gaussian's exponent has its square."),
    (half_of_the_root, "Your distance is not squared; the Gaussian's exponent has its square."),
    (kernel_itself, "That is the kernel. The score is its exponent: the softmax takes the exp."),
    (
        product_not_doubled,
        "The product of query and key counts once too little: (q - k)² has a middle term with a 2.",
    ),
    (
        squares_not_halved,
        "The squared lengths count twice as much as they should: the ½ stands before all of "
        "(q - k)², and only the middle term has a 2 that it cancels.",
    ),
    (
        product_with_the_wrong_sign,
        "The middle term has the wrong sign: yours is the distance between q and minus k.",
    ),
    (product_scaled, "You divide the product by √D. The Gaussian's score has no such factor."),
    (products, "That is the dot product alone; both squared lengths are missing."),
    (
        query_term_left_out,
        "The query's squared length is missing. The softmax would not notice, as you know; the "
        "task asks for the score itself.",
    ),
    (
        key_term_left_out,
        "The keys' squared length is missing: the fee that long keys pay. It changes the weights.",
    ),
    (lengths_not_squared, "You take off the lengths; the squares of the lengths are needed."),
    (mean_of_the_squares, "A squared length is the sum of the squares, not their mean."),
    (
        sum_over_everything,
        "`.sum()` without an axis adds up the squares of all vectors. Each query and each key "
        "has a squared length of its own: `dim=-1`.",
    ),
    (absolute_differences, "Your distance adds absolute differences; it should add squares."),
    (weights_instead_of_scores, "These are the weights. The task asks for the scores before."),
]
