"""The View of a Trace: its parts as tables, heatmaps, arcs or a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.attention.arithmetic import MixedBy
from attnviz.cells import Cells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.parts import PARTS_BY_SHOW_NAME, SHOW_RECEIVED, Part
from attnviz.traces.trace import Layer, Trace, weights_only_reason
from attnviz.traces.weights import Stage, tensor_to_numpy
from attnviz.views.answer_tables import (
    all_answers_grids,
    answer_bars,
    answers_title,
    best_answers_grid,
    changed_answer_groups,
)
from attnviz.views.attention_facts import do_rows_sum_to_one, has_mask
from attnviz.views.conclusions.weight_titles import cells_in_title, head_weights_title
from attnviz.views.drawing_ways import (
    SEGMENT_RULES,
    choose_way,
    refuse_impossible_way,
    refuse_logarithm,
    refuse_long_drawing,
)
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis, plain_axis
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, with_common_scales
from attnviz.views.grids.scales import centred_scale, colorless_scale, weight_scale
from attnviz.views.head_vectors import is_scaled_by_root
from attnviz.views.headline import (
    CONTEXT_PRODUCT,
    SCORES_PRODUCT,
    has_all_parts,
    order_parts,
    parts_title,
    product_groups,
)
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.notes import blind_rows_note, closing_notes, row_sums_note
from attnviz.views.origin_words import add_role_titles, vector_axis
from attnviz.views.reading import (
    arcs_groups,
    attention_head_name,
    generation_start,
    has_single_attention,
    query_readings,
    sentence_groups,
    token_axis,
    untitled_readings,
)
from attnviz.views.trace_choices import (
    PICTURE_PARTS,
    TraceChoices,
    is_pooled,
    is_streamed,
    shared_fields,
)
from attnviz.views.trace_data import build_trace_data, explore_trace
from attnviz.views.view import (
    FINDINGS_GROUP,
    READINGS_GROUP,
    Excerpt,
    Group,
    Page,
    PanelTitle,
    TableData,
    View,
)
from attnviz.wording.rules import check_rules
from attnviz.wording.words import and_list

SCREEN_PARTS = ("weights", "context")
ANSWER_PARTS = ("prediction",)
EXCERPT_PREFIXES = ("weights ", "prediction")
BLOCK_PARTS = ("outputs",)
HEAD_GROUP_PARTS = ("weights", "readings")  # groups that have a panel for each head
UNCUT_PARTS = ("tokens", "embeddings", "keys", "values")  # shown in full beside a query's row
# What can be shown of a trained model that returns only its weights.
TRAINED_WEIGHT_PARTS = ("tokens", "embeddings", "weights", "prediction")
GIVEN_WEIGHT_PARTS = ("tokens", "weights")
TRAINED_MODEL_REASONS = {
    "outputs": "what a trained model computes after attention is not kept",
    "prediction": "this model gives no answers here",
}
SOFTMAX_INPUT_NOTE = "scores as the softmax receives them"
WEIGHTS_NAMES: dict[MixedBy, str] = {  # titles of weights
    "softmax": "weights",
    "dropout": "weights after dropout",
    "hand": "weights by hand",
    "mistake": "✗ weights",
}


def view(
    trace: Trace,
    *,
    show: Sequence[str] | None = None,
    query: int | str | None = None,
    as_: str | None = None,
    predict: bool = False,
    layer: int | str | None = None,
    head: int | str | None = None,
    log: bool = False,
    part: str | None = None,
    live: bool = False,
    segments: str | Mapping[str, str | range] | None = None,
) -> View:
    """Return the View of parts of a Trace; with a query, of what that token attends to.

    With a query and `show`, the query's row of each part and everything that it attends to are
    shown; `show` "received" alone colours the text by how much attention each token receives.
    `as_` is the drawing style for weights: "heatmap", "arcs", "sentence" or "terminal".
    `predict` adds what the model answers at each position. A `layer`, a `head` or both restrict the
    view to the weights of these heads and refuse `show`. A trained transformer, or given weights of
    several heads, get the View of `inspect` unless `show` or `as_` is given. A `part`, such as
    "1200:1300,1:400", restricts it to the weights of these queries on these keys, from 1. A `live`
    page contains the model, and computes it for other texts. `segments`, such as "paragraphs", are
    parts of the text of which it is shown how much the last token, or the query, reads.
    """
    choices = TraceChoices(show, query, as_, predict, layer, head, log, part, live, segments)
    check_rules(choices, SEGMENT_RULES)
    road = next(road for road in ROADS if road.when(trace, choices))
    make_view: Callable[[Trace, TraceChoices], View] = resolve_name(road.function)
    return make_view(trace, choices)


def _shows_received(trace: Trace, choices: TraceChoices) -> bool:
    return choices.parts == (SHOW_RECEIVED,) and not choices.has_head and not choices.log


def _is_long_map(trace: Trace, choices: TraceChoices) -> bool:
    """Return whether only maps are shown, of weights that are computed where they are shown."""
    ways = (None, "terminal", "heatmap") if is_pooled(trace) else (None, "terminal")
    is_map = choices.as_ in ways and not (choices.has_head or choices.predict)
    return is_map and choices.parts in (None, PICTURE_PARTS) and is_streamed(trace)


def _shows_heads(trace: Trace, choices: TraceChoices) -> bool:
    """Return whether heads are shown as `attnviz inspect` shows them."""
    is_external = trace.external_origin is not None
    has_several = is_external and sum(layer.heads for layer in trace.layers) > 1
    has_many_heads = trace.trained is not None or has_several
    return choices.has_head or (has_many_heads and choices.show is None and choices.as_ is None)


def refuse_undrawable(trace: Trace, choices: TraceChoices) -> None:
    """Refuse what only a map of a whole long text has, and other parts beside single heads."""
    refuse_long_drawing(choices.as_, len(trace.tokens))
    refuse_logarithm(log=choices.log)
    if choices.has_head and choices.show is not None:
        raise AttnvizError(
            "layer and head show the weights of single heads and cannot be combined with show",
            "leave out show, or layer and head",
            about="show",
        )


def view_heads(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of `attnviz inspect`, for traces with many heads."""
    if choices.segments is None:
        refuse_undrawable(trace, choices)
    from attnviz.analysis.inspection.inspect_options import InspectOptions
    from attnviz.analysis.inspection.inspection import Inspection
    from attnviz.analysis.inspection.token_query import command_options
    from attnviz.views.inspection.view import view as view_of_inspection

    names = ("layer", "head", "query", "as_", "predict", "segments")
    options = InspectOptions(**{name: getattr(choices, name) for name in names})
    inspection = Inspection(trace=trace, options=options)
    changed = command_options(inspection.trace, inspection.options)
    is_whole = changed.keys().isdisjoint(("layer", "head"))
    is_whole &= not isinstance(options.segments, Mapping)  # which no option can name
    command = source_command("run", build_source(trace), **changed) if is_whole else None
    return view_of_inspection(inspection, command=command)


