"""The steps from masked scores to context vectors; the softmax of one query as bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from attnviz.attention.arithmetic import join_heads
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import unmasked_cells
from attnviz.views.attention_facts import has_symptom, is_changed_by_mistake
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import MINUS_INFINITY
from attnviz.views.grids.scales import Scale, centred_scale
from attnviz.views.grids.section import (
    SEPARATE_TABLES,
    ColumnChart,
    ColumnChartRow,
    Section,
    Stages,
    with_sign_between,
)
from attnviz.views.head_vectors import score_name
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.notes import heads_off_vectors_note
from attnviz.views.origin_words import sentences_by_heads, sight_text
from attnviz.views.reading import token_axis
from attnviz.views.steps import step_sums, trained
from attnviz.views.steps.scene import Scene, parameter_count_text
from attnviz.views.steps.step_selection import STEPS
from attnviz.wording.numbers import exact_text, percent_text
from attnviz.wording.sums import MAX_UNSHIFTED_SCORE
from attnviz.wording.words import and_list, counted

READS_NOTHING_TEXT = "reads nothing{}: every key is masked."
MAX_NAMED_TOKENS = 4  # in sentences about tokens that read nothing; more are counted
SOFTMAX_DESCRIPTION = (
    "The softmax turns each row of scores into weights: exp(score) divided by the sum of all "
    "exp(score) in the row."
)
MAX_TABLE_COLUMNS = 36  # of all tables that stand beside each other
MAX_EQUATION_COLUMNS = 14  # of a single head's equation: of more no number can be read
SUM_ROUNDING_ERROR = 1e-4  # how far the sum of rounded weights may be from 1
MAX_SOFTMAX_BARS = 20  # names and numbers of more could not be read


def mask_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that sets masked scores to −∞, or a mistake that leaves this out.

    If nothing is masked, the step has only a description.
    """
    layer, grids = scene.layer, tuple[Grid, ...]()
    is_left_out = bool(layer.mistake) and not MISTAKES[layer.mistake].masked
    sets_scores = scene.hides_shown_keys and not is_left_out
    if is_left_out:
        about = _mistake_description(scene)
        grids = scene.score_grids("✗ masked scores", "exponents")
    else:
        about = " ".join([_mask_description(scene), *_unmasked_row_sentences(scene)])
        if scene.has_masked_keys:
            grids = scene.score_grids("masked scores", "masked scores")
    mask_tex = r"S_{ij} = -\infty \text{ where } j \text{ is hidden from } i"
    yield Section(
        *STEPS["mask"],
        about=about,
        shapes=f"visible {scene.size_text(layer.visible)}",
        formula="masked scores become −∞, since exp(−∞) = 0" if sets_scores else "",
        tex=mask_tex if sets_scores else "",
        grids=grids,
        sums=() if is_left_out else step_sums.mask_sums(scene, layer),
    )


def _unmasked_row_sentences(scene: Scene) -> Iterator[str]:
    """Yield that the mask hides nothing from the followed query, where it hides keys of others."""
    if scene.has_masked_keys and not scene.hides_shown_keys:
        query = quoted_token(scene.trace.tokens, scene.followed_query)
        heads = [f"head {head}" for head in scene.shown_heads]
        place = f" in {and_list(heads)}" if scene.layer.visible.ndim == 3 else ""
        yield f"The mask hides nothing from {query}{place}."


def _mistake_description(scene: Scene) -> str:
    """State the mistake with its effect if all its symptoms show; else its cause.

    If the mistake changes no weight here, the text states that, too.
    """
    mistake = MISTAKES[scene.layer.mistake]
    if all(has_symptom(scene.layer, symptom) for symptom in mistake.symptoms):
        return f"✗ A mistake: {mistake.about}."
    about = f"✗ A mistake: {mistake.cause}."
    return about if is_changed_by_mistake(scene.layer) else f"{about} Here it changes no weight."


