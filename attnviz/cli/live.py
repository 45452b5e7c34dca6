"""A training on the screen: frames on a terminal, lines of progress elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from attnviz.cli import background
from attnviz.cli.messages import print_message
from attnviz.cli.output import screen_from_options
from attnviz.learning.choices import Choices
from attnviz.learning.progress import Moment
from attnviz.learning.task_names import TASKS
from attnviz.learning.training import Training, complete_choices
from attnviz.machine import exit_handling
from attnviz.options.output import DeliveryOptions
from attnviz.renderers.terminal.glimpse import glimpse_lines
from attnviz.renderers.terminal.screen import Screen, line_segments
from attnviz.views.glimpse import build_glimpse, moment_line
from attnviz.wording.words import counted

MAX_FRAMES_PER_SECOND = 10
MAX_DRAWING_SHARE = 0.08  # of the time, spent on drawing
MIN_SCREEN_SIZE = 24, 8  # columns and lines
FREE_LINES, HIGH_SCREEN_LINES = 2, 20  # left free for the last message, on screens so high
MIN_WATCHED_SECONDS = 2.0  # a training that takes less is replayed slowly,
REPLAY_FRAMES = 25  # in so many frames
MIN_STEPS_BETWEEN_LINES, LINE_INTERVAL_DIVISOR = 10, 4  # the interval grows with the steps done
SHOW_CURSOR = b"\x1b[?25h"
BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"  # a terminal shows what is between at once

StopCheck = Callable[[], bool]


def watch_training(training: Training, stopped: StopCheck, options: DeliveryOptions) -> bool:
    """Train until it is done or `stopped()`; return whether it was drawn on a screen.

    Elsewhere, or with --json, lines of progress go to standard error; with --quiet nothing is
    shown.
    """
    is_on_screen = is_screen() and not (options.json or options.quiet)
    if is_on_screen:
        _train_on_screen(training, stopped, options)
    else:
        _train(
            training, stopped, (lambda moment: None) if options.quiet else _ProgressLines(training)
        )
    return is_on_screen


def is_screen() -> bool:
    """Return whether standard output is a UTF-8 terminal that can be redrawn, and large enough."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return is_utf8 and columns >= MIN_SCREEN_SIZE[0] and lines >= MIN_SCREEN_SIZE[1]


def _train(training: Training, stopped: StopCheck, show: Callable[[Moment], None]) -> None:
    """Train until it is done or `stopped()`, and call `show` with each measured moment."""
    training.stopped = stopped
    for moment in training:
        show(moment)


