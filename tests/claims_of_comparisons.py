"""What the sentences of a comparison claim, checked by arithmetic of their own.

Every sentence has to be one of those that are known here; of each, every number and every word
that compares numbers is computed again, in NumPy, from the weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np
import torch

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.attention.mistakes import MISTAKES
from attnviz.views.view import View
from tests import not_none

Array = np.ndarray[Any, np.dtype[np.float64]]
NUMBER = r"-?(?:\d[\d,]*)?\.?\d+(?:e[+-]\d+)?"
PART = f"(?:over |under )?{NUMBER}(?:\u00a0?%)?"  # a number, or per cents as sentences write them
WHO = r'(?:[Aa] query|".*?" \(\d+\))'
ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


class FalseSentence(AssertionError):
    """A sentence that the numbers contradict, or that no pattern matches."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A comparison with its View, and everything that the View's sentences may be about."""

    comparison: Comparison
    view: View
    repeats: Repeats | None = None
    sweep: Sweep | None = None

    @cached_property
    def names(self) -> list[str]:
        prefix = self.comparison.by
        shows_aspect = prefix in ("dim", "heads", "temperature", "seed")
        return [
            f"{prefix} {each.name}"
            if shows_aspect
            else f"✗ {each.name}"
            if each.mistake
            else each.name
            for each in self.comparison.alternatives
        ]

    def alternative(self, name: str) -> Alternative:
        return self.comparison.alternatives[self.names.index(name.strip("'"))]

    def weights(self, alternative: Alternative) -> Array:
        weights: Array = alternative.weights.double().numpy()
        return weights[:, self.comparison.rows]

    def visible_keys(self, alternative: Alternative) -> np.ndarray[Any, np.dtype[np.bool_]]:
        visible: np.ndarray[Any, np.dtype[np.bool_]] = alternative.visible.numpy()
        return visible[..., self.comparison.rows, :]

    def rows_that_read(self, alternative: Alternative) -> Array:
        """Rows of weights of the queries that read anything: only these are measured."""
        rows: Array = self.weights(alternative)[~np.isnan(self.row_entropies(alternative))]
        return rows

    def effective_tokens(self, alternative: Alternative) -> float:
        return float(np.nanmean(2 ** self.row_entropies(alternative)))

    def row_entropies(self, alternative: Alternative) -> Array:
        """Entropies in bits; NaN where a query can read nothing and does not."""
        weights, entropy = self.weights(alternative), entropies(self.weights(alternative))
        sees_nothing = ~self.visible_keys(alternative).any(-1) & (weights.sum(-1) == 0)
        entropy[sees_nothing] = np.nan
        return entropy

    def share_of_largest_entropy(self, alternative: Alternative) -> float:
        """Mean entropy as a share of the largest possible, of queries that see several tokens."""
        visible = (self.visible_keys(alternative) | (self.weights(alternative) > 1e-9)).sum(-1)
        rows = np.broadcast_to(visible, self.weights(alternative).shape[:-1])
        bits = self.row_entropies(alternative)[rows > 1]
        return float(np.nanmean(bits / np.log2(rows[rows > 1]))) if bits.size else np.nan

    def measure_over_seeds(self, name: str, measure: str) -> Array:
        assert self.repeats is not None
        measures: Array = self.repeats.by_measure[measure][self.names.index(name)].double().numpy()
        return measures


def entropies(weights: Array) -> Array:
    rows = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    bits: Array = -(np.where(rows > 0, rows, 0) * np.log2(np.where(rows > 0, rows, 1))).sum(-1)
    return bits


def row_errors(evidence: Evidence, alternative: Alternative) -> Array:
    """How far the sum of each row is from 1; or from 0, where there is nothing to read."""
    sums = evidence.weights(alternative).sum(-1)
    sees_nothing = np.broadcast_to(~evidence.visible_keys(alternative).any(-1), sums.shape)
    errors: Array = np.where(
        sees_nothing, np.minimum(np.abs(sums), np.abs(sums - 1)), np.abs(sums - 1)
    )
    return errors


def gradients(weights: Array) -> Array:
    """Norm of the softmax's Jacobian for each row, computed cell by cell."""
    norms = []
    for row in weights.reshape(-1, weights.shape[-1]):
        shares = row / max(row.sum(), 1e-300)
        jacobian = np.outer(shares, shares)
        for place in range(len(shares)):
            jacobian[place, place] = shares[place] * np.delete(shares, place).sum()
        norms.append(np.sqrt((jacobian**2).sum()))
    return np.array(norms)


def softmax(scores: Array, visible: Any = True) -> Array:
    masked_scores = np.where(visible, scores, -np.inf)
    largest = masked_scores.max(-1, keepdims=True)
    powers = np.exp(masked_scores - np.where(np.isneginf(largest), 0, largest))
    shares: Array = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
    return shares


def require(claim: object, sentence: str) -> None:
    if not claim:
        raise FalseSentence(sentence)


def require_number(stated: str, number: float, sentence: str) -> None:
    """Raise unless `number` rounds to the digits in `written`."""
    percent = stated.endswith("%")
    bound, _, rest = stated.rpartition(" ")
    digits = rest.rstrip("\u00a0%").replace(",", "")
    mantissa, _, power = digits.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (-decimals + int(power or 0)) / (100 if percent else 1)
    value = float(digits) / (100 if percent else 1)
    if bound:
        require(number > value if bound == "over" else number < value, f"{stated}: {sentence}")
        return
    slack = 0.5 * unit * 1.001 + 2e-6 * abs(number) + 1e-9 * unit
    require(abs(value - number) <= slack or value == number, f"{stated} is {number}: {sentence}")


# One table: what a sentence looks like, and what makes it true

Check = Callable[[Evidence, re.Match[str]], None]
CLAIMS: list[tuple[re.Pattern[str], Check]] = []


