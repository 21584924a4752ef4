"""Slides for the lecture room: ``python -m d2l_attention.slides`` writes one HTML file a chapter.

A deck is self-contained: pictures, equations, views and speaker notes work without a network and
without a kernel. It is made from the executed notebook, and nothing in it is written twice.
"""

from d2l_attention.slides.deck import export
from d2l_attention.slides.errors import SlidesError

__all__ = ["SlidesError", "export"]
