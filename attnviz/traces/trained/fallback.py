"""Weights as a model hands them back itself, where nothing of its attention can be heard.

What has a weight of exactly 0 counts as hidden.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.trace import Layer
from attnviz.traces.trained.agreeing import own_weights
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import CannotRun, Reading, run
from attnviz.traces.trained.prediction import Asked, Ending
from attnviz.traces.weights_alone import layer_of

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
        _layer(number, weights[number][0], states[number][0], memory_of)
        for number in wanted
        if number < len(weights)
    ]
    return tuple(found), len(weights), made


def _states(outputs: Any, reading: Reading) -> Any:
    """What went into each layer."""
    return outputs.hidden_states if reading.which == "self" else outputs.decoder_hidden_states


def _layer(number: int, weights: Tensor, inputs: Tensor, read: Tensor | None) -> Layer:
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
