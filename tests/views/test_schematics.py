import re
from itertools import combinations, pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.transforms import Bbox

from d2l_attention import views
from d2l_attention.views.palette import COLOURS, INK
from d2l_attention.views.schematics import DESCRIPTIONS, PICTURES, schematic
from d2l_attention.views.schematics.drawing import DPI, Box, Diagram

# S and T: tokens of source and target, in chapter 8; in 11, L and R are the sizes of a latent
# and of a rotary key, and d that of one head's query.
LETTERS = set("BHQKDVnSTLRd")
NARROW = 0.02  # inches: what rounding may take


def drawn(diagram: Diagram) -> Diagram:
    """With its legend, and drawn once, so that texts have a place."""
    diagram.add_legend()
    FigureCanvasAgg(diagram.figure).draw()
    return diagram


def texts(diagram: Diagram) -> list:
    return [*diagram.ax.texts, *diagram.ax.get_legend().get_texts()]


def extent(text) -> Bbox:
    """Where a text is, in inches, a little smaller than it is."""
    bounds = text.get_window_extent()
    return Bbox(bounds.get_points() / DPI).padded(-NARROW)


def apart(a: Bbox, b: Bbox) -> bool:
    return not a.overlaps(b)


def around(piece) -> Bbox:
    (x0, y0), (x1, y1) = piece
    return Bbox([[min(x0, x1), min(y0, y1)], [max(x0, x1), max(y0, y1)]])


def on_border(box: Box, point) -> bool:
    x, y = point
    inside = box.left <= x <= box.right and box.bottom <= y <= box.top
    return inside and (x in (box.left, box.right) or y in (box.bottom, box.top))


def on_line(line, point) -> bool:
    return any(around(piece).contains(*point) for piece in pairwise(line))


def find_faults(diagram: Diagram) -> list[str]:
    """What makes a picture hard to read, or untrue; nothing where it is as it should be."""
    boxes, faults = [box for box, _ in diagram.boxes], []
    places = {text: extent(text) for text in texts(diagram)}
    inside = {text: box for box, text in diagram.boxes}
    width, height = diagram.figure.get_size_inches()
    names = {text: repr(text.get_text()) for text in places}

    for text, place in places.items():
        if text.get_fontsize() < 12:
            faults.append(f"{names[text]} is small")
        if min(place.min) < 0 or place.x1 > width or place.y1 > height:
            faults.append(f"{names[text]} leaves the figure")
        if text in inside:
            box = Bbox.from_extents(*inside[text])
            if not all(box.contains(*corner) for corner in (place.min, place.max)):
                faults.append(f"{names[text]} leaves its box")
        for box in boxes:
            if box != inside.get(text) and not apart(place, Bbox.from_extents(*box)):
                faults.append(f"{names[text]} touches a box")
        for line in diagram.arrows:
            if not all(apart(place, around(piece)) for piece in pairwise(line)):
                faults.append(f"{names[text]} is crossed by an arrow")
        for shape in re.findall(r"\(([^()]*,[^()]*)\)", text.get_text()):
            if not set(re.sub(r"[\s,\d/+]", "", shape)) <= LETTERS:
                faults.append(f"({shape}) has a letter that the course does not use")
    for one, other in combinations(places, 2):
        if not apart(places[one], places[other]):
            faults.append(f"{names[one]} and {names[other]} overlap")
    for one, other in combinations(boxes, 2):
        if not apart(Bbox.from_extents(*one), Bbox.from_extents(*other)):
            faults.append("two boxes overlap")

    ends = [end for line in diagram.arrows for end in (line[0], line[-1])]
    for box, text in diagram.boxes:
        if not any(on_border(box, end) for end in ends):
            faults.append(f"{names[text]} has no arrow")
    for i, line in enumerate(diagram.arrows):
        others = diagram.arrows[:i] + diagram.arrows[i + 1 :]
        branches = any(on_line(other, line[0]) for other in others)
        if not branches and not any(on_border(box, line[0]) for box in boxes):
            faults.append(f"an arrow begins nowhere, at {line[0]}")
        if not any(on_border(box, line[-1]) for box in boxes):
            faults.append(f"an arrow ends nowhere, at {line[-1]}")
        for piece in pairwise(line):
            if (piece[0][0] != piece[1][0]) and (piece[0][1] != piece[1][1]):
                faults.append(f"an arrow is oblique: {piece}")
            for box in boxes:
                inner = Bbox.from_extents(*box).padded(-NARROW)
                if not apart(inner, around(piece)):
                    faults.append(f"an arrow runs through a box: {piece}")
    return faults


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_can_be_read(name):
    assert find_faults(drawn(PICTURES[name]())) == []