def _mask_description(scene: Scene) -> str:
    """Return which keys the mask hides, where it comes from, and which tokens read nothing."""
    variant, given_parts = scene.trace.variant, scene.layer.given
    blind_sentences = _named_token_sentences(scene, scene.layer.empty_rows, READS_NOTHING_TEXT)
    model_text = "" if scene.trace.trained is None else trained.own_mask_text(scene)
    if model_text:
        return " ".join([model_text, *blind_sentences])
    about = []
    sights = sentences_by_heads(scene.trace, scene.layer, scene.shown_heads, sight_text)
    if sights and not variant.causal and not variant.window:
        return " ".join([*sights, *blind_sentences])
    if "visible" in given_parts:
        about.append("The mask is given.")
    elif not scene.has_masked_keys and scene.layer.attended.mask is not None:
        return "Nothing else is masked: the mask has already been added to the scores."
    elif not scene.has_masked_keys:
        return f"{_nothing_masked_text(scene)}: nothing is masked."
    elif variant.causal:
        about.append(trained.CAUSAL_MASK_TEXT)
    if "visible" not in given_parts and variant.window:
        is_own = scene.keys is scene.trace.tokens and "hidden" not in given_parts
        only_itself = variant.window == 1 and is_own
        window_text = trained.window_text(variant.window)
        about.append("Each token attends only to itself." if only_itself else window_text)
    if "hidden" in given_parts:
        about.append("A given mask is applied.")
    if scene.layer.visible.ndim == 3:
        about.append("Each head has its own mask.")
    return " ".join([*about, *blind_sentences])


def _named_token_sentences(
    scene: Scene, rows_of: Callable[[int], list[int]], predicate: str
) -> tuple[str, ...]:
    """Return a sentence for each of the first four tokens (rows) that `rows_of` returns for a head.

    `predicate` follows the token's name; its `{}` becomes ` in head 1` if heads differ, else
    nothing. A last sentence counts further tokens.
    """
    rows_by_head = {head: rows_of(head) for head in scene.shown_heads}
    all_rows = sorted({row for head_rows in rows_by_head.values() for row in head_rows})
    names_heads = scene.layer.visible.ndim == 3 or len({*map(tuple, rows_by_head.values())}) > 1
    sentences = []
    for row in all_rows[:MAX_NAMED_TOKENS]:
        heads = [f"head {head}" for head, head_rows in rows_by_head.items() if row in head_rows]
        statement = predicate.format(f" in {and_list(heads)}" if names_heads else "")
        sentences.append(f"{quoted_token(scene.trace.tokens, row)} {statement}")
    if unnamed_count := len(all_rows) - len(sentences):
        sentences.append(f"The same holds for {counted(unnamed_count, 'more token')}.")
    return tuple(sentences)


def _nothing_masked_text(scene: Scene) -> str:
    """Return the beginning of a sentence that nothing is masked: `Every token may attend to …`."""
    if scene.keys is not scene.trace.tokens:
        return "Every query may attend to every key"
    self_text = "The token attends to itself"
    return "Every token may attend to every other" if len(scene.keys) > 1 else self_text


