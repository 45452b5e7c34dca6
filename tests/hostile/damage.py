"""Damages files and folders: at random, or as an attacker would."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
from collections.abc import Callable, Mapping
from pathlib import PurePath
from random import Random
from typing import Any

import numpy as np

from tests.hostile.files import npz_archive, places, tensors_of, value_at

Files = dict[str, bytes]
CANARY = "code-was-run"  # a file that appears wherever a file's code is run
CODE = f"open({CANARY!r}, 'w').close()\n".encode()
ODD_VALUES: tuple[Any, ...] = (
    "",
    "x",
    [],
    [[]],
    {},
    None,
    True,
    0,
    -1,
    0.5,
    2**63,
    10**20,
    10**400,
    1e308,
    1e-320,
    float("nan"),
    float("inf"),
    [1],
    [None],
    [8, [1]],
    [[1, []], [2, 3]],
    [[1, 2], [3]],
    [[1, "a"]],
    [[[[1, 2]]]],
    [["a", "b"]],
    [-1e9],
    ["", "\x1b[31m"],
    ["\ud800"],
    "\ufffe\u202e",
    "../../x",
    "x" * 5000,
)
GGUF_HEADER_BYTES = 16_000  # of a small model
ODD_NUMBERS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0)


class _Code:
    """An object that runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (CODE.decode(),)


PICKLE = pickle.dumps(_Code())


def damage_file(name: str, content: bytes, random: Random) -> bytes:
    """A file with a fault: mostly one that its format allows, or in its bytes."""
    change = DAMAGE_BY_SUFFIX.get(PurePath(name).suffix)
    if change is None or random.random() < 0.2:
        return damage_bytes(content, random)
    try:
        return change(content, random)
    except Exception:  # any error of a reader of a file that was damaged before
        return damage_bytes(content, random)


def damage_bytes(content: bytes, random: Random) -> bytes:
    """The content cut short, or with bytes changed, left out or repeated."""
    if not content:
        return content
    start = random.randrange(len(content))
    end = min(len(content), start + random.choice((1, 1, 4, 40)))
    replacement = random.choice(
        (b"", b"\x00", b"\xff", bytes([random.randrange(256)]), content[start:end] * 2, b"[" * 90)
    )
    return random.choice((content[:start], content[:start] + replacement + content[end:]))


def damage_document(content: bytes, random: Random) -> bytes:
    document = json.loads(content)
    for _ in range(random.choice((1, 1, 2))):
        damage_node(document, random)
    return json.dumps(document).encode()


def damage_node(document: Any, random: Random) -> None:
    """Make a value of a document odd, remove, copy over or rename it."""
    inner_places = [*places(document)][1:]
    *path, name = random.choice(inner_places)
    inside = value_at(document, path)
    kind = random.random()
    if kind < 0.5:
        inside[name] = copy.deepcopy(random.choice(ODD_VALUES))
    elif kind < 0.7:
        inside[name] = copy.deepcopy(value_at(document, random.choice(inner_places)))
    elif kind < 0.85 or not isinstance(inside, dict):
        del inside[name]
    else:
        inside[random.choice(("", "x", "__proto__", *inside))] = inside.pop(name)


def damage_lines(content: bytes, random: Random) -> bytes:
    """TOML with a line or two changed."""
    lines = content.decode().splitlines()
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(len(lines))
        name, equals, _ = lines[place].partition(" = ")
        odd = f"{name} = {toml_value(random.choice(ODD_VALUES))}"
        other = random.choice(("", *random.sample(lines, 2), "[" * 70, f"{'a.' * 3000}a = 1"))
        lines[place] = odd if equals and random.random() < 0.7 else other
    return "\n".join(lines).encode(errors="surrogatepass")


def toml_value(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str) and not value.isprintable():
        return '"' + value.replace("\x1b", "\\u001b") + '"'
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def damage_tensors(content: bytes, random: Random) -> bytes:
    """safetensors with a false header, or with impossible numbers."""
    header, body = tensors(content)
    if random.random() < 0.4 and len(body) >= 4:
        for _ in range(random.choice((1, 8, 1000))):
            place = random.randrange(len(body) // 4) * 4
            body[place : place + 4] = struct.pack("<f", random.choice(ODD_NUMBERS))
    else:
        _damage_header(header, random)
    return tensors_of(header, bytes(body))


def tensors(content: bytes) -> tuple[Any, bytearray]:
    """The header of a safetensors file, and its numbers."""
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), bytearray(content[end:])