def claim(pattern: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        full_pattern = pattern.replace("<n>", f"({PART})").replace("<who>", f"({WHO})")
        full_pattern = full_pattern.replace(
            "<attention>", f"([Aa]ttention|[Tt]he attention of {WHO})"
        )
        full_pattern = full_pattern.replace(
            "<measures>", f"({WHO} attends to|(?:[Aa]ttention|[Tt]he attention of {WHO}) has)"
        )
        CLAIMS.append((re.compile(f"^{full_pattern}$"), check))
        return check

    return register


def check_sentence(evidence: Evidence, sentence: str) -> str:
    """Name of the claim that a sentence makes; raises unless it is a known one, and true."""
    for pattern, check in CLAIMS:
        match = pattern.match(sentence)
        if match:
            check(evidence, match)
            return check.__name__
    raise FalseSentence(f"nobody knows what this claims: {sentence}")


def check_query_name(evidence: Evidence, query_phrase: str) -> None:
    query = evidence.comparison.query
    query_phrase = re.sub("^[Tt]he attention of | (attends to|has)$", "", query_phrase)
    if query is None:
        require(query_phrase.lower() in ("a query", "attention"), query_phrase)
    else:
        require(query_phrase.endswith(f"({query + 1})"), query_phrase)
        require(query_phrase[1:].split('"')[0] in _labels(evidence, query), query_phrase)


def _labels(evidence: Evidence, place: int) -> list[str]:
    labels = [each.tokens.labels[place] for each in evidence.comparison.alternatives]
    return [*labels, "/".join(labels)]


# What scaling changes


def scaling_alternatives(evidence: Evidence) -> tuple[Alternative, Alternative]:
    return evidence.alternative("unscaled"), evidence.alternative("scaled")


def largest_scaling_change(evidence: Evidence) -> float:
    before, after = (evidence.weights(each) for each in scaling_alternatives(evidence))
    return float(np.abs(after - before).max())


@claim("Scaling changes nothing here: <who> sees only one token, which gets all its attention\\.")
def one_token_is_visible(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    for alternative in scaling_alternatives(evidence):
        require((evidence.visible_keys(alternative).sum(-1) == 1).all(), match[0])
        require(
            np.abs(evidence.weights(alternative) - evidence.visible_keys(alternative)).max()
            < 1e-12,
            match[0],
        )


@claim("Scaling changes nothing here: queries and keys are not compared, so all scores are 0\\.")
def all_scores_are_zero(evidence: Evidence, match: re.Match[str]) -> None:
    for alternative in scaling_alternatives(evidence):
        scores = not_none(alternative.layer).attended.scores
        require(not scores.any(), match[0])
    require(largest_scaling_change(evidence) == 0, match[0])


@claim("Scaling changes nothing here: √1 is 1\\.")
def root_is_one(evidence: Evidence, match: re.Match[str]) -> None:
    for alternative in scaling_alternatives(evidence):
        require(alternative.layer is not None and alternative.layer.head_dim == 1, match[0])
    require(largest_scaling_change(evidence) == 0, match[0])


@claim("Scaling changes next to nothing here: (.*)\\.")
def scaling_changes_almost_nothing(evidence: Evidence, match: re.Match[str]) -> None:
    require(largest_scaling_change(evidence) < 0.01, match[0])
    before, after = scaling_alternatives(evidence)
    if match[1] == "the scores of a row are all about the same":
        assert before.layer is not None
        scores = before.layer.attended.scores.double().numpy()[:, evidence.comparison.rows]
        high = np.where(evidence.visible_keys(before), scores, -np.inf).max(-1)
        low = np.where(evidence.visible_keys(before), scores, np.inf).min(-1)
        require((high - low).max() < 0.01, match[0])
    elif match[1].startswith("one token gets nearly all"):
        require(
            min(evidence.weights(each).max(-1).min() for each in (before, after)) > 0.99, match[0]
        )
        strongest_keys = [evidence.weights(each).argmax(-1) for each in (before, after)]
        require((strongest_keys[0] == strongest_keys[1]).all(), match[0])
    else:
        query_phrase, numbers = re.fullmatch(f"({WHO}) attends to (.*)", match[1]).groups()  # type: ignore[union-attr]
        check_query_name(evidence, query_phrase)
        require_token_counts(
            evidence.effective_tokens(before), evidence.effective_tokens(after), numbers
        )


def require_token_counts(before: float, after: float, sentence: str) -> None:
    same_number = re.fullmatch(f"({NUMBER}) tokens with and without scaling", sentence)
    two_numbers = re.fullmatch(f"({NUMBER}) tokens with scaling, ({NUMBER}) without", sentence)
    if same_number:
        require_number(same_number[1], before, sentence)
        require_number(same_number[1], after, sentence)
        return
    assert two_numbers, sentence
    require(two_numbers[1] != two_numbers[2], sentence)
    require_number(two_numbers[1], after, sentence)
    require_number(two_numbers[2], before, sentence)


@claim(
    "Scaling changes weights (by less than .01|by up to <n>), but <who> attends to about as many "
    "tokens: (.*)\\."
)
def scaling_keeps_token_count(evidence: Evidence, match: re.Match[str]) -> None:
    if match[2]:
        require_number(match[2], largest_scaling_change(evidence), match[0])
    else:
        require(largest_scaling_change(evidence) < 0.01, match[0])
    check_query_name(evidence, match[3])
    before, after = (evidence.effective_tokens(each) for each in scaling_alternatives(evidence))
    require_token_counts(before, after, match[4])
    require(abs(after - before) < 0.005, match[0])


ONE_DRAW = "With this one draw of random numbers, "


@claim(f"{ONE_DRAW}<who> attends to <n> tokens unscaled and to <n> divided by √(\\d+)\\.")
def token_counts_of_one_draw(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    require(match[2] != match[3], match[0])
    for number, alternative in zip(
        (match[2], match[3]), scaling_alternatives(evidence), strict=True
    ):
        require_number(number, evidence.effective_tokens(alternative), match[0])
        require(
            alternative.layer is not None and alternative.layer.head_dim == int(match[4]), match[0]
        )


@claim(
    "Dividing the scores by √(\\d+|d_k) makes <who> attend to <n> tokens instead of <n>(?:, and "
    "the gradient of the softmax (\\S*) times as large|, and the gradient of the softmax over a "
    "(thousand) times as large)?\\."
)
def scaling_changes_token_count(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    before, after = scaling_alternatives(evidence)
    require(match[3] != match[4], match[0])
    require_number(match[3], evidence.effective_tokens(after), match[0])
    require_number(match[4], evidence.effective_tokens(before), match[0])
    if match[1] != "d_k":
        require(after.layer is not None and after.layer.head_dim == int(match[1]), match[0])
    gradient_before, gradient_after = (
        gradients(evidence.rows_that_read(each)).mean() for each in (before, after)
    )
    require_ratio(
        match[5] or match[6],
        gradient_after / gradient_before if gradient_before else np.inf,
        match[0],
    )


def require_ratio(stated: str | None, ratio: float, sentence: str) -> None:
    if stated is None:
        return
    if stated in ("over a thousand", "thousand"):
        require(ratio >= 1000 * (1 - 1e-6), f"{ratio}: {sentence}")
        return
    require_number(stated, ratio, sentence)
    require(float(stated) > 1, sentence)


# What scaling changes over seeds

BAND = (
    f"({PART})(?: tokens| of the largest entropy)?(?: \\(({PART})–({PART})(?: in 8 of 10 "
    "seeds)?\\))?"
)


def require_band(stated: str, numbers: Array) -> float:
    """Check a median and the band of 8 in 10 seeds beside it; the median of `numbers`."""
    match = re.fullmatch(BAND, stated.strip())
    assert match, stated
    require_number(match[1], float(np.median(numbers)), stated)
    if match[2] is None:
        return float(np.median(numbers))
    low, high = (
        float(each.rstrip("\u00a0%").split()[-1]) / (100 if "%" in each else 1)
        for each in match.group(2, 3)
    )
    low = 0.0 if match[2].startswith("under") else low
    high = 1.0 if match[3].startswith("over") else high
    decimals = len(match[2].rstrip("\u00a0%").partition(".")[2]) + (2 if "%" in match[2] else 0)
    slack = 0.501 * 10.0**-decimals + 1e-6
    share_inside = ((numbers >= low - slack) & (numbers <= high + slack)).mean()
    require(share_inside >= 0.8, f"{share_inside:.2f} of {sorted(numbers)} in {stated}")
    return float(np.median(numbers))


def require_increase(lower: Array, higher: Array, sentence: str) -> None:
    """Raise unless most seeds, and the medians, are higher in `higher` than in `lower`."""
    require((higher > lower).mean() >= 0.85, sentence)
    require(np.median(higher) > np.median(lower), sentence)


def measures_of_scaling(evidence: Evidence, measure: str) -> tuple[Array, Array]:
    return evidence.measure_over_seeds("unscaled", measure), evidence.measure_over_seeds(
        "scaled", measure
    )


@claim(
    "In the median of (\\d+) seeds, <who> attends to <n> tokens unscaled and to <n> divided by "
    "√(\\d+): too few seeds to tell more\\."
)
def token_counts_of_few_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    before, after = measures_of_scaling(evidence, "effective")
    require(len(before) == int(match[1]) < 10, match[0])
    require_number(match[3], float(np.median(before)), match[0])
    require_number(match[4], float(np.median(after)), match[0])


@claim("Over ([\\d,]+) seeds, scaling hardly changes how many tokens <who> attends to: (.*)\\.")
def scaling_hardly_matters_over_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    before, after = measures_of_scaling(evidence, "effective")
    require(len(before) == int(match[1].replace(",", "")), match[0])
    require((np.abs(after - before) < 0.0051).mean() >= 0.8, match[0])
    require_token_counts(float(np.median(before)), float(np.median(after)), match[3])


@claim(
    "Over ([\\d,]+) seeds, dividing by √(\\d+) makes <who> attend to (.*?) instead of "
    f"({BAND})(?:, and makes the gradient of the softmax (.*) times as large)?\\."
)
def scaling_changes_token_count_over_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[3])
    before, after = measures_of_scaling(evidence, "effective")
    least, most = require_band(match[5], before), require_band(match[4], after)
    ends = (before, after) if most > least else (after, before)
    require_increase(*ends, match[0])
    require(match[4].split()[0] != match[6], match[0])
    if match[9]:
        gradients_before, gradients_after = measures_of_scaling(evidence, "gradient")
        with np.errstate(divide="ignore"):
            require_ratio(match[9], float(np.median(gradients_after / gradients_before)), match[0])
        require_increase(gradients_before, gradients_after, match[0])


@claim(
    "Over ([\\d,]+) seeds, it is not clear whether scaling makes <who> attend to more or fewer "
    "tokens: (.*?) divided by √(\\d+), (.*?) unscaled\\."
)
def effect_of_scaling_is_unclear(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    before, after = measures_of_scaling(evidence, "effective")
    require_band(match[3], after)
    require_band(match[5], before)


@claim(
    "Dividing by √(\\d+) cannot make <who> attend to fewer tokens, and in ([\\d,]+) of ([\\d,]+) "
    "seeds it hardly changes how many: (.*?) with scaling, (.*?) without\\."
)
def scaling_never_narrows(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    before, after = measures_of_scaling(evidence, "effective")
    require(len(before) == int(match[4].replace(",", "")) >= 10, match[0])
    require((np.abs(after - before) < 0.005).sum() == int(match[3].replace(",", "")) > 0, match[0])
    require((after - before).min() > -1e-4, match[0])
    require_band(match[5], after)
    require_band(match[6], before)
    require_logits_of_scores_only(evidence, match[0])


def require_logits_of_scores_only(evidence: Evidence, sentence: str) -> None:
    """Raise if more than scaling separates logits from scores: no theorem holds then."""
    for alternative in evidence.comparison.alternatives:
        assert alternative.layer is not None
        attended = alternative.layer.attended
        require((attended.scores * alternative.layer.scale == attended.logits).all(), sentence)


# How sharp attention is in each alternative


def sharpness_measure(evidence: Evidence) -> str:
    """Tokens, where queries see as many in all alternatives; else shares of the largest entropy."""
    counts = {
        tuple(evidence.visible_keys(each).sum(-1).tolist())
        for each in evidence.comparison.alternatives
    }
    return "effective" if len(counts) == 1 else "share"


def mean_sharpness(evidence: Evidence, sentence: str) -> dict[str, float]:
    """The mean of each alternative that has one; checks the unit of the sentence, too."""
    share = sharpness_measure(evidence) == "share"
    require(("of the largest entropy" in sentence) == share, sentence)
    alternatives = zip(evidence.names, evidence.comparison.alternatives, strict=True)
    means = {
        name: evidence.share_of_largest_entropy(each) if share else evidence.effective_tokens(each)
        for name, each in alternatives
    }
    return {name: number for name, number in means.items() if not isnan(number)}


def quoted_names(names: str) -> list[str]:
    return re.findall("'(.*?)'(?:,| and|$)", names)


@claim("There is nothing to compare: every key is masked for <who>\\.")
def every_key_is_masked(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    for alternative in evidence.comparison.alternatives:
        require(
            not evidence.visible_keys(alternative).any()
            and not evidence.weights(alternative).any(),
            match[0],
        )


@claim(
    "There is nothing to compare: a query that sees no token attends to nothing, and one .* "
    "attention\\."
)
def some_queries_see_nothing(evidence: Evidence, match: re.Match[str]) -> None:
    counts = [evidence.visible_keys(each).sum(-1) for each in evidence.comparison.alternatives]
    require(any((each == 0).any() for each in counts), match[0])
    require(all((each <= 1).all() for each in counts), match[0])


@claim(
    "There is nothing to compare: a query that sees a single token gives it all its attention\\."
)
def no_query_has_a_choice(evidence: Evidence, match: re.Match[str]) -> None:
    counts = [evidence.visible_keys(each).sum(-1) for each in evidence.comparison.alternatives]
    require(all((each <= 1).all() for each in counts), match[0])
    require(any((each == 1).any() for each in counts), match[0])


@claim("<who> sees more than one token only in '(.*?)', so there is nothing to compare\\.")
def one_alternative_has_a_choice(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    for name, alternative in zip(evidence.names, evidence.comparison.alternatives, strict=True):
        require(
            (evidence.visible_keys(alternative).sum(-1) > 1).any() == (name == match[2]), match[0]
        )


@claim("<attention> is equally sharp in (.*?): <n>( to <n>)?(?: tokens| of the largest entropy)\\.")
def equally_sharp(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    means = mean_sharpness(evidence, match[0])
    require_all_named(match[2], means, evidence, match[0])
    ends = min(means.values()), max(means.values())
    require(ends[1] - ends[0] < 0.005, match[0])
    require_number(match[3], ends[0], match[0])
    require_number(match[5] or match[3], ends[1], match[0])


def require_all_named(
    names: str, means: dict[str, float], evidence: Evidence, sentence: str
) -> None:
    if names in ("both", "all of them"):
        require(len(means) == len(evidence.names), sentence)
    else:
        require(set(quoted_names(names)) == set(means), sentence)


@claim(
    "Over ([\\d,]+) seeds, <attention> is equally sharp in (.*?): <n>( to <n>)?(?: tokens| of "
    ".*)\\."
)
def equally_sharp_over_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    means = mean_sharpness(evidence, match[0])
    require_all_named(match[3], means, evidence, match[0])
    measures = [evidence.measure_over_seeds(name, sharpness_measure(evidence)) for name in means]
    medians = sorted(float(np.median(each)) for each in measures)
    for one in measures:
        for other in measures:
            require((np.abs(one - other) < 0.0051).mean() >= 0.8, match[0])
    require_number(match[4], medians[0], match[0])
    require_number(match[6] or match[4], medians[-1], match[0])


@claim(
    f"(?:{ONE_DRAW})?<measures> <n>(.*?) in '(.*?)' and <n> in '(.*?)'(: seeds differ only by "
    "chance)?\\."
)
def extremes_of_one_draw(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    means = mean_sharpness(evidence, match[0])
    for stated, name in ((match[2], match[4]), (match[5], match[6])):
        require_number(stated, means[name], match[0])
    require(means[match[4]] == min(means.values()), match[0])
    require(means[match[6]] == max(means.values()), match[0])
    require(match[2] != match[5], match[0])
    require(bool(match[7]) == (evidence.comparison.by == "seed"), match[0])


@claim(
    "<attention> is sharpest in (.*?) \\(<n>( tokens| of .*?)\\) and most even in (.*?) "
    "\\(<n>.*\\)\\."
)
def sharpest_and_most_even(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[1])
    means = mean_sharpness(evidence, match[0])
    require(match[3] != match[6], match[0])
    require(not set(quoted_names(match[2])) & set(quoted_names(match[5])), match[0])
    for names, stated, end in (
        (match[2], match[3], min(means.values())),
        (match[5], match[6], max(means.values())),
    ):
        require_number(stated, end, match[0])
        for name in quoted_names(names):
            require_number(stated, means[name], match[0])
        require(next(each for each in means if means[each] == end) in quoted_names(names), match[0])


@claim(
    "In the median of (\\d+) seeds, <measures> <n>.*? in '(.*?)' and <n> in '(.*?)': too few "
    "seeds to tell more\\."
)
def extremes_of_few_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    for stated, name in ((match[3], match[4]), (match[5], match[6])):
        numbers = evidence.measure_over_seeds(name, sharpness_measure(evidence))
        require(len(numbers) == int(match[1]) < 10, match[0])
        require_number(stated, float(np.median(numbers)), match[0])


@claim(
    "Over ([\\d,]+) seeds, <attention> is sharper in '(.*?)' than in '(.*?)': (.*?) instead of "
    "(.*?)\\."
)
def sharper_over_seeds(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    mean_sharpness(evidence, match[0])
    low, high = (
        evidence.measure_over_seeds(name, sharpness_measure(evidence)) for name in match.group(3, 4)
    )
    require_band(match[5], low)
    require_band(match[6], high)
    require(match[5].split()[0] != match[6].split()[0], match[0])
    require_increase(low, high, match[0])


@claim(
    "Over ([\\d,]+) seeds, there is no clear difference in how sharp <attention> is: (.*?) in "
    "'(.*?)', (.*?) in '(.*?)'\\."
)
def no_clear_difference(evidence: Evidence, match: re.Match[str]) -> None:
    check_query_name(evidence, match[2])
    mean_sharpness(evidence, match[0])
    for stated, name in ((match[3], match[4]), (match[5], match[6])):
        require_band(stated, evidence.measure_over_seeds(name, sharpness_measure(evidence)))


# What rounding changes


@claim("The weights(?: of <who>)? of (.*?) equal those of (.*?) to the last digit\\.")
def weights_are_equal(evidence: Evidence, match: re.Match[str]) -> None:
    if match[1]:
        check_query_name(evidence, match[1])
    for name in re.split(", | and ", match[2]):
        require(
            (
                evidence.weights(evidence.alternative(name))
                == evidence.weights(evidence.alternative(match[3]))
            ).all(),
            match[0],
        )
    require(len(re.split(", | and ", match[2])) == len(evidence.names) - 1, match[0])


@claim(
    "Weights(?: of <who>)? differ from those of (.*?) by at most (.*?)(; the weights(?: of "
    f"{WHO})? of (.*?) are those of .*)?\\."
)
def weights_differ_at_most(evidence: Evidence, match: re.Match[str]) -> None:
    require(bool(match[1]) == (evidence.comparison.query is not None), match[0])
    base = evidence.weights(evidence.alternative(match[2]))
    for stated, name in re.findall(f"({NUMBER}) in (\\w+)", match[3]):
        require_number(
            stated,
            float(np.abs(evidence.weights(evidence.alternative(name)) - base).max()),
            match[0],
        )
    for name in re.split(", | and ", match[5]) if match[5] else ():
        require((evidence.weights(evidence.alternative(name)) == base).all(), match[0])


# Mistakes


@claim("✗ (\\S+) is a mistake: (.*)")
def mistake_is_described(evidence: Evidence, match: re.Match[str]) -> None:
    mistake, alternative = MISTAKES[match[1]], evidence.alternative(f"✗ {match[1]}")
    require(match[2] in (mistake.cause, mistake.about), match[0])
    assert alternative.layer is not None
    require(match[1] != "model-scale" or not_none(alternative.trace).variant.scaled, match[0])
    if match[2] == mistake.about:
        require_effect(evidence, alternative, match)


def require_effect(evidence: Evidence, alternative: Alternative, match: re.Match[str]) -> None:
    weights, effect = evidence.weights(alternative), MISTAKES[match[1]].effect
    row_error = row_errors(evidence, alternative).max()
    if "future keeps" in effect or "revives" in effect:
        require((weights * ~evidence.visible_keys(alternative)).max() > 0, match[0])
    if "no longer sum to 1" in effect or "sums to 1, not the rows" in effect or "columns" in effect:
        require(row_error > 1e-4, match[0])
    close = 3 * ROUNDING[str(alternative.weights.dtype).removeprefix("torch.")]
    if "the matrix sums to 1" in effect:
        require(
            np.abs(alternative.weights.double().numpy().sum((-1, -2)) - 1).max() < close, match[0]
        )
    if "columns sum to 1" in effect:
        keys_read = np.broadcast_to(
            alternative.visible.numpy().any(-2), alternative.weights.sum(-2).shape
        )
        require(
            np.abs(alternative.weights.double().numpy().sum(-2) - keys_read).max() < close, match[0]
        )
    if "flat" in effect:
        correct_weights = softmax(logits(alternative), alternative.visible.numpy())[
            :, evidence.comparison.rows
        ]
        require(entropies(weights).mean() > entropies(correct_weights).mean(), match[0])


def logits(alternative: Alternative) -> Array:
    assert alternative.layer is not None
    """The scores that the softmax takes, in the precision of the alternative: that of float32 is
    1e-3 for scores of 1e4."""
    attended = alternative.layer.attended
    scores = attended.scores * alternative.layer.scale
    cap = None if alternative.trace is None else alternative.trace.variant.soft_cap
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    for addend in (attended.bias, attended.mask):
        scores = scores if addend is None else scores + addend.to(scores.dtype)
    added: Array = scores.double().numpy()
    return added


@claim(
    f"(?:Over ([\\d,]+) seeds, |{ONE_DRAW}|Here, )(?:in the row of <who>, )?((?:hidden "
    "tokens|rows do|the row|the symptoms|not every|\\S+(?:, \\S+)*(?: and \\S+)? can(?:not| "
    "only) be told|\\S+(?:, \\S+)*(?: and \\S+)? divides).*)\\."
)
def symptoms_of_mistakes(evidence: Evidence, match: re.Match[str]) -> None:
    require(bool(match[2]) == (evidence.comparison.query is not None), match[0])
    phrases = [each.strip() for each in match[3].split(";")]
    named_mistakes = [
        name for each in phrases for name in MISTAKES if re.search(rf"\b{name}\b", each)
    ]
    mistakes = {each.name for each in evidence.comparison.alternatives if each.mistake}
    require(set(named_mistakes) == mistakes, match[0])
    for each in phrases:
        for name in MISTAKES:
            if re.search(rf"\b{name}\b", each):
                require_symptom(evidence, name, each, over_seeds=match[1] is not None)


def require_symptom(evidence: Evidence, name: str, phrase: str, *, over_seeds: bool) -> None:
    alternative = evidence.alternative(f"✗ {name}")
    hidden, row_error, difference = measure_symptoms(evidence, alternative, over_seeds=over_seeds)
    eps = {"torch.bfloat16": 8e-3, "torch.float16": 1e-3}.get(str(alternative.weights.dtype), 1e-6)
    eps += 1e-4
    if phrase.startswith("hidden tokens"):
        require((hidden > 9e-5).all(), phrase)
        amount = re.search(rf"{name} \(({NUMBER})\)", phrase)
        assert amount
        require_number(amount[1], float(np.median(hidden)), phrase)
    elif "sum to 1" in phrase:
        require((row_error > 9e-5).all(), phrase)
    elif "can only be told" in phrase:
        require(
            (hidden <= 1e-4).all() and (row_error <= eps).all() and (difference > 9e-5).all(),
            phrase,
        )
    elif "cannot be told" in phrase:
        require(max(hidden.max(), row_error.max(), difference.max()) <= eps, phrase)
    elif phrase.startswith("the symptoms"):
        require((difference > 9e-5).all(), phrase)
    else:
        require(phrase.startswith("not every seed") and over_seeds, phrase)
        require(difference.min() <= 1.1e-4, phrase)


def measure_symptoms(
    evidence: Evidence, alternative: Alternative, *, over_seeds: bool
) -> tuple[Array, Array, Array]:
    if over_seeds:
        measures = [
            evidence.measure_over_seeds(f"✗ {alternative.name}", each)
            for each in ("hidden", "row_error", "from_right")
        ]
        return measures[0], measures[1], measures[2]
    weights = evidence.weights(alternative)
    correct_weights = softmax(logits(alternative), alternative.visible.numpy())[
        :, evidence.comparison.rows
    ]
    hidden, row_error = (
        (weights * ~evidence.visible_keys(alternative)).sum(-1),
        row_errors(evidence, alternative),
    )
    return (
        np.array([hidden.mean()]),
        np.array([row_error.mean()]),
        np.array([np.abs(weights - correct_weights).max()]),
    )


# The largest change


@claim("largest change(?: of <who>)? from (.*) to (.*?): (.*) → (.*): (by )?<n>(?: → <n>)?")
def largest_change(evidence: Evidence, match: re.Match[str]) -> None:
    require(bool(match[1]) == (evidence.comparison.query is not None), match[0])
    before, after = weights_of_pair(
        evidence, match[2], match[3], averaged="in the mean of heads" in match[0]
    )
    change = after - before
    largest = np.nanmax(np.abs(change))
    key, _, head = match[5].partition(" in ")
    query = position_of_label(evidence, match[4])
    changes = np.abs(change)[int(head.split()[-1]) if head.startswith("head ") else slice(None)]
    changes = changes[..., query, position_of_label(evidence, key, keys=True)]
    require(changes.max() == largest, match[0])
    place = np.unravel_index(np.nanargmax(np.abs(change)), change.shape)
    if match[6]:
        require_number(match[7], change[place], match[0])
    else:
        require(match[7] != match[8], match[0])
        require_number(match[7], before[place], match[0])
        require_number(match[8], after[place], match[0])


def weights_of_pair(
    evidence: Evidence, one: str, other: str, *, averaged: bool
) -> tuple[Array, Array]:
    alternatives = evidence.alternative(one), evidence.alternative(other)
    sizes = {len(each.weights) for each in alternatives}
    require(averaged == (len(sizes) > 1), f"{one} to {other}")
    weights = [each.weights.double().numpy() for each in alternatives]
    if averaged:
        weights = [each.weights.mean(0, keepdim=True).double().numpy() for each in alternatives]
    query = evidence.comparison.query
    if query is not None:  # the largest change is looked for in its row only
        for each in weights:
            each[:, [row for row in range(each.shape[1]) if row != query]] = np.nan
    return weights[0], weights[1]


def position_of_label(evidence: Evidence, name: str, *, keys: bool = False) -> int:
    alternatives = evidence.comparison.alternatives
    labels_of_both = [
        (each.keys if keys else each.tokens).labels for each in (alternatives[0], alternatives[-1])
    ]
    both = ["/".join(dict.fromkeys(each)) for each in zip(*labels_of_both, strict=True)]
    number = re.fullmatch(r"(\d+) (.*)", name)
    if both.count(name) == 1:
        return both.index(name)
    assert number, (name, both)
    require(both[int(number[1]) - 1] == number[2], name)
    return int(number[1]) - 1


@claim("no weight(?: of <who>)? changes from (.*) to (.*?)( in the mean of heads)?")
def no_weight_changes(evidence: Evidence, match: re.Match[str]) -> None:
    require(bool(match[1]) == (evidence.comparison.query is not None), match[0])
    before, after = weights_of_pair(evidence, match[2], match[3], averaged=bool(match[4]))
    require(np.nanmax(np.abs(after - before)) == 0, match[0])


# What a sweep over values changes


@claim(
    "(Queries and keys are not compared, so all scores are 0( except for what ALiBi adds)?|A query "
    "sees only one token and gives it all its attention), whatever (.*) is\\."
)
def value_has_no_effect(evidence: Evidence, match: re.Match[str]) -> None:
    for alternative in evidence.comparison.alternatives:
        assert alternative.layer is not None
        if match[1].startswith("Queries"):
            require(not alternative.layer.attended.scores.any(), match[0])
            require(bool(match[2]) == (alternative.layer.attended.bias is not None), match[0])
        else:
            require((alternative.visible.sum(-1) == 1).all(), match[0])
            require(
                np.abs(evidence.weights(alternative) - evidence.visible_keys(alternative)).max()
                < 1e-12,
                match[0],
            )


CURVE = (
    f"(stays at {NUMBER}|begins and ends at {NUMBER}|goes beyond what numbers can hold|"
    f"(?:goes|rises|falls) from {NUMBER} to {NUMBER}(?: bits)?(?:, but not steadily)?|"
    f"(?:shows no clear change|can only rise) \\({NUMBER} and {NUMBER}(?: bits)?\\))(?: bits)?"
)
SEEDS = f"(Over [\\d,]+ seeds|In the median of \\d+ seeds|{ONE_DRAW[:-2]})"
SWEEP = f"{SEEDS}, as (.*) goes from <n> to <n>, "


@claim(
    f"{SWEEP}the spread of unscaled scores {CURVE} and the entropy of a row {CURVE}; scaled, the "
    f"spread {CURVE} and the entropy {CURVE}(: too few seeds to tell more)?\\."
)
def curves_of_spread_and_entropy(evidence: Evidence, match: re.Match[str]) -> None:
    series = (("spread", "unscaled"), ("entropy", "unscaled"))
    series += (("spread", "scaled"), ("entropy", "scaled"))  # type: ignore[assignment]
    require_sweep_range(evidence, match)
    for sentence, (measure, scale) in zip(match.group(5, 6, 7, 8), series, strict=True):
        require_curve(evidence, sentence, measure, scale)


@claim(
    f"{SWEEP}the entropy of a row {CURVE} unscaled; scaled, it {CURVE}(: too few seeds to tell "
    "more)?\\."
)
def curves_of_entropy(evidence: Evidence, match: re.Match[str]) -> None:
    require_sweep_range(evidence, match)
    require_curve(evidence, match[5], "entropy", "unscaled")
    require_curve(evidence, match[6], "entropy", "scaled")


def ordered_sweep(evidence: Evidence) -> tuple[Sweep, Array, list[int]]:
    """The sweep, its values as numbers, and the indices that sort them."""
    assert evidence.sweep is not None
    values = np.array(evidence.sweep.values, dtype=float)
    if evidence.sweep.by == "dim" and len(set(evidence.sweep.widths)) == len(evidence.sweep.widths):
        values = np.array(evidence.sweep.widths, dtype=float)
    return evidence.sweep, values, [int(each) for each in np.argsort(values)]


def require_sweep_range(evidence: Evidence, match: re.Match[str]) -> None:
    sweep, values, order = ordered_sweep(evidence)
    require(float(match[3]) == values[order[0]], match[0])
    require(float(match[4]) == values[order[-1]], match[0])
    has_few_seeds = 1 < sweep.repeats < 10
    require(("too few" in match[0]) == has_few_seeds, match[0])
    number = re.search(r"of (\d+) seeds|Over ([\d,]+) seeds", match[1])
    stated_seeds = 1 if number is None else int((number[1] or number[2]).replace(",", ""))
    require(
        stated_seeds == sweep.repeats and (sweep.repeats >= 10 or "Over" not in match[1]), match[0]
    )


def require_curve(evidence: Evidence, phrase: str, measure: str, scale: str) -> None:
    sweep, _, order = ordered_sweep(evidence)
    rows = sweep.curves[measure][scale].double().numpy()[order]
    if phrase.startswith("goes beyond"):
        require(not np.isfinite(rows).all(), phrase)
        return
    medians = np.median(rows, axis=1)
    numbers = re.findall(NUMBER, phrase)
    if phrase.startswith("stays"):
        for each in medians:
            require_number(numbers[0], float(each), phrase)
        return
    require_number(numbers[0], float(medians[0]), phrase)
    require_number(numbers[-1], float(medians[-1]), phrase)
    if phrase.startswith("begins"):
        return
    require(numbers[0] != numbers[1], phrase)
    if "can only rise" in phrase:
        require((sweep.by, measure) == ("temperature", "entropy"), phrase)
        require((np.diff(rows, axis=0) > -1e-4).all(), phrase)
        require_logits_of_scores_only(evidence, phrase)
    if "rises" in phrase or "falls" in phrase:
        require_increase(rows[0], rows[-1], phrase) if "rises" in phrase else require_increase(
            rows[-1], rows[0], phrase
        )
        margin = 0.051 * abs(medians[-1] - medians[0])
        low, high = min(medians[0], medians[-1]) - margin, max(medians[0], medians[-1]) + margin
        require(((medians >= low) & (medians <= high)).all(), phrase)


# Titles: each claims no more than the last sentence, which is checked against the numbers.
MEDIAN = r"(?: \(median of [\d,]+ seeds\))?"
TITLES = {
    rf"Scaling spreads (?:the )?attention.* over (\S+) tokens instead of ([\d.]+){MEDIAN}": None,
    rf"Scaling narrows (?:the )?attention.* to (\S+) tokens instead of ([\d.]+){MEDIAN}": None,
    r"\d seeds are too few to tell .*": "too few seeds to tell more",
    r"Scaling hardly changes how many tokens .* attends to": "hardly changes how many",
    r"Scaling cannot make .* attend to fewer tokens": "cannot make",
    r"Whether scaling spreads attention depends on the seed .*": "it is not clear",
    r"Scaling changes weights, but .* attends to about as many tokens": "about as many tokens",
    r"(?:Attention|The attention of .*) is equally sharp in .*": "is equally sharp in",
    "Over [\\d,]+ seeds, none of them is clearly the sharpest": "there is no clear difference",
}


def equal_rows_without_positions(evidence: Evidence, match: re.Match[str]) -> bool:
    way = evidence.alternative("none")
    labels, ids = way.tokens.labels, way.tokens.ids
    first, second = int(match[2]) - 1, int(match[4]) - 1
    rows = evidence.weights(way)
    is_same = ids[first] == ids[second] and (labels[first], labels[second]) == match.group(1, 3)
    return is_same and bool(np.abs(rows[:, first] - rows[:, second]).max() <= 1e-5)


def order_is_free_without_positions(evidence: Evidence, match: re.Match[str]) -> bool:
    """Whether the weights are the softmax of scores of single tokens, also in another order."""
    way = evidence.alternative("none")
    layer = not_none(way.layer)
    queries, keys = (not_none(each).double().numpy()[:, ::-1] for each in
                     (layer.queries, layer.keys_of_heads))  # fmt: skip
    scores = queries @ np.swapaxes(keys, -1, -2) * layer.scale
    expected = softmax(scores)[:, ::-1, ::-1]
    close = 3 * ROUNDING[str(way.weights.dtype).removeprefix("torch.")]
    return bool(np.abs(expected - evidence.weights(way)).max() < close)


def entropy_medians(evidence: Evidence, series: str) -> Array:
    sweep, _, order = ordered_sweep(evidence)
    medians: Array = np.median(sweep.curves["entropy"][series].double().numpy()[order], axis=1)
    return medians


def wide_vectors_are_sharp(evidence: Evidence, match: re.Match[str]) -> bool:
    unscaled, scaled = (entropy_medians(evidence, each) for each in ("unscaled", "scaled"))
    falls = unscaled[-1] < unscaled[0] and unscaled[-1] < scaled[-1] / 2
    is_one_key = unscaled[-1] < 0.5 and scaled[-1] > 1
    return bool(falls and (is_one_key or "all-or-nothing" not in match[0]))


def heat_makes_even(evidence: Evidence, match: re.Match[str]) -> bool:
    medians = [entropy_medians(evidence, each) for each in ("unscaled", "scaled")]
    return all(each[-1] > each[0] for each in medians)


def narrower_heads_are_even(evidence: Evidence, match: re.Match[str]) -> bool:
    unscaled = entropy_medians(evidence, "unscaled")
    sweep, _, order = ordered_sweep(evidence)
    scaled = sweep.curves["entropy"]["scaled"].double().numpy()[order]
    low, high = np.quantile(scaled[-1] - scaled[0], [0.1, 0.9])
    layers = [each.layer for each in evidence.comparison.alternatives]
    widths = {layer.heads: layer.head_dim for layer in layers if layer is not None}
    is_narrower = all(widths[a] > widths[b] for a, b in pairwise(sorted(widths)))
    return bool(is_narrower and unscaled[-1] > unscaled[0] and low <= 1e-6 and high >= -1e-6)


def masks_hide_later_tokens(evidence: Evidence, match: re.Match[str]) -> bool:
    hiding, seeing = (re.findall("'(.+?)'", names) for names in match.groups())
    for way in evidence.comparison.alternatives:
        visible = evidence.visible_keys(way)
        expected = np.tril(np.ones_like(visible)) if way.name in hiding else np.ones_like(visible)
        if (way.name in hiding) == (way.name in seeing) or bool((visible != expected).any()):
            return False
    return True


def texts_have_so_many_tokens(evidence: Evidence, match: re.Match[str]) -> bool:
    counts = {name: int(count) for count, name in re.findall(r"(\d+) in (\w+)", match[1])}
    tokens = {each.name: len(each.tokens) for each in evidence.comparison.alternatives}
    return counts == tokens and len({*counts.values()}) > 1


def patterns_differ(evidence: Evidence, match: re.Match[str]) -> bool:
    weights = [evidence.weights(each) for each in evidence.comparison.alternatives]
    return all(np.abs(a - b).max() > 0.01 for a, b in pairwise(weights))


def mistakes_leak(evidence: Evidence, match: re.Match[str]) -> bool:
    leaks = [
        float((evidence.weights(each) * ~evidence.visible_keys(each)).sum()) > 1e-4
        for each in evidence.comparison.alternatives
        if each.mistake
    ]
    count = {"One": 1, "Two": 2, "Three": 3}[match[1]]
    return count <= sum(leaks) and evidence.view.closing[-1].count("(") >= count


ASPECT_CLAIMS: dict[str, Callable[[Evidence, re.Match[str]], bool]] = {
    r'Without positions, "(.+)" \((\d+)\) and "(.+)" \((\d+)\) have the same row': (
        equal_rows_without_positions
    ),
    "Without positions, the order of the tokens changes no weight": order_is_free_without_positions,
    "Without √d_k, wide.* vectors make (?:the softmax all-or-nothing|attention sharper)": (
        wide_vectors_are_sharp
    ),
    "The higher the temperature, the more even the attention": heat_makes_even,
    "Without √d_k, narrower heads attend more evenly; with it, no clear change": (
        narrower_heads_are_even
    ),
    "(.+) hides? later tokens; (.+) sees? all": masks_hide_later_tokens,
    r"The same text is cut into different tokens: (.+)": texts_have_so_many_tokens,
    "Another seed, another pattern: these are random vectors": patterns_differ,
    "(One|Two|Three) common mistakes? lets? hidden tokens through": mistakes_leak,
}


def check_title(evidence: Evidence) -> None:
    title, sentence = evidence.view.headline, evidence.view.closing[-1]
    for pattern, is_true in ASPECT_CLAIMS.items():
        if match := re.fullmatch(pattern, title):
            require(is_true(evidence, match), title)
            return
    sharper = re.fullmatch(r".* is sharper in (.+) than in (.+)", title)
    if sharper:
        require(f"sharper in {sharper[1]} than in {sharper[2]}" in sentence, title)
    elif title.casefold() in sentence.casefold() or evidence.sweep is not None:
        return
    else:
        check_title_phrase(title.removesuffix(" in this one draw"), sentence)


def check_title_phrase(title: str, sentence: str) -> None:
    matches = [(each, match) for each in TITLES if (match := re.fullmatch(each, title))]
    require(matches, f"nobody knows what this title claims: {title}")
    pattern, match = matches[0]
    phrase = TITLES[pattern]
    if phrase is not None:
        require(phrase in sentence, title)
        return
    new_count, old_count = float(match[1]), float(match[2])
    require((new_count > old_count) == ("spreads" in title), title)
    require(match[1] in sentence and match[2] in sentence, title)
