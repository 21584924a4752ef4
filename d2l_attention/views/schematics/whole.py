"""The small picture of the whole machine, with the part of one chapter marked."""

from d2l_attention.views.schematics.drawing import MARKED, PART, SHAPE, Diagram

# What `here` may be, in the order of the chapters, and the boxes and frames that it marks.
PARTS = {
    "weighted sum": ("queries,\nkeys, values", "weighted\nsum"),
    "similarity": ("similarity",),
    "scores": ("scores",),
    "masked softmax": ("mask,\nsoftmax",),
    "decoder asks encoder": ("decoder asks\nencoder",),
    "heads": ("attention, in several heads",),
    "positions": ("vectors +\npositions",),
    "blocks": ("encoder:\nblocks", "decoder:\nblocks", "inside a block", "add & norm,\nnetwork"),
    "who sees whom": ("scores", "mask,\nsoftmax"),
    "cost": ("similarity", "scores", "mask,\nsoftmax", "weighted\nsum"),
    "today's parts": ("vectors +\npositions", "queries,\nkeys, values", "mask,\nsoftmax"),
    "where bugs hide": (
        *("vectors +\npositions", "scores", "mask,\nsoftmax", "add & norm,\nnetwork"),
    ),
    "real models": (
        *("sentence\nin", "vectors +\npositions", "encoder:\nblocks"),
        *("decoder asks\nencoder", "decoder:\nblocks", "sentence\nout"),
    ),
}


def whole(here: str | None = None) -> Diagram:
    """The whole machine in two rows. Above, from left to right: a sentence goes in; its words
    become vectors, to which positions are added; the encoder's blocks read them; the decoder asks
    the encoder; the decoder's blocks write; a sentence comes out. Below is the inside of a block,
    from left to right: queries, keys and values; the similarity of queries and keys; scores; mask
    and softmax; the weighted sum of the values. These five together are attention, and there are
    several of them side by side, the heads. Then add & norm and a network follow.
    """
    marked = PARTS[here] if here else ()
    d = Diagram(f"This chapter: {here}" if here else "All parts, from sentence to sentence", 9, 3.0)

    def row(y: float, *parts: tuple[str, float, float]) -> None:
        boxes = [
            d.box(text, x, y, width, 0.6, kind=MARKED if text in marked else PART, size=SHAPE)
            for text, x, width in parts
        ]
        for left, right in zip(boxes, boxes[1:], strict=False):
            d.arrow(left, right)

    for text, corners, copies in (
        ("inside a block", (0.1, 0.06, 8.9, 1.7), 1),
        ("attention, in several heads", (0.2, 0.15, 6.87, 1.24), 3),
    ):
        d.frame(text, corners, marked=text in marked, copies=copies)
    row(
        2.15,
        ("sentence\nin", 0.625, 1.05),
        ("vectors +\npositions", 2.12, 1.2),
        ("encoder:\nblocks", 3.64, 1.1),
        ("decoder asks\nencoder", 5.285, 1.45),
        ("decoder:\nblocks", 6.93, 1.1),
        ("sentence\nout", 8.375, 1.05),
    )
    row(
        0.55,
        ("queries,\nkeys, values", 0.98, 1.4),
        ("similarity", 2.52, 1.1),
        ("scores", 3.745, 0.75),
        ("mask,\nsoftmax", 4.895, 0.95),
        ("weighted\nsum", 6.22, 1.1),
        ("add & norm,\nnetwork", 8.05, 1.45),
    )
    return d
