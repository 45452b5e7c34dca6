"""An Inspection: the heads of a model on a sentence, as somebody wants to see them."""

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

if TYPE_CHECKING:
    from attnviz.analysis.inspection.effects import Effects, HeadTracker

MAP_STEPS: tuple[MapStep, ...] = (weigh_maps, hide_tokens, merge_into_words, merge_maps)
ROLLOUT_STEPS: tuple[MapStep, ...] = (
    roll_out_maps,
    hide_tokens,
    merge_into_words,
)  # which needs all that a layer reads


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inspection(Showable):
    """A Trace, and what is wanted of it.

    >>> from attnviz import inspect, trace
    >>> found = inspect(trace("I am learning", variant="multi-head"), head=1)
    >>> [each.name for each in found.maps]
    ['L0H1']
    """

    trace: Trace
    looking: InspectOptions
    track: HeadTracker = iter  # whoever waits may see how far it has come

    @cached_property
    def maps(self) -> tuple[Map, ...]:
        """What is looked at: a map for each head that is asked for, or for several together."""
        steps = ROLLOUT_STEPS if self.looking.merge == "rollout" else MAP_STEPS
        return build_maps(self.trace, self.looking, steps)

    @cached_property
    def plain(self) -> tuple[Map, ...]:
        """The heads that are asked for, as they are."""
        return build_maps(self.trace, self.looking)

    @cached_property
    def weighed(self) -> tuple[Map, ...]:
        """The same, each weight weighed by what is asked for."""
        return weigh_maps(self.plain, self.trace, self.looking)

    @cached_property
    def effects(self) -> Effects:
        """What each of these heads changes of what the model comes to: it is run without each."""
        from attnviz.analysis.inspection.effects import measure_effects

        return measure_effects(self.trace, self.plain, self.track)

    @cached_property
    def patterns(self) -> HeadPatterns:
        """What each of these heads does, by what is shown of it."""
        visible_maps = hide_tokens(self.divided, self.trace, self.looking)
        return find_patterns(merge_into_words(visible_maps, self.trace, self.looking))

    @cached_property
    def divided(self) -> tuple[Map, ...]:
        """The heads by what there are shares of: gradients, which may be below 0, have none."""
        return self.plain if self.looking.weigh == "gradient" else self.weighed

    @cached_property
    def whole(self) -> tuple[Map, ...]:
        """What tokens are left out of."""
        if self.looking.merge == "rollout":
            return roll_out_maps(self.plain, self.trace, self.looking)
        return self.divided


def inspect(text: str | Trace, settings: Settings | None = None, **changes: Any) -> Inspection:
    """The heads of a trained model on a sentence: `inspect("I am learning", layer=4, head=7)`

    `changes` replace fields of the settings (`model="minilm"`) and of how it is looked at. Heads
    are ranked by lift: the weight minus the mean weight that other tokens give the same key;
    `rank="weight"` ranks them by weight alone. Of a Trace `model` and `trust_remote_code` name the
    model that made it again, which a file may not.

    >>> from attnviz import inspect
    >>> story = "The animal was tired because it slept"
    >>> inspect(story, source="it", to="animal").view().headline
    'In L4H4, "it" gives "animal" 49\\xa0% of its attention (other tokens: 13\\xa0%)'
    """
    looking = replace_choices(
        InspectOptions(),
        {name: value for name, value in changes.items() if name in INSPECT_OPTION_NAMES},
    )
    setting_changes = {
        name: value for name, value in changes.items() if name not in INSPECT_OPTION_NAMES
    }
    chosen_settings = replace_choices(
        settings or Settings(model=MINILM), setting_changes, other_names=INSPECT_OPTION_NAMES
    )
    if isinstance(text, Trace):
        return Inspection(trace=with_named_model(text, **setting_changes), looking=looking)
    return Inspection(trace=trace(text, chosen_settings, kept=looking.layers), looking=looking)
