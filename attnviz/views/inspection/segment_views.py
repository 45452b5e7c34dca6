"""What the answer reads of each segment of a prompt: words, bars, tables, data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from attnviz.analysis.inspection.effects import HiddenEffect
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.segment_reading import SegmentLink, SegmentReading
from attnviz.cells import StoredCells
from attnviz.heads.changes import in_groups
from attnviz.tokens.segments import texts_of_tokens
from attnviz.traces.archive import trace_contents
from attnviz.traces.settings import format_head_id
from attnviz.views.answer_tables import quoted_answer
from attnviz.views.conclusions.findings import (
    ComparedAmount,
    Finding,
    finding_on,
    otherwise,
)
from attnviz.views.even_spread import even_remark
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import weight_scale
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.data import KEY_COLUMNS
from attnviz.views.heads.grid import side_axis
from attnviz.views.heads.passages import passage
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.inspection.generated import generated_tokens
from attnviz.views.inspection.head_kinds import nan_to_none
from attnviz.views.inspection.map_numbers import row_scale
from attnviz.views.inspection.token_reading import ranked_bars
from attnviz.views.view import (
    HEAD_COLUMNS,
    Group,
    Shot,
    TableData,
    TableLines,
    WordColumns,
    head_cells,
    named_head_document,
)
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import bidi_isolated, counted

PLAIN_OPTIONS = InspectOptions()  # beside segments all that change weights are refused
MOST_CURVES, MOST_SINKS = 6, 3
MOST_PICTURED = 8  # segments in their order; of more, those with the largest shares come first
LEAST_PICTURED = 3  # heads, if fewer read a segment clearly
CLEAR_CHANGE = 0.1  # of a probability, or of a vector's length
SEGMENT_COLUMNS = (
    *(*HEAD_COLUMNS, *KEY_COLUMNS[:2], "segment number", "segment"),
    *("share", "even", "others"),
)
OTHERS_NOTE = "others = what other words that see all of it give it"
RANKING_NOTE = "sorted by (share − base) ÷ (1 − base), base = the larger of others and even"
CAVEAT = "shares say where heads look, not what the answer depends on"


# Words


def who_reads(reading: SegmentReading, query: int) -> str:
    """Return who reads: `the answer`; `the model, writing "is" (63),` of several words that it
    wrote; or a token, such as `"it" (12)`."""
    trace, position = reading.trace, reading.queries[query]
    rows = reading.heads[0].rows.tokens
    if trace.prompt is not None and trace.prompt - 1 <= position < len(rows) - 1:
        return f"the model, writing {quoted_token(rows, position + 1)},"
    predicts = trace.prediction is not None and trace.prediction.predicts == "next"
    is_last = position == len(rows) - 1
    return "the answer" if predicts and is_last else quoted_token(rows, position)


def segment_text(reading: SegmentReading, index: int) -> str:
    """Return a segment as a sentence names it: `"document B"`, `paragraph 6, "The password…",`."""
    short = _short_segment_text(reading, index)
    is_complete = index == 0 or reading.text_segments.is_named
    return short if is_complete else f'{short}, "{bidi_isolated(reading.segments.labels[index])}",'


def _short_segment_text(reading: SegmentReading, index: int) -> str:
    """Return a segment without how it begins: `"document B"`, `paragraph 6`."""
    if reading.text_segments.is_named and index:
        return f'"{bidi_isolated(reading.segments.labels[index])}"'
    return f"{reading.segments.unit} {reading.segments.numbers[index]}" if index else "the sink"


def link_amount(link: SegmentLink) -> ComparedAmount:
    others = "" if np.isnan(link.others) else f"; other words: {percent_text(link.others)}"
    base = f"an even spread: {percent_text(link.even)}{others}"
    return ComparedAmount(percent_text(link.share), base)


def _clearest(reading: SegmentReading) -> SegmentLink:
    assert reading.clearest is not None  # which the first finding is about
    return reading.clearest


def _clearest_amount(reading: SegmentReading) -> ComparedAmount:
    return link_amount(_clearest(reading))


def _standout_text(reading: SegmentReading, amount: ComparedAmount) -> str:
    link = _clearest(reading)
    who, segment = who_reads(reading, link.query), segment_text(reading, link.segment)
    return f"In {link.name}, {who} reads {segment} {amount.text} ({amount.base})"


def _nothing_clear_text(reading: SegmentReading, amount: ComparedAmount) -> str:
    link = _clearest(reading)
    segment = segment_text(reading, link.segment).rstrip(",")
    return (
        f"No {reading.segments.unit} stands out in what {who_reads(reading, link.query)} reads; "
        f"the closest is {segment} in {link.name}: {amount.text} ({amount.base})"
    )


SEGMENT_FINDINGS: tuple[Finding[SegmentReading], ...] = (
    Finding(
        "no other segment",
        lambda reading: reading.clearest is None,
        lambda reading: f"{who_reads(reading, 0)} sees no {reading.segments.unit} but its own",
    ),
    finding_on(
        _clearest_amount,
        "a segment stands out",
        lambda reading: _clearest(reading).stands_out,
        _standout_text,
    ),
    finding_on(_clearest_amount, "no segment stands out", otherwise, _nothing_clear_text),
)


def segment_sentences(reading: SegmentReading, effect: HiddenEffect | None) -> Iterator[str]:
    """Yield what the answer is, or how it changes without a segment; how many tokens cross a
    border; and what a share does not say."""
    answer, words = likeliest_answer(reading, reading.query), len(reading.queries)
    if words > 1:
        yield f"of {words} new words, this one reads a segment most clearly"
    if effect is not None:
        yield from hidden_segment_sentences(reading, effect)
    elif answer and words == 1:
        yield f"the answer is {answer}; {CAVEAT}"
    else:
        yield CAVEAT
    if count := reading.text_segments.crossing:
        ending = "s cross a border: they count where they begin"
        one = " crosses a border: it counts where it begins"
        yield f"{count} token{one if count == 1 else ending}"


def likeliest_answer(reading: SegmentReading, query: int) -> str:
    """Return the likeliest answer after a query with its probability; empty if it is not known."""
    prediction, position = reading.trace.prediction, reading.queries[query]
    if prediction is None or position not in prediction.asked_positions:
        return ""
    return quoted_answer(prediction, position)


# Bars, tables and curves


def _segments_axis(reading: SegmentReading, chosen: Sequence[int]) -> Axis:
    labels, numbers = reading.segments.labels, reading.segments.numbers
    is_named = reading.text_segments.is_named
    shown = tuple("" if is_named or not index else str(numbers[index]) for index in chosen)
    return Axis("", reading.segments.unit, tuple(labels[index] for index in chosen), shown)


def segment_bars(
    reading: SegmentReading, query: int, head: int, *, by_share: bool = False
) -> RankedBars:
    """Return what a query reads of each segment in a head, in the text's order or by share."""
    shares, evens, others = reading.tables
    values, means = shares[query, head], reading.mean_shares(query)
    order = np.argsort(-values, kind="stable").tolist() if by_share else range(len(values))
    is_one = len(reading.heads) == 1
    remarks = [
        even_remark(float(values[index]), float(evens[query, head, index]))
        + ("" if is_one else f" · mean {share_text(float(means[index]))}")
        + " · not ranked" * (index > 0 and index in reading.own_segments[query])
        for index in order
    ]
    notes = [OTHERS_NOTE, f"sink = {_sink_text(reading)}"]
    notes[1:1] = [] if is_one else [f"mean = of {len(reading.heads)} heads"]
    return ranked_bars(
        f"what {who_reads(reading, query)} reads in {reading.heads[head].name}",
        _segments_axis(reading, order),
        values[order].tolist(),
        remarks,
        PLAIN_OPTIONS,
        row_scale(values, PLAIN_OPTIONS),
        other_values=others[head, order].tolist(),
        note=" · ".join(notes),
    )


