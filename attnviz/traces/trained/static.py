"""Whose table of embeddings a name means, and the folder that it is in; without torch."""

from __future__ import annotations

from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.traces.trained.place import EXTRA, Place, found

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
    if place.folder is not None:
        return place.folder
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        problem = (
            f"the vectors of '{place.name}' are on a hub, and huggingface_hub is not installed"
        )
        raise AttnvizError(problem, EXTRA, about="embeddings") from None
    disable_progress_bars()
    try:
        return Path(snapshot_download(place.name, allow_patterns=NEEDED))
    except (HfHubHTTPError, OSError, ValueError):
        raise AttnvizError(
            f"'{place.name}' is no file and no folder, and the hub's model of that name cannot be "
            "had",
            "check the name, and the connection; offline it must be in the hub's cache",
            about="embeddings",
        ) from None
