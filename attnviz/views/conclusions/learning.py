"""What it comes to when a task is learned in several ways: who learns sooner, as far as is known.

Each kind of sentence is a table of findings: when something may be said, and what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.learning import Learning, OfSeeds, Way
from attnviz.analysis.measures import BAND
from attnviz.attention.variants import VARIANTS
from attnviz.traces.settings import chosen_variant, head_width
from attnviz.views.conclusions.claims import FEWEST_SEEDS, Amount, Finding, Pair, otherwise, said
from attnviz.wording.numbers import exact_text, percent, significant_text
from attnviz.wording.printable import PERCENT
from attnviz.wording.words import counted, listed, sentence

LOSS = Amount(significant_text, 2)
SPREAD = Amount(significant_text, 2)

CALLED: dict[str, Callable[[str], str]] = {  # a way, in tables and beside its curve
    "dim": lambda value: f"width {value}",
    "heads": lambda value: counted(int(value), "head"),
    "layers": lambda value: counted(int(value), "layer"),
    "norm": lambda value: "no norm" if value == "none" else f"{value}-norm",
    "positions": lambda value: "no positions" if value == "none" else value,
}
PUT: dict[str, Callable[[str], str]] = {  # and in a sentence
    "dim": lambda value: f"at width {value}",
    "norm": lambda value: "without a norm" if value == "none" else f"with {value}-norm",
    "positions": lambda value: (
        "without positions" if value == "none" else f"with {value} positions"
    ),
    "variant": lambda value: f"with {value} attention",
    "scale": lambda value: value,
}


def called(by: str, name: str) -> str:
    """
    >>> called("heads", "1"), called("positions", "rotary"), called("norm", "pre")
    ('1 head', 'rotary', 'pre-norm')
    """
    return CALLED.get(by, str)(name)


def put(by: str, name: str) -> str:
    """
    >>> put("heads", "2"), put("positions", "none"), put("scale", "unscaled")
    ('with 2 heads', 'without positions', 'unscaled')
    """
    return PUT[by](name) if by in PUT else f"with {called(by, name)}"


@dataclass(frozen=True, eq=False)
class Course:
    """One way, and how it went."""

    learning: Learning
    way: Way

    @property
    def put(self) -> str:
        return put(self.learning.by, self.way.name)

    @cached_property
    def reached(self) -> OfSeeds:
        """After how many steps each seed has learned it; ∞: it never has."""
        return self.learning.reached(self.way)

    @cached_property
    def counted(self) -> Tensor:
        """The same, where a seed that never learned counts as one that would need one step more."""
        return torch.from_numpy(np.minimum(self.reached, self.learning.last + 1))

    @property
    def there(self) -> int:
        """In how many seeds it was learned."""
        return int(np.isfinite(self.reached).sum())

    @property
    def middle(self) -> float:
        """The median number of steps; ∞ where half of the seeds never learned it."""
        return float(np.median(self.reached))

    @property
    def needs(self) -> str:
        """`after 16 steps (12–19 in 9 of 10)`; or in how many seeds it was learned at all."""
        seeds = len(self.reached)
        if self.there < seeds:
            whose = f"in {self.there or 'none'} of {seeds:,} seeds"
            return f"{whose} within {counted(self.learning.last, 'step')}"
        low, high = (steps_at(self.reached, share) for share in BAND)
        sure = low < high and seeds >= FEWEST_SEEDS
        inside = int(((self.reached >= low) & (self.reached <= high)).sum())
        band = f" ({low:,.0f}–{high:,.0f} in {inside:,} of {seeds:,})"
        return f"{self.in_short}{band if sure else ''}"

    @property
    def in_short(self) -> str:
        """The same without a band; of one seed it says nothing of seeds."""
        if self.there == len(self.reached):
            whole = self.middle.is_integer()
            return f"after {counted(int(self.middle) if whole else self.middle, 'step')}"
        if len(self.reached) == 1:
            return f"not within {counted(self.learning.last, 'step')}"
        return self.needs

    @property
    def last_loss(self) -> Tensor:
        return torch.from_numpy(self.way.loss[-1])


def steps_at(reached: OfSeeds, share: float) -> float:
    """The number of steps after which this share of the seeds has learned it: one that occurs."""
    return float(np.quantile(reached, share, method="inverted_cdf"))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What is known of all ways."""

    learning: Learning

    @cached_property
    def courses(self) -> list[Course]:
        return [Course(self.learning, way) for way in self.learning.ways]

    @property
    def seeds(self) -> int:
        return len(self.learning.seeds)

    @property
    def right(self) -> str:
        """`99.9 % of the letters are right`; `every letter is right`"""
        until, asked = self.learning.until, self.learning.task.asked
        return right_text(until, asked)

    @property
    def over(self) -> str:
        return f"Over {self.seeds:,} seeds"

    @cached_property
    def apart(self) -> tuple[Course, Course] | None:
        """Who learned sooner than whom in 9 of 10 seeds: the two that are furthest apart."""
        pairs = [
            (slow.counted.median().item() - soon.counted.median().item(), soon, slow)
            for soon, slow in permutations(self.courses, 2)
            if Pair(soon.counted, slow.counted).direction > 0 and soon.middle < slow.middle
        ]
        return max(pairs, key=lambda pair: pair[0])[1:] if pairs else None

    @property
    def each_in_short(self) -> str:
        return "; ".join(f"{course.put}, {course.in_short}" for course in self.courses)

    @property
    def each(self) -> str:
        """Of each way what it needs."""
        return "; ".join(f"{course.put}, {course.needs}" for course in self.courses)


