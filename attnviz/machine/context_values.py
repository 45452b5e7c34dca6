"""Values for the time of a block: of context variables, and of attributes."""

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


@contextmanager
def attribute_value(owner: object, name: str, value: object) -> Iterator[None]:
    """Give an attribute of a module, or of another object, a value inside the `with` block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
