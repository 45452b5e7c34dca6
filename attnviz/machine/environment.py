"""Environment variables: those that must not change a result, and those of torchrun."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(*names: str) -> Iterator[None]:
    """Remove some environment variables during the `with` block, and put them back after it,
    whatever they were set to inside."""
    removed = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(removed)


def is_shared() -> bool:
    """Return whether this is one of several processes that torchrun started for one run."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def is_first_process() -> bool:
    """Return whether this process prints and writes: the first of those that torchrun started, and
    one that is alone."""
    return not is_shared() or os.environ.get("RANK", "0") == "0"


def invalid_terminal_sizes() -> list[str]:
    """Return those of the names COLUMNS and LINES whose variables hold no size.

    With 0 columns nothing would be printed.
    """
    values = {name: os.environ.get(name, "1") for name in ("COLUMNS", "LINES")}
    return [name for name, size in values.items() if not re.fullmatch("[1-9][0-9]{0,5}", size)]
