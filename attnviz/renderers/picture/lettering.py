"""How large the letters of a picture are, and its minus signs."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from attnviz.renderers.look import SLIDE_LABEL_POINTS

SLIDE = (13.333, 7.5)  # inches: the page of a slide, for which the sizes below are meant
SMALLEST_SHARE = 0.55  # of a slide's letters: a figure in a paper is read from nearer by
SMALLEST = 10.0  # points on a slide: nobody in the last row reads less

POINT = 1 / 72
MARGIN = 1.2  # in letters of the headline

Size = tuple[float, float]


@dataclass(frozen=True)
class Lettering:
    """Sizes of letters in points: those of a slide, unless they are scaled."""

    headline: float = 28.0
    title: float = 20.0  # above a panel, and what a step is called
    text: float = 18.0  # sentences and sums
    label: float = SLIDE_LABEL_POINTS
    number: float = 18.0  # in cells, at most
    axis: float = 16.0  # titles of axes, ends of scales
    note: float = 14.0  # how to read what is drawn
    small_print: float = 11.0  # what made it
    smallest: float = SMALLEST  # below, labels are thinned out and pages divided

    def scaled(self, factor: float, at_least: float = 0.0) -> Lettering:
        """All of them so many times as large."""
        sizes = (getattr(self, each.name) for each in fields(self))
        return Lettering(*(max(size * factor, at_least) for size in sizes))

    @property
    def margin(self) -> float:
        """Inches that stay free on each side of a page."""
        return self.headline * POINT * MARGIN


def lettering(size: Size, text_size: float = 1.0) -> Lettering:
    """The letters of a page of this size; `text_size` makes them larger or smaller.

    >>> lettering((13.333, 7.5)).label, round(lettering((26.666, 15.0)).label, 1)
    (18.0, 36.0)
    """
    share = share_of(size)
    larger = Lettering().scaled(share * text_size, at_least=SMALLEST * share)
    smallest = {"smallest": min(SMALLEST * share, larger.label)}
    return Lettering(**{**vars(larger), **smallest})


def share_of(size: Size) -> float:
    """How large the letters of a page are beside those of a slide."""
    return max(min(size[0] / SLIDE[0], size[1] / SLIDE[1]), SMALLEST_SHARE)


MINUS = "−"
HYPHEN_BEFORE_A_NUMBER = re.compile(r"(?<![\w.)])-(?=[\d.∞])")
HYPHEN_BETWEEN_SPACES = re.compile(r"(?<= )-(?= )")
EXPONENT = re.compile(r"(?<=\d)(e)-(?=\d)")
SUBSCRIPTS = {"d_k": "dₖ", "W_o": "Wₒ"}
BELOW = "\N{FUNCTION APPLICATION}"  # takes no room; what follows stands below the line
LOWERED = re.compile(rf"{BELOW}(\w+)")
NAME_OF_A_MATRIX = re.compile(r"\b([WwBb])_([a-z]+\d?|\d)\b")
SUBSCRIPT = re.compile(rf"\b({'|'.join(SUBSCRIPTS)})\b")


def typeset(text: str) -> str:
    """
    >>> typeset("from -0.5 to 3 - 1, over √d_k, softmax-twice, 1e-05")
    'from −0.5 to 3 − 1, over √dₖ, softmax-twice, 1e−05'
    """
    spaced = HYPHEN_BETWEEN_SPACES.sub(MINUS, text)
    signed = EXPONENT.sub(rf"\1{MINUS}", HYPHEN_BEFORE_A_NUMBER.sub(MINUS, spaced))
    return SUBSCRIPT.sub(lambda found: SUBSCRIPTS[found[0]], signed)


def with_names(text: str) -> str:
    """With names of matrices as in a formula: only in words of ours, a token may be `w_key`, too.

    >>> with_names("Q = X W_query + b_query, joined w_out") == (
    ...     f"Q = X W{BELOW}query + b{BELOW}query, joined W{BELOW}out"
    ... )
    True
    """
    return NAME_OF_A_MATRIX.sub(_name, text)


def _name(found: re.Match[str]) -> str:
    letter = found[1].replace("w", "W").replace("B", "b")
    return f"{letter}{BELOW}{found[2]}"
