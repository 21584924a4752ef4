"""Exercises of chapter 11: caches, rules, sinks, the delta rule, and choices that must not leak."""

TITLE = "Attention in today's models"
