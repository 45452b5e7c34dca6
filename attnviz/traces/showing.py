"""The way from a result up to what can be shown of it, for those who use the library.

A Trace, a Comparison, a walk and an example lie below the views on the path of a sentence, and
import none of them: this one name is looked up when it is called.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnviz.views.view import View

VIEW = "attnviz.views.view:view"


class Showable:
    """Whatever has a View."""

    def view(self, **choices: Any) -> View:
        """What can be shown: `trace("I am").view(show=["weights"]).save("heatmap.svg")`.

        `choices` are those of the command that shows such a thing.
        """
        view: Callable[..., View] = pkgutil.resolve_name(VIEW)
        return view(self, **choices)
