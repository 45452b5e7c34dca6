"""The View of Heard: all heads of the text that most of the calls have."""

from __future__ import annotations

from attnviz.views.view import View
from attnviz.wings.listen.heard import Heard


def view(heard: Heard) -> View:
    """Return the View of the calls that have the same tokens, of which there are most."""
    result: View = heard.texts[0].view()
    return result
