"""The arithmetic of each step, written out for the followed token.

A function with @_if_followed returns an empty tuple if no token is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import isfinite
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import join_heads
from attnviz.attention.block import NORM_EPSILON, Block, Norm, Residual
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import FULL_SLICE
from attnviz.traces.models.answers import AnswerScoring, Prediction
from attnviz.traces.origin import resolved_settings
from attnviz.traces.trace import Layer
from attnviz.traces.weights import Stage, head_mask
from attnviz.vectors import positions
from attnviz.views.attention_facts import has_learned_norm
from attnviz.views.grids.number_formats import MINUS_INFINITY
from attnviz.views.head_vectors import divisor_texts
from attnviz.views.origin_words import dimension_names
from attnviz.views.steps.scene import Scene
from attnviz.wording.sums import MAX_TERMS, Sum, SumWriter

Sums = tuple[Sum, ...]
ADJUSTED_NAMES: dict[Stage, str] = {
    "capped scores": "capped",
    "biased scores": "biased",
    "scores with mask": "with mask",
}


class MatrixRows(Sequence[list[float]]):
    """The rows of a matrix as lists, converted only when used: a model has thousands of rows."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return len(self._matrix)

    def __getitem__(self, index: Any) -> Any:
        return self._matrix[index].tolist()


def _if_followed(write: Callable[..., Iterator[Sum]]) -> Callable[..., Sums]:
    """Decorate a generator of sums: it returns a tuple, which is empty if no token is followed."""

    @wraps(write)
    def written(scene: Scene, *arguments: Any) -> Sums:
        return () if scene.options.query is None else tuple(write(scene, *arguments))

    return written


@_if_followed
def input_sums(scene: Scene) -> Iterator[Sum]:
    """Write the followed token's input as its embedding plus its position.

    Nothing if no token is followed.
    """
    row = scene.followed_query
    inputs, embeddings = scene.layer.layer_inputs[row], scene.trace.embeddings[row]
    terms = [embeddings.tolist(), (inputs - embeddings).tolist()]
    yield scene.write(f"input({scene.query_name})").added_vectors(terms, inputs.tolist())


@_if_followed
def vector_sums(scene: Scene, layer: Layer, vectors_by_kind: dict[str, Tensor]) -> Iterator[Sum]:
    """Write the followed token's query, key and value as vector times matrix, per head.

    With --key, the key and value are those of that key. If keys come from other tokens, they are
    those of the key with the largest weight. Vectors without a matrix are left out. Nothing if no
    token is followed.
    """
    matrices = layer.projections
    names = {"queries": "query", "keys": "key", "values": "value"}
    for plural, name in names.items():
        matrix, bias = getattr(matrices, f"w_{name}", None), getattr(matrices, f"b_{name}", None)
        if matrix is None or plural not in vectors_by_kind:
            continue
        token, vector, position = _vector_source(scene, layer, name)
        groups = scene.head_groups(len(vectors_by_kind[plural]), scene.written_heads)
        for group, heads in groups.items():
            result = vectors_by_kind[plural][group, position].tolist()
            columns = slice(group * len(result), (group + 1) * len(result))
            writer = scene.write(f"{name}{scene.group_suffix(heads)}({token})")
            own_bias = None if bias is None else bias[columns].tolist()
            rows = MatrixRows(matrix[:, columns])
            yield writer.weighted_vectors(vector.tolist(), rows, result, own_bias)


def _vector_source(scene: Scene, layer: Layer, name: str) -> tuple[str, Tensor, int]:
    """Return the token's name, the vector and the position that one vector is computed from.

    `name` is 'query', 'key' or 'value'.
    """
    row, asked_key = scene.followed_query, scene.options.key
    if name == "query" or (layer.key_inputs is None and asked_key is None):
        return scene.query_name, layer.inputs[row], row
    position = _written_key(scene)
    read_vectors = layer.inputs if layer.key_inputs is None else layer.key_inputs
    return scene.token_name(scene.keys, position), read_vectors[position], position


