"""Help in sections, as plain text: typer's own boxes cost more time than the rest of --help."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class SectionedCommand(TyperCommand):
    """A command whose help lists its options under the heading each was declared with."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_sections(self, ctx, formatter)


def write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record:
            heading = getattr(parameter, "rich_help_panel", None) or "Other"
            sections.setdefault(heading, []).append(record)
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def in_section(heading: str, *names: str, help: str, **more: Any) -> Any:
    """An option that the help lists under a heading."""
    return typer.Option(*names, help=help, rich_help_panel=heading, **more)
