"""Named arrays in files of NumPy and safetensors, without ever unpickling anything."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from jaxtyping import Shaped

from attnviz.errors import AttnvizError
from attnviz.machine import files, memory

AnyArray = Shaped[np.ndarray, "..."]
BytesOf = Callable[[str], int]  # what a number of the array of this name takes where it is used

OF_A_FLOAT = 8  # bytes
IN_FULL = 2 * OF_A_FLOAT  # of a number that is used: as it is, and a copy
LONGEST_HEADER = 10_000  # bytes of an array's header, more than NumPy itself believes
MOST_ARRAYS = 100_000  # in a file
MOST_EMPTY = 2**20  # rows of an array without numbers, which take no bytes in a file
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


def numpy_arrays(
    path: Path, *, texts: bool = False, bytes_of: BytesOf = lambda name: 0
) -> dict[str, AnyArray]:
    """The arrays by name; there has to be room for `bytes_of` each number beside the file's own."""
    try:
        arrays = _npz(path, bytes_of) if path.suffix.lower() == ".npz" else {"": _npy(path)}
    except DAMAGED:
        raise _unreadable(path) from None
    for array in arrays.values():
        if array.dtype.kind not in ("fiubU" if texts else "fiu"):
            raise AttnvizError(f"'{path}' holds {array.dtype} where numbers are needed", PLAIN)
    return arrays


def _npy(path: Path) -> AnyArray:
    with path.open("rb") as file:
        shape, dtype, start = _header(file)
        if start + prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise EOFError(path)
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _npz(path: Path, bytes_of: BytesOf) -> dict[str, AnyArray]:
    """Every array, once it is sure that there is room for all of them."""
    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    with zipfile.ZipFile(path) as members:  # which may say less than there is in them
        found = {each.filename.removesuffix(".npy"): each for each in members.infolist()}
        unpacked = sum(each.file_size for each in found.values())
        files.refuse_larger(unpacked, f"'{path}'", "file of arrays")
        if len(found) < len(members.infolist()) or len(found) > MOST_ARRAYS:
            many = len(found) > MOST_ARRAYS
            problem = (
                f"'{path}' has {f'{len(found):,} arrays' if many else 'two arrays of one name'}"
            )
            raise AttnvizError(
                problem, f"a file has at most {MOST_ARRAYS:,}, each with its own name"
            )
        more = sum(_numbers_in(members, found[name], path) * bytes_of(name) for name in found)
        memory.refuse_more(unpacked + more, f"to read '{path}'")
        return {name: _array(members, each) for name, each in found.items()}


def _array(members: zipfile.ZipFile, info: zipfile.ZipInfo) -> AnyArray:
    with members.open(info) as file:
        array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape of an array and its dtype, by what stands before its numbers; and where that ends.

    No more of a file is read than a header can have.
    """
    start = BytesIO(file.read(LONGEST_HEADER))
    shape, _, dtype = HEADERS[np.lib.format.read_magic(start)](start)
    return shape, dtype, start.tell()


def _numbers_in(members: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> int:
    """How many numbers an array has, which has to be as large as its header says."""
    name = info.filename.removesuffix(".npy")
    if info.flag_bits & 1:
        raise AttnvizError(f"'{name}' in '{path}' is encrypted", "numpy.savez writes it plainly")
    try:
        file = members.open(info)
    except NotImplementedError:
        problem = f"'{name}' in '{path}' is compressed in a way that Python does not know"
        raise AttnvizError(problem, "numpy.savez_compressed writes it so that it does") from None
    with file:
        shape, dtype, start = _header(file)
    left = info.file_size - start
    if dtype.hasobject:
        raise _unreadable(path)
    rows = prod(max(side, 1) for side in shape)  # which are lists in lists later, empty or not
    fits = left == prod(shape) * dtype.itemsize and rows <= max(left, MOST_EMPTY)
    if not fits or min(shape, default=0) < 0:
        problem = f"'{name}' in '{path}' is damaged: its header gives another size than it has"
        raise AttnvizError(problem, "save it again: numpy.savez(path, scores=matrix)")
    return prod(shape)


def _unreadable(path: Path) -> AttnvizError:
    pickled = "holds pickled data, which could run code, and is refused"
    problem = f"'{path}' {pickled if _pickled(path) else 'is not a NumPy file'}"
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


def safetensors_arrays(
    path: Path, bytes_of: BytesOf = lambda name: OF_A_FLOAT
) -> dict[str, AnyArray]:
    """The tensors by name, as numbers of 64 bits; true and false stay what they are."""
    return safetensors_and_words(path, bytes_of)[0]


def safetensors_words(path: Path) -> Mapping[str, str]:
    """What such a file says beside its numbers."""
    return safetensors_and_words(path, None)[1]


def safetensors_and_words(
    path: Path, bytes_of: BytesOf | None = lambda name: OF_A_FLOAT
) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Both, of a file that is opened once; the words alone where nobody says what tensors take."""
    import torch  # which most of what is read here needs not
    from safetensors import SafetensorError, safe_open

    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    found: dict[str, AnyArray] = {}
    name = ""
    try:
        with safe_open(path, framework="pt") as tensors:
            names = list(tensors.keys()) if bytes_of else []
            shapes = {each: tensors.get_slice(each).get_shape() for each in names}
            needed = sum(bytes_of(each) * prod(shapes[each]) for each in names) if bytes_of else 0
            memory.refuse_more(needed, f"to read '{path}'")
            for name in names:
                tensor = tensors.get_tensor(name)
                if tensor.is_complex():
                    raise _no_numbers(path, name)
                found[name] = (tensor if tensor.dtype == torch.bool else tensor.double()).numpy()
            return found, dict(tensors.metadata() or {})
    except (SafetensorError, OSError, UnicodeDecodeError):
        if name:
            raise _no_numbers(path, name) from None
        raise AttnvizError(
            f"'{path}' is not a safetensors file", "check how it was saved"
        ) from None
    except (KeyError, AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        raise _no_numbers(path, name) from None  # of a kind that torch has no numbers for


def _no_numbers(path: Path, name: str) -> AttnvizError:
    problem = f"'{name}' in '{path}' is not a tensor of plain numbers"
    return AttnvizError(problem, "save it as float32", about=name, file=str(path))
