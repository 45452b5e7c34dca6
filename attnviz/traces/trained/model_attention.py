"""The attention of a model on a text: captured, or as the model returns it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, prod
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.arithmetic import join_heads
from attnviz.attention.long_attention import SummaryChoice
from attnviz.errors import AttnvizError, model_error, opt
from attnviz.machine import memory
from attnviz.options.values import AttentionKind, Positions
from attnviz.traces.settings import Settings, format_head_id, parse_heads_off, refuse_missing_heads
from attnviz.traces.trace import Layer, weights_only_layer
from attnviz.traces.trained.answers import AnswerPositions, PassResult
from attnviz.traces.trained.capture import LayerOutput
from attnviz.traces.trained.captured_attention import (
    RecomputedAttention,
    StreamedOnDemand,
    WeightsOnDemand,
)
from attnviz.traces.trained.forward_pass import (
    CannotRun,
    CapturedPass,
    ModelInput,
    capture_pass,
    refuse_infinite_result,
    run_model,
)
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.matrix_recognition import (
    RecognisedLayer,
    find_rotary_positions,
    recognise_matrices,
)
from attnviz.traces.trained.model_state import (
    EAGER_NAME,
    ModelResults,
    results_for_model,
    unchanged_model,
)
from attnviz.wording.words import counted

WEIGHT_BYTES, MATRIX_COPIES = 4, 3  # copies: weights, their logarithms, and the mask
MAX_NAMED_MODULES = 6
RETURN_OPTIONS = {"output_attentions": True, "output_hidden_states": True}
TORCH_MODULE_NAMES = frozenset(
    name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type)
)
ATTENTION_OUTPUT_NAMES: dict[AttentionKind, str] = {
    "self": "attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
EAGER_TOLERANCE = {"float64": 1e-5, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}
VECTOR_TOLERANCE_FACTOR = 10  # as the rounding of many layers adds up in the vectors


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelAttention:
    """The attention of the wanted layers, and the result of the forward pass."""

    layers: tuple[Layer, ...]
    parameters: int = 0  # of the whole model
    layer_numbers: tuple[int, ...]  # of all layers that attend, in `layers` or not
    result: PassResult
    eager_difference: EagerDifference | None = None  # None: the attention is the eager one
    soft_cap: float | None = None
    positions: Positions = "none"
    position_base: float = Settings.position_base


def compute_model_attention(
    model: LoadedTransformer,
    model_input: ModelInput,
    settings: Settings,
    layers: Collection[int] | None,
    answer_positions: AnswerPositions | None,
    choice: SummaryChoice | None = None,
) -> ModelAttention:
    """Return the attention of the layers in `layers` (None: all), captured if that is exact.

    Where it cannot be captured, or differs from the model's eager attention by more than rounding,
    layers have only the weights that the model returns. Refuses missing layers and heads, ablation
    where only weights are returned, and a model without attention. `choice`: what is measured of
    a long text while the model reads it.
    """
    off, runs = parse_heads_off(settings.without), True
    known = results_for_model(model.model) if model.results is None else model.results
    try:
        captured_pass = capture_pass(
            model,
            model_input,
            layers=layers,
            off=off,
            answer_positions=answer_positions,
            known=known,
            choice=choice,
        )
    except CannotRun:  # with captured attention, or at all
        captured_pass, runs = None, False
    difference = captured_pass and find_eager_difference(model, model_input, captured_pass, known)
    if captured_pass and difference and difference.is_rounding(settings.dtype):
        attention = _attention_from_capture(model, captured_pass, difference, known)
    else:
        attention = _returned_attention(model, model_input, layers, answer_positions, runs=runs)
        _refuse_for_returned_weights(model, settings)
    refuse_infinite_result(model, attention.result)
    if "parameters" not in known:
        known["parameters"] = model.model.num_parameters()
    numbers = attention.layer_numbers
    _refuse_missing_layers(numbers, settings, layers)
    refuse_missing_heads(settings.without, numbers[-1] + 1, attention.layers[0].heads)
    return replace(attention, parameters=known["parameters"])


def _attention_from_capture(
    model: LoadedTransformer,
    captured_pass: CapturedPass,
    difference: EagerDifference,
    known: ModelResults,
) -> ModelAttention:
    """Return captured layers with their recognised matrices and rotary positions."""
    config, outputs = model.text_config, captured_pass.outputs
    recognised_layers = [
        recognise_matrices(captured, outputs.get(captured.layer, LayerOutput()), config, known)
        for captured in captured_pass.captured
    ]
    positions, base = find_rotary_positions(recognised_layers)
    return ModelAttention(
        layers=tuple(map(_layer_from_captured, recognised_layers)),
        layer_numbers=captured_pass.layer_numbers,
        result=captured_pass.result,
        eager_difference=difference,
        soft_cap=captured_pass.captured[0].soft_cap if captured_pass.captured else None,
        positions=positions,
        position_base=base,
    )


def run_with_all_heads(
    model: LoadedTransformer, model_input: ModelInput, answer_positions: AnswerPositions | None
) -> PassResult | None:
    """Return the result of a pass without ablation; None if the attention cannot be captured."""
    captured_pass = capture_pass(model, model_input, layers=(), answer_positions=answer_positions)
    return None if captured_pass is None else captured_pass.result


def _layer_from_captured(recognised_layer: RecognisedLayer) -> Layer:
    """Return a captured layer as a Layer, which computes its scores and weights when accessed."""
    captured, context = recognised_layer.captured, recognised_layer.output.product
    recomputed = RecomputedAttention(captured)
    weights_class = WeightsOnDemand if captured.maps is None else StreamedOnDemand
    if context is None:
        context = join_heads(captured.contexts())
    return Layer(
        layer=captured.layer,
        scale=captured.scale,
        head_dim=captured.queries.shape[-1],
        inputs=captured.inputs,
        key_inputs=captured.memory,
        projections=recognised_layer.projections,
        before_rotary=recognised_layer.before_rotary,
        queries=captured.queries,
        keys=captured.keys,
        values=captured.values,
        mask_rule=captured.mask,
        attended=recomputed,
        context=context,
        given=recognised_layer.given_parts,
        off=captured.off,
        weights_on_demand=weights_class(captured, recomputed),
    )


def _refuse_for_returned_weights(model: LoadedTransformer, settings: Settings) -> None:
    """Refuse --without and --stream, for a model that only returns its weights."""
    reasons = {
        "without": "switch off heads of",
        "stream": "compute weights where they are shown with",
    }
    for name, reason in reasons.items():
        if getattr(settings, name):
            raise AttnvizError(
                f"{opt[name]} cannot {reason} the model '{model.name}' "
                f"({model.config.model_type}), which only returns its weights",
                f"leave {opt[name]} out",
                about=name,
            )


def _refuse_missing_layers(
    numbers: tuple[int, ...], settings: Settings, layers: Collection[int] | None
) -> None:
    """Refuse layers, in `layers` and in --without, that are not in `numbers`: those that attend.

    Those in --without are checked only if some layers of the model do not attend.
    """
    is_consecutive, count = numbers == tuple(range(len(numbers))), counted(len(numbers), "layer")
    range_phrase = f"the model has {count}, {' to '.join(map(str, sorted({0, numbers[-1]})))}"
    list_phrase = f"the model attends in {count}: {', '.join(map(str, numbers))}"
    absent = [number for number in layers or () if number not in numbers]
    if absent:
        raise AttnvizError(
            f"there is no layer {absent[0]}: {range_phrase if is_consecutive else list_phrase}",
            f"try {opt.layer:{numbers[-1]}}",
            about="layer",
        )
    off = [head_id for head_id in parse_heads_off(settings.without) if head_id[0] not in numbers]
    if off and not is_consecutive:
        raise AttnvizError(
            f"{opt.without} names {format_head_id(*off[0])}, but there is no such head",
            list_phrase,
            about="without",
        )


def _returned_attention(
    model: LoadedTransformer,
    model_input: ModelInput,
    layers: Collection[int] | None,
    answer_positions: AnswerPositions | None,
    *,
    runs: bool,
) -> ModelAttention:
    """Return layers that have only the weights that the model itself returns.

    Refuses a model that returns none, or not one for each query and key, and matrices that do not
    fit in memory. `runs`: the model ran before, so an error now means that it cannot return
    weights.
    """
    _refuse_large_matrices(model, model_input)
    try:
        with unchanged_model(model.model):
            _refuse_fast_attention(model)
            result, outputs = run_model(model, model_input, answer_positions, **RETURN_OPTIONS)
        if not returned_weights(outputs, model_input.kind):
            with unchanged_model(model.model):
                run_model(model, model_input)  # which may exchange modules, as BigBird does
                result, outputs = run_model(model, model_input, answer_positions, **RETURN_OPTIONS)
    except CannotRun:
        if not runs:
            raise
        raise no_attention_error(model) from None
    weights = returned_weights(outputs, model_input.kind)
    if not weights:
        raise no_attention_error(model)
    _refuse_odd_shapes(model, model_input, weights)
    is_self, is_cross = model_input.kind == "self", model_input.kind == "cross"
    inputs = outputs.hidden_states if is_self else outputs.decoder_hidden_states
    key_inputs = outputs.encoder_last_hidden_state[0] if is_cross else None
    all_numbers = range(len(weights))
    returned_layers = [
        _layer_from_returned_weights(number, weights[number][0], inputs[number][0], key_inputs)
        for number in (all_numbers if layers is None else layers)
        if number < len(weights)
    ]
    return ModelAttention(
        layers=tuple(returned_layers), layer_numbers=tuple(all_numbers), result=result
    )


def _refuse_fast_attention(model: LoadedTransformer) -> None:
    """Refuse a model that keeps the attention it was loaded with, if that is not the eager one.

    The weights that it returns may then be false: without the causal mask, for example.
    """
    attention = getattr(model.config, "_attn_implementation", EAGER_NAME)
    if attention != EAGER_NAME:
        raise model_error(
            f"the model '{model.name}' ({model.config.model_type}) was loaded with "
            f"attn_implementation='{attention}', which does not return its weights",
            "load it again with attn_implementation='eager'",
        )


def _layer_from_returned_weights(
    number: int, weights: Tensor, inputs: Tensor, key_inputs: Tensor | None
) -> Layer:
    """Return a layer that has only weights, where a weight of 0 counts as masked."""
    visible = weights > 0
    if bool((visible == visible[0]).all()):  # one mask for all heads
        visible = visible[0]
    return weights_only_layer(
        number, weights, visible=visible, inputs=inputs, key_inputs=key_inputs
    )


def _refuse_large_matrices(model: LoadedTransformer, model_input: ModelInput) -> None:
    """Refuse an input whose weights, in all layers and heads, do not fit in memory."""
    tokens = max(len(model_input.ids), len(model_input.decoder_ids))
    memory.refuse_too_little_memory(
        prod((model.heads, model.layers, tokens, tokens, WEIGHT_BYTES, MATRIX_COPIES)),
        f"the weights of the model '{model.name}', which returns them as matrices,",
        "give a shorter text",
    )


def _refuse_odd_shapes(model: LoadedTransformer, model_input: ModelInput, weights: Any) -> None:
    """Refuse weights that are not one for each query and key, as where a text is in blocks."""
    queries = len(model_input.ids) if model_input.kind == "self" else len(model_input.decoder_ids)
    keys = len(model_input.decoder_ids) if model_input.kind == "decoder" else len(model_input.ids)
    for matrix in weights:
        if tuple(matrix.shape[-2:]) != (queries, keys) or matrix.ndim != 4:
            raise model_error(
                f"the model '{model.name}' ({model.config.model_type}) returns weights of "
                f"{' × '.join(map(str, matrix.shape))}, which do not fit {queries} queries "
                f"and {keys} keys",
                "use another model: for this kind it cannot be shown which token reads which",
            )


def no_attention_error(model: LoadedTransformer) -> AttnvizError:
    """Return the error for a model without attention, which lists the modules that it has."""
    kinds = sorted({type(module).__name__ for module in model.model.modules()} - TORCH_MODULE_NAMES)
    more = " …" * (len(kinds) > MAX_NAMED_MODULES)
    return model_error(
        f"no attention can be found in the model '{model.name}' ({model.config.model_type}); it "
        f"is made of {', '.join(kinds[:MAX_NAMED_MODULES])}{more}",
        model.text_part or "use a model with attention: a BERT, GPT-2 or Llama, for example",
    )


@dataclass(frozen=True)
class EagerDifference:
    """The largest differences of captured attention from the model's own eager attention."""

    weights: float | None  # None: the model returns no weights
    vectors: float  # of the last layer, relative to the largest number there
    tokens: int  # how many were compared

    def is_rounding(self, dtype: str) -> bool:
        limit = EAGER_TOLERANCE[dtype]
        return (self.weights or 0.0) <= limit and self.vectors <= VECTOR_TOLERANCE_FACTOR * limit


