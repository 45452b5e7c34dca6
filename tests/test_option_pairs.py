"""Every option of every command, and every pair of them, is refused, or changes what comes out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from attnviz.wording.no_effect import NO_EFFECT, NoEffect
from tests.hostile.calls import commands_by_name
from tests.option_pairs import (
    Ignored,
    find_ignored,
    find_ignored_alone,
    is_explained,
    option_names,
    option_pairs,
    without_explanation,
)
from tests.option_samples import OWN_SAMPLES, SAMPLES, sample_of

pytestmark = pytest.mark.usefixtures("quick")
COMMANDS = [name for name in commands_by_name() if option_names(name)]
QUICK_PAIRS = 6  # of a command, spread over all of them
MOST_ROWS = 42


def describe(ignored: Sequence[Ignored | None]) -> list[str]:
    return [str(each) for each in ignored if without_explanation(each)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_sample_value(command: str) -> None:
    own, every = OWN_SAMPLES.get(command, {}), {*option_names(command)}
    for option in every:
        sample_of(command, option)

    assert {*own} <= every


def test_every_sample_value_is_of_an_option() -> None:
    assert {*SAMPLES} <= {option for command in COMMANDS for option in option_names(command)}


@pytest.mark.slow("calls")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_changes_something_in_its_context(command: str) -> None:
    assert describe([find_ignored_alone(command, each) for each in option_names(command)]) == []


@pytest.mark.slow_table("calls", keep=3)
@pytest.mark.parametrize("command", COMMANDS)
def test_some_pairs_of_options_are_refused_or_change_something(command: str) -> None:
    pairs = option_pairs(command)[:: max(len(option_pairs(command)) // QUICK_PAIRS, 1)]

    assert describe([each for pair in pairs for each in find_ignored(command, *pair)]) == []


@pytest.mark.slow("calls")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_pair_of_options_is_refused_or_changes_something(command: str) -> None:
    pairs = option_pairs(command)

    assert describe([each for pair in pairs for each in find_ignored(command, *pair)]) == []


@pytest.mark.slow("calls")
@pytest.mark.parametrize("row", NO_EFFECT, ids=lambda row: row.why)
def test_every_option_of_a_row_without_effect_is_ignored_somewhere(row: NoEffect) -> None:
    others = [each for each in NO_EFFECT if each is not row]
    for option in row.options:
        assert any(
            is_explained(each, row) and not any(is_explained(each, other) for other in others)
            for command in COMMANDS
            if option in ("*", *option_names(command))
            for pair in option_pairs(command)
            if option in ("*", *pair)
            for each in find_ignored(command, *pair)
        ), option


def test_rows_of_options_without_effect_are_few() -> None:
    assert len(NO_EFFECT) <= MOST_ROWS
