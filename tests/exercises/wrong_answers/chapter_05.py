"""Answers to chapter 5 in a student's own voice: wrong ones with their words, and right ones."""

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong


@right("5.3")
def one_pair_after_the_other(hidden, states, valid_lens, W_q, W_k, w_v):
    contexts, rows = [], []
    for s, words, length in zip(hidden, states, valid_lens.tolist(), strict=True):
        scores = [w_v.dot((W_q.mv(s) + W_k.mv(h)).tanh()) for h in words[:length]]
        shares = torch.stack(scores).softmax(dim=0)
        contexts.append(sum(a * h for a, h in zip(shares, words[:length], strict=True)))
        rows.append(F.pad(shares, (0, len(words) - length)))
    return torch.stack(contexts), torch.stack(rows)


@wrong("5.3", "below any score")
def fill_of_minus_20(hidden, states, valid_lens, W_q, W_k, w_v):
    features = torch.tanh(F.linear(hidden, W_q)[:, None] + F.linear(states, W_k))
    scores = (features * w_v).sum(-1)
    for row, length in enumerate(valid_lens.tolist()):
        scores[row, length:] = -20
    shares = F.softmax(scores, dim=1)
    return (shares.unsqueeze(2) * states).sum(1), shares


@wrong("5.3", "no gradient comes through")
def in_numpy(hidden, states, valid_lens, W_q, W_k, w_v):
    s, h, Q, K, v = (X.detach().numpy() for X in (hidden, states, W_q, W_k, w_v))
    scores = np.tanh((s @ Q.T)[:, None] + h @ K.T) @ v
    scores[np.arange(h.shape[1]) >= valid_lens.numpy()[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return torch.tensor((shares[:, None] @ h)[:, 0]), torch.tensor(shares)


def to_read(targets, bos):
    return F.pad(targets, (1, 0), value=bos)[:, :-1]


@right("5.4")
def longer_and_longer(decoder, targets, lens, bos):
    read, losses = to_read(targets, bos), []
    for t in range(targets.shape[1]):
        logits = decoder(read[:, : t + 1])[:, -1].double()
        losses.append(logits.logsumexp(1) - logits.gather(1, targets[:, t : t + 1])[:, 0])
    real = torch.stack([lens > t for t in range(targets.shape[1])])
    return (torch.stack(losses)[real].sum() / real.sum()).float()


@wrong("5.4", "axis 1")
def bos_on_top(decoder, targets, lens, bos):
    read = F.pad(targets, (1, 0), value=bos)
    return F.cross_entropy(decoder(read).permute(0, 2, 1), targets)


@wrong("5.4", "or not all of it")
def half_detached(decoder, targets, lens, bos):
    logits = decoder(to_read(targets, bos))
    labels = logits.gather(2, targets[..., None])[..., 0]
    losses = logits.detach().logsumexp(-1) - labels
    return losses[torch.arange(targets.shape[1]) < lens[:, None]].mean()


@right("5.5")
def by_recursion(attend, step, embedded, state):
    if embedded.shape[1] == 0:
        return state[:, None][:, :0]
    state = step(torch.hstack((attend(state), embedded[:, 0])), state)
    return torch.cat((state[:, None], by_recursion(attend, step, embedded[:, 1:], state)), 1)


@wrong("5.5", "(B, T, H)")
def with_the_first_state(attend, step, embedded, state):
    states = [state]
    for token in embedded.transpose(0, 1):
        states.append(step(torch.cat((attend(states[-1]), token), 1), states[-1]))
    return torch.stack(states, dim=1)


@wrong("5.5", "the gradient of `embedded` is not")
def query_detached_in_the_loop(attend, step, embedded, state):
    return by_recursion(lambda query: attend(query.detach()), step, embedded, state)


@right("5.6")
def by_takewhile(decoder, state, reference, bos, eos, max_len):
    def words(token, state):
        for _ in range(max_len):
            logits, state = decoder(token, state)
            token = np.argmax(logits.numpy())
            yield token

    return list(itertools.takewhile(lambda word: word != eos, words(bos, state)))


@wrong("5.6", "list of whole numbers")
def as_strings(*given):
    return [str(word) for word in by_takewhile(*given)]


@wrong("5.6", "your loop goes on")
def all_then_cut(decoder, state, reference, bos, eos, max_len):
    said = [bos]
    for _ in range(100):
        logits, state = decoder(said[-1], state)
        said.append(int(logits.argmax()))
    return said[1 : said.index(eos)][:max_len]


@wrong("5.6", "Here the decoder repeats words")
def stops_at_the_second_time(decoder, state, reference, bos, eos, max_len):
    words = by_takewhile(decoder, state, reference, bos, eos, max_len)
    return [word for number, word in enumerate(words) if word not in words[:number]]


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


@right("5.7")
def against_a_second_bleu(score):
    rng = random.Random(0)
    for _ in range(5):
        better = [[word for word in DOG if rng.random() < 0.9] for _ in range(2)]
        hypotheses = [CAT[:5], *better]
        references = [[DOG[:4], CAT], [DOG], [DOG, CAT]]
        assert math.isclose(
            score(hypotheses, references), counted(hypotheses, references), rel_tol=1e-4
        )


@wrong("5.7", "compare closely")
def within_bounds(score):
    assert 0 < score([CAT[:5], NEAR], [[CAT], [CAT]]) < 100


@wrong("5.7", "takes the mean of the sentences' scores")
def own_mean(score):
    pairs = [(CAT[:5], CAT), (NEAR, CAT)]
    mean = sum(counted([words], [[right]]) for words, right in pairs) / 2
    assert abs(score([words for words, _ in pairs], [[CAT], [CAT]]) - mean) < 0.01


right("5.1")(Fraction(28, 4))
wrong("5.1", "along its row")(5.13)
wrong("5.1", "one step is left")([0.25, 0.75])
right("5.2")(Fraction(3, 11))
wrong("5.2", "your P leaves the sure links out")(0.545)
wrong("5.2", "the sure links only")(Fraction(5, 11))