def _written_key(scene: Scene) -> int:
    """Return the position of the key that is written out: that of --key, else the token's own.

    If keys are other tokens than queries, it is the one with the largest weight.
    """
    if scene.options.key is not None:
        return scene.options.key
    if scene.keys is scene.trace.tokens:
        return scene.followed_query
    weights = scene.stage_row("mixing", scene.written_heads[0])
    return weights.index(max(weights))


@_if_followed
def rotation_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write the rotation of each pair of numbers of the followed query, and of one key.

    Without --full, only the first pairs. Nothing if no token is followed.
    """
    assert layer.before_rotary is not None
    kinds = (
        ("query", scene.followed_query, layer.before_rotary.queries, layer.queries),
        ("key", _written_key(scene), layer.before_rotary.keys, layer.keys),
    )
    base, width = resolved_settings(scene.trace.origin).position_base, layer.head_dim
    halves = scene.trace.positions == "rotary-halves"
    for name, row, before, after in kinds:
        assert after is not None
        token = scene.token_name(scene.trace.tokens if name == "query" else scene.keys, row)
        angles = positions.rotation_angles(row + 1, width, base)[row].tolist()
        for group, heads in scene.head_groups(len(before), scene.written_heads).items():
            for pair, angle in enumerate(angles[: None if scene.options.full else MAX_TERMS]):
                cells = positions.pair_indices(pair, width, halves=halves)
                writer = scene.write(f"{name}{scene.group_suffix(heads)}({token}), pair {pair + 1}")
                numbers, rotated = (each[group, row, cells].tolist() for each in (before, after))
                yield writer.rotation(numbers, angle, rotated)


@_if_followed
def score_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each score of the followed query as a dot product, per head and key; an additive score
    as w_score · tanh(query + key).

    Nothing if no token is followed.
    """
    (queries, keys), row = layer.queries_with_keys(), scene.followed_query
    weights = None if layer.w_score is None else layer.w_score.view(layer.heads, -1).tolist()
    for head, key, writer in _written_cells(scene, "score", scene.written_keys):
        pair = queries[head, row].tolist(), keys[head, key].tolist()
        results = scene.stage_row("scores", head)
        ends = scene.style.for_values(*results)
        if weights is None:
            yield writer.dot_product(*pair, results[key], ends)
        else:
            yield writer.additive_score(weights[head], pair, results[key], ends)


@_if_followed
def scaling_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each score of the followed query divided by √d_k and the temperature.

    Nothing if no token is followed.
    """
    variant = scene.trace.variant
    root = layer.head_dim**0.5 if variant.scaled else 1.0
    divisor = 1 / layer.scale if scene.trace.trained is not None else root * variant.temperature
    texts = divisor_texts(scene.trace, layer)
    for head, key, writer in _written_cells(scene, "scaled", scene.written_keys):
        values, results = scene.stage_row("scores", head), scene.stage_row("scaled scores", head)
        yield writer.quotient(values, key, texts, divisor, results)


@_if_followed
def soft_cap_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each score of the followed query as limited by tanh.

    Nothing if no token is followed.
    """
    cap = scene.trace.variant.soft_cap
    assert cap is not None
    for head, key, writer in _written_cells(scene, "capped", scene.written_keys):
        values = scene.stage_row("scaled scores", head)
        results = scene.stage_row("capped scores", head)
        yield writer.capped_score(values, key, cap, results)


@_if_followed
def alibi_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each score of the followed query minus slope times distance.

    Nothing if no token is followed.
    """
    row, slopes = scene.query_position, positions.alibi_slopes(layer.heads)
    stage = scene.stage_before("biased scores")
    for head, key, writer in _written_cells(scene, "biased", scene.written_keys):
        values, results = scene.stage_row(stage, head), scene.stage_row("biased scores", head)
        factors = slopes[head], abs(row - key)
        yield writer.distance_penalty(values, key, factors, results)


@_if_followed
def addition_sums(scene: Scene, stage: Stage, numbers: Tensor) -> Iterator[Sum]:
    """Write each score of the followed query before `stage` plus its number in `numbers`: a learned
    position bias, or a mask.

    Nothing if no token is followed.
    """
    before = scene.stage_before(stage)
    for head, key, writer in _written_cells(scene, ADJUSTED_NAMES[stage], scene.written_keys):
        values, results = scene.stage_row(before, head), scene.stage_row(stage, head)
        additions = head_mask(head, numbers)[scene.followed_query].tolist()
        yield writer.addition(values, key, additions, results)


@_if_followed
def mask_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write −∞ for each key that the mask hides from the followed query, and with --key what was
    added to a score that it does not hide.

    Nothing if no token is followed.
    """
    yield from _adjusted_score_sums(scene, layer)
    for head in (head for head in scene.mask_heads if head in scene.written_heads):
        suffix = scene.head_suffix(head) if len(scene.mask_heads) > 1 else ""
        for key in (key for key in scene.written_keys if key in scene.masked_keys(head)):
            yield Sum(f"masked{suffix}{scene.cell_name(key)}", MINUS_INFINITY, "", True)


