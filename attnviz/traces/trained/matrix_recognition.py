"""Recognises W_Q, W_K and W_V of a model from captured queries, keys and values.

Models have modules of their own for them: one for each matrix, or one for all three. A matrix is
recognised by its numbers alone: inputs times the matrix equal the captured vectors, directly or
after rotary positions. Where no matrix does, none is claimed.

Some models, such as OPT and ESM, scale the queries instead of the scores. The captured vectors are
then a multiple of what the matrix makes, and that factor is moved to the scale of the scores.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attention.arithmetic import project, split_heads
from attnviz.options.values import Positions
from attnviz.traces.settings import ROTARY_POSITIONS
from attnviz.traces.trace import BeforeRotary, Projections
from attnviz.traces.trained.capture import LayerOutput, module_matrix
from attnviz.traces.trained.captured_attention import CapturedAttention
from attnviz.traces.trained.model_state import ModelResults
from attnviz.vectors import positions

PROBE_TOKEN_COUNT = 16  # the first tokens, by which a matrix is recognised
ROUNDING_SLACK = 8.0  # times √terms × epsilon, the rounding error expected of a sum
BASE_SETTING_NAMES = re.compile("theta|base")  # in a config
MAX_RELATIVE_DIFFERENCE = 0.05  # of the largest number, however coarse a dtype is
PLURALS = {"query": "queries", "key": "keys", "value": "values"}

Vectors = Float[Tensor, "head token width"]


@dataclass(frozen=True, eq=False)
class VectorMaker:
    """The columns of a module's matrix and bias that make queries, keys, or values."""

    whole_matrix: Float[Tensor, "dim out"]
    whole_bias: Float[Tensor, "out"] | None
    columns: slice | Tensor | None  # None: all of them
    first_column: int
    factor: float = 1.0  # by which the model multiplies the vectors before it attends

    @property
    def matrix(self) -> Float[Tensor, "dim some"]:
        return self.whole_matrix if self.columns is None else self.whole_matrix[:, self.columns]

    @property
    def bias(self) -> Float[Tensor, "some"] | None:
        if self.whole_bias is None or self.columns is None:
            return self.whole_bias
        return self.whole_bias[self.columns]

    @cached_property
    def _first_output(self) -> tuple[Float[Tensor, "dim"], float]:
        """The column and the bias that make the first number of a vector in head 0."""
        addend = 0.0 if self.whole_bias is None else float(self.whole_bias[self.first_column])
        return self.whole_matrix[:, self.first_column].clone(), addend

    def make_vectors(self, inputs: Float[Tensor, "token dim"], heads: int) -> Vectors:
        """Return inputs × matrix + bias, split between the heads; `factor` is not applied."""
        return split_heads(project(inputs, self.matrix, self.bias), heads)

    def fits(self, inputs: Float[Tensor, "token dim"], expected: Vectors, rotated: bool) -> bool:
        """Return whether this makes the expected vectors, before rotary positions if `rotated`."""
        candidate = self.make_vectors(inputs, len(expected)) * self.factor
        if rotated:
            return _is_rotated(candidate, expected)
        return _is_nearly_equal(candidate, expected, len(self.whole_matrix))

    def may_fit(self, inputs: Float[Tensor, "token dim"], expected: Vectors, scaled: bool) -> bool:
        """Return False if this cannot make the first token's vector in head 0: a quick check.

        Rotary positions do not change that vector. `scaled`: it may be a multiple of it.
        """
        columns = slice(self.first_column, self.first_column + expected.shape[-1])
        bias = None if self.whole_bias is None else self.whole_bias[columns]
        candidate = split_heads(project(inputs[:1], self.whole_matrix[:, columns], bias), 1)
        factor = _fit_factor(candidate, expected[:1, :1]) if scaled else 1.0
        difference = float((candidate * factor - expected[:1, :1]).abs().max())
        return difference <= 2 * MAX_RELATIVE_DIFFERENCE * float(expected.abs().max())

    def fits_token(
        self, inputs: Float[Tensor, "token dim"], expected: Vectors, rotated: bool
    ) -> bool:
        """Return whether this makes the first number of one token's vector in head 0."""
        token = 0 if rotated or len(inputs) == 1 else 1
        vector: list[float] = expected[0, token].tolist()
        column, addend = self._first_output
        number = float(inputs[token] @ column) + addend
        terms = len(self.whole_matrix) * (len(vector) if rotated else 1)
        difference = abs(number * self.factor - vector[0])
        return difference <= _relative_tolerance(terms, expected) * max(map(abs, vector))


