"""transformers without what it says beside its results, and without what it cannot do."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces.trained.place import EXTRA, MINILM


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings, notes, bars and prints of transformers and of what it uses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in a notebook, of bars that it could not draw
            from transformers.utils import logging as theirs
    except ImportError:
        raise missing_extra() from None
    bars_of: Any = theirs
    bars, disabled = theirs.is_progress_bar_enabled(), logging.root.manager.disable
    bars_of.disable_progress_bar()
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        if bars:
            bars_of.enable_progress_bar()


def missing_extra() -> AttnvizError:
    return AttnvizError(
        f"trained models need transformers, which is not installed (--model {MINILM})",
        EXTRA,
        about="model",
    )
