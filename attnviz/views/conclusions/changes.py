"""What changes most from the reference to each other way: a table of what can be found of it."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.analysis.aspects import TEXT
from attnviz.analysis.comparison import Alternative, Comparison, LargestChange
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.finding import Finding, otherwise, said
from attnviz.views.conclusions.sharpness import reader
from attnviz.views.measures import name_of, tokens_of
from attnviz.wording.numbers import share_text, significant_text


@dataclass(frozen=True, eq=False)
class Changed:
    """What is known of one way, held against the reference."""

    comparison: Comparison
    way: Alternative
    change: LargestChange

    @property
    def ways(self) -> str:
        base = _called(self.comparison, self.comparison.base)
        return f"from {base} to {_called(self.comparison, self.way)}"

    @property
    def of(self) -> str:
        """The row, where it stands alone."""
        return "" if self.comparison.query is None else f" of {reader(self.comparison)}"

    @property
    def averaged(self) -> str:
        as_many = len(self.way.weights) == len(self.comparison.base.weights)
        return "" if as_many else " in the mean of heads"

    @property
    def cell(self) -> str:
        """`learning → this in head 1`"""
        tokens = tokens_of(self.comparison, self.way)
        keys = tokens if self.way.keys is self.way.tokens else self.way.keys
        among = "" if self.change.head is None else f" in head {self.change.head}"
        cell = f"{_named(tokens, self.change.query)} → {_named(keys, self.change.key)}"
        return f"{cell}{self.averaged or among}"

    @property
    def written(self) -> tuple[str, str]:
        return share_text(self.change.before), share_text(self.change.after)


def changes_told(comparison: Comparison) -> list[str]:
    """`largest change from unscaled to scaled: learning → this: .31 → .97`"""
    found = zip(comparison.alternatives, comparison.changes, strict=True)
    return [
        said(FINDINGS, Changed(comparison, way, change))
        for way, change in found
        if change is not None
    ]


def _called(comparison: Comparison, alternative: Alternative) -> str:
    """In a sentence another sentence stands in quotes."""
    name = name_of(comparison, alternative)
    return f"'{name}'" if comparison.by == TEXT else name


def _named(tokens: Tokens, place: int) -> str:
    """A token's label, with its number where the label stands more than once."""
    label = tokens.labels[place]
    return f"{place + 1} {label}" if tokens.labels.count(label) > 1 else label


def _largest(facts: Changed) -> str:
    return f"largest change{facts.of} {facts.ways}: {facts.cell}"


FINDINGS: tuple[Finding[Changed], ...] = (
    Finding(
        "no change",
        lambda facts: facts.change.before == facts.change.after,
        lambda facts: f"no weight{facts.of} changes {facts.ways}{facts.averaged}",
    ),
    Finding(
        "too small to be read",
        lambda facts: facts.written[0] == facts.written[1],
        lambda facts: (
            f"{_largest(facts)}: by {significant_text(facts.change.after - facts.change.before, 2)}"
        ),
    ),
    Finding(
        "a change",
        otherwise,
        lambda facts: f"{_largest(facts)}: {facts.written[0]} → {facts.written[1]}",
    ),
)
