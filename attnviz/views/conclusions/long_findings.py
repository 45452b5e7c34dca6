"""The finding of a comparison on a long text, and the largest change of a weight."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import torch

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import entropy, normalize_rows
from attnviz.heads.side import token_side
from attnviz.traces.long_weights import LongWeights
from attnviz.views.conclusions.conclusion import (
    ROUNDING_FINDINGS,
    ChangeFacts,
    RoundingFacts,
)
from attnviz.views.conclusions.findings import choose_sentence
from attnviz.views.heads.passages import counted_text
from attnviz.views.heads.sentences import numbered_name
from attnviz.views.measure_tables import alternative_name
from attnviz.wording.numbers import distinguishing_digits, fixed_text, percent_text
from attnviz.wording.words import and_list

NO_CHANGE = 1e-6  # changes up to this are rounding,
ROUNDING_ASPECTS = ("dtype", "device")  # which these comparisons are about
ALL_MASKED_FINDING = "There is nothing to compare: every key is masked for {}"


def long_conclusion(comparison: Comparison) -> str:
    """Return a sentence without a full stop on what differs most: where the share of attention that
    moves is largest, of a whole text or of one token.
    """
    tokens, query = comparison.base.tokens, comparison.query
    subject, entropy_name = counted_text(len(tokens)), "mean entropy"
    if query is not None:
        subject, entropy_name = numbered_name(token_side(tokens), query), "its entropy"
    names = [alternative_name(comparison, each) for each in comparison.alternatives]
    changes = {
        name: change
        for name, change in zip(names, comparison.row_changes, strict=True)
        if change is not None
    }
    sizes = {
        name: abs(change.largest.after - change.largest.before) for name, change in changes.items()
    }
    base = names[comparison.reference]
    if comparison.by in ROUNDING_ASPECTS:
        facts = RoundingFacts("" if query is None else f" of {subject}", base, sizes)
        return choose_sentence(ROUNDING_FINDINGS, facts).rstrip(".")
    weights = [each.long_weights for each in comparison.alternatives if each.long_weights]
    bits = {name: _mean_bits(each, query) for name, each in zip(names, weights, strict=True)}
    if all(map(isnan, bits.values())):
        return ALL_MASKED_FINDING.format("every token" if query is None else subject)
    moved = {name: float(change.moved.nanmean()) for name, change in changes.items()}
    moved = {name: share for name, share in moved.items() if not isnan(share)}
    if not moved:
        blind = [name for name in (base, *changes) if isnan(bits[name])]
        return f"In {and_list(blind)}, {subject} attends to nothing: every key is masked"
    if max(sizes.values()) <= NO_CHANGE:
        return f"From {base} to {and_list([*changes])}, no weight of {subject} changes"
    most = max(moved.values())
    equal = [name for name, share in moved.items() if abs(share - most) <= NO_CHANGE]
    heads = ", in the mean of heads" if comparison.heads is None else ""
    text = f"From {base} to {and_list(equal)}, {percent_text(most)} of the attention of {subject} "
    text += f"moves{heads}"
    if len(equal) > 1:
        return text
    text += f", and {entropy_name} {_bits_text(bits[base], bits[equal[0]])}"
    return f"{text}; other changes are smaller" if len(moved) > 1 else text


def _mean_bits(weights: LongWeights, query: int | None) -> float:
    """Return the mean entropy of the rows that attend to anything, or the entropy of one row, the
    mean over heads; NaN if it attends to nothing.
    """
    if query is None:
        summary = weights.summary
        assert summary.entropy is not None  # a summary has statistics
        assert summary.largest_position is not None
        return float(summary.entropy[summary.largest_position >= 0].double().mean())
    rows = weights.attention.rows(slice(query, query + 1)).double()
    blind = rows.sum(-1) == 0
    return float(entropy(normalize_rows(rows)).masked_fill(blind, torch.nan).nanmean())


def _bits_text(before: float, after: float) -> str:
    """Return `rises from 3.2 to 11.5 bits`."""
    digits = distinguishing_digits(before, after, 1)
    old, new = fixed_text(before, digits), fixed_text(after, digits)
    if old == new:
        return f"stays at {old} bits"
    return f"{'rises' if after > before else 'falls'} from {old} to {new} bits"


@dataclass(frozen=True, eq=False)
class LongChangeFacts(ChangeFacts):
    """The largest change of a weight of a long text, whose tokens have their numbers."""

    @property
    def query_suffix(self) -> str:
        query = self.comparison.query
        return "" if query is None else f" of {numbered_name(token_side(self.way.tokens), query)}"

    @property
    def mean_suffix(self) -> str:
        same_head_count = self.way.heads == self.comparison.base.heads
        return "" if same_head_count else " in the mean of heads"

    @property
    def cell_text(self) -> str:
        """Query, key and head of the changed weight: `"it" (token 2,001) → "the" (token 3)`."""
        cell = numbered_name(token_side(self.way.keys), self.change.key)
        if self.comparison.query is None:
            cell = f"{numbered_name(token_side(self.way.tokens), self.change.query)} → {cell}"
        head_suffix = "" if self.change.head is None else f" in head {self.change.head}"
        return f"{cell}{self.mean_suffix or head_suffix}"
