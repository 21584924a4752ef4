"""The interactive views: ``AttentionView`` for weights, ``explore`` for everything else."""

from d2l_attention.widgets.attention_view import AttentionView
from d2l_attention.widgets.explore import Explore, explore

__all__ = ["AttentionView", "Explore", "explore"]