def _sink_text(reading: SegmentReading) -> str:
    tokens = reading.heads[0].columns.tokens
    names = [quoted_token(tokens, position) for position in reading.sinks]
    more = f" and {len(names) - MOST_SINKS} more" * (len(names) > MOST_SINKS)
    return f"{', '.join(names[:MOST_SINKS])}{more}"


def head_bars(reading: SegmentReading, query: int, most: int | None = None) -> RankedBars:
    """Return the heads by how far a query's share of a segment is on the way from its base rate to
    1, each with the token of that segment that it reads most, and the words around it."""
    links = reading.links[query]
    clear, count = sum(link.stands_out for link in links), len(links)
    links = links[:most]
    values = np.array([link.share for link in links])
    names = tuple(f"{link.name} · {_axis_name(reading, link.segment)}" for link in links)
    segments = {link.segment for link in links if link.stands_out}
    of = f" {_short_segment_text(reading, *segments)}" if len(segments) == 1 else ""
    verb = "reads" if clear < 2 else "read"
    number = str(clear) if clear else "None"
    clearly = f"{number} of {counted(count, 'head')} {verb}{of or ' a segment'} clearly"
    if count == 1:
        clearly = "what it reads most above its base rate"
    return ranked_bars(
        clearly,
        Axis("", "head", names, ("",) * len(links)),
        values.tolist(),
        [_passage_remark(reading, link) for link in links],
        PLAIN_OPTIONS,
        row_scale(values, PLAIN_OPTIONS),
        other_values=[link.others for link in links],
        note=RANKING_NOTE,
    )


