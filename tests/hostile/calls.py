"""Random calls of the command line, each from a seed of its own.

Options and their names come from the commands themselves, so that a new option is tried as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from random import Random
from typing import Any

import typer

from attnviz.cli.app import app
from attnviz.renderers import suffixes
from attnviz.traces.models.card import CHANGEABLE_SETTINGS, RUN_SETTINGS
from attnviz.traces.settings import Settings
from attnviz.views.drawing_ways import DRAWING_WAYS
from attnviz.wording.commands import option_name
from tests.hostile import contents, damaged_calls, models, words

SLOW = (".png", ".pdf", ".svg", ".gif", ".pptx")  # pictures, which are drawn now and then
SCREENS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"COLUMNS": "40"},
    {"COLUMNS": "200", "FORCE_COLOR": "1"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x", "LINES": "-1"},
    {"ATTNVIZ_THEME": "nonsense", "PAGER": "nonsense"},
    {"SOURCE_DATE_EPOCH": "x"},
    {"TERM": "dumb", "NO_COLOR": "1"},
    {"COLUMNS": "9" * 30, "LINES": "0"},
    {"COLUMNS": "20", "FORCE_COLOR": "1", "COLORTERM": "truecolor", "ATTNVIZ_THEME": "dark"},
    {"LANG": "xx_YY.nonsense", "LC_ALL": "C", "HOME": "/nowhere", "MPLBACKEND": "x"},
)
TEXTS = ("--file", "--trace")  # instead of a text
NEEDED_OPTIONS = {  # what an option is about, without which it is refused
    "--item": "--given",
    "--norm": "--layers",
    "--activation": "--layers",
    "--feed-forward": "--layers",
    "--position-base": "--positions",
    "--key": "--query",
    "--predict": "--model",
    "--chat": "--model",
}
TRACE_OPTIONS = {
    option_name(each.name) for each in fields(Settings)
}  # how a trace is made: not one of a file
FIXED_BY_MODEL = TRACE_OPTIONS - {
    option_name(name) for name in (*RUN_SETTINGS, *CHANGEABLE_SETTINGS)
}  # it has decided
OTHER_INPUTS = {
    "--given",
    "--trace",
    "--file",
    "--embeddings",
    "--item",
}  # other sources of numbers or of a text
OPTIONS_OF_TEXTS = {
    *("--query", "--reference", "--layer", "--file", "--tokenizer", "--trace", "--given"),
    *("--embeddings", "--item", "--mean", "--curves", "--dropout", "--model"),
}
OPTIONS_OF_LEARNING = {
    "--layers",
    "--norm",
    "--activation",
    "--feed-forward",
    "--attention-only",
    "--steps",
    "--until",
    "--batch",
    "--rate",
}  # in compare
TAKE_SEVERAL_VALUES = ("--show", "--step", "--values")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/proc/self/mem", "/nowhere", ".")
SKIPPED_OPTIONS = (
    "--install-completion",
    "--help-all",
)  # what writes into somebody's home; what is long
COMMANDS = (
    *("run", "run", "run", "compare", "compare", "compare", "steps", "steps", "inspect", "inspect"),
    *("show", "check", "learn", "rest"),
    *("survey", "pairs", "quiz", "heads", "explore", "demo"),
)
MODEL_CHANCES = {"heads": 0.95, "survey": 0.95, "pairs": 0.95, "inspect": 0.8, "quiz": 0.4}
ADDED_CHANCES = {  # of options that are wanted more often than others
    "--learn": 0.1,
    "--stream": 0.06,
    "--live": 0.06,
    "--chat": 0.06,
    "--checkpoints": 0.12,
    "--texts": 0.15,
}
READING_LINES = ("survey", "heads")  # commands whose file has a text on each line
QUICK_TASKS = ("reverse", "reverse", "sort")  # in little time


@dataclass(frozen=True)
class Call:
    """The arguments of a command line, with its files, standard input and environment."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes | None = b""  # None is one that is closed
    environment: dict[str, str] = field(default_factory=dict)
    offline: bool = False  # whether all that it names is on this disk


