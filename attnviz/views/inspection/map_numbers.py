"""Names, formats and colour scales of the numbers in attention maps."""

from __future__ import annotations

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cells import FULL_SLICE
from attnviz.errors import AttnvizError, opt
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.options.values import Weigh
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
    """Return what the numbers of maps are: `weight`, `weight × length` or `weight × gradient`."""
    return WEIGH_MEASURE_NAMES[looking.weigh]


def rollout_scale(attention_map: Head, looking: InspectOptions) -> Scale:
    """Return the colour scale of a rollout, which ignores special tokens and the first token.

    They receive nearly all of a rollout: with them, no other column would have a visible colour.
    Larger numbers exceed the scale; --log is applied.
    """
    values = attention_map.cells.window(FULL_SLICE, FULL_SLICE).values
    special = attention_map.columns.special
    others = [key for key, is_special in enumerate(special) if key and not is_special]
    positive = values[:, others][values[:, others] > 0]
    high = round_up(float(np.quantile(positive, STATED_MAXIMUM_QUANTILE)) if positive.size else 1.0)
    scale = Scale("weight", 0.0, high, is_exceeded=bool(values.max() > high))
    return apply_log_option(scale, values.shape[1], looking)


def map_scale(attention_map: Head, looking: InspectOptions) -> Scale:
    """Return the colour scale of a map, logarithmic with --log; diverging if numbers go below 0.

    Refuses --log for numbers below 0.
    """
    cells = attention_map.cells
    if looking.weigh == "weight":
        scale = weight_scale(cells)
    elif cells.extent[0] < 0:
        scale = centred_scale(measure_name(looking), cells)
    else:
        scale = Scale(measure_name(looking), 0.0, round_up(float(cells.extent[1])))
    return apply_log_option(scale, cells.shape[1], looking)


def apply_log_option(scale: Scale, keys: int, looking: InspectOptions) -> Scale:
    """Return the scale as it is, or a logarithmic one with --log; `keys` is the number of columns.

    Refuses --log for a diverging scale.
    """
    if not looking.log:
        return scale
    if scale.kind == "diverging":
        refuse_logarithms(looking)
    return logarithmic_scale(scale, keys)


def refuse_logarithms(looking: InspectOptions) -> None:
    """Refuse --log, because there are numbers below 0; without --log do nothing."""
    if looking.log:
        raise AttnvizError(
            f"{opt.log} colours by the logarithm, but {opt.weigh:{looking.weigh}} has numbers "
            "below 0",
            f"leave {opt.log} out",
            about="log",
        )


def row_scale(numbers: np.ndarray, looking: InspectOptions) -> Scale:
    """Return the colour scale of one row; with --log it is logarithmic, and refused below 0.

    Plain weights whose largest is at least .5 get the scale from 0 to 1; numbers below 0 a
    diverging one.
    """
    name, largest = measure_name(looking), float(np.abs(numbers).max(initial=0))
    is_full_scale = looking.weigh == "weight" and MIN_FULL_SCALE_WEIGHT <= largest <= 1.001
    high = 1.0 if is_full_scale else round_up(largest)
    signed = (numbers < 0).any()
    scale = Scale(name, -high, high, "diverging") if signed else Scale(name, 0.0, high)
    return apply_log_option(scale, len(numbers), looking)


def format_map_value(value: float, looking: InspectOptions) -> str:
    """Return a number of a map as text with two digits; tiny numbers as powers of ten.

    >>> [format_map_value(value, InspectOptions()) for value in (0.647, 0.0012)]
    ['.65', '1.2e-03']
    >>> format_map_value(1.25, InspectOptions(weigh="norm"))
    '1.25'
    """
    if value and abs(value) < smallest_fixed_value(2):
        return power_text(value, 1)
    return share_text(value) if looking.weigh == "weight" else fixed_text(value, 2)


def map_amount_text(attention_map: Head, value: float, looking: InspectOptions) -> str:
    """Return a map's number as text: a share of attention in per cent, others as they are."""
    if attention_map.are_shares and looking.weigh == "weight" and 0 <= value <= 1 + SUM_ROUNDING:
        return percent_text(value)
    return format_map_value(value, looking)


def head_name(attention_map: Head) -> str:
    """Return a map's name `L4H7`; if heads share keys and values, `L4H7 (kv 1)`."""
    layer = attention_map.layer
    if attention_map.merged_heads or layer.kv_heads == layer.heads:
        return attention_map.name
    return f"{attention_map.name} (kv {attention_map.number * layer.kv_heads // layer.heads})"


def side_label(side: Side, index: int) -> str:
    """Return the label of the row or column `index`, quoted unless it is a special token.

    If the label occurs several times, its number follows: `"animal"`, `"the" (8)`, `[CLS]`.
    """
    label = side.labels[index]
    name = bidi_isolated(label) if side.special[index] else f'"{bidi_isolated(label)}"'
    return name if side.labels.count(label) == 1 else f"{name} ({side.numbers[index]})"
