"""Train a translation model: one loop for a laptop, a GPU or many machines.

From a shell, on one process and on two::

    python -m d2l_attention.training --data grammar --model bahdanau --steps 600 --out run
    accelerate launch --multi_gpu --num_processes 2 -m d2l_attention.training ...

``--multi_gpu`` is right without a GPU too: with ``--cpu`` Accelerate starts a single process.
"""

from importlib import import_module

_MODULES = {
    "LEARNING_RATES": "presets",
    "MODELS": "presets",
    "History": "checkpoints",
    "load_checkpoint": "checkpoints",
    "load_weights": "checkpoints",
    "model_card": "translators",
    "train": "loop",
    "translator": "translators",
}

__all__ = [
    "LEARNING_RATES",
    "MODELS",
    "History",
    "load_checkpoint",
    "load_weights",
    "model_card",
    "train",
    "translator",
]


def __getattr__(name: str):
    """Import a name when it is first asked for: ``accelerate`` takes a second to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
