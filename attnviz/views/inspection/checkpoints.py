"""Checkpoints of a training as a View: curves of each kind of head by step, a film, a slider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from attnviz.analysis.inspection.checkpoints import (
    REPEATS_KIND,
    CheckpointComparison,
    KindCourse,
)
from attnviz.analysis.inspection.patterns import BROAD_PATTERN, PatternKind
from attnviz.cells import unmasked_cells
from attnviz.traces.archive import Contents
from attnviz.traces.trace import Provenance
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid, cells_without_nan
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.head_kinds import BROAD_NOTE, STANDS_OUT_NOTE, nan_to_none
from attnviz.views.inspection.two_sentences import (
    MAX_EXCERPT_HEADS,
    MAX_SCREEN_HEADS,
    change_sentences,
    changes_group,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.trace_film import (
    MAX_PAGE_TRACES,
    FilmHeads,
    HeadPlace,
    explore_film,
    frame_group,
    still_group,
)
from attnviz.views.view import (
    Excerpt,
    Group,
    Shot,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
)
from attnviz.wording.commands import Command
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import as_sentence, counted

MAX_CURVES = 6  # as many as there are colours for lines
MAX_SCREEN_STEPS = 12
SCORE_NOTE = (
    "score of the strongest head: the share of a token's attention, averaged over the tokens that "
    "can show it"
)
REPEATS_NOTE = (
    f"{REPEATS_KIND.short} = induction on random tokens that are repeated, which the sentence need "
    "not show"
)
MIN_SHOWN_DIVERGENCE = 5e-4  # bits; less is written as 0


@dataclass(frozen=True, eq=False)
class CheckpointHeads(FilmHeads):
    """The heads of checkpoints, ranked by how far the last is from the first."""

    comparison: CheckpointComparison

    @cached_property
    def changes(self) -> dict[HeadPlace, float]:
        """How far each head is apart in the first and the last checkpoint; the largest first."""
        return {_head_place(self.comparison, head.name): head.divergence
                for head in self.comparison.ranking}  # fmt: skip


def view(
    comparison: CheckpointComparison,
    *,
    full: bool = False,
    command: Command | None = None,
    line: str | None = None,
) -> View:
    """Return the View of checkpoints: which kinds of heads appear, and which heads change most.

    Ten heads and twelve checkpoints are listed, with `full` all of them. `command` makes the
    comparison again; `line` is that command with the options of its output.
    """
    heads = CheckpointHeads(comparison.film, tuple(_head_places(comparison)), comparison)
    closing = tuple(map(as_sentence, checkpoint_sentences(comparison)))
    settings = _settings_text(comparison)
    courses = shown_courses(comparison)
    curves = Group("curves", tuple(kind_curves(comparison, courses)))
    changes = changes_group(comparison.whole, None if full else MAX_SCREEN_HEADS)
    tables = [*_kind_tables(comparison, courses, full=full), changes]
    short = [*_kind_tables(comparison, courses, full=False)[:1],
             changes_group(comparison.whole, MAX_EXCERPT_HEADS)]  # fmt: skip
    return View(
        title=f"one sentence, read by {counted(len(comparison.checkpoints), 'checkpoint')}",
        headline=closing[0].removesuffix("."),
        settings=settings,
        screen=build_page(tables, settings),
        excerpt=Excerpt(tuple(short), "--full shows all checkpoints and heads"),
        picture=build_page([still_group(heads), curves], settings),
        film=tuple(_shots(heads, courses)),
        slides=lambda: Excerpt((frame_group(heads, len(comparison.checkpoints) - 1), curves), ""),
        closing=closing,
        head_explorer=partial(explore_film, heads),
        data=TableData(
            partial(_document, comparison, closing),
            ("step", "head", "kind", "apart", *(course.kind.name for course in comparison.courses)),
            partial(_lines, comparison),
        ),
        provenance=_provenance(comparison, line or (command.line if command else None)),
        command=command,
    )


def _head_places(comparison: CheckpointComparison) -> Iterator[HeadPlace]:
    """Yield where each chosen head is in a Trace, in the order of the model."""
    for name in comparison.head_names:
        yield _head_place(comparison, name)


def _head_place(comparison: CheckpointComparison, name: str) -> HeadPlace:
    """Return the index of a head's layer in a Trace, and its number."""
    layer, head = map(int, name.removeprefix("L").split("H"))
    numbers = [each.layer for each in comparison.film.traces[0].attentions]
    return numbers.index(layer), head


