"""Pictures, drawn with matplotlib, which is imported here before anything needs it.

What it logs during this import, such as warnings about its settings, is not shown: no picture here
depends on them.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from attnviz.errors import AttnvizError
from attnviz.machine import exit_handling

FOLDER = "MPLCONFIGDIR"  # where it keeps a list of fonts; one for a while, if there is no other


def _import_matplotlib() -> None:
    """Import matplotlib's list of fonts, and have the folder deleted at exit that it creates for
    itself. Refuses a setting (of matplotlibrc or MPLBACKEND) that matplotlib itself refuses.
    """
    before = os.environ.get(FOLDER)
    try:
        importlib.import_module("matplotlib.font_manager")
    except ValueError as error:
        message = str(error).splitlines()[0]
        raise AttnvizError(
            f"matplotlib refuses its settings: {message}",
            "fix matplotlibrc, which it looks for in this folder first, or unset MPLBACKEND",
        ) from None
    folder = os.environ.get(FOLDER)
    if folder is not None and folder != before:
        exit_handling.register_undo(partial(shutil.rmtree, folder, ignore_errors=True))


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Log nothing from this logger below CRITICAL while the block runs."""
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


with _silent(logging.getLogger("matplotlib")):
    _import_matplotlib()
