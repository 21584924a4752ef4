"""Exercises of chapter 13: an attention for real models, their configurations, and their heads."""

TITLE = "Your attention in a real model"
