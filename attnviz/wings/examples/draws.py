"""Draws random matrices as a tutorial does ([recipe]), with torch's generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from attnviz.traces import toml_reader as toml
from attnviz.traces.matrix_names import can_be_given
from attnviz.traces.parts import GIVEN_NAMES
from attnviz.wording.words import counted

if TYPE_CHECKING:  # a recipe is read without torch
    from torch import Generator, Tensor

    DrawFunction = Callable[..., list[Tensor]]

MAX_DRAW_SIZE = 100_000_000  # of one draw
MAX_SKIPPED_AT_ONCE = 1_000_000
BYTES_PER_NUMBER = 4  # float32
DRAWING_BYTES_PER_NUMBER = 16  # while drawing: integers or float64, and a copy


@dataclass(frozen=True, kw_only=True)
class MatrixDraw:
    """One random matrix: its name, kind of draw, shape and options."""

    name: str
    kind: str  # a key of DRAW_KINDS
    shape: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None  # restarts the generator before the draw
    skip: int = 0  # uniform numbers to skip before the draw
    transposed: bool = False

    @property
    def bias_name(self) -> str:
        """The name of the bias that is drawn with it: `b_query` for `w_query`."""
        return re.sub(r"^((?:layers\.\d+\.)?(?:cross_)?)(?:w_)?", r"\1b_", self.name)

    @property
    def shapes_by_name(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the matrix and of the bias that is drawn with it, if any, by name, without
        drawing."""
        *before, rows, columns = (1, *self.shape)
        transposed_shape = (*before[1:], columns, rows)
        shapes = {self.name: transposed_shape if self.transposed else self.shape}
        biased = DRAW_KINDS[self.kind].draws_bias and self.options.get("bias", True)
        return shapes | {self.bias_name: self.shape[-1:]} if biased else shapes


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A seed, how many uniform numbers to skip, and the draws of matrices that follow."""

    seed: int = 0
    skip: int = 0
    draws: tuple[MatrixDraw, ...] = ()

    @property
    def shapes_by_name(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all matrices and biases that are drawn, by name, without drawing."""
        return {name: shape for draw in self.draws for name, shape in draw.shapes_by_name.items()}

    @property
    def needed_bytes(self) -> int:
        """The estimated memory for drawing and keeping all matrices, in bytes."""
        numbers = [prod(shape) for shape in self.shapes_by_name.values()]
        largest = max((prod(draw.shape) for draw in self.draws), default=0)
        return BYTES_PER_NUMBER * sum(numbers) + DRAWING_BYTES_PER_NUMBER * largest


def draw_recipe(recipe: Recipe) -> dict[str, Tensor]:
    """Draw all matrices of a recipe, and return them by name; the bias of `w_query` is named
    `b_query`. A generator of its own gives the same numbers as torch.manual_seed, without side
    effects."""
    import torch

    stream = torch.Generator().manual_seed(recipe.seed)
    _skip_numbers(recipe.skip, stream)
    matrices: dict[str, Tensor] = {}
    for draw in recipe.draws:
        if draw.seed is not None:
            stream.manual_seed(draw.seed)
        _skip_numbers(draw.skip, stream)
        matrix, *biases = DRAW_KINDS[draw.kind].make(draw.shape, stream, **draw.options)
        matrices[draw.name] = matrix.mT if draw.transposed else matrix
        if biases:
            matrices[draw.bias_name] = biases[0]
    return matrices


def _skip_numbers(count: int, stream: Generator) -> None:
    """Draw `count` uniform numbers without keeping them, in parts, as all at once may be
    gigabytes."""
    import torch

    for skipped in range(0, count, MAX_SKIPPED_AT_ONCE):
        torch.rand(min(MAX_SKIPPED_AT_ONCE, count - skipped), generator=stream)


