"""What is given and could not be used, or not with the rest: it is refused, and nothing ignored."""

from __future__ import annotations

from dataclasses import replace

from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.fitting import in_file
from attnviz.traces.matrices import Matrices
from attnviz.traces.parts import OF_A_BLOCK
from attnviz.traces.settings import Settings
from attnviz.wording.commands import option
from attnviz.wording.words import counted

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
