"""Loads a transformer and its tokenizer from a folder, a hub or the hub's cache.

Weights come from safetensors, or from torch files without code in them. transformers would draw a
weight that a checkpoint lacks at random; here that is an error.
"""

from __future__ import annotations

import copy
import json
import os
import pkgutil
import re
import warnings
import zipfile
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from attnviz.attention import devices
from attnviz.errors import AttnvizError, Note, model_error, opt
from attnviz.machine import files, memory
from attnviz.tokens.tokenizer_limits import (
    read_limited,
    refuse_growing_files,
    refuse_growing_tokenizer,
)
from attnviz.traces.models.model_names import CONFIG_FILE
from attnviz.traces.settings import Settings
from attnviz.traces.trained.checked_folder import checked_copy, finding_tokenizers_alone
from attnviz.traces.trained.model_location import (
    GGUF_SUFFIX,
    ModelLocation,
    count_stored,
    find_weight_files,
    find_weights_dtype,
    locate_transformer,
    refuse_incomplete_folder,
    refuse_unusable_folder,
    refuse_weights_beyond_memory,
)
from attnviz.traces.trained.model_state import ModelResults
from attnviz.traces.trained.refusals import (
    keeping_offline,
    offline_problem_and_hint,
    quiet_transformers,
    reporting_load_errors,
)
from attnviz.wings import WINGS
from attnviz.wording.words import counted, short_list

AUTO_CLASSES = (
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModel",
)
HUB_TIMEOUT_SECONDS = 10  # for the first answer; someone offline should not wait for five of them
TABLE_PATTERNS = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]
FOLDER_PATTERNS = [
    *("*.json", "*.txt", "*.model", "*.spm", "*.bpe", "*.codes", "*.jinja", "model*.safetensors")
]
TORCH_PATTERNS = ["pytorch_model*.bin"]
CODE_PATTERNS = ["*.py"]
GENERATION_FILE = "generation_config.json"
GENERATED_TOKENS = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens"),
)
UNUSED_WEIGHTS = ("pooler", "position_ids")  # may be missing: attention does not depend on them
# Beside quantized weights, and of adapters.
CHANGING_WEIGHTS = re.compile(
    r"(weight|input|output|act)_scale(_inv|_2)?$|\.scales$|zero_point|zeros$|g_idx$|"
    r"lora_|qweight|_packed$|absmax|quant_|\bSCB$"
)
LAYER_WEIGHT = re.compile(r"(.+?)\.\d+\..+")
# Of a layer, but no weights: tables that are computed, and scales of keys and values in a cache.
TABLE = re.compile(
    r"([kv]_scale|inv_freq|position_ids|(cos|sin)_cached|masked_bias|causal_mask|mask_value\w*|"
    r"(attn|attention)\.bias)$"
)
# Numbers that files may lack: of a pooler, or of position tables, which transformers computes.
MAX_ABSENT_NUMBERS, MAX_BUFFER_BYTES = 2**24, 2**30
PARAMETERS_PER_TENSOR, MAX_OTHER_PARAMETERS = 4, 1000  # some files pack several into a tensor
OTHER_INPUT_NAMES = ("pixel_values", "input_features", "input_values")  # of pictures and sound


@dataclass(frozen=True, eq=False)
class LoadedTransformer:
    """A transformers model with its tokenizer."""

    name: str
    model: Any
    tokenizer: Any
    stored_as: str  # the dtype of the checkpoint
    dtype: str = "float32"  # in which it computes, except for parts with a dtype of their own
    in_memory: bool = False  # whether the caller loaded it
    names_in_file: Mapping[str, str] = field(default_factory=dict)  # of weights, where they differ
    results: ModelResults | None = None  # of a model in memory, as it was when it was given

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def device(self) -> torch.device:
        """The device that its inputs go to: that of its first numbers that are in memory."""
        devices = (parameter.device for parameter in self.model.parameters())
        return next((device for device in devices if device.type != "meta"), torch.device("cpu"))

    @property
    def text_config(self) -> Any:
        """The config of the text part, for a model that reads pictures as well."""
        try:
            return self.config.get_text_config()
        except ValueError:  # encoder and decoder have a config each
            return self.config

    @property
    def heads(self) -> int:
        """How many heads each layer has, as far as the config says."""
        return getattr(self.text_config, "num_attention_heads", None) or 1

    @property
    def layers(self) -> int:
        return getattr(self.text_config, "num_hidden_layers", None) or 1

    @property
    def other_inputs(self) -> list[str]:
        """The inputs other than text that the model takes, and may not run without."""
        parameters = signature(type(self.model).forward).parameters
        return [name for name in parameters if name in OTHER_INPUT_NAMES]

    @property
    def text_part(self) -> str:
        """A hint on how to save the text part of a model of pictures or sound, or ""."""
        part = getattr(self.model, "text_model", None)
        if not hasattr(part, "save_pretrained"):
            return ""
        return "save the part that reads text: model.text_model.save_pretrained(folder)"


