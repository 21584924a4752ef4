"""How good a translation and an alignment are.

Sentences are lists of tokens; an alignment is a set of links (source index, target index).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from torch import Tensor

from d2l_attention.attention.checks import as_whole, check_floats, check_whole
from d2l_attention.data.corpus import check_tokenized

Sentence = Sequence[str]
Link = tuple[int, int]


def bleu(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> float:
    """Corpus BLEU from 0 to 100, through sacrebleu; each hypothesis has its references.

    ``references[i]`` are all acceptable translations of sentence i, so
    ``references[i] == [translation]`` where there is one. Tokens are compared as they are: one
    with a space in it, or an empty one, is one token. Where no hypothesis has four tokens the score
    is 0, however right they are: BLEU-4 is a mean over runs of one to four tokens.

    Errors: ``ValueError`` where a hypothesis has no references, or the numbers differ.
    ``TypeError`` for tokens that are no text, and where references are sentences rather than lists
    of sentences: the swap of arguments that gives a plausible wrong number.

    Source: Papineni et al. (2002); Post (2018).
    """
    import sacrebleu  # only whoever measures needs it

    check_pairs(hypotheses, references)
    if not hypotheses:
        raise ValueError("no hypotheses: BLEU of nothing is not defined")
    # sacrebleu takes text and cuts it at spaces: a token may not have any.
    hypotheses = [list(map(in_one_piece, hypothesis)) for hypothesis in hypotheses]
    references = [[list(map(in_one_piece, one)) for one in given] for given in references]
    most = max(map(len, references))
    # sacrebleu wants one list for the first references of all, one for the second, ...
    streams = [
        [" ".join(given[i]) if i < len(given) else None for given in references]
        for i in range(most)
    ]
    texts = [" ".join(hypothesis) for hypothesis in hypotheses]
    score = sacrebleu.corpus_bleu(texts, streams, tokenize="none", force=True).score
    return min(score, 100.0)  # rounded, a perfect one is 100.00000000000004


def in_one_piece(token: str) -> str:
    """The token with a number for each space in it: text that is not cut, and no other token's.

    An empty token becomes a percent sign, and a percent sign is numbered as a space is.
    """
    return "".join(f"%{ord(c)};" if c.isspace() or c == "%" else c for c in token) or "%"


def exact_match(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> float:
    """Share of hypotheses, 0 to 1, that are one of their references, word for word."""
    check_pairs(hypotheses, references)
    if not hypotheses:
        raise ValueError("no hypotheses: a share of nothing is not defined")
    hits = (
        any(list(hypothesis) == list(reference) for reference in given)
        for hypothesis, given in zip(hypotheses, references, strict=True)
    )
    return sum(hits) / len(hypotheses)


def check_pairs(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"every hypothesis needs its references, got {len(hypotheses)} hypotheses "
            f"and {len(references)} lists of references"
        )
    for hypothesis, given in zip(hypotheses, references, strict=True):
        if isinstance(hypothesis, str) or not all(isinstance(word, str) for word in hypothesis):
            raise TypeError(f"a hypothesis must be a list of tokens, got {hypothesis!r}")
        if not given:
            raise ValueError(f"no references for the hypothesis {hypothesis!r}")
        if isinstance(given, str) or any(isinstance(reference, str) for reference in given):
            raise TypeError(
                f"references must be a list of sentences, each a list of tokens, got {given!r}"
            )
        if not all(isinstance(word, str) for reference in given for word in reference):
            raise TypeError(f"a reference must be a list of tokens, got {given!r}")


def alignment_error_rate(
    found: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> float:
    """1 - (|A n S| + |A n P|) / (|A| + |S|) over a whole corpus: 0 is perfect, 1 all wrong.

    Sure links must be found, possible ones may be. Sure links count as possible too.

    Errors: ``ValueError`` where the numbers of sentences differ or there is no link at all, and for
    a link that is no two whole numbers.

    Source: Och and Ney (2003), section 5.
    """
    if not len(found) == len(sure) == len(possible):
        raise ValueError(
            "found, sure and possible must have one entry a sentence, "
            f"got {len(found)}, {len(sure)} and {len(possible)}"
        )
    hits = total = 0
    for three in zip(found, sure, possible, strict=True):
        A, S, P = map(link_set, ("found", "sure", "possible"), three)
        hits += len(A & S) + len(A & (P | S))
        total += len(A) + len(S)
    if total == 0:
        raise ValueError("no links, neither found nor sure: the error rate is not defined")
    return 1 - hits / total


def link_set(name: str, links: Collection[Any]) -> set[Link]:
    """The links as Python's own numbers: two tensors of one number are two members of a set."""
    pairs = set()
    for link in links:
        pair = tuple(map(as_whole, link)) if isinstance(link, Iterable) else ()
        if len(pair) != 2 or None in pair:
            raise ValueError(f"{name} must hold links of two whole numbers, got {link!r}")
        pairs.add(pair)
    return pairs


