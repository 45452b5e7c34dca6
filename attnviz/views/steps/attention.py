"""The steps from masked scores to context vectors; the softmax of one query as bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from attnviz.attention.arithmetic import join_heads
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import unmasked_cells
from attnviz.views.facts import has_symptom, is_changed_by_mistake
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import MINUS_INFINITY
from attnviz.views.grids.scales import Scale, centred_scale
from attnviz.views.grids.section import (
    SEPARATE_TABLES,
    ColumnChart,
    ColumnChartRow,
    Section,
    Stages,
    with_sign_between,
)
from attnviz.views.notes import heads_off_vectors_note
from attnviz.views.origin_words import sight_sentences
from attnviz.views.reading import quoted_token, token_axis
from attnviz.views.steps import sums, trained
from attnviz.views.steps.scene import Scene, parameter_count_text
from attnviz.wording.numbers import exact_text, percent_text
from attnviz.wording.sums import MAX_UNSHIFTED_SCORE
from attnviz.wording.words import and_list, counted

READS_NOTHING_TEXT = "reads nothing{}: every key is masked."
MAX_NAMED_TOKENS = 4  # tokens that read nothing; of more only so many are named
SOFTMAX_DESCRIPTION = (
    "The softmax turns each row of scores into weights: exp(score) divided by the sum of all "
    "exp(score) in the row."
)
MAX_TABLE_COLUMNS = 36  # that tables beside each other may have in all


def mask_step(scene: Scene) -> Iterator[Section]:
    """Which keys are masked for which queries."""
    layer = scene.layer
    if layer.mistake and not MISTAKES[layer.mistake].masked:
        yield _unmasked_step(scene)
        return
    mask_tex = r"S_{ij} = -\infty \text{ where } j \text{ is hidden from } i"
    yield Section(
        number="7",
        name="mask",
        title="mask",
        about=_mask_description(scene),
        shapes=f"visible {scene.size_text(layer.visible)}",
        formula="masked scores become −∞, since exp(−∞) = 0" if scene.has_masked_keys else "",
        tex=mask_tex if scene.has_masked_keys else "",
        grids=scene.score_grids("masked scores", "masked scores") if scene.has_masked_keys else (),
        sums=sums.mask_sums(scene, layer),
    )


def _unmasked_step(scene: Scene) -> Section:
    """Where a mistake leaves out −∞, the scores as they go into the softmax."""
    return Section(
        number="7",
        name="mask",
        title="mask",
        about=_mistake_description(scene),
        shapes=f"visible {scene.size_text(scene.layer.visible)}",
        grids=scene.score_grids("✗ masked scores", "exponents"),
    )


def _mistake_description(scene: Scene) -> str:
    """What is done wrong, and its effect where it shows; or that it changes nothing here."""
    mistake = MISTAKES[scene.layer.mistake]
    if all(has_symptom(scene.layer, symptom) for symptom in mistake.symptoms):
        return f"✗ A mistake: {mistake.about}."
    about = f"✗ A mistake: {mistake.cause}."
    return about if is_changed_by_mistake(scene.layer) else f"{about} Here it changes no weight."


def _mask_description(scene: Scene) -> str:
    variant, given_parts = scene.trace.variant, scene.layer.given
    model_text = "" if scene.trace.trained is None else trained.own_mask_text(scene)
    if model_text:
        return " ".join(
            [model_text, *_named_token_sentences(scene, scene.layer.empty_rows, READS_NOTHING_TEXT)]
        )
    about = []
    described_sights = sight_sentences(scene.trace, scene.layer, scene.shown_heads)
    if described_sights and not variant.causal and not variant.window:
        return " ".join(
            [
                *described_sights,
                *_named_token_sentences(scene, scene.layer.empty_rows, READS_NOTHING_TEXT),
            ]
        )
    if "visible" in given_parts:
        about.append("The mask is given.")
    elif not scene.has_masked_keys and scene.layer.attended.mask is not None:
        return "Nothing else is masked: the mask has already been added to the scores."
    elif not scene.has_masked_keys:
        return f"{_nothing_masked_text(scene)}: nothing is masked."
    elif variant.causal:
        about.append(trained.CAUSAL_MASK_TEXT)
    sees_itself_only = (
        variant.window == 1 and scene.keys is scene.trace.tokens and "hidden" not in given_parts
    )
    if "visible" not in given_parts and sees_itself_only:
        about.append("Each token attends only to itself.")
    elif "visible" not in given_parts and variant.window:
        about.append(trained.window_text(variant.window))
    if "hidden" in given_parts:
        about.append("A given mask is applied.")
    if scene.layer.visible.ndim == 3:
        about.append("Each head has its own mask.")
    return " ".join(
        [*about, *_named_token_sentences(scene, scene.layer.empty_rows, READS_NOTHING_TEXT)]
    )


def _named_token_sentences(
    scene: Scene, rows_of: Callable[[int], list[int]], predicate: str
) -> tuple[str, ...]:
    """A sentence about each of some tokens; `predicate` has a place for the heads it holds in."""
    rows_by_head = {head: rows_of(head) for head in scene.shown_heads}
    all_rows = sorted({row for head_rows in rows_by_head.values() for row in head_rows})
    names_heads = scene.layer.visible.ndim == 3 or len({*map(tuple, rows_by_head.values())}) > 1
    sentences = tuple(
        f"{quoted_token(scene.trace.tokens, row)} {predicate.format(_heads_suffix(rows_by_head, row) * names_heads)}"
        for row in all_rows[:MAX_NAMED_TOKENS]
    )
    unnamed_count = len(all_rows) - len(sentences)
    return (
        (*sentences, f"The same holds for {counted(unnamed_count, 'more token')}.")
        if unnamed_count
        else sentences
    )


def _heads_suffix(rows_by_head: Mapping[int, list[int]], row: int) -> str:
    return f" in {and_list([f'head {head}' for head, head_rows in rows_by_head.items() if row in head_rows])}"


def _nothing_masked_text(scene: Scene) -> str:
    if scene.keys is not scene.trace.tokens:
        return "Every query may attend to every key"
    self_text = "The token attends to itself"
    return "Every token may attend to every other" if len(scene.keys) > 1 else self_text


def softmax_step(scene: Scene) -> Iterator[Section]:
    """Scores become weights."""
    mistake, columns = MISTAKES.get(scene.layer.mistake), softmax_columns(scene)
    yield Section(
        number="8",
        name="softmax",
        title="softmax",
        about=_mistake_description(scene) if mistake else _softmax_rows_description(scene),
        shapes=f"weights {scene.weights_size_text}",
        formula="" if mistake else f"weight = exp(score) / {_softmax_denominator(scene)}",
        tex="" if mistake else _softmax_tex(scene),
        grids=scene.weight_grids("weights", "mistake" if mistake else "softmax"),
        finding=softmax_finding(scene, columns),
        bars=columns,
        sums=sums.softmax_sums(scene, scene.layer),
    )


def _softmax_denominator(scene: Scene) -> str:
    sink_text = " and of the sink" if scene.layer.attended.sink is not None else ""
    return f"sum of exp(scores in its row{sink_text})"


def _softmax_tex(scene: Scene) -> str:
    sink_tex = r" + e^{s_h}" if scene.layer.attended.sink is not None else ""
    return rf"w_{{ij}} = \frac{{e^{{S_{{ij}}}}}}{{\sum_k e^{{S_{{ik}}}}{sink_tex}}}"


def _softmax_rows_description(scene: Scene) -> str:
    layer = scene.layer
    if layer.attended.sink is not None:
        return trained.SINK_SOFTMAX_DESCRIPTION
    blind_sentences = _named_token_sentences(
        scene, layer.hidden_rows, "has every key masked{}, so its row is 0."
    )
    if not blind_sentences:
        return f"{SOFTMAX_DESCRIPTION} Each row sums to 1."
    row_sentences = (
        [*blind_sentences, "Every other row sums to 1."]
        if bool(layer.visible.any())
        else blind_sentences
    )
    return " ".join([SOFTMAX_DESCRIPTION, *row_sentences])


def mixing_steps(scene: Scene) -> Iterator[Section]:
    """What takes the place of the weights: what dropout leaves, or weights by hand."""
    mixed_by = scene.layer.attended.mixed_by
    if mixed_by == "dropout":
        yield Section(
            number="8b",
            name="dropout",
            title="dropout",
            about=_dropout_description(scene),
            shapes=f"weights {scene.weights_size_text}",
            grids=scene.weight_grids("mixing", "dropout"),
            sums=sums.dropout_sums(scene, scene.layer),
        )
    if mixed_by == "hand":
        yield Section(
            number="8b",
            name="by-hand",
            title="weights by hand",
            about="Weights written by hand replace those of the softmax.",
            shapes=f"weights {scene.weights_size_text}",
            grids=scene.weight_grids("mixing", "hand"),
        )


def _dropout_description(scene: Scene) -> str:
    share = scene.trace.variant.dropout
    if "kept" in scene.layer.given:
        division_text = f" and divided by 1 - {exact_text(share)}" if share else ""
        return f"The dropout mask is given: each weight is multiplied by it{division_text}."
    return (
        "During training some weights are set to 0 at random, so that the model relies on no "
        f"single token; the others are divided by 1 - {exact_text(share)}, so that on average the "
        "sums stay the same."
    )


def weighted_values_step(scene: Scene) -> Iterator[Section]:
    """For one query, since there is a table for each: the one followed, or the last."""
    name, is_followed = scene.query_name, scene.options.query is not None
    quoted = quoted_token(scene.trace.tokens, scene.followed_query)
    follow_hint = (
        "" if is_followed or len(scene.trace.tokens) == 1 else " (--query follows another token)"
    )
    keys = token_axis("key", scene.keys)
    values = scene.size_text(scene.layer.values)
    yield Section(
        number="9",
        name="weighted",
        title="weighted values",
        about=f"Each value is multiplied by its weight: this is what {quoted} takes from each "
        f"token{follow_hint}.",
        shapes=f"values {values} → weighted {scene.size_text(scene.weighted_values)}",
        formula=f"weighted = weights of {name} · V",
        tex=r"w_{ij} \, v_j",
        grids=scene.head_grids(
            "weighted values", scene.weighted_values, keys, side="head_value", scale="weighted"
        ),
        sums=sums.weighted_value_sums(scene, scene.layer) if is_followed else (),
    )


def context_step(scene: Scene) -> Iterator[Section]:
    """The weighted values added up; the heads joined."""
    contexts, values_size = scene.layer.attended.contexts, scene.size_text(scene.layer.values)
    output_matrices = _output_matrices(scene)
    head_grids, joined_grids = (
        _head_context_grids(scene),
        tuple(_joined_context_grids(scene, output_matrices)),
    )
    formula, tex = _context_formulas(scene, output_matrices)
    yield Section(
        number="10",
        name="context",
        title="context vectors",
        about=_context_description(scene, output_matrices),
        shapes=f"weights {scene.weights_size_text} · values {values_size} → context {scene.size_text(contexts)}",
        formula=formula,
        tex=tex,
        grids=(*head_grids, *joined_grids),
        sums=sums.context_sums(scene, scene.layer),
        remarks=(
            *([parameter_count_text(scene, output_matrices)] if output_matrices else []),
            *_later_steps_remarks(scene),
        ),
        stages=_context_stages(
            scene, len(head_grids), [*output_matrices], len(head_grids) + len(joined_grids)
        ),
        stage_grids=_head_attention_grids(scene) if output_matrices else (),
    )


def _later_steps_remarks(scene: Scene) -> tuple[str, ...]:
    """That the model does more with these vectors, which was not captured."""
    if scene.trace.trained is None:
        return ()
    has_answers = scene.trace.prediction is not None
    return (trained.LATER_STEPS_BUT_ANSWERS_NOTE if has_answers else trained.LATER_STEPS_NOTE,)


def _context_description(scene: Scene, output_matrices: Mapping[str, Tensor]) -> str:
    """What is added up, what happens to the heads, and which vectors are 0."""
    about = "The weighted values add up to the context vector: everything that a token has read."
    blind_sentences = _named_token_sentences(
        scene, _blind_rows_finder(scene), "has read nothing{}, so its vector is 0."
    )
    about = " ".join([about, *blind_sentences]) + heads_off_vectors_note(
        scene.layer, [*scene.shown_heads]
    )
    if scene.layer.heads > 1:
        about += " The heads' vectors are then concatenated"
        about += (
            "."
            if output_matrices or scene.trace.trained is not None
            else ", and no matrix mixes them."
        )
    return about + (
        " Finally the result is multiplied by the output matrix." if output_matrices else ""
    )


def _head_context_grids(scene: Scene) -> tuple[Grid, ...]:
    """The context vectors of each head."""
    rows = token_axis("query (reads)", scene.trace.tokens)
    contexts = scene.layer.attended.contexts
    return scene.head_grids("context vectors", contexts, rows, side="head_value", followed=True)


def _joined_context_grids(scene: Scene, output_matrices: Mapping[str, Tensor]) -> Iterator[Grid]:
    """What becomes of them: side by side, and through the last matrix, where there is one."""
    rows = token_axis("query (reads)", scene.trace.tokens)
    if scene.layer.heads > 1:
        joined = join_heads(scene.layer.attended.contexts)
        yield scene.grid("joined heads", joined, rows, side="joined_width", followed=True)
    if output_matrices:
        yield from (scene.matrix_grid(name, matrix) for name, matrix in output_matrices.items())
        yield scene.grid("output", scene.layer.context, rows, followed=True)


def _blind_rows_finder(scene: Scene) -> Callable[[int], list[int]]:
    """The tokens that read nothing, in heads whose vectors are made of what is read."""
    return lambda head: [] if head in scene.layer.off else scene.layer.empty_rows(head)


def _head_attention_grids(scene: Scene) -> tuple[Grid, ...]:
    """Weights and values, head by head, where there are few of both."""
    heads, (keys, width) = scene.layer.heads, scene.layer.values.shape[-2:]
    if heads == 1 or heads * (keys + 2 * width) > MAX_TABLE_COLUMNS or scene.layer.off:
        return ()
    weights = scene.weight_grids("mixing", scene.layer.attended.mixed_by)
    return (
        *weights,
        *scene.head_grids(
            "values", scene.layer.values_of_heads, token_axis("key", scene.keys), side="head_value"
        ),
    )


def _context_stages(
    scene: Scene, head_count: int, output_names: Sequence[str], first_extra: int
) -> Stages:
    """Attention in each head, and their vectors side by side; what the last matrix makes of them.

    There is no such picture of one head of several.
    """
    joins_heads, joined_index = scene.layer.heads > 1, head_count if scene.layer.heads > 1 else 0
    if head_count < scene.layer.heads or not (joins_heads or output_names):
        return ()
    lines = (
        [(*with_sign_between(range(head_count), SEPARATE_TABLES), "→", joined_index)]
        if joins_heads
        else []
    )
    if output_names and _head_attention_grids(scene):
        lines = [
            (first_extra + head, "·", first_extra + head_count + head, "=", head)
            for head in range(head_count)
        ]
    if output_names:
        signs = ("·", "+")
        factors = [
            factor
            for numbered_sign in enumerate(signs[: len(output_names)], joined_index + 1)
            for factor in numbered_sign[::-1]
        ]
        lines.append((joined_index, *factors, "=", joined_index + len(output_names) + 1))
    return tuple(lines)


def _output_matrices(scene: Scene) -> dict[str, Tensor]:
    """The matrix that joins the heads, and its bias, where they are."""
    names = ("w_out", "b_out")
    tensors = {name: getattr(scene.layer.projections, name, None) for name in names}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _context_formulas(scene: Scene, output_matrices: dict[str, Tensor]) -> tuple[str, str]:
    """For terminal and Markdown."""
    formulas = [] if scene.layer.off else ["context = weights · V"]
    if not output_matrices:
        return "".join(formulas), "Z = W V" if formulas else ""
    input_name = "joined" if scene.layer.heads > 1 else "context"
    has_bias = "b_out" in output_matrices
    plain = " · ".join([*formulas, f"output = {input_name} W_out{' + b_out' if has_bias else ''}"])
    return plain, r"Z W_o + b_o" if has_bias else r"Z W_o"


SUM_ROUNDING_ERROR = 1e-4  # weights that were rounded add up to so little less or more than 1
MAX_SOFTMAX_BARS = 20  # of more neither names nor numbers could be read


def softmax_columns(scene: Scene) -> ColumnChart | None:
    """Three rows of bars, if one row of weights alone is asked for, and each is the softmax's."""
    if scene.options.query is None or len(scene.shown_heads) > 1 or scene.layer.mistake:
        return None
    (head,) = scene.shown_heads
    names, scores, weights = _softmax_row(scene, head)
    visible = [score for score in scores if math.isfinite(score)]
    if len(names) > MAX_SOFTMAX_BARS or not visible:
        return None
    format_score = scene.style.for_values(*visible)
    shift = (
        format_score.rounded(max(visible)) if max(map(abs, visible)) > MAX_UNSHIFTED_SCORE else 0.0
    )
    exps = [math.exp(score - shift) for score in scores]
    shift_text = f" {'−' if shift > 0 else '+'} {format_score(abs(shift))}" if shift else ""
    scale = scene.weight_grids("weights", "softmax")[0].scale
    totals = math.fsum(exps), math.fsum(weights)
    return ColumnChart(
        names,
        (
            ColumnChartRow(
                "score",
                tuple(score if math.isfinite(score) else None for score in scores),
                tuple(
                    format_score(one_score) if math.isfinite(one_score) else MINUS_INFINITY
                    for one_score in scores
                ),
                centred_scale("score", unmasked_cells(np.array([visible]))),
            ),
            _column_row(
                scene,
                f"exp(score{shift_text})",
                exps,
                totals[0],
                Scale("exp", 0, scale.high * totals[0]),
            ),
            _column_row(scene, "weight", weights, totals[1], scale),
        ),
    )