def load_transformer(settings: Settings) -> LoadedTransformer:
    """Return the model of `settings.model` with its tokenizer, on the settings' device and dtype.

    It comes from a cache if its files did not change. Refuses a model that is missing, incomplete,
    too large for the memory, or not of text.
    """
    location = None if settings.model is None else locate_transformer(settings.model)
    assert location is not None
    location = check_location(location)
    if not location.is_local:
        code = CODE_PATTERNS if settings.trust_remote_code else []
        location = ModelLocation(location.name, _download(location, [*FOLDER_PATTERNS, *code]))
    device = devices.choose_device(settings.device, settings.dtype)
    path = location.folder or location.file
    folder_state = () if path is None else files.read_folder_state(path)
    trusted = settings.trust_remote_code
    return _load_once(location, settings.dtype, str(device), trusted, folder_state)


def forget_loaded_models() -> None:
    """Drop the models that are kept for a next text, so that another one fits in memory."""
    _load_once.cache_clear()


@lru_cache(maxsize=2)  # two sentences are often read by one model
def _load_once(
    location: ModelLocation, dtype: str, device: str, trusted: bool, folder_state: files.FolderState
) -> LoadedTransformer:
    """Load a model and its tokenizer; refuse one that is incomplete, too large, or not of text.

    The cache holds it as long as its files (`folder_state`) do not change.
    """
    if location.file is not None:
        path = WINGS["gguf"].files[GGUF_SUFFIX]
        load_file: Callable[..., LoadedTransformer] = pkgutil.resolve_name(path)
        return load_file(location, location.file, dtype, device)
    assert location.folder is not None
    refuse_unusable_folder(location.folder)
    refuse_weights_beyond_memory(location, dtype)
    options = {"trust_remote_code": trusted, "local_files_only": not trusted}
    with quiet_transformers(), nullcontext(location) if trusted else _untrusted(location) as copy:
        with reporting_load_errors(location, read_from=copy.folder):
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(copy.address, **options)
            model, loading_info = _load_model(location.folder, config, dtype, options)
        _refuse_other_weights(location, model, loading_info)
        refuse_model_without_text(location.name, model)
        with reporting_load_errors(location, "tokenizer", copy.folder):
            refuse_growing_files(location.folder)
            tokenizer = _load_tokenizer(copy, options)
    model = model.eval().requires_grad_(False).to(device)
    stored_as = _checkpoint_dtype(location.folder, config)
    return LoadedTransformer(location.name, model, tokenizer, stored_as, dtype)


@contextmanager
def _untrusted(location: ModelLocation) -> Iterator[ModelLocation]:
    """Give the place of a model's files that were checked, for transformers to read inside the
    `with` block without asking a hub."""
    with keeping_offline(), finding_tokenizers_alone(location), checked_copy(location) as copy:
        yield copy


