"""`attnviz run` as its user meets it: what it prints where, and with which exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from attnviz.cli import output
from attnviz.cli.app import COMMANDS
from tests import LONGEST
from tests.conftest import ROOT, Attnviz, Result
from tests.terminals import run_on_terminal
from tests.warm import restore_signals

COMMAND = [sys.executable, "-m", "attnviz"]


def test_a_sentence_is_shown_as_tables(attnviz: Attnviz) -> None:
    result = attnviz("run", "I am learning this")

    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(
        "Each token divides its attention among all 4 tokens: every row sums to 1\n"
        "scaled attention · 4 tokens"
    )
    assert "3 learning" in result.out
    assert "context vectors" in result.out


def test_a_pipe_gets_what_a_terminal_of_80_columns_shows(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", " ".join(["word"] * 60), "--show", "weights,context", "--dim", "32"]
    result = attnviz(*words)

    assert "\x1b" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "80")
    assert attnviz(*words).out == result.out


def test_with_full_a_pipe_gets_every_number(attnviz: Attnviz) -> None:
    result = attnviz("run", " ".join(["word"] * 60), "--show", "weights", "--full")

    assert max(map(len, result.out.splitlines())) > 400
    assert re.search(r"^60 word( +0\.\d{4}){60}$", result.out, re.MULTILINE)


@pytest.mark.slow_table("processes", keep=3)
@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("tokens", [1, 8, 16, 24, 40, 80, 200])
def test_no_line_is_wider_than_columns(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, columns: int, tokens: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = " ".join(["pneumonia", "日本語", "a"][place % 3] for place in range(tokens))

    for options in ([], ["--full"], ["--query", "1"], ["--show", "scores,queries", "--dim", "24"]):
        result = attnviz("run", text, "-t", "words", "-v", "multi-head", *options)
        assert max(map(cell_len, result.out.splitlines())) <= columns


def test_force_color_colours_a_pipe_and_no_color_wins(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[38;5;" in attnviz("run", "I am").out

    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;5;" not in attnviz("run", "I am").out


def test_json_is_all_there_is_on_standard_output(attnviz: Attnviz) -> None:
    result = attnviz("run", "I am learning this", "--variant", "multi-head", "--json", "--verify")
    document = json.loads(result.out)

    assert document["attnviz"]["command"] == (
        "attnviz run 'I am learning this' --variant multi-head --verify --json"
    )
    assert "rows sum to 1" in result.err


def test_every_kind_of_file_is_written_and_named(attnviz: Attnviz, samples: Path) -> None:
    (samples / "deep").mkdir()
    names = ["deep/a.png", "a.svg", "a.pdf", "a.txt", "a.json", "a.npz", "a.csv"]
    result = attnviz("run", "I am", *(word for name in names for word in ("-o", name)))

    assert (result.status, result.out) == (0, "")
    assert result.err.splitlines() == [f"wrote {name}" for name in names]
    assert all((samples / name).stat().st_size > 100 for name in names)


def test_characters_without_a_font_are_noted_once(
    attnviz: Attnviz, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnviz.renderers.picture import glyphs

    monkeypatch.setattr(glyphs, "_font_file", lambda character: None if character == "ⵣ" else "")

    result = attnviz("run", "ⵣ", "-t", "chars", "-o", "a.png", "-o", "a.svg")

    note = "note: no installed font has ⵣ: drawn as code points"
    assert result.err.splitlines() == [note, "wrote a.png", "wrote a.svg"]


@pytest.mark.slow("formats")
def test_the_same_command_writes_the_same_bytes(attnviz: Attnviz, samples: Path) -> None:
    for folder in ("one", "other"):
        (samples / folder).mkdir()
    for suffix in ("png", "svg", "pdf", "txt", "json", "npz", "csv"):
        contents = []
        for folder in ("one", "other"):
            attnviz("run", "I am", "-o", str(samples / folder / f"a.{suffix}"))
            contents.append((samples / folder / f"a.{suffix}").read_bytes())
        assert contents[0] == contents[1]


def test_artefacts_say_what_made_them_and_nothing_of_the_machine(
    attnviz: Attnviz, samples: Path
) -> None:
    (samples / "text.txt").write_text("I am\n")
    for name in ("a.png", "a.svg", "a.pdf", "a.json", "a.npz"):
        attnviz("run", "--file", str(samples / "text.txt"), "-o", str(samples / name))
        content = (samples / name).read_bytes()
        assert str(samples).encode() not in content
        assert os.fsencode(Path.home().name) not in content or Path.home().name == "root"

    with Image.open(samples / "a.png") as picture:
        record = json.loads(picture.info["attnviz"])
    assert record["command"] == "attnviz run --file text.txt --out a.png"
    assert record["settings"]["variant"] == "scaled"
    assert record["seed"] == 42


def test_quiet_writes_files_without_a_word(attnviz: Attnviz, samples: Path) -> None:
    result = attnviz("run", "I am", "-o", "a.png", "-q")

    assert (result.out, result.err) == ("", "")


def test_text_comes_from_standard_input_and_from_a_file(attnviz: Attnviz, samples: Path) -> None:
    (samples / "text.txt").write_bytes("\ufeffI am\r\n".encode())

    result = attnviz("run", stdin=b"I am\n")
    assert result == attnviz("run", "-", stdin=b"I am")
    assert result == attnviz("run", "I am")
    assert result == attnviz("run", "--file", "text.txt")


def test_a_query_is_shown_as_a_sentence(attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = attnviz("run", "I am learning this", "--query", "learning")

    assert 'what "learning" reads' in result.out
    assert re.search(r"^1 I        \.32 █+", result.out, re.MULTILINE)


def test_a_query_with_parts_to_show_shows_what_is_its_own(attnviz: Attnviz) -> None:
    arguments = [
        "run",
        "I am learning this",
        "--query",
        "learning",
        "--show",
        "scores,queries,weights",
    ]
    query_output, full_output = (
        attnviz(*arguments).out,
        attnviz(*arguments[:2], "--show", "scores,weights").out,
    )

    rows = re.findall(r"^\d \w+ .*\.\d\d$", query_output, re.MULTILINE)
    assert [row.split()[1] for row in rows] == ["learning"] * 3
    assert rows[1] in full_output


def test_a_query_is_shown_with_all_that_it_reads(attnviz: Attnviz) -> None:
    arguments = ["run", "I am learning this", "--show", "queries,keys,values"]
    query_output, full_output = attnviz(*arguments, "--query", "am").out, attnviz(*arguments).out
    tables = {text.split("\n")[0]: text for text in query_output.split("\n\n")}

    assert [line.split()[1] for line in tables["queries"].split("\n")[2:]] == ["am"]
    for name in ("keys", "values"):
        assert tables[name].strip() in full_output
        assert len(tables[name].strip().split("\n")) == 6
    assert (
        'every row of keys and values is shown; of the rest, only the row of "am"' in query_output
    )
    assert "every row of" not in full_output


def test_heads_of_one_part_are_written_in_one_way(attnviz: Attnviz, samples: Path) -> None:
    arguments = ["run", "I am learning this", "-v", "multi-head", "--query", "learning"]

    for options in ([], ["-o", "a.md"]):
        result = attnviz(*arguments, "--show", "masked", *options)
        out = (samples / "a.md").read_text("utf-8") if options else result.out
        assert "-0.07" in out
        assert "e-02" not in out


def test_a_query_has_no_row_among_those_of_a_second_text(attnviz: Attnviz, samples: Path) -> None:
    Path("lesson.toml").write_text(
        'tokens = ["a"]\nkey_tokens = ["b", "c"]\n'
        "queries = [[1, 2]]\nkeys = [[1, 2], [3, 4]]\nvalues = [[1, 2], [3, 4]]\n"
    )
    arguments = ["run", "--given", "lesson.toml", "--query", "a", "--show"]

    assert "1 a" in attnviz(*arguments, "scores").out
    keys = attnviz(*arguments, "keys").out
    assert "1 b" in keys
    assert "2 c" in keys
    assert "every row of keys is shown\n" in keys
    output = attnviz(*arguments, "embeddings,keys,weights").out
    shown_parts = [name for name in ("embeddings", "keys") if f"\n{name}\n" in output]
    assert (
        f"every row of {' and '.join(shown_parts)} is shown; of the rest, only the row of" in output
    )
    assert (
        "cannot show outputs: only a transformer block has outputs"
        in attnviz(*arguments, "outputs").err
    )


def test_the_checks_are_printed(attnviz: Attnviz) -> None:
    result = attnviz("run", "I am", "--verify", "--dropout", "0.5")

    assert re.findall(r"^(.) (.*):", result.out, re.MULTILINE) == [
        ("✓", "rows sum to 1, before dropout"),
        ("✓", "hidden weights are 0, before dropout"),
        ("✓", "torch's own attention agrees, before dropout"),
        ("✓", "dropout sets weights to 0 or scales them up"),
        ("✓", "context vectors are computed from the weights after dropout"),
    ]


def test_a_failed_check_is_a_bug_and_exits_1(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnviz.analysis import checks

    monkeypatch.setattr(checks, "_torch_difference", lambda layer: layer.values + 1)

    result = attnviz("run", "I am", "--verify")

    assert result.status == 1
    assert "✗ torch's own attention agrees" in result.out


def test_help_is_grouped_and_says_everything(attnviz: Attnviz) -> None:
    result = attnviz("run", "--help-all")

    assert result.status == 0
    for heading in ("Text:", "Attention:", "Numbers:", "Output:", "Looks:"):
        assert f"\n{heading}\n" in result.out
    assert re.search(r"--window N +Let a token see only the N nearest", result.out)


def test_the_commands_are_listed_with_what_their_own_help_begins_with(attnviz: Attnviz) -> None:
    command_list = attnviz("--help").out
    assert command_list == attnviz().out
    for name, (_, about) in COMMANDS.items():
        assert f" {name} {about} " in " ".join(command_list.split())
        assert f"\n  {about}\n" in attnviz(name, "--help").out


def test_an_unknown_command_is_refused_with_the_nearest(attnviz: Attnviz) -> None:
    result = attnviz("runn", "I am")

    assert result.status == 2
    assert result.err.startswith("error: there is no command 'runn'\n hint: did you mean 'run'? ")


def test_the_version_is_printed(attnviz: Attnviz) -> None:
    assert re.fullmatch(r"attnviz \d+\.\d+\.\d+\n", attnviz("--version").out)


@pytest.mark.slow("formats")
def test_a_story_goes_into_every_format(attnviz: Attnviz, samples: Path) -> None:
    names = ["a.png", "a.svg", "a.pdf", "a.npz"]
    result = attnviz(
        "run",
        "--file",
        "sample_texts/story.txt",
        *(word for name in names for word in ("-o", name)),
    )

    assert result.status == 0
    with np.load(samples / "a.npz") as arrays:
        assert arrays["layers.0.weights"].shape[1] > 2000


def test_no_token_puts_an_escape_sequence_on_the_terminal(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_text = "\x1b]0;title\x07 \x1b[2J [bold]x[/bold] \u202e \x9b31m"
    assert "\x1b" not in attnviz("run", hostile_text).out
    for options in (["--query"], ["-v"], ["-o"], ["--embeddings"], []):
        result = attnviz("run", hostile_text, *options, hostile_text)
        assert result.status == 2
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.err)


@pytest.mark.slow("processes")
def test_a_closed_pipe_ends_quietly() -> None:
    line = f"'{sys.executable}' -m attnviz run --file {ROOT}/sample_texts/paragraph.txt | head -1"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )

    assert process.stdout == (
        "Each token divides its attention among all 294 tokens: every row sums to 1\n"
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow("processes")
def test_a_full_disk_gets_two_lines() -> None:
    line = f"'{sys.executable}' -m attnviz run 'I am' > /dev/full"
    process = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=LONGEST
    )

    assert process.returncode == 2
    assert process.stderr == (
        "error: the output cannot be written: No space left on device\n"
        " hint: write it somewhere else\n"
    )


@pytest.mark.slow("processes")
def test_a_closed_standard_output_is_no_bug() -> None:
    line = f"'{sys.executable}' -m attnviz run 'I am' >&-"
    process = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=LONGEST
    )

    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow("processes")
def test_json_is_utf8_on_any_terminal() -> None:
    process = subprocess.run(
        [*COMMAND, "run", "café", "--json"], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, timeout=LONGEST,
    )  # fmt: skip

    assert json.loads(process.stdout)["text"] == "café"


@pytest.mark.slow("processes")
def test_a_run_that_is_stopped_leaves_nothing_half_written(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--file", f"{ROOT}/sample_texts/story.txt", "-o", "a.csv"], cwd=tmp_path
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=LONGEST) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--query", "2"], "attnviz run 'I am' --query 2"),
        (["--title", "/etc/My title"], "attnviz run 'I am' --title '/etc/My title'"),
        (["--no-causal", "-H", "2"], "attnviz run 'I am' --heads 2 --no-causal"),
    ],
)
def test_the_command_that_made_it_can_be_run_again(
    attnviz: Attnviz, arguments: list[str], command: str
) -> None:
    document = json.loads(attnviz("run", "I am", *arguments, "--json").out)

    words = document["attnviz"]["command"].replace(" --json", "")
    assert words == command


def test_a_text_that_looks_like_an_option_is_recorded_as_a_text(attnviz: Attnviz) -> None:
    document = json.loads(attnviz("run", "--json", "--", "-5 is cold").out)

    assert document["attnviz"]["command"] == "attnviz run --json -- '-5 is cold'"


def test_an_interrupt_that_python_raises_is_as_quiet(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "deliver_view", interrupt)

    assert attnviz("run", "I am", "-t", "words") == Result(130, "", "")


def test_an_interrupt_is_quiet_and_exits_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--tokenizer", "words"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=tmp_path,
        preexec_fn=restore_signals,
    )  # fmt: skip
    time.sleep(1.5)  # it waits for its text now
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONGEST)

    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("background", "cell"), [("15;0", "48;2;22;30;78"), ("0;15", "48;2;232;251;250")]
)
def test_on_a_terminal_cells_are_coloured_to_its_background(background: str, cell: str) -> None:
    """A weight of 0 is near the paper, which is dark on most terminals."""
    screen = screen_of_command(
        "run", "a b", "-t", "words", "--temperature", "0.001", COLORFGBG=background
    )

    assert cell in screen
    assert "error" not in screen


@pytest.mark.terminal
def test_without_a_text_on_a_terminal_nothing_waits() -> None:
    assert "there is no text" in screen_of_command("run", NO_COLOR="1")


def screen_of_command(*arguments: str, **environment: str) -> str:
    """The screen of a command on a pseudo-terminal of 80 columns with 24-bit colour."""
    screen, _ = run_on_terminal([*COMMAND, *arguments], environment)
    return screen
