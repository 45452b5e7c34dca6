"""All options that the commands of the core share, by the names of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from attnviz.options import comparing, heads, output, steps, traces, training
from attnviz.options.option import Option, own_options, row_of

GROUPS: tuple[type, ...] = (  # of a name that several have, the first is meant
    *(traces.TracingOptions, traces.SavedOptions, traces.MatrixOptions, traces.BlockOptions),
    *(traces.LongTextOptions, comparing.ComparisonOptions, steps.StepOptions),
    *(heads.LookingOptions, heads.CheckOptions, heads.EffectOptions, heads.TestedTaskOptions),
    *(
        output.ShowOptions,
        output.DeliveryOptions,
        output.LiveOptions,
        training.TrainingOptions,
        training.LearnOptions,
    ),
)


@cache
def option_rows() -> Mapping[str, Option]:
    """Return the rows of all options by name."""
    fields = [each for group in reversed(GROUPS) for each in own_options(group)]
    return {each.name: row for each in fields if (row := row_of(each)) is not None}
