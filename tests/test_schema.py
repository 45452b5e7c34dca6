"""`attnviz schema`: each document that a command writes matches the schema of its kind, exactly."""

from __future__ import annotations

import io
import json
import math
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator, ValidationError

import attnviz as library
from attnviz import trace
from attnviz.analysis.comparison import compare_scores
from attnviz.analysis.inspection.patterns import PATTERN_KINDS
from attnviz.cli.app import run_command_line
from attnviz.renderers import render
from attnviz.traces.result import Showable
from attnviz.views.documents import all_documents_schema, document_kinds, document_schema
from attnviz.views.view import View
from attnviz.wings.corpora.survey import CorpusPart, Survey
from tests.conftest import ROOT, Attnviz, unchecked
from tests.small_transformers import Saved
from tests.test_prediction import add_bias
from tests.untrained import trace_model, untrained_model

Document = dict[str, Any]
Documents = Callable[[str], Document]

TEXT = "I am learning this"
READ = "'The animal was tired'"
PROMPT = "'The animal slept. It was tired. It'"
CHOICES = "--learn reverse --steps 3 --batch 4"


def with_two_groups(result: Survey) -> Survey:
    """Return a survey whose first head does two different things."""
    head = result.heads[0]
    group = CorpusPart(PATTERN_KINDS[0], 6, 0.5, 0.9, 0.1, (1, 3), 0.01, head.examples)
    return replace(result, heads=(replace(head, parts=(group, group)), *result.heads[1:]))


LIBRARY: dict[str, Callable[[Saved], Showable]] = {
    "a film": lambda small: library.film([trace("I am", seed=seed) for seed in (1, 2)]),
    "weights of another library": lambda small: library.from_weights(
        np.full((1, 2, 2), 0.5), tokens=["I", "am"]
    ),
    "a model with biases": lambda small: trace_model(add_bias(untrained_model(norm="post"))),
    "scores alone": lambda small: compare_scores(torch.eye(2)[None], 4),
    "a metric": lambda small: library.inspect(
        "The animal", model=str(small("gpt2")), by="effect", metric=lambda out: out.logits[0, -1, 7]
    ),
    "two groups of lines": lambda small: with_two_groups(
        library.survey(["the animal was tired", "it was too"], model=str(small("bert")))
    ),
}
CALLS = {  # command lines, in which @bert is the folder of a small model, and names of LIBRARY
    "trace": (
        f"run '{TEXT}'",
        f"run '{TEXT}' --variant multi-head --positions rotary --dropout 0.5",
        f"run '{TEXT}' --layers 2 --memory 'you are' --positions learned --norm pre",
        f"run '{TEXT}' --positions alibi --soft-cap 2 --heads 2 --kv-heads 1",
        f"run '{TEXT}' --scoring additive --embeddings vectors.npy",
        f"run '{TEXT}' --query am",
        "run --given given.json",
        "run 'the key near the old cabinets' --model agreement --without L0H0",
        f"steps {READ} --model @gpt2 --without L0H0",
        f"steps '{TEXT}' --query am --key I",
        "example show simplified",
        "weights of another library",
        "a model with biases",
    ),
    "inspection": (
        f"inspect {READ} --model @bert",
        f"run {READ} --model @gpt2 --generate 2 --without L0H0",
        f"run {READ} --model @t5",
        f"run {READ} --model '@gpt-oss'",
        f"inspect {READ} --model @bert --query animal",
        f"inspect {READ} --model @bert --words --from tired --to animal",
        f"inspect {READ} --model @bert --merge rollout",
        f"inspect {READ} --model @bert --weigh norm --layer 1",
        f"inspect {READ} --model @bert --by effect",
        f"inspect {READ} --model @gpt2 --by effect --pairs 2",
        "a metric",
    ),
    "segments": (
        f"inspect {PROMPT} --model @bert --segments sentences --without-segment 1",
        f"inspect {PROMPT} --model @gpt2 --segments sentences --generate 2",
        f"run {PROMPT} --model @gpt2 --segments sentences --query was",
    ),
    "segment-comparison": (f"compare {PROMPT} 'It slept. It' --model @gpt2 --segments sentences",),
    "comparison": (
        f"compare '{TEXT}'",
        f"compare '{TEXT}' --by mask",
        f"compare '{TEXT}' --by heads --values 1,2 --query am",
        f"compare '{TEXT}' --by temperature --repeats 4",
        f"compare '{TEXT}' --by dim --values 4,8 --curves",
        f"compare '{TEXT}' --by tokenizer --values words,chars",
        "compare --given scores.json --by temperature",
        "scores alone",
    ),
    "trace-comparison": (
        f"compare {READ} 'The animal was wide' --model @bert",
        f"compare {READ} --model @bert --model @gpt2",
        f"compare {READ} --model @gpt2 --by dtype",
    ),
    "checkpoint-comparison": (f"compare {READ} --checkpoints 'run/checkpoint-*'",),
    "learning-comparison": (f"compare {CHOICES} --by layers --repeats 2",),
    "window": (f"run '{TEXT}' --window 2:3", f"run {READ} --model @gpt2 --window 2:3,1:4"),
    "received": (f"run '{TEXT}' --show received", f"run {READ} --model @bert --show received"),
    "long-text": (
        f"run '{TEXT}' --stream --memory 'you are'",
        f"run '{TEXT}' --stream --query am",
        f"inspect {READ} --model @bert --stream --layer 0 --head 1",
    ),
    "long-row": (f"steps '{TEXT}' --stream --query am",),
    "long-heads": (f"run {READ} --model @gpt2 --stream", f"inspect {READ} --model @bert --stream"),
    "long-comparison": (
        f"compare '{TEXT}' --stream --by mask",
        f"compare '{TEXT}' --stream --by variant",
    ),
    "long-row-comparison": (f"compare '{TEXT}' --stream --by mask --query am",),
    "survey": ("survey --file texts.txt --model @bert", "two groups of lines"),
    "pairs": ("pairs pairs.tsv --model @bert",),
    "effects": ("heads --model @bert --texts texts.txt --pairs 2",),
    "ranking": ("heads --model agreement",),
    "training": ("learn reverse --steps 3 --batch 4",),
    "film": ("a film",),
    "quiz": ("quiz", f"quiz {READ} --model @bert"),
}
LINES = [(kind, line) for kind, lines in CALLS.items() for line in lines]


