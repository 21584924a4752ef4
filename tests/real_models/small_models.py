"""Models of the library, small and with random weights, and inputs of unequal lengths."""

import torch
import transformers

WORDS = 97
LENGTHS = (7, 4)


def of(model, config, **sizes):
    """A function that makes the model; its weights are large enough for attention to matter."""

    def make(**changes):
        torch.manual_seed(0)
        made = getattr(transformers, model)(getattr(transformers, config)(**(sizes | changes)))
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                if parameter.ndim > 1 or "sinks" in name:
                    parameter.normal_(std=0.2)
        return made.eval()

    return make


def ids(length=LENGTHS[0]):
    """Shape: (B, length), without the numbers that begin, end and pad a text."""
    return torch.randint(3, WORDS, (len(LENGTHS), length))


def padding(side):
    """The library's mask, 1 for a word: the second text is shorter. Shape: (B, n)."""
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return (mask if side == "right" else mask.flip(-1)).long()


def padded_on_both_sides():
    """Three texts: whole, shorter with padding on the right, shorter with padding on the left."""
    mask = torch.cat([padding("right"), padding("left")[1:]])
    return {"input_ids": torch.randint(3, WORDS, mask.shape), "attention_mask": mask}


TEXT = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
DECODER = TEXT | {"num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": None}
WINDOW = {"head_dim": 12, "sliding_window": 3}
WINDOW_THEN_FULL = WINDOW | {"layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
MANY_EXPERTS = EXPERTS | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1}
LATENT = {
    **(DECODER | MANY_EXPERTS),
    "n_shared_experts": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "num_key_value_heads": 4,
    "first_k_dense_replace": 1,
}
INDEXER = {"index_topk": 3, "index_head_dim": 16, "index_n_heads": 2}
V4 = {"num_hidden_layers": 3, "num_key_value_heads": 1, "index_head_dim": 12}
LINEAR_THEN_FULL = {"layer_types": ["linear_attention", "full_attention"]}
DELTA = {
    **LINEAR_THEN_FULL,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
}
KIMIS_DELTA = {"linear_num_heads": 2, "linear_head_dim": 6}
NO_GROUPS = {name: value for name, value in DECODER.items() if name != "num_key_value_heads"}
GPT2 = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

