"""What an example expects, held against what comes out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Any

from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.examples.claims import CLAIMS, CLOSE
from attnviz.examples.example import Example, Expectation
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.parts import EXPECTED
from attnviz.traces.trace import Layer, Trace
from attnviz.wording import sums
from attnviz.wording.numbers import Style
from attnviz.wording.words import counted, shape_text

LARGEST = Decimal(sys.float_info.max)


@dataclass(frozen=True)
class Finding:
    """One expectation, and whether it is met."""

    what: str  # "scores of 3 learning"
    passed: bool
    about: str  # "16 numbers", or what differs


@dataclass(frozen=True)
class Difference:
    """A number that is not as expected, and where it stands, from 1."""

    place: tuple[int, ...]
    expected: Decimal | int
    found: float


def findings(example: Example) -> Iterator[Finding]:
    """Every expectation of an example, in its order."""
    if not example.expectations:
        raise AttnvizError(
            f"'{example.path}' expects nothing, so there is nothing to check",
            "add what must come out under [[expect]]",
        )
    made: tuple[tuple[int, Mapping[str, Any]], Trace] | None = None
    for expectation in example.expectations:
        wanted = (expectation.item, expectation.changes)
        if made is None or made[0] != wanted:  # of the same settings one after the other
            made = wanted, example.trace(*wanted)
        trace = made[1]
        for name, look in LOOKS.items():
            if getattr(expectation, name) not in (None, ()):
                yield look(example, expectation, trace)


def numbers_in(example: Example) -> int:
    """How many printed numbers an example is held against."""
    return sum(len(list(_leaves(each.values, ()))) for each in example.expectations)


def tolerance(expected: Decimal | int) -> float:
    """Half a unit of the last digit that was printed; a whole number is meant exactly.

    >>> tolerance(Decimal("0.2773")), tolerance(Decimal("1.329e-15")) < 1e-18
    (5e-05, True)
    """
    if isinstance(expected, int):
        return CLOSE * 10 * max(1, abs(expected))
    exponent = expected.as_tuple().exponent
    return 0.0 if isinstance(exponent, str) else 0.5 * 10.0**exponent


def differences(expected: Any, found: Tensor, allowed: float | None = None) -> list[Difference]:
    """The printed numbers that the computed ones do not round to, or are too far from."""
    wrong = []
    for place, number in _leaves(expected, ()):
        value = found[place].item()
        reach = tolerance(number) if allowed is None else allowed
        slack = CLOSE * min(reach * 1e3, 1) * max(1.0, abs(value)) if not isinf(value) else 0.0
        same = value == float(number) or abs(value - float(number)) <= reach + slack
        if not same:
            wrong.append(Difference(tuple(index + 1 for index in place), number, value))
    return wrong


def _values(example: Example, expectation: Expectation, trace: Trace) -> Finding:
    found = _found(example, expectation, trace)
    shape = _shape_of(example, expectation)
    if tuple(found.shape) != shape:
        raise _error(
            example,
            expectation,
            f"{shape_text(shape)} numbers are expected of '{expectation.step}', which is "
            f"{shape_text(found.shape)}",
            "give numbers of that shape",
        )
    wrong = differences(expectation.values, found, expectation.tolerance)
    count = found.numel()
    about = counted(count, "number")
    if expectation.tolerance is not None:
        about += f" to within {expectation.tolerance:g}"
    return Finding(
        _name(example, expectation, trace), not wrong, _told(wrong, count) if wrong else about
    )


def _told(wrong: Sequence[Difference], count: int) -> str:
    """The first number that differs, and how many do."""
    first = wrong[0]
    digits = _digits(first.expected)
    place = _told_place(tuple(index - 1 for index in first.place))
    found = (
        f"{first.found:.{digits}f}" if abs(first.found) >= 10.0**-digits else f"{first.found:.5g}"
    )
    told = f"{place}: expected {first.expected}, found {found}"
    return told if len(wrong) == 1 else f"{told} ({len(wrong)} of {count} numbers differ)"


def _told_place(place: tuple[int, ...]) -> str:
    """
    >>> _told_place((0, 2))
    'row 1 column 3'
    """
    sides = len(place)
    names = ("part",) * (sides - 3) + ("head", "row", "column")[max(0, 3 - sides) :]
    told = [f"{name} {index + 1}" for name, index in zip(names, place, strict=True)]
    return " ".join(told) or "its values"


def _digits(expected: Decimal | int) -> int:
    if isinstance(expected, int):
        return 4
    exponent = expected.as_tuple().exponent
    return 4 if isinstance(exponent, str) else min(max(-exponent, 0) + 1, 12)


def _shape(example: Example, expectation: Expectation, trace: Trace) -> Finding:
    one = tuple(_found(example, expectation, trace).shape)
    found = (example.items, *one) if example.items > 1 else one
    passed = found == expectation.shape
    wanted = shape_text(expectation.shape or ())
    about = wanted if passed else f"expected {wanted}, found {shape_text(found)}"
    return Finding(f"shape of {_name(example, expectation, trace)}", passed, about)


def _parameters(example: Example, expectation: Expectation, trace: Trace) -> Finding:
    """How many numbers a matrix has to learn; of embeddings, those of a table for all ids."""
    found = _found(example, expectation, trace).numel()
    if expectation.step == "embeddings":
        found = (trace.vocabulary or 0) * trace.embeddings.shape[1]
    wanted = expectation.parameters or 0
    about = f"{found:,}" if found == wanted else f"expected {wanted:,}, found {found:,}"
    return Finding(f"numbers to learn in {expectation.step}", found == wanted, about)


def _claim(example: Example, expectation: Expectation, trace: Trace) -> Finding:
    assert expectation.claim is not None
    items = (
        _attention(example, expectation, example.trace(item, expectation.changes), 0)
        for item in range(1, example.items + 1)
    )
    layer = _attention(example, expectation, trace, 0)
    passed, about = CLAIMS[expectation.claim](layer, items)
    return Finding(_claimed(expectation), passed, about)


def _claimed(expectation: Expectation) -> str:
    """A claim, and the attention that it is about where there are several."""
    found = expectation.claim or ""
    if expectation.layer is not None:
        found += f", layer {expectation.layer}"
    return f"{found}, cross-attention" if expectation.step.startswith("cross-") else found


def _arithmetic(example: Example, expectation: Expectation, trace: Trace) -> Finding:
    """Sums as a tutorial prints them, held against those that `steps --digits 4` writes."""
    row = _row(example, expectation, trace.tokens)
    layer, style = _attention(example, expectation, trace, 0), Style(4)
    weights, results = layer.attended.mixing[0, row].tolist(), layer.attended.contexts[0, row]
    columns = zip(layer.values[0].T.tolist(), results.tolist(), strict=True)
    dots = [sums.dot("", weights, values, result, style) for values, result in columns]
    written = {f"{each.right} = {each.result}" for each in dots}
    missing = [line for line in expectation.arithmetic if line.replace("*", "·") not in written]
    about = f"not written: {missing[0]}" if missing else f"{len(expectation.arithmetic)} sums"
    return Finding(f"arithmetic of {_name(example, expectation, trace)}", not missing, about)


LOOKS: dict[str, Callable[[Example, Expectation, Trace], Finding]] = {  # by what is expected
    "values": _values,
    "shape": _shape,
    "parameters": _parameters,
    "claim": _claim,
    "arithmetic": _arithmetic,
}


def _found(example: Example, expectation: Expectation, trace: Trace) -> Tensor:
    """The tensor of a step, or one token's row; without a side for heads where there is one."""
    layer, part = _layer(example, expectation, trace, -1), EXPECTED[expectation.step]
    tensor = part.find(trace, layer)
    if tensor is None:
        raise _error(
            example,
            expectation,
            f"'{expectation.step}' is expected, but this example has no such step",
            _has(trace, layer),
        )
    sides = [*part.axes]
    if expectation.query is not None:
        side, tokens = _side(example, expectation, trace)
        tensor = tensor.select(sides.index(side), _row(example, expectation, tokens))
    return tensor[0] if sides[0] == "head" and len(tensor) == 1 else tensor


