"""What is chosen to be shown of a Trace, and what all its Views share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.parts import parts_to_show
from attnviz.traces.trace import Trace
from attnviz.views.headline import attention_headline
from attnviz.views.notes import random_numbers_caveat
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, build_page

PICTURE_PARTS = ("weights",)


@dataclass(frozen=True)
class TraceChoices:
    """The options of `attnviz run` that say what of a Trace is shown; None: not given."""

    show: Sequence[str] | None = None
    query: int | str | None = None
    as_: str | None = None
    predict: bool = False
    layer: int | str | None = None
    head: int | str | None = None
    log: bool = False
    part: str | None = None
    live: bool = False
    segments: str | Mapping[str, str | range] | None = None

    @property
    def parts(self) -> tuple[str, ...] | None:
        """The names of the parts to show; refuses unknown ones."""
        return None if self.show is None else parts_to_show(self.show)

    @property
    def other_parts(self) -> str:
        """The parts to show beside weights, in words."""
        return ", ".join(part for part in self.parts or () if part != "weights")

    @property
    def show_text(self) -> str | None:
        return ",".join(self.show) if self.show else None

    @property
    def has_head(self) -> bool:
        return self.layer is not None or self.head is not None


def shared_fields(
    trace: Trace,
    screen: Sequence[Group],
    picture: Sequence[Group],
    options: Mapping[str, object] | None,
    *,
    screen_parts: Sequence[str] = PICTURE_PARTS,
    picture_parts: Sequence[str] = PICTURE_PARTS,
) -> dict[str, Any]:
    """Return the fields that all Views of a Trace have; `options` are those of the command that
    makes the View, None if there is none, and parts those of which random numbers are a caveat.
    """
    settings = settings_line(trace)
    source = None if options is None else build_source(trace)
    return {
        "title": attention_headline(trace),
        "settings": settings,
        "screen": build_page(screen, settings, random_numbers_caveat(trace, screen_parts)),
        "picture": build_page(picture, settings, random_numbers_caveat(trace, picture_parts)),
        "provenance": trace.provenance,
        "command": source and source_command("run", source, **(options or {})),
    }


def is_streamed(trace: Trace) -> bool:
    """Return whether all weights of a Trace are computed only where they are shown."""
    return all(each.long_weights is not None for each in trace.attention_layers)


def is_pooled(trace: Trace) -> bool:
    """Return whether a text has so many tokens that maps show blocks of them."""
    sizes = ((each.long_weights, each.size) for each in trace.attention_layers)
    return any(weights is not None and max(size) > weights.resolution for weights, size in sizes)
