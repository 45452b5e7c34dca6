"""`attnviz example`: a group of commands, whose modules are imported when they are called."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from attnviz.cli.app import TYPER_OPTIONS, CommandGroup
from attnviz.errors import unknown_name_error

EXAMPLE_COMMANDS = {
    "list": (
        "attnviz.wings.examples.group:list_command",
        "List the worked examples, and what each shows.",
    ),
    "show": ("attnviz.wings.examples.command:show_command", "Show a worked example step by step."),
    "check": (
        "attnviz.wings.examples.command:check_command",
        "Recompute worked examples, and compare them with the printed digits.",
    ),
}


class ExampleCommandGroup(CommandGroup):
    """The commands below `attnviz example`."""

    table = EXAMPLE_COMMANDS
    default_command = "show"

    def refuse_misspelt(self, args: Sequence[str]) -> None:
        """Refuse a first word that is neither a command nor the name or file of an example."""
        from attnviz.wings.examples import example_names

        word = args[0]
        if not example_names.is_example(word):
            raise unknown_name_error(
                "command or example", word, [*self.table, *example_names.example_names()]
            )


app = typer.Typer(name="example", cls=ExampleCommandGroup, **TYPER_OPTIONS)


@app.callback(invoke_without_command=True)
def example(context: typer.Context) -> None:
    """Recompute worked examples from textbooks, step by step.

    An example is a TOML file: attnviz example check my.toml checks one of your own.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def list_command() -> None:
    """List the worked examples, and what each shows."""
    from attnviz.cli.listings import print_name_table
    from attnviz.cli.messages import paged_output
    from attnviz.wings.examples import example_names

    titles_by_name = example_names.example_titles()
    first, width = next(iter(titles_by_name)), max(map(len, titles_by_name))
    with paged_output():
        print_name_table(titles_by_name.items())
        typer.echo(f"\n{'show one with':<{width}}  attnviz example show {first}")
