"""How far something has come: a bar on standard error, when somebody is there to see it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

Step = TypeVar("Step")


def with_bar(steps: Sequence[Step], *, told: str, quiet: bool) -> Iterable[Step]:
    """The steps, with a bar that goes when they are done."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, told, console=Console(stderr=True), transient=True)
