"""`attnviz quiz`: every right answer is right, by torch's own attention, and no other one is."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

import attnviz as library
from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.wings.quiz.attention_row import AttentionRow, build_search
from attnviz.wings.quiz.lesson import (
    QUESTION_KINDS,
    Lesson,
    LessonText,
    read_course,
    read_lesson,
)
from attnviz.wings.quiz.questions import EXPLANATIONS, FINDERS, Question
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.sheet import PaperPart, _even_pages
from attnviz.wings.quiz.view import view
from attnviz.wings.quiz.words import WORDS, build_exercise
from tests import not_none
from tests.conftest import Attnviz
from tests.tiers import examples

WORD_LIST = ("I", "am", "learning", "this", "old", "keys", "it", "The", "the", "cat", "sat", ".")
MODEL_TEXTS = {
    "agreement": "the old keys near the small cabinet",
    "pronouns": "Tom slept near Ben and Anna waited behind Kate . he",
    "toy": "the animal did not cross the street because it was tired",
    "induction": "maplemaple",
    "minilm": "The animal slept because it was tired.",
    "smollm2": "The animal slept because it was tired",
}
random_texts = st.lists(st.sampled_from(WORD_LIST), min_size=2, max_size=9).map(" ".join)
random_settings = st.builds(
    Settings,
    seed=st.integers(0, 10**6),
    dim=st.sampled_from([2, 4, 8, 16]),
    variant=st.sampled_from(["scaled", "causal", "multi-head", "plain"]),
    window=st.sampled_from([None, None, 2, 3]),
    tokenizer=st.just("words"),
)
trace_of_model = cache(lambda name: trace(MODEL_TEXTS[name], model=name))


def questions_of(text_trace: Trace, heads: tuple[str, ...] = ()) -> list[Question]:
    """Every question that a quiz can ask about a Trace, or about some of its heads."""
    return [
        question
        for kind in FINDERS
        for question in FINDERS[kind](build_search(text_trace, heads, None, kind))
    ]


def weights_by_torch(row: AttentionRow, *, scale: float | None = None) -> np.ndarray:
    """The row's weights, as torch's own attention mixes the rows of a unit matrix."""
    layer = row.layer
    queries, keys = layer.queries, layer.keys_of_heads
    assert keys is not None
    visible = (
        layer.visible if layer.visible.ndim == 2 else layer.visible[row.head % len(layer.visible)]
    )
    ones = torch.eye(keys.shape[-2], dtype=torch.float64)[None, None]
    outputs = scaled_dot_product_attention(
        not_none(queries)[row.head].double()[None, None],
        keys[row.head].double()[None, None],
        ones,
        attn_mask=visible[None, None],
        scale=layer.scale if scale is None else scale,
    )
    return np.asarray(outputs[0, 0, row.query])


def assert_right_answer(question: Question) -> None:
    """Recompute the answer of a question."""
    row = not_none(question.row)
    weights = weights_by_torch(row)
    hidden_keys = [key for key in range(len(weights)) if not row.visible[key]]
    labels = [row.keys.labels[key].casefold() for key in range(len(weights))]
    for key in question.keys:
        assert labels.count(labels[key]) == 1, "an answer is there twice"
        assert key not in row.keys.special
    if question.kind == "token":
        right_key = question.keys[question.answer]
        other_weights = np.delete(weights, right_key)
        assert weights[right_key] >= other_weights.max() + 0.099
        assert weights[right_key] >= 1.499 * other_weights.max()
        assert not set(question.keys) & set(hidden_keys)
        assert len(question.keys) == 4
    elif question.kind == "weight":
        assert question.key is not None
        assert abs(question.numbers[question.answer] - weights[question.key]) < 1e-4
        assert np.diff(sorted(question.numbers)).min() >= 0.0499
        assert len({f"{number:.2f}" for number in question.numbers}) == 4
        assert row.visible[question.key]
    elif question.kind == "scaled":
        scaled_weights = weights_by_torch(row, scale=row.layer.head_dim**-0.5)
        unscaled_weights = weights_by_torch(row, scale=1.0)
        sharp_row, flat_row = question.rows[question.answer], question.rows[1 - question.answer]
        assert np.allclose(sharp_row, unscaled_weights, atol=1e-4)
        assert np.allclose(flat_row, scaled_weights, atol=1e-4)
        assert sharp_row.max() > flat_row.max() + 0.119
    elif question.kind == "mask":
        assert set(question.keys) & set(hidden_keys) == {question.keys[question.answer]}
        assert weights[question.keys[question.answer]] == 0
    elif question.kind == "visible":
        assert (
            question.numbers[question.answer]
            == (weights > 0).sum()
            == len(weights) - len(hidden_keys)
        )
        assert len(set(question.numbers)) == 4


@given(random_texts, random_settings)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_answers_about_random_vectors_are_those_of_torch(
    text: str, chosen_settings: Settings
) -> None:
    questions = [each for each in questions_of(trace(text, chosen_settings)) if each.kind != "head"]
    assume(questions)
    for question in questions:
        assert_right_answer(question)


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("name", ["agreement", "pronouns", "toy", "minilm", "smollm2"])
def test_answers_about_models_are_those_of_torch(name: str) -> None:
    heads = tuple(f"L{layer}H{head}" for layer in (0, 2, 5) for head in range(5))
    questions = questions_of(trace_of_model(name), heads if name in ("minilm", "smollm2") else ())
    row_questions = [each for each in questions if each.row is not None and not each.row.layer.off]
    kinds = Counter(each.kind for each in row_questions)

    assert kinds["token"] >= 2
    for question in row_questions:
        # the formula has neither the toy's masks of heads nor what it adds to scores
        if question.kind != "head" and name != "toy":
            assert_right_answer(question)


@pytest.mark.parametrize("name", ["induction", "minilm"])
def test_of_two_heads_the_right_one_shows_the_pattern_and_the_other_does_not(name: str) -> None:
    text_trace = trace_of_model(name)
    questions = [each for each in questions_of(text_trace) if each.kind == "head" and each.pattern]

    assert questions
    for question in questions:
        maps = [trace_weights(text_trace, row) for row in question.heads]
        if not_none(question.pattern).name == "previous token":
            shares = [float(np.mean(np.diagonal(each, -1)[1:])) for each in maps]
            assert shares[question.answer] > shares[1 - question.answer] + 0.3
        right_score, other_score = (
            question.scores[question.answer],
            question.scores[1 - question.answer],
        )
        assert right_score >= max(0.5, other_score + 0.35)
        assert other_score < 0.5


def trace_weights(text_trace: Trace, row: AttentionRow) -> np.ndarray:
    return np.asarray(row.layer.weights[row.head])


def test_a_head_whose_role_was_measured_is_asked_for_where_it_shows() -> None:
    questions = [each for each in questions_of(trace_of_model("agreement")) if each.kind == "head"]
    role_questions = [each for each in questions if each.pattern is None]

    assert role_questions
    for question in role_questions:
        right_row, other_row = question.heads[question.answer], question.heads[1 - question.answer]
        assert right_row.keys.labels[right_row.best] == "keys"  # the subject
        assert right_row.weights[right_row.best] >= 0.6
        assert other_row.weights[right_row.best] <= 0.25


def test_no_question_is_asked_of_what_is_nearly_even_tied_or_there_twice() -> None:
    even_trace = trace("a b c d e", variant="average", tokenizer="words")
    repeated_trace = trace("the The the THE", dim=2, tokenizer="words")

    assert [
        each.kind for each in questions_of(even_trace) if each.kind in ("token", "weight")
    ] == []
    assert questions_of(repeated_trace) == []


def test_roles_are_not_asked_for_if_settings_change_what_heads_do() -> None:
    changed_trace = trace(MODEL_TEXTS["agreement"], model="agreement", temperature=3.0)

    assert [
        each for each in questions_of(changed_trace) if each.kind == "head" and not each.pattern
    ] == []


@given(random_texts, random_settings)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_every_question_has_words_with_distinct_answers_and_true_numbers(
    text: str, chosen_settings: Settings
) -> None:
    for number, question in enumerate(questions_of(trace(text, chosen_settings)), 1):
        exercise = build_exercise(question, number)
        assert len(set(exercise.options)) == len(exercise.options) == question.count
        assert exercise.question.title.endswith("?")
        assert exercise.solution.about
        assert_true_reason(question, exercise.solution.about)
        assert all(each.exact or "≈" in each.text for each in exercise.solution.sums)


def assert_true_reason(question: Question, reason: str) -> None:
    """Compare the numbers in the reason for an answer with the weights."""
    row = not_none(question.row)
    if question.kind == "token":
        first, second = np.sort(row.weights)[::-1][:2]
        shares = [float(each) for each in re.findall(r"([\d.]+)\xa0%", reason)]
        assert [abs(shares[0] - 100 * first) <= 1.001, abs(shares[1] - 100 * second) <= 1.001] == [
            True,
            True,
        ]
    elif question.kind == "weight":
        assert reason.endswith(f"a weight of {row.weights[question.key]:.2f}.")
    elif question.kind == "scaled":
        largest = [f"{rows.max():.2f}" for rows in question.rows]
        right, other = question.answer, 1 - question.answer
        assert reason.endswith(
            f"the largest weight is {largest[right]} in {'AB'[right]}, and {largest[other]} in "
            f"{'AB'[other]}."
        )


def test_each_kind_has_a_finder_and_words() -> None:
    assert {*QUESTION_KINDS} == {*FINDERS} == {*EXPLANATIONS} == {*WORDS}


def test_the_course_goes_from_arithmetic_to_models_and_each_seed_has_one_of_its_own() -> None:
    course = read_course()
    quizzes = [build_quiz(course.with_seed(seed)) for seed in (42, 42, 7)]
    documents = [json.loads(view(quiz, answers=True).render(".json")) for quiz in quizzes]

    kinds = [each["kind"] for each in documents[0]["questions"]]
    assert kinds == ["row", "token", "weight", "scaled", "temperature", "mask", "value", "order",
                     "head", "ablation"]  # fmt: skip
    sentences = [[each["sentence"] for each in document["questions"]] for document in documents]
    assert all(len({*each}) == 10 for each in sentences)
    assert len({*sentences[0]} & {*sentences[2]}) <= 3
    assert documents[0]["questions"] == documents[1]["questions"] != documents[2]["questions"]


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_there_are_as_many_questions_as_asked_for_and_no_two_are_the_same(count: int) -> None:
    text = LessonText("the quick brown fox sees a lazy dog", Settings(heads=4, dim=16))
    quiz = build_quiz(Lesson((text,), questions=count))
    exercises = [build_exercise(each, 1) for each in quiz.questions]

    assert len(quiz.questions) == count
    pairs = {(each.question.title, each.question.about, each.options) for each in exercises}
    assert len(pairs) == count


def test_long_texts_and_texts_without_a_clear_answer_are_refused() -> None:
    for text, problem in (("a " * 33, "33 tokens"), ("I", "no question")):
        with pytest.raises(AttnvizError, match=problem):
            build_quiz(Lesson((LessonText(text.strip(), Settings(tokenizer="words")),)))


def test_in_a_pipe_the_questions_are_printed_and_with_answers_the_solutions(
    attnviz: Attnviz,
) -> None:
    result, with_answers = attnviz("quiz"), attnviz("quiz", "--answers")

    assert (result.status, result.err, with_answers.status) == (0, "", 0)
    assert result.out.startswith("How attention works, in questions\n10 questions · model ")
    assert re.search(r'\n2 Which token does "\w+" attend to most\?', result.out)
    assert "\\u00a0" not in result.out + with_answers.out
    assert re.search(r"\nAnswers: 1 [a-d] · 2 [a-d] · ", with_answers.out)
    assert "Answer:" not in result.out
    assert with_answers.out.count("Answer: ") == 10
    assert re.search(r"weight\(\w+, \w+\) += exp\(-?[\d.]+\) / \(exp", with_answers.out)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--kind", "tokn"), "there is no kind of question 'tokn'"),
        (("--questions", "0"), "a quiz of 0 questions was asked for, and it can have 1 to 40"),
        (("I am", "-o", "quiz.png"), "there is no format for '.png'"),
        (("I am", "lesson.toml"), "'lesson.toml' is a lesson, and has texts of its own"),
        (("lesson.toml",), "there is no file 'lesson.toml'"),
        (("the the the",), "no question about this has a clear answer"),
        (("blorp", "--model", "toy"), "the model has never seen 'blorp'"),
    ],
)
def test_mistakes_are_two_lines(attnviz: Attnviz, words: tuple[str, ...], problem: str) -> None:
    result = attnviz("quiz", *words)

    assert (result.status, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert error.startswith(f"error: {problem}")
    assert hint.startswith(" hint: ")


def test_files_are_sheets_or_keys_by_their_names(attnviz: Attnviz, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("sheet.md", "key.md", "monkey.txt", "quiz.json")]
    result = attnviz("quiz", "-n", "2", *(word for path in paths for word in ("-o", str(path))))
    sheet, key, text, data = (path.read_text("utf-8") for path in paths)

    assert result.status == 0
    assert "Answer: " not in sheet + text
    rights = [each["right"] for each in json.loads(data)["questions"]]
    assert re.findall("Answer: ([a-d])", key) == rights
    assert attnviz("quiz", "-n", "1", "--answers", "-o", str(paths[0])).status == 0
    assert f"Answer: {rights[0]})" in paths[0].read_text("utf-8")


def test_every_written_file_says_whether_it_has_the_answers(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    names = ("answer-sheet.md", "keys-and-queries.md", "course-key2.md", "quiz.html")
    paths = [str(tmp_path / name) for name in names]
    messages = attnviz("quiz", "-n", "1", *(word for path in paths for word in ("-o", path))).err

    assert f"wrote {paths[0]} (questions only)\n" in messages
    assert f"wrote {paths[1]} (questions only)\n" in messages
    assert f"wrote {paths[2]} (with the answers)\n" in messages
    assert f"wrote {paths[3]}\n" in messages


LONG_TEXT = "the old keys near the small cabinet over there were lost and found"


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_numbers_and_words_of_a_question_are_there_in_a_narrow_terminal(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    options = ("-t", "words", "--heads", "2", "--dim", "16", "-n", "2", "--answers")
    output = attnviz("quiz", LONG_TEXT, *options).out
    questions_text = output[: output.index("Answer: a", output.index("\n2 "))]

    assert re.search(r"4 near +3\.12\b", questions_text)
    assert re.search(r"13 found +-3\.06\b", questions_text)
    assert "more tokens" not in questions_text
    assert "weight L0H0(and, near)" in output
    assert max(map(len, output.splitlines())) <= columns


def test_words_in_a_right_to_left_script_are_shown_without_codes() -> None:
    text_trace = trace("אני לומד את זה היום", tokenizer="words")
    quiz = build_quiz(Lesson((LessonText(text_trace.tokens.text, Settings(tokenizer="words")),)))
    sheet = view(quiz, answers=True)

    for suffix in (".html", ".md", ".txt"):
        assert "\\u200e" not in sheet.render(suffix).decode()
    assert "\\u200e" not in str(text_trace.view(query=3).headline)


def test_the_key_has_the_letters_for_marking_and_sheets_have_room_for_arithmetic() -> None:
    sheet = not_none(view(build_quiz(read_course()), answers=True).sheet)

    letters = ["abcd"[each.answer] for each in sheet.exercises]
    assert [*sheet.right_letters] == [f"{at} {letter}" for at, letter in enumerate(letters, 1)]
    working = [number for number, each in enumerate(sheet.exercises, 1) if each.needs_working]
    assert working == [2, 3, 5, 7]  # dot products, softmax, temperature, context vector
    assert all(each.context.startswith("Sentence: ") for each in sheet.exercises)


def test_a_last_page_with_one_question_gets_another_one_from_the_page_before() -> None:
    blocks = [[PaperPart(3.0, lambda top: iter(()))] for _ in range(4)]

    assert [len(page) for page in _even_pages(blocks, 10.0)] == [2, 2]
    assert [len(page) for page in _even_pages(blocks[:3], 10.0)] == [3]


def test_what_holds_for_all_questions_stands_once_in_the_header() -> None:
    settings = Settings(dim=4, seed=42)
    other = LessonText("she reads old books", Settings(dim=4, seed=7), kinds=("value",))
    weight = LessonText("I am learning this", settings, kinds=("weight",))
    texts = {name: view(build_quiz(Lesson(parts, questions=2))).render(".md").decode()
             for name, parts in (("seeds", (weight, other)), ("value", (other,)))}  # fmt: skip
    course = view(build_quiz(read_course())).render(".md").decode()

    for text in (course, texts["seeds"]):
        header = text[: text.index("## 1 ")]
        assert "Softmax: exp of each score, divided by their sum; a calculator helps" in header
        assert text.count("Random vectors") == 1 + text.count("seed 7")
        assert text.count("Softmax:") == 1
    assert "Random vectors where no model is named." in course
    assert "Random vectors. Softmax" in texts["seeds"]
    assert "Softmax" not in texts["value"]


def test_own_questions_in_lines_are_shown_on_one_and_are_about_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(
        '[[texts]]\ntext = "a b"\n[[texts.ask]]\nquestion = """What\n  now?"""\n'
        'answers = ["this", "that"]\nright = "that"\nreason = "So."\n'
    )
    quiz_view = view(build_quiz(read_lesson(path)))

    assert not_none(quiz_view.sheet).exercises[0].question.title == "What now?"
    assert quiz_view.settings == "1 question"
    assert quiz_view.screen.caveat == ""


def test_the_command_of_a_quiz_makes_it_again(attnviz: Attnviz) -> None:
    words = ("quiz", "I am learning this", "she reads", "--dim", "2", "-n", "3", "--json")
    document = json.loads(attnviz(*words).out)
    command = document["attnviz"]["command"]

    assert command == ("attnviz quiz 'I am learning this' 'she reads' --questions 3 --dim 2 --json")


CLEAR_BY_ROW = {  # rows of weights, each with whether its largest weight is clear
    (0.70, 0.10, 0.12, 0.08): True,
    (0.48, 0.47, 0.03, 0.02): False,  # nearly a tie
    (0.33, 0.25, 0.21, 0.21): False,  # nearly even
    (0.02, 0.02, 0.06, 0.90): True,
}


def test_a_token_question_is_asked_of_a_clear_row_alone() -> None:
    scores = np.log(np.array([*CLEAR_BY_ROW])).tolist()
    given_scores = parse_matrices({"tokens": ["a", "b", "c", "d"], "scores": scores})
    text_trace = library.trace(None, variant="plain", given=given_scores)
    search = build_search(text_trace, (), None, "1")
    queries = {each.row.query for each in FINDERS["token"](search) if each.row is not None}

    assert queries == {query for query, is_clear in enumerate(CLEAR_BY_ROW.values()) if is_clear}
