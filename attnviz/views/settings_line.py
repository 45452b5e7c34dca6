"""The settings line: what the numbers depend on, for attention made here or a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnviz.attention.variants import Place
from attnviz.traces.chance import depends_on_seed
from attnviz.traces.models.model import Model
from attnviz.traces.origin import Drawn, Given, Origin, TrainedCard, decided, table_behind
from attnviz.traces.settings import ADDED, Settings
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import MaskShape, shapes_of
from attnviz.views.headline import headline
from attnviz.views.notes import given_parts
from attnviz.wording.numbers import exact_text, percent
from attnviz.wording.words import counted, listed

KIND = "attention"  # the part that says which kind of attention it is
NORM: dict[Place, str] = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """Every part that says something, except those named in `without`."""
    return BETWEEN.join(_parts(trace, without).values())


def settings_of_both(first: Trace, second: Trace) -> str:
    """The settings of two traces: once where they agree, both where they differ."""
    one, other = (_parts(each, [KIND, "tokens"]) for each in (first, second))
    names = dict.fromkeys((*one, *other))
    return BETWEEN.join(_of_both(one.get(name, ""), other.get(name, "")) for name in names)


def _of_both(one: str, other: str) -> str:
    if one and other:
        return one if one == other else f"{one} and {other}"
    return f"{one} in the first" if one else f"{other} in the second"


def _parts(trace: Trace, without: Sequence[str]) -> dict[str, str]:
    """By what each part is about."""
    kind = "" if KIND in without else headline(trace)
    parts = {
        KIND: kind,
        "tokens": _tokens(trace),
        "model": _model(trace.model),
        "memory": f"memory of {counted(len(trace.memory), 'token')}" if trace.memory else "",
        **_of_attention(trace),
        "seed": f"seed {trace.origin.settings.seed}" if depends_on_seed(trace) else "",
        "item": _item(trace),
        "dtype": _dtype(trace),
    }
    said = f" {kind} " if trace.trained is None else ""  # and is not said again
    return {
        name: part
        for name, part in parts.items()
        if part and name not in without and (name == KIND or f" {part} " not in said)
    }


def _dtype(trace: Trace) -> str:
    """Device and dtype; for weights that were computed elsewhere, how they were stored."""
    if trace.handed is not None:
        return trace.handed.stored_as
    return f"{trace.provenance.device} {trace.provenance.dtype}"


def _of_attention(trace: Trace) -> dict[str, str]:
    """What is said about the attention: made here, given, or that of a trained model."""
    if trace.handed is not None:
        return given_parts(trace, trace.handed)
    return _made(trace) if trace.trained is None else trained_parts(trace, trace.trained)


def _tokens(trace: Trace) -> str:
    """How many, of which tokenizer, and how many of them a model wrote."""
    told = f"{counted(len(trace.tokens), 'token')} ({trace.tokenizer})"
    written = 0 if trace.prompt is None else len(trace.tokens) - trace.prompt
    return f"{told}, {written} of them generated" if written else told


def _made(trace: Trace) -> dict[str, str]:
    """For attention that is computed here: its shape, what it does, where its numbers come from."""
    return {**_shape(trace), **_attention(trace), **_origin(trace.origin)}


def _shape(trace: Trace) -> dict[str, str]:
    """Widths, heads and layers."""
    first, layers = trace.layers[0], counted(len(trace.layers), "layer")
    several = layers if len(trace.layers) > 1 else ""
    return {
        "dim": f"width {first.inputs.shape[-1]}" if first.from_inputs else "",
        "heads": f"{counted(first.heads, 'head')} of width {first.head_dim}{_unjoined(trace)}",
        "kv_heads": _kv_heads(first),
        "layers": f"{layers} ({NORM[first.block.place]})" if first.block else several,
        "attention only": "no feed-forward" if first.block and not first.block.fed else "",
    }


def _unjoined(trace: Trace) -> str:
    """Projected heads have an output matrix, unless they are given without one."""
    last = getattr(trace.layers[0].projections, "w_out", None)
    expected = trace.layers[0].heads > 1 and trace.variant.projected
    return " joined without w_out" if expected and last is None else ""


def _kv_heads(layer: Layer) -> str:
    """How many key-value heads there are, where heads share them."""
    few = layer.kv_heads < layer.heads
    return counted(layer.kv_heads, "key-value head") if few else ""


def _attention(trace: Trace) -> dict[str, str]:
    """What the variant does, with every option applied."""
    variant, first = trace.variant, trace.layers[0]
    windowed = variant.window and "visible" not in first.given
    dropped = any(layer.attended.mixed_by == "dropout" for layer in trace.attentions)
    return {
        "scoring": "additive scores" if first.w_score is not None else "",
        "scale": "scaled" if variant.scaled else "not scaled",
        "mask": _mask(trace),
        "window": f"window {variant.window}" if windowed else "",
        "temperature": f"temperature {exact_text(variant.temperature)}"
        if variant.temperature != 1
        else "",
        "soft_cap": f"soft cap {exact_text(variant.soft_cap)}" if variant.soft_cap else "",
        "dropout": f"dropout {exact_text(variant.dropout)}" if dropped and variant.dropout else "",
        "positions": _positions(trace),
        "position base": _position_base(trace),
    }


def _positions(trace: Trace) -> str:
    if not _placed(trace):
        return ""
    given = "positions" in trace.layers[0].given and trace.positions == "none"
    return "given positions" if given else f"{trace.positions} positions"


def _position_base(trace: Trace) -> str:
    """The base of the angles, if it is not that of the papers."""
    base = decided(trace.origin).position_base
    other = base != Settings.position_base and _placed(trace)
    return f"position base {base:.15g}" if other else ""


def _placed(trace: Trace) -> bool:
    """Whether positions are used in any layer, and not everything that would use them is given."""
    if trace.positions in ADDED or "positions" in trace.layers[0].given:
        return trace.layers[0].from_inputs or trace.layers[0].block is not None
    return any(
        layer.before_rotary is not None or layer.attended.bias is not None for layer in trace.layers
    )


def _mask(trace: Trace) -> str:
    given = trace.layers[0].given
    if "visible" in given:
        return "given mask"
    if given & {"hidden", "mask"}:
        by_hand = trace.model is not None
        masked = "masks written by hand" if by_hand else "a given mask"
        return f"causal and {masked}" if trace.variant.causal else masked.removeprefix("a ")
    if trace.variant.causal:
        return "causal"
    return "" if trace.variant.window else "all tokens visible"  # a window says for itself


def _model(model: Model | None) -> str:
    """The name of the model whose numbers they are."""
    return "" if model is None else f"model {model.name}"


def _item(trace: Trace) -> str:
    """Which of a batch it is."""
    if isinstance(trace.origin, Drawn) or trace.items == 1:
        return ""
    return f"item {trace.origin.matrices.item} of {trace.items}"


def _origin(origin: Origin) -> dict[str, str]:
    """The files that it comes from."""
    settings = origin.settings
    file = Path(settings.given).name if isinstance(origin, Given) and settings.given else ""
    vectors = Path(settings.embeddings).name if settings.embeddings else ""
    return {
        "embeddings": f"embeddings from {vectors}{_reduced(origin)}" if vectors else "",
        "given": f"matrices from {file}" if file else "",
    }


def _reduced(origin: Origin) -> str:
    """Whether vectors were reduced to principal components, and how much variance these keep."""
    table = table_behind(origin)
    if table is None or table.kept is None:
        return ""
    kept = percent(table.kept, 1)
    return f" (principal components, {kept} of the variance)"


BETWEEN = " · "
MOST_NAMED = 6  # layers
EXACT = 1e-6  # relative: a scale that is so near to 1/√d_k, or to 1, is meant to be it


def trained_parts(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """What the settings line says of it, by what each part is about."""
    return {
        "kind": f"{card.kind}, {parameters_text(card.parameters)} parameters",
        "heads": f"{counted(card.layers, 'layer')} × {counted(card.heads, 'head')}"
        f"{_widths(trace.layers, card)}",
        "kv_heads": counted(card.kv_heads, "key-value head") if card.kv_heads < card.heads else "",
        "which": _which(trace, card),
        "scale": _by_layer({each.layer: _scale(each) for each in trace.layers}, card),
        **_masks(trace, card),
        "soft_cap": f"soft cap {exact_text(trace.variant.soft_cap)}"
        if trace.variant.soft_cap
        else "",
        "stored": f"stored as {card.stored_as}" if card.stored_as != trace.provenance.dtype else "",
        "fallback": "weights as returned by the model" if card.fallback else "",
    }


def parameters_text(number: int) -> str:
    """
    >>> parameters_text(22_713_216), parameters_text(7_241_732_096), parameters_text(3_456)
    ('22.7 million', '7.2 billion', '3,456')
    """
    for unit, size in (("billion", 10**9), ("million", 10**6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,}"


def _which(trace: Trace, card: TrainedCard) -> str:
    """Which attention it is, in a model that has several kinds."""
    if card.which == "cross":
        return f"reads the {counted(len(trace.keys), 'token')} of its encoder"
    return "of its decoder" if card.which == "decoder" else ""


def _widths(layers: Sequence[Layer], card: TrainedCard) -> str:
    """How wide heads are; unknown for a model that returns only weights."""
    if card.fallback:
        return ""
    widths = dict.fromkeys(str(each.head_dim) for each in layers)
    return f" of width {listed(list(widths))}"


def _scale(layer: Layer) -> str:
    """What scores are multiplied by, where it is not 1/√ of the width.

    A factor of 1 means `not scaled` only where queries and keys are exactly what their matrices
    compute; otherwise the model may have scaled these.
    """
    if abs(layer.scale * layer.head_dim**0.5 - 1) < EXACT:
        return ""
    if abs(layer.scale - 1) < EXACT:
        return "" if {"queries", "keys"} & layer.given else "not scaled"
    return f"scores times {layer.scale:.3g}"


def _masks(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """What is visible, and how far, according to the masks of the layers."""
    if all(bool(each.visible.all()) for each in trace.layers):
        return {"mask": "all tokens visible"}
    if card.which == "cross":
        return {}
    shapes = shapes_of(trace.layers)
    narrow = {number: _how_far(each) for number, each in shapes.items()}
    causal = all(each.causal for each in shapes.values())
    return {"mask": "causal" if causal else "", "window": _by_layer(narrow, card)}


def _how_far(shape: MaskShape) -> str:
    if shape.window is not None:
        return f"window {shape.window}"
    return "" if shape.chunk is None else f"chunks of {shape.chunk}"


def _by_layer(told: Mapping[int, str], card: TrainedCard) -> str:
    """`window 6 in layers 0 and 2`; without numbers where it holds for every layer of the model."""
    layers = {each: [str(number) for number in told if told[number] == each]
              for each in told.values() if each}  # fmt: skip
    return BETWEEN.join(f"{each}{_where(numbers, card)}" for each, numbers in layers.items())


def _where(numbers: Sequence[str], card: TrainedCard) -> str:
    """In which layers; empty for all of them, and only their count where they are very many."""
    if len(numbers) == card.layers:
        return ""
    if len(numbers) > MOST_NAMED:
        return f" in {len(numbers)} of {card.layers} layers"
    return f" in layer{'s' * (len(numbers) > 1)} {listed(numbers)}"
