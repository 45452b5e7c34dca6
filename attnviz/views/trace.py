"""A Trace, as what can be shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.attention.arithmetic import MixedBy
from attnviz.cells import Cells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.parts import PARTS_BY_SHOW_NAME, Part, parts_to_show
from attnviz.traces.source import build_source, source_command
from attnviz.traces.trace import Layer, Trace, weights_only_reason
from attnviz.traces.weights import Stage, tensor_to_numpy
from attnviz.views.conclusions.weight_titles import head_weights_title
from attnviz.views.drawing_ways import choose_way, default_way, refuse_impossible_way
from attnviz.views.facts import do_rows_sum_to_one, has_mask, has_product_scores
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, with_common_scales
from attnviz.views.grids.scales import centred_scale, colorless_scale, weight_scale
from attnviz.views.headline import (
    CONTEXT_PRODUCT,
    SCORES_PRODUCT,
    attention_headline,
    has_all_parts,
    order_parts,
    parts_title,
    product_groups,
)
from attnviz.views.notes import blind_rows_note, closing_notes, random_numbers_caveat, row_sums_note
from attnviz.views.origin_words import add_role_titles, vector_axis
from attnviz.views.prediction import (
    all_answers_grids,
    answer_bars,
    answers_title,
    best_answers_grid,
)
from attnviz.views.reading import (
    arcs_groups,
    attention_head_name,
    generation_start,
    has_single_attention,
    query_readings,
    quoted_token,
    sentence_groups,
    token_axis,
    untitled_readings,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.trace_data import build_trace_data, explore_trace
from attnviz.views.view import (
    FINDINGS_GROUP,
    READINGS_GROUP,
    Excerpt,
    Group,
    Page,
    PanelTitle,
    View,
    build_page,
)
from attnviz.wording.commands import changed_options
from attnviz.wording.words import and_list

SCREEN_PARTS = ("weights", "context")
PICTURE_PARTS = ("weights",)
ANSWER_PARTS = ("prediction",)
EXCERPT_PREFIXES = ("weights ", "prediction")
BLOCK_PARTS = ("outputs",)
HEAD_GROUP_PARTS = ("weights", "readings")  # groups that have a panel for each head
UNCUT_PARTS = ("tokens", "embeddings", "keys", "values")  # whichever token is asked for

TRAINED_WEIGHT_PARTS = (
    "tokens",
    "embeddings",
    "weights",
    "prediction",
)  # that a model hands back itself
GIVEN_WEIGHT_PARTS = ("tokens", "weights")
TRAINED_MODEL_REASONS = {
    "outputs": "what a trained model computes after attention is not kept",
    "prediction": "this model gives no answers here",
}
SOFTMAX_INPUT_NOTE = "scores as the softmax receives them"
FACTOR_TOLERANCE = 1e-6  # relative: a factor that is so near to 1/√d_k is meant to be it
WEIGHTS_NAMES: dict[MixedBy, str] = {  # what weights are called
    "softmax": "weights",
    "dropout": "weights after dropout",
    "hand": "weights by hand",
    "mistake": "✗ weights",
}


def view(
    trace: Trace,
    *,
    show: Sequence[str] | None = None,
    query: str | None = None,
    as_: str | None = None,
    predict: bool = False,
    layer: int | None = None,
    head: int | None = None,
) -> View:
    """Parts of a Trace as tables and pictures; with a query the sentence, as one token reads it.

    With a query and names after --show, the query's own row of those parts, and all that it
    reads. `as_` is the way in which weights are drawn: "heatmap", "arcs", "sentence" or
    "terminal". To `predict` is to show what a model answers, place by place. With a `layer`, a
    `head` or both the weights of these alone are shown.
    """
    has_many_heads = trace.trained is not None or (
        trace.handed is not None and _head_count(trace) > 1
    )
    if layer is not None or head is not None:
        _refuse_show_with_head(show)
    elif not has_many_heads or show is not None or as_ is not None:
        return _parts_view(trace, show, query, as_, predict=predict)
    return _inspection_view(trace, layer=layer, head=head, query=query, as_=as_, predict=predict)


def _head_count(trace: Trace) -> int:
    return sum(layer.heads for layer in trace.layers)


def _refuse_show_with_head(show: Sequence[str] | None) -> None:
    """With a layer or a head, only weights can be shown."""
    if show is not None:
        raise AttnvizError(
            "layer and head show the weights of single heads and cannot be combined with show",
            "leave out show, or layer and head",
            about="show",
        )


def _parts_view(
    trace: Trace, show: Sequence[str] | None, query: str | None, as_: str | None, *, predict: bool
) -> View:
    """Parts of a Trace, in one of the ways in which weights are drawn."""
    parts = None if show is None else parts_to_show(show)
    refuse_impossible_way(
        as_ or default_way(query, parts),
        parts if as_ else None,
        query,
        predict=predict and bool(as_),
    )
    drawing_way = choose_way(as_, query, parts)
    position = None if query is None else find_query(trace.tokens, str(query))
    screen, picture = _screen_and_picture(trace, parts, position, drawing_way, predict=predict)
    names = ",".join(show) if show else None
    options = {"show": names, "query": query, "as_": as_, "predict": predict or None}
    query_grids = () if position is None else tuple(query_readings(trace, position))
    answers_finding = answers_title(
        trace, position, answers_alone=tuple(parts or ()) == ANSWER_PARTS
    )
    return View(
        title=attention_headline(trace),
        headline=answers_finding or parts_title(trace, parts, position),
        settings=settings_line(trace),
        screen=screen,
        picture=picture,
        excerpt=_weights_excerpt(screen) if show is None and not query_grids else None,
        closing=tuple(
            sentence
            for sentence in _trace_closing(trace, screen, position, drawing_way)
            if sentence != answers_finding
        ),
        sentences=() if drawing_way == "heatmap" else query_grids,
        as_screen=as_ == "terminal",
        explored=lambda: explore_trace(trace, position),
        slides=partial(_trace_slides, trace, picture, position),
        data=build_trace_data(trace),
        provenance=trace.provenance,
        command=source_command("run", build_source(trace), **options),
    )


def _trace_slides(trace: Trace, picture: Page, query: int | None) -> Excerpt:
    """Each head under a title of its own; one that somebody wrote has the words of its writer."""
    by_hand = trace.model is not None and trace.model.by_hand
    if len(picture.panels) == 1 or by_hand:
        return Excerpt(picture.groups, "")
    layer_by_group = {
        f"{part_name} {layer.name}": layer
        for layer in trace.attentions
        for part_name in HEAD_GROUP_PARTS
    }
    return Excerpt(
        tuple(
            _finding_titles_group(trace, layer_by_group[group.name], group, query)
            if group.name in layer_by_group and group.kind == "free"
            else group
            for group in picture.groups
        ),
        "",
    )


def _finding_titles_group(trace: Trace, layer: Layer, group: Group, query: int | None) -> Group:
    heads = range(len(group.panels))
    titles = tuple(PanelTitle(head_weights_title(trace, layer, head, query)) for head in heads)
    return Group(FINDINGS_GROUP, group.panels, panel_titles=titles)


def _inspection_view(trace: Trace, **options: Any) -> View:
    """What `attnviz inspect` shows of a trained model, which has dozens of heads."""
    from attnviz.analysis.inspection.inspect_options import InspectOptions
    from attnviz.analysis.inspection.inspection import Inspection
    from attnviz.views.inspection.view import view as view_of_inspection

    looking = InspectOptions(
        **{name: value for name, value in options.items() if value is not None}
    )
    is_single_head = looking.layer is not None or looking.head is not None
    command = (
        None
        if is_single_head
        else source_command("run", build_source(trace), **changed_options(looking))
    )
    return view_of_inspection(Inspection(trace=trace, looking=looking), command=command)


def _trace_closing(
    trace: Trace, screen: Page, query: int | None, drawing_way: str
) -> tuple[str, ...]:
    """The sentences below everything else."""
    return (
        *_uncut_parts_note(trace, screen, query, drawing_way),
        *closing_notes(trace, query),
    )


def _screen_and_picture(
    trace: Trace, show: Sequence[str] | None, query: int | None, drawing_way: str, *, predict: bool
) -> tuple[Page, Page]:
    """What is on the screen, and what in a picture."""
    screen_parts, picture_parts = show or _default_parts(trace), show or PICTURE_PARTS
    if query is None:
        screen, picture = (
            part_groups(trace, screen_parts),
            add_role_titles(trace, equation_groups(trace, picture_parts)),
        )
    elif tuple(show or ()) == ANSWER_PARTS and drawing_way == "heatmap":
        screen = picture = [Group("prediction", (answer_bars(trace, query),))]
    elif show and drawing_way == "heatmap":
        screen = picture = part_groups(trace, show, query)
    else:
        screen_parts = picture_parts = PICTURE_PARTS
        screen = picture = [Group(READINGS_GROUP, tuple(query_readings(trace, query)))]
    if drawing_way == "heatmap" and query is not None and not show:
        picture = [untitled_readings(query_readings(trace, query))]
    if drawing_way == "sentence" and query is not None:
        picture = sentence_groups(trace, query)
    if drawing_way == "arcs":
        picture = arcs_groups(
            part_groups(trace, PICTURE_PARTS), query, _arcs_commands(trace, query)
        )
    settings = settings_line(trace)
    answers = [Group("prediction", (best_answers_grid(trace, query),))] if predict else []
    on_screen = build_page(
        [*screen, *answers], settings, random_numbers_caveat(trace, screen_parts)
    )
    return on_screen, build_page(
        [*picture, *answers], settings, random_numbers_caveat(trace, picture_parts)
    )


def _arcs_commands(trace: Trace, query: int | None) -> dict[str, str]:
    """The command that draws a head alone as lines, by the title of its table; of models alone."""
    command = source_command("inspect", build_source(trace))
    if command is None or (trace.trained is None and trace.model is None):
        return {}
    query_option = {} if query is None else {"query": query + 1}
    return {
        head_title(
            WEIGHTS_NAMES[layer.attended.mixed_by], trace, layer, head
        ): command.with_options(**query_option, layer=layer.layer, head=head, as_="arcs").line
        for layer in trace.layers
        for head in range(layer.heads)
    }


def _default_parts(trace: Trace) -> tuple[str, ...]:
    """What is on the screen where nobody says what to show.

    The vectors of a model that learned are wide, and their numbers mean nothing one by one.
    """
    model = trace.model
    if trace.weights_alone or (model is not None and not model.by_hand):
        return PICTURE_PARTS
    return (*SCREEN_PARTS, *(BLOCK_PARTS if trace.layers[0].block else ()))


def _weights_excerpt(screen: Page) -> Excerpt | None:
    """The weights alone, where there is no room for the vectors that they make."""
    kept_groups = tuple(group for group in screen.groups if group.name.startswith(EXCERPT_PREFIXES))
    omitted_parts = dict.fromkeys(
        group.name.split()[0] for group in screen.groups if group not in kept_groups
    )
    if not kept_groups or not omitted_parts:
        return None
    return Excerpt(kept_groups, f"--show {','.join(omitted_parts)} shows the vectors")


def draw(trace: Trace, show: Sequence[str] = SCREEN_PARTS) -> View:
    """Parts of a Trace, on a terminal and in pictures.

    >>> from attnviz import draw, trace
    >>> [grid] = draw(trace("I am"), ["weights"]).grids()
    >>> grid.rows.names, grid.values.shape
    (('1 I', '2 am'), (2, 2))
    """
    return view(trace, show=show)


def part_groups(trace: Trace, show: Sequence[str], query: int | None = None) -> list[Group]:
    """What is to be shown of each attention, in the order it happened; all, or of one token."""
    return [
        Group(f"{part} {layer}", tuple(grids))
        for layer, parts in _part_grids(trace, show, query).items()
        for part, grids in parts.items()
        if grids
    ]


def _query_rows(query: int | None, part: Part, grids: list[Grid]) -> list[Grid]:
    """What is one token's own: its row; and all rows of what it reads, or may be followed from."""
    if query is None or part.show in UNCUT_PARTS:
        return grids
    return [grid.part(slice(query, query + 1)) for grid in grids]


