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

from attnviz.wording.numbers import NumberStyle, exact_text

Numbers = Sequence[float]

MAX_TERMS = 16  # of a sum that are written; of a longer one
FIRST_TERMS, LAST_TERMS = 6, 2  # the first and the last
MAX_UNSHIFTED_SCORE = (
    50.0  # larger scores are written less the largest of them, or exp of them overflows
)


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


def dot_product_sum(
    left: str,
    first: Numbers,
    second: Numbers,
    result: float,
    style: NumberStyle,
    result_style: NumberStyle | None = None,
    addend: float | None = None,
) -> Sum:
    """`0.26·0.88 + 0.79·0.92 = 0.96`; `result_style` is the style of what comes out, `addend` is added."""
    first_style, second_style, result_style = (
        style.for_values(*first),
        style.for_values(*second),
        result_style or style.for_values(result),
    )
    pairs = list(zip(first, second, strict=True))
    terms = [
        f"{first_style(left_factor)}·{_factor_text(second_style(right_factor))}"
        for left_factor, right_factor in pairs
    ]
    value = sum(
        first_style.rounded(left_factor) * second_style.rounded(right_factor)
        for left_factor, right_factor in pairs
    )
    right = signed_terms(terms, style)
    if addend is not None:
        addend_style = style.for_values(addend)
        right, value = (
            _append_term(right, addend_style(addend)),
            value + addend_style.rounded(addend),
        )
    return _scalar_sum(left, right, value, result, result_style)


def additive_score_sum(
    left: str,
    weights: Numbers,
    vectors: tuple[Numbers, Numbers],
    result: float,
    style: NumberStyle,
    result_style: NumberStyle,
) -> Sum:
    """`0.26·tanh(0.88 + 0.92) - 0.79·tanh(0.92 - 0.39) = -0.14`"""
    weight_style, (query_style, key_style) = (
        style.for_values(*weights),
        (style.for_values(*vector) for vector in vectors),
    )
    triples = list(zip(weights, *vectors, strict=True))
    terms = [
        f"{weight_style(weight)}·tanh({_append_term(query_style(query_number), key_style(key_number))})"
        for weight, query_number, key_number in triples
    ]
    value = sum(
        weight_style.rounded(weight)
        * math.tanh(query_style.rounded(query_number) + key_style.rounded(key_number))
        for weight, query_number, key_number in triples
    )
    return _scalar_sum(left, signed_terms(terms, style), value, result, result_style)


def vector_entry_sum(
    left: str, terms: Numbers, index: int, results: Numbers, style: NumberStyle
) -> Sum:
    """`0.21 + 0.19 = 0.40`, one number of a vector"""
    term_style = style.for_values(*terms)
    value = sum(term_style.rounded(term) for term in terms)
    right = signed_terms([term_style(term) for term in terms], style)
    return _scalar_sum(left, right, value, results[index], style.for_values(*results))


def weighted_vectors_sum(
    left: str,
    weights: Numbers,
    vectors: Sequence[Numbers],
    result: Numbers,
    style: NumberStyle,
    bias: Numbers | None = None,
    *,
    shares: bool = False,
) -> Sum:
    """`0.24·[0.88 0.92] + 0.76·[0.96 0.39] = [0.94 0.52]`; shares are never written as whole."""
    right, values = _weighted_sum(weights, vectors, bias, style, shares=shares)
    values = values if weights else [0.0] * len(result)
    return _vector_sum(left, right, values, result, style)


def added_vectors_sum(
    left: str, vectors: Sequence[Numbers], result: Numbers, style: NumberStyle
) -> Sum:
    """`[0.88 0.92] + [0.10 0.00] = [0.98 0.92]`"""
    styles = [style.for_values(*vector) for vector in vectors]
    terms = [
        vector_text(vector, vector_style)
        for vector, vector_style in zip(vectors, styles, strict=True)
    ]
    printed = [
        [vector_style.rounded(number) for number in vector]
        for vector, vector_style in zip(vectors, styles, strict=True)
    ]
    values = [reduce(add, column) for column in zip(*printed, strict=True)]
    return _vector_sum(left, " + ".join(terms), values, result, style)


