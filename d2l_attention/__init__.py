"""The attention chapters of Dive into Deep Learning, made live.

The implementations behind the course's notebooks. Importing this needs torch alone; plots,
views and exercises are imported by their own names, for example
``from d2l_attention.plots import show_heatmaps``.
"""

from d2l_attention.cache import KeyValueCache
from d2l_attention.checks import check_shape
from d2l_attention.devices import try_gpu
from d2l_attention.functional import (
    additive_score,
    attention_pooling,
    bilinear_score,
    dot_product_attention,
    dot_score,
    gaussian_score,
    masked_softmax,
    scaled_dot_score,
)
from d2l_attention.kernels import boxcar, constant, epanechikov, gaussian, nadaraya_watson
from d2l_attention.layers import AdditiveAttention, DotProductAttention
from d2l_attention.masks import (
    attention_mask,
    bigbird_mask,
    causal_mask,
    combine_masks,
    global_tokens_mask,
    length_mask,
    sliding_window_mask,
)
from d2l_attention.multi_head import MultiHeadAttention
from d2l_attention.positional import (
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
)
from d2l_attention.source import show_source
from d2l_attention.transformer import (
    AddNorm,
    PositionWiseFFN,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from d2l_attention.transformer_decoder import TransformerDecoder, TransformerDecoderBlock

__version__ = "0.1.0"

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
    "scaled_dot_score",
    "show_source",
    "sliding_window_mask",
    "try_gpu",
]