def _uncut_parts_note(
    trace: Trace, screen: Page, query: int | None, drawing_way: str
) -> tuple[str, ...]:
    """Which parts have a row for every token, though one is asked for."""
    if drawing_way != "heatmap":
        return ()
    shown_parts = dict.fromkeys(group.name.split()[0] for group in screen.groups)
    uncut_parts = [name for name in shown_parts if name in UNCUT_PARTS]
    if query is None or not uncut_parts:
        return ()
    other_parts_clause = f"; of the rest, only the row of {quoted_token(trace.tokens, query)}"
    return (
        f"every row of {and_list(uncut_parts)} is shown{other_parts_clause * (len(uncut_parts) < len(shown_parts))}",
    )


def equation_groups(trace: Trace, show: Sequence[str]) -> list[Group]:
    """The same, but what multiplies to another as the equation that it is, for each head."""
    parts = _part_grids(trace, show, of_heads=has_all_parts(CONTEXT_PRODUCT, show))
    products_by_layer = {
        layer.name: [
            *[SCORES_PRODUCT] * has_product_scores(layer),
            *[CONTEXT_PRODUCT] * (not layer.off),
        ]
        for layer in trace.attentions
    }
    return [
        group
        for name, grids in parts.items()
        for group in product_groups(name, grids, products_by_layer[name])
    ]


