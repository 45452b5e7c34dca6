"""`attnviz schema`: each document that a command writes matches the schema of its kind, exactly."""

from __future__ import annotations

import io
import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from copy import deepcopy
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import attnviz as library
from attnviz import trace
from attnviz.cli.app import run_command_line
from attnviz.renderers import render
from attnviz.traces.result import Showable
from attnviz.views.documents import all_documents_schema, document_kinds, document_schema
from attnviz.views.view import View
from tests.conftest import Attnviz
from tests.small_transformers import Saved

Document = dict[str, Any]
Documents = Callable[[str], Document]

TEXT = "I am learning this"
READ = "'The animal was tired'"
CHOICES = "--learn reverse --steps 3 --batch 4"
CALLS = {  # @bert and @gpt2 are folders of small models
    "trace": (
        f"run '{TEXT}'",
        f"run '{TEXT}' --variant multi-head --positions rotary --dropout 0.5",
        f"run '{TEXT}' --layers 2 --memory 'you are' --positions learned --norm pre",
        f"run '{TEXT}' --positions alibi --soft-cap 2 --heads 2 --kv-heads 1",
        f"run '{TEXT}' --scoring additive --embeddings vectors.npy",
        f"run '{TEXT}' --query am",
        "run --given given.json",
        "run 'the key near the old cabinets' --model agreement --without L0H0",
        f"run {READ} --model @gpt2 --generate 2 --without L0H0",
        f"run {READ} --model @bert",
        f"run {READ} --model @t5",
        f"run {READ} --model '@gpt-oss'",
        f"steps '{TEXT}' --query am --key I",
        "example show simplified",
    ),
    "inspection": (
        f"inspect {READ} --model @bert",
        f"inspect {READ} --model @bert --query animal",
        f"inspect {READ} --model @bert --words --from tired --to animal",
        f"inspect {READ} --model @bert --merge rollout",
        f"inspect {READ} --model @bert --weigh norm --layer 1",
        f"inspect {READ} --model @bert --by effect",
        f"inspect {READ} --model @gpt2 --by effect --pairs 2",
    ),
    "comparison": (
        f"compare '{TEXT}'",
        f"compare '{TEXT}' --by mask",
        f"compare '{TEXT}' --by heads --values 1,2 --query am",
        f"compare '{TEXT}' --by temperature --repeats 4",
        f"compare '{TEXT}' --by dim --values 4,8 --curves",
        f"compare '{TEXT}' --by tokenizer --values words,chars",
        f"compare {READ} --model @gpt2 --by dtype",
    ),
    "trace-comparison": (
        f"compare {READ} 'The animal was wide' --model @bert",
        f"compare {READ} --model @bert --model @gpt2",
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
    "survey": ("survey --file texts.txt --model @bert",),
    "pairs": ("pairs pairs.tsv --model @bert",),
    "effects": ("heads --model @bert --texts texts.txt --pairs 2",),
    "ranking": ("heads --model agreement",),
    "training": ("learn reverse --steps 3 --batch 4",),
    "quiz": ("quiz", f"quiz {READ} --model @bert"),
}
LIBRARY: dict[str, Callable[[], Showable]] = {
    "film": lambda: library.film([trace("I am", seed=seed) for seed in (1, 2)]),
    "trace": lambda: library.from_weights(np.full((1, 2, 2), 0.5), tokens=["I", "am"]),
}
LINES = [(kind, line) for kind, lines in CALLS.items() for line in lines]


def write_inputs(folder: Path, gpt2: Path) -> None:
    """Write what the calls read: texts, pairs, matrices, and two checkpoints."""
    texts = ("the animal was tired", "it was too", "the street did cross the animal")
    (folder / "texts.txt").write_text("\n".join(texts * 4))
    sentence = "the {} did cross the {} because it was too"
    pair = (sentence.format("animal", "street"), sentence.format("street", "animal"))
    (folder / "pairs.tsv").write_text("\t".join((*pair, "it", "animal", "street")))
    given = {
        "embeddings": [[1, 2], [3, 4]],
        "mask": [[0, "-inf"], [0, 0]],
        "key_tokens": ["a", "b"],
    }
    (folder / "given.json").write_text(json.dumps(given).replace('"-inf"', "-Infinity"))
    np.save(folder / "vectors.npy", np.ones((50_257, 4), dtype=np.float32))
    for step in (1, 2):
        shutil.copytree(gpt2, folder / "run" / f"checkpoint-{step}")


@pytest.fixture(scope="module")
def documents(small_transformer: Saved, tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """The function that returns what a command line prints with --json, computed once."""
    folder = tmp_path_factory.mktemp("documents")
    write_inputs(folder, small_transformer("gpt2"))

    @cache
    def document(line: str) -> Document:
        words = [
            str(small_transformer(word.removeprefix("@"))) if word.startswith("@") else word
            for word in shlex.split(line)
        ]
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(output):
            patch.chdir(folder)
            assert run_command_line([*words, "--json"]) == 0
        contents: Document = json.loads(output.buffer.getvalue())  # type: ignore[attr-defined]
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


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_every_document_is_as_its_schema_says_and_has_nothing_more(
    kind: str, line: str, documents: Documents
) -> None:
    document = documents(line)

    assert document["kind"] == kind
    assert problems(kind, document) == []


@pytest.mark.parametrize("kind", LIBRARY)
def test_documents_of_the_library_match_their_schemas_too(kind: str) -> None:
    document = LIBRARY[kind]().to_dict()

    assert document["kind"] == kind
    assert problems(kind, document) == []


def test_every_kind_is_written_by_some_call() -> None:
    assert {*CALLS, *LIBRARY} == {*document_kinds()}


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


def objects_with_fields(
    schema: Document, value: Any, definitions: Document
) -> Iterator[tuple[Document, Document]]:
    """Yield each object in a document with the schema that lists its fields, of a list the first
    and the last item alone.
    """
    for form in schema.get("anyOf", ()) if value is not None else ():
        yield from objects_with_fields(form, value, definitions)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from objects_with_fields(definitions[name], value, definitions)
    elif isinstance(value, list) and value:
        for item in (value[0], value[-1]):
            yield from objects_with_fields(schema.get("items", {}), item, definitions)
    elif isinstance(value, dict):
        fields = schema.get("properties", {})
        if fields:
            yield schema, value
        others = schema.get("additionalProperties", {})
        for name, item in value.items():
            inner = fields.get(name, others if isinstance(others, dict) else {})
            yield from objects_with_fields(inner, item, definitions)


def damaged(schema: Document, value: Document) -> Iterator[tuple[str, Document]]:
    """Yield objects that differ from a right one in one field, which is missing or of another
    type."""
    for name in schema["required"]:
        yield f"without {name}", {key: item for key, item in value.items() if key != name}
    for name, field in schema["properties"].items():
        if name in value and {*field} - {"description"}:
            other: Any = [{"a": "b"}] if isinstance(value[name], dict | str) else "another type"
            yield f"{name} of another type", value | {name: other}
            if isinstance(value[name], list) and value[name]:
                items = deepcopy(value[name])
                innermost = items
                while isinstance(innermost[0], list) and innermost[0]:
                    innermost = innermost[0]
                innermost[0] = {"a": "b"}
                yield f"an item of {name} of another type", value | {name: items}


@pytest.mark.parametrize("kind", CALLS)
def test_a_document_with_a_wrong_or_a_missing_field_is_refused(
    kind: str, documents: Documents
) -> None:
    schema = exact_validator(kind).schema
    objects = [*objects_with_fields(schema, documents(CALLS[kind][0]), schema["$defs"])]

    assert len(objects) > 1
    for part, value in objects:
        validator = exact_validator(kind).evolve(schema={**part, "$defs": schema["$defs"]})
        assert validator.is_valid(value)
        accepted = [what for what, wrong in damaged(part, value) if validator.is_valid(wrong)]
        assert accepted == []


def test_every_field_of_the_schemas_is_in_some_document(documents: Documents) -> None:
    known, present = set[str](), set[str]()
    for kind, line in LINES:
        schema = document_schema(kind)
        for name, part in {kind: schema, **schema["$defs"]}.items():
            known |= {f"{name}.{field}" for field in part["properties"]}
        by_fields = {
            tuple(part["properties"]): name
            for name, part in {kind: schema, **schema["$defs"]}.items()
        }
        for part, value in objects_with_fields(schema, documents(line), schema["$defs"]):
            present |= {f"{by_fields[tuple(part['properties'])]}.{field}" for field in value}

    assert sorted(known - present) == []


def test_the_kinds_are_listed_with_a_sentence_and_a_command(attnviz: Attnviz) -> None:
    listing = " ".join(attnviz("schema").out.split())

    for kind, (about, command) in document_kinds().items():
        assert f"{kind} {about} ({command})" in listing


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


@pytest.mark.parametrize("owner", [View, Showable])
def test_a_type_checker_knows_what_a_table_of_pandas_is(owner: type) -> None:
    method: Callable[..., object] = owner.to_dataframe  # type: ignore[attr-defined]

    assert signature(method).return_annotation == "pandas.DataFrame"