def find_eager_difference(
    model: LoadedTransformer,
    model_input: ModelInput,
    captured_pass: CapturedPass,
    known: ModelResults,
) -> EagerDifference | None:
    """Return how far captured attention is from the model's eager attention, or None.

    A difference in `known`, which was measured on an earlier text, is returned if it is of these
    layers and of no fewer first tokens; else it is measured and added.
    """
    probe, key = model_input.probe, ("eager", model_input.kind)
    numbers = {captured.layer for captured in captured_pass.captured}
    difference: EagerDifference | None
    difference, known_numbers = known.get(key, (None, set()))
    if difference and len(probe.queries) <= difference.tokens and numbers <= known_numbers:
        return difference
    difference = measure_eager_difference(model, model_input, captured_pass)
    known[key] = difference, numbers
    return difference


def measure_eager_difference(
    model: LoadedTransformer, model_input: ModelInput, captured_pass: CapturedPass
) -> EagerDifference | None:
    """Return how far captured attention is from the model's eager attention, on the first tokens.

    `captured_pass` itself is compared if it is of a short input without ablation, else a new pass
    is captured; None if that gives nothing.
    """
    probe = model_input.probe
    is_whole = probe == model_input and not captured_pass.off
    layers = {captured.layer for captured in captured_pass.captured}
    ours = captured_pass if is_whole else capture_pass(model, probe, layers=layers)
    if ours is None:
        return None
    with unchanged_model(model.model):
        eager_result, outputs = run_model(model, probe, output_attentions=True)
    theirs = returned_weights(outputs, model_input.kind)
    weights = _captured_weight_difference(ours, theirs) if theirs else None
    vectors = relative_difference(ours.result.vectors, eager_result.vectors)
    return EagerDifference(weights, vectors, len(probe.queries))


