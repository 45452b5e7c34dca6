"""What a result of a trained transformer records about the model is true of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from attnviz import (
    compare_models,
    compare_sentences,
    film,
    head_effects,
    inspect,
    pairs,
    steps,
    survey,
    trace,
)
from attnviz.renderers import render
from attnviz.traces.origin import TrainedCard
from attnviz.traces.settings import Settings
from tests.small_transformers import TEXT, Saved

PAIR = ("The animal saw the street", "The animal hid the street", "street", "animal", "The")
RESULTS: dict[str, Callable[..., Any]] = {
    "run": lambda **options: trace(TEXT, **options),
    "inspect": lambda **options: inspect(TEXT, by="effect", layer=0, **options),
    "steps": lambda **options: steps(TEXT, **options),
    "compare": lambda **options: compare_sentences(TEXT, f"{TEXT} now", **options),
    "heads": lambda **options: head_effects([TEXT], layer=0, **options),
    "survey": lambda **options: survey([TEXT], **options),
    "pairs": lambda **options: pairs([PAIR], **options),
    "film": lambda **options: film([trace(text, **options) for text in (TEXT, TEXT)]),
}
# What a record may say: names of settings, facts from the config, and how weights were captured.
BERT_FACTS = {
    "model_type": "bert",
    "tokenizer": "WordPiece",
    "activation": "gelu",
    "layers": 2,
    "heads": 4,
    "kv_heads": 4,
    "head_dim": 4,
    "device": "cpu",
    "dtype": "float32",
    "stored_as": "float32",
}
RANDOM_MODEL_FIELDS = {field.name for field in fields(Settings)} - {
    "tokenizer", "model", "attention", "target", "generate", "truncate", "trust_remote_code",
    "without", "seed", "device", "dtype", "heads", "kv_heads", "head_dim", "layers", "activation",
}  # fmt: skip
INTERNAL_FIELDS = {field.name for field in fields(TrainedCard)} - {
    *BERT_FACTS, "parameters", "in_memory",
}  # fmt: skip


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("command", RESULTS)
def test_a_record_has_the_model_and_nothing_of_random_ones(
    command: str, small_transformer: Saved
) -> None:
    folder = small_transformer("bert")
    view = RESULTS[command](model=folder).view()
    record = json.loads(render(view, ".json"))["attnviz"]["settings"]

    assert not (RANDOM_MODEL_FIELDS | INTERNAL_FIELDS) & {*record}
    assert {name: record[name] for name in BERT_FACTS if name in record}.items() <= (
        BERT_FACTS.items()
    )
    assert {"model", "model_type", "tokenizer", "activation", "device", "dtype"} <= {*record}
    assert record["model"] == folder.name
    page = render(view, ".html").decode()
    assert "<dt>activation</dt><dd>gelu</dd>" in page
    assert "<dd>relu</dd>" not in page


def test_rotary_positions_and_options_of_the_model_are_recorded(small_transformer: Saved) -> None:
    result = trace(TEXT, model=small_transformer("llama"), without="L0H1")
    record = result.provenance.settings
    assert (record["positions"], record["without"]) == ("rotary-halves", "L0H1")
    assert record["activation"] == "silu"
    assert record["kv_heads"] == 2


def test_two_models_in_one_record_have_both_values_where_they_differ(
    small_transformer: Saved,
) -> None:
    models = [small_transformer(name) for name in ("gpt2", "gpt2 scaled by layer")]
    provenance = compare_models(TEXT, models[0], models[1]).view().provenance
    assert provenance is not None
    record = provenance.settings
    assert record["model"] == [model.name for model in models]
    assert record["model_type"] == "gpt2"
