"""Two sentences read by a trained model, as what can be shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.sentences import (
    SENTENCES,
    WEIGHTS,
    Change,
    Read,
    Sentences,
    of_one_sentence,
)
from attnviz.cells import EVERYTHING, unmasked
from attnviz.tokens.tokens import Tokens
from attnviz.traces.document import Contents
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis, plain_axis
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.grids.scales import Scale, centred
from attnviz.views.inspection.explored_sentences import (
    difference_of,
    explored_of_sentences,
    pair_axis,
    short_names,
)
from attnviz.views.inspection.heatmap import grid_of
from attnviz.views.settings_line import settings_of_both
from attnviz.views.view import Data, Excerpt, Group, Lines, View, Words, page_of
from attnviz.wording.commands import Command
from attnviz.wording.numbers import digits_apart, percent
from attnviz.wording.words import listed, sentence

MOST, FEW = 10, 5  # heads on the screen, of very many; and where there is room for no more
APART = "apart"
NOTE = (
    "apart = mean Jensen-Shannon divergence of a head's rows: 0 bits = the same attention, 1 bit = "
    "no key in common · beside it the weight that changes most"
)
UNPAIRED = "attention to tokens without a counterpart in the other sentence counts as one number"
HEADER = ("head", "query", "key", "apart", "first", "second")
LEAST = 5e-4  # bits: less is written as 0


def view(sentences: Sentences, *, full: bool = False, command: Command | None = None) -> View:
    """The heads that change most, the first of them on both sentences, and what that comes to."""
    line, told = _settings(sentences), tuple(map(sentence, _told(sentences)))
    maps, more = _maps(sentences), f"more attention {_inside(sentences)[1]}"
    return View(
        title=_title(sentences),
        headline=told[0].removesuffix("."),
        settings=line,
        screen=page_of([Group("heads", (_table(sentences, None if full else MOST),)), maps], line),
        excerpt=_excerpt(sentences),
        picture=page_of([maps], line),
        closing=told,
        explored=partial(explored_of_sentences, sentences, more),
        data=Data(partial(_document, sentences, told), HEADER, partial(_lines, sentences)),
        provenance=sentences.first.provenance,
        command=command,
    )


def _title(sentences: Sentences) -> str:
    """`two sentences, read by MiniLM`; `one sentence, read by A and B`; or `in` given weights."""
    both = sentences.first, sentences.second
    cards = [each.trained for each in both if each.trained is not None]
    count = "one sentence" if of_one_sentence(*both) else "two sentences"
    if sentences.names == SENTENCES:
        return f"{count}, {f'read by {cards[0].name}' if cards else 'in given weights'}"
    named = "first and second weights" if sentences.names == WEIGHTS else listed(sentences.names)
    models = {each.origin.settings.model for each in both}
    if len(cards) == len(models) == 2:
        return f"{count}, read by {named}"
    return f"{count}, {f'read by {cards[0].name} ' if len(cards) == 2 else ''}in {named}"


def _inside(sentences: Sentences) -> tuple[str, str]:
    """`in the first sentence`, and `in the second`; or `in float32`"""
    if sentences.names in (SENTENCES, WEIGHTS):
        return f"in the {sentences.names[0]}", "in the second"
    return f"in {sentences.names[0]}", f"in {sentences.names[1]}"


def _settings(sentences: Sentences) -> str:
    """What the numbers depend on, and how many tokens stand for each other."""
    rows = sentences.rows
    counts = dict.fromkeys((len(rows.tokens), len(rows.others)))
    whole = len(counts) == 1 and len(rows) in counts
    of = "" if whole else f" of {' and '.join(map(str, counts))}"
    return f"{len(rows)}{of} tokens paired · {settings_of_both(sentences.first, sentences.second)}"


def _excerpt(sentences: Sentences) -> Excerpt:
    """The first heads: the maps of one of them fill a small screen three times over."""
    few = Group("heads", (_table(sentences, FEW),))
    return Excerpt((few,), f"--full shows the maps of {sentences.heads[0].name}, too")


def _table(sentences: Sentences, most: int | None = MOST) -> Grid:
    """A row for each head: how far apart it is, and the weight that changes most."""
    count = len(sentences.heads)
    shown = sentences.heads[:most]
    names = tuple(each.name for each in shown)
    values = np.array([[each.apart, each.largest.before, each.largest.after] for each in shown])
    title = "how each head changes" if count > 1 else "how the head changes"
    notes = [NOTE, *([UNPAIRED] if _unpaired(sentences) else [])]
    notes += [f"the first {len(shown)} of {count} (--full shows all)"] if len(shown) < count else []
    return Grid(
        title,
        Axis("", "head", tuple(_pair_of(sentences, each) for each in shown), names),
        plain_axis("column", [APART, *short_names(sentences)]),
        unmasked(values),
        Scale("share", 0.0, 1.0),
        note=" · ".join(notes),
        decimals=3,
    )


def _unpaired(sentences: Sentences) -> bool:
    columns = sentences.columns
    return len(columns) < max(len(columns.tokens), len(columns.others))


def _pair_of(sentences: Sentences, read: Read) -> str:
    """`it → animal`, `it → itself`"""
    most, same = read.largest, sentences.rows is sentences.columns
    if same and most.query == most.key:
        return f"{sentences.rows.name(most.query)} → itself"
    return f"{sentences.rows.name(most.query)} → {sentences.columns.name(most.key)}"


def _maps(sentences: Sentences) -> Group:
    """The head that changes most, on both sentences, and what it reads more or less."""
    most = sentences.heads[0]
    both = [_cut(sentences, each, place) for place, each in enumerate((most.first, most.second))]
    return Group("alternatives", (*same_scale(both), _difference(sentences, most)), kind="pair")


def _cut(sentences: Sentences, found: Map, place: int) -> Grid:
    """A head on one sentence; of one token alone its row."""
    trace = (sentences.first, sentences.second)[place]
    grid = replace(
        grid_of(found, sentences.looking, trace.prompt),
        title=f"{found.name} · {sentences.names[place]}",
    )
    grid = replace(grid, note=f"{AXES_NOTE} · {GOES_ON}" if grid.rows.border else AXES_NOTE)
    if sentences.query is None:
        return grid
    row = (sentences.rows.first, sentences.rows.second)[place][sentences.query]
    return grid.part(slice(row, row + 1))


def _difference(sentences: Sentences, read: Read) -> Grid:
    """The weights in the second sentence minus those in the first, of tokens that are paired."""
    cells, query = difference_of(sentences, read), sentences.query
    patch = cells.window(EVERYTHING if query is None else slice(query, query + 1), EVERYTHING)
    shown = unmasked(patch.values)
    rows = pair_axis("query (reads)", sentences.rows)
    return Grid(
        f"{read.name} · {' − '.join(short_names(sentences)[::-1])}",
        rows if query is None else rows.part(slice(query, query + 1)),
        pair_axis("key (is read)", sentences.columns),
        shown,
        centred("difference", shown),
        note=f"{AXES_NOTE} · above 0 = more attention {_inside(sentences)[1]}",
    )


def _told(sentences: Sentences) -> tuple[str, ...]:
    """Which head changes most, and how; in which layers; and which tokens are not the same."""
    if not sentences.changes:
        return (f"no head attends differently {_inside(sentences)[1]}",)
    return (
        _most(sentences),
        *_of_same(sentences),
        *_of_layers(sentences),
        *_replaced(sentences),
    )


def _most(sentences: Sentences) -> str:
    most, count = sentences.heads[0], len(sentences.heads)
    name = f"{most.name} changes most of {count} heads" if count > 1 else f"{most.name} changes"
    if sentences.query is None:
        return f"{name}: {_change(sentences, most.largest)}"
    (query, other_query), (key, other_key) = _labels(sentences, most.largest)
    readers = " and ".join(dict.fromkeys((query, other_query)))
    before, after = _both(most.largest)
    first, second = _inside(sentences)
    again = "" if key == other_key else f"to {other_key} "
    return (
        f"for {readers}, {name}: {before} of its attention goes to {key} {first}, "
        f"{after} {again}{second}"
    )


def _change(sentences: Sentences, change: Change) -> str:
    """`"it" gives "animal" 64 % of its attention in the first sentence, 27 % in the second`"""
    (query, other_query), (key, other_key) = _labels(sentences, change)
    same = (query, key) == (other_query, other_key)
    again = "" if same else f"{other_query} gives {other_key} "
    before, after = _both(change)
    first, second = _inside(sentences)
    return f"{query} gives {key} {before} of its attention {first}, {again}{after} {second}"


def _both(change: Change) -> tuple[str, str]:
    """Both weights, in as many digits as it takes to tell them apart."""
    digits = digits_apart(change.before, change.after, 0, percent)
    return percent(change.before, digits), percent(change.after, digits)


def _labels(sentences: Sentences, change: Change) -> tuple[tuple[str, str], tuple[str, str]]:
    """Who reads, and what is read, in both sentences."""
    query, other_query = sentences.rows.labels(change.query)
    key, other_key = sentences.columns.labels(change.key)
    return (_quoted(query), _quoted(other_query)), (_quoted(key), _quoted(other_key))


def _of_same(sentences: Sentences) -> Iterator[str]:
    """The largest change between tokens that both have, where another has been told."""
    found = [each for each in sentences.heads if each.of_same is not None]
    most = max(found, key=lambda each: _size(each.of_same), default=None)
    told = sentences.heads[0].largest
    if most is None or most.of_same is None or most.of_same in (told, None):
        return
    if _size(most.of_same) >= LEAST:
        start = f"between tokens that both sentences have, the largest change is in {most.name}"
        yield f"{start}: {_change(sentences, most.of_same)}"


def _size(change: Change | None) -> float:
    return 0.0 if change is None else change.size


def _quoted(label: str) -> str:
    return f'"{label}"'


def _of_layers(sentences: Sentences) -> Iterator[str]:
    """In which layer heads change most on average, and in which least."""
    layers: dict[int, list[float]] = {}
    for each in sentences.heads:
        if each.first.layer is not None:
            layers.setdefault(each.first.layer.layer, []).append(each.apart)
    if len(layers) < 2:
        return
    means = {layer: sum(found) / len(found) for layer, found in layers.items()}
    most, least = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    if means[most] - means[least] >= LEAST:
        yield (
            f"on average, heads change most in layer {most} ({means[most]:.3f} bits) and least in "
            f"layer {least} ({means[least]:.3f})"
        )


def _replaced(sentences: Sentences) -> Iterator[str]:
    """Tokens that are not the same, and stand at the same place."""
    rows = sentences.rows
    pairs = [" and ".join(map(_quoted, rows.labels(each))) for each in rows.replaced]
    if pairs:
        yield f"{', '.join(pairs)} are compared because they stand at the same place"


def _document(sentences: Sentences, told: tuple[str, ...]) -> Contents:
    rows, most = sentences.rows, sentences.heads[0]
    return {
        "names": list(sentences.names),
        "first": _sentence(sentences.first.tokens),
        "second": _sentence(sentences.second.tokens),
        "pairs": [[one + 1, other + 1] for one, other in zip(rows.first, rows.second, strict=True)],
        "conclusion": " ".join(told),
        "heads": [_head(sentences, each) for each in sentences.heads],
        "most changed": {
            "head": most.name,
            "first": most.first.cells.window(EVERYTHING, EVERYTHING).values,
            "second": most.second.cells.window(EVERYTHING, EVERYTHING).values,
        },
    }


def _sentence(tokens: Tokens) -> Contents:
    return {"text": tokens.text, "ids": list(tokens.ids), "labels": list(tokens.labels)}


def _head(sentences: Sentences, read: Read) -> Contents:
    return {
        "head": read.name,
        "apart": read.apart,
        "query": sentences.rows.name(read.largest.query),
        "key": sentences.columns.name(read.largest.key),
        "before": read.largest.before,
        "after": read.largest.after,
    }


def _lines(sentences: Sentences) -> Iterator[Lines]:
    heads = sentences.heads
    words = Words((
        tuple(each.name for each in heads),
        tuple(sentences.rows.name(each.largest.query) for each in heads),
        tuple(sentences.columns.name(each.largest.key) for each in heads),
    ))  # fmt: skip
    numbers = (
        [each.apart for each in heads],
        [each.largest.before for each in heads],
        [each.largest.after for each in heads],
    )
    yield Lines((), words, numbers)
