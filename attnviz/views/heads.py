"""The heads of a model by what is lost without each, and the sentence about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from math import ceil

import numpy as np

from attnviz.analysis.heads import Head, Ranking
from attnviz.cells import unmasked
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, rounded_up
from attnviz.views.view import Data, Group, Lines, View, Words, page_of
from attnviz.wording.commands import Command
from attnviz.wording.numbers import percent
from attnviz.wording.words import counted

TABLE = ("head", "accuracy without it", "lost", "loss without it")


def view(ranking: Ranking, *, command: Command | None = None, line: str | None = None) -> View:
    """A bar for each head, the one without which most is lost first; and what that comes to.

    `line` is the command with the options of its output, which files record.
    """
    told = sentences_on(ranking)
    settings = _settings(ranking)
    page = page_of([Group("heads", (_bars(ranking),))], settings)
    return View(
        title=title_of(ranking),
        headline=title_of(ranking),
        settings=settings,
        screen=page,
        picture=page,
        closing=told[1:],
        data=Data(partial(_document, ranking), _header(ranking), partial(_lines, ranking)),
        provenance=replace(ranking.provenance, command=line or (command.line if command else None)),
        command=command or Command(name="heads", options={"model": ranking.model.name}),
    )


def _settings(ranking: Ranking) -> str:
    """What the numbers depend on, in one line."""
    tried = f"tested on {counted(ranking.sentences, 'sentence')} not used in training"
    answers = f"{counted(ranking.answers, ranking.task.asked)} in them"
    return " · ".join((f"model {ranking.model.name}", tried, answers))


def _bars(ranking: Ranking) -> Ranked:
    """A bar for each head: how many answers are lost with it switched off, in per cents."""
    lost = np.array([[100 * ranking.lost(head)] for head in ranking.heads])
    reach = rounded_up(float(abs(lost).max()))
    asked = f"{ranking.task.asked}s"
    grid = Grid(
        "accuracy lost with each head switched off, in %",
        plain_axis("head", [head.name for head in ranking.heads]),
        plain_axis("measure", ["lost"]),
        unmasked(lost),
        Scale("accuracy lost (%)", 0.0, reach),
        note=f"accuracy = share of {asked} predicted correctly · at each bar: what the head "
        "reads, and its share of the head's attention",
        decimals=1,
    )
    return Ranked(grid, tuple(what_it_reads(ranking, head) for head in ranking.heads))


def _document(ranking: Ranking) -> Contents:
    return {
        "model": ranking.model.name,
        "task": ranking.task.name,
        "sentences": ranking.sentences,
        "answers": ranking.answers,
        "conclusion": " ".join(sentences_on(ranking)),
        "all heads": asdict(ranking.whole),
        "no heads": asdict(ranking.none),
        "heads": [
            {
                "head": head.name,
                "without": asdict(head.without),
                "lost": ranking.lost(head),
                "scores": dict(head.scores),
            }
            for head in ranking.heads
        ],
    }


def _header(ranking: Ranking) -> tuple[str, ...]:
    return (*TABLE, *(each.name for each in ranking.task.readings))


def _lines(ranking: Ranking) -> Iterator[Lines]:
    names = [each.name for each in ranking.task.readings]
    heads = ranking.heads
    columns = [
        [head.without.accuracy for head in heads],
        [ranking.lost(head) for head in heads],
        [head.without.loss for head in heads],
        *([head.scores[name] for head in heads] for name in names),
    ]
    yield Lines((), Words((tuple(head.name for head in heads),)), tuple(columns))


READS = 0.5  # of its weight, from which on a head is said to read something: more than all else
NOTHING = 5e-4  # of the answers: who loses less loses nothing to speak of
ROUNDING = 1e-6  # of shares in float32


def sentences_on(ranking: Ranking) -> tuple[str, ...]:
    """The head that matters most beside the others; what is right with all heads, and with none."""
    return (f"{title_of(ranking)}.", *_reads(ranking), _how_right(ranking))


def title_of(ranking: Ranking) -> str:
    """`Switching off L0H0 costs 16 % of the verbs; any other head at most 5 %`"""
    first, *others = ranking.heads
    asked, lost = f"{ranking.task.asked}s", ranking.lost(first)
    if lost < NOTHING:
        return f"Switching off any one head costs none of the {asked}"
    costs = f"costs {percent(lost)} of the {asked}"
    if not others:
        return f"Switching off {first.name}, the only head, {costs}"
    return f"Switching off {first.name} {costs}; {_of_others(ranking, others)}"


def _of_others(ranking: Ranking, others: list[Head]) -> str:
    most = ranking.lost(others[0])  # the others come in the order of what they cost
    if most < NOTHING:
        return f"{'the other head' if len(others) == 1 else 'any other head'} costs nothing"
    if len(others) == 1:
        return f"{others[0].name} costs {percent(most)}"
    return f"any other head at most {percent(ceil(100 * most - ROUNDING) / 100)}"


def what_it_reads(ranking: Ranking, head: Head) -> str:
    """`reads the subject (95 %)`: what a head does most, if that takes most of its attention."""
    scores = {each: head.scores.get(each.name, 0.0) for each in ranking.task.readings}
    best = max(scores, key=lambda each: scores[each], default=None)
    if best is None or not scores[best] >= READS:
        return ""
    return f"{best.does} ({percent(scores[best])})"


def _reads(ranking: Ranking) -> tuple[str, ...]:
    """What the head reads that costs most."""
    first = ranking.heads[0]
    reads = what_it_reads(ranking, first)
    return (f"{first.name} {reads}.",) if reads and ranking.lost(first) >= NOTHING else ()


def _how_right(ranking: Ranking) -> str:
    whole, none = percent(ranking.whole.accuracy), percent(ranking.none.accuracy)
    said = f"With all heads, {whole} of the {ranking.task.asked}s are right"
    return f"{said}; with every head switched off, {none}."
