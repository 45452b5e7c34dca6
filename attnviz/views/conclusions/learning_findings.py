"""Sentences about how a task is learned, by one training or with several settings.

About a comparison: with which setting the task takes fewer steps. About one trained model: what its
heads came to read. Each table lists findings: a condition and its sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.learning_comparison import Learning, LearningWay, NumberBySeed
from attnviz.analysis.measures import QUANTILE_BAND
from attnviz.attention.variants import VARIANTS
from attnviz.learning.training import EndReason, Learned
from attnviz.traces.settings import chosen_variant, head_width
from attnviz.views.conclusions.findings import (
    MIN_SEEDS_TO_CONCLUDE,
    Amount,
    Finding,
    Pair,
    choose_sentence,
    otherwise,
)
from attnviz.views.learned.head_roles import ReadingScores, collect_reading_scores
from attnviz.wording.numbers import exact_text, percent_text, significant_text
from attnviz.wording.printable import FIGURE_SPACE, PERCENT
from attnviz.wording.words import and_list, as_sentence, counted

LOSS_AMOUNT = Amount(significant_text, 2)
SPREAD_AMOUNT = Amount(significant_text, 2)

WAY_LABELS: dict[str, Callable[[str], str]] = {  # in tables and beside curves
    "dim": lambda value: f"width {value}",
    "heads": lambda value: counted(int(value), "head"),
    "layers": lambda value: counted(int(value), "layer"),
    "norm": lambda value: "no norm" if value == "none" else f"{value}-norm",
    "positions": lambda value: "no positions" if value == "none" else value,
}
WAY_PHRASES: dict[str, Callable[[str], str]] = {  # in sentences
    "dim": lambda value: f"at width {value}",
    "norm": lambda value: "without a norm" if value == "none" else f"with {value}-norm",
    "positions": lambda value: (
        "without positions" if value == "none" else f"with {value} positions"
    ),
    "variant": lambda value: f"with {value} attention",
    "scale": lambda value: value,
}


def way_label(by: str, name: str) -> str:
    """Return a compared setting's label in tables and curves; `by` is its aspect, as 'heads'.

    >>> way_label("heads", "1"), way_label("positions", "rotary"), way_label("norm", "pre")
    ('1 head', 'rotary', 'pre-norm')
    """
    return WAY_LABELS.get(by, str)(name)


def way_phrase(by: str, name: str) -> str:
    """Return a compared setting's phrase in a sentence; `by` is its aspect, as 'heads'.

    >>> way_phrase("heads", "2"), way_phrase("positions", "none"), way_phrase("scale", "unscaled")
    ('with 2 heads', 'without positions', 'unscaled')
    """
    return WAY_PHRASES[by](name) if by in WAY_PHRASES else f"with {way_label(by, name)}"


@dataclass(frozen=True, eq=False)
class WayCourse:
    """The training with one compared setting (`way`), and how many steps its seeds needed."""

    learning: Learning
    way: LearningWay

    @property
    def phrase(self) -> str:
        """The compared setting as a phrase in a sentence: `with 2 heads`."""
        return way_phrase(self.learning.by, self.way.name)

    @cached_property
    def steps_needed(self) -> NumberBySeed:
        """The number of steps after which each seed has learned the task; ∞ if it never does."""
        return self.learning.reached(self.way)

    @cached_property
    def finite_steps_needed(self) -> Tensor:
        """The number of steps that each seed needs; the last step plus one if it never learns."""
        return torch.from_numpy(np.minimum(self.steps_needed, self.learning.last + 1))

    @property
    def learned_seed_count(self) -> int:
        return int(np.isfinite(self.steps_needed).sum())

    @property
    def median_steps(self) -> float:
        """The median number of steps over seeds; ∞ if half of the seeds never learn the task."""
        return float(np.median(self.steps_needed))

    @property
    def steps_text(self) -> str:
        """The median `after 16 steps (12–19 in 9 of 10)`; if not all seeds learn, how many do.

        The band is left out for fewer than 10 seeds. A single seed that does not learn it gets
        `not within 300 steps`.
        """
        seeds = len(self.steps_needed)
        if self.learned_seed_count < seeds:
            seeds_text = f"in {self.learned_seed_count or 'none'} of {seeds:,} seeds"
            opening = "not" if seeds == 1 else seeds_text
            return f"{opening} within {counted(self.learning.last, 'step')}"
        low, high = (steps_at_quantile(self.steps_needed, share) for share in QUANTILE_BAND)
        has_band = low < high and seeds >= MIN_SEEDS_TO_CONCLUDE
        inside_count = int(((self.steps_needed >= low) & (self.steps_needed <= high)).sum())
        band_text = f" ({low:,.0f}–{high:,.0f} in {inside_count:,} of {seeds:,})"
        return f"{self.short_steps_text}{band_text if has_band else ''}"

    @property
    def short_steps_text(self) -> str:
        """The median alone, `after 16 steps`; if not all seeds learn the task, how many do."""
        if self.learned_seed_count < len(self.steps_needed):
            return self.steps_text
        median = self.median_steps
        return f"after {counted(int(median) if median.is_integer() else median, 'step')}"

    @property
    def last_loss(self) -> Tensor:
        return torch.from_numpy(self.way.loss[-1])


def steps_at_quantile(steps_needed: NumberBySeed, share: float) -> float:
    """Return the steps after which this share of seeds, such as 0.9, has learned the task.

    It is the number of an actual seed, never interpolated; ∞ if too few seeds learn it.
    """
    return float(np.quantile(steps_needed, share, method="inverted_cdf"))


@dataclass(frozen=True, eq=False)
class LearningFacts:
    """The numbers from which sentences about a comparison of learning are made."""

    learning: Learning
    is_title: bool = False  # which has no bands

    @cached_property
    def courses(self) -> list[WayCourse]:
        return [WayCourse(self.learning, way) for way in self.learning.ways]

    @property
    def seed_count(self) -> int:
        return len(self.learning.seeds)

    @property
    def goal_text(self) -> str:
        """The accuracy aimed at: `99.9 % of the letters are right` or `every letter is right`."""
        return accuracy_goal_text(self.learning.until, self.learning.task.answer_noun)

    @property
    def opening(self) -> str:
        return f"Over {self.seed_count:,} seeds"

    @cached_property
    def fastest_and_slowest(self) -> tuple[WayCourse, WayCourse] | None:
        """The two compared settings whose median steps differ most, the faster first.

        Only pairs count in which one is faster in 9 of 10 seeds; None if there is none, as with few
        seeds.
        """
        pairs = [
            (soon, slow)
            for soon, slow in permutations(self.courses, 2)
            if Pair(soon.finite_steps_needed, slow.finite_steps_needed).direction > 0
            and soon.median_steps < slow.median_steps
        ]

        def distance(pair: tuple[WayCourse, WayCourse]) -> float:
            soon, slow = (course.finite_steps_needed.median().item() for course in pair)
            return slow - soon

        return max(pairs, key=distance, default=None)

    def steps_text(self, course: WayCourse) -> str:
        """When one of the settings learned the task; in a title without bands."""
        return course.short_steps_text if self.is_title else course.steps_text

    @property
    def ways_text(self) -> str:
        return "; ".join(f"{each.phrase}, {self.steps_text(each)}" for each in self.courses)


def accuracy_goal_text(share: float, answer_noun: str) -> str:
    """Return the accuracy at which training ends, in words.

    >>> accuracy_goal_text(0.999, "letter"), accuracy_goal_text(1.0, "verb")
    ('99.9\xa0% of the letters are right', 'every verb is right')
    """
    if share >= 1:
        return f"every {answer_noun} is right"
    return f"{exact_text(float(f'{100 * share:.10g}'))}{PERCENT} of the {answer_noun}s are right"


def learning_sentence(learning: Learning) -> str:
    """Return with which compared setting the task is learned in fewer steps, if that is clear.

    Otherwise, or with fewer than 10 seeds, the steps of all settings are listed; if none learns the
    task, the median accuracy of each.
    """
    return choose_sentence(LEARNING_FINDINGS, LearningFacts(learning))


def learning_title(learning: Learning) -> str:
    """Return the conclusion of `learning_sentence` in fewer words, for the title of a picture."""
    return choose_sentence(LEARNING_FINDINGS, LearningFacts(learning, is_title=True))


def additional_sentences(learning: Learning) -> list[str]:
    """Return up to four more sentences: failed settings, final and infinite losses, seen answers.

    The last names settings with which a word sees its own answer. The list is empty if none
    applies.
    """
    outcome = LearningFacts(learning)
    sentences = (
        _failed_ways_sentence(outcome),
        _final_losses_sentence(outcome),
        _infinite_losses_sentence(outcome),
        _visible_answers_sentence(outcome),
    )
    return list(filter(None, sentences))


def _few_seeds_sentence(outcome: LearningFacts) -> str:
    """List the steps of each compared setting, and state that more seeds are needed."""
    shows_medians = any(way.learned_seed_count == outcome.seed_count for way in outcome.courses)
    more = "Steps are medians; more" if shows_medians else "More"
    ways_text = f"{outcome.opening}, {outcome.goal_text}: {outcome.ways_text}"
    return f"{ways_text}. {more} seeds are needed to compare them."


def _never_learned_sentence(outcome: LearningFacts) -> str:
    """State that nobody learns the task in time, with the median final accuracy of each setting."""
    steps_text = counted(outcome.learning.last, "step")
    accuracies = [
        f"{percent_text(float(np.median(course.way.accuracy[-1])))} {course.phrase}"
        for course in outcome.courses
    ]
    opening = f"{outcome.opening}, none learns it within {steps_text} (until {outcome.goal_text})."
    return f"{opening} Median accuracy then: {and_list(accuracies)}."


def _faster_way_sentence(outcome: LearningFacts) -> str:
    """Return the steps of the fastest and of the slowest compared setting."""
    assert outcome.fastest_and_slowest is not None
    soon, slow = outcome.fastest_and_slowest
    soon_text = f"{soon.phrase}, {outcome.goal_text} {outcome.steps_text(soon)}"
    return f"{outcome.opening}: {soon_text}; {slow.phrase}, {outcome.steps_text(slow)}."


def _no_faster_way_sentence(outcome: LearningFacts) -> str:
    """Return `Over 12 seeds, none is clearly faster. Every letter is right: …`."""
    goal_text = f"{outcome.goal_text[:1].upper()}{outcome.goal_text[1:]}"
    return f"{outcome.opening}, none is clearly faster. {goal_text}: {outcome.ways_text}."


def _failed_ways_sentence(outcome: LearningFacts) -> str:
    """Name the compared settings with which no seed learned the task.

    Those in `fastest_and_slowest` are left out. Empty if there are no others, if all settings
    failed, or with fewer than 10 seeds.
    """
    named_courses = outcome.fastest_and_slowest or ()
    failed_courses = [course for course in outcome.courses if not course.learned_seed_count]
    unnamed_ways = [course.phrase for course in failed_courses if course not in named_courses]
    all_failed = len(failed_courses) == len(outcome.courses)
    if not unnamed_ways or all_failed or outcome.seed_count < MIN_SEEDS_TO_CONCLUDE:
        return ""
    either = " either" if len(unnamed_ways) < len(failed_courses) else ""
    scope = f"{outcome.seed_count:,} seeds within {counted(outcome.learning.last, 'step')}{either}"
    return f"Not learned in any of {scope}: {and_list(unnamed_ways)}."


def _final_losses_sentence(outcome: LearningFacts) -> str:
    """Compare the final losses of the fastest and the slowest compared setting.

    Empty if there are no such two, with fewer than 10 seeds, if a loss is not finite, or if the
    losses do not differ clearly.
    """
    if outcome.fastest_and_slowest is None or outcome.seed_count < MIN_SEEDS_TO_CONCLUDE:
        return ""
    soon, slow = outcome.fastest_and_slowest
    pair = Pair(slow.last_loss, soon.last_loss)
    are_finite = bool(pair.before.isfinite().all() and pair.after.isfinite().all())
    if not are_finite or not pair.differs_clearly(LOSS_AMOUNT):
        return ""
    before, after = pair.format_bands(LOSS_AMOUNT)
    steps_text = counted(outcome.learning.last, "step")
    return f"After {steps_text}, the loss is {after} {soon.phrase}, {before} {slow.phrase}."


def _infinite_losses_sentence(outcome: LearningFacts) -> str:
    """Name the compared settings whose loss was not finite in some seeds; empty if none."""
    seeds = counted(outcome.seed_count, "seed")
    failures = [
        f"{course.phrase} in {course.way.diverged_seed_count} of {seeds}"
        for course in outcome.courses
        if course.way.diverged_seed_count
    ]
    return f"The loss did not stay finite {and_list(failures)}." if failures else ""


def _visible_answers_sentence(outcome: LearningFacts) -> str:
    """Name the compared settings with which a word can see the next word, which is its answer.

    Empty for tasks without next-word answers and if no setting lets a word see its answer.
    """
    if outcome.learning.task.vocabulary.predicts != "next":
        return ""
    ways = []
    for course in outcome.courses:
        variant = chosen_variant(course.way.settings)
        if not variant.causal and variant.window != 1:
            ways.append(course.phrase)
    opening = as_sentence(and_list(ways)).rstrip(".") if ways else ""
    return f"{opening}, every word sees the next one, which is its answer." if ways else ""


LEARNING_FINDINGS: tuple[Finding[LearningFacts], ...] = (
    Finding(
        "one seed",
        lambda outcome: outcome.seed_count == 1,
        lambda outcome: f"With this one seed, {outcome.goal_text}: {outcome.ways_text}.",
    ),
    Finding(
        "few seeds", lambda outcome: outcome.seed_count < MIN_SEEDS_TO_CONCLUDE, _few_seeds_sentence
    ),
    Finding(
        "nobody learns it",
        lambda outcome: not any(each.learned_seed_count for each in outcome.courses),
        _never_learned_sentence,
    ),
    Finding(
        "sooner", lambda outcome: outcome.fastest_and_slowest is not None, _faster_way_sentence
    ),
    Finding("undecided", otherwise, _no_faster_way_sentence),
)


def initial_scores_sentence(learning: Learning) -> str:
    """State the spread of queries, keys and scores, and the gradient, before the first step.

    Medians over seeds, for each scaling compared; the gradient is that of the softmax. Empty if
    anything but scaling is compared, or if queries and keys are not projected.
    """
    if learning.by != "scale" or not VARIANTS[learning.settings.variant].projected:
        return ""
    vectors, scores, gradients = [], [], []
    for way in learning.ways:
        phrase = way_phrase(learning.by, way.name)
        vectors += [_median_of_seeds(way.beginning.queries), _median_of_seeds(way.beginning.keys)]
        scores.append(f"{SPREAD_AMOUNT(_median_of_seeds(way.beginning.scores))} {phrase}")
        gradients.append(f"{SPREAD_AMOUNT(_median_of_seeds(way.beginning.gradient))} {phrase}")
    spread_text = and_list([*dict.fromkeys(SPREAD_AMOUNT(number) for number in sorted(vectors))])
    width = learning.ways[0].width
    return (
        f"Before any step, the {width} numbers of a query, and those of a key, have a spread of "
        f"{spread_text}; scores have a spread of {and_list(scores)}, and the softmax passes on a "
        f"gradient of {and_list(gradients)}."
    )


def head_width_sentence(learning: Learning) -> str:
    """State that heads are not as wide as in the task's own model, in a comparison of scaling.

    Empty if the width is the same or anything but scaling is compared.
    """
    task_settings, width = learning.task.settings, learning.ways[0].width
    task_head_width = head_width(task_settings, chosen_variant(task_settings), task_settings.width)
    if learning.by != "scale" or width == task_head_width:
        return ""
    return (
        f"A head is {width} wide here, but {task_head_width} in the task's own model: scaling "
        "divides by the square root of the width."
    )


def _median_of_seeds(numbers: NumberBySeed) -> float:
    return float(np.median(numbers))


MIN_CLEAR_SHARE = 0.5  # of a head's attention: more than on everything else together


def training_sentence(learned: Learned) -> str:
    """Return `After 310 steps, every verb is right; L1H1 reads the subject (99 %).`

    The opening is another if training was stopped, diverged or never began; the part about heads is
    left out for tasks without known readings.
    """
    last_moment = learned.moments[-1]
    opening = _ending_text(learned.ended, last_moment.step)
    heads = _heads_text(collect_reading_scores(learned))
    right_text = accuracy_text(last_moment.accuracy, learned.task.answer_noun)
    return f"{opening} {right_text}{f'; {heads}' if heads else ''}."


def moment_title(learned: Learned, index: int) -> str:
    """Return the accuracy at recorded moment `index` as a title: `Step 120: 87 % of the verbs …`.

    Per cents are rounded down and numbers padded, so that no word moves between the frames of a
    film. At the last moment the title is the full `training_sentence`, without a full stop.
    """
    if index == len(learned.moments) - 1:
        return training_sentence(learned).removesuffix(".")
    moment, last_moment = learned.moments[index], learned.moments[-1]
    step_text = f"{moment.step:,}".rjust(len(f"{last_moment.step:,}"), FIGURE_SPACE)
    right_percent = f"{math.floor(100 * moment.accuracy + 1e-6)}".rjust(3, FIGURE_SPACE)
    return (
        f"Step {step_text}: {right_percent}{PERCENT} of the {learned.task.answer_noun}s are right"
    )


def _ending_text(reason: EndReason, step: int) -> str:
    """Return when training ended, and why if not because all was learned: `After 310 steps,`."""
    steps = counted(step, "step")
    if reason == "nan":
        return f"The loss is no longer finite; in the model after {steps}, which is kept,"
    if step == 0:
        return "Before the first step,"
    return f"Stopped after {steps}:" if reason == "interrupted" else f"After {steps},"


def accuracy_text(accuracy: float, answer_noun: str) -> str:
    """Return an accuracy in words.

    >>> accuracy_text(1.0, "verb"), accuracy_text(0.9995, "verb"), accuracy_text(0.0, "verb")
    ('every verb is right', 'over 99.9\xa0% of the verbs are right', 'no verb is right')
    """
    if accuracy in (0, 1):
        return f"{'every' if accuracy else 'no'} {answer_noun} is right"
    return f"{percent_text(accuracy)} of the {answer_noun}s are right"


def _heads_text(readings: Sequence[ReadingScores]) -> str:
    """Describe which heads read what; at least half of a head's attention must go to it.

    If no head does, return how weak the first reading is; empty without any readings.
    """
    clear = [scores for scores in readings if scores.final_score >= MIN_CLEAR_SHARE]
    if clear:
        return ", ".join(_head_claims(clear))
    if not readings:
        return ""
    limit = percent_text(math.ceil(readings[0].final_score * 100 - 1e-9) / 100)  # rounded up
    return f"no head {readings[0].task_reading.does} with more than {limit} of its attention"


def _head_claims(readings: Sequence[ReadingScores]) -> Iterator[str]:
    """Yield a claim per reading: `L1H1 reads the subject (99 %; L0H1: 72 %)`; a verb that repeats
    that of the previous claim is left out."""
    previous_verb = ""
    for scores in readings:
        verb, _, object_phrase = scores.task_reading.does.partition(" ")
        is_repeated = object_phrase and verb == previous_verb
        verb_phrase = object_phrase if is_repeated else scores.task_reading.does
        share, others = percent_text(scores.final_score), _other_heads_text(scores)
        yield f"{scores.best_head_label} {verb_phrase} ({share}{others})"
        previous_verb = verb


def _other_heads_text(scores: ReadingScores) -> str:
    """Return other heads with the same reading, if any: `; L0H1: 72 %`, or how many there are:
    `; 3 more heads: at least 60 %`."""
    other_heads = scores.other_heads(MIN_CLEAR_SHARE)
    if not other_heads:
        return ""
    least = min(other_heads.values())
    if len(other_heads) == 1:
        return f"; {and_list([*other_heads])}: {percent_text(least)}"
    least_text = percent_text(math.floor(least * 100 + 1e-9) / 100)  # rounded down
    return f"; {len(other_heads)} more heads: at least {least_text}"
