"""Run a function in another process, which can be stopped whatever it does.

The notebook's own process is never copied: it has threads and sockets, perhaps a GPU in use. A
worker is a new Python, started in the same way on Linux, macOS and Windows; on Linux it may also be
a copy of a Python that only imports and waits. It takes its work as a pickle, so a function that
was written in a notebook works, too, and passes on what it prints.

``worker.py`` is the caller's side, ``inside.py`` the worker's; ``spawned.py`` and ``forked.py`` are
the two ways to start one. ``packing.py`` is what travels, and ``limits.py`` is for the work itself.
``ready.py`` keeps a worker warm: a new Python takes seconds.
"""

from d2l_attention.system.workers.limits import Clock, limit_memory
from d2l_attention.system.workers.packing import CannotTravel, as_written, packed
from d2l_attention.system.workers.ready import Ready
from d2l_attention.system.workers.worker import Gone, Message, Worker, cause_of_death

__all__ = [
    "CannotTravel",
    "Clock",
    "Gone",
    "Message",
    "Ready",
    "Worker",
    "as_written",
    "cause_of_death",
    "limit_memory",
    "packed",
]
