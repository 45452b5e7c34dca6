"""Which questions a quiz asks: none gives another away, and the places of answers tell nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace
from attnviz.traces.settings import Settings
from attnviz.wings.quiz.attention_row import attention_rows, build_search
from attnviz.wings.quiz.lesson import (
    Lesson,
    LessonText,
    OwnQuestion,
    read_course,
    read_lesson,
)
from attnviz.wings.quiz.questions import FINDERS, Question
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.words import build_exercise
from tests import not_none
from tests.conftest import Attnviz

FOX = "the quick brown fox sees a lazy dog"
TOM = "Tom slept near Ben and beside the car Anna waited . he"


CHI_SQUARE_LIMITS = {2: 10.83, 4: 16.27}  # by the number of answers: exceeded once in 1,000


def questions_of_kind(kind: str, count: int) -> list[Question]:
    """So many questions of a kind, of many seeds; about a sentence of another length each time."""
    questions = list[Question]()
    for seed in range(count):
        if kind in ("head", "ablation"):
            searched = model_trace("the old keys near the small cabinet" if seed % 2 else
                                   "the birds above the dark tree")  # fmt: skip
        else:
            words = FOX.split()[: 5 + seed % 4]
            causal = True if kind in ("mask", "visible") else None
            settings = Settings(seed=seed, causal=causal, dim=8)
            searched = trace(" ".join(words), replace(settings, tokenizer="words"))
        questions += FINDERS[kind](build_search(searched, (), None, f"{seed}"))
        if len(questions) >= count:
            return questions[:count]
    raise AssertionError(f"there are only {len(questions)} questions")


model_trace = cache(lambda text: trace(text, model="agreement"))


def chi_square(counts: Iterable[int]) -> float:
    """How far counts are from equal ones: the sum of squared differences, each over the mean."""
    numbers = np.array([*counts], dtype=float)
    return float(((numbers - numbers.mean()) ** 2 / numbers.mean()).sum())


@pytest.mark.parametrize("kind", FINDERS)
@pytest.mark.parametrize("count", [120, pytest.param(2000, marks=pytest.mark.slow("seeds"))])
def test_the_place_of_the_right_answer_tells_nothing(kind: str, count: int) -> None:
    questions = questions_of_kind(kind, count)
    answers = questions[0].count
    places = Counter(each.answer for each in questions)

    assert {each.count for each in questions} == {answers}
    assert chi_square(places[place] for place in range(answers)) < CHI_SQUARE_LIMITS[answers]


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.slow("seeds"))])
def test_the_right_weight_is_as_often_the_smallest_as_any_other(count: int) -> None:
    ranks = Counter(
        sorted(each.numbers).index(each.numbers[each.answer])
        for each in questions_of_kind("weight", count)
    )

    assert min(ranks[rank] for rank in range(4)) >= 0.15 * count
    assert max(ranks.values()) <= 0.35 * count


@pytest.mark.slow("seeds")
def test_the_questions_of_the_course_are_others_for_another_seed_and_never_twice_the_same() -> None:
    course, sentences = read_course(), [Counter[str]() for _ in range(10)]
    places = {2: Counter[int](), 4: Counter[int]()}  # by the number of answers
    own_keys = list[bool]()
    for seed in range(40):
        questions = build_quiz(course.with_seed(seed)).questions
        exercises = [build_exercise(each, 1) for each in questions]
        assert len({(each.question.title, each.context) for each in exercises}) == 10
        for at, question in enumerate(questions):
            sentences[at][not_none(question.row).trace.tokens.text] += 1
            places[question.count][question.answer] += 1
        row = not_none(questions[1].row)
        own_keys += [row.best == row.query] * (questions[1].kind == "token")

    assert sum(own_keys) < len(own_keys) / 2
    assert all(max(counts.values()) <= 0.4 * 40 for counts in sentences)
    for answers, limit in CHI_SQUARE_LIMITS.items():
        assert chi_square(places[answers][place] for place in range(answers)) < limit


def test_the_mistake_that_gives_a_wrong_number_is_named() -> None:
    row = not_none(next(FINDERS["weight"](build_search(trace(FOX, dim=4, tokenizer="words"),
                                                       (), None, "1"))).row)  # fmt: skip
    named = list[str]()
    for question in questions_of_kind("weight", 60):
        row = not_none(question.row)
        scores, key = not_none(row.scores), not_none(question.key)
        assert row.visible.all()  # so that the softmax is over all keys
        true = {
            "That is the share of the score itself, without exp.": max(scores[key], 0)
            / max(np.maximum(scores, 0).sum(), 1e-9),
            "That divides by √d_k once more: these scores are scaled.": row.softmax(
                scores / row.layer.head_dim**0.5)[key],
            "That is an even share: it ignores the scores.": 1 / row.visible.sum(),
            "That is what all other tokens get together.": 1 - row.weights[key],
            **{f'That is what "{label}" gets.': weight
               for label, weight in zip(row.keys.labels, row.weights, strict=True)},
        }  # fmt: skip
        assert question.replies[question.answer] == ""
        for number, reply in zip(question.numbers, question.replies, strict=True):
            if reply:
                assert number == pytest.approx(true[reply], abs=1e-6)
                named.append(reply.partition('"')[0])

    assert len({*named}) >= 4


def test_one_of_several_texts_is_drawn_and_they_have_no_questions_of_their_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text('[[texts]]\ntext = ["I am learning this", "she reads old books", "we sing"]\n')
    lesson = read_lesson(path)
    drawn_texts = {
        not_none(build_quiz(lesson.with_seed(seed)).questions[0].row).trace.tokens.text
        for seed in range(8)
    }
    path.write_text(f'{path.read_text()}[[texts.ask]]\nkind = "token"\n')

    assert {"I am learning this", "she reads old books"} <= drawn_texts
    with pytest.raises(AttnvizError, match="own questions are about one text, and 'text' gives"):
        read_lesson(path)


def test_a_text_that_may_be_drawn_is_refused_if_it_is_too_long(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(f'[[texts]]\ntext = ["I am learning this", "{"a " * 40}"]\n')

    result = attnviz("quiz", str(path))
    assert "and a quiz shows at most 32" in result.err
    assert result.err.startswith("error: line 2 of ")


@pytest.mark.parametrize(
    "settings",
    [
        Settings(causal=True),
        Settings(dim=2),
        Settings(heads=4, dim=16, causal=True),
        Settings(model="agreement"),
    ],
    ids=["causal", "plain", "heads", "agreement"],
)
def test_no_row_is_asked_about_twice_and_no_map_answers_a_later_question(
    settings: Settings,
) -> None:
    text = "the old keys near the small cabinet" if settings.model else FOX
    questions = build_quiz(Lesson((LessonText(text, settings),), questions=40)).questions
    assert len(questions) >= 5
    shown_rows = set[tuple[str, int]]()  # rows that a question or a solution has shown
    masked_queries = set[int]()  # queries whose hidden keys were shown
    for question in questions:
        row = not_none(question.row)
        heads = question.heads or (row,)
        if question.kind == "ablation":
            heads = (row, *attention_rows(row.trace, (), (row.query,)))
        shows_whole_map = bool(question.heads) or question.kind == "row"
        queries = range(len(row.trace.tokens)) if shows_whole_map else [row.query]
        if question.kind in ("mask", "visible"):
            assert row.query not in masked_queries
        else:
            assert not {(each.head_name, row.query) for each in heads} & shown_rows
        shown_rows |= {(each.head_name, query) for each in heads for query in queries}
        if not row.layer.visible.all():
            masked_queries |= set(queries)


@pytest.mark.parametrize(
    ("name", "text"),
    [("minilm", "The cat sat on the mat."), ("toy", "the animal did not cross the street")],
)
def test_what_decides_a_question_is_shown_with_it(name: str, text: str) -> None:
    text_trace = trace(text, model=name)
    questions = [*FINDERS["token"](build_search(text_trace, (), None, "1"))]
    assert questions
    for question in questions[:20]:
        row, exercise = question.row, build_exercise(question, 1)
        assert row is not None
        [grid] = exercise.question.grids
        numbers = np.asarray(grid.cells.row(0).values[0])
        if grid.title == "query":
            assert f"{row.head_name} was written so that {row.role}." in exercise.question.about
            products = np.asarray(row.layer.keys_of_heads[row.head]) @ numbers  # type: ignore[index]
            assert int(np.where(row.visible, products, -np.inf).argmax()) == row.best
        else:
            assert grid.title == "scores before the softmax"
            assert int(np.where(row.visible, numbers, -np.inf).argmax()) == row.best


@pytest.mark.parametrize("text", [TOM, "Anna waited near Kate and behind the tree Tom slept . she"])
def test_the_pronoun_is_asked_about_first_and_the_other_name_is_an_answer(text: str) -> None:
    lesson_text = LessonText(text, Settings(model="pronouns"), kinds=("token",))
    quiz = build_quiz(Lesson((lesson_text,)))
    exercise = build_exercise(quiz.questions[0], 1)

    assert (
        exercise.question.title == f'Which token does "{text.split()[-1]}" attend to most in L1H0?'
    )
    assert exercise.question.about.endswith("L1H0 reads what the pronoun stands for.")
    assert {text.split()[0], text.split()[3]} < set(exercise.options)


def test_a_pattern_is_asked_for_as_a_comparison() -> None:
    text_trace = trace("The cat sat on the mat.", model="minilm")
    question = next(FINDERS["head"](build_search(text_trace, (), None, "1")))

    assert "do tokens attend more to the " in build_exercise(question, 1).question.title


def test_no_question_is_asked_again_be_it_the_lessons_own_or_not() -> None:
    settings = Settings(model="agreement")
    own_question = OwnQuestion("token", head="L1H0", query="?")
    text = LessonText("the old keys near the cabinet", settings, own=(own_question,))
    questions = build_quiz(Lesson((text,), questions=20)).questions
    rows = [(each.kind, each.row.head_name, each.row.query) for each in questions if each.row]

    assert rows.count(("token", "L1H0", 6)) == 1
    with pytest.raises(AttnvizError, match="this question was asked before"):
        build_quiz(Lesson((LessonText(text.text, settings, own=(own_question, own_question)),)))


def test_own_questions_that_leave_the_choice_open_are_about_different_rows() -> None:
    own_question = OwnQuestion("weight")
    lesson = Lesson(
        (
            LessonText(
                "I am learning this",
                Settings(dim=4),
                own=(own_question, own_question, own_question),
            ),
        )
    )
    rows = [each.row.query for each in build_quiz(lesson).questions[:3] if each.row]

    assert len(set(rows)) == 3


def test_a_text_without_a_question_is_named_with_the_reason(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(
        '[[texts]]\ntext = "the the the"\nkinds = ["token"]\n[[texts]]\ntext = "we read books"\n',
        "utf-8",
    )
    result = attnviz("quiz", str(path))
    other_result = attnviz(
        "quiz", "aa bb", "--model", "induction", "--kind", "scaled,token", "-t", "words"
    )

    assert result.status == 0
    assert result.err.startswith('note: nothing is asked about "the the the" (line 2 of ')
    assert "no token can be asked about" in result.err
    assert "--heads" not in other_result.err


def test_a_part_of_a_letter_is_no_answer_and_is_not_asked_about(attnviz: Attnviz) -> None:
    tokens = trace("das 我 Haus 喜 steht hier", variant="causal").tokens
    assert any("⟨" in label for label in tokens.labels)
    for seed in range(5):
        settings = Settings(variant="causal", seed=seed)
        lesson = Lesson((LessonText("das 我 Haus 喜 steht hier", settings),), questions=6)
        for question in build_quiz(lesson).questions:
            answers = (
                [question.row.keys.labels[key] for key in question.keys] if question.row else []
            )
            assert not any("⟨" in label for label in answers)
            assert question.row is None or "⟨" not in tokens.labels[question.row.query]

    refusal = attnviz("quiz", "我喜欢猫和狗")
    assert "--tokenizer chars" in refusal.err
    assert attnviz("quiz", "我喜欢猫和狗", "--tokenizer", "chars").status == 0


def test_tokens_are_named_by_numbers_too_and_an_unclear_one_says_its_weights(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lesson.toml"
    lines = ('[[texts]]\ntext = "I like it a lot"\nqueries = [2]\nkinds = ["weight"]',
             "[[texts]]", 'text = "I am learning this"', "[[texts.ask]]",
             'kind = "token"', "query = 2")  # fmt: skip
    path.write_text("\n".join(lines), "utf-8")
    lesson = read_lesson(path)
    assert (lesson.texts[0].queries, lesson.texts[1].own[0].query) == (("2",), "2")

    own_question = OwnQuestion("token", query="it")
    for seed in range(6):
        settings = Settings(dim=4, seed=seed)
        weights = trace("I like it a lot", settings).layers[0].weights[0][2]
        first, second = sorted(np.asarray(weights), reverse=True)[:2]
        if first - second < 0.09:
            with pytest.raises(AttnvizError, match='about "it" has a clear answer: ') as error:
                build_quiz(Lesson((LessonText("I like it a lot", settings, own=(own_question,)),)))
            numbers = [f"{each:.2f}".lstrip("0") for each in (first, second)]
            assert "are {} and {}".format(*numbers) in str(error.value)
            assert "seed = 8" in (error.value.hint or "")
            return
    raise AssertionError("no seed has two nearly equal weights")


def test_words_for_which_no_head_was_written_are_not_asked_about() -> None:
    text_trace = trace("the animal did not cross the street because it was tired", model="toy")
    rows = [each.row for each in FINDERS["token"](build_search(text_trace, (), None, "1"))]

    assert rows
    assert [row for row in rows if row is not None and row.best == row.query] == []


def test_a_kind_of_the_course_alone_makes_no_notes(attnviz: Attnviz) -> None:
    assert attnviz("quiz", "--kind", "mask").err == ""
