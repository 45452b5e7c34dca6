"""The provenance of a file, as one line of JSON for its metadata."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from attnviz.wording.printable import exact_json

if TYPE_CHECKING:
    from attnviz.views.view import View


def provenance_of(view: View) -> str:
    """Return the command, settings, seed and versions as JSON; empty if they are unknown."""
    return "" if view.provenance is None else exact_json(asdict(view.provenance))
