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
from attnviz.traces.settings import TURNED, Positions
from attnviz.traces.trace import BeforeRotary, Projections
from attnviz.traces.trained.listening import Heard, matrix_of
from attnviz.vectors import positions

PROBED = 16  # tokens, by which a matrix is recognised
SLACK = 8.0  # times the rounding that so long a sum may gather
NAMED_BASE = re.compile("theta|base")  # in the choices of a model
MOST_APART = 0.05  # of the largest number, however coarse a dtype is

Vectors = Float[Tensor, "head token width"]


@dataclass(frozen=True, eq=False)
class Maker:
    """A matrix and a bias: of all numbers that a module makes, those of one kind."""

    matrix: Float[Tensor, "dim out"]
    bias: Float[Tensor, "out"] | None
    factor: float = 1.0  # what the model multiplies all of them with before it attends

    def made(self, inputs: Float[Tensor, "token dim"], heads: int) -> Vectors:
        return split_heads(project(inputs, self.matrix, self.bias), heads)


class Unturned(BeforeRotary):
    """Queries and keys before positions turn them, made when somebody asks."""

    def __init__(self, heard: Heard, query: Maker, key: Maker) -> None:
        self.__dict__.update(heard=heard, query=query, key=key)  # frozen, as BeforeRotary is

    @cached_property
    def queries(self) -> Vectors:
        heard: Heard = self.__dict__["heard"]
        query: Maker = self.__dict__["query"]
        return query.made(heard.inputs, heard.heads)

    @cached_property
    def keys(self) -> Vectors:
        heard: Heard = self.__dict__["heard"]
        key: Maker = self.__dict__["key"]
        return key.made(_read(heard), heard.keys.shape[0])


@dataclass(frozen=True, eq=False)
class Recognised:
    """How a layer comes by its queries, keys and values, as far as that can be told."""

    heard: Heard  # with the factors of queries and keys in its scale
    projections: Projections | None
    before_rotary: BeforeRotary | None
    turned_by: tuple[Positions, float] | None  # None: not at all, or in a way of the model's own
    given: frozenset[str]  # what was not made here


def recognise(heard: Heard, bases: Collection[float]) -> Recognised:
    """The matrices of a layer, each if it makes what was heard; `bases` may be those of angles."""
    of_kinds = {
        "query": (heard.inputs, heard.queries),
        "key": (_read(heard), heard.keys),
        "value": (_read(heard), heard.values),
    }
    found = {
        kind: maker
        for kind, each in of_kinds.items()
        if (maker := _maker(heard.module, *each, scaled=kind != "value"))
    }
    turned = {} if {"query", "key"} & found.keys() else {
        kind: maker
        for kind in ("query", "key")
        if (maker := _maker(heard.module, *of_kinds[kind], scaled=True, turned=True))
    }  # fmt: skip
    if len(turned) < 2:
        turned = {}
    found |= turned
    heard = _unscaled(heard, found)
    before = Unturned(heard, **turned) if turned else None
    by = _turned_by(heard, turned["query"], bases) if turned else None
    return Recognised(heard, _projections(heard, found), before, by, _given(heard, found))


def _unscaled(heard: Heard, found: Mapping[str, Maker]) -> Heard:
    """With queries and keys as their matrices make them: what multiplies them scales scores."""
    query, key = (found[kind].factor if kind in found else 1.0 for kind in ("query", "key"))
    if query == key == 1:
        return heard
    return replace(
        heard,
        queries=heard.queries / query,
        keys=heard.keys / key,
        scale=heard.scale * query * key,
    )


def positions_of(layers: Sequence[Recognised]) -> tuple[Positions, float]:
    """The rotary positions of a model, where all of its layers have the same."""
    kinds = {each.turned_by for each in layers}
    (only,) = kinds if len(kinds) == 1 else (None,)
    return only or ("none", positions.BASE)


def bases_of(config: Mapping[str, Any]) -> tuple[float, ...]:
    """Every number of a model's choices that may be the base of angles, wherever it stands."""
    inner = [each for each in config.values() if isinstance(each, Mapping)]
    named = [number for name, number in config.items() if NAMED_BASE.search(str(name))]
    own = [float(number) for number in named if isinstance(number, int | float) and number > 1]
    below = [number for each in inner for number in bases_of(each)]
    return tuple(dict.fromkeys([*own, *below, positions.BASE]))


