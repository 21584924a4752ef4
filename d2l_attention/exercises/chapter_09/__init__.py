"""Exercises of chapter 9: what a form saves, whom it shows, and whether it keeps the order."""

TITLE = "Attention in all its forms"