def returned_weights(outputs: Any, kind: AttentionKind) -> Sequence[Tensor]:
    """Return the weights in a model's outputs, a tensor for each layer that attends, or []."""
    weights = getattr(outputs, ATTENTION_OUTPUT_NAMES[kind], None) or ()
    return [layer_weights for layer_weights in weights if layer_weights is not None]


def _captured_weight_difference(ours: CapturedPass, theirs: Sequence[Tensor]) -> float:
    """Return the largest difference of captured weights from those that the model returned.

    It is infinite if they are of different numbers of layers.
    """
    if len(theirs) != len(ours.layer_numbers):
        return inf
    by_number = dict(zip(ours.layer_numbers, theirs, strict=True))
    differences = (largest_difference(layer.whole.weights, by_number[layer.layer][0])
                   for layer in ours.captured)  # fmt: skip
    return max(differences, default=0.0)


def relative_difference(ours: Tensor | None, theirs: Tensor | None) -> float:
    """Return the largest difference of two passes' vectors (or logits), relative to the largest.

    Numbers below 1 count as 1. It is infinite if only one of the passes has vectors.
    """
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else inf
    return largest_difference(ours, theirs) / max(1.0, float(theirs.abs().max()))


def largest_difference(first: Tensor, second: Tensor) -> float:
    """Return the largest absolute difference; infinity for other shapes, or a NaN anywhere."""
    if first.shape != second.shape:
        return inf
    largest = float((first - second).abs().max())
    return inf if isnan(largest) else largest
