"""Rotary positions for texts longer than those of the training: other speeds for the pairs.

Each function gives the speeds (head_size / 2,) for ``RotaryEncoding(head_size, speeds=...)``.
Pair j of a model trained with ``base`` turns by base^(-2j / head_size) from one position to the
next. ``factor`` is how many times longer the text may get.
"""

import math

from torch import Tensor

from d2l_attention.attention.speeds import rotary_speeds


def interpolated_speeds(head_size: int, factor: float, base: float = 10000) -> Tensor:
    """All pairs ``factor`` times slower: position 4n is where n was. Neighbours come closer, too.

    Source: Chen et al. (2023), Extending Context Window by Positional Interpolation, section 2.
    """
    check_factor(factor)
    return rotary_speeds(head_size, base) / factor


def ntk_speeds(head_size: int, factor: float, base: float = 10000) -> Tensor:
    """A larger base, such that the slowest pair is ``factor`` times slower and the first as it was.

    Errors: ``ValueError`` below two pairs: the first and the last must differ.

    Source: Peng et al. (2023), YaRN, section 3.1, after a post by bloc97.
    """
    check_factor(factor)
    if head_size < 4:
        raise ValueError(f"head_size must be 4 or more, got {head_size}")
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
    check_factor(factor)
    speeds = rotary_speeds(head_size, base)
    turns = trained_len * speeds / (2 * math.pi)
    kept = ((turns - few_turns) / (many_turns - few_turns)).clamp(0, 1)
    return kept * speeds + (1 - kept) * speeds / factor


def yarn_scale(factor: float) -> float:
    """By what YaRN multiplies queries and keys, so that weights over more keys stay as sharp.

    Source: Peng et al. (2023), YaRN, section 3.3 (ICLR 2024), on the temperature of the softmax.
    """
    check_factor(factor)
    return 0.1 * math.log(factor) + 1


def check_factor(factor: float) -> None:
    """Raise unless texts get longer, not shorter."""
    if factor < 1:
        raise ValueError(f"factor must be 1 or more, got {factor}")
