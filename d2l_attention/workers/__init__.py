"""Run a function in another process, which can be stopped whatever it does.

The notebook's own process is never copied: it has threads and sockets, perhaps a GPU in use. A
worker is a new Python, started in the same way on Linux, macOS and Windows. It takes its work as
a pickle, so a function that was written in a notebook works, too, and passes on what it prints.

``worker.py`` is the caller's side, ``inside.py`` the worker's. ``ready.py`` keeps one worker warm,
for a new one takes seconds. ``limits.py`` is for the work itself.
"""

from d2l_attention.workers.limits import Clock, limit_memory
from d2l_attention.workers.ready import Ready
from d2l_attention.workers.worker import (
    CannotTravel,
    Gone,
    Message,
    Worker,
    cause_of_death,
    packed,
)

__all__ = [
    "CannotTravel",
    "Clock",
    "Gone",
    "Message",
    "Ready",
    "Worker",
    "cause_of_death",
    "limit_memory",
    "packed",
]
