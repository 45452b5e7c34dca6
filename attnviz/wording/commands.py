"""Commands in words: the line that makes a result again, and the call in Python that does so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnviz.options.option import NOT_IN_PYTHON, TYPED_FIELD, default_of, own_options
from attnviz.options.table import option_fields, option_rows
from attnviz.wording.printable import ansi_quote, ansi_unquote

# The commands that make traces: they may stand in a file, but for options that run Python code.
TRACE_COMMANDS = ("run", "inspect", "steps", "compare", "example show")
_QUOTED_WORD = re.compile(  # as `shell_quote` writes it, and the space after it
    r"""([\w@%+=:,./-]+|'[^']*'(?:"'"'[^']*')*|\$'[^\\']*(?:\\.[^\\']*)*')(?: |\Z)""", re.ASCII
)
GIVEN_NAMES = "_given_names"  # of options, beside their fields


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of attnviz with its arguments and its options, keyed by field name."""

    name: str  # such as "run" or "example show"
    argument: str | None = None  # the text, or an example's name
    second: str | None = None  # the second text
    options: Mapping[str, Any]

    def with_options(self, **options: Any) -> Command:
        return replace(self, options={**self.options, **options})

    @property
    def line(self) -> str:
        """The command as typed into a shell, with paths outside the current folder cut to file
        names.

        Where a text begins with a hyphen, the options come first and the texts follow `--`.

        >>> Command(name="run", argument="I am", options={"heads": 2, "causal": False}).line
        "attnviz run 'I am' --heads 2 --no-causal"
        """
        options = [word for option in self.options.items() for word in _option_words(*option)]
        texts = [text for text in (self.argument, self.second) if text is not None]
        if any(text.startswith("-") and text != "-" for text in texts):
            words = [*options, "--", *texts]  # or the text would be read as an option
        else:
            words = [*texts, *options]
        return " ".join(map(shell_quote, ["attnviz", *self.name.split(), *words]))


def parse_command(line: str) -> Command | None:
    """Return the Command that a line is, if attnviz would write it exactly so; None for any other
    line.

    The command recorded in a file is untrusted text, which people copy into a shell. So it must
    equal, character for character, what attnviz itself writes: a command that makes traces, known
    options, each word quoted. A shell can then do nothing with it but run attnviz. Every file that
    it reads or writes is below the current folder, and it runs no Python code: --trust-remote-code
    and --learn are not among its options. It may name a model of a hub, which is then downloaded.

    >>> parse_command("attnviz run 'I am' --heads 2").options
    {'heads': ['2']}
    >>> ends = ("; ls", " | sh", " --out ../x.png")
    >>> [parse_command(f"attnviz run 'I am'{end}") for end in ends]
    [None, None, None]
    """
    words = _split_words(line)
    start = 3 if words[1:2] == ["example"] else 2
    name, remaining = " ".join(words[1:start]), iter(words[start:])
    options: dict[str, Any] = {}
    texts: list[str] = []
    for word in remaining:
        if word == "--":
            texts.extend(remaining)
        elif not word.startswith("--"):
            texts.append(word)
        elif word in _value_by_flag():
            options |= _value_by_flag()[word]
        else:
            value = next(remaining, "")
            field = "part" if is_text_part(word, value) else _names_by_option().get(word, word)
            options.setdefault(field, []).append(value)
    if not all(is_recorded(field) for field in options):
        return None
    argument, second = [*texts, None, None][:2]
    command = Command(name=name, argument=argument, second=second, options=options)
    return command if name in TRACE_COMMANDS and command.line == line else None


def _split_words(line: str) -> list[str]:
    """Return the words of a line written by `shell_quote`, up to the first that is not so
    quoted.
    """
    words, start = [], 0
    while match := _QUOTED_WORD.match(line, start):
        start, spelled = match.end(), match[1]
        if spelled.startswith("$"):
            words.append(ansi_unquote(spelled))
        else:
            words += shlex.split(spelled)
    return words


def changed_options(options: Any, group: type | None = None) -> dict[str, Any]:
    """Return the options that differ from their defaults, by name; of a group if it is given."""
    names = None if group is None else {each.name for each in own_options(group)}
    return {
        each.name: getattr(options, each.name)
        for each in fields(options)
        if each.name != TYPED_FIELD and (names is None or each.name in names)
        if getattr(options, each.name) != default_of(each)
    }


def note_given(options: Any, before: Any, names: Iterable[str]) -> None:
    """Note on options, if their class has room for it, which of them were given by name, be it with
    their default; those that `before` was given stay so.
    """
    if hasattr(before, GIVEN_NAMES):
        object.__setattr__(options, GIVEN_NAMES, getattr(before, GIVEN_NAMES) | {*names})


def given_options(options: Any) -> dict[str, Any]:
    """Return the options that differ from their defaults, and those that were given by name.

    >>> from attnviz import Settings
    >>> from attnviz.wording.keywords import replace_choices
    >>> given_options(replace_choices(Settings(heads=2), {"positions": "none"}))
    {'heads': 2, 'positions': 'none'}
    """
    given = {name: getattr(options, name) for name in sorted(getattr(options, GIVEN_NAMES))}
    given = {name: value for name, value in given.items() if value is not None}
    return changed_options(options) | given


def option_name(name: str) -> str:
    """Return the command-line option of a field, or the name of an argument.

    >>> option_name("head_dim"), option_name("as_"), option_name("source")
    ('--head-dim', '--as', '--from')
    """
    row = option_rows().get(name)
    if row is not None and row.is_argument:
        return row.metavar
    if row is not None and row.flags:
        return row.flags[0]
    return _dashed(name)


def _dashed(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def is_text_part(option: str, value: str) -> bool:
    """Return whether an option with a value is --window with a part of a text, not with a width."""
    return option == option_name("part") and ":" in value


@cache
def _names_by_option() -> dict[str, str]:
    """Return the names of options by how they are typed, in full or short.

    Of two that are typed alike, it is that which commands in files may have, and whose name is so.
    """
    rows = [(name, row) for name, row in option_rows().items() if not row.is_argument]
    flags = [(flag, name, row) for name, row in rows for flag in (option_name(name), *row.flags)]
    flags.sort(key=lambda each: (each[2].is_recorded, each[0] == _dashed(each[1])))
    return {flag: name for flag, name, _ in flags}


@cache
def _value_by_flag() -> dict[str, dict[str, bool]]:
    """Return the name and value that a flag stands for, such as --no-causal."""
    flags = [name for name in option_rows() if is_flag(name)]
    off = {option_name(f"no_{name}"): {name: False} for name in flags}
    return off | {option_name(name): {name: True} for name in flags}


PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")
OPTIONS_WITHOUT_KEY = ("item", "out", "query")  # choose from a file what is shown
FUNCTIONS = {  # by command
    "run": "trace", "inspect": "inspect", "steps": "steps", "compare": "compare", "learn": "learn",
    "heads": "rank", "survey": "survey", "pairs": "pairs",
}  # fmt: skip
PLACEHOLDERS = ("FILE", "FOLDER", "N", "NAME", "OTHER", "TASK", "TEXT", "TOKEN")


def shell_quote(word: str) -> str:
    """Quote a word for a shell if it needs quotes; invisible characters and bytes that are not
    UTF-8 are escaped.

    >>> shell_quote("I am"), shell_quote("a\\x1b[2J")
    ("'I am'", "$'a\\\\033[2J'")
    """
    return shlex.quote(word) if word.isprintable() else ansi_quote(word)


def path_without_folders(path: str) -> str:
    """Return a relative path without `..` unchanged, and of any other only the file name, to keep
    folders private.

    >>> path_without_folders("here/numbers.toml"), path_without_folders("/home/me/numbers.toml")
    ('here/numbers.toml', 'numbers.toml')
    """
    return Path(path).name if Path(path).is_absolute() or ".." in Path(path).parts else path


def _option_words(name: str, value: Any) -> Iterator[str]:
    """Yield the words of an option: `--causal` or `--no-causal` for a bool, nothing for None, else
    name and value, once for each item of a list.
    """
    if value is None:
        return
    if isinstance(value, bool):
        yield option_name(name) if value else option_name(f"no_{name}")
        return
    for item in value if isinstance(value, (list, tuple)) else [value]:
        yield option_name(name)
        yield path_in_command(name, str(item)) if is_path(name) else str(item)


def path_in_command(name: str, path: str) -> str:
    """Return the value of option `name` without private folders; a shortened one for `model` gets
    `./` so that it names no built-in model.

    >>> path_in_command("model", "agreement"), path_in_command("model", "/home/me/agreement")
    ('agreement', './agreement')
    """
    short_path = path_without_folders(path)
    return f"./{short_path}" if name == "model" and short_path != path else short_path


def is_flag(name: str) -> bool:
    own_field = option_fields().get(name)
    return own_field is not None and str(own_field.type) in ("bool", "bool | None")


def is_recorded(name: str) -> bool:
    """Return whether a command that stands in a file may have this option: it runs no code."""
    row = option_rows().get(name)
    return row is not None and row.is_recorded and not row.is_argument


def is_path(name: str) -> bool:
    row = option_rows().get(name)
    return row is not None and row.is_path


def typed_name(name: str) -> str:
    """Return an option as errors write it: one that is nearly always typed short is short.

    >>> typed_name("out"), typed_name("tokenizer")
    ('-o', '--tokenizer')
    """
    return "-o" if name == "out" else option_name(name)


def python_keyword(name: str) -> str | None:
    """Return what Python calls an option; None for an option that only commands have."""
    row = option_rows().get(name)
    if row is None or row.python == NOT_IN_PYTHON:
        return None
    return name if row.python.endswith("(") else row.python or name


def python_function(name: str) -> str | None:
    """Return the function that takes the value of an option in Python, such as `save`."""
    row = option_rows().get(name)
    return row.python[:-1] if row is not None and row.python.endswith("(") else None


def python_call(name: str, typed: str) -> str | None:
    """Return the call that does what a command with these words does; None if there is none.

    >>> python_call("run", "TEXT -t words -o trace.npz"), python_call("heads", "")
    ('trace("…", tokenizer="words").save("trace.npz")', 'rank()')
    """
    try:
        words = shlex.split(typed)
    except ValueError:  # a quote is not closed
        return None
    if name not in FUNCTIONS or (name == "learn" and "--from" in words):  # only commands continue
        return None
    function, positional, keywords, after = FUNCTIONS[name], list[str](), list[str](), ""
    if name == "heads" and "--texts" in words:
        function = "head_effects"
    remaining = iter(words)
    for word in remaining:
        field = _names_by_option().get(word, "")
        if not word.startswith("-"):
            positional.append(python_text(word))
        elif word in _value_by_flag():
            keywords += [f"{key}={value}" for key, value in _value_by_flag()[word].items()]
        elif field == "learn" and name == "compare":
            function, positional = "compare_learning", [python_text(next(remaining, "…"))]
        elif python_keyword(field) is None:
            return None
        elif field == "out":
            after = f".save({python_text(next(remaining, '…'))})"
        elif field == "show":
            after = f".view(show={python_text(next(remaining, '…'))})"
        elif call := python_function(field):
            positional.append(f"{call}({python_text(next(remaining, '…'))})")
        elif field == "model" and function == "rank":
            positional.append(python_text(next(remaining, "…")))
        else:
            value = next(remaining, "…")
            field = "part" if is_text_part(word, value) else field
            keywords.append(f"{python_keyword(field)}={python_value(field, value)}")
    if function == "compare" and len(positional) == 2:
        function = "compare_sentences"
    return f"{function}({', '.join([*positional, *keywords])}){after}"


def python_value(name: str, value: str) -> str:
    """Return the value of an option in Python, where positions of tokens count from 0.

    >>> python_value("query", "3"), python_value("query", "it"), python_value("dim", "16")
    ('2', '"it"', '16')
    """
    if not PLAIN_NUMBER.fullmatch(value):
        return python_text(value)
    row = option_rows().get(name)
    is_position = row is not None and row.is_token and value.isdigit() and int(value) > 0
    return str(int(value) - 1) if is_position else value


def python_text(value: str) -> str:
    """Return a word in quotes; one that stands for any, such as TEXT, as an ellipsis."""
    return f'"{"…" if value in PLACEHOLDERS else bare_text(value)}"'


def bare_text(value: str) -> str:
    """Return a word without the quotes of a shell around it."""
    return value[1:-1] if value[:1] == value[-1:] == "'" and len(value) > 1 else value
