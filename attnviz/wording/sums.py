"""Arithmetic written out with its numbers, and honest about it.

Between two sides stands `=` where the numbers as printed, evaluated as written, give the printed
result to its last digit, and `≈` where the digits that are not shown make a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from attnviz.wording.numbers import Style, exact_text

Numbers = Sequence[float]

TERMS = 16  # of a sum that are written; of a longer one
FIRST, LAST = 6, 2  # the first and the last
SHIFTED = 50.0  # larger scores are written less the largest of them, or exp of them overflows


@dataclass(frozen=True)
class Sum:
    """One line: what is computed, how, and what comes out."""

    left: str
    right: str
    result: str
    exact: bool  # whether what is printed on the right gives what is printed as the result

    @property
    def right_side(self) -> str:
        """What stands behind the first sign, the result and its own sign included."""
        sign = "=" if self.exact else "≈"
        return f"{self.right} {sign} {self.result}" if self.result else self.right

    @property
    def text(self) -> str:
        return f"{self.left} = {self.right_side}"


def dot(
    left: str,
    first: Numbers,
    second: Numbers,
    result: float,
    style: Style,
    ends: Style | None = None,
    more: float | None = None,
) -> Sum:
    """`0.26·0.88 + 0.79·0.92 = 0.96`; `ends` is the style of what comes out, `more` is added."""
    ours, theirs, ends = style.of(*first), style.of(*second), ends or style.of(result)
    pairs = list(zip(first, second, strict=True))
    terms = [f"{ours(one)}·{_factor(theirs(other))}" for one, other in pairs]
    value = sum(ours.printed(one) * theirs.printed(other) for one, other in pairs)
    right = added(terms, style)
    if more is not None:
        also = style.of(more)
        right, value = _plus(right, also(more)), value + also.printed(more)
    return _sum(left, right, value, result, ends)


def additive(
    left: str,
    weights: Numbers,
    vectors: tuple[Numbers, Numbers],
    result: float,
    style: Style,
    ends: Style,
) -> Sum:
    """`0.26·tanh(0.88 + 0.92) - 0.79·tanh(0.92 - 0.39) = -0.14`"""
    own, (query, key) = style.of(*weights), (style.of(*vector) for vector in vectors)
    triples = list(zip(weights, *vectors, strict=True))
    terms = [f"{own(by)}·tanh({_plus(query(one), key(other))})" for by, one, other in triples]
    value = sum(
        own.printed(by) * math.tanh(query.printed(one) + key.printed(other))
        for by, one, other in triples
    )
    return _sum(left, added(terms, style), value, result, ends)


def total(left: str, terms: Numbers, place: int, results: Numbers, style: Style) -> Sum:
    """`0.21 + 0.19 = 0.40`, one number of a vector"""
    written = style.of(*terms)
    value = sum(written.printed(term) for term in terms)
    right = added([written(term) for term in terms], style)
    return _sum(left, right, value, results[place], style.of(*results))


def mixture(
    left: str,
    weights: Numbers,
    vectors: Sequence[Numbers],
    result: Numbers,
    style: Style,
    bias: Numbers | None = None,
    *,
    shares: bool = False,
) -> Sum:
    """`0.24·[0.88 0.92] + 0.76·[0.96 0.39] = [0.94 0.52]`; shares are never written as whole."""
    right, values = _mixed(weights, vectors, bias, style, shares=shares)
    values = values if weights else [0.0] * len(result)
    return _vector_sum(left, right, values, result, style)


def vectors_added(left: str, vectors: Sequence[Numbers], result: Numbers, style: Style) -> Sum:
    """`[0.88 0.92] + [0.10 0.00] = [0.98 0.92]`"""
    styles = [style.of(*vector) for vector in vectors]
    terms = [vector_text(vector, own) for vector, own in zip(vectors, styles, strict=True)]
    printed = [
        [own.printed(n) for n in vector] for vector, own in zip(vectors, styles, strict=True)
    ]
    values = [reduce(add, column) for column in zip(*printed, strict=True)]
    return _vector_sum(left, " + ".join(terms), values, result, style)


def mean_of_vectors(left: str, vectors: Sequence[Numbers], result: Numbers, style: Style) -> Sum:
    """`([0.88 0.92] + [0.10 0.00]) / 2 = [0.49 0.46]`"""
    own, count = style.of(*(number for vector in vectors for number in vector)), len(vectors)
    terms = [vector_text(vectors[place], own) for place in _shown(count, style)]
    whole = len(terms) == count
    columns = zip(*vectors, strict=True)
    values = [sum(map(own.printed, column)) / count for column in columns] if whole else None
    return _vector_sum(left, f"({_joined(terms, count)}) / {count}", values, result, style)


def quotient(
    left: str,
    values: Numbers,
    place: int,
    divisors: Sequence[str],
    by: float,
    results: Numbers,
    style: Style,
) -> Sum:
    """`1.31 / √3 = 0.76`, one of a row; what it is divided by is exact as it is written."""
    written = style.of(*values)
    value = written.printed(values[place]) / by
    right = " / ".join([written(values[place]), *divisors])
    return _sum(left, right, value, results[place], style.of(*results))


def capped(
    left: str, values: Numbers, place: int, cap: float, results: Numbers, style: Style
) -> Sum:
    """`50·tanh(1.31 / 50) = 1.31`, one of a row; the cap is exact as it is written."""
    written, ends = style.of(*values), style.of(*results)
    value = cap * math.tanh(written.printed(values[place]) / cap)
    right = f"{exact_text(cap)}·tanh({written(values[place])} / {exact_text(cap)})"
    return _sum(left, right, value, results[place], ends)


def less(
    left: str,
    values: Numbers,
    place: int,
    factors: tuple[float, int],
    results: Numbers,
    style: Style,
) -> Sum:
    """`0.76 - 0.0625·2 = 0.64`, one of a row; the slope is exact as it is written."""
    written, (slope, distance) = style.of(*values), factors
    value = written.printed(values[place]) - slope * distance
    right = f"{written(values[place])} - {slope!r}·{distance}"
    return _sum(left, right, value, results[place], style.of(*results))


def more(
    left: str, values: Numbers, place: int, added: Numbers, results: Numbers, style: Style
) -> Sum:
    """`0.76 - 1.00 = -0.24`, one of a row, and what is added to it."""
    written, also = style.of(*values), style.of(added[place])
    value = written.printed(values[place]) + also.printed(added[place])
    right = _plus(written(values[place]), also(added[place]))
    return _sum(left, right, value, results[place], style.of(*results))


def match(
    left: str,
    named: Sequence[tuple[str, float, float]],
    by: tuple[Sequence[str], float],
    more: float,
    result: float,
    style: Style,
) -> Sum:
    """`(animal 14·1 + singular 6·1) / √4 + 5 = 15`: products by their names, and what is added."""
    ours, theirs = style.of(*(each[1] for each in named)), style.of(*(each[2] for each in named))
    terms = [f"{name} {ours(one)}·{_factor(theirs(other))}" for name, one, other in named]
    (divisors, divisor), also = by, style.of(more)
    whole = added(terms, style)
    right = " / ".join([f"({whole})" if divisors else whole, *divisors])
    value = sum(ours.printed(one) * theirs.printed(other) for _, one, other in named) / divisor
    right = _plus(right, also(more)) if also.printed(more) else right
    return _sum(left, right, value + also.printed(more), result, style.of(result))


def product(left: str, first: float, second: float, result: float, style: Style) -> Sum:
    """`0.24·2 = 0.48`, of shares"""
    other = style.of(second)
    value = style.printed(first) * other.printed(second)
    return _sum(left, f"{style(first)}·{other(second)}", value, result, style)


def scaled_vector(left: str, weight: float, vector: Numbers, result: Numbers, style: Style) -> Sum:
    """`0.24·[0.88 0.92] = [0.21 0.22]`"""
    return mixture(left, [weight], [vector], result, style, shares=True)


def softmax(left: str, scores: Numbers, place: int, result: float, style: Style) -> Sum:
    """`exp(1.31) / (exp(1.31) + exp(1.12)) = 0.55`

    Scores whose exp is too large for a calculator are written less the largest of them.
    """
    written = style.of(*scores)
    shift = written.printed(max(scores)) if max(map(abs, scores)) > SHIFTED else 0.0
    behind = _plus("", written(-shift)) if shift else ""
    printed = [math.exp(written.printed(score) - shift) for score in scores]
    terms = [f"exp({written(score)}{behind})" for score in scores]
    right = f"{terms[place]} / ({added(terms, style)})"
    return _sum(left, right, printed[place] / sum(printed), result, style)


def length(left: str, vector: Numbers, result: float, style: Style) -> Sum:
    """`√(3² + (-4)²) = 5`"""
    written = style.of(*vector)
    terms = [f"{_factor(written(number))}²" for number in vector]
    value = math.hypot(*(written.printed(number) for number in vector))
    return _sum(left, f"√({added(terms, style)})", value, result, style.of(result))


def cosine(left: str, score: float, lengths: Numbers, result: float, style: Style) -> Sum:
    """`1.31 / (1.25·1.07) = 0.98`"""
    styles = [style.of(number) for number in (score, *lengths)]
    above, *below = (own.printed(n) for own, n in zip(styles, (score, *lengths), strict=True))
    over, *under = (own(number) for own, number in zip(styles, (score, *lengths), strict=True))
    right = f"{over} / ({'·'.join(under)})"
    return _sum(left, right, above / math.prod(below), result, style.of(result))


def angle(left: str, cosine: float, degrees: float, style: Style) -> Sum:
    """`arccos(0.98) = 11.48°`"""
    written, ends = style.of(cosine), style.of(degrees)
    value = math.degrees(math.acos(min(max(written.printed(cosine), -1.0), 1.0)))
    made = _sum(left, f"arccos({written(cosine)})", value, degrees, ends)
    return replace(made, result=f"{made.result}°")


def polar(left: str, lengths: Numbers, cosine: float, result: float, style: Style) -> Sum:
    """`1.25·1.07·0.98 = 1.31`"""
    factors = [*lengths, cosine]
    styles = [style.of(number) for number in factors]
    value = math.prod(own.printed(n) for own, n in zip(styles, factors, strict=True))
    terms = [_factor(own(number)) for own, number in zip(styles, factors, strict=True)]
    return _sum(left, "·".join(terms), value, result, style.of(result))


def turned(left: str, pair: Numbers, angle: float, result: Numbers, style: Style) -> Sum:
    """`[0.88·cos 1.00 - 0.92·sin 1.00, 0.88·sin 1.00 + 0.92·cos 1.00] = [-0.30 1.24]`"""
    own, by = style.of(*pair), style.of(angle)
    even, odd, less = own(pair[0]), own(pair[1]), own(-pair[1])
    cos, sin = f"·cos({by(angle)})", f"·sin({by(angle)})"
    first, second = added([even + cos, less + sin], style), added([even + sin, odd + cos], style)
    right = f"[{first}, {second}]"
    x, y, radians = *(own.printed(number) for number in pair), by.printed(angle)
    values = [
        x * math.cos(radians) - y * math.sin(radians),
        x * math.sin(radians) + y * math.cos(radians),
    ]
    return _vector_sum(left, right, values, result, style)


def mean(left: str, numbers: Numbers, result: float, style: Style) -> Sum:
    """`(0.88 + 0.92) / 2 = 0.90`"""
    written = style.of(*numbers)
    terms = [written(number) for number in numbers]
    value = sum(written.printed(number) for number in numbers) / len(numbers)
    return _sum(left, f"({added(terms, style)}) / {len(numbers)}", value, result, style.of(result))


def variance(left: str, numbers: Numbers, mean: float, result: float, style: Style) -> Sum:
    """`((0.88 - 0.90)² + (0.92 - 0.90)²) / 2 = 4.0e-04`"""
    written, middle = style.of(*numbers), style.of(mean)
    less = _plus("", middle(-mean)).strip()
    terms = [f"({written(number)} {less})²" for number in numbers]
    centre = -middle.printed(-mean)
    value = sum((written.printed(number) - centre) ** 2 for number in numbers) / len(numbers)
    return _sum(left, f"({added(terms, style)}) / {len(numbers)}", value, result, style.of(result))


def normed(
    left: str,
    numbers: Numbers,
    mean: float,
    spread: tuple[float, float],
    result: Numbers,
    style: Style,
    learned: tuple[Numbers, Numbers] | None = None,
) -> Sum:
    """`([0.88 0.92] - 0.90) / √(4.0e-04 + 1e-05) = [-0.99 0.99]`

    `spread` is the variance, and what is added to it. Where a gain and a shift are `learned`,
    they follow number by number: `… · [1.10 0.90] + [0.10 0.00]`.
    """
    variance, least = spread
    written, middle, wide = style.of(*numbers), style.of(mean), style.of(variance)
    less = _plus("", middle(-mean)).strip()
    right = f"({vector_text(numbers, written)} {less}) / √({wide(variance)} + {least:g})"
    centre, root = -middle.printed(-mean), math.sqrt(wide.printed(variance) + least)
    values = [(written.printed(number) - centre) / root for number in numbers]
    if learned is not None:
        gain, shift = (style.of(*each) for each in learned)
        right += f" · {vector_text(learned[0], gain)} + {vector_text(learned[1], shift)}"
        pairs = zip(values, *learned, strict=True)
        values = [each * gain.printed(by) + shift.printed(more) for each, by, more in pairs]
    return _vector_sum(left, right, values, result, style)


def activated(
    left: str,
    activation: str,
    weights: Numbers,
    vectors: Sequence[Numbers],
    bias: Numbers | None,
    result: Numbers,
    style: Style,
) -> Sum:
    """`relu(0.24·[0.88 -0.92] + 0.76·[0.96 0.39]) = [0.94 0.08]`"""
    right, values = _mixed(weights, vectors, bias, style)
    function = ACTIVATIONS[activation]
    results = None if values is None else [function(value) for value in values]
    return _vector_sum(left, f"{activation.replace('-', '_')}({right})", results, result, style)


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda value: max(value, 0.0),
    "gelu": lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2,
    "gelu-tanh": lambda value: value * (1 + math.tanh(_bent(value))) / 2,
}


def _bent(value: float) -> float:
    return math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)


def vector_text(vector: Numbers, style: Style) -> str:
    """
    >>> vector_text([0.881, 0.9, 0.4], Style())
    '[0.88 0.90 0.40]'
    """
    numbers = [style(number) for number in vector]
    if not style.full and len(numbers) > TERMS:
        numbers = [*numbers[:FIRST], "…", *numbers[-LAST:]]
    return f"[{' '.join(numbers)}]"


def added(terms: Sequence[str], style: Style) -> str:
    """Terms with + or - between them; of very many the first and the last.

    >>> added(["1·2", "-3·4"], Style())
    '1·2 - 3·4'
    """
    return _joined([terms[place] for place in _shown(len(terms), style)], len(terms))


def _factor(number: str) -> str:
    """A second factor below 0 stands in parentheses, or its minus is lost behind the point."""
    return f"({number})" if number.startswith("-") else number


def _joined(written: list[str], count: int) -> str:
    """The terms that are written, and how many are not; a sum of nothing is 0."""
    if not count:
        return "0"
    if len(written) < count:
        written.insert(FIRST, f"… {count - len(written)} more …")
    return reduce(_plus, written[1:], written[0])


def _shown(count: int, style: Style) -> Sequence[int]:
    """Which terms of a sum are written."""
    if style.full or count <= TERMS:
        return range(count)
    return [*range(FIRST), *range(count - LAST, count)]


def _mixed(
    weights: Numbers,
    vectors: Sequence[Numbers],
    bias: Numbers | None,
    style: Style,
    *,
    shares: bool = False,
) -> tuple[str, list[float] | None]:
    """Vectors times their weights, added up: as text, and what that text comes to.

    What a text comes to that leaves terms out, nobody can say, and it is not worked out.
    """
    shown = _shown(len(weights), style)
    if not shown:
        return "0", None
    pairs = [(weights[place], vectors[place]) for place in shown]
    ours = style if shares else style.of(*weights)
    theirs = style.of(*(number for _, vector in pairs for number in vector))
    terms = [f"{ours(weight)}·{vector_text(vector, theirs)}" for weight, vector in pairs]
    also = None if bias is None else style.of(*bias)
    last = [] if also is None or bias is None else [vector_text(bias, also)]
    text = reduce(_plus, last, _joined(terms, len(weights)))
    if len(shown) < len(weights):
        return text, None
    values = [0.0] * len(pairs[0][1]) if bias is None or also is None else map(also.printed, bias)
    for weight, vector in pairs:
        share = ours.printed(weight)
        values = [
            so_far + share * theirs.printed(each)
            for so_far, each in zip(values, vector, strict=True)
        ]
    return text, list(values)


def _plus(sum_so_far: str, term: str) -> str:
    negative = term.startswith("-")
    return f"{sum_so_far} - {term[1:]}" if negative else f"{sum_so_far} + {term}"


def _sum(left: str, right: str, value: float, result: float, style: Style) -> Sum:
    return Sum(left, right, style(result), "…" not in right and _same(value, result, style))


def _vector_sum(
    left: str, right: str, values: Numbers | None, result: Numbers, style: Style
) -> Sum:
    """None is what nobody can work out from what is written."""
    ends = style.of(*result)
    exact = (
        values is not None
        and "…" not in right
        and all(_same(one, other, ends) for one, other in zip(values, result, strict=True))
    )
    return Sum(left, right, vector_text(result, ends), exact)


def _same(value: float, result: float, style: Style) -> bool:
    """Whether a value, written like the result, reads like it."""
    return abs(value - result) < 1e-9 if style.form == "whole" else style(value) == style(result)
