"""The View of two Traces compared head by head: two sentences, or two models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import punctuation

import numpy as np

from attnviz.analysis.inspection.two_sentences import (
    DEFAULT_NAMES,
    DEFAULT_SENTENCE_NAMES,
    MIN_SHOWN_CHANGE,
    HeadComparison,
    TraceComparison,
    WeightChange,
)
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.heads.head import Head
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.traces.trace import Trace, join_provenances
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.scales import Scale, centred_scale
from attnviz.views.heads.sentences import ITSELF, gives, quoted_token
from attnviz.views.inspection.explored import (
    change_by_others,
    difference_cells,
    explored_of_sentences,
    pair_axis,
    short_names,
)
from attnviz.views.inspection.heatmap import map_grid
from attnviz.views.settings_line import two_settings_line
from attnviz.views.view import (
    HEAD_COLUMNS,
    Excerpt,
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_columns,
    named_head_document,
)
from attnviz.wording.commands import Command
from attnviz.wording.numbers import distinguishing_digits, number_or_none, percent_text
from attnviz.wording.words import and_list, as_sentence, bidi_isolated, counted

MIN_NAMED_PERCENTS = 10  # of a token's attention: a smaller change is no finding
MAX_SCREEN_HEADS = 10
MAX_EXCERPT_HEADS = 5  # where a screen is small
DIVERGENCE_COLUMN = "apart"
OTHERS_COLUMN = "others"
OTHERS_NOTE = "others = mean change of what other tokens give the same key"
SHARED_LINK_NOTE = (
    "sorted by the change between tokens that both sentences have, special tokens aside"
)
LINK_NOTE = "sorted by the change of the attention weight"
DIVERGENCE_RANKING_NOTE = "sorted by how far the head's rows are apart"
DIVERGENCE_NOTE = (
    "apart = mean Jensen-Shannon divergence of a head's rows: 0 bits = the same attention, 1 bit = "
    "no key in common"
)
MIN_SHOWN_DIVERGENCE = 5e-4  # bits; less is written as 0
MAX_NAMING_WORD_LENGTH = 20  # characters
UNPAIRED_NOTE = (
    "attention to tokens without a counterpart in the other sentence counts as one number"
)
HEAD_CHANGES_HEADER = (*HEAD_COLUMNS, "query", "key", DIVERGENCE_COLUMN)


def view(sentences: TraceComparison, *, full: bool = False, command: Command | None = None) -> View:
    """Return a View of the heads that change most, and of the maps of the first in both Traces.

    Ten heads are listed, with `full` all of them.
    """
    settings = _pairing_settings_line(sentences)
    closing = tuple(map(as_sentence, change_sentences(sentences)))
    heads = [changes_group(sentences, None if full else MAX_SCREEN_HEADS)]
    if not sentences.changes and sentences.is_one_sentence:
        heads = []  # a table of zeros says no more than the title
    more_text = f"more attention {_sentence_phrases(sentences)[1]}"
    document = partial(_sentences_document, sentences, closing)
    columns = short_names(sentences) if sentences.names in DEFAULT_NAMES else sentences.names
    lines = partial(_head_change_lines, sentences)
    return View(
        title=_sentences_title(sentences),
        headline=closing[0].removesuffix("."),
        settings=settings,
        screen=build_page([*heads, _top_head_maps(sentences)], settings),
        # without maps: those of one head fill a small screen three times over
        excerpt=Excerpt(
            (changes_group(sentences, MAX_EXCERPT_HEADS),),
            f"--full shows the maps of {sentences.heads[0].name}, too",
        ),
        picture=build_page([_picture_maps(sentences)], settings),
        closing=closing,
        head_explorer=partial(explored_of_sentences, sentences, more_text),
        data=TableData(
            "trace-comparison", document, (*HEAD_CHANGES_HEADER, *columns, OTHERS_COLUMN), lines
        ),
        provenance=join_provenances([sentences.first.provenance, sentences.second.provenance]),
        command=command,
    )


def _sentences_title(sentences: TraceComparison) -> str:
    """Return `two sentences, read by MiniLM` or `one sentence, read by A and B` as a title."""
    models = [_model_name(trace) for trace in (sentences.first, sentences.second)]
    count_text = "one sentence" if sentences.is_one_sentence else "two sentences"
    is_one_model = bool(models[0]) and models[0] == models[1]
    if sentences.names == DEFAULT_SENTENCE_NAMES:
        return f"{count_text}, {f'read by {models[0]}' if is_one_model else 'head by head'}"
    names = and_list(sentences.names)
    if sentences.names in DEFAULT_NAMES:
        names = f"{sentences.names[0].split()[0]} and {sentences.names[1]}"
    if is_one_model:
        folders = {each.origin.settings.model for each in (sentences.first, sentences.second)}
        return f"{count_text}, read by {f'{models[0]} in ' if len(folders) == 1 else ''}{names}"
    return f"{count_text}, {'read by' if all(models) else 'in'} {names}"


def _model_name(trace: Trace) -> str:
    return trace.trained.name if trace.trained else Path(trace.origin.settings.model or "").name


def _sentence_phrases(sentences: TraceComparison) -> tuple[str, str]:
    """Return a phrase per Trace: `with "tired"`, `with "wide"`; `in float32`, `in float16`."""
    words = _telling_words(sentences)
    if words is not None:
        return f'with "{words[0]}"', f'with "{words[1]}"'
    if sentences.names in DEFAULT_NAMES:
        return f"in the {sentences.names[0]}", "in the second"
    return f"in {sentences.names[0]}", f"in {sentences.names[1]}"


def _telling_words(sentences: TraceComparison) -> tuple[str, str] | None:
    """Return the two words that tell the sentences apart; None if there is no such pair of words.

    Also None if two models or data types are compared, or a text is unknown.
    """
    first_text, second_text = sentences.first.text, sentences.second.text
    if not first_text or not second_text or sentences.names != DEFAULT_SENTENCE_NAMES:
        return None
    return only_different_words(first_text, second_text)


def only_different_words(first_text: str, second_text: str) -> tuple[str, str] | None:
    """Return the one pair of words that differs, without punctuation; None if it tells little.

    That is: texts of unequal length, none or several different pairs, a word that also occurs in
    the other text, or one that is too long.

    >>> only_different_words("it was too tired.", "it was too wide.")
    ('tired', 'wide')
    """
    texts = first_text.split(), second_text.split()
    different_pairs = [pair for pair in zip(*texts, strict=False) if pair[0] != pair[1]]
    if len(texts[0]) != len(texts[1]) or len(different_pairs) != 1:
        return None
    if any(word in there for word, there in zip(different_pairs[0], texts[::-1], strict=True)):
        return None
    first, second = (word.strip(punctuation) for word in different_pairs[0])
    lengths = len(first), len(second)
    if first == second or not min(lengths) or max(lengths) > MAX_NAMING_WORD_LENGTH:
        return None
    return bidi_isolated(first), bidi_isolated(second)


def _pairing_settings_line(sentences: TraceComparison) -> str:
    """Return how many tokens of the two sentences are paired, and then the settings."""
    rows = sentences.rows
    counts = dict.fromkeys((len(rows.tokens), len(rows.others)))
    all_paired = len(counts) == 1 and len(rows) in counts
    names = ("the first", "the second") if sentences.names in DEFAULT_NAMES else sentences.names
    settings = two_settings_line(sentences.first, sentences.second, names)
    lengths = [len(trace.tokens) for trace in (sentences.first, sentences.second)]
    remarks = [] if all_paired else [f"of {' and '.join(map(str, counts))}"]
    remarks += [f"{and_list([*map(str, lengths)])} tokens"] if sentences.options.words else []
    units = counted(len(rows), _unit(sentences))
    if not all_paired:
        units += f" {'is' if len(rows) == 1 else 'are'} in both"
    remark = f" ({'; '.join(remarks)})" if remarks else ""
    return f"{units}{remark} · {settings}"


def _unit(sentences: TraceComparison) -> str:
    return "word" if sentences.options.words else "token"


def changes_group(sentences: TraceComparison, max_heads: int | None) -> Group:
    """Return a table with a row per head: the weight that changes most, and the divergence.

    It has at most `max_heads` rows, the heads that change most; None means all.
    """
    count = len(sentences.heads)
    heads = sentences.heads[:max_heads]
    links = [sentences.link(head) for head in heads]
    pairs = zip(heads, links, strict=True)
    values = np.array([
        [link.before, link.after, change_by_others(sentences, head), head.divergence]
        for head, link in pairs
    ])  # fmt: skip
    title = "the link that changes most in each head" if count > 1 else "how the head changes"
    if not sentences.changes:
        title = "no link changes in any head" if count > 1 else "no link changes"
    ranking_note = SHARED_LINK_NOTE if sentences.shared else LINK_NOTE
    notes = [DIVERGENCE_RANKING_NOTE if sentences.is_one_sentence else ranking_note]
    notes += [OTHERS_NOTE, DIVERGENCE_NOTE]
    if _has_unpaired_keys(sentences):
        note = UNPAIRED_NOTE
        if sentences.is_one_sentence:
            note = note.replace("sentence", "model").replace("token", _unit(sentences))
        notes.append(note)
    if len(heads) < count:
        notes.append(f"the first {len(heads)} of {count} (--full shows all)")
    labels = tuple(_link_label(sentences, link) for link in links)
    grid = Grid(
        title,
        Axis("", "head", labels, tuple(head.name for head in heads)),
        plain_axis("column", [*short_names(sentences), OTHERS_COLUMN, DIVERGENCE_COLUMN]),
        unmasked_cells(values),
        Scale("share", 0.0, 1.0),
        note=" · ".join(notes),
        decimals=3,
    )
    return Group("heads", (grid,))


def _has_unpaired_keys(sentences: TraceComparison) -> bool:
    columns = sentences.columns
    return len(columns) < max(len(columns.tokens), len(columns.others))


def _link_label(sentences: TraceComparison, link: WeightChange) -> str:
    """Return a link as `it → animal`, or `it → itself`."""
    if sentences.rows is sentences.columns and link.row == link.column:
        return f"{sentences.rows.name(link.row)} → itself"
    return f"{sentences.rows.name(link.row)} → {sentences.columns.name(link.column)}"


def _top_head_maps(sentences: TraceComparison) -> Group:
    """Return the maps of the head that changes most on both sentences, and of the difference.

    The first two have the same colour scale. If nothing changes, one map is both.
    """
    top_head = sentences.heads[0]
    maps = top_head.first, top_head.second
    grids = [_sentence_map(sentences, each, index) for index, each in enumerate(maps)]
    if not sentences.changes and sentences.is_one_sentence:
        return Group("alternatives", (replace(grids[0], title=f"{maps[0].name} · in both"),))
    difference = _head_difference_grid(sentences, top_head)
    return Group("alternatives", (*with_common_scales(grids), difference), kind="pair")


def _picture_maps(sentences: TraceComparison) -> Group:
    """Return the maps for a picture: two of different texts; of one text the difference as well.

    For one query these are three rows, which share an axis if every key has a counterpart.
    """
    maps = _top_head_maps(sentences)
    if len(maps.panels) == 1:
        return maps
    *sentence_grids, difference = (grid for grid in maps.panels if isinstance(grid, Grid))
    if sentences.query is None:
        has_two_texts = not sentences.is_one_sentence
        return Group("alternatives", tuple(sentence_grids)) if has_two_texts else maps
    difference = _with_largest_change(sentences, difference)
    if _has_unpaired_keys(sentences) or len({grid.columns.border for grid in sentence_grids}) > 1:
        return replace(maps, panels=(*sentence_grids, difference))
    panels = (
        replace(grid, columns=replace(difference.columns, border=grid.columns.border))
        for grid in (*sentence_grids, difference)
    )
    return replace(maps, panels=tuple(panels))


def _with_largest_change(sentences: TraceComparison, difference: Grid) -> Grid:
    """Return the row of the head that changes most, with a frame around the change of a word that
    both sentences have."""
    change, count = sentences.heads[0].largest_shared, len(sentences.heads)
    if change is None or count == 1:
        return difference
    note = f"{difference.note} · framed = the largest change in {count} heads to a shared word"
    return replace(difference, note=note, marks=((0, change.column, change.column + 1),))


def _sentence_map(sentences: TraceComparison, attention_map: Head, index: int) -> Grid:
    """Return a head's map on one sentence (`index` 0 or 1), or only the asked query's row."""
    trace = (sentences.first, sentences.second)[index]
    names = sentences.names if sentences.names in DEFAULT_NAMES else short_names(sentences)
    if _telling_words(sentences):
        names = _sentence_phrases(sentences)
    grid = map_grid(attention_map, sentences.options, trace.prompt)
    note = f"{AXES_NOTE} · {GENERATED_NOTE}" if grid.rows.border else AXES_NOTE
    grid = replace(grid, title=f"{attention_map.name} · {names[index]}", note=note)
    if sentences.query is None:
        return grid
    row = (sentences.rows.first, sentences.rows.second)[index][sentences.query]
    return grid.part(slice(row, row + 1))


def _head_difference_grid(sentences: TraceComparison, head: HeadComparison) -> Grid:
    """Return a head's weights in the second sentence minus those in the first, for paired tokens.

    Only the row of the query, if one was asked for.
    """
    cells, query = difference_cells(sentences, head), sentences.query
    row_cells = cells.stored(FULL_SLICE if query is None else slice(query, query + 1))
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


def change_sentences(sentences: TraceComparison) -> tuple[str, ...]:
    """Return the largest change, what it was searched in, and which layers change most.

    A last sentence is about different tokens that were paired. Without changes, one says so.
    """
    if not sentences.changes:
        return (_no_change_sentence(sentences), *_word_sentences(sentences))
    largest = max(head.divergence for head in sentences.heads)
    hardly = sentences.is_one_sentence and largest < MIN_SHOWN_DIVERGENCE
    return (
        *((_hardly_any_change_sentence(sentences),) if hardly else ()),
        *_small_change_sentences(sentences),
        _largest_change_sentence(sentences),
        _search_scope_sentence(sentences),
        *_others_sentences(sentences),
        *_layer_sentences(sentences),
        *_replacement_sentences(sentences),
        *_word_sentences(sentences),
    )


def _no_change_sentence(sentences: TraceComparison) -> str:
    """State that no head differs, in one sentence or in the tokens that are paired."""
    if not sentences.is_one_sentence:
        return f"no head attends differently {_sentence_phrases(sentences)[1]}"
    count = len(sentences.heads)
    subject = f"all {count} heads have" if count > 1 else f"{sentences.heads[0].name} has"
    return f"no head differs: {subject} the same weights in both"


def _hardly_any_change_sentence(sentences: TraceComparison) -> str:
    """State that the heads' attention is nearly the same, where every distance is written as 0."""
    distance = "rows are under 0.001 bits apart on average"
    if len(sentences.heads) == 1:
        return f"{sentences.heads[0].name} hardly changes: its {distance}"
    return f"hardly any head changes: {distance}"


