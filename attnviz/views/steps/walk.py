"""Walk: the steps of a Trace in order: what each does and why, its shapes and sums.

Attention has ten steps, whose numbers are the same in every variant. A step that only some variants
have stands between two of them (`4b rotary`); those of a transformer block follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from attnviz.cells import unmasked_cells
from attnviz.traces.from_text import trace
from attnviz.traces.inputs import build_source, refuse_changes_to_trace, source_command
from attnviz.traces.long_weights import computing_contexts_alone
from attnviz.traces.memory_estimate import refuse_oversized_steps
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.result import Showable
from attnviz.traces.settings import SettingKeywords, settings_refused
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import named_dimensions
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.grids.section import Section, with_one_scale
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.notes import random_numbers_caveat
from attnviz.views.origin_words import dimension_names, written_head_role
from attnviz.views.reading import token_axis
from attnviz.views.settings_line import settings_line
from attnviz.views.steps import (
    answer_steps,
    attention_steps,
    block_steps,
    pair,
    score_steps,
    step_sums,
    vector_steps,
)
from attnviz.views.steps.long_steps import long_row_data, long_sections, long_steps_error
from attnviz.views.steps.moments import step_moments
from attnviz.views.steps.scene import Scene, StepSettings, build_scene
from attnviz.views.steps.step_selection import STEPS, select_steps
from attnviz.views.steps.trained import refuse_walk_without_vectors
from attnviz.views.trace_data import build_trace_data, explore_trace
from attnviz.views.view import Group, View, build_page
from attnviz.wording.commands import changed_options as chosen_options
from attnviz.wording.keywords import with_checked_settings
from attnviz.wording.numbers import percent_text
from attnviz.wording.sums import MAX_TERMS
from attnviz.wording.words import and_list, as_sentence

if TYPE_CHECKING:
    from typing_extensions import Unpack

WHY_DESCRIPTION = (
    "Each number of a query says how strongly the token asks for something; the same number of a "
    "key says how strongly a token is found by it."
)
FOLLOW_TOKEN_HINT = "(--query TOKEN shows what that token asks for)"
MIN_WRITTEN_WEIGHT = 0.005  # smaller weights are left out


def why_step(scene: Scene) -> Iterator[Section]:
    """Yield the step on what each head looks for, and which features a query and its keys have.

    Nothing if the dimensions of queries and keys have no names.
    """
    layer, is_followed = scene.layer, scene.options.query is not None
    if layer.queries is None or layer.keys is None:
        return
    if not dimension_names(scene.trace, layer, "width"):
        return
    heads = scene.written_heads if is_followed else ()
    yield Section(
        *STEPS["why"],
        about=" ".join([WHY_DESCRIPTION, *_head_sentences(scene)]),
        grids=tuple(
            _product_grid(scene, head) for head in heads if _query_and_keys(scene, head)[0].any()
        ),
        sums=step_sums.match_sums(scene, layer),
        remarks=tuple(_feature_remarks(scene)) if is_followed else (FOLLOW_TOKEN_HINT,),
    )


def _head_sentences(scene: Scene) -> Iterator[str]:
    """Yield `In head 0, a word that refers back looks for a noun before it.` per known role."""
    for head in scene.shown_heads:
        role = written_head_role(scene.trace, scene.layer, head)
        if role:
            yield f"In head {head}, {role}." if scene.layer.heads > 1 else as_sentence(role)


def _product_grid(scene: Scene, head: int) -> Grid:
    """Return the followed query's numbers times those of each key in a head, not yet added up."""
    query, keys = _query_and_keys(scene, head)
    cells = unmasked_cells(keys * query)
    return Grid(
        scene.head_title(f"{scene.query_name} times each key", head),
        token_axis("key", scene.keys),
        named_dimensions(dimension_names(scene.trace, scene.layer, "width", head)),
        cells,
        centred_scale("score", cells),
        decimals=scene.options.digits,
    )


def _query_and_keys(
    scene: Scene, head: int
) -> tuple[Float[np.ndarray, "width"], Float[np.ndarray, "key width"]]:
    """Return the followed query's vector and the vectors of all keys in a head."""
    queries, keys = scene.layer.queries_with_keys()
    return tensor_to_numpy(queries[head, scene.followed_query]), tensor_to_numpy(keys[head])