def _column_row(
    scene: Scene, name: str, values: list[float], total: float, scale: Scale
) -> ColumnChartRow:
    write = scene.style.for_values(*values)
    total_text = "1" if abs(total - 1) < SUM_ROUNDING_ERROR else write(total)
    return ColumnChartRow(
        name, tuple(values), tuple(map(write, values)), scale, f"sum {total_text}"
    )


def _softmax_row(scene: Scene, head: int) -> tuple[tuple[str, ...], list[float], list[float]]:
    """The keys by name, with their scores and weights; and the sink, which takes its share."""
    names = tuple(scene.token_name(scene.keys, key) for key in range(len(scene.keys)))
    scores, weights = scene.stage_row("exponents", head), scene.stage_row("weights", head)
    if scene.layer.attended.sink is None:
        return names, scores, weights
    sink = scene.layer.attended.sink[head].item()
    return (*names, "(sink)"), [*scores, sink], [*weights, 1 - math.fsum(weights)]


def softmax_finding(scene: Scene, columns: ColumnChart | None) -> str:
    """What the highest score becomes, if one score is the highest."""
    if columns is None:
        return ""
    scores, _, weights = columns.rows
    top_key = max(range(len(columns.names)), key=lambda key: weights.values[key] or 0.0)
    is_tied = scores.value_texts.count(scores.value_texts[top_key]) > 1
    if is_tied or len(columns.names) == 1 or top_key == len(scene.keys):
        return ""
    share = percent_text(weights.values[top_key] or 0.0)
    name = quoted_token(scene.keys, top_key)
    return f"Softmax: {name} scores highest and gets {share} of the attention"
