"""The settings of a run and their checks; heads that are switched off, by name.

One field per option of the command line; None means "as the variant has it".
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from attnviz.attention.variants import (
    ACTIVATIONS,
    NORMS,
    OTHER_NAMES,
    SCORINGS,
    VARIANTS,
    Activation,
    Instead,
    Place,
    Scoring,
    Variant,
)
from attnviz.errors import AttnvizError, unknown
from attnviz.machine.files import name_in_file
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.models.names import TRANSFORMER, names
from attnviz.wording.commands import option
from attnviz.wording.words import counted, listed

Which = Literal["self", "decoder", "cross"]  # an encoder or decoder to itself; one to the other
Positions = Literal["none", "sinusoidal", "learned", "rotary", "rotary-halves", "alibi"]
Dtype = Literal["float32", "float64", "bfloat16", "float16"]
POSITIONS: tuple[Positions, ...] = get_args(Positions)
ADDED: tuple[Positions, ...] = ("sinusoidal", "learned")  # to the embeddings
TURNED: tuple[Positions, ...] = ("rotary", "rotary-halves")  # queries and keys are
BASED: tuple[Positions, ...] = ("sinusoidal", *TURNED)  # whose angles have a base
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
WHICH: tuple[Which, ...] = get_args(Which)
DEFAULT_DIM = 8
LARGEST_DIM = 65_536
FEED_FORWARD = 4  # times as wide as an embedding, unless it is said how wide
MOST_LAYERS = 1000
CAPS = (1e-6, 1e9)  # beyond, nothing is left of scores in 32 bits
LARGEST_SEED = 2**63 - 1
LARGEST_WINDOW = 2**63 - 1
COMES_WITH_ATTNVIZ: dict[str, Collection[str]] = {  # by the settings that name something to load
    "tokenizer": TOKENIZERS,
    "model": (*names(), TRANSFORMER),
    "embeddings": (TRANSFORMER,),
    "given": (),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices behind one run; every field has the default of the command line.

    >>> from attnviz import Settings, trace
    >>> trace("I am", Settings(variant="multi-head", heads=4)).weights.shape
    torch.Size([1, 4, 2, 2])
    """

    tokenizer: str = "gpt2"
    variant: str = "scaled"
    dim: int | None = None
    heads: int | None = None
    kv_heads: int | None = None  # of keys and values; None: as many as of queries
    head_dim: int | None = None
    scoring: Scoring = "dot"
    scale: bool | None = None
    causal: bool | None = None
    window: int | None = None
    temperature: float | None = None
    soft_cap: float | None = None
    dropout: float | None = None
    positions: Positions = "none"
    position_base: float = 10_000.0  # of their angles
    embeddings: str | None = None
    model: str | None = None  # one that comes with attnviz, or a folder
    given: str | None = None  # a file of matrices,
    item: int | None = None  # and which of a batch in it, from 1
    layers: int | None = None  # of transformer blocks; None: attention alone
    norm: Place = "post"
    activation: Activation = "relu"
    feed_forward: int | None = None  # how wide it is inside
    attention_only: bool = False  # no feed-forward at all
    memory: str | None = None  # a second sentence, that the first reads, too
    attention: Which | None = None  # of a trained model with an encoder and a decoder
    target: str | None = None  # what its decoder writes; None: what it would write
    generate: int | None = None  # so many tokens more, as a decoder continues the text
    truncate: bool = False  # a text that is longer than a model's positions
    trust_remote_code: bool = False  # that came with a trained model
    without: str | None = None  # heads that are switched off: "L1H1,L0H0=mean"
    seed: int = 42
    device: str = "auto"
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        for name in FLOATS:
            object.__setattr__(self, name, _float(getattr(self, name)))
        self._refuse_unknown_names()
        _refuse_beyond("dim", self.dim, 1, LARGEST_DIM)
        _refuse_beyond("heads", self.heads, 1, LARGEST_DIM)
        _refuse_beyond("kv_heads", self.kv_heads, 1, LARGEST_DIM)
        _refuse_beyond("head_dim", self.head_dim, 1, LARGEST_DIM)
        _refuse_beyond("window", self.window, 1, LARGEST_WINDOW if (self.window or 0) > 0 else None)
        _refuse_beyond("seed", self.seed, 0, LARGEST_SEED)
        _refuse_beyond("item", self.item, 1, None)
        _refuse_beyond("layers", self.layers, 1, MOST_LAYERS)
        _refuse_beyond("generate", self.generate, 1, None)
        _refuse_beyond("feed_forward", self.feed_forward, 1, LARGEST_DIM)
        self._refuse_odd_temperature()
        self._refuse_odd_cap()
        self._refuse_odd_dropout()
        self._refuse_odd_base()
        self._refuse_what_stands_alone()
        heads_off(self.without)  # which refuses what names no heads

    @property
    def blocks(self) -> bool:
        """Whether attention stands in transformer blocks."""
        return self.layers is not None or self.memory is not None

    @property
    def feeds(self) -> bool:
        """Whether feed-forward follows it in them."""
        return self.blocks and not self.attention_only

    @property
    def width(self) -> int:
        """The width of an embedding that is drawn."""
        return DEFAULT_DIM if self.dim is None else self.dim

    def _refuse_unknown_names(self) -> None:
        for name, (kind, known) in NAMES.items():
            if getattr(self, name) not in known:
                others = OTHER_NAMES if name == "variant" else {}
                raise unknown(kind, getattr(self, name), known, about=name, other_names=others)
        if self.attention is not None and self.attention not in WHICH:
            raise unknown("attention", self.attention, WHICH, about="attention")

    def _refuse_odd_temperature(self) -> None:
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            wanted = "finite" if self.temperature == math.inf else "above 0"
            problem = f"--temperature is {self.temperature:g}, and must be {wanted}"
            hint = "try --temperature 0.5 (sharper) or --temperature 2 (flatter)"
            raise AttnvizError(problem, hint, about="temperature")

    def _refuse_odd_cap(self) -> None:
        low, high = CAPS
        if self.soft_cap is not None and not low <= self.soft_cap <= high:
            problem = (
                f"{option('soft_cap')} is {self.soft_cap:g}, and must be from {low:g} to {high:g}"
            )
            raise AttnvizError(problem, f"try {option('soft_cap')} 50", about="soft_cap")

    def _refuse_odd_dropout(self) -> None:
        if self.dropout is not None and not 0 <= self.dropout < 1:
            problem = f"--dropout is {self.dropout:g}, and must be at least 0 and below 1"
            raise AttnvizError(problem, "try --dropout 0.1", about="dropout")

    def _refuse_odd_base(self) -> None:
        if not 1 <= self.position_base < math.inf:
            wanted = "finite" if self.position_base == math.inf else "at least 1"
            problem = f"--position-base is {self.position_base:.15g}, and must be {wanted}"
            raise AttnvizError(problem, "try --position-base 10000", about="position_base")
        if self.position_base != Settings.position_base and self.positions not in BASED:
            raise AttnvizError(
                f"--position-base is for the angles of {listed(BASED)} positions, but --positions "
                f"is {self.positions}",
                "give --positions rotary",
                about="position_base",
            )

    def _refuse_what_stands_alone(self) -> None:
        """Some settings mean nothing without another."""
        if not VARIANTS[self.variant].projected:
            self._refuse_what_is_about_queries()
        if self.item is not None and self.given is None:
            raise AttnvizError(
                "--item chooses one of a batch, but there is no --given",
                "give a file of matrices",
                about="item",
            )
        for name in ("norm", "activation", "feed_forward", "attention_only"):
            if not self.blocks and getattr(self, name) != getattr(Settings, name):
                raise AttnvizError(
                    f"{option(name)} is about transformer blocks, but there is none",
                    "give --layers 1",
                    about=name,
                )

        for name in ("activation", "feed_forward"):
            if self.attention_only and getattr(self, name) != getattr(Settings, name):
                raise AttnvizError(
                    f"{option(name)} is about feed-forward, which {option('attention_only')} "
                    "leaves out",
                    "leave one of them out",
                    about=name,
                )

    def _refuse_what_is_about_queries(self) -> None:
        """Of a variant that projects nothing, and so has no queries, keys and values of its own."""
        alone = f"'{self.variant}' attends with the embeddings themselves"
        problems = {
            "memory": "--memory needs queries of one sentence and keys of another, but "
            f"'{self.variant}' has neither: it attends with the embeddings themselves",
            "scoring": f"{alone}, and {option('scoring')} {self.scoring} is about queries and keys",
            "kv_heads": f"{alone}: its heads have no keys and values to share, and "
            f"{option('kv_heads')} is {self.kv_heads}",
        }
        for name, problem in problems.items():
            if getattr(self, name) != getattr(Settings, name):
                raise AttnvizError(problem, "try --variant scaled", about="variant")


