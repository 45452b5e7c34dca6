"""The concluding sentence of a comparison, and the largest change of a weight.

About random numbers a sentence states what is true over many seeds; about a single draw, what is
shown and that it is random; about given numbers, what is true of them. Each table lists findings: a
condition and the sentence that is said when it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import torch

from attnviz.analysis.aspects import TEXT_ASPECT
from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import LargestChange, entropy, normalize_rows
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.heads.side import token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.long_weights import LongWeights
from attnviz.views.conclusions.findings import Finding, choose_sentence, choose_title, otherwise
from attnviz.views.conclusions.mistake_findings import mistakes_sentence, mistakes_title
from attnviz.views.conclusions.scaling_findings import SCALING_FINDINGS, ScalingFacts
from attnviz.views.conclusions.sharpness_findings import (
    SHARPNESS_FINDINGS,
    SharpnessFacts,
    reader_text,
)
from attnviz.views.conclusions.sweep_findings import SWEEP_FINDINGS, SweepFacts
from attnviz.views.heads.passages import counted_text
from attnviz.views.heads.sentences import numbered_name
from attnviz.views.measure_tables import alternative_name, compared_tokens
from attnviz.wording.numbers import (
    distinguishing_digits,
    fixed_text,
    percent_text,
    share_text,
    significant_text,
    tiny_text,
)
from attnviz.wording.words import and_list, as_sentence

NO_CHANGE = 1e-6  # changes up to this are rounding,
ROUNDING_ASPECTS = ("dtype", "device")  # which these comparisons are about


def conclusion(
    comparison: Comparison,
    sweep: Sweep | None = None,
    repeats: Repeats | None = None,
    *,
    is_title: bool = False,
) -> str:
    """Return the sentence that sums up a comparison, or the same in a few words and without a full
    stop, as the title of a picture.

    The first that applies decides: a `sweep` (how numbers change along it), mistakes among the
    alternatives, no visible key at all, 'dtype' or 'device' (rounding), 'scale', else how sharp
    attention is. `repeats` that are not finite are ignored.
    """
    finite_repeats = repeats if repeats is not None and repeats.finite else None
    choose = choose_title if is_title else choose_sentence
    if sweep is not None:
        return choose(SWEEP_FINDINGS, SweepFacts(comparison, sweep))
    if any(alternative.mistake for alternative in comparison.alternatives):
        write_mistakes = mistakes_title if is_title else mistakes_sentence
        return write_mistakes(comparison, finite_repeats)
    if _all_masked(comparison):
        reader, end = reader_text(comparison), "" if is_title else "."
        return f"There is nothing to compare: every key is masked for {reader}{end}"
    if comparison.by in ROUNDING_ASPECTS:
        return choose(ROUNDING_FINDINGS, _rounding_facts(comparison))
    if comparison.by == "scale":
        return choose(SCALING_FINDINGS, ScalingFacts(comparison, finite_repeats))
    return choose(SHARPNESS_FINDINGS, SharpnessFacts(comparison, finite_repeats))


def _all_masked(comparison: Comparison) -> bool:
    ways = comparison.alternatives
    return not any(bool(way.visible[..., comparison.rows, :].any()) for way in ways)


@dataclass(frozen=True, eq=False)
class RoundingFacts:
    """The largest difference from the reference's weights by alternative, in the rows shown."""

    query_suffix: str
    reference: str
    errors: dict[str, float]

    @property
    def equal_names(self) -> list[str]:
        return [name for name, error in self.errors.items() if not error]

    @property
    def error_texts(self) -> list[str]:
        """A text `1e-08 in float16` for each alternative that differs from the reference."""
        return [f"{tiny_text(error)} in {name}" for name, error in self.errors.items() if error]


def _rounding_facts(comparison: Comparison) -> RoundingFacts:
    """Return how far weights are from the reference's, in each data type or on each device."""
    rows = slice(None) if comparison.query is None else comparison.query
    pairs = zip(comparison.alternatives, comparison.differences, strict=True)
    errors = {
        way.name: float(difference[:, rows].abs().max())
        for way, difference in pairs
        if difference is not None
    }
    query_suffix = "" if comparison.query is None else f" of {reader_text(comparison)}"
    return RoundingFacts(query_suffix, comparison.base.name, errors)


