"""Reads a saved trace, for the commands that take one in place of a text."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from attnviz.traces.archive_reader import load
from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, changed_options, parse_command

OPTIONS_WITHOUT_EFFECT = {"quiet", "no_pager", "limit"}  # on what a file holds


def read_saved_trace(name: str, file: str, *groups: Any, **settings: Any) -> Trace:
    """Read a trace from a file, replace some settings, and give it the current command line.

    `name`, `groups`: the command and its options. A command that repeats the one that made the
    trace keeps its provenance, so that a file written again is the same to the byte. Any other
    command line starts from the text; from this file only where no text makes the trace.
    """
    trace = load(file)
    origin = replace(trace.origin, settings=replace(trace.origin.settings, **settings))
    trace = replace(trace, origin=origin)
    if not settings and _draws_same_options(name, trace.provenance.command or "", groups):
        return trace
    from_file = Command(name=name, options={"trace": file} | settings)
    command = source_command(name, build_source(trace)) or from_file
    line = command.with_options(**changed_options(*groups)).line
    return replace(trace, provenance=replace(trace.provenance, command=line))


def _draws_same_options(name: str, made_by: str, groups: tuple[Any, ...]) -> bool:
    """Return whether the command line `made_by` is this command with the same options.

    Names of files may differ, and only kinds of files that it wrote may be written now.
    """
    names = {option.name for group in groups for option in fields(group)} - OPTIONS_WITHOUT_EFFECT
    commands = [
        parse_command(line)
        for line in (made_by, Command(name=name, options=changed_options(*groups)).line)
    ]
    then, now = (
        {key: value for key, value in (command.options if command else {}).items() if key in names}
        for command in commands
    )
    kinds_then, kinds_now = (
        {Path(file).suffix for file in options.pop("out", [])} for options in (then, now)
    )
    alike = commands[0] is not None and commands[0].name == name and then == now
    return alike and kinds_now <= kinds_then
