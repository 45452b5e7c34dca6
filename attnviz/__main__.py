"""`attnviz` and `python -m attnviz`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from attnviz.machine import exit_handling

# Imports make hundreds of thousands of objects, and no garbage: looking for some after every 700
# would take a tenth of a second.
GARBAGE_THRESHOLD = 100_000


def main() -> None:
    """Run the command line, and leave at once: taking every object apart would take as long as
    the help does, and with torch a tenth of a second."""
    exit_handling.exit_on_signals()
    status = _run_cli()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # it is closed, and that has been said
            stream.flush()
    exit_handling.undo_everything()
    os._exit(status)


def _run_cli() -> int:
    gc.set_threshold(GARBAGE_THRESHOLD)
    from attnviz.cli.app import (
        run_command_line as command_line,  # who interrupts may do so from the start
    )

    return command_line()


if __name__ == "__main__":
    main()
