"""Reads a saved trace, for the commands that take one in place of a text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnviz.options.option import CommandOptions, own_options
from attnviz.traces.archive_reader import load
from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, changed_options, parse_command

OPTIONS_WITHOUT_EFFECT = {"quiet", "no_pager", "limit"}  # on what a file holds

# Those that say how a trace is made, and are refused beside a finished one.
MAKING_OPTIONS = {"text", "other", "file", "trace", *Settings.__dataclass_fields__}


def read_saved_trace(name: str, file: str, options: CommandOptions, **settings: Any) -> Trace:
    """Read a trace from a file, replace some settings, and give it the current command line.

    `name`, `options`: the command and its options. A command that repeats the one that made the
    trace keeps its provenance, so that a file written again is the same to the byte. Any other
    command line starts from the text; from this file only where no text makes the trace.
    """
    trace = load(file)
    origin = replace(trace.origin, settings=replace(trace.origin.settings, **settings))
    trace = replace(trace, origin=origin)
    changed = {n: v for n, v in changed_options(options).items() if n not in MAKING_OPTIONS}
    names = {each.name for each in own_options(type(options))} - MAKING_OPTIONS
    if not settings and _draws_same_options(name, trace.provenance.command or "", names, changed):
        return trace
    from_file = Command(name=name, options={"trace": file} | settings)
    command = source_command(name, build_source(trace)) or from_file
    line = command.with_options(**changed).line
    return replace(trace, provenance=replace(trace.provenance, command=line))


def _draws_same_options(
    name: str, made_by: str, names: Collection[str], changed: Mapping[str, Any]
) -> bool:
    """Return whether the command line `made_by` is this command with the same options.

    Names of files may differ, and only kinds of files that it wrote may be written now.
    """
    commands = [parse_command(line) for line in (made_by, Command(name=name, options=changed).line)]
    then, now = (
        {
            key: value
            for key, value in (command.options if command else {}).items()
            if key in names and key not in OPTIONS_WITHOUT_EFFECT
        }
        for command in commands
    )
    kinds_then, kinds_now = (
        {Path(file).suffix for file in options.pop("out", [])} for options in (then, now)
    )
    alike = commands[0] is not None and commands[0].name == name and then == now
    return alike and kinds_now <= kinds_then
