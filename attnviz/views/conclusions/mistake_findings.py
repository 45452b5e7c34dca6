"""Sentences about mistakes in a mask or softmax: the symptoms that each shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import band_quantiles, measure_weights
from attnviz.analysis.seeds import MISTAKE_ERROR, Repeats, has_random_weights
from attnviz.attention.mistakes import MISTAKES, SoftmaxAxis
from attnviz.views.conclusions.findings import MIN_SEEDS_TO_CONCLUDE, ONE_DRAW_OPENING
from attnviz.views.conclusions.sharpness_findings import reader_text
from attnviz.views.measure_tables import mean_measures
from attnviz.wording.words import and_list

MIN_VISIBLE_EFFECT = 1e-4  # smaller effects do not count as a symptom
NUMBER_WORDS = {1: "One", 2: "Two", 3: "Three"}
MAX_SUM_ERROR = 0.01  # of a sum of weights in half precision

SeedRange = tuple[float, float, float]  # minimum, median, maximum over seeds


@dataclass(frozen=True)
class Flaw:
    """One mistake with the strength of each symptom: smallest, median and largest over seeds.

    For the single comparison that is shown, all three numbers are the same. `masked_weight` is the
    weight of masked keys, `row_error` how far row sums are from 1, `weight_error` the largest
    difference from correct weights.
    """

    name: str
    masked_weight: SeedRange
    row_error: SeedRange
    weight_error: SeedRange
    rounding: float = 0.0  # error of a row sum that rounding alone may cause

    @property
    def leaks(self) -> bool:
        """Whether masked keys get weight in every seed."""
        return self.masked_weight[0] > MIN_VISIBLE_EFFECT

    @property
    def breaks(self) -> bool:
        """Whether row sums differ from 1 in every seed, by more than rounding explains."""
        return self.row_error[0] > MIN_VISIBLE_EFFECT + self.rounding

    @property
    def reshapes(self) -> bool:
        """Whether weights are wrong in every seed while nothing leaks and row sums are right."""
        hides = self.masked_weight[2] <= MIN_VISIBLE_EFFECT
        return hides and self.row_error[2] <= MIN_VISIBLE_EFFECT + self.rounding and self.differs

    @property
    def is_without_effect(self) -> bool:
        """Whether no seed shows any symptom: no leak, row sums of 1 and correct weights."""
        effect = max(self.row_error[2], self.weight_error[2])
        hides = self.masked_weight[2] <= MIN_VISIBLE_EFFECT
        return hides and effect <= MIN_VISIBLE_EFFECT + self.rounding

    @property
    def differs(self) -> bool:
        """Whether weights differ from correct ones in every seed, beyond what rounding explains."""
        return self.weight_error[0] > MIN_VISIBLE_EFFECT + self.rounding


@dataclass(frozen=True)
class Symptom:
    """A condition on a mistake, with its sentence for several rows and for a single row."""

    holds: Callable[[Flaw], bool]
    rows_text: str
    one_row_text: str = ""
    with_weight: bool = False  # whether to add the weight of masked keys to each name


SYMPTOMS = (
    Symptom(lambda flaw: flaw.leaks, "hidden tokens get weight in {}", with_weight=True),
    Symptom(
        lambda flaw: flaw.breaks, "rows do not sum to 1 in {}", "the row does not sum to 1 in {}"
    ),
    Symptom(
        lambda flaw: flaw.reshapes,
        "{} can only be told by the shape of the rows",
        "{} can only be told by the shape of the row",
    ),
    Symptom(lambda flaw: flaw.is_without_effect, "{} cannot be told from the correct result"),
)
UNCERTAIN_SYMPTOMS = (  # of mistakes that have none of the above
    Symptom(lambda flaw: flaw.differs, "the symptoms of {} differ between seeds"),
    Symptom(lambda flaw: not flaw.differs, "not every seed tells {} from the correct result"),
)


def mistakes_sentence(comparison: Comparison, repeats: Repeats | None) -> str:
    """Return which mistakes leak, break row sums, change only the shape of rows, or have no effect.

    With at least 10 seeds in `repeats` it is about all of them, else about the weights shown.
    """
    opening = ONE_DRAW_OPENING if has_random_weights(comparison) else "Here"
    if repeats is not None and _enough_repeats(repeats):
        opening = f"Over {len(repeats.seeds):,} seeds"
    is_one_row = comparison.query is not None
    row_text = f", in the row of {reader_text(comparison)}" if is_one_row else ""
    return f"{opening}{row_text}, {'; '.join(_symptom_texts(comparison, repeats))}."


def mistakes_title(comparison: Comparison, repeats: Repeats | None) -> str:
    """Return how many mistakes let hidden tokens through; without any, the first group of symptoms
    of `mistakes_sentence` alone.
    """
    if leaks := sum(flaw.leaks for flaw in _flaws(comparison, repeats)):
        verb = "mistake lets" if leaks == 1 else "mistakes let"
        return f"{NUMBER_WORDS.get(leaks, leaks)} common {verb} hidden tokens through"
    worst = _symptom_texts(comparison, repeats)[0]
    return f"{worst[:1].upper()}{worst[1:]}"


def _flaws(comparison: Comparison, repeats: Repeats | None) -> list[Flaw]:
    """Return the mistakes, over at least 10 seeds in `repeats`, else in the weights shown."""
    enough_repeats = _enough_repeats(repeats)
    return [
        _flaw_over_seeds(alternative.name, index, enough_repeats)
        if enough_repeats
        else _flaw_as_shown(comparison, alternative)
        for index, alternative in enumerate(comparison.alternatives)
        if alternative.mistake
    ]


def _symptom_texts(comparison: Comparison, repeats: Repeats | None) -> list[str]:
    """Return the text of each symptom with the mistakes that have it, the worst first."""
    flaws, is_one_row = _flaws(comparison, repeats), comparison.query is not None
    return list(_grouped_symptom_texts(flaws, is_one_row=is_one_row))


def _enough_repeats(repeats: Repeats | None) -> Repeats | None:
    return repeats if repeats is not None and len(repeats.seeds) >= MIN_SEEDS_TO_CONCLUDE else None


def mistake_notes(comparison: Comparison) -> list[str]:
    """Return a note per mistake in the comparison: what is done wrong.

    The effect is mentioned only if all its symptoms show in these weights.
    """
    return [
        f"✗ {alternative.name} is a mistake: {_mistake_effect(comparison, alternative)}"
        for alternative in comparison.alternatives
        if alternative.mistake
    ]


def _mistake_effect(comparison: Comparison, alternative: Alternative) -> str:
    """Return the mistake with its effect if all its symptoms show here, else its cause."""
    mistake, flaw = MISTAKES[alternative.name], _flaw_as_shown(comparison, alternative)
    visible_effects = {
        "leaks": flaw.leaks,
        "breaks": flaw.breaks and _sums_to_one(alternative, mistake.softmax_axis),
        "flattens": flaw.differs and _flattens(comparison, alternative),
    }
    are_visible = all(visible_effects[symptom] for symptom in mistake.symptoms)
    return mistake.about if are_visible else mistake.cause


def _sums_to_one(alternative: Alternative, over: SoftmaxAxis) -> bool:
    """Return whether weights sum to 1 along the axis that the mistaken softmax ran over.

    For 'row' it is always true; `over` may also be 'column' or the whole matrix.
    """
    if over == "row":
        return True
    sums = alternative.weights.double().sum(-2 if over == "column" else (-2, -1))
    return float((sums - 1).abs().max()) < MAX_SUM_ERROR


def _flattens(comparison: Comparison, alternative: Alternative) -> bool:
    """Return whether the shown rows have a higher mean entropy than the correct ones."""
    rows = comparison.rows
    visible = alternative.visible[..., rows, :]
    entropy, correct_entropy = (
        float(measure_weights(weights[:, rows], visible, None).entropy.mean())
        for weights in (alternative.weights, alternative.correct_weights)
    )
    return entropy > correct_entropy


def _grouped_symptom_texts(flaws: Sequence[Flaw], *, is_one_row: bool) -> Iterator[str]:
    """Yield each symptom that occurs, with the names of all mistakes that have it.

    Mistakes with no certain symptom follow under those that not every seed shows.
    """
    uncertain_flaws = [flaw for flaw in flaws if not any(each.holds(flaw) for each in SYMPTOMS)]
    for table, flaw_group in ((SYMPTOMS, flaws), (UNCERTAIN_SYMPTOMS, uncertain_flaws)):
        for symptom in table:
            names = [
                f"{flaw.name} ({flaw.masked_weight[1]:.2g})" if symptom.with_weight else flaw.name
                for flaw in flaw_group
                if symptom.holds(flaw)
            ]
            if names:
                text = (is_one_row and symptom.one_row_text) or symptom.rows_text
                yield text.format(and_list(names))


def _flaw_over_seeds(name: str, index: int, repeats: Repeats) -> Flaw:
    """Return the strength of a mistake's symptoms over all seeds; `index` is its alternative's."""
    ranges: list[SeedRange] = []
    for measure in ("hidden", "row_error", MISTAKE_ERROR):
        numbers = repeats.by_measure[measure][index]
        ranges.append((float(numbers.min()), band_quantiles(numbers)[1], float(numbers.max())))
    hidden, row_error, from_right = ranges
    return Flaw(name, hidden, row_error, from_right)


def _flaw_as_shown(comparison: Comparison, alternative: Alternative) -> Flaw:
    """Return the strength of a mistake's symptoms in the weights shown, with rounding error."""
    measures = comparison.measures[comparison.alternatives.index(alternative)]
    mean = mean_measures(comparison, measures)
    amounts = (mean["hidden"], mean["row_error"], alternative.largest_error(comparison.rows))
    hidden, row_error, from_right = ((number,) * 3 for number in amounts)
    rounding = torch.finfo(alternative.weights.dtype).eps
    return Flaw(alternative.name, hidden, row_error, from_right, rounding=rounding)
