"""An option is a row: the command line, the library and files know of it what the row says."""

from __future__ import annotations

import string
from dataclasses import fields
from typing import Any

import pytest

from attnviz.analysis.inspection.inspect_options import InspectOptions, LookingKeywords
from attnviz.cli.help import declare
from attnviz.cli.output import look_from_options, screen_from_options
from attnviz.cli.run import RunOptions
from attnviz.options import traces
from attnviz.options.option import (
    CommandOptions,
    Option,
    default_of,
    descriptions,
    option_class,
    option_group,
    options_under,
    own_options,
    resolve,
    shared,
)
from attnviz.options.table import option_fields, option_rows
from attnviz.traces.settings import SettingKeywords, Settings, TextsKeywords
from tests.hostile.calls import commands_by_name


def named_in(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_whatever_a_row_names_is_there() -> None:
    for name, row in option_rows().items():
        names = [*descriptions(resolve(row.choices))]

        assert len(names) == len({*names}), name
        assert row.text(row.help).strip(), name
        assert named_in(row.help) | named_in(row.short) <= {"choices", *row.sources}, name
        assert all(flag.startswith("-") for flag in (*row.flags, *row.aliases)), name
        assert (row.choices == ()) or names, name


def test_a_row_says_a_value_that_works_unless_its_default_or_its_words_do() -> None:
    """The error for a missing value suggests it."""
    for name, row in option_rows().items():
        kind = str(option_fields()[name].type)
        has_default = default_of(option_fields()[name]) not in (None, [])
        needs_none = row.is_argument or "bool" in kind or has_default or bool(row.choices)

        assert row.example or needs_none or row.metavar in ("SIZE", "TOKEN", "N"), name


def test_keywords_of_the_library_are_the_options_of_its_settings() -> None:
    settings = {each.name for each in own_options(Settings)}
    looking = {each.name for each in fields(InspectOptions)}

    assert {*SettingKeywords.__annotations__} == settings
    assert {*TextsKeywords.__annotations__} <= settings
    assert {*LookingKeywords.__annotations__} == looking


def test_settings_and_commands_have_the_defaults_of_the_rows() -> None:
    run = RunOptions()

    for each in own_options(Settings):
        assert getattr(Settings(), each.name) == default_of(option_fields()[each.name])
        assert getattr(run, each.name) == getattr(Settings(), each.name)


def test_a_name_means_the_same_to_all_commands_that_have_it() -> None:
    """It is typed alike, and is a file, a token or a flag to all of them, or to none."""
    for name, row in option_rows().items():
        for command, (_, declared) in commands_by_name().items():
            for parameter in declared.params:
                own = getattr(getattr(parameter, "rich_help_panel", None), "row", None)
                if parameter.name == name and own and own.is_argument == row.is_argument:
                    assert (own.is_token, own.is_path) == (row.is_token, row.is_path), command


@option_group(frozen=True, kw_only=True)
class TableOptions:
    decimals: int | None = options_under("Looks")(metavar="N", example="3", help="Decimals.")


@option_class(frozen=True, kw_only=True)
class ExtendedOptions(TableOptions, RunOptions):
    pass


def test_what_an_option_is_called_reaches_every_class_with_a_field_of_its_name() -> None:
    from rich.console import Console

    options = ExtendedOptions(decimals=3, theme="light", full=True, numbers=False, dpi=100)
    screen = screen_from_options(Console(width=60), options)

    assert shared(options, TableCopy).decimals == 3
    assert (screen.theme, screen.full, screen.numbers) == ("light", True, False)
    assert look_from_options(options).dpi == 100


@option_class(frozen=True, kw_only=True)
class TableCopy(TableOptions):
    pass


def test_options_of_groups_come_in_the_order_of_the_groups_each_once() -> None:
    @option_class(frozen=True, kw_only=True)
    class Options(traces.TextOptions, traces.TokenizerOptions, CommandOptions):
        own: int = options_under("Own")(1, metavar="N", help="One of its own.")

    assert [each.name for each in own_options(Options)] == ["text", "file", "tokenizer", "own"]
    assert Options(text="I am", typed=frozenset({"text"})).typed_values(traces.TextOptions) == {
        "text": "I am"
    }
    assert Options() == Options(own=1)


@pytest.mark.parametrize(
    ("name", "facts", "flags"),
    [
        ("decimals", {}, "--decimals"),
        ("as_", {"flags": ("--as",)}, "--as"),
        ("head_dim", {}, "--head-dim"),
    ],
)
def test_an_option_is_typed_as_its_row_or_its_name_says(
    name: str, facts: dict[str, Any], flags: str
) -> None:
    row = Option(heading="Own", help="", **facts)

    assert declare(name, row).default == flags
    assert declare("own", row, has_negation=True).default.endswith("/--no-own")
