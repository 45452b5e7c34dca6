"""A trace that was written before, for the commands that take one in place of a text."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from attnviz.traces.saved import read
from attnviz.traces.source import command_of, source_of
from attnviz.traces.trace import Trace
from attnviz.wording.commands import Command, chosen, option

UNSEEN = {"--quiet", "--no-pager", "--limit"}  # what changes nothing in a file


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
    if not made_by.startswith(f"attnviz {name} "):
        return False
    names = {option(each.name) for group in groups for each in fields(group)} - UNSEEN
    try:
        then = _said(made_by, names)
    except ValueError:  # no command that a shell would take
        return False
    now = _said(Command(name=name, options=chosen(*groups)).line, names)
    kinds, kinds_then = (
        {Path(file).suffix for file in each.pop("--out", [])} for each in (now, then)
    )
    return now == then and kinds <= kinds_then


def _said(line: str, names: set[str]) -> dict[str, list[str]]:
    """What a command says after the options of these names."""
    said: dict[str, list[str]] = {}
    values: list[str] = []  # of an option that is none of these
    for word in shlex.split(line):
        if word.startswith("--"):
            values = said.setdefault(word, []) if word in names else []
        else:
            values.append(word)
    return said
