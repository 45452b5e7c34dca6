"""A quiz on a terminal: a key for each answer, and a score however it ends."""

from __future__ import annotations

import re
import sys
from functools import cache

import pytest
from rich.cells import cell_len

from attnviz.views.grids.exercise import Exercise
from attnviz.wings.quiz.lesson import read_course
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.words import build_exercise
from tests.terminals import run_on_terminal

CODES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
PROMPTS = re.compile(rb"q ends\): |q: end ")


@cache
def exercises() -> list[Exercise]:
    """The questions that are asked below."""
    quiz = build_quiz(read_course())
    return [build_exercise(each, number) for number, each in enumerate(quiz.questions[:3], 1)]


def right_key(number: int) -> bytes:
    return b"abcd"[exercises()[number - 1].answer :][:1]


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
    screen, status = play_quiz(right_key(1), b"\n", b"a", b" ", b"2", b"\n")

    assert status == 0
    right = exercises()[0].right_option
    assert f"✓ {right} is right.\n\nA row is a query, the token that reads;" in screen
    assert re.search(r"\n\d of 3 answers right\.\n", screen)
    assert max(map(cell_len, screen.split("\n"))) <= 80


@pytest.mark.terminal
def test_a_wrong_answer_is_named_and_listed_to_look_at_again() -> None:
    third = exercises()[2]
    wrong = next(at for at, reply in enumerate(third.replies) if reply)
    option, right = third.lettered_options[wrong], third.right_option
    keys = right_key(1), b"\n", right_key(2), b"\n", str(wrong + 1).encode(), b"\n"
    screen, status = play_quiz(*keys, columns=200)

    assert status == 0
    assert f"✗ {option} is wrong. {third.replies[wrong]} Right: {right}\n" in screen
    assert screen.endswith("2 of 3 answers right.\nTo look at again: 3.\n")


@pytest.mark.terminal
def test_after_a_key_that_does_nothing_the_keys_are_named_again() -> None:
    screen, status = play_quiz(b"z", b"\x1b[A", right_key(1), b"7", b"q")

    assert status == 0
    prompt = "Your answer (a to d, or 1 to 4; q ends): "
    assert f"\nz does nothing here. {prompt}\nthis key does nothing here. {prompt}" in screen
    assert "\n7 does nothing here. Enter: next · q: end" in screen
    assert screen.endswith("\n1 of 1 answer right; 2 questions not answered.\n")


@pytest.mark.slow_table("processes", keep=1)
@pytest.mark.terminal
@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x04"], ids=["q", "Ctrl-C", "Ctrl-D"])
def test_it_can_be_ended_at_any_time_with_the_score_so_far(key: bytes) -> None:
    early_screen, status = play_quiz(key)
    later_screen, later_status = play_quiz(right_key(1), key)

    assert (status, later_status) == (0, 0)
    assert early_screen.endswith("\nNo question was answered.\n")
    assert later_screen.endswith("\n1 of 1 answer right; 2 questions not answered.\n")
