"""Exercises of chapter 5: a decoder that looks back, how it is trained and how it is judged."""

TITLE = "Bahdanau attention"
