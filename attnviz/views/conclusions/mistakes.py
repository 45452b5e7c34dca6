"""Which mistakes show, and by what: one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.repeats import FROM_RIGHT, Repeats, left_to_chance
from attnviz.analysis.seeds import quantiles
from attnviz.views.conclusions.claims import FEWEST_SEEDS, ONE_DRAW
from attnviz.views.measures import means_of
from attnviz.wording.words import listed, sentence

VISIBLE = 1e-4  # what a mistake must change to be called one
SYMPTOMS = ("hidden", "row_error", FROM_RIGHT)

Range = tuple[float, float, float]  # the least, the middle and the most of 8 in 10 seeds


@dataclass(frozen=True)
class Flaw:
    """A mistake, and how much of each symptom it has."""

    name: str
    hidden: Range
    row_error: Range
    from_right: Range

    @property
    def leaks(self) -> bool:
        return self.hidden[0] > VISIBLE

    @property
    def breaks(self) -> bool:
        return self.row_error[0] > VISIBLE

    @property
    def reshapes(self) -> bool:
        """Whether only the shape of its rows tells it."""
        return max(self.hidden[2], self.row_error[2]) <= VISIBLE < self.from_right[0]

    @property
    def idle(self) -> bool:
        return max(self.hidden[2], self.row_error[2], self.from_right[2]) <= VISIBLE


def on_mistakes(comparison: Comparison, repeats: Repeats | None) -> str:
    """Which leak, which break the rows, which only reshape them, and which do nothing."""
    enough = repeats if repeats is not None and len(repeats.seeds) >= FEWEST_SEEDS else None
    flaws = [
        _flaw(comparison, each, place, enough)
        for place, each in enumerate(comparison.alternatives)
        if each.mistake
    ]
    told = _told(flaws)
    if enough is not None:
        return f"Over {len(enough.seeds):,} seeds, {told}."
    return f"{ONE_DRAW}, {told}." if left_to_chance(comparison) else sentence(told)


def _told(flaws: Sequence[Flaw]) -> str:
    """Each symptom, and the mistakes that have it."""
    symptoms = {
        "hidden tokens get weight in {}": [
            (each, f"{each.name} ({each.hidden[1]:.2g})") for each in flaws if each.leaks
        ],
        "rows do not sum to 1 in {}": [(each, each.name) for each in flaws if each.breaks],
        "only the shape of the rows tells {}": [
            (each, each.name) for each in flaws if each.reshapes
        ],
        "{} cannot be told from what is right": [(each, each.name) for each in flaws if each.idle],
    }
    sure = [each for found in symptoms.values() for each, _ in found]
    symptoms["not every seed tells {} from what is right"] = [
        (each, each.name) for each in flaws if each not in sure
    ]
    return "; ".join(
        symptom.format(listed([name for _, name in found]))
        for symptom, found in symptoms.items()
        if found
    )


def _flaw(comparison: Comparison, each: Alternative, place: int, repeats: Repeats | None) -> Flaw:
    """Over the seeds, or as it is shown."""
    if repeats is not None:
        return Flaw(each.name, *(quantiles(repeats.measured[name][place]) for name in SYMPTOMS))
    mean = means_of(comparison, comparison.measures[place])
    shown = (mean["hidden"], mean["row_error"], each.from_what_is_right(comparison.query))
    return Flaw(each.name, *((number,) * 3 for number in shown))
