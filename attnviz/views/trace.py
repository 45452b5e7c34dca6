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
from attnviz.cells import Cells, unmasked
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.parts import SHOWN, Part, parts_to_show
from attnviz.traces.source import command_of, source_of
from attnviz.traces.trace import Layer, Trace, told_of_weights_alone
from attnviz.traces.weights import Stage, array
from attnviz.views.conclusions.weights import title_of_head
from attnviz.views.facts import hides, multiplied, sums_to_one
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis, plain_axis
from attnviz.views.grids.grid import OFF, Grid, same_scale
from attnviz.views.grids.scales import centred, colorless, weight_scale
from attnviz.views.headline import (
    OF_CONTEXT,
    OF_SCORES,
    asks_for,
    headline,
    in_order,
    title_of_parts,
    with_products,
)
from attnviz.views.notes import caveat, closing_notes, note_on_blind, note_on_rows
from attnviz.views.origin_words import axis_of, titled_by_sentences
from attnviz.views.prediction import (
    all_answers,
    answers_ranked,
    best_answers,
    title_of_answers,
)
from attnviz.views.reading import (
    alone,
    arcs_of,
    in_quotes,
    name_of_head,
    readings,
    sentences,
    token_axis,
    untitled,
    written_from,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.trace_data import data_of, explored_of_trace
from attnviz.views.view import FINDINGS, READINGS, Excerpt, Group, Name, Page, View, page_of
from attnviz.views.ways import chosen_way, refuse_odd_way, usual
from attnviz.wording.commands import chosen
from attnviz.wording.words import listed

ON_SCREEN = ("weights", "context")
IN_A_PICTURE = ("weights",)
OF_ANSWERS = ("prediction",)
IN_AN_EXCERPT = ("weights ", "prediction")
OF_A_BLOCK = ("outputs",)
OF_HEADS = ("weights", "readings")  # groups that have a panel for each head
READ_WHOLE = ("tokens", "embeddings", "keys", "values")  # whichever token is asked for

BESIDE_WEIGHTS = ("tokens", "embeddings", "weights", "prediction")  # that a model hands back itself
BESIDE_GIVEN_WEIGHTS = ("tokens", "weights")
OF_A_TRAINED_MODEL = {
    "outputs": "what a trained model computes after attention is not kept",
    "prediction": "this model gives no answers here",
}
RECEIVED_NOTE = "scores as the softmax receives them"
EXACT = 1e-6  # relative: a factor that is so near to 1/√d_k is meant to be it
MIXED_BY: dict[MixedBy, str] = {  # what weights are called
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
    many = trace.trained is not None or (trace.handed is not None and _heads(trace) > 1)
    if layer is not None or head is not None:
        _refuse_parts_of_a_head(show)
    elif not many or show is not None or as_ is not None:
        return _parts_shown(trace, show, query, as_, predict=predict)
    return _inspected(trace, layer=layer, head=head, query=query, as_=as_, predict=predict)


def _heads(trace: Trace) -> int:
    return sum(layer.heads for layer in trace.layers)


def _refuse_parts_of_a_head(show: Sequence[str] | None) -> None:
    """With a layer or a head, only weights can be shown."""
    if show is not None:
        raise AttnvizError(
            "layer and head show the weights of single heads and cannot be combined with show",
            "leave out show, or layer and head",
            about="show",
        )


def _parts_shown(
    trace: Trace, show: Sequence[str] | None, query: str | None, as_: str | None, *, predict: bool
) -> View:
    """Parts of a Trace, in one of the ways in which weights are drawn."""
    parts = None if show is None else parts_to_show(show)
    refuse_odd_way(
        as_ or usual(query, parts), parts if as_ else None, query, predict=predict and bool(as_)
    )
    way = chosen_way(as_, query, parts)
    place = None if query is None else find_query(trace.tokens, str(query))
    screen, picture = _shown(trace, parts, place, way, predict=predict)
    names = ",".join(show) if show else None
    options = {"show": names, "query": query, "as_": as_, "predict": predict or None}
    asked = () if place is None else tuple(readings(trace, place))
    answered = title_of_answers(trace, place, alone=tuple(parts or ()) == OF_ANSWERS)
    return View(
        title=headline(trace),
        headline=answered or title_of_parts(trace, parts, place),
        settings=settings_line(trace),
        screen=screen,
        picture=picture,
        excerpt=_excerpt(screen) if show is None and not asked else None,
        closing=tuple(each for each in _closing(trace, screen, place, way) if each != answered),
        sentences=() if way == "heatmap" else asked,
        as_screen=as_ == "terminal",
        explored=lambda: explored_of_trace(trace, place),
        slides=partial(_slides, trace, picture, place),
        data=data_of(trace),
        provenance=trace.provenance,
        command=command_of("run", source_of(trace), **options),
    )


def _slides(trace: Trace, picture: Page, query: int | None) -> Excerpt:
    """Each head under a title of its own; one that somebody wrote has the words of its writer."""
    by_hand = trace.model is not None and trace.model.by_hand
    if len(picture.panels) == 1 or by_hand:
        return Excerpt(picture.groups, "")
    named = {f"{what} {layer.name}": layer for layer in trace.attentions for what in OF_HEADS}
    return Excerpt(
        tuple(
            _titled_heads(trace, named[each.name], each, query)
            if each.name in named and each.kind == "free"
            else each
            for each in picture.groups
        ),
        "",
    )


def _titled_heads(trace: Trace, layer: Layer, group: Group, query: int | None) -> Group:
    heads = range(len(group.panels))
    titles = tuple(Name(title_of_head(trace, layer, head, query)) for head in heads)
    return Group(FINDINGS, group.panels, over=titles)


def _inspected(trace: Trace, **options: Any) -> View:
    """What `attnviz inspect` shows of a trained model, which has dozens of heads."""
    from attnviz.analysis.inspection.inspection import Inspection
    from attnviz.analysis.inspection.looking import Looking
    from attnviz.views.inspection.view import view as view_of_inspection

    looking = Looking(**{name: value for name, value in options.items() if value is not None})
    some = looking.layer is not None or looking.head is not None
    command = None if some else command_of("run", source_of(trace), **chosen(looking))
    return view_of_inspection(Inspection(trace=trace, looking=looking), command=command)


def _closing(trace: Trace, screen: Page, query: int | None, way: str) -> tuple[str, ...]:
    """The sentences below everything else."""
    return (
        *_whole_beside(trace, screen, query, way),
        *closing_notes(trace, query),
    )


def _shown(
    trace: Trace, show: Sequence[str] | None, query: int | None, way: str, *, predict: bool
) -> tuple[Page, Page]:
    """What is on the screen, and what in a picture."""
    names, drawn = show or _usual(trace), show or IN_A_PICTURE
    if query is None:
        screen, picture = groups(trace, names), titled_by_sentences(trace, equations(trace, drawn))
    elif tuple(show or ()) == OF_ANSWERS and way == "heatmap":
        screen = picture = [Group("prediction", (answers_ranked(trace, query),))]
    elif show and way == "heatmap":
        screen = picture = groups(trace, show, query)
    else:
        names = drawn = IN_A_PICTURE
        screen = picture = [Group(READINGS, tuple(readings(trace, query)))]
    if way == "heatmap" and query is not None and not show:
        picture = [untitled(readings(trace, query))]
    if way == "sentence" and query is not None:
        picture = sentences(trace, query)
    if way == "arcs":
        picture = arcs_of(groups(trace, IN_A_PICTURE), query, _commands_of_heads(trace, query))
    line = settings_line(trace)
    answers = [Group("prediction", (best_answers(trace, query),))] if predict else []
    on_screen = page_of([*screen, *answers], line, caveat(trace, names))
    return on_screen, page_of([*picture, *answers], line, caveat(trace, drawn))


def _commands_of_heads(trace: Trace, query: int | None) -> dict[str, str]:
    """The command that draws a head alone as lines, by the title of its table; of models alone."""
    command = command_of("inspect", source_of(trace))
    if command is None or (trace.trained is None and trace.model is None):
        return {}
    asked = {} if query is None else {"query": query + 1}
    return {
        titled(MIXED_BY[layer.attended.mixed_by], trace, layer, head): command.also(
            **asked, layer=layer.layer, head=head, as_="arcs"
        ).line
        for layer in trace.layers
        for head in range(layer.heads)
    }


def _usual(trace: Trace) -> tuple[str, ...]:
    """What is on the screen where nobody says what to show.

    The vectors of a model that learned are wide, and their numbers mean nothing one by one.
    """
    model = trace.model
    if trace.weights_alone or (model is not None and not model.by_hand):
        return IN_A_PICTURE
    return (*ON_SCREEN, *(OF_A_BLOCK if trace.layers[0].block else ()))


def _excerpt(screen: Page) -> Excerpt | None:
    """The weights alone, where there is no room for the vectors that they make."""
    kept = tuple(each for each in screen.groups if each.name.startswith(IN_AN_EXCERPT))
    left_out = dict.fromkeys(each.name.split()[0] for each in screen.groups if each not in kept)
    if not kept or not left_out:
        return None
    return Excerpt(kept, f"--show {','.join(left_out)} shows the vectors")


def draw(trace: Trace, show: Sequence[str] = ON_SCREEN) -> View:
    """Parts of a Trace, on a terminal and in pictures.

    >>> from attnviz import draw, trace
    >>> [grid] = draw(trace("I am"), ["weights"]).grids()
    >>> grid.rows.names, grid.values.shape
    (('1 I', '2 am'), (2, 2))
    """
    return view(trace, show=show)


def groups(trace: Trace, show: Sequence[str], query: int | None = None) -> list[Group]:
    """What is to be shown of each attention, in the order it happened; all, or of one token."""
    return [
        Group(f"{part} {layer}", tuple(grids))
        for layer, parts in _parts(trace, show, query).items()
        for part, grids in parts.items()
        if grids
    ]


def _of_token(query: int | None, part: Part, grids: list[Grid]) -> list[Grid]:
    """What is one token's own: its row; and all rows of what it reads, or may be followed from."""
    if query is None or part.show in READ_WHOLE:
        return grids
    return [grid.part(slice(query, query + 1)) for grid in grids]


def _whole_beside(trace: Trace, screen: Page, query: int | None, way: str) -> tuple[str, ...]:
    """Which parts have a row for every token, though one is asked for."""
    if way != "heatmap":
        return ()
    shown = dict.fromkeys(each.name.split()[0] for each in screen.groups)
    whole = [name for name in shown if name in READ_WHOLE]
    if query is None or not whole:
        return ()
    rest = f"; of the rest, only the row of {in_quotes(trace.tokens, query)}"
    return (f"every row of {listed(whole)} is shown{rest * (len(whole) < len(shown))}",)


def equations(trace: Trace, show: Sequence[str]) -> list[Group]:
    """The same, but what multiplies to another as the equation that it is, for each head."""
    parts = _parts(trace, show, of_heads=asks_for(OF_CONTEXT, show))
    made = {
        each.name: [*[OF_SCORES] * multiplied(each), *[OF_CONTEXT] * (not each.off)]
        for each in trace.attentions
    }
    return [
        group for name, grids in parts.items() for group in with_products(name, grids, made[name])
    ]


def _parts(
    trace: Trace, show: Sequence[str], query: int | None = None, *, of_heads: bool = False
) -> dict[str, dict[str, list[Grid]]]:
    """The grids of each part of each attention; context vectors as they are, or of each head."""
    wanted = [SHOWN[name] for name in in_order(show, [*SHOWN])]
    found = [
        (layer, part, _grids(trace, layer, part, show, of_heads=of_heads))
        for layer in trace.attentions
        for part in wanted
    ]
    kept = [(layer.name, part.show, _of_token(query, part, grids)) for layer, part, grids in found]
    drawn = iter(same_scale([grid for *_, grids in kept for grid in grids]))
    parts: dict[str, dict[str, list[Grid]]] = {}
    for layer, part, grids in kept:
        parts.setdefault(layer, {})[part] = [next(drawn) for _ in grids]
    if not any(grids for *_, grids in kept):
        raise _nothing_to_show(trace, show)
    return parts


def _grids(
    trace: Trace, layer: Layer, part: Part, show: Sequence[str], *, of_heads: bool
) -> list[Grid]:
    """A part, as it is shown beside others."""
    if trace.weights_alone and part.show not in _beside_weights(trace):
        return []
    if of_heads and part.show == "context":
        return contexts_grids(trace, layer)
    return _scores_beside_weights(trace, layer, part, show) or grids_of(trace, layer, part)


def _scores_beside_weights(
    trace: Trace, layer: Layer, part: Part, show: Sequence[str]
) -> list[Grid]:
    """Beside the weights that a softmax made of them, scores are those that it received."""
    by_softmax = layer.attended.mixed_by in ("softmax", "dropout")
    raw = asks_for(OF_SCORES, show) or not {"scaled", "masked"}.isdisjoint(show)
    if part.show != "scores" or "weights" not in show or raw:
        return []
    done = _done_to_scores(layer) if by_softmax else []
    if not done:
        return []
    name = f"scores {', '.join(done)}"
    return scores_grids(name, trace, layer, "masked scores", RECEIVED_NOTE)


def _done_to_scores(layer: Layer) -> list[str]:
    """What is done to the product of query and key before the softmax."""
    return [
        *(["scaled"] if layer.scale != 1 else []),
        *(["capped"] if layer.attended.capped_scores is not None else []),
        *(["lowered by distance"] if layer.attended.bias is not None else []),
        *(["shifted by a mask"] if layer.attended.mask is not None else []),
        *(["masked"] if hides(layer) else []),
    ]


def _beside_weights(trace: Trace) -> tuple[str, ...]:
    """What can be shown where only the attention weights are known."""
    return BESIDE_WEIGHTS if trace.handed is None else BESIDE_GIVEN_WEIGHTS


def _nothing_to_show(trace: Trace, show: Sequence[str]) -> AttnvizError:
    alone = trace.weights_alone
    why = {} if alone else _why_nothing(trace)
    reasons = dict.fromkeys(why.get(name, told_of_weights_alone(trace)) for name in show)
    return AttnvizError(
        f"cannot show {listed(list(show))}: {', and '.join(reasons)}",
        f"name some of: {', '.join(_beside_weights(trace) if alone else SHOWN)}",
    )


def _why_nothing(trace: Trace) -> dict[str, str]:
    """Why a part that other traces have is missing here."""
    scaled = trace.layers[0].scale != 1 or trace.variant.scaled
    why = {
        "queries": "the scores are given",
        "keys": "the scores are given",
        "scaled": "scaling changes no score" if scaled else "the scores are not scaled",
        "masked": "nothing is masked",
        "outputs": "only a transformer block has outputs (add --layers 1)",
        "prediction": "only a model predicts something (try --model agreement)",
    }
    return why if trace.trained is None else why | OF_A_TRAINED_MODEL


def grids_of(trace: Trace, layer: Layer, part: Part) -> list[Grid]:
    """A part of one attention: a grid, or one for each head; none where there is nothing."""
    if part.show == "tokens":
        return _tokens(trace, layer)
    if part.show == "prediction":
        return all_answers(trace) if layer is trace.layers[-1] else []
    if part.show == "weights":
        return weights_grids(trace, layer, "mixing", layer.attended.mixed_by)
    if part.stage is not None:
        return _scores(trace, layer, part, part.stage)
    tensor = part.find(trace, layer)
    if tensor is None or (part.show == "embeddings" and not _first(layer)):
        return []
    if part.axes[0] == "head":
        rows = token_axis(part.axes[1].replace("token", "query"), _read(trace, layer, part))
        return [
            vectors_grid(
                _titled_group(part.words, trace, layer, head, len(tensor)),
                each,
                rows,
                axis_of(trace, layer, part.axes[-1], each.shape[-1], head),
            )
            for head, each in enumerate(tensor)
        ]
    side = "token" if part.show == "embeddings" else "query (reads)"
    rows, columns = (
        token_axis(side, trace.tokens),
        axis_of(trace, layer, part.axes[-1], tensor.shape[-1]),
    )
    grid = vectors_grid(_name_of_vectors(part, trace, layer), tensor, rows, columns)
    return [replace(grid, note=note_on_blind(trace)) if part.show == "context" else grid]


def _scores(trace: Trace, layer: Layer, part: Part, stage: Stage) -> list[Grid]:
    """Scores at one stage; none where it is not another than the one before."""
    done = _done_to_scores(layer)
    masks = hides(layer) or layer.attended.mask is not None  # which hides, or is added
    if (part.show == "scaled" and "scaled" not in done) or (part.show == "masked" and not masks):
        return []
    name = part.words
    return scores_grids(name, trace, layer, stage, _about_scores(trace, layer, stage, done))


def _about_scores(trace: Trace, layer: Layer, stage: Stage, done: Sequence[str]) -> str:
    """What scores at a stage are; empty where a mistake continues differently from them."""
    compared = trace.variant.compared and multiplied(layer)
    if stage == "masked scores":
        return "" if layer.mistake else RECEIVED_NOTE
    if stage == "scaled scores":
        return f"scaled scores = {'query times key' if compared else 'scores'}{_factor(layer)}"
    rest = f", not yet {listed(done)}" if done else ""
    if not trace.variant.compared:
        return f"queries and keys are not compared: every score is 0{rest}"
    made = "scores = w_score · tanh(query + key)" if layer.w_score is not None else "given scores"
    return f"scores = query times key{rest}" if compared else f"{made}{rest}"


def _factor(layer: Layer) -> str:
    """What scores are multiplied by, as people write it."""
    root = sqrt(layer.head_dim)
    by_root = abs(layer.scale * root - 1) < EXACT
    return f" / √{layer.head_dim}" if by_root else f" times {layer.scale:.3g}"


def contexts_grids(trace: Trace, layer: Layer) -> list[Grid]:
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
                titled("context", trace, layer, head),
                each,
                rows,
                axis_of(trace, layer, "head_value", each.shape[-1], head),
            ),
            note=note,
        )
        for head, each in enumerate(layer.attended.contexts)
    ]


