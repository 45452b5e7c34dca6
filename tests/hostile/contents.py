"""What stands in files that are read: whole ones of every kind, and the same ones damaged."""

from __future__ import annotations

import copy
import io
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np

from attnviz import trace
from attnviz.examples.names import names
from attnviz.traces.parts import GIVEN_NAMES
from tests.conftest import ROOT
from tests.hostile import given, lessons, words

Contents = dict[str, Any]  # of a file of matrices, or of a lesson
LESSONS = ROOT / "attnviz" / "examples"

MATRICES: tuple[Contents, ...] = (
    {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, 4]]},
    {"embeddings": [[0.5, -1], [2, 0], [1, 1]], "w_query": [[1], [2]], "w_key": [[3], [4]]},
    {"scores": [[1, 2], [3, 4]], "vocabulary": 10},
    {"scores": [[[1, 2], [3, 4]], [[0, 0], [9, -9]]], "values": [[[1], [2]], [[3], [4]]]},
    {"weights": [[0.5, 0.5], [1, 0]], "values": [[1, 2], [3, 4]]},
    {"queries": [[1, 0]], "keys": [[1, 2], [3, 4]], "values": [[1], [2]], "key_tokens": ["x", "y"]},
    {"scores": [[1, 2], [3, 4]], "visible": [[True, False], [True, True]]},
    {"queries": [[[1, 2]], [[3, 4]]], "keys": [[[1, 2], [3, 4]]] * 2, "values": [[[1], [2]]] * 2},
    {"embeddings": [[1, 0], [0, 1]], "w_out": [[1, 2], [3, 4]], "b_query": [1, 2], "b_out": [1, 2]},
)
ODD_VALUES: tuple[Any, ...] = (
    "",
    "x",
    [],
    [[]],
    {},
    True,
    0,
    -1,
    0.5,
    10**20,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    [1],
    [[1, []], [2, 3]],
    [[1, 2], [3]],
    [[1, "a"]],
    [[[[1, 2]]]],
    [["a", "b"]],
    [-1e9],
    ["", "\x1b[31m"],
    ["\ud800"],
    "\ufffe\u202e",
)


def json_of(contents: Contents) -> bytes:
    return json.dumps(contents).encode()


