"""Attention maps of heads as grids and as an overview, with their captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.patterns import BROAD_PATTERN
from attnviz.analysis.inspection.weighted_maps import find_answer_gradients
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.heads.head import Head
from attnviz.options.values import Merge, Weigh
from attnviz.traces.trace import Layer
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, ROW_SUM_NOTE, Axis
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.overview import MAX_CELLS_PER_SIDE, Flag, Overview
from attnviz.views.heads.grid import side_axis
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.inspection.map_numbers import (
    head_name,
    map_scale,
    measure_name,
    refuse_logarithms,
    rollout_scale,
    side_label,
)
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import bidi_isolated

SINK_LOSS_NOTE = (
    "rows sum to less than 1: the rest goes to the model's attention sinks, which are not tokens"
)
MERGE_CAPTIONS: dict[Merge, str] = {
    "mean": "mean = the sum over the heads / their number · it hides what single heads do",
    "max": "max = the largest weight of any head, cell by cell · rows do not sum to 1, and "
    "neighbouring cells may come from different heads",
    "rollout": "estimates where information could come from; ignores values and feed-forward "
    "layers · Abnar & Zuidema 2020 · rollout = product over layers of ½ mean of heads + ½ residual "
    "connection{divided}",
}
ROLLOUT_DIVISION_TEXT = ", each row divided by its sum"
WEIGH_CAPTIONS: dict[Weigh, str] = {
    "norm": "weight × length = length of the vector that a head passes on from a key: weight × "
    "value × W_o (Kobayashi et al. 2020) · it ignores directions: long vectors may cancel, and the "
    "residual connection may be longer",
    "gradient": "weight × gradient = how much of an answer's score depends on a weight, to first "
    "order and through all later layers · it does not say what the answer would be without the "
    "weight",
}
UNIT_CAPTIONS = {
    "sentence": "weights are summed over the tokens of a sentence that is read: long ones get more"
}
OVERVIEW_NOTE = "each map: rows attend to columns"
BROAD_NOTE = "broad = entropy, as a share of the largest possible"
GROUPS_NOTE = "heads of a group (kv) share their keys and values"
WEIGHT_LETTERS_NOTE = "letters: by weight alone"  # where gradients, which may be below 0, are shown


def heatmaps(inspection: Inspection, only: Sequence[Head] | None = None) -> list[Grid]:
    """Return a grid for each map of the Inspection, or each in `only`, all on one scale."""
    prompt, maps = inspection.trace.prompt, inspection.maps if only is None else only
    grids = [map_grid(each, inspection.options, prompt) for each in maps]
    all_sum_to_one = all(each.are_shares and do_rows_sum_to_one(each.cells) for each in maps)
    borders = any(each.rows.border is not None for each in grids)
    sums = ROW_SUM_NOTE if all_sum_to_one else _sink_note(inspection)
    if inspection.options.merge == "rollout":
        sums = ""  # its caption is long enough
    notes = (AXES_NOTE, sums, GENERATED_NOTE if borders else "")
    note = " · ".join(filter(None, (*notes, *map_captions(inspection.options, maps))))
    return with_common_scales([replace(each, note=note) for each in grids])


def _sink_note(inspection: Inspection) -> str:
    """Return a note on rows that sum to less than 1 because of attention sinks.

    Empty without sinks, if tokens are hidden, and if numbers are not shares.
    """
    maps, looking = inspection.maps, inspection.options
    sources = [source for shown_map in maps for source in (shown_map, *shown_map.merged_heads)]
    has_sinks = any(each.layer.attended.sink is not None for each in sources)
    hides = looking.hide_special or looking.hide_first
    return (
        SINK_LOSS_NOTE if has_sinks and not hides and all(each.are_shares for each in maps) else ""
    )


def map_grid(attention_map: Head, looking: InspectOptions, prompt: int | None = None) -> Grid:
    """Return a map as a grid with its colour scale, which for a rollout ignores special tokens.

    `prompt` is the number of tokens given: the axes mark where generated tokens begin.
    """
    scale = rollout_scale if looking.merge == "rollout" else map_scale
    suffix = "" if looking.weigh == "weight" else f" {measure_name(looking).partition(' ')[2]}"
    name = head_name(attention_map)
    return Grid(
        name if attention_map.merged_heads else f"weights{suffix} {name}",
        side_axis("query (reads)", attention_map.rows, prompt),
        side_axis("key (is read)", attention_map.columns, prompt),
        attention_map.cells,
        scale(attention_map, looking),
        share=looking.weigh == "weight" and looking.merge != "max",
    )


def map_captions(looking: InspectOptions, maps: Sequence[Head]) -> tuple[str, ...]:
    """Return the captions on --by-sentence, --weigh and --merge."""
    weighed, grouped = WEIGH_CAPTIONS.get(looking.weigh), UNIT_CAPTIONS.get(looking.unit)
    merged = "" if looking.merge is None else MERGE_CAPTIONS[looking.merge]
    if looking.merge == "rollout":
        all_sum_to_one = all(
            do_rows_sum_to_one(head.cells)
            for rollout in maps
            for head in _single_head_maps(rollout)
        )
        merged = merged.format(divided="" if all_sum_to_one else ROLLOUT_DIVISION_TEXT)
    return tuple(filter(None, (grouped, weighed, merged)))


def _single_head_maps(attention_map: Head) -> Iterator[Head]:
    """Yield the maps of single heads that a map was merged from, or the map itself."""
    if not attention_map.merged_heads:
        yield attention_map
    for part in attention_map.merged_heads:
        yield from _single_head_maps(part)


def weighing_sentences(inspection: Inspection) -> Iterator[str]:
    """Yield the first token's share by length, or which answer a gradient belongs to.

    Nothing for plain weights.
    """
    weigh = inspection.options.weigh
    if weigh == "norm":
        yield from _first_token_sentences(inspection)
    if weigh == "gradient":
        gradients = find_answer_gradients(inspection.trace, inspection.options)
        token_name = quoted_token(inspection.trace.tokens, gradients.position)
        where_text = f"{'after' if gradients.next else 'at'} {token_name}"
        yield f'gradient of the score of "{bidi_isolated(gradients.answer)}" {where_text}'


def _first_token_sentences(inspection: Inspection) -> Iterator[str]:
    """Yield the first token's share of all attention, by weight and by weight × length.

    Nothing if there is only one key.
    """
    plain, weighed = inspection.head_maps, inspection.weighted_maps
    if len(plain[0].columns) < 2:
        return
    before, after = (percent_text(_first_token_share(maps)) for maps in (plain, weighed))
    token_name = side_label(plain[0].columns, 0)
    opening = f"on average over {len(plain)} heads, {token_name}" if len(plain) > 1 else token_name
    yield f"{opening} gets {before} of the attention, and {after} of weight × length"


def _first_token_share(maps: Sequence[Head]) -> float:
    """Return the first key's share of all numbers of a head, averaged over heads."""
    shares = []
    for head in maps:
        sums = [[band.values[:, 0].sum(), band.values.sum()] for band in head.cells.bands()]
        first_sum, total = np.array(sums).sum(0)
        shares.append(first_sum / total if total else 0.0)
    return float(np.mean(shares))


