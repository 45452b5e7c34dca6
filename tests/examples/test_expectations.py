"""What a lesson may expect of layers, cross-attention and blocks, and with which tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from attnviz import Trace, trace
from attnviz.attention.block import NORM_EPSILON
from attnviz.traces.archive import trace_contents
from attnviz.traces.parts import EXPECTATION_TYPES, GIVEN_NAMES, PARTS_BY_STEP
from attnviz.traces.settings import Settings
from attnviz.traces.toml_reader import kinds_by_class
from attnviz.wings.examples import checking
from attnviz.wings.examples.example import Example
from attnviz.wings.examples.example_files import (
    EXAMPLE_SETTINGS,
    SETTINGS_NOT_IN_EXAMPLES,
    read_example,
)
from tests.conftest import Attnviz

LESSON_START = """\
title = "Two blocks, and a second sentence"
text = "hot tea"

[settings]
tokenizer = "words"
dim = 4
heads = 2
layers = 2
memory = "cold milk now"

"""


@pytest.fixture(scope="module")
def two_layer_trace() -> Trace:
    return trace("hot tea", tokenizer="words", dim=4, heads=2, layers=2, memory="cold milk now")


def check_lesson(
    attnviz: Attnviz, folder: Path, expectation: str, start: str = LESSON_START
) -> Any:
    path = folder / "lesson.toml"
    path.write_text(f"{start}[[expect]]\n{expectation}\n")
    return attnviz("example", "check", str(path))


def toml_matrix(numbers: torch.Tensor) -> str:
    return str(np.round(numbers.numpy().astype(float), 4).tolist())


@pytest.mark.slow_table("documentation", keep=4)
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("step", ["softmax", "cross-softmax", "outputs", "cross-values"])
def test_each_layer_can_be_held_against_its_own_digits(
    attnviz: Attnviz, tmp_path: Path, two_layer_trace: Trace, layer: int, step: str
) -> None:
    layer_trace = two_layer_trace.layers[layer]
    assert layer_trace.cross is not None
    numbers = {
        "softmax": layer_trace.attended.weights,
        "cross-softmax": layer_trace.cross.attended.weights,
        "outputs": layer_trace.outputs,
        "cross-values": layer_trace.cross.values,
    }[step]
    values = f"step = '{step}'\nvalues = {toml_matrix(numbers)}\ntolerance = 0.00006\n"

    result_for_layer = check_lesson(attnviz, tmp_path, f"{values}layer = {layer}")
    result_for_other_layer = check_lesson(attnviz, tmp_path, f"{values}layer = {1 - layer}")

    count = numbers.numel()
    assert f"✓ {step}, layer {layer}: {count} numbers to within 6e-05\n" in result_for_layer.out
    assert (result_for_layer.status, result_for_other_layer.status) == (0, 1)


def test_without_a_layer_the_last_is_meant(
    attnviz: Attnviz, tmp_path: Path, two_layer_trace: Trace
) -> None:
    values = toml_matrix(two_layer_trace.layers[1].outputs)

    result = check_lesson(
        attnviz, tmp_path, f"step = 'outputs'\ntolerance = 0.00006\nvalues = {values}"
    )

    assert result.status == 0, result.out


def test_every_part_of_a_block_is_the_one_of_a_data_file(two_layer_trace: Trace) -> None:
    nested_arrays = trace_contents(two_layer_trace)["layers"][1]["block"]
    arrays_by_name = {
        f"block.{name}.{inner}" if isinstance(each, dict) else f"block.{name}": array
        for name, each in nested_arrays.items()
        for inner, array in (each.items() if isinstance(each, dict) else [("", each)])
        if not isinstance(array, str)
    }

    parts = {name: part for name, part in EXPECTATION_TYPES.items() if name.startswith("block.")}

    assert parts.keys() == arrays_by_name.keys()
    for name, part in parts.items():
        tensor = part.find(two_layer_trace, two_layer_trace.layers[1])
        assert tensor is not None
        assert np.array_equal(tensor.numpy(), arrays_by_name[name]), name


def test_a_block_put_together_of_what_can_be_expected_is_torchs(two_layer_trace: Trace) -> None:
    layer = two_layer_trace.layers[0]

    def find_part(name: str) -> torch.Tensor:
        tensor = EXPECTATION_TYPES[f"block.{name}"].find(two_layer_trace, layer)
        assert tensor is not None
        return tensor

    residual_sum = find_part("attention.inputs") + find_part("attention.made")
    norm = functional.layer_norm(
        residual_sum, (4,), find_part("attention.gain"), find_part("attention.shift"), NORM_EPSILON
    )
    hidden = functional.relu(find_part("feed_forward.read") @ find_part("w_1") + find_part("b_1"))
    assert torch.allclose(find_part("attention.outputs"), norm, atol=1e-6)
    assert torch.allclose(find_part("hidden"), hidden, atol=1e-6)
    feed_forward_output = find_part("hidden") @ find_part("w_2") + find_part("b_2")
    assert torch.allclose(find_part("feed_forward.made"), feed_forward_output, atol=1e-6)


SETTINGS_BY_NAME: dict[str, dict[str, Any]] = {
    "blocks": {"layers": 2, "heads": 2, "memory": "cold milk now", "norm": "pre"},
    "rotary": {"positions": "rotary", "causal": True, "dropout": 0.5},
    "alibi": {"positions": "alibi", "heads": 2},
    "sinusoidal": {"positions": "sinusoidal", "variant": "multi-head"},
    "plain": {"variant": "plain"},
}


@pytest.mark.parametrize("name", SETTINGS_BY_NAME)
def test_what_can_be_expected_has_the_sides_that_its_row_names(name: str) -> None:
    trace_of_row = trace("hot tea", tokenizer="words", dim=4, **SETTINGS_BY_NAME[name])

    for part in EXPECTATION_TYPES.values():
        tensor = part.find(trace_of_row, trace_of_row.layers[0])
        assert tensor is None or tensor.ndim == len(part.sides.split()), part


@pytest.mark.parametrize(
    "name", sorted(name for name in EXPECTATION_TYPES if name.startswith("cross-"))
)
def test_a_step_of_cross_attention_is_that_of_the_other_layer(
    name: str, two_layer_trace: Trace
) -> None:
    layer = two_layer_trace.layers[0]
    assert layer.cross is not None

    cross_tensor = EXPECTATION_TYPES[name].find(two_layer_trace, layer)
    own_tensor = PARTS_BY_STEP[name.removeprefix("cross-")].find(two_layer_trace, layer.cross)

    assert (cross_tensor is None and own_tensor is None) or torch.equal(cross_tensor, own_tensor)  # type: ignore[arg-type]


def test_a_token_of_the_second_sentence_names_a_row_of_its_keys(
    attnviz: Attnviz, tmp_path: Path, two_layer_trace: Trace
) -> None:
    cross = two_layer_trace.layers[0].cross
    assert cross is not None
    assert cross.keys is not None
    key_of_milk = toml_matrix(cross.keys[:, 1])

    expectation = f"layer = 0\ntolerance = 0.00006\nvalues = {key_of_milk}"
    result = check_lesson(attnviz, tmp_path, f"step = 'cross-keys'\nquery = 'milk'\n{expectation}")
    result_for_other_token = check_lesson(
        attnviz, tmp_path, f"step = 'cross-keys'\nquery = 'tea'\n{expectation}"
    )

    assert "✓ cross-keys of 2 milk, layer 0: 4 numbers" in result.out
    assert result_for_other_token.status == 2
    assert "no token of the sentence is 'tea'" in result_for_other_token.err


CLAIMS_OF_CROSS_ATTENTION = {
    "rows sum to 1": "step = 'cross-softmax'\nclaim = 'rows sum to 1'\nlayer = 1",
    "loops agree": "step = 'cross-context'\nclaim = 'loops agree'\nlayer = 0",
}


@pytest.mark.parametrize("claim", CLAIMS_OF_CROSS_ATTENTION)
def test_a_claim_can_be_made_of_any_attention(attnviz: Attnviz, tmp_path: Path, claim: str) -> None:
    result = check_lesson(attnviz, tmp_path, CLAIMS_OF_CROSS_ATTENTION[claim])

    layer = CLAIMS_OF_CROSS_ATTENTION[claim][-1]
    assert f"✓ {claim}, layer {layer}, cross-attention: " in result.out


@pytest.mark.parametrize("claim", ["context is of the past alone", "context is the running mean"])
def test_no_past_is_claimed_of_another_sentence(
    attnviz: Attnviz, tmp_path: Path, claim: str
) -> None:
    result = check_lesson(attnviz, tmp_path, f"step = 'cross-softmax'\nclaim = '{claim}'")

    assert result.status == 1
    assert "there are not as many keys as queries" in result.out


def test_a_sum_of_cross_attention_is_looked_for_there(attnviz: Attnviz, tmp_path: Path) -> None:
    start = LESSON_START.replace("heads = 2", "heads = 1")
    arithmetic = "arithmetic = ['0.1*0.2 = 0.02']"

    own_result = check_lesson(attnviz, tmp_path, f"step = 'context'\n{arithmetic}", start)
    cross_result = check_lesson(attnviz, tmp_path, f"step = 'cross-context'\n{arithmetic}", start)

    assert (own_result.status, cross_result.status) == (1, 1)
    assert "✗ arithmetic of cross-context: not written" in cross_result.out


EXPECTATIONS_OF_NOTHING = {
    "layer": (
        "step = 'softmax'\nlayer = 2\nvalues = [[1]]",
        LESSON_START,
        "there is no layer 2: layers count from 0, and there are 2",
        "write layer = 1",
    ),
    "one layer": (
        "step = 'softmax'\nlayer = 1\nvalues = [[1]]",
        LESSON_START.replace("layers = 2\n", ""),
        "there is no layer 1: layers count from 0, and there is 1",
        "stack some: layers = 2",
    ),
    "no memory": (
        "step = 'cross-softmax'\nclaim = 'rows sum to 1'",
        LESSON_START.partition("memory")[0],
        "'cross-softmax' is about attention to a second sentence, and there is none",
        "give one: memory = ",
    ),
    "no block": (
        "step = 'block.hidden'\nvalues = [[1]]",
        LESSON_START.partition("layers")[0],
        "'block.hidden' is expected, but this example has no such step",
        "it has tokens, embeddings",
    ),
    "matrix": (
        "step = 'w_query'\nquery = 'tea'\nvalues = [1]",
        LESSON_START,
        "'query' names a token, but 'w_query' does not have a row for each token",
        "leave 'query' out",
    ),
    "token": (
        "step = 'softmax'\nquery = 'milk'\nvalues = [1]",
        LESSON_START,
        "no token of the sentence is 'milk'",
        "the tokens are: 1 hot, 2 tea",
    ),
}


@pytest.mark.parametrize("name", EXPECTATIONS_OF_NOTHING)
def test_what_is_expected_of_nothing_is_refused_with_its_line(
    attnviz: Attnviz, tmp_path: Path, name: str
) -> None:
    expectation, start, problem, hint = EXPECTATIONS_OF_NOTHING[name]

    result = check_lesson(attnviz, tmp_path, expectation, f"{start}\n")

    line = start.count("\n") + 3
    path = tmp_path / "lesson.toml"
    error_line, hint_line = result.err.splitlines()
    assert result.status == 2
    assert error_line.startswith(f"error: line {line} of '{path}': {problem}")
    assert hint_line.startswith(f" hint: {hint}")


def test_an_error_names_the_line_of_its_own_expectation(attnviz: Attnviz, tmp_path: Path) -> None:
    claim = "claim = 'rows sum to 1'\nlayer = 5\n"

    result = check_lesson(attnviz, tmp_path, f"{claim}\n[[expect]]\nstep = 'softmax'\nshape = [1]")

    line = LESSON_START.count("\n") + 1
    assert result.err.startswith(f"error: line {line} of '{tmp_path / 'lesson.toml'}': ")


def test_what_is_expected_of_the_same_settings_is_traced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    softmax = "[[expect]]\nstep = 'softmax'\nshape = [2, 2, 2]\n"
    other_settings = "with = { temperature = 2.0 }\n"
    path = tmp_path / "lesson.toml"
    path.write_text(
        f"{LESSON_START}{softmax}{softmax}{softmax}{other_settings}{softmax}{other_settings}{softmax}"
    )
    calls: list[Any] = []
    make = Example.trace

    def record_and_trace(self: Example, *arguments: Any) -> Trace:
        calls.append(arguments)
        return make(self, *arguments)

    monkeypatch.setattr(Example, "trace", record_and_trace)

    findings = list(checking.check_example(read_example(path)))

    assert [finding.passed for finding in findings] == [True] * 5
    assert calls == [(1, {}), (1, {"temperature": 2.0}), (1, {})]


ODD_KEYS = {
    "layer = -1\nvalues = [1]": "'layer' is not a whole number from 0",
    "tolerance = -0.1\nvalues = [1]": "'tolerance' is not a number from 0",
    "tolerance = nan\nvalues = [1]": "'tolerance' is not a number from 0",
    "tolerance = 0.1\nshape = [1]": "'tolerance' says how closely values must be met, and no",
}


@pytest.mark.parametrize("keys", ODD_KEYS)
def test_an_odd_key_of_an_expectation_is_refused_with_its_line(
    attnviz: Attnviz, tmp_path: Path, keys: str
) -> None:
    result = check_lesson(attnviz, tmp_path, f"step = 'softmax'\n{keys}")

    assert result.status == 2
    assert result.err.startswith(
        f"error: line 13 of '{tmp_path / 'lesson.toml'}': {ODD_KEYS[keys]}"
    )


@pytest.mark.parametrize(
    ("expected", "tolerance", "is_met"),
    [(0.5, 0.01, True), (0.511, 0.01, False), (0.489, 0.01, False), (0.51, 0.011, True)],
)
def test_a_tolerance_is_how_far_a_number_may_be(
    expected: float, tolerance: float, is_met: bool
) -> None:
    numbers = torch.tensor([0.5], dtype=torch.float64)

    assert (checking.find_differences([expected], numbers, tolerance) == []) is is_met


def test_a_tolerance_of_nothing_wants_the_number_itself() -> None:
    numbers = torch.tensor([0.5, 0.25])

    assert checking.find_differences([0.5, 0.25], numbers, 0.0) == []
    assert len(checking.find_differences([0.5, 0.2501], numbers, 0.0)) == 1


def test_settings_and_matrices_of_lessons_are_those_that_there_are() -> None:
    """A setting, or a name that can be given, is taken in lessons as soon as there is one."""
    settings = {name for name in vars(Settings()) if name not in SETTINGS_NOT_IN_EXAMPLES}

    assert set(EXAMPLE_SETTINGS) == settings
    assert settings <= kinds_by_class(Settings).keys()
    assert {"tokens", "key_tokens", "vocabulary", "embeddings", "kept"} <= set(GIVEN_NAMES)


def test_matrices_that_differ_in_an_expectation_can_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text("""\
title = "Another matrix"
[settings]
variant = "scaled"
[recipe]
seed = 3
draws = [
  { name = "embeddings", rand = [3, 4] },
  { name = "w_query", rand = [4, 4] },
  { name = "others", rand = [2, 4, 4] },
]
[[expect]]
step = "w_query"
shape = [4, 8]
with = { heads = 2, w_query = { beside = ["others"] }, w_key = { beside = ["others"] } }
""")

    (finding,) = checking.check_example(read_example(path))

    assert finding.passed, finding.about