def view_parts(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of the chosen parts in a drawing style, each by default if not chosen.

    Refuses an unknown query, part or style, and a style that cannot draw these parts.
    """
    refuse_undrawable(trace, choices)
    show, query, as_, parts = choices.show, choices.query, choices.as_, choices.parts
    if as_:
        refuse_impossible_way(choices)
    drawing_way = choose_way(as_, query, parts)
    position = None if query is None else trace.tokens.index(query, "query")
    groups = _screen_and_picture(trace, parts, position, drawing_way, predict=choices.predict)
    typed = None if query is None else trace.tokens.as_typed(query)
    query_grids = () if position is None else tuple(query_readings(trace, position))
    only_answers = tuple(parts or ()) == ANSWER_PARTS
    answers_finding = answers_title(trace, position, answers_alone=only_answers)
    if not (answers_finding or parts) and position is None:
        screen, picture = groups
        cells = cells_in_title(trace)
        groups = screen, [_with_marks(group, cells) for group in picture]
    explore, data = _explorer_and_data(trace, position)
    shared = shared_fields(
        trace,
        *groups,
        {"show": choices.show_text, "query": typed, "as_": as_, "predict": choices.predict or None},
        screen_parts=parts or (_default_parts(trace) if position is None else PICTURE_PARTS),
        picture_parts=parts or PICTURE_PARTS,
    )
    closing = (
        *_uncut_parts_note(trace, shared["screen"], position, drawing_way),
        *closing_notes(trace, position),
    )
    return View(
        **shared,
        headline=answers_finding or _parts_headline(trace, parts, position),
        excerpt=_weights_excerpt(shared["screen"]) if show is None and not query_grids else None,
        closing=tuple(sentence for sentence in closing if sentence != answers_finding),
        sentences=() if drawing_way == "heatmap" else query_grids,
        as_screen=as_ == "terminal",
        head_explorer=explore,
        slides=partial(_trace_slides, trace, shared["picture"], position),
        data=data,
    )


@dataclass(frozen=True)
class Road:
    """One way from a Trace to its View: when it is taken, and the function that makes the View."""

    when: Callable[[Trace, TraceChoices], object]
    function: str  # "module:function", imported only when it is taken


ROADS = (  # the first that fits is taken
    Road(lambda _, choices: choices.live, "attnviz.views.live_page:view_live"),
    Road(lambda _, choices: choices.part is not None, "attnviz.views.long_text:view_part"),
    Road(_shows_received, "attnviz.views.received:view_received"),
    Road(lambda _, choices: choices.segments is not None, "attnviz.views.trace:view_heads"),
    Road(_is_long_map, "attnviz.views.long_text:view_long"),
    Road(_shows_heads, "attnviz.views.trace:view_heads"),
    Road(lambda *_: True, "attnviz.views.trace:view_parts"),
)


def _explorer_and_data(
    trace: Trace, query: int | None
) -> tuple[Callable[[], HeadExplorer], TableData]:
    """Return the heads for a reader to choose from, and the numbers: every weight, or what was
    measured of weights that are computed only where they are shown.
    """
    if not is_streamed(trace):
        return partial(explore_trace, trace, query), build_trace_data(trace)
    from attnviz.views.heads.data import long_text_data
    from attnviz.views.heads.explorer import explore_heads
    from attnviz.views.heads.grid import measured_heads

    heads = measured_heads(trace)
    return partial(explore_heads, heads, log=False), long_text_data(trace, heads)


def _parts_headline(trace: Trace, parts: Sequence[str] | None, query: int | None) -> str:
    """Return the title over parts; over weights of a text whose map has blocks, what was found of
    the first head.
    """
    if not is_pooled(trace) or query is not None or "weights" not in (parts or PICTURE_PARTS):
        return parts_title(trace, parts, query)
    from attnviz.views.heads.findings import headline_of, whole_finding
    from attnviz.views.heads.grid import measured_heads

    head = measured_heads(trace)[0]
    return headline_of(head, whole_finding(head))


def _trace_slides(trace: Trace, picture: Page, query: int | None) -> Excerpt:
    """Return the groups for slides, with findings as titles of heads' maps; single panels,
    models written by hand and maps of blocks keep their titles.
    """
    by_hand = trace.model is not None and trace.model.by_hand
    if len(picture.panels) == 1 or by_hand or is_pooled(trace):
        return Excerpt(picture.groups, "")
    layer_by_group = {
        f"{part_name} {layer.name}": layer
        for layer in trace.attention_layers
        for part_name in HEAD_GROUP_PARTS
    }
    groups = list(picture.groups)
    for index, group in enumerate(groups):
        if group.name in layer_by_group and group.kind == "free":
            layer, heads = layer_by_group[group.name], range(len(group.panels))
            titles = (PanelTitle(head_weights_title(trace, layer, head, query)) for head in heads)
            groups[index] = Group(FINDINGS_GROUP, group.panels, panel_titles=tuple(titles))
    return Excerpt(tuple(groups), "")


def _screen_and_picture(
    trace: Trace, show: Sequence[str] | None, query: int | None, drawing_way: str, *, predict: bool
) -> tuple[list[Group], list[Group]]:
    """Return the groups for a screen and for a picture; `sentence` and `arcs` draw only weights."""
    if query is None:
        screen = part_groups(trace, show or _default_parts(trace))
        picture = add_role_titles(trace, equation_groups(trace, show or PICTURE_PARTS))
    elif tuple(show or ()) == ANSWER_PARTS and drawing_way == "heatmap":
        screen = picture = [Group("prediction", (answer_bars(trace, query),))]
    elif show and drawing_way == "heatmap":
        screen = picture = part_groups(trace, show, query)
    else:
        screen = picture = [Group(READINGS_GROUP, tuple(query_readings(trace, query)))]
    if drawing_way == "heatmap" and query is not None and not show:
        picture = [untitled_readings(query_readings(trace, query))]
    if drawing_way == "sentence" and query is not None:
        picture = sentence_groups(trace, query, [*_head_commands(trace, query).values()])
        picture += [] if predict else changed_answer_groups(trace, query)
    if drawing_way == "arcs":
        weights = part_groups(trace, PICTURE_PARTS)
        picture = arcs_groups(weights, query, _head_commands(trace, query, as_="arcs"))
    answers = [Group("prediction", (best_answers_grid(trace, query),))] if predict else []
    return [*screen, *answers], [*picture, *answers]


def _with_marks(group: Group, cells: Mapping[str, tuple[int, int]]) -> Group:
    """Return a group of weights with a frame around the cell of each head that is named."""
    by_title = {f"weights {name}".strip(): cell for name, cell in cells.items()}

    def mark(panel: Any) -> Any:
        if not isinstance(panel, Grid) or panel.title not in by_title:
            return panel
        row, column = by_title[panel.title]
        return replace(panel, marks=((row, column, column + 1),))

    return group.with_panels(mark)


def _head_commands(trace: Trace, query: int | None, **drawing: str) -> dict[str, str]:
    """Return, by title of a head's map, the command that draws that head alone; none for random
    vectors. `drawing`: more options, such as as_="arcs"."""
    command = source_command("inspect", build_source(trace))
    if command is None or (trace.trained is None and trace.model is None):
        return {}
    query_option = {} if query is None else {"query": trace.tokens.as_typed(query)}
    lines = {}
    for layer in trace.layers:
        for head in range(layer.heads):
            title = head_title(WEIGHTS_NAMES[layer.attended.mixed_by], trace, layer, head)
            options = {**query_option, "layer": layer.layer, "head": head, **drawing}
            lines[title] = command.with_options(**options).line
    return lines


def _default_parts(trace: Trace) -> tuple[str, ...]:
    """Return the parts that a screen shows by default: only weights for a model that learned,
    because its vectors are wide and single numbers in them mean nothing.
    """
    model = trace.model
    if trace.weights_alone or (model is not None and not model.by_hand):
        return PICTURE_PARTS
    return (*SCREEN_PARTS, *(BLOCK_PARTS if trace.layers[0].block else ()))


def _weights_excerpt(screen: Page) -> Excerpt | None:
    """Return only the groups of weights and answers; None if there are none or that leaves nothing
    out.
    """
    kept_groups = tuple(group for group in screen.groups if group.name.startswith(EXCERPT_PREFIXES))
    omitted_groups = [group for group in screen.groups if group not in kept_groups]
    omitted_parts = dict.fromkeys(group.name.split()[0] for group in omitted_groups)
    if not kept_groups or not omitted_parts:
        return None
    return Excerpt(kept_groups, f"--show {','.join(omitted_parts)} shows the vectors")


def part_groups(trace: Trace, show: Sequence[str], query: int | None = None) -> list[Group]:
    """Return a Group for each part of each attention in the order of computation, with all rows or,
    of most parts, only the query's; refuses parts of which nothing can be shown.
    """
    return [
        Group(f"{part} {layer}", tuple(grids))
        for layer, parts in _part_grids(trace, show, query).items()
        for part, grids in parts.items()
        if grids
    ]


def _query_rows(query: int | None, part: Part, grids: list[Grid]) -> list[Grid]:
    """Return the grids cut to the query's row; unchanged without a query and for UNCUT_PARTS."""
    if query is None or part.show in UNCUT_PARTS:
        return grids
    return [grid.part(slice(query, query + 1)) for grid in grids]


def _uncut_parts_note(
    trace: Trace, screen: Page, query: int | None, drawing_way: str
) -> tuple[str, ...]:
    """Return a note on which parts keep all rows although one query is selected; else empty."""
    shown_parts = dict.fromkeys(group.name.split()[0] for group in screen.groups)
    uncut_parts = [name for name in shown_parts if name in UNCUT_PARTS]
    if drawing_way != "heatmap" or query is None or not uncut_parts:
        return ()
    note = f"every row of {and_list(uncut_parts)} is shown"
    if len(uncut_parts) < len(shown_parts):
        note += f"; of the rest, only the row of {quoted_token(trace.tokens, query)}"
    return (note,)


def equation_groups(trace: Trace, show: Sequence[str]) -> list[Group]:
    """Return a Group for each part, with products such as `Q · Kᵀ = scores` as one for each
    head.
    """
    parts = _part_grids(trace, show, of_heads=has_all_parts(CONTEXT_PRODUCT, show))
    products_by_layer = {
        layer.name: [
            *[SCORES_PRODUCT] * layer.has_product_scores,
            *[CONTEXT_PRODUCT] * (not layer.off),
        ]
        for layer in trace.attention_layers
    }
    return [
        group
        for name, grids in parts.items()
        for group in product_groups(name, grids, products_by_layer[name])
    ]


def _part_grids(
    trace: Trace, show: Sequence[str], query: int | None = None, *, of_heads: bool = False
) -> dict[str, dict[str, list[Grid]]]:
    """Return the grids by attention and part, on common scales; refuses parts without any grid.

    `of_heads` shows the context vectors of each head before they are joined.
    """
    ordered_parts = [PARTS_BY_SHOW_NAME[name] for name in order_parts(show, [*PARTS_BY_SHOW_NAME])]
    shown_grids = partial(_grids_beside_parts, trace, show=show, of_heads=of_heads)
    grids_by_part = [
        (layer, part, _query_rows(query, part, shown_grids(layer, part)))
        for layer in trace.attention_layers
        for part in ordered_parts
    ]
    scaled_grids = iter(with_common_scales([grid for *_, grids in grids_by_part for grid in grids]))
    parts: dict[str, dict[str, list[Grid]]] = {}
    for layer, part, grids in grids_by_part:
        parts.setdefault(layer.name, {})[part.show] = [next(scaled_grids) for _ in grids]
    if not any(grids for *_, grids in grids_by_part):
        raise _nothing_to_show_error(trace, show)
    return parts


def _grids_beside_parts(
    trace: Trace, layer: Layer, part: Part, *, show: Sequence[str], of_heads: bool
) -> list[Grid]:
    """Return the grids of a part in the form that suits the other parts shown; may be empty."""
    if trace.weights_alone and part.show not in _parts_with_weights_only(trace):
        return []
    if of_heads and part.show == "context":
        return head_context_grids(trace, layer)
    softmax_inputs = _softmax_input_grids(trace, layer, part, show)
    return softmax_inputs or attention_part_grids(trace, layer, part)


def _softmax_input_grids(trace: Trace, layer: Layer, part: Part, show: Sequence[str]) -> list[Grid]:
    """Return scores as the softmax receives them, where these suit the weights; else empty."""
    needs_raw_scores = has_all_parts(SCORES_PRODUCT, show) or {"scaled", "masked"} & {*show}
    by_softmax = layer.attended.mixed_by in ("softmax", "dropout")
    if part.show != "scores" or "weights" not in show or needs_raw_scores or not by_softmax:
        return []
    changes = _score_changes(layer)
    if not changes:
        return []
    name = f"scores {', '.join(changes)}"
    return scores_grids(name, trace, layer, "masked scores", SOFTMAX_INPUT_NOTE)


def _score_changes(layer: Layer) -> list[str]:
    """Return what is done to the scores before the softmax, such as `scaled` and `masked`."""
    return [
        *(["scaled"] if layer.scale != 1 else []),
        *(["capped"] if layer.attended.capped_scores is not None else []),
        *(["lowered by distance"] if layer.attended.bias is not None else []),
        *(["shifted by a mask"] if layer.attended.mask is not None else []),
        *(["masked"] if has_mask(layer) else []),
    ]


def _parts_with_weights_only(trace: Trace) -> tuple[str, ...]:
    return TRAINED_WEIGHT_PARTS if trace.external_origin is None else GIVEN_WEIGHT_PARTS


def _nothing_to_show_error(trace: Trace, show: Sequence[str]) -> AttnvizError:
    """Return the error that says why none of these parts can be shown, and which can."""
    is_weights_only = trace.weights_alone
    reason_by_part = {} if is_weights_only else _missing_part_reasons(trace)
    names = _parts_with_weights_only(trace) if is_weights_only else PARTS_BY_SHOW_NAME
    reasons = dict.fromkeys(reason_by_part.get(name, weights_only_reason(trace)) for name in show)
    problem = f"cannot show {and_list(list(show))}: {', and '.join(reasons)}"
    return AttnvizError(problem, f"name some of: {', '.join(names)}")


def _missing_part_reasons(trace: Trace) -> dict[str, str]:
    """Return, by name of part, why it is missing here although other traces have it."""
    is_scaled = trace.layers[0].scale != 1 or trace.variant.scaled
    reasons = {
        "queries": "the scores are given",
        "keys": "the scores are given",
        "scaled": "scaling changes no score" if is_scaled else "the scores are not scaled",
        "masked": "nothing is masked",
        "outputs": "only a transformer block has outputs (add --layers 1)",
        "prediction": "only a model predicts something (try --model agreement)",
    }
    return reasons if trace.trained is None else reasons | TRAINED_MODEL_REASONS


def attention_part_grids(trace: Trace, layer: Layer, part: Part) -> list[Grid]:
    """Return the grids of a part of one attention, one in all or for each head; may be empty."""
    if part.show == "tokens":
        return _tokens_grids(trace, layer)
    if part.show == "prediction":
        return all_answers_grids(trace) if layer is trace.layers[-1] else []
    if part.show == "weights":
        return weights_grids(trace, layer, "mixing", layer.attended.mixed_by)
    if part.stage is not None:
        return _score_stage_grids(trace, layer, part, part.stage)
    tensor = part.find(trace, layer)
    is_first_attention = layer.layer == 0 and layer.memory is None
    if tensor is None or (part.show == "embeddings" and not is_first_attention):
        return []
    if part.axes[0] == "head":
        tokens = trace.keys_of(layer) if part.axes[1] == "key" else trace.tokens
        rows = token_axis(part.axes[1].replace("token", "query"), tokens)
        return [
            vectors_grid(
                _shared_heads_title(part.words, trace, layer, head, len(tensor)),
                head_vectors,
                rows,
                vector_axis(trace, layer, part.axes[-1], head_vectors.shape[-1], head),
            )
            for head, head_vectors in enumerate(tensor)
        ]
    side = "token" if part.show == "embeddings" else "query (reads)"
    is_unnumbered = has_single_attention(trace) or part.show == "embeddings"
    title = part.words if is_unnumbered else f"{part.words} {layer.name}"
    columns = vector_axis(trace, layer, part.axes[-1], tensor.shape[-1])
    grid = vectors_grid(title, tensor, token_axis(side, trace.tokens), columns)
    return [replace(grid, note=blind_rows_note(trace)) if part.show == "context" else grid]


def _score_stage_grids(trace: Trace, layer: Layer, part: Part, stage: Stage) -> list[Grid]:
    """Return the scores of each head at one stage; empty where that stage changes nothing."""
    changes = _score_changes(layer)
    is_masked = has_mask(layer) or layer.attended.mask is not None
    if part.show == "scaled" and "scaled" not in changes:
        return []
    if part.show == "masked" and not is_masked:
        return []
    note = _score_stage_note(trace, layer, stage, changes)
    return scores_grids(part.words, trace, layer, stage, note)


def _score_stage_note(trace: Trace, layer: Layer, stage: Stage, changes: Sequence[str]) -> str:
    """Return how scores at a stage are computed, and what is not yet done to them."""
    is_compared = trace.variant.compared and layer.has_product_scores
    if stage == "masked scores":
        return "" if layer.mistake else SOFTMAX_INPUT_NOTE
    if stage == "scaled scores":
        unscaled = "query times key" if is_compared else "scores"
        return f"scaled scores = {unscaled}{_scale_factor_text(layer)}"
    pending_text = f", not yet {and_list(changes)}" if changes else ""
    if not trace.variant.compared:
        return f"queries and keys are not compared: every score is 0{pending_text}"
    if is_compared:
        return f"scores = query times key{pending_text}"
    is_additive = layer.w_score is not None
    return (
        f"{'scores = w_score · tanh(query + key)' if is_additive else 'given scores'}{pending_text}"
    )


def _scale_factor_text(layer: Layer) -> str:
    """Return the factor of the scores, as ` / √3` or ` times 0.5`."""
    by_root = is_scaled_by_root(layer)
    return f" / √{layer.head_dim}" if by_root else f" times {layer.scale:.3g}"


def head_context_grids(trace: Trace, layer: Layer) -> list[Grid]:
    """Return a Grid of the context vectors of each head, before they are joined or projected."""
    rows = token_axis("query (reads)", trace.tokens)
    note = ""
    if layer.heads > 1:
        note = "context vectors of each head, before they are joined"
    elif getattr(layer.projections, "w_out", None) is not None:
        note = "context vectors before they are multiplied by W_o"
    grids = []
    for head, vectors in enumerate(layer.attended.contexts):
        title = head_title("context", trace, layer, head)
        columns = vector_axis(trace, layer, "head_value", vectors.shape[-1], head)
        grids.append(replace(vectors_grid(title, vectors, rows, columns), note=note))
    return grids


def _tokens_grids(trace: Trace, layer: Layer) -> list[Grid]:
    """Return the ids of the tokens that layer 0 reads as one Grid; empty for other layers."""
    if layer.layer:
        return []
    if layer.memory is None:
        return [tokens_grid("tokens", trace.tokens, "query (reads)")]
    return [tokens_grid("tokens of the memory", trace.keys_of(layer), "key (is read)")]


def tokens_grid(title: str, tokens: Tokens, side_title: str) -> Grid:
    """Return a Grid with a row for each token, which holds the token's id."""
    cells = unmasked_cells(np.asarray(tokens.ids)[:, None])
    rows, columns = token_axis(side_title, tokens), plain_axis("dimension", ["id"])
    return Grid(title, rows, columns, cells, colorless_scale("id"))


def scores_grids(
    name: str,
    trace: Trace,
    layer: Layer,
    stage: Stage,
    note: str = "",
    heads: Sequence[int] | None = None,
) -> list[Grid]:
    """Return a Grid of the scores of each head, or of `heads`, at a stage; scales may differ."""
    rows, columns = _query_and_key_axes(trace, layer)
    return [
        Grid(title, rows, columns, cells, centred_scale("score", cells), note=note, off=off)
        for title, cells, off in _head_cells(name, trace, layer, stage, heads)
    ]


def weights_grids(
    trace: Trace, layer: Layer, stage: Stage, mixed_by: MixedBy, heads: Sequence[int] | None = None
) -> list[Grid]:
    """Return a Grid of the weights of each head, or of `heads`, at a stage, with masked cells and a
    note on sums; maps of blocks where weights are computed only where they are shown.
    """
    chosen = range(layer.heads) if heads is None else heads
    if is_pooled(trace) and layer.long_weights is not None:
        from attnviz.views.heads.grid import head_grid, measured_head

        maps = [head_grid(measured_head(trace, layer, head), log=False) for head in chosen]
        names = (head_title(WEIGHTS_NAMES[mixed_by], trace, layer, head) for head in chosen)
        return [replace(grid, title=name) for grid, name in zip(maps, names, strict=True)]
    rows, columns = _query_and_key_axes(trace, layer)
    head_cells = list(_head_cells(WEIGHTS_NAMES[mixed_by], trace, layer, stage, chosen))
    sum_to_one = mixed_by == "softmax" and all(
        do_rows_sum_to_one(cells) for _, cells, _ in head_cells
    )
    border_note = GENERATED_NOTE if rows.border or columns.border else ""
    notes = (AXES_NOTE, row_sums_note(trace, mixed_by, sum_to_one), border_note)
    note = " · ".join(filter(None, notes))
    return [
        Grid(title, rows, columns, cells, weight_scale(cells), note=note, share=True, off=off)
        for title, cells, off in head_cells
    ]


def _head_cells(
    name: str, trace: Trace, layer: Layer, stage: Stage, heads: Sequence[int] | None
) -> Iterator[tuple[str, Cells, tuple[bool, ...]]]:
    """Yield the title of each head, or of `heads`, its cells, and for each row whether it is off
    (empty if none is).
    """
    for head in range(layer.heads) if heads is None else heads:
        off = (True,) * len(trace.tokens) if head in layer.off else ()
        title = f"{head_title(name, trace, layer, head)}{OFF_SUFFIX * bool(off)}"
        yield title, layer.weights.cells(stage, head), off


def vectors_grid(title: str, vectors: Tensor, rows: Axis, columns: Axis) -> Grid:
    cells = unmasked_cells(tensor_to_numpy(vectors))
    return Grid(title, rows, columns, cells, centred_scale("value", cells))


def head_title(name: str, trace: Trace, layer: Layer, head: int) -> str:
    """Return a name with the head, as in `weights L0H1`; the name alone for the only head."""
    if not has_single_attention(trace):
        return f"{name} {attention_head_name(trace, layer, head)}"
    return name if layer.heads == 1 else f"{name} · {attention_head_name(trace, layer, head)}"


def _shared_heads_title(name: str, trace: Trace, layer: Layer, group: int, groups: int) -> str:
    """Return a name with the heads that share these keys or values, `group` out of `groups`."""
    size = layer.heads // groups
    first, last = group * size, (group + 1) * size - 1
    if first == last:
        return head_title(name, trace, layer, first)
    layer_name = "" if has_single_attention(trace) else f"{layer.name} "
    return f"{name} · {layer_name}heads {first}–{last}"


def _query_and_key_axes(trace: Trace, layer: Layer) -> tuple[Axis, Axis]:
    """Return the axes of the queries and of the keys, with a line before generated tokens."""
    keys = trace.keys_of(layer)
    rows = token_axis("query (reads)", trace.tokens, generation_start(trace, trace.tokens))
    return rows, token_axis("key (is read)", keys, generation_start(trace, keys))