@pytest.mark.parametrize("name", PICTURES)
def test_letters_have_colours_that_the_dark_theme_knows(name):
    # Black is what an SVG does not write down, so no theme can change it.
    known = {light.lower() for role, (light, _) in COLOURS.items() if role != "on-weak"}
    assert {to_hex(text.get_color()) for text in texts(drawn(PICTURES[name]()))} <= known


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_is_described(name):
    """Every shape on the picture is in the words as well: 'D/2H' and '(B, Q, D)'."""
    figure, words = schematic(name), DESCRIPTIONS[name]
    assert isinstance(figure, Figure)
    assert "*" not in words and "  " not in words  # it goes into '*Figure: ...*' as it is
    for text in figure.axes[0].texts:
        for shape in re.findall(r"\([BQKn][^()]*,[^()]*\)", text.get_text()):
            assert shape in words, shape


def test_broken_pictures_are_noticed():
    d = Diagram("Too long a title for so small a figure", 3.5, 3.0)
    left = d.box("far too long for its box", 0.5, 2.0, 0.6)
    right = d.box("right", 3.0, 2.0, 0.8)
    low = d.box("low", 1.75, 2.0, 0.4)
    d.box("on low", 1.75, 2.1, 0.7)
    d.arrow(left, right, "(B, X, D)")
    d.arrow(d.branch(1.0, 0.5), low)
    d.boxes[1][1].set_fontsize(8)  # the text of 'right'
    faults = "\n".join(find_faults(drawn(d)))
    for fault in (
        "'Too long a title for so small a figure' leaves the figure",
        "'far too long for its box' leaves its box",
        "'right' is small",
        "'on low' has no arrow",
        "(B, X, D) has a letter",
        "'low' is crossed by an arrow",
        "an arrow runs through a box",
        "an arrow begins nowhere, at (1.0, 0.5)",
        "'low' and 'on low' overlap",
        "two boxes overlap",
    ):
        assert fault in faults, fault


def test_an_arrow_is_straight_or_goes_right_and_then_up_or_down_or_the_other_way():
    d = Diagram("Arrows", 8.0, 4.0)
    start, beside = d.box("a", 1.0, 3.0, 1.0, 0.5), d.box("b", 4.0, 2.75, 1.0, 2.0)
    below, last = d.box("c", 1.25, 1.0, 1.0, 0.5), d.box("d", 6.0, 3.0, 1.0, 0.5)
    d.arrow(start, beside)
    d.arrow(start, beside, y=2.875)
    d.arrow(below, start, x=1.125)
    d.arrow(below, last)
    d.arrow(last, below)
    assert d.arrows == [
        [(1.5, 3.0), (3.5, 3.0)],
        [(1.5, 2.875), (3.5, 2.875)],
        [(1.125, 1.25), (1.125, 2.75)],
        [(1.75, 1.0), (6.0, 1.0), (6.0, 2.75)],
        [(6.0, 2.75), (6.0, 1.0), (1.75, 1.0)],
    ]


def test_unknown_name():
    with pytest.raises(
        ValueError, match="no schematic is called 'multihed'; there are .*'multi-head'"
    ):
        schematic("multihed")
    assert views.schematic is schematic


def test_a_small_guide_has_one_word_and_darkens_the_parts_of_one_name():
    figure = schematic("Transformer", lit="add & norm")
    (ax,) = figure.axes
    dark = [patch for patch in ax.patches if patch.get_facecolor()[:3] == to_rgb(INK)]
    boxes = [each for each in dark if each.get_fill() and not isinstance(each, FancyArrowPatch)]
    assert not ax.texts and not ax.get_legend() and len(boxes) == 5
    assert ax.get_title() == "add & norm"
    assert figure.get_figheight() * DPI < 131
    with pytest.raises(ValueError, match="nothing is called 'norm'; there are .*'add & norm'"):
        schematic("Transformer", lit="norm")


def test_a_small_guide_frames_a_block():
    frames = [
        [patch for patch in schematic("Transformer", lit=lit).axes[0].patches if patch.get_lw() > 2]
        for lit in ("encoder block, twice", "decoder block, twice")
    ]
    assert [len(each) for each in frames] == [1, 1]
    assert frames[0][0].get_y() > frames[1][0].get_y()
