"""A transformers model of the caller, with its tokenizer, used as it is.

It may be on any device or on several, quantised, with adapters or changed weights: nothing is
loaded again, moved or converted.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from attnviz.errors import AttnvizError, model_error, warn_with_note
from attnviz.options.values import Dtype
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import DTYPES, Settings
from attnviz.traces.trained.loading import LoadedTransformer, refuse_model_without_text
from attnviz.traces.trained.model_state import find_modules, results_for_model
from attnviz.wording.keywords import replace_choices

if TYPE_CHECKING:
    from attnviz.traces.trace import Trace

GIVE_TOKENIZER_HINT = "give it, too: tokenizer=tokenizer"
DROPOUT_NOTE = "the model is in training mode; here it ran in evaluation mode, without dropout"


def take_model_in_memory(
    keywords: Mapping[str, Any],
) -> tuple[LoadedTransformer | None, dict[str, Any]]:
    """Return the model among keywords, with its tokenizer, and the other keywords.

    Without a model in memory the keywords are unchanged, and the model is None. Refuses a model
    without its tokenizer, a tokenizer without its model, and what is no model of transformers. A
    note is given for a model in training mode that has dropout.
    """
    model, tokenizer = keywords.get("model"), keywords.get("tokenizer")
    has_tokenizer = hasattr(tokenizer, "convert_ids_to_tokens")
    if not isinstance(model, nn.Module):
        if has_tokenizer:
            raise AttnvizError(
                "a tokenizer is given, but the model is not one in memory",
                "give both: model=model, tokenizer=tokenizer; a named model has a tokenizer",
                about="tokenizer",
            )
        return None, dict(keywords)
    transformer = _underlying_transformer(model)
    name = name_model(transformer)
    if not has_tokenizer:
        raise _tokenizer_error(name, tokenizer)
    refuse_model_without_text(name, transformer)
    _refuse_missing_numbers(name, transformer)
    training = (module for module in find_modules(transformer) if module.training)
    if any(map(_drops_out, training)):
        warn_with_note(DROPOUT_NOTE)
    results = results_for_model(transformer)
    if "dtypes" not in results:
        results["dtypes"] = _stored_dtype(transformer), _computing_dtype(transformer)
    stored_as, dtype = results["dtypes"]
    loaded = LoadedTransformer(
        name, transformer, tokenizer, stored_as, dtype, in_memory=True, results=results
    )
    others = {key: value for key, value in keywords.items() if key not in ("model", "tokenizer")}
    return loaded, others


def _refuse_missing_numbers(name: str, model: nn.Module) -> None:
    """Refuse a model on the device 'meta', unless accelerate brings its numbers when they are
    used."""
    is_meta = any(parameter.is_meta for parameter in model.parameters())
    if is_meta and not any(hasattr(module, "_hf_hook") for module in model.modules()):
        raise model_error(
            f"the model '{name}' is on the device 'meta', where weights have sizes and no numbers",
            "load its weights first: model = type(model).from_pretrained(folder)",
        )


def name_model(model: nn.Module) -> str:
    """Return what a model in memory is called: the last part of its config's name, or its class."""
    path = getattr(getattr(model, "config", None), "name_or_path", None) or ""
    return PurePath(str(path)).name or type(model).__name__


def in_memory_settings(settings: Settings, loaded: LoadedTransformer) -> Settings:
    """Return the settings for a model in memory, which has a dtype and a device and no name.

    Refuses another dtype or device.
    """
    for name, wanted, actual, change in (
        ("dtype", settings.dtype, loaded.dtype, f"model.to(torch.{settings.dtype})"),
        ("device", settings.device, str(loaded.device), f"model.to('{settings.device}')"),
    ):
        if wanted not in (getattr(Settings, name), actual, actual.partition(":")[0]):
            raise AttnvizError(
                f"{name} is {wanted}, but the model '{loaded.name}' in memory is "
                f"{'on ' if name == 'device' else ''}{actual}",
                f"leave '{name}' out, or change the model first: {change}",
                about=name,
            )
    actual_settings = {"model": None, "dtype": loaded.dtype, "device": Settings.device}
    changes = {
        name: value for name, value in actual_settings.items() if getattr(settings, name) != value
    }
    return replace_choices(settings, changes)


def refuse_changed_model(trace: Trace) -> None:
    """Refuse a Trace of a model in memory that changed since: its matrices are others now."""
    in_memory = trace.origin.in_memory if isinstance(trace.origin, FromTransformer) else None
    if in_memory is None or in_memory.results is None:
        return
    if results_for_model(in_memory.model) is not in_memory.results:
        raise model_error(
            f"the model '{in_memory.name}' changed after the trace was made, so its matrices are "
            "others",
            "trace the text again",
        )


def _underlying_transformer(model: nn.Module) -> Any:
    """Return the transformers model in compiled, parallel and adapted ones (PEFT).

    Refuses a model without one, and adapters that add virtual tokens to the text.
    """
    is_parallel = isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel))
    inner: Any = model.module if is_parallel else model
    inner = getattr(inner, "_orig_mod", inner)
    if getattr(getattr(inner, "active_peft_config", None), "is_prompt_learning", False):
        raise model_error(
            f"the adapter of the model '{name_model(inner)}' adds virtual tokens to a text",
            "use an adapter that changes weights, such as LoRA",
        )
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(inner, transformers.PreTrainedModel):
        raise model_error(
            f"the model is of type {type(model).__name__}, which is no model of transformers",
            "show the weights that it computes: attnviz.from_weights(weights, tokens)",
        )
    return inner


def _tokenizer_error(name: str, tokenizer: object) -> AttnvizError:
    """Return the error for a model in memory without its tokenizer, or with something else."""
    if tokenizer is None:
        problem, hint = f"the model '{name}' is given without its tokenizer", GIVE_TOKENIZER_HINT
    elif isinstance(tokenizer, str | os.PathLike):
        path = os.fspath(tokenizer)
        problem = f"tokenizer is '{path}', but a model in memory needs the tokenizer itself"
        hint = f"load it: transformers.AutoTokenizer.from_pretrained({path!r})"
    else:
        kind = type(tokenizer).__name__
        problem = f"the tokenizer is of type {kind}, which is no tokenizer of transformers"
        hint = "try transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)"
    return AttnvizError(problem, hint, about="tokenizer")


def _drops_out(module: nn.Module) -> bool:
    """Return whether a module drops numbers at random, by itself or by a rate that it has."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    rates = (value for name, value in vars(module).items() if "dropout" in name)
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _stored_dtype(model: nn.Module) -> str:
    """Return the dtype that most numbers of a model have by name, such as 'uint8' for 4 bits."""
    counts: Counter[torch.dtype] = Counter()
    for parameter in model.parameters():
        counts[parameter.dtype] += parameter.numel()
    dtype = counts.most_common(1)[0][0] if counts else torch.float32
    return str(dtype).removeprefix("torch.")


def _computing_dtype(model: nn.Module) -> Dtype:
    """Return the coarsest dtype of a model's numbers, to whose rounding its results are exact."""
    dtypes = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    known = [name for name in DTYPES if name in dtypes]
    return max(known, key=lambda name: torch.finfo(getattr(torch, name)).eps, default="float32")