def _feature_remarks(scene: Scene) -> Iterator[str]:
    """Yield what the followed token asks for, and the features of keys with most weight."""
    for head in scene.written_heads:
        query, keys = _query_and_keys(scene, head)
        prefix = f"head {head}: " if scene.layer.heads > 1 else ""
        features, weights = _features_text(scene, head, query), scene.stage_row("weights", head)
        yield f'{prefix}"{scene.query_name}" asks for {features or "nothing, so every score is 0"}'
        order = np.argsort(-np.asarray(weights), kind="stable")[:MAX_TERMS].tolist()
        for key in (key for key in order if features and weights[key] >= MIN_WRITTEN_WEIGHT):
            key_name = f'"{scene.token_name(scene.keys, key)}" ({percent_text(weights[key])})'
            key_features = _features_text(scene, head, keys[key]) or "nothing"
            yield f"{prefix}{key_name} is found by {key_features}"


def _features_text(scene: Scene, head: int, vector: Float[np.ndarray, "width"]) -> str:
    """Return the nonzero numbers with their names: `animal 14, place 8 and singular 6`."""
    numbers: list[float] = vector.tolist()
    names = dimension_names(scene.trace, scene.layer, "width", head)
    write = scene.style.for_values(*numbers)
    pairs = zip(names, numbers, strict=True)
    features = [f"{name} {write(number)}" for name, number in pairs if number]
    return and_list(features) if features else ""


