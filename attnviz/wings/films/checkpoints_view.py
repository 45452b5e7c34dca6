"""The View of checkpoints: curves of each kind of head by step, a film, a slider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from attnviz.analysis.inspection.patterns import BROAD_PATTERN, PATTERN_KINDS, PatternKind
from attnviz.cells import unmasked_cells
from attnviz.traces.archive import Contents
from attnviz.traces.trace import Provenance
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.head_kinds import BROAD_RULE_NOTE, STANDS_OUT_NOTE, nan_to_none
from attnviz.views.inspection.two_sentences import (
    MAX_EXCERPT_HEADS,
    MAX_SCREEN_HEADS,
    MIN_SHOWN_DIVERGENCE,
    change_sentences,
    changes_group,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.view import (
    HEAD_COLUMNS,
    Excerpt,
    Group,
    Shot,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_columns,
    named_head_document,
)
from attnviz.wings.films.checkpoints import REPEATS_KIND, CheckpointComparison, KindCourse
from attnviz.wings.films.film import HeadPlace
from attnviz.wings.films.view import (
    MAX_PAGE_TRACES,
    FilmHeads,
    evenly_spaced,
    explore_film,
    frame_group,
    still_group,
)
from attnviz.wording.commands import Command
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import as_sentence, counted

MAX_CURVES = 6  # as many as there are colours for lines
MAX_SCREEN_STEPS = 12
SCORES_TITLE, COUNTS_TITLE = "highest score", "number of heads"
SCORE_NOTE = "score = share of a token's attention, averaged over the tokens that can show it"
REPEATS_NOTE = "induction: on random tokens that are repeated, whatever the sentence is"


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
    places = tuple(_head_place(comparison, name) for name in comparison.head_names)
    heads = CheckpointHeads(comparison.film, places, comparison)
    closing = tuple(map(as_sentence, checkpoint_sentences(comparison)))
    settings, courses = _checkpoint_settings(comparison), shown_courses(comparison)
    curves = Group("curves", tuple(kind_curves(comparison, courses)))
    tables = _kind_tables(comparison, courses, full=full)
    short = _kind_tables(comparison, courses, full=False)[:1]
    if comparison.whole.changes or not tables:  # zeros say no more than the headline
        tables.append(changes_group(comparison.whole, None if full else MAX_SCREEN_HEADS))
        short.append(changes_group(comparison.whole, MAX_EXCERPT_HEADS))
    kinds = [course.kind.name for course in comparison.courses]
    return View(
        title=f"one sentence, read by {counted(len(comparison.checkpoints), 'checkpoint')}",
        headline=closing[0].removesuffix("."),
        settings=settings,
        screen=build_page(tables, settings),
        excerpt=Excerpt(tuple(short), "--full shows all checkpoints and heads"),
        picture=build_page([still_group(heads, telling_indices(comparison)), curves], settings),
        film=lambda: tuple(_step_shots(heads, courses)),
        slides=lambda: Excerpt((frame_group(heads, len(comparison.checkpoints) - 1), curves), ""),
        closing=closing,
        head_explorer=partial(explore_film, heads),
        data=TableData(
            "checkpoint-comparison",
            partial(_course_document, comparison, closing),
            ("step", *HEAD_COLUMNS, "kind", "apart", *kinds),
            partial(_course_lines, comparison),
        ),
        provenance=_provenance(comparison, line or (command.line if command else None)),
        command=command,
    )


def _head_place(comparison: CheckpointComparison, name: str) -> HeadPlace:
    """Return the index of a head's layer in a Trace, and its number."""
    layer, head = map(int, name.removeprefix("L").split("H"))
    numbers = [each.layer for each in comparison.film.traces[0].attention_layers]
    return numbers.index(layer), head


def _checkpoint_settings(comparison: CheckpointComparison) -> str:
    """Return one line: which checkpoints, how many tokens, and the settings that all share."""
    names, last = comparison.film.names, comparison.film.traces[-1]
    return " · ".join([
        f"{len(names)} checkpoints, {names[0]} to {names[-1]}",
        counted(len(last.tokens), "token"),
        settings_line(last, without=["attention", "model", "tokens"]),
    ])  # fmt: skip


def _provenance(comparison: CheckpointComparison, line: str | None) -> Provenance:
    """Return the provenance of the last Trace, with the names of all folders as its models."""
    last = comparison.film.traces[-1].provenance
    folders = [Path(checkpoint.folder).name for checkpoint in comparison.checkpoints]
    return replace(last, settings={**last.settings, "model": folders}, command=line or last.command)


