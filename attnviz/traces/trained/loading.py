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
from attnviz.traces.models.names import CONFIG_FILE
from attnviz.traces.settings import Settings
from attnviz.traces.trained.model_location import (
    ModelLocation,
    find_weights_dtype,
    locate_transformer,
    refuse_incomplete_folder,
    refuse_weights_beyond_memory,
)
from attnviz.traces.trained.refusals import (
    offline_problem_and_hint,
    quiet_transformers,
    reporting_load_errors,
)

MAX_NAMED_WEIGHTS = 3  # of missing weights
DOWNLOAD_PATTERNS = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]
SIMPLE_TYPES = (bool, int, float, str, type(None))
UNUSED_WEIGHTS = ("pooler", "position_ids")  # what may be missing: attention does not depend on it
OTHER_INPUT_NAMES = (
    "pixel_values",
    "input_features",
    "input_values",
)  # what others read first of all


ModuleState = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class LoadedTransformer:
    """A model, its tokenizer and its config, as transformers has them."""

    name: str
    model: Any
    tokenizer: Any
    stored_as: str  # the dtype of the checkpoint
    dtype: str = "float32"  # in which it computes, but for the parts that it keeps in another
    state: ModuleState = field(default_factory=dict)  # as it was loaded

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
        return [
            name
            for name in signature(type(self.model).forward).parameters
            if name in OTHER_INPUT_NAMES
        ]

    @property
    def text_part(self) -> str:
        """How to come by the part of it that reads text, of a model that reads something else."""
        part = getattr(self.model, "text_model", None)
        if not hasattr(part, "save_pretrained"):
            return ""
        return "save the part that reads text: model.text_model.save_pretrained(folder)"


def load_transformer(settings: Settings) -> LoadedTransformer:
    """The model that the settings name, on their device and in their dtype."""
    location = None if settings.model is None else locate_transformer(settings.model)
    assert location is not None
    location = check_location(location)
    device = devices.choose_device(settings.device, settings.dtype)
    folder_state = () if location.folder is None else files.read_folder_state(location.folder)
    arguments = (location, settings.dtype, str(device), settings.trust_remote_code, folder_state)
    model = _load_once(*arguments)
    if _read_module_state(model.model) != model.state:
        _load_once.cache_clear()
        model = _load_once(*arguments)
    return model


@lru_cache(maxsize=2)  # two sentences are often read by one model
def _load_once(
    location: ModelLocation, dtype: str, device: str, trusted: bool, folder_state: files.FolderState
) -> LoadedTransformer:
    """Once, as long as its files stay as they are now."""
    options = {"trust_remote_code": trusted, "local_files_only": location.folder is not None}
    if location.folder is not None:
        refuse_incomplete_folder(location.folder)
        refuse_weights_beyond_memory(location.folder, dtype)
    with quiet_transformers(), reporting_load_errors(location):
        config = _load_config(location, options)
        model, loading_info = _model_class(config, trusted).from_pretrained(
            location.address,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            output_loading_info=True,
            **options,
        )
    _refuse_missing_weights(location, loading_info)
    _refuse_model_without_text(location, model)
    with quiet_transformers(), reporting_load_errors(location, "tokenizer"):
        tokenizer = _load_tokenizer(location, options)
    _disable_caches(model)
    model = model.eval().requires_grad_(False).to(device)
    state = _read_module_state(model)
    return LoadedTransformer(
        location.name, model, tokenizer, _checkpoint_dtype(location, config), dtype, state
    )


def _read_module_state(model: Any) -> ModuleState:
    """What modules and their configs are, but for their numbers and for what is private.

    A model may change when it runs: after a short text BigBird reads all of every other text, too.
    Such a one is loaded again.
    """
    state: ModuleState = {}
    for name, module in model.named_modules():
        for part in filter(None, (module, getattr(module, "config", None))):
            plain = {key: value for key, value in vars(part).items()
                     if isinstance(value, SIMPLE_TYPES) and not key.startswith("_")}  # fmt: skip
            state[name, type(part).__name__] = plain
    return state


