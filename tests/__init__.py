"""Tests of attnviz: each is named by a sentence that is true of it."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")

LONGEST = 120.0  # seconds that a test waits for another process, on however slow a machine


def not_none(value: Value | None) -> Value:
    """The value, which a test can only use if there is one."""
    assert value is not None
    return value
