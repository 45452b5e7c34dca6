"""A View: what a result says and shows; every renderer takes one."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from attnviz.cells import Cells
from attnviz.views.grids.description import caption, describe, has_masked_cells
from attnviz.views.grids.explorer import HeadExplorer, with_strongest_query
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Drawable, Section, open_panels
from attnviz.wording.commands import Command
from attnviz.wording.keywords import check_keywords
from attnviz.wording.printable import is_printable, printable_text
from attnviz.wording.words import counted

if TYPE_CHECKING:  # a View has nothing of tensors in it
    from matplotlib.figure import Figure

    from attnviz.traces.trace import Provenance


VIEW_FUNCTIONS = {  # named, not imported: whoever looks at one thing needs not the others
    "Trace": "attnviz.views.trace:view",
    "Comparison": "attnviz.views.comparison:view",
    "Learning": "attnviz.views.learning:view",
    "Walk": "attnviz.views.steps.walk:view",
    "Example": "attnviz.views.example:view",
    "Ranking": "attnviz.views.heads:view",
    "Sentences": "attnviz.views.inspection.sentences:view",
    "Inspection": "attnviz.views.inspection.view:view",
    "Learned": "attnviz.views.learned.view:view",
}
RENDER_FUNCTION = "attnviz.renderers:render"  # above, on the path: looked up when it is called
SAVE_FUNCTION = "attnviz.renderers.saving:save_view"
FIGURE_FUNCTION = "attnviz.renderers.picture.image:figure"
FRAME_FUNCTION = "attnviz.renderers.page.frame:framed_page"

READINGS_GROUP = (
    "readings"  # the group of what one token reads, which a terminal writes as sentences
)

# Not for people: what is written out of these is exact, and spelled as its format has it.
MACHINE_FIELDS = frozenset(("data", "provenance", "command", "explored", "slides", "following"))

# How a picture arranges panels: as large as they can be; two, and in the same row what tells
# them apart; in rows, each as long as the others; in a table of as many columns as it says, whose
# rows may as well be its columns; as a product, the last panel made of the others; or as a course,
# in a table whose rows are named beside it, and with the charts of other groups beside or below.
PanelArrangement = Literal["free", "pair", "rows", "table", "product", "course"]


@dataclass(frozen=True)
class PanelRemark:
    """What is said of a panel, in the colour of the line in a chart that tells more of it."""

    text: str
    share: str  # the end of it, a number
    series: int


@dataclass(frozen=True)
class PanelTitle:
    """What is written at a panel, or at a row of them."""

    text: str
    remarks: tuple[PanelRemark, ...] = ()


FINDINGS_GROUP = "findings"  # the name of a group: what stands over its panels are whole sentences


@dataclass(frozen=True, eq=False)
class Group:
    """Panels that belong together; in a picture, what belongs to each of them stands below it."""

    name: str
    panels: tuple[Drawable, ...]
    below: tuple[Grid | None, ...] = ()  # None: nothing belongs to this one
    kind: PanelArrangement = "free"
    column_count: int = 1  # of a table, or a course: how many panels its rows have
    panel_titles: tuple[
        PanelTitle, ...
    ] = ()  # of a course, or of findings: what stands over its panels,
    row_titles: tuple[PanelTitle, ...] = ()  # and beside its rows
    ringed_cell: tuple[int, int, int] | None = (
        None  # the panel, row and column of the cell that matters
    )

    @property
    def all_panels(self) -> tuple[Drawable, ...]:
        """Everything that is shown, one after another."""
        return (*self.panels, *(panel for panel in self.below if panel))


@dataclass(frozen=True, eq=False)
class Page:
    """Groups of panels that are shown together, and what is said about all of them."""

    groups: tuple[Group, ...]
    caption: str = ""  # small print: how to read it, and its settings
    description: str = ""  # for those who do not see it
    caveat: str = ""  # what of its numbers is random, which the caption says, too

    @property
    def panels(self) -> tuple[Drawable, ...]:
        """Everything that is shown, one after another."""
        return tuple(panel for group in self.groups for panel in group.all_panels)

    @property
    def has_masked_cells(self) -> bool:
        """Whether anything in it is hidden by a mask."""
        return has_masked_cells(self.panels)


@dataclass(frozen=True, eq=False)
class Shot:
    """A moment of a film, whose panels are those of all other moments, with other numbers."""

    groups: tuple[Group, ...]
    title: str  # over it


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What is shown where there is no room for all, and how to see the rest."""

    groups: tuple[Group, ...]
    hint: str

    @property
    def panels(self) -> tuple[Drawable, ...]:
        return Page(self.groups).panels


