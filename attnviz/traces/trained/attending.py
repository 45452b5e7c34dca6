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
    Positions,
    Settings,
    Which,
    heads_off,
    name_of,
    refuse_missing_heads,
)
from attnviz.traces.trace import Layer, layer_of
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import CannotRun, Passed, Reading, passed, run
from attnviz.traces.trained.prediction import Asked, Ending
from attnviz.traces.trained.recognised import Recognised, bases_of, positions_of, recognise
from attnviz.traces.trained.recomputed_weights import OnDemand, Remade
from attnviz.wording.words import counted


@dataclass(frozen=True, eq=False, kw_only=True)
class Attending:
    """The layers that were asked for, and what else came of the pass."""

    layers: tuple[Layer, ...]
    numbers: tuple[int, ...]  # of all of them, also those that are not kept
    ending: Ending
    apart: Apart | None = None  # from the model's own eager attention; None: it is that
    soft_cap: float | None = None
    positions: Positions = "none"
    position_base: float = Settings.position_base


def attending(
    model: Loaded,
    reading: Reading,
    settings: Settings,
    layers: Collection[int] | None,
    asked: Asked | None,
) -> Attending:
    """Listened to, if that gives what the model itself computes; else as the model tells it."""
    off = heads_off(settings.without)
    runs = True
    try:
        done = passed(model, reading, layers=layers, off=off, asked=asked)
    except CannotRun:  # not if it is listened to, or not at all
        done, runs = None, False
    far = None if done is None else apart(model, reading, done)
    if done is not None and far is not None and far.by_rounding(settings.dtype):
        found = _heard(model, done, far)
    else:
        told, count, ending = given_layers(model, reading, layers, asked, runs=runs)
        _refuse_without(model, settings)
        found = Attending(layers=told, numbers=tuple(range(count)), ending=ending)
    _refuse_missing(found.numbers, settings, layers)
    refuse_missing_heads(settings.without, found.numbers[-1] + 1, found.layers[0].heads)
    return found


def _heard(model: Loaded, done: Passed, far: Apart) -> Attending:
    bases = bases_of(model.text_config.to_dict())
    made = [recognise(heard, bases) for heard in done.heard]
    turned_by, base = positions_of(made)
    return Attending(
        layers=tuple(map(_layer_from_captured, made)),
        numbers=done.numbers,
        ending=done.ending,
        apart=far,
        soft_cap=done.heard[0].soft_cap if done.heard else None,
        positions=turned_by,
        position_base=base,
    )


def with_all_heads(model: Loaded, reading: Reading, asked: Asked | None) -> Ending | None:
    """What the model comes to when none of its heads is off."""
    done = passed(model, reading, layers=(), asked=asked)
    return None if done is None else done.ending


def _layer_from_captured(made: Recognised) -> Layer:
    heard = made.heard
    remade = Remade(heard)
    joined = join_heads(heard.contexts())
    context = joined if heard.w_out is None else project(joined, heard.w_out, heard.b_out)
    return Layer(
        layer=heard.layer,
        scale=heard.scale,
        head_dim=heard.queries.shape[-1],
        inputs=heard.inputs,
        key_inputs=heard.memory,
        projections=made.projections,
        before_rotary=made.before_rotary,
        queries=heard.queries,
        keys=heard.keys,
        values=heard.values,
        visible=heard.visible,
        attended=remade,
        context=context,
        given=made.given,
        off=heard.off,
        asked=OnDemand(heard, remade),
    )


def _refuse_without(model: Loaded, settings: Settings) -> None:
    if settings.without is not None:
        raise AttnvizError(
            f"--without cannot switch off heads of the model '{model.name}' "
            f"({model.config.model_type}), which only returns its weights",
            "leave --without out",
            about="without",
        )


def _refuse_missing(
    numbers: tuple[int, ...], settings: Settings, layers: Collection[int] | None
) -> None:
    """Refuse layers that there are not: not every layer of a model need attend."""
    whole, count = numbers == tuple(range(len(numbers))), counted(len(numbers), "layer")
    one = f"the model has {count}, {' to '.join(map(str, sorted({0, numbers[-1]})))}"
    few = f"the model attends in {count}: {', '.join(map(str, numbers))}"
    absent = [each for each in layers or () if each not in numbers]
    if absent:
        raise AttnvizError(
            f"there is no layer {absent[0]}: {one if whole else few}",
            f"try --layer {numbers[-1]}",
            about="layer",
        )
    off = [place for place in heads_off(settings.without) if place[0] not in numbers]
    if off and not whole:
        raise AttnvizError(
            f"--without names {name_of(*off[0])}, but there is no such head", few, about="without"
        )


BYTES, TIMES = 4, 3  # weights, their logarithms, and what hides some of them
MOST_NAMED = 6
TELL = {"output_attentions": True, "output_hidden_states": True}


