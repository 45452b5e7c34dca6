"""Whose table of embeddings a name means, and the folder that it is in; without torch."""

from __future__ import annotations

from pathlib import Path

from attnviz.machine import files
from attnviz.traces.trained.place import Place, found

OWN = (".npy", ".npz", ".safetensors", ".txt", ".vec", ".csv", ".tsv", ".gz", ".bin", ".pt")
NEEDED = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]


def place_of(name: str) -> Place | None:
    """The model that a name means; None where it means a file of vectors."""
    path, _ = files.file_and_name(name)
    if files.is_file(path) or path.suffix.lower() in OWN:
        return None
    return found(name)


def folder_of(place: Place) -> Path:
    """Where its files are; those of a model on a hub, in the hub's cache, once they are there."""
    if place.folder is not None:  # and nothing of transformers is needed
        return place.folder
    from attnviz.traces.trained.hub import at_hand
    from attnviz.traces.trained.quiet import quietly
    from attnviz.traces.trained.refusing import refused

    there = at_hand(place).folder
    if there is not None:
        return there
    with quietly(), refused(place):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(place.name, allow_patterns=NEEDED))
