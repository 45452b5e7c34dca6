"""Views to bytes: the one table of suffixes. A renderer writes nothing itself."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.renderers.look import Look as Look
from attnviz.wording.keywords import replace_choices, with_checked_arguments

if TYPE_CHECKING:
    from attnviz.views.view import View

    Renderer = Callable[[View, Look], Iterable[bytes]]

STEP_PLACEHOLDER, PAGE_PLACEHOLDER = (
    "{step}",
    "{page}",
)  # in the name of a file: one for each step, or for each page
FormatKind = Literal["picture", "page", "slides", "text", "document", "arrays", "rows"]


@dataclass(frozen=True)
class Format:
    """What is written where a file's name ends so."""

    path: str  # named, not imported: matplotlib takes half a second
    kind: FormatKind
    needs: str = ""  # a module that the extra of this name installs,
    package: str = ""  # and what pip calls it


FORMATS = {
    ".png": Format("attnviz.renderers.picture.image:png", "picture"),
    ".svg": Format("attnviz.renderers.picture.image:svg", "picture"),
    ".pdf": Format("attnviz.renderers.picture.image:pdf", "picture"),
    ".gif": Format("attnviz.renderers.picture.animation:gif", "picture"),
    ".html": Format("attnviz.renderers.page.page:html", "page"),
    ".pptx": Format("attnviz.renderers.slides.deck:pptx", "slides", "pptx", "python-pptx"),
    ".txt": Format("attnviz.renderers.terminal.lines:txt", "text"),
    ".md": Format("attnviz.renderers.markdown:md", "text"),
    ".json": Format("attnviz.renderers.data:json", "document"),
    ".npz": Format("attnviz.renderers.data:npz", "arrays"),
    ".csv": Format("attnviz.renderers.data:csv", "rows"),
}
TERMINAL_SVG_RENDERER = "attnviz.renderers.terminal.svg:svg"
PAGE_DIVIDER = "attnviz.renderers.picture.dividing:pages"


def suffixes(*without: FormatKind) -> list[str]:
    """How the names of files may end, but for some kinds."""
    return [suffix for suffix, file_format in FORMATS.items() if file_format.kind not in without]


def refuse_uninstalled(suffix: str) -> None:
    """Refuse what an extra is needed for that is not here; asked before anything is computed."""
    file_format = FORMATS[suffix]
    if file_format.needs and find_spec(file_format.needs) is None:
        raise AttnvizError(
            f"{suffix} needs {file_format.package}, which is not installed",
            f'pip install "attnviz[{file_format.kind}]"',
        )


def render_chunks(view: View, suffix: str, look: Look | None = None) -> Iterable[bytes]:
    """The view in the format of a suffix, chunk by chunk; its renderer is imported only now."""
    if suffix not in FORMATS:
        raise unknown_name_error("renderer for", suffix, FORMATS)
    refuse_uninstalled(suffix)
    path = TERMINAL_SVG_RENDERER if view.as_screen and suffix == ".svg" else FORMATS[suffix].path
    renderer: Renderer = pkgutil.resolve_name(path)
    return renderer(view, look or Look())


def divide_into_pages(view: View, look: Look) -> list[View]:
    """The view on as many pages of a picture as let its labels be read."""
    divided_views: list[View] = pkgutil.resolve_name(PAGE_DIVIDER)(view, look)
    return divided_views


@with_checked_arguments
def render(view: View, suffix: str, **looks: Any) -> bytes:
    """The bytes of a file of this kind.

    >>> from attnviz import render, trace
    >>> render(trace("I am").view(show=["tokens"]), ".csv").splitlines()[0].decode()
    'layer,head,query number,query,key number,key,weight,visible'
    """
    return b"".join(render_chunks(view, suffix, replace_choices(Look(), looks)))
