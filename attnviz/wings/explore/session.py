"""Session: carries out each key or click, without a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attnviz.cli.output import look_from_options, refuse_undeliverable
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.machine.atomic_files import refuse_overwriting
from attnviz.options.output import DeliveryOptions
from attnviz.renderers import suffixes
from attnviz.renderers.terminal.screen import BOLD_STYLE, DIM_STYLE, Screen
from attnviz.views.heads.sentences import quoted_token
from attnviz.wings.explore.frame import (
    MORE_BEFORE,
    ZOOMS,
    Frame,
    body_height,
    build_frame,
    cell_at,
    is_too_small,
    last_line,
    long_lines,
    matrix_layout,
    message_lines,
    sentence_rows,
    sheet_layout,
)
from attnviz.wings.explore.keys import (
    KEYS,
    MISSING_REASONS,
    PROMPT_KEY_NAMES,
    PROMPT_KEYS,
    TAB_KEY,
    key_at,
    last_line_words,
    name_of_sign,
    unused_key_message,
)
from attnviz.wings.explore.place import (
    FAR,
    Pane,
    Place,
    keep_in_sight,
    move_cell,
    step_layer,
)
from attnviz.wings.explore.subject import Subject, strongest_key
from attnviz.wording.printable import printable_text
from attnviz.wording.words import counted

ARROWS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
CARET_STYLE = Style(reverse=True)
MAX_TYPED_LETTERS = 10_000  # in a line; the rest of what is pasted is left out
LAST_WORD = re.compile(r"\S*\s*\Z")


@dataclass(frozen=True, eq=False)
class Job:
    """Work that takes long: it runs beside the screen, which shows `words` meanwhile."""

    words: str
    work: Callable[[], Any]
    take: Callable[[Any], None]  # takes its result, unless one has stopped waiting
    refuse: Callable[[AttnvizError], None]  # takes the error it ended with


@dataclass(frozen=True)
class Prompt:
    """A line that is being typed, with the caret before the letter `caret`."""

    label: str
    text: str
    caret: int
    enter: Callable[[str], None]
    is_suggestion: bool = False  # whether the first letter typed replaces the text
    problem: str = ""  # what is wrong with the text; it stands in the last line
    words: tuple[str, ...] = ()  # that Tab completes

    def typed(self, letters: str) -> Prompt:
        """Return the prompt with letters inserted at the caret, as many as a line may have."""
        before, after = self.text[: self.caret], self.text[self.caret :]
        if self.is_suggestion:
            before, after = "", ""
        kept = letters[: max(0, MAX_TYPED_LETTERS - len(before + after))]
        prompt = self._with(before + kept + after, len(before + kept))
        if kept == letters:
            return prompt
        problem = f"left out {counted(len(letters) - len(kept), 'letter')}: a line has at most "
        return replace(prompt, problem=f"{problem}{MAX_TYPED_LETTERS:,}")

    def edited(self, key: str) -> Prompt:
        """Return the prompt after a key that moves the caret, or deletes."""
        text, caret = self.text, self.caret
        if key == "backspace" and caret:
            return self._with(text[: caret - 1] + text[caret:], caret - 1)
        if key == "delete":
            return self._with(text[:caret] + text[caret + 1 :], caret)
        if key == "ctrl+u":
            return self._with(text[caret:], 0)
        if key == "ctrl+k":
            return self._with(text[:caret], caret)
        if key == "ctrl+w":
            kept = LAST_WORD.sub("", text[:caret])
            return self._with(kept + text[caret:], len(kept))
        carets = {"left": caret - 1, "right": caret + 1, "home": 0, "end": len(text)}
        carets |= {"ctrl+a": 0, "ctrl+e": len(text)}
        return self._with(text, max(0, min(carets.get(key, caret), len(text))))

    def completed(self) -> Prompt:
        """Return the prompt with the word before the caret completed as far as all words agree
        that begin so; where nothing can be added, they stand in the last line.
        """
        start = self.text[: self.caret].rpartition(" ")[2]
        fitting = sorted({word for word in self.words if word.startswith(start)})
        if not start or not fitting:
            return self
        pairs = zip(fitting[0], fitting[-1], strict=False)  # the two that differ most
        shared = takewhile(lambda pair: pair[0] == pair[1], pairs)
        ending = "".join(letter for letter, _ in shared)[len(start) :]
        return self.typed(ending) if ending else replace(self, problem=" ".join(fitting))

    def _with(self, text: str, caret: int) -> Prompt:
        """Return the prompt with a text of the user's own, of which no problem is known yet."""
        return replace(self, text=text, caret=caret, is_suggestion=False, problem="")

    def line(self, width: int) -> Text:
        """Return the line as it is shown: scrolled so that the caret is in sight."""
        letters = f"{self.text} "
        line = Text(f"{self.label} ", DIM_STYLE, end="")
        room = width - line.cell_len - cell_len(printable_text(letters[self.caret]))
        first = self.caret
        while first and room >= (needed := cell_len(printable_text(letters[first - 1]))):
            first, room = first - 1, room - needed
        for position, letter in enumerate(letters[first:], first):
            if line.cell_len > width:
                break
            is_marked = position == self.caret or self.is_suggestion
            line.append(printable_text(letter), CARET_STYLE if is_marked else Style())
        return line