def softmax_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that turns scores into weights; of a mistaken softmax, its mistake."""
    mistake, columns = MISTAKES.get(scene.layer.mistake), softmax_columns(scene)
    has_sink = scene.layer.attended.sink is not None
    denominator = f"sum of exp(scores in its row{' and of the sink' if has_sink else ''})"
    tex = r"w_{ij} = \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}" + r" + e^{s_h}" * has_sink + "}"
    yield Section(
        *STEPS["softmax"],
        about=_mistake_description(scene) if mistake else _softmax_rows_description(scene),
        shapes=f"weights {scene.weights_size_text}",
        formula="" if mistake else f"weight = exp(score) / {denominator}",
        tex="" if mistake else tex,
        grids=scene.weight_grids("weights", "mistake" if mistake else "softmax"),
        finding=softmax_finding(scene, columns),
        bars=columns,
        sums=step_sums.softmax_sums(scene, scene.layer),
    )


def _softmax_rows_description(scene: Scene) -> str:
    """Return what the softmax does, which rows are 0 (all masked), and that others sum to 1."""
    layer = scene.layer
    if layer.attended.sink is not None:
        return trained.SINK_SOFTMAX_DESCRIPTION
    blind_sentences = _named_token_sentences(
        scene, layer.hidden_rows, "has every key masked{}, so its row is 0."
    )
    if not blind_sentences:
        return f"{SOFTMAX_DESCRIPTION} Each row sums to 1."
    others_text = ["Every other row sums to 1."] if bool(layer.visible.any()) else []
    return " ".join([SOFTMAX_DESCRIPTION, *blind_sentences, *others_text])


def mixing_steps(scene: Scene) -> Iterator[Section]:
    """Yield the dropout step, or the one of weights written by hand; nothing without either."""
    mixed_by = scene.layer.attended.mixed_by
    if mixed_by in ("dropout", "hand"):
        is_dropout = mixed_by == "dropout"
        by_hand = "Weights written by hand replace those of the softmax."
        yield Section(
            *STEPS["dropout" if is_dropout else "by-hand"],
            about=_dropout_description(scene) if is_dropout else by_hand,
            shapes=f"weights {scene.weights_size_text}",
            grids=scene.weight_grids("mixing", mixed_by),
            sums=step_sums.dropout_sums(scene, scene.layer) if is_dropout else (),
        )


def _dropout_description(scene: Scene) -> str:
    """Return what dropout does, or that the dropout mask was given."""
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
    """Yield the step with each value times its weight, for the followed query or the last token."""
    tokens, is_followed = scene.trace.tokens, scene.options.query is not None
    quoted = quoted_token(tokens, scene.followed_query)
    follow_hint = "" if is_followed or len(tokens) == 1 else " (--query follows another token)"
    values_size = scene.size_text(scene.layer.values)
    yield Section(
        *STEPS["weighted"],
        about=f"Each value is multiplied by its weight: this is what {quoted} takes from each "
        f"token{follow_hint}.",
        shapes=f"values {values_size} → weighted {scene.size_text(scene.weighted_values)}",
        formula=f"weighted = weights of {scene.query_name} · V",
        tex=r"w_{ij} \, v_j",
        grids=scene.weighted_grids(),
        sums=step_sums.weighted_value_sums(scene, scene.layer) if is_followed else (),
    )


def context_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that adds up weighted values, joins heads and applies the output matrix."""
    contexts, sizes = scene.layer.attended.contexts, scene.weights_size_text
    sizes += f" · values {scene.size_text(scene.layer.values)}"
    matrices, rows = _output_matrices(scene), token_axis("query (reads)", scene.trace.tokens)
    head_grids = scene.head_grids(
        "context vectors", contexts, rows, side="head_value", followed=True
    )
    grids = (*head_grids, *_joined_context_grids(scene, matrices))
    formula, tex = _context_formulas(scene, matrices)
    parameter_remarks = [parameter_count_text(scene, matrices)] if matrices else []
    yield Section(
        *STEPS["context"],
        about=_context_description(scene, matrices),
        shapes=f"weights {sizes} → context {scene.size_text(contexts)}",
        formula=formula,
        tex=tex,
        grids=grids,
        sums=step_sums.context_sums(scene, scene.layer),
        remarks=(*parameter_remarks, *_later_steps_remarks(scene)),
        stages=_context_stages(scene, len(head_grids), [*matrices], len(grids)),
        stage_grids=_head_attention_grids(scene) if matrices or scene.layer.heads == 1 else (),
        finding=_context_finding(scene, matrices),
    )


