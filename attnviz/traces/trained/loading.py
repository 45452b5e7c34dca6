"""Loads a transformer and its tokenizer: from a folder, or from a hub and its cache.

Weights come from safetensors, or from torch files without code in them. A weight that a checkpoint
lacks would be drawn at random by whoever loads it: here that is an error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.traces.models.names import CONFIG
from attnviz.traces.settings import Settings
from attnviz.traces.trained.place import Place, found, refuse_too_large, refuse_unfit, stored_as
from attnviz.traces.trained.refusals import offline, quietly, refused

MOST_NAMED = 3  # of missing weights
NEEDED = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]
PLAIN = (bool, int, float, str, type(None))
NOT_READ = ("pooler", "position_ids")  # what may be missing: attention does not depend on it
NO_TEXT = ("pixel_values", "input_features", "input_values")  # what others read first of all


State = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model, its tokenizer and its config, as transformers has them."""

    name: str
    model: Any
    tokenizer: Any
    stored_as: str  # the dtype of the checkpoint
    dtype: str = "float32"  # in which it computes, but for the parts that it keeps in another
    state: State = field(default_factory=dict)  # as it was loaded

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def text_config(self) -> Any:
        """The part of the config that is about text, where a model reads pictures, too."""
        try:
            return self.config.get_text_config()
        except ValueError:  # an encoder and a decoder with one each
            return self.config

    @property
    def other_inputs(self) -> list[str]:
        """What it takes that is no text, so that it may not do without."""
        return [each for each in signature(type(self.model).forward).parameters if each in NO_TEXT]

    @property
    def text_part(self) -> str:
        """How to come by the part of it that reads text, of a model that reads something else."""
        part = getattr(self.model, "text_model", None)
        if not hasattr(part, "save_pretrained"):
            return ""
        return "save the part that reads text: model.text_model.save_pretrained(folder)"


def loaded(settings: Settings) -> Loaded:
    """The model that the settings name, on their device and in their dtype."""
    place = None if settings.model is None else found(settings.model)
    assert place is not None
    place = at_hand(place)
    device = devices.choose(settings.device, settings.dtype)
    now = () if place.folder is None else files.state_of(place.folder)
    asked = (place, settings.dtype, str(device), settings.trust_remote_code, now)
    model = _loaded(*asked)
    if _state_of(model.model) != model.state:
        _loaded.cache_clear()
        model = _loaded(*asked)
    return model


@lru_cache(maxsize=2)  # two sentences are often read by one model
def _loaded(place: Place, dtype: str, device: str, trusted: bool, now: files.State) -> Loaded:
    """Once, as long as its files stay as they are now."""
    options = {"trust_remote_code": trusted, "local_files_only": place.folder is not None}
    if place.folder is not None:
        refuse_unfit(place.folder)
        refuse_too_large(place.folder, dtype)
    with quietly(), refused(place):
        config = _config(place, options)
        model, told = _class_of(config, trusted).from_pretrained(
            place.address,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            output_loading_info=True,
            **options,
        )
    _refuse_missing(place, told)
    _refuse_textless(place, model)
    with quietly(), refused(place, "tokenizer"):
        tokenizer = _tokenizer(place, options)
    _without_caches(model)
    model = model.eval().requires_grad_(False).to(device)
    state = _state_of(model)
    return Loaded(place.name, model, tokenizer, _stored_as(place, config), dtype, state)


def _state_of(model: Any) -> State:
    """What modules and their configs are, but for their numbers and for what is private.

    A model may change when it runs: after a short text BigBird reads all of every other text, too.
    Such a one is loaded again.
    """
    found: State = {}
    for name, module in model.named_modules():
        for each in filter(None, (module, getattr(module, "config", None))):
            plain = {key: value for key, value in vars(each).items()
                     if isinstance(value, PLAIN) and not key.startswith("_")}  # fmt: skip
            found[name, type(each).__name__] = plain
    return found


def _config(place: Place, options: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(place.address, **options)


def _tokenizer(place: Place, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place.address, **options)
    # Looked up now, for special tokens with odd names are looked up without an end.
    _ = tokenizer.all_special_ids, tokenizer.unk_token_id, tokenizer.mask_token_id
    return tokenizer


def _class_of(config: Any, trusted: bool) -> Any:
    """The class that wrote the checkpoint, if transformers has it; so no weight is left out."""
    import transformers

    remote = getattr(config, "auto_map", None) or {}
    if trusted and remote:
        name = next((each for each in AUTOMATIC if each in remote), "AutoModel")
    else:
        name = str((config.architectures or [""])[0])
    found = getattr(transformers, name, None)
    known = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    return found if known or name in AUTOMATIC else transformers.AutoModel


AUTOMATIC = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel")


def _refuse_missing(place: Place, told: dict[str, Any]) -> None:
    """Weights that the checkpoint has not, or has in another shape, would be random."""
    others = {str(each[0]) for each in told.get("mismatched_keys", ())}
    absent = sorted(
        name
        for name in {*told["missing_keys"], *others}
        if not any(part in name for part in NOT_READ)
    )
    if absent:
        named = ", ".join(absent[:MOST_NAMED]) + " …" * (len(absent) > MOST_NAMED)
        raise AttnvizError(
            f"the checkpoint of '{place.name}' lacks {len(absent)} of the model's weights: {named}",
            "use the whole checkpoint: these weights would be random",
            about="model",
        )


def _refuse_textless(place: Place, model: Any) -> None:
    """Refuse models of pictures and of sound."""
    if model.main_input_name in NO_TEXT:
        raise AttnvizError(
            f"the model '{place.name}' ({model.config.model_type}) does not read text: it takes "
            f"{model.main_input_name}",
            "use a model of text",
            about="model",
        )


def _without_caches(model: Any) -> None:
    """What is kept for the next token is not needed where all of them are read at once."""
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False


def _stored_as(place: Place, config: Any) -> str:
    """The dtype of the checkpoint: as its file says, or its config."""
    from transformers.utils.hub import cached_file

    at = place.folder or Path(str(cached_file(place.name, "config.json"))).parent
    told = getattr(config, "dtype", None) or torch.float32
    return stored_as(at) or str(told).removeprefix("torch.")


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
        refuse_unfit(at)
    except AttnvizError:  # a download that was stopped
        return None
    return at


def folder_of(place: Place) -> Path:
    """Where its files are; those of a model on a hub, in the hub's cache, once they are there."""
    if place.folder is not None:  # and nothing of transformers is needed
        return place.folder
    there = at_hand(place).folder
    if there is not None:
        return there
    with quietly(), refused(place):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(place.name, allow_patterns=NEEDED))
