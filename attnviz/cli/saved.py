"""A trace that was written before, for the commands that take one in place of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.traces.saved import read
from attnviz.traces.trace import Trace
from attnviz.views.trace import command_of
from attnviz.wording.commands import chosen


def read_again(name: str, file: str, *groups: Any) -> Trace:
    """With the command that made it, or that would make what is made of it now.

    What the same command draws later is what it drew then, to the byte. Another command says
    how to come by its own result from the text.
    """
    trace = read(file)
    made_by, command = trace.provenance.command or "", command_of(name, trace)
    if made_by.startswith(f"attnviz {name} ") or command is None:
        return trace
    line = command.also(**chosen(*groups)).line
    return replace(trace, provenance=replace(trace.provenance, command=line))
