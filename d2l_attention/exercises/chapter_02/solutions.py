"""Solutions, written as a student would in the notebook, under the names that it hands out."""

import torch

from d2l_attention import attention_pooling, epanechikov, gaussian_score


def parabola(x):
    return (1 - x**2).clamp(min=0)


def smooth(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    total = similarity.sum(dim=1, keepdim=True)
    weights = similarity / total.masked_fill(total == 0, 1)
    return weights @ y_train, weights


def leave_one_out_error(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width)
    others = ~torch.eye(len(x), dtype=torch.bool)
    prediction, _ = attention_pooling(scores, y[:, None], mask=others)
    return (prediction[:, 0] - y).square().mean()


def test_pooling(implementation):
    sizes = torch.tensor([20.0, 30.0, 50.0])
    rents = torch.tensor([400.0, 600.0, 700.0])
    queries = torch.tensor([35.0, 120.0])
    rent, weights = implementation(sizes, rents, queries, lambda d: epanechikov(d / 20))
    torch.testing.assert_close(weights, torch.tensor([[0.2, 0.6, 0.2], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(rent, torch.tensor([580.0, 0.0]))