ATTENTION_STEPS: tuple[Callable[[Scene], Iterator[Section]], ...] = (
    vector_steps.tokens_step,
    vector_steps.inputs_step,
    block_steps.steps_before_attention,
    vector_steps.projections_step,
    vector_steps.vectors_step,
    vector_steps.rotary_step,
    score_steps.scores_step,
    score_steps.scaling_step,
    score_steps.soft_cap_step,
    score_steps.alibi_step,
    score_steps.additive_mask_step,
    attention_steps.mask_step,
    attention_steps.softmax_step,
    why_step,
    attention_steps.mixing_steps,
    pair.angle_step,
    attention_steps.weighted_values_step,
    attention_steps.context_step,
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
    """The selected steps (`sections`) of a Trace, its `options`, and the selection."""

    trace: Trace
    options: StepSettings
    sections: tuple[Section, ...]
    step: str | None = None


@with_checked_settings(settings_refused)
def steps(
    text: str | Path | Trace | None,
    *,
    query: int | str | None = None,
    key: int | str | None = None,
    step: str | None = None,
    head: int | None = None,
    layer: int | None = None,
    digits: int = 2,
    full: bool = False,
    **changes: Unpack[SettingKeywords],
) -> Walk:
    """Return every number on the way, step by step, of a text or of an existing Trace.

    Keywords replace fields of the settings that a text is traced with; with a Trace they are
    refused.

    >>> from attnviz import steps
    >>> [softmax] = steps("I am learning", query="am", step="softmax", causal=True).sections
    >>> [each.text for each in softmax.sums][0]
    'weight(am, I) = exp(-0.75) / (exp(-0.75) + exp(2.63)) = 0.03'
    """
    if isinstance(text, Trace):
        refuse_changes_to_trace(changes)
        traced = text
    else:
        with preparing_steps(query):
            traced = trace(text, **changes)
    options = StepSettings(
        query=None if query is None else traced.tokens.index(query, "query"),
        key=None if key is None else traced.keys.index(key, "key"),
        head=head,
        layer=layer,
        digits=digits,
        full=full,
    )
    return Walk(traced, options, tuple(select_steps(step_sections(traced, options), step)), step)


def preparing_steps(query: int | str | None) -> AbstractContextManager[None]:
    """Return a context in which of a long text only what steps show is computed, and in which it is
    refused if there is no query.
    """
    return computing_contexts_alone(None if query is not None else long_steps_error())


def step_sections(
    traced: Trace, options: StepSettings | None = None, *, still: bool = False
) -> list[Section]:
    """Return every step of one layer, numbered from 1; with `still`, without frames for animation.

    Refuses a trace that is too large or has only weights, a missing layer or head, and a --key
    without a score to draw.
    """
    attentions = traced.layers[0].attention_layers
    if attentions[0].long_weights is not None:
        if options is None or options.query is None:
            raise long_steps_error()
        return long_sections(build_scene(traced, options))
    by_row = [each for each in attentions if each.weights_on_demand is not None]
    refuse_oversized_steps(sum(map(weight_count, attentions)), sum(map(weight_count, by_row)))
    refuse_walk_without_vectors(traced)
    scene = build_scene(traced, options or StepSettings())
    if scene.options.key is not None:
        pair.refuse_pair(traced, scene.layer, scene.options.query)
    sections = [section for make in ATTENTION_STEPS for section in make(scene)]
    later = (*block_steps.steps_after_attention(scene), *answer_steps.answer_steps(scene))
    for number, section in enumerate(later, start=FIRST_BLOCK_STEP_NUMBER):
        sections.append(replace(section, number=str(number)))
    return with_one_scale([_finished_section(each, scene, still=still) for each in sections])


def weight_count(layer: Layer) -> int:
    rows, columns = layer.weights.cells("mixing", 0).shape
    return layer.heads * rows * columns


def view(walk: Walk) -> View:
    """Return the View of a walk, with one panel per step.

    Its headline is what the only selected step found; for several steps, the title.
    """
    settings_text, walk_options = settings_line(walk.trace), walk.options
    caveat = random_numbers_caveat(walk.trace, PARTS_BY_SHOW_NAME)
    page = build_page([Group("steps", walk.sections)], settings_text, caveat)
    options = chosen_options(walk_options) | {"step": walk.step}
    sides = (("query", walk.trace.tokens), ("key", walk.trace.keys))
    for name, tokens in sides:
        position = options.get(name)
        options[name] = None if position is None else tokens.as_typed(position)
    title, query = _walk_title(walk), _followed_position(walk)
    is_long = walk.trace.layers[0].long_weights is not None
    explorer = partial(
        explore_trace,
        walk.trace,
        query,
        walk_options.key,
        layer=walk_options.layer,
        head=walk_options.head,
    )
    return View(
        title=title,
        headline=_only_step_finding(walk.sections) or title,
        settings=settings_text,
        screen=page,
        picture=page,
        head_explorer=None if is_long else explorer,
        query_steps=None if is_long else partial(_steps_of_query, walk),
        data=long_row_data(build_scene(walk.trace, walk_options))
        if is_long
        else build_trace_data(walk.trace),
        provenance=walk.trace.provenance,
        command=source_command("steps", build_source(walk.trace), **options),
    )


def _walk_title(walk: Walk) -> str:
    """Return `How "it" gets its context vector, step by step`."""
    token_text = quoted_token(walk.trace.tokens, _followed_position(walk))
    return f"How {token_text} gets its context vector, step by step"


def _only_step_finding(sections: Sequence[Section]) -> str:
    return sections[0].finding if len(sections) == 1 else ""


def _followed_position(walk: Walk) -> int:
    return len(walk.trace.tokens) - 1 if walk.options.query is None else walk.options.query


def _steps_of_query(current: Walk, position: int) -> tuple[str, tuple[Section, ...]]:
    """Return the headline and the selected steps for the query at `position`, without frames."""
    walk = replace(current, options=replace(current.options, query=position))
    sections = select_steps(step_sections(walk.trace, walk.options, still=True), walk.step)
    return _only_step_finding(sections) or _walk_title(walk), tuple(sections)


def _finished_section(section: Section, scene: Scene, *, still: bool) -> Section:
    """Return the step with notes on unwritten arithmetic, and with frames unless `still`."""
    return replace(
        section,
        remarks=(*section.remarks, *_unwritten_remarks(section, scene)),
        moments=() if still else step_moments(section, scene),
    )


def _unwritten_remarks(section: Section, scene: Scene) -> Sequence[str]:
    """Return notes on which keys and heads are not written out; empty if all are or none is."""
    name = section.name.removeprefix("cross-")
    if not section.sums or name not in (*STEPS_WRITTEN_BY_KEY, *STEPS_WRITTEN_BY_HEAD):
        return ()
    if name != section.name and scene.layer.cross is not None:
        options = replace(scene.options, key=None)
        scene = replace(scene, layer=scene.layer.cross, options=options)
    return scene.unwritten_notes(by_key=name in STEPS_WRITTEN_BY_KEY)
