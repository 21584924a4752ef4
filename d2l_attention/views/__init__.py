"""What the notebooks show: plots, source code, and views that answer the hand.

``AttentionView`` is for weights, ``HeadsView`` for those of all heads of all layers,
``watch`` for a function's run, line by line, ``compare`` for two of them, ``look_inside`` for a
model from the outside in, ``TranslatorView`` for a translator that one can cut, ``schematic`` for
who feeds what, ``Player`` for a computation in a few drawn states, ``explore`` for everything else.
"""

from importlib import import_module

_MODULES = {
    "AttentionView": "attention_view",
    "Explore": "explore_view",
    "HeadsView": "heads_view",
    "LookInside": "inside.inside_view",
    "Player": "player",
    "State": "player",
    "TranslatorView": "translator.translator_view",
    "Watch": "watch_view",
    "compare": "watch_view",
    "explore": "explore_view",
    "grid": "player",
    "look_inside": "inside.inside_view",
    "schematic": "schematics",
    "watch": "watch_view",
}

__all__ = list(_MODULES)


def __getattr__(name: str):
    """Import a view when it is first asked for: Jupyter's libraries take a second to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
