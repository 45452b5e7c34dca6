"""Builds the transformers model of a GGUF file, with its tensors as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnviz.traces.trained.gguf_blocks import read_tensor
from attnviz.traces.trained.gguf_config import (
    FREQUENCY_FACTORS,
    LONG_FACTORS,
    SHORT_FACTORS,
    find_architecture,
)
from attnviz.traces.trained.gguf_file import GGUFFile
from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import reporting_load_errors
from attnviz.wording.words import and_list

MAX_NAMED_TENSORS = 3  # that are missing or unknown
NOT_WEIGHTS = (FREQUENCY_FACTORS, LONG_FACTORS, SHORT_FACTORS)


class _MetaParameters(TorchFunctionMode):
    """Makes parameters without memory for their numbers inside the `with` block.

    Those are made by `torch.empty`; other tensors, such as frequencies of rotation, are computed.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), keywords: Any = None
    ) -> Any:
        keywords = keywords or {}
        if function is torch.empty:
            keywords = {**keywords, "device": "meta"}
        return function(*args, **keywords)


def build_model(file: GGUFFile, dtype: torch.dtype) -> Any:
    """Return the model of a file, in a dtype; refuse tensors that are not those of its config.

    Tensors are read one after another, so that no more memory is needed than for the model.
    """
    import transformers

    architecture, location = find_architecture(file), ModelLocation("", None, file.path)
    settings = architecture.config(file)
    with reporting_load_errors(location), _MetaParameters():
        config = transformers.AutoConfig.for_model(
            architecture.kind, dtype=dtype, attn_implementation="eager", **settings
        )
        config.architectures = [architecture.model_class]
        model = getattr(transformers, architecture.model_class)(config)
    names = {name: _full_name(name, architecture.names) for name in file.tensors}
    _refuse_other_tensors(file, names, dict(model.named_parameters()))
    weights = {
        names[name]: architecture.undo(read_tensor(stored, dtype), name, settings)
        for name, stored in file.tensors.items()
        if name not in NOT_WEIGHTS
    }
    model.load_state_dict(weights, strict=False, assign=True)  # tied and computed ones are absent
    model.tie_weights()
    if FREQUENCY_FACTORS in file.tensors:
        frequencies = model.model.rotary_emb.inv_freq
        frequencies /= torch.tensor(file.read_factors(FREQUENCY_FACTORS, len(frequencies)))
    return model


def _full_name(name: str, names: Mapping[str, str]) -> str:
    """Return what transformers calls a tensor; the name itself if it is not known."""
    return ".".join(names.get(part, part) for part in name.split("."))


def _refuse_other_tensors(
    file: GGUFFile, names: Mapping[str, str], parameters: Mapping[str, Tensor]
) -> None:
    """Refuse a file whose tensors are not those of the model, or have other shapes."""
    weights = {name: stored for name, stored in file.tensors.items() if name not in NOT_WEIGHTS}
    unknown = [name for name in weights if names[name] not in parameters]
    if unknown == ["output.weight"]:  # tied, and written nevertheless
        unknown = []
    present = {names[name] for name in weights}
    missing = [name for name in parameters if name not in present]
    for absence, tensors in (("lacks", missing), ("has", unknown)):
        if tensors:
            more = " …" * (len(tensors) > MAX_NAMED_TENSORS)
            listed = and_list(sorted(tensors)[:MAX_NAMED_TENSORS]) + more
            suffix = ", which its kind of model does not have" * (absence == "has")
            raise file.wrong_tensors(f"{absence} {listed}{suffix}")
    is_transposed = file.architecture == "gpt2"
    for name, stored in weights.items():
        wanted = tuple(parameters[names[name]].shape)
        if is_transposed and name.startswith("blk."):
            wanted = wanted[::-1]
        if stored.shape != wanted:
            shapes = [" × ".join(map(str, shape)) for shape in (stored.shape, wanted)]
            raise file.wrong_tensors(f"has {name} as {shapes[0]}, and its facts say {shapes[1]}")
