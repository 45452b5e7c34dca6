"""What is decided before anything is computed: variant, widths, and sources of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.mistakes import MISTAKES, Mistake
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.fitting import in_file
from attnviz.traces.matrices import Matrices
from attnviz.traces.parts import OF_A_BLOCK
from attnviz.traces.settings import (
    FEED_FORWARD,
    Settings,
    chosen_variant,
    head_width,
    refuse_missing_heads,
    refuse_uneven_heads,
    scaled,
)
from attnviz.vectors.drawn import Seeds
from attnviz.wording.commands import option
from attnviz.wording.words import counted

MOST_IN_MEMORY = 2**24  # weights of a layer, as of 4,096 tokens: of more no matrices are kept
MADE_BY = {
    "query_width": "w_query",
    "key_width": "w_key",
    "value_width": "w_value",
    "joined_width": "w_out",
}
NAMES = {  # of all heads together
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

    def drawn(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """A matrix of this name, on the device and in the dtype of `like`."""
        return self.seeds.projection(name, rows, columns).to(like)

    def heads_of(self, name: str) -> int:
        """How many heads there are of a query, a key or a value."""
        fewer = None if name == "query" else self.variant.kv_heads
        return fewer or self.variant.heads

    def hidden_width(self, dim: int) -> int:
        """Of feed-forward: given, chosen, or as many times as wide as ever."""
        return self.feed_forward or FEED_FORWARD * dim

    def by_row(self, cells: int) -> bool:
        """Whether so many weights are worked out by row, whenever some are asked for.

        Nothing may be needed for it but queries and keys: no other matrix of so many numbers.
        """
        variant, given = self.variant, self.matrices
        others = (given.scores, given.mask, given.weights, given.kept)
        return (
            cells > MOST_IN_MEMORY
            and not (self.training or self.mistake or variant.additive or variant.dropout)
            and self.settings.positions != "alibi"
            and all(each is None for each in others)
        )

    @property
    def blunder(self) -> Mistake | None:
        """The mistake that is made on purpose, if one is."""
        return MISTAKES.get(self.mistake)


def planned(
    settings: Settings,
    matrices: Matrices,
    dim: int,
    *,
    mistake: str = "",
    seeds: Seeds | None = None,
) -> Plan:
    """The variant and the widths, once the settings and what is given are heard."""
    variant = _variant(settings, matrices)
    refuse_unused(matrices, settings, variant, dim)
    if not variant.projected and _splits_embeddings(matrices):
        head_width(settings, variant, dim)
    width = _width(settings, variant, matrices, dim)
    refuse_missing_heads(settings.without, settings.layers or 1, variant.heads)
    if width is None:
        variant = replace(variant, scaled=_scaled_without_width(settings))
    natural = width if variant.projected and width else max(1, dim // variant.heads)
    return Plan(
        settings=settings,
        variant=variant,
        matrices=matrices,
        seeds=seeds or Seeds((settings.seed,)),
        width=width,
        value_width=_width_of_values(matrices, variant) or natural,
        feed_forward=_feed_forward(settings, matrices),
        mistake=mistake,
    )


def _variant(settings: Settings, matrices: Matrices) -> Variant:
    """The row of the variant, with what the settings and the matrices override."""
    variant = chosen_variant(settings)
    heads = _heads(settings, matrices, variant)
    variant = replace(
        variant,
        heads=heads,
        kv_heads=_kv_heads(settings, matrices, heads),
        joined=_joined(matrices, settings, variant),
    )
    if not any(name.endswith("w_score") for name in matrices.of_all_layers):
        return variant
    also = scaled(settings, additive=True)
    return replace(variant, additive=True, scaled=variant.scaled if also is None else also)


def _heads(settings: Settings, matrices: Matrices, variant: Variant) -> int:
    """How many there are: given, chosen, or told by those of keys and values."""
    sizes = matrices.sizes
    found = sizes.get("head", settings.heads or _heads_told(settings, sizes, variant))
    if settings.heads not in (None, found):
        raise AttnvizError(
            f"--heads is {settings.heads}, but {matrices.called} has {found}",
            f"leave --heads out, or give --heads {found}",
            file=matrices.source,
        )
    _refuse_uneven_widths(matrices, found)
    return found


def _heads_told(settings: Settings, sizes: dict[str, int], variant: Variant) -> int:
    """How many heads there are, where nobody says it: by those of keys, and how many share one."""
    if settings.kv_heads and "group" not in sizes:
        return settings.kv_heads * _sharing(sizes)[0] if _sharing(sizes)[0] > 1 else variant.heads
    return sizes.get("group", variant.heads)


def _kv_heads(settings: Settings, matrices: Matrices, heads: int) -> int:
    """How many heads of keys and values there are: given, told by how wide they are, or chosen."""
    sizes = matrices.sizes
    sharing, _ = _sharing(sizes)
    told = heads // sharing if sharing > 1 else settings.kv_heads or heads
    found = sizes.get("group", told)
    if settings.kv_heads not in (None, found):
        raise AttnvizError(
            f"{option('kv_heads')} is {settings.kv_heads}, but {matrices.called} has {found} "
            "heads of keys and values",
            f"leave it out, or give {option('kv_heads')} {found}",
            about="kv_heads",
            file=matrices.source,
        )
    refuse_uneven_heads(heads, found)
    return found


def _sharing(sizes: dict[str, int]) -> tuple[int, tuple[str, str]]:
    """How many heads share keys and values, as those are narrower; and whose widths tell it."""
    for whole, narrower in (("query_width", "key_width"), ("joined_width", "value_width")):
        wide, narrow = sizes.get(whole, 0), sizes.get(narrower, 0)
        if narrow and narrow < wide and not wide % narrow:
            return wide // narrow, (whole, narrower)
    return 1, ("", "")


def _refuse_uneven_widths(matrices: Matrices, heads: int) -> None:
    """Where keys are half as wide as queries, two heads share them, or four share two, …"""
    sharing, sides = _sharing(matrices.sizes)
    if heads % sharing == 0:
        return
    (wide, wide_by), (narrow, narrow_by) = [(NAMES[side], MADE_BY[side]) for side in sides]
    widths = [matrices.sizes[side] for side in sides]
    there = f"there {'is' if heads == 1 else 'are'} {counted(heads, 'head')}"
    raise AttnvizError(
        f"{wide} are {widths[0]} wide{in_file(matrices.source)} and {narrow} {widths[1]}, so "
        f"every {sharing} heads would share keys and values, but {there}",
        f"try {sharing} heads, or another multiple of {sharing}; or make '{narrow_by}' and "
        f"'{wide_by}' for the same width",
        about=narrow_by,
        file=matrices.source,
    )


def _width_of_values(matrices: Matrices, variant: Variant) -> int | None:
    """Of one head, by the values, the matrix that makes them, or the one that joins the heads."""
    sizes, heads = matrices.sizes, variant.heads
    made = _shared_out(sizes, "value_width", variant.kv_heads or heads) or sizes.get("head_value")
    joined = _shared_out(sizes, "joined_width", heads)
    if made and joined and made != joined:
        raise AttnvizError(
            f"values of a head are {made} wide{in_file(matrices.source)}, but 'w_out' joins heads "
            f"that are {joined} wide",
            f"give 'w_out' {heads * made} rows",
            about="w_out",
            file=matrices.source,
        )
    return made or joined


def _joined(matrices: Matrices, settings: Settings, variant: Variant) -> bool:
    """Whether a matrix joins the heads: of heads that are given only one that is given, too."""
    given = matrices.sizes.get("head", 1) > 1 and not settings.blocks
    return matrices.w_out is not None or (variant.joined and not given)


def _splits_embeddings(matrices: Matrices) -> bool:
    """Whether heads share out embeddings, where no matrix makes anything of them."""
    both = matrices.queries is not None and matrices.keys is not None
    return matrices.values is None or not (both or matrices.scores is not None)


def _width(settings: Settings, variant: Variant, matrices: Matrices, dim: int) -> int | None:
    """Of a head's queries and keys; None where scores are given and nobody says."""
    sizes = matrices.sizes
    found = _shared_out(sizes, "query_width", variant.heads) or sizes.get("width")
    keys = _shared_out(sizes, "key_width", variant.kv_heads or variant.heads)
    if found and keys and keys != found:
        raise AttnvizError(
            f"queries of a head are {found} wide{in_file(matrices.source)}, but 'w_key' makes "
            f"keys that are {keys} wide: they cannot be multiplied",
            f"give 'w_key' {(variant.kv_heads or variant.heads) * found} columns",
            about="w_key",
            file=matrices.source,
        )
    found = found or keys
    if found is None:
        unknown = matrices.scores is not None
        return settings.head_dim if unknown else head_width(settings, variant, dim)
    if settings.head_dim not in (None, found):
        raise AttnvizError(
            f"--head-dim is {settings.head_dim}, but {matrices.called} has heads {found} wide",
            f"leave --head-dim out, or give --head-dim {found}",
            file=matrices.source,
        )
    return found


