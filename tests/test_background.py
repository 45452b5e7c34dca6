"""Light or dark: the terminal is asked, and left as it was."""

from __future__ import annotations

import io
import sys

import pytest

from attnviz.cli.background import (
    ANSWER_SECONDS,
    LATE_ANSWER_SECONDS,
    is_light_background,
    terminal_theme,
)
from attnviz.errors import AttnvizError
from tests.terminals import reply_once, run_on_terminal

QUESTIONS = b"\x1b]11;?\x1b\\\x1b[c"
DEVICE_ATTRIBUTES = b"\x1b[?62;22c"  # what a terminal is, which every one says
WHITE, BLACK = b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x07"
UNCLEAR_REPLIES = b"", b"\x1b]11;nonsense\x1b\\", b"\x1b]11;rgb:ff"
ANSWER_AND_LATER = ANSWER_SECONDS + LATE_ANSWER_SECONDS

# Prints the theme, whether the terminal is as before, and its unread input.
SCRIPT = """
import os, select, sys, termios, time
from attnviz.cli.background import discard_late_answers, terminal_theme
before = termios.tcgetattr(0)
start = time.monotonic()
theme = terminal_theme()
took = time.monotonic() - start
discard_late_answers()
settled = time.monotonic() - start
same = termios.tcgetattr(0) == before
quiet = termios.tcgetattr(0)
quiet[3] &= ~(termios.ECHO | termios.ICANON)
termios.tcsetattr(0, termios.TCSANOW, quiet)
left = os.read(0, 100) if select.select([0], [], [], 0.1)[0] else b""
print(f"<{theme} {'as before' if same else 'changed'} left {left!r} {took:.2f} {settled:.2f}>")
"""


def query_terminal(
    reply: bytes = b"", after: float = 0.0, typed: bytes = b"", **environment: str
) -> list[str]:
    """Theme, terminal state, unread input, seconds, and seconds until late answers are gone."""
    answers = reply_once(reply, QUESTIONS, after) if reply else lambda output: b""
    text, _ = run_on_terminal([sys.executable, "-c", SCRIPT], environment, answers, typed=typed)
    theme, rest = text.rpartition("<")[2].rstrip(">\r\n").split(" ", 1)
    state, _, rest = rest.partition(" left ")
    unread_input, seconds, settled_seconds = rest.rsplit(" ", 2)
    # No answer of the terminal was echoed on its screen.
    assert "rgb" not in text
    return [theme, state, unread_input, seconds, settled_seconds]


@pytest.mark.terminal
@pytest.mark.parametrize(("answer", "theme"), [(WHITE, "light"), (BLACK, "dark")])
def test_a_terminal_is_asked_for_its_background(answer: bytes, theme: str) -> None:
    contradicting_theme = "0;15" if theme == "dark" else "15;0"

    assert query_terminal(answer + DEVICE_ATTRIBUTES, COLORFGBG=contradicting_theme)[:3] == [
        theme,
        "as before",
        "b''",
    ]


@pytest.mark.terminal
def test_one_that_knows_no_background_is_known_by_its_other_answer_and_nobody_waits() -> None:
    theme, state, unread_input, seconds, _ = query_terminal(DEVICE_ATTRIBUTES, COLORFGBG="0;15")

    assert [theme, state, unread_input] == ["light", "as before", "b''"]
    assert float(seconds) < ANSWER_SECONDS


@pytest.mark.slow_table("processes", keep=3)
@pytest.mark.terminal
@pytest.mark.parametrize(
    ("reply", "after", "most_seconds"),
    [
        *((reply, 0.0, 1.2 * ANSWER_AND_LATER) for reply in UNCLEAR_REPLIES),
        *((WHITE + DEVICE_ATTRIBUTES, after, LATE_ANSWER_SECONDS) for after in (0.1, 0.4)),
    ],
)
def test_an_answer_that_is_missing_unclear_or_late_counts_for_nothing_and_is_taken_away(
    reply: bytes, after: float, most_seconds: float
) -> None:
    theme, state, unread_input, seconds, settled_seconds = query_terminal(reply, after=after)

    assert [theme, state, unread_input] == ["light", "as before", "b''"]
    assert float(seconds) < 2 * ANSWER_SECONDS
    assert after - 0.1 < float(settled_seconds) < most_seconds


@pytest.mark.slow("processes")
@pytest.mark.terminal
def test_a_whole_command_leaves_no_late_answer_behind() -> None:
    after = "import os, select; print([select.select([0], [], [], 0.5)[0]])"
    line = f"{sys.executable} -m attnviz 'I am' -t words; {sys.executable} -c '{after}'"
    text, _ = run_on_terminal(
        ["sh", "-c", line], {}, reply_once(WHITE + DEVICE_ATTRIBUTES, QUESTIONS, 0.4)
    )

    assert "rgb" not in text
    assert text.rstrip().endswith("[[]]")


@pytest.mark.terminal
def test_what_somebody_typed_ahead_is_theirs() -> None:
    text, _ = run_on_terminal([sys.executable, "-c", SCRIPT], {}, typed=b"ls")

    assert "left b'ls'" in text
    assert "\x1b]11" not in text


@pytest.mark.terminal
@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"ATTNVIZ_THEME": "light"}])
def test_a_terminal_that_knows_nothing_or_whose_theme_is_set_is_not_asked(
    environment: dict[str, str],
) -> None:
    text, _ = run_on_terminal([sys.executable, "-c", SCRIPT], environment)

    assert "<light as before" in text or "ATTNVIZ_THEME" not in environment
    assert "\x1b" not in text


def test_what_is_said_wins_and_colorfgbg_is_asked_before_light_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal, which cannot be asked
    assert terminal_theme() == "light"
    monkeypatch.setenv("TERM", "linux")
    assert terminal_theme() == "dark"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLORFGBG", "0;default;15")
    assert terminal_theme() == "light"
    monkeypatch.setenv("COLORFGBG", "15;default")
    assert terminal_theme() == "light"
    monkeypatch.setenv("COLORFGBG", "15;0")
    assert terminal_theme() == "dark"
    monkeypatch.setenv("ATTNVIZ_THEME", "light")
    assert terminal_theme() == "light"


def test_a_theme_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_THEME", "drak")

    with pytest.raises(AttnvizError, match="ATTNVIZ_THEME: there is no theme 'drak'") as error:
        terminal_theme()
    assert error.value.hint == "did you mean 'dark'? known: light, dark"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"\x1b]11;rgb:fdfd/f6f6/e3e3\x07", True),  # Solarized light, and dark
        (b"\x1b]11;rgb:0000/2b2b/3636\x1b\\", False),
        (b"\x1b]11;rgba:ff/ff/ff/80\x1b\\", True),
        (b"\x1b]11;#ffffff\x07", True),
        (b"\x1b]11;rgb:f/f/f\x07", True),
        (b"\x1b]11;rgb:ffff/ffff\x07", None),
        (b"\x1b]11;rgb:////\x07", None),
        (b"\x1b]10;rgb:ffff/ffff/ffff\x07", None),
        (b"", None),
    ],
)
def test_answers_are_read_in_every_form(answer: bytes, expected: bool | None) -> None:
    assert is_light_background(answer) is expected