def _read(trace: Trace, layer: Layer, part: Part) -> Tokens:
    """The tokens that the rows of a part stand for."""
    of_keys = part.axes[:2] == ("head", "key") or part.show == "tokens"
    return trace.keys_of(layer) if of_keys else trace.tokens


def _first(layer: Layer) -> bool:
    return layer.layer == 0 and layer.memory is None


def _name_of_vectors(part: Part, trace: Trace, layer: Layer) -> str:
    nameless = alone(trace) or part.show == "embeddings"
    return part.words if nameless else f"{part.words} {layer.name}"


def _tokens(trace: Trace, layer: Layer) -> list[Grid]:
    if layer.layer:
        return []
    if layer.memory is None:
        return [tokens_grid("tokens", trace.tokens, "query (reads)")]
    return [tokens_grid("tokens of the memory", trace.keys_of(layer), "key (is read)")]


def tokens_grid(title: str, tokens: Tokens, reads: str) -> Grid:
    """Each token with its id."""
    ids = np.asarray(tokens.ids)[:, None]
    columns = plain_axis("dimension", ["id"])
    return Grid(title, token_axis(reads, tokens), columns, unmasked(ids), colorless("id"))


def scores_grids(name: str, trace: Trace, layer: Layer, stage: Stage, note: str = "") -> list[Grid]:
    """Scores of each head, raw or on their way to weights."""
    rows, columns = _sides(trace, layer)
    return [
        Grid(title, rows, columns, cells, centred("score", cells), note=note, off=off)
        for title, cells, off in _of_heads(name, trace, layer, stage)
    ]


