"""What scaling changes: a table of what can be found of unscaled and scaled weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import quantiles
from attnviz.analysis.seeds import Repeats, left_to_chance
from attnviz.views.conclusions.claims import (
    ALIKE,
    FEWEST_SEEDS,
    ONE_DRAW,
    PRECISE_TOKENS,
    TOKENS,
    Amount,
    Finding,
    Pair,
    otherwise,
    said,
    titled,
)
from attnviz.views.conclusions.sharpness import reader
from attnviz.views.measures import means_of
from attnviz.wording.numbers import share_text

EVEN = 0.01  # scores of a row that differ by less are as good as equal
WHOLE = 0.99  # a weight above is as good as all
LEAST_TIMES = 1.05  # below, "1.0 times" would be read
THOUSAND = 1000


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is known of unscaled and scaled weights, in the rows that are shown."""

    comparison: Comparison
    repeats: Repeats | None

    @property
    def who(self) -> str:
        return reader(self.comparison)

    @property
    def divisor(self) -> str:
        layer = self.comparison.base.layer
        return "√d_k" if layer is None else f"√{layer.head_dim}"

    @property
    def seen(self) -> Bool[Tensor, "*head query key"]:
        return self.comparison.base.visible[..., self.comparison.rows, :]

    @cached_property
    def weights(self) -> tuple[Float[Tensor, "head query key"], Float[Tensor, "head query key"]]:
        before, after = (self._named(name).weights.double() for name in ("unscaled", "scaled"))
        rows = self.comparison.rows
        return before[:, rows], after[:, rows]

    @property
    def moved(self) -> float:
        """How much a weight changes, at most."""
        before, after = self.weights
        return float((after - before).abs().max())

    @cached_property
    def reads(self) -> tuple[float, float]:
        return self.means("effective")

    @property
    def as_many(self) -> bool:
        """Whether nobody would see a difference in how many tokens are read."""
        return abs(self.reads[1] - self.reads[0]) < ALIKE

    @cached_property
    def over_seeds(self) -> Pair:
        return self.pair("effective")

    @property
    def seeds(self) -> int:
        return 0 if self.repeats is None else len(self.repeats.seeds)

    def means(self, measure: str) -> tuple[float, float]:
        """A measure of the weights that are shown, unscaled and scaled."""
        names = [each.name for each in self.comparison.alternatives]
        measured = [self.comparison.measures[names.index(name)] for name in ("unscaled", "scaled")]
        before, after = (means_of(self.comparison, each)[measure] for each in measured)
        return before, after

    def pair(self, measure: str) -> Pair:
        """The same of each seed."""
        assert self.repeats is not None
        numbers = self.repeats.measured[measure]
        names = [each.name for each in self.comparison.alternatives]
        return Pair(*(numbers[names.index(name)] for name in ("unscaled", "scaled")))

    def _named(self, name: str) -> Alternative:
        return next(each for each in self.comparison.alternatives if each.name == name)

    @property
    def same_scale(self) -> bool:
        """Whether both divide by the same number: by √1."""
        layers = [each.layer for each in self.comparison.alternatives]
        return len({None if each is None else each.scale for each in layers} - {None}) == 1

    @property
    def nothing_compared(self) -> bool:
        trace, layer = self.comparison.base.trace, self.comparison.base.layer
        if trace is None or layer is None or trace.variant.compared:
            return False
        return not bool(layer.attended.scores.any())

    @property
    def level(self) -> bool:
        """Whether the scores of each row are as good as equal, and so is what softmax gets."""
        layer = self._named("unscaled").layer
        if layer is None:  # only weights are known: their logarithms differ as the scores do
            logits = [self.weights[0].log()]
        else:
            rows, found = self.comparison.rows, layer.attended
            logits = [each[:, rows] for each in (found.scores, found.logits)]
        return all(_reach(each.double(), self.seen) < EVEN for each in logits)

    @property
    def whole(self) -> bool:
        """Whether one token gets nearly all of a row's weight, and is the same in both."""
        before, after = (each.max(-1) for each in self.weights)
        least = min(float(before.values.min()), float(after.values.min()))
        return least > WHOLE and bool(torch.equal(before.indices, after.indices))


