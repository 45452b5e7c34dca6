"""The options of inspect, and which of them exclude each other; no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict

from attnviz.errors import AttnvizError, cmd, opt, refuse_unknown_name
from attnviz.options.heads import LookingOptions, SwitchingOptions
from attnviz.options.option import option_class
from attnviz.options.values import AblationValue, By, Draw, Merge, Rank, Weigh
from attnviz.tokens.segments import SEGMENT_KINDS
from attnviz.tokens.text_part import parse_part
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.settings import (
    SettingKeywords,
    Settings,
    TextsKeywords,
    format_head_id,
)
from attnviz.wording.keywords import comma_list, with_defaults
from attnviz.wording.rules import Rule, check_rules, range_rules, rules_for
from attnviz.wording.words import counted

WEIGH_DESCRIPTIONS: dict[Weigh, str] = {
    "weight": "as it is",
    "norm": "times the length of the vector it passes on",
    "gradient": "times the gradient of a prediction",
}
MERGE_DESCRIPTIONS: dict[Merge, str] = {
    "mean": "the mean of the heads",
    "max": "the largest weight of any head",
    "rollout": "through all layers, with their residual connections",
}
BY_DESCRIPTIONS: dict[By, str] = {
    "pattern": "what heads do",
    "effect": "what changes when each is switched off",
}
ABLATION_DESCRIPTIONS: dict[AblationValue, str] = {
    "zero": "nothing",
    "mean": "its mean over the text, or over all texts",
}
RANK_DESCRIPTIONS: dict[Rank, str] = {
    "lift": "weight minus what other tokens give the same key, or at the same distance",
    "weight": "weight alone",
}
DRAW_DESCRIPTIONS: dict[Draw, str] = {
    "heatmap": "cells in colour",
    "arcs": "lines between words, in pictures",
    "sentence": "words in colour, with --query",
}


PAIRED_HEADS_RANGE = (2, 20)  # the pairs of 20 heads are 190
LAYER_WORD = re.compile(r"L?(-?\d{1,9})", re.IGNORECASE)
HEAD_WORD = re.compile(r"(?:L(\d{1,9})(?=H))?H?(-?\d{1,9})", re.IGNORECASE)
HIDE_OPTIONS = ("hide_special", "hide_first")
# What rows and columns stand for, in place of tokens.
UNITS_BY_OPTION = {"words": "word", "by_sentence": "sentence"}
WEIGHT_OPTIONS = (
    *("weigh", "query", "source", "merge", *UNITS_BY_OPTION, *HIDE_OPTIONS),
    *("part", "log", "as_"),
)


@option_class(frozen=True, kw_only=True)
class InspectOptions(LookingOptions, SwitchingOptions):
    """The options of one inspection; every field has the default of the command line."""

    query: int | str | None = None  # a token: its position from 0, or a text as a command takes it
    segments: str | Mapping[str, str | range] | None = None  # or texts, and tokens from 0, by name
    log: bool = False

    def __post_init__(self) -> None:
        """Read the layers and heads; refuse unknown choices, negative layers and heads, and options
        that do not go together.
        """
        for name, (kind, choices) in CHOICES_BY_OPTION.items():
            value = getattr(self, name)
            if value is not None:
                refuse_unknown_name(kind, value, choices, about=name)
        self._read_layers_and_heads()
        if isinstance(self.segments, str) and not self.segments.endswith(".toml"):
            kinds = (*SEGMENT_KINDS, "a .toml file")
            refuse_unknown_name("kind of segment", self.segments, kinds, about="segments")
        if self.part is not None:
            parse_part(self.part)  # which refuses what names no part
        check_rules(self, INSPECT_RULES)

    @property
    def layers(self) -> tuple[int, ...] | None:
        """The layers that are chosen; None: all."""
        if self.layer is not None:
            return tuple(map(int, str(self.layer).split(",")))
        words = [] if self.head is None else str(self.head).split(",")
        matches = [re.match(r"L(\d+)", word) for word in words]
        numbers = [int(match[1]) for match in matches if match]
        return tuple(dict.fromkeys(numbers)) if words and len(numbers) == len(words) else None

    @property
    def kept_layers(self) -> tuple[int, ...] | None:
        """The layers whose weights a trace must keep: of segments all, whose sink they have."""
        return None if self.segments is not None else self.layers

    @property
    def unit(self) -> str:
        """What a row or column stands for: a token, a word, or a sentence."""
        units = (unit for option, unit in UNITS_BY_OPTION.items() if getattr(self, option))
        return next(units, "token")

    def chooses_head(self, layer: int, head: int) -> bool:
        """Return whether `head` says that this head of a chosen layer is shown."""
        words = str(self.head).split(",")
        return self.head is None or bool({str(head), format_head_id(layer, head)} & {*words})

    def _read_layers_and_heads(self) -> None:
        """Write layers and heads in one way: "L5H11" is layer 5 and head 11, [4, 5] is "4,5".

        Refuses words that are neither, negative numbers, and a head of another layer.
        """
        layers = _parse_words("layer", self.layer, LAYER_WORD, f"try {opt.layer:5}")
        heads = _parse_words(
            "head", self.head, HEAD_WORD, f"try {opt.head:11}, or {opt.head:L5H11}"
        )
        named = [word for word in heads if word.startswith("L")]
        elsewhere = [word for word in named if word.split("H")[0].lstrip("L") not in layers]
        if layers and elsewhere:
            raise AttnvizError(
                f"{opt.head} names {elsewhere[0]}, but {opt.layer:is {','.join(layers)}}",
                f"leave {opt.layer} out",
                about="head",
            )
        if named and len(heads) == 1:
            layer, head = named[0].lstrip("L").split("H")
            layers, heads = [layer], [head]
        for name, words in (("layer", layers), ("head", heads)):
            one = int(words[0]) if len(words) == 1 and words[0].isdigit() else None
            object.__setattr__(self, name, ",".join(words) or None if one is None else one)

    @property
    def hides(self) -> bool:
        return self.hide_special or self.hide_first


LINK = "{opt.source:it} {opt.to:animal}"
LEAVE_ONE_OUT = "leave one of them out"
PART_AND_ROW = "{opt.part} shows a part of a map, and {option} one row of it"
DRAWING = "{opt.as_:{it.as_}}"
ONE_ANSWER = "{option} names one answer, but {opt.by:effect} compares two"
OTHER_READINGS = (
    *("weigh", "source", "merge", "words", "by_sentence", *HIDE_OPTIONS, "part", "log"),
)
INSPECT_RULES: tuple[Rule, ...] = (
    *rules_for(OTHER_READINGS, lambda it: it.segments is not None,
        "{opt.segments} sums up what is read of each segment, and {option} shows the weights of "
        "tokens in another way", LEAVE_ONE_OUT),
    *rules_for(["as_"], lambda it: it.segments is not None and it.as_ != "heatmap",
        f"{{opt.segments}} has bars, or the table of who reads whom, but {DRAWING} draws tokens",
        "leave {option} out, or give {opt.as_:heatmap}"),
    *rules_for(["by"], lambda it: it.segments is not None and it.by == "effect",
        "{opt.by:effect} switches heads off, and {opt.segments} is about what they read",
        "leave one of them out, or hide a segment with {opt.without_segment}"),
    *rules_for(["without_segment"], lambda it: it.segments is None,
        "{option} names a segment, and the text is not cut into any",
        "give {opt.segments:paragraphs}, too"),
    *rules_for(["to"], lambda it: it.source is None,
        "{option} names the token that is attended to, and needs {opt.source}",
        f"give both: {LINK}"),
    *rules_for(["source"], lambda it: it.to is None,
        "{option} names the token that attends, and needs {opt.to}", f"give both: {LINK}"),
    *rules_for(["words"], lambda it: it.by_sentence,
        "{option} and {opt.by_sentence} are both given: a row is a word or a sentence",
        LEAVE_ONE_OUT),
    *rules_for(["rank"], lambda it: it.source is None,
        "{opt.rank:{it.rank}} sorts heads by one link, and no link is given",
        f"name the two tokens of the link: {LINK}"),
    *rules_for(["renormalise"], lambda it: not it.hides,
        "{option} rescales what is left when tokens are hidden, and none are hidden",
        "give {opt.hide_special} or {opt.hide_first}"),
    *rules_for(["query"], lambda it: it.part is not None, PART_AND_ROW,
        f"{LEAVE_ONE_OUT}; {cmd.run:--model minilm --query} takes both"),
    *rules_for(["source"], lambda it: it.part is not None, PART_AND_ROW, LEAVE_ONE_OUT),
    *rules_for(["layer", "head"], lambda it: it.merge == "rollout",
        "{opt.merge:rollout} uses all layers and heads, but {option} picks only some",
        "leave {option} out, or give {opt.merge:mean}"),
    *rules_for(["weigh"], lambda it: it.merge == "rollout",
        "{opt.merge:rollout} multiplies rows that sum to 1, but those of {opt.weigh:{it.weigh}} "
        "do not", "leave {option} out, or give {opt.merge:mean}"),
    *rules_for(["query"], lambda it: it.source is not None,
        "{option} shows everything that one token attends to, but {opt.source} ranks heads by one "
        "link", LEAVE_ONE_OUT),
    *rules_for(["ablation", "pairs"], lambda it: it.by != "effect",
        "{option} is about switching heads off, but none are", "give {opt.by:effect}"),
    *range_rules("pairs", *PAIRED_HEADS_RANGE),
    *rules_for(WEIGHT_OPTIONS, lambda it: it.by == "effect",
        "{opt.by:effect} ranks heads by switching them off, but {option} is about weights",
        "leave {option} out, or leave {opt.by:effect} out"),
    *rules_for(["as_"], lambda it: it.source is not None,
        f"{{opt.source}} ranks heads by one link, but {DRAWING} draws all weights of a head",
        "leave out {option}, or give {opt.layer} and {opt.head} in place of {opt.source} and "
        "{opt.to}"),
    *rules_for(["as_"], lambda it: it.as_ == "sentence" and it.query is None,
        f"{DRAWING} draws what one token attends to, and no {{opt.query}} is given",
        "try {opt.query:1}, or {opt.as_:arcs}"),
    *rules_for(["as_"], lambda it: it.as_ == "heatmap" and it.query is not None and not it.segments,
        f"{{opt.query}} draws one sentence, but {DRAWING} draws a table of all tokens",
        "leave out {option}, or give {opt.as_:arcs}"),
    *rules_for(["as_"], lambda it: it.as_ == "arcs" and it.weigh == "gradient",
        f"{DRAWING} draws weights, but {{opt.weigh:gradient}} makes some numbers negative",
        f"leave out {{opt.weigh:gradient}}, or {DRAWING}"),
    *rules_for(["as_"], lambda it: it.as_ == "arcs" and it.predict,
        f"{DRAWING} draws weights, but {{opt.predict}} is a table of answers",
        f"leave out {{opt.predict}}, or {DRAWING}"),
    *rules_for(["toward"], lambda it: it.by == "effect" and it.instead_of is None, ONE_ANSWER,
        "name the other one, too: {opt.instead_of:TOKEN}"),
    *rules_for(["instead_of"], lambda it: it.by == "effect" and it.toward is None, ONE_ANSWER,
        "name the other one, too: {opt.toward:TOKEN}"),
    *rules_for(["instead_of"], lambda it: it.by != "effect",
        "{option} names an answer for {opt.by:effect}, but heads are not ranked by effect",
        "give {opt.by:effect}"),
    *rules_for(["toward"], lambda it: it.by != "effect" and it.weigh != "gradient",
        "{option} chooses the answer for {opt.weigh:gradient}, but {opt.weigh:is {it.weigh}}",
        "give {opt.weigh:gradient}"),
)  # fmt: skip


def _parse_words(name: str, value: Any, pattern: re.Pattern[str], hint: str) -> list[str]:
    """Return the numbers or names of layers or heads in a value, as text: ["4"], ["L5H11"].

    Refuses other words, and numbers below 0.
    """
    words = [] if value is None else str(comma_list(value)).split(",")
    parsed = []
    for word in map(str.strip, words):
        match = pattern.fullmatch(word)
        if match is None:
            named = f"'{word}'" if word else "empty"
            problem = f"{opt[name]:is {named}}, and should be the number of a {name}"
            raise AttnvizError(problem, hint, about=name)
        *layer, number = (int(group) for group in match.groups() if group is not None)
        if number < 0:
            problem = f"{opt[name]:is {number}}, but counting starts at 0"
            raise AttnvizError(problem, f"try {opt[name]:0}", about=name)
        parsed.append(format_head_id(layer[0], number) if layer else str(number))
    return list(dict.fromkeys(parsed))


def numbers_in_slice(name: str, count: int, chosen: slice) -> list[int]:
    """Return the numbers of layers or heads (`name`) in a slice, of `count`; refuse a slice of
    anything but numbers, and one without any.
    """
    numbers: list[int] = []
    with suppress(TypeError, ValueError):
        numbers = [*range(count)[chosen]]
    if not numbers:
        problem = f"{name} is {chosen}, which holds none of {counted(count, name)}"
        raise AttnvizError(problem, f"try {name}=slice(0, {count})", about=name)
    return numbers


class LookingKeywords(TypedDict, total=False):
    """The fields of InspectOptions as keywords, with every value that says the same."""

    layer: int | Sequence[int] | slice | None
    head: int | str | Sequence[int | str] | slice | None
    query: int | str | None
    source: int | str | None
    to: int | str | None
    merge: Merge | None
    hide_special: bool
    hide_first: bool
    renormalise: bool
    words: bool
    by_sentence: bool
    segments: str | Mapping[str, str | range] | None
    without_segment: int | str | None
    part: str | None
    log: bool
    weigh: Weigh
    toward: str | None
    instead_of: str | None
    by: By
    ablation: AblationValue
    pairs: int | None
    rank: Rank
    predict: bool
    as_: Draw | None


@with_defaults(Settings, InspectOptions, model=MINILM)
class InspectKeywords(SettingKeywords, LookingKeywords):
    """The keywords of inspect: the settings of a run, and the options of an inspection."""


@with_defaults(Settings, InspectOptions, model=MINILM)
class EffectKeywords(TextsKeywords, total=False):
    """The keywords of head_effects: of a trained model, and of what is switched off."""

    without: str | Sequence[str] | None
    truncate: bool
    layer: int | Sequence[int] | None
    head: int | str | Sequence[int | str] | None
    toward: str | None
    instead_of: str | None
    ablation: AblationValue
    pairs: int | None


CHOICES_BY_OPTION: dict[str, tuple[str, Mapping[Any, str]]] = {
    "weigh": ("way to weigh", WEIGH_DESCRIPTIONS),
    "merge": ("way to merge heads", MERGE_DESCRIPTIONS),
    "by": ("way to rank heads by", BY_DESCRIPTIONS),
    "rank": ("way to rank links", RANK_DESCRIPTIONS),
    "ablation": ("kind of ablation", ABLATION_DESCRIPTIONS),
    "as_": ("way to draw", DRAW_DESCRIPTIONS),
}
INSPECT_OPTION_NAMES: tuple[str, ...] = tuple(InspectOptions.__dataclass_fields__)


def refuse_odd_metric(metric: object, options: InspectOptions) -> None:
    """Refuse a metric that is no function, is not used, or stands beside two answers."""
    if metric is None:
        return
    if not callable(metric):
        problem = f"metric is of type {type(metric).__name__}, and should be a function"
        hint = "try metric=lambda outputs: outputs.logits[0, -1, 5]"
    elif options.by != "effect":
        problem = "'metric' says what heads are ranked by, but by is 'pattern'"
        hint = 'give by="effect"'
    elif options.toward is not None:
        problem, hint = "'metric' and 'toward' are both given", "give one of them"
    else:
        return
    raise AttnvizError(problem, hint, about="metric")
