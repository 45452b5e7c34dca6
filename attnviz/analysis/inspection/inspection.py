"""An Inspection: the heads of a model on a sentence, with the options of how to show them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attnviz.analysis.inspection.inspect_options import INSPECT_OPTION_NAMES, InspectOptions
from attnviz.analysis.inspection.map_regrouping import hide_tokens, merge_into_words
from attnviz.analysis.inspection.maps import Map, MapStep, build_maps, merge_maps, roll_out_maps
from attnviz.analysis.inspection.patterns import HeadPatterns, find_patterns
from attnviz.analysis.inspection.weighted_maps import weigh_maps
from attnviz.traces.from_text import trace
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.model_location import MINILM
from attnviz.traces.trained.tracing import with_named_model
from attnviz.wording.keywords import replace_choices
from attnviz.wording.old_names import with_old_names

if TYPE_CHECKING:
    from attnviz.analysis.inspection.effects import Effects, HeadTracker

MAP_STEPS: tuple[MapStep, ...] = (weigh_maps, hide_tokens, merge_into_words, merge_maps)
# Rollout comes first, as it needs every token.
ROLLOUT_STEPS: tuple[MapStep, ...] = (roll_out_maps, hide_tokens, merge_into_words)


@with_old_names
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inspection(Showable):
    """A Trace with options that choose heads and how their weights are shown.

    >>> from attnviz import inspect, trace
    >>> found = inspect(trace("I am learning", variant="multi-head"), head=1)
    >>> [head_map.name for head_map in found.maps]
    ['L0H1']
    """

    trace: Trace
    options: InspectOptions
    track: HeadTracker = iter  # reports progress over heads

    @cached_property
    def maps(self) -> tuple[Map, ...]:
        """A map for each chosen head, or one for all of them if they are merged, after all
        options."""
        steps = ROLLOUT_STEPS if self.options.merge == "rollout" else MAP_STEPS
        return build_maps(self.trace, self.options, steps)

    @cached_property
    def head_maps(self) -> tuple[Map, ...]:
        """A map for each chosen head with its weights unchanged."""
        return build_maps(self.trace, self.options)

    @cached_property
    def weighted_maps(self) -> tuple[Map, ...]:
        """A map for each chosen head with its weights multiplied as `options.weigh` says."""
        return weigh_maps(self.head_maps, self.trace, self.options)

    @cached_property
    def effects(self) -> Effects:
        """The change of the model's output without each chosen head; runs the model once per
        head."""
        from attnviz.analysis.inspection.effects import measure_effects

        return measure_effects(self.trace, self.head_maps, self.track)

    @cached_property
    def patterns(self) -> HeadPatterns:
        """The pattern scores of each chosen head, without hidden tokens, of words if the options
        say so. They are computed from the weights as `weigh` multiplies them, except by
        gradients."""
        visible_maps = hide_tokens(self.share_maps, self.trace, self.options)
        return find_patterns(merge_into_words(visible_maps, self.trace, self.options))

    @cached_property
    def share_maps(self) -> tuple[Map, ...]:
        """The maps with weights multiplied as `weigh` says; for gradients, which are not shares of
        a row, the unchanged ones."""
        return self.head_maps if self.options.weigh == "gradient" else self.weighted_maps

    @cached_property
    def token_maps(self) -> tuple[Map, ...]:
        """The maps before any tokens are hidden or combined into words: the rollout, or one map per
        head."""
        if self.options.merge == "rollout":
            return roll_out_maps(self.head_maps, self.trace, self.options)
        return self.share_maps


def inspect(text: str | Trace, settings: Settings | None = None, **changes: Any) -> Inspection:
    """Return the heads of a model on a sentence: `inspect("I am learning", layer=4, head=7)`

    `changes` replace fields of the settings (`model="minilm"`, which is the default) and of
    `InspectOptions`. Heads are ranked by lift: the weight minus the mean weight that other tokens
    give the same key; `rank="weight"` ranks them by weight alone. For a Trace from a file, `model`
    and `trust_remote_code` name the model it was made with, as a file is not trusted to do so.

    >>> from attnviz import inspect
    >>> story = "The animal was tired because it slept"
    >>> inspect(story, source="it", to="animal").view().headline
    'In L4H4, "it" gives "animal" 49\\xa0% of its attention (other tokens: 13\\xa0%)'
    """
    options = {name: changes.pop(name) for name in INSPECT_OPTION_NAMES if name in changes}
    looking = replace_choices(InspectOptions(), options)
    chosen_settings = replace_choices(
        settings or Settings(model=MINILM), changes, other_names=INSPECT_OPTION_NAMES
    )
    if isinstance(text, Trace):
        return Inspection(trace=with_named_model(text, **changes), options=looking)
    return Inspection(trace=trace(text, chosen_settings, kept=looking.layers), options=looking)
