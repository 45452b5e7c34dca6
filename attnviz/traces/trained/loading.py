"""A trained transformer and its tokenizer, loaded as they are: nothing made up, nothing executed.

Weights come from safetensors, or from torch files without code in them. A weight that a checkpoint
lacks would be drawn at random by whoever loads it: here that is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.traces.settings import Settings
from attnviz.traces.trained.place import EXTRA, MINILM, Place, found

MOST_NAMED = 3  # of missing weights
NOT_READ = ("pooler",)  # what a checkpoint may lack: attention does not depend on it


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model, its tokenizer and its config, as transformers has them."""

    name: str
    model: Any
    tokenizer: Any
    stored_as: str  # the dtype of the checkpoint

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def text_config(self) -> Any:
        """The part of the config that is about text, where a model reads pictures, too."""
        return self.config.get_text_config()


def loaded(settings: Settings) -> Loaded:
    """The model that the settings name, on their device and in their dtype."""
    place = None if settings.model is None else found(settings.model)
    assert place is not None
    device = devices.choose(settings.device, settings.dtype)
    return _loaded(place, settings.dtype, str(device), settings.trust_remote_code)


@lru_cache(maxsize=2)  # two sentences are often read by one model
def _loaded(place: Place, dtype: str, device: str, trusted: bool) -> Loaded:
    with quietly():
        options = {"trust_remote_code": trusted, "local_files_only": place.folder is not None}
        config = _config(place, options)
        model, told = _class_of(config, trusted).from_pretrained(
            place.address,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            output_loading_info=True,
            **options,
        )
        _refuse_missing(place, told["missing_keys"])
        stored = getattr(config, "dtype", None) or torch.float32
        return Loaded(
            place.name,
            model.eval().requires_grad_(False).to(device),
            _tokenizer(place, options),
            str(stored).removeprefix("torch."),
        )


def _config(place: Place, options: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(place.address, **options)


def _tokenizer(place: Place, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(place.address, **options)


def _class_of(config: Any, trusted: bool) -> Any:
    """The class that wrote the checkpoint, if transformers has it; so no weight is left out."""
    import transformers

    name = str((config.architectures or [""])[0])
    if name and not trusted and hasattr(transformers, name):
        return getattr(transformers, name)
    return transformers.AutoModel


def _refuse_missing(place: Place, missing: Any) -> None:
    absent = sorted(name for name in missing if not any(part in name for part in NOT_READ))
    if absent:
        named = ", ".join(absent[:MOST_NAMED]) + " …" * (len(absent) > MOST_NAMED)
        raise AttnvizError(
            f"the checkpoint of '{place.name}' lacks {len(absent)} of the model's weights: {named}",
            "they would be random; take the whole checkpoint",
            about="model",
        )


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings, notes and bars of transformers."""
    try:
        from transformers.utils import logging as theirs
    except ImportError:
        raise missing_extra() from None
    bars_of: Any = theirs
    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.CRITICAL)
    bars_of.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        if bars:
            bars_of.enable_progress_bar()


def missing_extra() -> AttnvizError:
    return AttnvizError(
        f"trained models need transformers, which is not installed (--model {MINILM})",
        EXTRA,
        about="model",
    )
