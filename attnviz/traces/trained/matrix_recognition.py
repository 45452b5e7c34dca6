"""Which matrices of a model made the queries, keys and values that were heard.

Every model has modules of its own for that: one for each, or one for all three. A matrix is
recognised by its numbers alone: what it makes of the inputs are these very vectors, or becomes
them when positions turn it. Where none does, nothing is claimed.

Some models, as OPT and ESM, scale queries instead of scores, before anybody hears of them. Then all
that a matrix makes is multiplied with one number: it belongs to the scale of the scores, as in
every other model, and queries are what their matrix makes.
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
from attnviz.traces.settings import ROTARY_POSITIONS, Positions
from attnviz.traces.trace import BeforeRotary, Projections
from attnviz.traces.trained.capture import CapturedAttention, module_matrix
from attnviz.vectors import positions

PROBE_TOKEN_COUNT = 16  # tokens, by which a matrix is recognised
ROUNDING_SLACK = 8.0  # times the rounding that so long a sum may gather
BASE_SETTING_NAMES = re.compile("theta|base")  # in the choices of a model
MAX_RELATIVE_DIFFERENCE = 0.05  # of the largest number, however coarse a dtype is

Vectors = Float[Tensor, "head token width"]


@dataclass(frozen=True, eq=False)
class VectorMaker:
    """A matrix and a bias: of all numbers that a module makes, those of one kind."""

    matrix: Float[Tensor, "dim out"]
    bias: Float[Tensor, "out"] | None
    factor: float = 1.0  # what the model multiplies all of them with before it attends

    def make_vectors(self, inputs: Float[Tensor, "token dim"], heads: int) -> Vectors:
        return split_heads(project(inputs, self.matrix, self.bias), heads)


class VectorsBeforeRotary(BeforeRotary):
    """Queries and keys before positions turn them, made when somebody asks."""

    def __init__(self, captured: CapturedAttention, query: VectorMaker, key: VectorMaker) -> None:
        self.__dict__.update(heard=captured, query=query, key=key)  # frozen, as BeforeRotary is

    @cached_property
    def queries(self) -> Vectors:
        captured: CapturedAttention = self.__dict__["heard"]
        query: VectorMaker = self.__dict__["query"]
        return query.make_vectors(captured.inputs, captured.heads)

    @cached_property
    def keys(self) -> Vectors:
        captured: CapturedAttention = self.__dict__["heard"]
        key: VectorMaker = self.__dict__["key"]
        return key.make_vectors(_key_inputs(captured), captured.keys.shape[0])


@dataclass(frozen=True, eq=False)
class RecognisedLayer:
    """How a layer comes by its queries, keys and values, as far as that can be told."""

    captured: CapturedAttention  # with the factors of queries and keys in its scale
    projections: Projections | None
    before_rotary: BeforeRotary | None
    rotation: tuple[Positions, float] | None  # None: not at all, or in a way of the model's own
    given: frozenset[str]  # what was not made here


def recognise_matrices(captured: CapturedAttention, bases: Collection[float]) -> RecognisedLayer:
    """The matrices of a layer, each if it makes what was heard; `bases` may be those of angles."""
    vectors_by_kind = {
        "query": (captured.inputs, captured.queries),
        "key": (_key_inputs(captured), captured.keys),
        "value": (_key_inputs(captured), captured.values),
    }
    makers = {
        kind: maker
        for kind, pair in vectors_by_kind.items()
        if (maker := _find_maker(captured.module, *pair, scaled=kind != "value"))
    }
    rotated_makers = {} if {"query", "key"} & makers.keys() else {
        kind: maker
        for kind in ("query", "key")
        if (maker := _find_maker(captured.module, *vectors_by_kind[kind], scaled=True, rotated=True))
    }  # fmt: skip
    if len(rotated_makers) < 2:
        rotated_makers = {}
    makers |= rotated_makers
    captured = _move_factors_to_scale(captured, makers)
    before_rotary = VectorsBeforeRotary(captured, **rotated_makers) if rotated_makers else None
    rotation = _find_rotation(captured, rotated_makers["query"], bases) if rotated_makers else None
    return RecognisedLayer(
        captured,
        _build_projections(captured, makers),
        before_rotary,
        rotation,
        _given_parts(captured, makers),
    )


def _move_factors_to_scale(
    captured: CapturedAttention, makers: Mapping[str, VectorMaker]
) -> CapturedAttention:
    """With queries and keys as their matrices make them: what multiplies them scales scores."""
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
    """The rotary positions of a model, where all of its layers have the same."""
    kinds = {layer.rotation for layer in layers}
    (single_kind,) = kinds if len(kinds) == 1 else (None,)
    return single_kind or ("none", positions.ROTARY_BASE)


def find_rotary_bases(config: Mapping[str, Any]) -> tuple[float, ...]:
    """Every number of a model's choices that may be the base of angles, wherever it stands."""
    nested_configs = [nested for nested in config.values() if isinstance(nested, Mapping)]
    candidates = [number for name, number in config.items() if BASE_SETTING_NAMES.search(str(name))]
    own_bases = [
        float(number) for number in candidates if isinstance(number, int | float) and number > 1
    ]
    nested_bases = [number for nested in nested_configs for number in find_rotary_bases(nested)]
    return tuple(dict.fromkeys([*own_bases, *nested_bases, positions.ROTARY_BASE]))


