"""Ways of attending side by side on the same sentence, subtracted and measured.

What may be compared is the table `BY`: each row says which settings a value stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.measures import Measures, Weights, measure
from attnviz.attention import arithmetic as attention
from attnviz.attention import devices
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError, unknown
from attnviz.tokens.tokens import Tokens, named
from attnviz.traces.from_text import trace
from attnviz.traces.layers import mistaken
from attnviz.traces.settings import DTYPES, POSITIONS, Settings, chosen_variant
from attnviz.traces.trace import Provenance, Trace

DEFAULT_WINDOW = 2


@dataclass(frozen=True)
class By:
    """One thing to compare by."""

    name: str
    values: Callable[[], tuple[str, ...]]
    choose: Callable[[Settings, str], Settings]  # the settings that a value stands for
    fixed: str  # what all ways have in common
    numeric: bool = False  # whether curves can be drawn against it


@dataclass(frozen=True, eq=False)
class Way:
    """One way of attending: what it is called, what it does, and what is wrong with it if it is."""

    name: str
    weights: Weights
    visible: Bool[Tensor, "query key"]
    tokens: Tokens
    keys: Tokens
    mistake: str = ""
    trace: Trace | None = None  # none where only scores were given


@dataclass(frozen=True)
class Change:
    """The cell that differs most from the reference."""

    head: int | None  # None: in the mean of the heads
    query: int
    key: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Ways, what each measures, and how far each is from the reference."""

    by: str
    ways: tuple[Way, ...]
    reference: int
    measures: tuple[Measures, ...]
    differences: tuple[Weights | None, ...]  # None: for the reference, and for other tokens
    changes: tuple[Change | None, ...]
    query: int | None = None  # shown alone, if it is not None
    provenance: Provenance | None = None


def compare(
    text: str | None,
    settings: Settings | None = None,
    *,
    by: str = "scale",
    values: Sequence[str] | None = None,
    reference: str | None = None,
    command: str | None = None,
    **changes: Any,
) -> Comparison:
    """Ways of attending to a text, held against the first of them, or against `reference`."""
    if by not in BY:
        raise unknown("way to compare by", by, BY)
    names = chosen_values(by, values)
    base = prepared(names, replace(settings or Settings(), **changes))
    if base.blocks:
        raise AttnvizError(
            "blocks cannot be compared: ways of attending are, in a single attention",
            "leave layers and memory out",
        )
    ways = [way(text, base, by, name, command) for name in names]
    first = ways[0].trace
    made = contrast(ways, by, chosen_reference(names, reference))
    return replace(made, provenance=first.provenance if first else None)


def compare_scores(
    scores: Float[Tensor, "head query key"],
    width: int,
    visible: Bool[Tensor, "query key"] | None = None,
    labels: Sequence[str] | None = None,
) -> Comparison:
    """Softmax of given scores as they are, beside softmax of them divided by √width."""
    queries, keys = scores.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool) if visible is None else visible
    shown = named(labels or [str(number + 1) for number in range(keys)])
    ways = [
        Way(name, attention.attention_weights(scores * scale, seen), seen, shown, shown)
        for name, scale in (("unscaled", 1.0), ("scaled", width**-0.5))
    ]
    return contrast(ways, "scale", 0)


def contrast(ways: Sequence[Way], by: str, reference: int) -> Comparison:
    """Measure each way, and subtract the reference from it."""
    base = ways[reference]
    pairs = [_comparable(base, other) for other in ways]
    measures = [
        measure(other.weights, other.visible, _matched(pair, other.weights))
        for other, pair in zip(ways, pairs, strict=True)
    ]
    differences = [
        None if pair is None or other is base else pair[1].double() - pair[0].double()
        for other, pair in zip(ways, pairs, strict=True)
    ]
    changes = [
        None if difference is None or pair is None else _largest(difference, *pair)
        for difference, pair in zip(differences, pairs, strict=True)
    ]
    return Comparison(
        by, tuple(ways), reference, tuple(measures), tuple(differences), tuple(changes)
    )


def restricted(made: Comparison, query: int) -> Comparison:
    """The same comparison of one query's row alone."""
    changes: list[Change | None] = []
    for way, difference in zip(made.ways, made.differences, strict=True):
        pair = _comparable(made.ways[made.reference], way)
        if difference is None or pair is None:
            changes.append(None)
            continue
        before, after = (each[:, query : query + 1] for each in pair)
        change = _largest(difference[:, query : query + 1], before, after)
        changes.append(replace(change, query=query))
    return replace(made, query=query, changes=tuple(changes))


def way(text: str | None, base: Settings, by: str, name: str, command: str | None = None) -> Way:
    """The way that a value stands for."""
    made = trace(text, BY[by].choose(base, name), command=command)
    mistake = MISTAKES.get(name) if by == "mask" else None
    if mistake is not None:
        made = mistaken(made, name)
    (layer,) = made.layers
    about = mistake.about if mistake else ""
    return Way(name, layer.attended.weights, layer.visible, made.tokens, made.keys, about, made)