def _adjusted_score_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Yield one line for the score of --key in each head: `biased(cat, I) = 0.75 - 0.0625·3 (ALiBi)
    = 0.56`.

    Nothing without --key, where nothing is done to scores but scaling, and for hidden keys.
    """
    key, stage = scene.options.key, scene.stage_before("masked scores")
    if key is None or stage == "scaled scores":
        return
    cap = None if layer.attended.capped_scores is None else scene.trace.variant.soft_cap
    for head, _, writer in _written_cells(scene, ADJUSTED_NAMES[stage], [key]):
        if key in scene.masked_keys(head):
            continue
        rows = scene.stage_row("scaled scores", head), scene.stage_row(stage, head)
        first, last = (scene.style.for_values(*filter(isfinite, row)) for row in rows)
        addends = tuple(_addends(scene, layer, head, key))
        first_writer = SumWriter(writer.left, first)
        yield first_writer.adjusted_score(rows[0][key], cap, addends, rows[1][key], last)


def _addends(scene: Scene, layer: Layer, head: int, key: int) -> Iterator[tuple[str, str, float]]:
    """Yield name, text and value of what is added to a score: ALiBi or a position bias, a mask."""
    bias, mask = layer.attended.bias, layer.attended.mask
    if bias is not None and scene.trace.trained is None:
        slope, distance = positions.alibi_slopes(layer.heads)[head], abs(scene.query_position - key)
        yield "ALiBi", f"-{slope!r}·{distance}", -slope * distance
    elif bias is not None:
        yield "position bias", *_addend(scene, bias, head, key)
    if mask is not None:
        yield "additive mask", *_addend(scene, mask, head, key)


def _addend(scene: Scene, numbers: Tensor, head: int, key: int) -> tuple[str, float]:
    """Return what one of `numbers` adds to the followed query's score, as text and as printed."""
    number = head_mask(head, numbers)[scene.followed_query, key].item()
    text = scene.style.for_values(number)(number)
    return text, float(text)


@_if_followed
def softmax_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each weight of the followed query as exp divided by the sum of exps.

    Masked keys are left out, except for mistakes. Nothing if no token is followed.
    """
    # weights written by hand may be above 0 where the mask hides a key from the softmax
    for head, key, writer in _written_cells(scene, "weight", scene.visible_keys):
        if key in scene.masked_keys(head) and not layer.mistake:
            continue
        numbers, position = _softmax_exponents(scene, layer, head, key)
        result = scene.stage_row("weights", head)[key]
        yield writer.softmax(numbers, position, result)


def _softmax_exponents(scene: Scene, layer: Layer, head: int, key: int) -> tuple[list[float], int]:
    """Return the finite numbers that the softmax runs over, and the index of this cell in them.

    Usually the followed row, a sink included; for a mistake the key's column or the whole matrix.
    """
    row, cells = scene.followed_query, layer.weights.cells("exponents", head)
    mistake = MISTAKES.get(layer.mistake)
    over = mistake.softmax_axis if mistake else "row"
    if over == "row":
        exponents, position = cells.row(row).values[0], key
    elif over == "column":
        exponents, position = cells.window(FULL_SLICE, slice(key, key + 1)).values[:, 0], row
    else:
        exponents = cells.window(FULL_SLICE, FULL_SLICE).values.ravel()
        position = row * cells.shape[1] + key
    sink = layer.attended.sink
    if sink is not None:
        exponents = np.append(exponents, sink[head].item())
    is_finite = np.isfinite(exponents)
    return exponents[is_finite].tolist(), int(is_finite[:position].sum())


@_if_followed
def match_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write the score of each key that shares a feature with the query, product by product.

    Keys without a shared feature or with a score of −∞ are left out, and all with a soft cap, after
    which a score is no longer a sum. Nothing if no token is followed.
    """
    queries, keys = layer.queries_with_keys()
    division = divisor_texts(scene.trace, layer), 1 / layer.scale
    for head, key, writer in _written_cells(scene, "match", scene.visible_keys):
        names = dimension_names(scene.trace, layer, "width", head)
        pair = queries[head, scene.followed_query].tolist(), keys[head, key].tolist()
        shared = [feature for feature in zip(names, *pair, strict=True) if all(feature[1:])]
        result = scene.stage_row("masked scores", head)[key]
        if shared and isfinite(result) and layer.attended.capped_scores is None:
            added = result - scene.stage_row("scaled scores", head)[key]
            yield writer.named_products(shared, division, added, result)