def _small_change_sentences(sentences: TraceComparison) -> Iterator[str]:
    """Yield `no link from "it" to a shared word changes by more than 7.1 % of its attention`, if
    the largest change of such a link in two sentences is that small."""
    change = sentences.link(sentences.heads[0])
    # rounded up to a tenth, so that the picture's two digits do not read as less
    percents = math.ceil(1000 * abs(change.after - change.before) - 1e-6) / 10
    if sentences.is_one_sentence or not sentences.shared or percents >= MIN_NAMED_PERCENTS:
        return
    links, rows = "no link between shared words", sentences.rows
    if sentences.query is not None:
        query = quoted_token(rows.tokens, rows.first[sentences.query])
        links = f"no link from {query} to a shared word"
    share = percent_text(percents / 100, digits=int(percents % 1 > 0))
    yield f"{links} changes by more than {share} of its attention"


def _largest_change_sentence(sentences: TraceComparison) -> str:
    """Return `in L3H1, "it" gives "animal" 64 % of its attention with "a", 27 % with "b"`.

    Both percentages have enough digits to differ.
    """
    top_head = sentences.heads[0]
    change, phrases = sentences.link(top_head), _sentence_phrases(sentences)
    digits = distinguishing_digits(change.before, change.after, 0, percent_text)
    before, after = percent_text(change.before, digits), percent_text(change.after, digits)
    (query, key), (other_query, other_key) = _link_token_pairs(sentences, change)
    other_link = "" if key == other_key else f"{other_key} "
    if query != other_query:
        other_link = f"{other_query} gives {other_key} "
    first, second = (f" {phrase}" for phrase in phrases)
    if other_link and _telling_words(sentences):
        first = second = ""  # the words themselves say which sentence it is
    link_text = f"{gives(query, key, before)}{first}, {other_link}{after}{second}"
    return f"in {top_head.name}, {link_text}"