def given_layers(
    model: Loaded,
    reading: Reading,
    layers: Collection[int] | None,
    asked: Asked | None,
    *,
    runs: bool,
) -> tuple[tuple[Layer, ...], int, Ending]:
    """Layers of weights alone, how many there are in all, and what the model came to.

    A model that hands back no weights is refused; so is one that `runs`, but not if it is to.
    """
    _refuse_too_many(model, reading)
    try:
        made, outputs = run(model, reading, asked, **TELL)
    except CannotRun:
        if not runs:
            raise
        raise _no_attention(model) from None
    weights = own_weights(outputs, reading.which)
    if not weights:
        raise _no_attention(model)
    _refuse_other_shapes(model, reading, weights)
    states = _states(outputs, reading)
    memory_of = outputs.encoder_last_hidden_state[0] if reading.which == "cross" else None
    wanted = range(len(weights)) if layers is None else layers
    found = [
        _layer_from_returned_weights(number, weights[number][0], states[number][0], memory_of)
        for number in wanted
        if number < len(weights)
    ]
    return tuple(found), len(weights), made


def _states(outputs: Any, reading: Reading) -> Any:
    """What went into each layer."""
    return outputs.hidden_states if reading.which == "self" else outputs.decoder_hidden_states


def _layer_from_returned_weights(
    number: int, weights: Tensor, inputs: Tensor, read: Tensor | None
) -> Layer:
    visible = weights > 0
    alike = bool((visible == visible[0]).all())
    seen = visible[0] if alike else visible
    return layer_of(number, weights, visible=seen, inputs=inputs, key_inputs=read)


def _refuse_too_many(model: Loaded, reading: Reading) -> None:
    config = model.text_config
    heads = getattr(config, "num_attention_heads", None) or 1
    layers = getattr(config, "num_hidden_layers", None) or 1
    tokens = max(len(reading.ids), len(reading.written))
    memory.refuse_more(
        prod((heads, layers, tokens, tokens, BYTES, TIMES)),
        f"the weights of the model '{model.name}', which returns them as matrices,",
        "give a shorter text",
    )


def _refuse_other_shapes(model: Loaded, reading: Reading, weights: Any) -> None:
    """Attention to blocks of a text, or to a part of its vectors, is no matrix of its tokens."""
    queries = len(reading.ids) if reading.which == "self" else len(reading.written)
    keys = len(reading.written) if reading.which == "decoder" else len(reading.ids)
    odd = [each for each in weights if tuple(each.shape[-2:]) != (queries, keys) or each.ndim != 4]
    if odd:
        raise AttnvizError(
            f"the model '{model.name}' ({model.config.model_type}) returns weights of "
            f"{' × '.join(map(str, odd[0].shape))}, which do not fit {queries} queries "
            f"and {keys} keys",
            "use another model: for this kind it cannot be shown which token reads which",
            about="model",
        )


def _no_attention(model: Loaded) -> AttnvizError:
    kinds = sorted({type(each).__name__ for each in model.model.modules()} - BUILT_IN)
    named = ", ".join(kinds[:MOST_NAMED]) + " …" * (len(kinds) > MOST_NAMED)
    return AttnvizError(
        f"no attention can be found in the model '{model.name}' ({model.config.model_type}); it "
        f"is made of {named}",
        model.text_part or "use a model that attends, such as --model minilm",
        about="model",
    )


BUILT_IN = frozenset(name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type))


ATTENTIONS: dict[Which, str] = {
    "self": "attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
TOLERANCE = {"float64": 1e-5, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}
SUMS = 10  # times as much, where many layers add to it


@dataclass(frozen=True)
class Apart:
    """The largest differences from what the model computes with its own eager attention."""

    weights: float | None  # None: it hands none back
    vectors: float  # of the last layer, relative to the largest number there
    tokens: int  # that were compared

    def by_rounding(self, dtype: str) -> bool:
        """Whether it is no more than rounding makes it."""
        least = TOLERANCE[dtype]
        return (self.weights or 0.0) <= least and self.vectors <= SUMS * least


def apart(model: Loaded, reading: Reading, done: Passed) -> Apart | None:
    """How far a pass that was listened to is from one with eager attention."""
    probe = reading.probe
    ours = done if probe == reading and not done.off else passed(model, probe)
    if ours is None:
        return None
    made, outputs = run(model, probe, output_attentions=True)
    theirs = own_weights(outputs, reading.which)
    weights = _of_weights(ours, theirs) if theirs else None
    vectors = _of_vectors(ours.ending.vectors, made.vectors)
    return Apart(weights, vectors, len(probe.written or probe.ids))


def own_weights(outputs: Any, which: Which) -> Sequence[Tensor]:
    """The weights that a model hands back itself; of a layer that does not attend there are none.

    An encoder that runs on its own calls them its attentions.
    """
    found = getattr(outputs, ATTENTIONS[which], None) or ()
    return [each for each in found if each is not None]


def _of_weights(ours: Passed, theirs: Sequence[Tensor]) -> float:
    if len(theirs) != len(ours.numbers):
        return inf
    by_number = dict(zip(ours.numbers, theirs, strict=True))
    pairs = [(each.whole.weights, by_number[each.layer][0]) for each in ours.heard]
    return max((difference(*pair) for pair in pairs), default=0.0)


def _of_vectors(ours: Tensor | None, theirs: Tensor | None) -> float:
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else inf
    return difference(ours, theirs) / max(1.0, float(theirs.abs().max()))


def difference(one: Tensor, other: Tensor) -> float:
    """Between numbers of the same shape; where something is no number, everything is."""
    if one.shape != other.shape:
        return inf
    found = float((one - other).abs().max())
    return inf if found != found else found
