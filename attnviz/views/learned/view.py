"""A model that learned, as what can be shown of it: its heads, then and now."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from attnviz.learning.training import Learned
from attnviz.tokens.finding import find_query
from attnviz.traces.trace import Provenance
from attnviz.views.conclusions.learned import at_a_moment, sentence_of
from attnviz.views.grids.description import caption, describe
from attnviz.views.learned.curves import curves_of, history, scores_of_heads
from attnviz.views.learned.data import data_of
from attnviz.views.learned.explored import explored_of_learned
from attnviz.views.learned.moments import few, filmed, round_steps
from attnviz.views.learned.shown import Shown
from attnviz.views.settings_line import KIND, settings_line
from attnviz.views.trace import groups as groups_of
from attnviz.views.view import Excerpt, Group, Name, Page, Shot, View, page_of
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
