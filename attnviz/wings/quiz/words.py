"""WORDS: each kind of question in words: question, answers, what is shown, reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from attnviz.cells import StoredCells
from attnviz.traces import toml_reader
from attnviz.views.attention_facts import find_mask_shape
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.exercise import Exercise
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import bar_scale, centred_scale, weight_scale
from attnviz.views.grids.section import Section
from attnviz.views.head_vectors import divisor_texts
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.origin_words import vector_axis
from attnviz.views.reading import has_single_attention, token_axis
from attnviz.views.steps import step_sums
from attnviz.views.steps.scene import Scene, StepSettings
from attnviz.views.trace import vectors_grid
from attnviz.wings.quiz.attention_row import AttentionRow, attention_rows
from attnviz.wings.quiz.lesson import OwnQuestion
from attnviz.wings.quiz.number_cases import as_printed
from attnviz.wings.quiz.questions import ModelRun, Question
from attnviz.wording.numbers import exact_text, fixed_text, percent_text
from attnviz.wording.sums import Sum
from attnviz.wording.words import and_list, bidi_isolated, counted

MAX_SHOWN_WIDTH = 3  # of vectors whose products can be computed on paper
MAX_WRITTEN_KEYS = 6  # whose scores a reason writes out
MAP_NAMES = "AB"
WORDS_FILE = Path(__file__).with_name("words.toml")


@dataclass(frozen=True)
class QuestionWords:
    """A kind of question, as functions of a Question and the row that it is about.

    `ask`, `about` and `reason` are in words.toml where they are None here.
    """

    ask: Callable[[Question, AttentionRow], str] | None = None
    about: Callable[[Question, AttentionRow], str] | None = None  # what is given, after the text
    reason: Callable[[Question, AttentionRow], str] | None = None
    options: Callable[[Question, AttentionRow], tuple[str, ...]] = lambda question, row: tuple(
        fixed_text(number, 2) for number in question.numbers
    )
    # What is shown with the question, and with the reason:
    shown: Callable[[Question, AttentionRow], tuple[Grid, ...]] = lambda question, row: ()
    explained: Callable[[Question, AttentionRow], tuple[Grid, ...]] = lambda question, row: ()
    sums: Callable[[Question, AttentionRow], tuple[Sum, ...]] = lambda question, row: ()
    # The reply to each wrong answer that comes from a mistake; empty for others.
    replies: Callable[[Question, AttentionRow], tuple[str, ...]] = lambda question, row: (
        question.replies
    )


@dataclass(frozen=True)
class _Values:
    """The words and numbers in place of the names in words.toml, of one question."""

    question: Question
    row: AttentionRow

    def __getitem__(self, name: str) -> str:
        return VALUES[name](self.question, self.row)


@cache
def _templates() -> Mapping[str, Mapping[str, str]]:
    return toml_reader.parse(WORDS_FILE.read_text("utf-8"), WORDS_FILE.name)


def _write(part: str, question: Question, row: AttentionRow) -> str:
    """Return the words of a question's kind: `ask`, `about` or `reason`."""
    write = getattr(WORDS[question.kind], part)
    if write is not None:
        return str(write(question, row))
    return _templates()[question.kind].get(part, "").format_map(_Values(question, row))


def build_exercise(question: Question, number: int, seed: int | None = None) -> Exercise:
    """Return a question in words; those of a lesson replace those of its kind.

    `seed`: of the random vectors of which a header tells.
    """
    own, row = question.own or OwnQuestion(""), question.row
    title, reason = _on_one_line(own.question), _on_one_line(own.reason)
    if row is None:
        asked = Section(str(number), "own", title, "", noun="")
        return _exercise(asked, tuple(map(_on_one_line, own.answers)), question.answer, reason)
    words = WORDS[question.kind]
    context = _context(row, seed)
    about = " ".join(filter(None, (context, _write("about", question, row))))
    reason = " ".join(filter(None, (reason, _write("reason", question, row))))
    grids = words.shown(question, row)
    title = title or _write("ask", question, row)
    asked = Section(str(number), question.kind, title, about, grids=grids, noun="")
    exercise = _exercise(asked, words.options(question, row), question.answer, reason)
    explained, sums = words.explained(question, row), words.sums(question, row)
    return replace(
        exercise,
        solution=replace(exercise.solution, grids=explained, sums=sums),
        context=context,
        needs_working=bool(sums) and not (question.kind == "token" and _shows_scores(row)),
        replies=words.replies(question, row) or exercise.replies,
    )


