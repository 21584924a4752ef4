"""The mechanism: scores, masks, weights, averages, heads, positions (chapters 1 to 4, 6, 7)."""
