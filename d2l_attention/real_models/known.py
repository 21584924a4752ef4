"""What this course knows of models and their configurations do not say; tests read their code."""

QK_NORM = {
    *("deepseek_v4", "gemma3_text", "gemma4_text", "lfm3", "llama4_text", "minimax_m3_vl_text"),
    *("olmo3", "olmo_hybrid", "qwen3", "qwen3_5_text", "qwen3_next"),
}
# Which layers have sinks.
SINKS = {"deepseek_v4": "all", "gpt_oss": "all", "mimo_v2_flash": "sliding_attention"}
DOUBLED_GROUPS = {"mimo_v2_flash"}  # twice as many heads of keys and values in layers with a window
DELTA_RULE = {"glm5_next_text", "kimi_linear", "olmo_hybrid", "qwen3_5_text", "qwen3_next"}
LEARNED_POSITIONS = {"bart", "bert", "gpt2", "vit"}
NO_POSITIONS = {"glm5_next_text", "kimi_linear"}
TWO_SIDES = {"bert", "modernbert", "vit"}  # nothing is generated, nothing is cached
# Those whose description was compared with the cache that they fill, or that have none.
KNOWN = TWO_SIDES | {
    *("bart", "deepseek_v3", "deepseek_v32", "deepseek_v4", "gemma2", "gemma3_text", "gemma4_text"),
    *("glm5_next_text", "glm_moe_dsa", "gpt2", "gpt_neox", "gpt_oss", "kimi_linear", "lfm3"),
    *("llama", "llama4_text", "mimo_v2_flash", "minimax_m3_vl_text", "mistral"),
    *("mistral_large4_text", "olmo3", "olmo_hybrid", "qwen3", "qwen3_5_text", "qwen3_next"),
    *("smollm3", "t5"),
}
