"""The attention chapters of Dive into Deep Learning, made live.

The implementations behind the course's notebooks. Importing this needs torch alone; plots,
views and exercises are imported by their own names, for example
``from d2l_attention.views.plots import show_heatmaps``.
"""

from d2l_attention.attention.cache import KeyValueCache
from d2l_attention.attention.checks import check_shape
from d2l_attention.attention.kernels import boxcar, constant, epanechikov, gaussian, nadaraya_watson
from d2l_attention.attention.layers import AdditiveAttention, DotProductAttention
from d2l_attention.attention.masks import (
    attention_mask,
    causal_mask,
    combine_masks,
    length_mask,
    masked_softmax,
)
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.pooling import attention_pooling, dot_product_attention
from d2l_attention.attention.positional import (
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
    rotary_speeds,
)
from d2l_attention.attention.scores import (
    additive_score,
    bilinear_score,
    dot_score,
    gaussian_score,
    scaled_dot_score,
)
from d2l_attention.models.transformer import TransformerDecoder, TransformerEncoder
from d2l_attention.models.transformer_blocks import (
    AddNorm,
    PositionWiseFFN,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from d2l_attention.training.devices import try_gpu
from d2l_attention.variants.masks import bigbird_mask, global_tokens_mask, sliding_window_mask
from d2l_attention.views.source import show_source

__version__ = "0.2.0"

__all__ = [
    "ALiBi",
    "AddNorm",
    "AdditiveAttention",
    "DotProductAttention",
    "KeyValueCache",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "PositionWiseFFN",
    "PositionalEncoding",
    "Positions",
    "RotaryEncoding",
    "TransformerDecoder",
    "TransformerDecoderBlock",
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "additive_score",
    "attention_mask",
    "attention_pooling",
    "bigbird_mask",
    "bilinear_score",
    "boxcar",
    "causal_mask",
    "check_shape",
    "combine_masks",
    "constant",
    "dot_product_attention",
    "dot_score",
    "epanechikov",
    "gaussian",
    "gaussian_score",
    "global_tokens_mask",
    "length_mask",
    "masked_softmax",
    "nadaraya_watson",
    "rotary_speeds",
    "scaled_dot_score",
    "show_source",
    "sliding_window_mask",
    "try_gpu",
]
