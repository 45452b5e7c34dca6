"""Named arrays in files of NumPy and safetensors, without ever unpickling anything."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from jaxtyping import Shaped

from attnviz.errors import AttnvizError
from attnviz.machine import files

AnyArray = Shaped[np.ndarray, "..."]

PLAIN = "save plain numbers: numpy.save(path, matrix)"
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What Python's and NumPy's readers say of files that are damaged, or made to look so.
DAMAGED = (
    ValueError, TypeError, KeyError, EOFError, OSError, SyntaxError, OverflowError, RecursionError,
    NotImplementedError, TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def numpy_arrays(path: Path, *, texts: bool = False) -> dict[str, AnyArray]:
    try:
        arrays = _npz(path) if path.suffix.lower() == ".npz" else {"": _npy(path)}
    except DAMAGED:
        raise _unreadable(path) from None
    for array in arrays.values():
        if array.dtype.kind not in ("fiubU" if texts else "fiu"):
            raise AttnvizError(f"'{path}' holds {array.dtype} where numbers are wanted", PLAIN)
    return arrays


def _npy(path: Path) -> AnyArray:
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _npz(path: Path) -> dict[str, AnyArray]:
    with zipfile.ZipFile(path) as members:  # which may say less than there is in them
        unpacked = sum(each.file_size for each in members.infolist())
        files.refuse_larger(unpacked, f"'{path}'", "file of arrays")
        return {
            info.filename.removesuffix(".npy"): _member(members, info, path)
            for info in members.infolist()
        }


def _member(members: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> AnyArray:
    """One array of several, which is as large as its header says."""
    name = info.filename.removesuffix(".npy")
    if info.flag_bits & 1:
        raise AttnvizError(f"'{name}' in '{path}' is encrypted", "numpy.savez writes it plainly")
    try:
        file = members.open(info)
    except NotImplementedError:
        problem = f"'{name}' in '{path}' is compressed in a way that Python does not know"
        raise AttnvizError(problem, "numpy.savez_compressed writes it so that it does") from None
    with file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = HEADERS[version](file)
        left = info.file_size - file.tell()
        if dtype.hasobject:
            raise _unreadable(path)
        if left != prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
            problem = (
                f"'{name}' in '{path}' is damaged: its header tells of another size than it has"
            )
            raise AttnvizError(problem, "save it again: numpy.savez(path, scores=matrix)")
        file.seek(0)
        array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _unreadable(path: Path) -> AttnvizError:
    pickled = "holds pickled data, which could run code, and is refused"
    problem = f"'{path}' {pickled if _pickled(path) else 'is no NumPy file'}"
    return AttnvizError(problem, PLAIN, file=str(path))


def _pickled(path: Path) -> bool:
    """Whether a file is a pickle, or a NumPy file with Python objects in it."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as members:
                return any(_begins_pickled(members.open(name)) for name in members.namelist())
        with path.open("rb") as file:
            return _begins_pickled(file)
    except (*DAMAGED, RuntimeError):  # encrypted, or compressed in a way that nobody knows
        return False


def _begins_pickled(file: IO[bytes]) -> bool:
    start = file.read(128)  # the header of a NumPy file says what its numbers are
    return start[:1] == b"\x80" or (start.startswith(b"\x93NUMPY") and b"'|O'" in start)


def safetensors_arrays(path: Path) -> dict[str, AnyArray]:
    """The tensors by name, as numbers of 64 bits; true and false stay what they are."""
    return safetensors_and_words(path)[0]


def safetensors_words(path: Path) -> Mapping[str, str]:
    """What such a file says beside its numbers."""
    return safetensors_and_words(path, words=True)[1]


def safetensors_and_words(
    path: Path, *, words: bool = False
) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Both, of a file that is opened once; or the words alone."""
    import torch  # which most of what is read here needs not
    from safetensors import SafetensorError, safe_open

    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    found: dict[str, AnyArray] = {}
    name = ""
    try:
        with safe_open(path, framework="pt") as tensors:
            for name in [] if words else tensors.keys():
                tensor = tensors.get_tensor(name)
                if tensor.is_complex():
                    raise _no_numbers(path, name)
                found[name] = (tensor if tensor.dtype == torch.bool else tensor.double()).numpy()
            return found, dict(tensors.metadata() or {})
    except (SafetensorError, OSError, UnicodeDecodeError):
        if name:
            raise _no_numbers(path, name) from None
        raise AttnvizError(f"'{path}' is no safetensors file", "check how it was saved") from None
    except (KeyError, AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        raise _no_numbers(path, name) from None  # of a kind that torch has no numbers for


def _no_numbers(path: Path, name: str) -> AttnvizError:
    problem = f"'{name}' in '{path}' is no tensor of plain numbers"
    return AttnvizError(problem, "save it as float32", about=name, file=str(path))