def _exercise(asked: Section, options: tuple[str, ...], answer: int, reason: str) -> Exercise:
    """Return the Exercise of a question, without the grids of its solution."""
    bare = Exercise(asked, options, answer, asked, replies=("",) * len(options))
    solution = Section(asked.number, asked.name, f"Answer: {bare.right_option}", reason, noun="")
    return replace(bare, question=replace(asked, remarks=bare.lettered_options), solution=solution)


def _on_one_line(text: str) -> str:
    """Return a text of a lesson, which may be in lines of its file, with single spaces."""
    return " ".join(text.split())


def _context(row: AttentionRow, header_seed: int | None) -> str:
    """Return the sentence that a question is about, and where its numbers come from."""
    trace, model = row.trace, row.trace.model
    sentence = f'Sentence: "{trace.tokens.text.strip()}".'
    if trace.trained is not None:
        return f"{sentence} Model {trace.trained.name}."
    if model is None:
        seed = trace.origin.settings.seed
        return sentence if seed == header_seed else f"{sentence} Random vectors, seed {seed}."
    source = " was written by hand:" if model.by_hand else " learned this:"
    about = f"{source} {model.about}" if model.about else ""
    asked = model.facts.get("asked")
    is_blank = trace.tokens.labels[row.query] == "?" and isinstance(asked, str)
    blank = f' At "?" it chooses the {asked}.' if is_blank else ""
    return f"{sentence} The model {model.name}{about}.{blank}"


def _query(row: AttentionRow) -> str:
    return quoted_token(row.trace.tokens, row.query)


def _key(row: AttentionRow, key: int) -> str:
    is_same = row.keys is row.trace.tokens and key == row.query
    return "itself" if is_same else quoted_token(row.keys, key)


def _place(row: AttentionRow) -> str:
    """Return ` in L1H0`; empty where there is only one head."""
    is_only = has_single_attention(row.trace) and row.layer.heads == 1
    return "" if is_only else f" in {row.head_name}"


def _key_options(question: Question, row: AttentionRow) -> tuple[str, ...]:
    return tuple(bidi_isolated(row.keys.labels[key]) for key in question.keys)


def _map_grid(row: AttentionRow, title: str) -> Grid:
    cells = row.layer.weights.cells("mixing", row.head)
    rows, columns = row.trace.tokens, row.keys
    return Grid(
        title,
        token_axis("query (reads)", rows),
        token_axis("key (is read)", columns),
        cells,
        weight_scale(cells),
        share=True,
    )


def _rows_grid(
    row: AttentionRow, title: str, names: list[str], rows: list[Float[np.ndarray, "key"]]
) -> Grid:
    """Return rows of numbers of one query, a name before each; hidden keys are masked."""
    hidden = np.stack([~row.visible] * len(rows))
    cells = StoredCells(np.stack(rows).astype(np.float32), hidden)
    is_weights = title.startswith("weights")
    scale = bar_scale(cells) if is_weights else centred_scale("score", cells)
    keys = token_axis("", row.keys)
    rows_axis = plain_axis("row", names)
    return Grid(title, rows_axis, keys, cells, scale, decimals=2, share=is_weights, is_list=True)


# Which token.


def _shows_vectors(row: AttentionRow) -> bool:
    """Return whether products that can be computed on paper decide: all keys are visible, and
    nothing changes the order of the scores.
    """
    layer = row.layer
    if not layer.has_product_scores or layer.head_dim > MAX_SHOWN_WIDTH or not row.visible.all():
        return False
    products = layer.weights.cells("scores", row.head).row(row.query).values[0]
    return row.has_random_vectors and int(np.argmax(products)) == row.best


def _shows_scores(row: AttentionRow) -> bool:
    """Return whether the scores of the row are shown, because nothing else could answer: neither
    vectors, nor what a head is known to do.
    """
    return row.needs_numbers and not _shows_vectors(row) and row.scores is not None


