"""The concluding sentence of a comparison, and the largest change of a weight.

About random numbers a sentence states what is true over many seeds; about a single draw, what is
shown and that it is random; about given numbers, what is true of them. Each table lists findings: a
condition and the sentence that is said when it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isnan

import numpy as np
import torch

from attnviz.analysis.aspects import TEXT_ASPECT
from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import LargestChange, entropy, normalize_rows
from attnviz.analysis.seeds import Repeats, Sweep, has_random_weights
from attnviz.heads.side import token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.long_weights import LongWeights
from attnviz.views.attention_facts import MaskShape, find_mask_shapes
from attnviz.views.conclusions.findings import (
    Finding,
    Pair,
    choose_sentence,
    choose_title,
    otherwise,
)
from attnviz.views.conclusions.mistake_findings import mistakes_sentence, mistakes_title
from attnviz.views.conclusions.scaling_findings import SCALING_FINDINGS, ScalingFacts
from attnviz.views.conclusions.sharpness_findings import (
    SHARPNESS_FINDINGS,
    SharpnessFacts,
    reader_text,
)
from attnviz.views.conclusions.sweep_findings import SWEEP_FINDINGS, SweepFacts
from attnviz.views.heads.passages import counted_text
from attnviz.views.heads.sentences import numbered_name, quoted_token
from attnviz.views.measure_tables import alternative_name, compared_tokens, sweep_positions
from attnviz.wording.numbers import (
    distinguishing_digits,
    fixed_text,
    percent_text,
    share_text,
    significant_text,
    tiny_text,
)
from attnviz.wording.words import and_list, as_sentence

MIN_OTHER_DIFFERENCE = 0.01  # of weights that are called different,
MAX_EQUAL_DIFFERENCE = 1e-5  # and of those that are called the same
MAX_BITS_OF_ONE_KEY = 0.5  # of a row in which one key gets about nine tenths
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

    A title says what the comparison is for, where that is true of these numbers (ASPECT_TITLES).
    Else the first that applies decides: a `sweep` (how numbers change along it), mistakes among the
    alternatives, no visible key at all, 'dtype' or 'device' (rounding), 'scale', else how sharp
    attention is. `repeats` that are not finite are ignored.
    """
    finite_repeats = repeats if repeats is not None and repeats.finite else None
    choose = choose_title if is_title else choose_sentence
    if is_title and (title := _aspect_title(AspectFacts(comparison, sweep))):
        return title
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


@dataclass(frozen=True, eq=False)
class AspectFacts:
    """A comparison of all queries, and its numbers over seeds along a setting, if any."""

    comparison: Comparison
    sweep: Sweep | None

    @property
    def are_different(self) -> bool:
        """Whether each alternative has other weights than the next one."""
        weights = [each.weights for each in self.comparison.alternatives]
        return all(
            one.shape == other.shape and float((one - other).abs().max()) > MIN_OTHER_DIFFERENCE
            for one, other in pairwise(weights)
        )

    @cached_property
    def without_positions(self) -> Alternative | None:
        """The alternative whose weights cannot depend on places: without positions or a mask."""
        ways = (each for each in self.comparison.alternatives if each.name == "none")
        way = next(ways, None)
        if way is None or way.layer is None or not way.layer.has_product_scores:
            return None
        return way if way.uses_scores_alone and bool(way.visible.all()) else None

    @cached_property
    def twins(self) -> tuple[int, int] | None:
        """The first two places of the same token, if their rows are the same without positions."""
        if self.without_positions is None:
            return None
        ids, weights = self.without_positions.tokens.ids, self.without_positions.weights
        pairs = ((ids.index(each), at) for at, each in enumerate(ids) if each in ids[:at])
        first, second = next(pairs, (0, 0))
        difference = float((weights[:, first] - weights[:, second]).abs().max())
        return (first, second) if second and difference <= MAX_EQUAL_DIFFERENCE else None

    @property
    def twin_rows(self) -> tuple[tuple[int, int, int], ...]:
        """The runs of cells that are these rows; empty where the title is not about them."""
        comparison = self.comparison
        if comparison.by != "positions" or comparison.query is not None or self.twins is None:
            return ()
        return tuple((row, 0, comparison.base.weights.shape[-1]) for row in self.twins)

    @property
    def has_an_order(self) -> bool:
        return len(self.comparison.alternatives[0].tokens) > 1

    @property
    def names_by_mask(self) -> tuple[list[str], list[str]]:
        """The names of the alternatives that hide later tokens and no others, and of those that
        hide none; empty if any has another mask."""
        names: dict[MaskShape, list[str]] = {
            MaskShape(causal=True): [],
            MaskShape(causal=False): [],
        }
        for way in self.comparison.alternatives:
            layer = way.layer
            shape = None if layer is None else find_mask_shapes([layer])[layer.layer]
            if shape not in names:
                return [], []
            names[shape].append(f"'{way.name}'")
        hiding, seeing = names.values()
        return hiding, seeing

    def entropy(self, series: str) -> Pair:
        """Return the entropy of a row at the least and the greatest value of the sweep."""
        if self.sweep is None:  # of a single draw
            return Pair(torch.zeros(1), torch.zeros(1))
        numbers, (values, _) = self.sweep.curves["entropy"][series], sweep_positions(self.sweep)
        return Pair(numbers[int(np.argmin(values))], numbers[int(np.argmax(values))])

    @property
    def is_all_or_nothing(self) -> bool:
        """Whether the wider vectors are, the clearer it is that one key gets nearly all, but that
        several do where scores are divided.
        """
        unscaled, scaled = self.entropy("unscaled"), self.entropy("scaled")
        is_one_key = unscaled.direction < 0 and unscaled.medians[1] < MAX_BITS_OF_ONE_KEY
        return is_one_key and scaled.medians[1] > 1


