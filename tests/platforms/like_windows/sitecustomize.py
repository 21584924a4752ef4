"""Python made to look like Windows, as far as Linux can: put this folder on PYTHONPATH.

Nothing here forks, has process groups or sessions, limits resources or sends a thread a signal;
processes of ``multiprocessing`` are spawned. Paths, encodings and open files stay Linux's.
"""

import getpass  # noqa: F401  these look once what the system has, and keep it
import importlib.abc
import multiprocessing.context
import os
import signal
import subprocess  # noqa: F401
import sys

try:
    import psutil  # noqa: F401  reads Linux's own files, and needs `resource` for that
except ImportError:
    pass

ABSENT = {
    os: ["fork", "forkpty", "setsid", "setpgid", "killpg", "getpgid", "getsid", "mkfifo"]
    + ["wait3", "wait4", "getloadavg"],
    signal: ["pthread_kill", "setitimer", "alarm"],
}
MODULES = {"resource", "pwd", "grp", "termios", "tty", "pty"}


class Refuses(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


os.environ.setdefault("USERNAME", "somebody")  # Windows sets it; torch 2.11 asks who this is
for module, names in ABSENT.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Refuses())
contexts = multiprocessing.context._concrete_contexts
for method in set(contexts) - {"spawn"}:
    del contexts[method]
multiprocessing.context._default_context._default_context = contexts["spawn"]
