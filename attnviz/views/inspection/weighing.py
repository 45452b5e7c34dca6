"""What is said of weights that are weighed: what the numbers are, and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Weigh
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.weighed import answer_of
from attnviz.views.inspection.numbers import named
from attnviz.wording.numbers import share_text
from attnviz.wording.words import isolated

ABOUT: dict[Weigh, str] = {
    "norm": (
        "weight × length = how long the vector is that a head hands on of a key: weight × value "
        "× W_o (Kobayashi et al. 2020) · it does not say where that points: long vectors may "
        "cancel, and what passes the head by may be longer"
    ),
    "gradient": (
        "weight × gradient = to first order, how much of an answer's score hangs on a weight, "
        "through all that follows · it does not say what becomes of the answer when the weight is "
        "really gone, and others take its place"
    ),
}


def on_weighing(inspection: Inspection) -> Iterator[str]:
    """How much of a sink is left by lengths; of which answer a gradient is."""
    weigh = inspection.looking.weigh
    if weigh == "norm":
        yield from _on_the_first(inspection)
    if weigh == "gradient":
        yield _of_which_answer(inspection)


def _of_which_answer(inspection: Inspection) -> str:
    found = answer_of(inspection.trace, inspection.looking)
    where = f'"{isolated(inspection.trace.tokens.labels[found.place])}" ({found.place + 1})'
    asked = f"after {where}" if found.next else f"at {where}"
    return f"the gradient is that of the score of {isolated(found.answer)} {asked}"


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