def align_by_attention(weights: Tensor, num_source: int, num_target: int) -> set[Link]:
    """Each target word's largest weight as its link; no link where that is 0 or no number.

    Shape: weights (T, S), of which the first ``num_target`` rows and ``num_source`` columns
    are words.

    Errors: ``TypeError`` unless weights are floats, ``ValueError`` where they have fewer rows or
    columns than there are words.
    """
    check_floats("weights", weights)
    num_target = check_whole("num_target", num_target, 0)
    num_source = check_whole("num_source", num_source, 0)
    if weights.ndim != 2 or weights.shape[0] < num_target or weights.shape[1] < num_source:
        raise ValueError(
            f"weights must have shape (T, S), from ({num_target}, {num_source}) on, "
            f"got {tuple(weights.shape)}"
        )
    if num_source == 0:  # nothing has no largest weight
        return set()
    largest, sources = weights[:num_target, :num_source].max(dim=-1)
    rows = enumerate(zip(largest.tolist(), sources.tolist(), strict=True))
    return {(source, target) for target, (weight, source) in rows if weight > 0}


def align_diagonally(num_source: int, num_target: int) -> set[Link]:
    """Each target word to the source word at the same relative position: the simplest guess.

    Errors: ``ValueError`` unless the numbers of words are whole numbers from 0 on.
    """
    num_source = check_whole("num_source", num_source, 0)
    num_target = check_whole("num_target", num_target, 0)
    if num_source == 0:  # a link needs two ends
        return set()
    return {
        (min(int((target + 0.5) * num_source / num_target), num_source - 1), target)
        for target in range(num_target)
    }


class IBMModel1:
    """Word translation probabilities t(target | source), learned without any alignment.

    Each target word comes from one source word or from none (the empty word), every one
    equally likely beforehand; expectation-maximisation does the rest.

    Errors: ``ValueError`` where there are no pairs or iterations, ``TypeError`` where a sentence is
    a string instead of a sequence of tokens.

    Source: Brown et al. (1993), section 4.1.
    """

    EMPTY = None

    def __init__(self, pairs: Sequence[tuple[Sentence, Sentence]], *, iterations: int = 10):
        if not pairs:
            raise ValueError("pairs must hold at least one pair of sentences, got none")
        check_tokenized("sentences", (sentence for pair in pairs for sentence in pair))
        iterations = check_whole("iterations", iterations)
        pairs = [([self.EMPTY, *source], list(target)) for source, target in pairs]
        together = {(f, e) for source, target in pairs for e in source for f in target}
        self.t = dict.fromkeys(together, 1.0)
        for _ in range(iterations):
            self._improve(pairs)

    def _improve(self, pairs: Sequence[tuple[Sentence, Sentence]]) -> None:
        """Count who may have come from whom, in shares, and divide."""
        counts: defaultdict = defaultdict(float)
        totals: defaultdict = defaultdict(float)
        for source, target in pairs:
            for f in target:
                total = sum(self.t[f, e] for e in source)
                for e in source:
                    share = self.t[f, e] / total
                    counts[f, e] += share
                    totals[e] += share
        self.t = {(f, e): count / totals[e] for (f, e), count in counts.items()}

    def align(self, source: Sentence, target: Sentence) -> set[Link]:
        """Each target word's most likely source word; no link where that is the empty word."""
        check_tokenized("source and target", (source, target))
        links = set()
        for position, f in enumerate(target):
            best, best_t = None, self.t.get((f, self.EMPTY), 0.0)
            for candidate, e in enumerate(source):
                if self.t.get((f, e), 0.0) > best_t:
                    best, best_t = candidate, self.t[f, e]
            if best is not None:
                links.add((best, position))
        return links