def write_inputs(folder: Path, gpt2: Path) -> None:
    """Write what the calls read: texts, pairs, matrices, and two checkpoints."""
    texts = ("the animal was tired", "it was too", "the street did cross the animal")
    (folder / "texts.txt").write_text("\n".join(texts * 2))
    pair = [f"the animal {verb} cross the street because it was too" for verb in ("did", "was")]
    (folder / "pairs.tsv").write_text("\t".join((*pair, "it", "animal", "street")))
    given = {
        "scores": {"scores": [[1, 2], [3, 4]], "tokens": ["a", "b"]},
        "given": {
            "embeddings": [[1, 2], [3, 4]],
            "mask": [[0, -math.inf], [0, 0]],
            "key_tokens": ["a", "b"],
        },
    }
    for name, arrays in given.items():
        (folder / f"{name}.json").write_text(json.dumps(arrays))
    np.save(folder / "vectors.npy", np.ones((50_257, 4), dtype=np.float32))
    for step in (1, 2):
        shutil.copytree(gpt2, folder / "run" / f"checkpoint-{step}")


@pytest.fixture(scope="module")
def documents(small_transformer: Saved, tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """The function that returns what a command line prints with --json, or the numbers of a result
    of the library, computed once.
    """
    folder = tmp_path_factory.mktemp("documents")
    write_inputs(folder, small_transformer("gpt2"))

    @cache
    def document(line: str) -> Document:
        if line in LIBRARY:
            with unchecked():
                return LIBRARY[line](small_transformer).to_dict()
        words = [
            str(small_transformer(word.removeprefix("@"))) if word.startswith("@") else word
            for word in shlex.split(line)
        ]
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), unchecked():
            patch.chdir(folder)
            assert run_command_line([*words, "--json"]) == 0
        contents: Document = json.loads(output.buffer.getvalue())
        return contents

    return document


