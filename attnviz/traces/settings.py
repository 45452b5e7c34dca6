"""The settings of a run and their checks, and the names of heads that are switched off."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from attnviz.attention.variants import (
    ACTIVATIONS,
    NORMS,
    SCORE_KINDS,
    VARIANT_ALIASES,
    VARIANTS,
    Variant,
)
from attnviz.errors import AttnvizError, cmd, opt, unknown_name_error
from attnviz.machine import memory
from attnviz.machine.files import name_in_file
from attnviz.options.option import option_class
from attnviz.options.traces import (
    AttentionOptions,
    BlockOptions,
    MatrixOptions,
    ModelOptions,
    NumberOptions,
    StreamOptions,
    TokenizerOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.options.values import (
    AblationValue,
    Activation,
    AttentionKind,
    Dtype,
    NormPlacement,
    Pool,
    Positions,
    ScoreKind,
)
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.models.model_names import MINILM, PACKAGED_TRANSFORMERS, shipped_names
from attnviz.wording.keywords import with_checked_fields, with_defaults
from attnviz.wording.rules import Rule, check_rules, must_be, range_rules, rules_for
from attnviz.wording.words import and_list, counted

if TYPE_CHECKING:
    import torch

    from attnviz.traces.matrices import Matrices

POSITIONS: tuple[Positions, ...] = get_args(Positions)
ADDED_POSITIONS: tuple[Positions, ...] = ("sinusoidal", "learned")  # to the embeddings
ROTARY_POSITIONS: tuple[Positions, ...] = ("rotary", "rotary-halves")  # of queries and keys
POSITIONS_WITH_BASE: tuple[Positions, ...] = ("sinusoidal", *ROTARY_POSITIONS)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
POOLS: tuple[Pool, ...] = get_args(Pool)
MAX_RESOLUTION = 4096  # blocks
ATTENTION_KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
DEFAULT_DIM = 8
MAX_DIM = 65_536
FEED_FORWARD_FACTOR = 4  # default hidden width, in widths of an embedding
MAX_LAYERS = 1000
SOFT_CAP_RANGE = (1e-6, 1e9)  # beyond it, float32 loses the scores
MAX_EXAMPLE_SEED = 2**63 - 1
MAX_WINDOW = 2**63 - 1
FLOAT_SETTINGS = ("temperature", "soft_cap", "dropout", "position_base")  # may be given as int
MAX_LISTED_HEADS = 12  # in an error
ABLATION_VALUES: tuple[AblationValue, ...] = get_args(AblationValue)
LAYER_PATTERN = re.compile(r"L(\d{1,9})", re.IGNORECASE)
HEAD_PATTERN = re.compile(r"(?:L(\d{1,9}))?H(\d{1,9})(?:=(\w*))?", re.IGNORECASE)
CHOICES_BY_SETTING: dict[str, tuple[str, Collection[str]]] = {
    "variant": ("variant", VARIANTS),
    "positions": ("kind of positions", POSITIONS),
    "dtype": ("dtype", DTYPES),
    "scoring": ("kind of score", SCORE_KINDS),
    "norm": ("place for the norm", NORMS),
    "activation": ("activation", ACTIVATIONS),
    "pool": ("way to pool", POOLS),
}
HeadId = tuple[int, int]  # layer and head, both from 0
TRAINED_ONLY_SETTINGS = (
    *("attention", "target", "generate", "chat", "truncate", "trust_remote_code"),
)
LONG_TEXT_SETTINGS = ("stream", "memory_budget", "resolution", "pool")
SETTINGS_FOR_TRAINED = (
    *("model", "without", "device", "dtype", "seed"),
    *TRAINED_ONLY_SETTINGS,
    *LONG_TEXT_SETTINGS,
)
SHIPPED_NAMES: dict[str, Collection[str]] = {  # by the settings that name something to load
    "tokenizer": TOKENIZERS,
    "model": (*shipped_names(), *PACKAGED_TRANSFORMERS),
    "embeddings": (MINILM,),
    "given": (),
}


def _variant_hint(name: str) -> str:
    """Return the hint for what people take for a variant: several of them, or cross-attention."""
    if "," in name and {*name.split(",")} <= {*VARIANTS}:
        return f"several are compared: {cmd.compare:TEXT --by variant --values {name}}"
    if name.lower().partition("-")[0] == "cross":
        return f"cross-attention is to a second text: {opt.memory:TEXT}"
    return ""


@with_checked_fields
@option_class(frozen=True, kw_only=True)
class Settings(
    TokenizerOptions,
    AttentionOptions,
    ModelOptions,
    MatrixOptions,
    BlockOptions,
    TrainedOptions,
    WithoutOptions,
    NumberOptions,
    StreamOptions,
):
    """The settings of one run, one field per option; None means "as the variant has it".

    >>> from attnviz import Settings, trace
    >>> trace("I am", Settings(variant="multi-head", heads=4)).weights.shape
    torch.Size([1, 4, 2, 2])
    """

    _given_names = frozenset[str]()  # those that were given by name, which is no setting

    def __post_init__(self) -> None:
        """Turn whole numbers of float settings to floats; refuse unknown words, numbers out of
        range, and settings that mean nothing with or without another.
        """
        for name in FLOAT_SETTINGS:
            object.__setattr__(self, name, _as_float(getattr(self, name)))
        self._refuse_unknown_names()
        check_rules(self, RANGE_RULES)
        if self.memory_budget is not None:
            memory.parse_size(self.memory_budget, opt.memory_budget)
        check_rules(self, SETTING_RULES)
        parse_heads_off(self.without)  # refuses words that name no heads

    @property
    def has_blocks(self) -> bool:
        """Whether attention is part of transformer blocks: --layers or --memory is given."""
        return self.layers is not None or self.memory is not None

    @property
    def has_feed_forward(self) -> bool:
        """Whether there are transformer blocks with feed-forward."""
        return self.has_blocks and not self.attention_only

    @property
    def hidden_width(self) -> int:
        """The inner width of feed-forward, whether there is one or not."""
        return self.feed_forward or FEED_FORWARD_FACTOR * self.width

    @property
    def width(self) -> int:
        """The width of a drawn embedding: `dim`, or DEFAULT_DIM if it is None."""
        return DEFAULT_DIM if self.dim is None else self.dim

    def _refuse_unknown_names(self) -> None:
        """Refuse words that name no variant, kind of positions, dtype and the like."""
        for name, (kind, choices) in CHOICES_BY_SETTING.items():
            word, others = getattr(self, name), VARIANT_ALIASES if name == "variant" else {}
            if not isinstance(word, str) or word not in choices:
                error = unknown_name_error(kind, word, choices, about=name, other_names=others)
                hint = _variant_hint(str(word)) if name == "variant" else ""
                raise AttnvizError(str(error), hint, about=name) if hint else error
        word = self.attention
        if word is not None and (not isinstance(word, str) or word not in ATTENTION_KINDS):
            raise unknown_name_error("attention", word, ATTENTION_KINDS, about="attention")


TEMPERATURES = "{option:0.5} (sharper) or {option:2} (flatter)"


def _lacks_queries(settings: Settings) -> bool:
    return not VARIANTS[settings.variant].projected


RANGE_RULES: tuple[Rule, ...] = tuple(
    rule
    for name, lowest, highest in (
        *((name, 1, MAX_DIM) for name in ("dim", "heads", "kv_heads", "head_dim")),
        *(("window", 1, highest) for highest in (None, MAX_WINDOW)),
        ("seed", 0, MAX_EXAMPLE_SEED),
        ("item", 1, None),
        ("layers", 1, MAX_LAYERS),
        ("generate", 1, None),
        ("resolution", 2, MAX_RESOLUTION),
    )
    for rule in range_rules(name, lowest, highest)
)
SETTING_RULES: tuple[Rule, ...] = (
    *range_rules("feed_forward", 1, MAX_DIM),
    must_be("temperature", "above 0", lambda number: number > 0, TEMPERATURES),
    must_be("temperature", "finite", math.isfinite, TEMPERATURES),
    must_be("soft_cap", f"from {SOFT_CAP_RANGE[0]:g} to {SOFT_CAP_RANGE[1]:g}",
        lambda number: SOFT_CAP_RANGE[0] <= number <= SOFT_CAP_RANGE[1], "{option:50}"),
    must_be("dropout", "at least 0 and below 1", lambda number: 0 <= number < 1, "{option:0.1}"),
    must_be("position_base", "at least 1", lambda number: number >= 1, "{option:10000}", ".15g"),
    must_be("position_base", "finite", math.isfinite, "{option:10000}", ".15g"),
    *rules_for(["position_base"], lambda it: it.positions not in POSITIONS_WITH_BASE,
        f"{{option}} is for the angles of {and_list(POSITIONS_WITH_BASE)} positions, "
        "but {opt.positions:is {it.positions}}", f"give {opt.positions:rotary}"),
    *rules_for(["memory"], _lacks_queries,
        "{option} needs queries of one sentence and keys of another, but '{it.variant}' has "
        "neither: it attends with the embeddings themselves", "try {opt.variant:scaled}"),
    *rules_for(["scoring"], _lacks_queries,
        "'{it.variant}' attends with the embeddings themselves, and {option:{it.scoring}} is about "
        "queries and keys", "try {opt.variant:scaled}"),
    *rules_for(["kv_heads"], _lacks_queries,
        "'{it.variant}' attends with the embeddings themselves: its heads have no keys and values "
        "to share, and {option:is {it.kv_heads}}", "try {opt.variant:scaled}"),
    *rules_for(["item"], lambda it: it.given is None,
        "{option} chooses one of a batch, but there is no {opt.given}", "give a file of matrices"),
    *rules_for(["norm", "activation", "feed_forward", "attention_only"],
        lambda it: not it.has_blocks, "{option} is about transformer blocks, but there is none",
        f"give {opt.layers:1}"),
    *rules_for(["activation", "feed_forward"], lambda it: it.attention_only,
        "{option} is about feed-forward, which {opt.attention_only} leaves out",
        "leave one of them out"),
)  # fmt: skip
TRAINED_ONLY_RULES = rules_for(
    TRAINED_ONLY_SETTINGS,
    lambda _: True,
    "{option} is about trained models, and no trained model is given",
    f"give {opt.model:minilm}, a folder, or a name on a hub",
)


@with_defaults(Settings, model=MINILM)
class TextsKeywords(TypedDict, total=False):
    """The settings of a trained model that reads many texts, as keywords."""

    model: str | PathLike[str] | torch.nn.Module | None
    tokenizer: Any  # a name; of a model in memory, its tokenizer
    device: str | torch.device
    dtype: Dtype | torch.dtype
    seed: int
    trust_remote_code: bool


@with_defaults(Settings)
class SettingKeywords(TextsKeywords, total=False):
    """The fields of Settings as keywords, with every value that says the same."""

    variant: str
    dim: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    scoring: ScoreKind
    scale: bool | None
    causal: bool | None
    window: int | None
    temperature: float | None
    soft_cap: float | None
    dropout: float | None
    positions: Positions
    position_base: float
    embeddings: str | PathLike[str] | None
    given: str | PathLike[str] | Matrices | None
    item: int | None
    layers: int | None
    norm: NormPlacement
    activation: Activation
    feed_forward: int | None
    attention_only: bool
    memory: str | None
    attention: AttentionKind | None
    target: str | None
    generate: int | None
    chat: bool
    truncate: bool
    without: str | Sequence[str] | None
    stream: bool
    memory_budget: str | None
    resolution: int
    pool: Pool


def settings_refused(keywords: Mapping[str, Any]) -> Collection[str]:
    """Return the names of settings that the model of a call decides."""
    if keywords.get("model") is None:
        return ()
    return SettingKeywords.__annotations__.keys() - {"tokenizer", *SETTINGS_FOR_TRAINED}


def untrusted_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings read from a file such that they permit nothing and cause no download.

    The permission to run a model's code becomes False; names of things to load are marked as coming
    from a file, unless attnviz ships them, so that their loading can be refused.

    >>> untrusted_settings({"model": "owner/name", "trust_remote_code": True})["trust_remote_code"]
    False
    """
    checked_names = {
        name: name_in_file(settings[name], shipped)
        for name, shipped in SHIPPED_NAMES.items()
        if name in settings
    }
    return {**settings, **checked_names, "trust_remote_code": False}


