"""Exercises of chapter 10: softmax in one pass, and attention shared by several processes."""

TITLE = "Attention at scale"