def _side(example: Example, expectation: Expectation, trace: Trace) -> tuple[str, Tokens]:
    """What the rows of a step count, where they are those of tokens, and whose."""
    sides = [*EXPECTED[expectation.step].axes]
    if "token" in sides:
        return "token", trace.tokens
    if "key" in sides:
        return "key", trace.keys_of(_attention(example, expectation, trace, -1))
    problem = f"'query' names a token, but '{expectation.step}' does not have a row for each token"
    raise _error(example, expectation, problem, "leave 'query' out, and expect the whole step")


def _row(example: Example, expectation: Expectation, tokens: Tokens) -> int:
    """The place of the token that is named; the last, where none is."""
    if expectation.query is None:
        return len(tokens) - 1
    try:
        return find_query(tokens, expectation.query, "query =")
    except AttnvizError as error:
        raise _error(example, expectation, str(error), error.hint) from None


def _has(trace: Trace, layer: Layer) -> str:
    found = [name for name, part in EXPECTED.items() if part.find(trace, layer) is not None]
    return f"it has {', '.join(found)}"


def _layer(example: Example, expectation: Expectation, trace: Trace, usual: int) -> Layer:
    """The layer that something is expected of."""
    wanted, count = expectation.layer, len(trace.layers)
    if wanted is not None and wanted >= count:
        there = "there is 1" if count == 1 else f"there are {count}"
        problem = f"there is no layer {wanted}: layers count from 0, and {there}"
        hint = f"write layer = {count - 1}" if count > 1 else "stack some: layers = 2"
        raise _error(example, expectation, problem, hint)
    return trace.layers[usual if wanted is None else wanted]