def toml_of(contents: Contents) -> bytes:
    """Enough TOML for what is written here: keys with lists, numbers, words and tables."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in contents.items()).encode(
        errors="surrogatepass"
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str) and not value.isprintable():
        return '"' + value.replace("\x1b", "\\u001b") + '"'
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def arrays_of(contents: Contents) -> bytes:
    held = io.BytesIO()
    np.savez(held, **{name: _array(value) for name, value in _flat(contents).items()})
    return held.getvalue()


def _flat(contents: Contents) -> Contents:
    """With a name for the axes of each matrix: arrays have no tables."""
    axes = contents.get("axes")
    named = {f"axes.{name}": each for name, each in axes.items()} if isinstance(axes, dict) else {}
    return {name: each for name, each in contents.items() if not (named and name == "axes")} | named


def _array(value: Any) -> Any:
    """As NumPy has it, but for what it would have to pickle."""
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError):
        found = np.asarray(str(value))
    return np.asarray(str(value)) if found.dtype == object else found


def tensors_of(contents: Contents) -> bytes:
    """The safetensors format, by hand: a length, a header, numbers."""
    flat = _flat(contents)
    said = {name: each for name, each in flat.items() if name.startswith("axes")}
    arrays = {name: _array(value) for name, value in flat.items() if name not in said}
    header: Contents = {}
    if said:
        header["__metadata__"] = {name: json.dumps(each) for name, each in said.items()}
    body = b""
    for name, each in arrays.items():
        with np.errstate(over="ignore"):
            known = each.dtype.kind in "fiub"
            numbers = each.astype(np.float32) if known else np.zeros(1, np.float32)
        held = numbers.tobytes()
        ends = [len(body), len(body) + len(held)]
        header[name] = {"dtype": "F32", "shape": [*numbers.shape], "data_offsets": ends}
        body += held
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


WRITERS: dict[str, Callable[[Contents], bytes]] = {
    ".toml": toml_of,
    ".json": json_of,
    ".npz": arrays_of,
    ".safetensors": tensors_of,
}


def matrices(random: Random) -> tuple[str, bytes, tuple[str, ...]]:
    """The suffix of a file of matrices, what is in it, and the options that it is meant for."""
    suffix = random.choice([*WRITERS])
    if random.random() < 0.6:
        made = given.whole(random)
        contents = made.contents if random.random() < 0.8 else _changed(made.contents, random)
        return suffix, WRITERS[suffix](contents), made.options
    contents = dict(random.choice(MATRICES))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        contents = _changed(contents, random)
    return suffix, _damaged(WRITERS[suffix](contents), random), ()


def _changed(contents: Contents, random: Random) -> Contents:
    """With one value that is odd, gone, or under another name."""
    name = random.choice([*contents, *GIVEN_NAMES, "nonsense"])
    if name in contents and random.random() < 0.3:
        return {key: value for key, value in contents.items() if key != name}
    if name in contents and random.random() < 0.5:
        return {**contents, name: _inside(contents[name], random)}
    return {**contents, name: random.choice(ODD_VALUES)}


def _inside(value: Any, random: Random) -> Any:
    """The same with something odd somewhere in it."""
    if not isinstance(value, list) or not value or random.random() < 0.2:
        return random.choice(ODD_VALUES)
    place = random.randrange(len(value))
    return [*value[:place], _inside(value[place], random), *value[place + 1 :]]


def _damaged(content: bytes, random: Random) -> bytes:
    """Mostly as it is; or cut short, with bytes that are changed, left out, or twice there."""
    if random.random() < 0.7 or not content:
        return content
    start = random.randrange(len(content))
    end = min(len(content), start + random.choice((1, 1, 4, 40)))
    replacement = random.choice(
        (b"", b"\x00", b"\xff", bytes([random.randrange(256)]), content[start:end] * 2, b"[" * 90)
    )
    return random.choice((content[:start], content[:start] + replacement + content[end:]))


def text(random: Random) -> bytes:
    """What stands in a file of text, or comes by standard input."""
    told = words.text(random).encode("utf-8", "surrogatepass")
    return random.choice(
        (told, told, told, b"", b"\xff\xfe\x00", b"caf\xe9", b"\xef\xbb\xbf" + told)
    )


@cache
def _lessons() -> tuple[bytes, ...]:
    return tuple((LESSONS / f"{name}.toml").read_bytes() for name in names())


def lesson(random: Random) -> bytes:
    """A worked example, or a new one, with a line that is changed, or bytes that are."""
    new = random.random() < 0.6
    content = lessons.drawn(random) if new else random.choice(_lessons())
    return content if random.random() < 0.6 else lined(content, random)


def lined(content: bytes, random: Random) -> bytes:
    """A file of lines, with one or two of them changed, or with its bytes."""
    lines = content.decode().splitlines()
    for _ in range(random.choice((0, 1, 1, 2))):
        place = random.randrange(len(lines))
        lines[place] = _other_line(lines, place, random)
    return _damaged("\n".join(lines).encode(errors="surrogatepass"), random)


def _other_line(lines: list[str], place: int, random: Random) -> str:
    name, equals, _ = lines[place].partition(" = ")
    if not equals or random.random() < 0.3:
        return random.choice(("", random.choice(lines), words.text(random)))
    return f"{name} = {_toml(random.choice(ODD_VALUES))}"


TRACED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("I am", {"dim": 2}),
    ("a b c", {"heads": 2, "layers": 2, "dim": 4}),
    ("a b", {"layers": 1, "dim": 2, "memory": "you are here", "norm": "pre"}),
    ("a b c", {"heads": 4, "kv_heads": 2, "dim": 8, "positions": "rotary", "dropout": 0.5}),
    ("a b", {"dim": 2, "scoring": "additive", "positions": "alibi", "soft_cap": 2.0}),
    ("a a", {"dim": 2, "variant": "causal", "window": 1, "tokenizer": "words"}),
    ("h g f e d c b a", {"model": "reverse"}),
    ("The dogs slept because they were tired.", {"model": "toy", "without": "L0H1=mean"}),
)


@cache
def _traces() -> tuple[tuple[str, bytes], ...]:
    made = [trace(text, **settings) for text, settings in TRACED]
    return tuple(
        (suffix, each.view().render(suffix)) for each in made for suffix in (".npz", ".json")
    )


def saved(random: Random) -> tuple[str, bytes]:
    """A trace that was written, with a value of its document changed, or with its bytes."""
    suffix, content = random.choice(_traces())
    return suffix, content if random.random() < 0.4 else changed(suffix, content, random)


def changed(name: str, content: bytes, random: Random) -> bytes:
    """A document with a value changed, or two; or with its bytes, as whatever else there is."""
    if name.endswith(".json") and random.random() < 0.8:
        document = json.loads(content)
        for _ in range(random.choice((1, 1, 2))):
            random.choice((_change_somewhere, _exchange))(document, random)
        return json.dumps(document).encode()
    return _damaged(content, random)


def _exchange(document: Contents, random: Random) -> None:
    """Put something of a document where something else of it was, or leave it out."""
    places = list(_places(document))
    (here, name), (there, other) = random.sample(places, 2)
    if random.random() < 0.3:
        del here[name]
    else:
        here[name] = copy.deepcopy(there[other])


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Where something stands in a nested document: in what, and under which name."""
    for name, below in document.items() if isinstance(document, dict) else enumerate(document):
        yield document, name
        if isinstance(below, (dict, list)):
            yield from _places(below)


def _change_somewhere(document: Any, random: Random) -> None:
    """Put something odd at a place of a nested document."""
    while isinstance(document, (dict, list)) and document:
        place = random.choice([*document] if isinstance(document, dict) else range(len(document)))
        below = document[place]
        if not isinstance(below, (dict, list)) or not below or random.random() < 0.3:
            document[place] = random.choice(ODD_VALUES)
            return
        document = below


def vectors(random: Random) -> tuple[str, bytes]:
    """A file of vectors by word, or by token id."""
    table = np.arange(12.0).reshape(6, 2)
    held = io.BytesIO()
    np.save(held, table)
    words_of = b"I 1 2\nam 3 4\na 0 1\nb 1 0\nthe 2 2\n"
    suffix, content = random.choice(
        (
            (".npy", held.getvalue()),
            (".txt", words_of),
            (".npz", arrays_of({"table": table})),
            (".safetensors", tensors_of({"table": table})),
        )
    )
    return suffix, _damaged(content, random)
