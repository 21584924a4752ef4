"""Exercises of chapter 3: scores, what the dot product leaves out, and 1/sqrt(d)."""

TITLE = "Scoring functions"