def _as_float(number: float | None) -> float | None:
    """Return the number as a float, infinite if it is too large; None stays None.

    >>> _as_float(2), _as_float(10**400), _as_float(None)
    (2.0, inf, None)
    """
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def chosen_variant(settings: Settings) -> Variant:
    """Return the variant that the settings name, with what they override (heads, causal, scale, …).

    Several heads, and blocks, add an output projection.
    """
    row = VARIANTS[settings.variant]
    names = ("causal", "window", "heads", "kv_heads", "temperature", "soft_cap", "dropout")
    overrides: dict[str, Any] = {
        "additive": settings.scoring == "additive" or None,
        "scaled": resolve_scaling(settings, additive=settings.scoring == "additive"),
        **{name: getattr(settings, name) for name in names},
    }
    overrides = {name: value for name, value in overrides.items() if value is not None}
    variant = replace(row, **overrides)
    needs_output_projection = variant.heads > 1 or settings.has_blocks
    return replace(variant, joined=row.joined or (variant.projected and needs_output_projection))


def resolve_scaling(settings: Settings, *, additive: bool) -> bool | None:
    """Return whether to scale scores: as the settings say, else False for additive scores, else
    None: as the variant does.
    """
    return False if additive and settings.scale is None else settings.scale


def head_width(settings: Settings, variant: Variant, dim: int) -> int:
    """Return the width of one head: as in the settings, or `dim` divided by the heads.

    Refuses a width of embeddings (`dim`) that does not divide, and, for variants without
    projections, a --head-dim that does not split the embeddings exactly.
    """
    if not variant.projected:
        _refuse_unsplit_width(settings, variant, dim)
    if settings.head_dim is not None:
        return settings.head_dim
    if dim % variant.heads:
        raise AttnvizError(
            f"a width of {dim} does not split into {variant.heads} equal heads",
            f"try {opt.heads:{_nearest_divisor(dim, variant.heads)}}, "
            f"{opt.dim:{max(1, round(dim / variant.heads)) * variant.heads}}, or give "
            f"{opt.head_dim}",
        )
    return dim // variant.heads


