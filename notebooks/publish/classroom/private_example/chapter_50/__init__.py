"""An exercise of an instructor's own: the example of a private folder."""

TITLE = "A quiz of our own"