@_if_followed
def dropout_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write each weight of the followed query times its dropout factor, which may be 0.

    Nothing if no token is followed.
    """
    keep_factor, is_given = 1 / (1 - scene.trace.variant.dropout), "kept" in layer.given
    for head, key, writer in _written_cells(scene, "kept", scene.visible_keys):
        weight, result = scene.stage_row("weights", head)[key], scene.stage_row("mixing", head)[key]
        factor = result / weight if is_given and weight else keep_factor
        yield writer.product(weight, factor if result else 0.0, result)


@_if_followed
def weighted_value_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write the value of each key times its weight.||Nothing if no token is followed."""
    for head, key, writer in _written_cells(scene, "weighted", scene.visible_keys):
        weight, value = scene.stage_row("mixing", head)[key], layer.values_of_heads[head, key]
        result = scene.weighted_values[head, key].tolist()
        yield writer.weighted_vectors([weight], [value.tolist()], result, shares=True)


@_if_followed
def context_sums(scene: Scene, layer: Layer) -> Iterator[Sum]:
    """Write the followed token's context vector in each head, then its output if there is a matrix.

    A head that is off or reads nothing has no terms; one replaced by its mean is written as a mean.
    Nothing if no token is followed.
    """
    row, read_keys, matrices = scene.followed_query, scene.read_keys, layer.projections
    for head in scene.written_heads:
        all_weights = scene.stage_row("mixing", head)
        weights = [all_weights[key] for key in read_keys]
        values = MatrixRows(layer.values_of_heads[head, read_keys])
        writer = scene.write(f"context{scene.head_suffix(head)}({scene.query_name})")
        result = layer.attended.contexts[head, row].tolist()
        if layer.off.get(head) == "mean":
            mixed_values = arithmetic.mix_values(layer.attended.mixing, layer.values_of_heads)[head]
            yield writer.vector_mean(MatrixRows(mixed_values), result)
        elif read_keys and head not in layer.off:
            yield writer.weighted_vectors(weights, values, result, shares=True)
        else:
            yield writer.vector_alone(result)
    if matrices is not None and matrices.w_out is not None:
        joined = join_heads(layer.attended.contexts)[row].tolist()
        bias = None if matrices.b_out is None else matrices.b_out.tolist()
        rows, result = MatrixRows(matrices.w_out), layer.context[row].tolist()
        writer = scene.write(f"output({scene.query_name})")
        yield writer.weighted_vectors(joined, rows, result, bias)


@_if_followed
def residual_sums(scene: Scene, residual: Residual) -> Iterator[Sum]:
    """Write x + f(x), and in a post-norm block its LayerNorm.||Nothing if no token is followed."""
    row = scene.followed_query
    terms = [residual.inputs[row].tolist(), residual.sublayer_outputs[row].tolist()]
    writer = scene.write(f"sum({scene.query_name})")
    yield writer.added_vectors(terms, residual.added[row].tolist())
    post = scene.layer.block is not None and scene.layer.block.norm_placement == "post"
    if residual.norm is not None and post:
        yield from norm_sums(scene, residual.added, residual.outputs, residual.norm)


