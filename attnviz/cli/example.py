"""`attnviz example`: the textbooks' worked examples, listed, shown and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from attnviz.cli import output, steps
from attnviz.cli.groups import Output, Pictures, accepts, command_line
from attnviz.cli.steps import Walking
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import printable
from attnviz.views import exports

if TYPE_CHECKING:
    from attnviz.examples.checking import Finding
    from attnviz.examples.example import Example


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which example is shown."""

    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An example's name (attnviz example list), or a file of your own.",
            rich_help_panel="Example",
        ),
    ]
    item: Annotated[
        int | None,
        typer.Option(
            "--item",
            metavar="N",
            help="Which of a batch, from 1.  [default: 1]",
            rich_help_panel="Example",
        ),
    ] = None


def list_() -> None:
    """List the worked examples, and what each shows."""
    from attnviz.examples import example as examples

    names = examples.names()
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:<{width}}  {examples.load(name).title}")
    typer.echo(f"\n{'show one with':<{width}}  attnviz example show {names[0]}")


@accepts(Chosen, Walking, Output, Pictures)
def show(chosen: Chosen, walking: Walking, wanted: Output, pictures: Pictures) -> None:
    """Show a worked example step by step.

    Its own query is followed unless --query names another. Takes what attnviz steps takes, and
    writes the same files.
    """
    output.check(wanted, pictures, [*exports.EXPORTS])
    steps.check(walking, wanted)
    command = command_line("example show", chosen, walking, wanted, pictures)

    from dataclasses import replace

    from attnviz.examples import example as examples

    example = examples.load(chosen.name)
    made = example.trace(chosen.item, command=command)
    followed = wanted if wanted.query is not None else replace(wanted, query=example.query)
    result = steps.result(made, walking, followed, example.title)
    about = [line for line in (_one_line(example.notice), example.source) if line]
    output.print_result(replace(result, closing=about), wanted, pictures)


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME…]",
            help="Examples by name, or files of your own.  [default: all]",
            rich_help_panel="Example",
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print only what differs.", rich_help_panel="Output"),
    ] = False,
) -> None:
    """Recompute worked examples, and hold them against the printed digits.

    Each expectation is printed with ✓, or with ✗ and the first number that differs. The exit
    status is 1 if any differs.
    """
    from attnviz.examples import example as examples
    from attnviz.examples.checking import numbers_in

    checked = _checked(names or examples.names(), quiet)
    findings = [found for _, each in checked.done for found in each]
    numbers = sum(numbers_in(example) for example, _ in checked.done)
    wrong = sum(not found.passed for found in findings)
    verdict = f"✗ {_counted(wrong, 'expectation')} not met" if wrong else "all ✓"
    typer.echo(
        f"{_counted(len(checked.done), 'example')}, {_counted(len(findings), 'expectation')}, "
        f"{_counted(numbers, 'printed number')}: {verdict}"
    )
    if checked.refused is not None:
        raise checked.refused
    if wrong:
        raise typer.Exit(1)


@dataclass(frozen=True, eq=False)
class Checked:
    """Examples with what was found in them; and the first error, if a file was broken."""

    done: list[tuple[Example, list[Finding]]]
    refused: AttnvizError | None


def _checked(names: Sequence[str], quiet: bool) -> Checked:
    """A file that is broken does not keep the others from being checked."""
    from attnviz.examples import checking
    from attnviz.examples import example as examples

    done: list[tuple[Example, list[Finding]]] = []
    refused: AttnvizError | None = None
    for name in names:
        try:
            example = examples.load(name)
            done.append((example, _told(example, checking.check(example), quiet)))
        except AttnvizError as error:
            refused = refused or error
    return Checked(done, refused)


def _told(example: Example, findings: Iterator[Finding], quiet: bool) -> list[Finding]:
    """An example's findings, each printed as soon as it is known."""
    found = []
    if not quiet:
        typer.echo(printable(f"{example.name}: {example.title}"))
    for each in findings:
        found.append(each)
        mark, start = (
            ("✓", "  ") if each.passed else ("✗", "  " if not quiet else f"{example.name}: ")
        )
        if not (each.passed and quiet):
            typer.echo(printable(f"{start}{mark} {each.what}: {each.about}"))
    if not quiet:
        typer.echo()
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
