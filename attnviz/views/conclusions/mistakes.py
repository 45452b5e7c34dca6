"""Which mistakes show, and by what: a table of symptoms, and the mistakes that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import measure, quantiles
from attnviz.analysis.seeds import FROM_RIGHT, Repeats, left_to_chance
from attnviz.attention.mistakes import MISTAKES, Over
from attnviz.views.conclusions.claims import FEWEST_SEEDS, ONE_DRAW, Seeds
from attnviz.views.conclusions.sharpness import reader
from attnviz.views.measures import means_of
from attnviz.wording.words import listed

VISIBLE = 1e-4  # what a mistake must change to be called one
SUMS = 0.01  # from 1, that a sum may be in half the digits

Range = tuple[float, float, float]  # the least, the middle and the most of all seeds


@dataclass(frozen=True)
class Flaw:
    """A mistake, and how much of each symptom it has: in every seed, or as it is shown."""

    name: str
    hidden: Range
    row_error: Range
    from_right: Range
    rounding: float = 0.0  # how far a row is from 1 that is only rounded

    @property
    def leaks(self) -> bool:
        return self.hidden[0] > VISIBLE

    @property
    def breaks(self) -> bool:
        return self.row_error[0] > VISIBLE + self.rounding

    @property
    def reshapes(self) -> bool:
        """Whether only the shape of its rows tells it."""
        kept = self.hidden[2] <= VISIBLE and self.row_error[2] <= VISIBLE + self.rounding
        return kept and self.tells

    @property
    def idle(self) -> bool:
        most = max(self.row_error[2], self.from_right[2])
        return self.hidden[2] <= VISIBLE and most <= VISIBLE + self.rounding

    @property
    def tells(self) -> bool:
        """Whether it differs from what is right, in every seed."""
        return self.from_right[0] > VISIBLE + self.rounding


@dataclass(frozen=True)
class Symptom:
    """What may be said of the mistakes that have it; of all rows, and of one that stands alone."""

    holds: Callable[[Flaw], bool]
    of_rows: str
    of_one: str = ""
    with_weight: bool = False  # of the mistakes, how much is hidden and gets weight


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
    Symptom(lambda flaw: flaw.idle, "{} cannot be told from the correct result"),
)
WAVERING = (  # where no other can be said
    Symptom(lambda flaw: flaw.tells, "the symptoms of {} differ between seeds"),
    Symptom(lambda flaw: not flaw.tells, "not every seed tells {} from the correct result"),
)


def on_mistakes(comparison: Comparison, repeats: Repeats | None) -> str:
    """Which leak, which break the rows, which only reshape them, and which do nothing."""
    enough, alone = _enough(repeats), comparison.query is not None
    told = "; ".join(_symptoms(comparison, repeats))
    row = f", in the row of {reader(comparison)}" if alone else ""
    return f"{_over(comparison, enough)}{row}, {told}."


def title_on_mistakes(comparison: Comparison, repeats: Repeats | None) -> str:
    """The worst of it, as a title."""
    worst = next(iter(_symptoms(comparison, repeats)))
    return f"{worst[:1].upper()}{worst[1:]}"


def _symptoms(comparison: Comparison, repeats: Repeats | None) -> list[str]:
    enough = _enough(repeats)
    flaws = [
        _of_seeds(each.name, place, enough) if enough else _as_shown(comparison, each)
        for place, each in enumerate(comparison.alternatives)
        if each.mistake
    ]
    return list(_told(flaws, alone=comparison.query is not None))


def _enough(repeats: Repeats | None) -> Repeats | None:
    return repeats if repeats is not None and len(repeats.seeds) >= FEWEST_SEEDS else None


def _over(comparison: Comparison, repeats: Repeats | None) -> str:
    if repeats is not None:
        return f"Over {len(repeats.seeds):,} seeds"
    return ONE_DRAW if left_to_chance(comparison) else "Here"


def mistakes_told(comparison: Comparison) -> list[str]:
    """Each mistake: what is done, and what comes of it where that is seen."""
    return [
        f"✗ {each.name} is a mistake: {_what_is_seen(comparison, each)}"
        for each in comparison.alternatives
        if each.mistake
    ]


def _what_is_seen(comparison: Comparison, each: Alternative) -> str:
    mistake, flaw = MISTAKES[each.name], _as_shown(comparison, each)
    seen = {
        "leaks": flaw.leaks,
        "breaks": flaw.breaks and _sums_to_one(each, mistake.over),
        "flattens": flaw.tells and _flattens(comparison, each),
    }
    return mistake.about if all(seen[symptom] for symptom in mistake.shows) else mistake.cause


def _sums_to_one(each: Alternative, over: Over) -> bool:
    """Whether what the mistake takes for a row sums to 1; nothing does of which all is hidden."""
    if over == "row":
        return True
    sums = each.weights.double().sum(-2 if over == "column" else (-2, -1))
    return float((sums - 1).abs().max()) < SUMS


def _flattens(comparison: Comparison, each: Alternative) -> bool:
    """Whether the rows that are shown are more even than they should be."""
    rows = comparison.rows
    should = measure(each.right[:, rows], each.visible[..., rows, :], None).entropy
    entropy = measure(each.weights[:, rows], each.visible[..., rows, :], None).entropy
    return float(entropy.mean()) > float(should.mean())


def _told(flaws: Sequence[Flaw], *, alone: bool) -> Iterator[str]:
    """Each symptom, and the mistakes that have it."""
    unsure = [flaw for flaw in flaws if not any(each.holds(flaw) for each in SYMPTOMS)]
    for table, among in ((SYMPTOMS, flaws), (WAVERING, unsure)):
        for symptom in table:
            names = [_named(symptom, flaw) for flaw in among if symptom.holds(flaw)]
            if names:
                words = symptom.of_one if alone and symptom.of_one else symptom.of_rows
                yield words.format(listed(names))


def _named(symptom: Symptom, flaw: Flaw) -> str:
    return f"{flaw.name} ({flaw.hidden[1]:.2g})" if symptom.with_weight else flaw.name


def _of_seeds(name: str, place: int, repeats: Repeats) -> Flaw:
    hidden, row_error, from_right = (
        _range(repeats.measured[each][place]) for each in ("hidden", "row_error", FROM_RIGHT)
    )
    return Flaw(name, hidden, row_error, from_right)


def _range(numbers: Seeds) -> Range:
    return float(numbers.min()), quantiles(numbers)[1], float(numbers.max())


def _as_shown(comparison: Comparison, each: Alternative) -> Flaw:
    mean = means_of(comparison, comparison.measures[comparison.alternatives.index(each)])
    shown = (mean["hidden"], mean["row_error"], each.from_what_is_right(comparison.rows))
    hidden, row_error, from_right = ((number,) * 3 for number in shown)
    rounding = torch.finfo(each.weights.dtype).eps
    return Flaw(each.name, hidden, row_error, from_right, rounding=rounding)
