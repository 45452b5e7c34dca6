"""inspect(): the heads of a model on a sentence, and what is shown of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.inspection.inspect_options import (
    INSPECT_OPTION_NAMES,
    InspectKeywords,
    InspectOptions,
    numbers_in_slice,
    refuse_odd_metric,
)
from attnviz.analysis.inspection.maps import (
    HeadsStep,
    build_maps,
    cut_part,
    hide_tokens,
    merge_into_groups,
    merge_maps,
    roll_out_maps,
)
from attnviz.analysis.inspection.patterns import HeadPattern, HeadPatterns, find_patterns
from attnviz.analysis.inspection.weighted_maps import weigh_maps
from attnviz.errors import AttnvizError
from attnviz.heads.head import Head
from attnviz.machine.memory import refuse_too_little_memory
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import source_from_text
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.settings import Settings, settings_refused
from attnviz.traces.trace import Trace
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.tracing import with_given_model
from attnviz.wording.keywords import (
    built_by,
    replace_choices,
    with_checked_arguments,
    with_checked_settings,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attnviz.analysis.inspection.effects import Effect, Effects, HeadTracker, Metric
    from attnviz.analysis.inspection.segment_reading import SegmentLink, SegmentReading
    from attnviz.analysis.inspection.token_query import MapLink

NUMBER_BYTES = 8  # of a float64, which maps of words have
SLICED = ("layer", "head")
MAP_STEPS: tuple[HeadsStep, ...] = (
    *(weigh_maps, hide_tokens, merge_into_groups, merge_maps, cut_part),
)
# Rollout comes first, as it needs every token.
ROLLOUT_STEPS: tuple[HeadsStep, ...] = (roll_out_maps, hide_tokens, merge_into_groups, cut_part)


@built_by('attnviz.inspect("…")')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inspection(RanksHeads, Showable):
    """A Trace with options that choose heads and how their weights are shown.

    >>> from attnviz import inspect, trace
    >>> found = inspect(trace("I am learning", variant="multi-head"), head=1)
    >>> [head_map.name for head_map in found.maps]
    ['L0H1']
    """

    trace: Trace
    options: InspectOptions
    track: HeadTracker = iter  # reports progress over heads
    metric: Metric | None = None  # what heads that are switched off change

    @property
    @with_checked_arguments
    def ranking(self) -> Rows[MapLink | SegmentLink | Effect | HeadPattern]:
        """The chosen heads in order: by the link of `source` and `to`, by the links of `query`, by
        effect, or else by how clearly they do one thing. Each row has a name and is printed in a
        line with its base rate, such as the weight that other tokens give.
        """
        from attnviz.analysis.inspection.token_query import build_link, build_token_query

        if self.options.by == "effect":
            return Rows(self.effects.heads)
        if self.options.segments is not None:
            return Rows(self.segments.links[self.segments.query])
        if self.options.source is not None:
            return Rows(build_link(self.maps, self.options).ranked_links)
        if self.options.query is not None:
            return Rows(build_token_query(self.maps, self.options, self.options.query).peaks)
        return Rows(self.patterns.ranked)

    def refuse_impossible(self) -> None:
        """Refuse layers, heads and tokens that are not there, heads that cannot be switched off,
        and a metric that gives no number, before any of them is needed."""
        from attnviz.analysis.inspection.effects import check_effects
        from attnviz.analysis.inspection.token_query import build_link, build_token_query

        head_maps, options = self.head_maps, self.options
        if options.by == "effect":
            check_effects(self.trace, head_maps, options, self.metric)
        elif options.segments is not None:
            reading = self.segments
            if options.without_segment is not None:
                reading.segment_named(options.without_segment)
        elif options.source is not None:
            build_link(self.maps, self.options)
        elif options.query is not None:
            build_token_query(self.maps, self.options, options.query)

    @property
    def head_rows(self) -> tuple[Head, ...] | Rows[Effect]:
        """The maps, in the order of the model; by effect, the effects of the heads."""
        return Rows(self.effects.heads) if self.options.by == "effect" else self.maps

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of layers, heads, queries and keys after all options; maps that are merged
        are one layer with one head. Refuses layers of which different numbers of heads are chosen.
        """
        counts = Counter(each.layer.layer for each in self.maps)
        if len({*counts.values()}) > 1:
            raise AttnvizError(
                "the layers have different numbers of heads here: their weights make no one tensor",
                f'take those of one head: ["{self.maps[0].name}"].weights',
            )
        return (len(counts), len(self.maps) // len(counts), *self.maps[0].shape)

    @property
    def weights(self) -> Float[Tensor, "layer head query key"]:
        """The numbers of all maps as one tensor, after all options; refuses what `shape` refuses,
        and a tensor that does not fit in memory."""
        shape = self.shape
        refuse_too_little_memory(
            prod(shape) * NUMBER_BYTES, "the weights of all heads as one tensor"
        )
        return torch.stack([each.weights for each in self.maps]).reshape(shape)

    @cached_property
    @with_checked_arguments
    def maps(self) -> tuple[Head, ...]:
        """A map for each chosen head, or one for all of them if they are merged, after all
        options."""
        steps = ROLLOUT_STEPS if self.options.merge == "rollout" else MAP_STEPS
        return build_maps(self.trace, self.options, steps)

    @cached_property
    def head_maps(self) -> tuple[Head, ...]:
        """A map for each chosen head with its weights unchanged."""
        return build_maps(self.trace, self.options)

    @cached_property
    def weighted_maps(self) -> tuple[Head, ...]:
        """A map for each chosen head with its weights multiplied as `options.weigh` says."""
        return weigh_maps(self.head_maps, self.trace, self.options)

    @cached_property
    @with_checked_arguments
    def segments(self) -> SegmentReading:
        """What a token, by default the last one, reads of each segment of the text in each head."""
        from attnviz.analysis.inspection.segment_reading import read_segments

        options, query = self.options, None
        if options.query is not None:
            from attnviz.analysis.inspection.token_query import find_in_side

            query = find_in_side(self.head_maps[0].rows, options, options.query, "query")
        kind = "paragraphs" if options.segments is None else options.segments
        return read_segments(self.trace, self.head_maps, kind, query)

    @cached_property
    @with_checked_arguments
    def effects(self) -> Effects:
        """The change of the model's output without each chosen head; runs the model without each,
        the heads of a layer as one batch."""
        from attnviz.analysis.inspection.effects import measure_effects

        return measure_effects(self.trace, self.head_maps, self.track, self.options, self.metric)

    @cached_property
    @with_checked_arguments
    def patterns(self) -> HeadPatterns:
        """The pattern scores of each chosen head, without hidden tokens, of words if the options
        say so. They are computed from the weights as `weigh` multiplies them, except by
        gradients."""
        visible_maps = hide_tokens(self.share_maps, self.trace, self.options)
        return find_patterns(merge_into_groups(visible_maps, self.trace, self.options))

    @cached_property
    def share_maps(self) -> tuple[Head, ...]:
        """The maps with weights multiplied as `weigh` says; for gradients, which are not shares of
        a row, the unchanged ones."""
        return self.head_maps if self.options.weigh == "gradient" else self.weighted_maps

    @cached_property
    def token_maps(self) -> tuple[Head, ...]:
        """The maps before any tokens are hidden or combined into words: the rollout, or one map per
        head."""
        if self.options.merge == "rollout":
            return roll_out_maps(self.head_maps, self.trace, self.options)
        return self.share_maps


@with_checked_settings(settings_refused, model=MINILM)
def inspect(
    text: str | Path | Trace,
    settings: Settings | None = None,
    *,
    metric: Metric | None = None,
    **changes: Unpack[InspectKeywords],
) -> Inspection:
    """Return the heads of a model on a sentence: `inspect("I am learning", layer=4, head=7)`

    `text` is a string, the Path of a file with it, or a Trace. Keywords replace fields of the
    settings (`model="minilm"`, which is the default) and of `InspectOptions`; `model` may be a
    loaded model of transformers, with its `tokenizer`. Several heads are a list, a slice or names:
    `layer=[4, 5]`, `head="L5H11"`; `heads=[1, 11]` is `head=[1, 11]`. Heads are ranked by lift: the
    weight minus the mean weight that other tokens give the same key; `rank="weight"` ranks them by
    weight alone. `metric` is a function from what the model returns for the text to a number, by
    whose change `by="effect"` ranks heads: `metric=lambda outputs: outputs.logits[0, -1, 5]`; it
    needs `by="effect"`, and refuses two answers beside it. For a Trace from a file, `model` and
    `trust_remote_code` are those it was made with, as a file is not trusted to name them.

    >>> from attnviz import inspect
    >>> story = "The animal was tired because it slept"
    >>> inspect(story, source="it", to="animal").view().headline.split(";")[1]
    ' the other tokens give "animal" 13\\xa0%'
    """
    settings_changes: dict[str, Any] = {**changes}
    options = {
        name: settings_changes.pop(name)
        for name in INSPECT_OPTION_NAMES
        if name in settings_changes
    }
    for plural, name in (("layers", "layer"), ("heads", "head")):
        if plural in settings_changes and not isinstance(settings_changes[plural], int):
            options[name] = settings_changes.pop(plural)
    slices = {name: options[name] for name in SLICED if isinstance(options.get(name), slice)}
    looking = replace_choices(InspectOptions(), options | dict.fromkeys(slices))
    refuse_odd_metric(metric, looking)
    in_memory, settings_changes = take_model_in_memory(settings_changes)
    chosen_settings = replace_choices(settings or Settings(model=MINILM), settings_changes)
    if isinstance(text, Trace):
        traced = with_given_model(text, in_memory, settings_changes)
    else:
        source = source_from_text(text, chosen_settings, in_memory=in_memory)
        from attnviz.analysis.inspection.token_query import checking_words_of

        with checking_words_of(looking):
            traced = trace_source(source, kept_layers=looking.kept_layers)
    counts = {"layer": traced.layers[-1].layer + 1, "head": traced.n_heads}
    numbers = {name: numbers_in_slice(name, counts[name], slices[name]) for name in slices}
    looking = replace_choices(looking, numbers)
    inspection = Inspection(trace=traced, options=looking, metric=metric)
    inspection.refuse_impossible()
    return inspection