def _about_token(question: Question, row: AttentionRow) -> str:
    if _shows_vectors(row):
        return (
            f"Given are the query of {_query(row)} and all keys. A score is the dot product of a "
            "query and a key."
        )
    if _shows_scores(row):
        return f"Given are the {_scores_name(row)} of {_query(row)}, of which the softmax is taken."
    if row.is_written:
        numbers = _vector_grids(row)[0].cells.row(0).values[0]
        avoids = "; a number below 0 is what it avoids" if (numbers < 0).any() else ""
        return (
            f"{row.head_name} was written so that {row.role}. Below is the query of {_query(row)}: "
            f"what it looks for{avoids}."
        )
    return f"{row.head_name} {row.role}." if row.role else ""


def _scores_name(row: AttentionRow) -> str:
    return "scores" if row.unscaled is None else "scaled scores"


def _token_replies(question: Question, row: AttentionRow) -> tuple[str, ...]:
    return tuple("" if key == row.best else _token_reply(row, key) for key in question.keys)


def _token_reply(row: AttentionRow, key: int) -> str:
    scores = row.scores if _shows_scores(row) else None
    if scores is not None and scores[key] == -np.abs(scores).max():
        return "That score is the farthest from 0, but negative: its weight is the smallest."
    if _shows_vectors(row):
        lengths = np.linalg.norm(row.layer.queries_with_keys()[1][row.head], axis=-1)
        if key == lengths.argmax():
            return "That is the longest key, but its product with the query is smaller."
    return "A token need not attend to itself most." if key == row.query else ""


