"""The concluding sentence of a comparison, and the largest change of a weight.

About random numbers a sentence states what is true over many seeds; about a single draw, what is
shown and that it is random; about given numbers, what is true of them. Each table lists findings: a
condition and the sentence that is said when it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.analysis.aspects import TEXT_ASPECT
from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import LargestChange
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.findings import Finding, choose_sentence, otherwise
from attnviz.views.conclusions.mistake_findings import mistakes_sentence, mistakes_title
from attnviz.views.conclusions.scaling_findings import scaling_sentence, scaling_title
from attnviz.views.conclusions.sharpness_findings import (
    reader_text,
    sharpness_sentence,
    sharpness_title,
)
from attnviz.views.conclusions.sweep_findings import sweep_sentence, sweep_title
from attnviz.views.measure_tables import alternative_name, compared_tokens
from attnviz.wording.numbers import share_text, significant_text, tiny_text
from attnviz.wording.words import and_list, as_sentence


def conclusion(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """Return the sentence that sums up a comparison.

    The first that applies decides: a `sweep` (how numbers change along it), mistakes among the
    alternatives, no visible key at all, 'dtype' or 'device' (rounding), 'scale', else how sharp
    attention is. `repeats` that are not finite are ignored.
    """
    finite_repeats = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return sweep_sentence(comparison, sweep)
    if any(alternative.mistake for alternative in comparison.alternatives):
        return mistakes_sentence(comparison, finite_repeats)
    if _all_masked(comparison):
        return f"There is nothing to compare: every key is masked for {reader_text(comparison)}."
    if comparison.by in ("dtype", "device"):
        return rounding_sentence(comparison)
    if comparison.by == "scale":
        return scaling_sentence(comparison, finite_repeats)
    return sharpness_sentence(comparison, finite_repeats)


def comparison_title(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """Return the conclusion in a few words and without a full stop, as the title of a picture.

    It is about the same thing as `conclusion`; `repeats` that are not finite are ignored.
    """
    finite_repeats = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return sweep_title(comparison, sweep)
    if any(alternative.mistake for alternative in comparison.alternatives):
        return mistakes_title(comparison, finite_repeats)
    if _all_masked(comparison) or comparison.by in ("dtype", "device"):
        return conclusion(comparison).rstrip(".")
    write_title = scaling_title if comparison.by == "scale" else sharpness_title
    return write_title(comparison, finite_repeats)


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


def rounding_sentence(comparison: Comparison) -> str:
    """Return how far weights are from the reference's at most, in each data type or on each device.

    Alternatives whose weights equal those of the reference to the last digit are named as well.
    """
    rows = slice(None) if comparison.query is None else comparison.query
    pairs = zip(comparison.alternatives, comparison.differences, strict=True)
    errors = {
        way.name: float(difference[:, rows].abs().max())
        for way, difference in pairs
        if difference is not None
    }
    query_suffix = "" if comparison.query is None else f" of {reader_text(comparison)}"
    facts = RoundingFacts(query_suffix, comparison.base.name, errors)
    return choose_sentence(ROUNDING_FINDINGS, facts)


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


def largest_change_sentences(
    comparison: Comparison, facts: type[ChangeFacts] = ChangeFacts
) -> list[str]:
    """Return `largest change from unscaled to scaled: learning → this: .31 → .97` per alternative.

    The reference has no such sentence; an alternative that changes nothing gets `no weight
    changes`.
    """
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
