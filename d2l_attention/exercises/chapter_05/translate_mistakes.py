"""Wrong answers to 5.6, as students give them."""

import torch


def still_forced(decoder, state, reference, bos, eos, max_len):
    words = []
    for token in [bos, *reference][:max_len]:
        logits, state = decoder(token, state)
        word = logits.argmax().item()
        if word == eos:
            break
        words.append(word)
    return words


def free(decoder, state, bos, eos, max_len, keep=()):
    """The right way, after words that are kept."""
    words, token = list(keep), bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        if token == eos:
            break
        words.append(token)
    return words


def forced_where_there_is_one(decoder, state, reference, bos, eos, max_len):
    if reference is None:
        return free(decoder, state, bos, eos, max_len)
    return still_forced(decoder, state, reference, bos, eos, max_len)


def forced_where_it_errs(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for step in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        if token == eos:
            break
        words.append(token)
        if reference and step < len(reference) and token != reference[step]:
            token = reference[step]
    return words


def as_long_as_the_reference(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, eos, len(reference) + 1)[:max_len]


def not_longer_than_the_reference(decoder, state, reference, bos, eos, max_len):
    steps = max_len if reference is None else min(max_len, len(reference))
    return free(decoder, state, bos, eos, steps)


def goes_on_after_eos(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        if token != eos:
            words.append(token)
    return words


def waits_for_eos(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    while token != eos:
        words.append(token)
        logits, state = decoder(token, state)
        token = logits.argmax().item()
    return words[1:]


def never_ends(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    while len(words) < 100:
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        words.append(token)
    return words[:max_len]


def keeps_eos(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        words.append(token)
        if token == eos:
            break
    return words


def keeps_bos(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, eos, max_len, keep=[bos])


def hears_bos_always(decoder, state, reference, bos, eos, max_len):
    words = []
    for _ in range(max_len):
        logits, state = decoder(bos, state)
        word = logits.argmax().item()
        if word == eos:
            break
        words.append(word)
    return words


def state_lost(decoder, state, reference, bos, eos, max_len):
    return free(lambda token, _: decoder(token, state), state, bos, eos, max_len)


def begins_with_eos(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, eos, eos, max_len)


def one_word_short(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, eos, max_len - 1)


def one_word_too_many(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, eos, max_len + 1)


def samples(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = torch.multinomial(logits.softmax(dim=0), 1).item()
        if token == eos:
            break
        words.append(token)
    return words


def least_likely(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = (-logits).argmax().item()
        if token == eos:
            break
        words.append(token)
    return words


def eos_is_2(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, 2, max_len)


def last_word_only(decoder, state, reference, bos, eos, max_len):
    return free(decoder, state, bos, eos, max_len)[-1:]


def logits_kept(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()
        words.append(logits)
    return words


def words_in_a_string(decoder, state, reference, bos, eos, max_len):
    return " ".join(map(str, free(decoder, state, bos, eos, max_len)))


def without_return(decoder, state, reference, bos, eos, max_len):
    free(decoder, state, bos, eos, max_len)
