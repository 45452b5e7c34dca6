"""A task of one's own: a Python file with a `task` in it, run and tried; or a grammar."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning import grammar_files
from attnviz.learning.names import GRAMMAR, PYTHON
from attnviz.learning.task import NOTHING, Draw, Examples, Task
from attnviz.traces import texts

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
