"""How many numbers each layer of a configured model keeps for a text, of 16 or 32 bits each."""

from dataclasses import dataclass
from typing import Any

from d2l_attention.real_models.known import DOUBLED_GROUPS


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps.

    ``per_token`` numbers for each token, of the last ``window`` tokens where there is a window;
    ``per_old_token`` for each token however old it is; ``fixed`` numbers whatever the length.
    """

    kind: str
    per_token: float = 0
    window: int | None = None
    per_old_token: float = 0
    fixed: int = 0

    def numbers(self, num_tokens: int) -> float:
        kept = num_tokens if self.window is None else min(num_tokens, self.window)
        return self.per_token * kept + self.per_old_token * num_tokens + self.fixed

    @property
    def grows(self) -> float:
        """Numbers for each further token of a long text."""
        return self.per_old_token + (self.per_token if self.window is None else 0)


def layer_caches(config: Any) -> list[LayerCache | None] | None:
    """The cache of each layer: of a window, all tokens that a query sees.

    ``None`` in place of a layer: its kind is not known here. ``None`` for all: the configuration
    does not say what layers there are.
    """
    kinds = layer_kinds(config)
    if kinds is None or value(config, "num_attention_heads") is None:
        return None
    differing = getattr(config, "per_layer_attributes", None)
    configs = config.per_layer_config if differing else [config] * len(kinds)
    return [_layer(configs[i], kind, i) for i, kind in enumerate(kinds)]


def layer_kinds(config: Any) -> list[str] | None:
    """``full_attention``, ``sliding_attention`` and so on, for each layer; ``None`` if unknown."""
    kinds, number = value(config, "layer_types"), decoder_layers(config)
    if kinds is not None or number is None:
        return kinds
    kind = "sliding_attention" if value(config, "sliding_window") else "full_attention"
    kind = "chunked_attention" if value(config, "attention_chunk_size") else kind
    return [kind] * number


def decoder_layers(config: Any) -> int | None:
    """The layers that write, which in an encoder-decoder may be more or fewer than the others."""
    if value(config, "is_encoder_decoder"):
        return value(config, "decoder_layers") or value(config, "num_decoder_layers")
    return value(config, "num_hidden_layers")


def decoder_heads(config: Any) -> int | None:
    """The heads of the layers that write, where these are layers of their own."""
    if not value(config, "is_encoder_decoder"):
        return None
    return value(config, "decoder_attention_heads") or value(config, "num_decoder_attention_heads")


def value(config: Any, name: str) -> Any:
    """What the configuration says under this name, or ``None``; of layers that differ, the first's.

    Gemma 4's layers have heads of two sizes, and such a configuration wants to be asked by layer.
    """
    differing = getattr(config, "per_layer_attributes", None) or ()
    if name in differing:
        return getattr(config.per_layer_config[0], name, None)
    return getattr(config, name, None)


def keys_and_values(config: Any, kind: str, number: int) -> int | None:
    """Numbers for one token's keys and values in a layer, or for what they are made from."""
    latent, turns = value(config, "kv_lora_rank"), value(config, "no_rope_layers")
    if latent is not None:
        if turns and not turns[number]:  # Mistral Large 4: no positions, no key that is turned
            return latent
        return latent + (value(config, "qk_rope_head_dim") or 0)
    heads = value(config, "num_key_value_heads") or value(config, "num_attention_heads")
    size = head_size(config)
    if size is None:
        return None
    if value(config, "model_type") in DOUBLED_GROUPS and kind == "sliding_attention":
        heads *= 2
    return heads * (size + (value(config, "v_head_dim") or size))


def head_size(config: Any) -> int | None:
    """Columns of a head of keys."""
    turned, rest = value(config, "qk_rope_head_dim"), value(config, "qk_nope_head_dim")
    if turned is not None and rest is not None:
        return turned + rest
    given = value(config, "head_dim") or value(config, "d_kv")
    width, heads = value(config, "hidden_size"), value(config, "num_attention_heads")
    if given is None and isinstance(width, int) and isinstance(heads, int) and heads:
        return width // heads
    return given


def _layer(config: Any, kind: str, number: int) -> LayerCache | None:
    modes = value(config, "kv_sharing_modes")
    shared = modes[number] if modes else None
    if shared == "reuse":
        return LayerCache("keys and values of an earlier layer")
    if kind in ("compressed_sparse_attention", "heavily_compressed_attention"):
        return _compressed(config, kind)
    if kind == "linear_attention":
        return _linear(config)
    if kind == "conv":
        tokens, width = value(config, "conv_L_cache"), value(config, "hidden_size")
        return None if tokens is None else LayerCache(kind, fixed=tokens * width)
    if kind in ("moe", "mlp"):
        return LayerCache(kind)
    numbers = keys_and_values(config, kind, number)
    if numbers is None:
        return None
    if kind == "full_attention":
        return LayerCache(kind, numbers)
    if kind == "sliding_attention":
        return LayerCache(kind, numbers, value(config, "sliding_window"))
    if kind == "chunked_attention":
        return LayerCache(kind, numbers, value(config, "attention_chunk_size"))
    if kind in ("indexed_attention", "minimax_m3_sparse"):
        index = _indexer(config, number)
        own = 0 if shared == "reuse_but_indexer" else numbers
        return None if index is None else LayerCache(kind, own + index)
    return None


def _indexer(config: Any, number: int) -> int | None:
    """Numbers of one token's key for the indexer, which chooses what a query reads."""
    types, size = value(config, "indexer_types"), value(config, "index_head_dim")
    if types and types[number] == "shared":
        return 0
    if size is not None and value(config, "index_kpool"):
        # GLM-5.3-Flash keeps what it pools from, a gate, and whether it is padding.
        return 2 * size + 1
    return size


def _compressed(config: Any, kind: str) -> LayerCache:
    """DeepSeek-V4: the last tokens whole, one vector each, and entries for several tokens each."""
    size, tokens = value(config, "head_dim"), value(config, "compress_rates")[kind]
    entry = size
    if kind == "compressed_sparse_attention":
        entry += value(config, "index_head_dim")
    return LayerCache(kind, size, value(config, "sliding_window"), entry / tokens)


def _linear(config: Any) -> LayerCache | None:
    """The state of a head, keys by values, and the tokens before that a convolution reads."""
    heads, size = value(config, "linear_num_heads"), value(config, "linear_head_dim")
    if heads is not None and size is not None:  # Kimi's delta attention
        groups, keys, values = heads, size, size
    else:
        heads, groups = (
            value(config, "linear_num_value_heads"),
            value(config, "linear_num_key_heads"),
        )
        keys, values = value(config, "linear_key_head_dim"), value(config, "linear_value_head_dim")
    tokens = value(config, "linear_conv_kernel_dim")
    if None in (heads, groups, keys, values, tokens):
        return None
    columns = 2 * groups * keys + heads * values
    return LayerCache("linear_attention", fixed=heads * keys * values + columns * tokens)