def weights_grids(trace: Trace, layer: Layer, stage: Stage, mixed_by: MixedBy) -> list[Grid]:
    """Weights of each head, what is hidden marked as such."""
    rows, columns = _sides(trace, layer)
    drawn = list(_of_heads(MIXED_BY[mixed_by], trace, layer, stage))
    shares = mixed_by == "softmax" and all(sums_to_one(cells) for _, cells, _ in drawn)
    border = GOES_ON if rows.border or columns.border else ""
    told = (AXES_NOTE, note_on_rows(trace, mixed_by, shares), border)
    note = " · ".join(filter(None, told))
    return [
        Grid(title, rows, columns, cells, weight_scale(cells), note=note, share=True, off=off)
        for title, cells, off in drawn
    ]


def _of_heads(
    name: str, trace: Trace, layer: Layer, stage: Stage
) -> Iterator[tuple[str, Cells, tuple[bool, ...]]]:
    """Of each head its title, its numbers, and which of its rows are off: all, or none."""
    for head in range(layer.heads):
        off = (True,) * len(trace.tokens) if head in layer.off else ()
        named = f"{titled(name, trace, layer, head)}{OFF * bool(off)}"
        yield named, layer.weights.cells(stage, head), off


def vectors_grid(title: str, vectors: Tensor, rows: Axis, columns: Axis) -> Grid:
    """A row for each vector."""
    cells = unmasked(array(vectors))
    return Grid(title, rows, columns, cells, centred("value", cells))


def titled(name: str, trace: Trace, layer: Layer, head: int) -> str:
    """With layer and head, where there are others."""
    if not alone(trace):
        return f"{name} {name_of_head(trace, layer, head)}"
    return name if layer.heads == 1 else f"{name} · {name_of_head(trace, layer, head)}"


def _titled_group(name: str, trace: Trace, layer: Layer, group: int, groups: int) -> str:
    """With the heads that share it, of keys and values that some do."""
    size = layer.heads // groups
    first, last = group * size, (group + 1) * size - 1
    if first == last:
        return titled(name, trace, layer, first)
    heads = f"heads {first}–{last}" if alone(trace) else f"{layer.name} heads {first}–{last}"
    return f"{name} · {heads}"


def _sides(trace: Trace, layer: Layer) -> tuple[Axis, Axis]:
    keys = trace.keys_of(layer)
    rows = token_axis("query (reads)", trace.tokens, written_from(trace, trace.tokens))
    return rows, token_axis("key (is read)", keys, written_from(trace, keys))
