"""Attention whose cost grows with n, not with n^2: a kernel in place of the exponential."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_shape
from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.masks import Visible, check_attention_inputs, clear
from d2l_attention.attention.scores import dot_score

CHUNK = 64  # tokens: about the size of a head, then neither half of the work outgrows the other

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(X: Tensor) -> Tensor:
    """elu(x) + 1: x + 1 where x is positive, exp(x) where it is negative. Never below zero.

    Shape: any -> the same.

    Source: Katharopoulos et al. (2020), section 3.2.1.
    """
    # As a sum of two halves: elu itself is rounded to -1 where exp(x) is still a number.
    # Not clamp(max=0): its slope at 0 is 1 or 0, by the version of PyTorch, and 1 is right.
    return X.relu() + X.masked_fill(X > 0, 0.0).exp()


def linear_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    is_causal: bool = False,
    feature_map: FeatureMap = elu_plus_one,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Weights in proportion to f(q) . f(k), summed over the keys before any query comes.

    sum_j (f(q) . f(k_j)) v_j = f(q) . sum_j f(k_j) v_j^T: the sum on the right, (D, V), is the
    same for all queries. With ``is_causal`` it is the sum so far.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) -> (*, Q, V); with
    ``need_weights`` a pair, the second weights (*, Q, K), which costs what it costs elsewhere.

    ``feature_map`` must give nothing negative; it may change D. Where the features of a query are
    too small for a float, its weights are 0, as where nothing is visible. Lengths (B, Q) are a
    matrix themselves: with them the weights are worked out one by one.

    Errors: as ``dot_product_attention``; ``TypeError`` unless ``feature_map`` can be called.

    Source: Katharopoulos et al. (2020), section 3.2.
    """
    shape = check_attention_inputs(queries, keys, values, same_size=True)
    check_feature_map(feature_map)
    visible = Visible.of(shape, valid_lens, None, is_causal, 0, queries.device)
    queries, keys, values = visible.clear(queries, keys, values)
    queries, keys = features(queries, keys, visible, feature_map)
    output, weights = attend_linearly(queries, keys, values, visible, need_weights)
    return output if weights is None else (output, weights)


class LinearAttention(AttentionLayer):
    """Linear attention as a layer, on its own or in the heads of ``MultiHeadAttention``.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) -> (*, Q, V); with
    ``need_weights`` a pair, the second weights (*, Q, K).

    No weight is ever formed, so none can be dropped: there is no dropout. A ``mask`` and
    lengths (B, Q) are matrices, and take the explicit way.

    Errors: ``ValueError`` for a ``bias``: it is added to scores, and here are none.

    Source: Katharopoulos et al. (2020), section 3.2.
    """

    def __init__(self, *, feature_map: FeatureMap = elu_plus_one):
        super().__init__(0.0)
        check_feature_map(feature_map)
        self.feature_map = feature_map

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        if bias is not None:
            raise ValueError("linear attention has no scores to add a bias to: leave bias out")
        queries, keys = features(queries, keys, visible, self.feature_map)
        self._remember(queries, keys, values[..., :0, :], visible=visible, bias=None)
        return attend_linearly(queries, keys, values, visible, need_weights)

    def _weights(self, inputs, visible, bias):
        queries, keys, no_values = inputs
        return kernel_weights(queries, keys, visible).to(no_values.dtype)


def features(
    queries: Tensor, keys: Tensor, visible: Visible, feature_map: FeatureMap
) -> tuple[Tensor, Tensor]:
    """f(q) and f(k), of keys that are cleared already, with zeros once more: f(0) need not be 0.

    Half precision becomes single: a sum over thousands of keys leaves its range.

    Shape: queries (*, Q, D), keys (*, K, D) -> the same, but for f's own size.
    """
    if queries.dtype in (torch.float16, torch.bfloat16):
        queries, keys = queries.float(), keys.float()
    return feature_map(queries), clear(feature_map(keys), visible.unseen)