def _projections(heard: Heard, found: dict[str, Maker]) -> Projections | None:
    named = {f"w_{kind}": maker.matrix for kind, maker in found.items()}
    named |= {f"b_{kind}": each.bias for kind, each in found.items() if each.bias is not None}
    joining = {"w_out": heard.w_out, "b_out": heard.b_out}
    named |= {name: each for name, each in joining.items() if each is not None}
    return Projections(**named) if named else None


def _given(heard: Heard, found: dict[str, Maker]) -> frozenset[str]:
    """No matrix was made here; nor were vectors whose matrix nobody knows."""
    plurals = {"query": "queries", "key": "keys", "value": "values"}
    unknown = [plural for kind, plural in plurals.items() if kind not in found]
    return frozenset([*unknown, *(each.name for each in fields(Projections))])


def _read(heard: Heard) -> Float[Tensor, "key dim"]:
    """What keys and values are made of."""
    return heard.inputs if heard.memory is None else heard.memory


def _maker(
    module: nn.Module | None,
    inputs: Float[Tensor, "token dim"],
    vectors: Vectors,
    *,
    turned: bool = False,
    scaled: bool = False,
) -> Maker | None:
    """The matrix that makes these vectors of the inputs; or what becomes of them when turned."""
    few, wanted = inputs[:PROBED], vectors[:, :PROBED]
    if module is None or len(few) != wanted.shape[1]:
        return None
    for matrix, bias in _matrices(module):
        if matrix.shape[0] != few.shape[1]:
            continue
        for maker in _parts(matrix, bias, vectors.shape[0], vectors.shape[2]):
            made = maker.made(few, len(vectors))
            factor = _factor(made[:, :1], wanted[:, :1]) if scaled else 1.0
            made = made * factor
            if _is_turned(made, wanted) if turned else _same(made, wanted, len(matrix)):
                return replace(maker, factor=factor)
    return None


def _factor(made: Vectors, wanted: Vectors) -> float:
    """The one number that makes the first token's vectors of these: 1, 1/√ of the width, or any."""
    both, own = (float((made.double() * each.double()).sum()) for each in (wanted, made))
    factor = both / own if own and wanted[:, 0].numel() > 1 else 1.0
    usual = (1.0, wanted.shape[-1] ** -0.5)
    slack = min(SLACK * wanted.numel() ** 0.5 * torch.finfo(wanted.dtype).eps, MOST_APART)
    near = [each for each in usual if abs(factor / each - 1) <= slack]
    return near[0] if near else factor


def _matrices(module: nn.Module) -> Iterator[tuple[Tensor, Tensor | None]]:
    for each in module.modules():
        matrix, bias = matrix_of(each)
        if matrix is not None:
            yield matrix, bias


def _parts(matrix: Tensor, bias: Tensor | None, heads: int, width: int) -> Iterator[Maker]:
    """The columns of one kind: all of them; side by side with others; or so in each head."""
    out, own = matrix.shape[1], heads * width
    for first in range(0, out - own + 1, width):
        columns = slice(first, first + own)
        yield Maker(matrix[:, columns], None if bias is None else bias[columns])
    if heads > 1 and out % own == 0 and out > own:
        places = torch.arange(out, device=matrix.device).view(heads, -1, width)
        for kind in range(places.shape[1]):
            chosen = places[:, kind].flatten()
            yield Maker(matrix[:, chosen], None if bias is None else bias[chosen])


def _same(made: Vectors, wanted: Vectors, terms: int) -> bool:
    """Whether two ways to the same numbers differ by rounding alone."""
    rounding: float = SLACK * terms**0.5 * torch.finfo(wanted.dtype).eps
    largest = float(wanted.abs().max())
    apart = float((made - wanted).abs().max())
    return apart <= min(rounding, MOST_APART) * largest


def _is_turned(made: Vectors, wanted: Vectors) -> bool:
    """Whether vectors are as long as before, and at the first position the same."""
    terms = made.shape[-1]
    if not _same(made[:, :1], wanted[:, :1], terms**2):
        return False
    lengths = [torch.linalg.vector_norm(each, dim=-1, keepdim=True) for each in (made, wanted)]
    return _same(lengths[0], lengths[1], terms**2)


def _turned_by(
    heard: Heard, query: Maker, bases: Collection[float]
) -> tuple[Positions, float] | None:
    """The kind of rotary positions, and the base of their angles, if they do just this."""
    made = query.made(heard.inputs[:PROBED], heard.heads)
    wanted, width = heard.queries[:, :PROBED], heard.queries.shape[-1]
    kinds = [] if width % 2 else TURNED
    for kind in kinds:
        for base in bases:
            turned = positions.turned(made, base, halves=kind == "rotary-halves")
            if _same(turned, wanted, width**2):
                return kind, base
    return None