# What writes, and needs nothing but a mask.
WRITERS = {
    "Llama": of("LlamaForCausalLM", "LlamaConfig", **DECODER),
    "Mistral": of("MistralForCausalLM", "MistralConfig", **DECODER, **WINDOW),
    "Qwen3": of("Qwen3ForCausalLM", "Qwen3Config", **DECODER, head_dim=12),
    "GPT-2": of(
        "GPT2LMHeadModel", "GPT2Config", **GPT2, bos_token_id=1, eos_token_id=None, pad_token_id=0
    ),
    "GPT-NeoX": of("GPTNeoXForCausalLM", "GPTNeoXConfig", **NO_GROUPS),
    "Gemma 3": of("Gemma3ForCausalLM", "Gemma3TextConfig", **DECODER, **WINDOW_THEN_FULL),
    "DeepSeek-V3": of("DeepseekV3ForCausalLM", "DeepseekV3Config", **LATENT),
    "DeepSeek-V3.2": of("DeepseekV32ForCausalLM", "DeepseekV32Config", **LATENT, **INDEXER),
    "Qwen3-Next": of(
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        **(DECODER | DELTA | EXPERTS),
        head_dim=12,
        num_experts=4,
        shared_expert_intermediate_size=16,
    ),
}
# What writes, and needs more: a softcap, sinks.
DEMANDING = {
    "Gemma 2": of(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        **(DECODER | WINDOW_THEN_FULL),
        attn_logit_softcapping=2.0,
        query_pre_attn_scalar=7,
    ),
    "gpt-oss": of(
        "GptOssForCausalLM",
        "GptOssConfig",
        **(DECODER | WINDOW_THEN_FULL),
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    "MiMo-V2-Flash": of(
        "MiMoV2FlashForCausalLM",
        "MiMoV2FlashConfig",
        **(DECODER | WINDOW_THEN_FULL | EXPERTS),
        v_head_dim=8,
        n_routed_experts=4,
    ),
    "DeepSeek-V4": of(
        "DeepseekV4ForCausalLM",
        "DeepseekV4Config",
        **(DECODER | EXPERTS | INDEXER | V4),
        head_dim=16,
        q_lora_rank=24,
        n_routed_experts=4,
        layer_types=[
            *("sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention"),
        ],
        compress_rates={"heavily_compressed_attention": 8, "compressed_sparse_attention": 4},
        sliding_window=3,
        o_groups=2,
        o_lora_rank=8,
        partial_rotary_factor=0.5,
        mlp_layer_types=["moe", "moe", "moe"],
    ),
}
READERS = {
    "BERT": of("BertForMaskedLM", "BertConfig", **TEXT),
    "ModernBERT": of(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        **(TEXT | {"num_hidden_layers": 3}),
        local_attention=4,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    ),
}
BART = of(
    "BartForConditionalGeneration",
    "BartConfig",
    vocab_size=WORDS,
    d_model=32,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    forced_eos_token_id=None,
)
T5 = of(
    "T5ForConditionalGeneration",
    "T5Config",
    vocab_size=WORDS,
    d_model=32,
    d_kv=12,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    pad_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=0,
)
VIT = of(
    "ViTForImageClassification",
    "ViTConfig",
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=12,
    patch_size=4,
)
# The rest of those whose configurations the course describes.
MORE = {
    "Qwen3.5": of("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", **(DECODER | DELTA), head_dim=12),
    "OLMo 3": of(
        "Olmo3ForCausalLM",
        "Olmo3Config",
        **DECODER,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "OLMo Hybrid": of("OlmoHybridForCausalLM", "OlmoHybridConfig", **(DECODER | DELTA)),
    "SmolLM3": of("SmolLM3ForCausalLM", "SmolLM3Config", **DECODER, no_rope_layers=[1, 0]),
    "Gemma 4": of(
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        **(DECODER | WINDOW | {"num_hidden_layers": 4}),
        global_head_dim=20,
        layer_types=["sliding_attention", "full_attention"] * 2,
        vocab_size_per_layer_input=WORDS,
        hidden_size_per_layer_input=8,
        num_kv_shared_layers=2,
    ),
    "GLM-5": of("GlmMoeDsaForCausalLM", "GlmMoeDsaConfig", **LATENT, **INDEXER),
    "GLM-5.3": of(
        "Glm5NextTextModel",
        "Glm5NextTextConfig",
        **(LATENT | INDEXER | KIMIS_DELTA | {"qk_rope_head_dim": 0}),
        layer_types=["linear_attention", "indexed_attention"],
        index_kpool=3,
    ),
    "Mistral Large 4": of(
        "MistralLarge4TextModel",
        "MistralLarge4TextConfig",
        **LATENT,
        **INDEXER,
        no_rope_layers=[1, 0],
    ),
    "Mistral Large 4, shared keys": of(
        "MistralLarge4TextModel",
        "MistralLarge4TextConfig",
        **(LATENT | INDEXER | {"num_hidden_layers": 3}),
        kv_source_layers=[0, 0, 0],
        indexer_types=["full", "full", "shared"],
    ),
    "Kimi Linear": of(
        "KimiLinearForCausalLM", "KimiLinearConfig", **(LATENT | KIMIS_DELTA | LINEAR_THEN_FULL)
    ),
    "LFM3": of(
        "Lfm3ForCausalLM",
        "Lfm3Config",
        **(DECODER | WINDOW | {"num_hidden_layers": 3}),
        layer_types=["conv", "full_attention", "sliding_attention"],
    ),
    "Llama 4": of(
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        **DECODER,
        head_dim=12,
        attention_chunk_size=4,
        no_rope_layers=[1, 0],
        intermediate_size_mlp=16,
        num_local_experts=2,
    ),
}
# Its layers hand their kernel numbers of blocks, and no mask.
MINIMAX_M3 = of(
    "MiniMaxM3VLTextModel",
    "MiniMaxM3VLTextConfig",
    **(DECODER | {"head_dim": 16}),
    rotary_dim=8,
    num_local_experts=4,
    num_experts_per_tok=2,
    dense_intermediate_size=16,
    shared_intermediate_size=16,
    index_n_heads=2,
    index_head_dim=12,
    index_block_size=2,
    index_topk_blocks=2,
    layer_types=["full_attention", "minimax_m3_sparse"],
)
