"""The options of `attnviz compare`."""

from __future__ import annotations

from attnviz.options.comparing import ComparisonOptions
from attnviz.options.heads import SegmentOptions
from attnviz.options.option import CommandOptions, option_class
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelsOptions,
    NumberOptions,
    SavedPairOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.options.training import TrainingOptions


@option_class(frozen=True, kw_only=True)
class CompareOptions(
    TextOptions,
    SavedPairOptions,
    ComparisonOptions,
    ModelsOptions,
    SegmentOptions,
    TrainedOptions,
    AttentionOptions,
    NumberOptions,
    WithoutOptions,
    MatrixOptions,
    BlockOptions,
    LongTextOptions,
    TrainingOptions,
    DeliveryOptions,
    CommandOptions,
):
    """The options of `attnviz compare`."""