def _part_grids(
    trace: Trace, show: Sequence[str], query: int | None = None, *, of_heads: bool = False
) -> dict[str, dict[str, list[Grid]]]:
    """The grids of each part of each attention; context vectors as they are, or of each head."""
    ordered_parts = [PARTS_BY_SHOW_NAME[name] for name in order_parts(show, [*PARTS_BY_SHOW_NAME])]
    grids_by_part = [
        (layer, part, _grids_beside_parts(trace, layer, part, show, of_heads=of_heads))
        for layer in trace.attentions
        for part in ordered_parts
    ]
    query_grids = [
        (layer.name, part.show, _query_rows(query, part, grids))
        for layer, part, grids in grids_by_part
    ]
    scaled_grids = iter(with_common_scales([grid for *_, grids in query_grids for grid in grids]))
    parts: dict[str, dict[str, list[Grid]]] = {}
    for layer, part, grids in query_grids:
        parts.setdefault(layer, {})[part] = [next(scaled_grids) for _ in grids]
    if not any(grids for *_, grids in query_grids):
        raise _nothing_to_show_error(trace, show)
    return parts


def _grids_beside_parts(
    trace: Trace, layer: Layer, part: Part, show: Sequence[str], *, of_heads: bool
) -> list[Grid]:
    """A part, as it is shown beside others."""
    if trace.weights_alone and part.show not in _parts_with_weights_only(trace):
        return []
    if of_heads and part.show == "context":
        return head_context_grids(trace, layer)
    return _softmax_input_grids(trace, layer, part, show) or attention_part_grids(
        trace, layer, part
    )