def _reach(
    logits: Float[Tensor, "head query key"], seen: Bool[Tensor, "*#head query key"]
) -> float:
    """How far the scores of a row are apart, at most."""
    high, low = logits.masked_fill(~seen, -torch.inf), logits.masked_fill(~seen, torch.inf)
    return float((high.amax(-1) - low.amin(-1)).max())


def on_scale(comparison: Comparison, repeats: Repeats | None) -> str:
    """Of given numbers what is true; of drawn ones what holds over seeds, or what is shown."""
    return said(FINDINGS, Scaling(comparison, repeats))


def title_on_scale(comparison: Comparison, repeats: Repeats | None) -> str:
    """The same as a title."""
    return titled(FINDINGS, Scaling(comparison, repeats))


def _spreads(facts: Scaling, before: str, after: str) -> str:
    """`Scaling spreads attention over 3.3 tokens instead of 2.1`"""
    how = "spreads" if float(after) > float(before) else "narrows"
    over = "over" if how == "spreads" else "to"
    place = facts.comparison.query
    whose = "" if place is None else f" of {facts.who}"
    attention = "attention" if place is None else f"the attention{whose}"
    return f"Scaling {how} {attention} {over} {after} tokens instead of {before}"


def _spreads_over_seeds(facts: Scaling) -> str:
    return _spreads(facts, *facts.over_seeds.told(TOKENS))


def _spreads_here(facts: Scaling) -> str:
    return _spreads(facts, *PRECISE_TOKENS.both(*facts.reads))


def _why_here(facts: Scaling) -> str:
    """Why these numbers are so little changed by it, where that can be said."""
    if facts.level:
        return "the scores of a row are all about the same"
    if facts.whole:
        return "one token gets nearly all the weight of a row, with and without scaling"
    return f"{facts.who} attends to {_with_and_without(PRECISE_TOKENS, *facts.reads)}"


def _with_and_without(amount: Amount, one: float, other: float) -> str:
    """One number, where both read the same."""
    if amount.same(one, other):
        return f"{amount(other)} with and without scaling"
    before, after = amount.both(one, other)
    return f"{after} tokens with scaling, {before} without"


def _of_given(facts: Scaling) -> str:
    least, most = PRECISE_TOKENS.both(*facts.reads)
    before, after = facts.means("gradient")
    times = _times(after / before if before else torch.inf if after else 0.0)
    start = f"Dividing the scores by {facts.divisor} makes {facts.who} attend to {most} tokens"
    gradient = f", and the gradient of the softmax {times} as large" if times else ""
    return f"{start} instead of {least}{gradient}."


def _of_one_draw(facts: Scaling) -> str:
    least, most = PRECISE_TOKENS.both(*facts.reads)
    read = f"{facts.who} attends to {least} tokens unscaled"
    return f"{ONE_DRAW}, {read} and to {most} divided by {facts.divisor}."


def _not_how_many(facts: Scaling) -> str:
    """Other tokens, but as many of them."""
    reads = _with_and_without(PRECISE_TOKENS, *facts.reads)
    moved = "by less than .01" if facts.moved < EVEN else f"by up to {share_text(facts.moved)}"
    return (
        f"Scaling changes weights {moved}, but {facts.who} attends to about as many tokens: "
        f"{reads}."
    )


def _of_few_seeds(facts: Scaling) -> str:
    least, most = facts.over_seeds.told(TOKENS)
    shown = (
        f"{facts.who} attends to {least} tokens unscaled and to {most} divided by {facts.divisor}"
    )
    return f"In the median of {facts.seeds} seeds, {shown}: too few seeds to tell more."


def _as_many_over_seeds(facts: Scaling) -> str:
    reads = _with_and_without(TOKENS, *facts.over_seeds.medians)
    start = (
        f"Over {facts.seeds:,} seeds, scaling hardly changes how many tokens {facts.who} attends to"
    )
    return f"{start}: {reads}."


def _more_or_less_over_seeds(facts: Scaling) -> str:
    before, after = facts.over_seeds.bands(TOKENS)
    start = f"Over {facts.seeds:,} seeds, dividing by {facts.divisor}"
    return f"{start} makes {facts.who} attend to {after} instead of {before}{_gradients(facts)}."


