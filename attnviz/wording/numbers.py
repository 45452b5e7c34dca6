"""One number as a short text: percent, powers of ten, significant digits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from attnviz.wording.printable import PERCENT

NumberForm = Literal["fixed", "whole", "power"]
POWERS_OF_TEN_FROM = 1e6  # numbers from here on are written with powers of ten
SUM_ROUNDING = 1e-6  # rounding error of a sum to 1 in float32
MAX_EXTRA_DIGITS = 2  # digits added at most to tell two numbers apart
MAX_SHARE_DIGITS = 7  # below it are the decimals of a share that fewer would write as 0 or 1
MINUS = "−"
HYPHEN_BEFORE_A_NUMBER = re.compile(r"(?<![\w.)])-(?=[\d.∞])")
HYPHEN_BETWEEN_SPACES = re.compile(r"(?<= )-(?= )")
EXPONENT = re.compile(r"(?<=\d)(e)-(?=\d)")
SUBSCRIPTS = {"d_k": "dₖ", "W_o": "Wₒ"}
SUBSCRIPT = re.compile(rf"\b({'|'.join(SUBSCRIPTS)})\b")


def share_text(value: float) -> str:
    """Return a share in three characters, such as `.31`, and a minus sign if it is negative.

    >>> [share_text(value) for value in (0.312, 0.999, 0.0, 2.0, -0.31, -0.001)]
    ['.31', '1.0', '.00', '2.0', '-.31', '.00']
    """
    if value <= -0.005:
        return "-" + share_text(-value)
    return f"{abs(value):.2f}"[1:] if value < 0.995 else f"{value:.1f}"[:3]


def tiny_text(value: float) -> str:
    """Return a number with a power of ten and no decimals.

    >>> tiny_text(-3.2e-8), tiny_text(0.0)
    ('-3e-08', '0')
    """
    return power_text(value, 0)


def power_text(value: float, digits: int) -> str:
    """Return a number with a power of ten and this many decimals; plain 0 for zero.

    >>> power_text(-0.000123, 1), power_text(-0.0, 1)
    ('-1.2e-04', '0')
    """
    return f"{value:.{digits}e}" if value else "0"


def fixed_text(value: float, digits: int) -> str:
    """Return a number with this many decimals; a rounded negative number is never `-0.00`.

    >>> fixed_text(-0.001, 2)
    '0.00'
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def exact_text(value: float) -> str:
    """Return a number that a user chose, in as few digits as express it exactly.

    >>> exact_text(0.5), exact_text(51.0), exact_text(1.0000001)
    ('0.5', '51', '1.0000001')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def percent_text(share: float, digits: int = 0) -> str:
    """Return a share (0 to 1) in per cent; 100 % and 0 % are written only for exactly 1 and 0.

    A share that would be rounded to them gets one decimal more, then `over` or `under`.

    >>> shares = (0.647, 1.0, 0.9962, 0.99998, 0.0004)
    >>> [percent_text(share).replace("\\u00a0", " ") for share in shares]
    ['65 %', '100 %', '99.6 %', 'over 99.9 %', 'under 0.1 %']
    """
    for decimals in (digits, digits + 1):
        text = fixed_text(100 * share, decimals)
        if float(text) not in (0, 100) or not share or abs(share - 1) < SUM_ROUNDING:
            return f"{text}{PERCENT}"
    return f"{'over 99.9' if share > 0.5 else 'under 0.1'}{PERCENT}"


def significant_text(value: float, digits: int) -> str:
    """Return a number with this many significant digits; large whole numbers are written in full.

    >>> [significant_text(value, 2) for value in (0.8571, 0.9, 2.0, 19.37, 1234.5, 0.0)]
    ['0.86', '0.90', '2.0', '19', '1234', '0']
    """
    if 10.0**digits <= abs(value) < POWERS_OF_TEN_FROM or not value:
        return f"{value + 0.0:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def short_text(value: float) -> str:
    """Return a number with at most two significant digits; numbers from 100 on as whole numbers in
    full, those from a million on with powers of ten.

    >>> [short_text(value) for value in (0.25, 2.0, 109.7, 25715.0, 1e-7)]
    ['0.25', '2', '110', '25715', '1e-07']
    """
    return f"{value:.0f}" if 100 <= abs(value) < POWERS_OF_TEN_FROM else f"{value:.2g}"


def distinguishing_digits(
    first: float, second: float, digits: int, write: Callable[[float, int], str] = fixed_text
) -> int:
    """Return the fewest digits, from `digits` on, with which two numbers are written differently.

    It is `digits` where MAX_EXTRA_DIGITS more do not tell the two apart.

    >>> pairs = (1.72, 1.74), (1.2, 1.3), (2.0, 2.0)
    >>> tuple(distinguishing_digits(*pair, 1) for pair in pairs)
    (2, 1, 1)
    """
    candidates = range(digits, digits + MAX_EXTRA_DIGITS + 1)
    return next(
        (count for count in candidates if write(first, count) != write(second, count)), digits
    )


def smallest_fixed_value(decimals: int) -> float:
    """Return the smallest number that does not round to 0 with this many decimals.

    >>> smallest_fixed_value(2)
    0.005
    """
    return 0.5 * 10.0**-decimals


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written: with `digits` decimals, as whole numbers, or with powers of ten."""

    digits: int = 2
    form: NumberForm = "fixed"
    full: bool = False  # whether sums are written in full, however long they are

    def __call__(self, value: float) -> str:
        """Return the number as text; a number from a million on has a power of ten unless the form
        is whole.

        >>> NumberStyle()(1.3128), NumberStyle()(-0.0001)
        ('1.31', '0.00')
        >>> NumberStyle(form="whole")(4.0), NumberStyle(form="power")(0.0123)
        ('4', '1.2e-02')
        """
        if self.form == "whole":
            return str(round(value))
        if self.form == "power":
            return power_text(value, max(self.digits - 1, 0))
        if abs(value) >= POWERS_OF_TEN_FROM:
            return f"{value:.{self.digits}e}"
        return fixed_text(value, self.digits)

    def rounded(self, value: float) -> float:
        return float(self(value))

    def for_values(self, *values: float) -> NumberStyle:
        """Return the style for numbers that are written together, as in one table.

        Whole numbers get no decimals; numbers that would all round to 0 get powers of ten.
        """
        if all(abs(value) < POWERS_OF_TEN_FROM and value == round(value) for value in values):
            return replace(self, form="whole")
        reach = max(map(abs, values))
        return replace(self, form="power" if reach < smallest_fixed_value(self.digits) else "fixed")

    def for_share(self, share: float) -> NumberStyle:
        """Return the style for a share: more decimals where these would write it as 0 or 1.

        >>> [NumberStyle().for_share(share)(share) for share in (0.31, 0.9961, 0.0008, 3e-8, 1.0)]
        ['0.31', '0.9961', '0.0008', '3.0e-08', '1.00']
        """
        if share in (0, 1) or self.rounded(share) not in (0, 1):
            return self
        longer = (replace(self, digits=more) for more in range(self.digits + 2, MAX_SHARE_DIGITS))
        found = next((each for each in longer if each.rounded(share) not in (0, 1)), self)
        return replace(self, form="power") if found.rounded(share) == 0 else found


def number_or_none(number: float) -> float | None:
    """Return a number as data files have it: None for NaN and for an infinite one."""
    return number if isfinite(number) else None


def typeset(text: str) -> str:
    """Return a text with minus signs (−) where hyphens mean minus, and d_k and W_o as dₖ and Wₒ.

    >>> typeset("from -0.5 to 3 - 1, over √d_k, softmax-twice, 1e-05")
    'from −0.5 to 3 − 1, over √dₖ, softmax-twice, 1e−05'
    """
    spaced = HYPHEN_BETWEEN_SPACES.sub(MINUS, text)
    signed = EXPONENT.sub(rf"\1{MINUS}", HYPHEN_BEFORE_A_NUMBER.sub(MINUS, spaced))
    return SUBSCRIPT.sub(lambda match: SUBSCRIPTS[match[0]], signed)