def _damage_header(header: dict[str, Any], random: Random) -> None:
    one, other = (random.choice([*header]) for _ in range(2))
    kind = random.choice(("dtype", "shape", "exchanged", "any", "any"))
    if kind == "dtype" and "dtype" in header[one]:
        header[one]["dtype"] = random.choice(("F16", "BF16", "I32", "U32", "BOOL", "Q7"))
    elif kind == "shape" and header[one].get("shape"):
        sides = header[one]["shape"]
        header[one]["shape"] = random.choice((sides[::-1], [*sides, 1], [1, *sides], sides[1:]))
    elif kind == "exchanged":
        header[one], header[other] = header[other], header[one]
    else:
        damage_node(header, random)


def damage_arrays(content: bytes, random: Random) -> bytes:
    """.npz with an array that is gone, of another kind or shape, odd, or code to be unpickled."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays: dict[str, Any] = dict(archive)
    name = random.choice([*arrays])
    array = arrays[name]
    code = np.empty(1, dtype=object)
    code[0] = _Code()
    changes: tuple[Callable[[], Any], ...] = (
        lambda: code,
        lambda: array.T,
        lambda: array[None],
        lambda: array.ravel()[:-1],
        lambda: array.astype(str),
        lambda: np.full(array.shape, random.choice(ODD_NUMBERS)),
        lambda: arrays[random.choice([*arrays])],
        lambda: np.array(random.choice(("x", -1, 2**62, True))),
    )
    arrays[name] = random.choice(changes)()
    if random.random() < 0.15:
        del arrays[name]
    return npz_archive(**arrays)


def damage_gguf(content: bytes, random: Random) -> bytes:
    """A GGUF file with another number at some place of its header."""
    damaged, start = bytearray(content), random.randrange(min(len(content), GGUF_HEADER_BYTES))
    number = random.choice((0, 1, 2, 255, 2**16, 2**31, 2**63, random.randrange(2**32)))
    size = random.choice((1, 4, 8))
    damaged[start : start + size] = number.to_bytes(8, "little")[:size]
    return bytes(damaged[: len(content)])


DAMAGE_BY_SUFFIX: dict[str, Callable[[bytes, Random], bytes]] = {
    ".json": damage_document,
    ".toml": damage_lines,
    ".safetensors": damage_tensors,
    ".npz": damage_arrays,
    ".gguf": damage_gguf,
}


def damage_folder(
    undamaged: Mapping[str, bytes], other: Mapping[str, bytes], random: Random
) -> Files:
    """A folder with a fault: a damaged, wrong or missing file, or code."""
    files = dict(undamaged)
    name, second = (random.choice([*files]) for _ in range(2))
    kind = random.choice(("file",) * 7 + ("exchanged", "of another", "gone", "code", "code"))
    if kind == "file":
        files[name] = damage_file(name, files[name], random)
    elif kind == "exchanged":
        files[name], files[second] = files[second], files[name]
    elif kind == "of another":
        files[name] = other.get(name, b"")
    elif kind == "gone":
        del files[name]
    else:
        _add_code(files, random)
    return files


def _add_code(files: Files, random: Random) -> None:
    """Add code to a folder, named in every way in which a model's folder can name it."""
    files["code.py"] = CODE
    if random.random() < 0.3:
        files.pop("model.safetensors", None)
        files["pytorch_model.bin"] = PICKLE
    automatic = {f"Auto{each}": f"code.{each}" for each in ("Config", "Model", "Tokenizer")}
    changes = {
        "config.json": {"auto_map": automatic},
        "tokenizer_config.json": {"auto_map": automatic},
        "training.json": {"asked": {"task": random.choice(("mine/code.py", "code.py"))}},
    }
    for name in changes.keys() & files.keys():
        files[name] = json.dumps(json.loads(files[name]) | changes[name]).encode()
