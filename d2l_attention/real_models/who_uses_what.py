"""Which model uses which form of attention: a table that is computed from configurations."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from d2l_attention.real_models.cache_numbers import layer_kinds
from d2l_attention.real_models.description import Description, describe
from d2l_attention.real_models.library import transformers
from d2l_attention.real_models.table import Table, show

DEFAULTS = "defaults of the class"


@dataclass(frozen=True)
class Shape:
    """A configuration class of the library, and where its numbers come from.

    The defaults of a class are what its authors wrote there: mostly those of one published model,
    not always. ``changes`` are the numbers of a published model that ``source`` gives.
    """

    name: str
    config: str
    changes: dict[str, Any] = field(default_factory=dict)
    source: str = DEFAULTS

    def make(self) -> Any:
        return getattr(transformers(), self.config)(**self.changes)


LLAMA_3 = {
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
}
QWEN_3 = {"num_hidden_layers": 36, "num_key_value_heads": 8}
GEMMA_3 = {
    "num_hidden_layers": 62,
    "hidden_size": 5376,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "sliding_window": 1024,
    "query_pre_attn_scalar": 168,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
    },
}
# DeepSeek-V4-Flash: entries for 4 tokens and for 128 by turns, after two layers with a window only.
V4_BY_TURNS = ["compressed_sparse_attention", "heavily_compressed_attention"] * 20
DEEPSEEK_V4_FLASH = {"layer_types": ["sliding_attention"] * 2 + V4_BY_TURNS + V4_BY_TURNS[:1]}
# Kimi Linear: the last layer is a full one, and so is each fourth before it.
KIMI_BY_TURNS = (["linear_attention"] * 3 + ["full_attention"]) * 7
KIMI_LINEAR = {"layer_types": KIMI_BY_TURNS[:26] + ["full_attention"]}
# Mistral Large 4: layers 39, 43, ..., 71 read the latent of layer 35.
SHARED_FROM_35 = [35 if layer > 35 and layer % 4 == 3 else layer for layer in range(72)]
MISTRAL_LARGE_4 = {"kv_source_layers": SHARED_FROM_35}
MINIMAX_M3 = {"layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57}
AS_PUBLISHED = f"{DEFAULTS}, which are those of"
SHAPES = (
    Shape("Llama 3 8B", "LlamaConfig", LLAMA_3, "Llama Team (2024), table 3"),
    Shape("Mistral 7B", "MistralConfig", {}, f"{AS_PUBLISHED} Jiang et al. (2023), table 1"),
    Shape("Gemma 2 2B", "Gemma2Config", {}, f"{AS_PUBLISHED} Gemma Team (2024), table 1"),
    Shape("Gemma 3 27B", "Gemma3TextConfig", GEMMA_3, "Gemma Team (2025), and its config.json"),
    Shape("Qwen3 8B", "Qwen3Config", QWEN_3, "Qwen Team (2025), Qwen3, table 1"),
    Shape("Qwen3-Next", "Qwen3NextConfig"),
    Shape("Qwen3.5", "Qwen3_5TextConfig"),
    Shape("OLMo 3 7B", "Olmo3Config", {}, f"{AS_PUBLISHED} AI2's page on it"),
    Shape("gpt-oss-120b", "GptOssConfig", {}, f"{AS_PUBLISHED} OpenAI (2025), section 2"),
    Shape("Llama 4", "Llama4TextConfig"),
    Shape("DeepSeek-V3", "DeepseekV3Config", {}, f"{AS_PUBLISHED} DeepSeek-AI (2024), before YaRN"),
    Shape("DeepSeek-V3.2", "DeepseekV32Config"),
    Shape(
        "DeepSeek-V4-Flash",
        "DeepseekV4Config",
        DEEPSEEK_V4_FLASH,
        "layers: DeepSeek-AI (2026), its config.json, as Megatron repeats it; before YaRN",
    ),
    Shape("GLM-5", "GlmMoeDsaConfig"),
    Shape("GLM-5.3-Flash", "Glm5NextTextConfig"),
    Shape(
        "Mistral Large 4",
        "MistralLarge4TextConfig",
        MISTRAL_LARGE_4,
        f"{DEFAULTS}; which layers share a latent: colibri's page on Mistral Large 4",
    ),
    Shape(
        "MiniMax-M3",
        "MiniMaxM3VLTextConfig",
        MINIMAX_M3,
        f"{DEFAULTS}; which layers are sparse: TensorRT-LLM's page on MiniMax-M3",
    ),
    Shape("Kimi Linear", "KimiLinearConfig", KIMI_LINEAR, "Kimi Team (2025), and its config.json"),
    Shape("LFM3", "Lfm3Config"),
    Shape("MiMo-V2-Flash", "MiMoV2FlashConfig"),
)
SHORT = {
    "full_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "stretch",
    "indexed_attention": "chosen",
    "minimax_m3_sparse": "chosen blocks",
    "linear_attention": "linear",
    "compressed_sparse_attention": "compressed, chosen",
    "heavily_compressed_attention": "compressed",
    "conv": "convolution",
}


def who_uses_what(shapes: tuple[Shape, ...] = SHAPES) -> Table:
    """Heads, kinds of layers, positions and cache of published models.

    Each row is computed when this is called, from a configuration of the installed library, whose
    version the title gives. The last column says where the numbers come from: a class's own
    defaults, which need not be those of a published model, or a source. A class that the installed
    library does not have makes no row; the note names it.
    """
    library = transformers()
    present = [shape for shape in shapes if hasattr(library, shape.config)]
    absent = [shape.name for shape in shapes if shape not in present]
    columns = (
        *("model", "layers", "heads", "groups", "kinds of layers", "window", "positions"),
        *("more", "cache", "numbers from"),
    )
    note = (
        "Cache: numbers for each further token of a long text, in all layers together; windows and "
        "states no longer grow."
    )
    if absent:
        note += f" Not in this version of the library: {', '.join(absent)}."
    title = f"Computed by transformers {library.__version__}"
    return Table(title, columns, tuple(_row(shape) for shape in present), note)


def _row(shape: Shape) -> tuple[str, ...]:
    config = shape.make()
    told = describe(config)
    kinds = Counter(layer_kinds(config) or [])
    layers = ", ".join(f"{number} {SHORT.get(kind, kind)}" for kind, number in kinds.items())
    cells = (
        *(_get(told, "layers"), _get(told, "heads")),
        _get(told, "groups" if "latent" not in told else "latent", _get(told, "heads")),
        *(layers, _get(told, "window", ""), _positions(told), _more(told)),
        _get(told, "cache, all layers", "unknown"),
    )
    groups = f"latent of {cells[2]}" if "latent" in told else cells[2]
    return (shape.name, *cells[:2], groups, *cells[3:], shape.source)


def _get(told: Description, name: str, otherwise: str = "") -> str:
    return show(told[name]) if name in told else otherwise


def _positions(told: Description) -> str:
    words = [_get(told, "positions")]
    shares = dict.fromkeys(
        fact.value for fact in told.facts if fact.name.startswith("rotary share")
    )
    words += [f"{share:.3g} of a head" for share in shares]
    if "rotary columns" in told:
        words.append(f"{told['rotary columns']} columns")
    words += [show(fact.value) for fact in told.facts if fact.name.startswith("longer texts")]
    if "layers without positions" in told:
        words.append(f"none in {told['layers without positions']} layers")
    return ", ".join(words)


def _more(told: Description) -> str:
    words = []
    if "softcap" in told:
        words.append(f"softcap {show(told['softcap'])}")
    words += [name for name in ("sinks", "QK-norm") if name in told]
    words += [told["linear form"]] if "linear form" in told else []
    if "chosen" in told:
        words.append(f"{show(told['chosen'])} chosen")
    return ", ".join(words)
