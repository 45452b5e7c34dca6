"""Builds the transformers model of a GGUF file, with its tensors as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import reporting_load_errors
from attnviz.wings.gguf.blocks import read_tensor
from attnviz.wings.gguf.config import (
    FREQUENCY_FACTORS,
    LONG_FACTORS,
    SHORT_FACTORS,
    find_architecture,
)
from attnviz.wings.gguf.file import GGUFFile, plain_or_quoted
from attnviz.wings.gguf.tokenizer import find_end_ids
from attnviz.wording.words import shape_text, short_list

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
    model.generation_config.eos_token_id = find_end_ids(file) or None
    if FREQUENCY_FACTORS in file.tensors:
        frequencies = model.model.rotary_emb.inv_freq
        frequencies /= torch.tensor(file.read_factors(FREQUENCY_FACTORS, len(frequencies)))
    return model


def _full_name(name: str, names: Mapping[str, str]) -> str:
    return ".".join(names.get(part, part) for part in name.split("."))


def tensor_name_in_file(parameter: str, names: Mapping[str, str]) -> str:
    """Return what a GGUF file calls a parameter of transformers: `blk.3.attn_norm.weight`."""
    module, kind = parameter.rsplit(".", 1)
    own_names = {full_name: name for name, full_name in names.items()}
    in_layer = re.fullmatch(rf"{re.escape(names['blk'])}\.(\d+)\.(.+)", module)
    if in_layer is None:
        return f"{own_names.get(module, module)}.{kind}"
    return f"blk.{in_layer[1]}.{own_names.get(in_layer[2], in_layer[2])}.{kind}"


def _refuse_other_tensors(
    file: GGUFFile, names: Mapping[str, str], parameters: Mapping[str, Tensor]
) -> None:
    """Refuse a file whose tensors are not those of the model, or have other shapes."""
    weights = {name: stored for name, stored in file.tensors.items() if name not in NOT_WEIGHTS}
    unknown = [name for name in weights if names[name] not in parameters]
    present, known = {names[name] for name in weights}, find_architecture(file).names
    missing = [tensor_name_in_file(name, known) for name in parameters if name not in present]
    if missing:
        raise file.wrong_tensors(f"lacks {short_list(sorted(missing))}")
    if unknown and unknown != ["output.weight"]:  # tied, and written nevertheless
        listed = short_list([*map(plain_or_quoted, sorted(unknown))])
        raise file.wrong_tensors(f"has {listed}, which its kind of model does not have")
    is_transposed = file.architecture == "gpt2"
    for name, stored in weights.items():
        wanted = tuple(parameters[names[name]].shape)
        if is_transposed and name.startswith("blk."):
            wanted = wanted[::-1]
        if stored.shape != wanted:
            raise file.wrong_tensors(
                f"has {name} as {shape_text(stored.shape)}, and its header says "
                f"{shape_text(wanted)}"
            )