def _context_finding(scene: Scene, output_matrices: Mapping[str, Tensor]) -> str:
    """Return what makes a context vector, if it is one head's and the followed token reads some."""
    layer, row = scene.layer, scene.followed_query
    if layer.heads > 1 or output_matrices or layer.off or row in layer.empty_rows(0):
        return ""
    name = quoted_token(scene.trace.tokens, row)
    return f"The weights of {name} mix the values into its context vector"


def _later_steps_remarks(scene: Scene) -> tuple[str, ...]:
    """Return that a trained model's next steps were not captured; empty for other models."""
    if scene.trace.trained is None:
        return ()
    has_answers = scene.trace.prediction is not None
    return (trained.LATER_STEPS_BUT_ANSWERS_NOTE if has_answers else trained.LATER_STEPS_NOTE,)


def _context_description(scene: Scene, output_matrices: Mapping[str, Tensor]) -> str:
    """State what is added up, how heads are joined, which are off, and which vectors are 0."""
    layer = scene.layer

    def blind_rows(head: int) -> list[int]:
        return [] if head in layer.off else layer.empty_rows(head)

    about = "The weighted values add up to the context vector: everything that a token has read."
    predicate = "has read nothing{}, so its vector is 0."
    about = " ".join([about, *_named_token_sentences(scene, blind_rows, predicate)])
    about += heads_off_vectors_note(layer, [*scene.shown_heads])
    if layer.heads > 1:
        has_matrix = output_matrices or scene.trace.trained is not None
        about += " The heads' vectors are then concatenated"
        about += "." if has_matrix else ", and no matrix mixes them."
    matrix_text = " Finally the result is multiplied by the output matrix."
    return about + matrix_text if output_matrices else about


def _joined_context_grids(scene: Scene, output_matrices: Mapping[str, Tensor]) -> Iterator[Grid]:
    """Yield the concatenated heads if there are several, then the output matrix, bias and result.

    Nothing without several heads or an output matrix.
    """
    rows = token_axis("query (reads)", scene.trace.tokens)
    if scene.layer.heads > 1:
        joined = join_heads(scene.layer.attended.contexts)
        yield scene.grid("joined heads", joined, rows, side="joined_width", followed=True)
    if output_matrices:
        yield from (scene.matrix_grid(name, matrix) for name, matrix in output_matrices.items())
        yield scene.grid("output", scene.layer.context, rows, followed=True)


def _head_attention_grids(scene: Scene) -> tuple[Grid, ...]:
    """Return the weights of each head, then the values of each head.

    Empty if heads are switched off, or if the tables need too many columns.
    """
    layer, rows = scene.layer, token_axis("key", scene.keys)
    keys, width = layer.values.shape[-2:]
    most = MAX_TABLE_COLUMNS if layer.heads > 1 else MAX_EQUATION_COLUMNS
    if layer.heads * (keys + 2 * width) > most or layer.off:
        return ()
    weights = scene.weight_grids("mixing", layer.attended.mixed_by)
    return (*weights, *scene.head_grids("values", layer.values_of_heads, rows, side="head_value"))


def _context_stages(
    scene: Scene, head_count: int, output_names: Sequence[str], first_extra: int
) -> Stages:
    """Lay out how tables are computed from each other: heads, joined heads and the output matrix.

    The first `head_count` grids are the heads' contexts; those from `first_extra` on are their
    weights and values. Empty if only one of several heads is shown, or if there is nothing to lay
    out.
    """
    joins_heads = scene.layer.heads > 1
    joined_index = head_count if joins_heads else 0
    if head_count < scene.layer.heads:
        return ()
    lines = []
    if joins_heads:
        lines = [(*with_sign_between(range(head_count), SEPARATE_TABLES), "→", joined_index)]
    if (output_names or not joins_heads) and _head_attention_grids(scene):
        lines = [
            (first_extra + head, "·", first_extra + head_count + head, "=", head)
            for head in range(head_count)
        ]
    if output_names:
        factors = ("·", joined_index + 1, "+", joined_index + 2)[: 2 * len(output_names)]
        lines.append((joined_index, *factors, "=", joined_index + len(output_names) + 1))
    return tuple(lines)


