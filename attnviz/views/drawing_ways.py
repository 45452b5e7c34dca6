"""DRAWING_WAYS: the ways to draw weights (--as heatmap, arcs, sentence …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnviz.errors import AttnvizError, opt, refuse_unknown_name
from attnviz.wording.rules import Rule, check_rules, rules_for


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


def _way(it: Any) -> DrawingWay:
    return DRAWING_WAYS[it.as_]


WAY = "{opt.as_:{it.as_}}"
# For what has `as_`, `query`, `predict`, and other parts than weights that are asked for.
DRAWING_RULES = (
    Rule("as_", lambda it: _way(it).needs_query and it.query is None,
        f"{WAY} draws what one token attends to, and no {{opt.query}} is given",
        "add {opt.query:1}, or use {opt.as_:heatmap} or arcs"),
    Rule("as_", lambda it: _way(it).weights_only and it.other_parts,
        f"{WAY} draws weights, but {{opt.show}} asks for {{it.other_parts}}",
        f"leave out {{opt.show}} or {WAY}"),
    Rule("as_", lambda it: _way(it).weights_only and it.predict,
        f"{WAY} draws weights, but {{opt.predict}} shows a table of answers",
        f"leave out {{opt.predict}} or {WAY}"),
)  # fmt: skip
RECEIVED_RULES = tuple(
    Rule(name, when,
        "{opt.show:received} colours the text by what all tokens together attend to, and {option} "
        "shows something else",
        "leave out {option}, or {opt.show:received}")
    for name, when in (
        ("as_", lambda it: it.as_ not in (None, "terminal")),
        ("query", lambda it: it.query is not None),
        ("predict", lambda it: it.predict),
    )
)  # fmt: skip

SEGMENT_RULES = rules_for(
    ("show", "part", "live", "log"),
    lambda it: it.segments is not None,
    "{opt.segments} sums up what is read of each segment, and {option} shows something else",
    "leave one of them out",
)


def refuse_impossible_way(it: Any) -> None:
    """Refuse an unknown drawing style, and one that cannot draw what is asked for."""
    refuse_unknown_name("way to draw", it.as_, DRAWING_WAYS)
    check_rules(it, DRAWING_RULES)


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
