"""A model by its name, if it comes with attnviz, or by where it is: its card, and all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.traces.models.card import read_card
from attnviz.traces.models.names import HAND_WRITTEN_SUFFIX, find_model_path

if TYPE_CHECKING:
    from attnviz.traces.models.card import Card
    from attnviz.traces.models.model import Model


def load_card(name: str) -> Card:
    """What a model says of itself, without its numbers."""
    path = find_model_path(name)
    return load_model(name) if path.suffix == HAND_WRITTEN_SUFFIX else read_card(path)


def load_model(name: str) -> Model:
    """A model that comes with attnviz, or one's own, with its numbers."""
    from attnviz.traces.models import by_hand, folder  # torch, for which errors need not wait

    path = find_model_path(name)
    return (
        by_hand.read_written_model(path)
        if path.suffix == HAND_WRITTEN_SUFFIX
        else folder.read_learned_model(path)
    )
