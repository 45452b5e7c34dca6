"""Checks each number that an example expects against what is computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Any

from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.parts import EXPECTATION_TYPES
from attnviz.traces.trace import Layer, Trace
from attnviz.wings.examples.claims import CLAIM_TOLERANCE, CLAIMS
from attnviz.wings.examples.example import Example, Expectation
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.sums import SumWriter
from attnviz.wording.surfaces import Surface, naming_options, speaking
from attnviz.wording.words import counted, shape_text

MAX_FLOAT = Decimal(sys.float_info.max)


@dataclass(frozen=True)
class ExpectationFinding:
    """The result of checking one expectation: what was checked, whether it holds, and the
    details."""

    what: str  # "scores of 3 learning"
    passed: bool
    about: str  # "16 numbers", or what differs


@dataclass(frozen=True)
class Difference:
    """A computed number that is not as expected."""

    position: tuple[int, ...]  # from 1
    expected: Decimal | int
    actual: float


def check_example(example: Example) -> Iterator[ExpectationFinding]:
    """Yield the finding of every expectation of an example, in their order.

    Refuses an example that expects nothing, and expectations that cannot be checked.
    """
    if not example.expectations:
        raise AttnvizError(
            f"'{example.path}' expects nothing, so there is nothing to check",
            "add what must come out under [[expect]]",
        )
    last_trace: tuple[tuple[int, Mapping[str, Any]], Trace] | None = None
    for expectation in example.expectations:
        item_and_changes = (expectation.item, expectation.changes)
        if last_trace is None or last_trace[0] != item_and_changes:
            last_trace = item_and_changes, example.trace(*item_and_changes)
        trace = last_trace[1]
        for name, check in CHECKS_BY_KEY.items():
            if getattr(expectation, name) not in (None, ()):
                yield check(example, expectation, trace)


def printed_number_count(example: Example) -> int:
    """Return how many printed numbers an example's computed numbers are compared with."""
    values = [expectation.values for expectation in example.expectations]
    return len(list(_positions_and_numbers(values, ())))


def tolerance(expected: Decimal | int) -> float:
    """Return the allowed error: half a unit of the last printed digit; only rounding for integers.

    It is 0 for infinity and NaN.

    >>> tolerance(Decimal("0.2773")), tolerance(Decimal("1.329e-15")) < 1e-18
    (5e-05, True)
    """
    if isinstance(expected, int):
        return CLAIM_TOLERANCE * 10 * max(1, abs(expected))
    exponent = expected.as_tuple().exponent
    return 0.0 if isinstance(exponent, str) else 0.5 * 10.0**exponent


def find_differences(
    expected: Any, computed: Tensor, allowed: float | None = None
) -> list[Difference]:
    """Return the expected numbers from which the computed ones differ by more than allowed.

    `allowed` is the largest error; None allows half a unit of each number's last digit. Both get a
    little slack for rounding.
    """
    wrong = []
    for position, number in _positions_and_numbers(expected, ()):
        value = computed[position].item()
        allowed_error = tolerance(number) if allowed is None else allowed
        size = 0.0 if isinf(value) else max(1.0, abs(value))
        slack = CLAIM_TOLERANCE * min(allowed_error * 1e3, 1) * size
        if value != float(number) and not abs(value - float(number)) <= allowed_error + slack:
            wrong.append(Difference(tuple(index + 1 for index in position), number, value))
    return wrong


def _check_values(example: Example, expectation: Expectation, trace: Trace) -> ExpectationFinding:
    """Compare a step's computed numbers with the expected ones; refuse expected numbers of another
    shape."""
    computed = _computed_step(example, expectation, trace)
    shape = _expected_shape(example, expectation)
    if tuple(computed.shape) != shape:
        raise _expectation_error(
            example,
            expectation,
            f"{shape_text(shape)} numbers are expected of '{expectation.step}', which is "
            f"{shape_text(computed.shape)}",
            "give numbers of that shape",
        )
    wrong = find_differences(expectation.values, computed, expectation.tolerance)
    about = counted(computed.numel(), "number")
    if wrong:
        about = _differences_text(wrong, computed.numel())
    elif expectation.tolerance is not None:
        about += f" to within {expectation.tolerance:g}"
    return ExpectationFinding(_expectation_text(example, expectation, trace), not wrong, about)


def _differences_text(wrong: Sequence[Difference], count: int) -> str:
    """Return a phrase for the first number that differs, and how many of `count` numbers differ."""
    first = wrong[0]
    digits = _decimals_to_show(first.expected)
    place = _position_text(tuple(index - 1 for index in first.position))
    style = f".{digits}f" if abs(first.actual) >= 10.0**-digits else ".5g"
    text = f"{place}: expected {first.expected}, found {first.actual:{style}}"
    return text if len(wrong) == 1 else f"{text} ({len(wrong)} of {count} numbers differ)"