def heads_overview(
    inspection: Inspection, flags: Sequence[Flag] = (), kinds: Sequence[int | None] = ()
) -> Overview:
    """Return a small map for each head, arranged by layer and head; `flags` mark some of them, and
    `kinds` are each head's flag.

    Maps of long texts are pooled. Refuses --log if any number is below 0.
    """
    maps, looking = inspection.maps, inspection.options
    places = [_place_in_model(each) for each in maps]
    layers, heads = (list(dict.fromkeys(numbers)) for numbers in zip(*places, strict=True))
    patches = [_overview_patch(each.cells) for each in maps]
    values = np.stack([patch.values for patch in patches]).astype(np.float32)
    if values.size and values.min() < 0:
        refuse_logarithms(looking)
    first_map, prompt = maps[0], inspection.trace.prompt
    row_count, column_count = first_map.cells.shape
    groups = _key_value_groups(maps)
    notes = {
        OVERVIEW_NOTE: True,
        GROUPS_NOTE: groups,
        BROAD_NOTE: any(flag.short == BROAD_PATTERN.short for flag in flags),
        WEIGHT_LETTERS_NOTE: flags and looking.weigh == "gradient",
    }
    captions = [note for note, is_needed in notes.items() if is_needed]
    return Overview(
        title="all heads",
        rows=_overview_axis("layer", "L", layers),
        columns=_overview_axis("head", "H", heads),
        groups=groups,
        names=tuple(each.name for each in maps),
        map_cells=tuple((layers.index(layer), heads.index(head)) for layer, head in places),
        values=values,
        hidden=np.stack([patch.hidden for patch in patches]),
        query_axis=side_axis("query (reads)", first_map.rows, prompt),
        key_axis=side_axis("key (is read)", first_map.columns, prompt),
        tokens_per_row=_block_counts(row_count),
        tokens_per_column=_block_counts(column_count),
        measure=measure_name(looking),
        share=looking.weigh == "weight" and all(each.are_shares for each in maps),
        bend="log" if looking.log else "root",
        note=" · ".join((*captions, *map_captions(looking, maps))),
        flags=tuple(flags),
        kinds=tuple(kinds),
    )


def _place_in_model(head: Head) -> tuple[int | None, int | None]:
    """Return the numbers of a map's layer and head; of a merged map None."""
    return (None, None) if head.merged_heads else (head.layer.layer, head.number)


def _overview_axis(counts: str, letter: str, numbers: Sequence[int | None]) -> Axis:
    """Return the axis that counts layers or heads: `L0`, `L1`; no label for a merged map."""
    labels = tuple("" if number is None else f"{letter}{number}" for number in numbers)
    return Axis(counts, counts, labels, ("",) * len(labels))


def _key_value_groups(maps: Sequence[Head]) -> tuple[int, ...]:
    """Return which key-value group each head uses, if heads share keys and values.

    Empty if none do, if layers differ in that, or if maps are merged.
    """
    single = [each for each in maps if not each.merged_heads]
    layers: dict[int, Layer] = {each.layer.layer: each.layer for each in single}
    shared = {each.heads // each.kv_heads for each in layers.values()}
    heads = list(dict.fromkeys(each.number for each in single))
    if len(shared) != 1 or shared == {1} or len(single) < len(maps):
        return ()
    (group_size,) = shared
    return tuple(head // group_size for head in heads)


def _overview_patch(cells: Cells) -> Patch:
    """Return the weights of one head; those of long texts are pooled in blocks, to limit memory."""
    high, wide = map(_block_size, cells.shape)
    if high == wide == 1:
        return cells.window(FULL_SLICE, FULL_SLICE)
    return cells.pooled(high, wide, share=True)


def _block_size(count: int) -> int:
    return math.ceil(count / MAX_CELLS_PER_SIDE)


def _block_counts(count: int) -> Int[np.ndarray, "block"]:
    """Return how many of `count` tokens each cell stands for; the last may stand for fewer."""
    starts = np.arange(0, count, _block_size(count))
    return np.diff(np.append(starts, count))
