"""Arithmetic written out, such as `score(am, I) = 0.26·0.88 + 0.79·0.92 = 0.96`.

In all sums `left` is the text before the first `=`, and `result` the true result, which is
printed at the end. Its sign is `=` where the numbers as printed, evaluated as written, give the
printed result to its last digit, and `≈` where digits that are not shown make a difference or terms
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from attnviz.wording.numbers import SUM_ROUNDING, NumberStyle, exact_text

Numbers = Sequence[float]

MAX_TERMS = 16  # a sum of more terms is shortened to its first and last ones
FIRST_TERMS, LAST_TERMS = 6, 2
MAX_UNSHIFTED_SCORE = 50.0  # above it the largest score is subtracted, or exp would overflow
ACTIVATION_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda value: max(value, 0.0),
    "gelu": lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2,
    "gelu-tanh": lambda value: (
        value * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3))) / 2
    ),
}


@dataclass(frozen=True)
class Sum:
    """One written calculation: what is computed (`left`), how (`right`), and the result, all as
    text.
    """

    left: str
    right: str
    result: str
    exact: bool  # whether the printed right side evaluates to the printed result

    @property
    def right_side(self) -> str:
        """Everything after the first `=`: the calculation, `=` or `≈`, and the result; the
        calculation alone where the result is empty.
        """
        sign = "=" if self.exact else "≈"
        return f"{self.right} {sign} {self.result}" if self.result else self.right

    @property
    def text(self) -> str:
        """The whole line: `score(am, I) = 0.26·0.88 + 0.79·0.92 = 0.96`."""
        return f"{self.left} = {self.right_side}"


@dataclass(frozen=True)
class SumWriter:
    """Writes sums that begin with the text `left`, with their numbers in a style."""

    left: str
    style: NumberStyle

    def dot_product(
        self,
        first: Numbers,
        second: Numbers,
        result: float,
        result_style: NumberStyle | None = None,
        addend: float | None = None,
    ) -> Sum:
        """Return a written dot product: `left = 0.26·0.88 + 0.79·0.92 = 0.96`, with `addend` added
        at the end if there is one; `result_style` (None: fits the result) writes the result.
        """
        first_style, second_style = self.style.for_values(*first), self.style.for_values(*second)
        pairs = list(zip(first, second, strict=True))
        terms = [f"{first_style(a)}·{_factor_text(second_style(b))}" for a, b in pairs]
        value = sum(first_style.rounded(a) * second_style.rounded(b) for a, b in pairs)
        right = signed_terms(terms, self.style)
        if addend is not None:
            addend_text = self._write(addend)
            right, value = _append_term(right, addend_text), value + float(addend_text)
        return self._scalar(right, value, result, result_style)

    def additive_score(
        self,
        weights: Numbers,
        vectors: tuple[Numbers, Numbers],
        result: float,
        result_style: NumberStyle,
    ) -> Sum:
        """Return a written additive score: `left = 0.26·tanh(0.88 + 0.92) - 0.79·tanh(0.92 - 0.39)
        = -0.14`.

        `vectors` are the query and the key; `result_style` writes the result.
        """
        weight_style = self.style.for_values(*weights)
        query_style, key_style = (self.style.for_values(*vector) for vector in vectors)
        triples = list(zip(weights, *vectors, strict=True))
        terms = [
            f"{weight_style(weight)}·tanh({_append_term(query_style(query), key_style(key))})"
            for weight, query, key in triples
        ]
        value = sum(
            weight_style.rounded(weight)
            * math.tanh(query_style.rounded(query) + key_style.rounded(key))
            for weight, query, key in triples
        )
        return self._scalar(signed_terms(terms, self.style), value, result, result_style)

    def vector_entry(self, terms: Numbers, index: int, results: Numbers) -> Sum:
        """Return the written sum of all `terms`, `left = 0.21 + 0.19 = 0.40`, whose result is entry
        `index` of the vector `results`.
        """
        texts = list(map(self.style.for_values(*terms), terms))
        right, value = signed_terms(texts, self.style), sum(map(float, texts))
        return self._entry(right, value, results, index)

    def weighted_vectors(
        self,
        weights: Numbers,
        vectors: Sequence[Numbers],
        result: Numbers,
        bias: Numbers | None = None,
        *,
        shares: bool = False,
    ) -> Sum:
        """Return a written weighted sum of vectors, plus `bias` if there is one: `left = 0.24·[0.88
        0.92] + 0.76·[0.96 0.39] = [0.94 0.52]`.

        `shares` says that the weights are attention weights, which keep their decimals even where
        all of them are whole.
        """
        right, values = self._weighted_sum(weights, vectors, bias, shares=shares)
        values = values if weights else [0.0] * len(result)
        return self._vector(right, values, result)

    def vector_alone(self, result: Numbers) -> Sum:
        """Return a vector without a calculation: `left = [0.94 0.52]`."""
        return Sum(self.left, vector_text(result, self.style.for_values(*result)), "", True)

    def added_vectors(self, vectors: Sequence[Numbers], result: Numbers) -> Sum:
        """Return a written sum of vectors: `left = [0.88 0.92] + [0.10 0.00] = [0.98 0.92]`."""
        pairs = [(vector, self.style.for_values(*vector)) for vector in vectors]
        right = " + ".join(vector_text(vector, own_style) for vector, own_style in pairs)
        printed = [map(own_style.rounded, vector) for vector, own_style in pairs]
        values = [reduce(add, column) for column in zip(*printed, strict=True)]
        return self._vector(right, values, result)

    def vector_mean(self, vectors: Sequence[Numbers], result: Numbers) -> Sum:
        """Return the written mean of vectors: `left = ([0.88 0.92] + [0.10 0.00]) / 2 = [0.49
        0.46]`.
        """
        number_style = self.style.for_values(*(number for vector in vectors for number in vector))
        count = len(vectors)
        terms = [
            vector_text(vectors[index], number_style)
            for index in _written_indices(count, self.style)
        ]
        values = None
        if len(terms) == count:
            columns = zip(*vectors, strict=True)
            values = [sum(map(number_style.rounded, column)) / count for column in columns]
        return self._vector(f"({_terms_text(terms, count)}) / {count}", values, result)

    def quotient(
        self, values: Numbers, index: int, divisors: Sequence[str], divisor: float, results: Numbers
    ) -> Sum:
        """Return a written division of entry `index` of `values`: `left = 1.31 / √3 = 0.76`; the
        result is entry `index` of `results`.

        `divisors` are written as they are (`√3`) and together stand for exactly the number
        `divisor`.
        """
        dividend = self.style.for_values(*values)(values[index])
        right = " / ".join([dividend, *divisors])
        value = float(dividend) / divisor
        return self._entry(right, value, results, index)

    def capped_score(self, values: Numbers, index: int, cap: float, results: Numbers) -> Sum:
        """Return a written soft cap of entry `index` of `values`: `left = 50·tanh(1.31 / 50) =
        1.31`.

        The cap is written exactly; the result is entry `index` of `results`.
        """
        score = self.style.for_values(*values)(values[index])
        right = f"{exact_text(cap)}·tanh({score} / {exact_text(cap)})"
        value = _capped(float(score), cap)
        return self._entry(right, value, results, index)

    def distance_penalty(
        self, values: Numbers, index: int, factors: tuple[float, int], results: Numbers
    ) -> Sum:
        """Return a written penalty on entry `index` of `values`: `left = 0.76 - 0.0625·2 = 0.64`.

        `factors` are the slope, which is written exactly, and the distance in tokens; the result is
        entry `index` of `results`.
        """
        score, (slope, distance) = self.style.for_values(*values)(values[index]), factors
        right, value = f"{score} - {slope!r}·{distance}", float(score) - slope * distance
        return self._entry(right, value, results, index)

    def addition(self, values: Numbers, index: int, addends: Numbers, results: Numbers) -> Sum:
        """Return entry `index` of `values` plus that of `addends`, written out: `left = 0.76 - 1.00
        = -0.24`; the result is entry `index` of `results`.
        """
        first = self.style.for_values(*values)(values[index])
        second = self._write(addends[index])
        right, value = _append_term(first, second), float(first) + float(second)
        return self._entry(right, value, results, index)

    def adjusted_score(
        self,
        score: float,
        cap: float | None,
        addends: Sequence[tuple[str, str, float]],
        result: float,
        result_style: NumberStyle,
    ) -> Sum:
        """Return all that happens to one score before the softmax in one line: `left = 0 + 5
        (additive mask) = 5`, or with a soft cap `left = 50·tanh(1.31 / 50) - 0.25·3 (ALiBi) =
        0.56`.

        `addends` are (name, text, the number that this text stands for); `result_style` writes the
        result.
        """
        right, value = self.style(score), self.style.rounded(score)
        if cap is not None:
            right = f"{exact_text(cap)}·tanh({right} / {exact_text(cap)})"
            value = _capped(value, cap)
        for name, text, number in addends:
            right, value = f"{_append_term(right, text)} ({name})", value + number
        return self._scalar(right, value, result, result_style)

    def named_products(
        self,
        named_factors: Sequence[tuple[str, float, float]],
        division: tuple[Sequence[str], float],
        addend: float,
        result: float,
    ) -> Sum:
        """Return a written sum of products with names, divided, plus `addend` unless that is
        printed as 0: `left = (animal 14·1 + singular 6·1) / √4 + 5 = 15`.

        `named_factors` are (name, first factor, second factor); `division` holds the divisors as
        text and the number that they stand for.
        """
        first_style = self.style.for_values(*(first for _, first, _ in named_factors))
        second_style = self.style.for_values(*(second for *_, second in named_factors))
        terms = [
            f"{name} {first_style(first)}·{_factor_text(second_style(second))}"
            for name, first, second in named_factors
        ]
        products = [
            first_style.rounded(first) * second_style.rounded(second)
            for _, first, second in named_factors
        ]
        (divisors, divisor), addend_text = division, self._write(addend)
        terms_sum = signed_terms(terms, self.style)
        right = " / ".join([f"({terms_sum})" if divisors else terms_sum, *divisors])
        right = _append_term(right, addend_text) if float(addend_text) else right
        value = sum(products) / divisor + float(addend_text)
        return self._scalar(right, value, result)

    def product(self, first: float, second: float, result: float) -> Sum:
        """Return a written product, `left = 0.24·2 = 0.48`, where `first` is a share and keeps its
        decimals.
        """
        first_text, second_text = self.style(first), self._write(second)
        value = float(first_text) * float(second_text)
        return self._scalar(f"{first_text}·{second_text}", value, result, self.style)

    def softmax(self, scores: Numbers, index: int, result: float) -> Sum:
        """Return the written softmax of score `index`: `left = exp(1.31) / (exp(1.31) + exp(1.12))
        = 0.55`.

        Where a score is so large that a calculator could not compute its exp, the largest score is
        subtracted from each.
        """
        needs_shift = max(map(abs, scores)) > MAX_UNSHIFTED_SCORE
        shift = self.style.for_values(*scores).rounded(max(scores)) if needs_shift else 0.0
        terms, exponentials = self._exponentials(scores, shift)
        right = f"{terms[index]} / ({signed_terms(terms, self.style)})"
        return self._share(right, exponentials[index] / sum(exponentials), result)

    def exponential_total(self, scores: Numbers, rest: float, shift: float, result: float) -> Sum:
        """Write the denominator of a softmax: `left = exp(1.24) + exp(-0.33) + 812.40 = 816.55`.

        `rest` is what further scores add, 0 if there are none; `shift` is subtracted from each
        score.
        """
        terms, exponentials = self._exponentials(scores, shift)
        value = sum(exponentials)
        if rest:
            terms.append(self._write(rest))
            value += float(terms[-1])
        right = signed_terms(terms, self.style)
        return self._scalar(right, value, result)

    def exponential_share(
        self, scores: Numbers, index: int, shift: float, total: float, result: float
    ) -> Sum:
        """Write a weight of a softmax by its denominator: `left = exp(1.24) / 816.55 = 0.0042`."""
        terms, exponentials = self._exponentials(scores, shift)
        total_text = self._write(total)
        value = exponentials[index] / float(total_text)
        return self._share(f"{terms[index]} / {total_text}", value, result)

    def vector_length(self, vector: Numbers, result: float) -> Sum:
        """Return a written Euclidean length: `left = √(3² + (-4)²) = 5`."""
        numbers = list(map(self.style.for_values(*vector), vector))
        right = f"√({signed_terms([f'{_factor_text(number)}²' for number in numbers], self.style)})"
        value = math.hypot(*map(float, numbers))
        return self._scalar(right, value, result)

    def cosine(self, score: float, lengths: Numbers, result: float) -> Sum:
        """Return the written cosine, a score divided by the product of two lengths: `left = 1.31 /
        (1.25·1.07) = 0.98`.
        """
        score_text, *factors = (self._write(number) for number in (score, *lengths))
        right = f"{score_text} / ({'·'.join(factors)})"
        value = float(score_text) / math.prod(map(float, factors))
        return self._scalar(right, value, result)

    def angle(self, cosine: float, degrees: float) -> Sum:
        """Return the written angle of a cosine, in degrees: `left = arccos(0.98) = 11.48°`."""
        cosine_text = self._write(cosine)
        value = math.degrees(math.acos(min(max(float(cosine_text), -1.0), 1.0)))
        arc_cosine = self._scalar(f"arccos({cosine_text})", value, degrees)
        return replace(arc_cosine, result=f"{arc_cosine.result}°")

    def factors_product(self, numbers: Numbers, result: float) -> Sum:
        """Return a written product, as of two lengths and a cosine: `left = 1.25·1.07·0.98 =
        1.31`.
        """
        factors = [*map(self._write, numbers)]
        right, value = "·".join(map(_factor_text, factors)), math.prod(map(float, factors))
        return self._scalar(right, value, result)

    def rotation(self, pair: Numbers, angle: float, result: Numbers) -> Sum:
        """Return the written rotation of two numbers by an angle in radians: `left =
        [0.88·cos(1.00) - 0.92·sin(1.00), 0.88·sin(1.00) + 0.92·cos(1.00)] = [-0.30 1.24]`.
        """
        pair_style, angle_text = self.style.for_values(*pair), self._write(angle)
        even, odd, negative_odd = pair_style(pair[0]), pair_style(pair[1]), pair_style(-pair[1])
        cos, sin = f"·cos({angle_text})", f"·sin({angle_text})"
        first = signed_terms([even + cos, negative_odd + sin], self.style)
        second = signed_terms([even + sin, odd + cos], self.style)
        x, y, radians = float(even), float(odd), float(angle_text)
        values = [
            x * math.cos(radians) - y * math.sin(radians),
            x * math.sin(radians) + y * math.cos(radians),
        ]
        return self._vector(f"[{first}, {second}]", values, result)

    def mean(self, numbers: Numbers, result: float) -> Sum:
        """Return the written mean of numbers: `left = (0.88 + 0.92) / 2 = 0.90`."""
        terms, count = list(map(self.style.for_values(*numbers), numbers)), len(numbers)
        right = f"({signed_terms(terms, self.style)}) / {count}"
        return self._scalar(right, sum(map(float, terms)) / count, result)

    def variance(self, numbers: Numbers, mean: float, result: float) -> Sum:
        """Return the written variance: `left = ((0.88 - 0.90)² + (0.92 - 0.90)²) / 2 = 4.0e-04`."""
        texts, count = list(map(self.style.for_values(*numbers), numbers)), len(numbers)
        minus_mean, centre = self._minus(mean)
        terms = [f"({number} {minus_mean})²" for number in texts]
        value = sum((float(number) - centre) ** 2 for number in texts) / count
        right = f"({signed_terms(terms, self.style)}) / {count}"
        return self._scalar(right, value, result)

    def layer_norm(
        self,
        numbers: Numbers,
        mean: float,
        spread: tuple[float, float],
        result: Numbers,
        gain_and_shift: tuple[Numbers, Numbers] | None = None,
    ) -> Sum:
        """Return a written LayerNorm: `left = ([0.88 0.92] - 0.90) / √(4.0e-04 + 1e-05) = [-0.99
        0.99]`.

        `spread` holds the variance and the epsilon added to it. A `gain_and_shift` is applied
        number by number: `… · [1.10 0.90] + [0.10 0.00]`.
        """
        variance, epsilon = spread
        number_style, variance_text = self.style.for_values(*numbers), self._write(variance)
        minus_mean, centre = self._minus(mean)
        numerator = f"({vector_text(numbers, number_style)} {minus_mean})"
        right = f"{numerator} / √({variance_text} + {epsilon:g})"
        root = math.sqrt(float(variance_text) + epsilon)
        values = [(number_style.rounded(number) - centre) / root for number in numbers]
        if gain_and_shift is not None:
            gains, shifts = gain_and_shift
            gain_style, shift_style = self.style.for_values(*gains), self.style.for_values(*shifts)
            right += f" · {vector_text(gains, gain_style)} + {vector_text(shifts, shift_style)}"
            values = [
                value * gain_style.rounded(gain) + shift_style.rounded(shift)
                for value, gain, shift in zip(values, gains, shifts, strict=True)
            ]
        return self._vector(right, values, result)

    def activation(
        self,
        activation: str,
        weights: Numbers,
        vectors: Sequence[Numbers],
        bias: Numbers | None,
        result: Numbers,
    ) -> Sum:
        """Return a written activation of a weighted sum of vectors plus `bias`, if there is one:
        `left = relu(0.24·[0.88 -0.92] + 0.76·[0.96 0.39]) = [0.94 0.08]`.
        """
        right, values = self._weighted_sum(weights, vectors, bias)
        results = None if values is None else list(map(ACTIVATION_FUNCTIONS[activation], values))
        return self._vector(f"{activation.replace('-', '_')}({right})", results, result)

    def _weighted_sum(
        self,
        weights: Numbers,
        vectors: Sequence[Numbers],
        bias: Numbers | None,
        *,
        shares: bool = False,
    ) -> tuple[str, list[float] | None]:
        """Return a weighted sum of vectors (plus `bias`) as text, and the value of that text.

        The value is None where the text leaves terms out, since it cannot be computed from the
        text, and for no terms at all.
        """
        indices = _written_indices(len(weights), self.style)
        if not indices:
            return "0", None
        pairs = [(weights[index], vectors[index]) for index in indices]
        weight_style = self.style if shares else self.style.for_values(*weights)
        vector_style = self.style.for_values(*(number for _, vector in pairs for number in vector))
        terms = [
            f"{weight_style(weight)}·{vector_text(vector, vector_style)}"
            for weight, vector in pairs
        ]
        text, values = _terms_text(terms, len(weights)), [0.0] * len(pairs[0][1])
        if bias is not None:
            bias_style = self.style.for_values(*bias)
            text = _append_term(text, vector_text(bias, bias_style))
            values = list(map(bias_style.rounded, bias))
        if len(indices) < len(weights):
            return text, None
        for weight, vector in pairs:
            factor, numbers = weight_style.rounded(weight), map(vector_style.rounded, vector)
            values = [
                total + factor * number for total, number in zip(values, numbers, strict=True)
            ]
        return text, values

    def _write(self, number: float) -> str:
        return self.style.for_values(number)(number)

    def _minus(self, mean: float) -> tuple[str, float]:
        """Return how the subtraction of a mean is written, `- 0.90`, and what it subtracts."""
        negative_mean = self.style.for_values(mean)(-mean)
        return _append_term("", negative_mean).strip(), -float(negative_mean)

    def _exponentials(self, scores: Numbers, shift: float) -> tuple[list[str], list[float]]:
        """Return exp of each score, from which `shift` is subtracted: as written, `exp(1.31)`, and
        the numbers.
        """
        style = self.style.for_values(*scores)
        shift_text = _append_term("", style(-shift)) if shift else ""
        terms = [f"exp({style(score)}{shift_text})" for score in scores]
        return terms, [math.exp(style.rounded(score) - shift) for score in scores]

    def _entry(self, right: str, value: float, results: Numbers, index: int) -> Sum:
        """Return the Sum of entry `index` of `results`, with as many digits as all entries."""
        return self._scalar(right, value, results[index], self.style.for_values(*results))

    def _scalar(
        self, right: str, value: float, result: float, result_style: NumberStyle | None = None
    ) -> Sum:
        """Return the Sum of a number; `value` is what the right side as printed evaluates to, and
        `result_style` (None: fits the result) writes the result.
        """
        style = result_style or self.style.for_values(result)
        exact = "…" not in right and _is_same_text(value, result, style)
        return Sum(self.left, right, style(result), exact)

    def _share(self, right: str, value: float, result: float) -> Sum:
        """Return the Sum of a share. One that would read as 0 or 1 has more decimals, and where it
        reads so all the same, the sign is ≈.
        """
        share_style = self.style.for_share(result)
        share_sum = self._scalar(right, value, result, share_style)
        is_whole = result == 0 or abs(result - 1) < SUM_ROUNDING
        is_rounded_off = share_style.rounded(result) in (0, 1) and not is_whole
        return replace(share_sum, exact=share_sum.exact and not is_rounded_off)

    def _vector(self, right: str, values: Numbers | None, result: Numbers) -> Sum:
        """Return the Sum of a vector; `values` are what the right side as printed evaluates to, or
        None where it leaves terms out.
        """
        own_style = self.style.for_values(*result)
        exact = values is not None and "…" not in right
        if exact and values is not None:
            pairs = zip(values, result, strict=True)
            exact = all(_is_same_text(value, number, own_style) for value, number in pairs)
        return Sum(self.left, right, vector_text(result, own_style), exact)


def _capped(value: float, cap: float) -> float:
    return cap * math.tanh(value / cap)


def vector_text(vector: Numbers, style: NumberStyle) -> str:
    """Return a vector as text in brackets; of more than MAX_TERMS numbers only the first and the
    last ones, unless `style.full`.

    >>> vector_text([0.881, 0.9, 0.4], NumberStyle())
    '[0.88 0.90 0.40]'
    """
    numbers = [style(number) for number in vector]
    if not style.full and len(numbers) > MAX_TERMS:
        numbers = [*numbers[:FIRST_TERMS], "…", *numbers[-LAST_TERMS:]]
    return f"[{' '.join(numbers)}]"


def signed_terms(terms: Sequence[str], style: NumberStyle) -> str:
    """Return the terms joined by + or -; of more than MAX_TERMS only the first and the last ones,
    unless `style.full`.

    >>> signed_terms(["1·2", "-3·4"], NumberStyle())
    '1·2 - 3·4'
    """
    return _terms_text([terms[index] for index in _written_indices(len(terms), style)], len(terms))


def _factor_text(number: str) -> str:
    """Return a second factor, in parentheses if it is negative, because `2·-3` is easily
    misread.
    """
    return f"({number})" if number.startswith("-") else number


def _terms_text(terms: list[str], count: int) -> str:
    """Return the written terms joined by + or -, with `… 4 more …` where they are fewer than
    `count`; `0` where `count` is 0.
    """
    if not count:
        return "0"
    if len(terms) < count:
        terms.insert(FIRST_TERMS, f"… {count - len(terms)} more …")
    return reduce(_append_term, terms[1:], terms[0])


def _written_indices(count: int, style: NumberStyle) -> Sequence[int]:
    """Return the indices of those of `count` terms that are written out."""
    if style.full or count <= MAX_TERMS:
        return range(count)
    return [*range(FIRST_TERMS), *range(count - LAST_TERMS, count)]


def _append_term(sum_so_far: str, term: str) -> str:
    """Return the sum with ` + term`, or ` - term` where the text of the term begins with a minus
    sign.
    """
    negative = term.startswith("-")
    return f"{sum_so_far} - {term[1:]}" if negative else f"{sum_so_far} + {term}"


def _is_same_text(value: float, result: float, style: NumberStyle) -> bool:
    return abs(value - result) < 1e-9 if style.form == "whole" else style(value) == style(result)
