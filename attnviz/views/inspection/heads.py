"""What the heads of a model do: a table of the strongest of each kind, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking, Weigh
from attnviz.analysis.inspection.patterns import (
    BROADLY,
    COLUMN,
    KINDS,
    STANDS_OUT,
    Kind,
    Patterns,
)
from attnviz.cells import unmasked
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.numbers import named, unit
from attnviz.views.view import Data, Lines, Words
from attnviz.wording.numbers import percent, share_text
from attnviz.wording.words import counted, listed, sentence

RANKS = ("1st", "2nd", "3rd", "4th", "5th")
SHARE = Scale("share", 0.0, 1.0)
FEW = 5  # tokens: a mean over fewer is said to be one
SHARES: dict[Weigh, str] = {
    "weight": "each head with its share of a token's attention",
    "norm": "each head with its share of a token's weight × length",
    "gradient": "by weight alone: each head with its share of a token's attention",
}
BY: dict[Weigh, tuple[str, ...]] = {  # before a sentence on what heads do
    "weight": (),
    "norm": ("by weight × length",),
    "gradient": ("by weight alone",),
}
LEFT = "of what is left"  # where tokens are hidden
OF_BROAD = "broad = entropy, as a share of the largest"
OF_COLUMN = (
    "column = one token, neither the first nor a separator, that most tokens give their largest "
    "weight"
)


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
        "even = a head that attends to all tokens equally",
        *([OF_COLUMN] if found.strongest(COLUMN) else []),
        *([OF_BROAD] if found.strongest(BROADLY) else []),
    ]
    parts += [f"{each.short}: {each.absent}" for each in KINDS if not found.strongest(each)]
    parts += [
        f"{each.short}: only {counted(rows, 'token')} of {found.asked:,} can show it"
        for each, rows in zip(KINDS, found.showing.tolist(), strict=True)
        if 0 < rows < min(FEW, found.asked - 1)
    ]
    if found.asked < found.tokens:
        parts.append(f"{found.asked:,} of the {found.tokens:,} tokens were sampled")
    return " · ".join(parts)


def _in_words(text: str, inspection: Inspection) -> str:
    """The same of words, where those are what is looked at."""
    return text.replace("token", "word") if inspection.looking.words else text


def sentences_on(inspection: Inspection) -> tuple[str, ...]:
    """Which head does what the most, and what most heads do; nothing if none does anything."""
    found, looking = inspection.patterns, inspection.looking
    best = _strongest(found)
    if len(found.names) == 1:
        said = on_head(inspection, 0)
        return (sentence(said),) if said else ()
    if not best:
        return ()
    parts = [_one(inspection, *pair, first=not place) for place, pair in enumerate(best)]
    every = [listed(parts), *map(partial(_in_words, inspection=inspection), _how_many(found))]
    return tuple(sentence(f"{_by(looking)}{each}") for each in every)


def _strongest(found: Patterns) -> list[tuple[Kind, int]]:
    """Of each kind that any head has, the head that does it most."""
    return [(each, heads[0]) for each in KINDS if (heads := found.of_kind(each))]


def _by(looking: Looking) -> str:
    """`by weight × length, of what is left, `: what a sentence is about, if not all weights."""
    parts = (*BY[looking.weigh], *((LEFT,) if looking.hides else ()))
    return "".join(f"{each}, " for each in parts)


def flags_of(inspection: Inspection) -> tuple[Flag, ...]:
    """The head that does most of each kind, to be marked among all heads."""
    found = inspection.patterns
    return tuple(
        Flag(
            head,
            f"column {what_is_read(inspection, head, kind)}"
            if kind is COLUMN
            else _in_words(kind.name, inspection),
            kind.short,
            share_text(found.score(head, kind)),
        )
        for kind, head in _strongest(found)
    )


def what_is_read(inspection: Inspection, head: int, kind: Kind) -> str:
    """What a head reads: `the previous token`; of a column which token it is."""
    found = inspection.patterns
    key = found.columns[head]
    if kind is COLUMN and key is not None:
        return named(found.keys, key)
    return _in_words(kind.read, inspection)


def on_head(inspection: Inspection, head: int) -> str:
    """What one head does: `L5H11: most tokens attend to "animal" (41 % on average)`."""
    found, looking = inspection.patterns, inspection.looking
    kind, name = _dominating(found, head), found.names[head]
    if kind is None:
        return ""
    much, read = percent(found.score(head, kind)), what_is_read(inspection, head, kind)
    by = _by(looking)
    if kind is BROADLY:
        return f"{by}{name} attends broadly (entropy {much} of the largest possible)"
    if not kind.one_key or not found.mostly(head, kind):
        return f"{by}{name} attends to {read} ({much} on average)"
    most = f"most {unit(looking)}s attend to {read}"
    start = f"{by}{most} in {name}" if by else f"{name}: {most}"
    return f"{start} ({much} on average)"


def title_of_head(inspection: Inspection, head: int) -> str:
    """The same as a title; and of a head that does nothing much, what is shown."""
    name = inspection.patterns.names[head]
    said = on_head(inspection, head) or f"what tokens attend to in {name}"
    return f"{said[0].upper()}{said[1:]}"


def _dominating(found: Patterns, head: int) -> Kind | None:
    """What a head does most; or, if that is not much, the one key that most tokens attend to."""
    columns = (each for each in KINDS if each.one_key and found.mostly(head, each))
    return found.kinds[head] or next(columns, None)


def _one(inspection: Inspection, kind: Kind, head: int, *, first: bool) -> str:
    """`L0H2 attends to the previous token (98 %)`; of those that follow not the verb again."""
    found, verb = inspection.patterns, "attends " * first
    name, score = found.names[head], percent(found.score(head, kind))
    if kind is BROADLY:
        return f"{name} attends broadly (entropy {score} of the largest possible)"
    return f"{name} {verb}to {what_is_read(inspection, head, kind)} ({score})"


def _how_many(found: Patterns) -> tuple[str, ...]:
    """What most tokens attend to in most heads, or that heads attend broadly."""
    heads = len(found.names)
    counts = {
        each: sum(each is BROADLY or found.mostly(head, each) for head in found.of_kind(each))
        for each in KINDS
    }
    most = max(counts, key=lambda each: counts[each])
    count = counts[most]
    if count < 2:
        return ()
    every = "both heads" if heads == 2 else f"all {heads} heads"
    which = every if count == heads else f"{count} of {heads} heads"
    if most is BROADLY:
        return (f"{which} attend broadly: nothing stands out",)
    return (f"{which} attend mostly to {most.read}",)


def data_of_heads(inspection: Inspection) -> Data:
    """What every head does, of every kind."""
    header = ("head", "kind", "column", *(each.name for each in KINDS))
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
        "column": _column(found, head) or None,
        "scores": _named(found.scores[head]),
        "even": _named(found.even[head]),
    }


def _column(found: Patterns, head: int) -> str:
    """`3 animal`: the token that is the column of a head, if any is."""
    key = found.columns[head]
    return "" if key is None else f"{found.keys.numbers[key]} {found.keys.labels[key]}"


def _named(numbers: np.ndarray) -> dict[str, float | None]:
    pairs = zip(KINDS, numbers.tolist(), strict=True)
    return {each.name: None if math.isnan(number) else number for each, number in pairs}


def _lines(found: Patterns) -> Iterator[Lines]:
    kinds = tuple("" if each is None else each.name for each in found.kinds)
    columns = [
        [None if math.isnan(number) else number for number in column]
        for column in found.scores.T.tolist()
    ]
    keys = tuple(_column(found, head) for head in range(len(found.names)))
    yield Lines((), Words((found.names, kinds, keys)), tuple(columns))