@dataclass(frozen=True, eq=False)
class LayerMatrices:
    """The matrices that were recognised in a layer, which make its vectors of every text."""

    makers: Mapping[str, VectorMaker]  # by kind: 'query', 'key', 'value'
    rotated: bool  # whether queries and keys have rotary positions
    rotation: tuple[Positions, float] | None  # kind and base; None: no known rotary positions

    def fit(self, captured: CapturedAttention) -> bool:
        """Return whether they make the first number of one token's vectors in head 0.

        It is the first token, which rotary positions do not change, where queries and keys have
        these; the second, if there is one, where they do not.
        """
        return all(
            self.makers[kind].fits_token(inputs, vectors, self.rotated and kind != "value")
            for kind, (inputs, vectors) in _vectors_by_kind(captured).items()
            if kind in self.makers
        )


class VectorsBeforeRotary(BeforeRotary):
    """Queries and keys before rotary positions, computed on first access."""

    captured: CapturedAttention
    query: VectorMaker
    key: VectorMaker

    def __init__(self, captured: CapturedAttention, query: VectorMaker, key: VectorMaker) -> None:
        self.__dict__.update(captured=captured, query=query, key=key)  # BeforeRotary is frozen

    @cached_property
    def queries(self) -> Vectors:
        return self.query.make_vectors(self.captured.inputs, self.captured.heads)

    @cached_property
    def keys(self) -> Vectors:
        return self.key.make_vectors(_key_inputs(self.captured), len(self.captured.keys))


@dataclass(frozen=True, eq=False)
class RecognisedLayer:
    """A captured layer with those of its matrices that were recognised."""

    captured: CapturedAttention  # with the factors of queries and keys in its scale
    output: LayerOutput
    projections: Projections | None
    before_rotary: BeforeRotary | None
    rotation: tuple[Positions, float] | None  # kind and base; None: no known rotary positions
    given_parts: frozenset[str]  # names of the parts that attnviz did not compute


def recognise_matrices(
    captured: CapturedAttention, output: LayerOutput, config: Any, known: ModelResults
) -> RecognisedLayer:
    """Return a captured layer with those of W_Q, W_K and W_V that give its captured vectors.

    Matrices in `known`, which are those of an earlier text, are only confirmed; others are searched
    and added to it. A factor of the queries or keys is moved to the scale of the scores. `config`
    is the model's.
    """
    key = "matrices", captured.kind, captured.layer
    matrices: LayerMatrices | None = known.get(key)
    if matrices is None or not matrices.fit(captured):
        matrices = known[key] = _find_matrices(captured, config)
    makers = dict(matrices.makers)
    captured = _move_factors_to_scale(captured, makers)
    unknown = [plural for kind, plural in PLURALS.items() if kind not in makers]
    before_rotary = None
    if matrices.rotated:
        before_rotary = VectorsBeforeRotary(captured, makers["query"], makers["key"])
    return RecognisedLayer(
        captured,
        output,
        _build_projections(output, makers),
        before_rotary,
        matrices.rotation,
        frozenset([*unknown, *(field.name for field in fields(Projections))]),
    )


def _vectors_by_kind(captured: CapturedAttention) -> dict[str, tuple[Tensor, Vectors]]:
    """Return the inputs and the captured vectors of queries, keys and values, by kind."""
    key_inputs = _key_inputs(captured)
    return {
        "query": (captured.inputs, captured.queries),
        "key": (key_inputs, captured.keys),
        "value": (key_inputs, captured.values),
    }


