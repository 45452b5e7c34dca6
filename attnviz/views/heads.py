"""The heads of a model as what can be shown: what is lost without each, and what it reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from attnviz.analysis.heads import Head, Ranking
from attnviz.cells import unmasked
from attnviz.traces.document import Contents
from attnviz.views.conclusions.heads import sentences_on
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.view import Data, Group, Lines, View, Words, page_of
from attnviz.wording.commands import Command
from attnviz.wording.words import counted, listed

SHARE = Scale("share", 0.0, 1.0)
ON_ACCURACY = ("right", "lost")
TABLE = ("head", "accuracy without it", "lost", "loss without it")


def view(ranking: Ranking, *, command: Command | None = None) -> View:
    """A row for each head, the one without which most is lost first; and what that comes to."""
    told = sentences_on(ranking)
    settings = _settings(ranking)
    page = page_of([Group("heads", (_grid(ranking),))], settings)
    return View(
        title=f"the heads of the model {ranking.model.name}",
        headline=told[0],
        settings=settings,
        screen=page,
        picture=page,
        closing=told,
        data=Data(partial(_document, ranking), _header(ranking), partial(_lines, ranking)),
        provenance=replace(ranking.provenance, command=command.line if command else None),
        command=command or Command(name="heads", options={"model": ranking.model.name}),
    )


def _settings(ranking: Ranking) -> str:
    """What the numbers depend on, in one line."""
    tried = f"tried on {counted(ranking.sentences, 'sentence')} that it did not learn from"
    answers = f"{counted(ranking.answers, ranking.task.asked)} in them"
    return " · ".join((f"model {ranking.model.name}", tried, answers))


def _grid(ranking: Ranking) -> Grid:
    readings = [each.name for each in ranking.task.readings]
    values = np.array([_numbers(ranking, head, readings) for head in ranking.heads])
    return Grid(
        "without each head",
        plain_axis("head", [head.name for head in ranking.heads]),
        plain_axis("column", [*ON_ACCURACY, *readings]),
        unmasked(values),
        SHARE,
        note=_note(ranking, readings),
    )


def _numbers(ranking: Ranking, head: Head, readings: list[str]) -> list[float]:
    scores = [head.scores.get(name, math.nan) for name in readings]
    return [head.without.accuracy, ranking.lost(head), *scores]


def _note(ranking: Ranking, readings: list[str]) -> str:
    parts = [
        f"right = share of the {ranking.task.asked}s that are, without this head",
        "lost = how many fewer",
    ]
    named = listed([f"'{name}'" for name in readings])
    parts += [f"under {named}: how much of its weight the head puts there"] if readings else []
    return " · ".join(parts)


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
