"""Rotary positions for texts longer than those of the training: other speeds for the pairs.

Each function gives the speeds (head_size / 2,) for ``RotaryEncoding(head_size, speeds=...)``.
Pair j of a model trained with ``base`` turns by base^(-2j / head_size) from one position to the
next. ``factor`` is how many times longer the text may get.

Errors, of all: ``ValueError`` for a ``factor`` below 1, a ``base`` that is not above 1, a length or
turns that are not positive, and for NaN and infinite numbers.
"""

import math

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.positional import rotary_speeds


def interpolated_speeds(head_size: int, factor: float, base: float = 10000) -> Tensor:
    """All pairs ``factor`` times slower: position 4n is where n was. Neighbours come closer, too.

    Source: Chen et al. (2023), Extending Context Window by Positional Interpolation, section 2.
    """
    check_speeds(head_size, factor, base)
    return rotary_speeds(head_size, base) / factor


def ntk_speeds(head_size: int, factor: float, base: float = 10000) -> Tensor:
    """A larger base, such that the slowest pair is ``factor`` times slower and the first as it was.

    Errors: ``ValueError`` below two pairs: the first and the last must differ.

    Source: Peng et al. (2023), YaRN, section 3.1, after a post by bloc97.
    """
    check_speeds(head_size, factor, base)
    check_whole("head_size", head_size, 4)
    return rotary_speeds(head_size, base * factor ** (head_size / (head_size - 2)))


def yarn_speeds(
    head_size: int,
    factor: float,
    trained_len: int,
    base: float = 10000,
    *,
    few_turns: float = 1,
    many_turns: float = 32,
) -> Tensor:
    """Slow pairs are interpolated, fast ones left alone, those between them in part.

    A pair that turned ``many_turns`` times or more within ``trained_len`` has shown all its angles:
    it keeps its speed. One that turned ``few_turns`` times or less would meet new angles.

    Source: Peng et al. (2023), YaRN, section 3.2; alpha is ``few_turns``, beta ``many_turns``.
    """
    check_speeds(head_size, factor, base)
    check_turns(trained_len, few_turns, many_turns)
    speeds = rotary_speeds(head_size, base)
    turns = trained_len * speeds / (2 * math.pi)
    kept = ((turns - few_turns) / (many_turns - few_turns)).clamp(0, 1)
    kept = kept.nan_to_num(1.0)  # 0 / 0: both ends are one number of turns, and this pair's
    return kept * speeds + (1 - kept) * speeds / factor


def yarn_speeds_by_pair(
    head_size: int,
    factor: float,
    trained_len: int,
    base: float = 10000,
    *,
    few_turns: float = 1,
    many_turns: float = 32,
    whole_pairs: bool = True,
) -> Tensor:
    """``yarn_speeds`` as published models have it: the ramp is linear in the pair's number j.

    Both ramps begin and end at the pairs that turn ``many_turns`` and ``few_turns`` times. Between
    them the paper's is linear in the turns; that of its authors' code, and after it of the
    ``transformers`` library, in j, the logarithm of the turns.
    ``whole_pairs`` widens the ramp to whole numbers of pairs (gpt-oss does not).

    Source: Peng et al. (2023), the code at github.com/jquesnelle/yarn.
    """
    check_speeds(head_size, factor, base)
    check_turns(trained_len, few_turns, many_turns)
    speeds = rotary_speeds(head_size, base)
    low, high = (
        head_size * math.log(trained_len / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (many_turns, few_turns)
    )
    if whole_pairs:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_size - 1)
    pairs = torch.arange(len(speeds), dtype=speeds.dtype, device="cpu")
    width = high - low or 0.001  # a step, where both are the same pair
    slowed = ((pairs - low) / width).clamp(0, 1)
    return (1 - slowed) * speeds + slowed * speeds / factor


def yarn_scale(factor: float) -> float:
    """By what YaRN multiplies queries and keys, so that weights over more keys stay as sharp.

    Source: Peng et al. (2023), YaRN, section 3.3 (ICLR 2024), on the temperature of the softmax.
    """
    check_factor(factor)
    return 0.1 * math.log(factor) + 1


def check_speeds(head_size: int, factor: float, base: float) -> None:
    """Raise unless texts get longer and each pair turns more slowly than the one before it."""
    check_whole("head_size", head_size, 2)
    check_factor(factor)
    if not 1 < base < math.inf:
        raise ValueError(f"base must be finite and above 1, got {base}")


def check_factor(factor: float) -> None:
    """Raise unless texts get longer, not shorter."""
    if not 1 <= factor < math.inf:  # no comparison with NaN is true
        raise ValueError(f"factor must be finite and 1 or more, got {factor}")


def check_turns(trained_len: int, few_turns: float, many_turns: float) -> None:
    """Raise unless the ramp has two ends, in their order."""
    numbers = {"trained_len": trained_len, "few_turns": few_turns, "many_turns": many_turns}
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be finite and positive, got {number}")
    if few_turns > many_turns:
        raise ValueError(f"few_turns must be at most many_turns, {many_turns}, got {few_turns}")
