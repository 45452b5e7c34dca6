"""`attnviz run`: a sentence to tables, pictures or data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.cli import output, source
from attnviz.cli.options import Attention, Output, Pictures, Source, accepts, command_line, settings

if TYPE_CHECKING:
    from attnviz.tracing import Trace


@accepts(Source, Attention, Output, Pictures)
def run(text_source: Source, attention: Attention, wanted: Output, pictures: Pictures) -> None:
    """Show which token of a sentence reads which.

    Without --out the result is printed: numbers while they fit, blocks of colour when they do
    not. With --out it is written to files, and their suffixes say what kind they are.
    """
    output.check(wanted, pictures)
    chosen = settings(text_source, attention)
    text = source.read(text_source)
    command = command_line("run", text_source, attention, wanted, pictures)

    from attnviz.tracing import trace  # torch: two seconds, which --help and errors need not wait

    deliver(trace(text, chosen, command=command), wanted, pictures)


def deliver(made: Trace, wanted: Output, pictures: Pictures) -> None:
    """A trace, wherever it came from, to where it was wanted."""
    query = output.query_position(made, wanted)
    if wanted.out:
        output.write(made, query, wanted, pictures)
    if wanted.json:
        output.print_json(made)
    elif not wanted.out:
        output.print_tables(made, query, wanted, pictures)
    if wanted.verify:
        output.print_checks(made, wanted)