def _find_matrices(captured: CapturedAttention, config: Any) -> LayerMatrices:
    """Search the matrices that make the captured vectors in the layer's module.

    W_Q and W_K are also tried with rotary positions, only both together, and with each base of
    their angles that the config names.
    """
    vectors_by_kind = _vectors_by_kind(captured)

    def find_makers(kinds: Collection[str], rotated: bool) -> dict[str, VectorMaker]:
        """Return the recognised matrices by kind: those of `kinds` ('query', …) that are found."""
        makers = {
            kind: _find_maker(captured.module, *vectors_by_kind[kind], rotated, kind != "value")
            for kind in kinds
        }
        return {kind: maker for kind, maker in makers.items() if maker is not None}

    makers = find_makers(PLURALS, rotated=False)
    may_rotate = not {"query", "key"} & makers.keys()
    rotated = find_makers(("query", "key") if may_rotate else (), rotated=True)
    rotated = rotated if len(rotated) == 2 else {}
    rotation = None
    if rotated:
        moved = _move_factors_to_scale(captured, rotated)
        bases = find_rotary_bases(config.to_dict())
        rotation = _find_rotation(moved, rotated["query"], bases)
    return LayerMatrices({**makers, **rotated}, bool(rotated), rotation)


def _move_factors_to_scale(
    captured: CapturedAttention, makers: Mapping[str, VectorMaker]
) -> CapturedAttention:
    """Return the layer with queries and keys divided by the factors of their matrices.

    Its scale is multiplied by these factors, so that the scores stay the same.
    """
    query_factor, key_factor = (
        makers[kind].factor if kind in makers else 1.0 for kind in ("query", "key")
    )
    if query_factor == key_factor == 1:
        return captured
    return replace(
        captured,
        queries=captured.queries / query_factor,
        keys=captured.keys / key_factor,
        scale=captured.scale * query_factor * key_factor,
    )


def find_rotary_positions(layers: Sequence[RecognisedLayer]) -> tuple[Positions, float]:
    """Return the rotary kind and base that all layers share, else ('none', 10,000)."""
    rotations = {layer.rotation for layer in layers}
    return (rotations.pop() if len(rotations) == 1 else None) or ("none", positions.ROTARY_BASE)


