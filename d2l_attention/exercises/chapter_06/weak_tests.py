"""Tests that students write for 6.6 and that let broken heads through, or fail right ones."""

import torch

from d2l_attention import masked_softmax
from d2l_attention.exercises.chapter_06.parts import right


def given(B=2, H=2, Q=3, K=5, D=6, lens=(2, 5)):
    """Inputs for ``multi_head``, small enough not to saturate the softmax."""
    shapes = (B, Q, 7), (B, K, 7), (B, K, 7), (7, D), (7, D), (7, D), (D, D)
    tensors = (torch.randn(shape) / shape[-1] ** 0.5 for shape in shapes)
    return *tensors, H, torch.tensor(lens)


def one_at_a_time(queries, keys, values, W_q, W_k, W_v, W_o, H, lens, *, size=None, sum_up=False):
    """What students expect: a loop over the heads."""
    heads = []
    for W in zip(*(W.chunk(H, dim=-1) for W in (W_q, W_k, W_v)), strict=True):
        q, k, v = (X @ own for X, own in zip((queries, keys, values), W, strict=True))
        scores = q @ k.mT / (size or q.shape[-1]) ** 0.5
        heads.append(masked_softmax(scores, lens) @ v)
    return sum(heads) @ W_o[: len(W_o) // H] if sum_up else torch.cat(heads, dim=-1) @ W_o


def compare(multi_head, inputs, **expected):
    torch.testing.assert_close(multi_head(*inputs), one_at_a_time(*inputs, **expected))


def without_a_call(multi_head):
    inputs = given()
    torch.testing.assert_close(right(*inputs), one_at_a_time(*inputs))


def shape_only(multi_head):
    assert multi_head(*given()).shape == (2, 3, 6)


def not_nan(multi_head):
    assert not multi_head(*given()).isnan().any()


def compares_with_itself(multi_head):
    inputs = given()
    torch.testing.assert_close(multi_head(*inputs), multi_head(*inputs))


def prints(multi_head):
    inputs = given()
    print(torch.allclose(multi_head(*inputs), one_at_a_time(*inputs)))


def returns_instead_of_asserting(multi_head):
    inputs = given()
    return torch.allclose(multi_head(*inputs), one_at_a_time(*inputs))


def every_digit(multi_head):
    inputs = given()
    assert torch.equal(multi_head(*inputs), one_at_a_time(*inputs))


def large_numbers(multi_head):
    torch.manual_seed(3)
    shapes = (2, 30, 64), (2, 50, 64), (2, 50, 64), (64, 64), (64, 64), (64, 64), (64, 64)
    inputs = *(torch.randn(shape) for shape in shapes), 2, torch.tensor([20, 50])
    in_double = (X.double() if torch.is_tensor(X) and X.is_floating_point() else X for X in inputs)
    torch.testing.assert_close(multi_head(*inputs), one_at_a_time(*in_double).float())


def expects_the_root_of_d(multi_head):
    compare(multi_head, given(), size=6)


def expects_a_sum(multi_head):
    compare(multi_head, given(), sum_up=True)


def one_head(multi_head):
    compare(multi_head, given(H=1))


def one_token(multi_head):
    compare(multi_head, given(Q=1, K=1, lens=(1, 1)))


def one_query(multi_head):
    compare(multi_head, given(Q=1))


def scores_of_zero(multi_head):
    queries, *others = given()
    compare(multi_head, (torch.zeros_like(queries), *others))


def columns_alike(multi_head):
    *inputs, W_o, H, lens = given()
    matrices = [W[:, :3].repeat(1, 2) for W in inputs[3:]]
    compare(multi_head, (*inputs[:3], *matrices, W_o, H, lens))


def without_lengths(multi_head):
    compare(multi_head, given(lens=(5, 5)))


def three_sentences_two_heads(multi_head):
    compare(multi_head, given(B=3, lens=(2, 5, 3)))


def order_of_keys(multi_head):
    queries, keys, values, *others = given(lens=(5, 5))
    output = multi_head(queries, keys, values, *others)
    turned = multi_head(queries, keys.flip(1), values.flip(1), *others)
    torch.testing.assert_close(output, turned)
    assert output.shape == (2, 3, 6) and output.any()


def each_query_alone(multi_head):
    queries, *others = given()
    together = multi_head(queries, *others)
    for query in range(3):
        alone = multi_head(queries[:, query : query + 1], *others)
        torch.testing.assert_close(together[:, query], alone[:, 0])
    queries, keys, values, *others = given(lens=(5, 5))
    turned = multi_head(queries, keys.flip(1), values.flip(1), *others)
    torch.testing.assert_close(multi_head(queries, keys, values, *others), turned)
    assert turned.any()


def always_fails(multi_head):
    assert multi_head(*given()) is None


def raises_another_error(multi_head):
    inputs = given()
    if not torch.allclose(multi_head(*inputs), one_at_a_time(*inputs), atol=1e-5):
        raise ValueError("broken heads")


def asks_for_the_name(multi_head):
    assert multi_head(*given()).shape == (2, 3, 6)
    assert multi_head.__name__ == "multi_head"


def forgets_an_argument(multi_head):
    *inputs, _, lens = given()
    assert multi_head(*inputs, lens).shape == (2, 3, 6)
