"""ASPECTS: what kinds of attention can be compared by: scale, mask, heads …; no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import NORMS, VARIANTS
from attnviz.errors import AttnvizError, cmd, opt, refuse_unknown_name
from attnviz.traces.models.card import Card
from attnviz.traces.settings import DTYPES, POSITIONS, Settings

DEFAULT_WINDOW = 2
ABLATION_ASPECT, NO_HEADS_OFF = "without", "none"
MODEL_RUN_ASPECTS = ("dtype", "device")  # in which two runs of a transformer may differ
# What can be changed about a model that is already built.
MODEL_ASPECTS = ("scale", "mask", "temperature", "dtype", "device", ABLATION_ASPECT)
SCALE_VALUES = ("unscaled", "scaled")
TEXT_ASPECT = "text"  # two sentences in the same kind of attention
MASK_VALUES = ("causal", "none", "window")  # causal first: mistakes are compared with it
SHARED_VECTORS = "queries, keys, values"
SHARED_EMBEDDINGS, SHARED_TEXT, SHARED_TRAINING = "embeddings", "the text", "sentences and seeds"
MAX_REPEATS = 100_000
MAX_TRAINING_SEEDS, DEFAULT_TRAINING_SEEDS = 1000, 10

UNSTREAMED_ASPECTS = {  # why weights that are compared so have to be in memory
    "tokenizer": "each tokenizer makes its own tokens",
    TEXT_ASPECT: "two texts are compared by the weights of both",
    ABLATION_ASPECT: "heads are switched off to compare answers",
}

SettingsChooser = Callable[[Settings, str], Settings]


@dataclass(frozen=True)
class Aspect:
    """One property to compare by, such as the scale or the mask."""

    name: str
    values: Callable[[], tuple[str, ...]]
    choose: SettingsChooser  # returns the settings for a value
    shared_parts: str  # what all alternatives have in common
    numeric: bool = False  # whether curves can be drawn against it
    about: str = ""  # for --help


def choose_aspect(by: str | None, values: object, *, texts: bool) -> str:
    """Return the name of the aspect to compare by: `by`, otherwise "text" if there are two
    sentences (`texts`), otherwise "scale". Refuses unknown aspects, a second sentence with another
    aspect or with `values`, and "text" without a second sentence."""
    aspect_name = by or (TEXT_ASPECT if texts else "scale")
    refuse_unknown_aspect(aspect_name)
    if texts and aspect_name != TEXT_ASPECT:
        raise AttnvizError(
            f"{opt.by:{aspect_name}} cannot be combined with a second sentence",
            "leave one of them out: two sentences are compared with the same settings",
            about="by",
        )
    if texts and values is not None:
        raise AttnvizError(
            f"{opt.values} cannot be combined with a second sentence: the sentences are compared",
            f"leave {opt.values} out",
        )
    if aspect_name == TEXT_ASPECT and not texts:
        raise AttnvizError(
            "there is no second sentence to compare with the first",
            f'give both: {cmd.compare:"I am learning this" "you are teaching that"}',
        )
    return aspect_name


def refuse_unknown_aspect(by: str) -> None:
    """Refuse a name that is not an aspect, with a hint to --learn if it can only be compared in
    training."""
    if by in TRAINING_ASPECTS and by not in ASPECTS:
        raise AttnvizError(
            f"{opt.by:{by}} compares models in training, and no task is given",
            f"give a task: {opt.learn:reverse}",
        )
    if by in ("model", "models"):
        raise AttnvizError(
            f"{opt.by:{by}} needs no values: two models are compared by naming both",
            f"give {opt.model:agreement} {opt.model:FOLDER}; in Python compare_models(text, a, b)",
            about="by",
        )
    refuse_unknown_name("way to compare by", by, ASPECTS)


def refuse_model_change(by: str, card: Card) -> None:
    """Refuse an aspect that would change the given model itself, such as its number of heads.

    Allowed are MODEL_ASPECTS, such as the mask, and a second sentence.
    """
    if by in (*MODEL_ASPECTS, TEXT_ASPECT):
        return
    task, training_hint = card.facts.get("task"), ""
    if by in TRAINING_ASPECTS and isinstance(task, str):
        training_hint = f"{cmd.compare:--learn {task} --by {by}} trains a model for each value; "
    raise AttnvizError(
        f"{opt.by:{by}} would change the model '{card.name}' itself, which is already built",
        f"{training_hint}compare it by {', '.join(MODEL_ASPECTS)}, or with a second sentence",
        about="by",
    )


def refuse_ablation_alone(by: str) -> None:
    """Refuse to compare by switched-off heads ("without") where no model is given."""
    if by == ABLATION_ASPECT:
        raise AttnvizError(
            f"{opt.by:without} compares the answers of a model, and no model is given",
            f"try {opt.model:agreement} {opt.by:without} {opt.values:none,L1H0,L1H0+L1H1}",
            about="by",
        )


def choose_values(by: str, values: Sequence[object] | None) -> tuple[str, ...]:
    """Return the given values of the aspect `by` as texts, or its default ones.

    Refuses values that the aspect does not know, fewer than two values, and two that mean the same.
    """
    return list_aspect_values(ASPECTS[by], values, Settings())


def list_aspect_values(
    aspect: Aspect, values: Sequence[object] | None, settings: Settings
) -> tuple[str, ...]:
    """Return the given values of an aspect as texts, or its default ones.

    Refuses values that cannot be set in `settings`, fewer than two values, and two that mean the
    same, such as 8 and 08.
    """
    names = aspect.values() if values is None else tuple(str(value) for value in values)
    # Two names of one value, such as 8 and 08, stand for the same settings; mistakes never do.
    meanings = [(aspect.choose(settings, name), name if name in MISTAKES else "") for name in names]
    for index, meaning in enumerate(meanings):
        if meaning in meanings[:index]:
            raise AttnvizError(f"{opt.values} has '{names[index]}' twice", "give each value once")
    if len(names) < 2:
        problem = f"there is only one value to compare: '{names[0]}'" if names else ""
        examples = list(dict.fromkeys([*names, *aspect.values()]))
        hint = f"give two or more, such as {opt.values:{','.join(examples[:3])}}"
        if len(examples) < 2:
            hint = f"this machine has no other {aspect.name}"
        raise AttnvizError(problem or "there is no value to compare", hint)
    return names


def refuse_learning_by(by: str, repeats: int) -> None:
    """Refuse an aspect that models in training cannot be compared by, and a number of seeds
    (`repeats`) below 1 or above MAX_TRAINING_SEEDS."""
    refuse_unknown_name("way to compare learning by", by, TRAINING_ASPECTS)
    refuse_odd_repeats(repeats, MAX_TRAINING_SEEDS, f" with {opt.learn}")


def refuse_odd_repeats(repeats: int, most: int = MAX_REPEATS, where: str = "") -> None:
    """Refuse a number of seeds below 1 or above `most`; `where` ends the problem."""
    if not 1 <= repeats <= most:
        problem = f"{opt.repeats:is {repeats}}, and must be from 1 to {most:,}{where}"
        raise AttnvizError(problem, f"try {opt.repeats:{min(max(repeats, 1), most)}}")


def choose_reference(names: Sequence[str], reference: object) -> int:
    """Return the index of the reference value in `names`, the compared values; 0 for None.

    Refuses a reference that is none of these values.
    """
    if reference is None:
        return 0
    refuse_unknown_name("reference value", str(reference), names)
    return list(names).index(str(reference))


def _setting_chooser(
    name: str, parse: Callable[[str], Any], kind: str, values: Callable[[], tuple[str, ...]]
) -> SettingsChooser:
    """Return a function that parses a value and returns settings with `name` set to it.

    That function refuses a value that cannot be parsed, calling the values `kind` ("whole numbers")
    and suggesting `values`.
    """

    def choose(settings: Settings, value: str) -> Settings:
        """Return the settings with the parsed value; refuse a value that cannot be parsed."""
        try:
            return replace(settings, **{name: parse(value)})
        except ValueError:
            raise AttnvizError(
                f"{opt.values} has '{value}', but {opt.by:{name}} compares {kind}",
                f"try {opt.values:{','.join(values())}}",
            ) from None

    return choose


def _choose_scale(settings: Settings, value: str) -> Settings:
    """Return the settings with scores scaled or not, for the value "scaled" or "unscaled"; refuse
    others."""
    refuse_unknown_name("scale to compare", value, SCALE_VALUES)
    return replace(settings, scale=value == "scaled")


def _choose_mask(settings: Settings, value: str) -> Settings:
    """Return the settings with a mask: "causal", "none", "window" (of 2 tokens unless the settings
    have one) or a deliberate mistake, which is made with the causal mask. Refuses other values."""
    refuse_unknown_name("mask to compare", value, (*MASK_VALUES, *MISTAKES))
    window = (settings.window or DEFAULT_WINDOW) if value == "window" else None
    return replace(settings, causal=value != "none", window=window)


def _choose_ablation(settings: Settings, value: str) -> Settings:
    """Return the settings with the heads of a value such as `L1H0+L1H1=mean` switched off, or for
    "none" no heads. The `+` stands for the comma of the setting, as values contain no commas."""
    return replace(settings, without=None if value == NO_HEADS_OFF else value.replace("+", ","))


def _device_names() -> tuple[str, ...]:
    from attnviz.attention.devices import available_devices  # imports torch

    return tuple(available_devices())


def _number_aspect(
    name: str, values: tuple[str, ...], parse: Callable[[str], Any], fixed: str
) -> Aspect:
    """Return an aspect whose values are numbers, read by `parse` (int or float), with default
    `values`. `shared_parts` describes what all alternatives share."""
    kind = "whole numbers" if parse is int else "numbers"
    choose = _setting_chooser(name, parse, kind, lambda: values)
    return Aspect(name, lambda: values, choose, fixed, numeric=True)


def _word_aspect(name: str, values: Callable[[], tuple[str, ...]], kind: str, fixed: str) -> Aspect:
    """Return an aspect whose values are words, taken as they are.

    `kind` ("variants") is used in errors, and `shared_parts` describes what all alternatives share.
    """
    return Aspect(name, values, _setting_chooser(name, str, kind, values), fixed)


ASPECTS = {
    aspect.name: aspect
    for aspect in (
        Aspect("scale", lambda: SCALE_VALUES, _choose_scale, SHARED_VECTORS),
        _word_aspect("variant", lambda: tuple(VARIANTS)[:4], "variants", SHARED_EMBEDDINGS),
        Aspect(
            "mask",
            lambda: (*MASK_VALUES, *MISTAKES),
            _choose_mask,
            SHARED_VECTORS,
            about="with common mistakes",
        ),
        _number_aspect("dim", ("2", "8", "32", "128", "512"), int, SHARED_TEXT),
        _number_aspect("heads", ("1", "2", "4"), int, SHARED_EMBEDDINGS),
        _number_aspect("temperature", ("0.25", "1", "4"), float, SHARED_VECTORS),
        # Which numbers are rotated together makes no difference for random numbers.
        _word_aspect(
            "positions",
            lambda: tuple(name for name in POSITIONS if name != "rotary-halves"),
            "kinds of positions",
            SHARED_EMBEDDINGS,
        ),
        replace(_number_aspect("seed", ("42", "43", "44"), int, SHARED_TEXT), numeric=False),
        _word_aspect(
            "dtype",
            lambda: ("float64", *(name for name in DTYPES if name != "float64")),
            "dtypes",
            "the numbers, before rounding",
        ),
        _word_aspect("device", _device_names, "devices", "the numbers"),
        _word_aspect("tokenizer", lambda: ("gpt2", "words", "chars"), "tokenizers", SHARED_TEXT),
        Aspect(
            ABLATION_ASPECT,
            lambda: (NO_HEADS_OFF, "L0H0"),
            _choose_ablation,
            SHARED_TEXT,
            about="heads of a model that are switched off",
        ),
        Aspect(
            TEXT_ASPECT,
            lambda: (),
            lambda settings, _: settings,
            "the vector of each word",
            about="with OTHER",
        ),
    )
}

TRAINING_ASPECTS = {
    aspect.name: aspect
    for aspect in (
        replace(ASPECTS["scale"], shared_parts=f"first numbers, {SHARED_TRAINING}"),
        _number_aspect("heads", ("1", "2", "4"), int, SHARED_TRAINING),
        _number_aspect("layers", ("1", "2"), int, SHARED_TRAINING),
        replace(ASPECTS["positions"], shared_parts=SHARED_TRAINING),
        _word_aspect("variant", lambda: tuple(VARIANTS), "variants", SHARED_TRAINING),
        _word_aspect("norm", lambda: tuple(NORMS), "places for the norm", SHARED_TRAINING),
        _number_aspect("dim", ("8", "16", "32", "64"), int, SHARED_TRAINING),
    )
}
ASPECT_SUMMARIES = dict.fromkeys(TRAINING_ASPECTS, "with --learn") | {
    name: aspect.about for name, aspect in ASPECTS.items()
}


def values_beside(typed: Mapping[str, Any]) -> Sequence[str]:
    """Return the values that completion offers for --values, given the options `typed` before.

    They depend on --by and --learn; torch is not loaded, so that there are none for devices.
    """
    by = typed.get("by") or "scale"
    aspects = TRAINING_ASPECTS if typed.get("learn") is not None else ASPECTS
    return () if by == "device" or by not in aspects else aspects[by].values()