def _settings_text(comparison: CheckpointComparison) -> str:
    """Return one line: which checkpoints, and the settings that all share."""
    names, last = comparison.film.names, comparison.film.traces[-1]
    checkpoints = f"{len(names)} checkpoints, {names[0]} to {names[-1]}"
    return f"{checkpoints} · {settings_line(last, without=['attention', 'model'])}"


def _provenance(comparison: CheckpointComparison, line: str | None) -> Provenance:
    """Return the provenance of the last Trace, with the names of all folders as its models."""
    last = comparison.film.traces[-1].provenance
    folders = [Path(checkpoint.folder).name for checkpoint in comparison.checkpoints]
    return replace(last, settings={**last.settings, "model": folders}, command=line or last.command)


def shown_courses(comparison: CheckpointComparison) -> list[KindCourse]:
    """Return the kinds that any head belongs to at any checkpoint, in the order of the table of
    kinds: at most as many as there are colours, those whose highest score moves most."""
    present = [course for course in comparison.courses if course.counts.any()]
    by_movement = sorted(
        present, key=lambda course: -float(np.ptp(np.nan_to_num(course.highest)))
    )
    return [course for course in present if course in by_movement[:MAX_CURVES]]


def kind_curves(
    comparison: CheckpointComparison, courses: Sequence[KindCourse], count: int | None = None
) -> list[Curves]:
    """Return a chart of the strongest head's score for each kind by step, and one of how many heads
    are of each kind; only the first `count` points are drawn, None draws all. Without any kind
    there are no charts."""
    if not courses:
        return []
    steps = tuple(map(float, comparison.steps))
    ticks = steps if len(steps) <= MAX_PAGE_TRACES else ()
    charts = []
    for title, note, reach in (
        ("score of the strongest head", _kinds_note(courses), 1.0),
        ("heads of each kind", STANDS_OUT_NOTE, 0.0),
    ):
        lines = []
        for course in courses:
            values = course.highest if reach else course.counts.astype(float)
            lines.append(Curve(course.kind.short, values, values, values))
        charts.append(Curves(title, "step", steps, tuple(lines), note, ticks, count, reach))
    return charts


def _kinds_note(courses: Sequence[KindCourse]) -> str:
    """Return what a score is, and what those kinds are that it does not fit."""
    kinds = [course.kind for course in courses]
    notes = [SCORE_NOTE]
    notes += [BROAD_NOTE] if BROAD_PATTERN in kinds else []
    notes += [REPEATS_NOTE] if REPEATS_KIND in kinds else []
    return " · ".join(notes)


