"""`attnviz example`: the textbooks' worked examples, shown and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from attnviz.cli import output, source
from attnviz.cli.help import in_section, positional
from attnviz.cli.messages import paged, say
from attnviz.cli.options import accepts, command_line
from attnviz.cli.output_options import Limit, OutputOptions, PictureOptions
from attnviz.cli.steps import StepOptions, refuse_odd_steps
from attnviz.errors import AttnvizError
from attnviz.examples.names import names as all_names
from attnviz.examples.names import path_of, titles
from attnviz.machine import files
from attnviz.renderers import suffixes
from attnviz.tokens.finding import find_query
from attnviz.traces import texts
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.examples.checking import Finding
    from attnviz.examples.example import Example


@dataclass(frozen=True, kw_only=True)
class ExampleOptions:
    """Which example is shown."""

    name: Annotated[
        str,
        positional(
            "Example",
            metavar="NAME",
            help="An example's name (attnviz example list), or a file of your own.",
            short="An example's name (attnviz example list), or a file of your own.",
            among=titles,
        ),
    ]
    item: Annotated[
        int | None,
        in_section(
            "Example",
            "--item",
            metavar="N",
            help="Which item of a batch, from 1.  [default: 1]",
            short="Which item of a batch, from 1: --item 2",
            example="2",
        ),
    ] = None


@accepts(ExampleOptions, StepOptions, OutputOptions, PictureOptions)
def show(
    chosen: ExampleOptions, walking: StepOptions, wanted: OutputOptions, pictures: PictureOptions
) -> None:
    """Show a worked example step by step.

    It follows the example's own query unless --query names another. Options and files are those
    of attnviz steps.

    \b
    attnviz example show simplified
    attnviz example show dave --step softmax -o dave.png
    """
    output.refuse_undeliverable(wanted, pictures, suffixes())
    refuse_odd_steps(walking, wanted)
    command = command_line("example show", chosen, walking, wanted, pictures)

    path_of(chosen.name)  # which refuses a name before more is loaded

    from attnviz.examples import names

    example = names.example(chosen.name)
    if wanted.query is not None and example.tokens is not None:
        find_query(example.tokens, wanted.query)
    trace = example.trace(chosen.item, command=command)
    view = example.view(trace=trace, item=chosen.item, **walking.asked(wanted))
    output.deliver(view, wanted, pictures, walking.seconds_per_step)
    source.tell_of_items(trace, chosen.item, quiet=wanted.quiet)


def check(
    names: Annotated[
        list[str] | None,
        positional(
            "Example",
            metavar="[NAME…]",
            help="Examples by name, or files of your own.  [default: all]",
            among=titles,
        ),
    ] = None,
    quiet: Annotated[
        bool,
        in_section("Output", "--quiet", "-q", help="Print only what differs."),
    ] = False,
    limit: Limit = None,
) -> None:
    """Recompute worked examples, and compare them with the printed digits.

    Each expectation is printed with ✓, or with ✗ and the first number that differs. The exit
    status is 1 if any differs.
    """
    files.allow(limit)
    with paged():
        checked = _checked(names or all_names(), quiet)
        wrong = sum(not found.passed for _, each in checked.done for found in each)
        if checked.done:
            say(f"{_counts(checked)}: {_verdict(wrong, len(checked.refused))}")
    if checked.refused:
        raise checked.refused[0]
    if wrong:
        raise typer.Exit(1)


def _counts(checked: Checked) -> str:
    """How much was held against what is printed."""
    from attnviz.examples.checking import numbers_in

    numbers = sum(numbers_in(example) for example, _ in checked.done)
    findings = sum(len(found) for _, found in checked.done)
    return (
        f"{counted(len(checked.done), 'example')}, {counted(findings, 'expectation')}, "
        f"{counted(numbers, 'printed number')}"
    )


def _verdict(wrong: int, refused: int) -> str:
    """
    >>> _verdict(0, 0), _verdict(2, 1), _verdict(0, 1)
    ('all ✓', '✗ 2 expectations not met, and 1 example refused', '✓, and 1 example refused')
    """
    met = f"✗ {counted(wrong, 'expectation')} not met" if wrong else "✓" if refused else "all ✓"
    return f"{met}, and {counted(refused, 'example')} refused" if refused else met


@dataclass(frozen=True, eq=False)
class Checked:
    """Examples with what was found in them; and what is wrong with those that are broken."""

    done: list[tuple[Example, list[Finding]]]
    refused: list[AttnvizError]


def _checked(names: Sequence[str], quiet: bool) -> Checked:
    """A file that is broken does not keep the others from being checked."""
    from attnviz.traces.texts import in_keys

    done: list[tuple[Example, list[Finding]]] = []
    refused: list[AttnvizError] = []
    for name in names:
        try:
            # One that is missing is refused before torch is there.
            texts.read(path_of(name), "lesson")

            from attnviz.examples import checking
            from attnviz.examples.names import example as read_example

            example = read_example(name)
            done.append((example, _told(example, checking.findings(example), quiet)))
        except AttnvizError as error:
            refused.append(in_keys(error))
            why = f": {refused[-1]}" if len(refused) > 1 else ""  # the first is said in the end
            say(f"✗ {name} is refused{why}")
    return Checked(done, refused)


def _told(example: Example, findings: Iterator[Finding], quiet: bool) -> list[Finding]:
    """An example's findings, each printed as soon as it is known."""
    found = []
    if not quiet:
        say(f"{example.name}: {example.title}")
    for each in findings:
        found.append(each)
        mark, start = (
            ("✓", "  ") if each.passed else ("✗", "  " if not quiet else f"{example.name}: ")
        )
        if not (each.passed and quiet):
            say(f"{start}{mark} {each.what}: {each.about}")
    if not quiet:
        typer.echo()
    return found
