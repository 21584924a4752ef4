"""11.1: what a token weighs with a latent, and with few global layers, on paper."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

LAYERS, HEADS, SIZE, LATENT, TURNED = 48, 32, 128, 448, 64
TOKENS, WINDOW, GLOBAL, GROUPS = 16384, 1024, 8, 8


def kib(numbers, layers=LAYERS):
    """Of one token: so many numbers in each layer, 2 bytes each."""
    return 2 * layers * numbers / 1024


def mixed(num_global=GLOBAL, window=WINDOW):
    """MiB of all tokens with grouped queries: windows in all layers but the global ones."""
    kept = num_global * TOKENS + (LAYERS - num_global) * window
    return kept * 2 * GROUPS * SIZE * 2 / 2**20


HEAD_KEYS = 2 * HEADS * SIZE
latent_cache_by_hand = Exercise(
    **heading("11.1", "What a latent weighs", "easy", minutes=8),
    section="What a latent saves",
    hints=[
        "Count what is kept of one token in one layer. With a latent: no keys and no values.",
        "The latent and the rotary key are kept once, not once per head. In the last question a "
        "layer keeps either the window or everything.",
        "48 layers times (448 + 64) numbers times 2 bytes, in KiB. Then 8 layers times 16,384 "
        "tokens and 40 layers times 1,024 tokens, each with 2 times 8 times 128 numbers.",
    ],
    solution=(768, 48, 672),
    explanation="Multi-head attention keeps 2 x 32 x 128 numbers a layer, the latent form 448 + "
    "64, however many heads there are: a sixteenth. With mixed layers 8 keep 16,384 tokens and "
    "40 keep 1,024: 172,032 tokens and layers of 4 KiB each are 672 MiB. As many layers "
    "without a window would keep 3,072 MiB.",
    steps=[
        parts(
            Part(
                "A token in multi-head attention",
                kib(HEAD_KEYS),
                {
                    kib(HEAD_KEYS / 2): "that is half of it. A token leaves a key and a value.",
                    kib(HEAD_KEYS, 1): "that is one layer. All 48 layers keep something.",
                    kib(HEAD_KEYS) * 1024: "those are bytes. A KiB has 1,024 of them.",
                },
            ),
            Part(
                "A token with a latent",
                kib(LATENT + TURNED),
                {
                    kib(2 * (LATENT + TURNED)): "twice too much: the latent is kept once, for keys "
                    "and values together.",
                    kib(LATENT): "the rotary key is missing. It is kept beside the latent.",
                    kib(LATENT + HEADS * TURNED): "the rotary key is the same for all heads, and "
                    "kept once.",
                    kib(HEADS * (LATENT + TURNED)): "the latent belongs to the token. It is kept "
                    "once, not once per head.",
                    kib(LATENT + TURNED, 1): "that is one layer. All 48 layers keep something.",
                },
            ),
            Part(
                "16,384 tokens with mixed layers",
                mixed(),
                {
                    mixed(LAYERS): "that is without windows. 40 layers keep 1,024 tokens only.",
                    mixed(0): "that is with windows everywhere. 8 layers keep all tokens.",
                    mixed(LAYERS - GLOBAL): "40 layers have a window and 8 have none, not the "
                    "other way round.",
                    mixed() / 2: "that is half of it. A token leaves a key and a value.",
                    mixed(window=0): "the windows are missing. Their 1,024 tokens are kept, too.",
                },
            ),
            give="3 numbers, such as `(1, 2, 3)`",
            otherwise="multiply: layers, numbers kept of a token, bytes.",
        )
    ],
)
