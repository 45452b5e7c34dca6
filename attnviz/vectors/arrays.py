"""Reads named arrays from NumPy and safetensors files, without unpickling anything."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
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
BytesOf = Callable[[str], int]  # array name -> bytes that each of its numbers takes in use

FLOAT_BYTES = 8
COPIED_FLOAT_BYTES = 2 * FLOAT_BYTES  # of a number and its copy
MAX_ARRAY_HEADER_BYTES = 10_000  # NumPy accepts less
MAX_ARRAYS = 100_000  # in a file
MAX_EMPTY_ROWS = 2**20  # of an array without numbers, which takes no bytes in a file
PLAIN_NUMBERS_HINT = "save plain numbers: numpy.save(path, matrix)"
HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Raised by Python's and NumPy's readers for files that are damaged, by accident or on purpose.
DAMAGED_FILE_ERRORS = (
    ValueError, TypeError, KeyError, EOFError, OSError, SyntaxError, OverflowError, RecursionError,
    NotImplementedError, TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_numpy_arrays(
    path: Path, *, texts: bool = False, bytes_of: BytesOf = lambda name: 0
) -> dict[str, AnyArray]:
    """Return the arrays of a .npz file by name; that of a .npy file has the name "".

    Refuses damaged and pickled files, arrays that do not fit in memory, and arrays of anything but
    numbers (`texts`: booleans and strings are allowed, too). `bytes_of`: memory that must be free
    for each number, beside that of the arrays themselves.
    """
    is_npz = path.suffix.lower() == ".npz"
    try:
        arrays = _read_npz(path, bytes_of) if is_npz else {"": _read_npy(path)}
    except DAMAGED_FILE_ERRORS:
        raise _unreadable_file_error(path) from None
    for array in arrays.values():
        if array.dtype.kind not in ("fiubU" if texts else "fiu"):
            problem = f"'{path}' holds {array.dtype} where numbers are needed"
            raise AttnvizError(problem, PLAIN_NUMBERS_HINT)
    return arrays


def _read_npy(path: Path) -> AnyArray:
    """Return the array of a .npy file, mapped into memory; EOFError if the file is too short."""
    with path.open("rb") as file:
        shape, dtype, start = _read_array_header(file)
        if start + prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise EOFError(path)
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _read_npz(path: Path, bytes_of: BytesOf) -> dict[str, AnyArray]:
    """Return every array of a .npz file by name.

    Refuses a file over the size limit, one that does not fit in memory, and two arrays of one name.
    """
    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        unpacked = sum(info.file_size for info in members.values())  # as the archive claims
        files.refuse_larger(unpacked, f"'{path}'", "file of arrays")
        if len(members) < len(archive.infolist()) or len(members) > MAX_ARRAYS:
            has_too_many = len(members) > MAX_ARRAYS
            content = f"{len(members):,} arrays" if has_too_many else "two arrays of one name"
            hint = f"a file has at most {MAX_ARRAYS:,}, each with its own name"
            raise AttnvizError(f"'{path}' has {content}", hint)
        extra_bytes = sum(
            _count_numbers(archive, info, path) * bytes_of(name) for name, info in members.items()
        )
        memory.refuse_too_little_memory(unpacked + extra_bytes, f"to read '{path}'")
        arrays: dict[str, AnyArray] = {}
        for name, info in members.items():
            with archive.open(info) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
        return arrays


def _read_array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return an array's shape, its dtype, and the length of its header in bytes."""
    start = BytesIO(file.read(MAX_ARRAY_HEADER_BYTES))
    shape, _, dtype = HEADER_READERS[np.lib.format.read_magic(start)](start)
    return shape, dtype, start.tell()


