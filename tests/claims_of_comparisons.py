"""What the sentences of a comparison claim, held against its numbers by arithmetic of their own.

Every sentence has to be one of those that are known here; of each, every number and every word
that says how numbers lie to each other is worked out again, in NumPy, from the weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.attention.mistakes import MISTAKES
from attnviz.views.view import View

Array = np.ndarray[Any, np.dtype[np.float64]]
NUMBER = r"-?(?:\d[\d,]*)?\.?\d+(?:e[+-]\d+)?"
PART = f"(?:over |under )?{NUMBER}(?:\u00a0?%)?"  # a number, or per cents as sentences write them
WHO = r'(?:[Aa] query|".*?" \(\d+\))'
ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


class Untrue(AssertionError):
    """A sentence that the numbers do not bear out."""


@dataclass(frozen=True, eq=False)
class Said:
    """A View of a comparison, and everything that its sentences may be about."""

    comparison: Comparison
    view: View
    repeats: Repeats | None = None
    sweep: Sweep | None = None

    @cached_property
    def names(self) -> list[str]:
        prefix = self.comparison.by
        named = prefix in ("dim", "heads", "temperature", "seed")
        return [
            f"{prefix} {each.name}" if named else f"✗ {each.name}" if each.mistake else each.name
            for each in self.comparison.alternatives
        ]

    def way(self, name: str) -> Alternative:
        return self.comparison.alternatives[self.names.index(name.strip("'"))]

    def weights(self, way: Alternative) -> Array:
        found: Array = way.weights.double().numpy()
        return found[:, self.comparison.rows]

    def seen(self, way: Alternative) -> np.ndarray[Any, np.dtype[np.bool_]]:
        visible: np.ndarray[Any, np.dtype[np.bool_]] = way.visible.numpy()
        return visible[..., self.comparison.rows, :]

    def readers(self, way: Alternative) -> Array:
        """The rows of weights of those that read anything: of the others nothing is measured."""
        found: Array = self.weights(way)[~np.isnan(self.bits(way))]
        return found

    def reads(self, way: Alternative) -> float:
        return float(np.nanmean(2 ** self.bits(way)))

    def bits(self, way: Alternative) -> Array:
        """Of each row that reads anything, or that could."""
        weights, found = self.weights(way), entropies(self.weights(way))
        blind = ~self.seen(way).any(-1) & (weights.sum(-1) == 0)
        found[blind] = np.nan
        return found

    def share(self, way: Alternative) -> float:
        """Of the largest entropy, of the queries that see more than one token."""
        visible = (self.seen(way) | (self.weights(way) > 1e-9)).sum(-1)
        rows = np.broadcast_to(visible, self.weights(way).shape[:-1])
        bits = self.bits(way)[rows > 1]
        return float(np.nanmean(bits / np.log2(rows[rows > 1]))) if bits.size else np.nan

    def over_seeds(self, name: str, measure: str) -> Array:
        assert self.repeats is not None
        found: Array = self.repeats.by_measure[measure][self.names.index(name)].double().numpy()
        return found


def entropies(weights: Array) -> Array:
    rows = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    bits: Array = -(np.where(rows > 0, rows, 0) * np.log2(np.where(rows > 0, rows, 1))).sum(-1)
    return bits


def row_errors(said: Said, way: Alternative) -> Array:
    """How far each row is from a sum of 1; or from 0, where there is nothing to read."""
    sums = said.weights(way).sum(-1)
    blind = np.broadcast_to(~said.seen(way).any(-1), sums.shape)
    found: Array = np.where(blind, np.minimum(np.abs(sums), np.abs(sums - 1)), np.abs(sums - 1))
    return found


def gradients(weights: Array) -> Array:
    """Cell by cell: p times all others on the diagonal, the products of two off it."""
    found = []
    for row in weights.reshape(-1, weights.shape[-1]):
        shares = row / max(row.sum(), 1e-300)
        jacobian = np.outer(shares, shares)
        for place in range(len(shares)):
            jacobian[place, place] = shares[place] * np.delete(shares, place).sum()
        found.append(np.sqrt((jacobian**2).sum()))
    return np.array(found)


def softmax(scores: Array, visible: Any = True) -> Array:
    raised = np.where(visible, scores, -np.inf)
    largest = raised.max(-1, keepdims=True)
    powers = np.exp(raised - np.where(np.isneginf(largest), 0, largest))
    shares: Array = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
    return shares


def true(claim: object, told: str) -> None:
    if not claim:
        raise Untrue(told)


def is_number(written: str, number: float, told: str) -> None:
    """Whether a number is what is written, as far as its digits go."""
    percent = written.endswith("%")
    beyond, _, rest = written.rpartition(" ")
    digits = rest.rstrip("\u00a0%").replace(",", "")
    mantissa, _, power = digits.partition("e")
    behind = len(mantissa.partition(".")[2])
    unit = 10.0 ** (-behind + int(power or 0)) / (100 if percent else 1)
    value = float(digits) / (100 if percent else 1)
    if beyond:
        true(number > value if beyond == "over" else number < value, f"{written}: {told}")
        return
    slack = 0.5 * unit * 1.001 + 2e-6 * abs(number) + 1e-9 * unit
    true(abs(value - number) <= slack or value == number, f"{written} is {number}: {told}")


# One table: what a sentence looks like, and what makes it true

Check = Callable[[Said, re.Match[str]], None]
CLAIMS: list[tuple[re.Pattern[str], Check]] = []


def claim(pattern: str) -> Callable[[Check], Check]:
    def listed(check: Check) -> Check:
        filled = pattern.replace("<n>", f"({PART})").replace("<who>", f"({WHO})")
        filled = filled.replace("<attention>", f"([Aa]ttention|[Tt]he attention of {WHO})")
        filled = filled.replace(
            "<measures>", f"({WHO} attends to|(?:[Aa]ttention|[Tt]he attention of {WHO}) has)"
        )
        CLAIMS.append((re.compile(f"^{filled}$"), check))
        return check

    return listed


def check_sentence(said: Said, told: str) -> str:
    """Which claim a sentence makes; it has to be a known one, and true."""
    for pattern, check in CLAIMS:
        match = pattern.match(told)
        if match:
            check(said, match)
            return check.__name__
    raise Untrue(f"nobody knows what this claims: {told}")


def check_who(said: Said, who: str) -> None:
    query = said.comparison.query
    who = re.sub("^[Tt]he attention of | (attends to|has)$", "", who)
    if query is None:
        true(who.lower() in ("a query", "attention"), who)
    else:
        true(who.endswith(f"({query + 1})"), who)
        true(who[1:].split('"')[0] in _labels(said, query), who)


def _labels(said: Said, place: int) -> list[str]:
    labels = [each.tokens.labels[place] for each in said.comparison.alternatives]
    return [*labels, "/".join(labels)]


# What scaling changes


def both(said: Said) -> tuple[Alternative, Alternative]:
    return said.way("unscaled"), said.way("scaled")


def moved(said: Said) -> float:
    before, after = (said.weights(each) for each in both(said))
    return float(np.abs(after - before).max())


@claim("Scaling changes nothing here: <who> sees only one token, which gets all its attention\\.")
def sees_one_token(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    for way in both(said):
        true((said.seen(way).sum(-1) == 1).all(), match[0])
        true(np.abs(said.weights(way) - said.seen(way)).max() < 1e-12, match[0])


@claim("Scaling changes nothing here: queries and keys are not compared, so all scores are 0\\.")
def nothing_is_compared(said: Said, match: re.Match[str]) -> None:
    for way in both(said):
        assert way.layer is not None
        true(not way.layer.attended.scores.any(), match[0])
    true(moved(said) == 0, match[0])


@claim("Scaling changes nothing here: √1 is 1\\.")
def root_of_one(said: Said, match: re.Match[str]) -> None:
    for way in both(said):
        true(way.layer is not None and way.layer.head_dim == 1, match[0])
    true(moved(said) == 0, match[0])


@claim("Scaling changes next to nothing here: (.*)\\.")
def next_to_nothing(said: Said, match: re.Match[str]) -> None:
    true(moved(said) < 0.01, match[0])
    before, after = both(said)
    if match[1] == "the scores of a row are all about the same":
        assert before.layer is not None
        scores = before.layer.attended.scores.double().numpy()[:, said.comparison.rows]
        high = np.where(said.seen(before), scores, -np.inf).max(-1)
        low = np.where(said.seen(before), scores, np.inf).min(-1)
        true((high - low).max() < 0.01, match[0])
    elif match[1].startswith("one token gets nearly all"):
        true(min(said.weights(each).max(-1).min() for each in (before, after)) > 0.99, match[0])
        most = [said.weights(each).argmax(-1) for each in (before, after)]
        true((most[0] == most[1]).all(), match[0])
    else:
        who, reads = re.fullmatch(f"({WHO}) attends to (.*)", match[1]).groups()  # type: ignore[union-attr]
        check_who(said, who)
        with_and_without(said.reads(before), said.reads(after), reads)


def with_and_without(before: float, after: float, told: str) -> None:
    one = re.fullmatch(f"({NUMBER}) tokens with and without scaling", told)
    two = re.fullmatch(f"({NUMBER}) tokens with scaling, ({NUMBER}) without", told)
    if one:
        is_number(one[1], before, told)
        is_number(one[1], after, told)
        return
    assert two, told
    true(two[1] != two[2], told)
    is_number(two[1], after, told)
    is_number(two[2], before, told)


@claim(
    "Scaling changes weights (by less than .01|by up to <n>), but <who> attends to about as many "
    "tokens: (.*)\\."
)
def moves_weights(said: Said, match: re.Match[str]) -> None:
    if match[2]:
        is_number(match[2], moved(said), match[0])
    else:
        true(moved(said) < 0.01, match[0])
    check_who(said, match[3])
    before, after = (said.reads(each) for each in both(said))
    with_and_without(before, after, match[4])
    true(abs(after - before) < 0.005, match[0])


ONE_DRAW = "With this one draw of random numbers, "


@claim(f"{ONE_DRAW}<who> attends to <n> tokens unscaled and to <n> divided by √(\\d+)\\.")
def one_draw_of_scores(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    true(match[2] != match[3], match[0])
    for written, way in zip((match[2], match[3]), both(said), strict=True):
        is_number(written, said.reads(way), match[0])
        true(way.layer is not None and way.layer.head_dim == int(match[4]), match[0])


@claim(
    "Dividing the scores by √(\\d+|d_k) makes <who> attend to <n> tokens instead of <n>(?:, and "
    "the gradient of the softmax (\\S*) times as large|, and the gradient of the softmax over a "
    "(thousand) times as large)?\\."
)
def divided(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    before, after = both(said)
    true(match[3] != match[4], match[0])
    is_number(match[3], said.reads(after), match[0])
    is_number(match[4], said.reads(before), match[0])
    if match[1] != "d_k":
        true(after.layer is not None and after.layer.head_dim == int(match[1]), match[0])
    was, became = (gradients(said.readers(each)).mean() for each in (before, after))
    times_as_much(match[5] or match[6], became / was if was else np.inf, match[0])


def times_as_much(written: str | None, ratio: float, told: str) -> None:
    if written is None:
        return
    if written in ("over a thousand", "thousand"):
        true(ratio >= 1000 * (1 - 1e-6), f"{ratio}: {told}")
        return
    is_number(written, ratio, told)
    true(float(written) > 1, told)


# What scaling changes over seeds

BANDED = (
    f"({PART})(?: tokens| of the largest entropy)?(?: \\(({PART})–({PART})(?: in 8 of 10 "
    "seeds)?\\))?"
)


def banded(written: str, numbers: Array) -> float:
    """The median, and a band in which there are 8 of 10."""
    match = re.fullmatch(BANDED, written.strip())
    assert match, written
    is_number(match[1], float(np.median(numbers)), written)
    if match[2] is None:
        return float(np.median(numbers))
    low, high = (
        float(each.rstrip("\u00a0%").split()[-1]) / (100 if "%" in each else 1)
        for each in match.group(2, 3)
    )
    low = 0.0 if match[2].startswith("under") else low
    high = 1.0 if match[3].startswith("over") else high
    behind = len(match[2].rstrip("\u00a0%").partition(".")[2]) + (2 if "%" in match[2] else 0)
    slack = 0.501 * 10.0**-behind + 1e-6
    inside = ((numbers >= low - slack) & (numbers <= high + slack)).mean()
    true(inside >= 0.8, f"{inside:.2f} of {sorted(numbers)} in {written}")
    return float(np.median(numbers))


def goes(lower: Array, higher: Array, told: str) -> None:
    """Most seeds go that way, and the medians do."""
    true((higher > lower).mean() >= 0.85, told)
    true(np.median(higher) > np.median(lower), told)


def of_scores(said: Said, measure: str) -> tuple[Array, Array]:
    return said.over_seeds("unscaled", measure), said.over_seeds("scaled", measure)


@claim(
    "In the median of (\\d+) seeds, <who> attends to <n> tokens unscaled and to <n> divided by "
    "√(\\d+): too few seeds to tell more\\."
)
def few_seeds_of_scores(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    before, after = of_scores(said, "effective")
    true(len(before) == int(match[1]) < 10, match[0])
    is_number(match[3], float(np.median(before)), match[0])
    is_number(match[4], float(np.median(after)), match[0])


@claim("Over ([\\d,]+) seeds, scaling hardly changes how many tokens <who> attends to: (.*)\\.")
def hardly_changes(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    before, after = of_scores(said, "effective")
    true(len(before) == int(match[1].replace(",", "")), match[0])
    true((np.abs(after - before) < 0.0051).mean() >= 0.8, match[0])
    with_and_without(float(np.median(before)), float(np.median(after)), match[3])


@claim(
    "Over ([\\d,]+) seeds, dividing by √(\\d+) makes <who> attend to (.*?) instead of "
    f"({BANDED})(?:, and makes the gradient of the softmax (.*) times as large)?\\."
)
def lets_read(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[3])
    before, after = of_scores(said, "effective")
    least, most = banded(match[5], before), banded(match[4], after)
    ends = (before, after) if most > least else (after, before)
    goes(*ends, match[0])
    true(match[4].split()[0] != match[6], match[0])
    if match[9]:
        was, became = of_scores(said, "gradient")
        with np.errstate(divide="ignore"):
            times_as_much(match[9], float(np.median(became / was)), match[0])
        goes(was, became, match[0])


@claim(
    "Over ([\\d,]+) seeds, it is not clear whether scaling makes <who> attend to more or fewer "
    "tokens: (.*?) divided by √(\\d+), (.*?) unscaled\\."
)
def cannot_be_told(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    before, after = of_scores(said, "effective")
    banded(match[3], after)
    banded(match[5], before)


@claim(
    "Dividing by √(\\d+) cannot make <who> attend to fewer tokens, and in ([\\d,]+) of ([\\d,]+) "
    "seeds it hardly changes how many: (.*?) with scaling, (.*?) without\\."
)
def never_less(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    before, after = of_scores(said, "effective")
    true(len(before) == int(match[4].replace(",", "")) >= 10, match[0])
    true((np.abs(after - before) < 0.005).sum() == int(match[3].replace(",", "")) > 0, match[0])
    true((after - before).min() > -1e-4, match[0])
    banded(match[5], after)
    banded(match[6], before)
    of_scores_alone(said, match[0])


def of_scores_alone(said: Said, told: str) -> None:
    """What no theorem is true of: a cap bends large scores most, and what is added stays."""
    for way in said.comparison.alternatives:
        assert way.layer is not None
        attended = way.layer.attended
        true((attended.scores * way.layer.scale == attended.logits).all(), told)


# How sharply ways read


def measure_of(said: Said) -> str:
    """Tokens, where as many can be read in all ways; else shares of what there is."""
    counts = {tuple(said.seen(each).sum(-1).tolist()) for each in said.comparison.alternatives}
    return "effective" if len(counts) == 1 else "share"


def measured(said: Said, told: str) -> dict[str, float]:
    """Each way that has a mean, and the unit that is told."""
    share = measure_of(said) == "share"
    true(("of the largest entropy" in told) == share, told)
    ways = zip(said.names, said.comparison.alternatives, strict=True)
    found = {name: said.share(each) if share else said.reads(each) for name, each in ways}
    return {name: number for name, number in found.items() if not isnan(number)}


def quoted(names: str) -> list[str]:
    return re.findall("'(.*?)'(?:,| and|$)", names)


@claim("There is nothing to compare: every key is masked for <who>\\.")
def all_hidden(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    for way in said.comparison.alternatives:
        true(not said.seen(way).any() and not said.weights(way).any(), match[0])


@claim(
    "There is nothing to compare: a query that sees no token attends to nothing, and one .* "
    "attention\\."
)
def nothing_seen_to_compare(said: Said, match: re.Match[str]) -> None:
    counts = [said.seen(each).sum(-1) for each in said.comparison.alternatives]
    true(any((each == 0).any() for each in counts), match[0])
    true(all((each <= 1).all() for each in counts), match[0])


@claim(
    "There is nothing to compare: a query that sees a single token gives it all its attention\\."
)
def nothing_to_compare(said: Said, match: re.Match[str]) -> None:
    counts = [said.seen(each).sum(-1) for each in said.comparison.alternatives]
    true(all((each <= 1).all() for each in counts), match[0])
    true(any((each == 1).any() for each in counts), match[0])


@claim("<who> sees more than one token only in '(.*?)', so there is nothing to compare\\.")
def only_one_has_a_choice(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    for name, way in zip(said.names, said.comparison.alternatives, strict=True):
        true((said.seen(way).sum(-1) > 1).any() == (name == match[2]), match[0])


@claim("<attention> is equally sharp in (.*?): <n>( to <n>)?(?: tokens| of the largest entropy)\\.")
def as_sharply(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    found = measured(said, match[0])
    covered(match[2], found, said, match[0])
    ends = min(found.values()), max(found.values())
    true(ends[1] - ends[0] < 0.005, match[0])
    is_number(match[3], ends[0], match[0])
    is_number(match[5] or match[3], ends[1], match[0])


def covered(names: str, found: dict[str, float], said: Said, told: str) -> None:
    if names in ("both", "all of them"):
        true(len(found) == len(said.names), told)
    else:
        true(set(quoted(names)) == set(found), told)


@claim(
    "Over ([\\d,]+) seeds, <attention> is equally sharp in (.*?): <n>( to <n>)?(?: tokens| of "
    ".*)\\."
)
def as_sharply_over_seeds(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    found = measured(said, match[0])
    covered(match[3], found, said, match[0])
    over = [said.over_seeds(name, measure_of(said)) for name in found]
    middles = sorted(float(np.median(each)) for each in over)
    for one in over:
        for other in over:
            true((np.abs(one - other) < 0.0051).mean() >= 0.8, match[0])
    is_number(match[4], middles[0], match[0])
    is_number(match[6] or match[4], middles[-1], match[0])


@claim(
    f"(?:{ONE_DRAW})?<measures> <n>(.*?) in '(.*?)' and <n> in '(.*?)'(: seeds differ only by "
    "chance)?\\."
)
def one_draw_of_ways(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    found = measured(said, match[0])
    for written, name in ((match[2], match[4]), (match[5], match[6])):
        is_number(written, found[name], match[0])
    true(found[match[4]] == min(found.values()), match[0])
    true(found[match[6]] == max(found.values()), match[0])
    true(match[2] != match[5], match[0])
    true(bool(match[7]) == (said.comparison.by == "seed"), match[0])


@claim(
    "<attention> is sharpest in (.*?) \\(<n>( tokens| of .*?)\\) and most even in (.*?) "
    "\\(<n>.*\\)\\."
)
def most_sharply(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[1])
    found = measured(said, match[0])
    true(match[3] != match[6], match[0])
    true(not set(quoted(match[2])) & set(quoted(match[5])), match[0])
    for names, written, end in (
        (match[2], match[3], min(found.values())),
        (match[5], match[6], max(found.values())),
    ):
        is_number(written, end, match[0])
        for name in quoted(names):
            is_number(written, found[name], match[0])
        true(next(each for each in found if found[each] == end) in quoted(names), match[0])


@claim(
    "In the median of (\\d+) seeds, <measures> <n>.*? in '(.*?)' and <n> in '(.*?)': too few "
    "seeds to tell more\\."
)
def few_seeds_of_ways(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    for written, name in ((match[3], match[4]), (match[5], match[6])):
        numbers = said.over_seeds(name, measure_of(said))
        true(len(numbers) == int(match[1]) < 10, match[0])
        is_number(written, float(np.median(numbers)), match[0])


@claim(
    "Over ([\\d,]+) seeds, <attention> is sharper in '(.*?)' than in '(.*?)': (.*?) instead of "
    "(.*?)\\."
)
def more_sharply(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    measured(said, match[0])
    low, high = (said.over_seeds(name, measure_of(said)) for name in match.group(3, 4))
    banded(match[5], low)
    banded(match[6], high)
    true(match[5].split()[0] != match[6].split()[0], match[0])
    goes(low, high, match[0])


@claim(
    "Over ([\\d,]+) seeds, there is no clear difference in how sharp <attention> is: (.*?) in "
    "'(.*?)', (.*?) in '(.*?)'\\."
)
def no_difference(said: Said, match: re.Match[str]) -> None:
    check_who(said, match[2])
    measured(said, match[0])
    for written, name in ((match[3], match[4]), (match[5], match[6])):
        banded(written, said.over_seeds(name, measure_of(said)))


# What rounding changes


@claim("The weights(?: of <who>)? of (.*?) equal those of (.*?) to the last digit\\.")
def all_the_same(said: Said, match: re.Match[str]) -> None:
    if match[1]:
        check_who(said, match[1])
    for name in re.split(", | and ", match[2]):
        true((said.weights(said.way(name)) == said.weights(said.way(match[3]))).all(), match[0])
    true(len(re.split(", | and ", match[2])) == len(said.names) - 1, match[0])


@claim(
    "Weights(?: of <who>)? differ from those of (.*?) by at most (.*?)(; the weights(?: of "
    f"{WHO})? of (.*?) are those of .*)?\\."
)
def at_most(said: Said, match: re.Match[str]) -> None:
    true(bool(match[1]) == (said.comparison.query is not None), match[0])
    base = said.weights(said.way(match[2]))
    for written, name in re.findall(f"({NUMBER}) in (\\w+)", match[3]):
        is_number(written, float(np.abs(said.weights(said.way(name)) - base).max()), match[0])
    for name in re.split(", | and ", match[5]) if match[5] else ():
        true((said.weights(said.way(name)) == base).all(), match[0])


# Mistakes


@claim("✗ (\\S+) is a mistake: (.*)")
def is_a_mistake(said: Said, match: re.Match[str]) -> None:
    mistake, way = MISTAKES[match[1]], said.way(f"✗ {match[1]}")
    true(match[2] in (mistake.cause, mistake.about), match[0])
    assert way.layer is not None
    assert way.trace is not None
    true(match[1] != "model-scale" or way.trace.variant.scaled, match[0])
    if match[2] == mistake.about:
        effect_shows(said, way, match)


def effect_shows(said: Said, way: Alternative, match: re.Match[str]) -> None:
    weights, effect = said.weights(way), MISTAKES[match[1]].effect
    off = row_errors(said, way).max()
    if "future keeps" in effect or "revives" in effect:
        true((weights * ~said.seen(way)).max() > 0, match[0])
    if "no longer sum to 1" in effect or "sums to 1, not the rows" in effect or "columns" in effect:
        true(off > 1e-4, match[0])
    close = 3 * ROUNDING[str(way.weights.dtype).removeprefix("torch.")]
    if "the matrix sums to 1" in effect:
        true(np.abs(way.weights.double().numpy().sum((-1, -2)) - 1).max() < close, match[0])
    if "columns sum to 1" in effect:
        read = np.broadcast_to(way.visible.numpy().any(-2), way.weights.sum(-2).shape)
        true(np.abs(way.weights.double().numpy().sum(-2) - read).max() < close, match[0])
    if "flat" in effect:
        should = softmax(logits(way), way.visible.numpy())[:, said.comparison.rows]
        true(entropies(weights).mean() > entropies(should).mean(), match[0])


def logits(way: Alternative) -> Array:
    assert way.layer is not None
    attended = way.layer.attended
    found: Array = attended.scores.double().numpy() * way.layer.scale
    cap = None if way.trace is None else way.trace.variant.soft_cap
    if cap is not None:
        found = cap * np.tanh(found / cap)
    for added in (attended.bias, attended.mask):
        found = found if added is None else found + added.double().numpy()
    return found


@claim(
    f"(?:Over ([\\d,]+) seeds, |{ONE_DRAW}|Here, )(?:in the row of <who>, )?((?:hidden "
    "tokens|rows do|the row|the symptoms|not every|\\S+(?:, \\S+)*(?: and \\S+)? can(?:not| "
    "only) be told|\\S+(?:, \\S+)*(?: and \\S+)? divides).*)\\."
)
def on_mistakes(said: Said, match: re.Match[str]) -> None:
    true(bool(match[2]) == (said.comparison.query is not None), match[0])
    told = [each.strip() for each in match[3].split(";")]
    named = [name for each in told for name in MISTAKES if re.search(rf"\b{name}\b", each)]
    wrong = {each.name for each in said.comparison.alternatives if each.mistake}
    true(set(named) == wrong, match[0])
    for each in told:
        for name in MISTAKES:
            if re.search(rf"\b{name}\b", each):
                symptom(said, name, each, over_seeds=match[1] is not None)


def symptom(said: Said, name: str, told: str, *, over_seeds: bool) -> None:
    way = said.way(f"✗ {name}")
    hidden, off, moved = flaws(said, way, over_seeds=over_seeds)
    eps = {"torch.bfloat16": 8e-3, "torch.float16": 1e-3}.get(str(way.weights.dtype), 1e-6)
    eps += 1e-4
    if told.startswith("hidden tokens"):
        true((hidden > 9e-5).all(), told)
        amount = re.search(rf"{name} \(({NUMBER})\)", told)
        assert amount
        is_number(amount[1], float(np.median(hidden)), told)
    elif "sum to 1" in told:
        true((off > 9e-5).all(), told)
    elif "can only be told" in told:
        true((hidden <= 1e-4).all() and (off <= eps).all() and (moved > 9e-5).all(), told)
    elif "cannot be told" in told:
        true(max(hidden.max(), off.max(), moved.max()) <= eps, told)
    elif told.startswith("the symptoms"):
        true((moved > 9e-5).all(), told)
    else:
        true(told.startswith("not every seed") and over_seeds, told)
        true(moved.min() <= 1.1e-4, told)


def flaws(said: Said, way: Alternative, *, over_seeds: bool) -> tuple[Array, Array, Array]:
    if over_seeds:
        found = [
            said.over_seeds(f"✗ {way.name}", each) for each in ("hidden", "row_error", "from_right")
        ]
        return found[0], found[1], found[2]
    weights = said.weights(way)
    should = softmax(logits(way), way.visible.numpy())[:, said.comparison.rows]
    hidden, off = (weights * ~said.seen(way)).sum(-1), row_errors(said, way)
    return (
        np.array([hidden.mean()]),
        np.array([off.mean()]),
        np.array([np.abs(weights - should).max()]),
    )


# The largest change


@claim("largest change(?: of <who>)? from (.*) to (.*?): (.*) → (.*): (by )?<n>(?: → <n>)?")
def largest_change(said: Said, match: re.Match[str]) -> None:
    true(bool(match[1]) == (said.comparison.query is not None), match[0])
    before, after = pair(said, match[2], match[3], averaged="in the mean of heads" in match[0])
    change = after - before
    most = np.nanmax(np.abs(change))
    key, _, head = match[5].partition(" in ")
    query = labelled(said, match[4])
    found = np.abs(change)[int(head.split()[-1]) if head.startswith("head ") else slice(None)]
    found = found[..., query, labelled(said, key, keys=True)]
    true(found.max() == most, match[0])
    place = np.unravel_index(np.nanargmax(np.abs(change)), change.shape)
    if match[6]:
        is_number(match[7], change[place], match[0])
    else:
        true(match[7] != match[8], match[0])
        is_number(match[7], before[place], match[0])
        is_number(match[8], after[place], match[0])


def pair(said: Said, one: str, other: str, *, averaged: bool) -> tuple[Array, Array]:
    ways = said.way(one), said.way(other)
    sizes = {len(each.weights) for each in ways}
    true(averaged == (len(sizes) > 1), f"{one} to {other}")
    found = [each.weights.double().numpy() for each in ways]
    if averaged:
        found = [each.weights.mean(0, keepdim=True).double().numpy() for each in ways]
    query = said.comparison.query
    if query is not None:  # the others are not to be found
        for each in found:
            each[:, [row for row in range(each.shape[1]) if row != query]] = np.nan
    return found[0], found[1]


def labelled(said: Said, name: str, *, keys: bool = False) -> int:
    ways = said.comparison.alternatives
    labels = [(each.keys if keys else each.tokens).labels for each in (ways[0], ways[-1])]
    both = ["/".join(dict.fromkeys(each)) for each in zip(*labels, strict=True)]
    number = re.fullmatch(r"(\d+) (.*)", name)
    if both.count(name) == 1:
        return both.index(name)
    assert number, (name, both)
    true(both[int(number[1]) - 1] == number[2], name)
    return int(number[1]) - 1


@claim("no weight(?: of <who>)? changes from (.*) to (.*?)( in the mean of heads)?")
def no_weight_changes(said: Said, match: re.Match[str]) -> None:
    true(bool(match[1]) == (said.comparison.query is not None), match[0])
    before, after = pair(said, match[2], match[3], averaged=bool(match[4]))
    true(np.nanmax(np.abs(after - before)) == 0, match[0])


# What becomes of a number


@claim(
    "(Queries and keys are not compared, so all scores are 0( except for what ALiBi adds)?|A query "
    "sees only one token and gives it all its attention), whatever (.*) is\\."
)
def whatever_it_is(said: Said, match: re.Match[str]) -> None:
    for way in said.comparison.alternatives:
        assert way.layer is not None
        if match[1].startswith("Queries"):
            true(not way.layer.attended.scores.any(), match[0])
            true(bool(match[2]) == (way.layer.attended.bias is not None), match[0])
        else:
            true((way.visible.sum(-1) == 1).all(), match[0])
            true(np.abs(said.weights(way) - said.seen(way)).max() < 1e-12, match[0])


COURSE = (
    f"(stays at {NUMBER}|begins and ends at {NUMBER}|goes beyond what numbers can hold|"
    f"(?:goes|rises|falls) from {NUMBER} to {NUMBER}(?: bits)?(?:, but not steadily)?|"
    f"(?:shows no clear change|can only rise) \\({NUMBER} and {NUMBER}(?: bits)?\\))(?: bits)?"
)
SEEDS = f"(Over [\\d,]+ seeds|In the median of \\d+ seeds|{ONE_DRAW[:-2]})"
OVER = f"{SEEDS}, as (.*) goes from <n> to <n>, "


@claim(
    f"{OVER}the spread of unscaled scores {COURSE} and the entropy of a row {COURSE}; scaled, the "
    f"spread {COURSE} and the entropy {COURSE}(: too few seeds to tell more)?\\."
)
def course_in_full(said: Said, match: re.Match[str]) -> None:
    series = (("spread", "unscaled"), ("entropy", "unscaled"))
    series += (("spread", "scaled"), ("entropy", "scaled"))  # type: ignore[assignment]
    over(said, match)
    for told, (measure, scale) in zip(match.group(5, 6, 7, 8), series, strict=True):
        course(said, told, measure, scale)


@claim(
    f"{OVER}the entropy of a row {COURSE} unscaled; scaled, it {COURSE}(: too few seeds to tell "
    "more)?\\."
)
def course_in_short(said: Said, match: re.Match[str]) -> None:
    over(said, match)
    course(said, match[5], "entropy", "unscaled")
    course(said, match[6], "entropy", "scaled")


def swept(said: Said) -> tuple[Sweep, Array, list[int]]:
    """The sweep, where its values lie, and their order."""
    assert said.sweep is not None
    across = np.array(said.sweep.values, dtype=float)
    if said.sweep.by == "dim" and len(set(said.sweep.widths)) == len(said.sweep.widths):
        across = np.array(said.sweep.widths, dtype=float)
    return said.sweep, across, [int(each) for each in np.argsort(across)]


def over(said: Said, match: re.Match[str]) -> None:
    sweep, across, order = swept(said)
    true(float(match[3]) == across[order[0]], match[0])
    true(float(match[4]) == across[order[-1]], match[0])
    few = 1 < sweep.repeats < 10
    true(("too few" in match[0]) == few, match[0])
    number = re.search(r"of (\d+) seeds|Over ([\d,]+) seeds", match[1])
    told = 1 if number is None else int((number[1] or number[2]).replace(",", ""))
    true(told == sweep.repeats and (sweep.repeats >= 10 or "Over" not in match[1]), match[0])


def course(said: Said, told: str, measure: str, scale: str) -> None:
    sweep, _, order = swept(said)
    rows = sweep.curves[measure][scale].double().numpy()[order]
    if told.startswith("goes beyond"):
        true(not np.isfinite(rows).all(), told)
        return
    middles = np.median(rows, axis=1)
    numbers = re.findall(NUMBER, told)
    if told.startswith("stays"):
        for each in middles:
            is_number(numbers[0], float(each), told)
        return
    is_number(numbers[0], float(middles[0]), told)
    is_number(numbers[-1], float(middles[-1]), told)
    if told.startswith("begins"):
        return
    true(numbers[0] != numbers[1], told)
    if "can only rise" in told:
        true((sweep.by, measure) == ("temperature", "entropy"), told)
        true((np.diff(rows, axis=0) > -1e-4).all(), told)
        of_scores_alone(said, told)
    if "rises" in told or "falls" in told:
        goes(rows[0], rows[-1], told) if "rises" in told else goes(rows[-1], rows[0], told)
        margin = 0.051 * abs(middles[-1] - middles[0])
        low, high = min(middles[0], middles[-1]) - margin, max(middles[0], middles[-1]) + margin
        true(((middles >= low) & (middles <= high)).all(), told)


# Titles: each claims no more than the sentence in the end, which is held against the numbers.
TITLES = {
    r"Scaling spreads (?:the )?attention.* over (\S+) tokens instead of (\S+)": None,
    r"Scaling narrows (?:the )?attention.* to (\S+) tokens instead of (\S+)": None,
    r"\d seeds are too few to tell .*": "too few seeds to tell more",
    r"Scaling hardly changes how many tokens .* attends to": "hardly changes how many",
    r"Scaling cannot make .* attend to fewer tokens": "cannot make",
    r"Whether scaling spreads attention depends on the seed .*": "it is not clear",
    r"Scaling changes weights, but .* attends to about as many tokens": "about as many tokens",
    r"(?:Attention|The attention of .*) is equally sharp in .*": "is equally sharp in",
    "Over [\\d,]+ seeds, none of them is clearly the sharpest": "there is no clear difference",
}


def check_title(said: Said) -> None:
    title, told = said.view.headline, said.view.closing[-1]
    sharper = re.fullmatch(r".* is sharper in (.+) than in (.+)", title)
    if sharper:
        true(f"sharper in {sharper[1]} than in {sharper[2]}" in told, title)
    elif title.casefold() in told.casefold() or said.sweep is not None:
        return
    else:
        of_title(title.removesuffix(" in this one draw"), told)


def of_title(title: str, told: str) -> None:
    found = [(each, match) for each in TITLES if (match := re.fullmatch(each, title))]
    true(found, f"nobody knows what this title claims: {title}")
    pattern, match = found[0]
    phrase = TITLES[pattern]
    if phrase is not None:
        true(phrase in told, title)
        return
    more, less = float(match[1]), float(match[2])
    true((more > less) == ("spreads" in title), title)
    true(match[1] in told and match[2] in told, title)