def _load_config(location: ModelLocation, options: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(location.address, **options)


def _load_tokenizer(location: ModelLocation, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(location.address, **options)
    # Looked up now, for special tokens with odd names are looked up without an end.
    _ = tokenizer.all_special_ids, tokenizer.unk_token_id, tokenizer.mask_token_id
    return tokenizer


def _model_class(config: Any, trusted: bool) -> Any:
    """The class that wrote the checkpoint, if transformers has it; so no weight is left out."""
    import transformers

    remote = getattr(config, "auto_map", None) or {}
    if trusted and remote:
        name = next(
            (class_name for class_name in AUTO_CLASSES if class_name in remote), "AutoModel"
        )
    else:
        name = str((config.architectures or [""])[0])
    model_class = getattr(transformers, name, None)
    is_model_class = isinstance(model_class, type) and issubclass(
        model_class, transformers.PreTrainedModel
    )
    return model_class if is_model_class or name in AUTO_CLASSES else transformers.AutoModel


AUTO_CLASSES = (
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModel",
)


def _refuse_missing_weights(location: ModelLocation, loading_info: dict[str, Any]) -> None:
    """Weights that the checkpoint has not, or has in another shape, would be random."""
    mismatched = {str(key[0]) for key in loading_info.get("mismatched_keys", ())}
    absent = sorted(
        name
        for name in {*loading_info["missing_keys"], *mismatched}
        if not any(part in name for part in UNUSED_WEIGHTS)
    )
    if absent:
        listed_names = ", ".join(absent[:MAX_NAMED_WEIGHTS]) + " …" * (
            len(absent) > MAX_NAMED_WEIGHTS
        )
        raise AttnvizError(
            f"the checkpoint of '{location.name}' lacks {len(absent)} of the model's weights: {listed_names}",
            "use the whole checkpoint: these weights would be random",
            about="model",
        )


def _refuse_model_without_text(location: ModelLocation, model: Any) -> None:
    """Refuse models of pictures and of sound."""
    if model.main_input_name in OTHER_INPUT_NAMES:
        raise AttnvizError(
            f"the model '{location.name}' ({model.config.model_type}) does not read text: it takes "
            f"{model.main_input_name}",
            "use a model of text",
            about="model",
        )


def _disable_caches(model: Any) -> None:
    """What is kept for the next token is not needed where all of them are read at once."""
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False


def _checkpoint_dtype(location: ModelLocation, config: Any) -> str:
    """The dtype of the checkpoint: as its file says, or its config."""
    from transformers.utils.hub import cached_file

    folder = location.folder or Path(str(cached_file(location.name, "config.json"))).parent
    config_dtype = getattr(config, "dtype", None) or torch.float32
    return find_weights_dtype(folder) or str(config_dtype).removeprefix("torch.")


HUB_TIMEOUT_SECONDS = (
    10  # seconds for a first answer; whoever is offline need not wait for five of them
)


def check_location(location: ModelLocation) -> ModelLocation:
    """Where a model is: its folder in the cache, if it is there as a whole; nobody is asked then.

    Else it is sure that the hub has it, and that it can be reached.
    """
    if location.folder is not None:
        return location
    cached_folder = _find_cached_folder(location)
    if cached_folder is not None:
        return ModelLocation(location.name, cached_folder)
    if is_offline():
        raise AttnvizError(*offline_problem_and_hint(location.name), about="model")
    with quiet_transformers(), reporting_load_errors(location):
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        get_hf_file_metadata(hf_hub_url(location.name, CONFIG_FILE), timeout=HUB_TIMEOUT_SECONDS)
    return location


def is_offline() -> bool:
    """Whether somebody has said that nothing may be downloaded."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def _find_cached_folder(location: ModelLocation) -> Path | None:
    """The folder of the version that the cache has, with all that is needed of it."""
    with quiet_transformers():
        from huggingface_hub import try_to_load_from_cache

        config_path = try_to_load_from_cache(location.name, CONFIG_FILE)
    if not isinstance(config_path, str):
        return None
    folder = Path(config_path).parent
    try:
        refuse_incomplete_folder(folder)
    except AttnvizError:  # a download that was stopped
        return None
    return folder


def fetch_model_folder(location: ModelLocation) -> Path:
    """Where its files are; those of a model on a hub, in the hub's cache, once they are there."""
    if location.folder is not None:  # and nothing of transformers is needed
        return location.folder
    cached_folder = check_location(location).folder
    if cached_folder is not None:
        return cached_folder
    with quiet_transformers(), reporting_load_errors(location):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(location.name, allow_patterns=DOWNLOAD_PATTERNS))
