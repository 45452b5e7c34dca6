"""What is refused: by a command in two lines, by a function with a problem and a hint."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from attnviz.errors import AttnvizError
from tests.conftest import Result


def assert_refused(result: Result, problem: str, hint: str) -> None:
    """Check that a command printed these two lines and nothing else."""
    assert refusal_lines(result) == (problem, hint)


def refusal_lines(result: Result, *, out: str = "") -> tuple[str, str]:
    """The problem and the hint of a call that ends with status 2 and prints nothing else."""
    assert (result.status, result.out) == (2, out), result.err
    lines = re.fullmatch(r"error: (.+)\n hint: (.+)\n", result.err)
    assert lines is not None, result.err
    return lines[1], lines[2]


def refusal_of(call: Callable[[], object]) -> tuple[str, str]:
    """The problem and the hint of the error that this call raises."""
    with pytest.raises(AttnvizError) as error:
        call()
    return str(error.value), error.value.hint
