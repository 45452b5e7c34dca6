"""Plan: counts, widths and sources of numbers, decided and checked before computing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.mistakes import MISTAKES, Mistake
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError, opt
from attnviz.traces.given_arrays import in_file
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
from attnviz.vectors.random_numbers import Seeds
from attnviz.wording.words import counted

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
MEMORY_NAMES = ("memory", "memory_tokens")
FEED_FORWARD_NAMES = tuple(
    n for n in GIVEN_BLOCK_NAMES if not n.startswith(("attention_", "cross_"))
)
NORM_NAMES = tuple(n for n in GIVEN_BLOCK_NAMES if n.endswith(("_gain", "_shift")))
CROSS_NAMES = tuple(n for n in GIVEN_BLOCK_NAMES if n.startswith("cross_"))
PROJECTION_NAMES = ("w_query", "w_key", "w_value", "w_score", "b_query", "b_key", "b_value")
MAKERS_BY_GIVEN_NAME = {  # projections that are not used if their result is given
    "queries": ("w_query", "b_query"),
    "keys": ("w_key", "b_key"),
    "values": ("w_value", "b_value"),
    "scores": ("w_query", "b_query", "w_key", "b_key"),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """The variant, widths, seeds and given matrices that layers are computed with."""

    settings: Settings
    variant: Variant
    matrices: Matrices  # as given
    seeds: Seeds
    width: int | None  # of a head's queries and keys; None: the scores are given
    value_width: int  # of a head's values
    feed_forward: int | None  # hidden width; None: FEED_FORWARD_FACTOR times the embedding's
    key_inputs: Float[Tensor, "key dim"] | None = None  # if keys are not computed from the inputs
    mistake: str = ""
    training: bool = False  # then the training loop checks for overflow
    streams: bool = False  # whether weights are computed only where they are shown

    def draw_matrix(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """Return the random matrix of this name, which with the seed decides its numbers, on the
        device and in the dtype of `like`.
        """
        return self.seeds.draw_projection(name, rows, columns).to(like)

    def hidden_width(self, dim: int) -> int:
        return self.feed_forward or FEED_FORWARD_FACTOR * dim

    @property
    def deliberate_mistake(self) -> Mistake | None:
        """The mistake to make on purpose; None without one."""
        return MISTAKES.get(self.mistake)


def build_plan(
    settings: Settings,
    matrices: Matrices,
    dim: int,
    *,
    mistake: str = "",
    seeds: Seeds | None = None,
) -> Plan:
    """Return the plan that follows from settings and given matrices; embeddings are `dim` wide.

    Refuses settings that contradict matrices, matrices that would not be used or do not fit, and
    switched-off heads that do not exist.
    """
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
    """Return the variant with what the settings and the given matrices override.

    A given w_score makes it additive. Refuses settings that contradict the matrices, and a number
    of heads that is no multiple of the key-value heads.
    """
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
    """Return the number of heads: of the given matrices, else of the settings, else inferred.

    Refuses settings that contradict the matrices, and widths that such heads cannot share.
    """
    sizes = matrices.sizes
    head_count = sizes.get("head", settings.heads or _infer_heads(settings, sizes, variant))
    _refuse_other_setting(matrices, settings, "heads", head_count, f"{head_count}")
    _refuse_uneven_widths(matrices, head_count)
    return head_count


def _refuse_other_setting(
    matrices: Matrices, settings: Settings, name: str, given: int, described: str
) -> None:
    """Refuse a setting that is not what the matrices give, which is `described` in the message."""
    value = getattr(settings, name)
    if value not in (None, given):
        raise matrices.error(
            f"{opt[name]:is {value}}, but {matrices.source_text} has {described}",
            f"leave {opt[name]} out, or give {opt[name]:{given}}",
            about=name,
        )


def _infer_heads(settings: Settings, sizes: dict[str, int], variant: Variant) -> int:
    """Return the number of heads where neither settings nor matrices hold it: from the key-value
    heads and the widths of given matrices, else that of the variant.
    """
    if settings.kv_heads and "group" not in sizes:
        sharing, _ = _heads_per_kv_head(sizes)
        return settings.kv_heads * sharing if sharing > 1 else variant.heads
    return sizes.get("group", variant.heads)


def _resolve_kv_heads(settings: Settings, matrices: Matrices, heads: int) -> int:
    """Return the number of key-value heads: of given keys or values, else inferred from the widths
    of matrices, else of the settings, else `heads`.

    Refuses settings that contradict the matrices, and a number that does not divide `heads`.
    """
    sharing, _ = _heads_per_kv_head(matrices.sizes)
    inferred_count = heads // sharing if sharing > 1 else settings.kv_heads or heads
    count = matrices.sizes.get("group", inferred_count)
    described = f"{counted(count, 'head')} of keys and values"
    _refuse_other_setting(matrices, settings, "kv_heads", count, described)
    refuse_uneven_heads(heads, count)
    return count


def _heads_per_kv_head(sizes: dict[str, int]) -> tuple[int, tuple[str, str]]:
    """Return how many heads share each key-value head, by the widths of given matrices, and the two
    dimensions that tell ("query_width", "key_width"); 1 and empty names if none do.
    """
    for wide_side, narrow_side in (("query_width", "key_width"), ("joined_width", "value_width")):
        wide_size, narrow_size = sizes.get(wide_side, 0), sizes.get(narrow_side, 0)
        if narrow_size and narrow_size < wide_size and not wide_size % narrow_size:
            return wide_size // narrow_size, (wide_side, narrow_side)
    return 1, ("", "")


def _refuse_uneven_widths(matrices: Matrices, heads: int) -> None:
    """Refuse heads that cannot share keys and values in equal groups, as widths of matrices say."""
    sharing, sides = _heads_per_kv_head(matrices.sizes)
    if heads % sharing == 0:
        return
    wide, narrow = (VECTORS_BY_WIDTH[side] for side in sides)
    wide_width, narrow_width = (matrices.sizes[side] for side in sides)
    wide_matrix, narrow_matrix = (MATRIX_BY_WIDTH[side] for side in sides)
    head_count = f"there {'is' if heads == 1 else 'are'} {counted(heads, 'head')}"
    raise matrices.error(
        f"{wide} are {wide_width} wide{in_file(matrices.source)} and {narrow} {narrow_width}, so "
        f"every {sharing} heads would share keys and values, but {head_count}",
        f"try {sharing} heads, or another multiple of {sharing}; or make '{narrow_matrix}' and "
        f"'{wide_matrix}' for the same width",
        about=narrow_matrix,
    )


def _resolve_value_width(matrices: Matrices, variant: Variant) -> int | None:
    """Return the width of a head's values, by given values, w_value or w_out; else None.

    Refuses values and w_out that disagree.
    """
    sizes, heads = matrices.sizes, variant.heads
    value_width = _width_per_head(sizes, "value_width", variant.kv_heads or heads)
    value_width = value_width or sizes.get("head_value")
    joined_width = _width_per_head(sizes, "joined_width", heads)
    if value_width and joined_width and value_width != joined_width:
        raise matrices.error(
            f"values of a head are {value_width} wide{in_file(matrices.source)}, "
            f"but 'w_out' joins heads that are {joined_width} wide",
            f"give 'w_out' {heads * value_width} rows",
            about="w_out",
        )
    return value_width or joined_width


def _has_output_projection(matrices: Matrices, settings: Settings, variant: Variant) -> bool:
    """Return whether an output projection joins the heads: if w_out is given, or the variant has
    one, except outside blocks for matrices that are given per head.
    """
    has_given_heads = matrices.sizes.get("head", 1) > 1 and not settings.has_blocks
    return matrices.w_out is not None or (variant.joined and not has_given_heads)


def _heads_split_embeddings(matrices: Matrices) -> bool:
    """Return whether heads of a variant without projections must split the embeddings, because
    values are not given, or neither scores nor both queries and keys are.
    """
    has_queries_and_keys = matrices.queries is not None and matrices.keys is not None
    return matrices.values is None or not (has_queries_and_keys or matrices.scores is not None)


def _resolve_query_width(
    settings: Settings, variant: Variant, matrices: Matrices, dim: int
) -> int | None:
    """Return the width of a head's queries: of given matrices, else of the settings, else the
    embeddings' width divided by the heads; None if scores are given and no width is.

    Refuses queries and keys of different widths, and a --head-dim that contradicts matrices.
    """
    sizes = matrices.sizes
    query_width = _width_per_head(sizes, "query_width", variant.heads) or sizes.get("width")
    key_width = _width_per_head(sizes, "key_width", variant.kv_heads or variant.heads)
    if query_width and key_width and key_width != query_width:
        raise matrices.error(
            f"queries of a head are {query_width} wide{in_file(matrices.source)}, but 'w_key' "
            f"makes keys that are {key_width} wide: they cannot be multiplied",
            f"give 'w_key' {(variant.kv_heads or variant.heads) * query_width} columns",
            about="w_key",
        )
    query_width = query_width or key_width
    if query_width is None:
        has_given_scores = matrices.scores is not None
        return settings.head_dim if has_given_scores else head_width(settings, variant, dim)
    described = f"heads {query_width} wide"
    _refuse_other_setting(matrices, settings, "head_dim", query_width, described)
    return query_width


def _resolve_feed_forward_width(settings: Settings, matrices: Matrices) -> int | None:
    """Return the hidden width of feed-forward in the settings or given matrices; else None.

    Refuses settings that contradict the matrices.
    """
    width = matrices.sizes.get("hidden")
    if width is not None:
        _refuse_other_setting(matrices, settings, "feed_forward", width, f"one {width} wide")
    return settings.feed_forward or width


def _width_per_head(sizes: dict[str, int], joined_side: str, heads: int) -> int | None:
    """Return the width of one head, from a joined width ("query_width"); None if that is unknown.

    Refuses a joined width that does not split into so many heads.
    """
    if joined_side not in sizes:
        return None
    if sizes[joined_side] % heads:
        name = MATRIX_BY_WIDTH[joined_side]
        verb, sides = ("joins", "rows") if name == "w_out" else ("makes", "columns")
        raise AttnvizError(
            f"'{name}' {verb} vectors {sizes[joined_side]} wide, "
            f"which does not split into {heads} heads",
            f"give as many {sides} as {heads} times the width of a head",
            about=name,
        )
    return sizes[joined_side] // heads


def _scaling_without_width(settings: Settings) -> bool:
    """Return False: scores whose head width is not known are not scaled; refuses --scale."""
    if settings.scale:
        raise AttnvizError(
            "the scores are given, but not the width of the queries, whose square root scales them",
            f"give {opt.head_dim}, such as {opt.head_dim:64}",
        )
    return False


def refuse_unused(matrices: Matrices, settings: Settings, variant: Variant, dim: int) -> None:
    """Refuse given matrices that this variant and these settings would not use, or that do not fit.

    Among them are matrices of more layers than there are, and positions beside --positions.
    """
    _refuse_unused_in_attention(matrices, variant)
    _refuse_unused_in_block(matrices, settings)
    count, given_layers = settings.layers or 1, len(matrices.upper_layers) + 1
    if given_layers > count:
        raise matrices.error(
            f"{matrices.source_text} gives matrices of layer {given_layers - 1}, but there "
            f"{'is 1 layer' if count == 1 else f'are {count} layers'}: they count from 0",
            f"give {opt.layers:{given_layers}}, "
            f"with the {opt.heads}, {opt.norm} and {opt.activation} that belong to it",
            about="layers",
        )
    has_given_positions = matrices.positions is not None and settings.model is None
    if has_given_positions and settings.positions != "none":  # a model's are those it has learned
        raise matrices.error(
            f"{opt.positions:is {settings.positions}}, "
            f"but {matrices.source_text} gives positions as well",
            "leave one of them out",
            about="positions",
        )
    _refuse_misfit_output_matrix(matrices, variant, dim)


def _refuse_unused_in_attention(matrices: Matrices, variant: Variant) -> None:
    """Refuse given matrices that the variant lacks, or whose result is given as well."""
    if not variant.projected:
        names = (*PROJECTION_NAMES, *MEMORY_NAMES)
        hint = f"try {opt.variant:scaled}, with {opt.scale:no} if need be"
        _refuse_given_names(matrices, names, f"'{variant.name}' has no projections", hint)
    first_layer, hint = replace(matrices, upper_layers=()), "leave one of them out"
    for given_name, makers in MAKERS_BY_GIVEN_NAME.items():
        if getattr(matrices, given_name) is not None:
            reason = f"{given_name} are given and need not be computed"
            _refuse_given_names(first_layer, makers, reason, hint)
    if matrices.weights is not None:
        reason = "weights are given, which dropout does not change"
        _refuse_given_names(first_layer, ("kept",), reason, hint)
    if matrices.scores is not None and variant.additive:
        has_matrix = matrices.w_score is not None
        used = "'w_score'" if has_matrix else f"{opt.scoring:additive}"
        raise matrices.error(
            f"the scores are given{in_file(matrices.source)}, but {used} says how to compute them",
            "leave one of them out",
            about="w_score" if has_matrix else "scoring",
        )
    if not variant.compared:
        reason = f"'{variant.name}' does not compare queries with keys"
        vectors = ("queries", "keys", "scores")
        _refuse_given_names(matrices, vectors, reason, f"try {opt.variant:causal}")


def _refuse_unused_in_block(matrices: Matrices, settings: Settings) -> None:
    """Refuse given matrices of a block, of feed-forward, of LayerNorm or of cross-attention where
    the settings have none.
    """
    if not settings.has_blocks:
        hint = (
            f"give {opt.layers:{len(matrices.upper_layers) + 1}}, with the {opt.heads}, {opt.norm} "
            f"and {opt.activation} that belong to it"
        )
        reason = "there is no transformer block"
        _refuse_given_names(matrices, GIVEN_BLOCK_NAMES, reason, hint)
        hint += "; or, to read it without a block, key_embeddings and key_tokens"
        _refuse_given_names(matrices, MEMORY_NAMES, reason, hint)
    if settings.attention_only:
        reason = f"{opt.attention_only} leaves feed-forward out"
        hint = f"leave {opt.attention_only} out"
        _refuse_given_names(matrices, FEED_FORWARD_NAMES, reason, hint)
    if settings.norm == "none":
        reason, hint = f"{opt.norm:none} has no LayerNorm", f"give {opt.norm:post} or pre"
        _refuse_given_names(matrices, NORM_NAMES, reason, hint)
    if settings.memory is None and matrices.memory is None and matrices.memory_tokens is None:
        hint = f"give {opt.memory:TEXT}, or 'memory' in the file"
        _refuse_given_names(matrices, CROSS_NAMES, "there is no second sentence to read", hint)


def _refuse_given_names(matrices: Matrices, names: tuple[str, ...], reason: str, hint: str) -> None:
    """Refuse matrices of these names, in any layer; `reason` says why and begins the message."""
    layers = (matrices, *matrices.upper_layers)
    unused = [name for name in names if any(getattr(layer, name) is not None for layer in layers)]
    if unused:
        raise matrices.error(
            f"{reason}, but {matrices.source_text} gives '{unused[0]}'", hint, about=unused[0]
        )


def _refuse_misfit_output_matrix(matrices: Matrices, variant: Variant, dim: int) -> None:
    """Refuse w_out or b_out if the width of embeddings, or the variant, does not fit."""
    if matrices.b_out is not None and matrices.w_out is None:
        if not variant.joined:
            reason = "nothing is multiplied by w_out"
            _refuse_given_names(matrices, ("b_out",), reason, "give w_out as well")
        if len(matrices.b_out) != dim:
            raise matrices.error(
                f"'b_out' in {matrices.source_text} is {len(matrices.b_out)} wide, but what it is "
                f"added to is {dim} wide",
                "give w_out as well, or as many numbers as an embedding has",
                about="b_out",
            )
    rows = matrices.sizes.get("joined_width", dim)
    if not variant.projected and matrices.values is None and rows != dim:
        raise matrices.error(
            f"'w_out' in {matrices.source_text} has {counted(rows, 'row')}, "
            f"but '{variant.name}' mixes embeddings that are {dim} wide",
            "give values as well, or a row for each number of an embedding",
            about="w_out",
        )