def prepared(names: Sequence[str], settings: Settings) -> Settings:
    """The settings that all ways start from.

    To show √(model width) taken for √(head width) the two must differ: one head, half as wide.
    """
    own = settings.heads is not None or settings.head_dim is not None
    chosen = chosen_variant(settings)
    if "model-scale" not in names or own or not chosen.projected or chosen.heads > 1:
        return settings
    return replace(settings, head_dim=max(1, settings.width // 2))


def chosen_values(by: str, values: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(values) if values is not None else BY[by].values()
    # Two names of one value, such as 8 and 08, stand for the same settings; mistakes never do.
    meant = [(BY[by].choose(Settings(), name), name if name in MISTAKES else "") for name in names]
    for place, meaning in enumerate(meant):
        if meaning in meant[:place]:
            raise AttnvizError(f"--values has '{names[place]}' twice", "give each value once")
    if len(names) < 2:
        only = (
            f"there is only one value to compare by: '{names[0]}'" if names else "there is no value"
        )
        raise AttnvizError(only, _more_values(by, names))
    return names


def chosen_reference(names: Sequence[str], reference: str | None) -> int:
    if reference is None:
        return 0
    if reference not in names:
        raise unknown("value to be the reference", reference, names)
    return list(names).index(reference)


def _more_values(by: str, names: Sequence[str]) -> str:
    some = list(dict.fromkeys([*names, *BY[by].values()]))
    if len(some) < 2:
        return f"this machine has no other {by}"
    return f"give two or more, such as --values {','.join(some[:3])}"


def _comparable(base: Way, other: Way) -> tuple[Weights, Weights] | None:
    """The weights of both, head by head; their means if the heads are not as many."""
    if base.weights.shape[1:] != other.weights.shape[1:] or base.tokens.ids != other.tokens.ids:
        return None
    ours, theirs = base.weights.cpu(), other.weights.cpu()
    if len(ours) == len(theirs):
        return ours, theirs
    return ours.mean(0, keepdim=True), theirs.mean(0, keepdim=True)


def _matched(pair: tuple[Weights, Weights] | None, weights: Weights) -> Weights | None:
    """The reference's weights, as many heads of them as there are to be held against it."""
    if pair is None:
        return None
    reference = pair[0].to(weights.device)
    return reference if len(reference) == len(weights) else reference.expand_as(weights)


def _largest(difference: Weights, before: Weights, after: Weights) -> Change:
    head, row = divmod(int(difference.abs().argmax()), difference[0].numel())
    query, key = divmod(row, difference.shape[-1])
    cell = head, query, key
    only = len(difference) == 1
    return Change(None if only else head, query, key, float(before[cell]), float(after[cell]))


def _field(
    name: str, parse: Callable[[str], Any], kind: str
) -> Callable[[Settings, str], Settings]:
    """Values that are values of one setting."""

    def choose(settings: Settings, value: str) -> Settings:
        try:
            return replace(settings, **{name: parse(value)})
        except ValueError:
            raise AttnvizError(
                f"--values has '{value}', and --by {name} compares {kind}",
                f"try --values {','.join(BY[name].values())}",
            ) from None

    return choose


def _scale(settings: Settings, value: str) -> Settings:
    if value not in _SCALES:
        raise unknown("scale to compare", value, _SCALES)
    return replace(settings, scale=value == "scaled")


def _mask(settings: Settings, value: str) -> Settings:
    if value not in (*_MASKS, *MISTAKES):
        raise unknown("mask to compare", value, (*_MASKS, *MISTAKES))
    window = (settings.window or DEFAULT_WINDOW) if value == "window" else None
    return replace(settings, causal=value != "none", window=window)


_SCALES = ("unscaled", "scaled")
_MASKS = ("causal", "none", "window")  # causal first: mistakes are held against it
_VECTORS = "queries, keys, values"

BY = {
    by.name: by
    for by in (
        By("scale", lambda: _SCALES, _scale, _VECTORS),
        By(
            "variant", lambda: tuple(VARIANTS)[:4], _field("variant", str, "variants"), "embeddings"
        ),
        By("mask", lambda: (*_MASKS, *MISTAKES), _mask, _VECTORS),
        By(
            "dim",
            lambda: ("2", "8", "32", "128", "512"),
            _field("dim", int, "whole numbers"),
            "the text",
            numeric=True,
        ),
        By(
            "heads",
            lambda: ("1", "2", "4"),
            _field("heads", int, "whole numbers"),
            "embeddings",
            numeric=True,
        ),
        By(
            "temperature",
            lambda: ("0.25", "1", "4"),
            _field("temperature", float, "numbers"),
            _VECTORS,
            numeric=True,
        ),
        By(
            "positions",
            lambda: POSITIONS,
            _field("positions", str, "kinds of positions"),
            "embeddings",
        ),
        By("seed", lambda: ("42", "43", "44"), _field("seed", int, "whole numbers"), "the text"),
        By(
            "dtype",
            lambda: ("float64", *(name for name in DTYPES if name != "float64")),
            _field("dtype", str, "dtypes"),
            "the numbers, before rounding",
        ),
        By(
            "device",
            lambda: tuple(devices.available()),
            _field("device", str, "devices"),
            "the numbers",
        ),
        By(
            "tokenizer",
            lambda: ("gpt2", "words", "chars"),
            _field("tokenizer", str, "tokenizers"),
            "the text",
        ),
    )
}