def _feed_forward(settings: Settings, matrices: Matrices) -> int | None:
    found = matrices.sizes.get("hidden")
    if found is not None and settings.feed_forward not in (None, found):
        raise AttnvizError(
            f"--feed-forward is {settings.feed_forward}, but {matrices.called} has one {found} "
            "wide",
            f"leave --feed-forward out, or give --feed-forward {found}",
            file=matrices.source,
        )
    return settings.feed_forward or found


def _shared_out(sizes: dict[str, int], whole: str, heads: int) -> int | None:
    """The width of one head of a matrix that makes all of them."""
    if whole not in sizes:
        return None
    if sizes[whole] % heads:
        name = MADE_BY[whole]
        makes, sides = ("joins", "rows") if name == "w_out" else ("makes", "columns")
        raise AttnvizError(
            f"'{name}' {makes} vectors {sizes[whole]} wide, which does not split into {heads} "
            f"heads",
            f"give as many {sides} as {heads} times the width of a head",
            about=name,
        )
    return sizes[whole] // heads


def _scaled_without_width(settings: Settings) -> bool:
    if settings.scale:
        raise AttnvizError(
            "the scores are given, but not the width of the queries, whose square root scales them",
            "give --head-dim, such as --head-dim 64",
        )
    return False


OF_MEMORY = ("memory", "memory_tokens")
OF_FEED_FORWARD = tuple(n for n in OF_A_BLOCK if not n.startswith(("attention_", "cross_")))
MAKERS = {  # what is given is not made by these
    "queries": ("w_query", "b_query"),
    "keys": ("w_key", "b_key"),
    "values": ("w_value", "b_value"),
    "scores": ("w_query", "b_query", "w_key", "b_key"),
}