def _axis_name(reading: SegmentReading, index: int) -> str:
    """Return the name of a segment, or its number where it has none."""
    is_numbered = index and not reading.text_segments.is_named
    return str(reading.segments.numbers[index]) if is_numbered else reading.segments.labels[index]


def _passage_remark(reading: SegmentReading, link: SegmentLink) -> str:
    token = reading.passage_token(link)
    return "" if token is None else passage(reading.heads[0].columns.tokens, token)


def word_bars(reading: SegmentReading) -> RankedBars:
    """Return for each new word the head and the segment that it reads most above its base rate."""
    links, side = [links[0] for links in reading.links if links], reading.heads[0].rows
    positions = [reading.queries[link.query] + 1 for link in links]
    numbers = tuple(str(position + 1) for position in positions)
    values = [link.share for link in links]
    return ranked_bars(
        "what the model reads most above its base rate, writing each word",
        Axis("", "word", tuple(map(side.label, positions)), numbers),
        values,
        [f"{_axis_name(reading, link.segment)} in {link.name}"
         for link in links],
        PLAIN_OPTIONS,
        row_scale(np.array(values), PLAIN_OPTIONS),
        other_values=[link.others for link in links],
    )  # fmt: skip


def layer_curves(reading: SegmentReading) -> Curves:
    """Return the mean share of the segments over the heads of each layer."""
    layers = reading.layer_shares
    shares = np.array([*layers.values()]).T
    clearest = [] if reading.clearest is None else [reading.clearest.segment]
    order = [*clearest, *np.argsort(-shares.max(1), kind="stable").tolist()]
    lines = [Curve(_axis_name(reading, index), shares[index], shares[index], shares[index])
             for index in [*dict.fromkeys(order)][:MOST_CURVES]]  # fmt: skip
    return Curves("mean share of the heads", "layer",
                  tuple(map(float, layers)), tuple(lines))  # fmt: skip


def segments_matrix(reading: SegmentReading, head: int) -> Grid:
    """Return who reads whom: a row and a column for each segment."""
    grouped = in_groups(reading.heads[head], reading.text_segments, reading.segments)
    bands = [grouped.cells.window(slice(row, row + 1), slice(None)) for row in range(len(grouped))]
    values, hidden = (np.concatenate(parts) for parts in zip(
        *((band.values, band.hidden) for band in bands), strict=True))  # fmt: skip
    shares, evens, _ = reading.tables
    cells = StoredCells(
        np.concatenate([values, shares[reading.query, [head]]]),
        np.concatenate([hidden, evens[reading.query, [head]] == 0]),
    )
    own = reading.text_segments
    numbers = ["" if own.is_named else str(number) for number in own.numbers]
    labels = (*own.labels, who_reads(reading, reading.query).strip(","))
    rows = Axis("segment (reads)", own.unit, labels, (*numbers, ""))
    columns = _segments_axis(reading, range(len(reading.segments.groups)))
    return Grid(
        f"who reads whom in {reading.heads[head].name}",
        rows,
        replace(columns, title="segment (is read)"),
        cells,
        weight_scale(cells),
        note=f"{reading.heads[head].name}: each row is the mean of a segment's tokens, the last "
        "one is that of the token in the title",
        share=True,
    )


