"""The live view: on whatever screen no line of it is broken, and there are none too many."""

from __future__ import annotations

import io
import re
import signal
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.cli import messages
from attnviz.machine import exit_handling
from attnviz.renderers.terminal.glimpse import glimpse_lines
from attnviz.renderers.terminal.screen import ColorDepth, Screen
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.glimpse import Glimpse, MeasureHistory
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from tests import LONGEST, terminals
from tests.terminals import reply_once, run_on_terminal

WEIGHT = Scale("weight", 0.0, 1.0)
WORDS = ["the", "old", "keys", "near", "the", "small", "cabinet", "?"]
ENDLESS_COMMAND = ("learn", "reverse", "--layers", "2", "--heads", "2", "--steps", "1000000")


def glimpse(
    words: list[str], layers: int = 2, heads: int = 2, readings: tuple[str, ...] = ("subject",)
) -> Glimpse:
    """A Glimpse in which each head attends to itself and to one earlier token."""
    count = len(words)
    numbers = tuple(str(number + 1) for number in range(count))
    rows, columns = (Axis(side, "token", tuple(words), numbers) for side in ("query", "key"))
    hidden = np.triu(np.ones((count, count), dtype=bool), 1)
    names = [[f"L{layer}H{head}" for head in range(heads)] for layer in range(layers)]
    maps = tuple(
        tuple(
            Grid(name, rows, columns, StoredCells(_reading(count, place), hidden), WEIGHT)
            for place, name in enumerate(of_layer)
        )
        for of_layer in names
    )
    head_axis = plain_axis("head", [name for of_layer in names for name in of_layer])
    scores = np.linspace(0, 1, layers * heads * len(readings)).reshape(layers * heads, -1)
    losses = np.exp(-np.arange(20) / 5)
    return Glimpse(
        title="learning keys",
        about="what keys are for",
        status_parts=("step 310 of 1,500", "412 steps/s", "at most 3 s left"),
        layers=maps,
        scores=Grid(
            "scores", head_axis, plain_axis("reading", readings), unmasked_cells(scores), WEIGHT
        ),
        steps=np.arange(20) * 3,
        histories=(
            MeasureHistory("loss", "0.021", 1.0, losses),
            MeasureHistory("verbs right", "99.6\u00a0%", 1.0, 1 - losses),
        ),
    )


def _reading(count: int, distance: int) -> np.ndarray:
    weights = np.zeros((count, count))
    for row in range(count):
        weights[row, row] += 0.25
        weights[row, max(0, row - distance - 1)] += 0.75
    return weights


def plain_lines(lines: list[Text]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


sizes = st.tuples(st.integers(1, 200), st.integers(2, 60))
words = st.lists(
    st.sampled_from(["a", "keys", "cabinet", "漢字", "é", "שלום"]), min_size=1, max_size=40
)


@given(
    size=sizes,
    words=words,
    shape=st.tuples(st.integers(1, 4), st.integers(1, 8)),
    readings=st.lists(st.sampled_from(["subject", "previous token", "x"]), max_size=3, unique=True),
    colors=st.sampled_from(["none", "16", "256", "truecolor"]),
)
def test_it_fits_any_screen(
    size: tuple[int, int],
    words: list[str],
    shape: tuple[int, int],
    readings: list[str],
    colors: ColorDepth,
) -> None:
    screen = Screen(*size, colors=colors)

    lines = glimpse_lines(glimpse(words, *shape, tuple(readings)), screen)

    assert len(lines) <= screen.rows
    assert max(line.cell_len for line in lines) <= screen.room
    assert all("\n" not in line.plain for line in lines)


def test_on_an_ordinary_screen_all_of_it_is_seen() -> None:
    lines = plain_lines(glimpse_lines(glimpse(WORDS), Screen(80, 24, colors="truecolor")))
    text = "\n".join(lines)

    assert "learning keys: what keys are for\nstep 310 of 1,500 · 412 steps/s" in text
    assert all(name in text for name in ("L0H0", "L0H1", "L1H0", "L1H1"))
    for name in ("3 keys", "7 cabinet", "8 ?"):
        assert sum(line.startswith(name) for line in lines) == 2
    assert sum("1 2 3 4 5 6 7 8" in line for line in lines) == 1
    assert "each head's attention on:" in text
    assert "loss 0.021" in text
    assert "verbs right 99.6\u00a0%" in text
    assert "weight 0" in text


def test_on_a_small_one_every_head_is_still_there() -> None:
    lines = plain_lines(glimpse_lines(glimpse(WORDS), Screen(40, 12, colors="256")))

    assert lines[0] == "learning keys: what keys are for"
    assert " ".join(lines[2].split()) == "L0H0 L0H1 L1H0 L1H1"
    assert lines[-1].startswith("verbs right 99.6\u00a0%")


def test_where_there_is_no_room_the_head_that_does_most_is_seen() -> None:
    lines = plain_lines(glimpse_lines(glimpse(WORDS), Screen(30, 12)))

    assert "L1H1" in lines[2]
    assert not any("L0H0" in line for line in lines)


def test_names_of_readings_are_whole_where_all_of_them_fit() -> None:
    """Short names leave their room to long ones: 10 + 11 + 8 columns, and a space between them."""
    names = ("antecedent", "preposition", "previous")
    maps = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "x", "y"]
    lines = plain_lines(glimpse_lines(glimpse(maps, readings=names), Screen(80, 21, colors="256")))

    assert any(line.endswith(" ".join(names)) for line in lines)


