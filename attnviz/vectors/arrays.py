"""Named arrays in files of NumPy and safetensors, without ever unpickling anything."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Shaped

from attnviz import files
from attnviz.errors import AttnvizError

AnyArray = Shaped[np.ndarray, "..."]


def numpy_arrays(path: Path, *, texts: bool = False) -> dict[str, AnyArray]:
    try:
        arrays = _npz(path) if path.suffix == ".npz" else {"": _npy(path)}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile):
        raise _unreadable(path) from None
    for array in arrays.values():
        if array.dtype.kind not in ("fiubU" if texts else "fiu"):
            raise AttnvizError(
                f"'{path}' holds {array.dtype} where numbers are wanted",
                "save plain numbers: numpy.save(path, matrix)",
            )
    return arrays


def _npy(path: Path) -> AnyArray:
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _npz(path: Path) -> dict[str, AnyArray]:
    with zipfile.ZipFile(path) as members:  # which may say less than there is in them
        unpacked = sum(each.file_size for each in members.infolist())
    files.refuse_larger(unpacked, f"'{path}'", "file of arrays")
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _unreadable(path: Path) -> AttnvizError:
    pickled = "holds pickled data, which could run code, and is refused"
    problem = f"'{path}' {pickled if _pickled(path) else 'is no NumPy file'}"
    return AttnvizError(problem, "save plain numbers: numpy.save(path, matrix)", file=str(path))


def _pickled(path: Path) -> bool:
    """Whether a file is a pickle, or a NumPy file with Python objects in it."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as members:
            return any(_begins_pickled(members.open(name)) for name in members.namelist())
    with path.open("rb") as file:
        return _begins_pickled(file)


def _begins_pickled(file: IO[bytes]) -> bool:
    start = file.read(128)  # the header of a NumPy file says what its numbers are
    return start[:1] == b"\x80" or (start.startswith(b"\x93NUMPY") and b"'|O'" in start)


def safetensors_arrays(path: Path) -> dict[str, AnyArray]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise AttnvizError(
            "reading .safetensors needs the package safetensors",
            "pip install 'attnviz[models]'",
        ) from None
    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of arrays")
    try:
        return {name: tensor.double().numpy() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError):
        raise AttnvizError(f"'{path}' is no safetensors file", "check how it was saved") from None
