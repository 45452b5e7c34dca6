"""The walk of a Trace: each step with what it does and why, its shapes, tables and arithmetic.

Attention has ten steps, whose numbers are the same in every variant. A step that only some variants
have stands between two of them (`4b rotary`); those of a transformer block follow.
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
STEPS_WRITTEN_BY_KEY = (  # one sum per key and head
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
FIRST_BLOCK_STEP_NUMBER = 11


@dataclass(frozen=True, eq=False, repr=False)
class Walk(Showable):
    """The selected steps of a Trace."""

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
    options = StepSettings(
        query=None if query is None else find_query(traced.tokens, str(query)),
        key=None if key is None else find_query(traced.keys, str(key), "--key"),
        head=head,
        layer=layer,
        digits=digits,
        full=full,
    )
    return Walk(traced, options, tuple(select_steps(step_sections(traced, options), step)), step)


def step_sections(
    traced: Trace, options: StepSettings | None = None, *, still: bool = False
) -> list[Section]:
    """Returns every step of one layer, numbered; with `still`, without frames for animation."""
    attentions = traced.layers[0].attentions
    by_row = [each for each in attentions if each.weights_on_demand is not None]
    refuse_oversized_steps(sum(map(weight_count, attentions)), sum(map(weight_count, by_row)))
    refuse_walk_without_vectors(traced)
    scene = build_scene(traced, options or StepSettings())
    if scene.options.key is not None:
        refuse_pair(traced, scene.layer, scene.options.query)
    sections = [section for make in ATTENTION_STEPS for section in make(scene)]
    later = (*block.steps_after_attention(scene), *prediction.answer_steps(scene))
    for number, section in enumerate(later, start=FIRST_BLOCK_STEP_NUMBER):
        sections.append(replace(section, number=str(number)))
    return with_one_scale([_finished_section(each, scene, still=still) for each in sections])


def weight_count(layer: Layer) -> int:
    """Returns the number of weights in all heads of a layer."""
    rows, columns = layer.weights.cells("mixing", 0).shape
    return layer.heads * rows * columns


def view(walk: Walk) -> View:
    """Returns the View of a walk, with one panel per step."""
    settings_text, asked = settings_line(walk.trace), walk.asked
    caveat = random_numbers_caveat(walk.trace, PARTS_BY_SHOW_NAME)
    page = build_page([Group("steps", walk.sections)], settings_text, caveat)
    options = chosen_options(asked) | {"step": walk.step}
    for name, position in (("query", asked.query), ("key", asked.key)):
        options[name] = None if position is None else str(position + 1)
    title, query = _walk_title(walk), _followed_position(walk)
    return View(
        title=title,
        headline=_only_step_finding(walk.sections) or title,
        settings=settings_text,
        screen=page,
        picture=page,
        explored=lambda: explore_trace(
            walk.trace, query, asked.key, layer=asked.layer, head=asked.head
        ),
        following=lambda position: _steps_of_query(walk, position),
        data=build_trace_data(walk.trace),
        provenance=walk.trace.provenance,
        command=source_command("steps", build_source(walk.trace), **options),
    )


def _walk_title(walk: Walk) -> str:
    """Returns `How "it" gets its context vector, step by step`."""
    token_text = quoted_token(walk.trace.tokens, _followed_position(walk))
    return f"How {token_text} gets its context vector, step by step"


def _only_step_finding(sections: Sequence[Section]) -> str:
    """Returns the finding of the only selected step; empty if several are selected."""
    return sections[0].finding if len(sections) == 1 else ""


def _followed_position(walk: Walk) -> int:
    """Returns the position of the followed token, or of the last."""
    return len(walk.trace.tokens) - 1 if walk.asked.query is None else walk.asked.query


def _steps_of_query(current: Walk, position: int) -> tuple[str, tuple[Section, ...]]:
    """Returns the title and the steps of the walk for another query."""
    walk = replace(current, asked=replace(current.asked, query=position))
    sections = select_steps(step_sections(walk.trace, walk.asked, still=True), walk.step)
    return _only_step_finding(sections) or _walk_title(walk), tuple(sections)


def _finished_section(section: Section, scene: Scene, *, still: bool) -> Section:
    """Adds the notes on arithmetic that is not written out, and the frames of an animation."""
    return replace(
        section,
        remarks=(*section.remarks, *_unwritten_remarks(section, scene)),
        moments=() if still else moments_of(section, scene),
    )


def _unwritten_remarks(section: Section, scene: Scene) -> Sequence[str]:
    """Says which keys and heads are not written out; empty if all are."""
    name = section.name.removeprefix("cross-")
    if not section.sums or name not in (*STEPS_WRITTEN_BY_KEY, *STEPS_WRITTEN_BY_HEAD):
        return ()
    if name != section.name and scene.layer.cross is not None:
        options = replace(scene.options, key=None)
        scene = replace(scene, layer=scene.layer.cross, options=options)
    return scene.unwritten_notes(by_key=name in STEPS_WRITTEN_BY_KEY)
