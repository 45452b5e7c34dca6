"""A model that learned, as a View: its heads then and now, curves, moments and data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.cells import Whole
from attnviz.learning.training import Learned, Moment
from attnviz.tokens.finding import find_query
from attnviz.traces.trace import Provenance
from attnviz.views.conclusions.learned import at_a_moment, sentence_of
from attnviz.views.grids.axes import AXES_NOTE, SUM_TO_ONE, plain_axis
from attnviz.views.grids.description import caption, describe
from attnviz.views.grids.explored import Explored, HeadMap, arranged
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale, colorless
from attnviz.views.learned.heads import Found, Shown, heads_of, name_of_head
from attnviz.views.settings_line import KIND, settings_line
from attnviz.views.trace import groups as groups_of
from attnviz.views.view import (
    Column,
    Data,
    Excerpt,
    Group,
    Lines,
    Name,
    Page,
    Shot,
    View,
    Words,
    page_of,
)
from attnviz.wording.commands import Command
from attnviz.wording.words import counted

ON_A_PAGE = 5  # moments,
FEW_HEADS = 4  # and heads
ROWS_OF_A_TOKEN = 12  # moments, where what a token reads has a row for each
ROWS_OF_HISTORY = 8
IN_A_FILM = 60  # moments,
FILMED_HEADS = 16  # and heads


def view(learned: Learned, *, query: str | None = None, command: str | None = None) -> View:
    """How a model came to read what it reads; with a query, how one token did.

    `command` is the one that was typed.
    """
    tokens = learned.model.vocabulary.as_read(learned.watched)
    here = Shown(learned, None if query is None else find_query(tokens, str(query)))
    line, told = _settings_line(here), sentence_of(learned)
    frames = filmed(learned.moments, IN_A_FILM)
    return View(
        title=f"learned {learned.task.name}: {learned.task.about}",
        headline=told.removesuffix("."),
        settings=line,
        screen=page_of(_on_screen(here), line),
        picture=_page(here, line),
        film=tuple(_shots(here, frames)),
        slides=lambda: Excerpt(tuple(_slides(here)), ""),
        closing=(told,),
        explored=partial(explored_of_learned, here, frames),
        data=data_of(learned, here.found, frames, told),
        provenance=_provenance(learned, here.trace.provenance, command),
        command=_command(learned, query),
    )


def _on_screen(here: Shown) -> list[Group]:
    """The heads as they are now, what they came to do, and how it went."""
    learned, found = here.learned, here.found
    moments = few(learned.moments, ROWS_OF_HISTORY)
    heads = [scores_of_heads(learned, found)] if found else []
    return [*_now(here), Group("learned", (*heads, history(learned, found, moments)))]


def _now(here: Shown) -> list[Group]:
    """The weights of all heads; or what the followed token reads in them."""
    if here.query is None:
        return groups_of(here.trace, ["weights"])
    last = len(here.learned.moments) - 1
    return [Group("readings", (here.of_heads(here.heads, last),))]


def _page(here: Shown, settings: str) -> Page:
    """Heads at a few moments, and beside them what became of the loss and of accuracy."""
    learned, named = here.learned, few(here.learned.moments, ON_A_PAGE)
    heads = here.that_matter(FEW_HEADS)
    drawn = _heads(here, heads, named) if here.query is None else _of_token(here, heads)
    curves = tuple(curves_of(learned, here.found, named))
    last = drawn.panels[len(named) - 1 :: len(named)] if here.query is None else drawn.panels
    panels = (*drawn.panels, *curves)
    return Page(
        (drawn, Group("curves", curves)), caption(panels, settings), describe((*last, *curves))
    )


def _heads(here: Shown, heads: Sequence[tuple[int, int]], places: Sequence[int]) -> Group:
    """A row for each head, a column for each moment."""
    return Group(
        "heads",
        tuple(here.of_head(head, place) for head in heads for place in places),
        kind="course",
        across=len(places),
        over=tuple(Name(_at(here, place)) for place in places),
        beside=tuple(map(here.name, heads)),
    )


def _at(here: Shown, place: int) -> str:
    """`step 313: are 98 %`, of a sentence with one blank."""
    answer = here.answer(place).rpartition(" → ")[2]
    return f"{here.step(place)}: {answer}" if answer else here.step(place)


def _of_token(here: Shown, heads: Sequence[tuple[int, int]]) -> Group:
    """A panel for each head, a row in it for each moment."""
    places = few(here.learned.moments, ROWS_OF_A_TOKEN)
    return Group(
        "readings",
        tuple(here.of_token(head, places) for head in heads),
        kind="course",
        across=len(heads),
        over=tuple(map(here.name, heads)),
    )


def _slides(here: Shown) -> Iterator[Group]:
    """Each head as it is now, or what the followed token came to read in it; and each chart."""
    heads = here.that_matter(FILMED_HEADS)
    last, places = len(here.learned.moments) - 1, few(here.learned.moments, ROWS_OF_A_TOKEN)
    if here.query is None:
        yield Group("heads", tuple(here.of_head(head, last) for head in heads))
    else:
        yield Group("heads", tuple(here.of_token(head, places) for head in heads))
    named = few(here.learned.moments, ON_A_PAGE)
    yield Group("curves", tuple(curves_of(here.learned, here.found, named)))


def _shots(here: Shown, frames: Sequence[int]) -> Iterator[Shot]:
    """A frame for each of these moments, with all heads that have room."""
    rounds = round_steps(here.learned.moments[-1].step)
    heads = here.that_matter(FILMED_HEADS)
    for place in frames:
        curves = tuple(
            replace(each, named=rounds)
            for each in curves_of(here.learned, here.found, [], place + 1)
        )
        group = _filmed(here, heads, place)
        yield Shot((group, Group("curves", curves)), at_a_moment(here.learned, place))


def _filmed(here: Shown, heads: Sequence[tuple[int, int]], place: int) -> Group:
    """Heads at a moment: those of a layer in a row, where all are shown."""
    if here.query is not None:
        return Group("readings", (here.of_heads(heads, place),), kind="course")
    across = len(here.learned.moments[0].weights[0])
    return Group(
        "heads",
        tuple(here.of_head(head, place, answers=True) for head in heads),
        kind="course",
        across=across if heads == here.heads else min(len(heads), FEW_HEADS),
        over=tuple(here.name(head, place) for head in heads),
        ringed=here.ringed(heads),
    )


def _settings_line(here: Shown) -> str:
    """What the numbers depend on: the model, and how it was taught."""
    learned = here.learned
    count = sum(each.numel() for each in learned.model.parameters.values())
    parts = [
        settings_line(here.trace, without=(KIND, "seed")),
        counted(count, "parameter"),
        f"batch {learned.choices.batch}",
        f"rate {learned.choices.rate:g}",
        f"seed {learned.settings.seed}",
    ]
    return " · ".join(parts)


def _provenance(learned: Learned, made: Provenance, command: str | None) -> Provenance:
    """That of the model before there was one, with how it was taught."""
    before = {"model": None, "positions": learned.settings.positions}
    taught = {**learned.asked, **_choices(learned)}
    settings = {**made.settings, **before, **taught}
    return replace(made, settings=settings, command=command, seed=learned.settings.seed)


def _choices(learned: Learned) -> dict[str, Any]:
    """As they turned out; None where no accuracy would have ended it."""
    until = learned.choices.until
    return {**asdict(learned.choices), "until": None if until == math.inf else until}


def _command(learned: Learned, query: str | None) -> Command:
    """The command that learns the same: what differs from the task's own choices."""
    task, own = learned.task, vars(learned.task.settings)
    settings = {name: each for name, each in vars(learned.settings).items() if each != own[name]}
    choices = _choices(learned)
    taught = {name: each for name, each in choices.items() if each != getattr(task, name)}
    if choices["until"] is None:  # which is what --steps alone means
        taught = {"steps": choices["steps"], **taught}
        del taught["until"]
    watched = {"watch": learned.watched.text, "query": query}
    usual = {"watch": task.vocabulary.cut(task.watch).text, "query": None}
    options = {name: each for name, each in watched.items() if each != usual[name]}
    asked = dict(learned.asked)
    argument = asked.pop("task", None)
    return Command(
        name="learn", argument=argument, options={**asked, **settings, **taught, **options}
    )


