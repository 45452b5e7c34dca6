"""Look: theme, size, text size, font and dpi of a picture; errors for impossible ones."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass

from attnviz.errors import AttnvizError, refuse_unknown_name, unknown_name_error
from attnviz.renderers.colors import DEFAULT_PALETTE, DEFAULT_THEME, PALETTES, find_theme
from attnviz.wording.surfaces import Mark, opt

OTHER_SIZES = {  # that people type, and what they mean
    "720p": "1280x720",
    "1080p": "1920x1080",
    "hd": "1920x1080",
    "4k": "3840x2160",
    "a4": "210x297mm",
    "a5": "148x210mm",
    "letter": "8.5x11in",
}
NAMED_SIZES_INCHES = {"16:9": (13.333, 7.5), "4:3": (13.333, 10.0), "square": (10.0, 10.0)}
SLIDE_WIDTH_INCHES = 40 / 3
MAX_SIZE_IN_INCHES = 100  # two larger numbers without a unit are pixels
INCHES_BY_UNIT = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}
SLIDE_ASPECT_RATIOS, ASPECT_TOLERANCE = (16 / 9, 4 / 3), 1e-3
INCH_LIMITS = (2.5, 40.0)
MIN_PAPER_INCHES = 1.0  # of a picture whose letters have a size on paper
MIN_SLIDE_INCHES = 5.0
DPI_LIMITS = (30, 1200)
SECONDS_LIMITS = (0.1, 60.0)  # per step of an animation
SLIDE_LABEL_POINTS = 18.0  # on a page that is 13.33 inches wide
TEXT_SIZE_POINTS = {"small": 14.0, "medium": SLIDE_LABEL_POINTS, "large": 24.0}
TEXT_POINT_LIMITS = (8.0, 72.0)
PAPER_POINT_LIMITS = (4.0, 72.0)
# Families by generic name: they come with matplotlib, so every machine draws the same.
FONT_FUNCTION = "attnviz.renderers.picture.glyphs:find_family"
GENERIC_FONTS = {"serif": "DejaVu Serif", "sans": "DejaVu Sans", "mono": "DejaVu Sans Mono"}
MAX_SIDE_PIXELS = 20_000  # a picture of 20,000 × 20,000 takes 1.6 GB to draw


@dataclass(frozen=True)
class TextSize:
    """How large letters are: a factor on those of a slide in proportion to the page, or points."""

    factor: float = 1.0
    points: float | None = None  # of labels on paper; then the factor has no meaning

    def scaled(self, share: float) -> TextSize:
        points = None if self.points is None else share * self.points
        return TextSize(self.factor * share, points)


USUAL_TEXT = TextSize()


@dataclass(frozen=True, kw_only=True)
class Look:
    """The settings of a picture's appearance; values that cannot be drawn are refused.

    Sizes and text sizes may be words, as in the command line.
    """

    theme: str = DEFAULT_THEME
    colors: str = DEFAULT_PALETTE
    size: tuple[float, float] | None = None  # in inches; None: what the panels need
    dpi: int | None = None  # pixels per inch; None: the default of the format
    seconds: float = 5.0  # for which an animation shows each step
    transparent: bool = False
    numbers: bool | None = None  # in the cells; None: if they fit
    text_size: float | str = SLIDE_LABEL_POINTS  # points of labels on a slide
    vectors: bool | None = None  # whether a page has queries and keys; None: if they fit
    footnote: bool | None = None  # the faint line of settings; None: not on slides and in papers
    points: float | None = None  # of labels on paper, whatever the size of the page
    font: str | None = None  # serif, sans, mono or a family; None: sans

    def __post_init__(self) -> None:
        """Read words; refuse an unknown theme or palette, and values outside their limits."""
        if isinstance(self.size, str):
            size, dpi = size_and_dpi(self.size, self.dpi)
            object.__setattr__(self, "size", size)
            object.__setattr__(self, "dpi", dpi)
        object.__setattr__(self, "text_size", parse_text_size(self.text_size))
        find_theme(self.theme)
        refuse_unknown_name("colour map", self.colors, PALETTES)
        _refuse_points(self.points, self.text)
        _refuse_size(self.size, self.points)
        _refuse_dpi(self.dpi, self.size)
        _refuse_out_of_limits(opt.seconds_per_step, self.seconds, SECONDS_LIMITS)
        if self.font is not None and self.font not in GENERIC_FONTS:
            pkgutil.resolve_name(FONT_FUNCTION)(self.font)  # which imports matplotlib

    @property
    def text(self) -> TextSize:
        return TextSize(float(self.text_size) / SLIDE_LABEL_POINTS, self.points)

    @property
    def has_footnote(self) -> bool:
        """Whether the settings are written below a picture: by default not on 16:9 and 4:3, nor
        with letters in points.
        """
        if self.footnote is None and self.points is not None:
            return False
        if self.footnote is not None or self.size is None:
            return self.footnote is not False
        width, height = self.size
        return not any(
            abs(width / height - shape) < ASPECT_TOLERANCE for shape in SLIDE_ASPECT_RATIOS
        )


def _refuse_size(size: tuple[float, float] | None, points: float | None) -> None:
    """Refuse a size in inches with a side outside 2.5 to 40; on paper, with letters in points, from
    1 inch. None passes.
    """
    low, high = INCH_LIMITS[0] if points is None else MIN_PAPER_INCHES, INCH_LIMITS[1]
    if size and not all(low <= side <= high for side in size):
        small = all(MIN_PAPER_INCHES <= side <= high for side in size)
        raise AttnvizError(
            f"{opt.size:is {round(size[0], 2):g}} by {round(size[1], 2):g} inches, and each must "
            f"be from {low:g} to {high:g}",
            f"try {opt.size:8x5}" + small * f", or {opt.points:8} for a small picture on paper",
        )


def _refuse_points(points: float | None, text: TextSize) -> None:
    """Refuse letters on paper outside 4 to 72 points, and beside another size of letters."""
    _refuse_out_of_limits(opt.points, points, PAPER_POINT_LIMITS)
    if points is not None and text.factor != 1.0:
        raise AttnvizError(
            f"{opt.points} and {opt.text_size} both say how large letters are",
            f"leave out {opt.text_size}, which is for slides",
        )


def refuse_small_slides(size: tuple[float, float] | None) -> None:
    """Refuse a size of slides with a side below 5 inches, too small for a picture; None passes."""
    if size and min(size) < MIN_SLIDE_INCHES:
        raise AttnvizError(
            f"slides of {size[0]:g} by {size[1]:g} inches have no room for a picture",
            f"try {opt.size:16:9} or 4:3",
        )


def _refuse_dpi(dpi: int | None, size: tuple[float, float] | None) -> None:
    """Refuse pixels per inch outside 30 to 1200, or that make a side too many pixels."""
    _refuse_out_of_limits(opt.dpi, dpi, DPI_LIMITS)
    if dpi is not None and size and max(size) * dpi > MAX_SIDE_PIXELS:
        raise AttnvizError(
            f"{max(size):g} inches at {dpi} dpi are {max(size) * dpi:,.0f} pixels, and at most "
            f"{MAX_SIDE_PIXELS:,} can be drawn",
            f"try {opt.dpi:{int(MAX_SIDE_PIXELS / max(size))}}",
        )


def _refuse_out_of_limits(option: Mark, value: float | None, limits: tuple[float, float]) -> None:
    """Refuse a number below the lower limit or above the higher one; None passes."""
    low, high = limits
    if value is not None and not low <= value <= high:
        number = f"{value:d}" if isinstance(value, int) else f"{value:g}"
        raise AttnvizError(
            f"{option:is {number}}, and must be from {low:g} to {high:g}",
            f"try {option:{min(max(value, low), high):g}}",
        )


def parse_text_size(text_size: float | str) -> float:
    """Return the points of 'large', '20pt' or 20; refuse unknown names, and points outside 8 to 72.

    >>> parse_text_size("medium"), parse_text_size("20pt"), parse_text_size(36)
    (18.0, 20.0, 36.0)
    """
    if text_size in TEXT_SIZE_POINTS:
        return TEXT_SIZE_POINTS[str(text_size)]
    if not re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?(pt)?", str(text_size)):
        known = [*TEXT_SIZE_POINTS, "points such as 20"]
        raise unknown_name_error("text size", str(text_size), known)
    points = float(str(text_size).removesuffix("pt"))
    low, high = TEXT_POINT_LIMITS
    if not low <= points <= high:
        nearest = min(max(points, low), high)
        raise AttnvizError(
            f"{opt.text_size:is {points:g}} points, and must be from {low:g} to {high:g}",
            f"try {opt.text_size:{nearest:g}}, or {', '.join(TEXT_SIZE_POINTS)}",
        )
    return points


def size_and_dpi(
    size: str | None, dpi: int | None
) -> tuple[tuple[float, float] | None, int | None]:
    """Return a size in inches and pixels per inch; a size in pixels, above 100, gives both.

    What is not given stays None. Refuses a size that cannot be read or drawn.

    >>> size_and_dpi("1920x1080", None), size_and_dpi("1920x1080", 96), size_and_dpi("8x5", None)
    (((13.333333333333334, 7.5), 144), ((20.0, 11.25), 96), ((8.0, 5.0), None))
    """
    if size is None:
        return None, dpi
    width, height = parse_picture_size(size)
    has_unit = size.endswith(tuple(INCHES_BY_UNIT))
    if has_unit or min(width, height) <= MAX_SIZE_IN_INCHES:
        return (width, height), dpi
    return _size_from_pixels(width, height, dpi)


def _size_from_pixels(
    width: float, height: float, dpi: int | None
) -> tuple[tuple[float, float], int]:
    """Return a size in inches and pixels per inch for a size in pixels.

    Without `dpi` the picture is as wide as a slide. Refuses sizes outside the limits of pixels and
    inches.
    """
    if max(width, height) > MAX_SIDE_PIXELS:
        raise AttnvizError(
            f"{opt.size:is {width:g}} by {height:g} pixels, and at most {MAX_SIDE_PIXELS:,} can be "
            "drawn",
            f"try {opt.size:1920x1080}",
        )
    density = dpi or min(max(round(width / SLIDE_WIDTH_INCHES), DPI_LIMITS[0]), DPI_LIMITS[1])
    size = (width / density, height / density)
    if not all(INCH_LIMITS[0] <= side <= INCH_LIMITS[1] for side in size):
        raise AttnvizError(
            f"{width:g} by {height:g} pixels at {density} dpi are {size[0]:.3g} by {size[1]:.3g} "
            f"inches, and each must be from {INCH_LIMITS[0]:g} to {INCH_LIMITS[1]:g}",
            f"try {opt.size:1920x1080}" if dpi is None else f"leave {opt.dpi} out",
        )
    return size, density


def parse_picture_size(size: str) -> tuple[float, float]:
    """Return a width and a height in inches; or, of two numbers above 100 without a unit, in
    pixels. Refuses any other text.

    >>> parse_picture_size("16:9"), parse_picture_size("8x5"), parse_picture_size("254x127mm")
    ((13.333, 7.5), (8.0, 5.0), (10.0, 5.0))
    """
    if size in NAMED_SIZES_INCHES:
        return NAMED_SIZES_INCHES[size]
    number, unit = r"(\d+(?:\.\d+)?)", rf"({'|'.join(INCHES_BY_UNIT)})"
    match = re.fullmatch(rf"{number}{unit}?[x×]{number}(?:{unit})?", size)
    if not match or (match[2] and not match[4]):
        hint = (
            f"try {', '.join(NAMED_SIZES_INCHES)}, inches such as 8x5, a unit such as 85x60mm (in, "
            "cm, mm, pt), or pixels such as 1920x1080"
        )
        if size.lower() in OTHER_SIZES:
            hint = f"did you mean {OTHER_SIZES[size.lower()]}?"
        raise AttnvizError(f"there is no size '{size}'", hint)
    width, height = float(match[1]), float(match[3])
    inches = INCHES_BY_UNIT[match[4] or "in"]
    wide = INCHES_BY_UNIT[match[2]] if match[2] else inches
    return round(width * wide, 6), round(height * inches, 6)
