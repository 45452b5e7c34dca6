"""Calls that once ended badly, each reduced to its smallest form: they are run every time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.hostile import models
from tests.hostile.calls import Call
from tests.hostile.damage import CODE, tensors
from tests.hostile.damaged_calls import TRAININGS, put_in_folder, saved_training
from tests.hostile.files import npy_file, npz_archive, tensor_file, tensors_of, zip_archive

LONG_NAME = "a" * 300
DIGITS = "9" * 5000
SQUARE = "tokens = ['a', 'b']\nembeddings = [[1, 0], [0, 1]]\n"


def _nested_list(depth: int) -> str:
    return f"scores = {'[' * depth}1{']' * depth}"


def _call_with_matrices(
    content: str | bytes, *options: str, name: str = "g.toml", command: str = "run"
) -> Call:
    """A call with a file of matrices."""
    data = content.encode() if isinstance(content, str) else content
    return Call((command, f"--given={name}", *options), {name: data})


def _call_with_lesson(content: str, *options: str, command: str = "check") -> Call:
    data = f"title = 't'\n{content}".encode()
    return Call(("example", command, "l.toml", *options), {"l.toml": data})


def _lesson_that_expects(values: str) -> Call:
    return _call_with_lesson(
        f"[given]\n{SQUARE}[[expect]]\nstep = 'embeddings'\nvalues = {values}\n"
    )


def _lesson_that_draws(draws: str, given: str) -> Call:
    return _call_with_lesson(
        f"[recipe]\ndraws = [{draws}]\n[given]\ntokens = ['a', 'b']\n{given}\n"
    )


def _archive_with_scores(**arrays: Any) -> bytes:
    return npz_archive(scores=np.ones((2, 2)), **arrays)


COMPARISONS = (
    Call(("compare", "a b", "--by=tokenizer", "--causal", "--query=1")),
    Call(("compare", "I am", "--by=tokenizer", "--window=1")),
    Call(("compare", "of", "--by=tokenizer", "--values=words,chars")),
    Call(("compare", "a b", "--checkpoints=~nosuch/x*")),
    Call(("compare", "tired I", "--by=tokenizer", "--values=spaces,bytes", "-o", "b.svg")),
)
TEXTS = (
    Call(("compare", "a " * 300, "-t=words", "--by=dim", "--repeats=100000")),
    Call(("steps", "I am", "--size=2.5x40", "-o", "b.gif")),
    Call(("run", "a b", "--window=99999999999999999999")),
    Call(("run", "a b", f"--query={DIGITS}")),
    Call(("run", "a", "-o", f"{LONG_NAME}.png")),
    Call(("run", f"--given={LONG_NAME}.toml")),
    Call(("run", "a", f"--embeddings={LONG_NAME}.txt")),
    Call(("run", "a b", "-o", "x.png"), environment={"MPLBACKEND": "module://nowhere"}),
    Call(("run", "a b", "-o", "x.pdf"), environment={"SOURCE_DATE_EPOCH": "x"}),
    Call(("run", "a\ufffeb\uffff", "-o", "x.svg")),
    Call(("steps", "--heads=3", "--", "../../etc/passwd")),
    Call(("run", "--json", "--", "a\u202egnp.exe \uffff")),
    Call(("steps", "日本", "--query=1", "--title=日本語", "-o", "out-{page}.svg")),
)
WITH_MATRICES = (
    _call_with_matrices("tokens = ['a', '']\nembeddings = [[1, 2], [3, 4]]"),
    _call_with_matrices("scores = [[1, []], [2, 3]]"),
    *(_call_with_matrices(_nested_list(depth)) for depth in (65, 900, 200_000)),
    _call_with_matrices(f"scores = [[{DIGITS}]]"),
    _call_with_matrices(f'{{"scores": [[{DIGITS}]]}}', name="g.json"),
    _call_with_matrices(f'{{"scores": {"[" * 100_000}1{"]" * 100_000}}}', name="g.json"),
    _call_with_matrices(
        '{"tokens": ["a", "\\ud800"], "embeddings": [[1, 2], [3, 4]]}', "--json", name="g.json"
    ),
    _call_with_matrices("scores = [[[1, 2], [3, 4]], [[1, 2], [3, 4]]]", "--dim=1"),
    _call_with_matrices(
        "scores = [[[1, 2], [3, 4]]]", "--by=dim", "--values=1,8", command="compare"
    ),
    _call_with_matrices("scores = [[1]]\nb_out = [1, 2]", "--layers=1"),
    *(
        _call_with_matrices(_archive_with_scores(vocabulary=np.array(odd)), name="g.npz")
        for odd in ([10], "x", float("nan"), float("inf"))
    ),
    *(
        _call_with_matrices(content, name="g.npz")
        for content in (
            zip_archive(b"hello"),
            zip_archive(npy_file("(99999999999999999999,)", 0)),
            zip_archive(npy_file("(1, 1)"), encryption_flag=1),
            zip_archive(npy_file("(1, 1)"), method=99),  # compressed in an unknown way
            _archive_with_scores(values=np.array([1j, 2])),
            _archive_with_scores(values=np.array(["2026-01-01"], dtype="datetime64[D]")),
        )
    ),
    _call_with_matrices(tensor_file("F4", 2), name="g.safetensors"),
    *(
        _call_with_matrices("scores = [[1, 2], [3, 4]]", *more, name="caf\udce9.toml")
        for more in (("--json",), ("-o", "x.svg"), ("-o", "x.png"), ("-o", "x.md"))
    ),
    _call_with_matrices("scores = [[1, 2], [3, 4]]", name="a\x1b[31mQ.toml"),
    Call(
        ("run", "a b", "-t", "words", "--embeddings=w\udce9.txt", "--json"),
        {"w\udce9.txt": b"a 1 2\nb 3 4\n"},
    ),
)
WITH_LESSONS = (
    *map(
        _lesson_that_expects,
        ("[[1, 0], [[0], 1]]", "[[1e999, 0], [0, 1]]", f"[[{DIGITS}, 0], [0, 1]]"),
    ),
    _lesson_that_draws(
        "{ name = 'x', rand = [10, 3] }, { name = 'i', randint = [2], low = 0, high = 900 }",
        "embeddings = { rows = ['x', 'i'] }",
    ),
    _lesson_that_draws(
        "{ name = 'x', rand = [10, 3] }, { name = 'y', rand = [2, 4] }",
        "embeddings = { product = ['x', 'y'] }",
    ),
    _lesson_that_draws(
        f"{{ name = 'x', randint = [2], low = -{'9' * 20}, high = {'9' * 20} }}",
        "embeddings = [[1, 0], [0, 1]]",
    ),
    _call_with_lesson(
        f"source = 'a\\ufeff\\u001b[31m'\n[given]\n{SQUARE}", "-o", "z.pdf", command="show"
    ),
    Call(("example", "check", "d.toml"), {"d.toml": _nested_list(900).encode()}),
    *(
        _call_with_lesson(f"[settings]\n{name} = 1{'0' * 400}\n[given]\n{SQUARE}", command="show")
        for name in ("temperature", "soft_cap", "dropout", "position_base")
    ),
    _call_with_lesson(f"[settings]\nsoft_cap = 2\n[given]\n{SQUARE}", command="show"),
    _call_with_lesson(
        "[recipe]\ndraws = [{ name = 'embeddings', randn = [6, 16] }, "
        "{ name = 'w_value', randn = [16, 28] }]\n[given]\ntokens = ['a', 'b', 'c', 'd', 'e', 'f']",
        "--digits=5",
        "--no-footnote",
        "--out=out.svg",
        command="show",
    ),
)
CONTINUE = ("learn", "--from=mine", "--steps=3")
CURVES = ("learn", "--from=mine", "--out=out.csv")
PREDICT = ("run", "--predict", "--model=mine", "a b c d e f g h")
INSPECT = ("inspect", "--model=trained", "The animal was tired")
CHANGED_VALUES: dict[str, tuple[tuple[str, ...], str, tuple[Any, ...], Any]] = {
    "code of the folder": (CONTINUE, "training.json", ("asked", "task"), "mine/code.py"),
    "an accuracy that is a list": (CURVES, "training.json", ("moments", 1, "accuracy"), [1]),
    "a loss without end": (CURVES, "training.json", ("moments", 1, "loss"), float("inf")),
    "scores of another shape": (CURVES, "training.json", ("moments", 1, "scores"), {"opposite": 1}),
    "a step that is a list": (CURVES, "training.json", ("moments", 1, "step"), [1]),
    "tokens that are no numbers": (PREDICT, "config.json", ("facts", "tokens"), [8, [1]]),
    "no tokenizer": (PREDICT, "vocabulary.json", ("tokenizer",), ...),
    "an optimizer of bytes": (
        CONTINUE, "training.safetensors", ("optimizer exp_avg attention_gain", "dtype"), "U8",
    ),
    "a shape of words": (INSPECT, "model.safetensors", (-1, "shape"), ["x", 2]),
    "no shape": (INSPECT, "model.safetensors", (-1, "shape"), ...),
    "a length that is a list": (INSPECT, "tokenizer_config.json", ("model_max_length",), [1]),
    "an unknown token that is none": (INSPECT, "tokenizer_config.json", ("unk_token",), "nowhere"),
}  # fmt: skip


def call_with_changed_value(name: str) -> Call:
    """A call that reads a folder in which one value is changed, or removed (...)."""
    arguments, file_name, (*path, last_key), value = CHANGED_VALUES[name]
    files = dict(
        models.transformer_files("bert") if arguments == INSPECT else saved_training(TRAININGS[0])
    )
    header, body = tensors(files[file_name]) if "tensors" in file_name else (None, b"")
    document = json.loads(files[file_name]) if header is None else header
    node = document
    for key in path:
        node = node[next(reversed(node)) if key == -1 else key]
    if value is ...:
        del node[last_key]
    else:
        node[last_key] = value
    content = json.dumps(document).encode() if header is None else tensors_of(header, bytes(body))
    files |= {file_name: content, "code.py": CODE}
    return Call(arguments, put_in_folder("trained" if arguments == INSPECT else "mine", files))


FAILED_CALLS = (*COMPARISONS, *TEXTS, *WITH_MATRICES, *WITH_LESSONS)
