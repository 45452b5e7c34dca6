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
from tests.hostile.damage import Files, damage_file, damage_folder

Arguments = tuple[str, ...]
ReadingCall = tuple[Arguments, Files]  # what is typed, and the files that it reads
TASKS = ROOT / "attnviz" / "learning" / "tasks"
LETTERS = "a b c d e f g h"
SENTENCE = "The animal was tired"
TRAININGS: tuple[Arguments, ...] = (
    ("reverse", "--dim=8", "--heads=2"),
    ("sort", "--dim=4", "--layers=2", "--variant=causal"),
    ("reverse", "--dim=8", "--positions=rotary"),
)
OUTPUTS = (".json", ".html", ".csv", ".npz", ".txt", ".md")
TRACE_COMMANDS: tuple[Arguments, ...] = (
    ("run",),
    ("run", "--verify"),
    ("steps", "--query=1"),
    ("compare", "--by=scale"),
    ("inspect",),
    ("inspect", "--by=effect", "--layer=0"),
    ("inspect", "--weigh=norm"),
    ("inspect", "--weigh=gradient"),
)
MODEL_COMMANDS: tuple[Arguments, ...] = (
    ("run", "--predict"),
    ("run", "--show=all"),
    ("steps",),
    ("inspect", "--by=effect", "--layer=0"),
    ("inspect", "--query=1"),
    ("heads",),
    ("compare", "--by=mask"),
    ("run", "--without=L0H0"),
)
TRANSFORMER_COMMANDS: tuple[Arguments, ...] = (
    ("inspect",),
    ("inspect", "--weigh=norm", "--layer=0"),
    ("run", "--predict"),
    ("run", "--verify"),
    ("inspect", "--generate=2"),
)


def random_damaged_call(random: Random) -> ReadingCall:
    """Arguments and files: mostly one of them damaged, now and then two."""
    arguments, files = random.choice(KINDS)(random)
    if random.random() < 0.25:
        arguments = (*arguments, f"--out=out{random.choice(OUTPUTS)}")
    return arguments, files


def _call_with_matrices(random: Random) -> ReadingCall:
    suffix, content, options = contents.matrices(random)
    name = f"given{suffix}"
    command = random.choice((("run",), ("run", "--verify"), ("steps",), ("compare", "--by=scale")))
    return (*command, f"--given={name}", *options), {name: damage_file(name, content, random)}


def _call_with_vectors(random: Random) -> ReadingCall:
    if random.random() < 0.5:
        return ("run", "I am", "--embeddings=trained"), put_in_folder(
            "trained", _damaged_transformer(random)
        )
    suffix, content = contents.vectors(random)
    name = f"vectors{suffix}"
    return ("run", "I am", f"--embeddings={name}"), {name: damage_file(name, content, random)}


def _call_with_trace(random: Random) -> ReadingCall:
    suffix, content = contents.trace_file(random)
    if random.random() < 0.3:
        suffix, content = ".json", _trace_of_a_transformer()
    name = f"trace{suffix}"
    files = {name: damage_file(name, content, random)} | put_in_folder(
        "trained", models.transformer_files("bert")
    )
    return (*random.choice(TRACE_COMMANDS), f"--trace={name}"), files


