"""A model of a hub: in the cache of this machine, or to be downloaded into it."""

from __future__ import annotations

import os
from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.traces.models.names import CONFIG
from attnviz.traces.trained import folder
from attnviz.traces.trained.place import Place
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.refusing import offline, refused

PATIENCE = 10  # seconds for a first answer; whoever is offline need not wait for five of them


def at_hand(place: Place) -> Place:
    """Where a model is: its folder in the cache, if it is there as a whole; nobody is asked then.

    Else it is sure that the hub has it, and that it can be reached.
    """
    if place.folder is not None:
        return place
    cached = _cached(place)
    if cached is not None:
        return Place(place.name, cached)
    if is_offline():
        raise AttnvizError(*offline(place.name), about="model")
    with quietly(), refused(place):
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        get_hf_file_metadata(hf_hub_url(place.name, CONFIG), timeout=PATIENCE)
    return place


def is_offline() -> bool:
    """Whether somebody has said that nothing may be downloaded."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def _cached(place: Place) -> Path | None:
    """The folder of the version that the cache has, with all that is needed of it."""
    with quietly():
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(place.name, CONFIG)
    if not isinstance(found, str):
        return None
    at = Path(found).parent
    try:
        folder.refuse_unfit(at)
    except AttnvizError:  # a download that was stopped
        return None
    return at
