"""A row of sines and cosines, right and as students get it wrong: for 7.1 and 7.3.

Each function takes a position and an even number of columns, and gives a list of numbers.
"""

import math


def frequencies(d: int) -> list[float]:
    """One for each pair of columns."""
    return [10000 ** (-column / d) for column in range(0, d, 2)]


def in_pairs(angles: list[float]) -> list[float]:
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def right(position: int, d: int) -> list[float]:
    return in_pairs([position * frequency for frequency in frequencies(d)])


def in_halves(position: int, d: int) -> list[float]:
    return right(position, d)[0::2] + right(position, d)[1::2]


def cosine_first(position: int, d: int) -> list[float]:
    row = right(position, d)
    return [row[column ^ 1] for column in range(d)]


def halves_cosine_first(position: int, d: int) -> list[float]:
    return right(position, d)[1::2] + right(position, d)[0::2]


def sines_alone(position: int, d: int) -> list[float]:
    return [wave for wave in right(position, d)[0::2] for _ in range(2)]


def angles_alone(position: int, d: int) -> list[float]:
    return [position * frequency for frequency in frequencies(d) for _ in range(2)]


def each_column_its_own(position: int, d: int) -> list[float]:
    angles = [position * 10000 ** (-column / d) for column in range(d)]
    return [
        math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)
    ]


def half_the_exponent(position: int, d: int) -> list[float]:
    return in_pairs([position * 10000 ** (-pair / d) for pair in range(d // 2)])


def twice_the_exponent(position: int, d: int) -> list[float]:
    return in_pairs([position * 10000 ** (-2 * column / d) for column in range(0, d, 2)])


def one_frequency(position: int, d: int) -> list[float]:
    return in_pairs([float(position)] * (d // 2))


def multiplied(position: int, d: int) -> list[float]:
    return in_pairs([position / frequency for frequency in frequencies(d)])


def in_degrees(position: int, d: int) -> list[float]:
    return in_pairs([math.radians(position * frequency) for frequency in frequencies(d)])


def one_further(position: int, d: int) -> list[float]:
    return right(position + 1, d)


def position_0(position: int, d: int) -> list[float]:
    return right(0, d)


MISTAKES = {
    in_halves: (
        "all sines stand first here, then all cosines. The paper interleaves them: a pair is two "
        "neighbours, columns 2j and 2j + 1."
    ),
    cosine_first: "sine and cosine have changed places: even columns hold the sine.",
    halves_cosine_first: (
        "all cosines stand first here, then all sines. A pair is two neighbours: the sine in "
        "column 2j, its cosine in column 2j + 1."
    ),
    each_column_its_own: (
        "each column has a wavelength of its own here. Both columns of a pair share one, that of "
        "the even column: 10000^(2j/d)."
    ),
    half_the_exponent: (
        "the exponent is j/d here, half of what it should be. In column 2 it is 2/d: the even "
        "column's own number."
    ),
    twice_the_exponent: (
        "the second pair turns too slowly: the 2j of the exponent is the even column's number, "
        "already doubled. In column 2 it is 2/d, not 4/d."
    ),
    one_frequency: "all pairs turn equally fast here. Where does 10000^(2j/d) come in?",
    multiplied: "the position is divided by 10000^(2j/d), not multiplied: later pairs turn slower.",
    in_degrees: "those are sines and cosines of degrees. Angles are in radians here.",
    sines_alone: "those are sines in every column. Odd columns hold the cosine.",
    angles_alone: "those are the angles. Take their sines and cosines.",
    one_further: "that is one position too far: the first token stands at position 0, not 1.",
    position_0: "that is the row of position 0, where all angles are 0.",
}
