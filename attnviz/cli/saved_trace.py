"""A trace that was written before, for the commands that take one in place of a text."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from attnviz.traces.archive_reader import read
from attnviz.traces.source import build_source, source_command
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, changed_options, parse_command

OPTIONS_WITHOUT_EFFECT = {"quiet", "no_pager", "limit"}  # what changes nothing in a file


def read_saved_trace(name: str, file: str, *groups: Any, **settings: Any) -> Trace:
    """A trace as it was written, but for the settings that are given, and what makes it now.

    `groups` are the options of the command `name`, which shows it. What it writes again, as it
    did when it made the trace, says what it said then, and is the same to the byte. Anything
    else says how to come by it from the text, or from this file where there is no way from a
    text.
    """
    saved_trace = read(file)
    trace = replace(
        saved_trace,
        origin=replace(
            saved_trace.origin, settings=replace(saved_trace.origin.settings, **settings)
        ),
    )
    if not settings and _draws_same_options(name, saved_trace.provenance.command or "", groups):
        return trace
    from_file = Command(name=name, options={"trace": file} | settings)
    line = (
        (source_command(name, build_source(trace)) or from_file)
        .with_options(**changed_options(*groups))
        .line
    )
    return replace(trace, provenance=replace(trace.provenance, command=line))


def _draws_same_options(name: str, made_by: str, groups: tuple[Any, ...]) -> bool:
    """Whether the command that made a trace drew the same with it, whatever it named the files."""
    names = {each.name for group in groups for each in fields(group)} - OPTIONS_WITHOUT_EFFECT
    commands = [
        parse_command(line)
        for line in (made_by, Command(name=name, options=changed_options(*groups)).line)
    ]
    then, now = (
        {key: each for key, each in (command.options if command else {}).items() if key in names}
        for command in commands
    )
    kinds_then, kinds_now = (
        {Path(file).suffix for file in each.pop("out", [])} for each in (then, now)
    )
    alike = commands[0] is not None and commands[0].name == name and then == now
    return alike and kinds_now <= kinds_then