def _softmax_input_grids(trace: Trace, layer: Layer, part: Part, show: Sequence[str]) -> list[Grid]:
    """Beside the weights that a softmax made of them, scores are those that it received."""
    by_softmax = layer.attended.mixed_by in ("softmax", "dropout")
    needs_raw_scores = has_all_parts(SCORES_PRODUCT, show) or not {"scaled", "masked"}.isdisjoint(
        show
    )
    if part.show != "scores" or "weights" not in show or needs_raw_scores:
        return []
    changes = _score_changes(layer) if by_softmax else []
    if not changes:
        return []
    name = f"scores {', '.join(changes)}"
    return scores_grids(name, trace, layer, "masked scores", SOFTMAX_INPUT_NOTE)


def _score_changes(layer: Layer) -> list[str]:
    """What is done to the product of query and key before the softmax."""
    return [
        *(["scaled"] if layer.scale != 1 else []),
        *(["capped"] if layer.attended.capped_scores is not None else []),
        *(["lowered by distance"] if layer.attended.bias is not None else []),
        *(["shifted by a mask"] if layer.attended.mask is not None else []),
        *(["masked"] if has_mask(layer) else []),
    ]


def _parts_with_weights_only(trace: Trace) -> tuple[str, ...]:
    """What can be shown where only the attention weights are known."""
    return TRAINED_WEIGHT_PARTS if trace.handed is None else GIVEN_WEIGHT_PARTS


