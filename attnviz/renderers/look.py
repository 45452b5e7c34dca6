"""How a picture looks, and which looks nobody could draw."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.renderers.colors import DEFAULT_PALETTE, DEFAULT_THEME, PALETTES, find_theme

SLIDE_ASPECT_RATIOS, ASPECT_TOLERANCE = (
    (16 / 9, 4 / 3),
    1e-3,
)  # how much wider than high a page of slides is
INCH_LIMITS = (2.5, 40.0)
MIN_SLIDE_INCHES = 5.0  # inches
DPI_LIMITS = (30, 1200)
SECONDS_LIMITS = (0.1, 60.0)
SLIDE_LABEL_POINTS = 18.0  # points, on a page that is 13.33 inches wide
TEXT_SIZE_POINTS = {"small": 14.0, "medium": SLIDE_LABEL_POINTS, "large": 24.0}  # of such labels
TEXT_POINT_LIMITS = (8.0, 72.0)
MAX_SIDE_PIXELS = 20_000  # pixels; a picture of 20,000 × 20,000 takes 1.6 GB to draw


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
        find_theme(self.theme)
        _refuse_unknown_palette(self.palette)
        _refuse_size(self.size)
        _refuse_dpi(self.dpi, self.size)
        _refuse_seconds(self.seconds)
        _refuse_text_size(self.text_size)

    @property
    def has_footnote(self) -> bool:
        """Whether the settings are written below a picture: a slide has them in its notes."""
        if self.footnote is not None or self.size is None:
            return self.footnote is not False
        width, height = self.size
        return not any(
            abs(width / height - shape) < ASPECT_TOLERANCE for shape in SLIDE_ASPECT_RATIOS
        )


def _refuse_unknown_palette(name: str) -> None:
    if name not in PALETTES:
        raise unknown_name_error("colour map", name, PALETTES)


def _refuse_size(size: tuple[float, float] | None) -> None:
    if size and not all(INCH_LIMITS[0] <= side <= INCH_LIMITS[1] for side in size):
        raise AttnvizError(
            f"--size is {size[0]:g} by {size[1]:g} inches, and each must be from {INCH_LIMITS[0]:g} to "
            f"{INCH_LIMITS[1]:g}",
            "try --size 8x5",
        )


def refuse_small_slides(size: tuple[float, float] | None) -> None:
    """Refuse slides without room for a title, a picture and a caption."""
    if size and min(size) < MIN_SLIDE_INCHES:
        raise AttnvizError(
            f"slides of {size[0]:g} by {size[1]:g} inches have no room for a picture",
            "try --size 16:9 or 4:3",
        )


def _refuse_dpi(dpi: int | None, size: tuple[float, float] | None) -> None:
    if dpi is None:
        return
    if not DPI_LIMITS[0] <= dpi <= DPI_LIMITS[1]:
        nearest = min(max(dpi, DPI_LIMITS[0]), DPI_LIMITS[1])
        raise AttnvizError(
            f"--dpi is {dpi}, and must be from {DPI_LIMITS[0]} to {DPI_LIMITS[1]}",
            f"try --dpi {nearest}",
        )
    if size and max(size) * dpi > MAX_SIDE_PIXELS:
        raise AttnvizError(
            f"{max(size):g} inches at {dpi} dpi are {max(size) * dpi:,.0f} pixels, and at most "
            f"{MAX_SIDE_PIXELS:,} can be drawn",
            f"try --dpi {int(MAX_SIDE_PIXELS / max(size))}",
        )


def _refuse_seconds(seconds: float) -> None:
    """Refuse a pace that nobody can follow."""
    if not SECONDS_LIMITS[0] <= seconds <= SECONDS_LIMITS[1]:
        nearest = min(max(seconds, SECONDS_LIMITS[0]), SECONDS_LIMITS[1])
        raise AttnvizError(
            f"--seconds-per-step is {seconds:g}, and must be from {SECONDS_LIMITS[0]:g} to {SECONDS_LIMITS[1]:g}",
            f"try --seconds-per-step {nearest:g}",
        )


def _refuse_text_size(text_size: float) -> None:
    """Refuse letters that nobody can read, or that fill the page."""
    low, high = (points / SLIDE_LABEL_POINTS for points in TEXT_POINT_LIMITS)
    if not low <= text_size <= high:
        raise AttnvizError(
            f"text_size is {text_size:g}, and must be from {ceil(100 * low) / 100:g} to {high:g}: how "
            "many times their usual size letters have",
            "try text_size=1.5",
        )


def refuse_text_points(points: float) -> None:
    """The same of letters in points, on a page that is as wide as a slide."""
    if not TEXT_POINT_LIMITS[0] <= points <= TEXT_POINT_LIMITS[1]:
        nearest = min(max(points, TEXT_POINT_LIMITS[0]), TEXT_POINT_LIMITS[1])
        raise AttnvizError(
            f"--text-size is {points:g} points, and must be from {TEXT_POINT_LIMITS[0]:g} to {TEXT_POINT_LIMITS[1]:g}",
            f"try --text-size {nearest:g}, or {', '.join(TEXT_SIZE_POINTS)}",
        )
