"""The two lines with which a command refuses what it cannot use."""

from __future__ import annotations

import re

from tests.conftest import Result


def refusal_lines(result: Result, *, out: str = "") -> tuple[str, str]:
    """The problem and the hint of a call that ends with status 2 and prints nothing else."""
    assert (result.status, result.out) == (2, out), result.err
    lines = re.fullmatch(r"error: (.+)\n hint: (.+)\n", result.err)
    assert lines is not None, result.err
    return lines[1], lines[2]
