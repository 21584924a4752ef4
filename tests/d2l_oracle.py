"""The book's own package, d2l 1.0.3, as an oracle.

It imports a dozen libraries that attention does not need; empty stand-ins take their place.
"""

import importlib
import importlib.util
import os
import sys
from types import ModuleType

UNUSED = [
    *["torchvision", "torchvision.transforms", "PIL", "PIL.Image", "pandas", "requests"],
    *["scipy", "scipy.spatial", "gym", "matplotlib_inline", "matplotlib_inline.backend_inline"],
    *["matplotlib", "matplotlib.pyplot", "IPython", "IPython.display"],
]


class StandIn(ModuleType):
    """A module in which every name exists and is empty."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def load_d2l():
    """``d2l.torch``; skips the test where it is not installed, except in CI."""
    if importlib.util.find_spec("d2l") is None:
        import pytest  # a benchmark on a bare machine has none, and asks first whether d2l is there

        message = "d2l is not installed: pip install --no-deps d2l==1.0.3"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    before = {name: sys.modules.get(name) for name in UNUSED}
    sys.modules.update({name: StandIn(name) for name in UNUSED})
    try:
        return importlib.import_module("d2l.torch")
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
