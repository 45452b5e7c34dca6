"""A Trace as data: a table of suffixes to import paths. An export yields bytes, chunk by chunk.

In chunks, because the weights of a few thousand tokens are hundreds of megabytes of digits.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from attnviz.errors import unknown

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.analysis.sweeps import Sweep
    from attnviz.traces.trace import Trace

    Export = Callable[[Trace], Iterator[bytes]]
    ComparisonExport = Callable[[Comparison, Sweep | None], Iterator[bytes]]

EXPORTS = {
    ".json": "attnviz.views.data:json",
    ".npz": "attnviz.views.data:npz",
    ".csv": "attnviz.views.rows:csv",
}
COMPARISON_EXPORTS = {
    ".json": "attnviz.views.comparison_data:json",
    ".csv": "attnviz.views.comparison_data:csv",
}


def named(suffix: str) -> Export:
    """The export for a suffix, imported only now that it is wanted."""
    if suffix not in EXPORTS:
        raise unknown("export for", suffix, EXPORTS)
    made: Export = pkgutil.resolve_name(EXPORTS[suffix])
    return made


def comparison_export(suffix: str) -> ComparisonExport:
    """The same for a Comparison."""
    made: ComparisonExport = pkgutil.resolve_name(COMPARISON_EXPORTS[suffix])
    return made
