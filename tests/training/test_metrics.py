import math
import random
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d2l_attention.models.encoder_decoder import guidance_loss
from d2l_attention.training.metrics import (
    IBMModel1,
    align_by_attention,
    align_diagonally,
    alignment_error_rate,
    bleu,
    exact_match,
)

CAT = "le chat dort sur le lit".split()


class TestBleu:
    def test_perfect_and_hopeless(self):
        assert bleu([CAT], [[CAT]]) == 100
        assert bleu(["x y z u v w".split()], [[CAT]]) < 1e-3

    def test_by_hand(self):
        # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples; the lengths agree.
        hypothesis = "le chat dort sur un lit".split()
        expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
        assert bleu([hypothesis], [[CAT]]) == pytest.approx(expected, rel=1e-6)

    def test_a_short_hypothesis_pays(self):
        short = bleu([CAT[:4]], [[CAT]])
        assert short == pytest.approx(100 * math.exp(1 - 6 / 4), rel=1e-6)

    def test_any_reference_will_do(self):
        other = "le chat dort dans son lit".split()
        assert bleu([other], [[CAT, other]]) == pytest.approx(100)
        assert bleu([CAT, other], [[CAT], [CAT, other]]) == pytest.approx(100)

    def test_swapped_arguments_are_not_a_smaller_number(self):
        with pytest.raises(TypeError):
            bleu([[CAT]], [CAT])

    def test_a_token_is_a_token_whatever_is_in_it(self):
        # 'New York' is one word that the reference does not have: 5 of 6, 4 of 5, 3 of 4, 2 of 3
        # words, pairs, triples and quadruples fit, and 6 tokens against 7 pay exp(1 - 7/6).
        rest = "is a big old city".split()
        expected = 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25 * math.exp(1 - 7 / 6)
        found = bleu([["New York", *rest]], [[["New", "York", *rest]]])
        assert found == pytest.approx(expected, rel=1e-6)
        assert bleu([["New York", *rest]], [[["New York", *rest]]]) == pytest.approx(100)

    @pytest.mark.parametrize(
        "odd", ["", " ", "\n", "\u00a0", "a b", "0", "12", "&quot;", "%", "%32;", "-\n"]
    )
    def test_no_token_is_lost_or_taken_for_another(self, odd):
        assert bleu([[odd] * 4], [[[odd] * 4]]) == pytest.approx(100)
        # One odd token of five, the last: 4 of 5, 3 of 4, 2 of 3, 1 of 2.
        expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
        found = bleu([["a", "b", "c", "d", odd]], [["a b c d e".split()]])
        assert found == pytest.approx(expected, rel=1e-6)

    @given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=2, max_size=4))
    def test_the_spelling_of_tokens_does_not_matter(self, sentences):
        words = [["le", "chat", "dort", "bien"], ["", "a b", "a", "b\n"]]
        values = []
        for spelling in words:
            hypotheses = [[spelling[i] for i in sentence] for sentence in sentences]
            references = [[hypotheses[i - 1], hypotheses[i - 2]] for i in range(len(hypotheses))]
            values.append(bleu(hypotheses, references))
        assert values[0] == pytest.approx(values[1])

    @given(st.text(" %3;2\n", max_size=6), st.text(" %3;2\n", max_size=6))
    def test_two_tokens_are_never_one(self, one, other):
        found = bleu([[one] * 4], [[[other] * 4]])
        assert found == pytest.approx(100) if one == other else found < 1e-3

    def test_no_space_of_any_alphabet_cuts(self):
        spaces = filter(str.isspace, map(chr, range(0x3001)))
        words = [word for space in spaces for word in (f"a{space}b", space, "c", "d")]
        assert bleu([words], [[words]]) == pytest.approx(100)
        assert bleu([words], [["a b c d".split() * (len(words) // 4)]]) < 50

    def test_errors(self):
        with pytest.raises(
            TypeError, match=r"a reference must be a list of tokens, got \[\[0, 1\]\]"
        ):
            bleu([["0", "1"]], [[[0, 1]]])
        with pytest.raises(ValueError, match="2 hypotheses and 1 lists of references"):
            bleu([CAT, CAT], [[CAT]])
        with pytest.raises(ValueError, match="no references for the hypothesis"):
            bleu([CAT], [[]])
        with pytest.raises(TypeError, match="a hypothesis must be a list of tokens, got 'le chat'"):
            bleu(["le chat"], [[CAT]])
        for empty in (bleu, exact_match):
            with pytest.raises(ValueError, match="no hypotheses"):
                empty([], [])


def test_exact_match():
    assert exact_match([CAT, CAT, ["non"]], [[CAT], [["oui"], CAT], [["oui"]]]) == 2 / 3


class TestAlignmentErrorRate:
    def test_by_hand(self):
        found, sure, possible = [{(0, 0), (1, 2)}], [{(0, 0), (1, 1)}], [{(1, 2)}]
        # |A n S| = 1, |A n (P or S)| = 2, |A| = |S| = 2
        assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - 3 / 4)

    def test_perfect_and_hopeless(self):
        sure = [{(0, 0), (1, 1)}]
        assert alignment_error_rate(sure, sure, [set()]) == 0
        assert alignment_error_rate([{(0, 1)}], sure, [set()]) == 1

    def test_agrees_with_nltk(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nltk's own imports
            nltk = pytest.importorskip("nltk.translate")
        for seed in range(20):
            rng = random.Random(seed)
            links = [(s, t) for s in range(5) for t in range(7)]
            found, possible = rng.sample(links, 6), rng.sample(links, 12)
            sure = possible[:5]
            theirs = nltk.alignment_error_rate(
                nltk.Alignment(sure), nltk.Alignment(found), nltk.Alignment(possible)
            )
            assert alignment_error_rate([found], [sure], [possible]) == pytest.approx(theirs)

    @given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def test_counts_links_not_sentences(self, sizes):
        """Twice the same corpus is the same rate; a long sentence weighs more than a short."""
        found = [{(i, i) for i in range(size)} for size in sizes]
        sure = [{(i, 0) for i in range(size)} for size in sizes]
        nothing = [set()] * len(sizes)
        once = alignment_error_rate(found, sure, nothing)
        assert once == pytest.approx(1 - len(sizes) / sum(sizes))
        assert alignment_error_rate(found * 2, sure * 2, nothing * 2) == pytest.approx(once)

    def test_errors(self):
        with pytest.raises(ValueError, match="got 1, 2 and 1"):
            alignment_error_rate([set()], [set(), set()], [set()])
        with pytest.raises(ValueError, match="no links"):
            alignment_error_rate([set()], [set()], [{(0, 0)}])
        for wrong in ((0, 0.5), (0,), (0, 1, 2), (0, True), 3):
            with pytest.raises(ValueError, match="sure must hold links of two whole numbers, got"):
                alignment_error_rate([{(0, 0)}], [{wrong}], [set()])

    def test_links_of_tensors_and_of_numpy(self):
        links = torch.tensor([[0, 0], [2, 1]])
        for found in (links, list(links), [tuple(link) for link in links], links.numpy()):
            assert alignment_error_rate([found], [{(0, 0), (2, 1)}], [set()]) == 0
            assert alignment_error_rate([{(0, 0), (2, 1)}], [found], [found]) == 0


def test_align_by_attention_looks_at_words_only():
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.0, 0.0, 1.0]])
    assert align_by_attention(weights, num_source=2, num_target=2) == {(1, 0), (0, 1)}


def test_align_by_attention_finds_no_link_without_weight():
    nan = math.nan
    weights = torch.tensor([[0.0, 0.0], [nan, nan], [0.9, nan], [0.3, 0.7], [0.5, 0.5]])
    assert align_by_attention(weights, 2, 5) == {(1, 3), (0, 4)}
    assert align_by_attention(weights, 0, 2) == align_by_attention(weights, 2, 0) == set()


def test_align_by_attention_errors():
    for sizes in ((3, 2), (2, 6)):
        with pytest.raises(ValueError, match=r"from \(\d, \d\) on, got \(5, 2\)"):
            align_by_attention(torch.ones(5, 2), *sizes)
    with pytest.raises(ValueError, match=r"weights must have shape \(T, S\)"):
        align_by_attention(torch.ones(1, 5, 2), 2, 5)
    with pytest.raises(TypeError, match="weights must be a tensor of floats, got list"):
        align_by_attention([[1.0]], 1, 1)


def test_align_diagonally_where_one_side_is_empty():
    assert align_diagonally(0, 3) == align_diagonally(3, 0) == set()
    with pytest.raises(ValueError, match="num_source must be a whole number from 0 on, got -1"):
        align_diagonally(-1, 3)


def test_align_diagonally():
    assert align_diagonally(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert align_diagonally(4, 2) == {(1, 0), (3, 1)}
    assert align_diagonally(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}


class TestIBMModel1:
    def test_one_step_by_hand(self):
        """Das Haus, ein Buch, das Buch: the example of Koehn's textbook, with an empty word."""
        pairs = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
        pairs = [(source.split(), target.split()) for source, target in pairs]
        model = IBMModel1(pairs, iterations=1)
        # 'the' stands beside das twice, Haus and Buch once: shares of 1/3 each time.
        assert model.t["das", "the"] == pytest.approx(2 / 4)
        assert model.t["Haus", "the"] == pytest.approx(1 / 4)
        assert model.t["ein", "a"] == pytest.approx(1 / 2)

    def test_learns_who_is_who(self):
        pairs = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
        pairs = [(source.split(), target.split()) for source, target in pairs]
        model = IBMModel1(pairs, iterations=30)
        assert model.align(["the", "book"], ["Buch", "das"]) == {(1, 0), (0, 1)}
        for e in ("the", "house", "book", "a", None):
            assert sum(p for (_, e2), p in model.t.items() if e2 == e) == pytest.approx(1)

    def test_unknown_words_have_no_link(self):
        model = IBMModel1([(["a"], ["b"])])
        assert model.align(["x"], ["y"]) == set()

    def test_errors(self):
        with pytest.raises(ValueError, match="at least one pair"):
            IBMModel1([])

    @pytest.mark.parametrize("iterations", [-3, 0, True, 2.0])
    def test_iterations_are_counted(self, iterations):
        expected = f"iterations must be a whole number from 1 on, got {iterations}"
        with pytest.raises(ValueError, match=expected):
            IBMModel1([(["a"], ["x", "y"])], iterations=iterations)


class TestGuidanceLoss:
    def test_by_hand(self):
        weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]]])
        links = torch.zeros(1, 3, 3, dtype=torch.bool)
        links[0, 0, 0] = links[0, 0, 1] = links[0, 1, 2] = True  # word 2 has no link
        expected = -(math.log(0.75) + math.log(0.8)) / 2
        assert guidance_loss(weights, links).item() == pytest.approx(expected, rel=1e-5)

    def test_very_many_words_in_half_precision(self):
        """Each costs log 50, together 78,240: more than float16 can hold."""
        weights = torch.full((4, 5000, 2), 1 / 50, dtype=torch.float16, requires_grad=True)
        links = torch.tensor([True, False]).expand(4, 5000, 2)
        loss = guidance_loss(weights, links)
        loss.backward()
        assert loss.item() == pytest.approx(math.log(50), rel=1e-3)
        assert weights.grad.isfinite().all()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_small_weights_in_half_precision(self, dtype):
        """float16 is at its smallest usual number at 6.1e-5; bfloat16 knows two digits."""
        small = torch.tensor([3e-5, 1e-6, 0.9, 0.5, 0.25, 0.75, 0.125]).to(dtype)
        weights = torch.stack([small, 1 - small], dim=-1)[None].requires_grad_()
        for i, weight in enumerate(small.tolist()):
            links = torch.zeros(weights.shape, dtype=torch.bool)
            links[0, i, 0] = True
            loss = guidance_loss(weights, links)
            assert loss.item() == pytest.approx(-math.log(weight), rel=1e-5)
            (slope,) = torch.autograd.grad(loss, weights)
            if weight > 2e-5:  # else float16 has no such slope
                assert slope[0, i, 0].item() == pytest.approx(-1 / weight, rel=1e-2)

    def test_no_weight_on_the_right_word_is_finite(self):
        weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
        loss = guidance_loss(weights, torch.tensor([[[True, False]]]))
        loss.backward()
        assert loss.isfinite() and weights.grad.isfinite().all()
        assert guidance_loss(weights, torch.zeros(1, 1, 2, dtype=torch.bool)) == 0

    def test_words_without_a_link_may_be_nan(self):
        weights = torch.tensor([[[0.25, 0.75], [math.nan, math.nan]]], requires_grad=True)
        loss = guidance_loss(weights, torch.tensor([[[True, False], [False, False]]]))
        assert loss.item() == pytest.approx(math.log(4))
        loss.backward()
        assert weights.grad.tolist() == [[[-4.0, 0.0], [0.0, 0.0]]]

    def test_errors(self):
        with pytest.raises(ValueError, match=r"links must be bool of shape \(1, 1, 2\)"):
            guidance_loss(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
        with pytest.raises(TypeError, match="weights must be a tensor of floats"):
            guidance_loss(torch.ones(1, 1, 2).long(), torch.ones(1, 1, 2).bool())
