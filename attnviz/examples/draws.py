"""Numbers drawn as a tutorial draws them: the recipe, checked, and torch's own generator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from attnviz.errors import unknown
from attnviz.examples import value_types
from attnviz.examples.value_types import ExampleFile, Kind
from attnviz.traces.by_layer import can_be_given
from attnviz.traces.parts import GIVEN_NAMES
from attnviz.wording.words import counted

if TYPE_CHECKING:  # a recipe is read without torch
    from torch import Generator, Tensor

    Make = Callable[..., list[Tensor]]


SKIPPED_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw: what it is called, which kind it is, and its shape.

    Before it the generator may begin anew from a seed of its own, and numbers may be passed over.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    skip: int = 0
    transposed: bool = False

    @property
    def bias(self) -> str:
        """What a bias is called that is drawn with it: that of `w_query` is `b_query`."""
        return re.sub(r"^((?:layers\.\d+\.)?(?:cross_)?)(?:w_)?", r"\1b_", self.name)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What comes out, by name, and its shape; none of it need be drawn for that."""
        *before, rows, columns = (1, *self.shape)
        turned = (*before[1:], columns, rows)
        found = {self.name: turned if self.transposed else self.shape}
        biased = KINDS[self.kind].biased and self.options.get("bias", True)
        return found | {self.bias: self.shape[-1:]} if biased else found


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A seed, how many uniform draws are skipped, and what is drawn then."""

    seed: int = 0
    skip: int = 0
    draws: tuple[Draw, ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Everything that is drawn, by name, and its shape."""
        return {name: shape for draw in self.draws for name, shape in draw.shapes.items()}

    @property
    def bytes(self) -> int:
        """What it takes to draw everything, and to keep it."""
        numbers = [prod(shape) for shape in self.shapes.values()]
        largest = max((prod(draw.shape) for draw in self.draws), default=0)
        return KEPT * sum(numbers) + MEANWHILE * largest


KEPT = 4  # bytes of a number, in float32,
MEANWHILE = 16  # and of what it is made of: whole numbers, or float64, and a copy


def drawn(recipe: Recipe) -> dict[str, Tensor]:
    """Everything that a recipe draws, by name; a bias of `w_query` is called `b_query`.

    A generator of our own gives the numbers that torch.manual_seed would.
    """
    import torch

    stream = torch.Generator().manual_seed(recipe.seed)
    _skip(recipe.skip, stream)
    found: dict[str, Tensor] = {}
    for draw in recipe.draws:
        if draw.seed is not None:
            stream.manual_seed(draw.seed)
        _skip(draw.skip, stream)
        matrix, *biases = KINDS[draw.kind].make(draw.shape, stream, **draw.options)
        found[draw.name] = matrix.mT if draw.transposed else matrix
        found |= dict.fromkeys([draw.bias], biases[0]) if biases else {}
    return found


def _skip(count: int, stream: Generator) -> None:
    """Uniform numbers that are drawn and not kept, some at a time: all at once may be gigabytes."""
    import torch

    for done in range(0, count, SKIPPED_AT_ONCE):
        torch.rand(min(SKIPPED_AT_ONCE, count - done), generator=stream)