def refuse_uneven_heads(heads: int, kv_heads: int | None) -> None:
    """Refuse a number of heads that is no multiple of the number of key-value heads."""
    if kv_heads and heads % kv_heads:
        nearest = _nearest_divisor(heads, kv_heads)
        raise AttnvizError(
            f"{opt.kv_heads:is {kv_heads}}, and {counted(heads, 'head')} cannot share so many "
            "evenly",
            f"try {opt.kv_heads:{nearest}}",
            about="kv_heads",
        )


def refuse_odd_rotary(settings: Settings, width: int | None) -> None:
    """Refuse rotary positions for an odd width: they rotate pairs of numbers."""
    if settings.positions in ROTARY_POSITIONS and width and width % 2:
        problem = f"rotary positions rotate pairs of numbers, but a head is {width} wide"
        raise AttnvizError(problem, f"try {opt.head_dim:{width + 1}}", about="positions")


def _refuse_unsplit_width(settings: Settings, variant: Variant, dim: int) -> None:
    """Refuse a --head-dim whose heads are not together as wide as an embedding."""
    if settings.head_dim is not None and settings.head_dim * variant.heads != dim:
        options = (
            f"{opt.head_dim:{dim // variant.heads}}"
            if dim % variant.heads == 0
            else f"{opt.heads:1}"
        )
        raise AttnvizError(
            f"'{variant.name}' attends with the embeddings themselves, so its heads divide their "
            f"width of {dim}; {variant.heads} × {settings.head_dim} is not {dim}",
            f"try {options}, or {opt.variant:scaled}",
        )


