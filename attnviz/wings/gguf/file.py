"""Reads the header of a GGUF file: facts about a model, and where its tensors are.

llama.cpp, Ollama and LM Studio use such files. Nothing is allocated on the word of a header: its
counts, lengths and offsets are compared with the size of the file first.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import Any, BinaryIO

from attnviz.errors import AttnvizError, model_error
from attnviz.machine import files
from attnviz.wording.commands import shell_quote
from attnviz.wording.words import counted, short_list

MAGIC, VERSIONS = b"GGUF", (2, 3)
MAX_HEADER_BYTES = 2**26  # vocabularies included; 262,144 tokens with their merges take 15 MB
FIRST_BYTES = 2**22  # read at once, enough for most headers
MAX_DIMENSIONS, MAX_COUNT = 4, 2**31 - 1
DEFAULT_ALIGNMENT, MAX_ALIGNMENT = 32, 2**16
MAX_ENTRIES = 100_000  # metadata entries or tensors; the largest models have some thousands
SMALLEST_ENTRIES = {"metadata entries": 13, "tensors": 24}  # bytes of the shortest ones
STRING, ARRAY, UINT32, UINT64 = 8, 9, 4, 10  # types of values
FORMATS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))  # of struct
PLAIN_WORD = re.compile(r"[\w.-]{1,80}")
PART_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
AGAIN_HINT = "copy or download it again"
CONVERT_HINT = "convert the model again, with a newer version of llama.cpp"
OTHER_CONTENTS = {  # by general.type
    "adapter": "an adapter, which needs the model that it was made for",
    "mmproj": "the part of a model that reads pictures or sound",
    "vocab": "a vocabulary alone",
    "imatrix": "statistics for quantising",
}


@dataclass(frozen=True)
class BlockType:
    """How numbers are stored: so many at a time in a block of so many bytes."""

    name: str
    numbers: int
    size: int

    @property
    def description(self) -> str:
        """The dtype, or how many bits a weight has: `4-bit weights (Q4_1)`."""
        names = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
        return names.get(self.name) or f"{self.name[1]}-bit weights ({self.name})"


BLOCK_TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    30: BlockType("BF16", 1, 2),
}
REFUSED_TYPES = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: its shape, rows first, and the bytes from `start` on."""

    name: str
    shape: tuple[int, ...]
    block: BlockType
    path: Path
    start: int

    @property
    def size(self) -> int:
        return prod(self.shape) // self.block.numbers * self.block.size