def _kind_tables(
    comparison: CheckpointComparison, courses: Sequence[KindCourse], *, full: bool
) -> list[Group]:
    """Return tables with a row for each checkpoint and a column for each kind: the strongest head
    with its score, and how many heads there are; none without any kind."""
    if not courses:
        return []
    count = len(comparison.checkpoints)
    shown = np.linspace(0, count - 1, count if full else min(count, MAX_SCREEN_STEPS))
    rows = [round(float(each)) for each in shown]
    left_out = f" · {len(rows)} of {count} checkpoints (--full shows all)"
    note = _kinds_note(courses) + (left_out if len(rows) < count else "")
    steps = plain_axis("checkpoint", [comparison.film.names[row] for row in rows])
    kinds = plain_axis("kind", [course.kind.short for course in courses])
    names = comparison.head_names
    strongest = Grid(
        "the strongest head of each kind",
        steps,
        kinds,
        cells_without_nan(np.stack([course.highest[rows] for course in courses], 1)),
        Scale("share", 0.0, 1.0),
        note=note,
        decimals=2,
        words=tuple(
            tuple(_head_of_cell(course, row, names) for course in courses) for row in rows
        ),
    )
    counts = Grid(
        f"how many of {counted(len(names), 'head')} are of each kind",
        steps,
        kinds,
        unmasked_cells(np.stack([course.counts[rows] for course in courses], 1).astype(float)),
        Scale("heads", 0.0, float(len(names))),
        note=STANDS_OUT_NOTE,
        decimals=0,
    )
    return [Group("kinds", (strongest,)), Group("counts", (counts,))]


def _head_of_cell(course: KindCourse, row: int, names: Sequence[str]) -> str:
    """Return the name of the strongest head at a checkpoint; empty if none has a score."""
    return "" if np.isnan(course.highest[row]) else names[course.strongest[row]]


def _shots(heads: CheckpointHeads, courses: Sequence[KindCourse]) -> Iterator[Shot]:
    """Yield a frame for each checkpoint, with the curves drawn up to it."""
    for index, name in enumerate(heads.film.names):
        curves = kind_curves(heads.comparison, courses, index + 1)
        groups = (frame_group(heads, index), *([Group("curves", tuple(curves))] if curves else []))
        yield Shot(groups, name)


def checkpoint_sentences(comparison: CheckpointComparison) -> Iterator[str]:
    """Yield which kinds of heads appear and vanish, which head changes most, and when; a single
    sentence if no head differs."""
    count, heads = len(comparison.checkpoints), len(comparison.head_names)
    if not comparison.changes:
        subject = f"all {heads} heads have" if heads > 1 else f"{comparison.head_names[0]} has"
        where = "both" if count == 2 else f"all {count} checkpoints"
        yield f"no head differs: {subject} the same weights in {where}"
        return
    appearing = [course for course in comparison.courses if course.first]
    for course in sorted(appearing, key=lambda course: -course.rise):
        yield _appearance_text(comparison, course)
    for course in comparison.courses:
        if course.counts[0] and not course.counts[-1]:
            yield _vanishing_text(comparison, course)
    if not comparison.whole.changes:
        yield "no head differs between the first checkpoint and the last, but those between do"
        return
    yield from change_sentences(comparison.whole)
    if count > 2:
        yield from _interval_sentences(comparison)


def _does_text(kind: PatternKind) -> str:
    """Return what heads of a kind do: `attend clearly to the previous token`."""
    return "attend broadly" if kind is BROAD_PATTERN else f"attend clearly to {kind.target_phrase}"


def _appearance_text(comparison: CheckpointComparison, course: KindCourse) -> str:
    """Return between which steps the first head of a kind appears, and its scores there."""
    names, index = comparison.film.names, course.first or 0
    head, count = int(course.strongest[index]), int(course.counts[index])
    before, after = map(float, course.scores[index - 1 : index + 1, head])
    name = comparison.head_names[head]
    others = f" and {counted(count - 1, 'other head')}" if count > 1 else ""
    subject = f"{name}{others} {'become' if others else 'becomes'} the first"
    noun = "heads" if others else "head"
    scores = percent_text(after) if np.isnan(before) else (
        f"{percent_text(before)}, then {percent_text(after)}")  # fmt: skip
    of_what = "of its attention"
    if course.kind is BROAD_PATTERN:
        of_what = "of the largest possible entropy"
    lead = f"in {name} " if others else ""
    gone = "" if course.counts[-1] else f"; in {names[-1]} there is none"
    return (
        f"between {names[index - 1]} and {names[index]}, {subject} {noun} to "
        f"{_does_text(course.kind)}: {lead}{scores} {of_what}{gone}"
    )


