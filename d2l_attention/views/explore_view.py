"""Controls above one matplotlib figure that is drawn again when they move."""

import asyncio
import html
import inspect
import os
from collections.abc import Callable

import ipywidgets as widgets
import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, NullLocator
from PIL.Image import Image
from traitlets import Unicode

from d2l_attention.views import frames
from d2l_attention.views.palette import CUT
from d2l_attention.views.picture import DPI, SHARP, add_picture, pixels, png, with_palette, written

# A change that already waits is read sooner than this, so one drawing answers the whole burst.
# A hand is slower, so the picture also follows while a slider moves.
PAUSE_SECONDS = 0.005
# While the picture moves it has only the display's pixels; a hand that rests gets the sharp one.
REST_SECONDS = 0.3
FEW_TICKS = 4  # ticks are most of what there is to draw


class _Picture(widgets.Image):
    """An image whose tooltip describes it, also to screen readers: it has no alt text."""

    # ipywidgets' browser half shows a tooltip only where the description is empty, and fails
    # where there is none at all, as for its own images.
    description = Unicode("").tag(sync=True)


class Explore(widgets.VBox):
    """What ``explore`` returns: ``controls`` (name -> widget), ``image`` and ``message``."""

    def __init__(
        self,
        draw: Callable[..., object],
        controls: dict[str, widgets.ValueWidget],
        figsize: tuple[float, float],
        alt: str,
    ):
        self._draw, self.controls, self._alt = draw, controls, alt
        self._figure = Figure(figsize=figsize, dpi=DPI, layout="constrained")
        self._boxes: list = []
        self._title_y: float | None = None
        self._pending: asyncio.TimerHandle | None = None
        width = f"{figsize[0] * DPI:.0f}px"
        self.image = _Picture(
            format="png", tooltip=alt, layout=widgets.Layout(width=width, max_width="100%")
        )
        self.message = widgets.HTML()
        row = widgets.HBox(
            list(controls.values()),
            layout=widgets.Layout(flex_flow="row wrap", grid_gap="4px 16px"),
        )
        super().__init__([row, self.image, self.message])
        self.redraw()
        for control in controls.values():
            control.observe(self._changed, "value")

    def redraw(self) -> None:
        """Draw the controls' present values at once; an exception becomes the message."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        self._show(SHARP)

    def _follow(self) -> None:
        """Draw quickly; sharply once no change has come for a while."""
        self._show(1)
        self._later(REST_SECONDS, self.redraw)

    def _show(self, scale: float) -> None:
        try:
            picture = self._render(self._values(), scale)
        except Exception as error:
            # The last good picture stays: the message says why it is not the present one.
            if not self.image.value:
                self.image.value = png(Figure(self._figure.get_size_inches(), layout="none"))
            text = html.escape(f"{type(error).__name__}: {error}")
            style = f"white-space: pre-wrap; color: var(--jp-error-color0, {CUT})"
            self.message.value = f'<pre role="alert" style="{style}">{text}</pre>'
        else:
            self.message.value = ""
            if scale == SHARP:
                self.image.value = written(with_palette(picture), optimize=True)
            else:
                self.image.value = written(picture, compress_level=1)

    def _render(self, values: dict, scale: float) -> Image:
        figure = self._figure
        for ax in figure.axes:
            ax.remove()  # clearing the figure would first clear each of them, which takes longer
        figure.clear()
        settings = {
            "font.size": max(12, matplotlib.rcParams["font.size"]),
            "axes.titley": self._title_y,
        }
        with matplotlib.rc_context(settings):
            self._draw(figure, **values)
            for ax in figure.axes:
                _thin_ticks(ax)
            # Axes and titles stay where the first drawing put them: finding their place takes a
            # third of the time, and curves are hard to compare in a frame that moves.
            if len(figure.axes) == len(self._boxes):
                for ax, box in zip(figure.axes, self._boxes, strict=True):
                    ax.set_position(box)
                return pixels(figure, scale=scale)
            figure.set_layout_engine("constrained")
            picture = pixels(figure, scale=scale)
        self._boxes = [ax.get_position(original=True) for ax in figure.axes]
        on_top = all(ax.title.get_position()[1] == 1 for ax in figure.axes)
        self._title_y = 1 if on_top else None  # None: above whatever else is on top
        figure.set_layout_engine("none")
        return picture

    def _frame(self, values: dict) -> Image:
        return self._render(values, frames.SCALE)

    def _changed(self, _change) -> None:
        """Draw once no further change waits; without an event loop, at once."""
        try:
            self._later(PAUSE_SECONDS, self._follow)
        except RuntimeError:
            self.redraw()

    def _later(self, seconds: float, draw: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if self._pending is not None:
            self._pending.cancel()
        self._pending = loop.call_later(seconds, draw)

    def _values(self) -> dict:
        return {name: control.value for name, control in self.controls.items()}

    def __repr__(self) -> str:
        # A choice shows its label: the value behind it may be a function, with an address.
        shown = {
            name: getattr(control, "label", repr(control.value))
            for name, control in self.controls.items()
        }
        return f"explore({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def _repr_mimebundle_(self, **kwargs):
        if self._pending is not None:
            self.redraw()
        bundle = super()._repr_mimebundle_(**kwargs)
        text = f"{self!r}: {self._alt}"
        bundle, metadata = add_picture(bundle, self.image.value, text, self._alt)
        # Slides have no kernel that could draw: they take every picture along.
        if os.environ.get(frames.VARIABLE):
            if drawn := frames.frames(self.controls, self._frame):
                bundle[frames.MIME] = drawn
        return bundle, metadata


def explore(
    draw: Callable[..., object],
    *,
    figsize: tuple[float, float] = (9, 4),
    alt: str = "a figure that follows the controls above it",
    **controls,
) -> Explore:
    """Show ``draw(fig, **values)`` under controls, drawn again at each change of one.

    ``controls`` are abbreviated as for ``ipywidgets.interactive``: a tuple (min, max) or
    (min, max, step) is a slider, a list or dict a row of buttons, a bool a box to tick, a str
    a text field; a ready widget is taken as it is. A default in ``draw``'s signature is the
    value at the start. ``draw`` gets the same figure each time, cleared.

    Errors: ``TypeError`` where ``draw`` is not callable, lacks or misses an argument, or where
    a control is no abbreviation that ipywidgets knows.
    """
    if not callable(draw):
        raise TypeError(f"draw must be a function (fig, **values), got {type(draw).__name__}")
    signature = inspect.signature(draw)
    try:
        signature.bind(None, **controls)
    except TypeError as error:
        raise TypeError(
            f"draw{signature} must take fig and the controls {', '.join(controls)}: {error}"
        ) from None
    made = {}
    for name, value in controls.items():
        default = getattr(signature.parameters.get(name), "default", inspect.Parameter.empty)
        made[name] = _control(name, value, default)
    return Explore(draw, made, figsize, alt)


def _control(name: str, value, default) -> widgets.ValueWidget:
    control = widgets.interactive.widget_from_abbrev(value, default)
    if not isinstance(control, widgets.DOMWidget):
        raise TypeError(
            f"{name} must be (min, max), (min, max, step), a list, a dict, a bool, a str or a "
            f"widget, got {value!r}"
        )
    if isinstance(control, widgets.Dropdown) and control is not value:
        # Not a menu: JupyterLab keeps the arrow keys for itself, a button takes the space bar.
        control = widgets.ToggleButtons(options=control.options, value=control.value)
        control.style.button_width = "auto"
    if not control.description:
        control.description = name.replace("_", " ")
    control.style.description_width = "initial"
    return control


def _thin_ticks(ax: Axes) -> None:
    """Few ticks where ``draw`` did not choose them."""
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(locator := axis.get_major_locator(), AutoLocator):
            locator.set_params(nbins=FEW_TICKS)
        axis.set_minor_locator(NullLocator())
