"""A Trace comes back: what was written is read again, and draws the same, to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz import AttnvizError, Trace, compare, load, trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.parts import TRACE_FILE_SUFFIXES
from attnviz.wings.examples import example_names
from tests.conftest import Attnviz
from tests.tiers import examples
from tests.untrained import trace_model, untrained_model

TEXT = "I am learning this"

SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"variant": name} for name in VARIANTS},
    "rotary": {"positions": "rotary", "heads": 2},
    "alibi": {"positions": "alibi", "variant": "multi-head"},
    "learned positions": {"positions": "learned"},
    "dropout": {"dropout": 0.4, "seed": 9},
    "half precision": {"dtype": "bfloat16"},
    "double precision": {"dtype": "float64", "window": 2},
    "blocks": {"layers": 2, "activation": "gelu", "feed_forward": 5},
    "rotary by halves": {"positions": "rotary-halves", "position_base": 500.0},
    "no norm": {"layers": 2, "norm": "none", "activation": "gelu-tanh"},
    "pre-norm": {"layers": 2, "norm": "pre", "variant": "multi-head"},
    "memory": {"memory": "you are teaching it", "layers": 2},
    "bytes": {"tokenizer": "bytes"},
    "soft cap": {"soft_cap": 1.5, "layers": 1, "memory": "it rains"},
    "a head off": {"heads": 2, "without": "L0H1=mean"},
}
GIVEN_MATRICES: dict[str, dict[str, Any]] = {
    "scores": {"scores": [[2, 4, 4], [4, 16, 12], [4, 12, 10]]},
    "matrices": {
        "tokens": ["a", "b"],
        "embeddings": [[0.1, 2], [3, 4]],
        "w_query": [[1, 2], [0, 1]],
        "b_query": [1, 1],
        "w_value": [[1, 0, 2], [0, 1, 1]],
    },
    "other keys": {
        "tokens": ["a", "b"],
        "key_tokens": ["x", "y", "z"],
        "queries": [[1, 2], [3, 4]],
        "keys": [[1, 0], [0, 1], [1, 1]],
        "values": [[1], [2], [3]],
    },
    "other keys, embedded": {
        "tokens": ["a", "b"],
        "key_tokens": ["b", "c", "d"],
        "visible": [[1, 0, 1], [1, 1, 1]],
    },
    "by hand": {"embeddings": [[1, 2], [3, 4]], "weights": [[0.5, 0.5], [0.2, 0.9]]},
    "kept": {"embeddings": [[1, 2], [3, 4]], "kept": [[1, 0], [1, 1]]},
}


def save_and_read(original: Trace, folder: Path, suffix: str) -> Trace:
    original.view().save(folder / f"numbers{suffix}")
    return load(str(folder / f"numbers{suffix}"))


def find_differences(one: Any, other: Any, path: str = "trace") -> list[str]:
    """The paths at which two values of one kind differ."""
    if isinstance(one, torch.Tensor):
        is_same_type = isinstance(other, torch.Tensor) and one.dtype == other.dtype
        return [] if is_same_type and torch.equal(one, other) else [path]
    if is_dataclass(one) and type(one) is type(other):
        # A mask that is a rule is loaded as a matrix.
        names = ["visible" if each.name == "mask_rule" else each.name for each in fields(one)]
        return [
            place
            for name in names
            for place in find_differences(
                getattr(one, name), getattr(other, name), f"{path}.{name}"
            )
        ]
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [
            place for number, pair in pairs for place in find_differences(*pair, f"{path}.{number}")
        ]
    return [] if one == other else [f"{path}: {one!r} is not {other!r}"]


def unexpected_differences(places: list[str]) -> list[str]:
    """The differences but for two that are right: a saved trace has a command, and no folder."""
    ignored_paths = ("trace.provenance.command", "trace.origin.matrices.source")
    return [place for place in places if not place.startswith(ignored_paths)]


def assert_comes_back(original: Trace, folder: Path, suffix: str) -> Trace:
    """Check that the Trace that is read is the one that was written; returns it."""
    loaded_trace = save_and_read(original, folder, suffix)
    assert unexpected_differences(find_differences(original, loaded_trace)) == []
    return loaded_trace


@pytest.mark.parametrize("suffix", TRACE_FILE_SUFFIXES)
@pytest.mark.parametrize("name", SETTINGS)
def test_every_kind_of_trace_comes_back_whole(name: str, suffix: str, tmp_path: Path) -> None:
    assert_comes_back(trace(TEXT, **SETTINGS[name]), tmp_path, suffix)


@pytest.mark.parametrize("suffix", TRACE_FILE_SUFFIXES)
@pytest.mark.parametrize("name", GIVEN_MATRICES)
def test_given_matrices_come_back_whole(name: str, suffix: str, tmp_path: Path) -> None:
    original = trace(None, given=parse_matrices(GIVEN_MATRICES[name]))
    assert_comes_back(original, tmp_path, suffix)


@pytest.mark.slow_table("documentation", keep=8)
@pytest.mark.parametrize("name", example_names.example_names())
def test_worked_examples_come_back_whole(name: str, tmp_path: Path) -> None:
    assert_comes_back(example_names.example(name).trace(), tmp_path, ".npz")


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_come_back_as_mistakes(name: str, tmp_path: Path) -> None:
    original = trace(TEXT, variant="causal", heads=2, mistake=name)

    assert assert_comes_back(original, tmp_path, ".json").layers[0].mistake == name


@settings(max_examples=examples(40))
@given(
    text=st.text(min_size=1, max_size=20).filter(str.strip),
    name=st.sampled_from(TRACE_FILE_SUFFIXES),
)
def test_any_text_comes_back(
    text: str, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    original = trace(text, tokenizer="chars")

    loaded_trace = save_and_read(original, tmp_path_factory.mktemp("saved"), name)
    assert (loaded_trace.tokens, loaded_trace.text) == (original.tokens, text)


@pytest.mark.slow_table("formats", keep=3)
@pytest.mark.parametrize(
    "words",
    [
        [TEXT],
        [TEXT, "--variant", "multi-head", "--positions", "alibi"],
        [TEXT, "--layers", "2", "--norm", "pre"],
        [TEXT, "--memory", "you are"],
        ["--given", "given.toml"],
    ],
)
@pytest.mark.parametrize("suffix", TRACE_FILE_SUFFIXES)
def test_the_same_pictures_are_drawn_later(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("given.toml").write_text("w_query = [[1, 2], [3, 4]]\nembeddings = [[1, 2], [3, 4]]\n")
    kinds = (".svg", ".txt", ".csv", ".md")
    now_options = [word for kind in kinds for word in ("-o", f"now{kind}")]
    later_options = [word for kind in kinds for word in ("-o", f"later{kind}")]

    assert attnviz("run", *words, "-o", f"numbers{suffix}", *now_options).status == 0
    result = attnviz("run", "--trace", f"numbers{suffix}", *later_options)

    assert (result.status, result.out) == (0, "")
    for kind in kinds:
        assert Path(f"later{kind}").read_bytes() == Path(f"now{kind}").read_bytes()


@pytest.mark.slow("formats")
@pytest.mark.parametrize("kind", [".png", ".svg", ".md"])
def test_steps_are_drawn_later_as_they_were(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = ["--query", "this", "--step", "5-8"]
    attnviz("steps", TEXT, *steps, "-o", "numbers.npz", "-o", f"now{kind}")
    attnviz("steps", "--trace", "numbers.npz", *steps, "-o", f"later{kind}")

    assert Path(f"later{kind}").read_bytes() == Path(f"now{kind}").read_bytes()


@pytest.mark.slow_table("formats", keep=1)
@pytest.mark.parametrize(
    "command", ["steps", "compare", "run", "run --show scores", "run --query 2 --theme dark"]
)
@pytest.mark.parametrize("words", [[], ["--variant", "causal", "--seed", "3", "--dim", "6"]])
def test_another_command_draws_from_a_trace_what_it_draws_from_the_text(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    words: list[str],
) -> None:
    for name in ("now", "later"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "later")
    attnviz("run", TEXT, *words, "-o", "numbers.npz")
    name, *options = command.split()
    assert attnviz(name, "--trace", "numbers.npz", *options, "-o", "a.svg").status == 0
    monkeypatch.chdir(tmp_path / "now")
    attnviz(name, TEXT, *words, *options, "-o", "a.svg")

    assert Path("a.svg").read_bytes() == (tmp_path / "later" / "a.svg").read_bytes()


@pytest.mark.parametrize("options", [["--seed", "42"], ["--variant", "scaled"], ["--no-causal"]])
def test_a_trace_is_compared_but_for_what_is_typed_even_if_that_is_a_default(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    attnviz("run", TEXT, "--variant", "causal", "--seed", "7", "-o", "numbers.npz")
    result = attnviz("compare", "--trace", "numbers.npz", *options, "--json")

    before = ["--variant", "causal"] * ("--variant" not in options)  # given twice it compares
    expected = attnviz("compare", TEXT, *before, "--seed", "7", *options, "--json")

    assert json.loads(result.out)["ways"] == json.loads(expected.out)["ways"]


def test_how_a_trace_was_made_is_not_asked_again_even_if_the_answer_is_a_default(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = str(tmp_path / "numbers.npz")
    trace(TEXT).view().save(path)

    for command in ("run", "steps"):
        assert attnviz(command, "--trace", path, "--seed", "42").err == (
            "error: --trace reads a finished trace, and --seed is about making one\n"
            " hint: leave --seed out, or --trace\n"
        )


@pytest.mark.slow_table("formats", keep=1)
@pytest.mark.parametrize(("name", "command"), [("dave", "compare"), ("dave-decoder", "run")])
def test_what_is_drawn_from_an_example_says_so(
    attnviz: Attnviz, tmp_path: Path, name: str, command: str
) -> None:
    numbers, picture = tmp_path / "numbers.npz", tmp_path / "picture.svg"
    attnviz("example", "show", name, "-o", str(numbers))

    attnviz(command, "--trace", str(numbers), "-o", str(picture))

    assert f"attnviz {command} --trace numbers.npz --out picture.svg" in picture.read_text()


def test_no_folder_of_a_machine_is_in_a_file(attnviz: Attnviz, tmp_path: Path) -> None:
    matrices_path, path = tmp_path / "matrices.toml", tmp_path / "numbers.json"
    matrices_path.write_text("embeddings = [[1, 2], [3, 4]]")
    np.save(tmp_path / "mine.npy", np.ones((300, 4)))

    for words in (
        ["run", "--given", str(matrices_path)],
        ["compare", "--given", str(matrices_path)],
        ["run", "abc", "-t", "bytes", "--embeddings", str(tmp_path / "mine.npy")],
        ["example", "show", "simplified"],
    ):
        assert attnviz(*words, "-o", str(path)).status == 0
        assert str(tmp_path) not in path.read_text()
        assert str(Path(example_names.__file__).parent) not in path.read_text()


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("by", ["scale", "mask", "dim", "positions", "seed", "tokenizer"])
def test_a_trace_is_compared_as_its_text_is(by: str, tmp_path: Path) -> None:
    original = trace(TEXT, variant="causal", seed=5)

    trace_table = compare(save_and_read(original, tmp_path, ".npz"), by=by).view().render(".csv")
    text_table = compare(TEXT, by=by, variant="causal", seed=5).view().render(".csv")

    assert trace_table == text_table


def test_vectors_of_a_file_come_back_though_the_file_is_gone(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("mine.npy", np.random.default_rng(0).normal(size=(300, 6)))
    attnviz("run", "abc", "-t", "bytes", "--embeddings", "mine.npy", "-o", "numbers.json")
    expected = attnviz("compare", "abc", "-t", "bytes", "--embeddings", "mine.npy")
    Path("mine.npy").unlink()

    assert attnviz("compare", "--trace", "numbers.json") == expected


def test_a_trace_and_how_to_make_one_are_not_both_given(attnviz: Attnviz, tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    attnviz("run", TEXT, "-o", path)

    text_result = attnviz("run", TEXT, "--trace", path)
    option_result = attnviz("steps", "--trace", path, "--head-dim", "4")

    assert text_result.err == (
        "error: a text and --trace are both given\n hint: give one of them\n"
    )
    assert option_result.err == (
        "error: --trace reads a finished trace, and --head-dim is about making one\n"
        " hint: leave --head-dim out, or --trace\n"
    )
    assert (text_result.status, option_result.status) == (2, 2)


NOT_AS_WRITTEN = "'{}' is not as attnviz wrote it: something in it is missing or of another kind"
KINDS_TO_DAMAGE: dict[str, Callable[[], Trace]] = {
    "numbers": lambda: trace(TEXT),
    "a prediction": lambda: trace_model(untrained_model()),
    "a long text": lambda: trace(TEXT, stream=True),
}
# What somebody might change who edits such a file by hand: a place, and what is written there
# (None: it is deleted).
DAMAGES: list[tuple[str, str, Any, str]] = [
    ("numbers", "layers/0/weights/0/3", None, "'weights' in '{}' is 3 × 4, but should be 4 × 4"),
    ("numbers", "layers/0/values/0/1/7", None, NOT_AS_WRITTEN),
    ("numbers", "layers/0/queries", "no numbers", NOT_AS_WRITTEN),
    ("numbers", "layers/0/contexts", None, NOT_AS_WRITTEN),
    ("numbers", "ways", [], "'{}' holds a comparison, not a trace"),
    ("numbers", "trace", None, "'{}' holds no trace that can be read again"),
    ("numbers", "trace/origin/settings/heads", 0, "heads is 0, and must be from 1 to 65,536"),
    ("numbers", "trace", [], NOT_AS_WRITTEN),
    ("numbers", "tokens/ids/3", None, NOT_AS_WRITTEN),
    ("numbers", "embeddings/3", None, NOT_AS_WRITTEN),
    ("numbers", "trace/variant/temperature", "warm", NOT_AS_WRITTEN),
    ("numbers", "layers/0/queries/0/0/0", 1e300, NOT_AS_WRITTEN),  # beyond float32
    ("numbers", "layers/0/scores/0/0/0", float("nan"), NOT_AS_WRITTEN),
    ("numbers", "layers", [], NOT_AS_WRITTEN),
    ("numbers", "trace/layers/0/mixed_by", "a spoon", NOT_AS_WRITTEN),
    ("a prediction", "prediction/answers", ["is"], NOT_AS_WRITTEN),
    ("a prediction", "prediction/logits/0", None, "'logits' in '{}' is 5 × 4, but should be 6 × 4"),
    ("a prediction", "prediction/asked", [99], NOT_AS_WRITTEN),
    ("a long text", "maps/L0/received", [[1.0]], NOT_AS_WRITTEN),
    ("a long text", "maps/L0/entropy/0/0", float("nan"), NOT_AS_WRITTEN),
    ("a long text", "trace/layers/0/streamed/slopes", [1.0, 2.0], NOT_AS_WRITTEN),
    ("a long text", "trace/layers/0/streamed/before", "far", NOT_AS_WRITTEN),
    ("a long text", "trace/layers/0/streamed/pool", None, NOT_AS_WRITTEN),
    (
        "a long text",
        "layers/0/keys",
        [[[1.0, 2.0]]],
        "'keys' in '{}' is 1 × 2, but should be 1 × 8",
    ),
]


@pytest.mark.parametrize(
    ("kind", "place", "value", "problem"), DAMAGES, ids=[f"{row[1]}={row[2]}" for row in DAMAGES]
)
def test_a_file_that_was_changed_is_refused(
    kind: str, place: str, value: object, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    KINDS_TO_DAMAGE[kind]().view().save(path)
    document = part = json.loads(path.read_text("utf-8"))
    *parents, name = [int(each) if each.isdigit() else each for each in place.split("/")]
    for parent in parents:
        part = part[parent]
    if value is None:
        del part[name]
    else:
        part[name] = value
    path.write_text(json.dumps(document), "utf-8")

    with pytest.raises(AttnvizError) as error:
        load(str(path))

    assert str(error.value) == problem.format(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("none.npz", None, "there is no file '{}' to read a trace from"),
        ("a.txt", b"words", "'{}' is not a trace file"),
        ("a.npz", b"words", "'{}' is not a NumPy file"),
        ("a.json", b"{", "line 1 of '{}' is not valid JSON"),
        ("b.json", b"{}", "'{}' holds no trace that can be read again"),
    ],
)
def test_what_is_no_trace_is_refused(
    name: str, content: bytes | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(AttnvizError) as error:
        load(str(path))

    assert str(error.value).startswith(problem.format(path))
