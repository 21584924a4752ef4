"""Exercises of chapter 4: masks, where they act, and how to prove that they work."""

TITLE = "Masked softmax"
