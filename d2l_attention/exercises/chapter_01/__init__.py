"""Exercises of chapter 1: from scores to weights, from weights to an answer, and back."""

TITLE = "Queries, keys and values"
