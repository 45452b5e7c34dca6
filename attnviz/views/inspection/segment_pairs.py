"""What the answer reads of the segments of two prompts, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.segment_reading import SegmentReading
from attnviz.traces.trace import join_provenances
from attnviz.views.conclusions.findings import choose_sentence
from attnviz.views.inspection import segment_views as segments
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, TableData, TableLines, View, build_page
from attnviz.wording.commands import Command
from attnviz.wording.words import as_sentence

TEXTS = ("first", "second")


def view(first: Inspection, second: Inspection, *, command: Command | None = None) -> View:
    """Return the bars of both prompts in the head in which one of the first stands out most."""
    readings, settings = (first.segments, second.segments), settings_line(first.trace)
    link = readings[0].clearest
    head = 0 if link is None else link.head
    bars = []
    for name, reading in zip(TEXTS, readings, strict=True):
        ranking = segments.segment_bars(reading, reading.query, head, by_share=True)
        title = f"{ranking.grid.title}, {name} text"
        bars.append(replace(ranking, grid=replace(ranking.grid, title=title)))
    groups = [Group("segments", tuple(bars))]
    answers = [segments.likeliest_answer(reading, reading.query) for reading in readings]
    closing = [f"the answers are {answers[0]} and {answers[1]}"] * all(answers)
    return View(
        title="what the answer reads of two prompts",
        headline=_headline(*readings),
        settings=settings,
        screen=build_page(groups, settings),
        picture=build_page(groups, settings),
        closing=tuple(map(as_sentence, (*closing, segments.CAVEAT))),
        data=_pair_data(readings),
        provenance=join_provenances([first.trace.provenance, second.trace.provenance]),
        command=command,
    )


def _headline(first: SegmentReading, second: SegmentReading) -> str:
    """Return what one head reads in both prompts: in the second it may be another segment."""
    start, link = choose_sentence(segments.SEGMENT_FINDINGS, first), first.clearest
    links = [each for each in second.links[second.query] if link and each.head == link.head]
    if not links:
        return f"{start} in the first text"
    if not links[0].stands_out:
        return (
            f"{start} in the first text; in the second no {second.segments.unit} stands out there"
        )
    amount = segments.link_amount(links[0])
    segment = segments.segment_text(second, links[0].segment)
    return f"{start} in the first text, {segment} {amount.text} ({amount.base}) in the second"


def _pair_data(readings: tuple[SegmentReading, ...]) -> TableData:
    of_texts = {
        name: segments.segments_data(reading, None)
        for name, reading in zip(TEXTS, readings, strict=True)
    }

    def document() -> Mapping[str, Any]:
        return {name: each.document() for name, each in of_texts.items()}

    def lines() -> Iterator[TableLines]:
        for name, each in of_texts.items():
            for part in each.lines():
                yield replace(part, start=(name, *part.start))

    return TableData("segment-comparison", document, ("text", *segments.SEGMENT_COLUMNS), lines)
