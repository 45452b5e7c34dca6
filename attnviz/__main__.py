"""`attnviz` and `python -m attnviz`: signals, garbage collection, then the command line."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from attnviz.machine import exit_handling

# Imports create hundreds of thousands of objects and no garbage: collecting after every 700 of
# them (Python's default) would take a tenth of a second.
GARBAGE_THRESHOLD = 100_000


def main() -> None:
    """Run the command line and exit without Python's cleanup, which takes as long as the help does
    and, with torch, a tenth of a second."""
    exit_handling.exit_on_signals()
    status = _run_cli()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, which was reported before
            stream.flush()
    exit_handling.undo_everything()
    os._exit(status)


def _run_cli() -> int:
    """Run the command line with rarer garbage collection, and return its exit status."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    from attnviz.cli.app import run_command_line  # only here: signals are handled while it loads

    if "WORLD_SIZE" not in os.environ:
        return run_command_line()
    from attnviz.cli.torchrun import run_process

    return run_process()


if __name__ == "__main__":
    main()
