"""Contents of the files that commands read: whole ones of every kind, and damaged ones."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

from attnviz import trace
from attnviz.traces.parts import GIVEN_NAMES
from attnviz.wings.examples.example_names import example_names
from tests.conftest import ROOT
from tests.hostile import lessons, matrix_files, words
from tests.hostile.damage import ODD_VALUES, damage_bytes, damage_file, toml_value
from tests.hostile.files import npz_archive
from tests.hostile.files import tensors_of as safetensors

Contents = dict[str, Any]  # of a file of matrices, or of a lesson
LESSONS = ROOT / "attnviz" / "wings" / "examples"

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
    """TOML, as far as these contents need it: keys with lists, numbers, words and tables."""
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in contents.items()).encode(
        errors="surrogatepass"
    )


def arrays_of(contents: Contents) -> bytes:
    return npz_archive(**{name: _array(value) for name, value in _flat(contents).items()})


def _flat(contents: Contents) -> Contents:
    """Contents without tables: each matrix's axes under a name of their own."""
    axes = contents.get("axes")
    axes_by_name = (
        {f"axes.{name}": each for name, each in axes.items()} if isinstance(axes, dict) else {}
    )
    return {
        name: each for name, each in contents.items() if not (axes_by_name and name == "axes")
    } | axes_by_name


def _array(value: Any) -> Any:
    """A NumPy array; of text, where NumPy would have to pickle it."""
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        array = np.asarray(str(value))
    return np.asarray(str(value)) if array.dtype == object else array


def tensors_of(contents: Contents) -> bytes:
    """The safetensors format, by hand: a length, a header, numbers."""
    flat = _flat(contents)
    axes = {name: each for name, each in flat.items() if name.startswith("axes")}
    arrays = {name: _array(value) for name, value in flat.items() if name not in axes}
    header: Contents = {}
    if axes:
        header["__metadata__"] = {name: json.dumps(each) for name, each in axes.items()}
    body = b""
    for name, each in arrays.items():
        with np.errstate(over="ignore"):
            is_numeric = each.dtype.kind in "fiub"
            numbers = each.astype(np.float32) if is_numeric else np.zeros(1, np.float32)
        data = numbers.tobytes()
        ends = [len(body), len(body) + len(data)]
        header[name] = {"dtype": "F32", "shape": [*numbers.shape], "data_offsets": ends}
        body += data
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
        matrix_file = matrix_files.random_matrix_file(random)
        contents = (
            matrix_file.contents
            if random.random() < 0.8
            else _change_contents(matrix_file.contents, random)
        )
        return suffix, WRITERS[suffix](contents), matrix_file.options
    contents = dict(random.choice(MATRICES))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        contents = _change_contents(contents, random)
    content = WRITERS[suffix](contents)
    return suffix, content if random.random() < 0.7 else damage_bytes(content, random), ()


def _change_contents(contents: Contents, random: Random) -> Contents:
    """The contents with one value odd, missing, or under another name."""
    name = random.choice([*contents, *GIVEN_NAMES, "nonsense"])
    if name in contents and random.random() < 0.3:
        return {key: value for key, value in contents.items() if key != name}
    if name in contents and random.random() < 0.5:
        return {**contents, name: _put_odd_value_inside(contents[name], random)}
    return {**contents, name: random.choice(ODD_VALUES)}


def _put_odd_value_inside(value: Any, random: Random) -> Any:
    """The value with something odd somewhere in it."""
    if not isinstance(value, list) or not value or random.random() < 0.2:
        return random.choice(ODD_VALUES)
    place = random.randrange(len(value))
    return [*value[:place], _put_odd_value_inside(value[place], random), *value[place + 1 :]]


def text(random: Random) -> bytes:
    """A text file, or standard input."""
    content = words.text(random).encode("utf-8", "surrogatepass")
    return random.choice(
        (content, content, content, b"", b"\xff\xfe\x00", b"caf\xe9", b"\xef\xbb\xbf" + content)
    )


@cache
def _lessons() -> tuple[bytes, ...]:
    return tuple((LESSONS / f"{name}.toml").read_bytes() for name in example_names())


def lesson(random: Random) -> bytes:
    """A worked example, or a new one, some with a changed line or changed bytes."""
    new = random.random() < 0.6
    content = lessons.random_lesson(random) if new else random.choice(_lessons())
    return content if random.random() < 0.6 else damage_file(".toml", content, random)


QUIZ_LESSON = ROOT / "sample_texts" / "lesson.toml"
PAIRS = ROOT / "sample_texts" / "pairs.tsv"


def quiz_lesson(random: Random) -> bytes:
    """A lesson of the quiz, mostly with a changed line or changed bytes."""
    content = QUIZ_LESSON.read_bytes()
    return content if random.random() < 0.3 else damage_file(".toml", content, random)


def lines(random: Random) -> bytes:
    """A file of texts, one on each line; some with a changed byte."""
    texts = [words.text(random) for _ in range(random.choice((0, 1, 2, 5, 12)))]
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    return content if random.random() < 0.8 else damage_bytes(content, random)


def minimal_pairs(random: Random) -> bytes:
    """A file of minimal pairs, some with fields that are odd, missing or repeated."""
    rows = [line.split("\t") for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    rows = random.sample(rows, min(len(rows), random.choice((1, 3, 6))))
    while random.random() < 0.5:
        row = random.choice(rows)
        place = random.randrange(len(row))
        row[place : place + 1] = random.choice(([], [words.text(random)], row[:2]))
    return "\n".join("\t".join(row) for row in rows).encode("utf-8", "surrogatepass")


TRACE_INPUTS: tuple[tuple[str, dict[str, Any]], ...] = (
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
    traces = [trace(text, **settings) for text, settings in TRACE_INPUTS]
    return tuple(
        (suffix, each.view().render(suffix)) for each in traces for suffix in (".npz", ".json")
    )


def trace_file(random: Random) -> tuple[str, bytes]:
    """A saved trace, some with a changed value or changed bytes."""
    suffix, content = random.choice(_traces())
    return suffix, content if random.random() < 0.4 else damage_file(suffix, content, random)


def vectors(random: Random) -> tuple[str, bytes]:
    """A file of vectors by word, or by token id."""
    table = np.arange(12.0).reshape(6, 2)
    buffer = io.BytesIO()
    np.save(buffer, table)
    lines_by_word = b"I 1 2\nam 3 4\na 0 1\nb 1 0\nthe 2 2\n"
    suffix, content = random.choice(
        (
            (".npy", buffer.getvalue()),
            (".txt", lines_by_word),
            (".npz", arrays_of({"table": table})),
            (".safetensors", tensors_of({"table": table})),
        )
    )
    return suffix, content if random.random() < 0.7 else damage_bytes(content, random)
