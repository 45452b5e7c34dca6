"""The heads of a model as what can be shown: what is lost without each, and what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from attnviz.analysis.heads import Ranking
from attnviz.cells import unmasked
from attnviz.traces.document import Contents
from attnviz.views.conclusions.heads import sentences_on, title_of, what_it_reads
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, rounded_up
from attnviz.views.view import Data, Group, Lines, View, Words, page_of
from attnviz.wording.commands import Command
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
