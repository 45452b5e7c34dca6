"""The sentence about a comparison, and the largest change from the reference to each way.

Of numbers that were drawn it says what holds over many seeds; of a single draw, what is shown and
that it is random; of numbers that were given, what is true of them. Each kind of sentence is a
table of findings: when something may be said, and what it says.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.analysis.aspects import TEXT
from attnviz.analysis.comparison import Alternative, Comparison, LargestChange
from attnviz.analysis.seeds import Repeats
from attnviz.analysis.sweeps import Sweep
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.claims import Finding, otherwise, said
from attnviz.views.conclusions.course import in_short, on_sweep
from attnviz.views.conclusions.mistakes import on_mistakes, title_on_mistakes
from attnviz.views.conclusions.scaling import on_scale, title_on_scale
from attnviz.views.conclusions.sharpness import on_sharpness, reader, title_on_sharpness
from attnviz.views.measures import name_of, tokens_of
from attnviz.wording.numbers import share_text, significant_text, tiny_text
from attnviz.wording.words import listed, sentence


def conclusion(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """The sentence for what was compared."""
    again = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return on_sweep(comparison, sweep)
    if any(each.mistake for each in comparison.alternatives):
        return on_mistakes(comparison, again)
    if _all_hidden(comparison):
        return f"There is nothing to compare: every key is masked for {reader(comparison)}."
    if comparison.by in ("dtype", "device"):
        return on_rounding(comparison)
    if comparison.by == "scale":
        return on_scale(comparison, again)
    return on_sharpness(comparison, again)


def title_of(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """The same in few words: what stands over a picture."""
    again = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return in_short(comparison, sweep).rstrip(".")
    if any(each.mistake for each in comparison.alternatives):
        return title_on_mistakes(comparison, again)
    if _all_hidden(comparison) or comparison.by in ("dtype", "device"):
        return conclusion(comparison).rstrip(".")
    titled = title_on_scale if comparison.by == "scale" else title_on_sharpness
    return titled(comparison, again)


def _all_hidden(comparison: Comparison) -> bool:
    """Whether nothing that is shown may be read, in any way: every weight is 0, and stays so."""
    ways = comparison.alternatives
    return not any(bool(each.visible[..., comparison.rows, :].any()) for each in ways)


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
        said(CHANGES, Changed(comparison, way, change))
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


CHANGES: tuple[Finding[Changed], ...] = (
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