def _aspect_title(facts: AspectFacts) -> str:
    """Return what a comparison of all queries is for; empty if that is not true of its numbers."""
    comparison = facts.comparison
    if comparison.query is not None or _all_masked(comparison):
        return ""
    titles = (each for each in ASPECT_TITLES if each.name == comparison.by and each.holds(facts))
    return next((each.sentence(facts) for each in titles), "")


def _twins_title(facts: AspectFacts) -> str:
    assert facts.twins is not None
    assert facts.without_positions is not None
    names = [quoted_token(facts.without_positions.tokens, place) for place in facts.twins]
    return f"Without positions, {and_list(names)} have the same row"


def _masks_title(facts: AspectFacts) -> str:
    hiding, seeing = facts.names_by_mask
    hide = "hides" if len(hiding) == 1 else "hide"
    see = "sees" if len(seeing) == 1 else "see"
    return f"{and_list(hiding)} {hide} later tokens; {and_list(seeing)} {see} all"


def _token_counts_title(facts: AspectFacts) -> str:
    ways = facts.comparison.alternatives
    counts = [f"{len(each.tokens):,} in {each.name}" for each in ways]
    return f"The same text is cut into different tokens: {and_list(counts)}"


# What the comparison by an aspect, the name, is for: the first that is true of the numbers.
ASPECT_TITLES: tuple[Finding[AspectFacts], ...] = (
    Finding("positions", lambda facts: facts.twins is not None, _twins_title),
    Finding(
        "positions",
        lambda facts: facts.without_positions is not None and facts.has_an_order,
        lambda _: "Without positions, the order of the tokens changes no weight",
    ),
    Finding(
        "dim",
        lambda facts: facts.is_all_or_nothing,
        lambda _: "Without √d_k, wide vectors make the softmax all-or-nothing",
    ),
    Finding(
        "temperature",
        lambda facts: min(facts.entropy(each).direction for each in ("unscaled", "scaled")) > 0,
        lambda _: "The higher the temperature, the more even the attention",
    ),
    Finding(
        "heads",
        lambda facts: (
            (facts.entropy("unscaled").direction, facts.entropy("scaled").direction) == (1, 0)
        ),
        lambda _: "Without √d_k, narrower heads attend more evenly; with it, no clear change",
    ),
    Finding("variant", lambda facts: all(facts.names_by_mask), _masks_title),
    Finding(
        "tokenizer",
        lambda facts: len({len(each.tokens) for each in facts.comparison.alternatives}) > 1,
        _token_counts_title,
    ),
    Finding(
        "seed",
        lambda facts: facts.are_different and has_random_weights(facts.comparison),
        lambda _: "Another seed, another pattern: these are random vectors",
    ),
)


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
        same_head_count = self.way.heads == self.comparison.base.heads
        return "" if same_head_count else " in the mean of heads"

    @property
    def pair_text(self) -> str:
        """The query and key of the changed weight: `learning → this`."""
        tokens = compared_tokens(self.comparison, self.way)
        keys = tokens if self.way.keys is self.way.tokens else self.way.keys
        return f"{_token_label(tokens, self.change.query)} → {_token_label(keys, self.change.key)}"

    @property
    def sentence(self) -> str:
        """Which weight changes most, and from what to what; by how much, if both read the same."""
        before, after = self.change.before, self.change.after
        if before == after:
            return f"no weight{self.query_suffix} changes {self.from_to_text}{self.mean_suffix}"
        head_suffix = "" if self.change.head is None else f" in head {self.change.head}"
        cell = f"{self.pair_text}{self.mean_suffix or head_suffix}"
        opening = f"largest change{self.query_suffix} {self.from_to_text}: {cell}"
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
    def pair_text(self) -> str:
        """The query and key of the changed weight: `"it" (token 2,001) → "the" (token 3)`."""
        key = numbered_name(token_side(self.way.keys), self.change.key)
        if self.comparison.query is not None:
            return key
        return f"{numbered_name(token_side(self.way.tokens), self.change.query)} → {key}"