def telling_indices(comparison: CheckpointComparison) -> list[int]:
    """Return the indices of at most MAX_PAGE_TRACES checkpoints, between which heads change about
    equally; the checkpoints themselves count as well. The first and the last are among them."""
    count = len(comparison.checkpoints)
    moved = np.cumsum([0.0, *comparison.interval_divergences.mean(1)])
    progress = np.linspace(0.0, 1.0, count) + moved / (moved[-1] or 1.0)
    wanted = np.linspace(0.0, progress[-1], min(count, MAX_PAGE_TRACES))
    nearest = abs(progress[:, None] - wanted).argmin(0)
    return sorted({0, count - 1, *nearest.tolist()})


def shown_courses(comparison: CheckpointComparison) -> list[KindCourse]:
    """Return the kinds that any head belongs to at any checkpoint, broad heads last: at most as
    many as there are colours, those whose highest score moves most. Induction is that on random
    repeats, if it was measured."""
    measured = not np.isnan(comparison.repeats).all()
    left_out = [kind for kind in PATTERN_KINDS if measured and kind.short == REPEATS_KIND.short]
    courses = [course for course in comparison.courses if course.kind not in left_out]
    present = [course for course in courses if course.counts.any()]
    present.sort(key=lambda course: course.kind is BROAD_PATTERN)
    moving = sorted(present, key=lambda course: -float(np.ptp(np.nan_to_num(course.highest))))
    return [course for course in present if course in moving[:MAX_CURVES]]


def kind_curves(
    comparison: CheckpointComparison, courses: Sequence[KindCourse], count: int | None = None
) -> list[Curves]:
    """Return a chart of the strongest head's score for each kind by step, and one of how many heads
    are of each kind; only the first `count` points are drawn, None draws all. There is no chart
    without lines, and no score of broad heads, as some head is broad from the first step on."""
    steps = tuple(map(float, comparison.steps))
    ticks = steps if len(steps) <= MAX_PAGE_TRACES else ()
    scored, rule = _scored(courses), _counting_note(courses)
    charts = (
        (SCORES_TITLE, [(each, each.highest) for each in scored], _kinds_rule(courses), 1.0),
        (COUNTS_TITLE, [(each, each.counts.astype(float)) for each in courses], rule, 0),
    )
    return [
        Curves(
            title,
            "step",
            steps,
            tuple(Curve(course.kind.short, values, values, values) for course, values in lines),
            note,
            ticks,
            count,
            reach,
            counts=title == COUNTS_TITLE,
            headed=True,
        )
        for title, lines, note, reach in charts
        if lines
    ]


def _scored(courses: Sequence[KindCourse]) -> list[KindCourse]:
    return [course for course in courses if course.kind is not BROAD_PATTERN]


def _kinds_rule(courses: Sequence[KindCourse]) -> str:
    """Return what a score is, and what induction on repeats is if it is among the kinds."""
    is_there = any(course.kind is REPEATS_KIND for course in courses)
    return f"{SCORE_NOTE} · {REPEATS_NOTE}" if is_there else SCORE_NOTE


def _counting_note(courses: Sequence[KindCourse]) -> str:
    """Return which heads are counted: the rule of these kinds, which is another for broad heads."""
    rules = [STANDS_OUT_NOTE] if _scored(courses) else []
    if any(each.kind is BROAD_PATTERN for each in courses):
        rules.append(BROAD_RULE_NOTE)
    return " · ".join(rules)


def _kind_tables(
    comparison: CheckpointComparison, courses: Sequence[KindCourse], *, full: bool
) -> list[Group]:
    """Return tables with a row for each checkpoint and a column for each kind: the strongest head
    with its score, and how many heads there are; none without any kind."""
    count, names = len(comparison.checkpoints), comparison.head_names
    rows = evenly_spaced(count, count if full else MAX_SCREEN_STEPS)
    left_out = f"{len(rows)} of {count} checkpoints (--full shows all)"
    more = [left_out] if len(rows) < count else []
    steps = plain_axis("checkpoint", [comparison.film.names[row] for row in rows])
    scored, tables = _scored(courses), []
    if scored:
        scores = np.stack([course.highest[rows] for course in scored], axis=1)
        strongest = Grid(
            "the strongest head of each kind",
            steps,
            _kinds_axis(scored),
            unmasked_cells(scores),
            Scale("share", 0.0, 1.0),
            note=" · ".join([_kinds_rule(courses), *more]),
            decimals=2,
            words=tuple(tuple(names[each.strongest[row]] for each in scored) for row in rows),
        )
        tables.append(Group("kinds", (strongest,)))
    if courses:
        numbers = np.stack([course.counts[rows] for course in courses], axis=1).astype(float)
        counts = Grid(
            f"how many of {counted(len(names), 'head')} are of each kind",
            steps,
            _kinds_axis(courses),
            unmasked_cells(numbers),
            Scale("heads", 0.0, float(len(names))),
            note=" · ".join([_counting_note(courses), *more]),
            decimals=0,
        )
        tables.append(Group("counts", (counts,)))
    return tables