def _output_matrices(scene: Scene) -> dict[str, Tensor]:
    tensors = {name: getattr(scene.layer.projections, name, None) for name in ("w_out", "b_out")}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _context_formulas(scene: Scene, output_matrices: dict[str, Tensor]) -> tuple[str, str]:
    """Return the formula of the context as plain text, and in TeX."""
    formulas = [] if scene.layer.off else ["context = weights · V"]
    if not output_matrices:
        return "".join(formulas), "Z = W V" if formulas else ""
    input_name = "joined" if scene.layer.heads > 1 else "context"
    has_bias = "b_out" in output_matrices
    plain = " · ".join([*formulas, f"output = {input_name} W_out{' + b_out' if has_bias else ''}"])
    return plain, r"Z W_o + b_o" if has_bias else r"Z W_o"


def softmax_columns(scene: Scene) -> ColumnChart | None:
    """Return bars for the scores, their exponentials and the weights of one query in one head.

    None if several heads or all queries are shown, for a mistake, with more than 20 keys, and if
    all are masked. Large scores are shifted by the largest.
    """
    if scene.options.query is None or len(scene.shown_heads) > 1 or scene.layer.mistake:
        return None
    (head,) = scene.shown_heads
    names, scores, weights = _softmax_row(scene, head)
    visible = [score for score in scores if math.isfinite(score)]
    if len(names) > MAX_SOFTMAX_BARS or not visible:
        return None
    write = scene.style.for_values(*visible)
    shift = write.rounded(max(visible)) if max(map(abs, visible)) > MAX_UNSHIFTED_SCORE else 0.0
    exps = [math.exp(score - shift) for score in scores]
    shift_text = f" {'−' if shift > 0 else '+'} {write(abs(shift))}" if shift else ""
    scale = scene.weight_grids("weights", "softmax")[0].scale
    score_row = ColumnChartRow(
        score_name(scene.trace, scene.layer).removesuffix(" score"),  # few letters: bars need room
        tuple(score if math.isfinite(score) else None for score in scores),
        tuple(write(score) if math.isfinite(score) else MINUS_INFINITY for score in scores),
        centred_scale("score", unmasked_cells(np.array([visible]))),
    )
    exp_scale = Scale("exp", 0, scale.high * math.fsum(exps))
    exp_row = _column_row(scene, f"exp(score{shift_text})", exps, exp_scale)
    return ColumnChart(names, (score_row, exp_row, _column_row(scene, "weight", weights, scale)))


def _column_row(scene: Scene, name: str, values: list[float], scale: Scale) -> ColumnChartRow:
    """Return a row of bars that are labelled with their numbers and their sum."""
    write, total = scene.style.for_values(*values), math.fsum(values)
    texts = tuple(map(write, values))
    total_text = "1" if abs(total - 1) < SUM_ROUNDING_ERROR else write(total)
    return ColumnChartRow(name, tuple(values), texts, scale, f"sum {total_text}")


def _softmax_row(scene: Scene, head: int) -> tuple[tuple[str, ...], list[float], list[float]]:
    """Return names, scores and weights of a query's keys, and last of an attention sink."""
    names = tuple(scene.token_name(scene.keys, key) for key in range(len(scene.keys)))
    scores, weights = scene.stage_row("exponents", head), scene.stage_row("weights", head)
    if scene.layer.attended.sink is None:
        return names, scores, weights
    sink = scene.layer.attended.sink[head].item()
    return (*names, "(sink)"), [*scores, sink], [*weights, 1 - math.fsum(weights)]


def softmax_finding(scene: Scene, columns: ColumnChart | None) -> str:
    """Return the key with the highest score and its weight, as a sentence without a full stop.

    Empty without `columns`, for a single key, if several scores read the same, or if a sink leads.
    """
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