def _nearest_divisor(dim: int, heads: int) -> int:
    """Return the divisor of `dim` that is nearest to `heads`; of two, the smaller one."""
    divisors = (number for number in range(1, dim + 1) if dim % number == 0)
    return min(divisors, key=lambda number: (abs(number - heads), number))


def parse_heads_off(without: str | None) -> dict[HeadId, AblationValue]:
    """Return what replaces the output of each head that --without switches off, by layer and head.

    "zero" is the default, and a head without a layer is one of layer 0. Refuses other words, and
    heads that are named twice.

    >>> parse_heads_off("L1H1, H0=mean")
    {(1, 1): 'zero', (0, 0): 'mean'}
    """
    heads: dict[HeadId, AblationValue] = {}
    for word in [] if without is None else without.split(","):
        head, instead = _parse_head_off(word.strip())
        if head in heads:
            raise _without_error(f"names {format_head_id(*head)} twice")
        heads[head] = instead
    return heads


def layer_heads_off(without: str | None, number: int) -> dict[int, AblationValue]:
    """Return the heads of layer `number` that --without switches off, and what replaces them."""
    heads = parse_heads_off(without).items()
    return {head: instead for (layer, head), instead in heads if layer == number}


def heads_off_text(heads: Mapping[HeadId, AblationValue]) -> str:
    """Return switched-off heads in words.

    >>> heads_off_text({(1, 1): "zero", (0, 0): "mean"})
    'L1H1 and L0H0 (replaced by its mean)'
    """
    suffixes = {"zero": "", "mean": " (replaced by its mean)"}
    return and_list([f"{format_head_id(*head)}{suffixes[heads[head]]}" for head in heads])