def vector_mean_sum(
    left: str, vectors: Sequence[Numbers], result: Numbers, style: NumberStyle
) -> Sum:
    """`([0.88 0.92] + [0.10 0.00]) / 2 = [0.49 0.46]`"""
    number_style, count = (
        style.for_values(*(number for vector in vectors for number in vector)),
        len(vectors),
    )
    terms = [vector_text(vectors[index], number_style) for index in _written_indices(count, style)]
    is_complete = len(terms) == count
    columns = zip(*vectors, strict=True)
    values = (
        [sum(map(number_style.rounded, column)) / count for column in columns]
        if is_complete
        else None
    )
    return _vector_sum(left, f"({_terms_text(terms, count)}) / {count}", values, result, style)


def quotient_sum(
    left: str,
    values: Numbers,
    index: int,
    divisors: Sequence[str],
    divisor: float,
    results: Numbers,
    style: NumberStyle,
) -> Sum:
    """`1.31 / √3 = 0.76`, one of a row; what it is divided by is exact as it is written."""
    value_style = style.for_values(*values)
    value = value_style.rounded(values[index]) / divisor
    right = " / ".join([value_style(values[index]), *divisors])
    return _scalar_sum(left, right, value, results[index], style.for_values(*results))


def capped_score_sum(
    left: str, values: Numbers, index: int, cap: float, results: Numbers, style: NumberStyle
) -> Sum:
    """`50·tanh(1.31 / 50) = 1.31`, one of a row; the cap is exact as it is written."""
    value_style, result_style = style.for_values(*values), style.for_values(*results)
    value = cap * math.tanh(value_style.rounded(values[index]) / cap)
    right = f"{exact_text(cap)}·tanh({value_style(values[index])} / {exact_text(cap)})"
    return _scalar_sum(left, right, value, results[index], result_style)


def distance_penalty_sum(
    left: str,
    values: Numbers,
    index: int,
    factors: tuple[float, int],
    results: Numbers,
    style: NumberStyle,
) -> Sum:
    """`0.76 - 0.0625·2 = 0.64`, one of a row; the slope is exact as it is written."""
    value_style, (slope, distance) = style.for_values(*values), factors
    value = value_style.rounded(values[index]) - slope * distance
    right = f"{value_style(values[index])} - {slope!r}·{distance}"
    return _scalar_sum(left, right, value, results[index], style.for_values(*results))


def addition_sum(
    left: str, values: Numbers, index: int, addends: Numbers, results: Numbers, style: NumberStyle
) -> Sum:
    """`0.76 - 1.00 = -0.24`, one of a row, and what is added to it."""
    value_style, addend_style = style.for_values(*values), style.for_values(addends[index])
    value = value_style.rounded(values[index]) + addend_style.rounded(addends[index])
    right = _append_term(value_style(values[index]), addend_style(addends[index]))
    return _scalar_sum(left, right, value, results[index], style.for_values(*results))


def named_products_sum(
    left: str,
    named_factors: Sequence[tuple[str, float, float]],
    division: tuple[Sequence[str], float],
    addend: float,
    result: float,
    style: NumberStyle,
) -> Sum:
    """`(animal 14·1 + singular 6·1) / √4 + 5 = 15`: products by their names, and what is added."""
    first_style, second_style = (
        style.for_values(*(each[1] for each in named_factors)),
        style.for_values(*(each[2] for each in named_factors)),
    )
    terms = [
        f"{name} {first_style(first_factor)}·{_factor_text(second_style(second_factor))}"
        for name, first_factor, second_factor in named_factors
    ]
    (divisors, divisor), addend_style = division, style.for_values(addend)
    terms_sum = signed_terms(terms, style)
    right = " / ".join([f"({terms_sum})" if divisors else terms_sum, *divisors])
    value = (
        sum(
            first_style.rounded(first_factor) * second_style.rounded(second_factor)
            for _, first_factor, second_factor in named_factors
        )
        / divisor
    )
    right = _append_term(right, addend_style(addend)) if addend_style.rounded(addend) else right
    return _scalar_sum(
        left, right, value + addend_style.rounded(addend), result, style.for_values(result)
    )