def segment_groups(
    reading: SegmentReading, *, as_heatmap: bool
) -> tuple[list[Group], list[Group], list[Group]]:
    """Return the groups of a whole screen, of a picture, and of a first screen."""
    link, query = reading.clearest, reading.query
    head = 0 if link is None else link.head
    bars = segment_bars(reading, query, head)
    first = segment_bars(reading, query, head, by_share=True)
    by_head = [head_bars(reading, query)] if link else []
    screen = [Group("segments", (bars, *by_head))]
    if len(reading.queries) > 1 and link is not None:
        screen.append(Group("words", (word_bars(reading),)))
    if len(reading.layer_shares) > 1:
        screen.append(Group("layers", (layer_curves(reading),)))
    if reading.heads[head].reads_itself:
        screen.append(Group("who reads whom", (segments_matrix(reading, head),)))
    picture_panels = [bars if len(bars.grid.rows) <= MOST_PICTURED else first]
    if len(reading.heads) > 1 and link is not None:
        clear = sum(each.stands_out for each in reading.links[query])
        picture_panels.append(head_bars(reading, query, max(clear, LEAST_PICTURED)))
    picture = screen[-1:] if as_heatmap else [Group("segments", tuple(picture_panels))]
    return screen, picture, [Group("segments", (first, *by_head))]


def hidden_segment_sentences(reading: SegmentReading, effect: HiddenEffect) -> Iterator[str]:
    """Yield how the answer changes without a segment, and whether that agrees with its share."""
    links = [link for link in reading.links[reading.query] if link.stands_out]
    index = reading.segment_named(effect.name)
    readers = sum(link.segment == index for link in links)
    count = len(effect.heads)
    heads = f"any of {count} heads" if count > 1 else format_head_id(*effect.heads[0])
    segment = segment_text(reading, index).rstrip(",")
    start = f"if {who_reads(reading, reading.query)} does not see {segment} in {heads},"
    before, after = percent_text(effect.likely), percent_text(effect.likely_without)
    if not effect.answer:
        yield f"{start} its vector changes by {percent_text(effect.change)} of its length"
    elif before == after:
        yield f'{start} it stays "{effect.answer}" ({before})'
    else:
        verb = "falls" if effect.likely_without < effect.likely else "rises"
        other = ""
        if effect.other_answer:
            most = percent_text(effect.other_likely)
            other = f', and "{effect.other_answer}" is likeliest ({most})'
        yield f'{start} "{effect.answer}" {verb} from {before} to {after}{other}'
    size = abs(effect.likely_without - effect.likely) if effect.answer else effect.change
    changes = size >= CLEAR_CHANGE or bool(effect.other_answer)
    if readers and not changes:
        heads = f"{counted(readers, 'head')} read{'s' * (readers == 1)}"
        yield f"share and effect disagree: {heads} it clearly, and the answer stays"
    if changes and not readers:
        yield "share and effect disagree: no head reads it clearly, and the answer changes"


# Films, pages and data


def segment_film(reading: SegmentReading) -> tuple[Shot, ...]:
    """Return a frame for each token that the model wrote: what it read of each segment, in the head
    in which a segment stands out most."""
    if len(reading.queries) < 2 or reading.clearest is None:
        return ()
    head = reading.clearest.head
    tokens = generated_tokens(reading.trace, reading.heads[0].rows)
    token_by_row = {token.row: token for token in tokens}
    longest = float(reading.tables[0][:, head].max())
    shots = []
    for query, position in enumerate(reading.queries):
        bars = segment_bars(reading, query, head)
        where = f"in {reading.heads[head].name}"
        grid = replace(bars.grid, title=f"what it reads {where}")
        link = next((each for each in reading.links[query] if each.head == head), None)
        most = f"no {reading.segments.unit} stands out {where}"
        if link is not None and link.stands_out:
            amount, segment = link_amount(link), segment_text(reading, link.segment)
            most = f"it reads {segment} {amount.text} {where} ({amount.base})"
        group = Group("reading", (replace(bars, longest=longest, grid=grid),))
        shots.append(Shot((group,), f"Next: {token_by_row[position].text}; {most}"))
    return tuple(shots)


