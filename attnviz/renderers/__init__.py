"""Grids to bytes: a table of suffixes to import paths. A renderer writes nothing itself."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnviz.errors import unknown
from attnviz.renderers.colors import DEFAULT_PALETTE, DEFAULT_THEME

if TYPE_CHECKING:
    from attnviz.views.grids.grids import Drawable

    Renderer = Callable[[Sequence[Drawable], "Look"], bytes]


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture looks, and what it says of itself."""

    theme: str = DEFAULT_THEME
    palette: str = DEFAULT_PALETTE
    size: tuple[float, float] | None = None  # in inches; None: as wide as its panels want
    columns: int | None = None  # panels in a row; None: as many as make them largest
    dpi: int | None = None  # pixels to an inch; None: as many as the format wants
    seconds: float = 2.5  # that an animation shows each step
    transparent: bool = False
    numbers: bool | None = None  # in the cells; None: while they fit
    title: str = ""
    caption: str = ""  # small print: how to read it, and its settings
    closing: tuple[str, ...] = ()  # what follows, in a text file
    description: str = ""  # for those who do not see it
    provenance: str = ""  # what made it, so that it can be made again


RENDERERS = {  # named, not imported: matplotlib takes half a second
    ".png": "attnviz.renderers.picture.image:png",
    ".svg": "attnviz.renderers.picture.image:svg",
    ".pdf": "attnviz.renderers.picture.image:pdf",
    ".gif": "attnviz.renderers.picture.animation:gif",
    ".txt": "attnviz.renderers.terminal.lines:txt",
    ".md": "attnviz.renderers.markdown:md",
}


def named(suffix: str) -> Renderer:
    """The renderer for a suffix, imported only now that it is wanted."""
    if suffix not in RENDERERS:
        raise unknown("renderer for", suffix, RENDERERS)
    made: Renderer = pkgutil.resolve_name(RENDERERS[suffix])
    return made


def render(grids: Sequence[Drawable], suffix: str, look: Look | None = None) -> bytes:
    """The grids in the format of a suffix: `Path("heat.svg").write_bytes(render(grids, ".svg"))`"""
    return named(suffix)(grids, look or Look())
