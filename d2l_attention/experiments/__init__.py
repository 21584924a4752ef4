"""The small tasks that single chapters train on: spelling, look-ups, sequences that repeat."""
