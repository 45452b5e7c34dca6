"""Leaves a model exactly as it was before a run; notices when its weights change.

A run needs attention that can be captured, evaluation mode, and hooks. transformers adds hooks of
its own, and some models change themselves as they read: BigBird attends to everything after a short
text. All of that is undone, as a model may belong to the caller, or read another text next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

EAGER_NAME = "eager"  # under which transformers knows attention that returns its weights
Fingerprint = tuple[Hashable, ...]


@contextmanager
def unchanged_model(model: Any, attention: str = EAGER_NAME) -> Iterator[None]:
    """Put a model into evaluation mode, with this attention and no cache, inside the `with` block.

    Afterwards, also after an error, it has its attributes, hooks and modules from before, those of
    its configs, and its mode. The numbers in its tensors are not copied.
    """
    modules = find_modules(model)
    configs = _find_configs(model, modules)
    attributes: list[dict[str, Any]] = [vars(holder) for holder in (*modules, *configs)]
    inner = [each for own in attributes for each in own.values() if isinstance(each, dict)]
    empty = [each for each in inner if not each]  # most hooks
    saved = [(each, (*each,), (*each.values(),)) for each in (*attributes, *inner) if each]
    try:
        for own in attributes[: len(modules)]:
            if own.get("training"):
                own["training"] = False
            if own.get("_compiled_call_impl") is not None:  # compiled code would not call hooks
                own["_compiled_call_impl"] = None
        for own in attributes[len(modules) :]:
            if "use_cache" in own:  # of no use where all tokens are read
                own["use_cache"] = False
        model.set_attn_implementation(attention)
        yield
    finally:
        for added in filter(None, empty):
            added.clear()
        for current, names, values in saved:
            if (*current,) != names or not all(map(is_, current.values(), values)):
                _restore_items(current, dict(zip(names, values, strict=True)))


def find_modules(model: nn.Module) -> list[nn.Module]:
    """Return a model and all modules in it, as `model.modules()` in a sixth of its time."""
    modules = {model: None}
    waiting = [model]
    for module in waiting:  # which grows meanwhile
        for part in module._modules.values():
            if part is not None and part not in modules:
                modules[part] = None
                waiting.append(part)
    return waiting


def _find_configs(model: nn.Module, modules: Iterable[nn.Module]) -> list[Any]:
    """Return the configs of all modules, with the configs in them and that of generation."""
    waiting = [vars(module).get("config") for module in modules]
    waiting.append(getattr(model, "generation_config", None))
    configs: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if config is not None and id(config) not in configs and hasattr(config, "__dict__"):
            configs[id(config)] = config
            names: Iterable[str] = getattr(config, "sub_configs", None) or ()
            waiting += [getattr(config, name, None) for name in names]
    return [*configs.values()]


def _restore_items(current: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give a dict its items from before, in their order; it is never without all of them."""
    for name in [name for name in current if name not in before]:
        del current[name]
    for name, value in before.items():
        current.pop(name, None)
        current[name] = value


def model_fingerprint(model: nn.Module) -> Fingerprint:
    """Return what changes with a model's modules, and with the numbers in its tensors.

    That is each module and its kind, and for each tensor its place in memory, and how often it was
    written to, as by a training step. A write through `.data` is not counted, nor are hooks.
    """
    modules = find_modules(model)
    tables = [table for each in modules for table in (each._parameters, each._buffers) if table]
    tensors = [tensor for table in tables for tensor in table.values() if tensor is not None]
    return (*map(id, modules), *map(type, modules), *map(_tensor_state, tensors))


def _tensor_state(tensor: Tensor) -> tuple[int, int]:
    """Return a tensor's place in memory, and how often it was written to."""
    try:
        return tensor.data_ptr(), tensor._version
    except RuntimeError:  # it wraps others, as some quantised ones, or is one of inference mode
        return id(tensor), 0


ModelResults = dict[Hashable, Any]
_results: WeakKeyDictionary[nn.Module, tuple[Fingerprint, ModelResults]] = WeakKeyDictionary()


def results_for_model(model: nn.Module) -> ModelResults:
    """Return a dict of results about a model, to read and fill; it is empty after a change of it.

    The results must not refer to the model, which would then stay in memory.
    """
    fingerprint = model_fingerprint(model)
    if model not in _results or _results[model][0] != fingerprint:
        _results[model] = (fingerprint, {})
    return _results[model][1]
