"""The View of a worked example: its walk under the title of the example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.traces.trace import Trace
from attnviz.views.steps.walk import steps
from attnviz.views.view import View
from attnviz.wings.examples.example import Example
from attnviz.wording.commands import Command


def view(
    example: Example,
    *,
    trace: Trace | None = None,
    item: int | None = None,
    query: int | str | None = None,
    **options: Any,
) -> View:
    """Return the View of the steps of a worked example, following the example's own query unless
    `query` is given; it concludes with the example's notice and source.

    `trace` replaces the example's own Trace, else `item` chooses one from its batch; `options` are
    those of the steps.
    """
    query_text = example.query if query is None else query
    example_trace = example.trace(item) if trace is None else trace
    walk_view = steps(example_trace, query=query_text, **options).view()
    texts = (example.title, example.notice, example.source)
    title, *about = (" ".join(text.split()) for text in texts)
    typed = None if query is None else example_trace.tokens.as_typed(query)
    all_options = {"item": item, "query": typed, **options}.items()
    command_options = {name: value for name, value in all_options if value is not None}
    return replace(
        walk_view,
        title=title,
        headline=title,
        closing=tuple(filter(None, about)),
        command=Command(name="example show", argument=example.name, options=command_options),
    )
