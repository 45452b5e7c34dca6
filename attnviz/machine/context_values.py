"""Context variables that have a value for the time of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def context_value(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Give a context variable a value inside the `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