def right_text(share: float, asked: str) -> str:
    """
    >>> right_text(0.999, "letter"), right_text(1.0, "verb")
    ('99.9\\xa0% of the letters are right', 'every verb is right')
    """
    if share >= 1:
        return f"every {asked} is right"
    return f"{exact_text(float(f'{100 * share:.10g}'))}{PERCENT} of the {asked}s are right"


def on_learning(learning: Learning) -> str:
    """Who learned sooner, if anybody did."""
    return said(FINDINGS, Outcome(learning))


def in_short(learning: Learning) -> str:
    """The same in as few words as stand over a picture."""
    return said(IN_SHORT, Outcome(learning))


def told_besides(learning: Learning) -> list[str]:
    """What else there is to say, before it and after it."""
    outcome = Outcome(learning)
    return [
        each for each in (_never(outcome), _losses(outcome), _lost(outcome), _seen(outcome)) if each
    ]


def _in_one_seed(outcome: Outcome) -> str:
    return f"With this one seed, {outcome.right}: {outcome.each_in_short}."


def _in_few_seeds(outcome: Outcome) -> str:
    medians = any(course.there == outcome.seeds for course in outcome.courses)
    rest = f"{'Steps are medians; m' if medians else 'M'}ore seeds are needed to compare them."
    return f"{outcome.over}, {outcome.right}: {outcome.each}. {rest}"


def _in_none(outcome: Outcome) -> str:
    last = counted(outcome.learning.last, "step")
    got = (
        f"{percent(float(np.median(each.way.accuracy[-1])))} {each.put}" for each in outcome.courses
    )
    start = f"{outcome.over}, none learns it within {last} (until {outcome.right})."
    return f"{start} Median accuracy then: {listed([*got])}."


def _apart(outcome: Outcome) -> str:
    assert outcome.apart is not None
    soon, slow = outcome.apart
    told = f"{soon.put}, {outcome.right} {soon.needs}; {slow.put}, {slow.needs}"
    return f"{outcome.over}: {told}."


def _apart_in_short(outcome: Outcome) -> str:
    assert outcome.apart is not None
    soon, slow = outcome.apart
    return (
        f"{outcome.over}: {soon.put}, {outcome.right} {soon.in_short}; {slow.put}, {slow.in_short}."
    )


def _undecided_in_short(outcome: Outcome) -> str:
    return f"{_no_way_is_faster(outcome)}: {outcome.each_in_short}."


def _undecided(outcome: Outcome) -> str:
    return f"{_no_way_is_faster(outcome)}: {outcome.each}."


def _no_way_is_faster(outcome: Outcome) -> str:
    right = f"{outcome.right[:1].upper()}{outcome.right[1:]}"
    return f"{outcome.over}, none is clearly faster. {right}"


