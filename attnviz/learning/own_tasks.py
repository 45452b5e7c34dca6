"""Tasks of one's own: a Python file with a `task`, or lines of text to continue."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning import grammar_files
from attnviz.learning.names import GRAMMAR_SUFFIX, LINE_PIECES, PYTHON_SUFFIX
from attnviz.learning.task import NO_TOKEN, DrawExamples, Examples, Reading, Task
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import structured_text
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.vectors.random_numbers import draw_uniform
from attnviz.wording.words import counted

TESTED_SENTENCES = 4  # sentences that are drawn to see whether they fit
OWN_TASK_DOCS = "docs/learning.md has a complete one"


def own_task(path: Path) -> Task:
    """The task of a file."""
    if path.suffix == GRAMMAR_SUFFIX:
        return grammar_files.read_grammar_task(path)
    if path.suffix != PYTHON_SUFFIX:
        raise AttnvizError(
            f"'{path}' is not a task: its name ends neither in {PYTHON_SUFFIX} nor in {GRAMMAR_SUFFIX}",
            f"give a Python file or a grammar; {OWN_TASK_DOCS}",
        )
    task = getattr(_run_task_file(path), "task", None)
    if not isinstance(task, Task):
        problem = "there is no 'task' in it" if task is None else "its 'task' is not a Task"
        raise AttnvizError(
            f"'{path}': {problem}",
            f"from attnviz import Task; task = Task(name=…, …); {OWN_TASK_DOCS}",
        )
    task = replace(task, draw=_draw_with_located_errors(task.draw, path), source="")
    for held_out in (False, True):
        _refuse_misfits(task, task.draw(0, TESTED_SENTENCES, held_out), path)
    _refuse_watched_text(task, path)
    return task


def _run_task_file(path: Path) -> ModuleType:
    """What the file defines; it may import what lies beside it."""
    source = structured_text.read_text_file(path, "task")
    module = ModuleType(f"attnviz.learning.own.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look there for what they are made of
    with _locating_errors(path), _importing_from_folder(path):
        exec(compile(source, str(path), "exec"), vars(module))
    return module


@contextmanager
def _importing_from_folder(path: Path) -> Iterator[None]:
    """As of a script that Python runs; nothing is left beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    flag_before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = flag_before
        sys.path.pop(0)


