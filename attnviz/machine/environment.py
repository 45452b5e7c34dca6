"""Environment variables that must not change a result."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(*names: str) -> Iterator[None]:
    """Remove some environment variables during the `with` block, and put them back after it."""
    removed = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(removed)


def invalid_terminal_sizes() -> list[str]:
    """Return those of the names COLUMNS and LINES whose variables hold no size.

    With 0 columns nothing would be printed.
    """
    values = {name: os.environ.get(name, "1") for name in ("COLUMNS", "LINES")}
    return [name for name, size in values.items() if not re.fullmatch("[1-9][0-9]{0,5}", size)]