SCORE = "score = mean weight on the tokens that should be read"


def curves_of(
    learned: Learned, found: Sequence[Found], named: Sequence[int], until: int | None = None
) -> list[Curves]:
    """The loss; and on a second scale, from 0 to 1, accuracy and the scores of the best heads.

    The places of some moments are named below; of a film only so many moments have come.
    """
    steps = tuple(float(moment.step) for moment in learned.moments)
    places = tuple(steps[place] for place in named)
    lost = np.array([moment.loss for moment in learned.moments])
    right = np.array([moment.accuracy for moment in learned.moments])
    lines = [_curve(each.reading.name, each.course) for each in found]
    shares = (*lines, _curve("accuracy", right, plain=True))
    note = f"{SCORE} · scores and accuracy" if found else "accuracy"
    return [
        Curves("loss", "step", steps, (_curve("loss", lost, plain=True),), "", places, until),
        Curves(
            "scores and accuracy" if found else "accuracy",
            "step",
            steps,
            shares,
            f"{note} {_where(learned)}",
            places,
            until,
            reach=1.0,
        ),
    ]


def _curve(name: str, values: np.ndarray, *, plain: bool = False) -> Curve:
    return Curve(name, values, values, values, plain=plain)


def history(learned: Learned, found: Sequence[Found], shown: Sequence[int]) -> Grid:
    """The same as numbers, of a few moments: a row for each."""
    moments = [learned.moments[place] for place in shown]
    columns = {
        "loss": np.array([moment.loss for moment in moments]),
        "accuracy": np.array([moment.accuracy for moment in moments]),
        **{f"{each.head} {each.reading.name}": each.course[list(shown)] for each in found},
    }
    return Grid(
        "on the way",
        plain_axis("step", [f"step {moment.step:,}" for moment in moments]),
        plain_axis("measure", [*columns]),
        _table(np.stack([*columns.values()], axis=1)),
        colorless("measure"),
        note=f"loss on the sentences learned from · accuracy {_where(learned)}",
    )