def product_sum(left: str, first: float, second: float, result: float, style: NumberStyle) -> Sum:
    """`0.24·2 = 0.48`, of shares"""
    second_style = style.for_values(second)
    value = style.rounded(first) * second_style.rounded(second)
    return _scalar_sum(left, f"{style(first)}·{second_style(second)}", value, result, style)


def scaled_vector_sum(
    left: str, weight: float, vector: Numbers, result: Numbers, style: NumberStyle
) -> Sum:
    """`0.24·[0.88 0.92] = [0.21 0.22]`"""
    return weighted_vectors_sum(left, [weight], [vector], result, style, shares=True)


def softmax_sum(left: str, scores: Numbers, index: int, result: float, style: NumberStyle) -> Sum:
    """`exp(1.31) / (exp(1.31) + exp(1.12)) = 0.55`

    Scores whose exp is too large for a calculator are written less the largest of them.
    """
    score_style = style.for_values(*scores)
    shift = score_style.rounded(max(scores)) if max(map(abs, scores)) > MAX_UNSHIFTED_SCORE else 0.0
    shift_text = _append_term("", score_style(-shift)) if shift else ""
    exponentials = [math.exp(score_style.rounded(score) - shift) for score in scores]
    terms = [f"exp({score_style(score)}{shift_text})" for score in scores]
    right = f"{terms[index]} / ({signed_terms(terms, style)})"
    return _scalar_sum(left, right, exponentials[index] / sum(exponentials), result, style)


def vector_length_sum(left: str, vector: Numbers, result: float, style: NumberStyle) -> Sum:
    """`√(3² + (-4)²) = 5`"""
    number_style = style.for_values(*vector)
    terms = [f"{_factor_text(number_style(number))}²" for number in vector]
    value = math.hypot(*(number_style.rounded(number) for number in vector))
    return _scalar_sum(
        left, f"√({signed_terms(terms, style)})", value, result, style.for_values(result)
    )


def cosine_sum(left: str, score: float, lengths: Numbers, result: float, style: NumberStyle) -> Sum:
    """`1.31 / (1.25·1.07) = 0.98`"""
    styles = [style.for_values(number) for number in (score, *lengths)]
    rounded_score, *rounded_lengths = (
        number_style.rounded(value)
        for number_style, value in zip(styles, (score, *lengths), strict=True)
    )
    score_text, *length_texts = (
        number_style(number) for number_style, number in zip(styles, (score, *lengths), strict=True)
    )
    right = f"{score_text} / ({'·'.join(length_texts)})"
    return _scalar_sum(
        left, right, rounded_score / math.prod(rounded_lengths), result, style.for_values(result)
    )


def angle_sum(left: str, cosine: float, degrees: float, style: NumberStyle) -> Sum:
    """`arccos(0.98) = 11.48°`"""
    cosine_style, degrees_style = style.for_values(cosine), style.for_values(degrees)
    value = math.degrees(math.acos(min(max(cosine_style.rounded(cosine), -1.0), 1.0)))
    arc_cosine = _scalar_sum(left, f"arccos({cosine_style(cosine)})", value, degrees, degrees_style)
    return replace(arc_cosine, result=f"{arc_cosine.result}°")


def polar_product_sum(
    left: str, lengths: Numbers, cosine: float, result: float, style: NumberStyle
) -> Sum:
    """`1.25·1.07·0.98 = 1.31`"""
    factors = [*lengths, cosine]
    styles = [style.for_values(number) for number in factors]
    value = math.prod(
        factor_style.rounded(factor) for factor_style, factor in zip(styles, factors, strict=True)
    )
    terms = [
        _factor_text(factor_style(number))
        for factor_style, number in zip(styles, factors, strict=True)
    ]
    return _scalar_sum(left, "·".join(terms), value, result, style.for_values(result))


