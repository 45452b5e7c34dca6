"""What ways of attending can be compared by: a table, each row with the settings of its values.

Nothing here needs torch: `--help` lists the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import NORMS, VARIANTS
from attnviz.errors import AttnvizError, unknown
from attnviz.traces.models.card import Card
from attnviz.traces.settings import DTYPES, POSITIONS, Settings

DEFAULT_WINDOW = 2
WITHOUT, ALL_ON = "without", "none"  # heads that are switched off; and that none is
OF_A_MODEL = (
    "scale",
    "mask",
    "temperature",
    "dtype",
    "device",
    WITHOUT,
)  # what one can do that is there
SCALES = ("unscaled", "scaled")
TEXT = "text"  # two sentences, in one way of attending
MASKS = ("causal", "none", "window")  # causal first: mistakes are held against it
OF_VECTORS = "queries, keys, values"  # what all ways of attending may have in common
OF_EMBEDDINGS = "embeddings"
OF_TEXT = "the text"
OF_LEARNING = "sentences and seeds"

MOST_LEARNERS = 1000  # seeds that a model learns from
LEARNERS = 10  # unless somebody says how many

Choose = Callable[[Settings, str], Settings]


@dataclass(frozen=True)
class Aspect:
    """One thing to compare by."""

    name: str
    values: Callable[[], tuple[str, ...]]
    choose: Choose  # the settings that a value stands for
    fixed: str  # what all alternatives have in common
    numeric: bool = False  # whether curves can be drawn against it
    about: str = ""  # for --help


def chosen_aspect(by: str | None, values: object, *, texts: bool) -> str:
    """What is compared by: a second sentence settles it, and without one it is the scale."""
    chosen = by or (TEXT if texts else "scale")
    refuse_unknown_aspect(chosen)
    if texts and chosen != TEXT:
        raise AttnvizError(
            f"--by {chosen} cannot be combined with a second sentence",
            "leave one of them out: two sentences are compared with the same kind of attention",
        )
    if texts and values is not None:
        raise AttnvizError(
            "--values cannot be combined with a second sentence: the sentences are compared",
            "leave --values out",
        )
    if chosen == TEXT and not texts:
        raise AttnvizError(
            "there is no second sentence to compare with the first",
            'give both: attnviz compare "I am learning this" "you are teaching that"',
        )
    return chosen


def refuse_unknown_aspect(by: str) -> None:
    if by in LEARNED and by not in ASPECTS:
        raise AttnvizError(
            f"--by {by} compares models in training, and no task is given",
            "give a task: --learn reverse",
        )
    if by not in ASPECTS:
        raise unknown("way to compare by", by, ASPECTS)


def refuse_of_a_model(by: str, card: Card) -> None:
    """Refuse what would need another model."""
    if by in (*OF_A_MODEL, TEXT):
        return
    task = card.facts.get("task")
    learned = by in LEARNED and isinstance(task, str)
    also = (
        f"attnviz compare --learn {task} --by {by} trains a model for each value; "
        if learned
        else ""
    )
    raise AttnvizError(
        f"--by {by} would change the model '{card.name}' itself, which is already built",
        f"{also}compare it by {', '.join(OF_A_MODEL)}, or with a second sentence",
        about="by",
    )


def refuse_no_model(by: str) -> None:
    """Refuse heads to switch off where nothing is answered."""
    if by == WITHOUT:
        raise AttnvizError(
            "--by without compares the answers of a model, and no model is given",
            "try --model agreement --by without --values none,L1H0,L1H0+L1H1",
            about="by",
        )


def chosen_values(by: str, values: Sequence[object] | None) -> tuple[str, ...]:
    """The values that are asked for, or those that the aspect has of itself."""
    return values_of(ASPECTS[by], values, Settings())


def values_of(
    aspect: Aspect, values: Sequence[object] | None, settings: Settings
) -> tuple[str, ...]:
    """The same of any aspect, of ways that have all other settings in common."""
    names = aspect.values() if values is None else tuple(str(value) for value in values)
    # Two names of one value, such as 8 and 08, stand for the same settings; mistakes never do.
    meant = [(aspect.choose(settings, name), name if name in MISTAKES else "") for name in names]
    for place, meaning in enumerate(meant):
        if meaning in meant[:place]:
            raise AttnvizError(f"--values has '{names[place]}' twice", "give each value once")
    if len(names) < 2:
        only = f"there is only one value to compare: '{names[0]}'" if names else ""
        raise AttnvizError(only or "there is no value to compare", _more_values(aspect, names))
    return names


def refuse_learning_by(by: str, repeats: int) -> None:
    """Refuse what no models can be compared by, and seeds that would take too long."""
    if by not in LEARNED:
        raise unknown("way to compare learning by", by, LEARNED)
    if not 1 <= repeats <= MOST_LEARNERS:
        problem = f"--repeats is {repeats}, and must be from 1 to {MOST_LEARNERS:,} with --learn"
        raise AttnvizError(problem, f"try --repeats {min(max(repeats, 1), MOST_LEARNERS)}")


def chosen_reference(names: Sequence[str], reference: object) -> int:
    """The place of the value that the others are held against."""
    if reference is None:
        return 0
    if str(reference) not in names:
        raise unknown("reference value", str(reference), names)
    return list(names).index(str(reference))


def _more_values(aspect: Aspect, names: Sequence[str]) -> str:
    some = list(dict.fromkeys([*names, *aspect.values()]))
    if len(some) < 2:
        return f"this machine has no other {aspect.name}"
    return f"give two or more, such as --values {','.join(some[:3])}"


def _setting(
    name: str, parse: Callable[[str], Any], kind: str, values: Callable[[], tuple[str, ...]]
) -> Choose:
    """Values that are values of one setting."""

    def choose(settings: Settings, value: str) -> Settings:
        try:
            return replace(settings, **{name: parse(value)})
        except ValueError:
            raise AttnvizError(
                f"--values has '{value}', but --by {name} compares {kind}",
                f"try --values {','.join(values())}",
            ) from None

    return choose


def _scale(settings: Settings, value: str) -> Settings:
    if value not in SCALES:
        raise unknown("scale to compare", value, SCALES)
    return replace(settings, scale=value == "scaled")


def _mask(settings: Settings, value: str) -> Settings:
    if value not in (*MASKS, *MISTAKES):
        raise unknown("mask to compare", value, (*MASKS, *MISTAKES))
    window = (settings.window or DEFAULT_WINDOW) if value == "window" else None
    return replace(settings, causal=value != "none", window=window)


def _without(settings: Settings, value: str) -> Settings:
    """`L1H0+L1H1=mean`: a value has no commas."""
    return replace(settings, without=None if value == ALL_ON else value.replace("+", ","))


def _devices() -> tuple[str, ...]:
    from attnviz.attention.devices import available  # torch, which alone knows

    return tuple(available())


def _numbers(name: str, values: tuple[str, ...], parse: Callable[[str], Any], fixed: str) -> Aspect:
    kind = "whole numbers" if parse is int else "numbers"
    choose = _setting(name, parse, kind, lambda: values)
    return Aspect(name, lambda: values, choose, fixed, numeric=True)


def _words(name: str, values: Callable[[], tuple[str, ...]], kind: str, fixed: str) -> Aspect:
    return Aspect(name, values, _setting(name, str, kind, values), fixed)


ASPECTS = {
    aspect.name: aspect
    for aspect in (
        Aspect("scale", lambda: SCALES, _scale, OF_VECTORS),
        _words("variant", lambda: tuple(VARIANTS)[:4], "variants", OF_EMBEDDINGS),
        Aspect(
            "mask", lambda: (*MASKS, *MISTAKES), _mask, OF_VECTORS, about="with common mistakes"
        ),
        _numbers("dim", ("2", "8", "32", "128", "512"), int, OF_TEXT),
        _numbers("heads", ("1", "2", "4"), int, OF_EMBEDDINGS),
        _numbers("temperature", ("0.25", "1", "4"), float, OF_VECTORS),
        # Of numbers that are drawn it says nothing which of them are turned together.
        _words(
            "positions",
            lambda: tuple(name for name in POSITIONS if name != "rotary-halves"),
            "kinds of positions",
            OF_EMBEDDINGS,
        ),
        replace(_numbers("seed", ("42", "43", "44"), int, OF_TEXT), numeric=False),
        _words(
            "dtype",
            lambda: ("float64", *(name for name in DTYPES if name != "float64")),
            "dtypes",
            "the numbers, before rounding",
        ),
        _words("device", _devices, "devices", "the numbers"),
        _words("tokenizer", lambda: ("gpt2", "words", "chars"), "tokenizers", OF_TEXT),
        Aspect(
            WITHOUT,
            lambda: (ALL_ON, "L0H0"),
            _without,
            OF_TEXT,
            about="heads of a model that are switched off",
        ),
        Aspect(
            TEXT,
            lambda: (),
            lambda settings, _: settings,
            "the vector of each word",
            about="with OTHER",
        ),
    )
}

LEARNED = {  # what models that learn can be compared by
    aspect.name: aspect
    for aspect in (
        replace(ASPECTS["scale"], fixed=f"first numbers, {OF_LEARNING}"),
        _numbers("heads", ("1", "2", "4"), int, OF_LEARNING),
        _numbers("layers", ("1", "2"), int, OF_LEARNING),
        replace(ASPECTS["positions"], fixed=OF_LEARNING),
        _words("variant", lambda: tuple(VARIANTS), "variants", OF_LEARNING),
        _words("norm", lambda: tuple(NORMS), "places for the norm", OF_LEARNING),
        _numbers("dim", ("8", "16", "32", "64"), int, OF_LEARNING),
    )
}
