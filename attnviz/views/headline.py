"""Titles: the kind of attention, the parts shown, what products such as Q · Kᵀ are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.attention.variants import Variant
from attnviz.traces.origin import FromProgram
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.trace import Trace
from attnviz.views.conclusions.weight_titles import weights_title
from attnviz.views.grids.grid import Grid
from attnviz.views.notes import heads_off_suffix
from attnviz.views.origin_words import model_suffix, weights_owner
from attnviz.views.view import Group
from attnviz.wording.words import and_list, counted

# When the name of a variant is true of its settings; a name of the user's own is always accepted.
NAME_CONDITIONS: dict[str, Callable[[Variant], bool]] = {
    "plain": lambda variant: not variant.scaled,
    "average": lambda variant: not variant.compared,
    "multi-head": lambda variant: variant.heads > 1,
    "causal": lambda variant: variant.causal,
    "scaled": lambda variant: variant.scaled,
}
BEFORE_W_O_TEXT = ", before W_o"
FALLBACK_NAMES = ("causal", "scaled")  # for variants whose own name is not true


@dataclass(frozen=True)
class Product:
    """Two parts and the product of the two, as names in --show and as letters."""

    parts: tuple[str, str, str]
    letters: tuple[str, str, str]
    transposed_part: str = ""  # the part that is multiplied as its transpose


SCORES_PRODUCT = Product(("queries", "keys", "scores"), ("Q", "Kᵀ", "S"), transposed_part="keys")
CONTEXT_PRODUCT = Product(("weights", "values", "context"), ("W", "V", "C"))
PRODUCTS = (SCORES_PRODUCT, CONTEXT_PRODUCT)


def attention_headline(trace: Trace) -> str:
    """Return a title such as `causal attention`, with any mistake, weights by hand, model and
    switched-off heads.
    """
    layer = trace.layers[0]
    origin_and_heads_off = f"{model_suffix(trace)}{heads_off_suffix(trace)}"
    if layer.mistake:
        return f"{_attention_kind(trace)} with a mistake ({layer.mistake}){origin_and_heads_off}"
    by_hand = layer.attended.mixed_by == "hand"
    return f"{_attention_kind(trace)}{' with weights by hand' * by_hand}{origin_and_heads_off}"


def parts_title(trace: Trace, show: Sequence[str] | None, query: int | None) -> str:
    """Return the title over parts of a trace (None: weights): what a product computes of which all
    three parts are shown, else a finding on the weights, else `Queries and keys of 4 tokens`.
    """
    part_names = show or ("weights",)
    title = "; ".join(_product_sentences(trace, part_names))
    if not title and "weights" in part_names:
        return weights_title(trace, query)
    words = and_list(list(dict.fromkeys(PARTS_BY_SHOW_NAME[name].words for name in part_names)))
    title = title or f"{words} of {counted(len(trace.tokens), 'token')}"
    return f"{title[:1].upper()}{title[1:]}"


def _product_sentences(trace: Trace, show: Sequence[str]) -> Iterator[str]:
    """Yield what the products Q · Kᵀ and W · V compute, where all three parts are shown and the
    product holds in every attention.
    """
    attentions = trace.attention_layers
    has_products = all(layer.has_product_scores for layer in attentions)
    if has_products and has_all_parts(SCORES_PRODUCT, show):
        yield "each score is one query times one key"
    if has_all_parts(CONTEXT_PRODUCT, show) and not any(layer.off for layer in attentions):
        matrices = [getattr(layer.projections, "w_out", None) for layer in attentions]
        is_mixed = any(matrix is not None for matrix in matrices)
        before_w_o = BEFORE_W_O_TEXT * is_mixed
        yield f"each context vector mixes the values by a row of weights{before_w_o}"


def _attention_kind(trace: Trace) -> str:
    """Return the kind of attention as a noun, such as `causal attention`, `attention from given
    scores`, or for given weights `cross-attention of minilm`.
    """
    if trace.external_origin is not None:
        kind = _model_attention_kind(trace, across=trace.keys is not trace.tokens)
        return f"{kind} of {weights_owner(trace.external_origin)}"
    if trace.trained is not None:
        return _model_attention_kind(trace, across=trace.trained.which == "cross")
    if isinstance(trace.origin, FromProgram):
        kind = _model_attention_kind(trace, across=trace.keys is not trace.tokens)
        return f"{kind} in {trace.origin.module}"
    if "scores" in trace.layers[0].given:
        return "attention from given scores"
    if trace.layers[0].w_score is not None:
        return "additive causal attention" if _is_causal_by_variant(trace) else "additive attention"
    if not trace.variant.compared and trace.positions == "alibi":
        return "attention by distance alone"
    variant = replace(trace.variant, causal=_is_causal_by_variant(trace))
    return f"{_variant_adjective(variant)} attention"


def _model_attention_kind(trace: Trace, *, across: bool) -> str:
    """Return the kind of attention of a model; `across` means that it reads another sequence."""
    if across:
        return "cross-attention"
    return "causal attention" if trace.variant.causal else "attention"


def _is_causal_by_variant(trace: Trace) -> bool:
    return trace.variant.causal and "visible" not in trace.layers[0].given


def _variant_adjective(variant: Variant) -> str:
    """Return the variant's name if it is true of its settings, else `causal`, `scaled` or
    `unscaled`.
    """
    if variant.name == "plain" and variant.scaled:
        return "scaled plain"
    names = (variant.name, *FALLBACK_NAMES)
    return next((name for name in names if NAME_CONDITIONS.get(name, bool)(variant)), "unscaled")


def has_all_parts(product: Product, show: Iterable[str]) -> bool:
    return set(product.parts) <= set(show)


def order_parts(show: Iterable[str], part_names: Sequence[str]) -> list[str]:
    """Return the requested names in the order of `part_names`, except that the three parts of a
    product stand side by side; duplicates and unknown names are left out.
    """
    requested = set(show)
    ordered = [name for name in part_names if name in requested]
    for product in PRODUCTS:
        if has_all_parts(product, requested):
            index = ordered.index(product.parts[0])
            before = [name for name in ordered[:index] if name not in product.parts]
            after = [name for name in ordered[index:] if name not in product.parts]
            ordered = [*before, *product.parts, *after]
    return ordered


def product_groups(
    name: str, grids: Mapping[str, Sequence[Grid]], products: Sequence[Product]
) -> Iterator[Group]:
    """Yield a Group for each part of one attention, named such as `weights L0`; the three parts of
    a product form one equation for each head instead.

    `grids` has the grids of each part; `products` are those that hold for this attention, which
    given scores, for example, are not.
    """
    remaining = dict(grids)
    for part, part_grids in grids.items():
        product = next((product for product in products if product.parts[0] == part), None)
        if product and _has_every_factor(product, grids):
            for head in _factors_by_head(*(remaining.pop(factor) for factor in product.parts)):
                yield Group(f"{part} {name}", _product_panels(product, head), kind="product")
        elif part_grids and part in remaining:
            yield Group(f"{part} {name}", tuple(part_grids))


def _has_every_factor(product: Product, grids: Mapping[str, Sequence[Grid]]) -> bool:
    """Return whether each head has all three parts of the product; several heads may share keys or
    values.
    """
    row_count, column_count, result_count = (len(grids.get(part, ())) for part in product.parts)
    return row_count == result_count > 0 and column_count > 0 and row_count % column_count == 0


def _factors_by_head(
    row_grids: Sequence[Grid], column_grids: Sequence[Grid], result_grids: Sequence[Grid]
) -> Iterator[tuple[Grid, Grid, Grid]]:
    """Yield, for each head, its grids of the first factor, the second factor and the product, where
    consecutive heads may share the second factor.
    """
    sharing = len(row_grids) // len(column_grids)
    for head, (row_grid, result) in enumerate(zip(row_grids, result_grids, strict=True)):
        yield row_grid, column_grids[head // sharing], result


def _product_panels(product: Product, head: Iterable[Grid]) -> tuple[Grid, ...]:
    """Return the three grids of an equation with letters in their titles, a factor such as Kᵀ
    transposed.
    """
    panels = []
    for grid, part, letter in zip(head, product.parts, product.letters, strict=True):
        factor = grid.turned() if part == product.transposed_part else grid
        panels.append(replace(factor, title=f"{letter}  {grid.title}"))
    return tuple(panels)
