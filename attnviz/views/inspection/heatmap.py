"""Maps of heads as grids, one or all of them small, with captions about weighing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking, Merge, Weigh
from attnviz.analysis.inspection.maps import Map, Side, side_of
from attnviz.analysis.inspection.weighed import answer_of
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.traces.trace import Layer
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.grids.overview import FINEST, Flag, Overview
from attnviz.views.grids.scales import Bend
from attnviz.views.inspection.numbers import (
    called,
    head_name,
    named,
    refuse_logarithms,
    rollout_scale,
    scale_of,
)
from attnviz.wording.numbers import percent
from attnviz.wording.words import isolated

LOST = "rows sum to less than 1: the rest goes to the model's attention sinks, which are not tokens"


def heatmaps(inspection: Inspection, only: Sequence[Map] | None = None) -> list[Grid]:
    """A grid for each map, or for some, all on one scale."""
    prompt, maps = inspection.trace.prompt, inspection.maps if only is None else only
    grids = [grid_of(each, inspection.looking, prompt) for each in maps]
    whole = all(each.share and sums_to_one(each.cells) for each in maps)
    borders = any(each.rows.border is not None for each in grids)
    sums = SUM_TO_ONE if whole else _sink(inspection)
    if inspection.looking.merge == "rollout":
        sums = ""  # its caption is long enough
    notes = (AXES_NOTE, sums, GOES_ON if borders else "")
    note = " · ".join(filter(None, (*notes, *captions_of(inspection.looking, maps))))
    return same_scale([replace(each, note=note) for each in grids])


def _sink(inspection: Inspection) -> str:
    """What rows lose where nothing that is looked at leaves out, or weighs, any of them."""
    maps, looking = inspection.maps, inspection.looking
    layers = (each.layer for one in maps for each in (one, *one.of) if each.layer is not None)
    sinks = any(layer.attended.sink is not None for layer in layers)
    hides = looking.hide_special or looking.hide_first
    return LOST if sinks and not hides and all(each.share for each in maps) else ""


def grid_of(found: Map, looking: Looking, prompt: int | None = None) -> Grid:
    """A map; with a line where what the model wrote begins, after so many tokens."""
    scale = rollout_scale if looking.merge == "rollout" else scale_of
    of = "" if looking.weigh == "weight" else f" {called(looking).partition(' ')[2]}"
    return Grid(
        head_name(found) if found.of else f"weights{of} {head_name(found)}",
        axis_of("query (reads)", found.rows, prompt),
        axis_of("key (is read)", found.columns, prompt),
        found.cells,
        scale(found, looking),
        share=looking.weigh == "weight" and looking.merge != "max",
    )


def axis_of(title: str, side: Side, prompt: int | None = None) -> Axis:
    """A place for each token, or word, numbered as in the sentence."""
    numbers = tuple(map(str, side.numbers))
    border = _border(side, prompt)
    return Axis(title, "token", side.labels, numbers, side.spaced, border, side.special)


def _border(side: Side, prompt: int | None) -> int | None:
    """The first place that stands for what the model wrote; none where all or nothing is."""
    before = 0 if prompt is None else sum(group[0] < prompt for group in side.groups)
    return before if 0 < before < len(side) else None


MERGED: dict[Merge, str] = {
    "mean": "mean = the sum over the heads / their number · it hides what single heads do",
    "max": "max = the largest weight of any head, cell by cell · rows do not sum to 1, and "
    "neighbouring cells may come from different heads",
    "rollout": "estimates where information could come from; ignores values and feed-forward "
    "layers · Abnar & Zuidema 2020 · rollout = product over layers of ½ mean of heads + ½ residual "
    "connection{divided}",
}
DIVIDED = ", each row divided by its sum"  # of rollout, which is a product of rows that sum to 1


def captions_of(looking: Looking, maps: Sequence[Map]) -> tuple[str, ...]:
    """What stands below maps, or a row of one."""
    weighed = ABOUT.get(looking.weigh)
    merged = "" if looking.merge is None else MERGED[looking.merge]
    if looking.merge == "rollout":
        whole = all(sums_to_one(head.cells) for each in maps for head in _heads_of(each))
        merged = merged.format(divided="" if whole else DIVIDED)
    return tuple(each for each in (weighed, merged) if each)


def _heads_of(found: Map) -> Iterator[Map]:
    """The single heads that a map is made of."""
    if not found.of:
        yield found
    for each in found.of:
        yield from _heads_of(each)


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
