"""The ways in which weights can be drawn: the one table behind --as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.errors import AttnvizError, unknown


@dataclass(frozen=True)
class Way:
    """One way to draw: what is to be seen, and what it can be drawn of."""

    about: str
    of_weights: bool = False  # alone: numbers of any sign would tell nothing
    of_a_query: bool = False  # alone: what one token reads


WAYS = {
    "heatmap": Way("cells in colour"),
    "arcs": Way("lines between words, in pictures", of_weights=True),
    "sentence": Way("words in colour, with --query", of_weights=True, of_a_query=True),
    "terminal": Way("what a terminal shows, as .svg"),
}


def chosen_way(name: str | None, query: object, show: Sequence[str] | None) -> str:
    """The way that weights are drawn in; a terminal draws as ever."""
    return usual(query, show) if name in (None, "terminal") else str(name)


def usual(query: object, show: Sequence[str] | None) -> str:
    """The way that is taken where nobody says which."""
    return "heatmap" if query is None or show is not None else "sentence"


def refuse_odd_way(
    name: str, show: Sequence[str] | None, query: object, *, predict: bool = False
) -> None:
    """Refuse a way to draw what it cannot be drawn of."""
    if name not in WAYS:
        raise unknown("way to draw", name, WAYS)
    if WAYS[name].of_a_query and query is None:
        raise AttnvizError(
            f"--as {name} draws what one token reads, and no --query says which",
            "try --query 1, or --as heatmap or arcs",
        )
    others = [each for each in show or () if each != "weights"]
    if WAYS[name].of_weights and others:
        raise AttnvizError(
            f"--as {name} draws weights, and --show asks for {', '.join(others)}",
            f"leave out --show, or --as {name}",
        )
    if WAYS[name].of_weights and predict:
        raise AttnvizError(
            f"--as {name} draws weights, and --predict is a table of answers",
            f"leave out --predict, or --as {name}",
        )
