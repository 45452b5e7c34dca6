"""attnviz: see attention, from a sentence to a heatmap.

>>> from attnviz import trace
>>> trace("I am learning this", variant="causal").layers[0].attended.weights.shape
torch.Size([1, 4, 4])
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from attnviz.version import __version__ as __version__
from attnviz.wings import WINGS

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison as Comparison
    from attnviz.analysis.comparison import compare as compare
    from attnviz.analysis.inspection.inspection import Inspection as Inspection
    from attnviz.analysis.inspection.inspection import inspect as inspect
    from attnviz.analysis.inspection.two_sentences import compare_models as compare_models
    from attnviz.analysis.inspection.two_sentences import compare_sentences as compare_sentences
    from attnviz.analysis.learning_comparison import compare_learning as compare_learning
    from attnviz.errors import AttnvizError as AttnvizError
    from attnviz.learning.training import learn as learn
    from attnviz.traces.archive_reader import load as load
    from attnviz.traces.external.from_weights import from_weights as from_weights
    from attnviz.traces.from_text import trace as trace
    from attnviz.traces.models.model_names import models as models
    from attnviz.traces.settings import Settings as Settings
    from attnviz.traces.trace import Trace as Trace
    from attnviz.views.steps.walk import steps as steps
    from attnviz.wings.corpora.effects import head_effects as head_effects
    from attnviz.wings.corpora.pairs import MinimalPairs as MinimalPairs
    from attnviz.wings.corpora.pairs import pairs as pairs
    from attnviz.wings.corpora.survey import Survey as Survey
    from attnviz.wings.corpora.survey import survey as survey
    from attnviz.wings.examples.example_names import example as example
    from attnviz.wings.films.checkpoints import compare_checkpoints as compare_checkpoints
    from attnviz.wings.films.film import Film as Film
    from attnviz.wings.films.film import film as film
    from attnviz.wings.listen.heard import Heard as Heard
    from attnviz.wings.listen.heard import listen as listen

# Imported on first use: torch takes two seconds to load, and --help does not need it.
_MODULES_BY_NAME = {
    "AttnvizError": "errors",
    "Comparison": "analysis.comparison",
    "Inspection": "analysis.inspection.inspection",
    "Settings": "traces.settings",
    "Trace": "traces.trace",
    "compare": "analysis.comparison",
    "compare_learning": "analysis.learning_comparison",
    "compare_models": "analysis.inspection.two_sentences",
    "compare_sentences": "analysis.inspection.two_sentences",
    "from_weights": "traces.external.from_weights",
    "inspect": "analysis.inspection.inspection",
    "learn": "learning.training",
    "load": "traces.archive_reader",
    "models": "traces.models.model_names",
    "steps": "views.steps.walk",
    "trace": "traces.from_text",
}
_PATHS_BY_NAME = {
    **{name: f"attnviz.{module}:{name}" for name, module in _MODULES_BY_NAME.items()},
    **{name: path for wing in WINGS.values() for name, path in wing.library.items()},
}
__all__ = sorted(_PATHS_BY_NAME)


def __getattr__(name: str) -> object:
    """Import a public name on its first use; raise AttributeError for others."""
    if name not in _PATHS_BY_NAME:
        problem = f"module 'attnviz' has no attribute '{name}'"
        raise AttributeError(f"{problem}; docs/library.md says where each name is")
    return pkgutil.resolve_name(_PATHS_BY_NAME[name])


def __dir__() -> list[str]:
    """Return the public names, too, before they are imported."""
    return [*globals(), *_PATHS_BY_NAME]
