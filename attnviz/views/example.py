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
    **chosen: Any,
) -> View:
    """The steps of an example; its own query is followed unless another is named."""
    followed = example.query if query is None else query
    traced = example.trace(item) if trace is None else trace
    walked = steps(traced, query=followed, **chosen).view()
    title, *about = (" ".join(each.split()) for each in _words(example))
    return replace(
        walked,
        title=title,
        headline=title,
        closing=tuple(line for line in about if line),
        command=_command(example, item=item, query=query, **chosen),
    )


def _words(example: Example) -> tuple[str, str, str]:
    """What it says of itself, in as many lines as its writer had room for."""
    return example.title, example.notice, example.source


def _command(example: Example, **options: Any) -> Command:
    named = {name: value for name, value in options.items() if value is not None}
    return Command(name="example show", argument=example.name, options=named)
