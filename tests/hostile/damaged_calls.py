"""Calls that read damaged files and folders: each format, by each command that reads it."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from attnviz import trace
from attnviz.cli.app import run_command_line
from attnviz.traces.models.model_names import find_model_path
from tests.conftest import ROOT
from tests.hostile import contents, models
from tests.hostile.damage import Files, damaged, damaged_folder

Arguments = tuple[str, ...]
Read = tuple[Arguments, Files]  # what is typed, and the files that it reads
TASKS = ROOT / "attnviz" / "learning" / "tasks"
LETTERS = "a b c d e f g h"
SENTENCE = "The animal was tired"
LEARNED: tuple[Arguments, ...] = (
    ("reverse", "--dim=8", "--heads=2"),
    ("sort", "--dim=4", "--layers=2", "--variant=causal"),
    ("reverse", "--dim=8", "--positions=rotary"),
)
OUTPUTS = (".json", ".html", ".csv", ".npz", ".txt", ".md")
OF_A_TRACE: tuple[Arguments, ...] = (
    ("run",),
    ("run", "--verify"),
    ("steps", "--query=1"),
    ("compare", "--by=scale"),
    ("inspect",),
    ("inspect", "--by=effect", "--layer=0"),
    ("inspect", "--weigh=norm"),
    ("inspect", "--weigh=gradient"),
)
OF_A_MODEL: tuple[Arguments, ...] = (
    ("run", "--predict"),
    ("run", "--show=all"),
    ("steps",),
    ("inspect", "--by=effect", "--layer=0"),
    ("inspect", "--query=1"),
    ("heads",),
    ("compare", "--by=mask"),
    ("run", "--without=L0H0"),
)
OF_A_TRANSFORMER: tuple[Arguments, ...] = (
    ("inspect",),
    ("inspect", "--weigh=norm", "--layer=0"),
    ("run", "--predict"),
    ("run", "--verify"),
    ("inspect", "--generate=2"),
)


def invented(random: Random) -> Read:
    """What is typed, and the files: mostly one of them damaged, now and then two."""
    arguments, files = random.choice(KINDS)(random)
    if random.random() < 0.25:
        arguments = (*arguments, f"--out=out{random.choice(OUTPUTS)}")
    return arguments, files


def _given(random: Random) -> Read:
    suffix, content, options = contents.matrices(random)
    name = f"given{suffix}"
    command = random.choice((("run",), ("run", "--verify"), ("steps",), ("compare", "--by=scale")))
    return (*command, f"--given={name}", *options), {name: damaged(name, content, random)}


def _vectors(random: Random) -> Read:
    if random.random() < 0.5:
        return ("run", "I am", "--embeddings=trained"), in_folder("trained", _transformer(random))
    suffix, content = contents.vectors(random)
    name = f"vectors{suffix}"
    return ("run", "I am", f"--embeddings={name}"), {name: damaged(name, content, random)}


def _trace(random: Random) -> Read:
    suffix, content = contents.saved(random)
    if random.random() < 0.3:
        suffix, content = ".json", _trace_of_a_transformer()
    name = f"trace{suffix}"
    files = {name: damaged(name, content, random)} | in_folder(
        "trained", models.transformer("bert")
    )
    return (*random.choice(OF_A_TRACE), f"--trace={name}"), files


@cache
def _trace_of_a_transformer() -> bytes:
    """A trace that names the folder `trained`, to be loaded again for what it does not hold."""
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at, "trained")
        folder.mkdir()
        for name, content in models.transformer("bert").items():
            (folder / name).write_bytes(content)
        written = trace(SENTENCE, model=str(folder)).view().render(".json")
        return written.replace(json.dumps(str(folder)).encode(), b'"trained"')


def _lesson(random: Random) -> Read:
    content = contents.lesson(random)
    arguments = ("example", random.choice(("show", "check")), "lesson.toml")
    return arguments, {"lesson.toml": damaged("lesson.toml", content, random)}


def _task(random: Random) -> Read:
    content = random.choice([path.read_bytes() for path in sorted(TASKS.glob("*.toml"))])
    files = {"task.toml": damaged("task.toml", content, random)}
    return ("learn", "task.toml", "--steps=1", "--dim=8"), files


def _learned(random: Random) -> Read:
    """A folder of `learn --save`: gone on from, drawn, or read as a model."""
    one, other = random.sample(LEARNED, 2)
    files = in_folder("mine", damaged_folder(saved(one), saved(other), random))
    if random.random() < 0.6:
        return ("learn", "--from=mine", random.choice(("--steps=4", "--out=curves.csv"))), files
    return _asked(random, "mine", LETTERS), files


@cache
def saved(arguments: Arguments) -> Files:
    """What `learn --save` writes."""
    unseen = io.TextIOWrapper(io.BytesIO())
    with tempfile.TemporaryDirectory() as at, contextlib.redirect_stdout(unseen):
        assert (
            run_command_line(["learn", *arguments, "--steps=2", "--quiet", f"--save={at}/mine"])
            == 0
        )
        return {path.name: path.read_bytes() for path in Path(at, "mine").iterdir()}


def _by_hand(random: Random) -> Read:
    content = damaged("mine.toml", find_model_path(models.TOY).read_bytes(), random)
    return _asked(random, "mine.toml", "The dogs slept"), {"mine.toml": content}


def _asked(random: Random, model: str, text: str) -> Arguments:
    command = random.choice(OF_A_MODEL)
    return (*command, f"--model={model}", *(() if command == ("heads",) else (text,)))


def _transformer(random: Random) -> Files:
    one, other = random.sample(models.TRAINED, 2)
    return damaged_folder(models.transformer(one), models.transformer(other), random)


def _trained(random: Random) -> Read:
    arguments = (*random.choice(OF_A_TRANSFORMER), "--model=trained", SENTENCE)
    return arguments, in_folder("trained", _transformer(random))


def in_folder(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": content for name, content in files.items()}


KINDS: tuple[Callable[[Random], Read], ...] = (
    *(_given, _vectors, _trace, _lesson, _task, _by_hand),
    *(_learned, _learned, _learned, _trained, _trained),
)
