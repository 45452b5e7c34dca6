"""All heads of ways of attending that are compared, and of what tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.cells import Cells, Later
from attnviz.tokens.tokens import Tokens
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged
from attnviz.views.measures import name_of, titled, tokens_of
from attnviz.views.reading import token_axis

DIFFERENCE = "difference"
Row = tuple[str, "int | None", HeadMap]


def explored_of_comparison(
    comparison: Comparison, heads: Sequence[int | None], note: str = ""
) -> Explored:
    """A row for each way, and below them one for each difference; None is the mean of heads."""
    sides: dict[int, Axis] = {}
    maps = [
        (row, _column(comparison, head), made)
        for row, head, made in (
            *_ways(comparison, heads, sides),
            *_differences(comparison, heads, sides),
        )
    ]
    notes = " · ".join(filter(None, (AXES_NOTE, note)))
    return arranged(maps, ("way", "head"), query=comparison.query, note=notes)


def _column(comparison: Comparison, head: int | None) -> str:
    """`H3`; where there is one head alone it is its own mean."""
    if head is None and comparison.heads == 1:
        return "H0"
    return "mean" if head is None else f"H{head}"


def _ways(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[Row]:
    for each in comparison.alternatives:
        for head in heads:
            yield (
                titled(comparison, each),
                head,
                HeadMap(
                    name=_name(titled(comparison, each), head, heads),
                    reads=_side("query (reads)", each.tokens, sides),
                    read=_side("key (is read)", each.keys, sides),
                    weights=Later(_shape(each), partial(each.cells, head)),
                    scores=_scores(each, head),
                    off=each.layer is not None and head in each.layer.off,
                ),
            )


def _differences(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[Row]:
    """What each reads more or less than the reference, where their tokens are the same."""
    for place, each in enumerate(comparison.alternatives):
        if comparison.differences[place] is None:
            continue
        pair = (titled(comparison, one) for one in (each, comparison.base))
        row, tokens = " − ".join(pair), tokens_of(comparison, each)
        keys = tokens if each.keys is each.tokens else each.keys
        for head in heads:
            yield (
                row,
                head,
                HeadMap(
                    name=_name(row, head, heads),
                    reads=_side("query (reads)", tokens, sides),
                    read=_side("key (is read)", keys, sides),
                    weights=Later(_shape(each), partial(_difference, comparison, place, head)),
                    signed=True,
                    note=f"above 0 = reads more than '{name_of(comparison, comparison.base)}'",
                    measure=DIFFERENCE,
                ),
            )


def _difference(comparison: Comparison, place: int, head: int | None) -> Cells:
    cells = comparison.difference(place, head)
    assert cells is not None
    return cells


def _name(row: str, head: int | None, heads: Sequence[int | None]) -> str:
    """What one is called: of a single head, as its way is."""
    return row if len(heads) == 1 else f"{row} · head {head}"


def _shape(alternative: Alternative) -> tuple[int, int]:
    _, rows, columns = alternative.weights.shape
    return rows, columns


def _side(title: str, tokens: Tokens, sides: dict[int, Axis]) -> Axis:
    return sides.setdefault(id(tokens), token_axis(title, tokens))


def _scores(alternative: Alternative, head: int | None) -> Cells | None:
    """What weights are the softmax of: of a mean they are of none, nor those of a mistake.

    Whatever becomes of them then, ways are compared by what the softmax makes.
    """
    layer = alternative.layer
    if head is None and len(alternative.weights) == 1:
        head = 0
    if head is None or layer is None or layer.weights_alone or alternative.mistake:
        return None
    return Later(_shape(alternative), partial(layer.weights.cells, "masked scores", head))
