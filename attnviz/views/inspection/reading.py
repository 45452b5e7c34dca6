"""What one token reads: its sentence in colour, and what is read most, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnviz.analysis.inspection.asked import Asked, Link
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.reads import Reading
from attnviz.cells import Whole
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.axes import ROW_SUMS, Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.captions import captions_of
from attnviz.views.inspection.heatmap import axis_of
from attnviz.views.inspection.numbers import called, head_name, named, of_row, reach_of, told

NONE = "all are 0"
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def parts_of(asked: Asked) -> tuple[Sentence | Ranked, ...]:
    """Of one map the sentence; of several that of their mean, and what is read most in which."""
    if len(asked.readings) == 1:
        return (sentence_of(asked, asked.mean, listed=True),)
    read = sentence_of(asked, asked.mean)
    scale = replace(read.grid.scale, beyond=abs(asked.by_peak[0].peak) > read.grid.scale.high)
    read = replace(read, grid=replace(read.grid, scale=scale))
    return (read, tokens_ranked(asked, scale), heads_ranked(asked, scale))


def parts_of_link(link: Link) -> tuple[Sentence | Ranked, ...]:
    """The sentence in the map that links the two most, and all maps ranked."""
    if len(link.ranked) == 1:
        return (sentence_of(link.asked, link.ranked[0], listed=True),)
    read = sentence_of(link.asked, link.ranked[0])
    return (link_ranked(link, read.grid.scale), read)


def sentence_of(asked: Asked, reading: Reading, *, listed: bool = False) -> Sentence:
    """The words, each in the colour of how much is read of it."""
    found, looking = reading.map, asked.looking
    cells = Whole(reading.patch.values, reading.patch.hidden)
    whole = ROW_SUMS if listed and found.share and sums_to_one(cells) else ""
    grid = Grid(
        f"what {named(found.rows, asked.row)} reads in {which(reading)}",
        plain_axis("head", [head_name(found)]),
        axis_of("key (is read)", found.columns),
        cells,
        of_row(reading.patch.values[0], looking),
        note=" · ".join(filter(None, (whole, *captions_of(looking, [found])))),
        share=looking.weigh == "weight",
    )
    return Sentence(grid, asked.own_place, listed)


def tokens_ranked(asked: Asked, scale: Scale) -> Ranked:
    """What is read most in the mean of all maps, and in which of them most."""
    columns, mean = asked.readings[0].map.columns, asked.mean
    values = mean.patch.values[0]
    seen = [place for place in np.argsort(-np.abs(values), kind="stable") if mean.sees(place)]
    most = [asked.strongest(place) for place in seen]
    axis = axis_of("key (is read)", columns)
    names = Axis(
        "",
        "token",
        tuple(axis.labels[place] for place in seen),
        tuple(axis.numbers[place] for place in seen),
    )
    remarks = [
        f"{_most_in(asked, place, each)}: {told(each.of(place), asked.looking)}"
        for place, each in zip(seen, most, strict=True)
    ]
    title = f"what it reads, in {which(mean)}"
    numbers = [float(values[place]) for place in seen]
    return _ranked(title, names, numbers, remarks, asked.looking, scale)


def _most_in(asked: Asked, place: int, most: Reading) -> str:
    """The map that reads most of a token; or how many do, where several read as much."""
    alike = sum(each.of(place) == most.of(place) for each in asked.readings)
    if alike == len(asked.readings) > 1:
        return "as much in all"
    return f"most in {head_name(most.map) if alike == 1 else f'{alike} heads'}"


def heads_ranked(asked: Asked, scale: Scale) -> Ranked:
    """The maps by how much they read of one token."""
    columns = asked.readings[0].map.columns
    remarks = [f"of {named(columns, each.most)}" if each.peak else NONE for each in asked.by_peak]
    return _ranked(
        "heads by how much they read of one token",
        _heads(asked.by_peak),
        [each.peak for each in asked.by_peak],
        remarks,
        asked.looking,
        scale,
    )


def link_ranked(link: Link, scale: Scale) -> Ranked:
    """The maps by how much one token reads of another there."""
    found, looking = link.asked.readings[0].map, link.asked.looking
    reader, read = named(found.rows, link.asked.row), named(found.columns, link.column)
    return _ranked(
        f"how much {reader} reads of {read}",
        _heads(link.ranked),
        [each.of(link.column) for each in link.ranked],
        [rank_told(each, link.column, looking) for each in link.ranked],
        looking,
        scale,
        hidden=[not each.sees(link.column) for each in link.ranked],
    )


def rank_told(reading: Reading, column: int, looking: Looking) -> str:
    """Whether anything is read more there: `2nd, after "[SEP]" (15) with .31`."""
    rank = reading.rank(column)
    if not reading.sees(column):
        return "hidden by the mask"
    if not reading.peak:
        return NONE
    if rank == 1:
        return "nothing is read more"
    more = named(reading.map.columns, reading.most)
    return f"{ordinal(rank)}, after {more} with {told(reading.peak, looking)}"


def ordinal(number: int) -> str:
    """
    >>> ordinal(2), ordinal(11), ordinal(22)
    ('2nd', '11th', '22nd')
    """
    last = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ORDINALS.get(last, 'th')[-2:]}"


def _ranked(
    title: str,
    rows: Axis,
    numbers: Sequence[float],
    remarks: Sequence[str],
    looking: Looking,
    scale: Scale,
    hidden: Sequence[bool] | None = None,
) -> Ranked:
    values = np.array(numbers, dtype=float)[:, None]
    unseen = np.zeros(len(values), bool) if hidden is None else np.array(hidden)
    grid = Grid(
        title,
        rows,
        plain_axis("column", [called(looking)]),
        Whole(values, unseen[:, None]),
        scale,
        share=looking.weigh == "weight",
    )
    return Ranked(grid, tuple(remarks), reach_of(float(np.abs(values).max(initial=0)), looking))


def _heads(readings: Sequence[Reading]) -> Axis:
    names = [head_name(each.map) for each in readings]
    return plain_axis("head", names)


def which(reading: Reading) -> str:
    """`L5H11`, `the mean of 72 heads`."""
    name = head_name(reading.map)
    return f"the {name}" if reading.map.of else name