def find_rotary_bases(config: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the numbers above 1 whose names in a config, at any depth, hold 'theta' or 'base'.

    They may be the base of rotary angles. The last one is 10,000, unless it is among the others.
    """
    candidates = [value for name, value in config.items() if BASE_SETTING_NAMES.search(str(name))]
    bases = [float(value) for value in candidates if isinstance(value, int | float) and value > 1]
    for nested in config.values():
        bases += find_rotary_bases(nested) if isinstance(nested, Mapping) else ()
    return tuple(dict.fromkeys([*bases, positions.ROTARY_BASE]))


def _build_projections(output: LayerOutput, makers: dict[str, VectorMaker]) -> Projections | None:
    """Return the matrices that are known, W_out among them, with biases; None without any."""
    tensors = {f"w_{kind}": maker.matrix for kind, maker in makers.items()}
    biases = {f"b_{kind}": maker.bias for kind, maker in makers.items()}
    optional = {**biases, "w_out": output.w_out, "b_out": output.b_out}
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    return Projections(**tensors) if tensors else None


def _key_inputs(captured: CapturedAttention) -> Float[Tensor, "key dim"]:
    return captured.inputs if captured.memory is None else captured.memory


def _find_maker(
    module: nn.Module | None,
    inputs: Float[Tensor, "token dim"],
    vectors: Vectors,
    rotated: bool,
    scaled: bool,
) -> VectorMaker | None:
    """Return the first matrix in a module whose products with `inputs` are `vectors`, or None.

    `rotated`: the vectors are those products after rotary positions; `scaled`: they may be a
    multiple of those products, and the factor is part of the result. Only the first
    `PROBE_TOKEN_COUNT` tokens are compared.
    """
    probe_inputs, expected = inputs[:PROBE_TOKEN_COUNT], vectors[:, :PROBE_TOKEN_COUNT]
    if module is None or len(probe_inputs) != expected.shape[1]:
        return None
    for matrix, bias in map(module_matrix, module.modules()):
        if matrix is None or matrix.shape[0] != probe_inputs.shape[1]:
            continue
        if (matrix.dtype, matrix.device) != (inputs.dtype, inputs.device):
            continue
        for maker in _candidate_makers(matrix, bias, vectors.shape[0], vectors.shape[2]):
            if not maker.may_fit(probe_inputs, expected, scaled):
                continue
            if scaled:
                first = maker.make_vectors(probe_inputs[:1], len(vectors))
                maker = replace(maker, factor=_fit_factor(first, expected[:, :1]))
            if maker.fits(probe_inputs, expected, rotated):
                return maker
    return None


def _fit_factor(candidate: Vectors, expected: Vectors) -> float:
    """Return the factor by which `candidate` fits `expected` best, by least squares.

    It is exactly 1 or 1/√width where it is close to one of them, and 1 where nothing can be fitted.
    """
    cross_sum, square_sum = (
        float((candidate.double() * other.double()).sum()) for other in (expected, candidate)
    )
    factor = cross_sum / square_sum if square_sum and expected[:, 0].numel() > 1 else 1.0
    slack = ROUNDING_SLACK * expected.numel() ** 0.5 * torch.finfo(expected.dtype).eps
    slack = min(slack, MAX_RELATIVE_DIFFERENCE)
    usual = (1.0, expected.shape[-1] ** -0.5)
    return next((near for near in usual if abs(factor / near - 1) <= slack), factor)


def _candidate_makers(
    matrix: Tensor, bias: Tensor | None, heads: int, width: int
) -> Iterator[VectorMaker]:
    """Yield each choice of a matrix's columns that may make the vectors of `heads` heads.

    It is one block of neighbouring columns, or, where a matrix makes several kinds of vectors head
    by head, the columns of one kind.
    """
    out, kind_width = matrix.shape[1], heads * width
    for first in range(0, out - kind_width + 1, width):
        columns = None if kind_width == out else slice(first, first + kind_width)
        yield VectorMaker(matrix, bias, columns, first)
    if heads > 1 and out % kind_width == 0 and out > kind_width:
        column_indices = torch.arange(out, device=matrix.device).view(heads, -1, width)
        for kind in range(column_indices.shape[1]):
            yield VectorMaker(matrix, bias, column_indices[:, kind].flatten(), kind * width)


def _is_nearly_equal(candidate: Vectors, expected: Vectors, terms: int) -> bool:
    """Return whether two results differ by no more than the rounding of sums of `terms` numbers.

    The difference is measured relative to the largest number in `expected`.
    """
    largest = float(expected.abs().max())
    difference = float((candidate - expected).abs().max())
    return difference <= _relative_tolerance(terms, expected) * largest


def _relative_tolerance(terms: int, numbers: Tensor) -> float:
    """Return the relative rounding that is accepted of sums of `terms` numbers of this dtype."""
    rounding: float = ROUNDING_SLACK * terms**0.5 * torch.finfo(numbers.dtype).eps
    return min(rounding, MAX_RELATIVE_DIFFERENCE)


def _is_rotated(candidate: Vectors, expected: Vectors) -> bool:
    """Return whether rotary positions may turn `candidate` into `expected`.

    That is so if all norms are equal, and the vectors at position 0, too.
    """
    terms = candidate.shape[-1]
    if not _is_nearly_equal(candidate[:, :1], expected[:, :1], terms**2):
        return False
    norm, expected_norm = (
        torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) for vectors in (candidate, expected)
    )
    return _is_nearly_equal(norm, expected_norm, terms**2)


def _find_rotation(
    captured: CapturedAttention, query: VectorMaker, bases: Collection[float]
) -> tuple[Positions, float] | None:
    """Return the kind and base of the rotary positions that give the captured queries, or None.

    Each kind is tried with each of `bases`.
    """
    candidate = query.make_vectors(captured.inputs[:PROBE_TOKEN_COUNT], captured.heads)
    expected, width = captured.queries[:, :PROBE_TOKEN_COUNT], captured.queries.shape[-1]
    for kind in () if width % 2 else ROTARY_POSITIONS:
        for base in bases:
            rotated = positions.rotate_by_position(candidate, base, halves=kind == "rotary-halves")
            if _is_nearly_equal(rotated, expected, width**2):
                return kind, base
    return None
