"""Answers to chapter 5 in a student's own voice: wrong ones with their words, and right ones."""

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import additive_score, masked_softmax
from d2l_attention.training.metrics import bleu

# 5.3 --------------------------------------------------------------------------------------


def one_pair_after_the_other(hidden, states, valid_lens, W_q, W_k, w_v):
    contexts, rows = [], []
    for s, words, length in zip(hidden, states, valid_lens.tolist(), strict=True):
        scores = [w_v.dot((W_q.mv(s) + W_k.mv(h)).tanh()) for h in words[:length]]
        shares = torch.stack(scores).softmax(dim=0)
        contexts.append(sum(a * h for a, h in zip(shares, words[:length], strict=True)))
        rows.append(F.pad(shares, (0, len(words) - length)))
    return torch.stack(contexts), torch.stack(rows)


def by_einsum_in_double(hidden, states, valid_lens, W_q, W_k, w_v):
    s, h, Q, K, v = (X.double() for X in (hidden, states, W_q, W_k, w_v))
    asked = torch.einsum("bh,ah->ba", s, Q).unsqueeze(1) + torch.einsum("bsh,ah->bsa", h, K)
    scores = torch.einsum("bsa,a->bs", asked.tanh(), v)
    seen = (torch.arange(h.shape[1]).expand(len(h), -1) < valid_lens.unsqueeze(1)).double()
    largest = scores.where(seen.bool(), -math.inf).amax(1, keepdim=True)
    shares = (scores - largest).clamp(max=0).exp() * seen
    shares = shares / shares.sum(1, keepdim=True)
    return torch.einsum("bs,bsh->bh", shares, h).to(hidden.dtype), shares.to(hidden.dtype)


def by_the_package(hidden, states, valid_lens, W_q, W_k, w_v):
    scores = additive_score(F.linear(hidden, W_q).unsqueeze(1), F.linear(states, W_k), w_v)
    shares = masked_softmax(scores, valid_lens)
    return torch.bmm(shares, states).squeeze(1), shares.squeeze(1)


def book_fill(hidden, states, valid_lens, W_q, W_k, w_v, fill=-1e6):
    features = torch.tanh(F.linear(hidden, W_q)[:, None] + F.linear(states, W_k))
    scores = (features * w_v).sum(-1)
    for row, length in enumerate(valid_lens.tolist()):
        scores[row, length:] = fill
    shares = F.softmax(scores, dim=1)
    return (shares.unsqueeze(2) * states).sum(1), shares


def fill_of_minus_20(*given):
    return book_fill(*given, fill=-20)


def fill_of_minus_1000(*given):
    return book_fill(*given, fill=-1000)


