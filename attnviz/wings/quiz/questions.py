"""Finds questions in a Trace with a clear right answer, or says why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, combinations, permutations
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import maps_of_heads
from attnviz.analysis.inspection.patterns import HeadPatterns, KeyPattern, find_patterns
from attnviz.traces.from_text import trace as trace_text
from attnviz.traces.origin import is_unmodified_model
from attnviz.traces.settings import Settings
from attnviz.wings.quiz.attention_row import (
    MAX_CLEAR_EVENNESS,
    MAX_SHOWN_KEYS,
    AttentionRow,
    Search,
    attention_rows,
)
from attnviz.wings.quiz.lesson import MAX_ANSWERS, OwnQuestion
from attnviz.wings.quiz.number_cases import (
    MAX_SUMMED,
    NUMBER_CASES,
    VALUE_GAP,
    NumberCase,
    masked_rows,
)
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted

Answer = TypeVar("Answer")
MIN_SHARPENING = 0.12  # of the largest weight, by leaving out the scale
MIN_PATTERN_SCORE, MIN_PATTERN_GAP = 0.5, 0.35  # of the head that shows a pattern; to the other
MAX_EXPLAINED_KINDS = 2  # of many kinds the first ones say enough
MIN_ANSWER_PROBABILITY = 0.75  # of a model's answer that is asked about
ON_PAPER = "and follows, to its last digit, from the printed numbers"
MIN_ROLE_SCORE, MIN_ROLE_WEIGHT, MAX_OTHER_WEIGHT = 0.7, 0.6, 0.25


@dataclass(frozen=True, eq=False)
class Question:
    """A question with its answers, of which `answer` (an index) is right.

    `keys`, `numbers`, `rows`, `heads` or `needs` are what the answers stand for, by kind.
    """

    kind: str
    row: AttentionRow | None  # None for a question in a lesson's own words alone
    answer: int
    keys: tuple[int, ...] = ()  # positions of tokens
    numbers: tuple[float, ...] = ()  # weights, counts of tokens, or numbers of a vector,
    replies: tuple[str, ...] = ()  # and the mistake that gives each; empty for none, and the right
    rows: tuple[Float[np.ndarray, "key"], ...] = ()  # rows of weights
    heads: tuple[AttentionRow, ...] = ()  # the same query in two heads
    case: NumberCase | None = None  # what the numbers are about
    pattern: KeyPattern | None = None  # what one of two heads does,
    scores: tuple[float, ...] = ()  # and how much each of them does so
    own: OwnQuestion | None = None  # the words of a lesson
    runs: tuple[ModelRun, ...] = ()  # of a model: with all heads, without one, the other, both;
    needs: tuple[tuple[str, ...], ...] = ()  # names of the heads that must be on for its answer

    @property
    def key(self) -> int | None:
        """The token whose weight, or value, is asked about."""
        return None if self.case is None else self.case.key

    @property
    def count(self) -> int:
        given = self.own.answers if self.own and not self.own.kind else ()
        return len(self.keys or self.numbers or self.rows or self.heads or self.needs or given)


@dataclass(frozen=True)
class ModelRun:
    """What a model answers while some of its heads are switched off, and how likely it finds it."""

    off: tuple[str, ...]  # names of heads
    answer: str
    probability: float


def find_token_questions(search: Search) -> Iterator[Question]:
    """Yield a question for each row with a clear largest weight; the next largest is an answer.

    Of a model those come first of which its card says what the head does, and those last in which
    a token attends to itself or, in a model, to the first one.
    """
    for row in sorted(search.rows, key=lambda row: (_is_dull(row), not row.role)):
        others = [key for key in row.plain_keys if row.visible[key] and key != row.best]
        if not (row.is_clear and row.can_be_told) or len(others) < MAX_ANSWERS - 1:
            continue
        others.sort(key=lambda key: -row.weights[key])
        chosen = list(dict.fromkeys([others[0], *_tempting_keys(row, others)]))
        rest = [key for key in others if key not in chosen]
        chosen += search.random.sample(rest, MAX_ANSWERS - 1 - len(chosen))
        keys = shuffled(search, [row.best, *chosen])
        yield Question("token", row, keys.index(row.best), keys=keys)


def shuffled(search: Search, answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return answers in an order that is drawn: in the order of a sentence, or of numbers, the
    right one would more often be at one place than at another.
    """
    return tuple(search.random.sample(answers, len(answers)))


