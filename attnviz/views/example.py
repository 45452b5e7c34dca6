"""A worked example, as what can be shown of it: its walk, under its own title."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.examples.example import Example
from attnviz.traces.trace import Trace
from attnviz.views.steps.walk import steps
from attnviz.views.view import View
from attnviz.wording.commands import Command


def view(
    example: Example,
    *,
    trace: Trace | None = None,
    item: int | None = None,
    query: str | None = None,
    **options: Any,
) -> View:
    """The steps of an example; its own query is followed unless another is named."""
    query_text = example.query if query is None else query
    example_trace = example.trace(item) if trace is None else trace
    walk_view = steps(example_trace, query=query_text, **options).view()
    title, *about = (" ".join(text.split()) for text in _description_lines(example))
    return replace(
        walk_view,
        title=title,
        headline=title,
        closing=tuple(line for line in about if line),
        command=_example_command(example, item=item, query=query, **options),
    )


def _description_lines(example: Example) -> tuple[str, str, str]:
    """What it says of itself, in as many lines as its writer had room for."""
    return example.title, example.notice, example.source


def _example_command(example: Example, **options: Any) -> Command:
    chosen_options = {name: value for name, value in options.items() if value is not None}
    return Command(name="example show", argument=example.name, options=chosen_options)