def in_numpy(hidden, states, valid_lens, W_q, W_k, w_v):
    s, h, Q, K, v = (X.detach().numpy() for X in (hidden, states, W_q, W_k, w_v))
    scores = np.tanh((s @ Q.T)[:, None] + h @ K.T) @ v
    scores[np.arange(h.shape[1]) >= valid_lens.numpy()[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return torch.tensor((shares[:, None] @ h)[:, 0]), torch.tensor(shares)


def values_detached(hidden, states, valid_lens, W_q, W_k, w_v):
    _, shares = by_the_package(hidden, states, valid_lens, W_q, W_k, w_v)
    return (shares[:, None] @ states.detach())[:, 0], shares


def query_detached(hidden, *others):
    return by_the_package(hidden.detach(), *others)


def single_precision(hidden, states, valid_lens, *weights):
    context, shares = one_pair_after_the_other(hidden, states, valid_lens, *weights)
    return context.float(), shares.float()


def padding_cut_off(hidden, states, valid_lens, W_q, W_k, w_v):
    states = states[:, : valid_lens.max()]
    return by_the_package(hidden, states, valid_lens, W_q, W_k, w_v)


# 5.4 --------------------------------------------------------------------------------------


def to_read(targets, bos):
    return F.pad(targets, (1, 0), value=bos)[:, :-1]


def word_after_word(decoder, targets, lens, bos):
    total, read = 0.0, [[bos, *row[:-1]] for row in targets.tolist()]
    log_probs = decoder(torch.tensor(read)).log_softmax(-1)
    for b, length in enumerate(lens.tolist()):
        for t in range(length):
            total = total - log_probs[b, t, targets[b, t]]
    return total / lens.sum()


def ignored_labels(decoder, targets, lens, bos):
    labels = targets.clone()
    for row, length in zip(labels, lens.tolist(), strict=True):
        row[length:] = -100
    return F.cross_entropy(decoder(to_read(targets, bos)).flatten(0, 1), labels.flatten())


def longer_and_longer(decoder, targets, lens, bos):
    read, losses = to_read(targets, bos), []
    for t in range(targets.shape[1]):
        logits = decoder(read[:, : t + 1])[:, -1].double()
        losses.append(logits.logsumexp(1) - logits.gather(1, targets[:, t : t + 1])[:, 0])
    real = torch.stack([lens > t for t in range(targets.shape[1])])
    return (torch.stack(losses)[real].sum() / real.sum()).float()


def all_places(decoder, targets, lens, bos):
    return F.cross_entropy(decoder(to_read(targets, bos)).flatten(0, 1), targets.flatten())


def sentence_after_sentence(decoder, targets, lens, bos):
    logits, losses = decoder(to_read(targets, bos)), []
    for row, labels, length in zip(logits, targets, lens.tolist(), strict=True):
        losses.append(F.cross_entropy(row[:length], labels[:length]))
    return sum(losses) / len(losses)


def ignores_0(decoder, targets, lens, bos):
    logits = decoder(to_read(targets, bos)).permute(0, 2, 1)
    return F.cross_entropy(logits, targets, ignore_index=0)


def nothing_shifted(decoder, targets, lens, bos):
    return ignored_labels(lambda _: decoder(targets), targets, lens, bos)


def bos_on_top(decoder, targets, lens, bos):
    read = F.pad(targets, (1, 0), value=bos)
    return F.cross_entropy(decoder(read).permute(0, 2, 1), targets)


def share_of_right_words(decoder, targets, lens, bos):
    said = decoder(to_read(targets, bos)).argmax(-1)
    real = torch.arange(targets.shape[1]) < lens[:, None]
    return (said == targets)[real].float().mean()


def as_a_number(decoder, targets, lens, bos):
    return float(ignored_labels(decoder, targets, lens, bos))


def half_detached(decoder, targets, lens, bos):
    logits = decoder(to_read(targets, bos))
    labels = logits.gather(2, targets[..., None])[..., 0]
    losses = logits.detach().logsumexp(-1) - labels
    return losses[torch.arange(targets.shape[1]) < lens[:, None]].mean()


# 5.5 --------------------------------------------------------------------------------------


def by_recursion(attend, step, embedded, state):
    if embedded.shape[1] == 0:
        return state[:, None][:, :0]
    state = step(torch.hstack((attend(state), embedded[:, 0])), state)
    return torch.cat((state[:, None], by_recursion(attend, step, embedded[:, 1:], state)), 1)


def into_a_table(attend, step, embedded, state):
    B, T, _ = embedded.shape
    table = torch.zeros(B, T, state.shape[1])
    for t in range(T):
        query = table[:, t - 1].clone() if t else state
        table[:, t] = step(torch.cat([attend(query), embedded[:, t]], 1), query)
    return table


def by_accumulate(attend, step, embedded, state):
    def one(before, token):
        return step(torch.column_stack((attend(before), token)), before)

    states = itertools.accumulate(embedded.transpose(0, 1), one, initial=state)
    return torch.stack(list(states)[1:]).transpose(0, 1)


def asks_with_the_first_state(attend, step, embedded, state):
    states, looked = [state], attend(state)
    for t in range(embedded.shape[1]):
        states += [step(torch.cat([looked, embedded[:, t]], 1), states[-1])]
    return torch.stack(states[1:], 1)


def with_the_first_state(attend, step, embedded, state):
    states = [state]
    for token in embedded.transpose(0, 1):
        states.append(step(torch.cat((attend(states[-1]), token), 1), states[-1]))
    return torch.stack(states, dim=1)


def query_detached_in_the_loop(attend, step, embedded, state):
    return by_recursion(lambda query: attend(query.detach()), step, embedded, state)


def states_detached(attend, step, embedded, state):
    return by_recursion(attend, step, embedded, state).detach()


def sentence_by_sentence(attend, step, embedded, state):
    return by_recursion(attend, step, embedded[:1], state[:1])


def two_bugs_left(attend, step, embedded, state):
    context, outputs = attend(state), []
    for t in range(embedded.shape[1]):
        new = step(torch.cat((context, embedded[:, t]), 1), state)
        context, state = attend(state), new
        outputs += [new]
    return torch.stack(outputs)


# 5.6 --------------------------------------------------------------------------------------


def until_eos(decoder, state, reference, bos, eos, max_len):
    said = [bos]
    while len(said) <= max_len:
        logits, state = decoder(said[-1], state)
        said.append(max(range(len(logits)), key=logits.tolist().__getitem__))
        if said[-1] == eos:
            return said[1:-1]
    return said[1:]


def by_takewhile(decoder, state, reference, bos, eos, max_len):
    def words(token, state):
        for _ in range(max_len):
            logits, state = decoder(token, state)
            token = np.argmax(logits.numpy())
            yield token

    return list(itertools.takewhile(lambda word: word != eos, words(bos, state)))


def one_more(decoder, state, reference, bos, eos, max_len):
    if max_len == 0:
        return []
    logits, state = decoder(bos, state)
    word = logits.argmax()
    rest = () if word == eos else one_more(decoder, state, None, word, eos, max_len - 1)
    return [] if word == eos else [word, *rest]


def as_strings(*given):
    return [str(word) for word in until_eos(*given)]


def as_a_generator(*given):
    return (word for word in until_eos(*given))


def as_a_tensor(*given):
    return torch.tensor(until_eos(*given))


def as_probabilities(decoder, state, reference, bos, eos, max_len):
    rows = []
    for word in [bos, *until_eos(decoder, state, reference, bos, eos, max_len)]:
        logits, state = decoder(word, state)
        rows.append(logits.softmax(0).tolist())
    return rows


def all_then_cut(decoder, state, reference, bos, eos, max_len):
    said = [bos]
    for _ in range(100):
        logits, state = decoder(said[-1], state)
        said.append(int(logits.argmax()))
    return said[1 : said.index(eos)][:max_len]


def stops_at_the_second_time(decoder, state, reference, bos, eos, max_len):
    words = until_eos(decoder, state, reference, bos, eos, max_len)
    return [word for number, word in enumerate(words) if word not in words[:number]]


def reference_first(decoder, state, reference, bos, eos, max_len):
    if reference:
        return reference[:max_len]
    return until_eos(decoder, state, reference, bos, eos, max_len)


# 5.7 --------------------------------------------------------------------------------------

CAT, DOG = "le chat dort sur le lit".split(), "un chien mange sa soupe ce soir".split()
NEAR = "le chat dort sur un lit".split()


def counted(hypotheses, references):
    """BLEU written anew."""
    logs, length = 0.0, sum(map(len, hypotheses))
    for n in range(1, 5):
        hits = total = 0
        for words, given in zip(hypotheses, references, strict=True):
            mine, *theirs = (
                Counter(zip(*(one[i:] for i in range(n)), strict=False)) for one in (words, *given)
            )
            most = theirs[0]
            for other in theirs[1:]:
                most = most | other
            hits, total = hits + (mine & most).total(), total + mine.total()
        logs += math.log(hits / total) / 4
    nearest = [
        min((abs(len(one) - len(words)), len(one)) for one in given)[1]
        for words, given in zip(hypotheses, references, strict=True)
    ]
    return 100 * math.exp(logs + min(0.0, 1 - sum(nearest) / length))


def against_a_second_bleu(score):
    rng = random.Random(0)
    for _ in range(5):
        better = [[word for word in DOG if rng.random() < 0.9] for _ in range(2)]
        hypotheses = [CAT[:5], *better]
        references = [[DOG[:4], CAT], [DOG], [DOG, CAT]]
        assert math.isclose(
            score(hypotheses, references), counted(hypotheses, references), rel_tol=1e-4
        )


def by_known_numbers(score):
    for hypotheses, references, known in [
        ([CAT[:4]], [[CAT]], 60.6531),
        ([CAT, NEAR], [[CAT], [CAT]], 77.8158),
        ([CAT], [[DOG, CAT]], 100),
    ]:
        np.testing.assert_allclose(score(hypotheses, references), known, atol=1e-3)


def without_a_call(score):
    assert abs(bleu([CAT[:4]], [[CAT]]) - 60.65) < 0.01


def perfect_only(score):
    assert score([CAT, DOG], [[CAT], [DOG]]) > 99.9


def equal_lengths(score):
    assert abs(score([NEAR], [[CAT]]) - counted([NEAR], [[CAT]])) < 1e-3


def one_pair(score):
    assert abs(score([CAT[:4]], [[CAT]]) - counted([CAT[:4]], [[CAT]])) < 1e-3


def letters_by_chance(score):
    assert abs(score([CAT[:5]], [[CAT]]) - 100 * math.exp(1 - 6 / 5)) < 1e-3


def within_bounds(score):
    assert 0 < score([CAT[:5], NEAR], [[CAT], [CAT]]) < 100


def every_digit(score):
    assert score([CAT[:4]], [[CAT]]) == bleu([CAT[:4]], [[CAT]])


def three_words(score):
    assert score([CAT[:3]], [[DOG[:3]]]) == 0


def own_mean(score):
    pairs = [(CAT[:5], CAT), (NEAR, CAT)]
    mean = sum(counted([words], [[right]]) for words, right in pairs) / 2
    assert abs(score([words for words, _ in pairs], [[CAT], [CAT]]) - mean) < 0.01


RIGHT = {
    "5.1": [7, [7.0], torch.tensor(7), np.float32(7.0), Fraction(28, 4)],
    "5.2": [Fraction(3, 11), 0.2727, np.float64(0.273), torch.tensor([0.273])],
    "5.3": [one_pair_after_the_other, by_einsum_in_double, by_the_package, book_fill],
    "5.4": [word_after_word, ignored_labels, longer_and_longer],
    "5.5": [by_recursion, into_a_table, by_accumulate],
    "5.6": [until_eos, by_takewhile, one_more],
    "5.7": [against_a_second_bleu, by_known_numbers],
}
WRONG = {
    "5.1": [
        (4.5, "you asked with s_2"),
        (5.13, "along its row"),
        ([0.25, 0.75], "one step is left"),
        ([0, 0.25, 0.75, 0], "it should hold one number"),
        ("7", "Give a number"),
    ],
    "5.2": [
        (0.545, "your P leaves the sure links out"),
        (Fraction(5, 11), "the sure links only"),
        (-3 / 11, "never negative"),
        ("3/11", "Give a number"),
        (0.2, "too small"),
    ],
    "5.3": [
        (fill_of_minus_20, "below any score"),
        (fill_of_minus_1000, "below any score"),
        (in_numpy, "no gradient comes through"),
        (values_detached, "the gradient of `states` is not"),
        (query_detached, "no gradient reaches `hidden`"),
        (single_precision, "is float32; for these inputs it should be float64"),
        (padding_cut_off, "Result 2 of 2: Your result has shape"),
    ],
    "5.4": [
        (all_places, "The padding is in your loss"),
        (sentence_after_sentence, "the mean of the sentences' means"),
        (ignores_0, "where the lengths say it ends"),
        (nothing_shifted, "it learns to copy"),
        (bos_on_top, "axis 1"),
        (share_of_right_words, "it should be"),
        (as_a_number, "should return a tensor"),
        (half_detached, "or not all of it"),
    ],
    "5.5": [
        (asks_with_the_first_state, "the decoder looks once"),
        (with_the_first_state, "(B, T, H)"),
        (query_detached_in_the_loop, "the gradient of `embedded` is not"),
        (states_detached, "no gradient comes through"),
        (sentence_by_sentence, "for a batch it is not"),
        (two_bugs_left, "Two mistakes at once: Step 2 gets the context that s_0 asked for"),
    ],
    "5.6": [
        (as_strings, "list of whole numbers"),
        (as_a_generator, "returned a generator"),
        (as_a_tensor, "returned a Tensor"),
        (as_probabilities, "list of whole numbers"),
        (all_then_cut, "your loop goes on"),
        (stops_at_the_second_time, "Here the decoder repeats words"),
        (reference_first, "it should be [5, 7, 6]"),
    ],
    "5.7": [
        (without_a_call, "without ever calling `score`"),
        (perfect_only, "All your scores are 0 or 100"),
        (equal_lengths, "With as many words on both sides"),
        (letters_by_chance, "words of several letters"),
        (one_pair, "It takes two sentences"),
        (within_bounds, "compare closely"),
        (every_digit, "every digit to agree"),
        (three_words, "none of your sentences has four words"),
        (own_mean, "takes the mean of the sentences' scores"),
    ],
}
