"""The attention of a model on a text: captured or returned, and compared with its eager one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.arithmetic import join_heads, project
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.settings import (
    AttentionKind,
    Positions,
    Settings,
    format_head_id,
    parse_heads_off,
    refuse_missing_heads,
)
from attnviz.traces.trace import Layer, weights_only_layer
from attnviz.traces.trained.forward_pass import (
    CannotRun,
    CapturedPass,
    ModelInput,
    capture_pass,
    run_model,
)
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.matrix_recognition import (
    RecognisedLayer,
    find_rotary_bases,
    find_rotary_positions,
    recognise_matrices,
)
from attnviz.traces.trained.prediction import AnswerPositions, PassResult
from attnviz.traces.trained.recomputed_weights import RecomputedAttention, WeightsOnDemand
from attnviz.wording.words import counted


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelAttention:
    """The layers that were asked for, and what else came of the pass."""

    layers: tuple[Layer, ...]
    layer_numbers: tuple[int, ...]  # of all of them, also those that are not kept
    result: PassResult
    eager_difference: EagerDifference | None = (
        None  # from the model's own eager attention; None: it is that
    )
    soft_cap: float | None = None
    positions: Positions = "none"
    position_base: float = Settings.position_base


def compute_model_attention(
    model: LoadedTransformer,
    model_input: ModelInput,
    settings: Settings,
    layers: Collection[int] | None,
    answer_positions: AnswerPositions | None,
) -> ModelAttention:
    """Listened to, if that gives what the model itself computes; else as the model tells it."""
    off = parse_heads_off(settings.without)
    runs = True
    try:
        captured_pass = capture_pass(
            model, model_input, layers=layers, off=off, answer_positions=answer_positions
        )
    except CannotRun:  # not if it is listened to, or not at all
        captured_pass, runs = None, False
    distance = (
        None
        if captured_pass is None
        else measure_eager_difference(model, model_input, captured_pass)
    )
    if captured_pass is not None and distance is not None and distance.is_rounding(settings.dtype):
        attention = _attention_from_capture(model, captured_pass, distance)
    else:
        returned_layers, count, result = build_returned_layers(
            model, model_input, layers, answer_positions, runs=runs
        )
        _refuse_ablation(model, settings)
        attention = ModelAttention(
            layers=returned_layers, layer_numbers=tuple(range(count)), result=result
        )
    _refuse_missing_layers(attention.layer_numbers, settings, layers)
    refuse_missing_heads(
        settings.without, attention.layer_numbers[-1] + 1, attention.layers[0].heads
    )
    return attention


def _attention_from_capture(
    model: LoadedTransformer, captured_pass: CapturedPass, distance: EagerDifference
) -> ModelAttention:
    bases = find_rotary_bases(model.text_config.to_dict())
    recognised_layers = [recognise_matrices(captured, bases) for captured in captured_pass.captured]
    positions, base = find_rotary_positions(recognised_layers)
    return ModelAttention(
        layers=tuple(map(_layer_from_captured, recognised_layers)),
        layer_numbers=captured_pass.layer_numbers,
        result=captured_pass.result,
        eager_difference=distance,
        soft_cap=captured_pass.captured[0].soft_cap if captured_pass.captured else None,
        positions=positions,
        position_base=base,
    )


def run_with_all_heads(
    model: LoadedTransformer, model_input: ModelInput, answer_positions: AnswerPositions | None
) -> PassResult | None:
    """What the model comes to when none of its heads is off."""
    captured_pass = capture_pass(model, model_input, layers=(), answer_positions=answer_positions)
    return None if captured_pass is None else captured_pass.result


def _layer_from_captured(recognised_layer: RecognisedLayer) -> Layer:
    captured = recognised_layer.captured
    recomputed = RecomputedAttention(captured)
    joined = join_heads(captured.contexts())
    context = joined if captured.w_out is None else project(joined, captured.w_out, captured.b_out)
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
        visible=captured.visible,
        attended=recomputed,
        context=context,
        given=recognised_layer.given,
        off=captured.off,
        weights_on_demand=WeightsOnDemand(captured, recomputed),
    )


def _refuse_ablation(model: LoadedTransformer, settings: Settings) -> None:
    if settings.without is not None:
        raise AttnvizError(
            f"--without cannot switch off heads of the model '{model.name}' "
            f"({model.config.model_type}), which only returns its weights",
            "leave --without out",
            about="without",
        )


def _refuse_missing_layers(
    numbers: tuple[int, ...], settings: Settings, layers: Collection[int] | None
) -> None:
    """Refuse layers that there are not: not every layer of a model need attend."""
    is_consecutive, count = numbers == tuple(range(len(numbers))), counted(len(numbers), "layer")
    range_phrase = f"the model has {count}, {' to '.join(map(str, sorted({0, numbers[-1]})))}"
    list_phrase = f"the model attends in {count}: {', '.join(map(str, numbers))}"
    absent = [number for number in layers or () if number not in numbers]
    if absent:
        raise AttnvizError(
            f"there is no layer {absent[0]}: {range_phrase if is_consecutive else list_phrase}",
            f"try --layer {numbers[-1]}",
            about="layer",
        )
    off = [head_id for head_id in parse_heads_off(settings.without) if head_id[0] not in numbers]
    if off and not is_consecutive:
        raise AttnvizError(
            f"--without names {format_head_id(*off[0])}, but there is no such head",
            list_phrase,
            about="without",
        )


WEIGHT_BYTES, MATRIX_COPIES = 4, 3  # weights, their logarithms, and what hides some of them
MAX_NAMED_MODULES = 6
RETURN_OPTIONS = {"output_attentions": True, "output_hidden_states": True}


def build_returned_layers(
    model: LoadedTransformer,
    model_input: ModelInput,
    layers: Collection[int] | None,
    answer_positions: AnswerPositions | None,
    *,
    runs: bool,
) -> tuple[tuple[Layer, ...], int, PassResult]:
    """Layers of weights alone, how many there are in all, and what the model came to.

    A model that hands back no weights is refused; so is one that `runs`, but not if it is to.
    """
    _refuse_large_matrices(model, model_input)
    try:
        result, outputs = run_model(model, model_input, answer_positions, **RETURN_OPTIONS)
    except CannotRun:
        if not runs:
            raise
        raise _no_attention_error(model) from None
    weights = returned_weights(outputs, model_input.which)
    if not weights:
        raise _no_attention_error(model)
    _refuse_odd_shapes(model, model_input, weights)
    states = _layer_inputs(outputs, model_input)
    memory_of = outputs.encoder_last_hidden_state[0] if model_input.which == "cross" else None
    chosen_numbers = range(len(weights)) if layers is None else layers
    chosen_layers = [
        _layer_from_returned_weights(number, weights[number][0], states[number][0], memory_of)
        for number in chosen_numbers
        if number < len(weights)
    ]
    return tuple(chosen_layers), len(weights), result


def _layer_inputs(outputs: Any, model_input: ModelInput) -> Any:
    """What went into each layer."""
    return outputs.hidden_states if model_input.which == "self" else outputs.decoder_hidden_states


def _layer_from_returned_weights(
    number: int, weights: Tensor, inputs: Tensor, key_inputs: Tensor | None
) -> Layer:
    visible = weights > 0
    is_shared = bool((visible == visible[0]).all())
    layer_visible = visible[0] if is_shared else visible
    return weights_only_layer(
        number, weights, visible=layer_visible, inputs=inputs, key_inputs=key_inputs
    )


def _refuse_large_matrices(model: LoadedTransformer, model_input: ModelInput) -> None:
    config = model.text_config
    heads = getattr(config, "num_attention_heads", None) or 1
    layers = getattr(config, "num_hidden_layers", None) or 1
    tokens = max(len(model_input.ids), len(model_input.decoder_ids))
    memory.refuse_too_little_memory(
        prod((heads, layers, tokens, tokens, WEIGHT_BYTES, MATRIX_COPIES)),
        f"the weights of the model '{model.name}', which returns them as matrices,",
        "give a shorter text",
    )


def _refuse_odd_shapes(model: LoadedTransformer, model_input: ModelInput, weights: Any) -> None:
    """Attention to blocks of a text, or to a part of its vectors, is no matrix of its tokens."""
    queries = len(model_input.ids) if model_input.which == "self" else len(model_input.decoder_ids)
    keys = len(model_input.decoder_ids) if model_input.which == "decoder" else len(model_input.ids)
    misfits = [
        matrix
        for matrix in weights
        if tuple(matrix.shape[-2:]) != (queries, keys) or matrix.ndim != 4
    ]
    if misfits:
        raise AttnvizError(
            f"the model '{model.name}' ({model.config.model_type}) returns weights of "
            f"{' × '.join(map(str, misfits[0].shape))}, which do not fit {queries} queries "
            f"and {keys} keys",
            "use another model: for this kind it cannot be shown which token reads which",
            about="model",
        )


def _no_attention_error(model: LoadedTransformer) -> AttnvizError:
    kinds = sorted({type(module).__name__ for module in model.model.modules()} - TORCH_MODULE_NAMES)
    listed_kinds = ", ".join(kinds[:MAX_NAMED_MODULES]) + " …" * (len(kinds) > MAX_NAMED_MODULES)
    return AttnvizError(
        f"no attention can be found in the model '{model.name}' ({model.config.model_type}); it "
        f"is made of {listed_kinds}",
        model.text_part or "use a model that attends, such as --model minilm",
        about="model",
    )


TORCH_MODULE_NAMES = frozenset(
    name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type)
)


ATTENTION_OUTPUT_NAMES: dict[AttentionKind, str] = {
    "self": "attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
EAGER_TOLERANCE = {"float64": 1e-5, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}
VECTOR_TOLERANCE_FACTOR = 10  # times as much, where many layers add to it


@dataclass(frozen=True)
class EagerDifference:
    """The largest differences from what the model computes with its own eager attention."""

    weights: float | None  # None: it hands none back
    vectors: float  # of the last layer, relative to the largest number there
    tokens: int  # that were compared

    def is_rounding(self, dtype: str) -> bool:
        """Whether it is no more than rounding makes it."""
        least = EAGER_TOLERANCE[dtype]
        return (self.weights or 0.0) <= least and self.vectors <= VECTOR_TOLERANCE_FACTOR * least


def measure_eager_difference(
    model: LoadedTransformer, model_input: ModelInput, captured_pass: CapturedPass
) -> EagerDifference | None:
    """How far a pass that was listened to is from one with eager attention."""
    probe = model_input.probe
    ours = (
        captured_pass
        if probe == model_input and not captured_pass.off
        else capture_pass(model, probe)
    )
    if ours is None:
        return None
    eager_result, outputs = run_model(model, probe, output_attentions=True)
    theirs = returned_weights(outputs, model_input.which)
    weights = _captured_weight_difference(ours, theirs) if theirs else None
    vectors = _vector_difference(ours.result.vectors, eager_result.vectors)
    return EagerDifference(weights, vectors, len(probe.decoder_ids or probe.ids))


def returned_weights(outputs: Any, which: AttentionKind) -> Sequence[Tensor]:
    """The weights that a model hands back itself; of a layer that does not attend there are none.

    An encoder that runs on its own calls them its attentions.
    """
    weights = getattr(outputs, ATTENTION_OUTPUT_NAMES[which], None) or ()
    return [layer_weights for layer_weights in weights if layer_weights is not None]


def _captured_weight_difference(ours: CapturedPass, theirs: Sequence[Tensor]) -> float:
    if len(theirs) != len(ours.layer_numbers):
        return inf
    by_number = dict(zip(ours.layer_numbers, theirs, strict=True))
    pairs = [(captured.whole.weights, by_number[captured.layer][0]) for captured in ours.captured]
    return max((largest_difference(*pair) for pair in pairs), default=0.0)


def _vector_difference(ours: Tensor | None, theirs: Tensor | None) -> float:
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else inf
    return largest_difference(ours, theirs) / max(1.0, float(theirs.abs().max()))


def largest_difference(first: Tensor, second: Tensor) -> float:
    """Between numbers of the same shape; where something is no number, everything is."""
    if first.shape != second.shape:
        return inf
    largest = float((first - second).abs().max())
    return inf if largest != largest else largest
