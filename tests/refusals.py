"""What is refused: by a command in two lines, by a function with a problem and a hint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attnviz.errors import AttnvizError
from tests.conftest import Result


def assert_refused(result: Result, problem: str, hint: str) -> None:
    """Check that a command printed these two lines and nothing else."""
    assert (result.status, result.out) == (2, "")
    assert result.err == f"error: {problem}\n hint: {hint}\n"


def refusal_of(call: Callable[[], object]) -> tuple[str, str]:
    """The problem and the hint of the error that this call raises."""
    with pytest.raises(AttnvizError) as error:
        call()
    return str(error.value), error.value.hint
