"""Files and folders that were whole, and are damaged: by chance, or by somebody who means harm."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from random import Random
from typing import Any

import numpy as np

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
ODD_NUMBERS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0)


class _Code:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (CODE.decode(),)


PICKLE = pickle.dumps(_Code())


def damaged(name: str, content: bytes, random: Random) -> bytes:
    """A file with a fault: mostly one that its format allows, or in its bytes."""
    change = OF_A_FORMAT.get(PurePath(name).suffix)
    if change is None or random.random() < 0.2:
        return in_bytes(content, random)
    try:
        return change(content, random)
    except Exception:  # whatever a reader says of what was damaged before
        return in_bytes(content, random)


def in_bytes(content: bytes, random: Random) -> bytes:
    """Cut short, or with bytes that are changed, left out, or twice there."""
    if not content:
        return content
    start = random.randrange(len(content))
    end = min(len(content), start + random.choice((1, 1, 4, 40)))
    replacement = random.choice(
        (b"", b"\x00", b"\xff", bytes([random.randrange(256)]), content[start:end] * 2, b"[" * 90)
    )
    return random.choice((content[:start], content[:start] + replacement + content[end:]))


def in_a_document(content: bytes, random: Random) -> bytes:
    document = json.loads(content)
    for _ in range(random.choice((1, 1, 2))):
        change_a_node(document, random)
    return json.dumps(document).encode()


def change_a_node(document: Any, random: Random) -> None:
    """Make something of a document odd, gone, what another is, or of another name."""
    places = list(_places(document))
    inside, name = random.choice(places)
    kind = random.random()
    if kind < 0.5:
        inside[name] = copy.deepcopy(random.choice(ODD_VALUES))
    elif kind < 0.7:
        there, other = random.choice(places)
        inside[name] = copy.deepcopy(there[other])
    elif kind < 0.85 or not isinstance(inside, dict):
        del inside[name]
    else:
        inside[random.choice(("", "x", "__proto__", *inside))] = inside.pop(name)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Where something stands in a nested document: in what, and under which name."""
    for name, below in document.items() if isinstance(document, dict) else enumerate(document):
        yield document, name
        if isinstance(below, (dict, list)):
            yield from _places(below)


def in_lines(content: bytes, random: Random) -> bytes:
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
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str) and not value.isprintable():
        return '"' + value.replace("\x1b", "\\u001b") + '"'
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def in_tensors(content: bytes, random: Random) -> bytes:
    """safetensors with a header that lies, or with numbers that nobody can learn."""
    header, body = tensors(content)
    if random.random() < 0.4 and len(body) >= 4:
        for _ in range(random.choice((1, 8, 1000))):
            place = random.randrange(len(body) // 4) * 4
            body[place : place + 4] = struct.pack("<f", random.choice(ODD_NUMBERS))
    else:
        _change_a_tensor(header, random)
    return tensors_of(header, bytes(body))


def tensors(content: bytes) -> tuple[Any, bytearray]:
    """The header of a safetensors file, and its numbers."""
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), bytearray(content[end:])


def tensors_of(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _change_a_tensor(header: dict[str, Any], random: Random) -> None:
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
        change_a_node(header, random)


def in_arrays(content: bytes, random: Random) -> bytes:
    """.npz with an array that is gone, of another kind or shape, odd, or code to be unpickled."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        held: dict[str, Any] = dict(archive)
    name = random.choice([*held])
    array = held[name]
    code = np.empty(1, dtype=object)
    code[0] = _Code()
    changes: tuple[Callable[[], Any], ...] = (
        lambda: code,
        lambda: array.T,
        lambda: array[None],
        lambda: array.ravel()[:-1],
        lambda: array.astype(str),
        lambda: np.full(array.shape, random.choice(ODD_NUMBERS)),
        lambda: held[random.choice([*held])],
        lambda: np.array(random.choice(("x", -1, 2**62, True))),
    )
    held[name] = random.choice(changes)()
    if random.random() < 0.15:
        del held[name]
    written = io.BytesIO()
    np.savez(written, **held)
    return written.getvalue()


OF_A_FORMAT: dict[str, Callable[[bytes, Random], bytes]] = {
    ".json": in_a_document,
    ".toml": in_lines,
    ".safetensors": in_tensors,
    ".npz": in_arrays,
}


def damaged_folder(whole: Mapping[str, bytes], other: Mapping[str, bytes], random: Random) -> Files:
    """A folder with a fault: in a file, in which of them are there, or with code in it."""
    files = dict(whole)
    name, second = (random.choice([*files]) for _ in range(2))
    kind = random.choice(("file",) * 7 + ("exchanged", "of another", "gone", "code", "code"))
    if kind == "file":
        files[name] = damaged(name, files[name], random)
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
    """What names code, in each of the ways in which a folder of a model can."""
    files["code.py"] = CODE
    if random.random() < 0.3:
        files.pop("model.safetensors", None)
        files["pytorch_model.bin"] = PICKLE
    automatic = {f"Auto{each}": f"code.{each}" for each in ("Config", "Model", "Tokenizer")}
    named = {
        "config.json": {"auto_map": automatic},
        "tokenizer_config.json": {"auto_map": automatic},
        "training.json": {"asked": {"task": random.choice(("mine/code.py", "code.py"))}},
    }
    for name in named.keys() & files.keys():
        files[name] = json.dumps(json.loads(files[name]) | named[name]).encode()
