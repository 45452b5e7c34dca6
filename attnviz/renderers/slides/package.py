"""A presentation as bytes, the same on every day, which say what made them."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from attnviz.renderers.provenance import provenance_of
from attnviz.views.view import View

if TYPE_CHECKING:
    from pptx.presentation import Presentation

FACTS = "docProps/core.xml"
STORED = ".png"  # compressed already
SPACES = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def packed(deck: Presentation, view: View) -> bytes:
    """Every part as python-pptx writes it, but for when, and by whom."""
    written, again = io.BytesIO(), io.BytesIO()
    deck.save(written)
    with ZipFile(written) as parts, ZipFile(again, "w") as file:
        for name in parts.namelist():
            content = _facts(view) if name == FACTS else parts.read(name)
            member = ZipInfo(name)  # of the year 1980
            kind = ZIP_STORED if name.endswith(STORED) else ZIP_DEFLATED
            file.writestr(member, content, kind)
    return again.getvalue()


def _facts(view: View) -> bytes:
    """Title, subject, and in the comments what a PNG has in its metadata."""
    told = {
        "dc:title": view.headline or view.title,
        "dc:subject": view.picture.description,
        "dc:creator": "attnviz",
        "dc:description": provenance_of(view),
    }
    inner = "".join(f"<{name}>{html.escape(text)}</{name}>" for name, text in told.items() if text)
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return f"{head}\n<cp:coreProperties {SPACES}>{inner}</cp:coreProperties>".encode()
