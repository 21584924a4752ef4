"""Exercises of chapter 8: norms, masks and a cache, and how to prove that nothing leaks."""

TITLE = "The Transformer"
