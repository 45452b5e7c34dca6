"""Files of arrays as bytes, among them odd ones; and changes of the files in a folder."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

FolderChange = Callable[[Path], object]
Place = tuple[Any, ...]  # the keys and indices that lead to a value of a document


def npy_file(shape: str, size: int = 8, kind: str = "<f8") -> bytes:
    """An array of `size` zero bytes, whose header gives this shape and type."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(size)


def zip_archive(
    member: bytes, *, name: str = "scores.npy", encryption_flag: int = 0, method: int = 0
) -> bytes:
    """An archive of one member, whose headers say that it is encrypted, or how it is compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    content = bytearray(file.getvalue())
    central = content.rfind(b"PK\x01\x02")
    for central_offset, local_offset, value in ((8, 6, encryption_flag), (10, 8, method)):
        content[central + central_offset] |= value
        content[local_offset] |= value
    return bytes(content)


def npz_archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def tensors_of(header: Any, body: bytes) -> bytes:
    """A safetensors file, by hand: a length, a header, numbers."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def tensor_file(kind: str, size: int, shape: tuple[int, ...] = (2, 2)) -> bytes:
    """A safetensors file of one tensor of zeros, called scores."""
    header = {"dtype": kind, "shape": shape, "data_offsets": [0, size]}
    return tensors_of({"scores": header}, bytes(size))


def places(document: Any, *before: Any) -> Iterator[Place]:
    """The places of all values in a JSON document, that of the whole document first."""
    yield before
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield from places(value, *before, key)


def value_at(document: Any, place: Sequence[Any]) -> Any:
    for key in place:
        document = document[key]
    return document


def replace_value(document: Any, place: Place, value: Any) -> Any:
    """A copy of the document with another value at one place."""
    if not place:
        return value
    changed_copy = json.loads(json.dumps(document))
    value_at(changed_copy, place[:-1])[place[-1]] = value
    return changed_copy


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder, which may be a new one; returns the folder."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def delete_files(*names: str) -> FolderChange:
    def delete(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return delete


def replace_file(name: str, content: bytes) -> FolderChange:
    return lambda folder: (folder / name).write_bytes(content)


def cut_end_off(name: str) -> FolderChange:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


def change_json(name: str, change: Callable[[dict[str, Any]], object]) -> FolderChange:
    def change_file(folder: Path) -> None:
        document = json.loads((folder / name).read_text(encoding="utf-8"))
        change(document)
        (folder / name).write_text(json.dumps(document), encoding="utf-8")

    return change_file


def update_json(file: str, /, *place: Any, **values: Any) -> FolderChange:
    """Other values in a JSON document, or at one place of it."""
    return change_json(file, lambda document: value_at(document, place).update(values))


def change_tensors(name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> FolderChange:
    """A change of the tensors of a file, which keeps its metadata."""

    def change_file(folder: Path) -> None:
        content = (folder / name).read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        tensors = load_file(folder / name)
        change(tensors)
        save_file(tensors, folder / name, header.get("__metadata__"))

    return change_file
