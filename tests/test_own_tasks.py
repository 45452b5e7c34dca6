"""Tasks of one's own: lines, and a Task in Python; files that are no task are refused."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.grammar_files import GRAMMAR_KEYS, READING_KEYS, SENTENCES_KEYS
from attnviz.learning.line_tasks import MAX_LINE_TOKENS, readings_in
from attnviz.learning.lookup import requested_task, task_of
from attnviz.learning.task import NO_TOKEN, Task
from attnviz.learning.task_names import LINE_PIECES
from attnviz.learning.training import learn
from tests.conftest import ROOT, Attnviz
from tests.refusals import refusal_lines


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["learn mine.py", "compare --by norm --learn ./mine.py"])
def test_a_python_file_is_refused_and_not_run(command: str, attnviz: Attnviz) -> None:
    Path("mine.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")

    assert refusal_lines(attnviz(*command.split())) == (
        "'mine.py' is a Python file, and Python files are not run",
        "in Python, attnviz.learn(Task(…)) trains on a task of your own (docs/learning.md); or "
        "write a grammar, such as mine.toml, or lines: attnviz learn --file lines.txt",
    )
    assert not Path("ran").exists()


def test_in_python_a_python_file_is_refused_too() -> None:
    Path("mine.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")

    with pytest.raises(AttnvizError, match=r"'mine\.py' is a Python file"):
        learn("mine.py")

    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no.py", "'no.py' is a Python file, and Python files are not run"),
        ("no.toml", "there is no file 'no.toml' to learn from"),
        ("./beside.txt", "'beside.txt' is not a task: its name does not end in .toml"),
        ("agrement", "there is no task 'agrement'"),
    ],
)
def test_a_file_that_is_no_task_is_refused(name: str, problem: str) -> None:
    Path("beside.txt").write_text("a\n", encoding="utf-8")

    with pytest.raises(AttnvizError, match=problem):
        task_of(name)


SENTENCES = [f"the {animal} saw a {thing} ." for animal in ("cat", "dog", "owl", "fox", "ant")
             for thing in ("box", "cup", "jar", "mat")]  # fmt: skip


def task_of_lines(text: str, tokenizer: str = "words") -> Task:
    Path("lines.txt").write_text(text, encoding="utf-8")
    return requested_task({"file": "lines.txt", "tokenizer": tokenizer})


def drawn_lines(task: Task, *, held_out: bool) -> set[str]:
    """The lines that a task draws, rebuilt from their ids and answers."""
    examples = task.draw(1, 200, held_out)
    words, answers = task.vocabulary.words, task.vocabulary.answers
    return {
        " ".join([words[ids[0]], *(answers[each] for each in answer_ids if each != NO_TOKEN)])
        for ids, answer_ids in zip(examples.ids.tolist(), examples.answers.tolist(), strict=True)
    }


def test_of_lines_one_in_ten_is_held_out_and_none_is_in_both() -> None:
    task = task_of_lines("\n\n".join(SENTENCES))
    training_lines, held_out_lines = (
        drawn_lines(task, held_out=False),
        drawn_lines(task, held_out=True),
    )

    assert held_out_lines == {f"{SENTENCES[9]} ↵", f"{SENTENCES[19]} ↵"}
    assert training_lines == {f"{each} ↵" for each in SENTENCES} - held_out_lines


@pytest.mark.slow_table("training", keep=1)
@pytest.mark.parametrize("tokenizer", LINE_PIECES)
def test_lines_are_learned_by_whatever_they_are_cut_into(tokenizer: str) -> None:
    task = task_of_lines("\n".join(SENTENCES), tokenizer)
    training = learn(task, choices=Choices(steps=8, until=math.inf))

    assert task.vocabulary.cut(SENTENCES[0]).text == SENTENCES[0]
    assert task.answer_noun == LINE_PIECES[tokenizer]
    assert training.moments[-1].loss < training.moments[0].loss


def test_what_ends_a_line_is_never_one_of_its_tokens() -> None:
    assert task_of_lines("a ↵\nb ↵").vocabulary.answers[-1] == "⏎"


def test_a_line_that_comes_twice_is_learned_from_or_held_out() -> None:
    task = task_of_lines("a b\nc d\na b\nc d")

    assert (drawn_lines(task, held_out=False), drawn_lines(task, held_out=True)) == (
        {"a b ↵"},
        {"c d ↵"},
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_readings_of_any_text_are_what_they_are_called(ids: list[int]) -> None:
    readings = readings_in(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))

    for place, each in enumerate(ids):
        same = max((other for other in range(place) if ids[other] == each), default=NO_TOKEN)
        after_same = same + 1 if NO_TOKEN < same < place - 1 else NO_TOKEN
        keys_read = {name: int(row[0, place]) for name, row in readings.items()}
        assert keys_read == {
            "previous": place - 1,
            "first": 0 if place else NO_TOKEN,
            "same": same,
            "after same": after_same,
        }


def test_nothing_is_read_behind_the_end_of_a_line() -> None:
    is_token = torch.tensor([[True, True, False]])

    assert all(
        row[0, 2] == NO_TOKEN for row in readings_in(torch.tensor([[1, 1, 0]]), is_token).values()
    )


def test_what_seldom_can_be_read_is_not_measured() -> None:
    assert [each.name for each in task_of_lines("\n".join(SENTENCES)).readings] == [
        "previous",
        "first",
    ]


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("", "'lines.txt': there is nothing to learn from", "two different lines"),
        ("one\n\none\n", "'lines.txt': there is only one line to learn", "two different"),
        (
            f"a\n\n{'b ' * (MAX_LINE_TOKENS + 1)}",
            f"line 3 of 'lines.txt' has {MAX_LINE_TOKENS + 1} tokens, but there are only",
            "split it into shorter lines",
        ),
    ],
)
def test_lines_that_cannot_be_learned_from_are_refused(text: str, problem: str, hint: str) -> None:
    with pytest.raises(AttnvizError) as error:
        task_of_lines(text)

    assert problem in str(error.value)
    assert hint in error.value.hint


REFUSALS = {
    "--watch=a zebra": ("the model has never seen 'zebra'", "it knows: the cat"),
    "--tokenizer=wrds": ("there is no way to cut lines up 'wrds'", "did you mean 'words'?"),
    "reverse": ("--file and a task are both given: reverse", "leave one"),
}


@pytest.mark.parametrize("argument", REFUSALS)
def test_odd_calls_with_lines_are_refused_in_two_lines(argument: str, attnviz: Attnviz) -> None:
    Path("lines.txt").write_text("\n".join(SENTENCES), encoding="utf-8")

    problem, hint = refusal_lines(attnviz("learn", argument, "--file", "lines.txt"))

    assert problem.startswith(REFUSALS[argument][0])
    assert REFUSALS[argument][1] in hint


def test_lines_are_learned_saved_and_gone_on_with(attnviz: Attnviz) -> None:
    Path("lines.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    first_result = attnviz("learn", "--file", "lines.txt", "--steps", "3", "--save", "model", "-q")
    continued_result = attnviz("learn", "--from", "model", "--steps", "5", "-q")
    run_result = attnviz("run", "the cat saw", "--model", "model")

    assert (first_result.status, continued_result.status, run_result.status) == (0, 0, 0)
    assert "After 5 steps" in " ".join(continued_result.out.split())


def test_a_tokenizer_is_for_lines_alone(attnviz: Attnviz) -> None:
    result = attnviz("learn", "reverse", "-t", "words")

    assert result.err == (
        "error: --tokenizer splits lines of your own; a task has words of its own\n"
        " hint: leave it out, or give lines with --file\n"
    )


PAGE = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
(GRAMMAR,) = (
    code for code in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[[sentences]]" in code
)


@pytest.mark.slow("training")
def test_the_grammar_of_the_page_is_learned() -> None:
    Path("mine.toml").write_text(GRAMMAR, encoding="utf-8")
    moments = learn(task_of("mine.toml"), choices=Choices(steps=40, until=math.inf)).moments

    assert moments[-1].accuracy > moments[0].accuracy


@pytest.mark.slow("training")
def test_the_python_of_the_page_learns_its_task() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    moments = names["learned"].moments

    assert moments[-1].accuracy > moments[0].accuracy
    assert {path.name for path in Path().iterdir()} == {"first.gif", "first.html"}


def test_the_grammar_of_the_page_has_every_key() -> None:
    for key in (
        *GRAMMAR_KEYS,
        *SENTENCES_KEYS,
        *READING_KEYS,
        "steps",
        "until",
        "batch",
        "rate",
        "seconds",
    ):
        assert re.search(rf"(^|[{{\[, ]){key}(\]| = |\.)", GRAMMAR, re.MULTILINE), key