class Session:
    """What is explored, where, and what was asked; each key changes it."""

    def __init__(
        self,
        subject: Subject,
        place: Place,
        screen: Screen,
        options: DeliveryOptions,
        file: Path | None = None,
        read_files: Collection[str | Path] = (),
    ) -> None:
        """`file`: which the text was read from. `read_files`: all that must not be replaced."""
        self.read_files = read_files
        self.subject, self.place, self.screen, self.options = subject, place, screen, options
        self.first, self.now, self.file = subject, subject, file  # `now`: what `b` flips back to
        self.message = ""
        self.prompt: Prompt | None = None
        self.job: Job | None = None
        self.is_over = False
        self.copied = ""  # a text for the clipboard
        self.refused_text = ""  # the sentence that was typed last, if it was refused
        self._keep_in_sight()

    def frame(self) -> Frame:
        notice: list[Text] = []
        last: list[Text] = []
        if self.prompt is not None:
            notice = [self.prompt.line(self.screen.room)]
            last = message_lines(self.prompt.problem, self.screen, BOLD_STYLE)
            last = last or [last_line(self._keys_of_prompt)]
        elif self.message or self.job is not None:
            words = self.message or f"{self.job.words if self.job else ''} …"
            notice = message_lines(words, self.screen)
        return build_frame(self.subject, self.place, self.screen, notice, last)

    @property
    def _keys_of_prompt(self) -> tuple[tuple[str, str], ...]:
        has_words = self.prompt is not None and bool(self.prompt.words)
        return PROMPT_KEYS + TAB_KEY * has_words

    def resize(self, width: int, height: int) -> None:
        self.screen = replace(self.screen, width=width, height=height)
        self._keep_in_sight()

    def press(self, key: str) -> None:
        """Do what a key means in the pane that is shown; say so where it means nothing there.

        On a screen that is too small nothing can be seen, and only `q` does something.
        """
        if is_too_small(self.screen):
            self.is_over = key == "q"
        elif self.prompt is not None:
            self._press_in_prompt(self.prompt, key)
        else:
            self.message = ""
            for row in KEYS:
                if key in row.names and self.place.pane in row.panes:
                    missing = [
                        MISSING_REASONS[need]
                        for need in row.needs.split()
                        if need in MISSING_REASONS and need not in self.subject.abilities
                    ]
                    if missing:
                        self.message = missing[0]
                    else:
                        self._guard(partial(ACTIONS[row.names[0]], self, key))
                    break
            else:
                self.message = unused_key_message(key, self.place.pane)
        self._keep_in_sight()

    def type(self, text: str) -> None:
        """Insert a pasted text into the line that is being typed."""
        if self.prompt is not None and not is_too_small(self.screen):
            self.prompt = self.prompt.typed(" ".join(text.splitlines()))  # terminals send CR

    def click(self, column: int, line: int) -> None:
        """Go to the cell, the word or the head at a column and a line of the screen, or do what
        the key there does.
        """
        frame = self.frame()
        if frame.body and line == len(frame.lines) - 1:
            self._click_key(column)
        if self.prompt is not None or line == len(frame.lines) - 1:
            return
        self.message = ""
        if line in frame.body and self.place.pane == "matrix":
            self._click_matrix(line - frame.body.start, column)
        elif line in frame.body and self.place.pane == "overview":
            self._click_head(line - frame.body.start, column)
        elif line in frame.sentence:
            self._click_word(line - frame.sentence.start, column)
        self._keep_in_sight()

    def turn_wheel(self, down: int, *, sideways: bool = False) -> None:
        """Move on by some rows, or scroll by some lines; `sideways`: by some columns."""
        if is_too_small(self.screen):
            return
        self.message = ""
        if self.place.pane == "matrix":
            step = (0, down) if sideways else (down, 0)
            self.place = move_cell(self.place, *step, self._shape)
        elif self.place.pane == "overview":
            self._move_in_sheet("down" if down > 0 else "up")
        else:
            self._scroll(down)
        self._keep_in_sight()

    def finish(self, job: Job, result: Any) -> None:
        """Take what a job computed, or show the error it ended with; nothing if it was stopped."""
        if job is not self.job:
            return
        self.job = None
        if isinstance(result, AttnvizError):
            job.refuse(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            self._guard(lambda: job.take(result))
        self._keep_in_sight()

    @property
    def _shape(self) -> tuple[int, int]:
        return self.subject.explorer.heads[self.place.head].weights.shape

    def _guard(self, act: Callable[[], None]) -> None:
        """Do something; what is refused is shown as a message."""
        try:
            act()
        except AttnvizError as error:
            self._show_error(error)

    def _show_error(self, error: AttnvizError) -> None:
        self.message = error_line(error)

    def _keep_in_sight(self) -> None:
        """Scroll so that the cell is in sight, and never beyond an end."""
        place = move_cell(self.place, 0, 0, self._shape)
        if place.pane == "matrix" and self.screen.height:
            layout = matrix_layout(self.subject, place, self.screen)
            window = layout.rows, layout.columns
            place = keep_in_sight(place, *window, self._shape, layout.rows_per_line)
        elif place.pane in ("arithmetic", "keys"):
            try:
                lines = len(long_lines(self.subject, place, self.screen))
                last = max(0, lines - body_height(self.subject, place, self.screen))
                place = replace(place, scroll=max(0, min(place.scroll, last)))
            except AttnvizError as error:  # another head may have no arithmetic to show
                self._show_error(error)
                place = replace(place, pane="matrix")
        self.place = place

    def _start(
        self,
        words: str,
        work: Callable[[], Any],
        take: Callable[[Any], None],
        *,
        quick: bool,
        refuse: Callable[[AttnvizError], None] | None = None,
    ) -> None:
        """Do work at once if it is quick, else beside the screen; `refuse` takes its error."""
        refuse = refuse or self._show_error
        if self.job is not None:
            self.message = f"{self.job.words}: wait for it, or press Esc"
        elif not quick:
            self.job = Job(words, work, take, refuse)
        else:
            try:
                take(work())
            except AttnvizError as error:
                refuse(error)

    def _compute(
        self,
        words: str,
        change: Callable[[], Subject],
        *,
        take: Callable[[Subject], None] | None = None,
        refuse: Callable[[AttnvizError], None] | None = None,
    ) -> None:
        """Replace the subject by one that is computed again."""
        shows_all = self.place.pane == "overview"
        side = sheet_layout(self.subject, self.place, self.screen).side
        work = (lambda: change().read_all_heads(side)) if shows_all else change
        quick = self.subject.is_quick and not (shows_all and self.subject.has_many_cells)
        self._start(words, work, take or self._take_subject, quick=quick, refuse=refuse)

    def _take_subject(self, subject: Subject) -> None:
        self.subject, self.refused_text = subject, ""

    # Keys, in the order of the table.

    def _move(self, key: str) -> None:
        if self.place.pane == "matrix":
            self.place = move_cell(self.place, *ARROWS[key], self._shape)
        elif self.place.pane == "overview":
            self._move_in_sheet(key)
        else:
            self._scroll(ARROWS[key][0])

    def _move_in_sheet(self, key: str) -> None:
        layout = sheet_layout(self.subject, self.place, self.screen)
        down, right = ARROWS[key]
        head = self.place.head + down * layout.per_row + right
        if 0 <= head < len(self.subject.explorer.heads):
            self.place = replace(self.place, head=head)

    def _scroll(self, lines: int) -> None:
        self.place = replace(self.place, scroll=self.place.scroll + lines)

    def _move_to_end(self, key: str) -> None:
        self.place = move_cell(self.place, 0, FAR if key == "end" else -FAR, self._shape)

    def _move_page(self, key: str) -> None:
        sign = 1 if key == "pagedown" else -1
        if self.place.pane == "matrix":
            rows = matrix_layout(self.subject, self.place, self.screen).rows
            self.place = move_cell(self.place, sign * rows, 0, self._shape)
        elif self.place.pane == "overview":
            layout = sheet_layout(self.subject, self.place, self.screen)
            last = len(self.subject.explorer.heads) - 1
            head = self.place.head + sign * layout.rows * layout.per_row
            self.place = replace(self.place, head=max(0, min(head, last)))
        else:
            self._scroll(sign * body_height(self.subject, self.place, self.screen))

    def _change_head(self, key: str) -> None:
        count = len(self.subject.explorer.heads)
        head = self.place.head + (1 if key == "]" else -1)
        self.place = replace(self.place, head=head % count)

    def _change_layer(self, key: str) -> None:
        self.place = step_layer(self.place, 1 if key == "}" else -1, self.subject.cells)

    def _show_all_heads(self, key: str) -> None:
        if self.place.pane == "overview":
            self._open("matrix")
            return
        quick = not self.subject.has_many_cells
        place = replace(self.place, pane="overview")
        side = sheet_layout(self.subject, place, self.screen).side
        work = partial(self.subject.read_all_heads, side)
        self._start("reading all heads", work, lambda _: self._open("overview"), quick=quick)

    def _open(self, pane: Pane) -> None:
        self.place = replace(self.place, pane=pane, scroll=0)

    def _find(self, key: str) -> None:
        self.prompt = Prompt("find", "", 0, self._follow, words=self.subject.trace.tokens.labels)

    def _follow(self, name: str) -> None:
        """Follow the next token of this name as query, or the one with this number."""
        tokens = self.subject.trace.tokens
        found = tokens.find(name.strip())
        later = [position for position in found if position > self.place.query]
        self._follow_query((later or found or [tokens.index(name.strip(), "query")])[0])

    def _follow_query(self, position: int) -> None:
        place = replace(self.place, query=position, scroll=0)
        self.place = replace(place, key=strongest_key(self.subject, place))

    def _enter(self, key: str) -> None:
        """Open the chosen head; in a matrix, follow the link of the cell: its key is the query."""
        if self.place.pane == "overview":
            self._open("matrix")
        elif self.subject.attention[self.place.head][0].memory is not None:
            self.message = "this key is a token of the second sentence, which has no row here"
        elif self.place.key == self.place.query:
            name = quoted_token(self.subject.trace.tokens, self.place.key)
            self.message = f"this is what {name} gives itself: its row is followed already"
        else:
            self._follow_query(self.place.key)

    def _switch_head(self, key: str) -> None:
        subject, head = self.subject, self.place.head
        is_off = subject.explorer.heads[head].off
        words = f"switching {subject.explorer.heads[head].name} {'on' if is_off else 'off'}"
        self._compute(words, lambda: subject.switched(head))

    def _change_temperature(self, key: str) -> None:
        subject = self.subject
        self._compute("computing", lambda: subject.heated(2.0 if key == "t" else 0.5))

    def _edit(self, key: str) -> None:
        text = self.refused_text or self.subject.trace.text or ""
        self._ask_text(text, len(text))

    def _ask_text(self, text: str, caret: int, problem: str = "") -> None:
        words = self.subject.known_words
        self.prompt = Prompt("text", text, caret, self._take_text, problem=problem, words=words)

    def _take_text(self, text: str) -> None:
        subject, self.refused_text = self.subject, text
        refuse = partial(self._refuse_text, text)
        self._compute("computing", lambda: subject.with_text(text), refuse=refuse)

    def _refuse_text(self, text: str, error: AttnvizError) -> None:
        """Go on typing a text that was refused, with the caret behind the word that is wrong."""
        if self.prompt is not None:  # of something else, opened while it was computed
            self._show_error(error)
            return
        match = re.search(rf"(?<!\S){re.escape(error.word)}(?!\S)", text) if error.word else None
        caret = match.end() if match else len(text)
        self._ask_text(text, caret, error_line(error))

    def _add_word(self, key: str) -> None:
        take = self._take_longer_text
        self._compute("the model writes", self.subject.with_next_word, take=take)

    def _take_longer_text(self, subject: Subject) -> None:
        self._take_subject(subject)
        self._follow_query(len(subject.trace.tokens) - 1)
        self.message = subject.length_note

    def _undo_or_flip(self, key: str) -> None:
        """Go back to before the changes; `b` also returns to them, until there are new ones."""
        if self.job is not None:
            self.message = f"{self.job.words}: wait for it, or press Esc"
        elif self.subject is not self.first:
            before = "before the changes (b: now)"
            undone = "all changes are undone (b brings them back)"
            self.now, self.message = self.subject, undone if key == "u" else before
            self._take_subject(self.first)
        elif key == "b" and self.now is not self.first:
            self.message = "with the changes (b: before)"
            self._take_subject(self.now)
        else:
            self.message = "nothing is changed"

    def _show_arithmetic(self, key: str) -> None:
        if self.place.pane == "arithmetic":
            self._open("matrix")
            return
        subject, place = self.subject, replace(self.place, pane="arithmetic", scroll=0)
        quick = not subject.has_many_cells
        work = partial(long_lines, subject, place, self.screen)  # which may refuse it
        self._start("writing it out", work, partial(self._open_arithmetic, place), quick=quick)

    def _open_arithmetic(self, place: Place, lines: Sequence[Text]) -> None:
        self.place = place

    def _copy(self, key: str) -> None:
        subject, place = self.subject, self.place

        def find_command() -> str:
            """Return the line that prints what is on the screen; refuses where there is none."""
            command = subject.command(place)
            if command is None:
                raise AttnvizError("no command prints this", "w writes it to a file")
            if self.file is None or subject.trace.text != self.first.trace.text:
                return command.line
            return replace(command, argument=None).with_options(file=self.file).line

        self._start("reading", find_command, self._take_command, quick=subject.is_quick)

    def _take_command(self, line: str) -> None:
        self.copied = line
        self.message = f"sent to the clipboard, and printed when you quit: {line}"

    def _write(self, key: str) -> None:
        name = self.subject.explorer.heads[self.place.head].name.replace(" ", "-")
        if not self.subject.shows_heads_apart(self.place):
            name = "heads"
        names = {"overview": "heads", "arithmetic": f"{name}-steps"}
        text = free_name(names.get(self.place.pane, name), ".png")
        self.prompt = Prompt("write to", text, len(text), self._write_file, is_suggestion=True)

    def _write_file(self, name: str, replaceable: str = "") -> None:
        """Write a file; ask first if there is one of this name, unless it is `replaceable`."""
        path, subject, place = Path(name.strip()), self.subject, self.place
        refuse_overwriting([path], self.read_files)
        if files.is_file(path) and name != replaceable:
            enter = partial(self._write_file, replaceable=name)
            problem = f"{path} exists: Enter again to replace it, Esc to leave it"
            self.prompt = Prompt("write to", name, len(name), enter, problem=problem)
            return
        options = replace(self.options, out=[path])
        refuse_undeliverable(options, suffixes())
        look = look_from_options(options)

        def write() -> str:
            """Write the file, and return what to say of it."""
            from attnviz.renderers import saving

            paths, notes = saving.write_files(subject.view(place), [path], look)
            return " · ".join([f"wrote {', '.join(map(str, paths))}", *notes])

        self._start(f"writing {path}", write, self._say, quick=False)

    def _say(self, message: str) -> None:
        self.message = message

    def _change_zoom(self, key: str) -> None:
        if key == "0":
            self.place = replace(self.place, zoom=None)
            return
        forms = {"halves": 0, "blocks": 1, "numbers": 2}
        form = matrix_layout(self.subject, self.place, self.screen).form
        zoom = 0 if form.width == 1 else forms[form.cells]
        zoom += 1 if key == "+" else -1
        if zoom in range(ZOOMS):
            self.place = replace(self.place, zoom=zoom)
        else:
            self.message = f"the cells are as {'large' if key == '+' else 'small'} as they can be"

    def _show_keys(self, key: str) -> None:
        if self.place.pane == "keys":
            self._open(self.place.below)
        else:
            self.place = replace(self.place, pane="keys", below=self.place.pane, scroll=0)

    def _go_back(self, key: str) -> None:
        if self.job is not None:
            self.job = None
            self.message = "stopped waiting"
        elif self.place.pane == "keys":
            self._open(self.place.below)
        else:
            self._open("matrix")

    def _quit(self, key: str) -> None:
        self.is_over = True

    def _press_in_prompt(self, prompt: Prompt, key: str) -> None:
        """Type a letter, edit the line, or end it with Enter or Esc."""
        if key == "escape":
            self.prompt, self.refused_text = None, ""
        elif key == "enter":
            self.prompt = None
            if prompt.text.strip():
                self._guard(lambda: prompt.enter(prompt.text))
        elif len(key) == 1:
            self.prompt = prompt.typed(key)
        elif key == "tab":
            self.prompt = prompt.completed()
        else:
            self.prompt = prompt.edited(key)

    def _click_key(self, column: int) -> None:
        """Press the key at a column of the last line."""
        name = ""
        if self.prompt is None:
            pane, abilities = self.place.pane, self.subject.abilities
            words = last_line_words(pane, self.screen.room, abilities)
            name = name_of_sign(key_at(words, column), pane, abilities)
        elif not self.prompt.problem:
            name = PROMPT_KEY_NAMES.get(key_at(self._keys_of_prompt, column), "")
        if name:
            self.press(name)

    def _click_matrix(self, line: int, column: int) -> None:
        """Go to the cell at a line and a column of the pane; from the name of a row or of a column
        to that row or column.
        """
        query, key = cell_at(self.subject, self.place, self.screen, line, column)
        query = self.place.query if query is None else query
        self.place = replace(self.place, query=query, key=self.place.key if key is None else key)

    def _click_head(self, line: int, column: int) -> None:
        """Choose the head at a line and a column of the sheet; open the one that is chosen."""
        layout = sheet_layout(self.subject, self.place, self.screen)
        head = layout.head_at(line, column)
        if head == self.place.head:
            self._open("matrix")
        elif head < len(self.subject.explorer.heads):
            self.place = replace(self.place, head=head)

    def _click_word(self, row: int, column: int) -> None:
        rows = sentence_rows(self.subject, self.place, self.screen)
        axis = self.subject.explorer.heads[self.place.head].key_axis
        if row >= len(rows):
            return
        at = len(MORE_BEFORE) if row == 0 and rows[0].start else 0
        for position in rows[row]:
            gap = position > rows[row].start and axis.spaced[position : position + 1] == (True,)
            at += gap + Text(axis.labels[position]).cell_len + (not self.screen.colored)
            if column < at:
                self._follow_query(position)
                return


def error_line(error: AttnvizError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def free_name(stem: str, suffix: str) -> str:
    """Return a name that no file in the current folder has: `heads.png`, else `heads-2.png`."""
    names = (f"{stem}-{number}{suffix}" for number in count(2))
    return next(name for name in chain([f"{stem}{suffix}"], names) if not Path(name).exists())


ACTIONS: dict[str, Callable[[Session, str], None]] = {  # by the first name of a key in KEYS
    "up": Session._move,
    "home": Session._move_to_end,
    "pageup": Session._move_page,
    "[": Session._change_head,
    "{": Session._change_layer,
    "o": Session._show_all_heads,
    "enter": Session._enter,
    "/": Session._find,
    "x": Session._switch_head,
    "s": lambda session, key: session._compute("computing", session.subject.scaled_otherwise),
    "m": lambda session, key: session._compute("computing", session.subject.masked_otherwise),
    "t": Session._change_temperature,
    "e": Session._edit,
    "g": Session._add_word,
    "d": Session._show_arithmetic,
    "u": Session._undo_or_flip,
    "b": Session._undo_or_flip,
    "y": Session._copy,
    "w": Session._write,
    "+": Session._change_zoom,
    "?": Session._show_keys,
    "escape": Session._go_back,
    "q": Session._quit,
}
