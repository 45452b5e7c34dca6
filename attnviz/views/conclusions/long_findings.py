"""The finding of a comparison on a long text, and the largest change of a weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import torch

from attnviz.analysis.long_comparison import LongAlternative, LongComparison, RowChanges
from attnviz.analysis.measures import LargestChange, entropy, normalize_rows
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.conclusion import ROUNDING_FINDINGS, RoundingFacts
from attnviz.views.conclusions.findings import choose_sentence
from attnviz.views.heads.passages import counted_text, quoted_label
from attnviz.views.measure_tables import alternative_name
from attnviz.wording.numbers import (
    distinguishing_digits,
    fixed_text,
    percent_text,
    share_text,
    significant_text,
)
from attnviz.wording.words import and_list

NO_CHANGE = 1e-6  # changes up to this are rounding,
ROUNDING_ASPECTS = ("dtype", "device")  # which these comparisons are about
ALL_MASKED_FINDING = "There is nothing to compare: every key is masked for {}"


@dataclass(frozen=True, eq=False)
class WayChange:
    """How one alternative differs from the reference, on the whole or in the row of one token."""

    name: str
    moved: float  # mean share of attention; NaN if one of the two attends to nothing
    bits: float  # mean entropy
    largest: LargestChange

    @property
    def has_change(self) -> bool:
        return abs(self.largest.after - self.largest.before) > NO_CHANGE


def long_conclusion(comparison: LongComparison) -> str:
    """Return a sentence without a full stop on how the attention to a whole text differs."""
    if comparison.by in ROUNDING_ASPECTS:
        return _rounding_text(comparison, comparison.changes, "")
    bits = [_mean_bits(alternative) for alternative in comparison.alternatives]
    tokens = counted_text(len(comparison.base.tokens))
    return _finding(comparison, comparison.changes, bits, tokens, "mean entropy")


def long_row_conclusion(
    comparison: LongComparison, query: int, changes: Sequence[RowChanges | None]
) -> str:
    """Return a sentence without a full stop on how the attention of one token differs."""
    token = f"{quoted_label(comparison.base.tokens, query)} (token {query + 1:,})"
    if comparison.by in ROUNDING_ASPECTS:
        return _rounding_text(comparison, changes, f" of {token}")
    bits = [_row_bits(alternative, query) for alternative in comparison.alternatives]
    return _finding(comparison, changes, bits, token, "its entropy")


def _mean_bits(alternative: LongAlternative) -> float:
    """Return the mean entropy of the rows that attend to anything."""
    summary = alternative.weights.summary
    assert summary.entropy is not None  # a summary has statistics
    assert summary.largest_position is not None
    return float(summary.entropy[summary.largest_position >= 0].double().mean())


def _row_bits(alternative: LongAlternative, query: int) -> float:
    """Return the entropy of a row, the mean over heads; NaN if it attends to nothing."""
    rows = alternative.weights.attention.rows(slice(query, query + 1)).double()
    blind = rows.sum(-1) == 0
    return float(entropy(normalize_rows(rows)).masked_fill(blind, torch.nan).nanmean())


def _finding(
    comparison: LongComparison,
    changes: Sequence[RowChanges | None],
    bits: Sequence[float],
    subject: str,
    entropy_name: str,
) -> str:
    """Return what differs most: where the share of attention that moves is largest."""
    base = alternative_name(comparison, comparison.base)
    before = bits[comparison.reference]
    ways = [
        WayChange(
            alternative_name(comparison, alternative),
            float(change.moved.nanmean()),
            bits[index],
            change.largest,
        )
        for index, (alternative, change) in enumerate(
            zip(comparison.alternatives, changes, strict=True)
        )
        if change is not None
    ]
    measured = [way for way in ways if not isnan(way.moved)]
    if isnan(before) and all(isnan(way.bits) for way in ways):
        return ALL_MASKED_FINDING.format(
            subject if entropy_name == "its entropy" else "every token"
        )
    if not measured:
        blind = [
            name
            for name, value in zip(
                (base, *(way.name for way in ways)),
                (before, *(way.bits for way in ways)),
                strict=True,
            )
            if isnan(value)
        ]
        return f"In {and_list(blind)}, {subject} attends to nothing: every key is masked"
    most = max(way.moved for way in measured)
    first = next(way for way in measured if way.moved == most)
    if not any(way.has_change for way in ways):
        names = and_list([way.name for way in ways])
        return f"From {base} to {names}, no weight of {subject} changes"
    equal = [way.name for way in measured if abs(way.moved - most) <= NO_CHANGE]
    heads = ", in the mean of heads" if comparison.heads is None else ""
    share = percent_text(most)
    if len(equal) > 1:
        return (
            f"From {base} to {and_list(equal)}, {share} of the attention of {subject} moves{heads}"
        )
    text = f"From {base} to {first.name}, {share} of the attention of {subject} moves{heads}"
    text += f", and {entropy_name} {_bits_text(before, first.bits)}"
    return f"{text}; other changes are smaller" if len(measured) > 1 else text


def _bits_text(before: float, after: float) -> str:
    """Return `rises from 3.2 to 11.5 bits`."""
    digits = distinguishing_digits(before, after, 1)
    old, new = fixed_text(before, digits), fixed_text(after, digits)
    if old == new:
        return f"stays at {old} bits"
    return f"{'rises' if after > before else 'falls'} from {old} to {new} bits"


def _rounding_text(
    comparison: LongComparison, changes: Sequence[RowChanges | None], query_suffix: str
) -> str:
    """Return how far weights in each data type or on each device are from the reference's."""
    errors = {
        alternative.name: abs(change.largest.after - change.largest.before)
        for alternative, change in zip(comparison.alternatives, changes, strict=True)
        if change is not None
    }
    facts = RoundingFacts(query_suffix, comparison.base.name, errors)
    return choose_sentence(ROUNDING_FINDINGS, facts).rstrip(".")


def _named(tokens: Tokens, position: int) -> str:
    return f"{quoted_label(tokens, position)} (token {position + 1:,})"


def largest_change_texts(
    comparison: LongComparison, changes: Sequence[RowChanges | None], query: int | None
) -> list[str]:
    """Return `largest change from unscaled to scaled: "it" (token 2,001) → "the" (token 3): .31 →
    .97` for each alternative but the reference.
    """
    base, tokens = alternative_name(comparison, comparison.base), comparison.base.tokens
    suffix = "" if query is None else f" of {_named(tokens, query)}"
    return [
        _change_text(
            comparison, row_changes, f"{base} to {alternative_name(comparison, each)}", suffix
        )
        for each, row_changes in zip(comparison.alternatives, changes, strict=True)
        if row_changes is not None
    ]


def _change_text(
    comparison: LongComparison, row_changes: RowChanges, direction: str, of_query: str
) -> str:
    """Return the sentence on one alternative; `direction`: `unscaled to scaled`."""
    change = row_changes.largest
    if change.before == change.after:
        return f"no weight{of_query} changes from {direction}"
    key = _named(comparison.base.keys, change.key)
    cell = key if of_query else f"{_named(comparison.base.tokens, change.query)} → {key}"
    place = "" if change.head is None else f" in head {change.head}"
    if comparison.heads is None and len(row_changes.moved) == 1:
        place = " in the mean of heads"
    old, new = share_text(change.before), share_text(change.after)
    size = f"{old} → {new}"
    if old == new:
        size = f"by {significant_text(change.after - change.before, 2)}"
    return f"largest change{of_query} from {direction}: {cell}{place}: {size}"
