"""Numbers in few digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from attnviz.wording.printable import PERCENT

NumberForm = Literal["fixed", "whole", "power"]
POWERS_OF_TEN_FROM = 1e6  # from here on numbers are written with powers of ten
SUM_ROUNDING = 1e-6  # of sums to 1 in float32
LAST_DIGIT_SLACK = 1e-3  # of a last digit, that float32 may lack of it
SUM_ROUNDING = 1e-6  # of sums to 1 in float32
MAX_EXTRA_DIGITS = 2  # than there would be, where that tells two numbers apart


def share_text(value: float) -> str:
    """In three columns, and one more for a minus.

    >>> [share_text(value) for value in (0.312, 0.999, 0.0, 2.0, -0.31, -0.001)]
    ['.31', '1.0', '.00', '2.0', '-.31', '.00']
    """
    if value <= -0.005:
        return "-" + share_text(-value)
    return f"{abs(value):.2f}"[1:] if value < 0.995 else f"{value:.1f}"[:3]


def tiny_text(value: float) -> str:
    """
    >>> tiny_text(-3.2e-8), tiny_text(0.0)
    ('-3e-08', '0')
    """
    return power_text(value, 0)


def power_text(value: float, digits: int) -> str:
    """With powers of ten; nothing of a sign, or of digits, is left of 0.

    >>> power_text(-0.000123, 1), power_text(-0.0, 1)
    ('-1.2e-04', '0')
    """
    return f"{value:.{digits}e}" if value else "0"


def fixed_text(value: float, digits: int) -> str:
    """So many digits behind the point; there is no -0.00.

    >>> fixed_text(-0.001, 2)
    '0.00'
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def exact_text(value: float) -> str:
    """A number that somebody chose, in as few digits as say it exactly.

    >>> exact_text(0.5), exact_text(51.0), exact_text(1.0000001)
    ('0.5', '51', '1.0000001')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def percent_text(share: float, digits: int = 0) -> str:
    """A share in a sentence; only all of it is 100 %, and only nothing of it 0 %.

    >>> [percent_text(each).replace("\\u00a0", " ") for each in (0.647, 1.0, 0.9962, 0.99998, 0.0004)]
    ['65 %', '100 %', '99.6 %', 'over 99.9 %', 'under 0.1 %']
    """
    for decimals in (digits, digits + 1):
        text = fixed_text(100 * share, decimals)
        if float(text) not in (0, 100) or not share or abs(share - 1) < SUM_ROUNDING:
            return f"{text}{PERCENT}"
    return f"{'over 99.9' if share > 0.5 else 'under 0.1'}{PERCENT}"


def significant_text(value: float, digits: int) -> str:
    """So many digits, zeros in front of them not counted; whole numbers in full.

    >>> [significant_text(value, 2) for value in (0.8571, 0.9, 2.0, 19.37, 1234.5, 0.0)]
    ['0.86', '0.90', '2.0', '19', '1234', '0']
    """
    is_whole = 10.0**digits <= abs(value) < POWERS_OF_TEN_FROM
    if is_whole or not value:
        return f"{value + 0.0:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def short_text(value: float) -> str:
    """Two digits at most; whole numbers in full.

    >>> [short_text(value) for value in (0.25, 2.0, 109.7, 25715.0, 1e-7)]
    ['0.25', '2', '110', '25715', '1e-07']
    """
    return f"{value:.0f}" if 100 <= abs(value) < POWERS_OF_TEN_FROM else f"{value:.2g}"


def digits_apart(
    first: float, second: float, digits: int, write: Callable[[float, int], str] = fixed_text
) -> int:
    """As many digits as it takes to tell two numbers apart, if a few can.

    >>> digits_apart(1.72, 1.74, 1), digits_apart(1.2, 1.3, 1), digits_apart(2.0, 2.0, 1)
    (2, 1, 1)
    """
    candidates = range(digits, digits + MAX_EXTRA_DIGITS + 1)
    return next(
        (count for count in candidates if write(first, count) != write(second, count)), digits
    )


def smallest_fixed_value(decimals: int) -> float:
    """Numbers all below this are written with powers of ten: no digit would be left.

    >>> smallest_fixed_value(2)
    0.005
    """
    return 0.5 * 10.0**-decimals


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written: so many digits behind the point; none where all are whole, and
    with powers of ten where all are so small that hardly a digit would be left."""

    digits: int = 2
    form: NumberForm = "fixed"
    full: bool = False  # write sums out, however long they are

    def __call__(self, value: float) -> str:
        """
        >>> NumberStyle()(1.3128), NumberStyle()(-0.0001), NumberStyle(form="whole")(4.0), NumberStyle(form="power")(0.0123)
        ('1.31', '0.00', '4', '1.2e-02')
        """
        if self.form == "whole":
            return str(round(value))
        if self.form == "power":
            return power_text(value, max(self.digits - 1, 0))
        if abs(value) >= POWERS_OF_TEN_FROM:
            return f"{value:.{self.digits}e}"
        return fixed_text(value, self.digits)

    def rounded(self, value: float) -> float:
        """The number that is read where this one is written."""
        return float(self(value))

    def for_values(self, *values: float) -> NumberStyle:
        """The same for numbers that belong together: as the table that holds them writes them."""
        if all(abs(value) < POWERS_OF_TEN_FROM and value == round(value) for value in values):
            return replace(self, form="whole")
        reach = max(map(abs, values))
        return replace(self, form="power" if reach < smallest_fixed_value(self.digits) else "fixed")
