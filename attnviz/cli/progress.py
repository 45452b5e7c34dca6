"""How far something has come: a bar on standard error, when somebody is there to see it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

from attnviz.machine import leaving

if TYPE_CHECKING:
    from rich.progress import Progress

Step = TypeVar("Step")
PATIENCE = 1.0  # seconds, after which somebody wants to know what takes so long


def with_bar(steps: Sequence[Step], *, told: str, quiet: bool) -> Iterable[Step]:
    """The steps, with a bar that goes when they are done."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, told, console=Console(stderr=True), transient=True)


@contextmanager
def while_working(told: str, *, quiet: bool) -> Iterator[None]:
    """What is done in the block, and for how long, if it takes a while; it goes in the end."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    lines: list[Progress] = []

    def show() -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = Console(stderr=True)
        lines.append(Progress(*columns, console=console, transient=True, redirect_stdout=False))
        lines[0].add_task(told, total=None)
        lines[0].start()

    def hide() -> None:
        for line in lines:
            line.stop()  # and shows the cursor again

    patience = Timer(PATIENCE, show)
    patience.start()
    try:
        with leaving.undoing(hide):
            yield
    finally:
        patience.cancel()
        patience.join()
        hide()
