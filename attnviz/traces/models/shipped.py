"""A model by its name, if it comes with attnviz, or by its folder: its card, and all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.traces.models.config import read_card
from attnviz.traces.models.names import place_of

if TYPE_CHECKING:
    from attnviz.traces.models.card import Card
    from attnviz.traces.models.model import Model


def card_of(name: str) -> Card:
    """What a model says of itself, without its numbers."""
    return read_card(place_of(name))


def model_of(name: str) -> Model:
    """A model that comes with attnviz, or that is in a folder."""
    from attnviz.traces.models import folder  # torch, for which errors need not wait

    return folder.read(place_of(name))