def _kinds_axis(courses: Sequence[KindCourse]) -> Axis:
    return plain_axis("kind", [course.kind.short for course in courses])


def _step_shots(heads: CheckpointHeads, courses: Sequence[KindCourse]) -> Iterator[Shot]:
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


def _appearing_heads(kind: PatternKind, count: int) -> str:
    """Return heads of a kind: `a head that attends clearly to the previous token`."""
    noun, verb = ("a head", "attends") if count == 1 else (f"{count} heads", "attend")
    if kind is REPEATS_KIND:
        return f"{noun.replace('head', 'induction head')} (on random tokens that are repeated)"
    if kind is BROAD_PATTERN:
        return f"{noun} that {verb} broadly"
    return f"{noun} that {verb} clearly to {kind.target_phrase}"


def _appearance_text(comparison: CheckpointComparison, course: KindCourse) -> str:
    """Return between which steps the first heads of a kind appear, and the scores of the strongest
    of them there."""
    names, index = comparison.film.names, course.first or 0
    head, count = int(course.strongest[index]), int(course.counts[index])
    before, after = map(percent_text, course.scores[index - 1 : index + 1, head].tolist())
    name = comparison.head_names[head]
    which = f": {name}" if count == 1 else f"; the strongest is {name}"
    unit = "the largest entropy" if course.kind is BROAD_PATTERN else "its attention"
    gone = "" if course.counts[-1] else f"; in {names[-1]} there is none"
    return (
        f"{_appearing_heads(course.kind, count)} {'appears' if count == 1 else 'appear'} between "
        f"{names[index - 1]} and {names[index]}{which}, with {before} of {unit}, then {after}{gone}"
    )


def _vanishing_text(comparison: CheckpointComparison, course: KindCourse) -> str:
    """Return from which checkpoint on there is no head of a kind any more."""
    names, last = comparison.film.names, int(np.flatnonzero(course.counts)[-1])
    heads = _appearing_heads(course.kind, int(course.counts[0]))
    be = "is" if course.counts[0] == 1 else "are"
    return f"there {be} {heads} in {names[0]}, and none from {names[last + 1]} on"


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


def _course_document(comparison: CheckpointComparison, closing: Sequence[str]) -> Contents:
    """Return the comparison as JSON data: each checkpoint with the kinds, scores and weights of its
    heads."""
    film = comparison.film
    layers = [layer.layer for layer in film.traces[0].attention_layers]
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
                    _head_course(comparison, index, head)
                    for head in range(len(comparison.head_names))
                ],
            }
            for index, checkpoint in enumerate(comparison.checkpoints)
        ],
        "layers": [
            {
                "layer": layer,
                "weights": np.stack(
                    [trace.attention_layers[place].weights.whole().numpy() for trace in film.traces]
                ),
            }
            for place, layer in enumerate(layers)
        ],
    }  # fmt: skip


def _head_course(comparison: CheckpointComparison, index: int, head: int) -> Contents:
    """Return a head at a checkpoint: its kind, how far it is from the checkpoint before, scores."""
    scores = np.array([course.scores[index, head] for course in comparison.courses])
    kind = comparison.patterns[index].kinds[head]
    return {
        **named_head_document(comparison.head_names[head]),
        "kind": None if kind is None else kind.name,
        "apart": float(comparison.interval_divergences[index - 1, head]) if index else None,
        "scores": dict(
            zip([each.kind.name for each in comparison.courses], nan_to_none(scores), strict=True)
        ),
    }


def _course_lines(comparison: CheckpointComparison) -> Iterator[TableLines]:
    """Yield the lines of each checkpoint, one per head: its kind, how far it is from the checkpoint
    before, in bits, and its scores."""
    names = head_columns(comparison.head_names)
    first: list[float | None] = [None] * len(comparison.head_names)
    for index, step in enumerate(comparison.steps):
        kinds = comparison.patterns[index].kinds
        words = WordColumns((*names, tuple("" if kind is None else kind.name for kind in kinds)))
        apart = nan_to_none(comparison.interval_divergences[index - 1]) if index else first
        scores = (nan_to_none(course.scores[index]) for course in comparison.courses)
        yield TableLines((step,), words, (apart, *scores))
