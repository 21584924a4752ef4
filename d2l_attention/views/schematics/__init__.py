"""Who feeds what: each mechanism of the course as boxes and arrows, with shapes on the arrows.

Letters in the shapes: B batch, H heads, Q queries, K keys, D size of a query or key, V size of a
value; n the length of a sequence.
"""

from matplotlib.figure import Figure

from d2l_attention.views.schematics.pictures import PICTURES

DESCRIPTIONS = {name: " ".join(str(draw.__doc__).split()) for name, draw in PICTURES.items()}


def schematic(name: str, lit: str = "") -> Figure:
    """The picture of a mechanism, for example ``schematic("multi-head")``.

    A notebook shows it where the call is the last line of a cell. ``DESCRIPTIONS[name]`` says in
    words what is on it. With ``lit``, the name of a box or frame, it is a small guide with this one
    word, in which the part is dark.

    Errors: ``ValueError`` for an unknown name; it lists those that there are.
    """
    if name not in PICTURES:
        known = ", ".join(repr(known) for known in PICTURES)
        raise ValueError(f"no schematic is called {name!r}; there are {known}")
    diagram = PICTURES[name]()
    if lit:
        diagram.shrink(lit)
    else:
        diagram.add_legend()
    return diagram.figure
