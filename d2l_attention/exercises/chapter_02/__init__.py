"""Exercises of chapter 2: weights from similarity, and what they average."""

TITLE = "Attention pooling by similarity"