def _link_token_pairs(
    sentences: TraceComparison, change: WeightChange
) -> Iterator[tuple[str, str]]:
    """Yield the quoted names of the query and the key in the first sentence, then in the second."""
    rows, columns = sentences.rows, sentences.columns
    for tokens, keys, query, key in (
        (rows.tokens, columns.tokens, rows.first[change.row], columns.first[change.column]),
        (rows.others, columns.others, rows.second[change.row], columns.second[change.column]),
    ):
        is_same = rows is columns and query == key
        yield quoted_token(tokens, query), ITSELF if is_same else quoted_token(keys, key)


def _search_scope_sentence(sentences: TraceComparison) -> str:
    """State among which heads and tokens this is the largest change."""
    count, query, rows = len(sentences.heads), sentences.query, sentences.rows
    heads_text = f"in {count} heads" if count > 1 else "in this head"
    query_text = "" if query is None else f" for {quoted_token(rows.tokens, rows.first[query])}"
    if sentences.is_one_sentence:
        return _divergence_sentence(sentences, query_text)
    scope_text = f"this is the largest change{query_text} {heads_text}"
    if not sentences.shared:
        return scope_text
    scope_text += f", {'between' if query is None else 'among'} tokens that both sentences have"
    special = sentences.columns.tokens.special
    return f"{scope_text}, special tokens aside" if special else scope_text


