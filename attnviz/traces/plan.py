"""What is decided before anything is computed: variant, widths, and sources of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.mistakes import MISTAKES, Mistake
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import Matrices
from attnviz.traces.parts import GIVEN_BLOCK_NAMES
from attnviz.traces.settings import (
    FEED_FORWARD_FACTOR,
    Settings,
    chosen_variant,
    head_width,
    refuse_missing_heads,
    refuse_uneven_heads,
    resolve_scaling,
)
from attnviz.traces.shape_checks import in_file
from attnviz.vectors.random_numbers import Seeds
from attnviz.wording.commands import option_name
from attnviz.wording.words import counted

MAX_WEIGHTS_IN_MEMORY = (
    2**24
)  # weights of a layer, as of 4,096 tokens: of more no matrices are kept
MATRIX_BY_WIDTH = {
    "query_width": "w_query",
    "key_width": "w_key",
    "value_width": "w_value",
    "joined_width": "w_out",
}
VECTORS_BY_WIDTH = {  # of all heads together
    "query_width": "queries",
    "key_width": "keys",
    "value_width": "values",
    "joined_width": "joined heads",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What is decided before a layer is computed."""

    settings: Settings
    variant: Variant
    matrices: Matrices  # those that are given
    seeds: Seeds
    width: int | None  # of a head's queries and keys; None: the scores are given
    value_width: int  # of a head's values
    feed_forward: int | None  # how wide it is inside; None: as wide as ever
    key_inputs: Float[Tensor, "key dim"] | None = None  # what keys are made of, if not of inputs
    mistake: str = ""
    training: bool = False  # who trains looks after numbers that are too large

    def draw_matrix(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """A matrix of this name, on the device and in the dtype of `like`."""
        return self.seeds.draw_projection(name, rows, columns).to(like)

    def count_heads(self, name: str) -> int:
        """How many heads there are of a query, a key or a value."""
        kv_heads = None if name == "query" else self.variant.kv_heads
        return kv_heads or self.variant.heads

    def hidden_width(self, dim: int) -> int:
        """Of feed-forward: given, chosen, or as many times as wide as ever."""
        return self.feed_forward or FEED_FORWARD_FACTOR * dim

    def computes_by_row(self, cells: int) -> bool:
        """Whether so many weights are worked out by row, whenever some are asked for.

        Nothing may be needed for it but queries and keys: no other matrix of so many numbers.
        """
        variant, matrices = self.variant, self.matrices
        given_tensors = (matrices.scores, matrices.mask, matrices.weights, matrices.kept)
        return (
            cells > MAX_WEIGHTS_IN_MEMORY
            and not (self.training or self.mistake or variant.additive or variant.dropout)
            and self.settings.positions != "alibi"
            and all(tensor is None for tensor in given_tensors)
        )

    @property
    def deliberate_mistake(self) -> Mistake | None:
        """The mistake that is made on purpose, if one is."""
        return MISTAKES.get(self.mistake)


def build_plan(
    settings: Settings,
    matrices: Matrices,
    dim: int,
    *,
    mistake: str = "",
    seeds: Seeds | None = None,
) -> Plan:
    """The variant and the widths, once the settings and what is given are heard."""
    variant = _resolve_variant(settings, matrices)
    refuse_unused(matrices, settings, variant, dim)
    if not variant.projected and _heads_split_embeddings(matrices):
        head_width(settings, variant, dim)
    width = _resolve_query_width(settings, variant, matrices, dim)
    refuse_missing_heads(settings.without, settings.layers or 1, variant.heads)
    if width is None:
        variant = replace(variant, scaled=_scaling_without_width(settings))
    default_value_width = width if variant.projected and width else max(1, dim // variant.heads)
    return Plan(
        settings=settings,
        variant=variant,
        matrices=matrices,
        seeds=seeds or Seeds((settings.seed,)),
        width=width,
        value_width=_resolve_value_width(matrices, variant) or default_value_width,
        feed_forward=_resolve_feed_forward_width(settings, matrices),
        mistake=mistake,
    )


def _resolve_variant(settings: Settings, matrices: Matrices) -> Variant:
    """The row of the variant, with what the settings and the matrices override."""
    variant = chosen_variant(settings)
    heads = _resolve_heads(settings, matrices, variant)
    variant = replace(
        variant,
        heads=heads,
        kv_heads=_resolve_kv_heads(settings, matrices, heads),
        joined=_has_output_projection(matrices, settings, variant),
    )
    if not any(name.endswith("w_score") for name in matrices.tensors_of_all_layers):
        return variant
    additive_scaling = resolve_scaling(settings, additive=True)
    return replace(
        variant,
        additive=True,
        scaled=variant.scaled if additive_scaling is None else additive_scaling,
    )


def _resolve_heads(settings: Settings, matrices: Matrices, variant: Variant) -> int:
    """How many there are: given, chosen, or told by those of keys and values."""
    sizes = matrices.sizes
    head_count = sizes.get("head", settings.heads or _infer_heads(settings, sizes, variant))
    if settings.heads not in (None, head_count):
        raise AttnvizError(
            f"--heads is {settings.heads}, but {matrices.source_text} has {head_count}",
            f"leave --heads out, or give --heads {head_count}",
            file=matrices.source,
        )
    _refuse_uneven_widths(matrices, head_count)
    return head_count


def _infer_heads(settings: Settings, sizes: dict[str, int], variant: Variant) -> int:
    """How many heads there are, where nobody says it: by those of keys, and how many share one."""
    if settings.kv_heads and "group" not in sizes:
        return (
            settings.kv_heads * _heads_per_kv_head(sizes)[0]
            if _heads_per_kv_head(sizes)[0] > 1
            else variant.heads
        )
    return sizes.get("group", variant.heads)


def _resolve_kv_heads(settings: Settings, matrices: Matrices, heads: int) -> int:
    """How many heads of keys and values there are: given, told by how wide they are, or chosen."""
    sizes = matrices.sizes
    sharing, _ = _heads_per_kv_head(sizes)
    inferred_count = heads // sharing if sharing > 1 else settings.kv_heads or heads
    kv_head_count = sizes.get("group", inferred_count)
    if settings.kv_heads not in (None, kv_head_count):
        raise AttnvizError(
            f"{option_name('kv_heads')} is {settings.kv_heads}, but {matrices.source_text} has {kv_head_count} "
            "heads of keys and values",
            f"leave it out, or give {option_name('kv_heads')} {kv_head_count}",
            about="kv_heads",
            file=matrices.source,
        )
    refuse_uneven_heads(heads, kv_head_count)
    return kv_head_count


def _heads_per_kv_head(sizes: dict[str, int]) -> tuple[int, tuple[str, str]]:
    """How many heads share keys and values, as those are narrower; and whose widths tell it."""
    for wide_side, narrow_side in (("query_width", "key_width"), ("joined_width", "value_width")):
        wide_size, narrow_size = sizes.get(wide_side, 0), sizes.get(narrow_side, 0)
        if narrow_size and narrow_size < wide_size and not wide_size % narrow_size:
            return wide_size // narrow_size, (wide_side, narrow_side)
    return 1, ("", "")


def _refuse_uneven_widths(matrices: Matrices, heads: int) -> None:
    """Where keys are half as wide as queries, two heads share them, or four share two, …"""
    sharing, sides = _heads_per_kv_head(matrices.sizes)
    if heads % sharing == 0:
        return
    (wide_vectors, wide_matrix), (narrow_vectors, narrow_matrix) = [
        (VECTORS_BY_WIDTH[side], MATRIX_BY_WIDTH[side]) for side in sides
    ]
    widths = [matrices.sizes[side] for side in sides]
    head_count_text = f"there {'is' if heads == 1 else 'are'} {counted(heads, 'head')}"
    raise AttnvizError(
        f"{wide_vectors} are {widths[0]} wide{in_file(matrices.source)} and {narrow_vectors} {widths[1]}, so "
        f"every {sharing} heads would share keys and values, but {head_count_text}",
        f"try {sharing} heads, or another multiple of {sharing}; or make '{narrow_matrix}' and "
        f"'{wide_matrix}' for the same width",
        about=narrow_matrix,
        file=matrices.source,
    )


def _resolve_value_width(matrices: Matrices, variant: Variant) -> int | None:
    """Of one head, by the values, the matrix that makes them, or the one that joins the heads."""
    sizes, heads = matrices.sizes, variant.heads
    value_width = _width_per_head(sizes, "value_width", variant.kv_heads or heads) or sizes.get(
        "head_value"
    )
    joined_width = _width_per_head(sizes, "joined_width", heads)
    if value_width and joined_width and value_width != joined_width:
        raise AttnvizError(
            f"values of a head are {value_width} wide{in_file(matrices.source)}, but 'w_out' joins heads "
            f"that are {joined_width} wide",
            f"give 'w_out' {heads * value_width} rows",
            about="w_out",
            file=matrices.source,
        )
    return value_width or joined_width


def _has_output_projection(matrices: Matrices, settings: Settings, variant: Variant) -> bool:
    """Whether a matrix joins the heads: of heads that are given only one that is given, too."""
    has_given_heads = matrices.sizes.get("head", 1) > 1 and not settings.blocks
    return matrices.w_out is not None or (variant.joined and not has_given_heads)


def _heads_split_embeddings(matrices: Matrices) -> bool:
    """Whether heads share out embeddings, where no matrix makes anything of them."""
    has_queries_and_keys = matrices.queries is not None and matrices.keys is not None
    return matrices.values is None or not (has_queries_and_keys or matrices.scores is not None)


def _resolve_query_width(
    settings: Settings, variant: Variant, matrices: Matrices, dim: int
) -> int | None:
    """Of a head's queries and keys; None where scores are given and nobody says."""
    sizes = matrices.sizes
    query_width = _width_per_head(sizes, "query_width", variant.heads) or sizes.get("width")
    key_width = _width_per_head(sizes, "key_width", variant.kv_heads or variant.heads)
    if query_width and key_width and key_width != query_width:
        raise AttnvizError(
            f"queries of a head are {query_width} wide{in_file(matrices.source)}, but 'w_key' makes "
            f"keys that are {key_width} wide: they cannot be multiplied",
            f"give 'w_key' {(variant.kv_heads or variant.heads) * query_width} columns",
            about="w_key",
            file=matrices.source,
        )
    query_width = query_width or key_width
    if query_width is None:
        has_given_scores = matrices.scores is not None
        return settings.head_dim if has_given_scores else head_width(settings, variant, dim)
    if settings.head_dim not in (None, query_width):
        raise AttnvizError(
            f"--head-dim is {settings.head_dim}, but {matrices.source_text} has heads {query_width} wide",
            f"leave --head-dim out, or give --head-dim {query_width}",
            file=matrices.source,
        )
    return query_width


def _resolve_feed_forward_width(settings: Settings, matrices: Matrices) -> int | None:
    hidden_width = matrices.sizes.get("hidden")
    if hidden_width is not None and settings.feed_forward not in (None, hidden_width):
        raise AttnvizError(
            f"--feed-forward is {settings.feed_forward}, but {matrices.source_text} has one {hidden_width} "
            "wide",
            f"leave --feed-forward out, or give --feed-forward {hidden_width}",
            file=matrices.source,
        )
    return settings.feed_forward or hidden_width


def _width_per_head(sizes: dict[str, int], joined_side: str, heads: int) -> int | None:
    """The width of one head of a matrix that makes all of them."""
    if joined_side not in sizes:
        return None
    if sizes[joined_side] % heads:
        name = MATRIX_BY_WIDTH[joined_side]
        verb, sides = ("joins", "rows") if name == "w_out" else ("makes", "columns")
        raise AttnvizError(
            f"'{name}' {verb} vectors {sizes[joined_side]} wide, which does not split into {heads} "
            f"heads",
            f"give as many {sides} as {heads} times the width of a head",
            about=name,
        )
    return sizes[joined_side] // heads


def _scaling_without_width(settings: Settings) -> bool:
    if settings.scale:
        raise AttnvizError(
            "the scores are given, but not the width of the queries, whose square root scales them",
            "give --head-dim, such as --head-dim 64",
        )
    return False


MEMORY_NAMES = ("memory", "memory_tokens")
FEED_FORWARD_NAMES = tuple(
    n for n in GIVEN_BLOCK_NAMES if not n.startswith(("attention_", "cross_"))
)
MAKERS_BY_GIVEN_NAME = {  # what is given is not made by these
    "queries": ("w_query", "b_query"),
    "keys": ("w_key", "b_key"),
    "values": ("w_value", "b_value"),
    "scores": ("w_query", "b_query", "w_key", "b_key"),
}


def refuse_unused(matrices: Matrices, settings: Settings, variant: Variant, dim: int) -> None:
    """What is given is used; where it could not be, say so."""
    _refuse_unused_in_attention(matrices, variant)
    _refuse_unused_in_block(matrices, settings)
    _refuse_extra_layers(matrices, settings)
    if settings.model is None:  # whose positions it has learned
        _refuse_two_positions(matrices, settings)
    _refuse_misfit_output_matrix(matrices, variant, dim)


def _refuse_unused_in_attention(matrices: Matrices, variant: Variant) -> None:
    if not variant.projected:
        _refuse_given_names(
            matrices,
            (
                "w_query",
                "w_key",
                "w_value",
                "w_score",
                "b_query",
                "b_key",
                "b_value",
                *MEMORY_NAMES,
            ),
            f"'{variant.name}' has no projections",
            "try --variant scaled, with --no-scale if need be",
        )
    for given_name, makers in MAKERS_BY_GIVEN_NAME.items():
        if getattr(matrices, given_name) is not None:
            _refuse_given_in_first_layer(
                matrices, makers, f"{given_name} are given and need not be computed"
            )
    if matrices.weights is not None:
        _refuse_given_in_first_layer(
            matrices, ("kept",), "weights are given, which dropout does not change"
        )
    if matrices.scores is not None:
        _refuse_additive_with_scores(matrices, variant)
    if not variant.compared:
        _refuse_given_names(
            matrices,
            ("queries", "keys", "scores"),
            f"'{variant.name}' does not compare queries with keys",
            "try --variant causal",
        )


def _refuse_unused_in_block(matrices: Matrices, settings: Settings) -> None:
    if not settings.blocks:
        layers_option = f"--layers {len(matrices.upper_layers) + 1}"
        hint = f"give {layers_option}, with the --heads, --norm and --activation that belong to it"
        _refuse_given_names(matrices, GIVEN_BLOCK_NAMES, "there is no transformer block", hint)
        hint_without_block = (
            f"{hint}; or, to read it without a block, key_embeddings and key_tokens"
        )
        _refuse_given_names(
            matrices, MEMORY_NAMES, "there is no transformer block", hint_without_block
        )
    if settings.attention_only:
        reason = f"{option_name('attention_only')} leaves feed-forward out"
        _refuse_given_names(
            matrices, FEED_FORWARD_NAMES, reason, f"leave {option_name('attention_only')} out"
        )
    if settings.norm == "none":
        norms = tuple(name for name in GIVEN_BLOCK_NAMES if name.endswith(("_gain", "_shift")))
        _refuse_given_names(
            matrices, norms, "--norm none has no LayerNorm", "give --norm post or pre"
        )
    if settings.memory is None and matrices.memory is None and matrices.memory_tokens is None:
        cross_names = tuple(name for name in GIVEN_BLOCK_NAMES if name.startswith("cross_"))
        hint = "give --memory TEXT, or 'memory' in the file"
        _refuse_given_names(matrices, cross_names, "there is no second sentence to read", hint)


def _refuse_extra_layers(matrices: Matrices, settings: Settings) -> None:
    count, given_layers = settings.layers or 1, len(matrices.upper_layers) + 1
    if given_layers > count:
        raise AttnvizError(
            f"{matrices.source_text} gives matrices of layer {given_layers - 1}, but there "
            f"{'is 1 layer' if count == 1 else f'are {count} layers'}: they count from 0",
            f"give --layers {given_layers}, with the --heads, --norm and --activation that belong to it",
            about="layers",
            file=matrices.source,
        )


def _refuse_two_positions(matrices: Matrices, settings: Settings) -> None:
    if matrices.positions is not None and settings.positions != "none":
        raise AttnvizError(
            f"--positions is {settings.positions}, but {matrices.source_text} gives positions as well",
            "leave one of them out",
            about="positions",
            file=matrices.source,
        )


def _refuse_additive_with_scores(matrices: Matrices, variant: Variant) -> None:
    """Scores that are given are made in no way."""
    if variant.additive:
        used = "'w_score'" if matrices.w_score is not None else f"{option_name('scoring')} additive"
        raise AttnvizError(
            f"the scores are given{in_file(matrices.source)}, but {used} says how to compute them",
            "leave one of them out",
            about="w_score" if matrices.w_score is not None else "scoring",
            file=matrices.source,
        )


def _refuse_given_in_first_layer(matrices: Matrices, names: tuple[str, ...], reason: str) -> None:
    """Those of the layer that is given what they would make: others make their own."""
    _refuse_given_names(replace(matrices, upper_layers=()), names, reason, "leave one of them out")


def _refuse_given_names(matrices: Matrices, names: tuple[str, ...], reason: str, hint: str) -> None:
    layers = (matrices, *matrices.upper_layers)
    unused = [name for name in names if any(getattr(layer, name) is not None for layer in layers)]
    if unused:
        raise AttnvizError(
            f"{reason}, but {matrices.source_text} gives '{unused[0]}'",
            hint,
            about=unused[0],
            file=matrices.source,
        )


def _refuse_misfit_output_matrix(matrices: Matrices, variant: Variant, dim: int) -> None:
    """What is given of the last matrix fits vectors that are given with it, or that are not."""
    if matrices.b_out is not None and matrices.w_out is None:
        if not variant.joined:
            _refuse_given_names(
                matrices, ("b_out",), "nothing is multiplied by w_out", "give w_out as well"
            )
        if len(matrices.b_out) != dim:
            raise AttnvizError(
                f"'b_out' in {matrices.source_text} is {len(matrices.b_out)} wide, but what it is "
                f"added to is {dim} wide",
                "give w_out as well, or as many numbers as an embedding has",
                about="b_out",
                file=matrices.source,
            )
    rows = matrices.sizes.get("joined_width", dim)
    if not variant.projected and matrices.values is None and rows != dim:
        raise AttnvizError(
            f"'w_out' in {matrices.source_text} has {counted(rows, 'row')}, but '{variant.name}' mixes "
            f"embeddings that are {dim} wide",
            "give values as well, or a row for each number of an embedding",
            about="w_out",
            file=matrices.source,
        )
