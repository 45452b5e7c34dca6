"""What the numbers of maps are called, and what their colours stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.inspection.looking import Looking, Weigh
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.cells import EVERYTHING
from attnviz.errors import AttnvizError
from attnviz.views.grids.scales import (
    FEW_EXCEED,
    Scale,
    centred,
    logarithmic,
    rounded_up,
    weight_scale,
)
from attnviz.wording.numbers import ROUNDING, fixed_text, percent, power_text, share_text, smallest
from attnviz.wording.words import isolated

CALLED: dict[Weigh, str] = {
    "weight": "weight",
    "norm": "weight × length",
    "gradient": "weight × gradient",
}
LARGE = 0.5  # a weight for which the whole scale is shown


def called(looking: Looking) -> str:
    """What one of its numbers is."""
    return CALLED[looking.weigh]


def unit(looking: Looking) -> str:
    """What one place of a map stands for."""
    return "word" if looking.words else "token"


def rollout_scale(found: Map, looking: Looking) -> Scale:
    """As far as most numbers reach beside the columns of special tokens and of the first token.

    Nearly all of a rollout comes from these: beside them nothing else would have a colour.
    """
    values = found.cells.window(EVERYTHING, EVERYTHING).values
    others = [place for place, special in enumerate(found.columns.special) if place and not special]
    drawn = values[:, others][values[:, others] > 0]
    high = rounded_up(float(np.quantile(drawn, FEW_EXCEED)) if drawn.size else 1.0)
    scale = Scale("weight", 0.0, high, beyond=bool(values.max() > high))
    return bent(scale, values.shape[1], looking)


def scale_of(found: Map, looking: Looking) -> Scale:
    """What the colours of a map stand for."""
    cells = found.cells
    if looking.weigh == "weight":
        return bent(weight_scale(cells), cells.shape[1], looking)
    if cells.extent[0] < 0:
        return bent(centred(called(looking), cells), cells.shape[1], looking)
    scale = Scale(called(looking), 0.0, rounded_up(float(cells.extent[1])))
    return bent(scale, cells.shape[1], looking)


def bent(scale: Scale, keys: int, looking: Looking) -> Scale:
    """The same, or with --log even steps of colour for each factor of ten."""
    if not looking.log:
        return scale
    if scale.kind == "diverging":
        refuse_logarithms(looking)
    return logarithmic(scale, keys)


def refuse_logarithms(looking: Looking) -> None:
    """Of numbers below 0 there are none."""
    if looking.log:
        raise AttnvizError(
            f"--log colours by the logarithm, but --weigh {looking.weigh} has numbers below 0",
            "leave --log out",
            about="log",
        )


def of_row(numbers: np.ndarray, looking: Looking) -> Scale:
    """From 0 to what a row of numbers reaches, or from as far below it."""
    largest = float(np.abs(numbers).max(initial=0))
    plain = looking.weigh == "weight" and looking.merge != "rollout"
    full = plain and LARGE <= largest <= 1.001
    high = 1.0 if full else rounded_up(largest)
    if (numbers < 0).any():
        return bent(Scale(called(looking), -high, high, "diverging"), len(numbers), looking)
    return bent(Scale(called(looking), 0.0, high), len(numbers), looking)


def told(value: float, looking: Looking) -> str:
    """
    >>> told(0.647, Looking()), told(0.0012, Looking()), told(1.25, Looking(weigh="norm"))
    ('.65', '1.2e-03', '1.25')
    """
    if value and abs(value) < smallest(2):
        return power_text(value, 1)
    return share_text(value) if looking.weigh == "weight" else fixed_text(value, 2)


def amount(found: Map, value: float, looking: Looking, digits: int = 0) -> str:
    """How much of something a token reads in a map: a share in per cent; what is none as it is."""
    if found.share and looking.weigh == "weight" and 0 <= value <= 1 + ROUNDING:
        return percent(value, digits)
    return told(value, looking)


def head_name(found: Map) -> str:
    """`L4H7`; and where heads share keys and values, those of which one: `L4H7 (kv 1)`."""
    layer = found.layer
    if layer is None or found.head is None or layer.kv_heads == layer.heads:
        return found.name
    return f"{found.name} (kv {found.head * layer.kv_heads // layer.heads})"


def head_names(maps: Sequence[Map]) -> tuple[str, ...]:
    return tuple(head_name(each) for each in maps)


def named(side: Side, place: int) -> str:
    """`"animal"`; with its number where the word is there twice: `"the" (8)`; `[CLS]`"""
    label = side.labels[place]
    name = isolated(label) if side.special[place] else f'"{isolated(label)}"'
    return name if side.labels.count(label) == 1 else f"{name} ({side.numbers[place]})"