def _shown_with_token(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    if _shows_scores(row):
        return _score_row(question, row)
    if row.is_written:
        return _vector_grids(row)[:1]
    return _vector_grids(row) if _shows_vectors(row) else ()


def _vector_grids(row: AttentionRow) -> tuple[Grid, ...]:
    """Return the query as one row, and the keys of all tokens."""
    queries, keys = row.layer.queries_with_keys()
    columns = vector_axis(row.trace, row.layer, "width", row.layer.head_dim, row.head)
    name = plain_axis("token", [row.trace.tokens.labels[row.query]])
    query = queries[row.head, row.query : row.query + 1]
    grids = (
        vectors_grid("query", query, name, columns),
        vectors_grid("keys", keys[row.head], token_axis("", row.keys), columns),
    )
    return tuple(replace(grid, decimals=2) for grid in grids)


def _score_row(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    assert row.scores is not None
    name = row.trace.tokens.labels[row.query]
    return (_rows_grid(row, "scores before the softmax", [name], [row.scores]),)


def _token_reason(question: Question, row: AttentionRow) -> str:
    """Return what the head does, or the rule of the softmax, and then the largest two weights."""
    order = np.argsort(-row.weights, kind="stable")
    first, second = int(order[0]), int(order[1])
    numbers = (
        f"{_query(row)} gives {_key(row, first)} {percent_text(float(row.weights[first]))} of its "
        f"attention{_place(row)}; the next most goes to {_key(row, second)}: "
        f"{percent_text(float(row.weights[second]))}."
    )
    digits = (
        "Everything is computed with more digits than are printed." if _shows_vectors(row) else ""
    )
    return " ".join(filter(None, (_head_sentence(row), numbers, digits)))


def _head_sentence(row: AttentionRow) -> str:
    """Return a sentence on what the head does, or on the softmax; what a head was written for
    stands with the question.
    """
    if _shows_scores(row) or _shows_vectors(row):
        return "The largest score gets the largest weight."
    if not row.is_written:
        return _role_sentence(row)
    query = _vector_grids(row)[0]
    numbers = query.cells.row(0).values[0]
    names = [query.columns.labels[place] for place in np.flatnonzero(numbers == numbers.max())]
    return f"{_query(row)} looks most for: {and_list(names)}."


def _role_sentence(row: AttentionRow) -> str:
    """Return what a head of a small model does: as measured in its test, or as written; empty if
    that is unknown, or if settings change the model.
    """
    role, model = row.role, row.trace.model
    if not role or model is None:
        return ""
    if model.by_hand:
        return f"{row.head_name} was written so that {role}."
    count, scores = model.facts.get("sentences"), model.facts.get("scores")
    score = scores.get(row.head_name) if isinstance(scores, Mapping) else None
    if not isinstance(count, int) or not isinstance(score, float):
        return ""
    share = percent_text(score)
    return (
        f"{row.head_name} {role}: {share} of its attention, in {counted(count, 'test sentence')}."
    )


def _scene(row: AttentionRow, key: int | None = None) -> Scene:
    options = StepSettings(query=row.query, key=key, head=row.head)
    return Scene(row.trace, row.layer, options)


def _with_head_name(row: AttentionRow, sums: tuple[Sum, ...]) -> tuple[Sum, ...]:
    """Return the sums with the head as the question names it: L1H0, where they say H0."""
    suffix = _scene(row).head_suffix(row.head)
    if not suffix:
        return sums
    return tuple(
        replace(each, left=each.left.replace(f"{suffix}(", f" {row.head_name}(", 1))
        for each in sums
    )


def _token_sums(question: Question, row: AttentionRow) -> tuple[Sum, ...]:
    """Return the products that decide, and the softmax of the right answer."""
    if not (_shows_scores(row) or _shows_vectors(row)) or row.scores is None:
        return ()
    scene, best = _scene(row), _scene(row, row.best)
    softmax = step_sums.softmax_sums(best, row.layer)
    if not _shows_vectors(row) or len(row.keys) > MAX_WRITTEN_KEYS:
        return softmax
    products = step_sums.score_sums(scene, row.layer)
    divisions = divisor_texts(scene.trace, row.layer)
    scaled = step_sums.scaling_sums(scene, row.layer) if divisions else ()
    return (*products, *scaled, *softmax)


# What is the weight.


def _weight_sums(question: Question, row: AttentionRow) -> tuple[Sum, ...]:
    return step_sums.softmax_sums(_scene(row, question.key), row.layer)


def _weight_row(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    return (_rows_grid(row, "weights", [row.trace.tokens.labels[row.query]], [row.weights]),)


# Who reads whom.


def _unnamed_map(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    """Return the map of a head without the names of its axes, which would tell who reads."""
    grid = _map_grid(row, "weights")
    rows, columns = (replace(axis, title="") for axis in (grid.rows, grid.columns))
    return (replace(grid, rows=rows, columns=columns),)


# Temperature.


def _temperature_sums(question: Question, row: AttentionRow) -> tuple[Sum, ...]:
    assert row.scores is not None
    writer = _scene(row).write(f"weight({row.trace.tokens.labels[row.query]}, "
                               f"{row.keys.labels[row.best]})")  # fmt: skip
    scores = (2 * as_printed(row.scores))[row.visible].tolist()
    place = int(row.visible[: row.best].sum())
    return (writer.softmax(scores, place, question.numbers[question.answer]),)


# Another value.


def _first_context(row: AttentionRow) -> float:
    return float(row.layer.attended.contexts[row.head, row.query, 0])


def _first_value(question: Question, row: AttentionRow) -> float:
    return float(row.layer.values_of_heads[row.head, question.key or 0, 0])


def _value_sums(question: Question, row: AttentionRow) -> tuple[Sum, ...]:
    writer = _scene(row).write(f"context({row.trace.tokens.labels[row.query]})")
    terms = [_first_context(row), float(row.weights[question.key or 0])]
    return (writer.vector_entry(terms, 0, [question.numbers[question.answer]]),)


# Scaled or not.


def _scaled_replies(question: Question, row: AttentionRow) -> tuple[str, ...]:
    flat = "That row is the flatter one: the division by √d_k makes differences smaller."
    return tuple("" if place == question.answer else flat for place in range(2))


# The mask.


def _mask_sentence(question: Question, row: AttentionRow) -> str:
    """Return what the mask lets a token attend to; empty for masks of no known shape."""
    shape = find_mask_shape(row.layer.visible)
    if not shape.is_exact or shape.chunk is not None:
        return ""
    if shape.window is None:
        return "Each token attends only to itself and earlier tokens." if shape.causal else ""
    if shape.window == 1:
        return "Each token attends only to itself."
    before = counted(shape.window - 1, "token")
    nearest = "the token before it" if shape.window == 2 else f"the {before} before it"
    sides = nearest if shape.causal else f"at most {before} away on each side"
    return f"Each token attends only to itself and {sides}."


def _visible_tokens(row: AttentionRow) -> str:
    """Return all tokens that the mask lets the query attend to; only the numbers of many."""
    keys = np.flatnonzero(row.visible).tolist()
    if len(keys) > MAX_WRITTEN_KEYS:  # they stand beside each other
        return f"tokens {keys[0] + 1} to {keys[-1] + 1}"
    return and_list([_key(row, key) for key in keys])


def _mask_replies(question: Question, row: AttentionRow) -> tuple[str, ...]:
    """Return the reply to each visible token; empty for masks that hide earlier ones, too."""
    shape = find_mask_shape(row.layer.visible)
    if not shape.is_exact or not shape.causal or shape.window is not None:
        return ()
    earlier = f"It comes before {_query(row)}: a causal mask hides only later tokens."
    replies = {row.query: "A causal mask does not hide a token from itself."}
    return tuple("" if key > row.query else replies.get(key, earlier) for key in question.keys)


# Which of two heads.


def _ask_head(question: Question, row: AttentionRow) -> str:
    if question.pattern is not None:
        target = question.pattern.target_phrase
        return f"In which map, A or B, do tokens attend more to {target}?"
    model = row.trace.model
    assert model is not None
    role = model.heads[row.head_name]
    if model.by_hand:
        return f"Which map, A or B, belongs to a head written so that {role}?"
    return f"Which map, A or B, belongs to a head that {role}?"


def _head_replies(question: Question, row: AttentionRow) -> tuple[str, ...]:
    """Return what the token gives the key of the right map in the other one, of a small model."""
    if row.trace.model is None or row.trace.model.by_hand:
        return ()
    shares = [percent_text(float(each.weights[row.best])) for each in question.heads]
    replies = (
        f"That is {each.head_name}: there {_query(row)} gives {_key(row, row.best)} {share}."
        for each, share in zip(question.heads, shares, strict=True)
    )
    pairs = zip(question.heads, replies, strict=True)
    return tuple("" if each is row else reply for each, reply in pairs)


def _head_reason(question: Question, row: AttentionRow) -> str:
    right, other = question.answer, 1 - question.answer
    beside = question.heads[other]
    names = [f"map {MAP_NAMES[n]} ({question.heads[n].head_name})" for n in (right, other)]
    if question.pattern is not None:
        shares = [percent_text(question.scores[n]) for n in (right, other)]
        return (
            f"In {names[0]} {shares[0]} of a token's attention goes to "
            f"{question.pattern.target_phrase}, on average over the tokens that have the choice; "
            f"in {names[1]} {shares[1]}."
        )
    first, second = (percent_text(float(each.weights[row.best])) for each in (row, beside))
    return (
        f"{_role_sentence(row)} Here {_query(row)} gives {_key(row, row.best)} {first} of its "
        f"attention in {names[0]}, and {second} in {names[1]}."
    ).strip()


def _two_maps(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    pairs = zip(question.heads, MAP_NAMES, strict=True)
    return tuple(_map_grid(each, f"map {name}") for each, name in pairs)


# Heads switched off.


def _weights_in_heads(question: Question, row: AttentionRow) -> tuple[Grid, ...]:
    rows = [*attention_rows(row.trace, (), (row.query,))]
    names = [each.head_name for each in rows]
    title = f"weights in the row of {_query(row)}"
    return (_rows_grid(row, title, names, [each.weights for each in rows]),)


def _need_options(question: Question, row: AttentionRow) -> tuple[str, ...]:
    """Return which heads must be on, in words: `L1H0`, `both`, or `either one`."""
    names = {0: "either one", 2: "both"}
    return tuple(names.get(len(need), "".join(need)) for need in question.needs)


def _need_replies(question: Question, row: AttentionRow) -> tuple[str, ...]:
    """Return what shows that other heads must be on than those of a wrong answer."""
    needed = {*question.needs[question.answer]}
    wrong = [sorted({*need} ^ needed) for need in question.needs]
    return tuple(f"{_effect_text(question, heads[0])}." if heads else "" for heads in wrong)


def _effect_text(question: Question, head: str) -> str:
    """Return whether a head that is switched off alone changes the answer of the model."""
    does_change = head in question.needs[question.answer]
    return f"Without {head} alone the answer {'changes' if does_change else 'stays'}"


def _need_reason(question: Question, row: AttentionRow) -> str:
    names = question.runs[-1].off
    effects = ". ".join(_effect_text(question, name) for name in names)
    is_each_needed = question.needs[question.answer] == names
    also = "" if is_each_needed else ": a large weight does not make a head necessary"
    return f"{effects}. Both give {_key(row, row.best)} most of their attention{also}."


def _number_text(number: float) -> str:
    return fixed_text(float(number), 2)


def _largest_text(question: Question, place: int) -> str:
    return f"{_number_text(question.rows[place].max())} in {MAP_NAMES[place]}"


def _run_text(run: ModelRun) -> str:
    """Return what a model answers without some heads: `"are" without L1H0 (95 %)`."""
    place = "both" if len(run.off) > 1 else "".join(run.off)
    without = f" without {place}" if run.off else " with all heads"
    return f'"{run.answer}"{without} ({percent_text(run.probability)})'


VALUES: Mapping[str, Callable[[Question, AttentionRow], str]] = {  # names in words.toml
    "query": lambda question, row: _query(row),
    "number": lambda question, row: str(row.query + 1),
    "key": lambda question, row: _key(row, question.key or 0),
    "key_token": lambda question, row: quoted_token(row.keys, question.key or 0),
    "hidden": lambda question, row: quoted_token(row.keys, question.keys[question.answer]),
    "place": lambda question, row: _place(row),
    "weight": lambda question, row: _number_text(row.weights[question.key or 0]),
    "largest": lambda question, row: _number_text(row.weights.max()),
    "answer": lambda question, row: _number_text(question.numbers[question.answer]),
    "scores": lambda question, row: _scores_name(row),
    "width": lambda question, row: str(row.layer.head_dim),
    "root": lambda question, row: exact_text(round(row.layer.head_dim**0.5, 2)),
    "sharp": lambda question, row: _largest_text(question, question.answer),
    "flat": lambda question, row: _largest_text(question, 1 - question.answer),
    "visible": lambda question, row: _visible_tokens(row),
    "counts": lambda question, row: f"{row.visible.sum()} of {counted(len(row.visible), 'token')}",
    "context": lambda question, row: _number_text(_first_context(row)),
    "value": lambda question, row: _number_text(_first_value(question, row)),
    "grown_value": lambda question, row: _number_text(_first_value(question, row) + 1),
    "other_text": lambda question, row: question.case.other_text if question.case else "",
    "off": lambda question, row: and_list(question.runs[-1].off),
    "whole_answer": lambda question, row: question.runs[0].answer,
    "answers": lambda question, row: and_list([*map(_run_text, question.runs)]),
}


WORDS: Mapping[str, QuestionWords] = {  # a row for each of QUESTION_KINDS
    "row": QuestionWords(shown=_unnamed_map),
    "token": QuestionWords(
        about=_about_token,
        options=_key_options,
        reason=_token_reason,
        replies=_token_replies,
        shown=_shown_with_token,
        explained=_weight_row,
        sums=lambda question, row: _with_head_name(row, _token_sums(question, row)),
    ),
    "weight": QuestionWords(
        shown=_score_row,
        explained=_weight_row,
        sums=lambda question, row: _with_head_name(row, _weight_sums(question, row)),
    ),
    "scaled": QuestionWords(
        options=lambda question, row: ("row A", "row B"),
        shown=lambda question, row: (_rows_grid(row, "weights", [*MAP_NAMES], [*question.rows]),),
        replies=_scaled_replies,
    ),
    "temperature": QuestionWords(shown=_score_row, sums=_temperature_sums),
    "mask": QuestionWords(
        about=_mask_sentence,
        options=_key_options,
        replies=_mask_replies,
        explained=_weight_row,
    ),
    "visible": QuestionWords(
        about=_mask_sentence,
        options=lambda question, row: tuple(fixed_text(number, 0) for number in question.numbers),
        explained=_weight_row,
    ),
    "value": QuestionWords(shown=_weight_row, sums=_value_sums),
    "order": QuestionWords(shown=_weight_row),
    "head": QuestionWords(
        ask=_ask_head,
        about=lambda question, row: "",
        reason=_head_reason,
        options=lambda question, row: ("map A", "map B"),
        shown=_two_maps,
        replies=_head_replies,
    ),
    "ablation": QuestionWords(
        options=_need_options,
        reason=_need_reason,
        shown=_weights_in_heads,
        replies=_need_replies,
    ),
}
