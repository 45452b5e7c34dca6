"""Lesson files of `attnviz quiz`: each key does something, and each mistake is two lines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from attnviz.traces import toml_reader as toml
from attnviz.wings.quiz.lesson import ASK_KEYS, LESSON_KEYS, TEXT_KEYS, read_course
from tests.conftest import ROOT, Attnviz

TEXT = '[[texts]]\ntext = "I am learning this"\n'
TEXT_AND_QUESTION = f"{TEXT}[[texts.ask]]\n"


def lesson_of_docs() -> str:
    """The lesson that docs/lessons.md shows."""
    page = (ROOT / "docs" / "lessons.md").read_text("utf-8")
    lessons = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [lesson] = [code for code in lessons if "[[texts]]" in code]
    return str(lesson)


def test_the_lesson_of_the_docs_has_every_key_and_asks_what_it_says(attnviz: Attnviz) -> None:
    path = ROOT / "sample_texts" / "lesson.toml"
    lesson = toml.parse(lesson_of_docs(), "lesson.toml")
    asks = [ask for text in lesson["texts"] for ask in text.get("ask", [])]
    quiz = json.loads(attnviz("quiz", str(path), "--json").out)

    assert path.read_text("utf-8") == lesson_of_docs()
    assert set(lesson) == set(LESSON_KEYS)
    assert {key for text in lesson["texts"] for key in text} == set(TEXT_KEYS)
    assert {key for ask in asks for key in ask} == set(ASK_KEYS)
    questions = quiz["questions"]
    assert (quiz["title"], quiz["seed"], len(questions)) == ("Attention, week 3", 7, 6)
    assert [each["kind"] for each in questions][-3:] == ["token", "own", "head"]
    assert {each["kind"] for each in questions[:3]} == {"token", "weight"}
    assert {each["tokens"][each["token"] - 1] for each in questions[:3]} <= {
        "am",
        "learning",
        "this",
    }
    own_question, ablation_question = questions[3], questions[4]
    assert own_question["question"].startswith("The verb at ? needs its subject.")
    assert own_question["answers"][ord(own_question["right"]) - ord("a")] == "keys"
    assert own_question["reason"].startswith("Only the subject tells")
    assert (
        ablation_question["answers"][ord(ablation_question["right"]) - ord("a")]
        == "the verb would be guessed"
    )


def test_a_seed_and_a_count_typed_replace_those_of_the_lesson(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(lesson_of_docs(), "utf-8")
    quiz = json.loads(attnviz("quiz", str(path), "--seed", "5", "-n", "2", "--json").out)
    quiz_of_weights = json.loads(attnviz("quiz", str(path), "--kind", "weight", "--json").out)

    assert (quiz["seed"], len(quiz["questions"])) == (5, 2)
    assert {each["kind"] for each in quiz_of_weights["questions"]} == {"weight"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "line 1 of 'lesson.toml': there is no 'texts'"),
        ("title = 3\n" + TEXT, "line 1 of 'lesson.toml': 'title' is not text in quotes"),
        (TEXT + 'kind = "token"\n', "line 3 of 'lesson.toml': there is no key 'kind'"),
        (TEXT + 'kinds = ["tokn"]\n', "line 3 of 'lesson.toml': there is no kind of question"),
        (TEXT + 'heads = ["L3H0"]\n', "line 3 of 'lesson.toml': there is no head 'L3H0'"),
        (TEXT + 'queries = ["you"]\n', "line 3 of 'lesson.toml': no token of the sentence is"),
        (TEXT + "settings = { dimm = 2 }\n", "line 3 of 'lesson.toml': there is no setting"),
        (TEXT + "settings = { dim = 0 }\n", "line 3 of 'lesson.toml': dim is 0"),
        (TEXT + 'model = "toyy"\n', "line 3 of 'lesson.toml': the model 'toyy' is named in a"),
        ("questions = 0\n" + TEXT, "line 1 of 'lesson.toml': 'questions' is not a whole number"),
        (
            TEXT_AND_QUESTION,
            "line 3 of 'lesson.toml': this question has neither 'kind' nor 'question'",
        ),
        (
            TEXT_AND_QUESTION + 'kind = "token"\nright = "a"\n',
            "line 5 of 'lesson.toml': 'right' has no meaning",
        ),
        (
            TEXT_AND_QUESTION + 'question = "?"\nanswers = ["a", "b"]\nright = "c"\n',
            "line 6 of 'lesson.toml': 'right' is none of the answers",
        ),
        (
            TEXT_AND_QUESTION + 'question = "?"\nanswers = ["a"]\nright = "a"\n',
            "line 5 of 'lesson.toml': 'answers' has 1 answer",
        ),
        (
            TEXT_AND_QUESTION + 'kind = "mask"\n',
            "line 3 of 'lesson.toml': no 'mask' question about this text",
        ),
    ],
)
def test_mistakes_in_a_lesson_are_two_lines_with_the_line_of_the_file(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lesson.toml").write_text(content, "utf-8")
    result = attnviz("quiz", "lesson.toml")

    assert (result.status, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert error.startswith(f"error: {problem}")
    assert hint.startswith(" hint: ")


def test_options_that_a_lesson_decides_are_refused(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(TEXT, "utf-8")

    assert attnviz("quiz", str(path), "--dim", "4").err.splitlines() == [
        "error: the lesson says how its texts are traced, and --dim does, too",
        " hint: leave --dim out, or write it below [texts.settings]",
    ]


def test_the_course_is_a_lesson_as_any_other() -> None:
    course = read_course()

    assert course.questions == len(course.texts) == 10
    assert [text.settings.model for text in course.texts][:4] == [None] * 4
