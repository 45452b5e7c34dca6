"""Parts of an attention that multiply to another, as equations: Q · Kᵀ = S and W · V = C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.cells import Whole
from attnviz.views.grids.grid import Grid
from attnviz.views.view import Group


@dataclass(frozen=True)
class Product:
    """Two parts and what they multiply to, by their names after --show and by their letters."""

    parts: tuple[str, str, str]
    letters: tuple[str, str, str]
    turned: str = ""  # the part whose rows are columns here


OF_SCORES = Product(("queries", "keys", "scores"), ("Q", "Kᵀ", "S"), turned="keys")
OF_CONTEXT = Product(("weights", "values", "context"), ("W", "V", "C"))
PRODUCTS = (OF_SCORES, OF_CONTEXT)


def asks_for(product: Product, show: Iterable[str]) -> bool:
    """Whether all three of its parts are to be shown."""
    return set(product.parts) <= set(show)


def in_order(show: Iterable[str], every: Sequence[str]) -> list[str]:
    """The names in the order in which things happen; but the parts of a product side by side."""
    wanted = set(show)
    ordered = [name for name in every if name in wanted]
    for product in PRODUCTS:
        if asks_for(product, wanted):
            place = ordered.index(product.parts[0])
            before = [name for name in ordered[:place] if name not in product.parts]
            after = [name for name in ordered[place:] if name not in product.parts]
            ordered = [*before, *product.parts, *after]
    return ordered


def with_products(
    name: str, grids: Mapping[str, Sequence[Grid]], products: Sequence[Product]
) -> Iterator[Group]:
    """The parts of an attention, those that make a product as an equation for each head.

    `products` are those that there are: of scores that are given there is none.
    """
    left = dict(grids)
    for part, shown in grids.items():
        product = next((each for each in products if each.parts[0] == part), None)
        if product and _complete(product, grids):
            for head in _by_head(*(left.pop(each) for each in product.parts)):
                yield Group(f"{part} {name}", _equation(product, head), kind="product")
        elif shown and part in left:
            yield Group(f"{part} {name}", tuple(shown))


def _complete(product: Product, grids: Mapping[str, Sequence[Grid]]) -> bool:
    """Whether each head has all three; several may share keys, or values."""
    reading, read, made = (len(grids.get(part, ())) for part in product.parts)
    return reading == made > 0 and read > 0 and reading % read == 0


def _by_head(
    reading: Sequence[Grid], read: Sequence[Grid], made: Sequence[Grid]
) -> Iterator[tuple[Grid, Grid, Grid]]:
    """The three of each head."""
    sharing = len(reading) // len(read)
    for head, (first, last) in enumerate(zip(reading, made, strict=True)):
        yield first, read[head // sharing], last


def _equation(product: Product, head: Iterable[Grid]) -> tuple[Grid, ...]:
    named = zip(head, product.parts, product.letters, strict=True)
    return tuple(
        replace(
            turned(grid) if part == product.turned else grid,
            title=f"{letter}  {grid.title}",
        )
        for grid, part, letter in named
    )


def turned(grid: Grid) -> Grid:
    """Its rows as columns."""
    cells = Whole(grid.values.T, grid.hidden.T)
    return replace(grid, rows=grid.columns, columns=grid.rows, cells=cells)
