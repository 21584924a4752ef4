"""How good a translation and an alignment are.

Sentences are lists of tokens; an alignment is a set of links (source index, target index).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from torch import Tensor

Sentence = Sequence[str]
Link = tuple[int, int]


def bleu(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> float:
    """Corpus BLEU from 0 to 100, through sacrebleu; each hypothesis has its references.

    ``references[i]`` are all acceptable translations of sentence i, so
    ``references[i] == [translation]`` where there is one. Tokens are compared as they are: one
    with a space in it, or an empty one, is one token.

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
    return sacrebleu.corpus_bleu(texts, streams, tokenize="none", force=True).score


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

    Errors: ``ValueError`` where the numbers of sentences differ or there is no link at all.

    Source: Och and Ney (2003), section 5.
    """
    if not len(found) == len(sure) == len(possible):
        raise ValueError(
            "found, sure and possible must have one entry a sentence, "
            f"got {len(found)}, {len(sure)} and {len(possible)}"
        )
    hits = total = 0
    for A, S, P in zip(map(set, found), map(set, sure), map(set, possible), strict=True):
        hits += len(A & S) + len(A & (P | S))
        total += len(A) + len(S)
    if total == 0:
        raise ValueError("no links, neither found nor sure: the error rate is not defined")
    return 1 - hits / total


def align_by_attention(weights: Tensor, num_source: int, num_target: int) -> set[Link]:
    """Each target word's largest weight as its link.

    Shape: weights (T, S), of which the first ``num_target`` rows and ``num_source`` columns
    are words.
    """
    weights = weights[:num_target, :num_source]
    return {(source, target) for target, source in enumerate(weights.argmax(dim=-1).tolist())}


def align_diagonally(num_source: int, num_target: int) -> set[Link]:
    """Each target word to the source word at the same relative position: the simplest guess."""
    return {
        (min(int((target + 0.5) * num_source / num_target), num_source - 1), target)
        for target in range(num_target)
    }


class IBMModel1:
    """Word translation probabilities t(target | source), learned without any alignment.

    Each target word comes from one source word or from none (the empty word), every one
    equally likely beforehand; expectation-maximisation does the rest.

    Source: Brown et al. (1993), section 4.1.
    """

    EMPTY = None

    def __init__(self, pairs: Sequence[tuple[Sentence, Sentence]], *, iterations: int = 10):
        if not pairs:
            raise ValueError("pairs must hold at least one pair of sentences, got none")
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
        links = set()
        for position, f in enumerate(target):
            best, best_t = None, self.t.get((f, self.EMPTY), 0.0)
            for candidate, e in enumerate(source):
                if self.t.get((f, e), 0.0) > best_t:
                    best, best_t = candidate, self.t[f, e]
            if best is not None:
                links.add((best, position))
        return links
