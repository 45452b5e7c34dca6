"""The View of a Ranking: the accuracy that a model loses with each head switched off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from math import ceil, isnan

import numpy as np

from attnviz.analysis.head_accuracy import RankedHead, Ranking
from attnviz.cells import unmasked_cells
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, round_up
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.view import (
    HEAD_COLUMNS,
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
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import counted

RANKING_COLUMNS = (*HEAD_COLUMNS, "accuracy without it", "lost", "low", "high", "loss without it")
MIN_READING_SHARE = 0.5  # of its attention: from there on, a head is said to read something
MIN_ACCURACY_LOSS = 5e-4  # share of the answers: a smaller loss counts as none
SHARE_ROUNDING = 1e-6  # rounding error of shares in float32


def view(ranking: Ranking, *, command: Command | None = None, line: str | None = None) -> View:
    """Return the View of a Ranking: a bar for each head, the one that costs most accuracy first,
    and sentences on what that means.

    `command` reproduces the view (None: `attnviz heads --model …`); `line` is that command with the
    options of its output, recorded in files instead.
    """
    sentences, settings = ranking_sentences(ranking), _ranking_settings_line(ranking)
    header = (*RANKING_COLUMNS, *(reading.name for reading in ranking.task.readings))
    document, lines = partial(_ranking_document, ranking), partial(_ranking_lines, ranking)
    page = build_page([Group("heads", (_accuracy_bars(ranking),))], settings)
    return View(
        title=ranking_title(ranking),
        headline=ranking_title(ranking),
        settings=settings,
        screen=page,
        picture=page,
        closing=sentences[1:],
        data=TableData("ranking", document, header, lines),
        provenance=replace(ranking.provenance, command=line or (command.line if command else None)),
        command=command or Command(name="heads", options={"model": ranking.model.name}),
    )


def _ranking_settings_line(ranking: Ranking) -> str:
    """Return a line with the model, the number of test sentences and the number of answers
    in them.
    """
    sentences_text = f"tested on {counted(ranking.sentences, 'sentence')} not used in training"
    answers = f"{counted(ranking.answers, ranking.task.answer_noun)} in them"
    return " · ".join((f"model {ranking.model.name}", sentences_text, answers))


def _accuracy_bars(ranking: Ranking) -> RankedBars:
    """Return a bar for each head: the accuracy lost with it switched off, in per cent; beside it
    what the head reads.
    """
    lost = np.array([[100 * ranking.accuracy_lost(head)] for head in ranking.heads])
    bar_limit = round_up(float(abs(lost).max()))
    answer_noun = f"{ranking.task.answer_noun}s"
    grid = Grid(
        "accuracy lost with each head switched off (zeroed), in %",
        plain_axis("head", [head.name for head in ranking.heads]),
        plain_axis("measure", ["lost"]),
        unmasked_cells(lost),
        Scale("accuracy lost (%)", 0.0, bar_limit),
        note=f"accuracy = share of {answer_noun} predicted correctly · ± = 95 % interval over "
        "sentences · at each bar: what the head reads, and its share of the head's attention",
        decimals=1,
    )
    return RankedBars(grid, tuple(_bar_remark(ranking, head) for head in ranking.heads))


def _bar_remark(ranking: Ranking, head: RankedHead) -> str:
    """Return half the interval of what is lost without a head, and what it reads: `±2.3 · reads the
    subject (99 %)`."""
    low, high = head.interval
    half = "" if isnan(low) else f"±{100 * (high - low) / 2:.1f}"
    return " · ".join(filter(None, (half, head_reading_text(ranking, head))))


def _ranking_document(ranking: Ranking) -> Contents:
    return {
        "model": ranking.model.name,
        "task": ranking.task.name,
        "sentences": ranking.sentences,
        "answers": ranking.answers,
        "conclusion": " ".join(ranking_sentences(ranking)),
        "all heads": asdict(ranking.with_all_heads),
        "no heads": asdict(ranking.with_no_heads),
        "even attention": dict(ranking.even_scores),
        "heads": [
            {
                **named_head_document(head.name),
                "without": asdict(head.without),
                "lost": ranking.accuracy_lost(head),
                "interval": list(head.interval),
                "scores": dict(head.scores),
            }
            for head in ranking.heads
        ],
    }


def _ranking_lines(ranking: Ranking) -> Iterator[TableLines]:
    heads, readings = ranking.heads, ranking.task.readings
    columns = [
        [head.without.accuracy for head in heads],
        [ranking.accuracy_lost(head) for head in heads],
        *([head.interval[end] for head in heads] for end in (0, 1)),
        [head.without.loss for head in heads],
        *([head.scores[reading.name] for head in heads] for reading in readings),
    ]
    yield TableLines((), WordColumns(head_columns(head.name for head in heads)), tuple(columns))


def ranking_sentences(ranking: Ranking) -> tuple[str, ...]:
    """Return the ranking's title as a sentence, what the top head reads (left out if it reads or
    costs nothing), and the accuracy with and without all heads.
    """
    title = f"{ranking_title(ranking)}."
    return (title, *_top_head_sentences(ranking), _accuracy_sentence(ranking))


def ranking_title(ranking: Ranking) -> str:
    """Return a title such as `Switching off L0H0 costs 16 % of the verbs; any other head at most 5
    %`.
    """
    top_head, *others = ranking.heads
    answer_noun, lost = f"{ranking.task.answer_noun}s", ranking.accuracy_lost(top_head)
    if lost < MIN_ACCURACY_LOSS:
        return f"Switching off any one head costs none of the {answer_noun}"
    costs = f"costs {percent_text(lost)} of the {answer_noun}"
    if not others:
        return f"Switching off {top_head.name}, the only head, {costs}"
    return f"Switching off {top_head.name} {costs}; {_other_heads_clause(ranking, others)}"


def _other_heads_clause(ranking: Ranking, others: list[RankedHead]) -> str:
    """Return how much accuracy switching off any one of the other heads costs at most; `others` are
    sorted, the costliest first.
    """
    largest_loss = ranking.accuracy_lost(others[0])  # the heads are sorted by their loss
    if largest_loss < MIN_ACCURACY_LOSS:
        return f"{'the other head' if len(others) == 1 else 'any other head'} costs nothing"
    if len(others) == 1:
        return f"{others[0].name} costs {percent_text(largest_loss)}"
    return f"any other head at most {percent_text(ceil(100 * largest_loss - SHARE_ROUNDING) / 100)}"


def head_reading_text(ranking: Ranking, head: RankedHead, *, with_even: bool = False) -> str:
    """Return what a head does with at least half of its attention, such as `reads the subject (95
    %)`; empty if there is no such thing. `with_even` adds the share by even attention.
    """
    scores = {reading: head.scores.get(reading.name, 0.0) for reading in ranking.task.readings}
    best_reading = max(scores, key=lambda reading: scores[reading], default=None)
    if best_reading is None or not scores[best_reading] >= MIN_READING_SHARE:
        return ""
    even = ranking.even_scores.get(best_reading.name)
    even_text = "" if even is None or not with_even else f", evenly {percent_text(even)}"
    return f"{best_reading.does} ({percent_text(scores[best_reading])}{even_text})"


def _top_head_sentences(ranking: Ranking) -> tuple[str, ...]:
    """Return one sentence on what the costliest head reads; none if it reads nothing in particular
    or costs nothing.
    """
    top_head = ranking.heads[0]
    reading_text = head_reading_text(ranking, top_head, with_even=True)
    if not reading_text or ranking.accuracy_lost(top_head) < MIN_ACCURACY_LOSS:
        return ()
    return (f"{top_head.name} {reading_text}.",)


def _accuracy_sentence(ranking: Ranking) -> str:
    """Return a sentence with the accuracy with all heads and with every head switched off."""
    all_heads, no_heads = (
        percent_text(run.accuracy) for run in (ranking.with_all_heads, ranking.with_no_heads)
    )
    start = f"With all heads, {all_heads} of the {ranking.task.answer_noun}s are right"
    return f"{start}; with every head switched off, {no_heads}."
