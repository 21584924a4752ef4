"""What is built from attention: translators with a GRU, and Transformers (chapters 5, 8)."""
