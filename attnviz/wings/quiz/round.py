"""A quiz in the terminal: asks one question after another, and counts the right answers."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnviz.cli import background
from attnviz.cli.output import print_lines, screen_from_options
from attnviz.machine import exit_handling
from attnviz.options.output import DeliveryOptions
from attnviz.renderers.terminal.lines import heading_lines, panel_lines
from attnviz.renderers.terminal.screen import Screen, wrap_note
from attnviz.views.grids.exercise import LETTERS, Exercise
from attnviz.views.view import View
from attnviz.wording.words import counted

RIGHT_SIGN, WRONG_SIGN = "✓", "✗"
END_OF_INPUT, ESCAPE = b"\x04", b"\x1b"  # Ctrl-D
SEQUENCE_ENDS = tuple(bytes([code]) for code in b"~ABCDEFGHPQRSZ")  # of arrows and the like
Verdict = Literal["right", "wrong"]
SIGNAL_CHECK_SECONDS = 0.2
MAX_OPTION_LINE = 76  # columns of answers that stand on one line
SOLUTION_LINES = 10  # of the verdict and the words of a solution, with their prompts
PROMPT_LINES = 3  # of the two prompts, and an empty line
VERDICT_STYLES: dict[Verdict, str] = {"right": "bold green", "wrong": "bold red"}


class QuizEnded(Exception):
    """Raised where the reader ends the quiz: with q, Ctrl-C or Ctrl-D."""


def play_round(view: View, options: DeliveryOptions) -> None:
    """Ask the questions of a view, each followed by its solution; print the score at the end.

    q, Ctrl-C and Ctrl-D end it with the score so far.
    """
    assert view.sheet is not None, "a quiz has a sheet of exercises"
    console = Console(highlight=False, markup=False, emoji=False)
    screen = screen_from_options(console, options)
    exercises, verdicts = view.sheet.exercises, list[Verdict]()
    background.discard_late_answers()  # they would be read as keys
    if not options.quiet:
        print_lines(console, heading_lines(view, screen))
    with exit_handling.raise_on_interrupt():
        try:
            for exercise in exercises:
                question = _question_lines(exercise, screen)
                print_lines(console, question)
                chosen = _read_answer_key(console, exercise)
                verdicts.append("right" if chosen == exercise.answer else "wrong")
                verdict = [Text(), *_verdict_lines(exercise, chosen, screen)]
                room = screen.rows - len(question) - len(verdict) - PROMPT_LINES
                has_working = _print_solution(console, exercise, verdict, screen, room)
                _wait_for_next(console, exercise, screen, has_working, exercise is exercises[-1])
        except (QuizEnded, KeyboardInterrupt):
            console.print()
    score = (line.wrap(console, console.width) for line in _score_lines(verdicts, len(exercises)))
    print_lines(console, [Text(), *(line for lines in score for line in lines)])


def _question_lines(exercise: Exercise, screen: Screen) -> list[Text]:
    """Return a question, its answers on one line if they are short. Empty lines are left out where
    the question would leave the screen as soon as its solution comes.
    """
    line = " · ".join(exercise.lettered_options)
    is_short = cell_len(line) <= MAX_OPTION_LINE
    section = replace(exercise.question, remarks=(line,)) if is_short else exercise.question
    lines = [*panel_lines([section], screen), Text()]
    is_tall = len(lines) > screen.rows - SOLUTION_LINES
    return [each for each in lines if each] if is_tall else lines


def _print_solution(
    console: Console, exercise: Exercise, verdict: list[Text], screen: Screen, room: int
) -> bool:
    """Print the verdict and the solution; return whether its tables and sums are left out, because
    with them the question would leave the screen.
    """
    whole = replace(exercise.solution, number="", title="")
    words = replace(whole, grids=(), sums=())
    lines = [*panel_lines([whole], screen)]
    fits = len(lines) <= room or not (whole.grids or whole.sums)
    print_lines(console, [*verdict, *(lines if fits else panel_lines([words], screen)), Text()])
    return not fits


def _wait_for_next(
    console: Console, exercise: Exercise, screen: Screen, has_working: bool, is_last: bool
) -> None:
    """Wait for the key that goes on; w shows the tables and sums that were left out."""
    go_on = "Enter: score" if is_last else "Enter: next"
    while has_working or not is_last:
        working = " · w: working" if has_working else ""
        keys = "\r\n w" if has_working else "\r\n "
        with background.silent_terminal():
            key = _wait_for_key(console, f"{go_on}{working} · q: end ", keys)
        console.print("\n")
        if key != "w":
            break
        only_working = replace(exercise.solution, number="", title="", about="")
        print_lines(console, [*panel_lines([only_working], screen), Text()])
        has_working = False


def _read_answer_key(console: Console, exercise: Exercise) -> int:
    """Return the index of the answer that the reader chooses."""
    count = len(exercise.options)
    letters, numbers = LETTERS[:count], "1234"[:count]
    keys = "a or b, 1 or 2" if count == 2 else f"a to {letters[-1]}, or 1 to {count}"
    with background.silent_terminal():
        key = _wait_for_key(console, f"Your answer ({keys}; q ends): ", letters + numbers)
    index = (letters if key in letters else numbers).index(key)
    console.print(LETTERS[index])
    return index


def _verdict_lines(exercise: Exercise, chosen: int, screen: Screen) -> list[Text]:
    """Return whether the answer is right, and if it is not the reply to it and the right one."""
    is_right = chosen == exercise.answer
    style = VERDICT_STYLES["right" if is_right else "wrong"] if screen.colored else "bold"
    if is_right:
        verdict = f"{RIGHT_SIGN} {exercise.right_option} is right."
    else:
        reply = "".join(exercise.replies[chosen : chosen + 1])
        wrong = f"{WRONG_SIGN} {exercise.lettered_options[chosen]} is wrong. {reply}".strip()
        verdict = f"{wrong} Right: {exercise.right_option}"
    lines = [*wrap_note(verdict, screen)]
    for line in lines:
        line.stylize(style)
    return lines


def _wait_for_key(console: Console, prompt: str, keys: str) -> str:
    """Return the first of these keys that is pressed after a prompt, which is repeated after any
    other key; q ends the quiz.
    """
    _prompt(console, prompt)
    while True:
        key = _read_key().lower()
        if key == "q":
            raise QuizEnded
        if key and key in keys:
            return key
        name = key if key.isprintable() and key.strip() else "this key"
        _prompt(console, f"\n{name} does nothing here. {prompt}")


def _prompt(console: Console, words: str) -> None:
    console.print(Text(words, "dim"), end="")
    sys.stdout.flush()


def _read_key() -> str:
    """Return the next key of a silent terminal; where the system has none, the first letter of a
    line. An escape sequence, such as of an arrow, is one key.
    """
    if os.name != "posix":
        line = sys.stdin.readline()
        if not line:
            raise QuizEnded
        return line.strip()[:1] or "\n"
    terminal = sys.stdin.fileno()
    # A Ctrl-C that comes just before a read begins would wait for the next key to end it.
    while not select.select([terminal], [], [], SIGNAL_CHECK_SECONDS)[0]:
        pass
    pressed = os.read(terminal, 1)
    if pressed == ESCAPE:
        while select.select([terminal], [], [], 0)[0]:
            if os.read(terminal, 1) in SEQUENCE_ENDS:
                break
    if pressed in (b"", END_OF_INPUT):
        raise QuizEnded
    return pressed.decode(errors="replace")


def _score_lines(verdicts: Sequence[Verdict], total: int) -> Iterator[Text]:
    """Yield the score, and the numbers of the questions that were answered wrong."""
    right = verdicts.count("right")
    if not verdicts:
        yield Text("No question was answered.")
        return
    unanswered = total - len(verdicts)
    rest = f"; {counted(unanswered, 'question')} not answered" if unanswered else ""
    yield Text(f"{right} of {counted(len(verdicts), 'answer')} right{rest}.", "bold")
    wrong = [str(number) for number, verdict in enumerate(verdicts, 1) if verdict == "wrong"]
    if wrong:
        yield Text(f"To look at again: {', '.join(wrong)}.")
