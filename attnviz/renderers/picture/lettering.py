"""How large the letters of a picture are: as large as the page lets them be."""

from __future__ import annotations

from dataclasses import dataclass, replace

SLIDE = (13.333, 7.5)  # inches: the page of a slide, for which the sizes below are meant
SMALLEST_SHARE = 0.55  # of a slide's letters: a figure in a paper is read from nearer by


@dataclass(frozen=True)
class Lettering:
    """Sizes of letters in points: those of a slide, unless they are scaled."""

    headline: float = 28.0
    title: float = 20.0  # above a panel, and what a step is called
    text: float = 18.0  # sentences and sums
    label: float = 18.0
    number: float = 18.0  # in cells, at most
    axis: float = 16.0  # titles of axes, ends of scales
    small_print: float = 12.0
    smallest: float = 10.0  # below, labels are thinned out and pages divided

    def scaled(self, factor: float) -> Lettering:
        """All of them so many times as large."""
        sizes = {name: size * factor for name, size in vars(self).items()}
        return replace(self, **sizes)


def lettering(size: tuple[float, float], text_size: float = 1.0) -> Lettering:
    """The letters of a page of this size; `text_size` makes them larger or smaller.

    >>> lettering((13.333, 7.5)).label, round(lettering((26.666, 15.0)).label, 1)
    (18.0, 36.0)
    """
    share = min(size[0] / SLIDE[0], size[1] / SLIDE[1])
    page = Lettering().scaled(max(share, SMALLEST_SHARE))
    larger = page.scaled(text_size)
    return replace(larger, smallest=min(page.smallest, larger.label))
