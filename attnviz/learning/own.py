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
from attnviz.learning.names import CUT, GRAMMAR, PYTHON
from attnviz.learning.task import NOTHING, Draw, Examples, Reading, Task
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import texts
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.vectors.drawn import uniform
from attnviz.wording.words import counted

TRIED = 4  # sentences that are drawn to see whether they fit
SHOWN = "docs/learning.md has a complete one"


def own_task(path: Path) -> Task:
    """The task of a file."""
    if path.suffix == GRAMMAR:
        return grammar_files.read(path)
    if path.suffix != PYTHON:
        raise AttnvizError(
            f"'{path}' is not a task: its name ends neither in {PYTHON} nor in {GRAMMAR}",
            f"give a Python file or a grammar; {SHOWN}",
        )
    task = getattr(_run(path), "task", None)
    if not isinstance(task, Task):
        there = "there is no 'task' in it" if task is None else "its 'task' is not a Task"
        raise AttnvizError(
            f"'{path}': {there}", f"from attnviz import Task; task = Task(name=…, …); {SHOWN}"
        )
    task = replace(task, draw=_told(task.draw, path), source="")
    for held_out in (False, True):
        _refuse_misfits(task, task.draw(0, TRIED, held_out), path)
    _refuse_odd_sentence(task, path)
    return task


