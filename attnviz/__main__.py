"""`attnviz` and `python -m attnviz`."""

from __future__ import annotations

import sys

from attnviz.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
