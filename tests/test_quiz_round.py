"""A quiz on a terminal: a key for each answer, and a score however it ends."""

from __future__ import annotations

import re
import sys

import pytest
from rich.cells import cell_len

from tests.terminals import run_on_terminal

CODES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
PROMPTS = re.compile(rb"q ends\): |q: end ")


def play_quiz(*keys: bytes, columns: int = 80) -> tuple[str, int]:
    """The screen and status of a quiz in which the next key is pressed whenever it waits."""
    keys_left, prompts_answered = [*keys], 0

    def answer(screen: bytes) -> bytes:
        nonlocal prompts_answered
        prompts_shown = len(PROMPTS.findall(screen))
        if prompts_shown == prompts_answered or not keys_left:
            return b""
        prompts_answered = prompts_shown
        return keys_left.pop(0)

    command = [sys.executable, "-m", "attnviz", "quiz", "-n", "3"]
    theme = {"ATTNVIZ_THEME": "dark"}
    screen, status = run_on_terminal(command, theme, answer, size=(24, columns))
    return CODES.sub("", screen).replace("\r", ""), status


@pytest.mark.terminal
def test_each_question_takes_one_key_and_the_score_comes_at_the_end() -> None:
    screen, status = play_quiz(b"b", b"\n", b"x\x1b[A9a", b" ", b"2")

    assert status == 0
    assert "✓ right\nAnswer: b) am\nThe largest score gets the largest weight." in screen
    assert re.search(r"\n\d of 3 answers right\.\n", screen)
    assert max(map(cell_len, screen.split("\n"))) <= 80


@pytest.mark.terminal
def test_a_wrong_answer_is_named_and_listed_to_look_at_again() -> None:
    screen, status = play_quiz(b"b", b"\n", b"1", b"\n", b"b")

    assert status == 0
    assert "✗ a) 0.13 is wrong\nAnswer: c) 0.57" in screen
    assert "\n✗ a) 0.13 is wrong; right: c) 0.57\nEnter: next" in screen
    assert "\n✓ right: b) am\nEnter: next" in screen
    assert screen.endswith("2 of 3 answers right.\nTo look at again: 2.\n")


@pytest.mark.slow_table("processes", keep=1)
@pytest.mark.terminal
@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x04"], ids=["q", "Ctrl-C", "Ctrl-D"])
def test_it_can_be_ended_at_any_time_with_the_score_so_far(key: bytes) -> None:
    early_screen, status = play_quiz(key)
    later_screen, later_status = play_quiz(b"b", key)

    assert (status, later_status) == (0, 0)
    assert early_screen.endswith("\nNo question was answered.\n")
    assert later_screen.endswith("\n1 of 1 answer right; 2 questions not answered.\n")