class _ProgressLines:
    """Prints a line of progress at the first step, at the last, and ever less often between."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._next = 0

    def __call__(self, moment: Moment) -> None:
        """Print a line for a moment of the training, if one is due."""
        last = self._training.is_last(moment)
        if moment.step >= self._next or last:
            print_message(moment_line(self._training.task, moment))
            self._next = moment.step + max(
                MIN_STEPS_BETWEEN_LINES, moment.step // LINE_INTERVAL_DIVISOR
            )


def _train_on_screen(training: Training, stopped: StopCheck, options: DeliveryOptions) -> None:
    """Train and redraw the picture in place; a short training is replayed slowly at the end."""
    console = Console(highlight=False, markup=False, emoji=False)
    screen = screen_from_options(console, options)
    background.discard_late_answers()
    with _live_display(console) as live:
        picture = _TrainingPicture(training, live, screen)
        _train(training, stopped, picture)
        if picture.seconds < MIN_WATCHED_SECONDS and not stopped():
            picture.replay(stopped)
        picture.end()


@contextmanager
def _live_display(console: Console) -> Iterator[Live]:
    """Yield a display that is redrawn in place; the terminal does not echo keys meanwhile."""
    show_cursor = partial(os.write, sys.stdout.fileno(), SHOW_CURSOR)
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
    with exit_handling.undo_on_signal(show_cursor), background.silent_terminal(), live:
        yield live


class _TrainingPicture:
    """The picture of a training on the terminal, redrawn seldom enough to cost little time."""

    def __init__(self, training: Training, live: Live, screen: Screen) -> None:
        self._training, self._live, self._screen = training, live, screen
        self._started = time.perf_counter()
        self._next = 0.0
        self._first: Moment | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def __call__(self, moment: Moment) -> None:
        """Redraw the picture for a moment of the training, if enough time has passed."""
        now = self.seconds
        self._first = self._first or moment
        if now < self._next:
            return
        self._draw(self._training.moments, *self._pace_notes(moment, now))
        self._next = now + max(1 / MAX_FRAMES_PER_SECOND, (self.seconds - now) / MAX_DRAWING_SHARE)

    def replay(self, stopped: StopCheck) -> None:
        """Show the history of the training again, slowly, in 25 frames, until `stopped()`."""
        moments = self._training.moments
        stride = max(1, -(-len(moments) // REPLAY_FRAMES))
        for count in range(1, len(moments), stride):
            self._draw(moments[:count], "slowed down for display")
            time.sleep(1 / MAX_FRAMES_PER_SECOND)
            if stopped():
                return

    def end(self) -> None:
        """Draw the last frame, with the seconds taken and the speed; it stays on the screen."""
        moments = self._training.moments
        seconds = moments[-1].seconds
        self._draw(moments, f"{seconds:.1f} s", *_speed_notes(moments[-1].step, seconds))

    def _pace_notes(self, moment: Moment, now: float) -> Sequence[str]:
        """Return the time left and the steps per second; nothing before either can be measured.

        `now`: the seconds since the picture appeared.
        """
        assert self._first is not None
        steps_done = moment.step - self._first.step
        if not steps_done or now < 1 / MAX_FRAMES_PER_SECOND:
            return ()
        seconds_left = ((self._training.choices.steps or 0) - moment.step) * now / steps_done
        return (self._time_left_text(seconds_left), *_speed_notes(steps_done, now))

    def _time_left_text(self, seconds_left: float) -> str:
        """Return near which step the training usually ends, if known; else the most time left.

        It is known for a task of attnviz with its own settings and choices.
        """
        training = self._training
        usual_steps = TASKS[training.task.name].usual_steps if training.task.name in TASKS else 0
        is_usual_training = (
            training.settings == training.task.settings
            and training.choices == complete_choices(training.task, Choices())
        )
        if is_usual_training and usual_steps:
            return f"usually done near step {usual_steps:,}"
        return f"at most {_duration_text(seconds_left)} left"

    def _draw(self, moments: Sequence[Moment], *notes: str) -> None:
        """Draw the moments so far, with notes for the status line, at the terminal's size."""
        size = self._live.console.size
        free_lines = FREE_LINES if size.height >= HIGH_SCREEN_LINES else 0
        screen = replace(self._screen, width=size.width, height=size.height - free_lines)
        lines = glimpse_lines(build_glimpse(self._training, moments, *notes), screen)
        with exit_handling.delay_interrupt():
            file = self._live.console.file
            file.write(BEGIN_FRAME)
            self._live.update(_ScreenFrame(lines), refresh=True)
            file.write(END_FRAME)
            file.flush()


@dataclass(frozen=True)
class _ScreenFrame:
    """Lines that fit the screen, so that rich need not wrap them."""

    lines: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for number, line in enumerate(self.lines):
            if number:
                yield Segment.line()
            yield from line_segments(line, console)


def _speed_notes(steps: int, seconds: float) -> Sequence[str]:
    """Return ('… steps/s',); nothing if steps or seconds are 0."""
    return (f"{steps / seconds:,.0f} steps/s",) if steps and seconds else ()


def _duration_text(seconds: float) -> str:
    """Return a time, rounded up, in seconds, or in minutes from 100 seconds on.

    >>> _duration_text(4.2), _duration_text(130.0)
    ('5 s', '3 minutes')
    """
    return f"{int(seconds) + 1} s" if seconds < 100 else counted(int(seconds / 60) + 1, "minute")