def _equal_weights_text(facts: RoundingFacts) -> str:
    """Return `the weights of float32 equal those of float64 to the last digit`."""
    equal_weights = f"the weights{facts.query_suffix} of {and_list(facts.equal_names)}"
    return f"{equal_weights} equal those of {facts.reference} to the last digit"


def _largest_errors_text(facts: RoundingFacts) -> str:
    """Return `Weights differ from those of float64 by at most 3e-08 in float32`."""
    opening = f"Weights{facts.query_suffix} differ from those of {facts.reference}"
    return f"{opening} by at most {and_list(facts.error_texts)}"


ROUNDING_FINDINGS: tuple[Finding[RoundingFacts], ...] = (
    Finding(
        "all the same",
        lambda facts: not facts.error_texts,
        lambda facts: as_sentence(_equal_weights_text(facts)),
    ),
    Finding(
        "some the same",
        lambda facts: bool(facts.equal_names),
        lambda facts: f"{_largest_errors_text(facts)}; {_equal_weights_text(facts)}.",
    ),
    Finding("none the same", otherwise, lambda facts: f"{_largest_errors_text(facts)}."),
)


@dataclass(frozen=True, eq=False)
class ChangeFacts:
    """The largest change of a weight from the reference to one compared alternative, `way`."""

    comparison: Comparison
    way: Alternative
    change: LargestChange

    @property
    def from_to_text(self) -> str:
        """The phrase `from unscaled to scaled`: the reference and the alternative."""
        base = _way_name(self.comparison, self.comparison.base)
        return f"from {base} to {_way_name(self.comparison, self.way)}"

    @property
    def query_suffix(self) -> str:
        """The suffix ` of "it" (3)` if the comparison is about one query; else empty."""
        return "" if self.comparison.query is None else f" of {reader_text(self.comparison)}"

    @property
    def mean_suffix(self) -> str:
        """The suffix ` in the mean of heads` if the numbers of heads differ; else empty."""
        same_head_count = len(self.way.weights) == len(self.comparison.base.weights)
        return "" if same_head_count else " in the mean of heads"

    @property
    def cell_text(self) -> str:
        """The query and key of the changed weight, and its head: `learning → this in head 1`."""
        tokens = compared_tokens(self.comparison, self.way)
        keys = tokens if self.way.keys is self.way.tokens else self.way.keys
        head_suffix = "" if self.change.head is None else f" in head {self.change.head}"
        cell = f"{_token_label(tokens, self.change.query)} → {_token_label(keys, self.change.key)}"
        return f"{cell}{self.mean_suffix or head_suffix}"

    @property
    def sentence(self) -> str:
        """Which weight changes most, and from what to what; by how much, if both read the same."""
        before, after = self.change.before, self.change.after
        if before == after:
            return f"no weight{self.query_suffix} changes {self.from_to_text}{self.mean_suffix}"
        opening = f"largest change{self.query_suffix} {self.from_to_text}: {self.cell_text}"
        if share_text(before) == share_text(after):
            return f"{opening}: by {significant_text(after - before, 2)}"
        return f"{opening}: {share_text(before)} → {share_text(after)}"


def largest_change_sentences(comparison: Comparison) -> list[str]:
    """Return `largest change from unscaled to scaled: learning → this: .31 → .97` per alternative.

    The reference has no such sentence; an alternative that changes nothing gets `no weight
    changes`.
    """
    facts = LongChangeFacts if comparison.is_long else ChangeFacts
    changed_ways = zip(comparison.alternatives, comparison.changes, strict=True)
    return [
        facts(comparison, way, change).sentence
        for way, change in changed_ways
        if change is not None
    ]


def _way_name(comparison: Comparison, alternative: Alternative) -> str:
    name = alternative_name(comparison, alternative)
    return f"'{name}'" if comparison.by == TEXT_ASPECT else name


def _token_label(tokens: Tokens, position: int) -> str:
    """Return a token's label, with its number in front if it occurs more than once: `3 the`."""
    label = tokens.labels[position]
    return f"{position + 1} {label}" if tokens.labels.count(label) > 1 else label


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
        reader = "every token" if query is None else subject
        return f"There is nothing to compare: every key is masked for {reader}"
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
