"""`attnviz` and `python -m attnviz`."""

from __future__ import annotations

import gc
import sys

# Imports make hundreds of thousands of objects, and no garbage: looking for some after every 700
# would take a tenth of a second.
OBJECTS = 100_000


def main() -> int:
    gc.set_threshold(OBJECTS)
    try:
        from attnviz.cli.app import main as command_line  # who interrupts may do so from the start
    except KeyboardInterrupt:
        return 130
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
