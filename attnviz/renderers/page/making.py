"""How a page was made: the command, what it depends on, and versions, small at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.wording.printable import printable

if TYPE_CHECKING:
    from attnviz.views.view import View


def made(view: View) -> Markup:
    """The command as it is typed; and behind a click whatever else the numbers depend on."""
    if view.provenance is None:
        return NONE
    command = printable(view.provenance.command or "")
    typed = tag("pre", tag("code", command))
    on_paper = tag("p", "Made by ", tag("code", command), class_="on-paper")
    facts = [part for each in _facts(view) for part in each]
    more = tag("details", tag("summary", "How this was made"), typed if command else NONE,
               tag("dl", *facts), id="made")  # fmt: skip
    return together([more, on_paper if command else NONE])


def _facts(view: View) -> Iterator[tuple[Markup, Markup]]:
    """Everything by its name, but for what there is not; numbers and words as Python has them."""
    made_by = view.provenance
    assert made_by is not None, "nobody knows how it was made"
    given = {name: value for name, value in made_by.settings.items() if value is not None}
    facts = {"attnviz": made_by.version, **made_by.versions, **given}
    for name, value in facts.items():
        yield tag("dt", printable(name.replace("_", " "))), tag("dd", printable(str(value)))