def _others_sentences(sentences: TraceComparison) -> Iterator[str]:
    """Yield by how much other tokens change their weight on the key of the largest change."""
    top_head = sentences.heads[0]
    link, change = sentences.link(top_head), change_by_others(sentences, top_head)
    if not np.isnan(change):
        key = quoted_token(sentences.columns.tokens, link.key)
        yield f"other tokens change what they give {key} by {percent_text(change)} on average"


def _divergence_sentence(sentences: TraceComparison, query_text: str) -> str:
    """State how far apart the head that differs most is, and that the change named is its largest.

    `query_text`: ` for "it"` if one row is compared, otherwise empty.
    """
    top_head, count = sentences.heads[0], len(sentences.heads)
    place_text = f"{top_head.name} differs most of {count} heads{query_text}: " if count > 1 else ""
    rows_text = "rows are" if sentences.query is None else "row is"
    mean_text = " on average" if sentences.query is None else ""
    is_tiny = top_head.divergence < MIN_SHOWN_CHANGE
    bits_text = "under 0.001 bits" if is_tiny else f"{top_head.divergence:.3f} bits"
    return (
        f"{place_text}its {rows_text} {bits_text} apart{mean_text}, and this is its largest change"
    )


def _layer_sentences(sentences: TraceComparison) -> Iterator[str]:
    """Yield the layers whose heads change most and least, by mean divergence.

    Nothing if the two differ too little, or for a single layer.
    """
    layers: dict[int, list[float]] = {}
    for head in sentences.heads:
        if not head.first.merged_heads:
            layers.setdefault(head.first.layer.layer, []).append(head.divergence)
    if len(layers) < 2:
        return
    means = {layer: sum(changes) / len(changes) for layer, changes in layers.items()}
    most, least = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    if means[most] - means[least] >= MIN_SHOWN_CHANGE:
        verb = "differ" if sentences.is_one_sentence else "change"
        yield (
            f"on average, heads {verb} most in layer {most} ({means[most]:.3f} bits) and least in "
            f"layer {least} ({means[least]:.3f})"
        )


