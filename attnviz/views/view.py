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
from attnviz.views.grids.description import caption, describe, hides
from attnviz.views.grids.explored import Explored, with_a_query
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Drawable, Section, opened
from attnviz.wording.commands import Command
from attnviz.wording.keywords import of_function
from attnviz.wording.printable import is_printable, printable
from attnviz.wording.words import counted

if TYPE_CHECKING:  # a View has nothing of tensors in it
    from matplotlib.figure import Figure

    from attnviz.traces.trace import Provenance


VIEWS = {  # named, not imported: whoever looks at one thing needs not the others
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
RENDER = "attnviz.renderers:render"  # above, on the path: looked up when it is called
SAVE = "attnviz.renderers.saving:save"
FIGURE = "attnviz.renderers.picture.image:figure"
FRAMED = "attnviz.renderers.page.frame:framed"

READINGS = "readings"  # the group of what one token reads, which a terminal writes as sentences

# Not for people: what is written out of these is exact, and spelled as its format has it.
FOR_MACHINES = frozenset(("data", "provenance", "command", "explored", "slides", "following"))

# How a picture arranges panels: as large as they can be; two, and in the same row what tells
# them apart; in rows, each as long as the others; in a table of as many columns as it says, whose
# rows may as well be its columns; as a product, the last panel made of the others; or as a course,
# in a table whose rows are named beside it, and with the charts of other groups beside or below.
Kind = Literal["free", "pair", "rows", "table", "product", "course"]


@dataclass(frozen=True)
class Told:
    """What is said of a panel, in the colour of the line in a chart that tells more of it."""

    text: str
    share: str  # the end of it, a number
    series: int


@dataclass(frozen=True)
class Name:
    """What is written at a panel, or at a row of them."""

    text: str
    more: tuple[Told, ...] = ()


FINDINGS = "findings"  # the name of a group: what stands over its panels are whole sentences


@dataclass(frozen=True, eq=False)
class Group:
    """Panels that belong together; in a picture, what belongs to each of them stands below it."""

    name: str
    panels: tuple[Drawable, ...]
    below: tuple[Grid | None, ...] = ()  # None: nothing belongs to this one
    kind: Kind = "free"
    across: int = 1  # of a table, or a course: how many panels its rows have
    over: tuple[Name, ...] = ()  # of a course, or of findings: what stands over its panels,
    beside: tuple[Name, ...] = ()  # and beside its rows
    ringed: tuple[int, int, int] | None = None  # the panel, row and column of the cell that matters

    @property
    def all(self) -> tuple[Drawable, ...]:
        """Everything that is shown, one after another."""
        return (*self.panels, *(each for each in self.below if each))


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
        return tuple(each for group in self.groups for each in group.all)

    @property
    def hides(self) -> bool:
        """Whether anything in it is hidden by a mask."""
        return hides(self.panels)


@dataclass(frozen=True, eq=False)
class Shot:
    """A moment of a film, whose panels are those of all other moments, with other numbers."""

    groups: tuple[Group, ...]
    title: str  # over it


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What is shown where there is no room for all, and how to see the rest."""

    groups: tuple[Group, ...]
    rest: str

    @property
    def panels(self) -> tuple[Drawable, ...]:
        return Page(self.groups).panels


Column = np.ndarray | list[float] | list[float | None]  # numbers, or whether something is so


@dataclass(frozen=True, eq=False)
class Words:
    """Columns of words, which many lines may share."""

    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of a table that begin alike; there are millions, so that they come in columns."""

    start: tuple[str | int, ...]
    words: Words
    numbers: tuple[Column, ...]  # behind the words


@dataclass(frozen=True, eq=False)
class Data:
    """The numbers behind what is shown, made when they are wanted."""

    document: Callable[[], Mapping[str, Any]]  # everything, by name
    header: tuple[str, ...]
    lines: Callable[[], Iterator[Lines]]  # of a table, with what it is about in each line


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
    explored: Callable[[], Explored] | None = None  # what a page lets one look around in
    # The title and the steps of another token: a page has them for whoever follows it.
    following: Callable[[int], tuple[str, tuple[Section, ...]]] | None = None
    slides: Callable[[], Excerpt] | None = None  # what has one of its own; None: each panel
    data: Data | None = None
    provenance: Provenance | None = None
    command: Command | None = None  # the one that would make it, where there is one

    def __post_init__(self) -> None:
        seen: dict[int, tuple[Any, Any]] = {}
        for name in (each.name for each in fields(self) if each.name not in FOR_MACHINES):
            object.__setattr__(self, name, in_print(getattr(self, name), seen))

    @cached_property
    def heads(self) -> Explored | None:
        """The heads that can be looked at one by one, in letters that can be printed."""
        return None if self.explored is None else in_print(with_a_query(self.explored()))

    def followed(self, place: int) -> tuple[str, tuple[Section, ...]]:
        """The title and the steps of a token that is followed, in letters that can be printed."""
        assert self.following is not None, "there are no steps"
        title, sections = in_print(self.following(place))
        return self.headline if self.titled else title, sections

    @cached_property
    def alone(self) -> Excerpt:
        """What has a slide of its own."""
        every = Excerpt(self.picture.groups, "")
        return every if self.slides is None else in_print(self.slides())

    @property
    def sections(self) -> tuple[Section, ...]:
        """The steps, if it is a walk."""
        return tuple(each for each in self.screen.panels if isinstance(each, Section))

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say in the end, but for what the headline says."""
        said = self.headline.rstrip(".")
        return tuple(each for each in self.closing if each.rstrip(".") != said)

    @property
    def overhead(self) -> str:
        """The headline of a text, unless its only section says the same."""
        alone = [each.heading for each in self.sections] == [self.headline]
        return "" if alone else self.headline or self.title

    def of_section(self, section: Section) -> View:
        """One step alone, and still."""
        still = Group("steps", (replace(section, moments=()),))
        page = page_of([still], self.settings, self.screen.caveat)
        headline = self.headline if self.titled else section.finding or section.heading
        following = None if self.following is None else partial(self._step_of, section.number)
        return replace(self, screen=page, picture=page, headline=headline, following=following)

    def _step_of(self, number: str, place: int) -> tuple[str, tuple[Section, ...]]:
        """The same step of another token."""
        _, sections = self.followed(place)
        [step] = [each for each in sections if each.number == number]
        return step.finding or step.heading, (step,)

    def grids(self) -> tuple[Grid, ...]:
        """Every table that is shown, those of steps as well."""
        return tuple(each for each in opened(self.screen.panels) if isinstance(each, Grid))

    def figure(self, **looks: Any) -> Figure:
        """The picture as a Figure of matplotlib: `view.figure(theme="dark").savefig("a.png")`"""
        drawn: Callable[..., Figure] = pkgutil.resolve_name(FIGURE)
        return drawn(self, **looks)

    def to_dict(self) -> dict[str, Any]:
        """The numbers behind what is shown, as a `.json` has them."""
        found: dict[str, Any] = json.loads(self.render(".json"))
        return found

    def _repr_html_(self) -> str:
        """What a cell of a notebook shows: the page, in a frame of its own."""
        framed: Callable[[View], str] = pkgutil.resolve_name(FRAMED)
        return framed(self)

    def __repr__(self) -> str:
        return f"<View {self.headline!r}: {counted(len(self.screen.panels), 'panel')}>"

    def render(self, suffix: str, **looks: Any) -> bytes:
        """The bytes of a file of this kind: `view.render(".svg", theme="dark")`"""
        render: Callable[..., bytes] = pkgutil.resolve_name(RENDER)
        return render(self, suffix, **looks)

    def save(self, *paths: str | Path, **looks: Any) -> None:
        """Write files, all of them or none: `view.save("heatmap.png", "numbers.npz")`"""
        save: Callable[..., object] = pkgutil.resolve_name(SAVE)
        save(self, *paths, **looks)


def view(result: Any, choices: Mapping[str, Any], looks: Iterable[str] = ()) -> View:
    """What can be shown of a Trace, a Comparison, a Walk, an Example.

    `looks` are names of other choices, which whoever calls knows.
    """
    make: Callable[..., View] = pkgutil.resolve_name(VIEWS[type(result).__name__])
    return make(result, **of_function(make, choices, looks))


def page_of(groups: Sequence[Group], settings: str, caveat: str = "") -> Page:
    """A page with its small print and its description."""
    bare = Page(tuple(groups))
    told = caption(bare.panels, settings, caveat)
    return Page(bare.groups, told, describe(bare.panels), caveat)


Anything = TypeVar("Anything")
NUMBERS = frozenset((int, float, bool, NoneType))


def in_print(value: Anything, done: dict[int, tuple[Any, Any]] | None = None) -> Anything:
    """The same value, with every text in it printable, however deep it lies.

    It looks into dataclasses and sequences, so that no field can be forgotten. What many parts
    share, such as the labels of tokens, is looked at once; what is all right is not made anew.
    """
    done = {} if done is None else done
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
    if isinstance(value, Cells) or not (isinstance(value, (tuple, list)) or is_dataclass(value)):
        return value
    if id(value) not in done:  # beside what became of it, or its id might be another's soon
        made = _sequence(value, done) if isinstance(value, (tuple, list)) else _parts(value, done)
        done[id(value)] = value, made
    made_of_it: Anything = done[id(value)][1]
    return made_of_it


def _sequence(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    kinds = set(map(type, value))
    if kinds <= NUMBERS or (kinds == {str} and is_printable("".join(value))):
        return value
    made = type(value)([in_print(each, done) for each in value])
    same = all(one is other for one, other in zip(value, made, strict=True))
    return value if same else made


def _parts(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    parts = {each.name: getattr(value, each.name) for each in fields(value)}
    made = {name: in_print(each, done) for name, each in parts.items()}
    changed = {name: each for name, each in made.items() if each is not parts[name]}
    return replace(value, **changed) if changed else value
