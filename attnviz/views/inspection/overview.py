"""All heads of an Inspection at once, small: layers in rows, heads in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.traces.trace import Layer
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import FINEST, Flag, Overview
from attnviz.views.grids.scales import Bend
from attnviz.views.inspection.captions import captions_of
from attnviz.views.inspection.heatmap import axis_of
from attnviz.views.inspection.numbers import called, refuse_logarithms

NOTE = "each map: rows attend to columns"
BY_WEIGHT = "letters: by weight alone"  # where gradients, which may be below 0, are shown


def overview_of(inspection: Inspection, flags: Sequence[Flag] = ()) -> Overview:
    """A small map of each head that is looked at."""
    maps = inspection.maps
    layers = list(dict.fromkeys(_layer_of(each) for each in maps))
    heads = list(dict.fromkeys(each.head for each in maps))
    patches = [_fine(each.cells) for each in maps]
    values = np.stack([patch.values for patch in patches]).astype(np.float32)
    if values.size and values.min() < 0:
        refuse_logarithms(inspection.looking)
    bend: Bend = "log" if inspection.looking.log else "root"
    first, prompt = maps[0], inspection.trace.prompt
    high, wide = first.cells.shape
    return Overview(
        title="all heads",
        rows=_axis("layer", [f"L{layer}" if layer is not None else "" for layer in layers]),
        columns=_axis("head", [f"H{head}" if head is not None else "" for head in heads]),
        groups=_groups(maps),
        names=tuple(each.name for each in maps),
        places=tuple((layers.index(_layer_of(m)), heads.index(m.head)) for m in maps),
        values=values,
        hidden=np.stack([patch.hidden for patch in patches]),
        reads=axis_of("query (reads)", first.rows, prompt),
        read=axis_of("key (is read)", first.columns, prompt),
        tall=_counts(high),
        wide=_counts(wide),
        measure=called(inspection.looking),
        share=inspection.looking.weigh == "weight" and all(each.share for each in maps),
        bend=bend,
        note=" · ".join(
            (
                NOTE,
                *_on_letters(inspection, flags),
                *captions_of(inspection.looking, maps),
            )
        ),
        flags=tuple(flags),
    )


def _on_letters(inspection: Inspection, flags: Sequence[Flag]) -> tuple[str, ...]:
    return (BY_WEIGHT,) if flags and inspection.looking.weigh == "gradient" else ()


def _layer_of(found: Map) -> int | None:
    return None if found.layer is None else found.layer.layer


def _axis(counts: str, labels: Sequence[str]) -> Axis:
    return Axis(counts, counts, tuple(labels), ("",) * len(labels))


def _groups(maps: Sequence[Map]) -> tuple[int, ...]:
    """Which keys and values the heads of a layer share, where they do so in all layers alike."""
    layers: dict[int, Layer] = {each.layer.layer: each.layer for each in maps if each.layer}
    shared = {each.heads // each.kv_heads for each in layers.values()}
    heads = list(dict.fromkeys(each.head for each in maps))
    if len(shared) != 1 or shared == {1} or None in heads:
        return ()
    (together,) = shared
    return tuple(head // together for head in heads if head is not None)


def _fine(cells: Cells) -> Patch:
    """As it is, or in blocks: of a long text no more than a part is asked for at once."""
    high, wide = map(_block, cells.shape)
    if high == wide == 1:
        return cells.window(EVERYTHING, EVERYTHING)
    return cells.pooled(high, wide, share=True)


def _block(count: int) -> int:
    """How many tokens one cell stands for."""
    return math.ceil(count / FINEST)


def _counts(count: int) -> Int[np.ndarray, "block"]:
    """How many tokens each cell along a side stands for; the last may have fewer."""
    starts = np.arange(0, count, _block(count))
    return np.diff(np.append(starts, count))