@cache
def _trace_of_a_transformer() -> bytes:
    """A saved trace that names the folder `trained`, from which its model is loaded again."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path, "trained")
        folder.mkdir()
        for name, content in models.transformer_files("bert").items():
            (folder / name).write_bytes(content)
        document = trace(SENTENCE, model=str(folder)).view().render(".json")
        return document.replace(json.dumps(str(folder)).encode(), b'"trained"')


def _call_with_lesson(random: Random) -> ReadingCall:
    content = contents.lesson(random)
    arguments = ("example", random.choice(("show", "check")), "lesson.toml")
    return arguments, {"lesson.toml": damage_file("lesson.toml", content, random)}


def _call_with_task(random: Random) -> ReadingCall:
    content = random.choice([path.read_bytes() for path in sorted(TASKS.glob("*.toml"))])
    files = {"task.toml": damage_file("task.toml", content, random)}
    return ("learn", "task.toml", "--steps=1", "--dim=8"), files


def _call_with_training(random: Random) -> ReadingCall:
    """A folder of `learn --save`: training goes on, is drawn, or is read as a model."""
    one, other = random.sample(TRAININGS, 2)
    files = put_in_folder("mine", damage_folder(saved_training(one), saved_training(other), random))
    if random.random() < 0.6:
        return ("learn", "--from=mine", random.choice(("--steps=4", "--out=curves.csv"))), files
    return _model_command(random, "mine", LETTERS), files


@cache
def saved_training(arguments: Arguments) -> Files:
    """The files that `learn --save` writes."""
    stdout = io.TextIOWrapper(io.BytesIO())
    with tempfile.TemporaryDirectory() as at, contextlib.redirect_stdout(stdout):
        assert (
            run_command_line(["learn", *arguments, "--steps=2", "--quiet", f"--save={at}/mine"])
            == 0
        )
        return {path.name: path.read_bytes() for path in Path(at, "mine").iterdir()}


def _call_with_written_model(random: Random) -> ReadingCall:
    content = damage_file("mine.toml", find_model_path(models.TOY).read_bytes(), random)
    return _model_command(random, "mine.toml", "The dogs slept"), {"mine.toml": content}


def _model_command(random: Random, model: str, text: str) -> Arguments:
    command = random.choice(MODEL_COMMANDS)
    return (*command, f"--model={model}", *(() if command == ("heads",) else (text,)))


def _damaged_transformer(random: Random) -> Files:
    one, other = random.sample(models.TRAINED, 2)
    return damage_folder(models.transformer_files(one), models.transformer_files(other), random)


def _call_with_transformer(random: Random) -> ReadingCall:
    arguments = (*random.choice(TRANSFORMER_COMMANDS), "--model=trained", SENTENCE)
    return arguments, put_in_folder("trained", _damaged_transformer(random))


def _call_with_gguf_file(random: Random) -> ReadingCall:
    content = damage_file("small.gguf", models.gguf_file(), random)
    command = random.choice((*TRANSFORMER_COMMANDS, ("inspect", "--chat"), ("heads",), ("survey",)))
    text = (SENTENCE,) if command[0] in ("run", "inspect") else ()
    texts = {"texts.txt": b"The animal was tired\nit was too wide\n"}
    files = texts if command == ("survey",) else {}
    options = ("--file=texts.txt",) if files else ()
    return (*command, *options, "--model=small.gguf", *text), {"small.gguf": content} | files


def _call_with_chat(random: Random) -> ReadingCall:
    """A folder with a chat template and a generation config, of which a file is damaged."""
    files = damage_folder(models.chatting_files(), models.transformer_files("gpt2"), random)
    options = random.choice((("--chat",), ("--chat", "--generate=2"), ("--generate=2",)))
    return ("inspect", *options, "--model=chatting", SENTENCE), put_in_folder("chatting", files)


def _call_with_checkpoints(random: Random) -> ReadingCall:
    """Two checkpoints of a training, of which one is damaged; now and then a file of it is to be
    written over."""
    name = random.choice(models.TRAINED)
    files = put_in_folder("run/checkpoint-1", models.transformer_files(name))
    files |= put_in_folder("run/checkpoint-2", _damaged_transformer(random))
    patterns = random.choice(("run/*", "run/checkpoint-*", "run/checkpoint-1", "~nosuch/*", "**"))
    outputs = (f"--out={random.choice([*files])}",) if random.random() < 0.2 else ()
    return ("compare", f"--checkpoints={patterns}", *outputs, SENTENCE), files


def _call_with_quiz(random: Random) -> ReadingCall:
    lesson = {"lesson.toml": contents.quiz_lesson(random)}
    return ("quiz", "lesson.toml", f"--out=out{random.choice(('.txt', '.md', '.html'))}"), lesson


def _call_with_lines(random: Random) -> ReadingCall:
    """Many texts, or minimal pairs, for a transformer that may be damaged."""
    name = random.choice(("bert", "gpt2", "llama"))
    files = models.transformer_files(name)
    if random.random() < 0.5:
        files = damage_folder(files, models.transformer_files("bert"), random)
    if random.random() < 0.5:
        arguments, lines = ("pairs", "lines.txt"), contents.minimal_pairs(random)
    else:
        command = random.choice((("survey", "--file"), ("heads", "--texts"), ("run", "--file")))
        arguments, lines = (command[0], f"{command[1]}=lines.txt"), contents.lines(random)
    return (*arguments, "--model=trained"), put_in_folder("trained", files) | {"lines.txt": lines}


def put_in_folder(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": content for name, content in files.items()}


KINDS: tuple[Callable[[Random], ReadingCall], ...] = (
    *(
        _call_with_matrices,
        _call_with_vectors,
        _call_with_trace,
        _call_with_lesson,
        _call_with_task,
        _call_with_written_model,
    ),
    *(
        _call_with_training,
        _call_with_training,
        _call_with_training,
        _call_with_transformer,
        _call_with_transformer,
    ),
    *(
        _call_with_gguf_file,
        _call_with_gguf_file,
        _call_with_chat,
        _call_with_checkpoints,
        _call_with_quiz,
        _call_with_lines,
    ),
)