def _rand(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    import torch

    return [torch.rand(*shape, generator=stream)]


def _randn(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    import torch

    return [torch.randn(*shape, generator=stream)]


def _randint(shape: Sequence[int], stream: Generator, low: int = 0, high: int = 10) -> list[Tensor]:
    import torch

    return [torch.randint(low, high, tuple(shape), generator=stream).float()]


def _linear(shape: Sequence[int], stream: Generator, bias: bool = True) -> list[Tensor]:
    """What torch.nn.Linear begins with: its matrix, from the left as x W, and its bias."""
    import torch

    inputs, outputs = shape
    weight = torch.empty(outputs, inputs)
    torch.nn.init.kaiming_uniform_(weight, a=sqrt(5), generator=stream)
    if not bias:
        return [weight.T]
    reach = 1 / sqrt(inputs)
    return [weight.T, torch.empty(outputs).uniform_(-reach, reach, generator=stream)]


def _initial(name: str) -> Make:
    """What the function of torch.nn.init that is called so, and takes the same options, makes."""

    def made(shape: Sequence[int], stream: Generator, **options: Any) -> list[Tensor]:
        import torch

        fill = getattr(torch.nn.init, f"{name}_")
        return [fill(torch.empty(*shape), generator=stream, **options)]

    return made


def _dropout(
    shape: Sequence[int], stream: Generator, p: float = 0.5, intel: bool = False
) -> list[Tensor]:
    """What torch.nn.functional.dropout keeps, 1 or 0, of numbers of this shape.

    torch asks its generator for a number for each; on a processor of Intel's it asks for one,
    and has the rest from Intel's library. Here each way is the same on every processor.
    """
    import torch

    if p == 0:  # nothing is dropped, and nothing drawn
        return [torch.ones(*shape)]
    if intel:
        uniform = _of_intel(prod(shape), _bits(stream)).reshape(*shape)
    else:
        uniform = torch.rand(*shape, generator=stream, dtype=torch.float64)
    return [(uniform < 1 - p).float()]


def _bits(stream: Generator) -> int:
    """The next 32 bits of the generator, which would come out of it in no other way whole."""
    import torch

    both = torch.empty(1, dtype=torch.int64)
    both.random_(-(2**63), None, generator=stream.clone_state())  # the first half is the next
    torch.empty(1, dtype=torch.int32).random_(generator=stream)  # which is used up
    return (int(both.item()) >> 32) % 2**32


def _of_intel(count: int, seed: int) -> Tensor:
    """Uniform numbers of MCG31m1, the generator of Intel's library: x → a x mod (2³¹ − 1)."""
    import torch

    modulus, factor = 2**31 - 1, 1_132_489_760
    found = torch.tensor([seed % modulus or 1])
    while len(found) < count:  # twice as many, each further on by as many as there are
        found = torch.cat([found, found * factor % modulus])
        factor = factor * factor % modulus
    return found[:count].double() / modulus


@dataclass(frozen=True)
class DrawKind:
    """One kind of draw: how it is made, and what it takes beside its shape."""

    make: Make
    options: Mapping[str, Kind] = field(default_factory=dict)
    sides: int | None = None  # exactly so many; None: any number,
    least: int = 1  # from this one
    biased: bool = False  # whether a bias comes with it


_GAIN: Mapping[str, Kind] = {"gain": value_types.POSITIVE}
_KAIMING: Mapping[str, Kind] = {
    "a": value_types.FINITE,
    "mode": value_types.one_of("fan_in", "fan_out"),
    "nonlinearity": value_types.one_of("leaky_relu", "relu", "linear", "sigmoid", "tanh", "selu"),
}

KINDS: dict[str, DrawKind] = {
    "rand": DrawKind(_rand),
    "randn": DrawKind(_randn),
    "randint": DrawKind(_randint, {"low": value_types.INTEGER, "high": value_types.INTEGER}),
    "linear": DrawKind(_linear, {"bias": value_types.YES}, sides=2, biased=True),
    "uniform": DrawKind(_initial("uniform"), {"a": value_types.FINITE, "b": value_types.FINITE}),
    "normal": DrawKind(
        _initial("normal"), {"mean": value_types.FINITE, "std": value_types.POSITIVE}
    ),
    "xavier_uniform": DrawKind(_initial("xavier_uniform"), _GAIN, least=2),
    "xavier_normal": DrawKind(_initial("xavier_normal"), _GAIN, least=2),
    "kaiming_uniform": DrawKind(_initial("kaiming_uniform"), _KAIMING, least=2),
    "kaiming_normal": DrawKind(_initial("kaiming_normal"), _KAIMING, least=2),
    "dropout": DrawKind(_dropout, {"p": value_types.SHARE, "intel": value_types.YES}),
}


RECIPE = ("seed", "skip", "draws")


def recipe_of(table: Mapping[str, Any], file: ExampleFile) -> Recipe:
    """What stands under [recipe]."""
    file.refuse_unknown("key of a recipe", table, RECIPE, "[recipe]")
    file.refuse_other_kinds(table, value_types.RECIPE, "[recipe]")
    draws = tuple(_draw(each, file) for each in table.get("draws", []))
    return Recipe(seed=table.get("seed", 0), skip=table.get("skip", 0), draws=draws)


def refuse_misnamed(draws: Sequence[Draw], used: set[str], file: ExampleFile) -> None:
    """A draw stands alone under its name, and is not nearly called what could be given."""
    counts = Counter(draw.name for draw in draws)
    for name, count in counts.items():
        line = file.line_of_text(name)
        if count > 1:
            raise file.error(f"two draws are called '{name}'", "give each a name of its own", line)
        if name in used:
            continue
        nearest = get_close_matches(name, GIVEN_NAMES, n=1, cutoff=0.8)
        if not can_be_given(name) and nearest:
            hint = f"did you mean '{nearest[0]}'?"
            raise file.error(f"the draw '{name}' is not used", hint, line)


def _draw(table: Any, file: ExampleFile) -> Draw:
    """`{ name = "w_query", linear = [3, 2], bias = false }`"""
    if not isinstance(table, dict) or "name" not in table:
        raise file.error(
            "a draw has no name",
            'write { name = "embeddings", rand = [4, 3] }',
            file.line("draws"),
        )
    name = str(table["name"])
    file.refuse_other_kinds({"name": table["name"]}, value_types.DRAW)
    kind = _kind(table, name, file)
    line = file.line_of_text(name)
    shape = _shape(table[kind], name, kind, line, file)
    options = {option: table[option] for option in KINDS[kind].options if option in table}
    _refuse_other_kinds(table, {**value_types.DRAW, **KINDS[kind].options}, line, file)
    _refuse_odd_bounds(kind, options, line, file)
    if table.get("transposed") and len(shape) < 2:
        hint = "give it two dimensions, such as [2, 3]"
        raise file.error(
            f"the draw '{name}' has one dimension, so it cannot be transposed", hint, line
        )
    return Draw(
        name=name,
        kind=kind,
        shape=shape,
        options={option: value_types.plain(each) for option, each in options.items()},
        **{key: table[key] for key in ("seed", "skip", "transposed") if key in table},
    )


def _kind(table: Mapping[str, Any], name: str, file: ExampleFile) -> str:
    """The one kind of draw that is named, with none but its own keys beside it."""
    found, line = [kind for kind in KINDS if kind in table], file.line_of_text(name)
    if len(found) != 1:
        known = [
            *KINDS,
            *value_types.DRAW,
            *(option for each in KINDS.values() for option in each.options),
        ]
        odd = next((key for key in table if key not in known), None)
        if odd:
            error = unknown("kind of draw", odd, KINDS)
            raise file.error(str(error), error.hint, line)
        hint = f"give one of {', '.join(KINDS)} with its shape"
        raise file.error(f"the draw '{name}' has no kind", hint, line)
    allowed = ("name", found[0], *KINDS[found[0]].options, *value_types.DRAW)
    for key in table:
        if key not in allowed:
            error = unknown(f"key of a draw with {found[0]}", key, dict.fromkeys(allowed))
            raise file.error(str(error), error.hint, line)
    return found[0]


def _shape(
    shape: Any, name: str, kind: str, line: int | None, file: ExampleFile
) -> tuple[int, ...]:
    """The sides of a draw, as many as its kind takes."""
    sides, least = KINDS[kind].sides, KINDS[kind].least
    if not value_types.SHAPE.fits(shape):
        raise file.error(f"the draw '{name}' has no shape", f"{kind} = [4, 3]", line)
    if sides not in (None, len(shape)) or len(shape) < least:
        problem = (
            f"the draw '{name}' has {counted(len(shape), 'dimension')}, but {kind} fills a matrix"
        )
        raise file.error(problem, f"{kind} = [4, 3]", line)
    if prod(shape) > value_types.MOST_NUMBERS:
        hint = f"at most {value_types.MOST_NUMBERS:,} can be drawn"
        raise file.error(f"a draw of {prod(shape):,} numbers is too large", hint, line)
    return tuple(shape)


def _refuse_other_kinds(
    table: Mapping[str, Any], known: Mapping[str, Kind], line: int | None, file: ExampleFile
) -> None:
    for key, kind in known.items():
        if key in table and not kind.fits(table[key]):
            raise file.error(f"'{key}' is not {kind.wanted}", "change its value", line)


def _refuse_odd_bounds(
    kind: str, options: Mapping[str, Any], line: int | None, file: ExampleFile
) -> None:
    """What is drawn between two numbers needs the first to be the smaller one."""
    if kind not in BOUNDS:
        return
    usual = BOUNDS[kind]
    low, high = (options.get(name, number) for name, number in usual.items())
    if low >= high:
        hint = ", ".join(f"{name} = {number}" for name, number in usual.items())
        problem = f"{kind} draws from {' to '.join(usual)}, but here from {low} to {high}"
        raise file.error(problem, f"give {hint}", line)


BOUNDS: Mapping[str, Mapping[str, int]] = {
    "randint": {"low": 0, "high": 10},
    "uniform": {"a": 0, "b": 1},
}