def refuse_unused(matrices: Matrices, settings: Settings, variant: Variant, dim: int) -> None:
    """What is given is used; where it could not be, say so."""
    _refuse_of_attention(matrices, variant)
    _refuse_of_block(matrices, settings)
    _refuse_layers(matrices, settings)
    if settings.model is None:  # whose positions it has learned
        _refuse_two_positions(matrices, settings)
    _refuse_last_matrix(matrices, variant, dim)


def _refuse_of_attention(matrices: Matrices, variant: Variant) -> None:
    if not variant.projected:
        _refuse_any(
            matrices,
            ("w_query", "w_key", "w_value", "w_score", "b_query", "b_key", "b_value", *OF_MEMORY),
            f"'{variant.name}' has no projections",
            "try --variant scaled, with --no-scale if need be",
        )
    for made, makers in MAKERS.items():
        if getattr(matrices, made) is not None:
            _refuse_any_of_first(matrices, makers, f"{made} are given and need not be computed")
    if matrices.weights is not None:
        _refuse_any_of_first(
            matrices, ("kept",), "weights are given, which dropout does not change"
        )
    if matrices.scores is not None:
        _refuse_additive(matrices, variant)
    if not variant.compared:
        _refuse_any(
            matrices,
            ("queries", "keys", "scores"),
            f"'{variant.name}' does not compare queries with keys",
            "try --variant causal",
        )