@_if_followed
def norm_sums(scene: Scene, before: Tensor, after: Tensor, norm: Norm) -> Iterator[Sum]:
    """Write the mean, the variance and the result of a LayerNorm; a gain of 1 with a shift of 0 is
    left out. Nothing if no token is followed.
    """
    vector, name = before[scene.followed_query], scene.query_name
    mean, variance = vector.mean().item(), vector.var(correction=0).item()
    numbers, result = vector.tolist(), after[scene.followed_query].tolist()
    yield scene.write(f"mean({name})").mean(numbers, mean)
    yield scene.write(f"variance({name})").variance(numbers, mean, variance)
    gain_and_shift = (norm.gain.tolist(), norm.shift.tolist()) if has_learned_norm(norm) else None
    writer, spread = scene.write(f"normed({name})"), (variance, NORM_EPSILON)
    yield writer.layer_norm(numbers, mean, spread, result, gain_and_shift)


@_if_followed
def feed_forward_sums(scene: Scene, block: Block) -> Iterator[Sum]:
    """Write the first matrix with the activation, then the second matrix.

    Nothing if no token is followed.
    """
    feed_forward, row = block.required_feed_forward, scene.followed_query
    parameters, name, residual = feed_forward.parameters, scene.query_name, feed_forward.residual
    inputs, hidden, outputs = (
        vectors[row].tolist()
        for vectors in (residual.sublayer_inputs, feed_forward.hidden, residual.sublayer_outputs)
    )
    w_1, b_1 = MatrixRows(parameters.w_1), _nonzero_bias(parameters.b_1)
    w_2, b_2 = MatrixRows(parameters.w_2), _nonzero_bias(parameters.b_2)
    writer = scene.write(f"hidden({name})")
    yield writer.activation(parameters.activation, inputs, w_1, b_1, hidden)
    yield scene.write(f"output({name})").weighted_vectors(hidden, w_2, outputs, b_2)


@_if_followed
def answer_score_sums(
    scene: Scene, prediction: Prediction, scoring: AnswerScoring, answers: Sequence[int]
) -> Iterator[Sum]:
    """Write the score of each of `answers` as a dot product of vector and answer.

    Nothing if no token is followed.
    """
    row = scene.followed_query
    vector, scores = scoring.vectors[row].tolist(), prediction.logits[row].tolist()
    ends = scene.style.for_values(*scores)
    for answer in answers:
        writer = scene.write(f"score({scene.query_name}, {prediction.answers[answer]})")
        column = scoring.w_answers[:, answer].tolist()
        bias = None if scoring.b_answers is None else scoring.b_answers[answer].item()
        yield writer.dot_product(vector, column, scores[answer], ends, bias)


@_if_followed
def answer_probability_sums(
    scene: Scene, prediction: Prediction, answers: Sequence[int]
) -> Iterator[Sum]:
    """Write the probability of each of `answers` as a softmax over the scores of all answers.

    Nothing if no token is followed.
    """
    row, scores = scene.followed_query, prediction.logits[scene.followed_query].tolist()
    order = [*answers, *(index for index in range(len(scores)) if index not in answers)]
    ordered = [scores[index] for index in order]
    for index, answer in enumerate(answers):
        writer = scene.write(f"probability({scene.query_name}, {prediction.answers[answer]})")
        result = prediction.probabilities[row, answer].item()
        yield writer.softmax(ordered, index, result)


def _nonzero_bias(bias: Tensor) -> list[float] | None:
    numbers: list[float] = bias.tolist()
    return numbers if any(numbers) else None


def _written_cells(scene: Scene, name: str, keys: Any) -> Iterator[tuple[int, int, SumWriter]]:
    """Yield head, key and the writer of a sum, `score H1(it, cat) = …`, for each cell of the
    followed row.

    Only heads that are written out, and the keys in `keys`.
    """
    for head in scene.written_heads:
        for key in keys:
            left = f"{name}{scene.head_suffix(head)}{scene.cell_name(key)}"
            yield head, key, scene.write(left)
