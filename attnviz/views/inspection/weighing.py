"""What is said of weights that are weighed: what the numbers are, and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.weighed import answer_of
from attnviz.views.inspection.reading import named
from attnviz.wording.numbers import share_text
from attnviz.wording.words import isolated

OF_LENGTHS = (
    "weight × length = how long the vector is that a head hands on of a key: weight · value · W_o "
    "(Kobayashi et al. 2020); not where it points: long vectors may cancel, and what passes the "
    "head by may be longer"
)


def on_weighing(inspection: Inspection) -> Iterator[str]:
    """What the numbers are; and of lengths, how much is left of a sink."""
    weigh = inspection.looking.weigh
    if weigh == "norm":
        yield from _on_the_first(inspection)
        yield OF_LENGTHS
    if weigh == "gradient":
        yield _of_gradients(inspection)


def _of_gradients(inspection: Inspection) -> str:
    """Of which answer; and what it is that the numbers say of it."""
    found = answer_of(inspection.trace, inspection.looking)
    where = f'"{isolated(inspection.trace.tokens.labels[found.place])}" ({found.place + 1})'
    asked = f"after {where}" if found.next else f"at {where}"
    return (
        f"weight × gradient = to first order, how much of the score of {isolated(found.answer)} "
        f"{asked} hangs on a weight, through all that follows; not what becomes of the answer "
        "when the weight is really gone, and others take its place"
    )


def _on_the_first(inspection: Inspection) -> Iterator[str]:
    """How much of all that is read the first token gets, by weight and by length."""
    plain, weighed = inspection.plain, inspection.weighed
    if len(plain[0].columns) < 2:
        return
    before, after = (share_text(_share_of_first(maps)) for maps in (plain, weighed))
    first = named(plain[0].columns, 0)
    of = f", in the mean of {len(plain)} heads" if len(plain) > 1 else ""
    yield f"of all that is read {first} gets {before} by weight, and {after} by length{of}"


def _share_of_first(maps: Sequence[Map]) -> float:
    """The mean over heads of what the first key gets of a head's numbers."""
    found = []
    for each in maps:
        sums = np.array(
            [[band.values[:, 0].sum(), band.values.sum()] for band in each.cells.bands()]
        )
        first, whole = sums.sum(0)
        found.append(first / whole if whole else 0.0)
    return float(np.mean(found))