def _nothing_to_show_error(trace: Trace, show: Sequence[str]) -> AttnvizError:
    is_weights_only = trace.weights_alone
    reason_by_part = {} if is_weights_only else _missing_part_reasons(trace)
    reasons = dict.fromkeys(reason_by_part.get(name, weights_only_reason(trace)) for name in show)
    return AttnvizError(
        f"cannot show {and_list(list(show))}: {', and '.join(reasons)}",
        f"name some of: {', '.join(_parts_with_weights_only(trace) if is_weights_only else PARTS_BY_SHOW_NAME)}",
    )


def _missing_part_reasons(trace: Trace) -> dict[str, str]:
    """Why a part that other traces have is missing here."""
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
    """A part of one attention: a grid, or one for each head; none where there is nothing."""
    if part.show == "tokens":
        return _tokens_grids(trace, layer)
    if part.show == "prediction":
        return all_answers_grids(trace) if layer is trace.layers[-1] else []
    if part.show == "weights":
        return weights_grids(trace, layer, "mixing", layer.attended.mixed_by)
    if part.stage is not None:
        return _score_stage_grids(trace, layer, part, part.stage)
    tensor = part.find(trace, layer)
    if tensor is None or (part.show == "embeddings" and not _is_first_attention(layer)):
        return []
    if part.axes[0] == "head":
        rows = token_axis(part.axes[1].replace("token", "query"), _row_tokens(trace, layer, part))
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
    rows, columns = (
        token_axis(side, trace.tokens),
        vector_axis(trace, layer, part.axes[-1], tensor.shape[-1]),
    )
    grid = vectors_grid(_vectors_title(part, trace, layer), tensor, rows, columns)
    return [replace(grid, note=blind_rows_note(trace)) if part.show == "context" else grid]


def _score_stage_grids(trace: Trace, layer: Layer, part: Part, stage: Stage) -> list[Grid]:
    """Scores at one stage; none where it is not another than the one before."""
    changes = _score_changes(layer)
    has_any_mask = has_mask(layer) or layer.attended.mask is not None  # which hides, or is added
    if (part.show == "scaled" and "scaled" not in changes) or (
        part.show == "masked" and not has_any_mask
    ):
        return []
    name = part.words
    return scores_grids(name, trace, layer, stage, _score_stage_note(trace, layer, stage, changes))


def _score_stage_note(trace: Trace, layer: Layer, stage: Stage, changes: Sequence[str]) -> str:
    """What scores at a stage are; empty where a mistake continues differently from them."""
    is_compared = trace.variant.compared and has_product_scores(layer)
    if stage == "masked scores":
        return "" if layer.mistake else SOFTMAX_INPUT_NOTE
    if stage == "scaled scores":
        return f"scaled scores = {'query times key' if is_compared else 'scores'}{_scale_factor_text(layer)}"
    pending_text = f", not yet {and_list(changes)}" if changes else ""
    if not trace.variant.compared:
        return f"queries and keys are not compared: every score is 0{pending_text}"
    scores_origin = (
        "scores = w_score · tanh(query + key)" if layer.w_score is not None else "given scores"
    )
    return (
        f"scores = query times key{pending_text}"
        if is_compared
        else f"{scores_origin}{pending_text}"
    )


def _scale_factor_text(layer: Layer) -> str:
    """What scores are multiplied by, as people write it."""
    root = sqrt(layer.head_dim)
    by_root = abs(layer.scale * root - 1) < FACTOR_TOLERANCE
    return f" / √{layer.head_dim}" if by_root else f" times {layer.scale:.3g}"


def head_context_grids(trace: Trace, layer: Layer) -> list[Grid]:
    """The context vectors of each head, before anything is done to them."""
    rows = token_axis("query (reads)", trace.tokens)
    note = ""
    if layer.heads > 1:
        note = "context vectors of each head, before they are joined"
    elif getattr(layer.projections, "w_out", None) is not None:
        note = "context vectors before they are multiplied by W_o"
    return [
        replace(
            vectors_grid(
                head_title("context", trace, layer, head),
                vectors,
                rows,
                vector_axis(trace, layer, "head_value", vectors.shape[-1], head),
            ),
            note=note,
        )
        for head, vectors in enumerate(layer.attended.contexts)
    ]


def _row_tokens(trace: Trace, layer: Layer, part: Part) -> Tokens:
    """The tokens that the rows of a part stand for."""
    is_of_keys = part.axes[:2] == ("head", "key") or part.show == "tokens"
    return trace.keys_of(layer) if is_of_keys else trace.tokens


