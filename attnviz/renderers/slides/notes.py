"""What a speaker reads beside a slide: all that is said of it, and the command that made it."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.renderers.slides.divided import Slide
from attnviz.renderers.slides.words import CUT, Words
from attnviz.renderers.wrapping import aligned
from attnviz.views.grids.description import hides, notes
from attnviz.views.grids.section import Section
from attnviz.views.view import View

HATCHED = "hatched = hidden by the mask"


def notes_of(slide: Slide, said: Words, *, first: bool) -> str:
    """A paragraph for each; words that had no room on the slide stand here in full."""
    view = slide.view
    title = view.headline if said.title.text.endswith(CUT) else ""
    closing = view.notes if first else ()
    parts = [title, *closing, *_steps(view), _how_to_read(view), slide.left_out, view.settings]
    return "\n".join([*filter(None, parts), *_made(view)])


def _steps(view: View) -> Iterator[str]:
    """What happens in a step, with all of its sums."""
    for each in view.picture.panels:
        if isinstance(each, Section):
            yield from (each.about, each.formula, each.shapes, *aligned(each.sums), *each.remarks)


def _how_to_read(view: View) -> str:
    """What rows and columns are, and whatever else colours and numbers mean."""
    panels = view.picture.panels
    hatched = HATCHED if hides(panels) else ""
    return " · ".join(filter(None, (*notes(panels), hatched, view.picture.caveat)))


def _made(view: View) -> Iterator[str]:
    """The command, as it was typed; or the one that would make the same."""
    typed = view.provenance.command if view.provenance else None
    command = typed or (view.command.line if view.command else "")
    if command:
        yield f"Made with: {command}"