@cache
def commands_by_name() -> dict[str, tuple[tuple[str, ...], Any]]:
    """Every command by its last word: the words that call it, and typer's command."""

    def commands_below(
        group: Any, path: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name in group.table:
            command = group.get_command(None, name)
            if hasattr(command, "table"):
                yield from commands_below(command, (*path, name))
            else:
                yield (*path, name), command

    return {
        path[-1]: (path, command) for path, command in commands_below(typer.main.get_command(app))
    }


@cache
def _names(command: str, option: str) -> tuple[str, ...]:
    """What the Tab key offers for an option."""
    _, typer_command = commands_by_name()[command]
    context = typer.Context(typer_command, info_name=command)
    typer_option = next(each for each in typer_command.params if option in each.opts)
    return tuple(item.value for item in typer_option.shell_complete(context, ""))


def _mostly(usual: Sequence[str], odd: Sequence[str]) -> Callable[[_CallGenerator], str]:
    """One of the usual values, or now and then an odd one."""
    return lambda self: self.random.choice(odd if self.random.random() < 0.06 else usual)


def random_call(seed: int) -> Call:
    """The call of a seed; every fifth reads a damaged file, and needs no network."""
    if seed % 5 == 0:
        return Call(*damaged_calls.random_damaged_call(Random(seed)), offline=True)
    return _CallGenerator(Random(seed)).call()


def _options_refused_beside(given_options: Collection[str]) -> set[str]:
    """Which options are refused beside these."""
    if "--trace" in given_options:
        return TRACE_OPTIONS
    if "--learn" in given_options:
        return OPTIONS_OF_TEXTS
    if "--checkpoints" in given_options:
        return OPTIONS_OF_TEXTS | OPTIONS_OF_LEARNING | TRACE_OPTIONS
    return (FIXED_BY_MODEL - {"--model"}) | OTHER_INPUTS if "--model" in given_options else set()


class _CallGenerator:
    """Draws the words of a command line, and the files that they name."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files: dict[str, bytes] = {}
        self.text: Callable[[Random], str] = words.text
        self.command = ""
        self.chats = False

    def call(self) -> Call:
        kind = self.random.choice(COMMANDS)
        rarer_commands = [name for name in commands_by_name() if name not in COMMANDS]
        command = self.command = self.random.choice(rarer_commands) if kind == "rest" else kind
        path, typer_command = commands_by_name()[command]
        options = [each for each in typer_command.params if each.opts[0].startswith("-")]
        count = min(len(options), self.random.choice((0, 1, 1, 2, 3, 4, 6)))
        chosen_options = self.random.sample(options, count)
        chosen_options += [each for each in options if self._is_added(command, each.opts[0])]
        chosen_options = self._drop_misfits(chosen_options, options)
        self.chats = any(each.opts[0] == "--chat" for each in chosen_options)
        words = [word for each in chosen_options for word in self._option(command, each)]
        if any(each.opts[0] == "--learn" for each in chosen_options):  # 999 trainings take minutes
            words = ["--repeats=20" if word == "--repeats=999" else word for word in words]
        arguments = (
            *path,
            *words,
            *self._arguments(command, {each.opts[0] for each in chosen_options}),
        )
        stdin = self.random.choice((None, contents.text(self.random), *[b"typed"] * 18))
        return Call(arguments, self.files, stdin, self.random.choice(SCREENS))

    def _is_added(self, command: str, name: str) -> bool:
        """Whether to add an option that is wanted more often than others."""
        if (command, name) == ("survey", "--file"):
            return self.random.random() < 0.9
        if name == "--model":
            return self.random.random() < MODEL_CHANCES.get(command, 0.15)
        return name in ADDED_CHANCES and self.random.random() < ADDED_CHANCES[name]

    def _drop_misfits(self, chosen_options: list[Any], known_options: list[Any]) -> list[Any]:
        """Mostly add the options that others need, and leave out those that they refuse."""
        if self.random.random() < 0.1:
            return chosen_options
        options_by_name = {each.opts[0]: each for each in chosen_options}
        known_by_name = {each.opts[0]: each for each in known_options}
        for name, needed in NEEDED_OPTIONS.items():
            if name in options_by_name and needed in known_by_name:
                options_by_name[needed] = known_by_name[needed]
        unfit_names = _options_refused_beside(options_by_name.keys()) | (
            OPTIONS_OF_LEARNING if "--learn" in known_by_name.keys() - options_by_name else set()
        )
        return [each for name, each in options_by_name.items() if name not in unfit_names]

    def _arguments(self, command: str, given_options: set[str]) -> list[str]:
        has_other_input = given_options & {*TEXTS} or (
            "--given" in given_options and self.random.random() < 0.6
        )
        if has_other_input and self.random.random() < 0.95:
            return []
        if "--learn" in given_options:
            usual = {"--steps": "2", "--repeats": "2", "--dim": "8"}
            return [f"{name}={each}" for name, each in usual.items() if name not in given_options]
        if command in ("show", "check"):
            lesson_count = self.random.choice((1, 1, 2)) if command == "check" else 1
            return ["--", *(self._lesson(command) for _ in range(lesson_count))]
        if command == "pairs":
            return [self._file(("pairs", ".tsv"), contents.minimal_pairs(self.random))]
        if command == "quiz":
            return ["--", *(self._quiz_text() for _ in range(self.random.choice((0, 1, 1, 2))))]
        if command == "learn":
            few_steps = [] if "--steps" in given_options else ["--steps=2"]
            odd = self.random.random() < 0.05
            return [*few_steps, "--", self.random.choice(words.ODD if odd else QUICK_TASKS)]
        if command in ("run", "steps", "compare", "inspect", "explore"):
            count = self.random.choice((0, 1, 1, 1, 1, 1, 1, 2 if command == "compare" else 1))
            return ["--", *self._texts(count)] if count else []
        return [words.text(self.random)] if self.random.random() < 0.1 else []

    def _quiz_text(self) -> str:
        kind = self.random.random()
        if kind < 0.4:
            return self._file(("lesson", ".toml"), contents.quiz_lesson(self.random))
        if kind < 0.6:
            return self._file(("texts", ".txt"), contents.lines(self.random))
        return self.text(self.random)

    def _texts(self, count: int) -> list[str]:
        """Sentences; of two the second mostly has as many words as the first."""
        first, *others = (self.text(self.random) for _ in range(count))
        reversed_text = " ".join(reversed(first.split()))
        return [first, *(reversed_text if self.random.random() < 0.7 else each for each in others)]

    def _lesson(self, command: str) -> str:
        if self.random.random() < 0.15:
            known_lessons = _names(command, "name" if command == "show" else "names")
            return self.random.choice(words.ODD if self.random.random() < 0.1 else known_lessons)
        return self._file(("lesson", ".toml"), contents.lesson(self.random))

    def _option(self, command: str, option: Any) -> list[str]:
        name = self.random.choice([*option.opts, *option.secondary_opts])
        if name in SKIPPED_OPTIONS:
            return []
        if option.is_flag:
            return [name]
        value, *extra_options = self._values(command, option)
        return (
            [f"{name}={value}", *extra_options]
            if name.startswith("--")
            else [name, value, *extra_options]
        )

    def _values(self, command: str, option: Any) -> list[str]:
        """A value, with options that go with it."""
        if option.opts[0] == "--given" and self.random.random() > 0.03:
            suffix, content, extra_options = contents.matrices(self.random)
            return [self._file(("given", suffix), content), *extra_options]
        if option.opts[0] == "--model" and self.random.random() > 0.03:
            return [self._model(command)]
        if option.opts[0] == "--out" and self.random.random() > 0.03:
            return [self._output(command)]
        return [self._value(command, option)]

    def _value(self, command: str, option: Any) -> str:
        name = option.opts[0]
        if self.random.random() < 0.02:
            return self.random.choice(words.ODD)
        if name in self._special:
            return self._special[name](self)
        known_names = _names(command, name)
        if known_names and self.random.random() < 0.97:
            most = 3 if name in TAKE_SEVERAL_VALUES or self.random.random() < 0.05 else 1
            return ",".join(
                self.random.sample(known_names, min(len(known_names), self.random.randint(1, most)))
            )
        kinds = {"N": words.number, "X": words.fraction, "P": words.fraction, "S": words.fraction}
        return kinds.get(option.metavar, words.text)(self.random)

    def _file(self, name: tuple[str, str], content: bytes) -> str:
        stem, suffix = name
        odd = self.random.random() < 0.05
        path = (
            self.random.choice(("caf\udce9", "a\x1b[31m", "日本", "x" * 251))
            if odd
            else f"{stem}{len(self.files)}"
        ) + suffix
        self.files[path] = content
        return path

    def _model(self, command: str) -> str:
        trained = 0.25 if command in ("run", "compare", "steps") else 0.85
        model = models.random_model(self.random, trained=trained)
        if self.chats and self.random.random() < 0.9:
            model = models.chatting_model(self.random)
        self.files |= model.files
        self.text = lambda random: (words.text if random.random() < 0.05 else model.text)(random)
        return model.name

    def _output(self, command: str) -> str:
        if self.random.random() < 0.05:
            return self.random.choice(
                (
                    "a",
                    "a.xyz",
                    ".png",
                    "x" * 300 + ".csv",
                    "folder/b.json",
                    "/dev/null",
                    ".",
                    "in0.json/b.txt",
                )
            )
        is_picture = self.random.random() < 0.12
        suffix_choices = [each for each in suffixes() if (each in SLOW) == is_picture]
        allowed_marks = (*["-{step}"] * (command in ("steps", "show")), *["-{page}"] * is_picture)
        odd = self.random.random() < 0.03
        marks = self.random.choice(("", "", *(("-{step}", "-{page}") if odd else allowed_marks)))
        return f"out{marks}{self.random.choice(suffix_choices)}"

    def _random_words(self) -> str:
        kinds = (words.number, words.fraction, words.text)
        drawn_words = [
            self.random.choice(kinds)(self.random) for _ in range(self.random.choice((1, 2, 2, 3)))
        ]
        return ",".join(drawn_words)

    def _embeddings(self) -> str:
        if self.random.random() < 0.2:
            return "minilm"
        suffix, content = contents.vectors(self.random)
        return self._file(("vectors", suffix), content) + self.random.choice(
            ("", "", "#table", "#x")
        )

    def _token(self) -> str:
        """The number of a token, or any word."""
        usual = self.random.random() < 0.8
        return self.random.choice(("1", "1", "2")) if usual else words.text(self.random)

    def _training_folder(self) -> str:
        """A folder for --from, in learn."""
        return _mostly(("nowhere", "."), words.ODD)(self)

    def _text(self) -> str:
        if self.random.random() < 0.1:
            return self.random.choice(DEVICES)
        read = contents.lines if self.command in READING_LINES else contents.text
        return self._file(("text", ".txt"), read(self.random))

    def _checkpoints(self) -> str:
        """A pattern of checkpoints: two folders of one transformer, or of two."""
        for step in (1, 2):
            name = self.random.choice(("bert", "bert", "gpt2"))
            for file, content in models.transformer_files(name).items():
                self.files[f"run/checkpoint-{step}/{file}"] = content
        return self.random.choice(("run/*", "run/*", "run/checkpoint-[12]", "run", "~nosuch/x*"))

    def _trace(self) -> str:
        suffix, content = contents.trace_file(self.random)
        return self._file(("trace", suffix), content)

    _special: dict[str, Callable[[_CallGenerator], str]] = {
        "--embeddings": _embeddings,
        "--trace": _trace,
        "--file": _text,
        "--texts": _text,
        "--checkpoints": _checkpoints,
        "--size": lambda self: words.size(self.random),
        "--without": _mostly(
            ("L0H0", "L0H1=mean", "L1H0,L0H0", "L1H1"), ("L9H9", "L0", "=mean", "x")
        ),
        "--query": lambda self: self._token(),
        "--key": lambda self: self._token(),
        "--layer": _mostly(("0", "0", "1"), ("-1", "9" * 20, "x")),
        "--head": _mostly(("0", "0", "1"), ("-1", "9" * 20, "x")),
        "--kv-heads": _mostly(("1", "1", "2"), ("0", "3", "x")),
        "--dropout": _mostly(("0.5", "0.1", "0"), words.ODD_FRACTIONS),
        "--position-base": _mostly(("10", "10000", "1e6"), words.ODD_FRACTIONS),
        "--values": _random_words,
        "--reference": _random_words,
        "--steps": _mostly(("1", "2", "3"), ("0", "-1", "x")),
        "--until": _mostly(("0.1", "0.5", "1"), words.ODD_FRACTIONS),
        "--batch": _mostly(("1", "2", "8"), ("0", "99999", "x")),
        "--rate": _mostly(("0.01", "0.5", "100"), words.ODD_FRACTIONS),
        "--watch": _mostly(("a b c", "5 2 8 1", "h g f e d c b a"), words.ODD),
        "--save": _mostly(("saved", "saved/deep"), ("", ".", "/dev/null", "x" * 300)),
        "--from": lambda self: (
            self._token() if self.command == "inspect" else self._training_folder()
        ),
        "--to": lambda self: self._token(),
        "--toward": _mostly(("the", "it", "a", "tired"), words.ODD),
        "--generate": _mostly(("1", "2", "3"), ("0", "-1", "x", "9" * 9)),
        "--attention": _mostly(("self", "cross", "decoder"), ("x",)),
        "--target": lambda self: words.text(self.random),
        "--seed": lambda self: self.random.choice((*[words.number(self.random)] * 9, "42,43")),
        "--limit": _mostly(("1MB", "5 GB", "20KB"), words.ODD_SIZES_OF_FILES),
        "--dpi": _mostly(("40", "72", "100"), ("0", "100000")),
        "--item": _mostly(("1", "2"), ("0", "3")),
        "--repeats": _mostly(("1", "2", "3", "20"), ("0", "999")),
        "--as": _mostly((*DRAWING_WAYS,), ("x",)),
        "--text-size": _mostly(("small", "large", "6", "24"), ("0", "x")),
    }
