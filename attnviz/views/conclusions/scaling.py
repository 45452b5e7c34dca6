"""What scaling changes: one sentence on unscaled and scaled weights."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.repeats import Repeats, left_to_chance
from attnviz.analysis.seeds import quantiles
from attnviz.views.conclusions.claims import (
    ALIKE,
    FEWEST_SEEDS,
    ONE_DRAW,
    PRECISE_TOKENS,
    TOKENS,
    Pair,
)
from attnviz.views.conclusions.sharpness import reader
from attnviz.views.measures import means_of

EVEN = 0.01  # weights of a row that differ by less are as good as equal
WHOLE = 0.99  # a weight above is as good as all
LEAST_TIMES = 1.05  # below, "1.0 times" would be read
THOUSAND = 1000
LITTLE = 1e-12  # gradient


def on_scale(comparison: Comparison, repeats: Repeats | None) -> str:
    """Of given numbers what is true; of drawn ones what holds over seeds, or what is shown."""
    why = _why_never(comparison)
    if why:
        return f"Scaling changes nothing here: {why}."
    if repeats is not None:
        return _over_seeds(comparison, repeats)
    before, after = (_means(comparison, name) for name in ("unscaled", "scaled"))
    if abs(after["effective"] - before["effective"]) < ALIKE:
        return f"Scaling changes next to nothing here: {_why_here(comparison)}."
    least, most = PRECISE_TOKENS.both(before["effective"], after["effective"])
    who, divisor = reader(comparison), _divisor(comparison)
    if left_to_chance(comparison):
        return f"{ONE_DRAW}, {who} reads {least} tokens unscaled, and {most} divided by {divisor}."
    times = _times(after["gradient"] / max(before["gradient"], LITTLE))
    start = f"Divided by {divisor}, the scores let {who} read {most} tokens instead of {least}"
    return f"{start}{times and f', and give the softmax {times} the gradient'}."


def _over_seeds(comparison: Comparison, repeats: Repeats) -> str:
    """What 8 of 10 seeds agree on."""
    count, who, divisor = len(repeats.seeds), reader(comparison), _divisor(comparison)
    start, reads = f"Over {count:,} seeds,", _pair(comparison, repeats, "effective")
    if reads.alike:
        shown = f"{who} reads {TOKENS(reads.medians[1])} with it and without it"
        return f"{start} scaling changes next to nothing: {shown}."
    if count < FEWEST_SEEDS:
        least, most = reads.told(TOKENS)
        shown = f"{who} reads {least} tokens unscaled, and {most} divided by {divisor}"
        return f"In the median of {count} seeds, {shown}: too few seeds to tell more."
    before, after = reads.bands(TOKENS)
    if not reads.direction:
        shown = f"{after} divided by {divisor}, {before} unscaled"
        return f"{start} it cannot be told whether scaling lets {who} read more or less: {shown}."
    times = _gradients(_pair(comparison, repeats, "gradient"))
    return f"{start} dividing by {divisor} lets {who} read {after} instead of {before}{times}."


def _gradients(pair: Pair) -> str:
    """How many times the gradient, where it is more in 8 of 10 seeds."""
    if pair.direction <= 0:
        return ""
    times = _times(quantiles(pair.after / pair.before.clamp_min(LITTLE))[1])
    return f", and gives the softmax {times} the gradient" if times else ""


def _times(ratio: float) -> str:
    """`1.6 times`; nothing where it is not more."""
    if ratio < LEAST_TIMES:
        return ""
    return f"{ratio:.1f} times" if ratio < THOUSAND else "over a thousand times"


def _why_never(comparison: Comparison) -> str:
    """Why scaling cannot change anything, whatever the numbers are."""
    base = comparison.base
    if int(_seen(comparison).sum(-1).max()) == 1:
        return "a query sees one token, and reads it whole"
    if base.trace is not None and not base.trace.variant.compared:
        return "nothing is compared, so all scores are 0"
    if base.layer is not None and base.layer.head_dim == 1:
        return "√1 is 1"
    return ""


def _why_here(comparison: Comparison) -> str:
    """Why these numbers are so little changed by it, where that can be said."""
    unscaled, scaled = (_named(comparison, name).weights for name in ("unscaled", "scaled"))
    if comparison.query is not None:
        unscaled, scaled = (each[:, [comparison.query]] for each in (unscaled, scaled))
    seen = _seen(comparison)
    widest = unscaled.masked_fill(~seen, 0).amax(-1) - unscaled.masked_fill(~seen, 1).amin(-1)
    if float(widest.max()) < EVEN:
        return "the scores of a row are all about the same"
    if float(scaled.amax(-1).min()) > WHOLE:
        return "one token gets nearly all the weight of a row with it and without it"
    reads = PRECISE_TOKENS(_means(comparison, "scaled")["effective"])
    return f"{reader(comparison)} reads {reads} with it and without it"


def _seen(comparison: Comparison) -> Float[Tensor, "query key"]:
    visible, query = comparison.base.visible, comparison.query
    return visible if query is None else visible[..., [query], :]


def _named(comparison: Comparison, name: str) -> Alternative:
    return next(each for each in comparison.alternatives if each.name == name)


def _means(comparison: Comparison, name: str) -> dict[str, float]:
    place = comparison.alternatives.index(_named(comparison, name))
    return means_of(comparison, comparison.measures[place])


def _pair(comparison: Comparison, repeats: Repeats, measure: str) -> Pair:
    """A measure of each seed, unscaled and scaled."""
    numbers = repeats.measured[measure]
    names = [each.name for each in comparison.alternatives]
    return Pair(*(numbers[names.index(name)] for name in ("unscaled", "scaled")))


def _divisor(comparison: Comparison) -> str:
    layer = comparison.base.layer
    return "√d_k" if layer is None else f"√{layer.head_dim}"
