"""Loads a model, or only its card, by name or path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.traces.models.card import Card, read_card_and_save
from attnviz.traces.models.model_names import HAND_WRITTEN_SUFFIX, find_model_path

if TYPE_CHECKING:
    from attnviz.traces.models.model import Model


def load_card(name: str) -> Card:
    """Return the card of the model of a name or path, without reading a trained model's tensors.

    Refuses names and files as `load_model` does.
    """
    path = find_model_path(name)
    return load_model(name) if path.suffix == HAND_WRITTEN_SUFFIX else read_card_and_save(path)[0]


def load_model(name: str) -> Model:
    """Return the model of a name, such as 'toy', or of a path, with its tensors.

    Refuses an unknown name, and a folder or .toml file without a valid model.
    """
    from attnviz.traces.models import by_hand, folder  # torch, for which errors need not wait

    path = find_model_path(name)
    is_written = path.suffix == HAND_WRITTEN_SUFFIX
    return by_hand.read_written_model(path) if is_written else folder.read_learned_model(path)
