"""attnviz: see attention, from a sentence to a heatmap.

>>> from attnviz import trace
>>> trace("I am learning this", variant="causal").layers[0].attended.weights.shape
torch.Size([1, 4, 4])
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from attnviz.version import __version__ as __version__

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison as Comparison
    from attnviz.analysis.comparison import compare as compare
    from attnviz.analysis.comparison import compare_scores as compare_scores
    from attnviz.analysis.head_accuracy import rank as rank
    from attnviz.analysis.inspection.checkpoints import compare_checkpoints as compare_checkpoints
    from attnviz.analysis.inspection.corpus_effects import head_effects as head_effects
    from attnviz.analysis.inspection.inspection import Inspection as Inspection
    from attnviz.analysis.inspection.inspection import inspect as inspect
    from attnviz.analysis.inspection.two_sentences import compare_models as compare_models
    from attnviz.analysis.inspection.two_sentences import compare_sentences as compare_sentences
    from attnviz.analysis.learning_comparison import compare_learning as compare_learning
    from attnviz.analysis.minimal_pairs import MinimalPairs as MinimalPairs
    from attnviz.analysis.minimal_pairs import pairs as pairs
    from attnviz.analysis.survey import Survey as Survey
    from attnviz.analysis.survey import survey as survey
    from attnviz.analysis.trace_film import Film as Film
    from attnviz.analysis.trace_film import film as film
    from attnviz.errors import AttnvizError as AttnvizError
    from attnviz.examples.example_names import example as example
    from attnviz.learning.choices import Choices as Choices
    from attnviz.learning.lookup import task_of as task_of
    from attnviz.learning.task import Examples as Examples
    from attnviz.learning.task import Reading as Reading
    from attnviz.learning.task import Task as Task
    from attnviz.learning.training import learn as learn
    from attnviz.renderers import render as render
    from attnviz.traces.archive_reader import load as load
    from attnviz.traces.archive_reader import read as read
    from attnviz.traces.external.from_weights import from_weights as from_weights
    from attnviz.traces.from_text import trace as trace
    from attnviz.traces.models.model_names import models as models
    from attnviz.traces.models.vocabulary import Vocabulary as Vocabulary
    from attnviz.traces.settings import Settings as Settings
    from attnviz.traces.trace import Trace as Trace
    from attnviz.views.steps.walk import steps as steps
    from attnviz.views.trace import draw as draw
    from attnviz.views.view import View as View

# Imported on first use: torch takes two seconds to load, and --help does not need it.
_LAZY_NAMES = {
    "AttnvizError": "attnviz.errors:AttnvizError",
    "Choices": "attnviz.learning.choices:Choices",
    "Comparison": "attnviz.analysis.comparison:Comparison",
    "Examples": "attnviz.learning.task:Examples",
    "Film": "attnviz.analysis.trace_film:Film",
    "Inspection": "attnviz.analysis.inspection.inspection:Inspection",
    "MinimalPairs": "attnviz.analysis.minimal_pairs:MinimalPairs",
    "Reading": "attnviz.learning.task:Reading",
    "Settings": "attnviz.traces.settings:Settings",
    "Survey": "attnviz.analysis.survey:Survey",
    "Task": "attnviz.learning.task:Task",
    "Trace": "attnviz.traces.trace:Trace",
    "View": "attnviz.views.view:View",
    "Vocabulary": "attnviz.traces.models.vocabulary:Vocabulary",
    "compare": "attnviz.analysis.comparison:compare",
    "compare_checkpoints": "attnviz.analysis.inspection.checkpoints:compare_checkpoints",
    "compare_learning": "attnviz.analysis.learning_comparison:compare_learning",
    "compare_models": "attnviz.analysis.inspection.two_sentences:compare_models",
    "compare_scores": "attnviz.analysis.comparison:compare_scores",
    "compare_sentences": "attnviz.analysis.inspection.two_sentences:compare_sentences",
    "draw": "attnviz.views.trace:draw",
    "example": "attnviz.examples.example_names:example",
    "film": "attnviz.analysis.trace_film:film",
    "from_weights": "attnviz.traces.external.from_weights:from_weights",
    "head_effects": "attnviz.analysis.inspection.corpus_effects:head_effects",
    "inspect": "attnviz.analysis.inspection.inspection:inspect",
    "learn": "attnviz.learning.training:learn",
    "load": "attnviz.traces.archive_reader:load",
    "models": "attnviz.traces.models.model_names:models",
    "pairs": "attnviz.analysis.minimal_pairs:pairs",
    "rank": "attnviz.analysis.head_accuracy:rank",
    "read": "attnviz.traces.archive_reader:read",
    "render": "attnviz.renderers:render",
    "task_of": "attnviz.learning.lookup:task_of",
    "steps": "attnviz.views.steps.walk:steps",
    "survey": "attnviz.analysis.survey:survey",
    "trace": "attnviz.traces.from_text:trace",
}
__all__ = [*_LAZY_NAMES]


def __getattr__(name: str) -> object:
    """Import a public name on its first use; raise AttributeError for others."""
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module 'attnviz' has no attribute '{name}'")
    return pkgutil.resolve_name(_LAZY_NAMES[name])


def __dir__() -> list[str]:
    """Return the public names, too, before they are imported."""
    return [*globals(), *_LAZY_NAMES]
