"""13.3: what a model's configuration says about its cache."""

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of


def cache_numbers(config, num_tokens):
    """Numbers in the cache of all layers after num_tokens tokens, for a dictionary of fields.

    {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4} and 10 tokens: a head has
    32 / 4 = 8 numbers, so 2 layers x 4 heads x 8 numbers x 2 (keys and values) x 10 tokens = 1280.
    """
    ...


def cache_numbers_solution(config, num_tokens):
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    if config.get("kv_lora_rank"):
        of_a_token = config["kv_lora_rank"] + config["qk_rope_head_dim"]
    else:
        groups = config.get("num_key_value_heads") or heads
        size = config.get("head_dim") or config["hidden_size"] // heads
        of_a_token = 2 * groups * size
    window = config.get("sliding_window")
    in_window = min(num_tokens, window) if window else num_tokens
    same_kind = ["sliding_attention" if window else "full_attention"] * layers
    kinds = config.get("layer_types") or same_kind
    kept = [in_window if kind == "sliding_attention" else num_tokens for kind in kinds]
    return of_a_token * sum(kept)


PLAIN = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4}
GROUPS = {**PLAIN, "num_key_value_heads": 2}
HEAD_DIM = {**GROUPS, "head_dim": 16}
SAID = {**GROUPS, "head_dim": None, "sliding_window": None, "layer_types": None}
WINDOW = {**GROUPS, "num_hidden_layers": 3, "sliding_window": 6}
MIXED = {**WINDOW, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
UNUSED = {**WINDOW, "layer_types": ["full_attention"] * 3}
LATENT = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 4,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
}

write_cache_numbers = Exercise(
    **heading("13.3", "Read a configuration", "medium", minutes=20),
    section="Read a configuration",
    pairs=False,
    hints=[
        "Two questions, one after the other: how many numbers does a token leave in one layer, "
        "and how many tokens does each layer keep?",
        "A token leaves a key and a value for each group, or one latent and one rotated key for "
        "all heads. `config.get(name)` is `None` where a field is missing.",
        "Make a list of one number of tokens for each layer: `min(num_tokens, window)` where its "
        "kind is 'sliding_attention', else `num_tokens`. Its sum times the numbers of a token is "
        "the answer.",
    ],
    stub=cache_numbers,
    solution=cache_numbers_solution,
    explanation="Every field has a chapter: groups and windows are chapter 9's, the latent is "
    "chapter 11's. `head_dim` matters: in gpt-oss a head has 64 numbers, though 2,880 / 64 is "
    "45. In DeepSeek-V3 `num_key_value_heads` is 128, and yet nothing is kept for each head, "
    "because there is a latent. `describe` reads many more fields.",
    cases=[
        Case((PLAIN, 10)),
        Case((GROUPS, 10), because="Here 4 query heads share 2 heads of keys and values."),
        Case((HEAD_DIM, 10), because="Here the configuration says how large a head is."),
        Case((SAID, 10), because="Here some fields are there, and `None`."),
        Case((WINDOW, 10), because="Here all layers have a window of 6 tokens."),
        Case((WINDOW, 4), because="Here the text is shorter than the window."),
        Case((MIXED, 10), because="Here two layers have a window and one has none."),
        Case((UNUSED, 10), because="Here a window is given, and `layer_types` names none with it."),
        Case((LATENT, 10), because="Here is a latent, as in DeepSeek-V3."),
    ],
    mistakes=[
        *instead_of(
            "2 * groups * size",
            {
                "groups * size": "That is half of it. A token leaves a key and a value.",
                "2 * size": "That is one head. Each head of keys and values keeps its own.",
                "2 * heads * size": "You count the heads of queries. What is kept is a key and a "
                "value for each of `num_key_value_heads`.",
            },
        ),
        Mistake(
            {
                'config.get("head_dim") or config["hidden_size"] // heads': 'config["hidden_size"] '
                "// heads"
            },
            "You ignore `head_dim`. Where it is given, a head has this size, whatever "
            "`hidden_size` is.",
        ),
        *instead_of(
            "min(num_tokens, window) if window else num_tokens",
            {
                "num_tokens": "You ignore the window. Such a layer keeps the latest "
                "`sliding_window` tokens.",
                "window if window else num_tokens": "The text is shorter than the window, and "
                "only its tokens are kept.",
            },
        ),
        Mistake(
            {'config.get("layer_types") or same_kind': "same_kind"},
            "You ignore `layer_types`, which says for each layer whether it has a window.",
        ),
        *instead_of(
            'config["kv_lora_rank"] + config["qk_rope_head_dim"]',
            {
                'config["kv_lora_rank"]': "The rotated key, `qk_rope_head_dim`, is missing. It is "
                "kept beside the latent.",
                '2 * (config["kv_lora_rank"] + config["qk_rope_head_dim"])': "Twice too much: one "
                "latent serves keys and values.",
                'heads * (config["kv_lora_rank"] + config["qk_rope_head_dim"])': "The latent is "
                "kept once for a token, not once for each head.",
                'config["kv_lora_rank"] + heads * config["qk_rope_head_dim"]': "The rotated key is "
                "kept once for all heads.",
            },
        ),
        Mistake(
            {'config.get("kv_lora_rank")': "False"},
            "You count keys and values of all heads. With `kv_lora_rank` a token leaves one "
            "latent and one rotated key of `qk_rope_head_dim` numbers.",
        ),
        *instead_of("sum(kept)", {"kept[0]": "That is one layer. Every layer has a cache."}),
    ],
    errors={
        "num_key_value_heads": "Without `num_key_value_heads` each head has keys of its own: "
        '`config.get("num_key_value_heads")` is then `None`.',
        "head_dim": "Not every configuration says `head_dim`. Without it a head has "
        "`hidden_size` / `num_attention_heads` numbers.",
        "sliding_window": "Not every model has a window: without the field, or with `None`, there "
        "is none.",
        "layer_types": "Without `layer_types` all layers are of one kind: with a window if there "
        "is one.",
        "kv_lora_rank": "Only models with a latent have `kv_lora_rank`.",
        "NoneType": "A field may be there and be `None`. It then says as much as a missing one.",
    },
)
