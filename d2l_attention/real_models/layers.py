"""This course's layers with the weights of real models, and the same outputs."""

from collections.abc import Callable

import torch
from torch import nn

from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.real_models.delta_net import ConvolvedDeltaNet
from d2l_attention.real_models.heads import GroupedSinkAttention, WindowedGroups, WindowedSinks
from d2l_attention.real_models.weights import (
    copy_of,
    in_pairs,
    linear,
    rms_norm,
    rotary,
    rows_of,
)
from d2l_attention.variants.grouped import GroupedQueryAttention
from d2l_attention.variants.latent import MultiHeadLatentAttention


def layer_from(module: nn.Module) -> nn.Module:
    """This course's layer with the weights of an attention layer of the ``transformers`` library.

    =========================  ================================================================
    ``BertAttention``          ``MultiHeadAttention``, without BERT's residual and norm after it
    ``BertSelfAttention``      the same, without ``W_o``, which BERT keeps next to it
    ``GPT2Attention``          ``MultiHeadAttention``
    ``LlamaAttention``         ``GroupedQueryAttention`` with ``RotaryEncoding``
    ``MistralAttention``       the same, its heads within a window
    ``GptOssAttention``        the same, with a sink in each head; every other layer has a window
    ``DeepseekV3Attention``    ``MultiHeadLatentAttention``, with norms on both latents
    ``Qwen3NextGatedDeltaNet``  ``ConvolvedDeltaNet``: ``delta_rule``, with convolutions before it
    =========================  ================================================================

    The layers of models that write are causal when they are called with ``is_causal=True``; the
    delta rule always is. Positions count from 0: padding belongs on the right. The model's scale
    is in the weights of the queries, YaRN's factor in those of queries and keys. All weights are
    copies.

    Errors: ``TypeError`` for any other module; ``ValueError`` for rotary positions that the
    course's layer does not have.
    """
    names = [kind.__name__ for kind in type(module).__mro__]
    known = next((name for name in names if name in MAKERS), None)
    if known is None:
        raise TypeError(
            f"layer_from knows the layers {', '.join(MAKERS)} of the transformers library, "
            f"got {type(module).__name__}"
        )
    with torch.no_grad():
        return MAKERS[known](module).train(module.training)


def _bert_self(theirs: nn.Module) -> nn.Module:
    width = theirs.all_head_size
    ours = MultiHeadAttention(width, theirs.num_attention_heads, theirs.dropout.p, bias=True)
    ours.W_q, ours.W_k, ours.W_v = map(copy_of, (theirs.query, theirs.key, theirs.value))
    ours.W_o = nn.Identity()
    return ours


def _bert(theirs: nn.Module) -> nn.Module:
    ours = _bert_self(theirs.self)
    ours.W_o = copy_of(theirs.output.dense)
    return ours


def _gpt2(theirs: nn.Module) -> nn.Module:
    if theirs.is_cross_attention:
        raise TypeError("layer_from knows GPT2Attention as self-attention, got cross-attention")
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads, theirs.attn_dropout.p, bias=True)
    # Their Conv1D keeps its weight as (in, out), queries, keys and values side by side.
    weights, biases = theirs.c_attn.weight.T.chunk(3), theirs.c_attn.bias.chunk(3)
    scale = theirs.scaling * theirs.head_dim**0.5
    ours.W_q = linear(scale * weights[0], scale * biases[0])
    ours.W_k, ours.W_v = linear(weights[1], biases[1]), linear(weights[2], biases[2])
    ours.W_o = linear(theirs.c_proj.weight.T, theirs.c_proj.bias)
    return ours


def _grouped(theirs: nn.Module, attention: AttentionLayer | None = None) -> nn.Module:
    config, size = theirs.config, theirs.head_dim
    num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
    positions, factor = rotary(config, size)
    dropout = theirs.attention_dropout
    ours = GroupedQueryAttention(
        num_heads * size, num_heads, num_kv_heads, dropout, positions=positions
    )
    ours.attention = ours.attention if attention is None else attention
    scale = theirs.scaling * size**0.5
    ours.W_q = rows_of(theirs.q_proj, in_pairs(num_heads, size), scale * factor)
    ours.W_k = rows_of(theirs.k_proj, in_pairs(num_kv_heads, size), factor)
    ours.W_v, ours.W_o = copy_of(theirs.v_proj), copy_of(theirs.o_proj)
    return ours