def scores_of_heads(learned: Learned, found: Sequence[Found]) -> Grid:
    """What each head came to do: a row for each, a column for each reading."""
    heads = heads_of(learned.moments[-1])
    scores = [[each.scores[-1][head] for each in found] for head in heads]
    return Grid(
        "heads",
        plain_axis("head", [name_of_head(*head) for head in heads]),
        plain_axis("reading", [each.reading.name for each in found]),
        _table(np.array(scores, dtype=float)),
        Scale("score", 0.0, 1.0),
        note=f"{SCORE}, {_where(learned)}",
        decimals=2,
    )


def _where(learned: Learned) -> str:
    return f"in {counted(learned.held_out, 'held-out sentence')}"


def _table(values: np.ndarray) -> Whole:
    """What is no number is none."""
    return Whole(np.nan_to_num(values), np.isnan(values))


def data_of(
    learned: Learned, found: Sequence[Found], filmed: Sequence[int], conclusion: str
) -> Data:
    """Everything about it; and a line for each moment, a column for each head and reading."""
    heads = [name_of_head(*head) for head in heads_of(learned.moments[-1])]
    scores = tuple(f"{head} {each.reading.name}" for each in found for head in heads)
    document = partial(_document, learned, found, filmed, conclusion)
    return Data(document, ("step", "loss", "accuracy", *scores), partial(_lines, learned, found))


def _document(
    learned: Learned, found: Sequence[Found], filmed: Sequence[int], conclusion: str
) -> dict[str, Any]:
    """`history` by moment; `weights` of the sentence that was watched, at those of the film."""
    moments, task = learned.moments, learned.task
    return {
        "task": {"name": task.name, "about": task.about, "asked": task.asked},
        "ended": learned.ended,
        "conclusion": conclusion,
        "tokens": list(learned.watched.labels),
        "history": {
            "step": np.array([moment.step for moment in moments]),
            "loss": np.array([moment.loss for moment in moments]),
            "accuracy": np.array([moment.accuracy for moment in moments]),
            "scores": {each.reading.name: each.scores for each in found},
        },
        "heads": [
            {"reading": each.reading.name, "head": each.head, "score": each.score} for each in found
        ],
        "watched": {
            "step": np.array([moments[place].step for place in filmed]),
            "layers": [
                {"weights": np.stack([moments[place].weights[layer] for place in filmed])}
                for layer in range(len(moments[-1].weights))
            ],
        },
    }