def _vanishing_text(comparison: CheckpointComparison, course: KindCourse) -> str:
    """Return from which checkpoint on there is no head of a kind any more."""
    last = int(np.flatnonzero(course.counts)[-1])
    names = comparison.film.names
    heads = counted(int(course.counts[0]), "head")
    verb = "does" if course.counts[0] == 1 else "do"
    return (
        f"from {names[last + 1]} on, no head {_does_text(course.kind).replace('attend', 'attends')}"
        f" ({heads} {verb} in {names[0]})"
    )


def _interval_sentences(comparison: CheckpointComparison) -> Iterator[str]:
    """Yield between which neighbouring checkpoints heads change most, and least, on average;
    nothing if these differ too little."""
    means, names = comparison.interval_divergences.mean(1), comparison.film.names
    most, least = int(means.argmax()), int(means.argmin())
    if means[most] - means[least] >= MIN_SHOWN_DIVERGENCE:
        yield (
            f"on average, heads change most between {names[most]} and {names[most + 1]} "
            f"({means[most]:.3f} bits) and least between {names[least]} and {names[least + 1]} "
            f"({means[least]:.3f})"
        )


def _document(comparison: CheckpointComparison, closing: Sequence[str]) -> Contents:
    """Return the comparison as JSON data: each checkpoint with the kinds, scores and weights of its
    heads."""
    film = comparison.film
    layers = [layer.layer for layer in film.traces[0].attentions]
    return {
        "names": list(film.names),
        "tokens": list(film.traces[0].tokens.labels),
        "keys": list(film.traces[0].keys.labels),
        "conclusion": " ".join(closing),
        "kinds": [
            {
                "kind": course.kind.name,
                "about": course.kind.about,
                "heads": course.counts.tolist(),
                "strongest": [comparison.head_names[head] for head in course.strongest],
                "score": nan_to_none(course.highest),
            }
            for course in comparison.courses
        ],
        "checkpoints": [
            {
                "step": checkpoint.step,
                "folder": Path(checkpoint.folder).name,
                "heads": [
                    _head_document(comparison, index, head)
                    for head in range(len(comparison.head_names))
                ],
            }
            for index, checkpoint in enumerate(comparison.checkpoints)
        ],
        "layers": [
            {
                "layer": layer,
                "weights": np.stack(
                    [trace.attentions[place].weights.whole().numpy() for trace in film.traces]
                ),
            }
            for place, layer in enumerate(layers)
        ],
    }  # fmt: skip


def _head_document(comparison: CheckpointComparison, index: int, head: int) -> Contents:
    """Return a head at a checkpoint: its kind, how far it is from the checkpoint before, scores."""
    scores = np.array([course.scores[index, head] for course in comparison.courses])
    kind = comparison.patterns[index].kinds[head]
    return {
        "head": comparison.head_names[head],
        "kind": None if kind is None else kind.name,
        "apart": float(comparison.interval_divergences[index - 1, head]) if index else None,
        "scores": dict(
            zip([each.kind.name for each in comparison.courses], nan_to_none(scores), strict=True)
        ),
    }


def _lines(comparison: CheckpointComparison) -> Iterator[TableLines]:
    """Yield the lines of each checkpoint, one per head: its kind, how far it is from the checkpoint
    before, in bits, and its scores."""
    names, nothing = comparison.head_names, [None] * len(comparison.head_names)
    for index, step in enumerate(comparison.steps):
        kinds = comparison.patterns[index].kinds
        words = WordColumns((names, tuple("" if kind is None else kind.name for kind in kinds)))
        apart = comparison.interval_divergences[index - 1].tolist() if index else nothing
        scores = (nan_to_none(course.scores[index]) for course in comparison.courses)
        yield TableLines((step,), words, (apart, *scores))