def exact(schema: Any) -> Any:
    """Return the schema without room for fields that it does not describe."""
    if isinstance(schema, list):
        return [exact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if schema.get("additionalProperties") is True else {}
    return {name: exact(value) for name, value in schema.items()} | closed


@cache
def exact_validator(kind: str) -> Any:
    return Draft202012Validator(exact(document_schema(kind)))


def problems(kind: str, document: Document) -> list[str]:
    errors = exact_validator(kind).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


@pytest.mark.slow_table("calls", keep=10)
@pytest.mark.parametrize(("kind", "line"), LINES)
def test_every_document_is_as_its_schema_says_and_has_nothing_more(
    kind: str, line: str, documents: Documents
) -> None:
    document = documents(line)

    assert document["kind"] == kind
    assert problems(kind, document) == []


def test_every_kind_is_written_by_some_call() -> None:
    assert {*CALLS} == {*document_kinds()}


@pytest.mark.parametrize("kind", document_kinds())
def test_every_schema_is_one(kind: str) -> None:
    Draft202012Validator.check_schema(document_schema(kind))


def test_one_schema_matches_documents_of_every_kind_and_no_other_object(
    documents: Documents,
) -> None:
    schema = all_documents_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    window, quiz = (documents(CALLS[kind][0]) for kind in ("window", "quiz"))

    assert validator.is_valid(window)
    assert validator.is_valid(quiz)
    assert not validator.is_valid(window | {"kind": "quiz"})
    assert not validator.is_valid({})


def test_a_field_of_a_later_version_is_no_error(documents: Documents) -> None:
    document = documents(CALLS["window"][0]) | {"later": 1}

    assert Draft202012Validator(document_schema("window")).is_valid(document)
    assert problems("window", document) == [
        "$: Additional properties are not allowed ('later' was unexpected)"
    ]


def shortened(value: Any) -> Any:
    """Return a document with at most two items in each list, so that a check takes no time."""
    if isinstance(value, list):
        return [shortened(item) for item in value[:2]]
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return value


def described_objects(
    table: str, schema: Document, value: Any, definitions: Document
) -> Iterator[tuple[str, Document]]:
    """Yield each object in a document after the name of the table that describes it."""
    for form in schema.get("anyOf", ()) if value is not None else ():
        yield from described_objects(table, form, value, definitions)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from described_objects(name, definitions[name], value, definitions)
    elif isinstance(value, list):
        for item in value:
            yield from described_objects(table, schema.get("items", {}), item, definitions)
    elif isinstance(value, dict):
        fields = schema.get("properties", {})
        if fields:
            yield table, value
        others = schema.get("additionalProperties", {})
        for name, item in value.items():
            inner = fields.get(name, others if isinstance(others, dict) else {})
            yield from described_objects(table, inner, item, definitions)


def objects_of(kind: str, line: str, documents: Documents) -> Iterator[tuple[str, Document]]:
    schema = document_schema(kind)
    return described_objects(kind, schema, shortened(documents(line)), schema["$defs"])


def with_wrong_first_number(value: list[Any]) -> list[Any]:
    """Return nested lists whose first innermost item is of a type that no field allows."""
    inner = value[0] if value else None
    first = with_wrong_first_number(inner) if isinstance(inner, list) else {"a": None}
    return [first, *value[1:]]


def damaged(schema: Document, value: Document) -> Iterator[tuple[str, Document]]:
    """Yield objects that differ from a right one in a field, which is missing or of another type,
    with what is wrong.
    """
    for name in schema["required"]:
        yield f"without {name}", {key: item for key, item in value.items() if key != name}
    for name in value:
        if {*schema["properties"][name]} == {"description"}:
            continue  # of any type
        wrong: Any = [{"a": None}] if isinstance(value[name], dict | str | None) else "a text"
        yield f"{name} of another type", value | {name: wrong}
        if isinstance(value[name], list):
            yield f"an item of {name}", value | {name: with_wrong_first_number(value[name])}


@pytest.mark.slow_table("calls", keep=4)
@pytest.mark.parametrize("kind", CALLS)
def test_a_document_with_a_wrong_or_a_missing_field_is_refused(
    kind: str, documents: Documents
) -> None:
    whole = exact_validator(kind).schema
    tables = {kind: whole, **whole["$defs"]}
    for table, value in objects_of(kind, CALLS[kind][0], documents):
        schema = {**tables[table], "$defs": whole["$defs"]}
        validator = exact_validator(kind).evolve(schema=schema)
        assert validator.is_valid(value)
        accepted = [what for what, wrong in damaged(schema, value) if validator.is_valid(wrong)]
        assert accepted == []


@pytest.mark.slow("calls")
def test_every_field_of_a_schema_is_in_some_document(documents: Documents) -> None:
    tables = all_documents_schema()["$defs"]
    about = {
        table: {name: field["description"] for name, field in schema["properties"].items()}
        for table, schema in tables.items()
    }  # which is the same for a field that several tables take over from one
    described = {field for fields in about.values() for field in fields.items()}
    present = {
        (name, about[table][name])
        for kind, line in LINES
        for table, value in objects_of(kind, line, documents)
        for name in value
    }

    assert sorted(described - present) == []


def test_the_kinds_are_listed_with_a_sentence_and_a_command(attnviz: Attnviz) -> None:
    listing = " ".join(attnviz("schema").out.split())

    for kind, (about, command) in document_kinds().items():
        assert f"{kind} {about} {command}" in listing


def test_the_command_prints_the_schema_of_a_kind_and_of_all(attnviz: Attnviz) -> None:
    assert json.loads(attnviz("schema", "trace").out) == document_schema("trace")
    assert json.loads(attnviz("schema", "all").out) == all_documents_schema()


def test_an_unknown_kind_is_refused_with_the_nearest(attnviz: Attnviz) -> None:
    result = attnviz("schema", "serveys")

    problem, hint = result.err.splitlines()
    assert (result.status, problem) == (2, "error: there is no kind of document 'serveys'")
    assert hint == (f" hint: did you mean 'survey'? known: {', '.join([*document_kinds(), 'all'])}")


def test_a_file_holds_what_json_prints(
    attnviz: Attnviz, tmp_path: Path, documents: Documents
) -> None:
    path = tmp_path / "window.json"
    assert attnviz("run", TEXT, "--window", "2:3", "-o", str(path)).status == 0
    written = json.loads(path.read_text(encoding="utf-8"))

    assert problems("window", written) == []
    printed = documents(CALLS["window"][0])
    assert {**written, "attnviz": None} == {**printed, "attnviz": None}


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_trace_that_was_saved_without_its_kind_is_read_again(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"saved{suffix}"
    result = trace("I am")
    path.write_bytes(render(result.view(), suffix))
    if suffix == ".json":
        document = json.loads(path.read_text(encoding="utf-8"))
        del document["kind"]
        path.write_text(json.dumps(document), encoding="utf-8")
    else:
        with np.load(path) as arrays:
            np.savez(path, **{name: arrays[name] for name in arrays if name != "kind"})

    assert library.load(str(path)).layers[0].weights.whole().equal(result.layers[0].weights.whole())


@pytest.mark.parametrize("method", [View.to_dataframe, Showable.to_dataframe])
def test_a_type_checker_knows_that_a_table_is_one_of_pandas(method: Callable[..., object]) -> None:
    assert signature(method).return_annotation == "pandas.DataFrame"


def test_the_page_on_documents_shows_how_to_validate_one(
    documents: Documents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "numbers.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("trace.schema.json").write_text(json.dumps(document_schema("trace")))
    document = documents(CALLS["trace"][0])

    Path("numbers.json").write_text(json.dumps(document))
    exec(code, {})
    Path("numbers.json").write_text(json.dumps(document | {"tokens": "I am"}))
    with pytest.raises(ValidationError):
        exec(code, {})
