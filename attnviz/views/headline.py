"""The title of what is shown: the kind of attention, parts of it, and products of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.attention.variants import Variant
from attnviz.cells import Whole
from attnviz.traces.parts import SHOWN
from attnviz.traces.trace import Trace
from attnviz.views.conclusions.weights import title_of
from attnviz.views.grids.grid import Grid
from attnviz.views.notes import without_heads
from attnviz.views.origin_words import of_a_model, whose
from attnviz.views.view import Group
from attnviz.wording.words import counted, listed

# When a name says what is so; one that somebody made up may say anything.
HOLDS: dict[str, Callable[[Variant], bool]] = {
    "plain": lambda variant: not variant.scaled,
    "average": lambda variant: not variant.compared,
    "multi-head": lambda variant: variant.heads > 1,
    "causal": lambda variant: variant.causal,
    "scaled": lambda variant: variant.scaled,
}
MIXED = " of each head, before W_o mixes them"
INSTEAD = ("causal", "scaled")  # what it may be called whose own name says what is not so


def headline(trace: Trace) -> str:
    """The kind of attention, and anything unusual that is done to its weights."""
    layer = trace.layers[0]
    off = f"{of_a_model(trace)}{without_heads(trace)}"
    if layer.mistake:
        return f"{_kind(trace)} with a mistake ({layer.mistake}){off}"
    by_hand = layer.attended.mixed_by == "hand"
    return f"{_kind(trace)}{' with weights by hand' * by_hand}{off}"


def title_of_parts(trace: Trace, show: Sequence[str] | None, query: int | None) -> str:
    """The title over parts of a trace: what their numbers show, or what they are."""
    wanted = show or ("weights",)
    products = " and ".join(_products(trace, wanted))
    if products or "weights" in wanted:
        return products or title_of(trace, query)
    words = listed(list(dict.fromkeys(SHOWN[name].words for name in wanted)))
    return f"{words[:1].upper()}{words[1:]} of {counted(len(trace.tokens), 'token')}"


def _products(trace: Trace, show: Sequence[str]) -> Iterator[str]:
    """The equations that the parts make, in every attention."""
    every = trace.attentions
    if asks_for(OF_SCORES, show) and all(each.multiplied for each in every):
        yield "Q · Kᵀ = scores"
    if asks_for(OF_CONTEXT, show) and not any(each.off for each in every):
        mixed = any(getattr(each.projections, "w_out", None) is not None for each in every)
        yield f"W · V = context{MIXED * mixed}"


def _kind(trace: Trace) -> str:
    if trace.handed is not None:
        return f"{_read(trace, across=trace.keys is not trace.tokens)} of {whose(trace.handed)}"
    if trace.trained is not None:
        return _read(trace, across=trace.trained.which == "cross")
    if "scores" in trace.layers[0].given:
        return "attention from given scores"
    if trace.layers[0].w_score is not None:
        return "additive causal attention" if _causal(trace) else "additive attention"
    if not trace.variant.compared and trace.positions == "alibi":
        return "attention by distance alone"
    variant = replace(trace.variant, causal=_causal(trace))
    return f"{_adjective(variant)} attention"


def _read(trace: Trace, *, across: bool) -> str:
    """What a model reads: its text, as far as it may, or another sentence."""
    if across:
        return "cross-attention"
    return "causal attention" if trace.variant.causal else "attention"


def _causal(trace: Trace) -> bool:
    return trace.variant.causal and "visible" not in trace.layers[0].given


def _adjective(variant: Variant) -> str:
    if variant.name == "plain" and variant.scaled:
        return "scaled plain"
    names = (variant.name, *INSTEAD)
    return next((name for name in names if HOLDS.get(name, bool)(variant)), "unscaled")


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
