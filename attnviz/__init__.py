"""attnviz: see attention, from a sentence to a heatmap.

>>> from attnviz import trace
>>> trace("I am learning this", variant="causal").layers[0].attended.weights.shape
torch.Size([1, 4, 4])
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.comparison import Comparison as Comparison
    from attnviz.comparison import compare as compare
    from attnviz.comparison import compare_scores as compare_scores
    from attnviz.errors import AttnvizError as AttnvizError
    from attnviz.grids import Grid as Grid
    from attnviz.renderers import render as render
    from attnviz.settings import Settings as Settings
    from attnviz.trace_grids import draw as draw
    from attnviz.traces import Trace as Trace
    from attnviz.tracing import trace as trace

__version__ = "0.1.0"

_DOOR = {  # loaded when first asked for: torch takes two seconds, and --help does not need it
    "AttnvizError": "attnviz.errors:AttnvizError",
    "Comparison": "attnviz.comparison:Comparison",
    "Grid": "attnviz.grids:Grid",
    "Settings": "attnviz.settings:Settings",
    "Trace": "attnviz.traces:Trace",
    "compare": "attnviz.comparison:compare",
    "compare_scores": "attnviz.comparison:compare_scores",
    "draw": "attnviz.trace_grids:draw",
    "render": "attnviz.renderers:render",
    "trace": "attnviz.tracing:trace",
}
__all__ = [*_DOOR]


def __getattr__(name: str) -> object:
    if name not in _DOOR:
        raise AttributeError(f"module 'attnviz' has no attribute '{name}'")
    return pkgutil.resolve_name(_DOOR[name])


def __dir__() -> list[str]:
    return [*globals(), *_DOOR]
