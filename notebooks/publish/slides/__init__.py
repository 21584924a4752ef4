"""Slides for the lecture room: ``python -m notebooks.publish.slides`` writes one file a chapter.

A deck is self-contained: pictures, equations, views and speaker notes work without a network and
without a kernel. It is made from the executed notebook, and nothing in it is written twice.
"""
