"""10.2: what a ring sends, and what decoding does with each byte that it reads."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

TO_ALL = "you send everything to every other process. In a ring each step sends one part to one."
LIMIT = "that is what very many processes come close to. Each leaves one step out, twice."
HALF_WAY = "that is half of it: each process has one part of the sum, and all need every part."
ALL_TOGETHER = "that is what all processes send together. The task asks for each."
ONCE = "sending everything once is not enough: nobody would have the whole sum everywhere."
ONE_STEP = "that is one step. How many are there?"
PER_NUMBER = "a number takes a multiplication and an addition. How many bytes has it here?"
FOUR_BYTES = "you count 4 bytes a number. Here a number has 1."
LONGER = "each key is read once and used once. A longer cache has more of both."
OWN_CACHE = "each sequence has a cache of its own, which no other one can use."

FIVE = {
    400: TO_ALL,
    200: LIMIT,
    80: HALF_WAY,
    800: ALL_TOGETHER,
    100: ONCE,
    20: ONE_STEP,
    180: "how many processes are there, and into how many parts are the 100 MB cut?",
}
TEN = {
    900: TO_ALL,
    200: LIMIT,
    90: HALF_WAY,
    1800: ALL_TOGETHER,
    320: "twice the processes, but not twice the bytes: the parts are half as large.",
    160: "with ten processes there are more steps than with five, each with a smaller part.",
    10: ONE_STEP,
    100: ONCE,
}
OWN = {
    1: PER_NUMBER,
    0.5: FOUR_BYTES,
    4096: LONGER,
    128: "a wider head has more operations, and more bytes.",
    32: "how many heads there are changes operations and bytes alike.",
}
SHARED = {
    2: "eight queries use what was read once.",
    0.25: "fewer bytes for the same operations: does the number grow or shrink?",
    8: PER_NUMBER,
    4: FOUR_BYTES,
}
BATCH = {
    32: OWN_CACHE,
    1 / 8: "16 times the bytes, and 16 times the operations as well.",
    1: PER_NUMBER,
    0.5: FOUR_BYTES,
}

predict_bytes = Exercise(
    **heading("10.2", "What is sent, what is read", "easy", minutes=8),
    section="The roofline: arithmetic or memory?",
    hints=[
        "In a ring of P processes the 100 MB are cut into P parts. In each step every process "
        "sends one part to its neighbour. After P - 1 steps each holds one part of the whole sum.",
        "And then? Every process needs every part. How many more steps, of how many MB?",
        "One number of a key meets one number of a query: a multiplication and an addition, for 1 "
        "byte. The same goes for a value and its weight. Who else can use what has been read?",
    ],
    solution=(160, 180, 2, 16, 2),
    explanation="A ring takes 2 (P - 1) steps with 1/P of the numbers each: 8 · 20 and 18 · 10 MB, "
    "never twice the gradients, however many processes there are. Decoding does 2 operations "
    "for 1 byte, and no length, width or batch changes that: far left on the roofline, where "
    "memory is the limit. Heads that share keys move it to the right: one read, eight queries.",
    steps=[
        parts(
            Part("MB sent by each of five", 160, FIVE, tolerance=0.5),
            Part("MB sent by each of ten", 180, TEN, tolerance=0.5),
            # `attention_work` also counts the query and the output: 1.9995 and 15.97.
            Part("Operations a byte, keys of one's own", 2, OWN, tolerance=0.01),
            Part("Operations a byte, shared by eight", 16, SHARED, tolerance=0.05),
            Part("Operations a byte, 16 sequences", 2, BATCH, tolerance=0.01),
            give="five numbers, such as `(1, 1, 1, 1, 1)`",
            otherwise="play it through with two processes, or with one key of one number.",
        )
    ],
)
