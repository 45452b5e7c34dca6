"""A quiz: questions about the attention of some texts, each with a clear right answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice

from attnviz.analysis.quiz.lesson import Lesson, LessonText, OwnQuestion
from attnviz.analysis.quiz.question_search import FINDERS, Question, build_search
from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Trace
from attnviz.wording.words import and_list, counted

MAX_QUIZ_TOKENS = 32  # of a text: all of it is shown
NO_QUESTION_HINT = "try --heads 4, another --seed, or a longer sentence"


@dataclass(frozen=True, eq=False)
class Quiz:
    """The questions of a lesson, in its order."""

    title: str
    questions: tuple[Question, ...]
    traces: tuple[Trace, ...]
    seed: int


def build_quiz(lesson: Lesson) -> Quiz:
    """Return the quiz of a lesson; the same seed always gives the same one.

    The kinds of each text take turns until there are enough questions. Refuses texts without any
    question that has a clear answer, and heads and tokens that are not there.
    """
    traces: dict[tuple[object, ...], Trace] = {}
    found: list[list[Question]] = []
    for number, text in enumerate(lesson.texts):
        place = (text.text, text.settings)
        if place not in traces:
            traces[place] = _trace_text(text)
        found.append([*_text_questions(text, traces[place], f"{lesson.seed}/{number}")])
    questions = _choose_questions(found, lesson.questions)
    if not questions:
        raise AttnvizError("no question about this has a clear answer", NO_QUESTION_HINT)
    return Quiz(lesson.title, questions, tuple(traces.values()), lesson.seed)


def _locating(part: LessonText | OwnQuestion, *keys: str) -> AbstractContextManager[None]:
    """Return a context that adds the lesson's file and line to errors."""
    return nullcontext() if part.table is None else part.table.locating_errors(*keys)


def _trace_text(text: LessonText) -> Trace:
    """Return the Trace of a text; refuses one of more tokens than a quiz can show."""
    with _locating(text, "text"):
        traced = trace(text.text, text.settings)
        if len(traced.tokens) > MAX_QUIZ_TOKENS:
            raise AttnvizError(
                f"the text has {counted(len(traced.tokens), 'token')}, and a quiz shows at most "
                f"{MAX_QUIZ_TOKENS}",
                "give a shorter sentence, or each sentence as a text of its own",
            )
    return traced


def _text_questions(text: LessonText, traced: Trace, seed: str) -> Iterator[Question]:
    """Yield the lesson's own questions about a text, then those found for it.

    The kinds take turns; no question is asked twice.
    """
    for number, own in enumerate(text.own):
        with _locating(own):
            question = _own_question(own, text, traced, f"{seed}/own {number}")
        yield question
    with _locating(text, "heads"):
        heads = _known_heads(text.heads, traced)
    with _locating(text, "queries"):
        queries = [traced.tokens.index(word) for word in text.queries] or None
    searches = [
        FINDERS[kind](build_search(traced, heads, queries, f"{seed}/{kind}")) for kind in text.kinds
    ]
    while searches:
        rests = []
        for search in searches:
            found = next(search, None)
            if found is not None:
                rests.append(search)
                yield found
        searches = rests


def _own_question(own: OwnQuestion, text: LessonText, traced: Trace, seed: str) -> Question:
    """Return a question of the lesson's own; refuses one whose answer would not be clear."""
    if not own.kind:
        return Question("own", None, own.answers.index(own.right), own=own)
    heads = _known_heads((own.head,) if own.head else text.heads, traced)
    words = (own.query,) if own.query else text.queries
    queries = [traced.tokens.index(word) for word in words] or None
    question = next(FINDERS[own.kind](build_search(traced, heads, queries, seed)), None)
    if question is None:
        raise AttnvizError(
            f"no '{own.kind}' question about {own.query or 'this text'} has a clear answer"
            f"{f' in {own.head}' if own.head else ''}",
            "choose another head or token, or leave one of them out",
        )
    return replace(question, own=own)


def _known_heads(names: Sequence[str], traced: Trace) -> tuple[str, ...]:
    """Return the names of heads, such as L1H0; refuses one that the Trace does not have."""
    known = [
        format_head_id(layer.layer, head) for layer in traced.layers for head in range(layer.heads)
    ]
    for name in names:
        if name not in known:
            listed = and_list(known) if len(known) <= 12 else f"{known[0]} to {known[-1]}"
            raise AttnvizError(f"there is no head '{name}'", f"there is {listed}")
    return tuple(names)


def _choose_questions(found: Sequence[Sequence[Question]], count: int) -> tuple[Question, ...]:
    """Return at most `count` questions, in the order of the texts: one of each text before a second
    of any; all own ones first.
    """
    ranked = sorted(
        (0 if question.own else turn, number, turn)
        for number, questions in enumerate(found)
        for turn, question in enumerate(questions)
    )
    places = sorted((number, turn) for _, number, turn in islice(ranked, count))
    return tuple(found[number][turn] for number, turn in places)
