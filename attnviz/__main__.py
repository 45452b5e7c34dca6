"""`attnviz` and `python -m attnviz`."""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from attnviz.cli.app import main as command_line  # who interrupts may do so from the start
    except KeyboardInterrupt:
        return 130
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