def _is_dull(row: AttentionRow) -> bool:
    """Return whether a row goes to the token itself or, in a model, to the first, as many rows do;
    what a card says that a head does is not dull.
    """
    is_first = row.best == 0 and not row.role and not row.has_random_vectors
    return row.best == row.query or is_first


def _tempting_keys(row: AttentionRow, others: Sequence[int]) -> list[int]:
    """Return the one of `others` that the same query of a small model gives the largest weight in
    another head, such as the other name that a pronoun could stand for; where scores decide, the
    one with the smallest, which may be the farthest from 0.
    """
    others = [key for key in others if key != row.query]
    if row.needs_numbers and row.scores is not None:
        seen = np.where(row.visible, row.scores, np.inf)
        return [key for key in (int(seen.argmin()),) if key in others]
    if not row.role or not others:
        return []
    beside = [
        each.weights
        for each in attention_rows(row.trace, (), (row.query,))
        if each.head_name != row.head_name
    ]
    return [max(others, key=lambda key: max(weights[key] for weights in beside))] if beside else []


def find_number_questions(search: Search, kind: str) -> Iterator[Question]:
    """Yield a question for each row of the cases of a kind that agree on paper. How many numbers
    are smaller than the right one is drawn, as far as there are such: it must not be right to
    choose the smallest.
    """
    rest = [case for case in NUMBER_CASES[kind](search) if case.agrees_on_paper]
    while rest:
        for rank in search.random.sample(range(MAX_ANSWERS), MAX_ANSWERS):
            fitting = ((case, case.answers_around(rank)) for case in rest)
            case, answers = next((pair for pair in fitting if pair[1]), (None, {}))
            if case is not None:
                rest = [each for each in rest if each.row is not case.row]
                numbers = shuffled(search, [*answers])
                yield Question(
                    kind,
                    case.row,
                    numbers.index(case.right),
                    numbers=numbers,
                    replies=tuple(answers[number] for number in numbers),
                    case=case,
                )
                break
        else:
            return


def find_scaled_questions(search: Search) -> Iterator[Question]:
    """Yield a question for each row that is clearly less sharp by the division by √d_k."""
    for row in search.rows:
        if row.unscaled is None or not row.has_readable_numbers:
            continue
        if row.unscaled.max() - row.weights.max() < MIN_SHARPENING:
            continue
        answer = search.random.randrange(2)
        rows = (row.unscaled, row.weights) if answer == 0 else (row.weights, row.unscaled)
        yield Question("scaled", row, answer, rows=rows)


def find_mask_questions(search: Search) -> Iterator[Question]:
    """Yield a question for each row with a hidden key and three visible ones to choose from."""
    for row in masked_rows(search):
        hidden = [key for key in row.plain_keys if not row.visible[key]]
        seen = [key for key in row.plain_keys if row.visible[key]]
        if hidden and len(seen) >= MAX_ANSWERS - 1:
            right = search.random.choice(hidden)
            keys = shuffled(search, [right, *search.random.sample(seen, MAX_ANSWERS - 1)])
            yield Question("mask", row, keys.index(right), keys=keys)


def _role_questions(search: Search) -> Iterator[Question]:
    """Yield questions for each measured role of a small model's heads, about a query that gives
    one key most of its attention in that head, and little in the other.
    """
    model = search.trace.model
    if model is None:
        return
    scores = model.facts.get("scores")
    known = scores if isinstance(scores, Mapping) else {}
    for row in search.rows:
        score = known.get(row.head_name)
        is_sure = model.by_hand or (isinstance(score, float) and score >= MIN_ROLE_SCORE)
        is_known = row.role and is_sure and row.is_clear
        if not is_known or _is_dull(row) or row.weights.max() < MIN_ROLE_WEIGHT:
            continue
        others = [
            other
            for other in attention_rows(search.trace, (), (row.query,))
            if other.head_name != row.head_name
            and other.role != row.role
            and other.weights[row.best] <= MAX_OTHER_WEIGHT
        ]
        for other in search.random.sample(others, len(others)):
            yield _two_heads(search, (row, other))


