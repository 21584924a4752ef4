"""Exercises of chapter 6: heads cut, attended in, merged, and how to prove it."""

TITLE = "Multi-head attention"