def _replacement_sentences(sentences: TraceComparison) -> Iterator[str]:
    """Yield which different tokens are compared because of their same position, if any."""
    rows = sentences.rows
    pairs = []
    for index in rows.replaced:
        first, second = rows.first[index], rows.second[index]
        pairs.append(f"{quoted_token(rows.tokens, first)} and {quoted_token(rows.others, second)}")
    if pairs:
        yield f"{', '.join(pairs)} are compared because they are at the same position"


def _word_sentences(sentences: TraceComparison) -> Iterator[str]:
    """Yield that two models are compared by word, and which special tokens only one of them has;
    nothing if both cut the sentence into the same tokens."""
    if not sentences.options.words:
        return
    counts = [len(trace.tokens) for trace in (sentences.first, sentences.second)]
    names = [phrase.removeprefix("in ") for phrase in _sentence_phrases(sentences)]
    yield (
        f"the sentence is cut into different tokens ({counts[0]} in {names[0]}, {counts[1]} in "
        f"{names[1]}), and weights are compared by word: summed over the tokens of a word that is "
        "read, averaged over those of a word that reads"
    )
    rows = sentences.rows
    for tokens, paired, name in zip(
        (rows.tokens, rows.others), (rows.first, rows.second), names, strict=True
    ):
        alone = [tokens.labels[position] for position in sorted(tokens.special - {*paired})]
        if alone:
            verb = "is" if len(alone) == 1 else "are"
            yield f"{and_list(alone)} {verb} only in {name}"


