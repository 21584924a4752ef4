"""10.2: what a ring sends, and what decoding does with each byte that it reads."""

from d2l_attention.exercises.authoring import Exercise, Part, parts

TO_ALL = "you send everything to every other process. In a ring each step sends one part to one."
LIMIT = "that is what very many processes come close to. Each leaves one step out, twice."
HALF_WAY = "that is half of it: each process has one part of the sum, and all need every part."
ALL_TOGETHER = "that is what all processes send together. The task asks for each."
ONCE = "sending everything once is not enough: nobody would have the whole sum everywhere."
ONE_STEP = "that is one step. How many are there?"
PER_NUMBER = "that is for each number. A number has 2 bytes."
LONGER = "each key is read once and used once. A longer cache has more of both."
OWN_CACHE = "each sequence has a cache of its own, which no other one can use."

FOUR = {
    300: TO_ALL,
    200: LIMIT,
    75: HALF_WAY,
    600: ALL_TOGETHER,
    100: ONCE,
    25: ONE_STEP,
    175: "that is eight processes.",
}
EIGHT = {
    700: TO_ALL,
    200: LIMIT,
    87.5: HALF_WAY,
    1400: ALL_TOGETHER,
    300: "twice the processes, but not twice the bytes: the parts are half as large.",
    150: "that is four processes. With eight there are more steps, each with a smaller part.",
    12.5: ONE_STEP,
    100: ONCE,
}
OWN = {
    2: PER_NUMBER,
    0.5: "you count half of the operations. A key takes a multiplication and an addition for each "
    "of its numbers, and so does its value.",
    4096: LONGER,
    128: "a wider head has more operations, and more bytes.",
    32: "how many heads there are changes operations and bytes alike.",
}
SHARED = {
    1: "eight queries use what was read once.",
    0.125: "the other way round: fewer bytes for the same operations.",
    16: PER_NUMBER,
    4: "you count half of the operations: a multiplication and an addition for each number.",
}
BATCH = {
    16: OWN_CACHE,
    1 / 16: "16 times the bytes, and 16 times the operations as well.",
    2: PER_NUMBER,
}

predict_bytes = Exercise(
    id="10.2",
    title="What is sent, what is read",
    difficulty="easy",
    minutes=8,
    hints=[
        "In a ring of P processes the 100 MB are cut into P parts. In each step every process "
        "sends one part to its neighbour. After P - 1 steps each holds one part of the whole sum.",
        "And then? Every process needs every part. How many more steps, of how many MB?",
        "One number of a key meets one number of a query: a multiplication and an addition, for 2 "
        "bytes. The same goes for a value and its weight. Who else can use what has been read?",
    ],
    stub=None,
    solution=(150, 175, 1, 8, 1),
    explanation="A ring takes 2 (P - 1) steps with 1/P of the numbers each: 6 · 25 and 14 · 12.5 "
    "MB, never twice the gradients, however many processes there are. Decoding does 2 operations "
    "for 2 bytes, and no length, width or batch changes that: far left on the roofline, where "
    "memory is the limit. Heads that share keys move it to the right: one read, eight queries.",
    steps=[
        parts(
            Part("MB sent by each of four", 150, FOUR, tolerance=0.5),
            Part("MB sent by each of eight", 175, EIGHT, tolerance=0.5),
            # `attention_work` also counts the query and the output: 0.9998 and 7.98.
            Part("Operations a byte, keys of one's own", 1, OWN, tolerance=0.01),
            Part("Operations a byte, shared by eight", 8, SHARED, tolerance=0.03),
            Part("Operations a byte, 16 sequences", 1, BATCH, tolerance=0.01),
            give="five numbers, such as `(1, 1, 1, 1, 1)`",
            otherwise="play it through with two processes, or with one key of one number.",
        )
    ],
)