NumberColumn = np.ndarray | list[float] | list[float | None]  # numbers, or whether something is so


@dataclass(frozen=True, eq=False)
class WordColumns:
    """Columns of words, which many lines may share."""

    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class TableLines:
    """Lines of a table that begin alike; there are millions, so that they come in columns."""

    start: tuple[str | int, ...]
    words: WordColumns
    numbers: tuple[NumberColumn, ...]  # behind the words


@dataclass(frozen=True, eq=False)
class TableData:
    """The numbers behind what is shown, made when they are wanted."""

    document: Callable[[], Mapping[str, Any]]  # everything, by name
    header: tuple[str, ...]
    lines: Callable[[], Iterator[TableLines]]  # of a table, with what it is about in each line


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class View:
    """A result as it is told: in words, on a terminal, in a picture, as data.

    Whatever people are to see of it can be printed: no View has a letter that a terminal obeys.

    >>> from attnviz import trace
    >>> view = trace("I am learning this", variant="causal").view(show=["weights"])
    >>> view.headline, view.render(".svg", theme="dark")[:5]
    ('Each token attends only to itself and earlier tokens', b'<?xml')
    """

    title: str = ""  # what was done
    headline: str = ""  # what there is to learn from it: the title of whatever shows it
    titled: bool = False  # whether the headline is somebody's own
    settings: str = ""  # one line of what the numbers depend on
    screen: Page  # everything, for terminals and texts
    picture: Page  # the choice for a picture
    excerpt: Excerpt | None = None  # the choice for a screen that has no room for all
    film: tuple[Shot, ...] = ()  # what an animation shows, where that is not a walk
    sentences: tuple[Grid, ...] = ()  # on a terminal, in place of tables
    closing: tuple[str, ...] = ()  # what there is to say in the end
    as_screen: bool = False  # a picture (.svg) shows what a terminal does
    explored: Callable[[], HeadExplorer] | None = None  # what a page lets one look around in
    # The title and the steps of another token: a page has them for whoever follows it.
    following: Callable[[int], tuple[str, tuple[Section, ...]]] | None = None
    slides: Callable[[], Excerpt] | None = None  # what has one of its own; None: each panel
    data: TableData | None = None
    provenance: Provenance | None = None
    command: Command | None = None  # the one that would make it, where there is one

    def __post_init__(self) -> None:
        printed: dict[int, tuple[Any, Any]] = {}
        for name in (field.name for field in fields(self) if field.name not in MACHINE_FIELDS):
            object.__setattr__(self, name, printable_value(getattr(self, name), printed))

    @cached_property
    def heads(self) -> HeadExplorer | None:
        """The heads that can be looked at one by one, in letters that can be printed."""
        return (
            None
            if self.explored is None
            else printable_value(with_strongest_query(self.explored()))
        )

    def followed(self, position: int) -> tuple[str, tuple[Section, ...]]:
        """The title and the steps of a token that is followed, in letters that can be printed."""
        assert self.following is not None, "there are no steps"
        title, sections = printable_value(self.following(position))
        return self.headline if self.titled else title, sections

    @cached_property
    def alone(self) -> Excerpt:
        """What has a slide of its own."""
        all_groups = Excerpt(self.picture.groups, "")
        return all_groups if self.slides is None else printable_value(self.slides())

    @property
    def sections(self) -> tuple[Section, ...]:
        """The steps, if it is a walk."""
        return tuple(panel for panel in self.screen.panels if isinstance(panel, Section))

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say in the end, but for what the headline says."""
        headline = self.headline.rstrip(".")
        return tuple(sentence for sentence in self.closing if sentence.rstrip(".") != headline)

    @property
    def overhead(self) -> str:
        """The headline of a text, unless its only section says the same."""
        is_repeated = [section.heading for section in self.sections] == [self.headline]
        return "" if is_repeated else self.headline or self.title

    def of_section(self, section: Section) -> View:
        """One step alone, and still."""
        still_group = Group("steps", (replace(section, moments=()),))
        page = build_page([still_group], self.settings, self.screen.caveat)
        headline = self.headline if self.titled else section.finding or section.heading
        following = None if self.following is None else partial(self._step_of, section.number)
        return replace(self, screen=page, picture=page, headline=headline, following=following)

    def _step_of(self, number: str, position: int) -> tuple[str, tuple[Section, ...]]:
        """The same step of another token."""
        _, sections = self.followed(position)
        [step] = [section for section in sections if section.number == number]
        return step.finding or step.heading, (step,)

    def grids(self) -> tuple[Grid, ...]:
        """Every table that is shown, those of steps as well."""
        return tuple(panel for panel in open_panels(self.screen.panels) if isinstance(panel, Grid))

    def figure(self, **options: Any) -> Figure:
        """The picture as a Figure of matplotlib: `view.figure(theme="dark").savefig("a.png")`"""
        draw_figure: Callable[..., Figure] = pkgutil.resolve_name(FIGURE_FUNCTION)
        return draw_figure(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """The numbers behind what is shown, as a `.json` has them."""
        document: dict[str, Any] = json.loads(self.render(".json"))
        return document

    def _repr_html_(self) -> str:
        """What a cell of a notebook shows: the page, in a frame of its own."""
        frame_page: Callable[[View], str] = pkgutil.resolve_name(FRAME_FUNCTION)
        return frame_page(self)

    def __repr__(self) -> str:
        return f"<View {self.headline!r}: {counted(len(self.screen.panels), 'panel')}>"

    def render(self, suffix: str, **options: Any) -> bytes:
        """The bytes of a file of this kind: `view.render(".svg", theme="dark")`"""
        render: Callable[..., bytes] = pkgutil.resolve_name(RENDER_FUNCTION)
        return render(self, suffix, **options)

    def save(self, *paths: str | Path, **options: Any) -> None:
        """Write files, all of them or none: `view.save("heatmap.png", "numbers.npz")`"""
        save: Callable[..., object] = pkgutil.resolve_name(SAVE_FUNCTION)
        save(self, *paths, **options)


def view(result: Any, choices: Mapping[str, Any], other_names: Iterable[str] = ()) -> View:
    """What can be shown of a Trace, a Comparison, a Walk, an Example.

    `other_names` are names of other choices, which whoever calls knows.
    """
    make: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTIONS[type(result).__name__])
    return make(result, **check_keywords(make, choices, other_names))


def build_page(groups: Sequence[Group], settings: str, caveat: str = "") -> Page:
    """A page with its small print and its description."""
    bare = Page(tuple(groups))
    page_caption = caption(bare.panels, settings, caveat)
    return Page(bare.groups, page_caption, describe(bare.panels), caveat)


AnyValue = TypeVar("AnyValue")
PLAIN_TYPES = frozenset((int, float, bool, NoneType))


def printable_value(value: AnyValue, printed: dict[int, tuple[Any, Any]] | None = None) -> AnyValue:
    """The same value, with every text in it printable, however deep it lies.

    It looks into dataclasses and sequences, so that no field can be forgotten. What many parts
    share, such as the labels of tokens, is looked at once; what is all right is not made anew.
    """
    printed = {} if printed is None else printed
    if isinstance(value, str):
        return printable_text(value)  # type: ignore[return-value]
    if isinstance(value, Cells) or not (isinstance(value, (tuple, list)) or is_dataclass(value)):
        return value
    if id(value) not in printed:  # beside what became of it, or its id might be another's soon
        printable_copy = (
            _printable_sequence(value, printed)
            if isinstance(value, (tuple, list))
            else _printable_dataclass(value, printed)
        )
        printed[id(value)] = value, printable_copy
    result: AnyValue = printed[id(value)][1]
    return result


def _printable_sequence(value: Any, printed: dict[int, tuple[Any, Any]]) -> Any:
    kinds = set(map(type, value))
    if kinds <= PLAIN_TYPES or (kinds == {str} and is_printable("".join(value))):
        return value
    printable_copy = type(value)([printable_value(item, printed) for item in value])
    is_unchanged = all(
        original is copy for original, copy in zip(value, printable_copy, strict=True)
    )
    return value if is_unchanged else printable_copy


def _printable_dataclass(value: Any, printed: dict[int, tuple[Any, Any]]) -> Any:
    parts = {part.name: getattr(value, part.name) for part in fields(value)}
    printable_parts = {name: printable_value(part, printed) for name, part in parts.items()}
    changed = {name: part for name, part in printable_parts.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value
