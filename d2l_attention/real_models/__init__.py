"""The models of the ``transformers`` library, with this course's attention in them (chapter 13).

The library is imported when a function here needs it, not before.
"""

from d2l_attention.real_models.description import Description, describe
from d2l_attention.real_models.layers import layer_from
from d2l_attention.real_models.maps import attention_maps
from d2l_attention.real_models.use import use_attention
from d2l_attention.real_models.who_uses_what import who_uses_what

__all__ = [
    "Description",
    "attention_maps",
    "describe",
    "layer_from",
    "use_attention",
    "who_uses_what",
]
