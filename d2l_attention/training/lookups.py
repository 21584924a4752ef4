"""Now ``experiments.lookups``: this name is kept for older notebooks until version 0.3."""

from d2l_attention.experiments.lookups import *  # noqa: F403