def _build_projections(
    captured: CapturedAttention, makers: dict[str, VectorMaker]
) -> Projections | None:
    tensors = {f"w_{kind}": maker.matrix for kind, maker in makers.items()}
    tensors |= {f"b_{kind}": each.bias for kind, each in makers.items() if each.bias is not None}
    output_tensors = {"w_out": captured.w_out, "b_out": captured.b_out}
    tensors |= {name: each for name, each in output_tensors.items() if each is not None}
    return Projections(**tensors) if tensors else None


def _given_parts(captured: CapturedAttention, makers: dict[str, VectorMaker]) -> frozenset[str]:
    """No matrix was made here; nor were vectors whose matrix nobody knows."""
    plurals = {"query": "queries", "key": "keys", "value": "values"}
    unknown = [plural for kind, plural in plurals.items() if kind not in makers]
    return frozenset([*unknown, *(field.name for field in fields(Projections))])


def _key_inputs(captured: CapturedAttention) -> Float[Tensor, "key dim"]:
    """What keys and values are made of."""
    return captured.inputs if captured.memory is None else captured.memory


def _find_maker(
    module: nn.Module | None,
    inputs: Float[Tensor, "token dim"],
    vectors: Vectors,
    *,
    rotated: bool = False,
    scaled: bool = False,
) -> VectorMaker | None:
    """The matrix that makes these vectors of the inputs; or what becomes of them when turned."""
    probe_inputs, expected = inputs[:PROBE_TOKEN_COUNT], vectors[:, :PROBE_TOKEN_COUNT]
    if module is None or len(probe_inputs) != expected.shape[1]:
        return None
    for matrix, bias in _module_matrices(module):
        if matrix.shape[0] != probe_inputs.shape[1]:
            continue
        for maker in _candidate_makers(matrix, bias, vectors.shape[0], vectors.shape[2]):
            vectors_made = maker.make_vectors(probe_inputs, len(vectors))
            factor = _fit_factor(vectors_made[:, :1], expected[:, :1]) if scaled else 1.0
            vectors_made = vectors_made * factor
            if (
                _is_rotated(vectors_made, expected)
                if rotated
                else _is_nearly_equal(vectors_made, expected, len(matrix))
            ):
                return replace(maker, factor=factor)
    return None


def _fit_factor(candidate: Vectors, expected: Vectors) -> float:
    """The one number that makes the first token's vectors of these: 1, 1/√ of the width, or any."""
    cross_sum, square_sum = (
        float((candidate.double() * item.double()).sum()) for item in (expected, candidate)
    )
    factor = cross_sum / square_sum if square_sum and expected[:, 0].numel() > 1 else 1.0
    usual_factors = (1.0, expected.shape[-1] ** -0.5)
    slack = min(
        ROUNDING_SLACK * expected.numel() ** 0.5 * torch.finfo(expected.dtype).eps,
        MAX_RELATIVE_DIFFERENCE,
    )
    near_factors = [item for item in usual_factors if abs(factor / item - 1) <= slack]
    return near_factors[0] if near_factors else factor


def _module_matrices(module: nn.Module) -> Iterator[tuple[Tensor, Tensor | None]]:
    for submodule in module.modules():
        matrix, bias = module_matrix(submodule)
        if matrix is not None:
            yield matrix, bias


def _candidate_makers(
    matrix: Tensor, bias: Tensor | None, heads: int, width: int
) -> Iterator[VectorMaker]:
    """The columns of one kind: all of them; side by side with others; or so in each head."""
    out, kind_width = matrix.shape[1], heads * width
    for first in range(0, out - kind_width + 1, width):
        columns = slice(first, first + kind_width)
        yield VectorMaker(matrix[:, columns], None if bias is None else bias[columns])
    if heads > 1 and out % kind_width == 0 and out > kind_width:
        column_indices = torch.arange(out, device=matrix.device).view(heads, -1, width)
        for kind in range(column_indices.shape[1]):
            kind_columns = column_indices[:, kind].flatten()
            yield VectorMaker(matrix[:, kind_columns], None if bias is None else bias[kind_columns])


def _is_nearly_equal(candidate: Vectors, expected: Vectors, terms: int) -> bool:
    """Whether two ways to the same numbers differ by rounding alone."""
    rounding: float = ROUNDING_SLACK * terms**0.5 * torch.finfo(expected.dtype).eps
    largest = float(expected.abs().max())
    difference = float((candidate - expected).abs().max())
    return difference <= min(rounding, MAX_RELATIVE_DIFFERENCE) * largest


def _is_rotated(candidate: Vectors, expected: Vectors) -> bool:
    """Whether vectors are as long as before, and at the first position the same."""
    terms = candidate.shape[-1]
    if not _is_nearly_equal(candidate[:, :1], expected[:, :1], terms**2):
        return False
    lengths = [
        torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) for vectors in (candidate, expected)
    ]
    return _is_nearly_equal(lengths[0], lengths[1], terms**2)


def _find_rotation(
    captured: CapturedAttention, query: VectorMaker, bases: Collection[float]
) -> tuple[Positions, float] | None:
    """The kind of rotary positions, and the base of their angles, if they do just this."""
    candidate = query.make_vectors(captured.inputs[:PROBE_TOKEN_COUNT], captured.heads)
    expected, width = captured.queries[:, :PROBE_TOKEN_COUNT], captured.queries.shape[-1]
    kinds = [] if width % 2 else ROTARY_POSITIONS
    for kind in kinds:
        for base in bases:
            rotated = positions.rotate_by_position(candidate, base, halves=kind == "rotary-halves")
            if _is_nearly_equal(rotated, expected, width**2):
                return kind, base
    return None