def _refuse_of_block(matrices: Matrices, settings: Settings) -> None:
    if not settings.blocks:
        needed = f"--layers {len(matrices.above) + 1}"
        hint = f"give {needed}, with the --heads, --norm and --activation that belong to it"
        _refuse_any(matrices, OF_A_BLOCK, "there is no transformer block", hint)
        alone = f"{hint}; or, to read it without a block, key_embeddings and key_tokens"
        _refuse_any(matrices, OF_MEMORY, "there is no transformer block", alone)
    if settings.attention_only:
        why = f"{option('attention_only')} leaves feed-forward out"
        _refuse_any(matrices, OF_FEED_FORWARD, why, f"leave {option('attention_only')} out")
    if settings.norm == "none":
        norms = tuple(name for name in OF_A_BLOCK if name.endswith(("_gain", "_shift")))
        _refuse_any(matrices, norms, "--norm none has no LayerNorm", "give --norm post or pre")
    if settings.memory is None and matrices.memory is None and matrices.memory_tokens is None:
        cross = tuple(name for name in OF_A_BLOCK if name.startswith("cross_"))
        hint = "give --memory TEXT, or 'memory' in the file"
        _refuse_any(matrices, cross, "there is no second sentence to read", hint)


def _refuse_layers(matrices: Matrices, settings: Settings) -> None:
    count, given = settings.layers or 1, len(matrices.above) + 1
    if given > count:
        raise AttnvizError(
            f"{matrices.called} gives matrices of layer {given - 1}, but there "
            f"{'is 1 layer' if count == 1 else f'are {count} layers'}: they count from 0",
            f"give --layers {given}, with the --heads, --norm and --activation that belong to it",
            about="layers",
            file=matrices.source,
        )


def _refuse_two_positions(matrices: Matrices, settings: Settings) -> None:
    if matrices.positions is not None and settings.positions != "none":
        raise AttnvizError(
            f"--positions is {settings.positions}, but {matrices.called} gives positions as well",
            "leave one of them out",
            about="positions",
            file=matrices.source,
        )


def _refuse_additive(matrices: Matrices, variant: Variant) -> None:
    """Scores that are given are made in no way."""
    if variant.additive:
        used = "'w_score'" if matrices.w_score is not None else f"{option('scoring')} additive"
        raise AttnvizError(
            f"the scores are given{in_file(matrices.source)}, but {used} says how to compute them",
            "leave one of them out",
            about="w_score" if matrices.w_score is not None else "scoring",
            file=matrices.source,
        )


def _refuse_any_of_first(matrices: Matrices, names: tuple[str, ...], why: str) -> None:
    """Those of the layer that is given what they would make: others make their own."""
    _refuse_any(replace(matrices, above=()), names, why, "leave one of them out")


def _refuse_any(matrices: Matrices, names: tuple[str, ...], why: str, hint: str) -> None:
    layers = (matrices, *matrices.above)
    unused = [name for name in names if any(getattr(each, name) is not None for each in layers)]
    if unused:
        raise AttnvizError(
            f"{why}, but {matrices.called} gives '{unused[0]}'",
            hint,
            about=unused[0],
            file=matrices.source,
        )


def _refuse_last_matrix(matrices: Matrices, variant: Variant, dim: int) -> None:
    """What is given of the last matrix fits vectors that are given with it, or that are not."""
    if matrices.b_out is not None and matrices.w_out is None:
        if not variant.joined:
            _refuse_any(
                matrices, ("b_out",), "nothing is multiplied by w_out", "give w_out as well"
            )
        if len(matrices.b_out) != dim:
            raise AttnvizError(
                f"'b_out' in {matrices.called} is {len(matrices.b_out)} wide, but what it is "
                f"added to is {dim} wide",
                "give w_out as well, or as many numbers as an embedding has",
                about="b_out",
                file=matrices.source,
            )
    rows = matrices.sizes.get("joined_width", dim)
    if not variant.projected and matrices.values is None and rows != dim:
        raise AttnvizError(
            f"'w_out' in {matrices.called} has {counted(rows, 'row')}, but '{variant.name}' mixes "
            f"embeddings that are {dim} wide",
            "give values as well, or a row for each number of an embedding",
            about="w_out",
            file=matrices.source,
        )
