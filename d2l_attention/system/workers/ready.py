"""One worker is kept warm ahead of the next work: it has imported what that needs."""

import atexit
import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from d2l_attention.system.workers.forked import CAN_FORK, ForkServer
from d2l_attention.system.workers.packing import packed
from d2l_attention.system.workers.spawned import Spawned
from d2l_attention.system.workers.worker import Gone, Worker, cause_of_death

START = 120.0  # seconds that the imports may take


class Ready:
    """Lends workers that have imported ``modules``, each for one piece of work.

    Whatever the work changes, be it in torch, ends with its worker. The next one is started while
    that happens. On Linux that takes milliseconds, elsewhere a second or two, and work that comes
    sooner waits for the rest of them.
    """

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None):
        self._modules, self._environment = modules, environment
        self._server = ForkServer(modules, environment) if CAN_FORK else None
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
        """A worker for one piece of work.

        Errors: ``OSError`` where no process can be started, or where it cannot import its modules.
        """
        with self._free:
            spare, self._spare = self._spare, None
        worker = self._lent(spare)
        try:
            yield worker
        finally:
            with suppress(OSError):  # then the next work will say so
                self.warm_up()
            worker.end()

    def _lent(self, spare: Worker | None, tries: int = 2) -> Worker:
        """One that has just answered, so that no work meets one that was idle for long and ends."""
        worker = spare or self._started()
        worker.give(packed(_imported, self._modules))
        try:
            worker.result(START)
            return worker
        except BaseException as error:
            worker.end()
            # A spare has ended, or the fork server did so in this moment, without a word.
            ended = isinstance(error, Gone) and (spare or not error.last_words.strip())
            if ended and tries > 0:
                return self._lent(None, tries - 1)
            if isinstance(error, Gone | RuntimeError):
                raise OSError(why_not(error)) from error
            raise

    def end(self) -> None:
        """End the worker that waits, if one does."""
        with self._free:
            worker, self._spare = self._spare, None
        if self._server is not None:
            self._server.end()
        if worker is not None:
            worker.end()

    def _started(self) -> Worker:
        spawn = partial(Spawned, environment=self._environment)
        worker = Worker(start=self._server.fork if self._server else spawn)
        worker.give(packed(_imported, self._modules))
        return worker


def _imported(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


def why_not(error: Gone | RuntimeError) -> str:
    """Why a worker cannot begin, as what is wrong with the machine."""
    if isinstance(error, Gone):
        said = error.last_words.strip().splitlines() or ["it said nothing"]
        return f"a new Python {cause_of_death(error.exit_code)}: {said[-1]}"
    return f"a new Python cannot begin: {str(error).splitlines()[0]}"
