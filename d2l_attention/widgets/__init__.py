"""The interactive views: ``AttentionView`` for weights, ``SentenceView`` for weights of a sentence
that the reader writes, ``explore`` for everything else."""

from d2l_attention.widgets.attention_view import AttentionView
from d2l_attention.widgets.explore import Explore, explore
from d2l_attention.widgets.sentence_view import SentenceView

__all__ = ["AttentionView", "Explore", "SentenceView", "explore"]
