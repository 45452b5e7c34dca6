"""Quiz: questions on the attention of some texts; the kinds of question take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from attnviz.errors import AttnvizError, opt
from attnviz.traces.from_text import trace
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Trace
from attnviz.wings.quiz.attention_row import AttentionRow, attention_rows, build_search
from attnviz.wings.quiz.lesson import (
    DEFAULT_QUESTIONS,
    QUESTION_KINDS,
    Lesson,
    LessonText,
    OwnQuestion,
    refuse_long_text,
)
from attnviz.wings.quiz.questions import FINDERS, Question, explain_unclear
from attnviz.wording.words import and_list, counted

MAX_QUOTED = 40  # letters of a text in a note
MASK, MASK_KINDS = "mask", ("mask", "visible")
MODEL_KINDS = ("ablation", "token", "head")  # about what heads do
NO_QUESTION_HINT = f"try {opt.heads:4}, another {opt.seed}, or a longer sentence"


@dataclass(frozen=True, eq=False)
class Quiz:
    """The questions of a lesson, in its order."""

    title: str
    questions: tuple[Question, ...]
    traces: tuple[Trace, ...]
    seed: int
    notes: tuple[str, ...] = ()  # on texts about which nothing is asked, and why


def build_quiz(lesson: Lesson) -> Quiz:
    """Return the quiz of a lesson; the same seed always gives the same one.

    Own questions come first; then the texts take turns until there are enough questions, and so do
    the kinds of each text. Of several texts that are given as one, the seed draws one; another is
    asked about where that one has no (further) clear question. No question's answer can be read off
    another question. Refuses texts without any question that has a clear answer, and heads and
    tokens that are not there.
    """
    traces: dict[tuple[object, ...], Trace] = {}

    def trace_of(text: LessonText) -> Trace:
        place = (text.text, text.settings)
        if place not in traces:
            with _locating(text, "text"):
                traces[place] = trace(text.text, text.settings)
                refuse_long_text(len(traces[place].tokens))
        return traces[place]

    drawn = [text.drawn_texts(f"{lesson.seed}/{at}") for at, text in enumerate(lesson.texts)]
    for texts in drawn:
        trace_of(texts[0])
    found, ended = _find_questions(lesson, drawn, trace_of)
    questions = tuple(question for each in found for question in each)
    reasons = []
    for number in sorted(ended):
        if not found[number]:
            text = drawn[number][0]
            queries = _known_queries(text.queries, trace_of(text))
            rows = [*attention_rows(trace_of(text), text.heads, queries)]
            reasons.append((text, explain_unclear(rows, text.kinds)))
    if not questions:
        raise _no_question_error(*reasons[0])
    notes = [
        f"nothing is asked about {_text_place(text)}: {why}"
        for text, why in reasons
        if not lesson.is_course
    ]
    if len(questions) < lesson.questions != DEFAULT_QUESTIONS and not lesson.is_course:
        clear = counted(len(questions), "question")
        notes.append(f"{clear} of the {lesson.questions} asked for: no other one is clear and new")
    return Quiz(lesson.title, questions, tuple(traces.values()), lesson.seed, tuple(notes))


def _find_questions(
    lesson: Lesson,
    drawn: Sequence[Sequence[LessonText]],
    trace_of: Callable[[LessonText], Trace],
) -> tuple[list[list[Question]], set[int]]:
    """Return the questions of each text, at most as many as the lesson wants in all, and the
    numbers of the texts that have no further ones. `drawn`: the texts that each may be.
    """
    asked: list[Question] = []
    found: list[list[Question]] = [[] for _ in drawn]
    for number, (text, *_) in enumerate(drawn):
        for own_number, own in enumerate(text.own):
            seed = f"{lesson.seed}/{number}/own {own_number}"
            with _locating(own):
                question = _own_question(own, text, trace_of(text), seed, asked)
            if len(asked) < lesson.questions:
                found[number].append(question)
            asked.append(question)
    searches = {
        number: _take_turns(
            [_text_questions(text, trace_of, f"{lesson.seed}/{number}", asked) for text in texts]
        )
        for number, texts in enumerate(drawn)
    }
    ended: set[int] = set()
    while len(asked) < lesson.questions and len(ended) < len(drawn):
        for number, search in searches.items():
            if len(asked) >= lesson.questions or number in ended:
                continue
            new = next(search, None)
            if new is None:
                ended.add(number)
            else:
                asked.append(new)
                found[number].append(new)
    return found, ended


def _no_question_error(text: LessonText, why: str) -> AttnvizError:
    """Return the error that nothing can be asked; its hint names only what this quiz permits."""
    if text.table is not None:
        hint = "try other kinds, or another sentence"
    elif text.settings.model is not None:
        hint = f"try another {opt.kind}, or another sentence"
    elif "parts of a letter" in why and not text.text.isascii():
        hint = f"try {opt.tokenizer:chars}, or another sentence"
    else:
        hint = NO_QUESTION_HINT
    return AttnvizError(f"no question about this has a clear answer: {why}", hint)


def _text_place(text: LessonText) -> str:
    """Return a text in quotes, and where a lesson has it."""
    words = text.text.strip()
    shown = words if len(words) <= MAX_QUOTED else f"{words[:MAX_QUOTED]}…"
    if text.table is None:
        return f'"{shown}"'
    return f"\"{shown}\" (line {text.table.line('text')} of '{text.table.file.path}')"


def _locating(part: LessonText | OwnQuestion, *keys: str) -> AbstractContextManager[None]:
    return nullcontext() if part.table is None else part.table.locating_errors(*keys)


def _take_turns(searches: Sequence[Iterator[Question]]) -> Iterator[Question]:
    """Yield a question of each search in turn, until none has a further one."""
    while searches:
        rests = []
        for search in searches:
            if (found := next(search, None)) is not None:
                rests.append(search)
                yield found
        searches = rests


def _text_questions(
    text: LessonText,
    trace_of: Callable[[LessonText], Trace],
    seed: str,
    asked: Sequence[Question],
) -> Iterator[Question]:
    """Yield the questions found for a text; `asked` are those before, which grow in the meantime.

    The kinds take turns. Of a model those on what its heads do come first; `row` comes last, as it
    shows the map that others ask about.
    """
    traced = trace_of(text)
    with _locating(text, "heads"):
        heads = _known_heads(text.heads, traced)
    with _locating(text, "queries"):
        queries = _known_queries(text.queries, traced)
    is_model = traced.model is not None or traced.trained is not None
    order = (*(MODEL_KINDS if is_model else ()), *QUESTION_KINDS)
    kinds = sorted(text.kinds, key=lambda kind: (kind == "row", order.index(kind)))

    def new_questions(kind: str) -> Iterator[Question]:
        search = build_search(traced, heads, queries, f"{seed}/{kind}")
        for question in FINDERS[kind](search):
            if not any(_are_linked(question, old) for old in asked):
                yield question

    yield from _take_turns([new_questions(kind) for kind in kinds])


def _are_linked(first: Question, second: Question) -> bool:
    """Return whether one of two questions, or its solution, shows the answer of the other."""
    return not (
        _asked_rows(first).isdisjoint(_shown_rows(second))
        and _asked_rows(second).isdisjoint(_shown_rows(first))
    )


def _asked_rows(question: Question) -> set[tuple[int, str, int]]:
    """Return the rows that answer a question: Trace, head (or `mask`), query."""
    row = question.row
    if row is None:
        return set()
    if question.kind in MASK_KINDS:
        return {(id(row.trace), MASK, row.query)}
    return _head_rows(question)


def _head_rows(question: Question) -> set[tuple[int, str, int]]:
    """Return the rows of weights of a question: that of its query, or all of its maps; that of its
    query in all heads, if it switches some off.
    """
    row = question.row
    assert row is not None
    has_maps = question.heads or question.kind == "row"
    queries = range(len(row.trace.tokens)) if has_maps else (row.query,)
    rows_of_heads = attention_rows(row.trace, (), (row.query,)) if question.runs else ()
    names = [each.head_name for each in (*rows_of_heads, *question.heads) or (row,)]
    if question.heads:  # what one of the heads does is asked once
        names.append(question.pattern.name if question.pattern else row.role)
    return {(id(row.trace), name, query) for name in names for query in queries}


def _shown_rows(question: Question) -> set[tuple[int, str, int]]:
    """Return the rows that a question shows: those of its head, and which of their keys are
    hidden.
    """
    if question.row is None:
        return set()
    rows = _head_rows(question)
    hides = question.kind in MASK_KINDS or not bool(question.row.layer.visible.all())
    return rows | ({(trace, MASK, query) for trace, _, query in rows} if hides else set())


def _own_question(
    own: OwnQuestion, text: LessonText, traced: Trace, seed: str, asked: Sequence[Question]
) -> Question:
    """Return a question of the lesson's own; refuses one whose answer would not be clear, and one
    that was asked before.

    Where several questions fit, one is chosen that no question before shows the answer of.
    """
    if not own.kind:
        question = Question("own", None, own.answers.index(own.right), own=own)
        is_old = any(_own_words(question) == _own_words(each) for each in asked)
    else:
        heads = _known_heads((own.head,) if own.head else text.heads, traced)
        queries = _known_queries((own.query,) if own.query else text.queries, traced)
        found = [*FINDERS[own.kind](build_search(traced, heads, queries, seed))]
        if not found:
            raise _unclear_error(own, [*attention_rows(traced, heads, queries)])
        new = [each for each in found if not any(_are_same(each, old) for old in asked)]
        apart = [each for each in new if not any(_are_linked(each, old) for old in asked)]
        question, is_old = (apart or new or found)[0], not new
    if is_old:
        raise AttnvizError("this question was asked before", "leave it out, or ask another one")
    return replace(question, own=own)


def _own_words(question: Question) -> tuple[object, ...]:
    """Return the question and answers that a lesson wrote; for others the Question itself."""
    own = question.own
    return (question,) if own is None or own.kind else (own.question, own.answers)


def _are_same(first: Question, second: Question) -> bool:
    """Return whether two questions ask the same of the same numbers."""
    if first.kind != second.kind or first.row is None or second.row is None:
        return False
    return (first.key, _head_rows(first)) == (second.key, _head_rows(second))


def _unclear_error(own: OwnQuestion, rows: Sequence[AttentionRow]) -> AttnvizError:
    """Return the error that a question of the lesson's own has no clear answer, with the rule that
    it breaks.
    """
    about = f'"{own.query}"' if own.query else "this text"
    place = f" in {own.head}" if own.head else ""
    hint = "choose another head or token, or leave one of them out"
    if rows and rows[0].has_random_vectors:
        hint = (
            f"choose another token, or another seed: seed = 8 above all [[texts]], or {opt.seed:8}"
        )
    return AttnvizError(
        f"no '{own.kind}' question about {about}{place} has a clear answer: "
        f"{explain_unclear(rows, (own.kind,))}",
        hint,
    )


def _known_queries(words: Sequence[str], traced: Trace) -> list[int] | None:
    return [traced.tokens.index(word) for word in words] or None


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
