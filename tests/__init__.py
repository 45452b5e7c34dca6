"""Tests of attnviz: each is named by a sentence that is true of it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")

LONGEST = 120.0  # seconds that a test waits for another process, on however slow a machine


def not_none(value: Value | None) -> Value:
    """The value, which a test can only use if there is one."""
    assert value is not None
    return value


def run_process(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, which has to succeed; what it prints is kept."""
    return subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=LONGEST, **options
    )
