"""`attnviz demo`: five pictures, each of which fits a small screen below its command."""

from __future__ import annotations

import re
import shlex
import sys

import pytest
from rich.cells import cell_len

from attnviz.cli import demo
from tests.conftest import Attnviz
from tests.terminals import run_on_terminal

LINES, COLUMNS = 24, 80
CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.slow("processes")
def test_in_a_pipe_the_tour_is_what_its_commands_print(attnviz: Attnviz) -> None:
    result = attnviz("demo")

    assert (result.status, result.err) == (0, "")
    assert len(demo.TOUR_STOPS) == 5
    for number, (about, command) in enumerate(demo.TOUR_STOPS, start=1):
        result_alone = attnviz(*shlex.split(command.replace("\\\n", ""))[1:])
        assert f"{number}/5 {about}\n$ {command}\n\n{result_alone.out}\n" in result.out
    assert demo.NEXT_PROMPT not in result.out
    assert result.out.endswith(f"\n{demo.CLOSING_LINE}\n")


def run_tour_on_terminal(*keys: bytes) -> tuple[str, int]:
    """The screen and exit status of the tour; a key is pressed whenever it waits for one."""
    remaining_keys, prompts_answered = [*keys], 0

    def press_next_key(screen: bytes) -> bytes:
        nonlocal prompts_answered
        prompts_shown = screen.count(demo.NEXT_PROMPT.encode())
        if prompts_shown == prompts_answered or not remaining_keys:
            return b""
        prompts_answered = prompts_shown
        return remaining_keys.pop(0)

    command = [sys.executable, "-m", "attnviz", "demo"]
    environment = {"ATTNVIZ_THEME": "dark"}
    return run_on_terminal(command, environment, press_next_key, size=(LINES, COLUMNS))


@pytest.mark.terminal
def test_on_a_terminal_enter_shows_the_next_picture_and_each_fits() -> None:
    screen, status = run_tour_on_terminal(*[b"\n"] * 4)

    pictures = CODES.sub("", screen).replace("\r", "").split(demo.NEXT_PROMPT)
    assert (status, len(pictures)) == (0, 5)
    for number, picture in enumerate(pictures, start=1):
        lines = picture.strip("\n").split("\n")
        assert lines[0].startswith(f"{number}/5 ")
        assert len(lines) + 2 <= LINES  # with an empty one, and that of the prompt
        assert max(map(cell_len, lines)) <= COLUMNS


@pytest.mark.terminal
@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_the_tour_ends_whenever_somebody_wants_it_to(key: bytes) -> None:
    screen, status = run_tour_on_terminal(key)

    assert status == 0
    assert "1/5" in screen
    assert "2/5" not in screen
    assert "Traceback" not in screen
