"""What of a process's environment no result may depend on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """A variable of the environment is not there meanwhile."""
    before = os.environ.pop(name, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
