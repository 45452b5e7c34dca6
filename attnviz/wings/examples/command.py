"""`attnviz example`: the textbooks' worked examples, shown and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING

import typer

from attnviz.cli import output, text_source
from attnviz.cli.messages import paged_output, print_result_line
from attnviz.cli.options import accept_options, command_line
from attnviz.cli.steps import refuse_step_options, walk_options
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.options.option import (
    NOT_IN_PYTHON,
    CommandOptions,
    option_class,
    option_group,
    options_under,
)
from attnviz.options.output import DeliveryOptions, LimitOptions
from attnviz.options.steps import StepOptions
from attnviz.renderers import suffixes
from attnviz.traces import structured_text
from attnviz.wings.examples.example_names import example_names as all_names
from attnviz.wings.examples.example_names import example_path
from attnviz.wording.surfaces import Surface, speaking
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.wings.examples.checking import ExpectationFinding
    from attnviz.wings.examples.example import Example

    CheckedExamples = list[tuple[Example, list[ExpectationFinding]]]

example_option = options_under("Example")


@option_group(frozen=True, kw_only=True)
class ExampleOptions:
    """Which example is shown, and which item of its batch."""

    name: str = example_option(
        MISSING,
        metavar="NAME",
        help="An example's name (attnviz example list), or a file of your own.",
        short="An example's name (attnviz example list), or a file of your own.",
        choices="attnviz.wings.examples.example_names:example_titles",
        is_argument=True,
    )
    item: int | None = example_option(
        metavar="N",
        help="Which item of a batch, from 1.  [default: 1]",
        short="Which item of a batch, from 1: --item 2",
        example="2",
    )


@option_class(frozen=True, kw_only=True)
class ShowExampleOptions(ExampleOptions, StepOptions, DeliveryOptions, CommandOptions):
    """The options of `attnviz example show`."""


@option_class(frozen=True, kw_only=True)
class CheckExampleOptions(LimitOptions, CommandOptions):
    """The options of `attnviz example check`."""

    names: list[str] = example_option(
        [],
        metavar="[NAME…]",
        help="Examples by name, or files of your own.  [default: all]",
        choices="attnviz.wings.examples.example_names:example_titles",
        is_argument=True,
    )
    quiet: bool = options_under("Output")(
        False, "--quiet", "-q", help="Print only what differs.", python=NOT_IN_PYTHON
    )


@accept_options()
def show_command(options: ShowExampleOptions) -> None:
    """Show a worked example step by step.

    It follows the example's own query unless --query names another. Options and files are those
    of attnviz steps.

    \b
    attnviz example show simplified
    attnviz example show dave --step softmax -o dave.png
    """
    output.refuse_undeliverable(options, suffixes())
    refuse_step_options(options, options.out)
    command = command_line("example show", options)

    example_path(options.name)  # which refuses an unknown name before more is loaded

    from attnviz.wings.examples import example_names

    example = example_names.example(options.name)
    if options.query is not None and example.tokens is not None:
        example.tokens.index(options.query, "query")
    trace = example.trace(options.item, command=command)
    view = example.view_for_command(
        trace=trace, item=options.item, **walk_options(options, options)
    )
    output.deliver_view(view, options, options.seconds_per_step)
    text_source.note_first_item(trace, options.item, quiet=options.quiet)


@accept_options()
def check_command(options: CheckExampleOptions) -> None:
    """Recompute worked examples, and compare them with the printed digits.

    Each expectation is printed with ✓, or with ✗ and the first number that differs. The exit
    status is 1 if any differs.
    """
    files.set_size_limit(options.limit)
    with paged_output():
        checked, errors = _check_examples(options.names or all_names(), options.quiet)
        wrong = sum(not finding.passed for _, findings in checked for finding in findings)
        if checked:
            verdict = _verdict_sentence(wrong, len(errors))
            print_result_line(f"{_counts_sentence(checked)}: {verdict}")
    if errors:
        raise errors[0]
    if wrong:
        raise typer.Exit(1)


def _counts_sentence(checked: CheckedExamples) -> str:
    """Return how many examples, expectations and printed numbers were checked, as a phrase."""
    from attnviz.wings.examples.checking import printed_number_count

    number_count = sum(printed_number_count(example) for example, _ in checked)
    finding_count = sum(len(findings) for _, findings in checked)
    return (
        f"{counted(len(checked), 'example')}, {counted(finding_count, 'expectation')}, "
        f"{counted(number_count, 'printed number')}"
    )


def _verdict_sentence(wrong: int, refused: int) -> str:
    """Return a phrase: how many expectations failed, and how many examples were refused.

    >>> _verdict_sentence(0, 0), _verdict_sentence(2, 1), _verdict_sentence(0, 1)
    ('all ✓', '✗ 2 expectations not met, and 1 example refused', '✓, and 1 example refused')
    """
    outcome = f"✗ {counted(wrong, 'expectation')} not met" if wrong else "✓" if refused else "all ✓"
    return f"{outcome}, and {counted(refused, 'example')} refused" if refused else outcome


def _check_examples(
    names: Sequence[str], quiet: bool
) -> tuple[CheckedExamples, list[AttnvizError]]:
    """Check examples by name or file, and print their findings; return them, and the errors of
    examples that were refused.

    With `quiet` only what differs is printed.
    """
    checked: CheckedExamples = []
    errors: list[AttnvizError] = []
    for name in names:
        try:
            with speaking(Surface.TOML):
                # A missing file is refused before torch is loaded.
                structured_text.read_text_file(example_path(name), "lesson")

                from attnviz.wings.examples import checking
                from attnviz.wings.examples.example_names import example as read_example

                example = read_example(name)
                findings = checking.check_example(example)
                checked.append((example, _print_findings(example, findings, quiet)))
        except AttnvizError as error:
            errors.append(error)
            why = f": {errors[-1]}" if len(errors) > 1 else ""  # the first is raised at the end
            print_result_line(f"✗ {name} is refused{why}")
    return checked, errors


def _print_findings(
    example: Example, findings: Iterator[ExpectationFinding], quiet: bool
) -> list[ExpectationFinding]:
    """Print each finding as soon as it is computed, and return them all; `quiet`: only failures."""
    printed_findings = []
    if not quiet:
        print_result_line(f"{example.name}: {example.title}")
    for finding in findings:
        printed_findings.append(finding)
        if not (finding.passed and quiet):
            start = f"{example.name}: " if quiet else "  "
            mark = "✓" if finding.passed else "✗"
            print_result_line(f"{start}{mark} {finding.what}: {finding.about}")
    if not quiet:
        typer.echo()
    return printed_findings
