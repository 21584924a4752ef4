"""Tests that students write for 5.7 and that let a wrong score through, or a right one fail."""

from d2l_attention.training.metrics import bleu

CAT = "le chat dort sur le lit".split()
NEARLY = "le chat dort sur un lit".split()
SHORT = CAT[:4]


def close(got, expected):
    return abs(got - expected) < 0.01


def never_calls(score):
    assert close(bleu([SHORT], [[CAT]]), 60.65)


def perfect_and_hopeless(score):
    assert close(score([CAT], [[CAT]]), 100)
    assert score(["x y z u v".split()], [[CAT]]) < 1


def equally_long(score):
    assert close(score([NEARLY], [[CAT]]), 53.73)


def longer_than_the_reference(score):
    assert close(score([CAT], [[SHORT]]), 50.81)


def one_sentence(score):
    assert close(score([SHORT], [[CAT]]), 60.65)


def one_reference(score):
    assert close(score([SHORT], [[CAT]]), 60.65)
    assert close(score([CAT, NEARLY], [[CAT], [CAT]]), 77.82)


def better_reference_first(score):
    assert close(score([SHORT, NEARLY], [[CAT, NEARLY], [NEARLY, CAT]]), 81.87)


def far_too_tolerant(score):
    assert abs(score([SHORT], [[CAT]]) - 60.65) < 20


def in_range(score):
    assert 0 <= score([SHORT, NEARLY], [[CAT], [CAT]]) <= 100


def not_symmetric(score):
    assert score([SHORT], [[CAT]]) != score([CAT], [[SHORT]])


def every_digit(score):
    assert score([SHORT], [[CAT]]) == bleu([SHORT], [[CAT]])


def expects_the_swap(score):
    assert close(score([SHORT], [[CAT]]), bleu([CAT], [[SHORT]]))


def expects_the_mean(score):
    expected = (bleu([CAT], [[CAT]]) + bleu([NEARLY], [[CAT]])) / 2
    assert close(score([CAT, NEARLY], [[CAT], [CAT]]), expected)


def expects_no_penalty(score):
    assert close(score([SHORT], [[CAT]]), 100)


def as_a_share(score):
    assert close(score([SHORT], [[CAT]]), 0.6065)


def flat_references(score):
    assert close(score([SHORT], [CAT]), 60.65)


def text(score):
    assert close(score(["le chat dort sur"], [["le chat dort sur le lit"]]), 60.65)


def under_four_words(score):
    assert close(score([["il", "dort"]], [[["il", "dort", "bien"]]]), 0)


def returns(score):
    return close(score([SHORT], [[CAT]]), 60.65)


def raises_another_error(score):
    if not close(score([SHORT], [[CAT]]), 60.65):
        raise ValueError("this is not BLEU")


def compares_with_itself(score):
    assert score([SHORT], [[CAT]]) == score([SHORT], [[CAT]])


def swallows_the_failure(score):
    try:
        assert close(score([SHORT], [[CAT]]), 60.65)
    except AssertionError:
        print("this is not BLEU")
