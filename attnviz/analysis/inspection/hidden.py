"""Tokens that are left out of maps: what a tokenizer added; and the first, often a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.analysis.inspection.regrouped import Divided, Regrouped
from attnviz.analysis.inspection.words import kept
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace
from attnviz.wording.words import listed


def hidden(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """Maps without the tokens that are left out, as readers and as what is read."""
    if not looking.hides:
        return maps
    return tuple(_without(each, looking) for each in maps)


def _without(found: Map, looking: Looking) -> Map:
    rows, columns = (_left(side, looking) for side in (found.rows, found.columns))
    places = (_where(found.rows, rows), _where(found.columns, columns))
    cells = Regrouped(found.cells, *places)
    return replace(
        found,
        cells=Divided(cells) if looking.renormalise else cells,
        rows=rows,
        columns=columns,
    )


def _left(side: Side, looking: Looking) -> Side:
    out = left_out(side.tokens, looking)
    if len(out) == len(side.tokens):
        raise AttnvizError(
            "no tokens are left when these are hidden",
            f"give a longer text, or leave {listed(list(hidden_by(side.tokens, looking)))} out",
        )
    return kept(side, set(range(len(side.tokens))) - out)


def _where(before: Side, after: Side) -> tuple[tuple[int, ...], ...]:
    at = {group: place for place, group in enumerate(before.groups)}
    return tuple((at[group],) for group in after.groups)


def hidden_by(tokens: Tokens, looking: Looking) -> dict[str, frozenset[int]]:
    """The tokens that each option hides, of those options that are given."""
    options = {
        "--hide-special": tokens.special if looking.hide_special else frozenset(),
        "--hide-first": frozenset((0,)) if looking.hide_first else frozenset(),
    }
    return {option: places for option, places in options.items() if places}


def left_out(tokens: Tokens, looking: Looking) -> frozenset[int]:
    """The tokens that are hidden."""
    return frozenset[int]().union(*hidden_by(tokens, looking).values())


def taken(
    maps: Sequence[Map], looking: Looking, queries: tuple[int, ...] | None = None
) -> list[float]:
    """Of each map, how much of what is read goes to tokens that are left out.

    By the tokens that are not, in the mean; or by some of them. Of a sum: rows may have any.
    """
    return [_taken(each, looking, queries) for each in maps]


def _taken(found: Map, looking: Looking, queries: tuple[int, ...] | None) -> float:
    out = sorted(left_out(found.columns.tokens, looking))
    bands = found.cells.bands() if queries is None else map(found.cells.row, queries)
    sums = np.concatenate([
        np.stack([band.values[:, out].sum(axis=1), band.values.sum(axis=1)], axis=1)
        for band in bands
    ])  # fmt: skip
    if queries is None:
        sums = sums[sorted(set(range(len(sums))) - left_out(found.rows.tokens, looking))]
    shares = sums[:, 0] / np.where(sums[:, 1], sums[:, 1], 1)
    return float(shares.mean())