def _never_less_over_seeds(facts: Scaling) -> str:
    before, after = facts.over_seeds.bands(TOKENS)
    same = f"in {facts.over_seeds.hardly:,} of {facts.seeds:,} seeds it hardly changes how many"
    start = (
        f"Dividing by {facts.divisor} cannot make {facts.who} attend to fewer tokens, and {same}"
    )
    return f"{start}: {after} with scaling, {before} without."


def _undecided_over_seeds(facts: Scaling) -> str:
    before, after = facts.over_seeds.bands(TOKENS)
    shown = f"{after} divided by {facts.divisor}, {before} unscaled"
    start = (
        f"Over {facts.seeds:,} seeds, it is not clear whether scaling makes {facts.who} attend to"
    )
    return f"{start} more or fewer tokens: {shown}."


def _gradients(facts: Scaling) -> str:
    """How many times the gradient, where it is more in 8 of 10 seeds."""
    pair = facts.pair("gradient")
    ratios = pair.after.double() / pair.before.double()  # infinite where there was none
    if pair.direction <= 0 or bool(ratios.isnan().any()):
        return ""
    times = _times(quantiles(ratios.clamp_max(2.0 * THOUSAND))[1])
    return f", and makes the gradient of the softmax {times} as large" if times else ""


def _times(ratio: float) -> str:
    """`1.6 times`; nothing where it is not more."""
    if ratio < LEAST_TIMES:
        return ""
    return f"{ratio:.1f} times" if ratio < THOUSAND else "over a thousand times"


NOTHING = "Scaling changes nothing here"
FINDINGS: tuple[Finding[Scaling], ...] = (
    Finding(
        "a query sees one token",
        lambda facts: bool((facts.seen.sum(-1) == 1).all()),
        lambda facts: f"{NOTHING}: {facts.who} sees only one token, which gets all its attention.",
    ),
    Finding(
        "nothing is compared",
        lambda facts: facts.nothing_compared,
        lambda _: f"{NOTHING}: queries and keys are not compared, so all scores are 0.",
    ),
    Finding("√1 is 1", lambda facts: facts.same_scale, lambda _: f"{NOTHING}: √1 is 1."),
    Finding(
        "few seeds",
        lambda facts: 0 < facts.seeds < FEWEST_SEEDS,
        _of_few_seeds,
        lambda facts: f"{facts.seeds} seeds are too few to tell what scaling changes",
    ),
    Finding(
        "as many over seeds",
        lambda facts: facts.seeds > 0 and facts.over_seeds.alike,
        _as_many_over_seeds,
        lambda facts: f"Scaling hardly changes how many tokens {facts.who} attends to",
    ),
    Finding(
        "more or less over seeds",
        lambda facts: facts.seeds > 0 and facts.over_seeds.apart(TOKENS),
        _more_or_less_over_seeds,
        _spreads_over_seeds,
    ),
    Finding(
        "never less",
        lambda facts: facts.seeds > 0 and facts.comparison.base.of_scores_alone,
        _never_less_over_seeds,
        lambda facts: f"Scaling cannot make {facts.who} attend to fewer tokens",
    ),
    Finding(
        "undecided over seeds",
        lambda facts: facts.seeds > 0,
        _undecided_over_seeds,
        lambda facts: (
            f"Whether scaling spreads attention depends on the seed ({facts.seeds:,} seeds)"
        ),
    ),
    Finding(
        "next to nothing",
        lambda facts: facts.as_many and facts.moved < ALIKE,
        lambda facts: f"Scaling changes next to nothing here: {_why_here(facts)}.",
    ),
    Finding(
        "other tokens, as many",
        lambda facts: facts.as_many,
        _not_how_many,
        lambda facts: f"Scaling changes weights, but {facts.who} attends to about as many tokens",
    ),
    Finding(
        "one draw",
        lambda facts: left_to_chance(facts.comparison),
        _of_one_draw,
        lambda facts: f"{_spreads_here(facts)} in this one draw",
    ),
    Finding("more or less", otherwise, _of_given, _spreads_here),
)
