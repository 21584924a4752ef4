"""Exercises of chapter 7: where a token stands, added, turned in, or taken from the scores."""

TITLE = "Self-attention and positional encoding"
