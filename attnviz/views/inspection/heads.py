"""What the heads of a model do: a table of the strongest of each kind, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking, Weigh
from attnviz.analysis.inspection.patterns import BROADLY, KINDS, STANDS_OUT, Kind, Patterns
from attnviz.cells import unmasked
from attnviz.traces.document import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale
from attnviz.views.view import Data, Lines, Words
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted, listed, sentence

RANKS = ("1st", "2nd", "3rd", "4th", "5th")
SHARE = Scale("share", 0.0, 1.0)
FEW = 5  # tokens: a mean over fewer is said to be one
SHARES: dict[Weigh, str] = {
    "weight": "each head with its share of what a token reads",
    "norm": "each head with its share of a token's weight × length",
    "gradient": "by weight alone: each head with its share of what a token reads",
}
BY: dict[Weigh, tuple[str, ...]] = {  # before a sentence on what heads do
    "weight": (),
    "norm": ("by weight × length",),
    "gradient": ("by weight alone",),
}
LEFT = "of what is left"  # where tokens are hidden
OF_BROAD = "broad = entropy, as a share of the largest"


def heads_table(inspection: Inspection) -> Grid | None:
    """The strongest heads of each kind, and what even attention would give; of a word nothing."""
    found = inspection.patterns
    kinds = [each for each in KINDS if found.strongest(each)]
    best = [found.strongest(each)[: len(RANKS)] for each in kinds]
    ranks = RANKS[: len(found.names)]
    if not kinds:
        return None
    values = np.full((len(kinds), len(ranks) + 1), np.nan)  # masks may leave few that can show it
    for row, (kind, heads) in enumerate(zip(kinds, best, strict=True)):
        values[row, 0] = _even(found, kind)
        values[row, 1 : len(heads) + 1] = [found.score(head, kind) for head in heads]
    names = [[found.names[head] for head in heads] for heads in best]
    return Grid(
        "what heads do",
        plain_axis("kind", [_in_words(each.name, inspection) for each in kinds]),
        plain_axis("rank", ["even", *ranks]),
        unmasked(values),
        SHARE,
        note=_in_words(_note(found, inspection.looking), inspection),
        decimals=2,
        words=tuple(("", *each, *[""] * (len(ranks) - len(each))) for each in names),
    )


def _even(found: Patterns, kind: Kind) -> float:
    """What even attention would give; the mean, where masks of heads differ."""
    return float(np.nanmean(found.even[:, KINDS.index(kind)]))


def _note(found: Patterns, looking: Looking) -> str:
    left = f" {LEFT}" if looking.hides else ""
    parts = [
        f"{SHARES[looking.weigh]}{left}, averaged over the tokens that can show it",
        "even = what a head would have to which all are alike",
        *([OF_BROAD] if found.strongest(BROADLY) else []),
    ]
    parts += [f"{each.short}: {each.absent}" for each in KINDS if not found.strongest(each)]
    parts += [
        f"{each.short}: only {counted(rows, 'token')} of {found.asked:,} can show it"
        for each, rows in zip(KINDS, found.showing.tolist(), strict=True)
        if 0 < rows < min(FEW, found.asked - 1)
    ]
    if found.asked < found.tokens:
        parts.append(f"{found.asked:,} of the {found.tokens:,} tokens were asked")
    return " · ".join(parts)


def _in_words(text: str, inspection: Inspection) -> str:
    """The same of words, where those are what is looked at."""
    return text.replace("token", "word") if inspection.looking.words else text


def sentences_on(inspection: Inspection) -> tuple[str, ...]:
    """Which head does what the most, and what stands out in how many; nothing if nothing does."""
    found = inspection.patterns
    best = [(each, heads[0]) for each in KINDS if (heads := found.of_kind(each))]
    if not best:
        return ()
    parts = [_one(found, kind, head, first=not place) for place, (kind, head) in enumerate(best)]
    said = [listed(parts), *_how_many(found)]
    return tuple(
        _in_words(sentence(f"{_by(inspection.looking)}{each}"), inspection) for each in said
    )


def _by(looking: Looking) -> str:
    """`by weight × length, of what is left, `: what a sentence is about, if not all weights."""
    parts = (*BY[looking.weigh], *((LEFT,) if looking.hides else ()))
    return "".join(f"{each}, " for each in parts)


def flags_of(inspection: Inspection) -> tuple[Flag, ...]:
    """The head that does most of each kind, to be marked among all heads."""
    found = inspection.patterns
    best = [(each, heads[0]) for each in KINDS if (heads := found.of_kind(each))]
    return tuple(
        Flag(
            head,
            _in_words(kind.name, inspection),
            kind.short,
            share_text(found.score(head, kind)),
        )
        for kind, head in best
    )


def _one(found: Patterns, kind: Kind, head: int, *, first: bool) -> str:
    """`L0H2 reads the token before with 1.0`; of those that follow not the verb again."""
    name, score = found.names[head], share_text(found.score(head, kind))
    if kind is BROADLY:
        return f"{name} reads broadly, with {score} of the largest entropy"
    return f"{name} {'reads ' * first}{kind.read} with {score}"


def _how_many(found: Patterns) -> tuple[str, ...]:
    """What stands out in most heads, where there are several."""
    heads = len(found.names)
    most = max(KINDS, key=lambda each: len(found.of_kind(each)))
    count = len(found.of_kind(most))
    if heads == 1 or count == 1:
        return ()
    every = "both heads" if heads == 2 else f"all {heads} heads"
    which = every if count == heads else f"{count} of the {heads} heads"
    if most is BROADLY:
        return (f"in {which} nothing stands out: they read broadly",)
    return (f"in {which} {most.read} stand{'s' * most.one} out most",)


def data_of_heads(inspection: Inspection) -> Data:
    """What every head does, of every kind."""
    header = ("head", "kind", *(each.name for each in KINDS))
    return Data(
        partial(document_of_heads, inspection), header, partial(_lines, inspection.patterns)
    )


def document_of_heads(inspection: Inspection) -> Contents:
    found = inspection.patterns
    return {
        "kinds": [
            {"kind": each.name, "about": each.about, "tokens": rows}
            for each, rows in zip(KINDS, found.showing.tolist(), strict=True)
        ],
        "stands out from": STANDS_OUT,
        "heads": [_head(found, head) for head in range(len(found.names))],
    }


def _head(found: Patterns, head: int) -> Contents:
    kind = found.kinds[head]
    return {
        "head": found.names[head],
        "kind": None if kind is None else kind.name,
        "scores": _named(found.scores[head]),
        "even": _named(found.even[head]),
    }


def _named(numbers: np.ndarray) -> dict[str, float | None]:
    pairs = zip(KINDS, numbers.tolist(), strict=True)
    return {each.name: None if math.isnan(number) else number for each, number in pairs}


def _lines(found: Patterns) -> Iterator[Lines]:
    kinds = tuple("" if each is None else each.name for each in found.kinds)
    columns = [
        [None if math.isnan(number) else number for number in column]
        for column in found.scores.T.tolist()
    ]
    yield Lines((), Words((found.names, kinds)), tuple(columns))
