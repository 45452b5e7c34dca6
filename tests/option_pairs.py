"""Tries options of a command alone and in pairs, and finds those that change nothing.

Options come from the commands themselves, so that a new one is tried as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np

from attnviz.analysis import head_accuracy
from attnviz.renderers.look import Look
from attnviz.renderers.picture import still_pictures
from attnviz.renderers.picture.items import Layout
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.view import View
from attnviz.wings.explore import application
from attnviz.wings.explore import command as explore
from attnviz.wings.explore.session import Session
from attnviz.wings.films import gif as film
from attnviz.wings.quiz import sheet as exercise_pages
from attnviz.wording.commands import Command
from attnviz.wording.no_effect import NO_EFFECT, NoEffect
from tests.hostile.calls import Call, commands_by_name
from tests.hostile.ending import run_call
from tests.option_samples import (
    BASES,
    KEYS_PRESSED,
    NO,
    Given,
    Sample,
    Value,
    context_options,
    sample_of,
    with_paths,
)

SCREEN = {"COLUMNS": "80", "FORCE_COLOR": "1", "COLORTERM": "truecolor"}
LINES_OF_NO_ERROR = ("note: ", "step ")  # which may stand before one
UNSEEN_FIELDS = ("attnviz", "origin", "command", "settings")  # of a .json: how it was made


def option_names(command: str) -> list[str]:
    """The options and arguments of a command, as typer has them."""
    return [parameter.name for parameter in commands_by_name()[command][1].params]


def option_pairs(command: str) -> list[tuple[str, str]]:
    return [*combinations(option_names(command), 2)]


# What comes of a call.


@dataclass(frozen=True)
class Outcome:
    """What can be seen of a call: its exit status, both streams, and the files it wrote."""

    status: int
    out: str
    err: str
    files: tuple[tuple[str, bytes], ...]

    @property
    def is_refusal(self) -> bool:
        return self.status == 2

    @property
    def is_well_ended(self) -> bool:
        """Whether it is a result, or refused in two lines."""
        if not self.is_refusal:  # the status 1 is that of a check that failed
            return self.status == 0 or (self.status == 1 and "Traceback" not in self.err)
        lines = [line for line in self.err.splitlines() if not line.startswith(LINES_OF_NO_ERROR)]
        return [line[:7] for line in lines] == ["error: ", " hint: "]


def command_words(command: str, given: Given) -> tuple[str, ...]:
    """The words of a command line on which these options are given."""
    path, typer_command = commands_by_name()[command]
    options: list[str] = []
    arguments: list[str] = []
    for parameter in typer_command.params:
        value = given.get(parameter.name)
        if value is None:
            continue
        values = value if isinstance(value, tuple) else (value,)
        if parameter.param_type_name == "argument":
            arguments += values
        elif parameter.is_flag:
            options.append(parameter.secondary_opts[0] if value == NO else parameter.opts[0])
        else:
            name = "--window" if parameter.name == "part" else parameter.opts[0]
            options += [word for each in values for word in (name, each)]
    if "program" in given:  # what follows it is the program's
        return (*path, *options, *arguments)
    return (*path, *arguments, *options)


def outcome(command: str, given: Given, *, draws: bool = False) -> Outcome:
    """What comes of a command with these options.

    `draws`: pictures are drawn; otherwise their files say what would be drawn where, which takes
    a third of the time.
    """
    return _outcome(command_words(command, given), given.get(KEYS_PRESSED, ()), draws)


@cache
def _outcome(words: tuple[str, ...], keys: tuple[str, ...], draws: bool) -> Outcome:
    call = Call((*map(with_paths, words),), environment=SCREEN)
    with _without_command_lines(), _without_terminal(keys), ExitStack() as stack:
        stack.enter_context(mock.patch.object(head_accuracy, "rank", _rank))
        if not draws:
            stack.enter_context(_without_drawing())
        result = run_call(call)
    out = _numbers_only(result.out) if "--json" in words else result.out
    files = {
        name: _numbers_only(content.decode()).encode() if name.endswith(".json") else content
        for name, content in result.files.items()
    }
    return Outcome(result.status, out, result.err, tuple(sorted(files.items())))


_rank = cache(head_accuracy.rank)  # which takes longer than all else of `heads`


def _numbers_only(text: str) -> str:
    """A JSON document without what it says of how it was made."""
    try:
        document = json.loads(text)
    except ValueError:  # nothing was written
        return text
    seen = {name: each for name, each in document.items() if name not in UNSEEN_FIELDS}
    return json.dumps(seen)


_own_with_title = View.with_title


def _with_title_only(view: View, title: str | None) -> View:
    return replace(_own_with_title(view, title), provenance=None)


@contextmanager
def _without_command_lines() -> Iterator[None]:
    """Leave out of results what repeats the command line, which every option changes."""
    line = property(lambda command: f"attnviz {command.name}")
    with (
        mock.patch.object(Command, "line", line),
        mock.patch.object(View, "with_title", _with_title_only),
    ):
        yield


@contextmanager
def _without_terminal(keys: Sequence[str]) -> Iterator[None]:
    """Let `explore` print its screen after these keys."""

    def print_screen(session: Session) -> int:
        session.resize(80, 24)
        for key in keys:
            session.press(key)
            if session.job is not None:
                session.finish(session.job, session.job.work())
        for line in session.frame().lines:
            print(line.markup)
        return 0

    with (
        mock.patch.object(explore, "refuse_without_terminal"),
        mock.patch.object(explore, "take_keys_from_terminal"),
        mock.patch.object(application, "run_session", print_screen),
    ):
        yield


# Pictures, of which nothing is drawn.


@dataclass(frozen=True)
class _UndrawnFigure:
    """What would be drawn, in place of a figure of matplotlib."""

    layout: Layout
    look: Look

    def savefig(self, file: Any, *, format: str, dpi: int, transparent: bool, **_: object) -> None:
        resolution = dpi if format == "png" else None
        facts = repr((*self.description(), transparent, resolution))
        file.write(f"<svg >\n{facts}".encode())  # as the renderer expects of an .svg

    def description(self) -> tuple[object, ...]:
        """All that the drawing depends on."""
        facts = sha256(repr(_facts(self.layout)).encode()).hexdigest()
        palette = self.look.colors if _has_scale(self.layout) else None
        has_numbers = any(panel.number_size for panel in self.layout.panels)
        return facts, self.look.theme, palette, has_numbers and self.look.numbers is not False


class _UndrawnPages:
    """What would be drawn, in place of a PDF of several pages."""

    def __init__(self, file: Any, **_: object) -> None:
        self.file = file

    def __enter__(self) -> _UndrawnPages:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def savefig(self, figure: _UndrawnFigure, *, transparent: bool) -> None:
        figure.savefig(self.file, format="pdf", dpi=0, transparent=transparent)


def _undrawn_film(frames: Sequence[object], seconds: Sequence[float], *_: object) -> bytes:
    return repr((frames, seconds)).encode()


def _undrawn_frames(layouts: Sequence[Layout], look: Look, pixels: object) -> list[object]:
    return [(_UndrawnFigure(layout, look).description(), pixels) for layout in layouts]


@contextmanager
def _without_drawing() -> Iterator[None]:
    with (
        mock.patch.multiple(
            film,
            _changed_pictures=_undrawn_frames,
            _repainted_pictures=_undrawn_frames,
            _new_pictures=_undrawn_frames,
            _pixel_changes=list,
            to_palette=lambda change: change,
            _gif_bytes=lambda frames, *about: _undrawn_film(list(frames), *about),
        ),
        mock.patch.object(still_pictures, "draw_layout", _UndrawnFigure),
        mock.patch.object(exercise_pages, "draw_layout", _UndrawnFigure),
        mock.patch.object(exercise_pages, "PdfPages", _UndrawnPages),
    ):
        yield


def _facts(value: object) -> object:
    """A value as numbers and words, equal for what is drawn alike."""
    if isinstance(value, Grid):
        return _facts((value.title, value.values, value.hidden, value.scale, value.off))
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if is_dataclass(value):
        return type(value).__name__, [_facts(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, (tuple, list)):
        return [_facts(each) for each in value]
    return value


def _has_scale(value: object) -> bool:
    """Whether something in it has the colour of a number."""
    if isinstance(value, (Grid, Scale)):
        return True
    if is_dataclass(value):
        return any(_has_scale(getattr(value, each.name)) for each in fields(value))
    return isinstance(value, (tuple, list)) and any(map(_has_scale, value))


# Which options are given beside those that are tried.


@dataclass(frozen=True)
class Trial:
    """A pair of options in one context: what is given without them, with each, and with both."""

    neither: Given
    with_first: Given
    with_second: Given
    with_both: Given


def given_alone(command: str, option: str) -> tuple[Given, Given]:
    """What is given in the context in which an option means something, without it and with it."""
    sample = sample_of(command, option)
    context = context_options(command, sample.context)
    base = BASES.get(command, {})
    value = sample.value or context.get(option) or base.get(option)
    without = base | _without(context, option)
    return without, without | {option: value}


def _without(context: Given, *options: str) -> Given:
    return {name: value for name, value in context.items() if name not in options}


def trials(command: str, first: str, second: str) -> list[Trial]:
    """A trial in the union of the contexts of two options; where these contradict, or nothing can
    be computed in their union, one in each of them."""
    samples = [sample_of(command, option) for option in (first, second)]
    own_contexts = [context_options(command, sample.context) for sample in samples]
    base = BASES.get(command, {})
    pair = {
        option: _value_in_pair(sample, own.get(option), other.get(option), base.get(option))
        for option, sample, own, other in zip(
            (first, second), samples, own_contexts, reversed(own_contexts), strict=True
        )
    }
    contexts = [_without(each, first, second) for each in own_contexts]
    if _agree(*contexts):
        union = _trial(base | contexts[0] | contexts[1], first, second, pair)
        if contexts[0] == contexts[1] or not _is_always_refused(command, union):
            return [union]
    return [_trial(base | context, first, second, pair) for context in contexts]


def _value_in_pair(sample: Sample, own: Value, other: Value, usual: Value) -> Value:
    """The value of an option: what the other option needs, but what is always given; its sample
    value, or that of its own context."""
    needed = None if usual is not None and sample.value is not None else other
    return needed or sample.value or own or usual


def _agree(one: Given, other: Given) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def _trial(neither: Given, first: str, second: str, pair: Given) -> Trial:
    with_first, with_second = (neither | {option: pair[option]} for option in (first, second))
    return Trial(neither, with_first, with_second, neither | pair)


def _is_always_refused(command: str, trial: Trial) -> bool:
    calls = (trial.with_both, trial.with_first, trial.with_second, trial.neither)
    return all(outcome(command, given).is_refusal for given in calls)


# What is ignored.


@dataclass(frozen=True)
class Ignored:
    """An option that changes nothing, though it is not refused, and what is given beside it."""

    command: str
    option: str
    value: Value
    others: Given

    def __str__(self) -> str:
        words = command_words(self.command, self.others | {self.option: self.value})
        return f"{self.option} changes nothing: attnviz {' '.join(words)}"


def find_ignored_alone(command: str, option: str) -> Ignored | None:
    """How an option alone, in its context, changes nothing; None if it changes something."""
    without, given = given_alone(command, option)
    if outcome(command, without, draws=True) != outcome(command, given, draws=True):
        return None
    return Ignored(command, option, given[option], without)


def find_ignored(command: str, first: str, second: str) -> Iterator[Ignored]:
    """Which of two options changes nothing beside the other, though they are not refused."""
    for trial in trials(command, first, second):
        both = outcome(command, trial.with_both)
        words = " ".join(command_words(command, trial.with_both))
        assert both.is_well_ended, f"attnviz {words}\n{both.err}"
        if both.is_refusal:
            continue
        for option, others in ((first, trial.with_second), (second, trial.with_first)):
            if _is_ignored(command, option, trial.with_both[option], others):
                yield Ignored(command, option, trial.with_both[option], others)


def _is_ignored(command: str, option: str, value: Value, others: Given) -> bool:
    """Whether an option changes nothing, be it with another value."""
    values = [value, *([another] if (another := sample_of(command, option).other) else [])]
    result = outcome(command, others)
    return all(outcome(command, others | {option: each}) == result for each in values)


# Rows that explain it.


def is_explained(ignored: Ignored, row: NoEffect) -> bool:
    """Whether a row says that this option has no effect beside what is given."""
    given = {name: value for name, value in ignored.others.items() if value is not None}
    written = [file.rpartition(".")[2] for file in _as_tuple(given.get("out", ()))]
    return (
        (ignored.option in row.options or row.options == ("*",))
        and (not row.commands or ignored.command in row.commands)
        and (not row.beside or any(name in given for name in row.beside))
        and not any(name in given for name in row.without)
        and (not row.files or (bool(written) and {*written} <= {*row.files}))
    )


def _as_tuple(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (str(value),)


def without_explanation(ignored: Ignored | None) -> bool:
    return ignored is not None and not any(is_explained(ignored, row) for row in NO_EFFECT)
