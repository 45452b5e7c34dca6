"""What somebody hands over as numbers: of any library, dtype and device, as a tensor here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.arrays import array
from attnviz.traces.parts import GIVEN

NAME = "weights"
BYTES = 4 + 1  # of a weight, and of whether it is seen
FORMS = "give a tensor, an array, rows of numbers, or outputs.attentions of a model"


def is_array(value: object) -> bool:
    """Whether a library made it: torch, NumPy, JAX …"""
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def is_sequence(value: object) -> bool:
    """Whether it is a list, a tuple, or whatever is like one; a text is none."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def tensor_of(value: Any) -> Tensor:
    """On this machine, in float32, or float64 if it came so; nothing of a gradient."""
    try:
        found = _plain(value) if isinstance(value, Tensor) else torch.from_numpy(_numbers(value))
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _no_numbers() from None
    if found.is_complex():
        raise _no_numbers()
    return found if found.dtype == torch.float64 else found.to(torch.float32)


def _no_numbers() -> AttnvizError:
    return AttnvizError("the weights cannot be read as numbers", FORMS)


def refuse_too_many(form: Any) -> None:
    """Refuse weights of which there is no room for a copy, before one is made."""
    cells = _cells(form)
    memory.refuse_more(cells * BYTES, f"a copy of {cells:,} weights")


def _cells(form: Any) -> int:
    if is_array(form):
        return prod(form.shape)
    return sum(map(_cells, form)) if is_sequence(form) else 0


def dtype_of(value: Any) -> str:
    """`bfloat16`"""
    found = getattr(value, "dtype", "float64")  # as numbers in lists are
    return str(getattr(found, "name", found)).removeprefix("torch.")


def _plain(tensor: Tensor) -> Tensor:
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    return (plain if plain.layout == torch.strided else plain.to_dense()).cpu()


def _numbers(value: Any) -> np.ndarray:
    """Of lists, whose rows may be too short; or of an array of another library."""
    if is_sequence(value):
        return array(NAME, _as_lists(value), GIVEN[NAME], "")
    found = np.asarray(value)
    if found.dtype.kind in "fc" and found.dtype.itemsize > np.dtype(np.float64).itemsize:
        return found.astype(np.float64)
    return np.array(found, copy=True) if found.dtype.kind in "f" else found.astype(np.float32)


def _as_lists(value: Any) -> Any:
    """Tuples are lists, too."""
    return [_as_lists(each) for each in value] if is_sequence(value) else value
