"""What stands in files that are read: whole ones of every kind, and the same ones damaged."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

from attnviz import trace
from attnviz.examples.example_names import example_names
from attnviz.traces.parts import GIVEN_NAMES
from tests.conftest import ROOT
from tests.hostile import given, lessons, words
from tests.hostile.damage import ODD_VALUES, damaged, in_bytes, toml_value
from tests.hostile.damage import tensors_of as safetensors

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


def json_of(contents: Contents) -> bytes:
    return json.dumps(contents).encode()


def toml_of(contents: Contents) -> bytes:
    """Enough TOML for what is written here: keys with lists, numbers, words and tables."""
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in contents.items()).encode(
        errors="surrogatepass"
    )


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
    return safetensors(header, body)


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
    content = WRITERS[suffix](contents)
    return suffix, content if random.random() < 0.7 else in_bytes(content, random), ()


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


def text(random: Random) -> bytes:
    """What stands in a file of text, or comes by standard input."""
    told = words.text(random).encode("utf-8", "surrogatepass")
    return random.choice(
        (told, told, told, b"", b"\xff\xfe\x00", b"caf\xe9", b"\xef\xbb\xbf" + told)
    )


@cache
def _lessons() -> tuple[bytes, ...]:
    return tuple((LESSONS / f"{name}.toml").read_bytes() for name in example_names())


def lesson(random: Random) -> bytes:
    """A worked example, or a new one, with a line that is changed, or bytes that are."""
    new = random.random() < 0.6
    content = lessons.drawn(random) if new else random.choice(_lessons())
    return content if random.random() < 0.6 else damaged(".toml", content, random)


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
    return suffix, content if random.random() < 0.4 else damaged(suffix, content, random)


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
    return suffix, content if random.random() < 0.7 else in_bytes(content, random)