def test_on_the_smallest_what_is_right_is_said() -> None:
    lines = plain_lines(glimpse_lines(glimpse(WORDS), Screen(24, 8)))

    assert lines[-1] == "verbs right 99.6\u00a0%"


def test_the_colour_of_a_cell_is_that_of_its_weight() -> None:
    """The brightest of a row is what it reads with .75."""
    lines = glimpse_lines(glimpse(WORDS, 1, 1), Screen(80, 24, colors="truecolor", theme="dark"))
    row = next(line for line in lines if line.plain.startswith("2 old"))
    start = len("7 cabinet ")
    styles = [row.get_style_at_offset(terminals.CONSOLE, start + 2 * place) for place in range(2)]
    brightnesses = [sum(style.bgcolor.get_truecolor()) for style in styles if style.bgcolor]

    assert brightnesses[0] > brightnesses[1]


def test_a_curve_begins_at_the_first_step_and_ends_at_the_last() -> None:
    lines = plain_lines(glimpse_lines(glimpse(WORDS), Screen(40, 12, colors="256")))
    loss, right = (line.split()[-1] for line in lines[-2:])

    assert loss[0] == "█"
    assert loss[-1] == "▁"
    assert right[0] == "▁"
    assert right[-1] == "█"


def test_a_number_that_is_none_leaves_its_place_empty() -> None:
    view = glimpse(WORDS)
    view.histories[0].values[-1] = np.nan
    view.scores.values[0] = np.nan

    assert len(glimpse_lines(view, Screen(80, 24))) > 20


def watch_training(
    size: tuple[int, int], answer: Callable[[bytes], bytes], **environment: str
) -> tuple[str, int]:
    command = [sys.executable, "-m", "attnviz", *ENDLESS_COMMAND]
    return run_on_terminal(command, {"ATTNVIZ_THEME": "dark", **environment}, answer, size)


def interrupt_once_learning() -> Callable[[bytes], bytes]:
    """Ctrl-C, once some steps are learned."""
    return reply_once(b"\x03", b"steps/s")


@pytest.mark.slow_table("processes", keep=1)
@pytest.mark.terminal
@pytest.mark.parametrize(
    ("size", "environment"),
    [
        ((24, 80), {}),
        ((12, 40), {"COLORTERM": "", "TERM": "xterm-16color", "ATTNVIZ_THEME": "light"}),
    ],
    ids=["80x24", "40x12 in 16 colours"],
)
def test_on_a_terminal_it_stays_in_its_place_and_ctrl_c_ends_it(
    size: tuple[int, int], environment: dict[str, str]
) -> None:
    text, status = watch_training(size, interrupt_once_learning(), **environment)
    screen = terminals.Screen(*size).write(text)

    assert status == 0, text
    assert screen.broken == 0
    assert screen.beyond == 0
    assert not screen.hidden
    lines = [line for line in screen.text if line]
    assert lines[0].startswith("learning reverse")
    assert [line for line in lines if line.startswith("step ")] == [lines[1]]
    output = " ".join(" ".join(lines).split())
    accuracy = (
        r"([\d.]+ % of the letters are|every letter is) right"  # a quick machine learns it all
    )
    assert re.search(rf"Stopped after \d+ steps: {accuracy}", output)
    assert text.count("step ") > 3  # it was drawn several times
    assert ("\x1b[38;2;" in text) == (not environment)


STOPPING_SCRIPT = """
import os, time
from attnviz.machine.exit_handling import exit_on_signals, stop_on_interrupt, undo_on_signal
exit_on_signals()
with undo_on_signal(lambda: os.write(1, b"tidied")), stop_on_interrupt() as stopped:
    print("begun", flush=True)
    while not stopped():
        time.sleep(0.01)
    print("stopped", flush=True)
    time.sleep(20)
"""


@pytest.mark.terminal
def test_a_second_ctrl_c_leaves_as_ever() -> None:
    # With the end of the line: a terminal that gets Ctrl-C drops what was not yet read.
    first, second = reply_once(b"\x03", b"begun\r\n"), reply_once(b"\x03", b"stopped\r\n")

    text, status = run_on_terminal(
        [sys.executable, "-c", STOPPING_SCRIPT], {}, lambda output: first(output) or second(output)
    )

    assert status == 130
    assert text.replace("^C", "").split() == ["begun", "stopped", "tidied"]


def test_who_ignores_ctrl_c_is_not_stopped_by_it() -> None:
    handler_before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with exit_handling.stop_on_interrupt() as is_stopped:
            signal.raise_signal(signal.SIGINT)
            assert not is_stopped()
        with exit_handling.stop_on_interrupt():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler_before)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_long_work_is_said_on_a_terminal_and_goes_from_it(
    monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    monkeypatch.setattr(messages, "SECONDS_BEFORE_TIMER", 0.0)
    monkeypatch.setattr("sys.stderr", Tty())
    monkeypatch.setenv("TERM", "xterm")
    terminal, end = sys.stderr, time.monotonic() + LONGEST
    assert isinstance(terminal, Tty)

    with messages.with_timer("writing", quiet=quiet):
        while not (quiet or "writing" in terminal.getvalue()) and time.monotonic() < end:
            time.sleep(0.01)

    assert ("writing" in terminal.getvalue()) == (not quiet)
    assert terminal.getvalue().endswith("" if quiet else "\x1b[2K")


def test_work_that_is_soon_done_and_work_that_nobody_sees_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for screen, patience in ((Tty(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr(messages, "SECONDS_BEFORE_TIMER", patience)
        monkeypatch.setattr("sys.stderr", screen)
        with messages.with_timer("writing", quiet=False):
            pass
        assert screen.getvalue() == ""
