"""A trace that was written before, for the commands that take one in place of a text."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from attnviz.traces.archive_reader import read
from attnviz.traces.source import command_of, source_of
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, chosen, command_in

UNSEEN = {"quiet", "no_pager", "limit"}  # what changes nothing in a file


def read_again(name: str, file: str, *groups: Any, **settings: Any) -> Trace:
    """A trace as it was written, but for the settings that are given, and what makes it now.

    `groups` are the options of the command `name`, which shows it. What it writes again, as it
    did when it made the trace, says what it said then, and is the same to the byte. Anything
    else says how to come by it from the text, or from this file where there is no way from a
    text.
    """
    found = read(file)
    trace = replace(
        found, origin=replace(found.origin, settings=replace(found.origin.settings, **settings))
    )
    if not settings and _drawn_along(name, found.provenance.command or "", groups):
        return trace
    from_file = Command(name=name, options={"trace": file} | settings)
    line = (command_of(name, source_of(trace)) or from_file).also(**chosen(*groups)).line
    return replace(trace, provenance=replace(trace.provenance, command=line))


def _drawn_along(name: str, made_by: str, groups: tuple[Any, ...]) -> bool:
    """Whether the command that made a trace drew the same with it, whatever it named the files."""
    names = {each.name for group in groups for each in fields(group)} - UNSEEN
    both = [
        command_in(line) for line in (made_by, Command(name=name, options=chosen(*groups)).line)
    ]
    then, now = (
        {key: each for key, each in (made.options if made else {}).items() if key in names}
        for made in both
    )
    kinds_then, kinds = (
        {Path(file).suffix for file in each.pop("out", [])} for each in (then, now)
    )
    alike = both[0] is not None and both[0].name == name and then == now
    return alike and kinds <= kinds_then
