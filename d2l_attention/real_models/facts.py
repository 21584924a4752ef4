"""What a configuration of the ``transformers`` library says of attention, fact by fact."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from d2l_attention.real_models.cache_numbers import (
    decoder_heads,
    decoder_layers,
    head_size,
    layer_caches,
    layer_kinds,
    value,
)
from d2l_attention.real_models.known import (
    DELTA_RULE,
    DOUBLED_GROUPS,
    LEARNED_POSITIONS,
    NO_POSITIONS,
    QK_NORM,
    SINKS,
    TWO_SIDES,
)

KINDS = {
    "full_attention": "each token may look at all before it",
    "sliding_attention": "each token looks at the last few only",
    "chunked_attention": "each token looks at its own stretch of the text only",
    "indexed_attention": "an indexer chooses the tokens that are looked at",
    "minimax_m3_sparse": "an indexer chooses the blocks that are looked at",
    "compressed_sparse_attention": "a window, and chosen ones of entries for a few tokens each",
    "heavily_compressed_attention": "a window, and entries for many tokens each",
    "linear_attention": "a state of fixed size in place of keys and values",
    "conv": "a convolution over the last few tokens, no attention",
    "moe": "a network, no attention",
    "mlp": "a network, no attention",
}
KINDS_OF_BOTH_SIDES = {
    "full_attention": "each token may look at all",
    "sliding_attention": "each token looks at its neighbours only",
}


@dataclass(frozen=True)
class Fact:
    """One line of a description: what, how much, what it means here, and where it is taught."""

    name: str
    value: Any
    meaning: str
    chapter: int


def facts_of(config: Any) -> Iterator[Fact]:
    """All that is known, in the order in which the course teaches it."""
    layers, width = value(config, "num_hidden_layers"), value(config, "hidden_size")
    if layers is not None:
        yield Fact("layers", layers, "blocks, one after the other", 8)
    if value(config, "is_encoder_decoder"):
        meaning = "each with attention to the encoder's tokens"
        yield Fact("decoder layers", decoder_layers(config), meaning, 8)
    if width is not None:
        yield Fact("width", width, "numbers in the vector of a token", 6)
    yield from _heads(config)
    yield from _positions(config)
    yield from _kinds(config)
    yield from _scores(config)
    yield from _cache(config)


def _heads(config: Any) -> Iterator[Fact]:
    heads, size = value(config, "num_attention_heads"), head_size(config)
    if heads is None:
        return
    yield Fact("heads", heads, "attentions side by side", 6)
    writing = decoder_heads(config)
    if writing not in (None, heads):
        yield Fact("decoder heads", writing, "side by side in the layers that write", 6)
    if size is not None:
        differ = "head_dim" in (getattr(config, "per_layer_attributes", None) or ())
        sizes = sorted({head_size(c) for c in config.per_layer_config}) if differ else [size]
        one = sizes[0] if len(sizes) == 1 else " and ".join(map(str, sizes))
        yield Fact("head size", one, "d, columns of a head's queries and keys", 3)
    latent, groups = value(config, "kv_lora_rank"), value(config, "num_key_value_heads")
    if latent is not None:
        yield Fact("latent", latent, "numbers from which a token's keys and values are made", 11)
        turned = value(config, "qk_rope_head_dim")
        if turned:
            yield Fact("latent, beside it", turned, "numbers more: a key that all heads share", 11)
        values = value(config, "v_head_dim")
        if values is not None:
            yield Fact("value size", values, "columns of a head's values", 3)
    elif groups is not None and groups != heads:
        share = "all heads share" if groups == 1 else f"each for {heads // groups} heads"
        yield Fact("groups", groups, f"heads of keys and values, {share}", 9)
        if value(config, "model_type") in DOUBLED_GROUPS:
            twice = "heads of keys and values there"
            yield Fact("groups, sliding attention", 2 * groups, twice, 9)
    queries = value(config, "q_lora_rank")
    if queries is not None:
        yield Fact("latent of queries", queries, "numbers from which queries are made", 11)


def _positions(config: Any) -> Iterator[Fact]:
    name, rotary = value(config, "model_type"), value(config, "rope_parameters")
    if name in NO_POSITIONS:
        yield Fact("positions", "none", "order comes from the layers that read in order", 7)
    elif rotary is not None:
        yield from _rotary(config, rotary)
    elif value(config, "relative_attention_num_buckets") is not None:
        yield Fact("positions", "a bias", "added to the scores, learned by distance", 7)
    elif value(config, "alibi") or name == "bloom":
        yield Fact("positions", "ALiBi", "scores fall with the distance", 7)
    elif name in LEARNED_POSITIONS:
        yield Fact("positions", "learned", "a vector for each position is added", 7)


def _rotary(config: Any, rotary: dict) -> Iterator[Fact]:
    yield Fact("positions", "rotary", "queries and keys are turned by their position", 7)
    several = {key: each for key, each in rotary.items() if isinstance(each, dict)}
    for key, each in (several or {"": rotary}).items():
        where = f", {key.replace('_', ' ')}" if key and len(several) > 1 else ""
        base = each.get("rope_theta")
        if base is not None:
            yield Fact(f"rotary base{where}", base, "the larger, the slower the last pairs turn", 7)
        kind, factor = each.get("rope_type", "default"), each.get("factor")
        if kind not in ("default", "proportional"):
            how = kind if factor is None else f"{kind}, {factor:g} times"
            yield Fact(f"longer texts{where}", how, "pairs turn slower than in training", 11)
        part = each.get("partial_rotary_factor") or value(config, "partial_rotary_factor") or 1
        if part != 1:
            meaning = "of a head's columns is turned, the rest knows no position"
            yield Fact(f"rotary share{where}", part, meaning, 11)
    part = value(config, "rotary_dim")
    if part is not None and part != head_size(config):
        yield Fact("rotary columns", part, "of a head are turned, the rest knows no position", 11)
    turns = value(config, "no_rope_layers")
    if turns and 0 in turns:
        yield Fact("layers without positions", turns.count(0), "nothing is turned there", 11)


def _kinds(config: Any) -> Iterator[Fact]:
    both_sides = value(config, "model_type") in TWO_SIDES
    if both_sides:
        yield Fact("direction", "both", "a token looks at those after it, too", 8)
    kinds = layer_kinds(config)
    if kinds is None:
        return
    words = KINDS | (KINDS_OF_BOTH_SIDES if both_sides else {})
    for kind, number in Counter(kinds).items():
        known = words.get(kind, "a kind that this course does not know")
        chapter = {"full_attention": 8, "sliding_attention": 9, "linear_attention": 9}.get(kind, 11)
        yield Fact(kind.replace("_", " "), f"{number} of {len(kinds)} layers", known, chapter)
    if any(kind.startswith(("sliding", "compressed", "heavily")) for kind in kinds):
        window = value(config, "sliding_window")
        seen = "neighbours on each side" if both_sides else "tokens that it sees, itself included"
        yield Fact("window", window, seen, 9)
    if "chunked_attention" in kinds:
        stretch = value(config, "attention_chunk_size")
        yield Fact("stretch", stretch, "tokens that see only each other, backwards", 11)
    if any(kind in ("indexed_attention", "compressed_sparse_attention") for kind in kinds):
        if value(config, "index_topk") is not None:
            yield Fact("chosen", value(config, "index_topk"), "entries that a query reads", 11)
    if "minimax_m3_sparse" in kinds:
        blocks, size = value(config, "index_topk_blocks"), value(config, "index_block_size")
        yield Fact("chosen", f"{blocks} blocks of {size}", "tokens that a query reads", 11)
    rates = value(config, "compress_rates")
    if isinstance(rates, dict):
        for kind in dict.fromkeys(kinds):
            if kind in rates:
                name = f"tokens an entry, {kind.split('_')[0]}"
                yield Fact(name, rates[kind], "one key that is its value, too", 11)
    if "linear_attention" in kinds and value(config, "model_type") in DELTA_RULE:
        yield Fact("linear form", "delta rule", "the state erases before it writes", 11)


def _scores(config: Any) -> Iterator[Fact]:
    cap, name = value(config, "attn_logit_softcapping"), value(config, "model_type")
    scalar = value(config, "query_pre_attn_scalar")
    if scalar is not None:
        yield Fact("scale", scalar, "scores are divided by its root", 3)
    if cap is not None:
        yield Fact("softcap", cap, "scores stay below it, by a tanh", 11)
    if name in SINKS:
        where = SINKS[name]
        where = "in all heads" if where == "all" else f"in layers of {where.replace('_', ' ')}"
        yield Fact("sinks", where, "one score more in the softmax, with no value", 11)
    if name in QK_NORM or value(config, "use_qk_norm") or value(config, "qk_layernorm"):
        yield Fact("QK-norm", "yes", "queries and keys are normalised before the scores", 11)


def _cache(config: Any) -> Iterator[Fact]:
    caches = layer_caches(config)
    if caches is None or value(config, "model_type") in TWO_SIDES:
        return
    for cache in dict.fromkeys(cache for cache in caches if cache is not None):
        name = f"cache, {cache.kind.replace('_', ' ')}"
        if cache.window is not None:
            what = f"numbers a token in a layer, for {cache.window:,} tokens at most"
            yield Fact(name, cache.per_token, what, 9)
        elif cache.per_token:
            yield Fact(name, cache.per_token, "numbers a token in a layer", 9)
        if cache.per_old_token:
            what = "numbers a token in a layer, however old"
            yield Fact(f"{name}, old tokens", cache.per_old_token, what, 11)
        if cache.fixed:
            yield Fact(name, cache.fixed, "numbers in a layer, however long the text", 9)
    if None not in caches:
        grows = sum(cache.grows for cache in caches if cache is not None)
        yield Fact("cache, all layers", grows, "numbers for each further token of a long text", 9)
        if value(config, "is_encoder_decoder"):
            source = "numbers for each token that the encoder read"
            yield Fact("cache, source", grows, source, 8)
