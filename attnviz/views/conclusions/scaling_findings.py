"""Sentences about what dividing scores by √d_k changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.measures import band_quantiles
from attnviz.analysis.seeds import has_random_weights
from attnviz.views.conclusions.findings import (
    MIN_NOTICEABLE_DIFFERENCE,
    MIN_SEEDS_TO_CONCLUDE,
    ONE_DRAW_OPENING,
    PRECISE_TOKEN_AMOUNT,
    TOKEN_AMOUNT,
    Amount,
    Finding,
    Pair,
    otherwise,
)
from attnviz.views.conclusions.sharpness_findings import ComparisonFacts
from attnviz.views.measure_tables import mean_measures
from attnviz.wording.numbers import share_text

EQUAL_SCORES_RANGE = 0.01  # scores of a row that differ by less count as equal
SATURATED_WEIGHT = 0.99  # a larger weight counts as all of a row's attention
MIN_WRITTEN_RATIO = 1.05  # a smaller ratio would be written as "1.0 times"
MAX_WRITTEN_RATIO = 1000
NO_EFFECT_OPENING = "Scaling changes nothing here"


@dataclass(frozen=True, eq=False)
class ScalingFacts(ComparisonFacts):
    """Unscaled and scaled weights in the rows shown, and measures over seeds with `repeats`."""

    @property
    def divisor(self) -> str:
        """The divisor of the scores as written: `√64`, or `√d_k` if only weights are known."""
        layer = self.comparison.base.layer
        return "√d_k" if layer is None else f"√{layer.head_dim}"

    @property
    def visible(self) -> Bool[Tensor, "*head query key"]:
        return self.comparison.base.visible[..., self.comparison.rows, :]

    @cached_property
    def weights(self) -> tuple[Float[Tensor, "head query key"], Float[Tensor, "head query key"]]:
        """The unscaled and the scaled weights of the rows that are shown."""
        rows, ways = self.comparison.rows, self.comparison.alternatives
        unscaled, scaled = (ways[index].weights.double()[:, rows] for index in self._indices)
        return unscaled, scaled

    @property
    def largest_change(self) -> float:
        before, after = self.weights
        return float((after - before).abs().max())

    @cached_property
    def token_counts(self) -> tuple[float, float]:
        """The mean effective number of tokens attended to, unscaled and scaled."""
        return self.means("effective")

    @property
    def counts_text(self) -> tuple[str, str]:
        """The token counts as texts that tell them apart."""
        return PRECISE_TOKEN_AMOUNT.format_pair(*self.token_counts)

    @property
    def same_token_count(self) -> bool:
        return abs(self.token_counts[1] - self.token_counts[0]) < MIN_NOTICEABLE_DIFFERENCE

    @cached_property
    def token_counts_over_seeds(self) -> Pair:
        """The effective number of tokens attended to in every seed, unscaled and scaled."""
        return self.measure_over_seeds("effective")

    @property
    def _indices(self) -> tuple[int, int]:
        """The places of the unscaled and the scaled alternative in the comparison."""
        names = [each.name for each in self.comparison.alternatives]
        return names.index("unscaled"), names.index("scaled")

    @property
    def medians_text(self) -> tuple[str, str]:
        """The median token counts over seeds as texts that tell them apart."""
        return self.token_counts_over_seeds.format_medians(TOKEN_AMOUNT)

    def means(self, measure: str) -> tuple[float, float]:
        """Return the mean of a measure over heads and shown rows, unscaled and scaled."""
        measured = [self.comparison.measures[index] for index in self._indices]
        before, after = (mean_measures(self.comparison, each)[measure] for each in measured)
        return before, after

    def measure_over_seeds(self, measure: str) -> Pair:
        """Return the mean of a measure in every seed, unscaled and scaled; needs `repeats`."""
        assert self.repeats is not None
        return Pair(*(self.repeats.by_measure[measure][index] for index in self._indices))

    @property
    def same_scale(self) -> bool:
        """Whether both alternatives have the same scale, because scaling divides by √1."""
        layers = [each.layer for each in self.comparison.alternatives]
        return len({None if each is None else each.scale for each in layers} - {None}) == 1

    @property
    def nothing_compared(self) -> bool:
        """Whether all scores are 0 because this variant compares no queries with keys."""
        trace, layer = self.comparison.base.trace, self.comparison.base.layer
        if trace is None or layer is None or trace.variant.compared:
            return False
        return not bool(layer.attended.scores.any())

    @property
    def has_equal_scores(self) -> bool:
        """Whether the visible scores of each row, with and without mask and bias, are about equal.

        If only weights are known, their logarithms are used.
        """
        layer = self.comparison.alternatives[self._indices[0]].layer
        if layer is None:  # only weights are known: their logarithms differ as the scores do
            logits = [self.weights[0].log()]
        else:
            rows, attended = self.comparison.rows, layer.attended
            logits = [each[:, rows] for each in (attended.scores, attended.logits)]
        ranges = (_largest_score_range(each.double(), self.visible) for each in logits)
        return all(score_range < EQUAL_SCORES_RANGE for score_range in ranges)

    @property
    def is_saturated(self) -> bool:
        """Whether one key has nearly all weight of each row, the same key unscaled and scaled."""
        before, after = (each.max(-1) for each in self.weights)
        least = min(float(before.values.min()), float(after.values.min()))
        return least > SATURATED_WEIGHT and bool(torch.equal(before.indices, after.indices))


def _largest_score_range(
    logits: Float[Tensor, "head query key"], visible: Bool[Tensor, "*#head query key"]
) -> float:
    high, low = logits.masked_fill(~visible, -torch.inf), logits.masked_fill(~visible, torch.inf)
    return float((high.amax(-1) - low.amin(-1)).max())


def _spread_title(facts: ScalingFacts, before: str, after: str) -> str:
    """Return `Scaling spreads attention over 3.3 tokens instead of 2.1`; or that it narrows it."""
    verb = "spreads" if float(after) > float(before) else "narrows"
    preposition = "over" if verb == "spreads" else "to"
    return f"Scaling {verb} {facts.attention_text} {preposition} {after} tokens instead of {before}"


def _spread_here_title(facts: ScalingFacts) -> str:
    """Return the title on the weights shown: `Scaling spreads attention over 3.31 tokens …`."""
    return _spread_title(facts, *facts.counts_text)


def _little_change_reason(facts: ScalingFacts) -> str:
    """Return why scaling changes these weights so little: equal scores or one dominant key.

    Otherwise the text only states the number of tokens attended to.
    """
    if facts.has_equal_scores:
        return "the scores of a row are all about the same"
    if facts.is_saturated:
        return "one token gets nearly all the weight of a row, with and without scaling"
    counts_text = _with_and_without_text(PRECISE_TOKEN_AMOUNT, *facts.token_counts)
    return f"{facts.reader} attends to {counts_text}"


def _with_and_without_text(amount: Amount, unscaled: float, scaled: float) -> str:
    """Return `3.3 tokens with scaling, 2.1 without`, or one number if both are written alike."""
    if amount.reads_same(unscaled, scaled):
        return f"{amount(scaled)} with and without scaling"
    before, after = amount.format_pair(unscaled, scaled)
    return f"{after} tokens with scaling, {before} without"


def _given_scores_sentence(facts: ScalingFacts) -> str:
    """Return how scaling changes the tokens attended to, and how many times the gradient grows."""
    (least, greatest), (before, after) = facts.counts_text, facts.means("gradient")
    ratio_text = _ratio_text(after / before if before else torch.inf if after else 0.0)
    counts_text = f"{greatest} tokens instead of {least}"
    gradient_text = f", and the gradient of the softmax {ratio_text} as large" if ratio_text else ""
    opening = f"Dividing the scores by {facts.divisor} makes {facts.reader} attend to"
    return f"{opening} {counts_text}{gradient_text}."


def _both_counts_text(facts: ScalingFacts, counts: tuple[str, str]) -> str:
    """Return `a query attends to 2.1 tokens unscaled and to 3.3 divided by √64`."""
    unscaled, scaled = counts
    unscaled_text = f"{facts.reader} attends to {unscaled} tokens unscaled"
    return f"{unscaled_text} and to {scaled} divided by {facts.divisor}"


def _same_count_sentence(facts: ScalingFacts) -> str:
    """State that weights change, but hardly the number of tokens attended to."""
    counts_text = _with_and_without_text(PRECISE_TOKEN_AMOUNT, *facts.token_counts)
    is_small = facts.largest_change < EQUAL_SCORES_RANGE
    change_text = "less than .01" if is_small else f"up to {share_text(facts.largest_change)}"
    return (
        f"Scaling changes weights by {change_text}, but {facts.reader} attends to about as many "
        f"tokens: {counts_text}."
    )


def _same_count_over_seeds(facts: ScalingFacts) -> str:
    """State that over seeds scaling hardly changes the number of tokens attended to."""
    counts_text = _with_and_without_text(TOKEN_AMOUNT, *facts.token_counts_over_seeds.medians)
    return (
        f"Over {facts.seed_count:,} seeds, scaling hardly changes how many tokens {facts.reader} "
        f"attends to: {counts_text}."
    )


def _changed_count_over_seeds(facts: ScalingFacts) -> str:
    """State how scaling changes the number of tokens attended to over seeds, with bands."""
    before, after = facts.token_counts_over_seeds.format_bands(TOKEN_AMOUNT)
    return (
        f"Over {facts.seed_count:,} seeds, dividing by {facts.divisor} makes {facts.reader} attend "
        f"to {after} instead of {before}{_gradient_text(facts)}."
    )


def _never_fewer_over_seeds(facts: ScalingFacts) -> str:
    """State that scaling cannot reduce the tokens attended to, and how often it adds hardly any."""
    before, after = facts.token_counts_over_seeds.format_bands(TOKEN_AMOUNT)
    unchanged_count = facts.token_counts_over_seeds.unchanged_seed_count
    return (
        f"Dividing by {facts.divisor} cannot make {facts.reader} attend to fewer tokens, and in "
        f"{unchanged_count:,} of {facts.seed_count:,} seeds it hardly changes how many: {after} "
        f"with scaling, {before} without."
    )


def _undecided_scaling(facts: ScalingFacts) -> str:
    """State that over seeds it is unclear whether scaling makes a query attend to more tokens."""
    before, after = facts.token_counts_over_seeds.format_bands(TOKEN_AMOUNT)
    return (
        f"Over {facts.seed_count:,} seeds, it is not clear whether scaling makes {facts.reader} "
        f"attend to more or fewer tokens: {after} divided by {facts.divisor}, {before} unscaled."
    )


def _gradient_text(facts: ScalingFacts) -> str:
    """Return `, and makes the gradient of the softmax 1.6 times as large`, by the median ratio.

    Empty unless the gradient clearly grows over seeds.
    """
    pair = facts.measure_over_seeds("gradient")
    ratios = pair.after.double() / pair.before.double()  # infinite where there was none
    if pair.direction <= 0 or bool(ratios.isnan().any()):
        return ""
    ratio_text = _ratio_text(band_quantiles(ratios.clamp_max(2.0 * MAX_WRITTEN_RATIO))[1])
    return f", and makes the gradient of the softmax {ratio_text} as large" if ratio_text else ""


def _ratio_text(ratio: float) -> str:
    """Return `1.6 times`, or `over a thousand times`; empty for a ratio of about 1 or less."""
    if ratio < MIN_WRITTEN_RATIO:
        return ""
    return f"{ratio:.1f} times" if ratio < MAX_WRITTEN_RATIO else "over a thousand times"


SCALING_FINDINGS: tuple[Finding[ScalingFacts], ...] = (
    Finding(
        "a query sees one token",
        lambda facts: bool((facts.visible.sum(-1) == 1).all()),
        lambda facts: (
            f"{NO_EFFECT_OPENING}: {facts.reader} sees only one token, which gets all its "
            "attention."
        ),
    ),
    Finding(
        "nothing is compared",
        lambda facts: facts.nothing_compared,
        lambda _: f"{NO_EFFECT_OPENING}: queries and keys are not compared, so all scores are 0.",
    ),
    Finding("√1 is 1", lambda facts: facts.same_scale, lambda _: f"{NO_EFFECT_OPENING}: √1 is 1."),
    Finding(
        "few seeds",
        lambda facts: 0 < facts.seed_count < MIN_SEEDS_TO_CONCLUDE,
        lambda facts: (
            f"In the median of {facts.seed_count} seeds, "
            f"{_both_counts_text(facts, facts.medians_text)}: too few seeds to tell more."
        ),
        lambda facts: f"{facts.seed_count} seeds are too few to tell what scaling changes",
    ),
    Finding(
        "as many over seeds",
        lambda facts: facts.seed_count > 0 and facts.token_counts_over_seeds.is_alike,
        _same_count_over_seeds,
        lambda facts: f"Scaling hardly changes how many tokens {facts.reader} attends to",
    ),
    Finding(
        "more or less over seeds",
        lambda facts: (
            facts.seed_count > 0 and facts.token_counts_over_seeds.differs_clearly(TOKEN_AMOUNT)
        ),
        _changed_count_over_seeds,
        lambda facts: (
            _spread_title(facts, *facts.medians_text) + f" (median of {facts.seed_count:,} seeds)"
        ),
    ),
    Finding(
        "never less",
        lambda facts: facts.seed_count > 0 and facts.comparison.base.uses_scores_alone,
        _never_fewer_over_seeds,
        lambda facts: f"Scaling cannot make {facts.reader} attend to fewer tokens",
    ),
    Finding(
        "undecided over seeds",
        lambda facts: facts.seed_count > 0,
        _undecided_scaling,
        lambda facts: (
            f"Whether scaling spreads attention depends on the seed ({facts.seed_count:,} seeds)"
        ),
    ),
    Finding(
        "next to nothing",
        lambda facts: facts.same_token_count and facts.largest_change < MIN_NOTICEABLE_DIFFERENCE,
        lambda facts: f"Scaling changes next to nothing here: {_little_change_reason(facts)}.",
    ),
    Finding(
        "other tokens, as many",
        lambda facts: facts.same_token_count,
        _same_count_sentence,
        lambda facts: (
            f"Scaling changes weights, but {facts.reader} attends to about as many tokens"
        ),
    ),
    Finding(
        "one draw",
        lambda facts: has_random_weights(facts.comparison),
        lambda facts: f"{ONE_DRAW_OPENING}, {_both_counts_text(facts, facts.counts_text)}.",
        lambda facts: f"{_spread_here_title(facts)} in this one draw",
    ),
    Finding("more or less", otherwise, _given_scores_sentence, _spread_here_title),
)
