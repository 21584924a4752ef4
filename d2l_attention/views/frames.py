"""All pictures of an ``explore`` view in advance, for a page that has sliders but no kernel.

The slides' exporter runs a notebook with the environment variable ``VARIABLE`` set; the views'
mime bundles then carry their frames under ``MIME``.
"""

import io
from base64 import b64encode
from collections.abc import Callable
from itertools import product
from math import floor, prod

import ipywidgets as widgets
from PIL import Image

VARIABLE = "D2L_ATTENTION_FRAMES"
MIME = "application/vnd.d2l-attention.frames+json"
MOST_FRAMES, MOST_BYTES = 125, 3_000_000
FEWEST_VALUES = 4  # a slider with fewer stops than this says nothing about what moves
NUM_COLOURS = 48
COLUMNS, ROWS = 12, 6
SCALE = 1.5  # pixels for one of the display: a slide on a projector, 1920 wide, has as many


class Mosaic:
    """Pictures of one size as tiles, each different tile kept once.

    A control mostly changes a part of a figure: 150 pictures need the bytes of fifteen.
    """

    def __init__(self):
        self.size: tuple[int, int] = (0, 0)
        self.tiles: list[str] = []
        self.num_bytes = 0
        self._places: dict[bytes, int] = {}

    def add(self, picture: Image.Image) -> list[int]:
        """Which tiles make up the RGB picture, row by row."""
        self.size = picture.size
        return [self._place(picture.crop(box)) for box in boxes(*picture.size)]

    def _place(self, tile: Image.Image) -> int:
        pixels = tile.tobytes()
        if pixels not in self._places:
            self._places[pixels] = len(self.tiles)
            file = io.BytesIO()
            # Few colours make a third of the bytes, and no eye sees it.
            tile.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
            self.num_bytes += file.tell()
            self.tiles.append(b64encode(file.getvalue()).decode("ascii"))
        return self._places[pixels]


def boxes(width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of each tile; frames.js counts in the same way."""
    xs = [i * width // COLUMNS for i in range(COLUMNS + 1)]
    ys = [i * height // ROWS for i in range(ROWS + 1)]
    return [(xs[i], ys[j], xs[i + 1], ys[j + 1]) for j, i in product(range(ROWS), range(COLUMNS))]


def frames(
    controls: dict[str, widgets.ValueWidget],
    render: Callable[[dict], Image.Image],
    most_frames: int = MOST_FRAMES,
    most_bytes: int = MOST_BYTES,
) -> dict | None:
    """What the controls show, and a picture for each combination of their values, the last fastest.

    ``render`` makes the RGB picture of given values. Sliders are thinned until the frames are few
    and small enough; ``None`` where that leaves one with too few values, or where a control is
    neither slider, choice nor box.
    """
    described = [_describe(control) for control in controls.values()]
    if None in described:
        return None
    while (counts := thinned(described, most_frames)) is not None:
        kept = [
            evenly(len(control["values"]), count, control["start"])
            for control, count in zip(described, counts, strict=True)
        ]
        mosaic, drawn = Mosaic(), []
        for chosen in product(*kept):
            values = [control["values"][i] for control, i in zip(described, chosen, strict=True)]
            drawn.append(mosaic.add(render(dict(zip(controls, values, strict=True)))))
            if mosaic.num_bytes > most_bytes:
                break
        else:
            names = [control.description for control in controls.values()]
            shown = [_kept(*what) for what in zip(names, described, kept, strict=True)]
            grid = {"size": mosaic.size, "columns": COLUMNS, "rows": ROWS}
            return {"controls": shown, "frames": drawn, "tiles": mosaic.tiles} | grid
        # Too large: what has been drawn tells how many there may be.
        most_frames = min(len(drawn), prod(counts) - 1)
    return None


def _kept(name: str, control: dict, kept: list[int]) -> dict:
    """What the page is to know of a control."""
    shown = [control["shown"][i] for i in kept]
    start = kept.index(control["start"])
    return {"name": name, "kind": control["kind"], "shown": shown, "start": start}


def thinned(described: list[dict], most: int) -> list[int] | None:
    """How many values each control keeps so that there are at most ``most`` combinations."""
    counts = [len(control["values"]) for control in described]
    fewest = [
        min(FEWEST_VALUES, count) if control["kind"] == "slider" else count
        for control, count in zip(described, counts, strict=True)
    ]
    while prod(counts) > most:
        spare = [i for i, count in enumerate(counts) if count > fewest[i]]
        if not spare:
            return None
        counts[max(spare, key=lambda i: counts[i])] -= 1
    return counts


def evenly(count: int, kept: int, start: int) -> list[int]:
    """``kept`` of the indices 0 to ``count`` - 1, both ends and ``start`` among them."""
    if kept >= count:
        return list(range(count))
    indices = [round(i * (count - 1) / (kept - 1)) for i in range(kept)]
    # The ends stay where they are, unless the start is an end.
    inner = range(1, kept - 1) if 0 < start < count - 1 else range(kept)
    indices[min(inner, key=lambda i: abs(indices[i] - start))] = start
    return indices


def _describe(control: widgets.ValueWidget) -> dict | None:
    """Kind, values, how they are written, and which of them is set; None for another kind."""
    if isinstance(control, widgets.Checkbox):
        return _values("box", [False, True], ["off", "on"], int(control.value))
    if isinstance(control, widgets.SelectionSlider | widgets.ToggleButtons | widgets.Dropdown):
        kind = "slider" if isinstance(control, widgets.SelectionSlider) else "choice"
        if control.index is None:  # nothing is chosen yet
            return None
        labels = [str(label) for label in control._options_labels]
        return _values(kind, list(control._options_values), labels, control.index)
    if isinstance(control, widgets.IntSlider):
        values = list(range(control.min, control.max + 1, control.step))
    elif isinstance(control, widgets.FloatSlider | widgets.FloatLogSlider) and control.step:
        stops = floor((control.max - control.min) / control.step + 1e-9) + 1  # none beyond the end
        values = [control.min + i * control.step for i in range(stops)]
        if isinstance(control, widgets.FloatLogSlider):
            values = [control.base**value for value in values]
    else:
        return None
    # The start is shown as it was set, not as the nearest stop.
    start = min(range(len(values)), key=lambda i: abs(values[i] - control.value))
    values[start] = control.value
    return _values("slider", values, [_written(control, value) for value in values], start)


def _values(kind: str, values: list, shown: list[str], start: int) -> dict:
    return {"kind": kind, "values": values, "shown": shown, "start": start}


def _written(control, value: float) -> str:
    try:
        return format(value, control.readout_format)
    except ValueError:  # the browser's formats are a few more than Python's
        return f"{value:g}"
