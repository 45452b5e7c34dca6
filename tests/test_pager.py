"""Pages: what is longer than the screen waits to be read, as git's does."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnviz.machine.environment import invalid_terminal_sizes
from tests.terminals import reply_once, run_on_terminal

pytestmark = pytest.mark.terminal
STEPS = ("steps", "I am learning this", "-t", "words")
BROKEN_PAGERS = ("false", "'", "exit 3")
CODES = re.compile(r"\x1b\[[\d;]*m")
SHOW_IN_PAGER = (
    "from attnviz.cli.messages import show_in_pager; "
    "print(['to be printed', 'was shown'][show_in_pager('text ✓\\n')])"
)


@pytest.fixture
def pager(tmp_path: Path) -> Callable[[str], str]:
    """Write a pager as a shell script, and return its path."""

    def make(script: str) -> str:
        path = tmp_path / "pager"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def counting_pager(pager: Callable[[str], str]) -> str:
    """A pager that prints how many lines it got, and whether they have colours."""
    return pager(
        'text=$(cat); echo "paged $(echo "$text" | wc -l) lines with LESS=$LESS"\n'
        "case $text in *'[38;2;'*) echo coloured;; esac"
    )


def run_attnviz(*arguments: str, lines: int = 24, **environment: str) -> str:
    text, status = run_on_terminal(
        [sys.executable, "-m", "attnviz", *arguments],
        {"ATTNVIZ_THEME": "dark", **environment},
        size=(lines, 80),
    )
    assert status == 0
    return text.replace("\r\n", "\n")


def show_text_in_pager(
    answer: Callable[[bytes], bytes] = lambda shown: b"", **environment: str
) -> tuple[str, int]:
    """What a terminal shows of one text in a pager, and the exit status."""
    text, status = run_on_terminal([sys.executable, "-c", SHOW_IN_PAGER], environment, answer)
    assert "Traceback" not in text
    return text.replace("\r\n", "\n"), status


def test_what_is_longer_than_the_screen_goes_through_the_pager_in_colour(
    counting_pager: str,
) -> None:
    text = run_attnviz(*STEPS, PAGER=counting_pager)

    assert text.startswith("paged ")
    assert text.endswith("with LESS=FRX\ncoloured\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("example", "list"),
        ("example", "check", "simplified", "dave", "trainable"),
        ("run", "--help-all"),
    ],
    ids=" ".join,
)
def test_lists_that_are_longer_than_the_screen_go_through_the_pager(
    counting_pager: str, arguments: tuple[str, ...]
) -> None:
    assert run_attnviz(*arguments, PAGER=counting_pager, LESS="FRX").startswith("paged ")
    output = run_attnviz(*arguments, PAGER=counting_pager, lines=400)
    assert "paged" not in output
    assert len(output.splitlines()) > 23


def test_a_pager_begins_with_the_conclusion_which_is_printed_last_without_one(
    pager: Callable[[str], str],
) -> None:
    arguments = ("run", "the old keys near the small cabinet", "--model", "agreement", "-q")
    answer = 'At "?" the model answers "are" (99.9\u00a0%)'

    output_of_pager = run_attnviz(*arguments, PAGER=pager("cat"))
    output_without_pager = run_attnviz(*arguments, PAGER="cat")
    assert output_of_pager.count(answer) == output_without_pager.count(answer) == 1
    assert output_of_pager.index(answer) < output_of_pager.index("row = query")
    assert output_without_pager.index(answer) > output_without_pager.index("row = query")
    assert sorted(output_of_pager.split("\n")) == sorted(output_without_pager.split("\n"))


def test_seventeen_tokens_and_what_is_said_of_them_fit_a_small_screen(counting_pager: str) -> None:
    text = run_attnviz("run", " ".join("a" * 17), "-t", "words", PAGER=counting_pager)
    lines = CODES.sub("", text).rstrip("\n").split("\n")

    assert "paged" not in text
    assert len(lines) == 23  # and the line of the prompt
    assert lines[0] == (
        "Each token attends equally to all tokens · scaled attention · 17 tokens (words)…"
    )
    assert lines[1].startswith("random vectors: ")
    assert lines[-1] == "--show context shows the vectors"


@pytest.mark.parametrize(
    ("options", "pager_name", "lines"),
    [(["--no-pager"], None, 24), ([], None, 500), ([], "no-such-pager", 24)],
)
def test_without_a_pager_and_where_it_fits_the_text_is_printed(
    counting_pager: str, options: list[str], pager_name: str | None, lines: int
) -> None:
    text = run_attnviz(*STEPS, *options, PAGER=pager_name or counting_pager, lines=lines)

    assert "paged" not in text
    assert text.count("Step 10: context vectors") == 1


def test_a_map_that_is_seen_with_its_legend_does_not_stop_at_its_heading(
    counting_pager: str,
) -> None:
    text = run_attnviz("run", " ".join("a" * 40), "-t", "words", PAGER=counting_pager)

    assert "paged" not in text
    assert "▀" in text
    assert "--show context shows the vectors" in text
    assert "context vectors" not in text


def test_the_options_of_less_that_somebody_has_chosen_are_kept(counting_pager: str) -> None:
    assert show_text_in_pager(PAGER=counting_pager, LESS="R") == (
        "paged 1 lines with LESS=R\nwas shown\n",
        0,
    )


@pytest.mark.parametrize(
    ("command", "output"),
    [
        *((command, "to be printed\n") for command in ("", "cat", " ", *BROKEN_PAGERS)),
        ("true", "was shown\n"),  # who quits early has had enough
    ],
)
def test_a_text_is_printed_unless_a_pager_took_it(command: str, output: str) -> None:
    text, status = show_text_in_pager(PAGER=command)

    assert text == output or (command in BROKEN_PAGERS and text.endswith(output))
    assert status == 0


def test_a_pager_that_is_missing_shows_nothing(tmp_path: Path) -> None:
    assert show_text_in_pager(PATH=str(tmp_path)) == ("to be printed\n", 0)
    text, status = show_text_in_pager(PAGER="no-such-pager --wide")
    assert text.endswith("to be printed\n")
    assert status == 0


def test_less_shows_what_fits_and_leaves() -> None:
    text, status = show_text_in_pager()

    assert status == 0
    assert text.endswith("was shown\n" if shutil.which("less") else "to be printed\n")
    assert ("text ✓" in text) == bool(shutil.which("less"))


def test_an_interrupt_in_the_pager_is_for_the_pager(pager: Callable[[str], str]) -> None:
    waiting_pager = pager(
        "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.05; done"
    )
    text, status = show_text_in_pager(reply_once(b"\x03", b"ready"), PAGER=waiting_pager)

    assert text.endswith("got it\nwas shown\n")
    assert status == 0


def test_a_screen_that_is_said_to_have_no_columns_shows_as_much_as_before() -> None:
    arguments = ("run", "I am", "--variant", "plain", "--no-pager")

    assert run_attnviz(*arguments, COLUMNS="0", LINES="0") == run_attnviz(*arguments)


@pytest.mark.parametrize("size", ["0", "-5", "²", "1e3", "9" * 20, "wide", ""])
def test_columns_and_lines_that_are_no_size_are_ignored(
    size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environment:  # pytest itself reads them when it reports a test
        environment.setenv("COLUMNS", size)
        environment.setenv("LINES", "24")

        assert invalid_terminal_sizes() == ["COLUMNS"]
