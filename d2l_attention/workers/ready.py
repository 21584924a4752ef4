"""One worker that is kept warm: it has imported what the next work needs."""

import atexit
import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from d2l_attention.workers.packing import packed
from d2l_attention.workers.worker import Worker


class Ready:
    """Lends a worker that has imported ``modules`` already; a second caller gets one of its own."""

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None):
        self._modules, self._environment = modules, environment
        self._spare: Worker | None = None
        self._free = threading.Lock()
        atexit.register(self.end)

    def warm_up(self) -> None:
        """Start a worker, and do not wait for it."""
        with self._free:
            if self._spare is None:
                self._spare = self._started()

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """A worker for one piece of work. Unless that left nothing behind, another is started.

        Errors: ``OSError`` where no process can be started.
        """
        with self._free:
            worker, self._spare = self._spare, None
        if worker is not None and not worker.alive:  # it was idle for long
            worker.end()
            worker = None
        worker = worker or self._started()
        usable = False
        try:
            yield worker
            usable = worker.is_free()
        finally:
            if usable:
                with self._free:
                    if self._spare is None:
                        self._spare, worker = worker, None
            if worker is not None:
                worker.end()
                try:
                    self.warm_up()
                except OSError:  # then the next work will say so
                    pass

    def end(self) -> None:
        """End the worker that waits, if one does."""
        with self._free:
            worker, self._spare = self._spare, None
        if worker is not None:
            worker.end()

    def _started(self) -> Worker:
        worker = Worker(environment=self._environment)
        worker.give(packed(_imported, self._modules))
        return worker


def _imported(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
