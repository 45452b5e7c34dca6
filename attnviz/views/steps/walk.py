"""The walk of a Trace: each step with what it does and why, its shapes, tables and arithmetic.

Attention has ten steps, whose numbers are the same in every variant. What some variants add
stands between two of them (`4b rotary`); what a transformer block adds follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnviz.tokens.finding import find_query
from attnviz.traces.from_text import trace
from attnviz.traces.memory_estimate import refuse_steps
from attnviz.traces.parts import SHOWN
from attnviz.traces.result import Showable
from attnviz.traces.source import command_of, refuse_settings, source_of
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.section import Section, on_one_scale
from attnviz.views.notes import caveat
from attnviz.views.reading import in_quotes
from attnviz.views.settings_line import settings_line
from attnviz.views.steps import attention, block, prediction, scoring, vectors, why
from attnviz.views.steps.choosing import chosen
from attnviz.views.steps.moments import moments_of
from attnviz.views.steps.pair import refuse_pair
from attnviz.views.steps.scene import Scene, StepSettings, scene
from attnviz.views.steps.trained import refuse_weights_alone
from attnviz.views.trace_data import data_of, explored_of_trace
from attnviz.views.view import Group, View, page_of
from attnviz.wording.commands import chosen as chosen_options
from attnviz.wording.keywords import of_its_kinds

OF_ATTENTION: tuple[Callable[[Scene], Iterator[Section]], ...] = (
    vectors.tokens,
    vectors.inputs,
    block.before_attention,
    vectors.projections,
    vectors.vectors,
    vectors.rotary,
    scoring.scores,
    scoring.scaling,
    scoring.soft_cap,
    scoring.alibi,
    scoring.additive_mask,
    attention.mask,
    attention.softmax,
    why.why,
    attention.mixing,
    attention.weighted,
    attention.context,
)
# Steps whose arithmetic is written out for each key, and for each head alone.
BY_KEY = (
    "scores",
    "scaling",
    "soft-cap",
    "alibi",
    "position-bias",
    "additive-mask",
    "mask",
    "softmax",
    "why",
    "dropout",
    "weighted",
)
BY_HEAD = ("queries", "rotary", "context")
FIRST_OF_BLOCK = 11  # the number of the step that follows those of attention


@dataclass(frozen=True, eq=False, repr=False)
class Walk(Showable):
    """The steps of a Trace that are asked for."""

    trace: Trace
    asked: StepSettings
    sections: tuple[Section, ...]
    step: str | None = None


@of_its_kinds
def steps(
    text: str | Trace | None,
    *,
    query: int | str | None = None,
    key: int | str | None = None,
    step: str | None = None,
    head: int | None = None,
    layer: int | None = None,
    digits: int = 2,
    full: bool = False,
    **changes: Any,
) -> Walk:
    """Every number on the way, of a text or of a Trace that is there already.

    `changes` replace fields of the settings that a text is traced with.

    >>> from attnviz import steps
    >>> [softmax] = steps("I am learning", query="am", step="softmax", causal=True).sections
    >>> [each.text for each in softmax.sums][0]
    'weight(am, I) = exp(-0.75) / (exp(-0.75) + exp(2.63)) = 0.03'
    """
    if isinstance(text, Trace):
        refuse_settings(changes)
        traced = text
    else:
        traced = trace(text, **changes)
    place = None if query is None else find_query(traced.tokens, str(query))
    other = None if key is None else find_query(traced.keys, str(key), "--key")
    asked = StepSettings(query=place, key=other, head=head, layer=layer, digits=digits, full=full)
    return Walk(traced, asked, tuple(chosen(walk(traced, asked), step)), step)


def walk(trace: Trace, asked: StepSettings | None = None, *, still: bool = False) -> list[Section]:
    """Every step of one layer, with its number; `still` ones have no moments for an animation."""
    attentions = trace.layers[0].attentions
    by_row = [each for each in attentions if each.asked is not None]
    refuse_steps(sum(map(cells_of, attentions)), sum(map(cells_of, by_row)))
    refuse_weights_alone(trace)
    here = scene(trace, asked or StepSettings())
    if here.asked.key is not None:
        refuse_pair(trace, here.layer, here.asked.query)
    own = [section for make in OF_ATTENTION for section in make(here)]
    rest = (*block.after_attention(here), *prediction.answers(here))
    numbers = enumerate(rest, start=FIRST_OF_BLOCK)
    around = [replace(section, number=str(number)) for number, section in numbers]
    finished = [_finished(section, here, still=still) for section in (*own, *around)]
    return on_one_scale(finished)


def cells_of(layer: Layer) -> int:
    """How many weights there are, of all heads."""
    rows, columns = layer.weights.cells("mixing", 0).shape
    return layer.heads * rows * columns


def view(walk: Walk) -> View:
    """A panel for each step."""
    line = settings_line(walk.trace)
    page = page_of([Group("steps", walk.sections)], line, caveat(walk.trace, SHOWN))
    title = _what_happens(walk)
    places = {"query": walk.asked.query, "key": walk.asked.key}
    numbers = {name: None if place is None else str(place + 1) for name, place in places.items()}
    options = chosen_options(walk.asked) | numbers | {"step": walk.step}
    return View(
        title=title,
        headline=_finding(walk) or title,
        settings=line,
        screen=page,
        picture=page,
        explored=lambda: explored_of_trace(
            walk.trace,
            _followed(walk),
            walk.asked.key,
            layer=walk.asked.layer,
            head=walk.asked.head,
        ),
        following=lambda place: _of_query(walk, place),
        data=data_of(walk.trace),
        provenance=walk.trace.provenance,
        command=command_of("steps", source_of(walk.trace), **options),
    )


def _what_happens(walk: Walk) -> str:
    """What the steps lead to, of the token that is followed."""
    followed = in_quotes(walk.trace.tokens, _followed(walk))
    return f"How {followed} gets its context vector, step by step"


def _finding(walk: Walk) -> str:
    """What the only step that is asked for shows."""
    alone = walk.sections[0] if len(walk.sections) == 1 else None
    return alone.finding if alone else ""


def _followed(walk: Walk) -> int:
    """The token that is asked for, or the last."""
    last = len(walk.trace.tokens) - 1
    return last if walk.asked.query is None else walk.asked.query


def _of_query(shown: Walk, place: int) -> tuple[str, tuple[Section, ...]]:
    """The title and the steps of a walk that follows another token."""
    other = replace(shown, asked=replace(shown.asked, query=place))
    sections = tuple(chosen(walk(other.trace, other.asked, still=True), other.step))
    return _finding(replace(other, sections=sections)) or _what_happens(other), sections


def _finished(section: Section, here: Scene, *, still: bool) -> Section:
    """With what is left out said, and what an animation shows of it."""
    return replace(
        section,
        remarks=(*section.remarks, *_left_out(section, here)),
        moments=() if still else moments_of(section, here),
    )


def _left_out(section: Section, here: Scene) -> Sequence[str]:
    """What is not written out, said where something is."""
    name = section.name.removeprefix("cross-")
    if not section.sums or name not in (*BY_KEY, *BY_HEAD):
        return ()
    about = here
    if name != section.name and here.layer.cross is not None:
        about = replace(here, layer=here.layer.cross, asked=replace(here.asked, key=None))
    return about.left_out(by_key=name in BY_KEY)
