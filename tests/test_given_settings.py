"""A setting that is given counts as given, also where it equals the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from attnviz import (
    compare,
    compare_checkpoints,
    compare_models,
    compare_sentences,
    head_effects,
    inspect,
    pairs,
    steps,
    survey,
    trace,
)
from attnviz.errors import AttnvizError
from attnviz.traces.models.card import CHANGEABLE_SETTINGS, RUN_SETTINGS
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import SETTINGS_FOR_TRAINED, TRAINED_ONLY_SETTINGS, Settings
from tests.conftest import Attnviz
from tests.refusals import assert_refused

SMALL, TRAINED = "agreement", "minilm"
FIRST, SECOND = "the old keys near the small cabinet", "the old dogs near the small cabinet"
DEFAULTS: Mapping[str, Any] = {
    name: field.default
    for name, field in Settings.__dataclass_fields__.items()
    if field.default is not None  # None means "as the variant, or the model, has it"
}
DECIDED_BY_SMALL = [
    name
    for name in DEFAULTS
    if name not in (*RUN_SETTINGS, *CHANGEABLE_SETTINGS, *TRAINED_ONLY_SETTINGS)
]
DECIDED_BY_TRAINED = [name for name in DEFAULTS if name not in SETTINGS_FOR_TRAINED]
CALLS: Mapping[str, Callable[..., object]] = {
    "trace": lambda model, **given: trace(FIRST, model=model, **given),
    "steps": lambda model, **given: steps(FIRST, model=model, **given),
    "compare": lambda model, **given: compare(FIRST, model=model, by="temperature", **given),
    "inspect": lambda model, **given: inspect(FIRST, model=model, **given),
    "compare_sentences": lambda model, **given: compare_sentences(
        FIRST, SECOND, model=model, **given
    ),
    "compare_models": lambda model, **given: compare_models(FIRST, model, model, **given),
}
TEXTS_CALLS: Mapping[str, Callable[..., object]] = {  # of trained models alone
    "survey": lambda **given: survey([FIRST], **given),
    "pairs": lambda **given: pairs([(FIRST, SECOND, "near", "old", "small")], **given),
    "head_effects": lambda **given: head_effects([FIRST], **given),
}


@pytest.mark.parametrize("name", DECIDED_BY_SMALL)
@pytest.mark.parametrize("call", CALLS)
def test_a_small_model_refuses_every_other_value_than_its_own_also_the_default(
    call: str, name: str
) -> None:
    given = DEFAULTS[name]
    if given == load_card(SMALL)._own_value(name):
        CALLS[call](SMALL, **{name: given})  # which says the same as the model
        return
    with pytest.raises(AttnvizError) as refusal:
        CALLS[call](SMALL, **{name: given})
    assert refusal.value.about == name


@pytest.mark.parametrize("name", DECIDED_BY_TRAINED)
@pytest.mark.parametrize("call", [name for name in CALLS if name != "compare"])
def test_a_trained_model_refuses_all_that_it_decides_also_the_default(call: str, name: str) -> None:
    with pytest.raises(AttnvizError, match="decides that itself") as refusal:
        CALLS[call](TRAINED, **{name: DEFAULTS[name]})
    assert refusal.value.about == name


@pytest.mark.parametrize("call", TEXTS_CALLS)
def test_a_model_that_reads_many_texts_refuses_the_default_tokenizer(call: str) -> None:
    with pytest.raises(AttnvizError, match="decides that itself"):
        TEXTS_CALLS[call](tokenizer="gpt2")


def test_checkpoints_refuse_what_their_models_decide(tmp_path: Path) -> None:
    folders = [tmp_path / f"step-{number}" for number in (1, 2)]
    for folder in folders:
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
        (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(AttnvizError, match="decides that itself"):
        compare_checkpoints(FIRST, [*folders], positions="none")


def test_a_trace_that_is_traced_again_keeps_what_its_model_decides() -> None:
    model_trace = trace(FIRST, model=SMALL)
    for positions in ("rotary", "none"):
        with pytest.raises(AttnvizError, match="has learned"):
            compare(model_trace, by="temperature", positions=positions)


def test_none_is_not_given() -> None:
    assert trace(FIRST, model=SMALL, heads=None, layers=None).model is not None


@pytest.mark.parametrize("option", ["--positions none", "--variant scaled", "-t gpt2"])
def test_a_trained_model_refuses_a_typed_default(attnviz: Attnviz, option: str) -> None:
    name = option.split()[0].replace("-t", "--tokenizer").replace("----", "--")
    result = attnviz("run", FIRST, "--model", TRAINED, *option.split())
    assert_refused(
        result,
        f"{name} is given, but the trained model 'minilm' decides that itself",
        f"leave {name} out, or --model",
    )