def format_head_id(layer: int, head: int) -> str:
    """Return the name of a head, such as "L1H0"."""
    return f"L{layer}H{head}"


def refuse_missing_heads(without: str | None, layers: int, heads: int) -> None:
    """Refuse to switch off (--without) heads that a Trace with so many layers and heads lacks."""
    for layer, head in parse_heads_off(without):
        if layer >= layers or head >= heads:
            raise AttnvizError(
                f"{opt.without} names {format_head_id(layer, head)}, but there is no such head",
                f"there {'is' if layers * heads == 1 else 'are'} {_all_heads_text(layers, heads)}",
                about="without",
            )


def _all_heads_text(layers: int, heads: int) -> str:
    """Return the names of all heads in words; of very many, how many, the first and the last.

    >>> _all_heads_text(2, 2), _all_heads_text(12, 12)
    ('L0H0, L0H1, L1H0 and L1H1', '144 heads, from L0H0 to L11H11')
    """
    if layers * heads > MAX_LISTED_HEADS:
        return f"{layers * heads} heads, from L0H0 to {format_head_id(layers - 1, heads - 1)}"
    return and_list(
        [format_head_id(layer, head) for layer in range(layers) for head in range(heads)]
    )


def _parse_head_off(word: str) -> tuple[HeadId, AblationValue]:
    """Return the head in one word of --without ("L0H0=mean"), and what replaces its output.

    Refuses words that name no head, or another replacement than zero or mean.
    """
    match = HEAD_PATTERN.fullmatch(word)
    if match is None:
        raise _without_error(f"has '{word}', which names no head" if word else "names no head")
    layer, head, value = match[1] or 0, match[2], "zero" if match[3] is None else match[3].lower()
    for instead in ABLATION_VALUES:
        if instead == value:
            return (int(layer), int(head)), instead
    raise _without_error(
        f"has '{word}', but the output of a head can only become {' or '.join(ABLATION_VALUES)}"
    )


def _without_error(problem: str) -> AttnvizError:
    """Return an error about --without; `problem` follows the option: "names no head"."""
    return AttnvizError(
        f"{opt.without} {problem}",
        f"try {opt.without:L1H1} (layer 1, head 1), or {opt.without:L0H0=mean}",
        about="without",
    )