def _pattern_questions(search: Search) -> Iterator[Question]:
    """Yield a question for each pattern that some head clearly shows, and another does not."""
    heads = {row.head_name: row for row in search.heads}
    if len(heads) < 2:
        return
    maps = [each for each in maps_of_heads(search.trace, InspectOptions()) if each.name in heads]
    patterns = find_patterns(maps)
    pairs = [*permutations(range(len(maps)), 2)]
    search.random.shuffle(pairs)
    asked = set[str]()
    for first, second in pairs:
        kind = patterns.kinds[first]
        if not isinstance(kind, KeyPattern) or kind.name in asked:
            continue
        scores = patterns.score(first, kind), patterns.score(second, kind)
        if _are_told_apart(patterns, (first, second), kind):
            asked.add(kind.name)
            rows = heads[maps[first].name], heads[maps[second].name]
            yield _two_heads(search, rows, kind, scores)


def _are_told_apart(patterns: HeadPatterns, pair: tuple[int, int], kind: KeyPattern) -> bool:
    """Return whether the first of two heads clearly shows a pattern, and the second does not: most
    tokens give such a key the largest weight only in the first.
    """
    scores = [patterns.score(head, kind) for head in pair]
    most = [patterns.is_most_attended(head, kind) for head in pair]
    is_gap_clear = scores[0] - scores[1] >= MIN_PATTERN_GAP and scores[1] < MIN_PATTERN_SCORE
    return scores[0] >= MIN_PATTERN_SCORE and is_gap_clear and most == [True, False]


def _two_heads(
    search: Search,
    rows: tuple[AttentionRow, AttentionRow],
    pattern: KeyPattern | None = None,
    scores: tuple[float, ...] = (),
) -> Question:
    """Return the question which of two heads does something; the first does, at a random place."""
    answer = search.random.randrange(2)
    right, other = rows
    heads = rows if answer == 0 else (other, right)
    ordered = scores if answer == 0 else scores[::-1]
    return Question("head", right, answer, heads=heads, pattern=pattern, scores=ordered)


def find_ablation_questions(search: Search) -> Iterator[Question]:
    """Yield questions on two heads of a small model that read the same token where it answers: the
    answer is another one without both, and which of them it needs is what each alone changes.
    """
    prediction = search.trace.prediction
    position = None if prediction is None else prediction.main_position
    if search.trace.model is None or not is_unmodified_model(search.trace.origin):
        return
    readers = [
        row
        for row in search.rows
        if row.query == position and row.is_clear and row.weights.max() >= MIN_ROLE_WEIGHT
    ]
    for pair in combinations(readers, 2):
        names = sorted(row.head_name for row in pair)
        if pair[0].best != pair[1].best or pair[0].best == position:
            continue
        text, settings = search.trace.tokens.text, search.trace.origin.settings
        ways = ((), *((name,) for name in names), tuple(names))
        runs = [_run_model(text, settings, off) for off in ways]
        are_sure = all(run.probability >= MIN_ANSWER_PROBABILITY for run in runs)
        if not are_sure or runs[0].answer == runs[-1].answer:
            continue
        pairs = zip(names, runs[1:-1], strict=True)
        needed = tuple(name for name, run in pairs if run.answer != runs[0].answer)
        needs = shuffled(search, ways)
        yield Question("ablation", pair[0], needs.index(needed), needs=needs, runs=tuple(runs))


@lru_cache(maxsize=64)
def _run_model(text: str, settings: Settings, off: tuple[str, ...]) -> ModelRun:
    """Return what the model answers where it is asked, without some heads."""
    prediction = trace_text(text, replace(settings, without=",".join(off) or None)).prediction
    assert prediction is not None
    assert prediction.main_position is not None
    [best] = prediction.best(prediction.main_position, 1)
    probability = float(prediction.probabilities[prediction.main_position, best])
    return ModelRun(off, prediction.answers[best], probability)


FINDERS: Mapping[str, Callable[[Search], Iterator[Question]]] = {
    **{kind: partial(find_number_questions, kind=kind) for kind in NUMBER_CASES},
    "token": find_token_questions,
    "scaled": find_scaled_questions,
    "mask": find_mask_questions,
    "head": lambda search: chain(_role_questions(search), _pattern_questions(search)),
    "ablation": find_ablation_questions,
}


# Why no question of a kind has a clear answer, with the numbers that decide it.


