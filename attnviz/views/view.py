"""What a command has to deliver, whichever command it was: what `output` prints and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.traces.trace import Provenance
    from attnviz.views.grids.grids import Drawable, Grid, Section

Export = Callable[[], Iterator[bytes]]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Made by a command; what it shows is drawn when it is wanted."""

    title: str
    picture_title: str = ""  # what there is to learn from it; else the title
    settings: str  # one line of what the numbers hang on
    screen: Callable[[], Sequence[Drawable]]
    picture: Callable[[], Sequence[Drawable]]
    exports: dict[str, Export]  # suffix -> the chunks of a file
    provenance: Provenance | None
    caption: Callable[[Sequence[Drawable]], str]
    readings: Sequence[Grid] = ()  # sentences, in place of tables
    closing: list[str] = field(default_factory=list)  # lines after the tables
    columns: int | None = None  # panels in a row of a picture
    steps: Sequence[Section] = ()  # of which each may have a file of its own
    seconds: float = 2.5  # that an animation shows each step
