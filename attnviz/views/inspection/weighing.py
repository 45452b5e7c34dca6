"""What is said of weights that are weighed: what the numbers are, and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Weigh
from attnviz.analysis.inspection.maps import Map, side_of
from attnviz.analysis.inspection.weighed import answer_of
from attnviz.views.inspection.numbers import named
from attnviz.wording.numbers import percent
from attnviz.wording.words import isolated

ABOUT: dict[Weigh, str] = {
    "norm": (
        "weight × length = length of the vector that a head passes on from a key: weight × value "
        "× W_o (Kobayashi et al. 2020) · it ignores directions: long vectors may cancel, and the "
        "residual connection may be longer"
    ),
    "gradient": (
        "weight × gradient = how much of an answer's score depends on a weight, to first order and "
        "through all later layers · it does not say what the answer would be without the weight"
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
    where = named(side_of(inspection.trace.tokens), found.place)
    asked = f"after {where}" if found.next else f"at {where}"
    return f'gradient of the score of "{isolated(found.answer)}" {asked}'


def _on_the_first(inspection: Inspection) -> Iterator[str]:
    """How much of all attention the first token gets, by weight and by length."""
    plain, weighed = inspection.plain, inspection.weighed
    if len(plain[0].columns) < 2:
        return
    before, after = (percent(_share_of_first(maps)) for maps in (plain, weighed))
    first = named(plain[0].columns, 0)
    start = f"on average over {len(plain)} heads, {first}" if len(plain) > 1 else first
    yield f"{start} gets {before} of the attention, and {after} of weight × length"


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
