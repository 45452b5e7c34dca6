"""What one token reads: its sentence in colour, and what is read most, where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.patterns import every_nth
from attnviz.analysis.inspection.token_query import Asked, Link, MapLink, Reading
from attnviz.cells import Whole
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.axes import ROW_SUMS, Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.heatmap import axis_of, captions_of
from attnviz.views.inspection.numbers import called, head_name, named, of_row, told, unit

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
    first = link.ranked[0].reading
    if len(link.ranked) == 1:
        return (sentence_of(link.asked, first, listed=True),)
    read = sentence_of(link.asked, first)
    return (link_ranked(link, read.grid.scale), read)


def sentence_of(asked: Asked, reading: Reading, *, listed: bool = False) -> Sentence:
    """The words, each in the colour of how much is read of it."""
    found, looking = reading.map, asked.looking
    cells = Whole(reading.patch.values, reading.patch.hidden)
    rolled = looking.merge == "rollout"  # whose caption is long enough
    whole = ROW_SUMS if listed and not rolled and found.share and sums_to_one(cells) else ""
    does = "draws on" if rolled else "attends to"
    grid = Grid(
        f"what {named(found.rows, asked.row)} {does} in {which(reading)}",
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
    title = f"its mean {called(asked.looking)}"
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
    remarks = [f"to {named(columns, each.most)}" if each.peak else NONE for each in asked.by_peak]
    return _ranked(
        f"its largest {called(asked.looking)} in each head",
        _heads(asked.by_peak),
        [each.peak for each in asked.by_peak],
        remarks,
        asked.looking,
        scale,
    )


def link_ranked(link: Link, scale: Scale) -> Ranked:
    """The maps by how much they link two tokens, each with what other tokens give the same key."""
    found, looking = link.ranked[0].map, link.looking
    reader, read = named(found.rows, link.asked.row), named(found.columns, link.column)
    gaps = [each.others.mean if each.sees and each.others.count else np.nan for each in link.ranked]
    return _ranked(
        f"attention from {reader} to {read} in each head",
        _heads([each.reading for each in link.ranked]),
        [each.weight for each in link.ranked],
        [rank_told(each, looking) for each in link.ranked],
        looking,
        scale,
        hidden=[not each.sees for each in link.ranked],
        others=gaps,
        note=" · ".join(_notes_on(link, read)),
    )


def _notes_on(link: Link, read: str) -> Iterator[str]:
    """What the ranking goes by, and which the other tokens are."""
    looking, rows = link.looking, link.ranked[0].map.rows
    what, tokens = called(looking), f"{unit(looking)}s"
    if looking.rank == "weight":
        yield f"sorted by {what}"
    elif looking.weigh == "gradient":
        yield f"sorted by the distance of {what} from others"
    else:
        yield f"sorted by {what} − others"
    special = f", nor special {tokens}" * any(rows.special)
    step = every_nth(len(rows)).step
    sample = f"every {ordinal(step)} of the other {tokens}" if step > 1 else f"the other {tokens}"
    yield f"others = mean {what} that {sample} give {read} (not {read} itself{special})"


def rank_told(each: MapLink, looking: Looking) -> str:
    """What is to be said of a link in a map: `2nd; [SEP] gets .31`."""
    if not each.sees:
        return "hidden by the mask"
    if not each.reading.peak:
        return NONE
    if each.others.attend_most:
        return f"most {unit(looking)}s attend to it"
    if each.rank == 1:
        return "its strongest link"
    more = named(each.map.columns, each.reading.most)
    return f"{ordinal(each.rank or 0)}; {more} gets {told(each.reading.peak, looking)}"


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
    others: Sequence[float] = (),
    note: str = "",
) -> Ranked:
    names = [called(looking), f"other {unit(looking)}s"]
    columns = [numbers, others] if len(others) else [numbers]
    values = np.array(columns, dtype=float).T
    unseen = np.zeros(len(values), bool) if hidden is None else np.array(hidden)
    grid = Grid(
        title,
        rows,
        plain_axis("column", names[: len(columns)]),
        Whole(values, np.repeat(unseen[:, None], len(columns), axis=1)),
        scale,
        note=note,
        share=looking.weigh == "weight",
    )
    return Ranked(grid, tuple(remarks))


def _heads(readings: Sequence[Reading]) -> Axis:
    names = [head_name(each.map) for each in readings]
    return plain_axis("head", names)


def which(reading: Reading) -> str:
    """`L5H11`, `the mean of 72 heads`."""
    name = head_name(reading.map)
    return f"the {name}" if reading.map.of else name
