"""Two sentences read by a trained model, as what can be shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from string import punctuation

import numpy as np

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.sentences import (
    DEFAULT_SENTENCE_NAMES,
    DEFAULT_WEIGHT_NAMES,
    MIN_SHOWN_CHANGE,
    HeadComparison,
    Sentences,
    WeightChange,
    is_one_sentence,
)
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.scales import Scale, centred_scale
from attnviz.views.inspection.explored import (
    difference_cells,
    explored_of_sentences,
    pair_axis,
    short_names,
)
from attnviz.views.inspection.heatmap import map_grid
from attnviz.views.settings_line import two_settings_line
from attnviz.views.view import Excerpt, Group, TableData, TableLines, View, WordColumns, build_page
from attnviz.wording.commands import Command
from attnviz.wording.numbers import digits_apart, percent_text
from attnviz.wording.words import and_list, as_sentence, bidi_isolated

MAX_SCREEN_HEADS, MAX_EXCERPT_HEADS = (
    10,
    5,
)  # heads on the screen, of very many; and where there is room for no more
DIVERGENCE_COLUMN = "apart"
RANKING_NOTES = {
    True: "sorted by the change between tokens that both sentences have, special tokens aside",
    False: "sorted by the change of the attention weight",
}
DIVERGENCE_NOTE = (
    "apart = mean Jensen-Shannon divergence of a head's rows: 0 bits = the same attention, 1 bit = "
    "no key in common"
)
MAX_NAMING_WORD_LENGTH = 20  # characters of a word that a sentence is called by
UNPAIRED_NOTE = (
    "attention to tokens without a counterpart in the other sentence counts as one number"
)
HEAD_CHANGES_HEADER = ("head", "query", "key", "apart", "first", "second")


def view(sentences: Sentences, *, full: bool = False, command: Command | None = None) -> View:
    """The heads that change most, the first of them on both sentences, and what that comes to."""
    settings_text, closing = (
        _pairing_settings_line(sentences),
        tuple(map(as_sentence, _change_sentences(sentences))),
    )
    maps, more_text = _top_head_maps(sentences), f"more attention {_sentence_phrases(sentences)[1]}"
    return View(
        title=_sentences_title(sentences),
        headline=closing[0].removesuffix("."),
        settings=settings_text,
        screen=build_page(
            [
                Group("heads", (_changes_table(sentences, None if full else MAX_SCREEN_HEADS),)),
                maps,
            ],
            settings_text,
        ),
        excerpt=_heads_excerpt(sentences),
        picture=build_page([_picture_maps(sentences)], settings_text),
        closing=closing,
        explored=partial(explored_of_sentences, sentences, more_text),
        data=TableData(
            partial(_sentences_document, sentences, closing),
            HEAD_CHANGES_HEADER,
            partial(_head_change_lines, sentences),
        ),
        provenance=sentences.first.provenance,
        command=command,
    )


def _sentences_title(sentences: Sentences) -> str:
    """`two sentences, read by MiniLM`; `one sentence, read by A and B`; or `in` given weights."""
    traces = sentences.first, sentences.second
    cards = [trace.trained for trace in traces if trace.trained is not None]
    count_text = "one sentence" if is_one_sentence(*traces) else "two sentences"
    if sentences.names == DEFAULT_SENTENCE_NAMES:
        return f"{count_text}, {f'read by {cards[0].name}' if cards else 'in given weights'}"
    names_text = (
        "first and second weights"
        if sentences.names == DEFAULT_WEIGHT_NAMES
        else and_list(sentences.names)
    )
    models = {trace.origin.settings.model for trace in traces}
    if len(cards) == len(models) == 2:
        return f"{count_text}, read by {names_text}"
    return f"{count_text}, {f'read by {cards[0].name} ' if len(cards) == 2 else ''}in {names_text}"


def _sentence_phrases(sentences: Sentences) -> tuple[str, str]:
    """`with "tired"`, `with "wide"`; `in the first sentence`, `in the second`; `in float32`, …"""
    words = _telling_words(sentences)
    if words is not None:
        return f'with "{words[0]}"', f'with "{words[1]}"'
    if sentences.names in (DEFAULT_SENTENCE_NAMES, DEFAULT_WEIGHT_NAMES):
        return f"in the {sentences.names[0]}", "in the second"
    return f"in {sentences.names[0]}", f"in {sentences.names[1]}"


def _telling_words(sentences: Sentences) -> tuple[str, str] | None:
    """What two sentences can be called by."""
    first_text, second_text = sentences.first.text, sentences.second.text
    return (
        only_different_words(first_text, second_text)
        if first_text and second_text and sentences.names == DEFAULT_SENTENCE_NAMES
        else None
    )


def only_different_words(first_text: str, second_text: str) -> tuple[str, str] | None:
    """The only word that differs, in both texts, if there is one that no other place has.

    >>> only_different_words("it was too tired.", "it was too wide.")
    ('tired', 'wide')
    """
    texts = first_text.split(), second_text.split()
    different_pairs = [pair for pair in zip(*texts, strict=False) if pair[0] != pair[1]]
    if len(texts[0]) != len(texts[1]) or len(different_pairs) != 1:
        return None
    if any(word in there for word, there in zip(different_pairs[0], texts[::-1], strict=True)):
        return None
    first_word, second_word = (piece.strip(punctuation) for piece in different_pairs[0])
    is_usable = (
        first_word
        and second_word
        and first_word != second_word
        and max(len(first_word), len(second_word)) <= MAX_NAMING_WORD_LENGTH
    )
    return (bidi_isolated(first_word), bidi_isolated(second_word)) if is_usable else None


def _pairing_settings_line(sentences: Sentences) -> str:
    """What the numbers depend on, and how many tokens stand for each other."""
    rows = sentences.rows
    counts = dict.fromkeys((len(rows.tokens), len(rows.others)))
    all_paired = len(counts) == 1 and len(rows) in counts
    counts_text = "" if all_paired else f" of {' and '.join(map(str, counts))}"
    return f"{len(rows)}{counts_text} tokens paired · {two_settings_line(sentences.first, sentences.second)}"


def _heads_excerpt(sentences: Sentences) -> Excerpt:
    """The first heads: the maps of one of them fill a small screen three times over."""
    heads_group = Group("heads", (_changes_table(sentences, MAX_EXCERPT_HEADS),))
    return Excerpt((heads_group,), f"--full shows the maps of {sentences.heads[0].name}, too")


def _changes_table(sentences: Sentences, max_heads: int | None = MAX_SCREEN_HEADS) -> Grid:
    """A row for each head: the weight that changes most, and how far apart all of the head is."""
    count = len(sentences.heads)
    shown_heads = sentences.heads[:max_heads]
    names = tuple(each.name for each in shown_heads)
    links = [sentences.link(each) for each in shown_heads]
    pairs = zip(shown_heads, links, strict=True)
    values = np.array([[link.before, link.after, each.divergence] for each, link in pairs])
    title = "the link that changes most in each head" if count > 1 else "how the head changes"
    notes = [
        RANKING_NOTES[sentences.shared],
        DIVERGENCE_NOTE,
        *([UNPAIRED_NOTE] if _has_unpaired_keys(sentences) else []),
    ]
    notes += (
        [f"the first {len(shown_heads)} of {count} (--full shows all)"]
        if len(shown_heads) < count
        else []
    )
    return Grid(
        title,
        Axis("", "head", tuple(_link_label(sentences, each) for each in links), names),
        plain_axis("column", [*short_names(sentences), DIVERGENCE_COLUMN]),
        unmasked_cells(values),
        Scale("share", 0.0, 1.0),
        note=" · ".join(notes),
        decimals=3,
    )


def _has_unpaired_keys(sentences: Sentences) -> bool:
    columns = sentences.columns
    return len(columns) < max(len(columns.tokens), len(columns.others))


def _link_label(sentences: Sentences, link: WeightChange) -> str:
    """`it → animal`, `it → itself`"""
    if sentences.rows is sentences.columns and link.query == link.key:
        return f"{sentences.rows.name(link.query)} → itself"
    return f"{sentences.rows.name(link.query)} → {sentences.columns.name(link.key)}"


def _top_head_maps(sentences: Sentences) -> Group:
    """The head that changes most, on both sentences, and what it attends to more or less."""
    top_head = sentences.heads[0]
    grids = [
        _sentence_map(sentences, head_map, index)
        for index, head_map in enumerate((top_head.first, top_head.second))
    ]
    return Group(
        "alternatives",
        (*with_common_scales(grids), _head_difference_grid(sentences, top_head)),
        kind="pair",
    )


def _picture_maps(sentences: Sentences) -> Group:
    """Of two sentences both maps, large; of one, what tells them apart, too.

    Of one token alone three rows, whose tokens are named once where each has a counterpart.
    """
    maps = _top_head_maps(sentences)
    *sentence_grids, difference = (grid for grid in maps.panels if isinstance(grid, Grid))
    if sentences.query is None:
        has_two_texts = not is_one_sentence(sentences.first, sentences.second)
        return Group("alternatives", tuple(sentence_grids)) if has_two_texts else maps
    if _has_unpaired_keys(sentences) or len({grid.columns.border for grid in sentence_grids}) > 1:
        return maps
    panels = (
        replace(grid, columns=replace(difference.columns, border=grid.columns.border))
        for grid in (*sentence_grids, difference)
    )
    return replace(maps, panels=tuple(panels))


def _sentence_map(sentences: Sentences, attention_map: Map, index: int) -> Grid:
    """A head on one sentence; of one token alone its row."""
    trace, words = (sentences.first, sentences.second)[index], _telling_words(sentences)
    grid = replace(
        map_grid(attention_map, sentences.looking, trace.prompt),
        title=f"{attention_map.name} · {(_sentence_phrases(sentences) if words else sentences.names)[index]}",
    )
    grid = replace(grid, note=f"{AXES_NOTE} · {GENERATED_NOTE}" if grid.rows.border else AXES_NOTE)
    if sentences.query is None:
        return grid
    row = (sentences.rows.first, sentences.rows.second)[index][sentences.query]
    return grid.part(slice(row, row + 1))


def _head_difference_grid(sentences: Sentences, head: HeadComparison) -> Grid:
    """The weights in the second sentence minus those in the first, of tokens that are paired."""
    cells, query = difference_cells(sentences, head), sentences.query
    patch = cells.window(FULL_SLICE if query is None else slice(query, query + 1), FULL_SLICE)
    row_cells = unmasked_cells(patch.values)
    rows, words = pair_axis("query (reads)", sentences.rows), _telling_words(sentences)
    names = short_names(sentences) if words is None else [f'"{word}"' for word in words]
    return Grid(
        f"{head.name} · {' − '.join(names[::-1])}",
        rows if query is None else rows.part(slice(query, query + 1)),
        pair_axis("key (is read)", sentences.columns),
        row_cells,
        centred_scale("difference", row_cells),
        share=True,
        note=f"{AXES_NOTE} · above 0 = more attention {_sentence_phrases(sentences)[1]}",
    )


def _change_sentences(sentences: Sentences) -> tuple[str, ...]:
    """The link that changes most; among which it was found; in which layers heads change most."""
    if not sentences.changes:
        return (f"no head attends differently {_sentence_phrases(sentences)[1]}",)
    return (
        _largest_change_sentence(sentences),
        _search_scope_sentence(sentences),
        *_layer_sentences(sentences),
        *_replacement_sentences(sentences),
    )


def _largest_change_sentence(sentences: Sentences) -> str:
    """`in L3H1, "it" gives "animal" 64 % of its attention with "tired", 27 % with "wide"`"""
    top_head = sentences.heads[0]
    change, phrases = sentences.link(top_head), _sentence_phrases(sentences)
    digits = digits_apart(change.before, change.after, 0, percent_text)
    before, after = percent_text(change.before, digits), percent_text(change.after, digits)
    (query, key), (other_query, other_key) = _link_token_pairs(sentences, change)
    second_link_text = "" if key == other_key else f"{other_key} "
    second_link_text = (
        second_link_text if query == other_query else f"{other_query} gives {other_key} "
    )
    if second_link_text and _telling_words(sentences):
        phrases = ("", "")  # the words themselves say which sentence it is
    first, second = (f" {phrase}" if phrase else "" for phrase in phrases)
    link_text = (
        f"{query} gives {key} {before} of its attention{first}, {second_link_text}{after}{second}"
    )
    return f"in {top_head.name}, {link_text}"


def _link_token_pairs(sentences: Sentences, change: WeightChange) -> Iterator[tuple[str, str]]:
    """Who attends, and to what, in each sentence."""
    rows, columns = sentences.rows, sentences.columns
    for trace, query, key in (
        (sentences.first, rows.first[change.query], columns.first[change.key]),
        (sentences.second, rows.second[change.query], columns.second[change.key]),
    ):
        itself = trace.keys is trace.tokens and query == key
        yield (
            _quoted_token(trace.tokens, query),
            "itself" if itself else _quoted_token(trace.keys, key),
        )


def _quoted_token(tokens: Tokens, position: int) -> str:
    """`"animal"`; with its number where the word is there twice: `"the" (8)`; `[CLS]`"""
    label = tokens.labels[position]
    name = bidi_isolated(label) if position in tokens.special else f'"{bidi_isolated(label)}"'
    return name if tokens.labels.count(label) == 1 else f"{name} ({position + 1})"


def _search_scope_sentence(sentences: Sentences) -> str:
    """Which weights count, where no other changes more."""
    count, query = len(sentences.heads), sentences.query
    heads_text = f"in {count} heads" if count > 1 else "in this head"
    query_text = (
        ""
        if query is None
        else f" for {_quoted_token(sentences.rows.tokens, sentences.rows.first[query])}"
    )
    scope_text = f"this is the largest change{query_text} {heads_text}"
    if not sentences.shared:
        return scope_text
    if not is_one_sentence(sentences.first, sentences.second):
        scope_text += f", {'between' if query is None else 'among'} tokens that both sentences have"
    special = sentences.columns.tokens.special
    return f"{scope_text}, special tokens aside" if special else scope_text


def _layer_sentences(sentences: Sentences) -> Iterator[str]:
    """In which layer heads change most on average, and in which least."""
    layers: dict[int, list[float]] = {}
    for head in sentences.heads:
        if head.first.layer is not None:
            layers.setdefault(head.first.layer.layer, []).append(head.divergence)
    if len(layers) < 2:
        return
    means = {layer: sum(changes) / len(changes) for layer, changes in layers.items()}
    most_changed, least_changed = (
        max(means, key=means.__getitem__),
        min(means, key=means.__getitem__),
    )
    if means[most_changed] - means[least_changed] >= MIN_SHOWN_CHANGE:
        yield (
            f"on average, heads change most in layer {most_changed} ({means[most_changed]:.3f} bits) and least in "
            f"layer {least_changed} ({means[least_changed]:.3f})"
        )


def _replacement_sentences(sentences: Sentences) -> Iterator[str]:
    """Tokens that are not the same, and stand at the same place."""
    rows = sentences.rows
    pairs = [
        f"{_quoted_token(rows.tokens, rows.first[index])} and {_quoted_token(rows.others, rows.second[index])}"
        for index in rows.replaced
    ]
    if pairs:
        yield f"{', '.join(pairs)} are compared because they are at the same position"


def _sentences_document(sentences: Sentences, closing: tuple[str, ...]) -> Contents:
    rows, top_head = sentences.rows, sentences.heads[0]
    return {
        "names": list(sentences.names),
        "first": _tokens_document(sentences.first.tokens),
        "second": _tokens_document(sentences.second.tokens),
        "pairs": [
            [first + 1, second + 1] for first, second in zip(rows.first, rows.second, strict=True)
        ],
        "conclusion": " ".join(closing),
        "heads": [_head_document(sentences, head) for head in sentences.heads],
        "most changed": {
            "head": top_head.name,
            "first": top_head.first.cells.window(FULL_SLICE, FULL_SLICE).values,
            "second": top_head.second.cells.window(FULL_SLICE, FULL_SLICE).values,
        },
    }


def _tokens_document(tokens: Tokens) -> Contents:
    return {"text": tokens.text, "ids": list(tokens.ids), "labels": list(tokens.labels)}


def _head_document(sentences: Sentences, head: HeadComparison) -> Contents:
    link = sentences.link(head)
    return {
        "head": head.name,
        "apart": head.divergence,
        "query": sentences.rows.name(link.query),
        "key": sentences.columns.name(link.key),
        "before": link.before,
        "after": link.after,
    }


def _head_change_lines(sentences: Sentences) -> Iterator[TableLines]:
    heads, links = sentences.heads, [*map(sentences.link, sentences.heads)]
    words = WordColumns((
        tuple(each.name for each in heads),
        tuple(sentences.rows.name(each.query) for each in links),
        tuple(sentences.columns.name(each.key) for each in links),
    ))  # fmt: skip
    numbers = (
        [each.divergence for each in heads],
        [each.before for each in links],
        [each.after for each in links],
    )
    yield TableLines((), words, numbers)