def rotation_sum(
    left: str, pair: Numbers, angle: float, result: Numbers, style: NumberStyle
) -> Sum:
    """`[0.88·cos 1.00 - 0.92·sin 1.00, 0.88·sin 1.00 + 0.92·cos 1.00] = [-0.30 1.24]`"""
    pair_style, angle_style = style.for_values(*pair), style.for_values(angle)
    even, odd, negative_odd = pair_style(pair[0]), pair_style(pair[1]), pair_style(-pair[1])
    cos, sin = f"·cos({angle_style(angle)})", f"·sin({angle_style(angle)})"
    first, second = (
        signed_terms([even + cos, negative_odd + sin], style),
        signed_terms([even + sin, odd + cos], style),
    )
    right = f"[{first}, {second}]"
    x, y, radians = *(pair_style.rounded(number) for number in pair), angle_style.rounded(angle)
    values = [
        x * math.cos(radians) - y * math.sin(radians),
        x * math.sin(radians) + y * math.cos(radians),
    ]
    return _vector_sum(left, right, values, result, style)


def mean_sum(left: str, numbers: Numbers, result: float, style: NumberStyle) -> Sum:
    """`(0.88 + 0.92) / 2 = 0.90`"""
    number_style = style.for_values(*numbers)
    terms = [number_style(number) for number in numbers]
    value = sum(number_style.rounded(number) for number in numbers) / len(numbers)
    return _scalar_sum(
        left,
        f"({signed_terms(terms, style)}) / {len(numbers)}",
        value,
        result,
        style.for_values(result),
    )


def variance_sum(
    left: str, numbers: Numbers, mean: float, result: float, style: NumberStyle
) -> Sum:
    """`((0.88 - 0.90)² + (0.92 - 0.90)²) / 2 = 4.0e-04`"""
    number_style, mean_style = style.for_values(*numbers), style.for_values(mean)
    minus_mean = _append_term("", mean_style(-mean)).strip()
    terms = [f"({number_style(number)} {minus_mean})²" for number in numbers]
    centre = -mean_style.rounded(-mean)
    value = sum((number_style.rounded(number) - centre) ** 2 for number in numbers) / len(numbers)
    return _scalar_sum(
        left,
        f"({signed_terms(terms, style)}) / {len(numbers)}",
        value,
        result,
        style.for_values(result),
    )


def layer_norm_sum(
    left: str,
    numbers: Numbers,
    mean: float,
    spread: tuple[float, float],
    result: Numbers,
    style: NumberStyle,
    gain_and_shift: tuple[Numbers, Numbers] | None = None,
) -> Sum:
    """`([0.88 0.92] - 0.90) / √(4.0e-04 + 1e-05) = [-0.99 0.99]`

    `spread` is the variance, and what is added to it. Where a gain and a shift are `gain_and_shift`,
    they follow number by number: `… · [1.10 0.90] + [0.10 0.00]`.
    """
    variance, epsilon = spread
    number_style, mean_style, variance_style = (
        style.for_values(*numbers),
        style.for_values(mean),
        style.for_values(variance),
    )
    minus_mean = _append_term("", mean_style(-mean)).strip()
    right = f"({vector_text(numbers, number_style)} {minus_mean}) / √({variance_style(variance)} + {epsilon:g})"
    centre, root = -mean_style.rounded(-mean), math.sqrt(variance_style.rounded(variance) + epsilon)
    values = [(number_style.rounded(number) - centre) / root for number in numbers]
    if gain_and_shift is not None:
        gain, shift = (style.for_values(*each) for each in gain_and_shift)
        right += (
            f" · {vector_text(gain_and_shift[0], gain)} + {vector_text(gain_and_shift[1], shift)}"
        )
        pairs = zip(values, *gain_and_shift, strict=True)
        values = [each * gain.rounded(by) + shift.rounded(more) for each, by, more in pairs]
    return _vector_sum(left, right, values, result, style)


def activation_sum(
    left: str,
    activation: str,
    weights: Numbers,
    vectors: Sequence[Numbers],
    bias: Numbers | None,
    result: Numbers,
    style: NumberStyle,
) -> Sum:
    """`relu(0.24·[0.88 -0.92] + 0.76·[0.96 0.39]) = [0.94 0.08]`"""
    right, values = _weighted_sum(weights, vectors, bias, style)
    function = ACTIVATION_FUNCTIONS[activation]
    results = None if values is None else [function(value) for value in values]
    return _vector_sum(left, f"{activation.replace('-', '_')}({right})", results, result, style)


ACTIVATION_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda value: max(value, 0.0),
    "gelu": lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2,
    "gelu-tanh": lambda value: value * (1 + math.tanh(_gelu_tanh_argument(value))) / 2,
}


