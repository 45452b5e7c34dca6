"""Sentences about weights that were computed elsewhere: what they are and what they sum to."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attnviz.traces.origin import FromWeights
from attnviz.traces.trace import Trace
from attnviz.views.facts import ROUNDING
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted

BY_ITS_ZEROS = (
    "the weights are treated as causal: every weight above the diagonal is 0, in every head"
)


def given_parts(trace: Trace, given: FromWeights) -> dict[str, str]:
    """The parts of the settings line, by what each is about."""
    heads = sorted({layer.heads for layer in trace.layers})
    of_each = " or ".join(map(str, heads))
    across = trace.keys is not trace.tokens
    return {
        "kind": f"weights of {given.name}" if given.name else "",
        "heads": f"{counted(len(trace.layers), 'layer')} × {of_each} "
        f"head{'' if heads == [1] else 's'}",
        "which": f"reads {counted(len(trace.keys), 'token')}" if across else "",
        "mask": "causal" if trace.variant.causal else "",
    }


def on_given_weights(trace: Trace) -> Iterator[str]:
    """What their zeros imply about a mask, and which rows do not sum to 1."""
    if trace.handed is None:
        return
    if trace.variant.causal:
        yield BY_ITS_ZEROS
    sums = torch.cat([each.attended.weights.double().sum(-1).flatten() for each in trace.layers])
    odd = sums[(sums - 1).abs() >= ROUNDING]
    if len(odd):
        low, high = share_text(float(odd.min())), share_text(float(odd.max()))
        span = f"the sum is {low}" if low == high else f"sums from {low} to {high}"
        yield f"{_which(len(odd), len(sums))} to 1: {span}"


def _which(odd: int, rows: int) -> str:
    """`3 of 12 rows do not sum`"""
    if odd == rows > 1:
        return f"none of {rows:,} rows sums"
    several = f"{odd:,} of {rows:,} rows" if rows > 1 else "its only row"
    return f"{several} do{'es' * (odd == 1)} not sum"
