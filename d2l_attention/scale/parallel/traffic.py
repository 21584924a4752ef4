"""What processes have to send each other in a training step, and when the network is the limit.

Letters: P processes, T tokens in a batch (of all processes together), n tokens in a sequence, D
``num_hiddens``. A layer is a Transformer block: attention with 4 D^2 parameters and a network for
each token with 8 D^2, its hidden layer 4 D wide. Biases and norms are too small to count.
"""

from dataclasses import dataclass

from d2l_attention.attention.checks import check_whole


@dataclass(frozen=True)
class LayerShape:
    """A Transformer block and what goes through it; ``batch_size`` is that of all processes."""

    num_hiddens: int
    num_tokens: int
    batch_size: int = 1

    def __post_init__(self):
        for name, value in vars(self).items():
            check_whole(name, value)


def bytes_per_layer(
    shape: LayerShape, num_processes: int, *, bytes_per_number: int = 2
) -> dict[str, float]:
    """Bytes that each process sends for one block in a training step, by way of sharing.

    ``data``: one all-reduce of the gradients of all 12 D^2 parameters. ``tensor``: an all-reduce
    of T D numbers for attention and one for the network, forward and again backward. ``context``:
    forward, keys and values of T / P tokens go P - 1 steps; backward, so do they again, and
    their gradients go P steps, all the way home. Each process there has the whole model, so a
    step also costs what ``data`` costs.

    Sources: Patarasuk and Yuan (2009) for the all-reduce; Shoeybi et al. (2019), section 3; Liu
    et al. (2023).
    """
    check_whole("num_processes", num_processes)
    P, D, T = num_processes, shape.num_hiddens, shape.batch_size * shape.num_tokens
    stretch = T / P * D
    steps_forward = 2 * (P - 1)
    steps_backward = 2 * (P - 1) + (2 * P if P > 1 else 0)
    numbers = {
        "data": all_reduce(12 * D**2, P),
        "tensor": 4 * all_reduce(T * D, P),
        "context": (steps_forward + steps_backward) * stretch,
    }
    return {name: count * bytes_per_number for name, count in numbers.items()}


def all_reduce(numbers: float, num_processes: int) -> float:
    """How many numbers each process sends so that all have the sum of all.

    In a ring: P - 1 steps, each with 1 / P of the numbers, until every process has one part of
    the sum; as many again until every process has every part.
    """
    return 2 * (num_processes - 1) / num_processes * numbers


def flops_per_layer(shape: LayerShape) -> float:
    """Multiplications and additions of one block in a training step, of all processes together.

    Forward, each token takes 2 for each parameter, and 4 D for each key that it sees; the way
    back takes twice as many.
    """
    D, n = shape.num_hiddens, shape.num_tokens
    return 3 * shape.batch_size * n * (2 * 12 * D**2 + 4 * n * D)


@dataclass(frozen=True)
class Times:
    """Seconds for one block in a training step; ``moving`` may hide behind ``computing``."""

    moving: float
    computing: float


def layer_times(
    shape: LayerShape,
    num_processes: int,
    *,
    flops_per_second: float,
    bytes_per_second: float,
    bytes_per_number: int = 2,
) -> dict[str, Times]:
    """Time to move against time to compute, where each process has these two speeds.

    Both are what is left when nothing but the product or the network takes time: no latency, no
    other layer. Real steps are slower.

    Errors: ``ValueError`` for a speed that is not positive.
    """
    for name, speed in (("flops", flops_per_second), ("bytes", bytes_per_second)):
        if not speed > 0:
            raise ValueError(f"{name}_per_second must be positive, got {speed}")
    moved = bytes_per_layer(shape, num_processes, bytes_per_number=bytes_per_number)
    computing = flops_per_layer(shape) / num_processes / flops_per_second
    return {name: Times(count / bytes_per_second, computing) for name, count in moved.items()}
