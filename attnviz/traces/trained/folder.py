"""What is in the folder of a transformer, looked at before anything of it is loaded; no torch."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.traces.models.names import CONFIG
from attnviz.wording.words import counted, listed

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
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
LARGEST_CONFIG = 10**7
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
    for name in WEIGHTS:
        if files.is_file(folder / name):
            return [folder / name]
        if files.is_file(folder / f"{name}{INDEX}"):
            return _in_several(folder, folder / f"{name}{INDEX}")
    there = [kind for pattern, kind in OF_OTHERS.items() if any(folder.glob(pattern))]
    raise AttnvizError(
        f"the folder '{folder}' has no weights: no {WEIGHTS[0]}, no {WEIGHTS[1]}"
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
