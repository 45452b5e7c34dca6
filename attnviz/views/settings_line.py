"""The line of settings: what computed, given or trained attention depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnviz.options.values import NormPlacement
from attnviz.traces.origin import (
    FromMatrices,
    FromProgram,
    FromSeed,
    Origin,
    TrainedCard,
    origin_table,
    resolved_settings,
)
from attnviz.traces.randomness import depends_on_seed
from attnviz.traces.settings import ADDED_POSITIONS, Settings
from attnviz.traces.trace import Layer, Provenance, Trace
from attnviz.views.attention_facts import MaskShape, find_mask_shapes, has_mask
from attnviz.views.head_vectors import is_scaled_by_root
from attnviz.views.headline import attention_headline
from attnviz.views.notes import given_settings
from attnviz.wording.numbers import exact_text, percent_text
from attnviz.wording.words import and_list, counted

PART_SEPARATOR = " · "
MAX_NAMED_LAYERS = 6  # more layers are counted, not named
SCALE_TOLERANCE = 1e-6  # relative difference up to which a scale counts as 1
ATTENTION_PART = "attention"  # the name of the part on the kind of attention
CHANGEABLE_PARTS = "scale", "mask", "temperature"
NORM_TEXTS: dict[NormPlacement, str] = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """Return one line of every part of the settings that is not empty, except the subjects in
    `without` ('scale', 'mask', 'seed').
    """
    return PART_SEPARATOR.join(_settings_parts(trace, without).values())


def settings_by_importance(trace: Trace) -> tuple[str, ...]:
    """Return the parts of the settings, the most important first, for a line that may not have room
    for all: the model or the kind of attention, then scale, mask and temperature.
    """
    parts = _settings_parts(trace, [ATTENTION_PART] if trace.model is not None else [])
    first = [name for name in (ATTENTION_PART, "model", *CHANGEABLE_PARTS) if name in parts]
    return tuple(parts[name] for name in dict.fromkeys((*first, *parts)))


def two_settings_line(first: Trace, second: Trace, names: Sequence[str]) -> str:
    """Return one line of the settings of two traces, without attention, tokens and names of models:
    once where both agree, both values where they differ. `names` are those of the traces.
    """
    first_parts, second_parts = (
        _settings_parts(trace, [ATTENTION_PART, "tokens", "model"]) for trace in (first, second)
    )
    parts = dict.fromkeys((*first_parts, *second_parts))
    return PART_SEPARATOR.join(
        _two_values_text(first_parts.get(part, ""), second_parts.get(part, ""), names)
        for part in parts
    )


def _two_values_text(first: str, second: str, names: Sequence[str]) -> str:
    """Return one value if both are equal, else `first and second`, or `… in NAME` where the other
    is empty.
    """
    if first and second:
        return first if first == second else f"{first} and {second}"
    return f"{first} in {names[0]}" if first else f"{second} in {names[1]}"


def _settings_parts(trace: Trace, without: Sequence[str]) -> dict[str, str]:
    """Return the parts of the settings line by subject, without empty ones, those in `without`, and
    those that the kind of attention already says.
    """
    kind = "" if ATTENTION_PART in without else attention_headline(trace)
    parts = {
        ATTENTION_PART: kind,
        "tokens": _tokens_text(trace),
        "model": "" if trace.model is None else f"model {trace.model.name}",
        "memory": f"memory of {counted(len(trace.memory), 'token')}" if trace.memory else "",
        **_attention_parts(trace),
        "seed": f"seed {trace.origin.settings.seed}" if depends_on_seed(trace) else "",
        "item": _item_text(trace),
        "dtype": f"{trace.provenance.device} {trace.provenance.dtype}",
    }
    if trace.external_origin is not None:
        parts["dtype"] = trace.external_origin.stored_as
    kind_words = f" {kind} " if trace.trained is None else ""  # which are not repeated
    return {
        name: part
        for name, part in parts.items()
        if part and name not in without
        if name == ATTENTION_PART or f" {part} " not in kind_words
    }


def _attention_parts(trace: Trace) -> dict[str, str]:
    """Return the parts about the attention by subject, whether computed here, given, or that of a
    trained transformer.
    """
    if trace.external_origin is not None:
        return given_settings(trace, trace.external_origin)
    if trace.trained is not None:
        return trained_settings(trace, trace.trained)
    if isinstance(trace.origin, FromProgram):
        return _heard_parts(trace, trace.origin)
    return {**_shape_parts(trace), **_variant_parts(trace), **_file_parts(trace.origin)}


def _heard_parts(trace: Trace, origin: FromProgram) -> dict[str, str]:
    """Return the parts on an attention that a program computed, by subject; some are empty."""
    first, variant = trace.layers[0], trace.variant
    keys = f"reads {counted(len(trace.keys), 'other token')}"
    return {
        "which": keys if trace.keys is not trace.tokens else "",
        "heads": f"{counted(len(trace.layers), 'layer')} × {counted(first.heads, 'head')} "
        f"of width {first.head_dim}",
        "kv_heads": _shape_parts(trace)["kv_heads"],
        "heard": f"computed by {origin.operation}",
        "mask": "causal" if variant.causal else "masked" * any(map(has_mask, trace.layers)),
        "added": "with a bias on scores" if "mask" in first.given else "",
        "soft_cap": f"soft cap {exact_text(variant.soft_cap)}" if variant.soft_cap else "",
    }


def _tokens_text(trace: Trace) -> str:
    """Return the number of tokens, their tokenizer, and how many of them were generated, if any."""
    cut_by = "" if isinstance(trace.origin, FromProgram) else f" ({trace.tokenizer})"
    tokens_text = f"{counted(len(trace.tokens), 'token')}{cut_by}"
    generated_count = 0 if trace.prompt is None else len(trace.tokens) - trace.prompt
    return f"{tokens_text}, {generated_count} of them generated" if generated_count else tokens_text


def _shape_parts(trace: Trace) -> dict[str, str]:
    """Return the parts on widths, heads and layers by subject, some of them empty."""
    first, layers = trace.layers[0], counted(len(trace.layers), "layer")
    heads = counted(first.heads, "head")
    shares_keys = first.kv_heads < first.heads
    parts = {
        "dim": f"width {first.inputs.shape[-1]}" if first.uses_inputs else "",
        "heads": f"{heads} of width {first.head_dim}{_unjoined_suffix(trace)}",
        "kv_heads": counted(first.kv_heads, "key-value head") if shares_keys else "",
        "layers": layers if len(trace.layers) > 1 else "",
    }
    if first.block:
        parts["layers"] = f"{layers} ({NORM_TEXTS[first.block.norm_placement]})"
        parts["attention only"] = "" if first.block.feed_forward else "no feed-forward"
    return parts


def _unjoined_suffix(trace: Trace) -> str:
    """Return a remark that several heads were given without an output matrix, which usually joins
    them; else empty.
    """
    output_matrix = getattr(trace.layers[0].projections, "w_out", None)
    needs_output = trace.layers[0].heads > 1 and trace.variant.projected
    return " joined without w_out" if needs_output and output_matrix is None else ""


def _variant_parts(trace: Trace) -> dict[str, str]:
    """Return the parts on what the variant does, with every option applied, by subject; some are
    empty.
    """
    variant, first, temperature = trace.variant, trace.layers[0], trace.variant.temperature
    has_window = variant.window and "visible" not in first.given
    is_dropped = any(layer.attended.mixed_by == "dropout" for layer in trace.attention_layers)
    dropout = variant.dropout if is_dropped else 0
    return {
        "scoring": "additive scores" if first.w_score is not None else "",
        "scale": "scaled" if variant.scaled else "not scaled",
        "mask": _mask_text(trace),
        "window": f"window {variant.window}" if has_window else "",
        "temperature": f"temperature {exact_text(temperature)}" if temperature != 1 else "",
        "soft_cap": f"soft cap {exact_text(variant.soft_cap)}" if variant.soft_cap else "",
        "dropout": f"dropout {exact_text(dropout)}" if dropout else "",
        "positions": _positions_text(trace),
        "position base": _position_base_text(trace),
    }


def _positions_text(trace: Trace) -> str:
    """Return the kind of positions, such as `rotary positions` or `given positions`; empty where
    positions affect nothing.
    """
    if not _uses_positions(trace):
        return ""
    is_given = "positions" in trace.layers[0].given and trace.positions == "none"
    return "given positions" if is_given else f"{trace.positions} positions"


def _position_base_text(trace: Trace) -> str:
    """Return the base of the position angles; empty where it is the usual one or positions affect
    nothing.
    """
    base = resolved_settings(trace.origin).position_base
    is_unusual = base != Settings.position_base and _uses_positions(trace)
    return f"position base {base:.15g}" if is_unusual else ""


def _uses_positions(trace: Trace) -> bool:
    """Return whether positions affect any layer; given matrices may leave nothing that uses
    them.
    """
    if trace.positions in ADDED_POSITIONS or "positions" in trace.layers[0].given:
        return trace.layers[0].uses_inputs or trace.layers[0].block is not None
    return any(
        layer.before_rotary is not None or _has_distance_bias(layer) for layer in trace.layers
    )


def _has_distance_bias(layer: Layer) -> bool:
    """Return whether scores fall with distance (ALiBi): by a matrix, or by slopes."""
    if layer.long_weights is not None:
        return layer.long_weights.attention.slopes is not None
    return layer.attended.bias is not None


def _mask_text(trace: Trace) -> str:
    """Return the mask in words: `causal`, `given mask`, `all tokens visible`; empty where only a
    window masks.
    """
    given_parts = trace.layers[0].given
    if "visible" in given_parts:
        return "given mask"
    if given_parts & {"hidden", "mask"}:
        by_hand = trace.model is not None
        mask_name = "masks written by hand" if by_hand else "a given mask"
        return f"causal and {mask_name}" if trace.variant.causal else mask_name.removeprefix("a ")
    if trace.variant.causal:
        return "causal"
    return "" if trace.variant.window else "all tokens visible"  # a window implies its mask


def _item_text(trace: Trace) -> str:
    """Return which item of a batch is shown; empty for a single item or numbers from a seed."""
    if isinstance(trace.origin, FromSeed) or trace.items == 1:
        return ""
    return f"item {trace.origin.matrices.item} of {trace.items}"


def _file_parts(origin: Origin) -> dict[str, str]:
    """Return the parts `embeddings` and `given` with the names of the files that these numbers come
    from; a part without a file is empty.
    """
    settings = origin.settings
    file = Path(settings.given).name if isinstance(origin, FromMatrices) and settings.given else ""
    vectors = Path(settings.embeddings).name if settings.embeddings else ""
    return {
        "embeddings": f"embeddings from {vectors}{_components_suffix(origin)}" if vectors else "",
        "given": f"matrices from {file}" if file else "",
    }


def _components_suffix(origin: Origin) -> str:
    """Return ` (principal components, 90.1 % of the variance)` for embeddings of reduced width;
    else empty.
    """
    table = origin_table(origin)
    if table is None or table.kept is None:
        return ""
    return f" (principal components, {percent_text(table.kept, 1)} of the variance)"


def trained_settings(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """Return the parts of the settings line for a trained transformer, by subject; some are
    empty.
    """
    soft_cap = trace.variant.soft_cap
    heads = f"{counted(card.layers, 'layer')} × {counted(card.heads, 'head')}"
    return {
        "kind": f"{card.kind}, {parameters_text(card.parameters)} parameters",
        "heads": f"{heads}{_head_widths_suffix(trace.layers, card)}",
        "kv_heads": counted(card.kv_heads, "key-value head") if card.kv_heads < card.heads else "",
        "which": _attention_role_text(trace, card),
        "scale": _text_by_layer({layer.layer: _scale_text(layer) for layer in trace.layers}, card),
        **_mask_parts(trace, card),
        "soft_cap": f"soft cap {exact_text(soft_cap)}" if soft_cap else "",
        "in_memory": "a model in memory" if card.in_memory else "",
        "stored": stored_text(trace.provenance),
        "fallback": "weights as returned by the model" if card.fallback else "",
    }


def stored_text(provenance: Provenance) -> str:
    """Return how a transformer's weights are stored: "stored as 4-bit weights (Q4_1)"; empty if
    they are in the dtype in which it computes."""
    stored_as = str(provenance.settings.get("stored_as", provenance.dtype))
    return "" if stored_as == provenance.dtype else f"stored as {stored_as}"


def parameters_text(number: int) -> str:
    """Return a number of parameters, rounded to millions or billions from a million on.

    >>> parameters_text(22_713_216), parameters_text(7_241_732_096), parameters_text(3_456)
    ('22.7 million', '7.2 billion', '3,456')
    """
    for unit, size in (("billion", 10**9), ("million", 10**6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,}"


def _attention_role_text(trace: Trace, card: TrainedCard) -> str:
    """Return which attention of an encoder-decoder model is shown; empty for models with a single
    kind.
    """
    if card.which == "cross":
        return f"reads the {counted(len(trace.keys), 'token')} of its encoder"
    return "of its decoder" if card.which == "decoder" else ""


def _head_widths_suffix(layers: Sequence[Layer], card: TrainedCard) -> str:
    """Return ` of width 64`, the width or widths of the heads; empty for a model that returns only
    weights.
    """
    if card.fallback:
        return ""
    widths = dict.fromkeys(str(layer.head_dim) for layer in layers)
    return f" of width {and_list(list(widths))}"


def _scale_text(layer: Layer) -> str:
    """Return what the scores are multiplied by; empty where it is the usual 1/√d_k.

    A factor of 1 means `not scaled` only where queries and keys are exactly what the model's
    matrices compute; otherwise the model may have scaled queries or keys.
    """
    if is_scaled_by_root(layer):
        return ""
    if abs(layer.scale - 1) < SCALE_TOLERANCE:
        return "" if {"queries", "keys"} & layer.given else "not scaled"
    return f"scores times {layer.scale:.3g}"


def _mask_parts(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """Return the parts `mask` and `window` on which tokens are visible, according to the masks of
    the layers; none for attention to an encoder with a mask, nor for a single token, which shows
    no mask.
    """
    if len(trace.tokens) == len(trace.keys) == 1:
        return {}
    if not any(map(has_mask, trace.layers)):
        return {"mask": "all tokens visible"}
    if card.which == "cross":
        return {}
    shapes = find_mask_shapes(trace.layers)
    reach_by_layer = {number: _mask_reach_text(shape) for number, shape in shapes.items()}
    causal = all(shape.causal for shape in shapes.values())
    return {"mask": "causal" if causal else "", "window": _text_by_layer(reach_by_layer, card)}


def _mask_reach_text(shape: MaskShape) -> str:
    """Return `window 6` or `chunks of 6`; empty for a mask with neither."""
    if shape.window is not None:
        return f"window {shape.window}"
    return "" if shape.chunk is None else f"chunks of {shape.chunk}"


def _text_by_layer(text_by_layer: Mapping[int, str], card: TrainedCard) -> str:
    """Return texts with the layers they hold for, such as `window 6 in layers 0 and 2`; without
    layers where a text holds for every layer of the model. Empty texts are left out.
    """
    layers: dict[str, list[str]] = {}
    for number, text in text_by_layer.items():
        if text:
            layers.setdefault(text, []).append(str(number))
    return PART_SEPARATOR.join(
        f"{text}{_layers_suffix(numbers, card)}" for text, numbers in layers.items()
    )


def _layers_suffix(numbers: Sequence[str], card: TrainedCard) -> str:
    """Return ` in layers 0 and 2`; empty for all layers, and only the count for more than
    MAX_NAMED_LAYERS.
    """
    if len(numbers) == card.layers:
        return ""
    if len(numbers) > MAX_NAMED_LAYERS:
        return f" in {len(numbers)} of {card.layers} layers"
    return f" in layer{'s' * (len(numbers) > 1)} {and_list(numbers)}"