def _gelu_tanh_argument(value: float) -> float:
    return math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)


def vector_text(vector: Numbers, style: NumberStyle) -> str:
    """
    >>> vector_text([0.881, 0.9, 0.4], NumberStyle())
    '[0.88 0.90 0.40]'
    """
    numbers = [style(number) for number in vector]
    if not style.full and len(numbers) > MAX_TERMS:
        numbers = [*numbers[:FIRST_TERMS], "…", *numbers[-LAST_TERMS:]]
    return f"[{' '.join(numbers)}]"


def signed_terms(terms: Sequence[str], style: NumberStyle) -> str:
    """Terms with + or - between them; of very many the first and the last.

    >>> signed_terms(["1·2", "-3·4"], NumberStyle())
    '1·2 - 3·4'
    """
    return _terms_text([terms[index] for index in _written_indices(len(terms), style)], len(terms))


def _factor_text(number: str) -> str:
    """A second factor below 0 stands in parentheses, or its minus is lost behind the point."""
    return f"({number})" if number.startswith("-") else number


def _terms_text(terms: list[str], count: int) -> str:
    """The terms that are written, and how many are not; a sum of nothing is 0."""
    if not count:
        return "0"
    if len(terms) < count:
        terms.insert(FIRST_TERMS, f"… {count - len(terms)} more …")
    return reduce(_append_term, terms[1:], terms[0])


def _written_indices(count: int, style: NumberStyle) -> Sequence[int]:
    """Which terms of a sum are written."""
    if style.full or count <= MAX_TERMS:
        return range(count)
    return [*range(FIRST_TERMS), *range(count - LAST_TERMS, count)]


def _weighted_sum(
    weights: Numbers,
    vectors: Sequence[Numbers],
    bias: Numbers | None,
    style: NumberStyle,
    *,
    shares: bool = False,
) -> tuple[str, list[float] | None]:
    """Vectors times their weights, added up: as text, and what that text comes to.

    What a text comes to that leaves terms out, nobody can say, and it is not worked out.
    """
    indices = _written_indices(len(weights), style)
    if not indices:
        return "0", None
    pairs = [(weights[index], vectors[index]) for index in indices]
    weight_style = style if shares else style.for_values(*weights)
    vector_style = style.for_values(*(number for _, vector in pairs for number in vector))
    terms = [
        f"{weight_style(weight)}·{vector_text(vector, vector_style)}" for weight, vector in pairs
    ]
    bias_style = None if bias is None else style.for_values(*bias)
    bias_terms = [] if bias_style is None or bias is None else [vector_text(bias, bias_style)]
    text = reduce(_append_term, bias_terms, _terms_text(terms, len(weights)))
    if len(indices) < len(weights):
        return text, None
    values = (
        [0.0] * len(pairs[0][1])
        if bias is None or bias_style is None
        else map(bias_style.rounded, bias)
    )
    for weight, vector in pairs:
        rounded_weight = weight_style.rounded(weight)
        values = [
            so_far + rounded_weight * vector_style.rounded(entry)
            for so_far, entry in zip(values, vector, strict=True)
        ]
    return text, list(values)


def _append_term(sum_so_far: str, term: str) -> str:
    negative = term.startswith("-")
    return f"{sum_so_far} - {term[1:]}" if negative else f"{sum_so_far} + {term}"


def _scalar_sum(left: str, right: str, value: float, result: float, style: NumberStyle) -> Sum:
    return Sum(left, right, style(result), "…" not in right and _is_same_text(value, result, style))


def _vector_sum(
    left: str, right: str, values: Numbers | None, result: Numbers, style: NumberStyle
) -> Sum:
    """None is what nobody can work out from what is written."""
    result_style = style.for_values(*result)
    exact = (
        values is not None
        and "…" not in right
        and all(
            _is_same_text(value, result_number, result_style)
            for value, result_number in zip(values, result, strict=True)
        )
    )
    return Sum(left, right, vector_text(result, result_style), exact)


def _is_same_text(value: float, result: float, style: NumberStyle) -> bool:
    """Whether a value, written like the result, reads like it."""
    return abs(value - result) < 1e-9 if style.form == "whole" else style(value) == style(result)