def _draw_uniform(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    """Return one matrix of uniform numbers from 0 to 1, as torch.rand draws them."""
    import torch

    return [torch.rand(*shape, generator=stream)]


def _draw_normal(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    """Return one matrix of standard normal numbers, as torch.randn draws them."""
    import torch

    return [torch.randn(*shape, generator=stream)]


def _draw_integers(
    shape: Sequence[int], stream: Generator, low: int = 0, high: int = 10
) -> list[Tensor]:
    """Return one matrix of whole numbers from `low` to below `high`, as float32."""
    import torch

    return [torch.randint(low, high, tuple(shape), generator=stream).float()]


def _draw_linear(shape: Sequence[int], stream: Generator, bias: bool = True) -> list[Tensor]:
    """Return the initial weight of torch.nn.Linear, transposed for x W, and its bias unless `bias`
    is False."""
    import torch

    inputs, outputs = shape
    weight = torch.empty(outputs, inputs)
    torch.nn.init.kaiming_uniform_(weight, a=sqrt(5), generator=stream)
    if not bias:
        return [weight.T]
    reach = 1 / sqrt(inputs)
    return [weight.T, torch.empty(outputs).uniform_(-reach, reach, generator=stream)]


def _initializer(name: str) -> DrawFunction:
    """Return a draw function that fills a matrix with torch.nn.init's initializer `name`
    ("xavier_normal")."""

    def draw_initialized(shape: Sequence[int], stream: Generator, **options: Any) -> list[Tensor]:
        import torch

        initialize = getattr(torch.nn.init, f"{name}_")
        return [initialize(torch.empty(*shape), generator=stream, **options)]

    return draw_initialized


def _draw_dropout(
    shape: Sequence[int], stream: Generator, p: float = 0.5, intel: bool = False
) -> list[Tensor]:
    """Return the mask of torch.nn.functional.dropout: 1 for numbers that are kept, otherwise 0.
    torch draws a number for each element; on Intel processors (`intel`) it draws only a seed for
    the generator of Intel's library. Either method gives the same mask on every processor here."""
    import torch

    if p == 0:  # torch draws nothing then
        return [torch.ones(*shape)]
    if intel:
        uniform = _intel_uniform(prod(shape), _next_32_bits(stream)).reshape(*shape)
    else:
        uniform = torch.rand(*shape, generator=stream, dtype=torch.float64)
    return [(uniform < 1 - p).float()]


def _next_32_bits(stream: Generator) -> int:
    """Return the next 32 bits of the generator, for which torch has no function, and advance it."""
    import torch

    two_halves = torch.empty(1, dtype=torch.int64)
    two_halves.random_(-(2**63), None, generator=stream.clone_state())  # the high half is next
    torch.empty(1, dtype=torch.int32).random_(generator=stream)  # advances by 32 bits
    return (int(two_halves.item()) >> 32) % 2**32


def _intel_uniform(count: int, seed: int) -> Tensor:
    """Return uniform numbers of MCG31m1, the generator of Intel's MKL: x → a x mod (2³¹ − 1)."""
    import torch

    modulus, factor = 2**31 - 1, 1_132_489_760
    states = torch.tensor([seed % modulus or 1])
    while len(states) < count:  # doubles the states; `factor` advances by their number
        states = torch.cat([states, states * factor % modulus])
        factor = factor * factor % modulus
    return states[:count].double() / modulus


@dataclass(frozen=True)
class DrawKind:
    """One kind of draw: its function, its options, and the dimensions it takes."""

    make: DrawFunction
    options: Mapping[str, toml.ValueKind] = field(default_factory=dict)
    sides: int | None = None  # the exact number of dimensions; None allows any
    min_sides: int = 1  # the smallest number of dimensions
    draws_bias: bool = False  # whether a bias is drawn, too


COUNT_TYPE = toml.ValueKind(
    lambda value: toml.is_whole_number(value) and value > 0, "a whole number from 1"
)
SHAPE_TYPE = toml.ValueKind(
    lambda value: toml.is_list(value, int) and all(map(COUNT_TYPE.fits, value)),
    "a list of sizes, such as [4, 3]",
)
_INTEGER_TYPE = toml.ValueKind(
    lambda value: toml.is_whole_number(value) and abs(value) <= toml.MAX_INTEGER,
    f"a whole number of at most {toml.MAX_INTEGER:,}",
)
_FINITE_TYPE = replace(toml.NUMBER_TYPE, fits=toml.is_number)
_SHARE_TYPE = toml.ValueKind(
    lambda value: toml.is_number(value, 0) and value < 1, "a number from 0 and below 1, such as 0.1"
)
_GAIN_OPTION: Mapping[str, toml.ValueKind] = {"gain": toml.POSITIVE_TYPE}
_KAIMING_OPTIONS: Mapping[str, toml.ValueKind] = {
    "a": _FINITE_TYPE,
    "mode": toml.one_word_of("fan_in", "fan_out"),
    "nonlinearity": toml.one_word_of("leaky_relu", "relu", "linear", "sigmoid", "tanh", "selu"),
}

DRAW_KINDS: dict[str, DrawKind] = {
    "rand": DrawKind(_draw_uniform),
    "randn": DrawKind(_draw_normal),
    "randint": DrawKind(_draw_integers, {"low": _INTEGER_TYPE, "high": _INTEGER_TYPE}),
    "linear": DrawKind(_draw_linear, {"bias": toml.BOOLEAN_TYPE}, sides=2, draws_bias=True),
    "uniform": DrawKind(_initializer("uniform"), {"a": _FINITE_TYPE, "b": _FINITE_TYPE}),
    "normal": DrawKind(_initializer("normal"), {"mean": _FINITE_TYPE, "std": toml.POSITIVE_TYPE}),
    "xavier_uniform": DrawKind(_initializer("xavier_uniform"), _GAIN_OPTION, min_sides=2),
    "xavier_normal": DrawKind(_initializer("xavier_normal"), _GAIN_OPTION, min_sides=2),
    "kaiming_uniform": DrawKind(_initializer("kaiming_uniform"), _KAIMING_OPTIONS, min_sides=2),
    "kaiming_normal": DrawKind(_initializer("kaiming_normal"), _KAIMING_OPTIONS, min_sides=2),
    "dropout": DrawKind(_draw_dropout, {"p": _SHARE_TYPE, "intel": toml.BOOLEAN_TYPE}),
}


_STREAM = {"seed": toml.int_range(0, toml.MAX_INTEGER), "skip": toml.int_range(0, MAX_DRAW_SIZE)}
RECIPE_TYPES: Mapping[str, toml.ValueKind] = {
    **_STREAM,
    "draws": toml.ValueKind(lambda value: toml.is_list(value, dict, least=0), "a list of draws"),
}
DRAW_TYPES: Mapping[str, toml.ValueKind] = {
    "name": toml.TEXT_TYPE,
    **_STREAM,
    "transposed": toml.BOOLEAN_TYPE,
}
DEFAULT_BOUNDS: Mapping[str, Mapping[str, int]] = {
    "randint": {"low": 0, "high": 10},
    "uniform": {"a": 0, "b": 1},
}


def read_recipe(table: toml.Table) -> Recipe:
    """Return the recipe in the table [recipe]; refuse unknown keys and draws that cannot be
    made."""
    table.check("key of a recipe", RECIPE_TYPES)
    draws = tuple(map(_read_draw, table.tables("draws")))
    return Recipe(seed=table.values.get("seed", 0), skip=table.values.get("skip", 0), draws=draws)


def refuse_unused_draws(draws: Sequence[MatrixDraw], used: set[str], table: toml.Table) -> None:
    """Refuse two draws of one name, and a draw not in `used` whose name looks like a misspelt
    matrix."""
    names: set[str] = set()
    for number, draw in enumerate(draws):
        if draw.name in names:
            problem = f"two draws are called '{draw.name}'"
            raise table.error(problem, "give each a name of its own", "draws", number)
        names.add(draw.name)
        if draw.name not in used and not can_be_given(draw.name):
            for nearest in get_close_matches(draw.name, GIVEN_NAMES, n=1, cutoff=0.8):
                problem = f"the draw '{draw.name}' is not used"
                raise table.error(problem, f"did you mean '{nearest}'?", "draws", number)


def _read_draw(table: toml.Table) -> MatrixDraw:
    """Return the draw of a table such as `{ name = "w_query", linear = [3, 2], bias = false }`.

    Refuses unknown keys, a missing name or kind, shapes that do not fit the kind, and bounds in the
    wrong order.
    """
    values = table.values
    if "name" not in values:
        raise table.error("a draw has no name", 'write { name = "embeddings", rand = [4, 3] }')
    table.refuse_misfit("name", toml.TEXT_TYPE)
    name = values["name"]
    kind = _draw_kind(table, name)
    shape, options = _draw_shape(table, kind, name), DRAW_KINDS[kind].options
    known_keys = {"name": toml.TEXT_TYPE, kind: SHAPE_TYPE, **options, **DRAW_TYPES}
    table.check(f"key of a draw with {kind}", known_keys)
    if bounds := DEFAULT_BOUNDS.get(kind):
        low, high = (values.get(bound, number) for bound, number in bounds.items())
        if low >= high:
            hint = ", ".join(f"{bound} = {number}" for bound, number in bounds.items())
            problem = f"{kind} draws from {' to '.join(bounds)}, but here from {low} to {high}"
            raise table.error(problem, f"give {hint}")
    if values.get("transposed") and len(shape) < 2:
        problem = f"the draw '{name}' has one dimension, so it cannot be transposed"
        raise table.error(problem, "give it two dimensions, such as [2, 3]")
    return MatrixDraw(
        name=name,
        kind=kind,
        shape=shape,
        options={key: toml.plain_number(values[key]) for key in options if key in values},
        **{key: values[key] for key in ("seed", "skip", "transposed") if key in values},
    )


def _draw_kind(table: toml.Table, name: str) -> str:
    """Return the kind of a draw, such as "randn"; refuse a table that has none or several."""
    kinds = [kind for kind in DRAW_KINDS if kind in table.values]
    if len(kinds) == 1:
        return kinds[0]
    known_keys = {*DRAW_KINDS, *DRAW_TYPES}.union(*(kind.options for kind in DRAW_KINDS.values()))
    for key in table.values:
        if key not in known_keys:
            table.refuse_unknown("kind of draw", key, DRAW_KINDS)
    hint = f"give one of {', '.join(DRAW_KINDS)} with its shape"
    raise table.error(f"the draw '{name}' has no kind", hint)


def _draw_shape(table: toml.Table, kind: str, name: str) -> tuple[int, ...]:
    """Return the shape of a draw; refuse one that its kind does not take, or that is too large."""
    shape, sides, min_sides = table.values[kind], DRAW_KINDS[kind].sides, DRAW_KINDS[kind].min_sides
    if not SHAPE_TYPE.fits(shape):
        raise table.error(f"the draw '{name}' has no shape", f"{kind} = [4, 3]", kind)
    if sides not in (None, len(shape)) or len(shape) < min_sides:
        count = counted(len(shape), "dimension")
        problem = f"the draw '{name}' has {count}, but {kind} fills a matrix"
        raise table.error(problem, f"{kind} = [4, 3]", kind)
    if prod(shape) > MAX_DRAW_SIZE:
        hint = f"at most {MAX_DRAW_SIZE:,} can be drawn"
        raise table.error(f"a draw of {prod(shape):,} numbers is too large", hint, kind)
    return tuple(shape)