def _position_text(position: tuple[int, ...]) -> str:
    """Return words for a position in nested lists, counted from 1, or "its values" for ().

    >>> _position_text((0, 2))
    'row 1 column 3'
    """
    sides = len(position)
    names = ("part",) * (sides - 3) + ("head", "row", "column")[max(0, 3 - sides) :]
    parts = [f"{name} {index + 1}" for name, index in zip(names, position, strict=True)]
    return " ".join(parts) or "its values"


def _decimals_to_show(expected: Decimal | int) -> int:
    """Return how many decimals of a computed number to show: one more than the expected number has,
    at most 12."""
    if isinstance(expected, int):
        return 4
    exponent = expected.as_tuple().exponent
    return 4 if isinstance(exponent, str) else min(max(-exponent, 0) + 1, 12)


def _check_shape(example: Example, expectation: Expectation, trace: Trace) -> ExpectationFinding:
    """Compare a step's shape with the expected one; in a batch of several items they are its first
    axis."""
    item_shape = tuple(_computed_step(example, expectation, trace).shape)
    computed_shape = (example.items, *item_shape) if example.items > 1 else item_shape
    passed = computed_shape == expectation.shape
    about = shape_text(expectation.shape or ())
    if not passed:
        about = f"expected {about}, found {shape_text(computed_shape)}"
    what = f"shape of {_expectation_text(example, expectation, trace)}"
    return ExpectationFinding(what, passed, about)


def _check_parameters(
    example: Example, expectation: Expectation, trace: Trace
) -> ExpectationFinding:
    """Check the number of parameters of a matrix; for embeddings those of the whole table."""
    count = _computed_step(example, expectation, trace).numel()
    if expectation.step == "embeddings":
        count = (trace.vocabulary or 0) * trace.embeddings.shape[1]
    expected = expectation.parameters or 0
    passed = count == expected
    about = f"{count:,}" if passed else f"expected {expected:,}, found {count:,}"
    return ExpectationFinding(f"numbers to learn in {expectation.step}", passed, about)


def _check_claim(example: Example, expectation: Expectation, trace: Trace) -> ExpectationFinding:
    """Check a claim about the attention of the expectation's layer (by default the first), in every
    item where the claim is about items."""
    assert expectation.claim is not None
    items = (
        _expected_attention(example, expectation, example.trace(item, expectation.changes), 0)
        for item in range(1, example.items + 1)
    )
    layer = _expected_attention(example, expectation, trace, 0)
    passed, about = CLAIMS[expectation.claim](layer, items)
    what = expectation.claim
    if expectation.layer is not None:
        what += f", layer {expectation.layer}"
    if expectation.step.startswith("cross-"):
        what += ", cross-attention"
    return ExpectationFinding(what, passed, about)


def _check_arithmetic(
    example: Example, expectation: Expectation, trace: Trace
) -> ExpectationFinding:
    """Check that the sums a tutorial prints are among those that `steps --digits 4` writes for a
    token's context vector."""
    row = _expected_row(example, expectation, trace.tokens)
    layer = _expected_attention(example, expectation, trace, 0)
    weights, results = layer.attended.mixing[0, row].tolist(), layer.attended.contexts[0, row]
    columns = zip(layer.values[0].T.tolist(), results.tolist(), strict=True)
    writer = SumWriter("", NumberStyle(4))
    dots = [writer.dot_product(weights, values, result) for values, result in columns]
    lines = {f"{dot_sum.right} = {dot_sum.result}" for dot_sum in dots}
    missing = [line for line in expectation.arithmetic if line.replace("*", "·") not in lines]
    about = f"not written: {missing[0]}" if missing else f"{len(expectation.arithmetic)} sums"
    what = f"arithmetic of {_expectation_text(example, expectation, trace)}"
    return ExpectationFinding(what, not missing, about)


CHECKS_BY_KEY: dict[str, Callable[[Example, Expectation, Trace], ExpectationFinding]] = {
    "values": _check_values,
    "shape": _check_shape,
    "parameters": _check_parameters,
    "claim": _check_claim,
    "arithmetic": _check_arithmetic,
}


def _computed_step(example: Example, expectation: Expectation, trace: Trace) -> Tensor:
    """Return the tensor of a step, or one token's row; without a head axis if there is one head.

    Refuses a step that the example does not have; the default layer is the last.
    """
    layer = _expected_layer(example, expectation, trace, -1)
    part = EXPECTATION_TYPES[expectation.step]
    tensor = part.find(trace, layer)
    if tensor is None:
        tensors = {name: each.find(trace, layer) for name, each in EXPECTATION_TYPES.items()}
        names = [name for name, each in tensors.items() if each is not None]
        problem = f"'{expectation.step}' is expected, but this example has no such step"
        raise _expectation_error(example, expectation, problem, f"it has {', '.join(names)}")
    axes = [*part.axes]
    if expectation.query is not None:
        axis, tokens = _token_axis(example, expectation, trace)
        tensor = tensor.select(axes.index(axis), _expected_row(example, expectation, tokens))
    return tensor[0] if axes[0] == "head" and len(tensor) == 1 else tensor