def _attention(example: Example, expectation: Expectation, trace: Trace, usual: int) -> Layer:
    """The attention of that layer to the sentence itself, or to a second one."""
    layer = _layer(example, expectation, trace, usual)
    if not expectation.step.startswith("cross-"):
        return layer
    if layer.cross is None:
        problem = f"'{expectation.step}' is about attention to a second sentence, and there is none"
        raise _error(example, expectation, problem, 'give one: memory = "…" under [settings]')
    return layer.cross


def _shape_of(example: Example, expectation: Expectation) -> tuple[int, ...]:
    """The shape of what is expected, whose rows must be as long as each other."""
    shape: list[int] = []
    level = [expectation.values]
    while any(isinstance(each, list) for each in level):
        if len({len(each) if isinstance(each, list) else None for each in level}) > 1:
            raise _error(
                example,
                expectation,
                f"the rows expected of '{expectation.step}' differ in length",
                "give all rows the same length",
            )
        shape.append(len(level[0]))
        level = [each for row in level for each in row]
    for place, leaf in _leaves(expectation.values, ()):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, Decimal)):
            problem = f"'{leaf}' in {_told_place(place)} is not a number"
            raise _error(example, expectation, problem, "write 0.25")
        size = Decimal(leaf).copy_abs()
        if size.is_finite() and size > LARGEST:
            problem = f"the number in {_told_place(place)} is too large"
            raise _error(example, expectation, problem, f"the largest is {LARGEST:.2g}")
    return tuple(shape)


def _leaves(value: Any, place: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _leaves(each, (*place, number))
    elif value is not None:
        yield place, value


def _name(example: Example, expectation: Expectation, trace: Trace) -> str:
    name = expectation.step
    if expectation.query is not None:
        _, tokens = _side(example, expectation, trace)
        row = _row(example, expectation, tokens)
        name += f" of {row + 1} {tokens.labels[row]}"
    if expectation.layer is not None:
        name += f", layer {expectation.layer}"
    if expectation.item > 1:
        name += f", item {expectation.item}"
    changes = ", ".join(_change(*each) for each in expectation.changes.items())
    return f"{name} with {changes}" if changes else name


def _change(name: str, value: Any) -> str:
    return f"{name} by hand" if isinstance(value, list) else f"{name} {str(value).lower()}"


def _error(example: Example, expectation: Expectation, problem: str, hint: str) -> AttnvizError:
    where = f"line {expectation.line} of " if expectation.line else ""
    return AttnvizError(f"{where}'{example.path}': {problem}", hint, file=str(example.path))
