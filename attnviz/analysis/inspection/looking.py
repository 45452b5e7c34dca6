"""What a person wants to see of the heads of a model, and whether that makes sense; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnviz.errors import AttnvizError, unknown
from attnviz.wording.commands import option

Weigh = Literal["weight", "norm", "gradient"]
Merge = Literal["mean", "max", "rollout"]
By = Literal["pattern", "effect"]
Rank = Literal["lift", "weight"]
Draw = Literal["heatmap", "arcs", "sentence"]
WEIGH: dict[Weigh, str] = {
    "weight": "as it is",
    "norm": "times the length of the vector it passes on",
    "gradient": "times the gradient of a prediction",
}
MERGE: dict[Merge, str] = {
    "mean": "the mean of the heads",
    "max": "the largest weight of any head",
    "rollout": "through all layers, with their residual connections",
}
BY: dict[By, str] = {"pattern": "what heads do", "effect": "what changes when each is switched off"}
RANK: dict[Rank, str] = {
    "lift": "weight minus the mean weight that other tokens give the same key",
    "weight": "weight alone",
}
DRAW: dict[Draw, str] = {
    "heatmap": "cells in colour",
    "arcs": "lines between words, in pictures",
    "sentence": "words in colour, with --query",
}


@dataclass(frozen=True, kw_only=True)
class Looking:
    """The choices behind one look; every field has the default of the command line."""

    layer: int | None = None
    head: int | None = None
    query: str | None = None
    source: str | None = None  # --from: the token that reads,
    to: str | None = None  # and the one that is read
    merge: Merge | None = None
    hide_special: bool = False
    hide_first: bool = False
    renormalise: bool = False
    words: bool = False
    log: bool = False
    weigh: Weigh = "weight"
    toward: str | None = None  # the answer whose gradient is taken
    by: By = "pattern"  # what heads are ranked by
    rank: Rank = "lift"  # what heads are ranked by for one link (--from, --to)
    predict: bool = False
    as_: Draw | None = None  # how weights are drawn; None: as is usual

    def __post_init__(self) -> None:
        for name, known in TABLES.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise unknown(option(name), value, known, about=name)
        for name in ("layer", "head"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise AttnvizError(
                    f"{option(name)} is {number}, but counting starts at 0",
                    f"try {option(name)} 0",
                    about=name,
                )
        self._refuse_half()

    @property
    def layers(self) -> tuple[int, ...] | None:
        """Those that have to be kept of a model; None: every one."""
        return None if self.layer is None else (self.layer,)

    @property
    def hides(self) -> bool:
        """Whether tokens are left out."""
        return self.hide_special or self.hide_first

    def _refuse_half(self) -> None:
        """Some choices mean nothing without another."""
        needs = {
            "to": ("source", "--to names the token that is attended to, and needs --from"),
            "source": ("to", "--from names the token that attends, and needs --to"),
        }
        for name, (other, why) in needs.items():
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise AttnvizError(why, "give both: --from it --to animal", about=name)
        if self.rank != Looking.rank and self.source is None:
            raise AttnvizError(
                f"--rank {self.rank} sorts heads by one link, and no link is given",
                "name the two tokens of the link: --from it --to animal",
                about="rank",
            )
        if self.renormalise and not self.hides:
            raise AttnvizError(
                "--renormalise rescales what is left when tokens are hidden, and none are hidden",
                "give --hide-special or --hide-first",
                about="renormalise",
            )
        self._refuse_odd_rollout()
        if self.query is not None and self.source is not None:
            raise AttnvizError(
                "--query shows everything that one token attends to, but --from ranks heads by "
                "one link",
                "leave one of them out",
                about="query",
            )
        self._refuse_odd_ranking()
        self._refuse_odd_drawing()
        if self.toward is not None and self.weigh != "gradient":
            raise AttnvizError(
                f"--toward chooses the answer for --weigh gradient, but --weigh is {self.weigh}",
                "give --weigh gradient",
                about="toward",
            )

    def _refuse_odd_ranking(self) -> None:
        """Heads by what is lost without them: nothing is asked of tokens, or of weights."""
        others = ("query", "source", "merge", "words", "log", "hide_special", "hide_first", "as_")
        for name in ("weigh", *others) if self.by == "effect" else ():
            if getattr(self, name) != getattr(Looking, name):
                typed = "--from" if name == "source" else option(name)
                raise AttnvizError(
                    f"--by effect ranks heads by switching them off, but {typed} is about weights",
                    f"leave {typed} out, or --by effect",
                    about=name,
                )

    def _refuse_odd_drawing(self) -> None:
        """Weights can be drawn as lines, or as a sentence, where those would show them."""
        way = f"--as {self.as_}"
        if self.as_ is not None and self.source is not None:
            raise AttnvizError(
                f"--from ranks heads by one link, but {way} draws all weights of a head",
                "leave out --as, or give --layer and --head in place of --from and --to",
                about="as_",
            )
        if self.as_ == "sentence" and self.query is None:
            raise AttnvizError(
                f"{way} draws what one token attends to, and no --query is given",
                "try --query 1, or --as arcs",
                about="as_",
            )
        if self.as_ == "heatmap" and self.query is not None:
            raise AttnvizError(
                f"--query draws one sentence, but {way} draws a table of all tokens",
                "leave out --as, or give --as arcs",
                about="as_",
            )
        if self.as_ == "arcs" and (self.weigh == "gradient" or self.predict):
            other = "--predict is a table of answers"
            if self.weigh == "gradient":
                other = "--weigh gradient makes some numbers negative"
            raise AttnvizError(
                f"{way} draws weights, but {other}",
                f"leave out {other.partition(' is ')[0].partition(' makes ')[0]}, or {way}",
                about="as_",
            )

    def _refuse_odd_rollout(self) -> None:
        """Rollout is about weights, and all of them."""
        if self.merge != "rollout":
            return
        for name in ("layer", "head"):
            if getattr(self, name) is not None:
                raise AttnvizError(
                    f"--merge rollout uses all layers and heads, but {option(name)} picks only "
                    "some",
                    f"leave {option(name)} out, or give --merge mean",
                    about="merge",
                )
        if self.weigh != "weight":
            raise AttnvizError(
                "--merge rollout multiplies rows that sum to 1, but those of --weigh "
                f"{self.weigh} do not",
                "leave --weigh out, or give --merge mean",
                about="merge",
            )


TABLES: dict[str, Mapping[Any, str]] = {
    "weigh": WEIGH,
    "merge": MERGE,
    "by": BY,
    "rank": RANK,
    "as_": DRAW,
}
NAMES: tuple[str, ...] = tuple(Looking.__dataclass_fields__)
MERGES: tuple[Merge, ...] = get_args(Merge)
