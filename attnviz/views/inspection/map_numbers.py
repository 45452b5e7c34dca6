"""What the numbers of maps are called, and what their colours stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions, Weigh
from attnviz.analysis.inspection.maps import Map, MapSide
from attnviz.cells import FULL_SLICE
from attnviz.errors import AttnvizError
from attnviz.views.grids.scales import (
    STATED_MAXIMUM_QUANTILE,
    Scale,
    centred_scale,
    logarithmic_scale,
    round_up,
    weight_scale,
)
from attnviz.wording.numbers import (
    SUM_ROUNDING,
    fixed_text,
    percent_text,
    power_text,
    share_text,
    smallest_fixed_value,
)
from attnviz.wording.words import bidi_isolated

WEIGH_MEASURE_NAMES: dict[Weigh, str] = {
    "weight": "weight",
    "norm": "weight × length",
    "gradient": "weight × gradient",
}
MIN_FULL_SCALE_WEIGHT = 0.5  # a weight for which the whole scale is shown


def measure_name(looking: InspectOptions) -> str:
    """What one of its numbers is."""
    return WEIGH_MEASURE_NAMES[looking.weigh]


def unit_name(looking: InspectOptions) -> str:
    """What one place of a map stands for."""
    return "word" if looking.words else "token"


def rollout_scale(attention_map: Map, looking: InspectOptions) -> Scale:
    """As far as most numbers reach beside the columns of special tokens and of the first token.

    Nearly all of a rollout comes from these: beside them nothing else would have a colour.
    """
    values = attention_map.cells.window(FULL_SLICE, FULL_SLICE).values
    other_columns = [
        column
        for column, special in enumerate(attention_map.columns.special)
        if column and not special
    ]
    positive_values = values[:, other_columns][values[:, other_columns] > 0]
    high = round_up(
        float(np.quantile(positive_values, STATED_MAXIMUM_QUANTILE))
        if positive_values.size
        else 1.0
    )
    scale = Scale("weight", 0.0, high, is_exceeded=bool(values.max() > high))
    return apply_log_option(scale, values.shape[1], looking)


def map_scale(attention_map: Map, looking: InspectOptions) -> Scale:
    """What the colours of a map stand for."""
    cells = attention_map.cells
    if looking.weigh == "weight":
        return apply_log_option(weight_scale(cells), cells.shape[1], looking)
    if cells.extent[0] < 0:
        return apply_log_option(
            centred_scale(measure_name(looking), cells), cells.shape[1], looking
        )
    scale = Scale(measure_name(looking), 0.0, round_up(float(cells.extent[1])))
    return apply_log_option(scale, cells.shape[1], looking)


def apply_log_option(scale: Scale, keys: int, looking: InspectOptions) -> Scale:
    """The same, or with --log even steps of colour for each factor of ten."""
    if not looking.log:
        return scale
    if scale.kind == "diverging":
        refuse_logarithms(looking)
    return logarithmic_scale(scale, keys)


def refuse_logarithms(looking: InspectOptions) -> None:
    """Of numbers below 0 there are none."""
    if looking.log:
        raise AttnvizError(
            f"--log colours by the logarithm, but --weigh {looking.weigh} has numbers below 0",
            "leave --log out",
            about="log",
        )


def row_scale(numbers: np.ndarray, looking: InspectOptions) -> Scale:
    """From 0 to what a row of numbers reaches, or from as far below it."""
    largest = float(np.abs(numbers).max(initial=0))
    are_weights = looking.weigh == "weight" and looking.merge != "rollout"
    is_full_scale = are_weights and MIN_FULL_SCALE_WEIGHT <= largest <= 1.001
    high = 1.0 if is_full_scale else round_up(largest)
    if (numbers < 0).any():
        return apply_log_option(
            Scale(measure_name(looking), -high, high, "diverging"), len(numbers), looking
        )
    return apply_log_option(Scale(measure_name(looking), 0.0, high), len(numbers), looking)


def format_map_value(value: float, looking: InspectOptions) -> str:
    """
    >>> [format_map_value(value, InspectOptions()) for value in (0.647, 0.0012)]
    ['.65', '1.2e-03']
    >>> format_map_value(1.25, InspectOptions(weigh="norm"))
    '1.25'
    """
    if value and abs(value) < smallest_fixed_value(2):
        return power_text(value, 1)
    return share_text(value) if looking.weigh == "weight" else fixed_text(value, 2)


def map_amount_text(
    attention_map: Map, value: float, looking: InspectOptions, digits: int = 0
) -> str:
    """How much of something a token reads in a map: a share in per cent; what is none as it is."""
    if attention_map.share and looking.weigh == "weight" and 0 <= value <= 1 + SUM_ROUNDING:
        return percent_text(value, digits)
    return format_map_value(value, looking)


def head_name(attention_map: Map) -> str:
    """`L4H7`; and where heads share keys and values, those of which one: `L4H7 (kv 1)`."""
    layer = attention_map.layer
    if layer is None or attention_map.head is None or layer.kv_heads == layer.heads:
        return attention_map.name
    return f"{attention_map.name} (kv {attention_map.head * layer.kv_heads // layer.heads})"


def head_names(maps: Sequence[Map]) -> tuple[str, ...]:
    return tuple(head_name(attention_map) for attention_map in maps)


def side_label(side: MapSide, index: int) -> str:
    """`"animal"`; with its number where the word is there twice: `"the" (8)`; `[CLS]`"""
    label = side.labels[index]
    name = bidi_isolated(label) if side.special[index] else f'"{bidi_isolated(label)}"'
    return name if side.labels.count(label) == 1 else f"{name} ({side.numbers[index]})"
