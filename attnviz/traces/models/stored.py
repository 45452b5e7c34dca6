"""A model among the data of a Trace: its numbers as arrays, and its card; and both read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch

from attnviz.traces.by_layer import flat
from attnviz.traces.facts import of_their_types
from attnviz.traces.models.card import Card
from attnviz.traces.models.config import card_of_facts, facts_of_card
from attnviz.traces.models.model import Model, made_of
from attnviz.traces.models.sight import Sight, Sights
from attnviz.traces.weights import array

AS_WRITTEN = ("asks", "hands")  # of a model by hand, beside what every card says


def arrays_of(model: Model) -> dict[str, Any]:
    """Its numbers by name, those of layers above the first in tables of their own."""
    named: dict[str, Any] = {}
    for name, tensor in model.parameters.items():
        *inside, last = name.split(".")
        place = named
        for step in inside:
            place = place.setdefault(step, {})
        place[last] = array(tensor)
    return named


def facts_of(model: Model) -> dict[str, Any]:
    """All that it is beside its numbers."""
    return {
        **facts_of_card(model),
        **{
            name: {key: list(each) for key, each in getattr(model, name).items()}
            for name in AS_WRITTEN
        },
        "vocabulary": asdict(model.vocabulary),
        "sights": [[asdict(sight) for sight in layer] for layer in model.sights],
    }


def read_again(facts: Mapping[str, Any], stored: Mapping[str, Any]) -> Model:
    """The model whose arrays and facts these are; what does not fit is a TypeError."""
    card = card_of_facts(facts, facts["vocabulary"])
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    numbers = {
        name: torch.from_numpy(np.array(each, np.float64)).to(dtype)
        for name, each in flat(stored).items()
    }
    written = {
        name: {key: tuple(map(str, each)) for key, each in facts[name].items()}
        for name in AS_WRITTEN
    }
    said = {each.name: getattr(card, each.name) for each in fields(Card)} | written
    return made_of(Card(**said), numbers, _sights(facts["sights"]))


def _sights(layers: Any) -> Sights:
    return tuple(tuple(of_their_types(Sight, each) for each in heads) for heads in layers)
