"""How a picture looks, and which looks nobody could draw."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from attnviz.errors import AttnvizError, unknown
from attnviz.renderers.colors import DEFAULT_PALETTE, DEFAULT_THEME, PALETTES, theme

SLIDES, ROUNDED = (16 / 9, 4 / 3), 1e-3  # how much wider than high a page of slides is
INCHES = (2.5, 40.0)
SMALLEST_SLIDE = 5.0  # inches
DPI = (30, 1200)
SECONDS = (0.1, 60.0)
LABEL_ON_A_SLIDE = 18.0  # points, on a page that is 13.33 inches wide
TEXT_SIZES = {"small": 14.0, "medium": LABEL_ON_A_SLIDE, "large": 24.0}  # of such labels
POINTS = (8.0, 72.0)
LARGEST_SIDE = 20_000  # pixels; a picture of 20,000 × 20,000 takes 1.6 GB to draw


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture looks."""

    theme: str = DEFAULT_THEME
    palette: str = DEFAULT_PALETTE
    size: tuple[float, float] | None = None  # in inches; None: as wide as its panels want
    dpi: int | None = None  # pixels to an inch; None: as many as the format wants
    seconds: float = 5.0  # that an animation shows each step
    transparent: bool = False
    numbers: bool | None = None  # in the cells; None: while they fit
    text_size: float = 1.0  # times as large as letters of a slide are
    footnote: bool | None = None  # the faint line of settings; None: not on pages of slides

    def __post_init__(self) -> None:
        theme(self.theme)
        _refuse_unknown_palette(self.palette)
        _refuse_odd_size(self.size)
        _refuse_odd_dpi(self.dpi, self.size)
        _refuse_odd_seconds(self.seconds)
        _refuse_odd_text(self.text_size)

    @property
    def has_footnote(self) -> bool:
        """Whether the settings are written below a picture: a slide has them in its notes."""
        if self.footnote is not None or self.size is None:
            return self.footnote is not False
        wide, high = self.size
        return not any(abs(wide / high - shape) < ROUNDED for shape in SLIDES)


def _refuse_unknown_palette(name: str) -> None:
    if name not in PALETTES:
        raise unknown("colour map", name, PALETTES)


def _refuse_odd_size(size: tuple[float, float] | None) -> None:
    if size and not all(INCHES[0] <= side <= INCHES[1] for side in size):
        raise AttnvizError(
            f"--size is {size[0]:g} by {size[1]:g} inches, and each must be from {INCHES[0]:g} to "
            f"{INCHES[1]:g}",
            "try --size 8x5",
        )


def refuse_small_slides(size: tuple[float, float] | None) -> None:
    """Refuse slides without room for a title, a picture and a caption."""
    if size and min(size) < SMALLEST_SLIDE:
        raise AttnvizError(
            f"slides of {size[0]:g} by {size[1]:g} inches have no room for a picture",
            "try --size 16:9 or 4:3",
        )


def _refuse_odd_dpi(dpi: int | None, size: tuple[float, float] | None) -> None:
    if dpi is None:
        return
    if not DPI[0] <= dpi <= DPI[1]:
        nearest = min(max(dpi, DPI[0]), DPI[1])
        raise AttnvizError(
            f"--dpi is {dpi}, and must be from {DPI[0]} to {DPI[1]}", f"try --dpi {nearest}"
        )
    if size and max(size) * dpi > LARGEST_SIDE:
        raise AttnvizError(
            f"{max(size):g} inches at {dpi} dpi are {max(size) * dpi:,.0f} pixels, and at most "
            f"{LARGEST_SIDE:,} can be drawn",
            f"try --dpi {int(LARGEST_SIDE / max(size))}",
        )


def _refuse_odd_seconds(seconds: float) -> None:
    """Refuse a pace that nobody can follow."""
    if not SECONDS[0] <= seconds <= SECONDS[1]:
        nearest = min(max(seconds, SECONDS[0]), SECONDS[1])
        raise AttnvizError(
            f"--seconds-per-step is {seconds:g}, and must be from {SECONDS[0]:g} to {SECONDS[1]:g}",
            f"try --seconds-per-step {nearest:g}",
        )


def _refuse_odd_text(times: float) -> None:
    """Refuse letters that nobody can read, or that fill the page."""
    low, high = (points / LABEL_ON_A_SLIDE for points in POINTS)
    if not low <= times <= high:
        raise AttnvizError(
            f"text_size is {times:g}, and must be from {ceil(100 * low) / 100:g} to {high:g}: how "
            "many times their usual size letters have",
            "try text_size=1.5",
        )


def refuse_odd_points(points: float) -> None:
    """The same of letters in points, on a page that is as wide as a slide."""
    if not POINTS[0] <= points <= POINTS[1]:
        nearest = min(max(points, POINTS[0]), POINTS[1])
        raise AttnvizError(
            f"--text-size is {points:g} points, and must be from {POINTS[0]:g} to {POINTS[1]:g}",
            f"try --text-size {nearest:g}, or {', '.join(TEXT_SIZES)}",
        )
