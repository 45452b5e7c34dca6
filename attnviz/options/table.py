"""All options that the commands of the core share, by the names of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from functools import cache
from typing import Any

from attnviz.options.option import Option, own_options, row_of


@cache
def option_fields() -> Mapping[str, Field[Any]]:
    """Return the fields of all options by name; of a name that several have, the first is meant."""
    # Imported here: most commands name no option of the others.
    from attnviz.options import comparing, heads, output, steps, traces, training

    groups: tuple[type, ...] = (
        *(traces.TracingOptions, traces.SavedOptions, traces.MatrixOptions, traces.BlockOptions),
        *(traces.LongTextOptions, comparing.ComparisonOptions, steps.StepOptions),
        *(heads.LookingOptions, heads.CheckOptions, heads.EffectOptions, heads.TestedTaskOptions),
        *(heads.SegmentOptions, output.ShowOptions, output.DeliveryOptions, output.LiveOptions),
        *(training.TrainingOptions, training.LearnOptions),
    )
    return {each.name: each for group in reversed(groups) for each in own_options(group)}


@cache
def option_rows() -> Mapping[str, Option]:
    """Return the rows of all options by name."""
    rows = {name: row_of(each) for name, each in option_fields().items()}
    return {name: row for name, row in rows.items() if row is not None}
