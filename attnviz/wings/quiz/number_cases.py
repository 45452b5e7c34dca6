"""Numbers that a quiz can ask for, each with the wrong ones that mistakes give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float

from attnviz.attention.arithmetic import mix_values
from attnviz.traces.from_text import trace as trace_text
from attnviz.wings.quiz.attention_row import (
    MAX_EVENNESS,
    AttentionRow,
    Search,
    attention_rows,
    has_plain_mask,
)
from attnviz.wings.quiz.lesson import MAX_ANSWERS
from attnviz.wording.numbers import fixed_text

MIN_ANSWER_GAP = 0.05  # between two weights that are answers
ANSWER_RANGE = (0.005, 0.995)  # of a weight that is an answer
WEIGHT_RANGE = (0.05, 0.95)  # of a weight that is asked for
MAX_SUMMED = 8  # scores in a softmax that is to be computed
SAME_WEIGHT_TOLERANCE = 1e-4  # of a weight before and after words change places
DECIMALS = 2  # of numbers that are printed
VALUE_GAP = 0.12  # between two numbers of a context vector that are answers


@dataclass(frozen=True, eq=False)
class NumberCase:
    """A number that can be asked for, and wrong ones in the order in which they are wanted, each
    with the reply to whoever chooses it: the mistake that gives it.
    """

    row: AttentionRow
    right: float
    wrong: tuple[tuple[float, str], ...]
    key: int | None = None
    limits: tuple[float, float] = ANSWER_RANGE
    gap: float = MIN_ANSWER_GAP  # at least this is between two answers
    is_first_needed: bool = False  # whether the first wrong number must be an answer
    by_hand: float | None = None  # what the printed numbers give; None for one that is read off
    other_text: str = ""  # the same words in another order

    @property
    def agrees_on_paper(self) -> bool:
        """Whether the printed numbers give the right one to its last printed digit."""
        by_hand = self.right if self.by_hand is None else self.by_hand
        return fixed_text(by_hand, DECIMALS) == fixed_text(self.right, DECIMALS)

    def answers_around(self, rank: int) -> dict[float, str]:
        """Return four answers, of which `rank` are below the right one, each with its reply; empty
        if there are too few.
        """
        low, high = self.limits
        rooms = {True: rank, False: MAX_ANSWERS - 1 - rank}  # by whether they are below
        answers = {self.right: ""}
        for number, reply in self.wrong:
            is_below = number < self.right
            is_apart = all(abs(number - other) >= self.gap for other in answers)
            if is_apart and rooms[is_below] and low <= number <= high:
                rooms[is_below] -= 1
                answers[number] = reply
        has_first = not self.is_first_needed or self.wrong[0][0] in answers
        return answers if len(answers) == MAX_ANSWERS and has_first else {}


def _weight_cases(search: Search) -> Iterator[NumberCase]:
    """Yield the weights that may be far enough from three other numbers that a mistake would
    give.
    """
    low, high = WEIGHT_RANGE
    for row in search.rows:
        if row.scores is None or row.evenness >= MAX_EVENNESS or row.visible.sum() > MAX_SUMMED:
            continue
        if not row.has_readable_numbers:
            continue
        keys = [key for key in row.plain_keys if row.visible[key] and low < row.weights[key] < high]
        for key in search.random.sample(keys, len(keys)):
            wrong = tuple(_mistaken_weights(row, key))
            by_hand = float(row.softmax(as_printed(row.scores))[key])
            yield NumberCase(row, float(row.weights[key]), wrong, key, by_hand=by_hand)


def as_printed(numbers: Float[np.ndarray, "key"]) -> Float[np.ndarray, "key"]:
    """Return numbers as a sheet prints them."""
    return np.round(numbers, DECIMALS)


def _mistaken_weights(row: AttentionRow, key: int) -> Iterator[tuple[float, str]]:
    """Yield what mistakes give, each with its reply: the share of the scores without exp, the
    softmax of scores divided by √d_k again, even weights, another key's weight, the rest of the
    row; then numbers between, which no mistake gives.
    """
    assert row.scores is not None
    positive = np.maximum(row.scores, 0)
    if positive.any():
        yield (
            float(positive[key] / positive.sum()),
            "That is the share of the score itself, without exp.",
        )
    if row.unscaled is not None:
        twice = row.softmax(row.scores / sqrt(row.layer.head_dim))
        yield float(twice[key]), "That divides by √d_k once more: these scores are scaled."
    yield _even_share(row)
    yield from _other_weights(row, key)
    right = float(row.weights[key])
    yield 1 - right, "That is what all other tokens get together."
    yield from _numbers_around(right)


def _even_share(row: AttentionRow) -> tuple[float, str]:
    return 1 / float(row.visible.sum()), "That is an even share: it ignores the scores."


def _other_weights(row: AttentionRow, key: int) -> Iterator[tuple[float, str]]:
    """Yield the weights of the other keys of a row, the largest first."""
    others = sorted(np.flatnonzero(row.visible).tolist(), key=lambda each: -row.weights[each])
    for other in others:
        if other != key:
            yield float(row.weights[other]), f'That is what "{row.keys.labels[other]}" gets.'


def _numbers_around(right: float) -> Iterator[tuple[float, str]]:
    """Yield weights below and above the right one, which no mistake gives."""
    between = (right / 2, (1 + right) / 2, right**0.5, right**2, right * 0.75, right * 0.25)
    above = (right + (1 - right) * share for share in (0.25, 0.75))
    yield from ((number, "") for number in (*between, *above))


def _row_cases(search: Search) -> Iterator[NumberCase]:
    """Yield cells of a map whose mirror image is another number: which token reads which."""
    for row in search.rows:
        if len(row.keys) > MAX_SUMMED or row.keys is not row.trace.tokens:
            continue
        others = attention_rows(row.trace, (row.head_name,), range(len(row.keys)))
        columns = np.stack([each.weights for each in others])
        if not np.allclose(columns.sum(axis=1), 1, atol=1e-3):
            continue
        keys = [key for key in row.plain_keys if row.visible[key] and key != row.query]
        for key in search.random.sample(keys, len(keys)):
            reader, target = (f'"{row.keys.labels[at]}"' for at in (row.query, key))
            mirrored = float(columns[key, row.query])
            if abs(mirrored - row.weights[key]) < MIN_ANSWER_GAP or mirrored < ANSWER_RANGE[0]:
                continue
            wrong = (
                (mirrored, f"That is what {target} gives {reader}: the row is the token that "
                 "reads, the column the one that is read."),
                (float(row.weights[row.query]), f"That is what {reader} gives itself."),
                (float(columns[key, key]), f"That is what {target} gives itself."),
                *_other_weights(row, key),
            )  # fmt: skip
            right = float(row.weights[key])
            yield NumberCase(row, right, wrong, key, is_first_needed=True)


def _temperature_cases(search: Search) -> Iterator[NumberCase]:
    """Yield the largest weights, as they are at half the temperature."""
    for row in search.rows:
        if row.scores is None or row.unscaled is None or not 1 < len(row.keys) <= MAX_SUMMED:
            continue
        largest = float(row.weights.max())
        right = float(row.softmax(2 * row.scores).max())
        wrong = (
            (largest, "That is the weight before: halving the temperature doubles the scores."),
            (largest / 2, "That is half the weight: temperature divides scores, not weights."),
            (float(row.softmax(row.scores / 2).max()),
             "That is twice the temperature: scores divided by 2, not by ½."),
            (2 * largest, "That is twice the weight: softmax is not proportional to scores."),
            *_numbers_around(right),
        )  # fmt: skip
        by_hand = float(row.softmax(2 * as_printed(row.scores)).max())
        leads = largest - np.sort(row.weights)[-2] >= MIN_ANSWER_GAP
        if leads and right - largest >= MIN_ANSWER_GAP:
            yield NumberCase(row, right, wrong, row.best, is_first_needed=True, by_hand=by_hand)


def _value_cases(search: Search) -> Iterator[NumberCase]:
    """Yield the first number of context vectors, after that of one value has grown."""
    for row in search.rows:
        layer = row.layer
        is_known = not layer.weights_alone and row.trace.trained is None
        if not is_known or not 2 < row.visible.sum() <= len(row.keys) <= MAX_SUMMED:
            continue
        weights, values = layer.attended.mixing, layer.values_of_heads
        before = float(mix_values(weights, values)[row.head, row.query, 0])
        keys = [key for key in row.plain_keys if row.visible[key]]
        for key in search.random.sample(keys, len(keys)):
            grown = values.clone()
            grown[:, key, 0] += 1
            right = float(mix_values(weights, grown)[row.head, row.query, 0])
            label = row.keys.labels[key]
            wrong = (
                (before, "That is the number before: the weights stay as they are, but they mix "
                 "the new values."),
                (before + 1, f'That adds the whole change: "{label}" counts only with its '
                 "weight."),
                (before + 1 / float(row.visible.sum()), "That is an even share of the change: "
                 "it ignores the weights."),
                (float(grown[row.head, key, 0]), f'That is the new value of "{label}" alone: the '
                 "others are mixed in, too."),
                *((before + share, "") for share in (0.25, 0.5, 0.75, -0.25, -0.5, 1.25)),
            )  # fmt: skip
            if row.weights[key] >= VALUE_GAP:
                limits = -np.inf, np.inf
                by_hand = float(as_printed(np.array([before, row.weights[key]])).sum())
                yield NumberCase(row, right, wrong, key, limits, VALUE_GAP, True, by_hand)


def _order_cases(search: Search) -> Iterator[NumberCase]:
    """Yield weights of random vectors without positions, where two words have changed places."""
    for row in search.rows:
        traced, words = row.trace, row.trace.tokens.text.split()
        settings = traced.origin.settings
        sees_all = bool(row.layer.visible.all()) and row.keys is traced.tokens
        is_first = row.has_random_vectors and row.layer.layer == 0
        is_plain = sees_all and is_first and settings.positions == "none"
        others = [key for key in row.plain_keys if key != row.query]
        if not is_plain or len(words) != len(row.keys) or not 2 < len(words) <= MAX_SUMMED:
            continue
        if len(others) < 2:
            continue
        first, last = others[0], others[-1]
        words[first], words[last] = words[last], words[first]
        other = trace_text(" ".join(words), settings)
        if sorted(other.tokens.ids) != sorted(traced.tokens.ids):
            continue
        moved = next(attention_rows(other, (row.head_name,), (row.query,)))
        wrong = (
            (float(row.weights[last]), "That is what stood at this place before: without positions "
             "a weight goes with the word, not with its place."),
            _even_share(row),
            *_other_weights(row, first),
            *_numbers_around(float(row.weights[first])),
        )  # fmt: skip
        right = float(moved.weights[last])
        if abs(right - row.weights[first]) > SAME_WEIGHT_TOLERANCE:
            continue
        text = other.tokens.text
        yield NumberCase(row, right, wrong, first, other_text=text, is_first_needed=True)


def _visible_case(row: AttentionRow) -> NumberCase:
    """Return how many keys a row sees; one wrong number is how many it does not see."""
    total, seen = len(row.visible), int(row.visible.sum())
    wrong = ((total - seen, "That is how many tokens are hidden."),
             (total, "That is the number of all tokens."),
             (seen - 1, "A token sees itself, too."),
             *((seen + step, "") for step in (1, 2, -2, -3, 3)))  # fmt: skip
    return NumberCase(row, seen, wrong, limits=(1, total), gap=1)


def masked_rows(search: Search) -> Iterator[AttentionRow]:
    """Yield the rows in which a plain mask hides a key, but not all: one for each query."""
    asked = set[int]()
    for row in search.rows:
        is_masked = 0 < row.visible.sum() < len(row.visible)
        if row.query not in asked and is_masked and has_plain_mask(row.layer):
            asked.add(row.query)
            yield row


NUMBER_CASES: Mapping[str, Callable[[Search], Iterable[NumberCase]]] = {  # by kind of question
    "row": _row_cases,
    "weight": _weight_cases,
    "temperature": _temperature_cases,
    "visible": lambda search: map(_visible_case, masked_rows(search)),
    "value": _value_cases,
    "order": _order_cases,
}