def _token_axis(example: Example, expectation: Expectation, trace: Trace) -> tuple[str, Tokens]:
    """Return the axis of a step that counts tokens ("token" or "key"), and these tokens.

    Refuses a step without such an axis.
    """
    axes = [*EXPECTATION_TYPES[expectation.step].axes]
    if "token" in axes:
        return "token", trace.tokens
    if "key" in axes:
        return "key", trace.keys_of(_expected_attention(example, expectation, trace, -1))
    problem = f"'query' names a token, but '{expectation.step}' does not have a row for each token"
    hint = "leave 'query' out, and expect the whole step"
    raise _expectation_error(example, expectation, problem, hint)


def _expected_row(example: Example, expectation: Expectation, tokens: Tokens) -> int:
    """Return the position of the expectation's query token, the last if it has none; refuse an
    unknown token."""
    if expectation.query is None:
        return len(tokens) - 1
    try:
        with speaking(Surface.TOML), naming_options(query="query ="):
            return tokens.index(expectation.query, "query")
    except AttnvizError as error:
        raise _expectation_error(example, expectation, str(error), error.hint) from None


def _expected_layer(
    example: Example, expectation: Expectation, trace: Trace, default_layer: int
) -> Layer:
    """Return the layer that the expectation names, or the one at index `default_layer`.

    Refuses a layer that does not exist.
    """
    number, count = expectation.layer, len(trace.layers)
    if number is not None and number >= count:
        there_are = "there is 1" if count == 1 else f"there are {count}"
        problem = f"there is no layer {number}: layers count from 0, and {there_are}"
        hint = f"write layer = {count - 1}" if count > 1 else "stack some: layers = 2"
        raise _expectation_error(example, expectation, problem, hint)
    return trace.layers[default_layer if number is None else number]


def _expected_attention(
    example: Example, expectation: Expectation, trace: Trace, default_layer: int
) -> Layer:
    """Return the expected layer's self-attention or, for a cross- step, its cross-attention.

    Refuses a cross- step where there is no second sentence, and a layer that does not exist.
    """
    layer = _expected_layer(example, expectation, trace, default_layer)
    if not expectation.step.startswith("cross-"):
        return layer
    if layer.cross is None:
        problem = f"'{expectation.step}' is about attention to a second sentence, and there is none"
        hint = 'give one: memory = "…" under [settings]'
        raise _expectation_error(example, expectation, problem, hint)
    return layer.cross


def _expected_shape(example: Example, expectation: Expectation) -> tuple[int, ...]:
    """Return the shape of the expected values.

    Refuses rows of different lengths, and anything but finite numbers of float64, infinity and NaN.
    """
    shape: list[int] = []
    level = [expectation.values]
    while any(isinstance(each, list) for each in level):
        if len({len(each) if isinstance(each, list) else None for each in level}) > 1:
            problem = f"the rows expected of '{expectation.step}' differ in length"
            hint = "give all rows the same length"
            raise _expectation_error(example, expectation, problem, hint)
        shape.append(len(level[0]))
        level = [each for row in level for each in row]
    for position, leaf in _positions_and_numbers(expectation.values, ()):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, Decimal)):
            problem = f"'{leaf}' in {_position_text(position)} is not a number"
            raise _expectation_error(example, expectation, problem, "write 0.25")
        size = Decimal(leaf).copy_abs()
        if size.is_finite() and size > MAX_FLOAT:
            problem = f"the number in {_position_text(position)} is too large"
            hint = f"the largest is {MAX_FLOAT:.2g}"
            raise _expectation_error(example, expectation, problem, hint)
    return tuple(shape)


def _positions_and_numbers(
    value: Any, position: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the position (from 0) and the value of each leaf of nested lists, leaving out None."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _positions_and_numbers(item, (*position, number))
    elif value is not None:
        yield position, value


def _expectation_text(example: Example, expectation: Expectation, trace: Trace) -> str:
    """Return what is expected in words: step, token, layer, item and changes."""
    name = expectation.step
    if expectation.query is not None:
        _, tokens = _token_axis(example, expectation, trace)
        row = _expected_row(example, expectation, tokens)
        name += f" of {row + 1} {tokens.labels[row]}"
    if expectation.layer is not None:
        name += f", layer {expectation.layer}"
    if expectation.item > 1:
        name += f", item {expectation.item}"
    changes = ", ".join(
        f"{key} by hand" if isinstance(value, list) else f"{key} {str(value).lower()}"
        for key, value in expectation.changes.items()
    )
    return f"{name} with {changes}" if changes else name


def _expectation_error(
    example: Example, expectation: Expectation, problem: str, hint: str
) -> AttnvizError:
    where = f"line {expectation.line} of " if expectation.line else ""
    return AttnvizError(f"{where}'{example.path}': {problem}", hint, file=str(example.path))
