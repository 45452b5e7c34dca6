"""The ways in which weights can be drawn: the one table behind --as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.errors import AttnvizError, unknown


@dataclass(frozen=True)
class Way:
    """One way to draw: what it looks like, and what it can draw."""

    about: str
    of_weights: bool = False  # only: negative numbers cannot be drawn
    of_a_query: bool = False  # only: what one token reads


WAYS = {
    "heatmap": Way("cells in colour"),
    "arcs": Way("lines between words, in pictures", of_weights=True),
    "sentence": Way("words in colour, with --query", of_weights=True, of_a_query=True),
    "terminal": Way("what a terminal shows, as .svg"),
}


def chosen_way(name: str | None, query: object, show: Sequence[str] | None) -> str:
    """How weights are drawn; `terminal` means the usual way."""
    return usual(query, show) if name in (None, "terminal") else str(name)


def usual(query: object, show: Sequence[str] | None) -> str:
    """The way that is used where --as is not given."""
    return "heatmap" if query is None or show is not None else "sentence"


def refuse_odd_way(
    name: str, show: Sequence[str] | None, query: object, *, predict: bool = False
) -> None:
    """Refuse a way of drawing that cannot draw what is to be shown."""
    if name not in WAYS:
        raise unknown("way to draw", name, WAYS)
    if WAYS[name].of_a_query and query is None:
        raise AttnvizError(
            f"--as {name} draws what one token attends to, and no --query is given",
            "add --query 1, or use --as heatmap or arcs",
        )
    others = [each for each in show or () if each != "weights"]
    if WAYS[name].of_weights and others:
        raise AttnvizError(
            f"--as {name} draws weights, but --show asks for {', '.join(others)}",
            f"leave out --show or --as {name}",
        )
    if WAYS[name].of_weights and predict:
        raise AttnvizError(
            f"--as {name} draws weights, but --predict shows a table of answers",
            f"leave out --predict or --as {name}",
        )
