"""The models of the ``transformers`` library, with this course's attention in them (chapter 13)."""

from d2l_attention.real_models.layers import layer_from
from d2l_attention.real_models.maps import attention_maps
from d2l_attention.real_models.use import use_attention

__all__ = ["attention_maps", "layer_from", "use_attention"]