def no_autocast(device: torch.device) -> AbstractContextManager:
    """What runs here keeps its precision; not every device has another to change to."""
    # The compiler of torch 2.11 cannot look into the question, and its devices all have autocast.
    known = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def attend_linearly(
    queries: Tensor, keys: Tensor, values: Tensor, visible: Visible, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The output, and weights where asked for. ``queries`` and ``keys`` are features already."""
    dtype, values = values.dtype, values.to(queries.dtype)
    # Mixed precision would form these sums in half precision, too.
    with no_autocast(queries.device):
        if need_weights or visible.by_query:
            weights = kernel_weights(queries, keys, visible)
            return (weights @ values).to(dtype), weights.to(dtype) if need_weights else None
        # A column of ones is summed like the values: it gives the sum of the weights.
        values = F.pad(values, (0, 1), value=1.0)
        if visible.is_causal:
            sums = causal_sums(queries, keys, values)
        else:
            sums = queries @ summary(keys, values)
        return divide(sums[..., :-1], sums[..., -1:]).to(dtype), None


def summary(keys: Tensor, values: Tensor) -> Tensor:
    """sum_j f(k_j) v_j^T: all that the queries need to know. Shape: (*, D, V)."""
    return keys.transpose(-2, -1) @ values


def causal_sums(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """sum_{j <= i} (f(q_i) . f(k_j)) v_j for each query i, chunk by chunk.

    Inside a chunk the products are formed and the future is cut away; of all chunks before it
    only the summary counts. O(n CHUNK) numbers, where a summary for each token would be n D V.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V).

    Source: Katharopoulos et al. (2020), section 3.3; Hua et al. (2022) for the chunks.
    """
    num_queries = queries.shape[-2]
    chunk = max(1, min(CHUNK, num_queries))
    num_chunks = -(-num_queries // chunk)
    # Up to whole chunks: features of 0 add nothing. Keys behind the last query are cut off.
    queries, keys, values = (
        F.pad(X, (0, 0, 0, num_chunks * chunk - X.shape[-2])).unflatten(-2, (num_chunks, chunk))
        for X in (queries, keys, values)
    )  # (*, num_chunks, chunk, D)
    sums = summary(keys, values).cumsum(dim=-3)
    before = F.pad(sums[..., :-1, :, :], (0, 0, 0, 0, 1, 0))  # before the first chunk is nothing
    inside = dot_score(queries, keys).tril() @ values
    return (queries @ before + inside).flatten(-3, -2)[..., :num_queries, :]


def linear_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor | None = None,
    *,
    feature_map: FeatureMap = elu_plus_one,
) -> tuple[Tensor, Tensor]:
    """One token of causal linear attention, as a recurrent network would take it.

    The state is all that is left of the past: it has the same size after a million tokens, where
    a cache of keys and values would hold a million rows.

    Shape: query (*, D), key (*, D), value (*, V), state (*, D, V + 1), ``None`` at the first token
    -> output (*, V) and the next state.

    Source: Katharopoulos et al. (2020), section 3.4.
    """
    rows = (X[..., None, :] for X in (query, key, value))
    check_attention_inputs(*rows, same_size=True)
    check_feature_map(feature_map)
    dtype = value.dtype
    if dtype in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    query, key = feature_map(query), feature_map(key)
    new = key[..., :, None] * F.pad(value, (0, 1), value=1.0)[..., None, :]
    if state is not None:
        check_shape(state, new.shape)
    state = new if state is None else state + new
    sums = (query[..., :, None] * state).sum(dim=-2)
    return divide(sums[..., :-1], sums[..., -1:]).to(dtype), state


def kernel_weights(queries: Tensor, keys: Tensor, visible: Visible) -> Tensor:
    """The weights one by one, f(q) . f(k) over their sum. Shape: (*, Q, K)."""
    products = dot_score(queries, keys)
    hidden = visible.hidden_and_future(products.shape, products.device)
    products = products if hidden is None else products.masked_fill(hidden, 0.0)
    return divide(products, products.sum(dim=-1, keepdim=True))


def divide(sums: Tensor, total: Tensor) -> Tensor:
    """``sums / total``, and 0 where nothing was visible."""
    nothing = total == 0
    return (sums / total.masked_fill(nothing, 1.0)).masked_fill(nothing, 0.0)


def check_feature_map(feature_map: FeatureMap) -> None:
    """Raise unless ``feature_map`` can be called."""
    if not callable(feature_map):
        raise TypeError(f"feature_map must be a function, got {type(feature_map).__name__}")
