"""A model by its name, if it comes with attnviz, or by where it is: its card, and all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.traces.models.card import read_card
from attnviz.traces.models.names import BY_HAND, place_of

if TYPE_CHECKING:
    from attnviz.traces.models.card import Card
    from attnviz.traces.models.model import Model


def card_of(name: str) -> Card:
    """What a model says of itself, without its numbers."""
    place = place_of(name)
    return model_of(name) if place.suffix == BY_HAND else read_card(place)


def model_of(name: str) -> Model:
    """A model that comes with attnviz, or one's own, with its numbers."""
    from attnviz.traces.models import by_hand, folder  # torch, for which errors need not wait

    place = place_of(name)
    return by_hand.read(place) if place.suffix == BY_HAND else folder.read(place)
