"""What made an artefact, as one line of JSON in its metadata."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.views.view import View


def provenance_of(view: View) -> str:
    """Command, settings, seed and versions; nothing where nobody knows."""
    if view.provenance is None:
        return ""
    return json.dumps(asdict(view.provenance), ensure_ascii=False)
