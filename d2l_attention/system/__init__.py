"""Processes with a deadline and an end; files that are written whole or not at all."""
