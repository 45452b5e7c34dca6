"""Help for a beginner: the options that matter on one screen, every option on demand."""

from __future__ import annotations

import re
import shlex

import pytest
from rich.cells import cell_len

from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.version import __version__
from tests.conftest import Attnviz
from tests.test_guesses import commands, options

LINES, COLUMNS = 40, 80
COMMANDS_WITH_MANY_OPTIONS = [("run",), ("compare",), ("steps",), ("learn",), ("example", "show")]


@pytest.mark.parametrize("path", [(), *(path for path, _ in commands())], ids=" ".join)
def test_help_is_one_screen(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = attnviz(*path, "--help").out.splitlines()

    assert len(lines) <= LINES
    assert max(map(cell_len, lines)) <= COLUMNS


@pytest.mark.parametrize("path", COMMANDS_WITH_MANY_OPTIONS, ids=" ".join)
def test_help_shows_what_matters_and_says_how_many_more_there_are(
    attnviz: Attnviz, path: tuple[str, ...]
) -> None:
    short_help, full_help = (attnviz(*path, option).out for option in ("--help", "--help-all"))
    command = dict(commands())[path]
    modes = [shlex.split(mode.example) for mode in command.modes]
    full_help_of_modes = [attnviz(*path, *words, "--help-all").out for words in modes]
    option_names = [each.opts[0] for each in options(command) if not each.hidden]
    listed_in_full = full_help.partition("\nWith one of these")[0]
    count = len(re.findall(r"^  (?:-\w, )?--(?!help )", listed_in_full, re.MULTILINE))

    listed_names = [
        name
        for name in option_names
        if re.search(rf"^  (-\w, )?{name}\b", short_help, re.MULTILINE)
    ]
    assert 6 <= len(listed_names) <= 16
    assert f"attnviz {' '.join(path)} --help-all lists all {count} options" in short_help
    assert [
        n for n in option_names if not any(n in t for t in (full_help, *full_help_of_modes))
    ] == []
    assert (count == len(option_names)) is not bool(modes)


def test_the_most_common_run_has_fifty_options_at_most(attnviz: Attnviz) -> None:
    assert "lists all 48 options" in attnviz("run", "--help").out
    for words, name in (("--layers 2", "--norm"), ("--stream", "--pool"), ("--given a", "--item")):
        assert name not in attnviz("run", "--help-all").out
        assert name in attnviz("run", *words.split(), "--help-all").out


@pytest.mark.parametrize(
    "words", ["run --foo --help", "run --layers --help", "run -o --help", "compare --learn --help"]
)
def test_words_that_are_wrong_are_refused_beside_help(attnviz: Attnviz, words: str) -> None:
    result = attnviz(*words.split())

    assert result.status == 2
    assert len(result.err.splitlines()) == 2


def test_help_of_a_comparison_lists_what_its_mode_takes(attnviz: Attnviz) -> None:
    learning = attnviz("compare", "--learn", "reverse", "--help-all").out
    models = attnviz("compare", "--model", "a", "--model", "b", "--help-all").out

    assert [name in learning for name in ("--rate", "--reference", "--stream")] == [
        True,
        False,
        False,
    ]
    assert [name in models for name in ("--target", "--rate", "--reference")] == [
        True,
        False,
        False,
    ]


def test_help_of_a_comparison_leaves_out_what_is_compared(attnviz: Attnviz) -> None:
    masks, scales = (
        attnviz("compare", *words, "--help-all").out for words in (("--by", "mask"), ())
    )

    assert ["--causal /" in masks, "--scale /" in masks] == [False, True]
    assert ["--causal /" in scales, "--scale /" in scales] == [True, False]


@pytest.mark.slow("calls")
def test_the_examples_of_help_are_commands_that_work(attnviz: Attnviz) -> None:
    for path in COMMANDS_WITH_MANY_OPTIONS:
        lines = attnviz(*path, "--help").out.splitlines()
        example = next(each for each in lines if each.startswith(f"  attnviz {' '.join(path)} "))
        arguments = re.findall(r'"[^"]*"|\S+', example)[1:]
        assert attnviz(*(word.strip('"') for word in arguments)).status == 0


def test_help_is_a_command_too(attnviz: Attnviz) -> None:
    assert attnviz("help").out == attnviz("--help").out
    assert attnviz("help", "run").out == attnviz("run", "--help").out
    assert attnviz("help", "example", "show").out == attnviz("example", "show", "--help").out
    assert "did you mean 'steps'?" in attnviz("help", "stesp").err
    assert attnviz("help", "run", "more").err == (
        "error: attnviz run has no commands of its own\n hint: leave 'more' out\n"
    )


def test_the_version_is_a_command_too(attnviz: Attnviz) -> None:
    assert attnviz("version").out == attnviz("--version").out == f"attnviz {__version__}\n"


def test_variants_and_tokenizers_are_listed_with_a_sentence_each(attnviz: Attnviz) -> None:
    descriptions = {name: each.about for name, each in VARIANTS.items()}
    descriptions |= {name: each.about for name, each in MISTAKES.items()}
    variants_output = " ".join(attnviz("variants").out.split())
    assert [
        name
        for name, description in descriptions.items()
        if f"{name} {description}" not in variants_output
    ] == []

    tokenizers_output = " ".join(attnviz("tokenizers").out.split())
    assert [
        n for n, each in TOKENIZERS.items() if f"{n} {each.about}" not in tokenizers_output
    ] == []


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_what_is_listed_fits_the_screen(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for name in ("variants", "tokenizers"):
        table = attnviz(name).out.partition("\n\nattnviz ")[0]
        assert max(map(cell_len, table.splitlines())) <= min(int(columns), 80)
