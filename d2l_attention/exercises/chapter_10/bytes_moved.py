"""10.2: what a ring sends, and what decoding does with each byte that it reads."""

from d2l_attention.exercises.chapter_10.helpers import one_by_one
from d2l_attention.exercises.exercise import Exercise, Wrong

TO_ALL = "you send everything to every other process. In a ring each step sends one part to one."
LIMIT = "that is what very many processes come close to. Each leaves one step out, twice."
HALF_WAY = (
    "that is half of it. After so many steps each process has one part of the whole sum, and all "
    "of them need every part."
)
ALL_TOGETHER = "that is what all processes send together. The task asks for each."
FOUR = {
    300: TO_ALL,
    200: LIMIT,
    75: HALF_WAY,
    600: ALL_TOGETHER,
    100: "sending everything once is not enough: nobody would have the whole sum everywhere.",
    25: "that is one step. How many are there?",
    50: "those are two steps. How many are there?",
    175: "that is eight processes.",
    400: "a process sends nothing to itself, and only one part at a time.",
}
EIGHT = {
    700: TO_ALL,
    200: LIMIT,
    87.5: HALF_WAY,
    1400: ALL_TOGETHER,
    300: "twice the processes, but not twice the bytes: the parts are half as large.",
    350: "there are 14 steps, and the parts are half as large: 12.5 MB.",
    150: "that is four processes. With eight there are more steps, each with a smaller part.",
    75: "the steps go up from 6 to 14, and the parts are half as large.",
    12.5: "that is one step. How many are there?",
    100: "sending everything once is not enough: nobody would have the whole sum everywhere.",
}
OWN = {
    2: "that is for each number. A number has 2 bytes.",
    0.5: (
        "you count half of the operations. A key takes a multiplication and an addition for each "
        "of its numbers, and so does its value."
    ),
    4: "that is for each pair of a key's number and a value's. Those are 4 bytes.",
    4096: "each key is read once and used once. A longer cache has more of both.",
    2048: "each key is read once and used once. A longer cache has more of both.",
    8192: "each key is read once and used once. A longer cache has more of both.",
    128: "a wider head has more operations, and more bytes.",
    32: "how many heads there are changes operations and bytes alike.",
    8: "here each query head reads keys of its own: what is read serves one query.",
}
SHARED = {
    1: "eight queries use what was read once.",
    0.125: "the other way round: fewer bytes for the same operations.",
    16: "that is for each number. A number has 2 bytes.",
    4: "you count half of the operations: a multiplication and an addition for each number.",
    64: "eight times the queries on one set of keys: 8, not 8 times 8.",
    2: "eight queries use what was read once.",
}
BATCH = {
    16: "each sequence has a cache of its own, which no other one can use.",
    32: "each sequence has a cache of its own, which no other one can use.",
    8: "each sequence has a cache of its own, which no other one can use.",
    1 / 16: "16 times the bytes, and 16 times the operations as well.",
    2: "that is for each number. A number has 2 bytes.",
}
QUESTIONS = [
    ("MB sent by each of four", 150, FOUR),
    ("MB sent by each of eight", 175, EIGHT),
    ("Operations a byte, keys of one's own", 1, OWN),
    ("Operations a byte, shared by eight", 8, SHARED),
    ("Operations a byte, 16 sequences", 1, BATCH),
]

predict_bytes = Exercise(
    id="10.2",
    title="What is sent, what is read",
    task=(
        "Four processes add up their gradients, 100 MB each, by a ring all-reduce. How many MB "
        "does each of them send? How many if they are eight? One step of decoding: each head's "
        "one query reads 4,096 keys and values of 128 numbers from a cache, 2 bytes a number. How "
        "many operations, multiplications and additions, does it do for each byte of the cache: "
        "if each head has a cache of its own; if eight heads share one; if 16 sequences decode "
        "at once, each head of each with its own? (Not counted: the softmax, the query, the "
        "output.) Predict; then compare with `all_reduce(100, 4)` of "
        "`d2l_attention.scale.parallel`, which adds nothing but counts what each sends, and with "
        "`attention_work(1, 4096, 128, bytes_per_number=2, ...)` of "
        "`d2l_attention.scale.roofline`. The latter counts the query and the output as well: "
        "expect 7.98 where you have 8. Give five numbers, such as `(1, 1, 1, 1, 1)`."
    ),
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
    explanation=(
        "A ring takes 2 (P - 1) steps with 1/P of the numbers each: 6 · 25 and 14 · 12.5 MB. It "
        "never comes to twice the gradients, however many processes there are. Decoding does 2 "
        "operations for 2 bytes, and no length, width or batch changes that: far left on the "
        "roofline, where memory is the limit. Heads that share their keys move it to the right: "
        "one read, eight queries."
    ),
    steps=[
        one_by_one(
            QUESTIONS,
            "five numbers, such as `(1, 1, 1, 1, 1)`",
            "play it through with two processes, or with one key of one number.",
        )
    ],
    wrong=[
        Wrong((300, 700, 1, 8, 1), "you send everything to every other"),
        Wrong((200, 200, 1, 8, 1), "very many processes"),
        Wrong((75, 87.5, 1, 8, 1), "that is half of it"),
        Wrong((600, 1400, 1, 8, 1), "what all processes send together"),
        Wrong((100, 100, 1, 8, 1), "sending everything once"),
        Wrong((25, 12.5, 1, 8, 1), "that is one step"),
        Wrong((150, 300, 1, 8, 1), "but not twice the bytes"),
        Wrong((150, 150, 1, 8, 1), "that is four processes"),
        Wrong((150, 87.5, 1, 8, 1), "that is half of it"),
        Wrong((150, 175, 2, 16, 2), "that is for each number"),
        Wrong((150, 175, 0.5, 4, 0.5), "half of the operations"),
        Wrong((150, 175, 4096, 8, 1), "more of both"),
        Wrong((150, 175, 128, 8, 1), "a wider head"),
        Wrong((150, 175, 1, 1, 1), "use what was read once"),
        Wrong((150, 175, 1, 0.125, 1), "the other way round"),
        Wrong((150, 175, 1, 8, 16), "a cache of its own, which no other"),
        Wrong((150, 175, 1, 8, 1 / 16), "16 times the operations"),
        Wrong((151.9, 175, 1, 8, 1), "two processes"),
        Wrong((150, 175, 1), "Give five numbers"),
        Wrong("150 MB", "Give five numbers"),
    ],
)
