"""Now ``classroom.grading``: this name is kept for older notebooks until version 0.3."""

from d2l_attention.classroom.grading import *  # noqa: F403
