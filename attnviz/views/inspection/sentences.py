"""Two sentences read by a trained model, as what can be shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from string import punctuation

import numpy as np

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.sentences import (
    LEAST,
    SENTENCES,
    WEIGHTS,
    Change,
    Read,
    Sentences,
    of_one_sentence,
)
from attnviz.cells import EVERYTHING, unmasked
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis, plain_axis
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.grids.scales import Scale, centred
from attnviz.views.inspection.explored import (
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
from attnviz.wording.words import isolated, listed, sentence

MOST, FEW = 10, 5  # heads on the screen, of very many; and where there is room for no more
APART = "apart"
RANKED = {
    True: "sorted by the change between tokens that both sentences have, special tokens aside",
    False: "sorted by the change of the attention weight",
}
NOTE = (
    "apart = mean Jensen-Shannon divergence of a head's rows: 0 bits = the same attention, 1 bit = "
    "no key in common"
)
LONGEST_WORD = 20  # characters of a word that a sentence is called by
UNPAIRED = "attention to tokens without a counterpart in the other sentence counts as one number"
HEADER = ("head", "query", "key", "apart", "first", "second")


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
        picture=page_of([_drawn(sentences)], line),
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
    """`with "tired"`, `with "wide"`; `in the first sentence`, `in the second`; `in float32`, …"""
    words = _words(sentences)
    if words is not None:
        return f'with "{words[0]}"', f'with "{words[1]}"'
    if sentences.names in (SENTENCES, WEIGHTS):
        return f"in the {sentences.names[0]}", "in the second"
    return f"in {sentences.names[0]}", f"in {sentences.names[1]}"


def _words(sentences: Sentences) -> tuple[str, str] | None:
    """What two sentences can be called by."""
    one, other = sentences.first.text, sentences.second.text
    return words_apart(one, other) if one and other and sentences.names == SENTENCES else None


def words_apart(text: str, other: str) -> tuple[str, str] | None:
    """The only word that differs, in both texts, if there is one that no other place has.

    >>> words_apart("it was too tired.", "it was too wide.")
    ('tired', 'wide')
    """
    texts = text.split(), other.split()
    apart = [pair for pair in zip(*texts, strict=False) if pair[0] != pair[1]]
    if len(texts[0]) != len(texts[1]) or len(apart) != 1:
        return None
    if any(word in there for word, there in zip(apart[0], texts[::-1], strict=True)):
        return None
    one, two = (each.strip(punctuation) for each in apart[0])
    fit = one and two and one != two and max(len(one), len(two)) <= LONGEST_WORD
    return (isolated(one), isolated(two)) if fit else None


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
    """A row for each head: the weight that changes most, and how far apart all of the head is."""
    count = len(sentences.heads)
    shown = sentences.heads[:most]
    names = tuple(each.name for each in shown)
    links = [sentences.link(each) for each in shown]
    pairs = zip(shown, links, strict=True)
    values = np.array([[link.before, link.after, each.apart] for each, link in pairs])
    title = "the link that changes most in each head" if count > 1 else "how the head changes"
    notes = [RANKED[sentences.shared], NOTE, *([UNPAIRED] if _unpaired(sentences) else [])]
    notes += [f"the first {len(shown)} of {count} (--full shows all)"] if len(shown) < count else []
    return Grid(
        title,
        Axis("", "head", tuple(_pair_of(sentences, each) for each in links), names),
        plain_axis("column", [*short_names(sentences), APART]),
        unmasked(values),
        Scale("share", 0.0, 1.0),
        note=" · ".join(notes),
        decimals=3,
    )


def _unpaired(sentences: Sentences) -> bool:
    columns = sentences.columns
    return len(columns) < max(len(columns.tokens), len(columns.others))


def _pair_of(sentences: Sentences, link: Change) -> str:
    """`it → animal`, `it → itself`"""
    if sentences.rows is sentences.columns and link.query == link.key:
        return f"{sentences.rows.name(link.query)} → itself"
    return f"{sentences.rows.name(link.query)} → {sentences.columns.name(link.key)}"


def _maps(sentences: Sentences) -> Group:
    """The head that changes most, on both sentences, and what it attends to more or less."""
    most = sentences.heads[0]
    both = [_cut(sentences, each, place) for place, each in enumerate((most.first, most.second))]
    return Group("alternatives", (*same_scale(both), _difference(sentences, most)), kind="pair")


def _drawn(sentences: Sentences) -> Group:
    """Of two sentences both maps, large; of one, what tells them apart, too.

    Of one token alone three rows, whose tokens are named once where each has a counterpart.
    """
    maps = _maps(sentences)
    *both, difference = (each for each in maps.panels if isinstance(each, Grid))
    if sentences.query is None:
        alone = not of_one_sentence(sentences.first, sentences.second)
        return Group("alternatives", tuple(both)) if alone else maps
    if _unpaired(sentences) or len({each.columns.border for each in both}) > 1:
        return maps
    named = (
        replace(each, columns=replace(difference.columns, border=each.columns.border))
        for each in (*both, difference)
    )
    return replace(maps, panels=tuple(named))


def _cut(sentences: Sentences, found: Map, place: int) -> Grid:
    """A head on one sentence; of one token alone its row."""
    trace, words = (sentences.first, sentences.second)[place], _words(sentences)
    grid = replace(
        grid_of(found, sentences.looking, trace.prompt),
        title=f"{found.name} · {(_inside(sentences) if words else sentences.names)[place]}",
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
    rows, words = pair_axis("query (reads)", sentences.rows), _words(sentences)
    names = short_names(sentences) if words is None else [f'"{each}"' for each in words]
    return Grid(
        f"{read.name} · {' − '.join(names[::-1])}",
        rows if query is None else rows.part(slice(query, query + 1)),
        pair_axis("key (is read)", sentences.columns),
        shown,
        centred("difference", shown),
        share=True,
        note=f"{AXES_NOTE} · above 0 = more attention {_inside(sentences)[1]}",
    )


def _told(sentences: Sentences) -> tuple[str, ...]:
    """The link that changes most; among which it was found; in which layers heads change most."""
    if not sentences.changes:
        return (f"no head attends differently {_inside(sentences)[1]}",)
    return (
        _most(sentences),
        _found_among(sentences),
        *_of_layers(sentences),
        *_replaced(sentences),
    )


def _most(sentences: Sentences) -> str:
    """`in L3H1, "it" gives "animal" 64 % of its attention with "tired", 27 % with "wide"`"""
    most = sentences.heads[0]
    change, inside = sentences.link(most), _inside(sentences)
    digits = digits_apart(change.before, change.after, 0, percent)
    before, after = percent(change.before, digits), percent(change.after, digits)
    (query, key), (other_query, other_key) = _labels(sentences, change)
    again = "" if key == other_key else f"{other_key} "
    again = again if query == other_query else f"{other_query} gives {other_key} "
    if again and _words(sentences):
        inside = ("", "")  # the words themselves say which sentence it is
    first, second = (f" {each}" if each else "" for each in inside)
    told = f"{query} gives {key} {before} of its attention{first}, {again}{after}{second}"
    return f"in {most.name}, {told}"


def _labels(sentences: Sentences, change: Change) -> Iterator[tuple[str, str]]:
    """Who attends, and to what, in each sentence."""
    rows, columns = sentences.rows, sentences.columns
    for trace, query, key in (
        (sentences.first, rows.first[change.query], columns.first[change.key]),
        (sentences.second, rows.second[change.query], columns.second[change.key]),
    ):
        itself = trace.keys is trace.tokens and query == key
        yield _quoted(trace.tokens, query), "itself" if itself else _quoted(trace.keys, key)


def _quoted(tokens: Tokens, place: int) -> str:
    """`"animal"`; with its number where the word is there twice: `"the" (8)`; `[CLS]`"""
    label = tokens.labels[place]
    name = isolated(label) if place in tokens.special else f'"{isolated(label)}"'
    return name if tokens.labels.count(label) == 1 else f"{name} ({place + 1})"


def _found_among(sentences: Sentences) -> str:
    """Which weights count, where no other changes more."""
    count, query = len(sentences.heads), sentences.query
    where = f"in {count} heads" if count > 1 else "in this head"
    whose = (
        ""
        if query is None
        else f" for {_quoted(sentences.rows.tokens, sentences.rows.first[query])}"
    )
    told = f"this is the largest change{whose} {where}"
    if not sentences.shared:
        return told
    if not of_one_sentence(sentences.first, sentences.second):
        told += f", {'between' if query is None else 'among'} tokens that both sentences have"
    special = sentences.columns.tokens.special
    return f"{told}, special tokens aside" if special else told


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
    pairs = [
        f"{_quoted(rows.tokens, rows.first[each])} and {_quoted(rows.others, rows.second[each])}"
        for each in rows.replaced
    ]
    if pairs:
        yield f"{', '.join(pairs)} are compared because they are at the same position"


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
    link = sentences.link(read)
    return {
        "head": read.name,
        "apart": read.apart,
        "query": sentences.rows.name(link.query),
        "key": sentences.columns.name(link.key),
        "before": link.before,
        "after": link.after,
    }


def _lines(sentences: Sentences) -> Iterator[Lines]:
    heads, links = sentences.heads, [*map(sentences.link, sentences.heads)]
    words = Words((
        tuple(each.name for each in heads),
        tuple(sentences.rows.name(each.query) for each in links),
        tuple(sentences.columns.name(each.key) for each in links),
    ))  # fmt: skip
    numbers = (
        [each.apart for each in heads],
        [each.before for each in links],
        [each.after for each in links],
    )
    yield Lines((), words, numbers)
