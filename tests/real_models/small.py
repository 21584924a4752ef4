"""Models of the library, small and with random weights, and inputs of unequal lengths."""

import torch
import transformers as hf

WORDS = 97
LENGTHS = (7, 4)

DECODER = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
ENCODER = {**DECODER, "max_position_embeddings": 32}
EXPERTS = {
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "num_key_value_heads": 4,
    "first_k_dense_replace": 1,
}


def of(model, config, **sizes):
    """A function that makes the model, with weights large enough for attention to look."""

    def make(**more):
        torch.manual_seed(0)
        built = getattr(hf, model)(getattr(hf, config)(**{**sizes, **more}))
        with torch.no_grad():
            for name, parameter in built.named_parameters():
                if parameter.ndim > 1 or "sinks" in name:
                    parameter.normal_(std=0.2)
        return built.eval()

    return make


CAUSAL = {
    "Llama": of("LlamaForCausalLM", "LlamaConfig", **DECODER),
    "Mistral": of("MistralForCausalLM", "MistralConfig", **DECODER, sliding_window=3),
    "Qwen3": of("Qwen3ForCausalLM", "Qwen3Config", **DECODER, head_dim=12),
    "GPT-2": of(
        "GPT2LMHeadModel",
        "GPT2Config",
        vocab_size=WORDS,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    ),
    "GPT-NeoX": of("GPTNeoXForCausalLM", "GPTNeoXConfig", **DECODER),
    "Gemma 3": of(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        **DECODER,
        head_dim=12,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "DeepSeek-V3": of(
        "DeepseekV3ForCausalLM", "DeepseekV3Config", **{**DECODER, **EXPERTS, **LATENT}
    ),
    "DeepSeek-V3.2": of(
        "DeepseekV32ForCausalLM",
        "DeepseekV32Config",
        **{**DECODER, **EXPERTS, **LATENT},
        index_topk=3,
        index_head_dim=16,
        index_n_heads=2,
    ),
    "Qwen3-Next": of(
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        **DECODER,
        head_dim=12,
        layer_types=["linear_attention", "full_attention"],
        moe_intermediate_size=16,
        num_experts=4,
        num_experts_per_tok=2,
        shared_expert_intermediate_size=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=6,
        linear_value_head_dim=10,
    ),
}
WITH_MORE = {
    "Gemma 2": of(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        **DECODER,
        head_dim=12,
        sliding_window=3,
        attn_logit_softcapping=2.0,
        query_pre_attn_scalar=7,
    ),
    "gpt-oss": of(
        "GptOssForCausalLM",
        "GptOssConfig",
        **DECODER,
        head_dim=12,
        sliding_window=3,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
}
BERT_SIZES = {k: v for k, v in ENCODER.items() if k not in ("num_key_value_heads", "eos_token_id")}
OTHERS = {
    "BERT": of("BertForMaskedLM", "BertConfig", **BERT_SIZES),
    "ModernBERT": of(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        **{**BERT_SIZES, "num_hidden_layers": 3},
        local_attention=4,
        eos_token_id=None,
        cls_token_id=1,
        sep_token_id=2,
    ),
}
BART = of(
    "BartForConditionalGeneration",
    "BartConfig",
    vocab_size=WORDS,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
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