def _count_numbers(members: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> int:
    """Return how many numbers an array in a .npz file has, without reading them.

    Refuses an array that is encrypted, pickled, or of another size than its header says.
    """
    name = info.filename.removesuffix(".npy")
    if info.flag_bits & 1:
        raise AttnvizError(f"'{name}' in '{path}' is encrypted", "numpy.savez writes it plainly")
    try:
        file = members.open(info)
    except NotImplementedError:
        problem = f"'{name}' in '{path}' is compressed in a way that Python does not know"
        raise AttnvizError(problem, "numpy.savez_compressed writes it so that it does") from None
    with file:
        shape, dtype, start = _read_array_header(file)
    data_bytes = info.file_size - start
    if dtype.hasobject:
        raise _unreadable_file_error(path)
    rows = prod(max(side, 1) for side in shape)  # later nested lists, which take memory if empty
    fits = data_bytes == prod(shape) * dtype.itemsize and rows <= max(data_bytes, MAX_EMPTY_ROWS)
    if not fits or min(shape, default=0) < 0:
        problem = f"'{name}' in '{path}' is damaged: its header gives another size than it has"
        raise AttnvizError(problem, "save it again: numpy.savez(path, scores=matrix)")
    return prod(shape)


def _unreadable_file_error(path: Path) -> AttnvizError:
    pickled = "holds pickled data, which could run code, and is refused"
    problem = f"'{path}' {pickled if _is_pickled(path) else 'is not a NumPy file'}"
    return AttnvizError(problem, PLAIN_NUMBERS_HINT, file=str(path))


def _is_pickled(path: Path) -> bool:
    """Return whether a file is a pickle, or a NumPy file with Python objects in it."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as members:
                return any(_starts_pickled(members.open(name)) for name in members.namelist())
        with path.open("rb") as file:
            return _starts_pickled(file)
    except (*DAMAGED_FILE_ERRORS, RuntimeError):  # RuntimeError: encrypted
        return False


def _starts_pickled(file: IO[bytes]) -> bool:
    """Return whether a file starts as a pickle does, or as a NumPy array of Python objects."""
    start = file.read(128)  # with the dtype in the header of a NumPy file
    return start[:1] == b"\x80" or (start.startswith(b"\x93NUMPY") and b"'|O'" in start)


def read_tensors_and_metadata(
    path: Path, bytes_of: BytesOf = lambda name: FLOAT_BYTES
) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Return the tensors of a safetensors file, as 64-bit floats or booleans, and its metadata.

    `bytes_of` gives the bytes that each number of a tensor takes; refuses what exceeds the free
    memory, damaged files and tensors of other than plain numbers.
    """
    import torch  # not needed for NumPy files
    from safetensors import SafetensorError, safe_open

    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    arrays: dict[str, AnyArray] = {}
    name = ""
    try:
        with safe_open(path, framework="pt") as tensors:
            names = list(tensors.keys())
            sizes = {key: prod(tensors.get_slice(key).get_shape()) for key in names}
            needed = sum(bytes_of(key) * size for key, size in sizes.items())
            memory.refuse_too_little_memory(needed, f"to read '{path}'")
            for name in names:
                tensor = tensors.get_tensor(name)
                if tensor.is_complex():
                    raise _odd_tensor_error(path, name)
                arrays[name] = (tensor if tensor.dtype == torch.bool else tensor.double()).numpy()
            return arrays, dict(tensors.metadata() or {})
    except (SafetensorError, OSError, UnicodeDecodeError):
        if name:
            raise _odd_tensor_error(path, name) from None
        problem = f"'{path}' is not a safetensors file"
        raise AttnvizError(problem, "check how it was saved") from None
    except (KeyError, AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        raise _odd_tensor_error(path, name) from None  # of a dtype that torch does not have


def _odd_tensor_error(path: Path, name: str) -> AttnvizError:
    """Return the error for a tensor of complex numbers, or of a dtype that torch lacks."""
    problem = f"'{name}' in '{path}' is not a tensor of plain numbers"
    return AttnvizError(problem, "save it as float32", about=name, file=str(path))