def explore_segments(reading: SegmentReading) -> HeadExplorer:
    """Return for a page what each query reads of each segment in each head, and in their mean."""
    shares, evens, _ = reading.tables
    side = reading.heads[0].rows
    rows = side_axis("query (reads)", side.part(range(reading.queries[0], reading.queries[-1] + 1)))
    columns = replace(
        _segments_axis(reading, range(len(reading.segments.groups))), title="segment (is read)"
    )
    tables = [("mean", "all", f"mean of {counted(len(reading.heads), 'head')}", shares.mean(1), 0)]
    tables += [
        (head.layer.name, f"H{head.number}", head.name, shares[:, index], index)
        for index, head in enumerate(reading.heads)
    ]
    maps = [
        (row, column, HeadMap(
            name=name,
            query_axis=rows,
            key_axis=columns,
            weights=StoredCells(values, evens[:, index] == 0),
        ))
        for row, column, name, values, index in tables
    ]  # fmt: skip
    row_of = {position: row for row, position in enumerate(reading.queries)}
    return arrange_heads(
        maps,
        query=reading.query,
        first=0 if reading.clearest is None else reading.clearest.head + 1,
        note=AXES_NOTE,
        generated=tuple(
            (row_of[token.row], token.label, token.probability)
            for token in generated_tokens(reading.trace, side)
            if token.row in row_of
        ),
        passages=tuple(_passages(reading)),
    )


def _passages(reading: SegmentReading) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the text in runs of tokens of one segment: the index of the segment, and the lines."""
    trace, tokens = reading.trace, reading.heads[0].columns.tokens
    texts = texts_of_tokens(tokens, trace.prompt if reading.heads[0].reads_itself else None)
    index_of = {
        token: index for index, group in enumerate(reading.segments.groups) for token in group
    }
    for index, run in groupby(range(len(tokens)), index_of.__getitem__):
        text = "".join(texts[token] for token in run)
        if text:
            yield index, tuple(text.split("\n"))


def segments_data(reading: SegmentReading, effect: HiddenEffect | None) -> TableData:
    document, lines = partial(_reading_contents, reading, effect), partial(_share_lines, reading)
    return TableData("segments", document, SEGMENT_COLUMNS, lines)


def _reading_contents(reading: SegmentReading, effect: HiddenEffect | None) -> Mapping[str, Any]:
    shares, evens, others = reading.tables
    side, segments = reading.heads[0].rows, reading.segments
    rows = [
        {
            **named_head_document(head.name),
            "share": shares[:, index],
            "even": evens[:, index],
            "others": nan_to_none(others[index]),
        }
        for index, head in enumerate(reading.heads)
    ]
    return {
        **trace_contents(reading.trace),
        "segments": {
            "queries": [query + 1 for query in reading.queries],
            "labels": [side.label(query) for query in reading.queries],
            "segments": [
                {"number": number, "name": label, "tokens": [token + 1 for token in group]}
                for number, label, group in zip(
                    segments.numbers, segments.labels, segments.groups, strict=True
                )
            ],
            "crossing": reading.text_segments.crossing,
            "heads": rows,
            **({} if effect is None else {"without": _hidden_segment_contents(effect)}),
        },
    }


def _hidden_segment_contents(effect: HiddenEffect) -> Mapping[str, Any]:
    return {
        "name": effect.name,
        "heads": [format_head_id(*head_id) for head_id in effect.heads],
        "change": effect.change,
        "answer": effect.answer or None,
        "probability": effect.likely,
        "probability without": effect.likely_without,
        "other answer": effect.other_answer or None,
    }


def _share_lines(reading: SegmentReading) -> Iterator[TableLines]:
    """Yield the lines of each head and query: one for each segment."""
    shares, evens, others = reading.tables
    segments, side = reading.segments, reading.heads[0].rows
    words = WordColumns((tuple(map(str, segments.numbers)), segments.labels))
    for index, head in enumerate(reading.heads):
        means = nan_to_none(others[index])
        for query, position in enumerate(reading.queries):
            cells = head_cells(head.name)
            start: tuple[str | int, ...] = (*cells, position + 1, side.label(position))
            yield TableLines(start, words, (shares[query, index], evens[query, index], means))
