"""What made an artefact, as one line of JSON in its metadata."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from attnviz.wording.printable import exact_json

if TYPE_CHECKING:
    from attnviz.views.view import View


def provenance_of(view: View) -> str:
    """Command, settings, seed and versions; nothing where nobody knows."""
    if view.provenance is None:
        return ""
    return exact_json(asdict(view.provenance))
