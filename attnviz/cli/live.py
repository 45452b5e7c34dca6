"""A model while it learns, on a terminal; elsewhere a line on standard error every so often."""

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
from attnviz.cli.messages import tell
from attnviz.cli.output_options import OutputOptions, PictureOptions, screen_of
from attnviz.learning.names import TASKS
from attnviz.learning.training import Choices, Moment, Training, decided
from attnviz.machine import leaving
from attnviz.renderers.terminal.glimpse import glimpsed
from attnviz.renderers.terminal.screen import Screen, segments
from attnviz.views.glimpse import glimpse_of, line_of
from attnviz.wording.words import counted

FRAMES = 10  # a second, at most
SHARE = 0.08  # of the time, which drawing takes at most
SMALLEST = 24, 8  # columns and lines, in which there is something to be seen
BELOW, HIGH = 2, 20  # lines that stay free for what is said in the end, on a screen so high
SHORTEST = 2.0  # seconds: who learned faster is shown again, slower,
AGAIN = 25  # in so many frames
FEWEST_BETWEEN, GROWTH = 10, 4  # steps between two lines; and so many times fewer than there were
SHOW_CURSOR = b"\x1b[?25h"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # around a frame, which is then shown whole

Stopped = Callable[[], bool]


def watched(
    training: Training, stopped: Stopped, wanted: OutputOptions, pictures: PictureOptions
) -> bool:
    """Learn until it is done, or until somebody stops it; and whether it was seen on a screen."""
    drawn = is_screen() and not (wanted.json or wanted.quiet)
    if drawn:
        _on_screen(training, stopped, wanted, pictures)
    else:
        _learn(training, stopped, (lambda moment: None) if wanted.quiet else _Lines(training))
    return drawn


def is_screen() -> bool:
    """Whether standard output is a terminal on which lines can be written anew."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return unicode and columns >= SMALLEST[0] and lines >= SMALLEST[1]


def _learn(training: Training, stopped: Stopped, show: Callable[[Moment], None]) -> None:
    training.stopped = stopped
    for moment in training:
        show(moment)


class _Lines:
    """A line at the first step, and whenever there were a good many more."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._next = 0

    def __call__(self, moment: Moment) -> None:
        last = self._training.is_last(moment)
        if moment.step >= self._next or last:
            tell(line_of(self._training.task, moment))
            self._next = moment.step + max(FEWEST_BETWEEN, moment.step // GROWTH)


def _on_screen(
    training: Training, stopped: Stopped, wanted: OutputOptions, pictures: PictureOptions
) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    screen = screen_of(console, wanted, pictures)
    background.settle()
    with _drawing(console) as live:
        picture = _Picture(training, live, screen)
        _learn(training, stopped, picture)
        if picture.seconds < SHORTEST and not stopped():
            picture.again(stopped)
        picture.end()


@contextmanager
def _drawing(console: Console) -> Iterator[Live]:
    """What is drawn anew in one place, on a terminal that shows nothing of what is typed."""
    show_cursor = partial(os.write, sys.stdout.fileno(), SHOW_CURSOR)
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
    with leaving.undoing(show_cursor), background.silent(), live:
        yield live


class _Picture:
    """What is on the screen; it is drawn anew no more often than that it takes little time."""

    def __init__(self, training: Training, live: Live, screen: Screen) -> None:
        self._training, self._live, self._screen = training, live, screen
        self._started = time.perf_counter()
        self._next = 0.0
        self._first: Moment | None = None

    @property
    def seconds(self) -> float:
        """How long it has been there."""
        return time.perf_counter() - self._started

    def __call__(self, moment: Moment) -> None:
        now = self.seconds
        self._first = self._first or moment
        if now < self._next:
            return
        self._draw(self._training.moments, *self._pace(moment, now))
        self._next = now + max(1 / FRAMES, (self.seconds - now) / SHARE)

    def again(self, stopped: Stopped) -> None:
        """What went too fast to be seen."""
        moments = self._training.moments
        every = max(1, -(-len(moments) // AGAIN))
        for count in range(1, len(moments), every):
            self._draw(moments[:count], "slowed down for display")
            time.sleep(1 / FRAMES)
            if stopped():
                return

    def end(self) -> None:
        """The last frame, which stays."""
        moments = self._training.moments
        seconds = moments[-1].seconds
        self._draw(moments, f"{seconds:.1f} s", *_steps_a_second(moments[-1].step, seconds))

    def _pace(self, moment: Moment, now: float) -> Sequence[str]:
        """Steps in a second, and how long the rest can take."""
        assert self._first is not None
        done = moment.step - self._first.step
        if not done or now < 1 / FRAMES:
            return ()
        left = ((self._training.choices.steps or 0) - moment.step) * now / done
        return (self._until(left), *_steps_a_second(done, now))

    def _until(self, left: float) -> str:
        """When it is usually done, where that is known; else how long it can take at most."""
        training = self._training
        usual = TASKS[training.task.name].usual if training.task.name in TASKS else 0
        known = training.settings == training.task.settings and training.choices == decided(
            training.task, Choices()
        )
        if known and usual:
            return f"usually done near step {usual:,}"
        return f"at most {_duration(left)} left"

    def _draw(self, moments: Sequence[Moment], *told: str) -> None:
        size = self._live.console.size
        below = BELOW if size.height >= HIGH else 0
        screen = replace(self._screen, width=size.width, height=size.height - below)
        lines = glimpsed(glimpse_of(self._training, moments, *told), screen)
        with leaving.later():
            file = self._live.console.file
            file.write(BEGIN)
            self._live.update(_Frame(lines), refresh=True)
            file.write(END)
            file.flush()


@dataclass(frozen=True)
class _Frame:
    """Lines that are as long as they are to be: nobody need break them anew."""

    lines: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for number, line in enumerate(self.lines):
            if number:
                yield Segment.line()
            yield from segments(line, console)


def _steps_a_second(steps: int, seconds: float) -> Sequence[str]:
    return (f"{steps / seconds:,.0f} steps/s",) if steps and seconds else ()


def _duration(seconds: float) -> str:
    """
    >>> _duration(4.2), _duration(130.0)
    ('5 s', '3 minutes')
    """
    return f"{int(seconds) + 1} s" if seconds < 100 else counted(int(seconds / 60) + 1, "minute")
