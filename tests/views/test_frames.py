"""The pictures of an ``explore`` view in advance: which values are kept, and what is drawn."""

import ipywidgets as widgets
import pytest
from PIL import Image

from d2l_attention.views import explore
from d2l_attention.views.frames import MIME, VARIABLE, Mosaic, boxes, evenly, frames, thinned


def slider(count, start=0):
    return {"kind": "slider", "values": list(range(count)), "start": start}


def choice(count):
    return {"kind": "choice", "values": list(range(count)), "start": 0}


@pytest.mark.parametrize(
    ("described", "most", "expected"),
    [
        ([slider(12), choice(2)], 250, [12, 2]),  # few enough as they are
        ([slider(61), slider(61), slider(351)], 250, [6, 6, 6]),
        ([choice(5), slider(126)], 250, [5, 50]),  # a choice keeps all that can be chosen
        ([slider(3), slider(100)], 30, [3, 10]),  # a slider that has only 3 values keeps them
        ([slider(61), slider(61), slider(61)], 63, None),  # 4 x 4 x 4 do not fit
        ([choice(26)], 25, None),
    ],
)
def test_sliders_are_thinned_evenly_and_choices_never(described, most, expected):
    assert thinned(described, most) == expected


@pytest.mark.parametrize(
    ("count", "kept", "start", "expected"),
    [
        (5, 5, 2, [0, 1, 2, 3, 4]),
        (11, 3, 5, [0, 5, 10]),
        (11, 3, 4, [0, 4, 10]),
        (101, 5, 0, [0, 25, 50, 75, 100]),
        (101, 5, 100, [0, 25, 50, 75, 100]),
        (101, 5, 99, [0, 25, 50, 99, 100]),
        (101, 5, 1, [0, 1, 50, 75, 100]),
    ],
)
def test_kept_values_have_both_ends_and_the_start(count, kept, start, expected):
    assert evenly(count, kept, start) == expected


def test_tiles_cover_a_picture_and_equal_ones_are_kept_once():
    covered = Image.new("1", (101, 53))
    for box in boxes(101, 53):
        assert covered.crop(box).getextrema() == (0, 0)  # no tile lies on another
        covered.paste(1, box)
    assert covered.getextrema() == (1, 1)

    def dotted(dot):
        picture = Image.new("RGB", (120, 60), "white")
        picture.putpixel(dot, (0, 0, 0))
        return picture

    mosaic = Mosaic()
    assert mosaic.add(dotted((0, 0))) == [0] + [1] * 71
    assert mosaic.add(dotted((119, 59))) == [1] * 71 + [2]
    assert mosaic.add(dotted((0, 0))) == [0] + [1] * 71
    assert len(mosaic.tiles) == 3


def blank(colour="white"):
    return Image.new("RGB", (24, 12), colour)


def explored(draw, **controls):
    return explore(draw, figsize=(1.2, 0.6), **controls)


def draw_dot(fig, x=2, kind="a", on=False):
    fig.text(0.1 * x, 0.5, kind if on else "-")


def test_an_explore_view_draws_every_combination_and_says_what_its_controls_show():
    view = explored(draw_dot, x=(0, 6), kind=["a", "b"], on=True)
    drawn = frames(view.controls, view._frame)
    assert [(c["name"], c["kind"], c["start"]) for c in drawn["controls"]] == [
        ("x", "slider", 2),
        ("kind", "choice", 0),
        ("on", "box", 1),
    ]
    assert drawn["controls"][0]["shown"] == [str(i) for i in range(7)]
    assert drawn["size"] == (180, 90)  # sharp on a projector
    assert len(drawn["frames"]) == 7 * 2 * 2
    assert drawn["frames"][0] == drawn["frames"][2]  # x = 0: off, whatever the letter
    assert drawn["frames"][1] != drawn["frames"][3]  # on: the letter shows


def test_values_are_written_as_the_slider_writes_them_and_the_start_is_exact():
    log = widgets.FloatLogSlider(value=1.5, min=-1, max=1, step=0.5, readout_format=".2f")
    power = widgets.SelectionSlider(options=[2, 4, 8], value=4)
    seen = []
    drawn = frames({"x": log, "d": power}, lambda values: seen.append(values) or blank())
    assert drawn["controls"][0]["shown"] == ["0.10", "0.32", "1.50", "3.16", "10.00"]
    assert drawn["controls"][1] == {
        "name": "",
        "kind": "slider",
        "shown": ["2", "4", "8"],
        "start": 1,
    }
    assert {"x": 1.5, "d": 4} in seen


def test_pictures_that_take_too_many_bytes_are_fewer_and_none_where_that_says_nothing():
    def render(values):
        return blank((values["x"], 0, 0))

    x = {"x": widgets.IntSlider(value=0, min=0, max=99)}
    all_of_them = frames(x, render)
    size = sum(len(tile) * 3 // 4 for tile in all_of_them["tiles"])
    assert len(all_of_them["frames"]) == 100
    assert 40 <= len(frames(x, render, most_bytes=size // 2)["frames"]) <= 50
    assert frames(x, render, most_bytes=size // 50) is None


def test_text_that_a_reader_types_has_no_frames():
    assert frames({"word": widgets.Text()}, lambda values: blank()) is None


def test_explore_takes_frames_along_only_when_asked(monkeypatch):
    view = explored(draw_dot, x=(0, 3), kind=["a"], on=True)
    before = view._repr_mimebundle_()
    monkeypatch.setenv(VARIABLE, "1")
    bundle, metadata = view._repr_mimebundle_()
    assert len(bundle.pop(MIME)["frames"]) == 4 * 2
    assert (bundle, metadata) == before


def test_no_value_lies_beyond_the_end_and_odd_sliders_draw_too():
    drawn = []
    sliders = {
        "p": widgets.FloatSlider(min=0, max=1, step=0.6, value=0, readout_format=".3s"),
        "unset": widgets.Dropdown(options=["a", "b"], value="a"),
    }
    made = frames(sliders, lambda values: drawn.append(values["p"]) or blank())
    assert sorted(set(drawn)) == [0.0, 0.6]
    assert made["controls"][0]["shown"] == ["0", "0.6"]
    sliders["unset"].index = None
    assert frames(sliders, lambda values: blank()) is None