@dataclass(frozen=True)
class GGUFFile:
    """The header of a GGUF file, or of one in several parts: facts, and tensors by name."""

    path: Path
    facts: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    @property
    def architecture(self) -> str:
        """The kind of model, such as `llama`, by llama.cpp's name for it."""
        return self.text("general.architecture")

    @property
    def number_count(self) -> int:
        return sum(prod(tensor.shape) for tensor in self.tensors.values())

    @property
    def stored_as(self) -> str:
        """How most of the numbers are stored: `4-bit weights (Q4_1)`, `float16`."""
        counts: Counter[BlockType] = Counter()
        for tensor in self.tensors.values():
            counts[tensor.block] += prod(tensor.shape)
        return counts.most_common(1)[0][0].description

    def has(self, key: str) -> bool:
        """Return whether there is a fact; `.x` is that of the architecture, such as `llama.x`."""
        return self._full_key(key) in self.facts

    def count(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_COUNT
    ) -> int:
        """Return a whole number from `least` to `most`; refuse another value, or none without a
        default."""
        value = self._fact(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.odd_fact(key, f"a whole number from {least:,} to {most:,}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number above 0; refuse another value, or none without a default."""
        value = self._fact(key, default)
        if type(value) not in (int, float) or not isfinite(value) or value <= 0:
            raise self.odd_fact(key, "a number above 0")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; refuse another value, or none without a default."""
        value = self._fact(key, default)
        if not isinstance(value, str):
            raise self.odd_fact(key, "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return whether something is so; refuse a value that is not yes or no."""
        value = self._fact(key, default)
        if type(value) is not bool:
            raise self.odd_fact(key, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, at least one; refuse another value, or none."""
        value = self._fact(key, None)
        if not isinstance(value, list) or not value:
            raise self.odd_fact(key, "a list of texts")
        return value

    def numbers(self, key: str, length: int) -> array[Any]:
        """Return a list of `length` numbers; refuse another value, or none."""
        value = self._fact(key, None)
        if not isinstance(value, array) or len(value) != length:
            raise self.odd_fact(key, f"a list of {length:,} numbers")
        return value

    def tensor(self, name: str) -> StoredTensor:
        """Return a tensor by its name; refuse a file without it."""
        if name not in self.tensors:
            raise self.wrong_tensors(f"lacks the tensor {name}")
        return self.tensors[name]

    def read_factors(self, name: str, count: int) -> list[float]:
        """Return the numbers of a tensor that is a list; refuse one of another length."""
        stored = self.tensor(name)
        if stored.shape != (count,) or stored.block.name != "F32":
            raise self.wrong_tensors(f"has {name} as other than {count} numbers of 32 bits")
        with stored.path.open("rb") as file:
            file.seek(stored.start)
            return list(struct.unpack(f"<{count}f", file.read(stored.size)))

    def wrong_tensors(self, fault: str) -> AttnvizError:
        problem = f"'{self.path}' ({plain_or_quoted(self.architecture)}) {fault}"
        return model_error(problem, AGAIN_HINT)

    def _full_key(self, key: str) -> str:
        return f"{self.architecture}{key}" if key.startswith(".") else key

    def _fact(self, key: str, default: object) -> Any:
        value = self.facts.get(self._full_key(key), default)
        if value is None:
            raise model_error(
                f"'{self.path}' does not give its {self._full_key(key)}", CONVERT_HINT
            )
        return value

    def odd_fact(self, key: str, wanted: str) -> AttnvizError:
        value = self._fact(key, None)
        if isinstance(value, list | array):
            value_text = f"{len(value):,} values"
        else:
            value_text = f"{value:,}" if type(value) is int else plain_or_quoted(value)
        return model_error(
            f"'{self.path}' gives {value_text} as its {self._full_key(key)}, "
            f"and it must be {wanted}",
            CONVERT_HINT,
        )


def quoted(value: object) -> str:
    """Return a text of a file for a message: shortened, in quotes that it cannot end.

    >>> quoted("llama'. hint: run this")
    "'llama’. hint: run this'"
    """
    return f"'{str(value)[:80].replace(chr(39), '’')}'"


def plain_or_quoted(value: object) -> str:
    """Return one word of a file as it is, and any other text in quotes.

    >>> plain_or_quoted("mamba"), plain_or_quoted("run this")
    ('mamba', "'run this'")
    """
    return str(value) if PLAIN_WORD.fullmatch(str(value)) else quoted(value)


def is_gguf(name: str) -> bool:
    """Return whether a path is a file that begins as a GGUF file does, whatever its name.

    False for a name that no path can have. Ollama's files have no suffix: `sha256-…`.
    """
    with suppress(OSError, ValueError):
        path = Path(name)
        if name and path.is_file():
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
    return False


def read_gguf(path: Path) -> GGUFFile:
    """Return the header of a GGUF file, with the tensors of all its parts if it was split.

    Refuses what is no GGUF file, is damaged or incomplete, lacks a part, or is no language model.
    """
    paths = find_parts(path)
    return _read_parts(path, tuple(paths), tuple(map(files.read_folder_state, paths)))


@lru_cache(maxsize=4)
def _read_parts(
    path: Path, paths: tuple[Path, ...], _states: tuple[files.FolderState, ...]
) -> GGUFFile:
    """Return the header of a file in parts; the cache holds until the files change."""
    parts = [_read_header(part) for part in paths]
    tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
    header = GGUFFile(path, parts[0].facts, tensors)
    _refuse_other_formats(header)
    _refuse_other_parts(header, parts)
    return header


def _refuse_other_parts(header: GGUFFile, parts: list[GGUFFile]) -> None:
    """Refuse parts that are others than their names say, and a part that is named as a whole."""
    for number, part in enumerate(parts):
        contained = part.count("split.no", number, least=0)
        if contained != number:
            raise model_error(
                f"'{part.path}' contains part {contained + 1}", "copy or download that part again"
            )
    claimed, found = header.count("split.count", 1, least=0), len(header.tensors)
    if len(parts) != max(claimed, 1):
        named = "does not say which" if len(parts) == 1 else f"says {len(parts)}"
        raise model_error(
            f"'{header.path}' is one of {claimed} parts of a model, and its name {named}",
            "give the parts their names again: model-00001-of-00003.gguf",
        )
    total = header.count("split.tensors.count", found, least=0)
    if total != found:
        raise model_error(
            f"the parts of '{header.path}' have {counted(found, 'tensor')}, and the header of the "
            f"first one says {total:,}",
            "copy or download all its parts again",
        )


def find_parts(path: Path) -> list[Path]:
    """Return the files of a model in parts, of which `path` is one; refuse missing parts."""
    match = PART_NAME.fullmatch(path.name)
    count = 0 if match is None else int(match[3])
    if match is None or not count:
        return [path]
    names = [f"{match[1]}-{number:05}-of-{match[3]}.gguf" for number in range(1, count + 1)]
    missing = [name for name in names if not files.is_file(path.with_name(name))]
    if missing:
        raise model_error(
            f"the model '{path}' is in {counted(count, 'part')}, and its folder lacks "
            f"{short_list(missing)}",
            "copy or download all its parts",
        )
    return [path.with_name(name) for name in names]


def _refuse_other_formats(header: GGUFFile) -> None:
    """Refuse a file of something other than a language model."""
    kind = header.facts.get("general.type", "model")
    contents = OTHER_CONTENTS.get(kind) if isinstance(kind, str) else None
    if contents is None and "general.architecture" not in header.facts:
        contents = "no general.architecture"
    if contents is None and "tokenizer.ggml.model" not in header.facts:
        contents = (
            f"a model of the kind {plain_or_quoted(header.architecture)}, without a vocabulary"
        )
    if contents is None and not header.tensors:
        contents = "no weights"
    if contents is not None:
        raise model_error(
            f"'{header.path}' is no language model: it holds {contents}",
            "give the file of a language model",
        )


def _read_header(path: Path) -> GGUFFile:
    """Return the header of one file; refuse one that is damaged, and one of another kind."""
    with files.reporting_unreadable(path), path.open("rb") as file:
        reader = _HeaderReader(path, file)
        if reader.size < len(MAGIC) or reader.take(4) != MAGIC:
            raise _other_format_error(path)
        version = reader.value(UINT32)
        if version not in VERSIONS:
            raise _other_version_error(path, version)
        tensor_count = reader.entry_count("tensors")
        facts: dict[str, Any] = {}
        for _ in range(reader.entry_count("metadata entries")):
            key = reader.value(STRING)
            if key in facts:
                raise reader.damaged(f"it gives its {plain_or_quoted(key)} twice")
            facts[key] = reader.value(reader.value(UINT32))
        tensors = [reader.tensor() for _ in range(tensor_count)]
        alignment = facts.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT:
            raise reader.damaged(f"its general.alignment is {plain_or_quoted(alignment)}")
        begin = -(-reader.position // alignment) * alignment
        return GGUFFile(path, facts, reader.place_tensors(tensors, begin))


def _other_format_error(path: Path) -> AttnvizError:
    """Return the error for a file that does not begin as a GGUF file does."""
    if files.is_lfs_pointer(path):
        return model_error(f"'{path}' is no GGUF file: it is a Git LFS pointer", files.LFS_HINT)
    return model_error(f"'{path}' is no GGUF file: it does not begin with GGUF", AGAIN_HINT)


def _other_version_error(path: Path, version: int) -> AttnvizError:
    """Return the error for a version that is too old or too new, or with its bytes swapped."""
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        return model_error(
            f"'{path}' is a big-endian GGUF file, and attnviz reads little-endian ones",
            "convert it with llama.cpp's own package: pip install gguf; gguf-convert-endian "
            f"{shell_quote(str(path))} little",
        )
    return model_error(
        f"'{path}' is of version {version} of GGUF, and attnviz reads 2 and 3",
        CONVERT_HINT if version < min(VERSIONS) else "pip install --upgrade attnviz",
    )


class _HeaderReader:
    """Reads values one after another, and refuses those that reach past the end of the file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file, self.size = path, file, path.stat().st_size
        self.content, self.position = b"", 0

    def damaged(self, reason: str) -> AttnvizError:
        return model_error(f"'{self.path}' is damaged or incomplete: {reason}", AGAIN_HINT)

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; refuse more than the file or any header has."""
        start, end = self.position, self.position + count
        if end > len(self.content):
            if end > self.size:
                raise self.damaged(
                    f"its header says that {count:,} bytes follow byte {start:,}, and the file has "
                    f"{self.size:,}"
                )
            if end > MAX_HEADER_BYTES:
                raise self.damaged(f"its header has more than {MAX_HEADER_BYTES:,} bytes")
            more = max(count, len(self.content), FIRST_BYTES)
            self.content += self.file.read(min(more, self.size - len(self.content)))
        self.position = end
        return self.content[start:end]

    def value(self, kind: int) -> Any:
        """Return the next value, of a numbered type; refuse a type that does not exist."""
        if kind == STRING:
            return self._text()
        if kind == ARRAY:
            return self._array(self.value(UINT32), self.value(UINT64))
        if kind not in FORMATS:
            raise self.damaged(f"its header has a value of type {kind}, which does not exist")
        code = f"<{FORMATS[kind]}"
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def _text(self) -> str:
        return self.take(int.from_bytes(self.take(8), "little")).decode(errors="replace")

    def _array(self, kind: int, count: int) -> list[str] | array[Any]:
        """Return the next `count` values of a type, which is neither an array nor unknown."""
        if kind == STRING:
            self._refuse_too_many(count, 8, "texts")
            return [self._text() for _ in range(count)]
        if kind not in FORMATS:
            raise self.damaged(f"its header has a list of type {kind}, which does not exist")
        values = array("B" if kind == 7 else FORMATS[kind])
        if values.itemsize != struct.calcsize(f"<{FORMATS[kind]}"):
            values = array("L" if kind == 4 else "l")  # where an int has other than 4 bytes
        values.frombytes(self.take(count * values.itemsize))
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def entry_count(self, what: str) -> int:
        """Return the next number, of entries; refuse more than the file has room for, or any
        model has."""
        count: int = self.value(UINT64)
        self._refuse_too_many(count, SMALLEST_ENTRIES[what], what)
        if count > MAX_ENTRIES:
            raise self.damaged(f"its header has {count:,} {what}, more than any model")
        return count

    def _refuse_too_many(self, count: int, least_bytes: int, what: str) -> None:
        if count * least_bytes > min(self.size, MAX_HEADER_BYTES):
            raise self.damaged(
                f"its header has {count:,} {what}, too many for its {self.size:,} bytes"
            )

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self.value(STRING), self.value(UINT32)
        if not 0 < dimensions <= MAX_DIMENSIONS:
            raise self.damaged(f"its tensor {quoted(name)} has {dimensions:,} dimensions")
        shape = struct.unpack(f"<{dimensions}Q", self.take(8 * dimensions))
        return name, tuple(reversed(shape)), self.value(UINT32), self.value(UINT64)

    def place_tensors(
        self, entries: list[tuple[str, tuple[int, ...], int, int]], begin: int
    ) -> dict[str, StoredTensor]:
        """Return the tensors by name; refuse unknown types, and tensors beyond the file's end or
        on top of each other."""
        tensors: dict[str, StoredTensor] = {}
        end = begin
        for name, shape, kind, offset in sorted(entries, key=lambda entry: entry[3]):
            if kind not in BLOCK_TYPES:
                type_name = REFUSED_TYPES.get(kind, f"type {kind}")
                raise model_error(
                    f"'{self.path}' stores {plain_or_quoted(name)} as {type_name}, which "
                    "attnviz does not read",
                    "use a file with other weights: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                    "Q2_K to Q6_K",
                )
            tensor = StoredTensor(name, shape, BLOCK_TYPES[kind], self.path, begin + offset)
            if shape[-1] % tensor.block.numbers or not all(shape):
                raise self.damaged(
                    f"its tensor {quoted(name)} has rows of {shape[-1]:,} numbers, which "
                    f"{tensor.block.name} cannot have"
                )
            if tensor.start + tensor.size > self.size:
                raise self.damaged(
                    f"its tensor {quoted(name)} would end at byte {tensor.start + tensor.size:,}, "
                    f"and the file has {self.size:,}"
                )
            if tensor.start < end or name in tensors:
                raise self.damaged(f"its tensor {quoted(name)} overlaps another one")
            tensors[name], end = tensor, tensor.start + tensor.size
        return tensors
