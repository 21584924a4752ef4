"""What a key-value cache weighs, from the shape of a model alone."""

from dataclasses import dataclass

from d2l_attention.attention.checks import check_whole


@dataclass(frozen=True)
class CacheShape:
    """What of a published model decides its cache, and where that was read."""

    name: str
    num_layers: int
    num_heads: int  # of queries
    num_kv_heads: int  # heads of keys and values
    head_size: int
    window: int | None
    source: str
    num_global: int = 0  # layers that have no window, where the others have one
    latent_size: int | None = None  # numbers a token, in place of its keys and values

    def bytes(self, num_tokens: int) -> int:
        """The cache of one sequence in 16 bits a number."""
        if self.latent_size is not None:
            check_whole("num_tokens", num_tokens, 0)
            return 2 * self.num_layers * self.latent_size * num_tokens
        heads = self.num_kv_heads, self.head_size, num_tokens
        in_windows = cache_bytes(self.num_layers - self.num_global, *heads, window=self.window)
        return in_windows + (cache_bytes(self.num_global, *heads) if self.num_global else 0)


PUBLISHED = (
    CacheShape(
        "Llama 2 7B",
        *(32, 32, 32, 128, None),
        "Touvron et al. (2023), LLaMA, table 2; Llama 2, section 2.2, keeps the shape",
    ),
    CacheShape(
        "Llama 2 70B",
        *(80, 64, 8, 128, None),
        "Touvron et al. (2023), Llama 2, section 2.2 and appendix A.2.1",
    ),
    CacheShape("Mistral 7B", 32, 32, 8, 128, 4096, "Jiang et al. (2023), Mistral 7B, table 1"),
    CacheShape(
        "Falcon 40B",
        *(60, 128, 8, 64, None),
        "Almazrouei et al. (2023), The Falcon Series, and the model's config.json",
    ),
    CacheShape(
        "Llama 3.1 8B",
        *(32, 32, 8, 128, None),
        "Llama Team (2024), The Llama 3 Herd of Models, table 3",
    ),
)

# Models of 2024 and 2025 that save in other ways: a latent for keys and values, few global layers.
RECENT = (
    CacheShape(
        "Llama 3.1 70B",
        *(80, 64, 8, 128, None),
        "Llama Team (2024), The Llama 3 Herd of Models, table 3",
    ),
    CacheShape(
        "DeepSeek-V2",
        *(60, 128, 128, 128, None),
        "DeepSeek-AI (2024), DeepSeek-V2, section 3.1.2: a latent of 512, a rotary key of 64",
        latent_size=512 + 64,
    ),
    CacheShape(
        "DeepSeek-V3",
        *(61, 128, 128, 128, None),
        "DeepSeek-AI (2024), DeepSeek-V3, section 4.2: a latent of 512, a rotary key of 64",
        latent_size=512 + 64,
    ),
    CacheShape(
        "Gemma 3 27B",
        *(62, 32, 16, 128, 1024),
        "Gemma Team (2025), Gemma 3, sections 2 and 5.2, and the model's config.json: each "
        "sixth layer is global",
        num_global=10,
    ),
    CacheShape(
        "gpt-oss-20b",
        *(24, 64, 8, 64, 128),
        "OpenAI (2025), gpt-oss model card, section 2.2, and the model's config.json: each "
        "second layer is global",
        num_global=12,
    ),
)


def cache_bytes(
    num_layers: int,
    num_kv_heads: int,
    head_size: int,
    num_tokens: int,
    *,
    bytes_per_number: int = 2,
    window: int | None = None,
) -> int:
    """Bytes of the keys and values of one sequence of ``num_tokens``, in all layers.

    ``num_kv_heads`` counts heads of keys and values. With a ``window`` a layer keeps the last
    ``window`` tokens alone.

    Errors: ``ValueError`` for numbers that are not whole or below 1; ``num_tokens`` may be 0.
    """
    for name, number in (
        ("num_layers", num_layers),
        ("num_kv_heads", num_kv_heads),
        ("head_size", head_size),
        ("bytes_per_number", bytes_per_number),
        ("window", 1 if window is None else window),
    ):
        check_whole(name, number, 1)
    check_whole("num_tokens", num_tokens, 0)
    kept = num_tokens if window is None else min(num_tokens, window)
    return 2 * num_layers * num_kv_heads * head_size * kept * bytes_per_number  # keys and values