def _load_model(
    folder: Path, config: Any, dtype: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the model in a folder, and which weights its files lack, from transformers.

    Its files are read here: transformers would choose others by itself, such as adapters. Only a
    trusted model's own code reads them itself.
    """
    options = options | {
        "config": config,
        "dtype": getattr(torch, dtype),
        "attn_implementation": "eager",
        "output_loading_info": True,
    }
    model_class = _model_class(config, options["trust_remote_code"])
    if options["trust_remote_code"] and getattr(config, "auto_map", None):
        model, loading_info = model_class.from_pretrained(str(folder), **options)
        return model, loading_info
    packing = _refuse_unknown_packing(folder, config)
    model_class = type(_build_without_numbers(folder, model_class, config))
    if model_class.can_generate():
        options["generation_config"] = _load_generation_config(folder)
    weights = _read_weights(folder)
    if not packing:
        _refuse_codes(folder, weights)
    model, loading_info = model_class.from_pretrained(None, state_dict=weights, **options)
    return model, loading_info


def _refuse_unknown_packing(folder: Path, config: Any) -> bool:
    """Return whether a config says that the weights are packed (quantized); refuse a way that
    transformers does not know: it would take the packed numbers for weights."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    packing = getattr(config, "quantization_config", None)
    way = packing.get("quant_method") if isinstance(packing, dict) else None
    known = {"bitsandbytes", *AUTO_QUANTIZATION_CONFIG_MAPPING}
    if isinstance(way, str) and way not in known:
        raise model_error(
            f"the weights in '{folder}' are packed in a way that transformers does not know: "
            f"'{way[:80]}'",
            "use the model before it was quantized",
        )
    return packing is not None


def _refuse_codes(folder: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that are no numbers with a point: codes, of which the config says nothing."""
    for name, numbers in weights.items():
        if name.endswith("weight") and not numbers.is_floating_point():
            raise model_error(
                f"the weights in '{folder}' are packed, and its {CONFIG_FILE} does not say how: "
                f"'{name[:80]}' has {str(numbers.dtype).removeprefix('torch.')} numbers",
                "use the model before it was quantized",
            )


def _build_without_numbers(folder: Path, model_class: Any, config: Any) -> Any:
    """Return the model of a config, without memory for its numbers.

    Refuses a config of more weights than the folder's files have: transformers would draw them.
    """
    tensors, numbers = count_stored(folder)
    config = copy.deepcopy(config)  # some models change it
    config._attn_implementation = "eager"
    most = PARAMETERS_PER_TENSOR * tensors + MAX_OTHER_PARAMETERS
    with torch.device("meta"), _refusing_more_parameters(folder, most):
        is_auto = model_class.__name__ in AUTO_CLASSES
        model = model_class.from_config(config) if is_auto else model_class(config)
    described = sum(parameter.numel() for parameter in model.parameters())
    if described > numbers + MAX_ABSENT_NUMBERS:
        raise _larger_config_error(folder, f"{described:,} numbers, and they have {numbers:,}")
    buffered = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if buffered > max(MAX_BUFFER_BYTES, numbers):
        raise _larger_config_error(folder, f"tables of {memory.format_size(buffered)}")
    return model


@contextmanager
def _refusing_more_parameters(folder: Path, most: int) -> Iterator[None]:
    """Refuse a model with more than `most` parameters while it is built inside the block."""
    count = 0

    def count_parameter(*_: object) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise _larger_config_error(folder, f"over {most:,} matrices and vectors")

    with register_module_parameter_registration_hook(count_parameter):
        yield


def _larger_config_error(folder: Path, size: str) -> AttnvizError:
    return model_error(
        f"the {CONFIG_FILE} in '{folder}' describes a larger model than the weights there: {size}",
        "copy or download the whole model again",
    )


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the numbers in a model's files; they stay there until they are used.

    A torch file is read by torch's loader for tensors and plain values, which runs no code.
    """
    from safetensors.torch import load_file

    weights: dict[str, torch.Tensor] = {}
    for path in find_weight_files(folder):
        if path.suffix == ".safetensors":
            weights |= load_file(path)
        else:
            is_zipped = zipfile.is_zipfile(path)
            weights |= torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipped)
    return weights


def _load_generation_config(folder: Path) -> Any:
    """Return which tokens a model begins, ends and leaves out when it generates: from its own file,
    or, as in older models, its config. Nothing else that these ask for is done."""
    from transformers import GenerationConfig

    path = folder / GENERATION_FILE
    path = path if files.is_file(path) else folder / CONFIG_FILE
    values = json.loads(read_limited(path))
    parts = (values.get(name) for name in ("text_config", "decoder"))  # of some configs
    known = ChainMap(values, *(part for part in parts if isinstance(part, dict)))
    make_config: Any = GenerationConfig
    return make_config(**{name: known[name] for name in GENERATED_TOKENS if name in known})


def _load_tokenizer(location: ModelLocation, options: dict[str, Any]) -> Any:
    """Return a model's tokenizer; one that cannot name its special tokens raises an error.

    Refuses one that makes far more of a text than it is.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(location.address, **options)
    refuse_growing_tokenizer(tokenizer, location.name)
    # Looked up here, within the caller's error handling: an odd special token recurses forever.
    _ = tokenizer.all_special_ids, tokenizer.unk_token_id, tokenizer.mask_token_id
    return tokenizer


def _model_class(config: Any, trusted: bool) -> Any:
    """Return the class that wrote the checkpoint, so that no weight is left out, or AutoModel.

    `trusted`: the class may be one of the checkpoint's own code.
    """
    import transformers

    remote = getattr(config, "auto_map", None) or {}
    name = str((config.architectures or [""])[0])
    if trusted and remote:
        name = next((each for each in AUTO_CLASSES if each in remote), "AutoModel")
    named = getattr(transformers, name, None)
    is_model = isinstance(named, type) and issubclass(named, transformers.PreTrainedModel)
    return named if is_model or name in AUTO_CLASSES else transformers.AutoModel


def _refuse_other_weights(
    location: ModelLocation, model: Any, loading_info: dict[str, Any]
) -> None:
    """Refuse a checkpoint that lacks weights or has them in other shapes: these would be random.
    Those in `UNUSED_WEIGHTS` may be missing.

    Refuses also weights that others depend on, but which the model does not use, such as those of
    an adapter; a note names others that its layers do not use.
    """
    mismatched = {str(key[0]) for key in loading_info.get("mismatched_keys", ())}
    absent = sorted(
        name
        for name in {*loading_info["missing_keys"], *mismatched}
        if not any(part in name for part in UNUSED_WEIGHTS)
    )
    if absent:
        raise model_error(
            f"the checkpoint of '{location.name}' lacks {len(absent)} of the model's weights: "
            f"{short_list(absent)}",
            "use the whole checkpoint: these weights would be random",
        )
    unused = sorted(map(str, loading_info.get("unexpected_keys", ())))
    if changing := [name for name in unused if CHANGING_WEIGHTS.search(name)]:
        raise model_error(
            f"the checkpoint of '{location.name}' has {counted(len(changing), 'tensor')} that "
            f"change its weights, and that transformers leaves out: {short_list(changing)}",
            "use the model before it was quantized or adapted",
        )
    layers = tuple({match[1] for name, _ in model.named_parameters()
                    if (match := LAYER_WEIGHT.fullmatch(name))})  # fmt: skip
    if of_layers := [name for name in unused if _is_of_a_layer(name, layers)]:
        weights = counted(len(of_layers), "weight")
        note = f"the model '{location.name}' does not use {weights} of its files: "
        warnings.warn(Note(f"{note}{short_list(of_layers)}"), stacklevel=2)


def _is_of_a_layer(name: str, layers: Sequence[str]) -> bool:
    """Return whether a weight is one of the layers of a model, which may have another prefix."""
    match = LAYER_WEIGHT.fullmatch(name)
    if match is None or TABLE.search(name):
        return False
    stem = f".{match[1]}"
    return any(f".{each}".endswith(stem) or stem.endswith(f".{each}") for each in layers)


def refuse_model_without_text(name: str, model: Any) -> None:
    """Refuse a model whose main input is pictures or sound."""
    if model.main_input_name in OTHER_INPUT_NAMES:
        raise model_error(
            f"the model '{name}' ({model.config.model_type}) does not read text: it takes "
            f"{model.main_input_name}",
            "use a model of text",
        )


def _checkpoint_dtype(folder: Path, config: Any) -> str:
    """Return the name of the checkpoint's dtype, such as 'float16'.

    It is that of its safetensors files, else of its config, else 'float32'.
    """
    config_dtype = getattr(config, "dtype", None) or torch.float32
    return find_weights_dtype(folder) or str(config_dtype).removeprefix("torch.")


def check_location(location: ModelLocation) -> ModelLocation:
    """Return a model's location, with its folder or file if that is given, or the folder in the
    cache if the model is complete there.

    Only for other models the hub is asked; refuses a model that it lacks, and one that it cannot be
    asked for.
    """
    if location.is_local:
        return location
    if cached_folder := _find_cached_folder(location):
        return ModelLocation(location.name, cached_folder)
    if is_offline():
        raise model_error(*offline_problem_and_hint(location.name))
    with quiet_transformers(), reporting_load_errors(location):
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        get_hf_file_metadata(hf_hub_url(location.name, CONFIG_FILE), timeout=HUB_TIMEOUT_SECONDS)
    return location


def is_offline() -> bool:
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def _find_cached_folder(location: ModelLocation) -> Path | None:
    """Return the folder of the cached version; None if there is none, or it is incomplete."""
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
    """Return the folder of a model's files, after downloading them to the cache if need be.

    Refuses a GGUF file, and a model that neither a folder, the cache nor the hub has.
    """
    if location.file is not None:
        raise AttnvizError(
            f"vectors are read from safetensors, and the model '{location.name}' is a GGUF file",
            f"give {opt.embeddings:minilm}, a folder, or a name on a hub",
            about="embeddings",
        )
    return check_location(location).folder or _download(location, TABLE_PATTERNS)


def _download(location: ModelLocation, patterns: list[str]) -> Path:
    """Return the folder in the cache to which a hub's files of these names were downloaded.

    Weights in torch's own files are downloaded only if there are no others.
    """
    with quiet_transformers(), reporting_load_errors(location):
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(location.name, allow_patterns=patterns))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(location.name, allow_patterns=TORCH_PATTERNS)
    return folder