def _sentences_document(sentences: TraceComparison, closing: tuple[str, ...]) -> Contents:
    """Return the comparison as JSON data; `closing` are its concluding sentences."""
    rows, top_head, words = sentences.rows, sentences.heads[0], sentences.options.words
    return {
        "names": list(sentences.names),
        "unit": _unit(sentences),
        "first": _tokens_document(rows.tokens if words else sentences.first.tokens),
        "second": _tokens_document(rows.others if words else sentences.second.tokens),
        "pairs": [[a + 1, b + 1] for a, b in zip(rows.first, rows.second, strict=True)],
        "conclusion": " ".join(closing),
        "heads": [_head_change_document(sentences, head) for head in sentences.heads],
        "most changed": {
            **named_head_document(top_head.name),
            "first": top_head.first.cells.window(FULL_SLICE, FULL_SLICE).values,
            "second": top_head.second.cells.window(FULL_SLICE, FULL_SLICE).values,
        },
    }


def _tokens_document(tokens: Tokens) -> Contents:
    return {"text": tokens.text, "ids": list(tokens.ids), "labels": list(tokens.labels)}


def _head_change_document(sentences: TraceComparison, head: HeadComparison) -> Contents:
    """Return a head's divergence and the link that changes most in it as JSON data."""
    link = sentences.link(head)
    return {
        **named_head_document(head.name),
        "apart": head.divergence,
        "query": sentences.rows.name(link.row),
        "key": sentences.columns.name(link.column),
        "before": link.before,
        "after": link.after,
        "others": number_or_none(change_by_others(sentences, head)),
    }


def _head_change_lines(sentences: TraceComparison) -> Iterator[TableLines]:
    """Yield all lines of the table at once, one per head, with the link that changes most."""
    heads = [_head_change_document(sentences, head) for head in sentences.heads]
    names = head_columns(head.name for head in sentences.heads)
    tokens = (tuple(each[name] for each in heads) for name in ("query", "key"))
    numbers = ([each[name] for each in heads] for name in ("apart", "before", "after", "others"))
    yield TableLines((), WordColumns((*names, *tokens)), tuple(numbers))
