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

FLOAT_BYTES = 8  # bytes
COPIED_FLOAT_BYTES = 2 * FLOAT_BYTES  # of a number that is used: as it is, and a copy
MAX_ARRAY_HEADER_BYTES = 10_000  # bytes of an array's header, more than NumPy itself believes
MAX_ARRAYS = 100_000  # in a file
MAX_EMPTY_ROWS = 2**20  # rows of an array without numbers, which take no bytes in a file
PLAIN_NUMBERS_HINT = "save plain numbers: numpy.save(path, matrix)"
HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What Python's and NumPy's readers say of files that are damaged, or made to look so.
DAMAGED_FILE_ERRORS = (
    ValueError, TypeError, KeyError, EOFError, OSError, SyntaxError, OverflowError, RecursionError,
    NotImplementedError, TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_numpy_arrays(
    path: Path, *, texts: bool = False, bytes_of: BytesOf = lambda name: 0
) -> dict[str, AnyArray]:
    """The arrays by name; there has to be room for `bytes_of` each number beside the file's own."""
    try:
        arrays = (
            _read_npz(path, bytes_of) if path.suffix.lower() == ".npz" else {"": _read_npy(path)}
        )
    except DAMAGED_FILE_ERRORS:
        raise _unreadable_file_error(path) from None
    for array in arrays.values():
        if array.dtype.kind not in ("fiubU" if texts else "fiu"):
            raise AttnvizError(
                f"'{path}' holds {array.dtype} where numbers are needed", PLAIN_NUMBERS_HINT
            )
    return arrays


def _read_npy(path: Path) -> AnyArray:
    with path.open("rb") as file:
        shape, dtype, start = _read_array_header(file)
        if start + prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise EOFError(path)
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _read_npz(path: Path, bytes_of: BytesOf) -> dict[str, AnyArray]:
    """Every array, once it is sure that there is room for all of them."""
    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    with zipfile.ZipFile(path) as members:  # which may say less than there is in them
        members_by_name = {
            member.filename.removesuffix(".npy"): member for member in members.infolist()
        }
        unpacked = sum(member.file_size for member in members_by_name.values())
        files.refuse_larger(unpacked, f"'{path}'", "file of arrays")
        if len(members_by_name) < len(members.infolist()) or len(members_by_name) > MAX_ARRAYS:
            has_too_many = len(members_by_name) > MAX_ARRAYS
            problem = f"'{path}' has {f'{len(members_by_name):,} arrays' if has_too_many else 'two arrays of one name'}"
            raise AttnvizError(
                problem, f"a file has at most {MAX_ARRAYS:,}, each with its own name"
            )
        extra_bytes = sum(
            _count_numbers(members, members_by_name[name], path) * bytes_of(name)
            for name in members_by_name
        )
        memory.refuse_too_little_memory(unpacked + extra_bytes, f"to read '{path}'")
        return {name: _read_member(members, member) for name, member in members_by_name.items()}


def _read_member(members: zipfile.ZipFile, info: zipfile.ZipInfo) -> AnyArray:
    with members.open(info) as file:
        array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _read_array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape of an array and its dtype, by what stands before its numbers; and where that ends.

    No more of a file is read than a header can have.
    """
    start = BytesIO(file.read(MAX_ARRAY_HEADER_BYTES))
    shape, _, dtype = HEADER_READERS[np.lib.format.read_magic(start)](start)
    return shape, dtype, start.tell()


def _count_numbers(members: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> int:
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
        shape, dtype, start = _read_array_header(file)
    data_bytes = info.file_size - start
    if dtype.hasobject:
        raise _unreadable_file_error(path)
    rows = prod(max(side, 1) for side in shape)  # which are lists in lists later, empty or not
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
    """Whether a file is a pickle, or a NumPy file with Python objects in it."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as members:
                return any(_starts_pickled(members.open(name)) for name in members.namelist())
        with path.open("rb") as file:
            return _starts_pickled(file)
    except (
        *DAMAGED_FILE_ERRORS,
        RuntimeError,
    ):  # encrypted, or compressed in a way that nobody knows
        return False


def _starts_pickled(file: IO[bytes]) -> bool:
    start = file.read(128)  # the header of a NumPy file says what its numbers are
    return start[:1] == b"\x80" or (start.startswith(b"\x93NUMPY") and b"'|O'" in start)


def read_safetensors(
    path: Path, bytes_of: BytesOf = lambda name: FLOAT_BYTES
) -> dict[str, AnyArray]:
    """The tensors by name, as numbers of 64 bits; true and false stay what they are."""
    return read_tensors_and_metadata(path, bytes_of)[0]


def read_metadata(path: Path) -> Mapping[str, str]:
    """What such a file says beside its numbers."""
    return read_tensors_and_metadata(path, None)[1]


def read_tensors_and_metadata(
    path: Path, bytes_of: BytesOf | None = lambda name: FLOAT_BYTES
) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Both, of a file that is opened once; the words alone where nobody says what tensors take."""
    import torch  # which most of what is read here needs not
    from safetensors import SafetensorError, safe_open

    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    arrays: dict[str, AnyArray] = {}
    name = ""
    try:
        with safe_open(path, framework="pt") as tensors:
            names = list(tensors.keys()) if bytes_of else []
            shapes = {
                tensor_name: tensors.get_slice(tensor_name).get_shape() for tensor_name in names
            }
            needed = (
                sum(bytes_of(tensor_name) * prod(shapes[tensor_name]) for tensor_name in names)
                if bytes_of
                else 0
            )
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
        raise AttnvizError(
            f"'{path}' is not a safetensors file", "check how it was saved"
        ) from None
    except (KeyError, AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        raise _odd_tensor_error(path, name) from None  # of a kind that torch has no numbers for


def _odd_tensor_error(path: Path, name: str) -> AttnvizError:
    problem = f"'{name}' in '{path}' is not a tensor of plain numbers"
    return AttnvizError(problem, "save it as float32", about=name, file=str(path))