@contextmanager
def _locating_errors(path: Path) -> Iterator[None]:
    """Whatever goes wrong in the file is said with its line, and without the way to it."""
    try:
        yield
    except AttnvizError:
        raise
    except SyntaxError as error:
        raise _task_file_error(
            path, error.lineno, f"this is not valid Python: {error.msg}"
        ) from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next(
            (frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None
        )
        message = " ".join(str(error).split())
        kind = type(error).__name__
        raise _task_file_error(path, line, f"{kind}: {message}" if message else kind) from None


def _task_file_error(path: Path, line: int | None, problem: str) -> AttnvizError:
    where = f"'{path}'" if line is None else f"line {line} of '{path}'"
    return AttnvizError(f"{where}: {problem}", f"run python {path} to see more", file=str(path))


def _draw_with_located_errors(draw: DrawExamples, path: Path) -> DrawExamples:
    """The same, but that what goes wrong in it is said with its line."""

    def located_draw(seed: int, count: int, held_out: bool) -> Examples:
        with _locating_errors(path):
            return draw(seed, count, held_out)

    return located_draw


def _refuse_misfits(task: Task, examples: Examples, path: Path) -> None:
    """Refuse sentences that do not fit the words, the answers, or each other."""
    if not isinstance(examples, Examples):
        raise _task_error(
            path, f"draw returns {type(examples).__name__}, not Examples", "return Examples"
        )
    ids, answers = examples.ids, examples.answers
    if not isinstance(ids, Tensor) or ids.ndim != 2 or len(ids) != TESTED_SENTENCES:
        problem = f"draw was asked for {TESTED_SENTENCES} sentences, but returns ids of {_describe_tensor(ids)}"
        raise _task_error(path, problem, "make ids whole numbers, with a row for each sentence")
    if ids.shape[1] > task.longest:
        problem = f"draw makes sentences of {ids.shape[1]} tokens, but longest is {task.longest}"
        raise _task_error(path, problem, f"give longest={ids.shape[1]}")
    _refuse_numbers_beyond(path, "ids", ids, ids, 0, len(task.vocabulary.words))
    _refuse_numbers_beyond(path, "answers", answers, ids, NO_TOKEN, len(task.vocabulary.answers))
    if not (answers != NO_TOKEN).any():
        raise _task_error(
            path, "draw makes sentences without answers", "give some answers other than -1"
        )
    reading_names = [reading.name for reading in task.readings]
    if sorted(examples.readings) != sorted(reading_names):
        problem = f"draw returns the readings {sorted(examples.readings)}, but the task has {sorted(reading_names)}"
        raise _task_error(path, problem, "give each of them a tensor, and a Reading")
    for name, targets in examples.readings.items():
        _refuse_numbers_beyond(path, f"the reading '{name}'", targets, ids, NO_TOKEN, ids.shape[1])


def _refuse_numbers_beyond(
    path: Path, name: str, numbers: Tensor, ids: Tensor, lowest: int, end: int
) -> None:
    """Refuse what are not whole numbers from the lowest up to the end, one for each token."""
    fits = isinstance(numbers, Tensor) and numbers.dtype == torch.int64
    if not fits or numbers.shape != ids.shape:
        problem = f"{name} are {_describe_tensor(numbers)}, but ids are {_describe_tensor(ids)}"
        raise _task_error(path, problem, "give a whole number (torch.int64) for each token")
    outside = numbers[(numbers < lowest) | (numbers >= end)]
    if len(outside):
        problem = f"{name} must be from {lowest} to {end - 1}, but draw returns {outside[0].item()}"
        raise _task_error(path, problem, "number words and answers from 0; -1 means none")


def _describe_tensor(numbers: object) -> str:
    if not isinstance(numbers, Tensor):
        return f"a {type(numbers).__name__}"
    return f"{list(numbers.shape)} {str(numbers.dtype).removeprefix('torch.')}"


def _refuse_watched_text(task: Task, path: Path) -> None:
    """What is watched must be in the words of the task."""
    try:
        tokens = task.vocabulary.cut(task.watch)
    except AttnvizError as error:
        raise _task_error(path, f"the sentence to watch: {error}", error.hint) from None
    if len(tokens) > task.longest:
        problem = f"the sentence to watch has {len(tokens)} tokens, but longest is {task.longest}"
        raise _task_error(path, problem, "watch a shorter one")


def _task_error(path: Path, problem: str, hint: str) -> AttnvizError:
    return AttnvizError(f"'{path}': {problem}", hint, file=str(path))


LineRows = Int[Tensor, "line token"]

MAX_LINE_TOKENS = 256  # and so many tokens a line may have
HELD_OUT_LINE_INTERVAL = 10  # lines is held out
END_SIGNS = ("↵", "⏎", "end of line")  # what a line ends in: the first that is no token of a line
MAX_WATCHED_TOKENS = 12  # tokens of a line that can be watched with ease
MAX_EXAMINED_LINES = 1000  # lines that are held out, for what can be read in them
READING_LINE_INTERVAL = (
    8  # a reading is measured, if there is something to read in one of so many lines held out
)

READING_SENTENCES = {
    "previous": "reads the token before",
    "first": "reads the first token",
    "same": "reads the same token before",
    "after same": "reads what followed the same token before",
}


@dataclass(frozen=True, eq=False)
class EncodedLines:
    """Lines as ids, one behind the other."""

    ids: Int[Tensor, "id"]
    starts: Int[Tensor, "line"]
    sizes: Int[Tensor, "line"]

    def line_batch(
        self, line_numbers: Int[Tensor, "line"], longest: int, end: int
    ) -> tuple[LineRows, LineRows]:
        """Some of the lines, filled up behind, and what follows each of their tokens."""
        positions = torch.arange(longest + 1).expand(len(line_numbers), -1)
        sizes = self.sizes[line_numbers, None]
        ids = self.ids[
            torch.where(positions < sizes, self.starts[line_numbers, None] + positions, 0)
        ]
        follows = ids.masked_fill(positions == sizes, end).masked_fill(positions > sizes, NO_TOKEN)
        return ids.masked_fill(positions >= sizes, 0)[:, :-1], follows[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class LineDataset:
    """The lines that are learned from, and those that are held out."""

    learned: EncodedLines
    measured: EncodedLines
    longest: int
    end: int  # the answer behind the last token
    readings: tuple[str, ...]  # that are often enough to be measured

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Lines of a seed, one as often as another; of few that are held out each once."""
        part = self.measured if held_out else self.learned
        if held_out and len(part.sizes) <= count:
            return self.examples(part, torch.arange(len(part.sizes)))
        stream = f"lines {'held out' if held_out else 'learned'}"
        chance = draw_uniform([seed], stream, range(count), 1).flatten()
        return self.examples(part, (chance * len(part.sizes)).long())

    def examples(self, part: EncodedLines, line_numbers: Int[Tensor, "line"]) -> Examples:
        """Some lines of a part."""
        ids, answers = part.line_batch(line_numbers, self.longest, self.end)
        readings = readings_in(ids, answers != NO_TOKEN)
        return Examples(ids, answers, {name: readings[name] for name in self.readings})


def task_of_lines(path: Path, tokenizer: str, source: str | None = None) -> Task:
    """A task: after each token of a line the next is to be found.

    The lines are those of the file, or of its text, which was read before.
    """
    text = structured_text.read_text_file(path, "text") if source is None else source
    tokens_by_line = _tokenize_lines(text, path, tokenizer)
    learned, measured = _hold_out_lines([*tokens_by_line], path)
    words = tuple(dict.fromkeys(label for labels in tokens_by_line.values() for label in labels))
    lines = _encode_line_dataset(
        [tokens_by_line[line] for line in learned],
        [tokens_by_line[line] for line in measured],
        words,
    )
    piece = LINE_PIECES[tokenizer]
    return Task(
        name=path.stem,
        about=f"the lines of {path.name}, {piece} by {piece}",
        teaches=f"the next {piece} is predicted at every place",
        asked=piece,
        vocabulary=Vocabulary(
            tokenizer=tokenizer, words=words, answers=(*words, _end_sign(words)), predicts="next"
        ),
        draw=lines.draw,
        readings=tuple(Reading(name, READING_SENTENCES[name]) for name in lines.readings),
        watch=next(
            (
                line
                for line in (*measured, *tokens_by_line)
                if len(tokens_by_line[line]) <= MAX_WATCHED_TOKENS
            ),
            measured[0],
        ),
        settings=Settings(
            variant="multi-head", dim=64, heads=4, layers=2, norm="pre", positions="learned"
        ),
        longest=lines.longest,
        batch=32,
        seconds=30,
        source=text,
    )


def _tokenize_lines(source: str, path: Path, tokenizer: str) -> dict[str, tuple[str, ...]]:
    """Every line that is not blank, once, with its tokens."""
    tokens_by_line: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(source.splitlines(), start=1):
        text = line.strip()
        if text and text not in tokens_by_line:
            tokens_by_line[text] = tokenize(text, tokenizer).labels
            if len(tokens_by_line[text]) > MAX_LINE_TOKENS:
                raise AttnvizError(
                    f"line {number} of '{path}' has {counted(len(tokens_by_line[text]), 'token')}, but "
                    f"there are only {MAX_LINE_TOKENS} positions",
                    "split it into shorter lines",
                    file=str(path),
                )
    return tokens_by_line


def _hold_out_lines(lines: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
    """The lines that are learned from, and one of every few that is held out."""
    if len(lines) < 2:
        problem = "there is nothing" if not lines else "there is only one line"
        raise AttnvizError(
            f"'{path}': {problem} to learn from",
            "give at least two different lines; one is held out, to see what was learned",
            file=str(path),
        )
    interval = min(HELD_OUT_LINE_INTERVAL, len(lines))
    measured = [*lines[interval - 1 :: interval]]
    held_out = {*measured}
    return [line for line in lines if line not in held_out], measured


def _end_sign(words: Sequence[str]) -> str:
    """What stands for the end of a line: the first that is no token of one."""
    return next(sign for sign in END_SIGNS if sign not in words)


def _encode_line_dataset(
    learned: Sequence[Sequence[str]], measured: Sequence[Sequence[str]], words: Sequence[str]
) -> LineDataset:
    numbers = {word: number for number, word in enumerate(words)}
    lines = LineDataset(
        learned=_encode_lines(learned, numbers),
        measured=_encode_lines(measured, numbers),
        longest=max(map(len, [*learned, *measured])),
        end=len(words),
        readings=tuple(READING_SENTENCES),
    )
    examined = torch.arange(min(len(measured), MAX_EXAMINED_LINES))
    readings = lines.examples(lines.measured, examined).readings
    frequent_readings = [name for name, read in readings.items() if _is_often(read)]
    return replace(lines, readings=tuple(frequent_readings))


def _is_often(targets: LineRows) -> bool:
    """Whether there is something to read in enough lines, so that a mean can be said of it."""
    return bool((targets != NO_TOKEN).any(1).double().mean() >= 1 / READING_LINE_INTERVAL)


def _encode_lines(lines: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> EncodedLines:
    sizes = [len(line) for line in lines]
    return EncodedLines(
        ids=torch.tensor([numbers[label] for line in lines for label in line]),
        starts=torch.tensor([0, *accumulate(sizes)][:-1]),
        sizes=torch.tensor(sizes),
    )


def readings_in(ids: LineRows, has_token: Bool[Tensor, "line token"]) -> dict[str, LineRows]:
    """Which token each token of any text could read: the one before, the same before, …"""
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    same = _previous_same_token(ids)
    after = torch.where((same != NO_TOKEN) & (same + 1 < positions), same + 1, NO_TOKEN)
    first = torch.where(positions == 0, NO_TOKEN, 0)
    targets = {"previous": positions - 1, "first": first, "same": same, "after same": after}
    return {name: torch.where(has_token, read, NO_TOKEN) for name, read in targets.items()}


def _previous_same_token(ids: LineRows) -> LineRows:
    """The nearest place before each at which the same token stands."""
    order = ids.argsort(stable=True, dim=1)
    ordered = ids.gather(1, order)
    previous = torch.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], NO_TOKEN)
    no_previous = torch.full_like(order[:, :1], NO_TOKEN)
    return torch.empty_like(ids).scatter_(1, order, torch.cat([no_previous, previous], 1))
