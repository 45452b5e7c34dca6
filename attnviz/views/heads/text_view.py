"""The View of heads of a text, as of long texts, of parts and of what tokens receive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.trace import Trace
from attnviz.views.headline import attention_headline
from attnviz.views.heads.bars import without_passages
from attnviz.views.notes import heads_off_notes, random_numbers_caveat
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, View, build_page


def view_of_heads(
    trace: Trace,
    finding: str,
    screen: Sequence[Group],
    picture: Sequence[Group],
    options: Mapping[str, Any] | None,
    notes: Iterable[str] = (),
    **fields: Any,
) -> View:
    """Return a View whose title is a finding on heads of a text, with notes at its end.

    `options` are those of the command that makes the view; None: there is none. `fields`: the
    others of a View.
    """
    settings, caveat = settings_line(trace), random_numbers_caveat(trace, ("weights",))
    return View(
        title=attention_headline(trace),
        headline=f"{finding[:1].upper()}{finding[1:]}",
        settings=settings,
        screen=build_page(screen, settings, caveat),
        picture=build_page(without_passages(picture), settings, caveat),
        closing=(*notes, *heads_off_notes(trace)),
        provenance=trace.provenance,
        command=None if options is None else source_command("run", build_source(trace), **options),
        **fields,
    )