def _mistral(theirs: nn.Module) -> nn.Module:
    window = theirs.config.sliding_window
    heads = None if window is None else WindowedGroups(window, theirs.attention_dropout)
    return _grouped(theirs, heads)


def _gpt_oss(theirs: nn.Module) -> nn.Module:
    sizes = theirs.config.num_attention_heads, theirs.attention_dropout
    window = theirs.sliding_window
    heads = GroupedSinkAttention(*sizes) if window is None else WindowedSinks(window, *sizes)
    heads.sinks = nn.Parameter(theirs.sinks.detach().clone())
    return _grouped(theirs, heads)


def _latent(theirs: nn.Module) -> nn.Module:
    H, size, turned = theirs.num_heads, theirs.qk_nope_head_dim, theirs.qk_rope_head_dim
    latent, dropout = theirs.kv_lora_rank, theirs.attention_dropout
    ours = MultiHeadLatentAttention(theirs.hidden_size, H, size, latent, turned, dropout)
    ours.rotary, factor = rotary(theirs.config, turned)
    # The last columns of a head are turned; only where pairs are not neighbours do they move.
    moved = torch.arange(turned) if theirs.config.rope_interleave else in_pairs(1, turned)
    order = torch.cat((torch.arange(size), size + moved))
    order = (torch.arange(H)[:, None] * (size + turned) + order).flatten()
    scaled = torch.ones(H, size + turned)
    scaled[:, size:] = factor
    scaled = scaled.flatten()[:, None] * (theirs.scaling * (size + turned) ** 0.5)
    last = theirs.q_proj if theirs.q_lora_rank is None else theirs.q_b_proj
    ours.W_q = linear(scaled.to(last.weight) * last.weight[order])
    if theirs.q_lora_rank is not None:
        ours.W_q = nn.Sequential(copy_of(theirs.q_a_proj), rms_norm(theirs.q_a_layernorm), ours.W_q)
    down = theirs.kv_a_proj_with_mqa
    ours.W_down = nn.Sequential(rows_of(down, slice(latent)), rms_norm(theirs.kv_a_layernorm))
    ours.W_kr = rows_of(down, latent + moved, factor)
    up = theirs.kv_b_proj.weight.unflatten(0, (H, -1))  # (H, size + v, latent)
    ours.W_uk, ours.W_uv = linear(up[:, :size].flatten(0, 1)), linear(up[:, size:].flatten(0, 1))
    ours.W_o = copy_of(theirs.o_proj)
    return ours


def _delta(theirs: nn.Module) -> nn.Module:
    groups, d, v = theirs.num_k_heads, theirs.head_k_dim, theirs.head_v_dim
    share = theirs.num_v_heads // groups
    mixed = theirs.in_proj_qkvz.weight.unflatten(0, (groups, -1))
    q, k, values, gate = (
        part.flatten(0, 1) for part in mixed.split([d, d, share * v, share * v], dim=1)
    )
    mixed = theirs.in_proj_ba.weight.unflatten(0, (groups, -1))
    beta, decay = (part.flatten(0, 1) for part in mixed.split(share, dim=1))
    projections = {
        "q": linear(q),
        "k": linear(k),
        "v": linear(values),
        "gate": linear(gate),
        "beta": linear(beta),
        "decay": linear(decay, theirs.dt_bias),
        "o": copy_of(theirs.out_proj),
    }
    convolution, rates = theirs.conv1d.weight.detach().clone(), theirs.A_log.detach().clone()
    return ConvolvedDeltaNet(projections, convolution, rates, rms_norm(theirs.norm), groups)


MAKERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "BertAttention": _bert,
    "BertSelfAttention": _bert_self,
    "GPT2Attention": _gpt2,
    "LlamaAttention": _grouped,
    "MistralAttention": _mistral,
    "GptOssAttention": _gpt_oss,
    "DeepseekV3Attention": _latent,
    "Qwen3NextGatedDeltaNet": _delta,
}
