"""Panics of packages in Rust, such as tokenizers: errors that are no Exception to Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


@contextmanager
def silencing_panics() -> Iterator[None]:
    """Drop what is written to file descriptor 2 inside the `with` block: panics write there."""
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        with suppress(OSError):
            os.dup2(stderr, 2)
        os.close(stderr)
