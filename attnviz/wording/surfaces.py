"""Options and commands in errors and notes, in the words of where they are read.

A message names them by marks, `opt` and `cmd`, which become words when its error is created: those
of the command line, of Python or of a TOML file.

>>> message = f"{opt.merge:rollout} uses all layers, but {opt.layer} picks one"
>>> for surface in Surface:
...     print(in_words(message, surface))
--merge rollout uses all layers, but --layer picks one
merge="rollout" uses all layers, but 'layer' picks one
merge = 'rollout' uses all layers, but layer picks one
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from attnviz.machine.context_values import context_value
from attnviz.wording import commands
from attnviz.wording.commands import option_name
from attnviz.wording.printable import printable_text

# Around a mark, and between its name and its value: no printed text contains them.
_BEGIN, _BETWEEN, _END = "\x02", "\x1f", "\x03"
_COMMAND = "command "  # begins the name of a mark that is a whole command
_OFF = "no"  # the value of a flag that is switched off
_IS = "is "  # begins a value that an option has, not one to give it


class Surface(Enum):
    """Where a user writes options, and reads errors about them."""

    COMMAND_LINE = "command line"
    PYTHON = "Python"
    TOML = "TOML"


_current_surface = ContextVar("surface", default=Surface.PYTHON)
_other_names = ContextVar[Mapping[str, str]]("other names", default=MappingProxyType({}))


@dataclass(frozen=True)
class Mark:
    """An option or a command in a message; its format spec is a value, or more words."""

    name: str

    def __format__(self, value: str) -> str:
        return f"{_BEGIN}{self.name}{_BETWEEN}{printable_text(value)}{_END}"

    def __str__(self) -> str:
        return f"{self}"


class Marks:
    """Marks by name: `opt.layer` or `opt[name]`."""

    def __init__(self, kind: str = "") -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Mark:
        return Mark(self._kind + name)

    __getitem__ = __getattr__


# `{opt.layer}`, with a value `{opt.layer:0}`; `{opt.layer:is 0}` says that it is 0, and
# `{opt.causal:no}` switches a flag off. A command is as it is typed: `{cmd.run:TEXT -o a.png}`.
opt, cmd = Marks(), Marks(_COMMAND)


current_surface = _current_surface.get


@contextmanager
def speaking(surface: Surface) -> Iterator[None]:
    """Let errors and notes that are created inside the block speak of options as this surface
    does."""
    with context_value(_current_surface, surface):
        yield


def phrase(name: str, words: str) -> str:
    """Return words of a message that `naming_options` may replace: those it has under this name."""
    return _other_names.get().get(name, words)


@contextmanager
def naming_options(**words: str) -> Iterator[None]:
    """Let errors that are created inside the block call these options, or phrases, something else.

    >>> with naming_options(model="--checkpoints"):
    ...     in_words(f"{opt.model:run/*} has no answers", Surface.COMMAND_LINE)
    '--checkpoints run/* has no answers'
    """
    with context_value(_other_names, {**_other_names.get(), **words}):
        yield


def in_words(text: str, surface: Surface | None = None) -> str:
    """Return a text with words in place of its marks: those of the current surface, or another.

    In Python a comma separates two options of one call.

    >>> in_words(f"try {opt.source:it} {opt.to:animal}, or {cmd.inspect:TEXT -o heads.png}")
    'try source="it", to="animal", or inspect("…").save("heads.png")'
    """
    spoken = surface or current_surface()
    before, *parts = text.split(_BEGIN)
    words = [before]
    for number, part in enumerate(parts, 1):
        mark, end, after = part.partition(_END)
        name, between, value = mark.partition(_BETWEEN)
        if not end or not between:  # characters of a user's text
            words.append(_BEGIN + part)
            continue
        is_chained = spoken is Surface.PYTHON and after == " " and number < len(parts)
        words += [_words_of_mark(name, value, spoken), "," * is_chained, after]
    return "".join(words)


def _words_of_mark(name: str, value: str, surface: Surface) -> str:
    if name.startswith(_COMMAND):
        command = name.removeprefix(_COMMAND)
        call = commands.python_call(command, value) if surface is Surface.PYTHON else None
        return call or f"attnviz {command} {value}".rstrip()
    if other_name := _other_names.get().get(name):
        return f"{other_name} {value}".rstrip()
    if surface is Surface.PYTHON:
        return _words_in_python(name, value)
    return _words_in_toml(name, value) if surface is Surface.TOML else _typed_option(name, value)


def _typed_option(name: str, value: str) -> str:
    if value == _OFF and commands.is_flag(name):
        return option_name(f"no_{name}")
    return f"{commands.typed_name(name)} {value}".rstrip()


def _words_in_python(name: str, value: str) -> str:
    if call := commands.python_function(name):
        return f"{call}({commands.python_text(value or '…')})"
    keyword = commands.python_keyword(name)
    if keyword is None:
        return _typed_option(name, value)
    if value.startswith(_IS):
        return f"{keyword} {value}"
    if commands.is_flag(name):
        return f"{name}={value != _OFF}"
    return f"{keyword}={commands.python_value(name, value)}" if value else repr(keyword)


def _words_in_toml(name: str, value: str) -> str:
    if commands.python_keyword(name) is None or name in commands.OPTIONS_WITHOUT_KEY:
        return _typed_option(name, value)
    if value.startswith(_IS):
        return f"{name} {value}"
    if commands.is_flag(name):
        return f"{name} = false" if value == _OFF else name
    number = commands.PLAIN_NUMBER.fullmatch(value)
    text = value if number else f"'{commands.bare_text(value)}'"
    return f"{name} = {text}" if value else name
