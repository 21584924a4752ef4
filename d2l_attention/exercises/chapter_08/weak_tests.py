"""Tests that students write for 8.6 and that let a leak through, or a right decoder fail."""

import torch


def text(B=3, T=8):
    return torch.randint(10, (B, T), generator=torch.Generator().manual_seed(1))


def changed_from(tokens, t):
    other = tokens.clone()
    other[:, t:] = (other[:, t:] + 1 + torch.arange(tokens.shape[1] - t) % 3) % 10
    return other


def both_modes(decoder):
    for training in (True, False):
        decoder.train(training)
        yield training


def never_calls(decoder):
    assert callable(decoder)


def shape_only(decoder):
    assert decoder(text()).shape == (3, 8, 10)


def same_twice(decoder):
    torch.testing.assert_close(decoder(text()), decoder(text()))


def returns_true_or_false(decoder):
    tokens = text()
    return torch.allclose(decoder(tokens[:, :4]), decoder(tokens)[:, :4])


def raises_another_error(decoder):
    tokens = text()
    if not torch.allclose(decoder(tokens[:, :4]), decoder(tokens)[:, :4], atol=1e-5):
        raise ValueError("a leak")


def in_training_only(decoder):
    tokens = text()
    for t in range(1, 8):
        for b in range(3):
            alone = decoder(tokens[b : b + 1, :t])
            torch.testing.assert_close(alone[0], decoder(tokens)[b, :t])


def in_eval_alone(decoder):
    decoder.eval()
    in_training_only(decoder)


def one_length(decoder):
    tokens = text()
    for _ in both_modes(decoder):
        for t in range(1, 8):
            for b in range(3):
                other = changed_from(tokens, t)
                alone = decoder(other[b : b + 1])
                torch.testing.assert_close(alone[0, :t], decoder(tokens)[b, :t])


def whole_batches(decoder):
    tokens = text()
    for _ in both_modes(decoder):
        for t in range(1, 8):
            torch.testing.assert_close(decoder(tokens[:, :t]), decoder(tokens)[:, :t])
        other = changed_from(tokens, 4)
        torch.testing.assert_close(decoder(other)[:, :4], decoder(tokens)[:, :4])


def one_sentence(decoder):
    tokens = text(B=1)
    for _ in both_modes(decoder):
        for t in range(1, 8):
            torch.testing.assert_close(decoder(tokens[:, :t]), decoder(tokens)[:, :t])


def three_tokens(decoder):
    tokens = text(T=3)
    for _ in both_modes(decoder):
        for t in range(1, 3):
            for b in range(3):
                alone = decoder(tokens[b : b + 1, :t])
                torch.testing.assert_close(alone[0], decoder(tokens)[b, :t])


def last_place_left_out(decoder):
    tokens = text(T=4)
    for _ in both_modes(decoder):
        other = changed_from(tokens, 3)
        torch.testing.assert_close(decoder(other)[:, :2], decoder(tokens)[:, :2])


def next_token_alone(decoder):
    tokens = text(T=4)
    for _ in both_modes(decoder):
        other = changed_from(tokens, 3)
        torch.testing.assert_close(decoder(other)[:, 2], decoder(tokens)[:, 2])


def compares_its_own_place(decoder):
    tokens = text()
    other = changed_from(tokens, 4)
    torch.testing.assert_close(decoder(other)[:, :5], decoder(tokens)[:, :5])


def changes_the_past(decoder):
    tokens = text()
    other = tokens.clone()
    other[:, 0] = (other[:, 0] + 1) % 10
    torch.testing.assert_close(decoder(other)[:, 1:], decoder(tokens)[:, 1:])


def changes_nothing(decoder):
    tokens = text()
    other = tokens
    other[:, 4:] = 0
    for _ in both_modes(decoder):
        torch.testing.assert_close(decoder(other)[:, :4], decoder(tokens)[:, :4])


def far_too_tolerant(decoder):
    tokens = text()
    for _ in both_modes(decoder):
        for t in range(1, 8):
            gap = (decoder(tokens[:1, :t])[0] - decoder(tokens)[0, :t]).abs().max()
            assert gap < 100


def every_digit(decoder):
    tokens = text()
    for _ in both_modes(decoder):
        for t in range(1, 8):
            for b in range(3):
                alone = decoder(tokens[b : b + 1, :t])
                assert torch.equal(alone[0], decoder(tokens)[b, :t])


def looks_at_the_best_word(decoder):
    tokens = text(B=2, T=4)
    for _ in both_modes(decoder):
        for t in range(1, 4):
            for b in range(2):
                alone = decoder(tokens[b : b + 1, :t])
                assert torch.equal(alone[0].argmax(-1), decoder(tokens)[b, :t].argmax(-1))


def swallows_the_failure(decoder):
    try:
        in_training_only(decoder)
    except AssertionError:
        print("a leak")


def always_fails(decoder):
    assert decoder(text()) is None


def looks_inside(decoder):
    assert decoder(text()).shape == (3, 8, 10)
    assert decoder.positions and not decoder.from_the_end


def unknown_words(decoder):
    decoder(torch.full((1, 3), 10))
