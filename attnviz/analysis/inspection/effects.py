"""Whether heads matter on a sentence: what each changes of what a model comes to without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.measures import changes_of
from attnviz.errors import AttnvizError
from attnviz.traces.settings import HeadPlace, name_of
from attnviz.traces.trace import Trace
from attnviz.traces.trained.prediction import Ending
from attnviz.traces.trained.tracing import Rereading, reread
from attnviz.wording.words import listed

Measured = Literal["answers", "vectors"]  # what is compared, with a head and without it
Track = Callable[[Sequence[HeadPlace]], Iterable[HeadPlace]]
TOLD = "--by effect switches off the heads"
LONGEST = 600  # seconds, that somebody may wait
MINUTE = 60


@dataclass(frozen=True, eq=False, kw_only=True)
class Effect:
    """What a head changes, at each token that counts."""

    place: HeadPlace
    amounts: Float[Tensor, "token"]  # bits, by which answers change; or shares of vectors
    cosines: Float[Tensor, "token"] | None = None  # of vectors with it and without it
    likely: float = 0.0  # how likely the answer is without it that is given with it,
    instead: str = ""  # and what is answered in its place, if anything is

    @property
    def name(self) -> str:
        return name_of(*self.place)

    @property
    def mean(self) -> float:
        return float(self.amounts.mean())

    @property
    def cosine(self) -> float | None:
        return None if self.cosines is None else float(self.cosines.mean())


@dataclass(frozen=True, eq=False, kw_only=True)
class Effects:
    """Heads, the one first that changes most."""

    measured: Measured
    tokens: tuple[int, ...]  # that count, by their places
    heads: tuple[Effect, ...]
    answer: str = ""  # with all heads, at the place that is spoken of,
    at: int = 0  # which is this one,
    next: bool = False  # as what comes after it,
    likely: float = 0.0  # and how likely it is
    off: tuple[HeadPlace, ...] = ()  # the heads that are off all the time


def effects_of(trace: Trace, maps: Sequence[Map], track: Track = iter) -> Effects:
    """Each head off in turn, and the others as they are; refused where that takes too long."""
    start, model = time.perf_counter(), reread(trace, TOLD, "by")
    places = _on(maps, model)
    whole = model.ending()
    _refuse_long((time.perf_counter() - start) * len(places), places)
    without = zip(places, map(model.ending, track(places)), strict=True)
    if whole.logits is None or model.asked is None or not model.asked.places:
        found = [_on_vectors(place, whole, each) for place, each in without]
        return Effects(
            measured="vectors",
            tokens=tuple(range(len(trace.tokens))),
            heads=_ranked(found),
            off=tuple(model.off),
        )
    return _on_answers(model, whole, without)


def _on(maps: Sequence[Map], model: Rereading) -> list[HeadPlace]:
    """Those of the heads that are on, of which one at least must be left."""
    places = [
        (each.layer.layer, each.head) for each in maps if each.layer and each.head is not None
    ]
    found = [place for place in places if place not in model.off]
    if not found:
        raise AttnvizError(
            f"{TOLD}, but {listed([name_of(*place) for place in places])} "
            f"{'is' if len(places) == 1 else 'are'} already off",
            "leave --without out",
            about="by",
        )
    return found


def _ranked(found: Iterable[Effect]) -> tuple[Effect, ...]:
    return tuple(sorted(found, key=lambda each: -each.mean))


def _on_vectors(place: HeadPlace, whole: Ending, other: Ending) -> Effect:
    """How far the last vectors move, as shares of their lengths; and how far they turn."""
    assert whole.vectors is not None
    assert other.vectors is not None
    changes, cosines = changes_of(whole.vectors, other.vectors)
    return Effect(place=place, amounts=changes, cosines=cosines)


def _on_answers(
    model: Rereading, whole: Ending, without: Iterable[tuple[HeadPlace, Ending]]
) -> Effects:
    asked = model.asked
    assert asked is not None
    rows = [asked.scored.index(place) for place in asked.places]
    spoken = len(rows) - 1 if asked.next else 0
    before = _logarithms(whole, rows)
    answer = int(before[spoken].argmax())
    found = [
        _effect(model, place, before, _logarithms(each, rows), spoken) for place, each in without
    ]
    return Effects(
        measured="answers",
        tokens=asked.places,
        heads=_ranked(found),
        answer=model.label(answer),
        at=asked.places[spoken],
        next=asked.next,
        likely=float(before[spoken, answer].exp()),
        off=tuple(model.off),
    )


def _effect(
    model: Rereading,
    place: HeadPlace,
    before: Float[Tensor, "place answer"],
    after: Float[Tensor, "place answer"],
    spoken: int,
) -> Effect:
    answer, other = int(before[spoken].argmax()), int(after[spoken].argmax())
    return Effect(
        place=place,
        amounts=bits_between(before, after),
        likely=float(after[spoken, answer].exp()),
        instead="" if other == answer else model.label(other),
    )


def bits_between(
    before: Float[Tensor, "place answer"], after: Float[Tensor, "place answer"]
) -> Float[Tensor, "place"]:
    """The divergence (Kullback-Leibler) of answers from what they were, of logarithms of shares."""
    found: Tensor = (before.exp() * (before - after)).sum(-1) / log(2)
    return found.clamp(min=0)


def _logarithms(made: Ending, rows: Sequence[int]) -> Float[Tensor, "place answer"]:
    assert made.logits is not None
    return made.logits[list(rows)].double().log_softmax(-1)


def _refuse_long(seconds: float, places: Sequence[HeadPlace]) -> None:
    if seconds > LONGEST:
        raise AttnvizError(
            f"switching off each of {len(places):,} heads in turn would take about "
            f"{seconds / MINUTE:.0f} minutes",
            f"rank the heads of one layer: --layer {places[-1][0]}",
            about="by",
        )