NAMES: dict[str, tuple[str, Collection[str]]] = {  # settings that are one word of several
    "variant": ("variant", VARIANTS),
    "positions": ("kind of positions", POSITIONS),
    "dtype": ("dtype", DTYPES),
    "scoring": ("kind of score", SCORINGS),
    "norm": ("place for the norm", NORMS),
    "activation": ("activation", ACTIVATIONS),
}


def as_information(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that a file holds: they give no permission, and name what is loaded only by others.

    >>> as_information({"model": "owner/name", "trust_remote_code": True})["trust_remote_code"]
    False
    """
    named = {
        name: name_in_file(settings[name], known)
        for name, known in COMES_WITH_ATTNVIZ.items()
        if name in settings
    }
    return {**settings, **named, "trust_remote_code": False}


FLOATS = ("temperature", "soft_cap", "dropout", "position_base")  # may be given whole: 2


def _float(number: float | None) -> float | None:
    """
    >>> _float(2), _float(10**400), _float(None)
    (2.0, inf, None)
    """
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def chosen_variant(settings: Settings) -> Variant:
    """The row of the variant, with what the settings override."""
    row = VARIANTS[settings.variant]
    overrides: dict[str, Any] = {
        "additive": settings.scoring == "additive" or None,
        "scaled": scaled(settings, additive=settings.scoring == "additive"),
        "causal": settings.causal,
        "window": settings.window,
        "heads": settings.heads,
        "kv_heads": settings.kv_heads,
        "temperature": settings.temperature,
        "soft_cap": settings.soft_cap,
        "dropout": settings.dropout,
    }
    chosen = replace(row, **{name: value for name, value in overrides.items() if value is not None})
    # Several heads, and one in a block, end in an output projection, unless nothing is projected.
    several = chosen.heads > 1 or settings.blocks
    return replace(chosen, joined=row.joined or (chosen.projected and several))


def scaled(settings: Settings, *, additive: bool) -> bool | None:
    """Whether scores are scaled, if that is said: additive ones are only when it is asked for."""
    return False if additive and settings.scale is None else settings.scale


def head_width(settings: Settings, variant: Variant, dim: int) -> int:
    """The width of one head: as given, or the embedding's width shared out among the heads."""
    if not variant.projected:
        _refuse_other_widths(settings, variant, dim)
    if settings.head_dim is not None:
        return settings.head_dim
    if dim % variant.heads:
        raise AttnvizError(
            f"a width of {dim} does not split into {variant.heads} equal heads",
            f"try --heads {_nearest_divisor(dim, variant.heads)}, "
            f"--dim {_nearest_multiple(dim, variant.heads)}, or give --head-dim",
        )
    return dim // variant.heads


def refuse_uneven_heads(heads: int, kv_heads: int | None) -> None:
    """Heads share keys and values in groups, one as large as the other."""
    if kv_heads and heads % kv_heads:
        nearest = _nearest_divisor(heads, kv_heads)
        raise AttnvizError(
            f"{option('kv_heads')} is {kv_heads}, and {counted(heads, 'head')} cannot share so "
            "many evenly",
            f"try {option('kv_heads')} {nearest}",
            about="kv_heads",
        )


def refuse_odd_rotary(settings: Settings, width: int | None) -> None:
    """Rotary positions turn pairs of numbers."""
    if settings.positions in TURNED and width and width % 2:
        problem = f"rotary positions rotate pairs of numbers, but a head is {width} wide"
        raise AttnvizError(problem, f"try --head-dim {width + 1}", about="positions")


def _refuse_other_widths(settings: Settings, variant: Variant, dim: int) -> None:
    if settings.head_dim is not None and settings.head_dim * variant.heads != dim:
        fitting = f"--head-dim {dim // variant.heads}" if dim % variant.heads == 0 else "--heads 1"
        raise AttnvizError(
            f"'{variant.name}' attends with the embeddings themselves, so its heads divide their "
            f"width of {dim}; {variant.heads} × {settings.head_dim} is not {dim}",
            f"try {fitting}, or --variant scaled",
        )


def _nearest_divisor(dim: int, heads: int) -> int:
    divisors = (number for number in range(1, dim + 1) if dim % number == 0)
    return min(divisors, key=lambda number: (abs(number - heads), number))


def _nearest_multiple(dim: int, heads: int) -> int:
    return max(1, round(dim / heads)) * heads


def _refuse_beyond(name: str, value: int | None, lowest: int, highest: int | None) -> None:
    if value is None or (lowest <= value and (highest is None or value <= highest)):
        return
    bounds = f"at least {lowest}" if highest is None else f"from {lowest} to {highest:,}"
    nearest = lowest if value < lowest else highest
    raise AttnvizError(
        f"{option(name)} is {value}, and must be {bounds}",
        f"try {option(name)} {nearest}",
        about=name,
    )


INSTEAD: tuple[Instead, ...] = get_args(Instead)
NAMED = re.compile(r"(?:L(\d{1,9}))?H(\d{1,9})(?:=(\w*))?", re.IGNORECASE)
MOST_NAMED = 12  # heads that an error lists

HeadPlace = tuple[int, int]  # layer and head, both from 0


def heads_off(without: str | None) -> dict[HeadPlace, Instead]:
    """What stands in place of what each of these heads makes.

    >>> heads_off("L1H1, H0=mean")
    {(1, 1): 'zero', (0, 0): 'mean'}
    """
    found: dict[HeadPlace, Instead] = {}
    for word in [] if without is None else without.split(","):
        place, instead = _read(word.strip())
        if place in found:
            raise _refused(f"names {name_of(*place)} twice")
        found[place] = instead
    return found


def of_layer(without: str | None, number: int) -> dict[int, Instead]:
    """Those of one layer, by the head."""
    return {head: how for (layer, head), how in heads_off(without).items() if layer == number}


def without_text(off: Mapping[HeadPlace, Instead]) -> str:
    """
    >>> without_text({(1, 1): "zero", (0, 0): "mean"})
    'L1H1 and L0H0 (replaced by its mean)'
    """
    means = {"zero": "", "mean": " (replaced by its mean)"}
    return listed([f"{name_of(*place)}{means[how]}" for place, how in off.items()])


def name_of(layer: int, head: int) -> str:
    return f"L{layer}H{head}"


def refuse_missing_heads(without: str | None, layers: int, heads: int) -> None:
    """Refuse heads that there are not, or will not be."""
    for layer, head in heads_off(without):
        if layer >= layers or head >= heads:
            raise AttnvizError(
                f"--without names {name_of(layer, head)}, but there is no such head",
                f"there {'is' if layers * heads == 1 else 'are'} {_all(layers, heads)}",
                about="without",
            )


def _all(layers: int, heads: int) -> str:
    """
    >>> _all(2, 2), _all(12, 12)
    ('L0H0, L0H1, L1H0 and L1H1', '144 heads, from L0H0 to L11H11')
    """
    if layers * heads > MOST_NAMED:
        return f"{layers * heads} heads, from L0H0 to {name_of(layers - 1, heads - 1)}"
    return listed([name_of(layer, head) for layer in range(layers) for head in range(heads)])


def _read(word: str) -> tuple[HeadPlace, Instead]:
    match = NAMED.fullmatch(word)
    if match is None:
        raise _refused(f"has '{word}', which names no head" if word else "names no head")
    layer, head, how = match.groups()
    instead = next((each for each in INSTEAD if each == (how or "zero").lower()), None)
    if instead is None or how == "":
        raise _refused(
            f"has '{word}', but the output of a head can only become {' or '.join(INSTEAD)}"
        )
    return (int(layer or 0), int(head)), instead


def _refused(problem: str) -> AttnvizError:
    return AttnvizError(
        f"--without {problem}",
        "try --without L1H1 (layer 1, head 1), or --without L0H0=mean",
        about="without",
    )