def _is_first_attention(layer: Layer) -> bool:
    return layer.layer == 0 and layer.memory is None


def _vectors_title(part: Part, trace: Trace, layer: Layer) -> str:
    is_unnumbered = has_single_attention(trace) or part.show == "embeddings"
    return part.words if is_unnumbered else f"{part.words} {layer.name}"


def _tokens_grids(trace: Trace, layer: Layer) -> list[Grid]:
    if layer.layer:
        return []
    if layer.memory is None:
        return [tokens_grid("tokens", trace.tokens, "query (reads)")]
    return [tokens_grid("tokens of the memory", trace.keys_of(layer), "key (is read)")]


def tokens_grid(title: str, tokens: Tokens, side_title: str) -> Grid:
    """Each token with its id."""
    ids = np.asarray(tokens.ids)[:, None]
    columns = plain_axis("dimension", ["id"])
    return Grid(
        title, token_axis(side_title, tokens), columns, unmasked_cells(ids), colorless_scale("id")
    )


def scores_grids(name: str, trace: Trace, layer: Layer, stage: Stage, note: str = "") -> list[Grid]:
    """Scores of each head, raw or on their way to weights."""
    rows, columns = _query_and_key_axes(trace, layer)
    return [
        Grid(title, rows, columns, cells, centred_scale("score", cells), note=note, off=off)
        for title, cells, off in _head_cells(name, trace, layer, stage)
    ]


def weights_grids(trace: Trace, layer: Layer, stage: Stage, mixed_by: MixedBy) -> list[Grid]:
    """Weights of each head, what is hidden marked as such."""
    rows, columns = _query_and_key_axes(trace, layer)
    head_cells = list(_head_cells(WEIGHTS_NAMES[mixed_by], trace, layer, stage))
    rows_sum_to_one = mixed_by == "softmax" and all(
        do_rows_sum_to_one(cells) for _, cells, _ in head_cells
    )
    border_note = GENERATED_NOTE if rows.border or columns.border else ""
    note_parts = (AXES_NOTE, row_sums_note(trace, mixed_by, rows_sum_to_one), border_note)
    note = " · ".join(filter(None, note_parts))
    return [
        Grid(title, rows, columns, cells, weight_scale(cells), note=note, share=True, off=off)
        for title, cells, off in head_cells
    ]


def _head_cells(
    name: str, trace: Trace, layer: Layer, stage: Stage
) -> Iterator[tuple[str, Cells, tuple[bool, ...]]]:
    """Of each head its title, its numbers, and which of its rows are off: all, or none."""
    for head in range(layer.heads):
        off = (True,) * len(trace.tokens) if head in layer.off else ()
        title = f"{head_title(name, trace, layer, head)}{OFF_SUFFIX * bool(off)}"
        yield title, layer.weights.cells(stage, head), off


def vectors_grid(title: str, vectors: Tensor, rows: Axis, columns: Axis) -> Grid:
    """A row for each vector."""
    cells = unmasked_cells(tensor_to_numpy(vectors))
    return Grid(title, rows, columns, cells, centred_scale("value", cells))


def head_title(name: str, trace: Trace, layer: Layer, head: int) -> str:
    """With layer and head, where there are others."""
    if not has_single_attention(trace):
        return f"{name} {attention_head_name(trace, layer, head)}"
    return name if layer.heads == 1 else f"{name} · {attention_head_name(trace, layer, head)}"


def _shared_heads_title(name: str, trace: Trace, layer: Layer, group: int, groups: int) -> str:
    """With the heads that share it, of keys and values that some do."""
    size = layer.heads // groups
    first, last = group * size, (group + 1) * size - 1
    if first == last:
        return head_title(name, trace, layer, first)
    heads = (
        f"heads {first}–{last}"
        if has_single_attention(trace)
        else f"{layer.name} heads {first}–{last}"
    )
    return f"{name} · {heads}"


def _query_and_key_axes(trace: Trace, layer: Layer) -> tuple[Axis, Axis]:
    keys = trace.keys_of(layer)
    rows = token_axis("query (reads)", trace.tokens, generation_start(trace, trace.tokens))
    return rows, token_axis("key (is read)", keys, generation_start(trace, keys))
