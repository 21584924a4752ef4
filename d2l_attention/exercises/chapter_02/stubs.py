"""What the notebook hands out; ``solutions.py`` has the same names."""


def parabola(x): ...


def smooth(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=0)
    return weights @ y_train, weights


def leave_one_out_error(x, y, width): ...


def test_pooling(implementation): ...
