"""What findings on a head claim, checked with whole matrices: finding by finding.

A finding that names an amount of attention names what it is compared with, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnviz.views.conclusions.findings import Finding, choose_finding
from tests.base_rates import base_of, others_of
from tests.claims_by_name import ClaimsByName
from tests.claims_of_titles import percent_matches

Matrix = np.ndarray[Any, np.dtype[np.float64]]
LONG_WHO = r'(?:(itself)|"([^"]+)" \(token ([\d,]+)\))'  # in a long text
WHO = r'(\[\w+\]|"[^"]+")(?: \((\d+)\))?'  # in a short one
SHARE = r"((?:over |under )?[\d.]+)\xa0%"
EVEN = r"(as with an even spread|[\d.,]+ times an even spread)"
SPAN = r"tokens? ([\d,]+)(?:–([\d,]+))?"


@dataclass(frozen=True, eq=False)
class Evidence:
    """The weights of heads as matrices, and the part of them that a sentence is about."""

    labels: Sequence[str]
    weights: Matrix  # [head query key]
    visible: np.ndarray[Any, np.dtype[np.bool_]]
    queries: range
    keys: range
    names: Sequence[str] = ()  # of the heads
    special: tuple[int, ...] = ()  # positions

    @cached_property
    def even(self) -> Matrix:
        even: Matrix = self.visible / np.maximum(self.visible.sum(-1, keepdims=True), 1)
        return even

    def part(self, matrices: Matrix) -> Matrix:
        return matrices[:, self.queries][:, :, self.keys]

    def received(self, matrices: Matrix) -> Matrix:
        """What each key receives of all that the queries give to any key."""
        rows = matrices[0, self.queries]
        received: Matrix = rows.sum(0) / max(rows.sum(), 1e-30)
        return received

    def position(self, label: str, number: str, query: int | None = None) -> int:
        if label == "itself":
            assert query is not None
            return query
        position = number_of(number)
        assert self.labels[position] == label
        return position


Claim = Callable[[Evidence, "re.Match[str]"], bool]
claims: ClaimsByName[Claim] = ClaimsByName()


def check_finding(
    table: Sequence[Finding[Any]], facts: Any, evidence: Evidence, sentence: str = ""
) -> str:
    """The name of the finding that is said; it fails if what that claims is false, or if a share
    stands alone. `sentence` has to have it, if it is given."""
    finding = choose_finding(table, facts)
    text = finding.sentence(facts)
    assert text.lower() in (sentence or text).lower()
    matches = claims.matches(finding.name, text)
    assert matches, f"nobody knows what '{finding.name}' claims: {text}"
    for claim, match in matches:
        assert claim(evidence, match), f"{claim.__name__}: {text}"
    if "%" in text:
        assert finding.amount, f"'{finding.name}' has a share without a base rate: {text}"
    if callable(finding.amount):
        amount = finding.amount(facts)
        assert amount.text in text
        assert amount.base in text
    return finding.name


def number_of(text: str) -> int:
    """The position of a token whose number is given."""
    return int(text.replace(",", "")) - 1


def even_matches(text: str, share: float, even: float) -> bool:
    """Whether words say how many times a share of an even spread another is."""
    if text == "as with an even spread":
        return abs(share / even - 1) < 0.051
    ratio = float(text.split()[0].replace(",", ""))
    return abs(ratio - share / even) <= (0.051 if ratio < 9.95 else 0.51)


def share_matches(text: str, share: float) -> bool:
    """Whether a share is written so, with one digit after the point."""
    return percent_matches(text if "." in text else f"{text}.0", share)


def are_ties(count: str, weights: Matrix) -> bool:
    """Whether so many weights are the largest; of those that are alike up to rounding, some may be
    larger."""
    ties = int(np.isclose(weights, weights.max(), rtol=1e-4).sum())
    return 1 < int(count.replace(",", "")) <= ties


def span_matches(span: range, first: str, last: str | None) -> bool:
    return (span[0], span[-1]) == (number_of(first), number_of(last or first))


# A whole text


@claims("nothing is visible", pattern="every key is masked, so no token attends to any")
def nothing_is_read(evidence: Evidence, match: re.Match[str]) -> bool:
    return not evidence.weights.any()


@claims("the only token", pattern='"(.+)" is the only token, and receives all attention')
def one_token_is_there(evidence: Evidence, match: re.Match[str]) -> bool:
    return list(evidence.labels) == [match[1]] and bool(evidence.weights.all())


@claims(
    "a needle or sink",
    pattern=rf'(?:the first token, "(.+)",|"(.+)", token ([\d,]+),) receives {SHARE} of the '
    rf"attention of ([\d,]+) tokens, {EVEN}",
)
def one_token_receives_much(evidence: Evidence, match: re.Match[str]) -> bool:
    key = number_of(match[3]) if match[3] else 0
    received, even = (evidence.received(each) for each in (evidence.weights, evidence.even))
    return (
        evidence.labels[key] == match[1 if match[1] else 2]
        and bool(np.isclose(received[key], received.max()))
        and percent_matches(match[4], float(received[key]))
        and int(match[5].replace(",", "")) == len(evidence.labels)
        and received[key] > 1.49 * even[key]
        and even_matches(match[6], float(received[key]), float(even[key]))
    )


@claims(
    "half stays near",
    pattern=rf"{SHARE} of the attention of ([\d,]+) tokens (?:goes to tokens at most ([\d,]+) away"
    rf"|stays on the token itself), {EVEN}",
)
def half_of_the_attention_is_near(evidence: Evidence, match: re.Match[str]) -> bool:
    count, reach = len(evidence.labels), number_of(match[3]) + 1 if match[3] else 0
    near = abs(np.subtract.outer(range(count), range(count))) <= reach
    share, even = (
        float((each[0] * near).sum() / each[0].sum()) for each in (evidence.weights, evidence.even)
    )
    return (
        share >= 0.5
        and percent_matches(match[1], share)
        and share > 1.49 * even
        and even_matches(match[4], share, even)
    )


@claims("how broad", pattern="attention is as broad as (.+)")
def attention_is_so_broad(evidence: Evidence, match: re.Match[str]) -> bool:
    broad, allowed = (
        two_to_the_mean_entropy(each[0]) for each in (evidence.weights, evidence.even)
    )
    numbers = [float(each.replace(",", "")) for each in re.findall(r"\d[\d.,]*", match[1])]
    spread, *_, limit = numbers if "the mask alone" in match[1] else (numbers[0], numbers[0])
    is_spread = abs(spread - broad) <= max(0.51, 0.06 * broad)
    return is_spread and ("alone" not in match[1] or abs(limit - allowed) <= 0.51)


def two_to_the_mean_entropy(rows: Matrix) -> float:
    logarithms = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return float(2 ** -(rows * logarithms).sum(1).mean())


# A row


@claims(
    "a row of nothing",
    "a row of nothing in heads",
    pattern=rf"{LONG_WHO} attends to (?:nothing: every key is masked|none of {SPAN})",
)
def the_row_is_empty(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    is_of_keys = match[4] is None or span_matches(evidence.keys, match[4], match[5])
    is_query = evidence.position(match[2], match[3]) == query
    return is_query and is_of_keys and not evidence.part(evidence.weights).any()


@claims(
    "most of a row",
    pattern=rf"{LONG_WHO} attends most(?:, of {SPAN},)? to {LONG_WHO}: {SHARE}, {EVEN}",
)
def one_key_gets_most(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    key = evidence.position(match[6] or match[7], match[8], query)
    row, even = evidence.weights[0, query], evidence.even[0, query]
    return (
        evidence.position(match[2], match[3]) == query
        and key in evidence.keys
        and (match[4] is None or span_matches(evidence.keys, match[4], match[5]))
        and bool(np.isclose(row[key], row[evidence.keys].max()))
        and share_matches(match[9], float(row[key]))
        and even_matches(match[10], float(row[key]), float(even[key]))
    )


@claims(
    "most of a row",
    pattern=rf"{LONG_WHO} attends most to ([\d,]+) tokens(?: of {SPAN})?, equally: {SHARE} each, "
    rf"{EVEN}",
)
def several_keys_get_most(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    row = evidence.weights[0, query][evidence.keys]
    share = float(row.max())
    return (
        evidence.position(match[2], match[3]) == query
        and are_ties(match[4], row)
        and share_matches(match[7], share)
        and even_matches(match[8], share, 1 / int(evidence.visible[0, query].sum()))
    )


@claims(
    "the key of most heads",
    pattern=rf"in (both|all (\d+)|(\d+) of (\d+)) heads {LONG_WHO} attends most to {LONG_WHO}, "
    rf"which receives {SHARE} of its attention on average, {EVEN}",
)
def most_heads_attend_to_it(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    key = evidence.position(match[8] or match[9], match[10], query)
    rows, even = evidence.weights[:, query], evidence.even[:, query]
    count = int(match[3] or match[2] or 2)
    share = float(rows[:, key].mean())
    return (
        int((rows.argmax(1) == key).sum()) >= count
        and int(match[4] or match[2] or 2) == len(rows)
        and percent_matches(match[11], share)
        and even_matches(match[12], share, float(even[:, key].mean()))
    )


@claims(
    "keys that tie in every head",
    pattern=rf"{LONG_WHO} attends to several tokens equally in every head",
)
def keys_tie_in_every_head(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    rows = np.sort(evidence.weights[:, query])
    return bool(np.allclose(rows[:, -1], rows[:, -2], rtol=1e-5))


# A part


@claims(
    "a part of nothing",
    pattern=rf"{SPAN} cannot attend to (?:any token|{SPAN}): every key shown is masked",
)
def the_part_is_masked(evidence: Evidence, match: re.Match[str]) -> bool:
    return (
        span_matches(evidence.queries, match[1], match[2])
        and not evidence.part(evidence.visible.astype(float)).any()
    )


@claims(
    "the main key of a part",
    pattern=rf"{LONG_WHO} receives {SHARE} of the attention of {SPAN}, {EVEN}",
)
def one_key_receives_much(evidence: Evidence, match: re.Match[str]) -> bool:
    key = evidence.position(match[2], match[3])
    received, even = (evidence.received(each) for each in (evidence.weights, evidence.even))
    return (
        span_matches(evidence.queries, match[5], match[6])
        and key in evidence.keys
        and np.isclose(received[evidence.keys].max(), received[key])
        and received[key] >= 0.2 - 1e-6
        and percent_matches(match[4], float(received[key]))
        and even_matches(match[7], float(received[key]), float(even[key]))
    )


@claims(
    "the largest weight",
    pattern=rf"(where more than one key is visible, )?the largest weight of {SPAN}(?: on {SPAN})? "
    rf"is {SHARE}(?:, for ([\d,]+) pairs of tokens, |: ){LONG_WHO} to {LONG_WHO}"
    rf"(?:, {EVEN}| \({EVEN}\) among them)",
)
def no_weight_is_larger(evidence: Evidence, match: re.Match[str]) -> bool:
    query = evidence.position(match[9], match[10])
    key = evidence.position(match[11] or match[12], match[13], query)
    part, counts = evidence.part(evidence.weights)[0], evidence.visible[0, evidence.queries].sum(1)
    sees = evidence.part(evidence.visible.astype(float))[0].any(1)
    rows = sees & (counts > 1) if (sees & (counts > 1)).any() else sees
    weight, largest = float(evidence.weights[0, query, key]), float(part[rows].max())
    return (
        bool(np.isclose(weight, largest))
        and (part.max() >= largest if match[1] else part.max() <= largest * (1 + 1e-5))
        and share_matches(match[6], weight)
        and (match[7] is None or are_ties(match[7], part[rows]))
        and even_matches(match[14] or match[15], weight, float(evidence.even[0, query, key]))
    )


# What one token attends to in the heads of a model, and a link: beside what other tokens give


def short_position(evidence: Evidence, name: str, number: str | None) -> int:
    label = name.strip('"')
    if number is not None:
        assert evidence.labels[int(number) - 1] == label
        return int(number) - 1
    assert evidence.labels.count(label) == 1
    return evidence.labels.index(label)


def head_matrix(evidence: Evidence, name: str) -> Matrix:
    """The weights of a head by its name, of the first of several, or the mean of all."""
    weights: Matrix = evidence.weights.mean(0)
    if not name.endswith(" heads"):
        weights = evidence.weights[evidence.names.index(re.split(", | and ", name)[0])]
    return weights


def base_matches(evidence: Evidence, weights: Matrix, query: int, key: int, base: str) -> bool:
    """Whether words say what other tokens give a key, or the key at its distance."""
    expected = base_of(weights, query, key, evidence.special)
    share = re.search(SHARE, base)
    return expected == 0 if share is None else percent_matches(share[1], expected)


@claims(
    "a key beyond others",
    "the strongest of links",
    pattern=rf"In ([\w ,]+), {WHO} gives (?:itself|{WHO}) {SHARE} of its attention; (.+)",
)
def others_give_less(evidence: Evidence, match: re.Match[str]) -> bool:
    query = short_position(evidence, match[2], match[3])
    key = query if match[4] is None else short_position(evidence, match[4], match[5])
    is_counted = match[1].endswith(" heads") and "mean" not in match[1]
    heads = evidence.weights if is_counted else [head_matrix(evidence, match[1])]
    claims_hold = [
        percent_matches(match[6], float(weights[query, key]))
        and base_matches(evidence, weights, query, key, match[7])
        for weights in heads
    ]
    count = int(match[1].split()[0]) if is_counted else 1
    return [query] == [*evidence.queries] and sum(claims_hold) >= count


@claims(
    "no key beyond others",
    pattern=rf"In no head does {WHO} attend to any token more than the other tokens attend to it, "
    "or at the same distance",
)
def others_give_as_much(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    sinks = {*evidence.special, 0, query}
    return all(
        weights[query, key] <= base_of(weights, query, key, evidence.special) + 1e-5
        for weights in evidence.weights
        for key in range(len(evidence.labels))
        if key not in sinks
    )


@claims(
    "no link beyond others",
    pattern=rf"In no head does {WHO} attend to {WHO} more than other tokens do",
)
def others_attend_as_much_to_it(evidence: Evidence, match: re.Match[str]) -> bool:
    query, key = (short_position(evidence, match[at], match[at + 1]) for at in (1, 3))
    return all(
        weights[query, key] <= others_of(weights, query, key, evidence.special) + 1e-5
        for weights in evidence.weights
    )


@claims(
    "the only key of several heads",
    pattern=rf"{WHO} can attend only to (?:(itself)|{WHO}), in every head",
)
def it_sees_one_key(evidence: Evidence, match: re.Match[str]) -> bool:
    [query] = evidence.queries
    return short_position(evidence, match[1], match[2]) == query and bool(
        (evidence.visible[:, query].sum(-1) == 1).all()
    )


@claims("no top key", pattern=rf"What {WHO} (?:attends to|draws on) in ([\w ]+)")
def keys_tie(evidence: Evidence, match: re.Match[str]) -> bool:
    query = short_position(evidence, match[1], match[2])
    row = np.sort(head_matrix(evidence, match[3])[query])
    return bool(np.isclose(row[-1], row[-2]))


@claims(
    "the top key of a map",
    pattern=rf"In ([\w ]+), {WHO} attends most to {WHO} \({SHARE}(?:; (.+))?\)",
)
def the_key_gets_most(evidence: Evidence, match: re.Match[str]) -> bool:
    weights = head_matrix(evidence, match[1].removeprefix("the "))
    query, key = (short_position(evidence, match[at], match[at + 1]) for at in (2, 4))
    return (
        int(weights[query].argmax()) == key
        and percent_matches(match[6], float(weights[query, key]))
        and base_matches(evidence, weights, query, key, match[7] or "")
    )


@claims(
    "the top key of a rollout",
    pattern=rf"In the rollout, {WHO} draws most on (?:(itself)|{WHO}) \({SHARE}\)",
)
def it_draws_most_on_the_key(evidence: Evidence, match: re.Match[str]) -> bool:
    """`evidence.weights` are the rollout."""
    query = short_position(evidence, match[1], match[2])
    key = query if match[3] else short_position(evidence, match[4], match[5])
    row = evidence.weights[0, query]
    return int(row.argmax()) == key and percent_matches(match[6], float(row[key]))
