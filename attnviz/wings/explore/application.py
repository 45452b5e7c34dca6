"""Explorer: draws changed lines on the terminal, and passes on keys and the mouse."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from threading import Thread

from rich.console import Console
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from attnviz.machine import exit_handling
from attnviz.renderers.terminal.screen import line_segments
from attnviz.wings.explore.session import Job, Session

WHEEL_ROWS = 3
SECONDS_BETWEEN_SIZES = 1.0
MAX_SIDE = 1000  # of the screen, in letters or lines; a larger one is filled in part
INTERRUPTED_STATUS = 130
# The mouse, focus, paste and size reports off; the keyboard and lines as before; the usual screen
# and its cursor back.
LEAVE_SCREEN = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?2026l"
    b"\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)


class Lines(Widget, can_focus=True):
    """Lines of text that fill the screen; only those that change are drawn again."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Lines { width: 1fr; height: 1fr; background: ansi_default; }"

    def __init__(self, fit: Callable[[int, int], None]) -> None:
        super().__init__()
        self._fit = fit  # called with each new size
        self._texts: tuple[Text, ...] = ()
        self._strips: dict[int, Strip] = {}

    def draw(self, texts: tuple[Text, ...]) -> None:
        """Show these lines in place of those before."""
        before, self._texts = self._texts, texts
        for number in range(max(len(before), len(texts))):
            old, new = (each[number] if number < len(each) else None for each in (before, texts))
            if old is not new and not _are_alike(old, new):
                self._strips.pop(number, None)
                self.refresh(Region(0, number, self.size.width, 1))

    def on_resize(self, event: events.Resize) -> None:
        """Have lines made for the new size, and draw all of them.

        The application's own event may come while the widget still has another size.
        """
        self._strips.clear()
        self._fit(event.size.width, event.size.height)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y not in self._strips or self._strips[y].cell_length != width:
            line = self._texts[y] if y < len(self._texts) else Text()
            segments = line_segments(line, self.app.console)
            self._strips[y] = Strip(segments).adjust_cell_length(width)
        return self._strips[y]


def _are_alike(old: Text | None, new: Text | None) -> bool:
    if old is None or new is None:
        return False
    return old.plain == new.plain and old.spans == new.spans and old.style == new.style


class Explorer(App[None], inherit_bindings=False):
    """A session on a terminal. After `run`, `status` is what the process ends with."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; }"

    def __init__(self, session: Session, terminal: int | None = None) -> None:
        super().__init__(ansi_color=True)
        self._terminal = terminal  # whose size is looked at now and then
        # The lines have the colours of the terminal already: none is changed.
        self.console = Console(
            file=self.console.file, color_system="truecolor", force_terminal=True, no_color=False
        )
        self.session, self.status = session, 0
        self.failure: BaseException | None = None
        self.copied_lines: list[str] = []  # the commands that were copied, each once
        self._lines = Lines(self._fit_session)
        self._started: Job | None = None

    def compose(self) -> ComposeResult:
        yield self._lines

    def on_mount(self) -> None:
        """Take the keys; after Ctrl-Z and fg, draw all lines again."""
        self._lines.focus()
        if self._terminal is not None:
            self.set_interval(SECONDS_BETWEEN_SIZES, self._check_size)
        self.app_resume_signal.subscribe(self._lines, lambda _: self.screen.refresh(layout=True))

    def _check_size(self) -> None:
        """Notice another size of the terminal whose signal was lost, as it can be beside Ctrl-Z."""
        assert self._terminal is not None
        with suppress(OSError):  # the terminal has gone
            size = _cut_size(Size(*os.get_terminal_size(self._terminal)))
            if size != self.size:
                self.post_message(events.Resize(size, size))

    @property
    def size(self) -> Size:
        return _cut_size(super().size)

    async def on_event(self, event: events.Event) -> None:
        """Take an event; a size that no screen has, which a program may claim, is cut."""
        if isinstance(event, events.Resize):
            event = events.Resize(_cut_size(event.size), _cut_size(event.virtual_size))
        await super().on_event(event)

    def _fit_session(self, width: int, height: int) -> None:
        self._react(partial(self.session.resize, width, height))

    def on_key(self, event: events.Key) -> None:
        """Press a key; Ctrl-C ends the program, and Ctrl-Z stops it for a while."""
        event.stop()
        event.prevent_default()
        if event.key == "ctrl+c":
            self.status = INTERRUPTED_STATUS
            self.exit()
        elif event.key == "ctrl+z":
            self.action_suspend_process()
        else:
            letter = event.character
            is_letter = letter is not None and len(letter) == 1 and letter.isprintable()
            self._react(partial(self.session.press, letter if letter and is_letter else event.key))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._react(partial(self.session.type, event.text))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._react(partial(self.session.click, int(event.screen_x), int(event.screen_y)))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._react(partial(self.session.turn_wheel, WHEEL_ROWS, sideways=event.shift))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._react(partial(self.session.turn_wheel, -WHEEL_ROWS, sideways=event.shift))

    def _react(self, act: Callable[[], None]) -> None:
        """Do something, then show the screen as it is after it, and begin the job that it set.

        An error in it is a bug: it ends the application, and is raised when the terminal is itself.
        """
        try:
            act()
            session = self.session
            if session.copied:
                self.copy_to_clipboard(session.copied)
                if session.copied not in self.copied_lines:
                    self.copied_lines.append(session.copied)
                session.copied = ""
            if session.job is not None and session.job is not self._started:
                work = partial(copy_context().run, self._work, session.job)  # in the same words
                Thread(target=work, daemon=True).start()
            self._started = session.job
            self._lines.draw(session.frame().lines)
            if session.is_over:
                self.exit()
        except Exception as error:  # which is raised again where the screen has ended
            self.failure = error
            self.exit()

    def _work(self, job: Job) -> None:
        """Do a job in a thread of its own, and hand over what it computed or how it failed."""
        result: object
        try:
            result = job.work()
        except BaseException as error:
            result = error
        with suppress(RuntimeError):  # the application has ended
            self.call_from_thread(self._react, partial(self.session.finish, job, result))


def _cut_size(size: Size) -> Size:
    return Size(min(size.width, MAX_SIDE), min(size.height, MAX_SIDE))


def run_session(session: Session) -> int:
    """Show a session on the terminal until it is over; return the exit status.

    Whatever ends it, the terminal is as it was before.
    """
    explorer = Explorer(session, sys.stdout.fileno())
    gc.freeze()  # or each search for garbage among all of torch would be felt
    with restoring_terminal():
        explorer.run()
    if explorer.failure is not None:
        raise explorer.failure
    for line in explorer.copied_lines:  # not every terminal has let it into the clipboard
        print(line)
    return explorer.status or explorer.return_code or 0


@contextmanager
def restoring_terminal() -> Iterator[None]:
    """Have signals that end the process restore the terminal first."""
    if os.name != "posix":
        yield
        return
    import termios  # which Windows lacks

    # Of the streams at the start: textual puts its own in their place.
    terminal, output = sys.stdin.fileno(), sys.stderr.fileno()
    attributes = termios.tcgetattr(terminal)

    def restore() -> None:
        """Leave the screen of the application, and let the terminal echo and edit lines again."""
        os.write(output, LEAVE_SCREEN)
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)

    with exit_handling.undo_on_signal(restore):
        yield
