"""FORMATS: file formats by suffix, and the functions that render a View in one."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attnviz.errors import AttnvizError, opt, refuse_unknown_name
from attnviz.renderers.look import Look as Look
from attnviz.wings import WINGS
from attnviz.wording.keywords import LookKeywords, replace_choices, with_checked_arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attnviz.views.view import View

    Renderer = Callable[[View, Look], Iterable[bytes]]

STEP_PLACEHOLDER, PAGE_PLACEHOLDER = "{step}", "{page}"  # in file names: one file for each
FormatKind = Literal["picture", "page", "slides", "text", "document", "arrays", "rows"]


@dataclass(frozen=True)
class Format:
    """A file format: which renderer writes it, and what must be installed for it."""

    path: str  # of the renderer, which is imported when it is used: matplotlib takes 0.5 s
    kind: FormatKind
    needs: str = ""  # a module of an optional package, empty if there is none,
    package: str = ""  # and the package's name for pip


FORMATS = {
    ".png": Format("attnviz.renderers.picture.still_pictures:png_picture", "picture"),
    ".svg": Format("attnviz.renderers.picture.still_pictures:svg_picture", "picture"),
    ".pdf": Format("attnviz.renderers.picture.still_pictures:pdf_picture", "picture"),
    ".gif": Format(WINGS["films"].files[".gif"], "picture"),
    ".html": Format("attnviz.renderers.page.page:html", "page"),
    ".pptx": Format(WINGS["slides"].files[".pptx"], "slides", "pptx", "python-pptx"),
    ".txt": Format("attnviz.renderers.terminal.lines:txt", "text"),
    ".md": Format("attnviz.renderers.markdown:md", "text"),
    ".json": Format("attnviz.renderers.data:json", "document"),
    ".npz": Format("attnviz.renderers.data:npz", "arrays"),
    ".csv": Format("attnviz.renderers.data:csv", "rows"),
}
EXERCISE_RENDERERS = WINGS["quiz"].files  # of a View with a sheet of exercises
TERMINAL_SVG_RENDERER = "attnviz.renderers.terminal.svg:svg"
PAGE_DIVIDER = "attnviz.renderers.picture.still_pictures:divide_pages"


def suffixes(*without: FormatKind) -> list[str]:
    """Return the suffixes ('.png', …) of files that can be written, but not of kinds `without`."""
    return [suffix for suffix, file_format in FORMATS.items() if file_format.kind not in without]


def array_suffixes() -> list[str]:
    return [suffix for suffix in suffixes() if suffix not in suffixes("arrays")]


def refuse_live_without_page(paths: Sequence[Path]) -> None:
    """Refuse --live where no page is written, or another file beside it, which cannot compute."""
    others = [path for path in paths if path.suffix.lower() != ".html"]
    if others or not paths:
        name = f"'{others[0]}' is none" if others else "no page is written"
        raise AttnvizError(
            f"{opt.live} makes a page that computes, and {name}",
            f"try {opt.out:live.html} {opt.live}",
            python_hint='try save("live.html", live=True)',
            about="live",
        )


def refuse_uninstalled(suffix: str) -> None:
    """Refuse a format whose optional package is missing; `suffix`: a known one, such as '.pptx'."""
    file_format = FORMATS[suffix]
    if file_format.needs and find_spec(file_format.needs) is None:
        raise AttnvizError(
            f"{suffix} needs {file_format.package}, which is not installed",
            f'pip install "attnviz[{file_format.kind}]"',
        )


def render_chunks(view: View, suffix: str, look: Look | None = None) -> Iterable[bytes]:
    """Return the bytes of a view's file, chunk by chunk; only this imports the renderer.

    Refuses an unknown suffix, and one whose package is missing. Without `look`, the default one.
    """
    refuse_unknown_name("renderer for", suffix, FORMATS)
    refuse_uninstalled(suffix)
    path = TERMINAL_SVG_RENDERER if view.as_screen and suffix == ".svg" else FORMATS[suffix].path
    if view.sheet is not None:
        path = EXERCISE_RENDERERS.get(suffix, path)
    renderer: Renderer = pkgutil.resolve_name(path)
    return renderer(view, look or Look())


def divide_into_pages(view: View, look: Look) -> list[View]:
    """Return the view as several views: the pages of a picture, on which labels can be read."""
    divided_views: list[View] = pkgutil.resolve_name(PAGE_DIVIDER)(view, look)
    return divided_views


@with_checked_arguments
def render(view: View, suffix: str, **looks: Unpack[LookKeywords]) -> bytes:
    """Return the bytes of a view's file; `looks`: fields of Look, such as theme='dark'.

    Refuses an unknown suffix, a missing package, and impossible looks.

    >>> from attnviz import trace
    >>> render(trace("I am").view(show=["tokens"]), ".csv").splitlines()[0].decode()
    'layer,head,name,query number,query,key number,key,weight,visible'
    """
    return b"".join(render_chunks(view, suffix, replace_choices(Look(), looks)))