def _run(path: Path) -> ModuleType:
    """What the file defines; it may import what lies beside it."""
    source = texts.read(path, "task")
    module = ModuleType(f"attnviz.learning.own.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look there for what they are made of
    with _located(path), _found_beside(path):
        exec(compile(source, str(path), "exec"), vars(module))
    return module


@contextmanager
def _found_beside(path: Path) -> Iterator[None]:
    """As of a script that Python runs; nothing is left beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.path.pop(0)


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Whatever goes wrong in the file is said with its line, and without the way to it."""
    try:
        yield
    except AttnvizError:
        raise
    except SyntaxError as error:
        raise _wrong(path, error.lineno, f"this is not valid Python: {error.msg}") from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((each.lineno for each in reversed(frames) if each.filename == str(path)), None)
        told = " ".join(str(error).split())
        kind = type(error).__name__
        raise _wrong(path, line, f"{kind}: {told}" if told else kind) from None


def _wrong(path: Path, line: int | None, told: str) -> AttnvizError:
    where = f"'{path}'" if line is None else f"line {line} of '{path}'"
    return AttnvizError(f"{where}: {told}", f"run python {path} to see more", file=str(path))


def _told(draw: Draw, path: Path) -> Draw:
    """The same, but that what goes wrong in it is said with its line."""

    def told(seed: int, count: int, held_out: bool) -> Examples:
        with _located(path):
            return draw(seed, count, held_out)

    return told


def _refuse_misfits(task: Task, found: Examples, path: Path) -> None:
    """Refuse sentences that do not fit the words, the answers, or each other."""
    if not isinstance(found, Examples):
        raise _odd(path, f"draw returns {type(found).__name__}, not Examples", "return Examples")
    ids, answers = found.ids, found.answers
    if not isinstance(ids, Tensor) or ids.ndim != 2 or len(ids) != TRIED:
        problem = f"draw was asked for {TRIED} sentences, but returns ids of {_described(ids)}"
        raise _odd(path, problem, "make ids whole numbers, with a row for each sentence")
    if ids.shape[1] > task.longest:
        problem = f"draw makes sentences of {ids.shape[1]} tokens, but longest is {task.longest}"
        raise _odd(path, problem, f"give longest={ids.shape[1]}")
    _refuse_beyond(path, "ids", ids, ids, 0, len(task.vocabulary.words))
    _refuse_beyond(path, "answers", answers, ids, NOTHING, len(task.vocabulary.answers))
    if not (answers != NOTHING).any():
        raise _odd(path, "draw makes sentences without answers", "give some answers other than -1")
    wanted = [reading.name for reading in task.readings]
    if sorted(found.readings) != sorted(wanted):
        problem = (
            f"draw returns the readings {sorted(found.readings)}, but the task has {sorted(wanted)}"
        )
        raise _odd(path, problem, "give each of them a tensor, and a Reading")
    for name, read in found.readings.items():
        _refuse_beyond(path, f"the reading '{name}'", read, ids, NOTHING, ids.shape[1])


def _refuse_beyond(
    path: Path, name: str, numbers: Tensor, like: Tensor, lowest: int, end: int
) -> None:
    """Refuse what are not whole numbers from the lowest up to the end, one for each token."""
    fits = isinstance(numbers, Tensor) and numbers.dtype == torch.int64
    if not fits or numbers.shape != like.shape:
        problem = f"{name} are {_described(numbers)}, but ids are {_described(like)}"
        raise _odd(path, problem, "give a whole number (torch.int64) for each token")
    outside = numbers[(numbers < lowest) | (numbers >= end)]
    if len(outside):
        problem = f"{name} must be from {lowest} to {end - 1}, but draw returns {outside[0].item()}"
        raise _odd(path, problem, "number words and answers from 0; -1 means none")


def _described(numbers: object) -> str:
    if not isinstance(numbers, Tensor):
        return f"a {type(numbers).__name__}"
    return f"{list(numbers.shape)} {str(numbers.dtype).removeprefix('torch.')}"


def _refuse_odd_sentence(task: Task, path: Path) -> None:
    """What is watched must be in the words of the task."""
    try:
        tokens = task.vocabulary.cut(task.watch)
    except AttnvizError as error:
        raise _odd(path, f"the sentence to watch: {error}", error.hint) from None
    if len(tokens) > task.longest:
        problem = f"the sentence to watch has {len(tokens)} tokens, but longest is {task.longest}"
        raise _odd(path, problem, "watch a shorter one")


def _odd(path: Path, problem: str, hint: str) -> AttnvizError:
    return AttnvizError(f"'{path}': {problem}", hint, file=str(path))


Rows = Int[Tensor, "line token"]

POSITIONS = 256  # and so many tokens a line may have
ONE_OF = 10  # lines is held out
END = ("↵", "⏎", "end of line")  # what a line ends in: the first that is no token of a line
SHORT = 12  # tokens of a line that can be watched with ease
LOOKED_AT = 1000  # lines that are held out, for what can be read in them
SEEN = 8  # a reading is measured, if there is something to read in one of so many lines held out

DOES = {
    "previous": "reads the token before",
    "first": "reads the first token",
    "same": "reads the same token before",
    "after same": "reads what followed the same token before",
}


@dataclass(frozen=True, eq=False)
class Part:
    """Lines as ids, one behind the other."""

    ids: Int[Tensor, "id"]
    starts: Int[Tensor, "line"]
    sizes: Int[Tensor, "line"]

    def at(self, chosen: Int[Tensor, "line"], longest: int, end: int) -> tuple[Rows, Rows]:
        """Some of the lines, filled up behind, and what follows each of their tokens."""
        places = torch.arange(longest + 1).expand(len(chosen), -1)
        sizes = self.sizes[chosen, None]
        ids = self.ids[torch.where(places < sizes, self.starts[chosen, None] + places, 0)]
        follows = ids.masked_fill(places == sizes, end).masked_fill(places > sizes, NOTHING)
        return ids.masked_fill(places >= sizes, 0)[:, :-1], follows[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """The lines that are learned from, and those that are held out."""

    learned: Part
    measured: Part
    longest: int
    end: int  # the answer behind the last token
    readings: tuple[str, ...]  # that are often enough to be measured

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Lines of a seed, one as often as another; of few that are held out each once."""
        part = self.measured if held_out else self.learned
        if held_out and len(part.sizes) <= count:
            return self.examples(part, torch.arange(len(part.sizes)))
        stream = f"lines {'held out' if held_out else 'learned'}"
        chance = uniform([seed], stream, range(count), 1).flatten()
        return self.examples(part, (chance * len(part.sizes)).long())

    def examples(self, part: Part, chosen: Int[Tensor, "line"]) -> Examples:
        """Some lines of a part."""
        ids, answers = part.at(chosen, self.longest, self.end)
        found = read_in(ids, answers != NOTHING)
        return Examples(ids, answers, {name: found[name] for name in self.readings})


def task_of_lines(path: Path, tokenizer: str, source: str | None = None) -> Task:
    """A task: after each token of a line the next is to be found.

    The lines are those of the file, or of its text, which was read before.
    """
    text = texts.read(path, "text") if source is None else source
    cut = _cut(text, path, tokenizer)
    learned, measured = _parted([*cut], path)
    words = tuple(dict.fromkeys(label for labels in cut.values() for label in labels))
    lines = _numbered([cut[each] for each in learned], [cut[each] for each in measured], words)
    piece = CUT[tokenizer]
    return Task(
        name=path.stem,
        about=f"the lines of {path.name}, {piece} by {piece}",
        teaches=f"the next {piece} is predicted at every place",
        asked=piece,
        vocabulary=Vocabulary(
            tokenizer=tokenizer, words=words, answers=(*words, _end(words)), predicts="next"
        ),
        draw=lines.draw,
        readings=tuple(Reading(name, DOES[name]) for name in lines.readings),
        watch=next((each for each in (*measured, *cut) if len(cut[each]) <= SHORT), measured[0]),
        settings=Settings(
            variant="multi-head", dim=64, heads=4, layers=2, norm="pre", positions="learned"
        ),
        longest=lines.longest,
        batch=32,
        seconds=30,
        source=text,
    )


def _cut(whole: str, path: Path, tokenizer: str) -> dict[str, tuple[str, ...]]:
    """Every line that is not blank, once, with its tokens."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        text = line.strip()
        if text and text not in found:
            found[text] = tokenize(text, tokenizer).labels
            if len(found[text]) > POSITIONS:
                raise AttnvizError(
                    f"line {number} of '{path}' has {counted(len(found[text]), 'token')}, but "
                    f"there are only {POSITIONS} positions",
                    "split it into shorter lines",
                    file=str(path),
                )
    return found


def _parted(lines: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
    """The lines that are learned from, and one of every few that is held out."""
    if len(lines) < 2:
        there = "there is nothing" if not lines else "there is only one line"
        raise AttnvizError(
            f"'{path}': {there} to learn from",
            "give at least two different lines; one is held out, to see what was learned",
            file=str(path),
        )
    each = min(ONE_OF, len(lines))
    measured = [*lines[each - 1 :: each]]
    held_out = {*measured}
    return [line for line in lines if line not in held_out], measured


def _end(words: Sequence[str]) -> str:
    """What stands for the end of a line: the first that is no token of one."""
    return next(each for each in END if each not in words)


def _numbered(
    learned: Sequence[Sequence[str]], measured: Sequence[Sequence[str]], words: Sequence[str]
) -> Lines:
    numbers = {word: number for number, word in enumerate(words)}
    lines = Lines(
        learned=_part(learned, numbers),
        measured=_part(measured, numbers),
        longest=max(map(len, [*learned, *measured])),
        end=len(words),
        readings=tuple(DOES),
    )
    some = torch.arange(min(len(measured), LOOKED_AT))
    readings = lines.examples(lines.measured, some).readings
    often = [name for name, read in readings.items() if _is_often(read)]
    return replace(lines, readings=tuple(often))


def _is_often(read: Rows) -> bool:
    """Whether there is something to read in enough lines, so that a mean can be said of it."""
    return bool((read != NOTHING).any(1).double().mean() >= 1 / SEEN)


def _part(lines: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Part:
    sizes = [len(line) for line in lines]
    return Part(
        ids=torch.tensor([numbers[label] for line in lines for label in line]),
        starts=torch.tensor([0, *accumulate(sizes)][:-1]),
        sizes=torch.tensor(sizes),
    )


def read_in(ids: Rows, there: Bool[Tensor, "line token"]) -> dict[str, Rows]:
    """Which token each token of any text could read: the one before, the same before, …"""
    places = torch.arange(ids.shape[1]).expand_as(ids)
    same = _same_before(ids)
    after = torch.where((same != NOTHING) & (same + 1 < places), same + 1, NOTHING)
    first = torch.where(places == 0, NOTHING, 0)
    found = {"previous": places - 1, "first": first, "same": same, "after same": after}
    return {name: torch.where(there, read, NOTHING) for name, read in found.items()}


def _same_before(ids: Rows) -> Rows:
    """The nearest place before each at which the same token stands."""
    order = ids.argsort(stable=True, dim=1)
    ordered = ids.gather(1, order)
    before = torch.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], NOTHING)
    nothing = torch.full_like(order[:, :1], NOTHING)
    return torch.empty_like(ids).scatter_(1, order, torch.cat([nothing, before], 1))
