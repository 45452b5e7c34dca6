"""What is known of a model's attention on a text: heard, or told by the model itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from attnviz.attention.arithmetic import join_heads, project
from attnviz.errors import AttnvizError
from attnviz.traces.settings import Positions, Settings
from attnviz.traces.trace import Layer
from attnviz.traces.trained.again import OnDemand, Remade
from attnviz.traces.trained.agreeing import Apart, apart
from attnviz.traces.trained.fallback import given_layers
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import CannotRun, Passed, Reading, passed
from attnviz.traces.trained.prediction import Asked, Ending
from attnviz.traces.trained.recognised import Recognised, bases_of, positions_of, recognise
from attnviz.traces.without import heads_off, name_of, refuse_missing_heads
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
        layers=tuple(map(_layer, made)),
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


def _layer(made: Recognised) -> Layer:
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
