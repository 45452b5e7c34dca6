"""DRAWING_WAYS: the ways to draw weights (--as heatmap, arcs, sentence …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.errors import AttnvizError, opt, refuse_unknown_name


@dataclass(frozen=True)
class DrawingWay:
    """A drawing style for weights (--as), and what it can draw."""

    about: str
    weights_only: bool = False  # negative numbers cannot be drawn
    needs_query: bool = False  # only the attention of one token can be drawn
    most_tokens: int | None = None  # of a longer text nobody could read what is drawn


DRAWING_WAYS = {
    "heatmap": DrawingWay("cells in colour"),
    "arcs": DrawingWay("lines between words, in pictures", weights_only=True, most_tokens=1000),
    "sentence": DrawingWay(
        "words in colour, with --query", weights_only=True, needs_query=True, most_tokens=2000
    ),
    "terminal": DrawingWay("what a terminal shows, as .svg"),
}


def choose_way(name: str | None, query: object, show: Sequence[str] | None) -> str:
    """Return the drawing style `name`, or the default one where it is None or `terminal`; the name
    is not checked.
    """
    if name is not None and name != "terminal":
        return name
    return "heatmap" if query is None or show is not None else "sentence"


def refuse_impossible_way(
    name: str, show: Sequence[str] | None, query: object, *, predict: bool = False
) -> None:
    """Refuse an unknown drawing style, and one that cannot draw what is asked for.

    `sentence` needs a query; `arcs` and `sentence` draw neither parts other than weights nor the
    answers of `predict`.
    """
    refuse_unknown_name("way to draw", name, DRAWING_WAYS)
    if DRAWING_WAYS[name].needs_query and query is None:
        raise AttnvizError(
            f"{opt.as_:{name}} draws what one token attends to, and no {opt.query} is given",
            f"add {opt.query:1}, or use {opt.as_:heatmap} or arcs",
        )
    other_parts = [part for part in show or () if part != "weights"]
    if DRAWING_WAYS[name].weights_only and other_parts:
        raise AttnvizError(
            f"{opt.as_:{name}} draws weights, but {opt.show} asks for {', '.join(other_parts)}",
            f"leave out {opt.show} or {opt.as_:{name}}",
        )
    if DRAWING_WAYS[name].weights_only and predict:
        raise AttnvizError(
            f"{opt.as_:{name}} draws weights, but {opt.predict} shows a table of answers",
            f"leave out {opt.predict} or {opt.as_:{name}}",
        )


def refuse_beside_received(as_: str | None, query: object, *, predict: bool) -> None:
    """Refuse what `--show received` cannot be combined with: it is of all queries together."""
    others = {"as_": as_ not in (None, "terminal"), "query": query is not None, "predict": predict}
    if name := next((name for name, is_given in others.items() if is_given), None):
        raise AttnvizError(
            f"{opt.show:received} colours the text by what all tokens together attend to, and "
            f"{opt[name]} shows something else",
            f"leave out {opt[name]}, or {opt.show:received}",
            about="show",
        )


def refuse_long_drawing(name: str | None, tokens: int) -> None:
    """Refuse a drawing style that writes each token of a text, for one with too many tokens."""
    most = None if name is None or name not in DRAWING_WAYS else DRAWING_WAYS[name].most_tokens
    if most is not None and tokens > most:
        raise AttnvizError(
            f"{opt.as_:{name}} draws each token of a text, and {tokens:,} are too many to read (at "
            f"most {most:,})",
            f"{opt.query:1} lists what a token attends to most, {opt.show:received} colours what "
            "is read most; or give a shorter text",
            about="as",
        )


def refuse_logarithm(*, log: bool) -> None:
    """Refuse logarithmic colours of anything but the map of a long text."""
    if log:
        raise AttnvizError(
            f"{opt.log} colours the map of a long text, and this shows something else",
            f"leave {opt.log} out, or add {opt.stream}",
            python_hint="leave 'log' out; the map of a long text has such colours",
            about="log",
        )
