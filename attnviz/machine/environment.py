"""What of a process's environment no result may depend on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(*names: str) -> Iterator[None]:
    """Some variables of the environment are not there meanwhile."""
    removed = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(removed)


def invalid_terminal_sizes() -> list[str]:
    """COLUMNS and LINES, where they say no size: on a screen 0 columns wide nothing is printed."""
    values = {name: os.environ.get(name, "1") for name in ("COLUMNS", "LINES")}
    return [name for name, size in values.items() if not re.fullmatch("[1-9][0-9]{0,5}", size)]
