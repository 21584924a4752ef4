"""Now ``experiments.spelling``: this name is kept for older notebooks until version 0.3."""

from d2l_attention.experiments.spelling import *  # noqa: F403