def _never(outcome: Outcome) -> str:
    """The ways in which no seed has learned it, where others have and they are not named yet."""
    named = outcome.apart or ()
    never = [each for each in outcome.courses if not each.there]
    rest = [each.put for each in never if each not in named]
    if not rest or len(never) == len(outcome.courses) or outcome.seeds < FEWEST_SEEDS:
        return ""
    either = " either" if len(rest) < len(never) else ""
    within = f"within {counted(outcome.learning.last, 'step')}"
    return f"Not learned in any of {outcome.seeds:,} seeds {within}{either}: {listed(rest)}."


def _losses(outcome: Outcome) -> str:
    """How good the two that are furthest apart are in the end."""
    if outcome.apart is None or outcome.seeds < FEWEST_SEEDS:
        return ""
    soon, slow = outcome.apart
    pair = Pair(slow.last_loss, soon.last_loss)
    if not bool(pair.before.isfinite().all() and pair.after.isfinite().all()):
        return ""
    if not pair.apart(LOSS):
        return ""
    before, after = pair.bands(LOSS)
    last = counted(outcome.learning.last, "step")
    return f"After {last}, the loss is {after} {soon.put}, {before} {slow.put}."


def _lost(outcome: Outcome) -> str:
    """Where a loss became no number."""
    lost = [
        f"{each.put} in {each.way.lost} of {counted(outcome.seeds, 'seed')}"
        for each in outcome.courses
        if each.way.lost
    ]
    return f"The loss did not stay finite {listed(lost)}." if lost else ""


def _seen(outcome: Outcome) -> str:
    """The ways in which what is to be predicted can be read."""
    if outcome.learning.task.vocabulary.predicts != "next":
        return ""
    seeing = [each.put for each in outcome.courses if _sees_what_follows(each.way)]
    if not seeing:
        return ""
    return (
        f"{sentence(listed(seeing)).rstrip('.')}, every word sees the next one, which is its "
        "answer."
    )


def _sees_what_follows(way: Way) -> bool:
    variant = chosen_variant(way.settings)
    return not variant.causal and variant.window != 1


ALWAYS: tuple[Finding[Outcome], ...] = (
    Finding("one seed", lambda outcome: outcome.seeds == 1, _in_one_seed),
    Finding("few seeds", lambda outcome: outcome.seeds < FEWEST_SEEDS, _in_few_seeds),
    Finding(
        "nobody learns it",
        lambda outcome: not any(each.there for each in outcome.courses),
        _in_none,
    ),
)
FINDINGS = (
    *ALWAYS,
    Finding("sooner", lambda outcome: outcome.apart is not None, _apart),
    Finding("undecided", otherwise, _undecided),
)
IN_SHORT = (
    *ALWAYS,
    Finding("sooner", lambda outcome: outcome.apart is not None, _apart_in_short),
    Finding("undecided", otherwise, _undecided_in_short),
)


def on_beginning(learning: Learning) -> str:
    """What scaling does to the scores before anything is learned."""
    if learning.by != "scale" or not VARIANTS[learning.settings.variant].projected:
        return ""
    vectors, scores, gradients = [], [], []
    for way in learning.ways:
        told = put(learning.by, way.name)
        vectors += [_median(way.beginning.queries), _median(way.beginning.keys)]
        scores.append(f"{SPREAD(_median(way.beginning.scores))} {told}")
        gradients.append(f"{SPREAD(_median(way.beginning.gradient))} {told}")
    spread = listed([*dict.fromkeys(SPREAD(each) for each in sorted(vectors))])
    width = learning.ways[0].width
    return (
        f"Before any step, the {width} numbers of a query, and those of a key, have a spread of "
        f"{spread}; scores have a spread of {listed(scores)}, and the softmax passes on a "
        f"gradient of {listed(gradients)}."
    )


def on_width(learning: Learning) -> str:
    """That heads are not as wide as the task's own, where it is asked what scaling does."""
    own, width = learning.task.settings, learning.ways[0].width
    usual = head_width(own, chosen_variant(own), own.width)
    if learning.by != "scale" or width == usual:
        return ""
    return (
        f"A head is {width} wide here, but {usual} in the task's own model: scaling divides by "
        "the square root of the width."
    )


def _median(numbers: OfSeeds) -> float:
    return float(np.median(numbers))