def _lines(learned: Learned, found: Sequence[Found]) -> Iterator[Lines]:
    """All moments at once."""
    moments = learned.moments
    steps = Words((tuple(str(moment.step) for moment in moments),))
    scores = [np.array(column) for each in found for column in _columns(each)]
    numbers: tuple[Column, ...] = (
        _column([moment.loss for moment in moments]),
        _column([moment.accuracy for moment in moments]),
        *(_column(column.tolist()) for column in scores),
    )
    yield Lines((), steps, numbers)


def _columns(found: Found) -> Iterator[np.ndarray]:
    """The course of each head."""
    layers, heads = found.scores.shape[1:]
    for layer in range(layers):
        for head in range(heads):
            yield found.scores[:, layer, head]


def _column(numbers: Sequence[float]) -> Column:
    """Nothing in a cell that has no number."""
    return [float(number) if np.isfinite(number) else None for number in numbers]


def explored_of_learned(here: Shown, places: Sequence[int]) -> Explored:
    """A row for each of some moments, a column for each head; first what one of them came to do."""
    maps = [
        (here.step(place), name_of_head(*head), _head(here, head, place))
        for place in places
        for head in here.heads
    ]
    best = here.heads.index(here.that_matter(1)[0])
    return arranged(
        maps,
        ("moment", "head"),
        query=here.query,
        first=len(maps) - len(here.heads) + best,
        note=f"{AXES_NOTE} · {SUM_TO_ONE}",
    )


def _head(here: Shown, head: tuple[int, int], place: int) -> HeadMap:
    grid = here.of_head(head, place)
    itself = replace(grid.columns, title=grid.rows.title) == grid.rows
    return HeadMap(
        name=" · ".join(filter(None, (name_of_head(*head), here.step(place), here.answer(place)))),
        reads=grid.rows,
        read=grid.rows if itself else grid.columns,
        weights=grid.cells,
    )


HALVINGS = 2.0  # from one moment of a page to the one before it
MOST_ROUND = 4  # steps between numbers of a side
BY_STEPS = 0.5  # of a film's way is measured in steps, the rest in what becomes of weights


def few(moments: Sequence[Moment], most: int) -> list[int]:
    """The first and the last, and between them each at about half the steps of the next.

    >>> from types import SimpleNamespace
    >>> few([SimpleNamespace(step=step) for step in range(101)], 5)
    [0, 12, 25, 50, 100]
    """
    steps = np.array([moment.step for moment in moments])
    wanted = steps[-1] / HALVINGS ** np.arange(most - 1)
    nearest = {int(abs(steps - each).argmin()) for each in wanted[: max(most - 1, 1)]}
    return sorted({0} | nearest)


def filmed(moments: Sequence[Moment], most: int) -> list[int]:
    """So many that the picture changes about as much from each to the next.

    Where nothing happens for a thousand steps, some of them are still shown.
    """
    if len(moments) <= most:
        return list(range(len(moments)))
    way = _way(moments)
    places = np.searchsorted(way, np.linspace(0.0, way[-1], most))
    return sorted({0, len(moments) - 1} | {min(int(each), len(moments) - 1) for each in places})


def round_steps(last: int) -> tuple[float, ...]:
    """Round numbers from 0 on, for the side that counts steps.

    >>> round_steps(633), round_steps(60)
    ((0.0, 200.0, 400.0, 600.0), (0.0, 20.0, 40.0, 60.0))
    """
    step = next(
        factor * 10**power
        for power in range(9)
        for factor in (1, 2, 5)
        if last / (factor * 10**power) <= MOST_ROUND
    )
    return tuple(float(each) for each in range(0, last + 1, step))


def _way(moments: Sequence[Moment]) -> Float[np.ndarray, "moment"]:
    """How far each moment is on the way to the last, from 0 to 1."""
    steps = np.array([moment.step for moment in moments], dtype=float)
    changes = [0.0]
    for before, moment in pairwise(moments):
        pairs = zip(before.weights, moment.weights, strict=True)
        changes.append(float(sum(abs(after - one).mean() for one, after in pairs)))
    changed = np.cumsum(changes)
    by_change = changed / (changed[-1] or 1.0)
    by_steps = (steps - steps[0]) / ((steps[-1] - steps[0]) or 1.0)
    way: Float[np.ndarray, "moment"] = BY_STEPS * by_steps + (1 - BY_STEPS) * by_change
    return way