def explain_unclear(rows: Sequence[AttentionRow], kinds: Sequence[str]) -> str:
    if not rows:
        return (
            "no token can be asked about: all are there twice, special, punctuation, or parts of a "
            "letter"
        )
    most = max(len(row.plain_keys) for row in rows)
    if most < MAX_ANSWERS and not {"token", "mask"}.isdisjoint(kinds):
        return (
            f"{counted(most, 'token')} can be answers, and {MAX_ANSWERS} are needed; those that "
            "are there twice, special tokens, punctuation and parts of a letter do not count"
        )
    reasons = {kind: EXPLANATIONS[kind](rows) for kind in kinds[:MAX_EXPLAINED_KINDS]}
    if len(kinds) == 1:
        return reasons[kinds[0]]
    return "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items())


def _lead(row: AttentionRow) -> float:
    """Return how far the largest visible weight is above the next one."""
    seen = np.sort(row.weights[row.visible])
    return float(seen[-1] - seen[-2]) if len(seen) > 1 else 0.0


def _row_name(row: AttentionRow) -> str:
    return f'"{row.trace.tokens.labels[row.query]}" in {row.head_name}'


def _explain_token(rows: Sequence[AttentionRow]) -> str:
    """Return what the row with the clearest weights lacks."""
    row = max(rows, key=lambda each: (each.is_clear, each.best in each.plain_keys, _lead(each)))
    seen = np.sort(row.weights[row.visible])[::-1]
    if len(seen) < MAX_ANSWERS:
        return f"{_row_name(row)} sees {counted(len(seen), 'token')}, and {MAX_ANSWERS} are needed"
    if row.is_clear and not row.can_be_told:
        if len(row.keys) > MAX_SHOWN_KEYS:
            return (
                "only scores could tell, and those of "
                f"{len(row.keys)} tokens are too many to show (at most {MAX_SHOWN_KEYS})"
            )
        return f"nothing that can be shown tells what {_row_name(row)} attends to most"
    if row.is_clear:
        return f"fewer than {MAX_ANSWERS} visible tokens can be answers for {_row_name(row)}"
    if row.best not in row.plain_keys:
        best = row.keys.labels[row.best]
        return f'{_row_name(row)} attends most to "{best}", which is no clear answer'
    two = f"the two largest weights of {_row_name(row)} are {share_text(seen[0])} and "
    even = ", and all are nearly even" if row.evenness >= MAX_CLEAR_EVENNESS else ""
    return f"{two}{share_text(seen[1])}{even}"


def _explain_weight(rows: Sequence[AttentionRow]) -> str:
    if all(row.scores is None for row in rows):
        return "the weights are not the softmax of scores that can be shown"
    least = min(int(row.visible.sum()) for row in rows)
    if least > MAX_SUMMED:
        return f"at most {MAX_SUMMED} visible tokens can be added up, and there are {least}"
    return f"no weight has three others apart {ON_PAPER}"


def _explain_scaled(rows: Sequence[AttentionRow]) -> str:
    """Return how little the division by √d_k changes."""
    gains = [
        float(row.unscaled.max() - row.weights.max()) for row in rows if row.unscaled is not None
    ]
    if not gains:
        return "division by √d_k is not all that lies between the products and the weights"
    return (
        f"without the division the largest weight is at most {share_text(max(gains))} larger, and "
        f"{share_text(MIN_SHARPENING)} is needed"
    )


def _explain_mask(rows: Sequence[AttentionRow]) -> str:
    """Return why the mask leaves nothing to ask."""
    if all(row.visible.all() for row in rows):
        return "no token is hidden"
    return "too few tokens are hidden or visible to choose from"


EXPLANATIONS: Mapping[str, Callable[[Sequence[AttentionRow]], str]] = {
    "token": _explain_token,
    "row": lambda rows: "no two tokens give each other clearly different weights",
    "weight": _explain_weight,
    "scaled": _explain_scaled,
    "temperature": lambda rows: f"no largest weight grows much at half the temperature {ON_PAPER}",
    "mask": _explain_mask,
    "visible": _explain_mask,
    "value": lambda rows: (
        f"no token has a weight of {share_text(VALUE_GAP)}, and the new number three others "
        f"apart {ON_PAPER}"
    ),
    "order": lambda rows: (
        "only words of random vectors without positions and without a mask can change places"
    ),
    "head": lambda rows: "no two heads differ clearly enough",
    "ablation": lambda rows: (
        "no two heads of a small model read the same token and together decide its answer"
    ),
}
