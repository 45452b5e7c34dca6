"""A trace that was written before, for the commands that take one in place of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.traces.saved import read
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, chosen


def read_again(name: str, file: str, *groups: Any) -> Trace:
    """With the command that made it, or that would make what is made of it now.

    What the same command draws later is what it drew then, to the byte. Another command says
    how to come by its own result from the text.
    """
    trace = read(file)
    made_by = trace.provenance.command or ""
    if made_by.startswith(f"attnviz {name} "):
        return trace
    options = chosen(trace.origin.settings, *groups)
    command = Command(name=name, argument=trace.text, options=options)
    return replace(trace, provenance=replace(trace.provenance, command=command.line))
