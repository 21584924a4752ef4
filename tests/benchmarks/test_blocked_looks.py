"""The stored translator's column of chapter 8's table."""

from d2l_attention.data import load
from d2l_attention.training.translators import translator
from tests.benchmarks.blocked_looks import cases, chosen, last_word


def test_no_single_look_decides_about_the_ending_and_the_paths_together_do():
    corpus, stored = load("grammar"), translator("transformer")
    pairs = chosen([*corpus.test, *corpus.valid, *corpus.compositional])

    def right(name):
        return sum(last_word(*stored, pair, cases(pair)[name]) == pair.target[-1] for pair in pairs)

    assert len(pairs) == right("nothing") == right("it -> noun") == 49
    assert right("control: as many words before the phrases") == 49
    assert right("paths 1 and 2") < 30
    assert right("every path: no other word sees the phrases") < 30
