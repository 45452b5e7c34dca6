"""The walk of a Trace: each step with what it does and why, its shapes, tables and arithmetic.

Attention has ten steps, whose numbers are the same in every variant. What some variants add
stands between two of them (`4b rotary`); what a transformer block adds follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnviz.tokens.token_lookup import find_query
from attnviz.traces.from_text import trace
from attnviz.traces.memory_estimate import refuse_oversized_steps
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.result import Showable
from attnviz.traces.source import build_source, refuse_changes_to_trace, source_command
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.section import Section, with_one_scale
from attnviz.views.notes import random_numbers_caveat
from attnviz.views.reading import quoted_token
from attnviz.views.settings_line import settings_line
from attnviz.views.steps import attention, block, prediction, scoring, vectors, why
from attnviz.views.steps.moments import moments_of
from attnviz.views.steps.pair import refuse_pair
from attnviz.views.steps.scene import Scene, StepSettings, build_scene
from attnviz.views.steps.step_selection import select_steps
from attnviz.views.steps.trained import refuse_walk_without_vectors
from attnviz.views.trace_data import build_trace_data, explore_trace
from attnviz.views.view import Group, View, build_page
from attnviz.wording.commands import changed_options as chosen_options
from attnviz.wording.keywords import with_checked_arguments

ATTENTION_STEPS: tuple[Callable[[Scene], Iterator[Section]], ...] = (
    vectors.tokens_step,
    vectors.inputs_step,
    block.steps_before_attention,
    vectors.projections_step,
    vectors.vectors_step,
    vectors.rotary_step,
    scoring.scores_step,
    scoring.scaling_step,
    scoring.soft_cap_step,
    scoring.alibi_step,
    scoring.additive_mask_step,
    attention.mask_step,
    attention.softmax_step,
    why.why_step,
    attention.mixing_steps,
    attention.weighted_values_step,
    attention.context_step,
)
# Steps whose arithmetic is written out for each key, and for each head alone.
STEPS_WRITTEN_BY_KEY = (
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
STEPS_WRITTEN_BY_HEAD = ("queries", "rotary", "context")
FIRST_BLOCK_STEP_NUMBER = 11  # the number of the step that follows those of attention


@dataclass(frozen=True, eq=False, repr=False)
class Walk(Showable):
    """The steps of a Trace that are asked for."""

    trace: Trace
    asked: StepSettings
    sections: tuple[Section, ...]
    step: str | None = None


@with_checked_arguments
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
        refuse_changes_to_trace(changes)
        traced = text
    else:
        traced = trace(text, **changes)
    query_position = None if query is None else find_query(traced.tokens, str(query))
    key_position = None if key is None else find_query(traced.keys, str(key), "--key")
    options = StepSettings(
        query=query_position, key=key_position, head=head, layer=layer, digits=digits, full=full
    )
    return Walk(traced, options, tuple(select_steps(step_sections(traced, options), step)), step)


def step_sections(
    traced: Trace, options: StepSettings | None = None, *, still: bool = False
) -> list[Section]:
    """Every step of one layer, with its number; `still` ones have no moments for an animation."""
    attentions = traced.layers[0].attentions
    by_row = [
        attention_layer
        for attention_layer in attentions
        if attention_layer.weights_on_demand is not None
    ]
    refuse_oversized_steps(sum(map(weight_count, attentions)), sum(map(weight_count, by_row)))
    refuse_walk_without_vectors(traced)
    here = build_scene(traced, options or StepSettings())
    if here.options.key is not None:
        refuse_pair(traced, here.layer, here.options.query)
    attention_sections = [section for make in ATTENTION_STEPS for section in make(here)]
    later_sections = (*block.steps_after_attention(here), *prediction.answer_steps(here))
    numbers = enumerate(later_sections, start=FIRST_BLOCK_STEP_NUMBER)
    numbered_sections = [replace(section, number=str(number)) for number, section in numbers]
    finished = [
        _finished_section(section, here, still=still)
        for section in (*attention_sections, *numbered_sections)
    ]
    return with_one_scale(finished)


def weight_count(layer: Layer) -> int:
    """How many weights there are, of all heads."""
    rows, columns = layer.weights.cells("mixing", 0).shape
    return layer.heads * rows * columns


def view(walk: Walk) -> View:
    """A panel for each step."""
    settings_text = settings_line(walk.trace)
    page = build_page(
        [Group("steps", walk.sections)],
        settings_text,
        random_numbers_caveat(walk.trace, PARTS_BY_SHOW_NAME),
    )
    title = _walk_title(walk)
    positions = {"query": walk.asked.query, "key": walk.asked.key}
    numbers = {
        name: None if position is None else str(position + 1)
        for name, position in positions.items()
    }
    options = chosen_options(walk.asked) | numbers | {"step": walk.step}
    return View(
        title=title,
        headline=_only_step_finding(walk) or title,
        settings=settings_text,
        screen=page,
        picture=page,
        explored=lambda: explore_trace(
            walk.trace,
            _followed_position(walk),
            walk.asked.key,
            layer=walk.asked.layer,
            head=walk.asked.head,
        ),
        following=lambda position: _steps_of_query(walk, position),
        data=build_trace_data(walk.trace),
        provenance=walk.trace.provenance,
        command=source_command("steps", build_source(walk.trace), **options),
    )


def _walk_title(walk: Walk) -> str:
    """What the steps lead to, of the token that is followed."""
    token_text = quoted_token(walk.trace.tokens, _followed_position(walk))
    return f"How {token_text} gets its context vector, step by step"


def _only_step_finding(walk: Walk) -> str:
    """What the only step that is asked for shows."""
    only_section = walk.sections[0] if len(walk.sections) == 1 else None
    return only_section.finding if only_section else ""


def _followed_position(walk: Walk) -> int:
    """The token that is asked for, or the last."""
    last_position = len(walk.trace.tokens) - 1
    return last_position if walk.asked.query is None else walk.asked.query


def _steps_of_query(current: Walk, position: int) -> tuple[str, tuple[Section, ...]]:
    """The title and the steps of a walk that follows another token."""
    followed_walk = replace(current, asked=replace(current.asked, query=position))
    sections = tuple(
        select_steps(
            step_sections(followed_walk.trace, followed_walk.asked, still=True), followed_walk.step
        )
    )
    return _only_step_finding(replace(followed_walk, sections=sections)) or _walk_title(
        followed_walk
    ), sections


def _finished_section(section: Section, scene: Scene, *, still: bool) -> Section:
    """With what is left out said, and what an animation shows of it."""
    return replace(
        section,
        remarks=(*section.remarks, *_unwritten_remarks(section, scene)),
        moments=() if still else moments_of(section, scene),
    )


def _unwritten_remarks(section: Section, scene: Scene) -> Sequence[str]:
    """What is not written out, said where something is."""
    name = section.name.removeprefix("cross-")
    if not section.sums or name not in (*STEPS_WRITTEN_BY_KEY, *STEPS_WRITTEN_BY_HEAD):
        return ()
    described = scene
    if name != section.name and scene.layer.cross is not None:
        described = replace(
            scene, layer=scene.layer.cross, options=replace(scene.options, key=None)
        )
    return described.unwritten_notes(by_key=name in STEPS_WRITTEN_BY_KEY)
