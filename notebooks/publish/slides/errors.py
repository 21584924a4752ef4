"""What can be wrong with a notebook or a machine that slides are to be made on."""


class SlidesError(Exception):
    """Says which notebook, and what to do about it."""
