"""What the answer reads of the segments of two prompts, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.segment_reading import SegmentLink
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
    inspections, settings = (first, second), settings_line(first.trace)
    link = first.segments.clearest
    head = 0 if link is None else link.head
    bars = []
    for name, each in zip(TEXTS, inspections, strict=True):
        shown = segments.segment_bars(each.segments, each, each.segments.query, head, by_share=True)
        title = f"{shown.grid.title}, {name} text"
        bars.append(replace(shown, grid=replace(shown.grid, title=title)))
    groups = [Group("segments", tuple(bars))]
    answers = [
        segments.likeliest_answer(each.segments, each.segments.query) for each in inspections
    ]
    closing = [f"the answers are {answers[0]} and {answers[1]}"] * all(answers)
    return View(
        title="what the answer reads of two prompts",
        headline=_headline(first, second, link),
        settings=settings,
        screen=build_page(groups, settings),
        picture=build_page(groups, settings),
        closing=tuple(map(as_sentence, (*closing, segments.CAVEAT))),
        data=_pair_data(inspections),
        provenance=join_provenances([each.trace.provenance for each in inspections]),
        command=command,
    )


def _headline(first: Inspection, second: Inspection, link: SegmentLink | None) -> str:
    """Return what the head reads in both prompts: in the second it may be another segment."""
    start = choose_sentence(segments.SEGMENT_FINDINGS, first.segments)
    other = second.segments
    links = [each for each in other.links[other.query] if link and each.head == link.head]
    if not links:
        return f"{start} in the first text"
    if not links[0].stands_out:
        return f"{start} in the first text; in the second no {other.segments.unit} stands out there"
    amount = segments.link_amount(links[0])
    segment = segments.segment_text(other, links[0].segment)
    return f"{start} in the first text, {segment} {amount.text} ({amount.base}) in the second"


def _pair_data(inspections: tuple[Inspection, ...]) -> TableData:
    of_texts = {
        name: segments.segments_data(each.segments, None)
        for name, each in zip(TEXTS, inspections, strict=True)
    }

    def document() -> Mapping[str, Any]:
        return {name: each.document() for name, each in of_texts.items()}

    def lines() -> Iterator[TableLines]:
        for name, each in of_texts.items():
            for part in each.lines():
                yield replace(part, start=(name, *part.start))

    return TableData("segment-comparison", document, ("text", *segments.SEGMENT_COLUMNS), lines)
