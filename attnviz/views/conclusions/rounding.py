"""What dtypes and devices change, which is nothing but the last digits."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.analysis.comparison import Comparison
from attnviz.views.conclusions.finding import Finding, otherwise, said
from attnviz.views.conclusions.sharpness import reader
from attnviz.wording.numbers import tiny_text
from attnviz.wording.words import listed, sentence


@dataclass(frozen=True, eq=False)
class Rounding:
    """By how much weights differ from the reference's, at most, in the rows that are shown."""

    of: str
    base: str
    errors: dict[str, float]

    @property
    def same(self) -> list[str]:
        return [name for name, error in self.errors.items() if not error]

    @property
    def differ(self) -> list[str]:
        return [f"{tiny_text(error)} in {name}" for name, error in self.errors.items() if error]


def on_rounding(comparison: Comparison) -> str:
    rows = slice(None) if comparison.query is None else comparison.query
    errors = {
        each.name: float(difference[:, rows].abs().max())
        for each, difference in zip(comparison.alternatives, comparison.differences, strict=True)
        if difference is not None
    }
    of = "" if comparison.query is None else f" of {reader(comparison)}"
    return said(FINDINGS, Rounding(of, comparison.base.name, errors))


def _kept(facts: Rounding) -> str:
    same = f"the weights{facts.of} of {listed(facts.same)}"
    return f"{same} equal those of {facts.base} to the last digit"


def _at_most(facts: Rounding) -> str:
    differ = listed(facts.differ)
    return f"Weights{facts.of} differ from those of {facts.base} by at most {differ}"


FINDINGS: tuple[Finding[Rounding], ...] = (
    Finding(
        "all the same",
        lambda facts: not facts.differ,
        lambda facts: sentence(_kept(facts)),
    ),
    Finding(
        "some the same",
        lambda facts: bool(facts.same),
        lambda facts: f"{_at_most(facts)}; {_kept(facts)}.",
    ),
    Finding("none the same", otherwise, lambda facts: f"{_at_most(facts)}."),
)
