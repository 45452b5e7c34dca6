"""View: what a result says and shows, as every renderer receives it."""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from operator import is_
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from attnviz.cells import Cells
from attnviz.errors import AttnvizError
from attnviz.views.grids.description import caption, describe
from attnviz.views.grids.exercise import ExerciseSheet
from attnviz.views.grids.explorer import HeadExplorer, with_strongest_query
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.live_model import LiveModel
from attnviz.views.grids.points import PointCloud
from attnviz.views.grids.section import Drawable, Section, open_panels
from attnviz.wings import WINGS
from attnviz.wording.commands import Command
from attnviz.wording.keywords import LookKeywords, built_by, check_keywords, with_checked_arguments
from attnviz.wording.numbers import number_or_none
from attnviz.wording.printable import exact_json, is_printable, printable_text
from attnviz.wording.words import and_list, counted, with_summary

if TYPE_CHECKING:  # a View holds no tensors, and imports no torch
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from attnviz.traces.trace import Provenance


QUANTISATION_COLUMN = "stored as"  # the last column, where a model stores weights in few bits
VIEW_FUNCTIONS = {  # imported only when they are needed
    "Trace": "attnviz.views.trace:view",
    "Comparison": "attnviz.views.comparison:view",
    "Learning": "attnviz.views.learning_comparison:view",
    "Walk": "attnviz.views.steps.walk:view",
    "Ranking": "attnviz.views.head_ranking:view",
    "TraceComparison": "attnviz.views.inspection.two_sentences:view",
    "Inspection": "attnviz.views.inspection.view:view",
    "Learned": "attnviz.views.learned.view:view",
    **{name: path for wing in WINGS.values() for name, path in wing.views.items()},
}

RENDER_FUNCTION = "attnviz.renderers:render"  # renderers import views, so views look them up
SCREEN_FUNCTION = "attnviz.renderers.terminal.lines:screen_text"
SAVE_FUNCTION = "attnviz.renderers.saving:save_view"
FIGURE_FUNCTION = "attnviz.renderers.picture.still_pictures:figure"
NOTEBOOK_BUNDLE_FUNCTION = "attnviz.renderers.page.notebook_output:notebook_bundle"
NOTEBOOK_HTML_FUNCTION = "attnviz.renderers.page.notebook_output:notebook_html"

TOKEN_NUMBER_COLUMNS = ("query number", "key number")  # of tables; they count from 1
HEAD_COLUMNS = ("layer", "head", "name")  # of tables: two numbers, and L0H1; of a mean its name
HEAD_NAME = re.compile(r"L(\d+)(?: \w+ )?H(\d+)")
READINGS_GROUP = "readings"  # the group on one token, which a terminal writes as sentences
FINDINGS_GROUP = "findings"  # a group whose panel titles are whole sentences
PLAIN_TYPES = frozenset((int, float, bool, NoneType))

# Fields for machines: they stay exact, and each format escapes them in its own way.
MACHINE_FIELDS = frozenset(
    (
        *("data", "provenance", "command", "head_explorer", "points", "slides", "film"),
        *("query_steps", "live"),
    )
)

# How a picture arranges panels: "free", as large as possible; "pair", two panels and their
# difference in one row; "rows" of equal length; "table" with `column_count` columns, or transposed;
# "product", an equation whose last panel is the result; "course", a table with titles beside its
# rows, and with the charts of other groups beside or below it.


@dataclass(frozen=True)
class PanelRemark:
    """A remark in a panel's title, such as `subject .99`, in the colour of the chart's line for the
    same measure.
    """

    text: str
    share: str  # the number at the end of the text
    series: int  # the index of the line in the chart, which gives the colour


@dataclass(frozen=True)
class PanelTitle:
    """The title of a panel or of a row of panels."""

    text: str
    remarks: tuple[PanelRemark, ...] = ()


@with_summary
@dataclass(frozen=True, eq=False)
class Group:
    """Panels that belong together, and what a picture draws below each of them."""

    name: str
    panels: tuple[Drawable, ...]
    below: tuple[Grid | None, ...] = ()  # drawn below each panel; None: nothing is
    kind: Literal["free", "pair", "rows", "table", "product", "course"] = "free"
    column_count: int = 1  # panels in a row of a "table" or "course"
    panel_titles: tuple[PanelTitle, ...] = ()  # above the columns of a "course", or the findings
    row_titles: tuple[PanelTitle, ...] = ()  # beside the rows of a "course"
    ringed_cell: tuple[int, int, int] | None = None  # panel, row and column of a cell to ring

    @property
    def all_panels(self) -> tuple[Drawable, ...]:
        return (*self.panels, *(panel for panel in self.below if panel))

    def with_panels(self, change: Callable[[Any], Any]) -> Group:
        """Return the group with `change(panel)` in place of each panel, then of those below."""
        panels = tuple([change(panel) for panel in self.panels])
        below = tuple([each and change(each) for each in self.below])
        return replace(self, panels=panels, below=below)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Panels in groups."""

    groups: tuple[Group, ...]

    @property
    def panels(self) -> tuple[Drawable, ...]:
        """All panels of its groups, one group after another."""
        return tuple(panel for group in self.groups for panel in group.all_panels)


@with_summary
@dataclass(frozen=True, eq=False)
class Page(Grouped):
    """Groups of panels that are shown together, with a caption and a description."""

    caption: str = ""  # small print: how to read it, and its settings
    description: str = ""  # for people who cannot see it
    caveat: str = ""  # what is random in its numbers; also part of the caption


@dataclass(frozen=True, eq=False)
class Shot(Grouped):
    """A frame of a film: the panels are those of every other frame, with other numbers."""

    title: str


@with_summary
@dataclass(frozen=True, eq=False)
class Excerpt(Grouped):
    """Some of a page's groups, and a hint on how to see those left out."""

    hint: str


NumberColumn = np.ndarray | list[float] | list[float | None]  # numbers or booleans


@dataclass(frozen=True, eq=False)
class WordColumns:
    """Columns of words that stand beside the numbers in several TableLines."""

    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class TableLines:
    """Consecutive lines of a table that begin with the same cells (`start`), stored by column
    because there may be millions.
    """

    start: tuple[str | int, ...]
    words: WordColumns
    numbers: tuple[NumberColumn, ...]  # the columns after the words


def head_cells(name: str) -> tuple[str, ...]:
    """Return the cells of `HEAD_COLUMNS` for a head, or for a mean of heads, which has no numbers.

    >>> head_cells("L2H11"), head_cells("L0 cross H1"), head_cells("mean of 72 heads")
    (('2', '11', 'L2H11'), ('0', '1', 'L0 cross H1'), ('', '', 'mean of 72 heads'))
    """
    match = HEAD_NAME.fullmatch(name)
    return (*(match.groups() if match else ("", "")), name)


def named_head_document(name: str) -> dict[str, int | str | None]:
    """Return the same of a head for a JSON document: numbers, or null for a mean."""
    layer, head, _ = head_cells(name)
    numbers = (int(number) if number else None for number in (layer, head))
    return dict(zip(HEAD_COLUMNS, (*numbers, name), strict=True))


def head_columns(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the columns of `HEAD_COLUMNS` for these heads."""
    return tuple(zip(*map(head_cells, names), strict=True))


def head_table(
    kind: str,
    document: Callable[[], Mapping[str, Any]],
    heads: Sequence[Any],
    fields: Mapping[str, str],
) -> TableData:
    """Return the data of a document, with a table of a line for each head: its name, and in each
    further column of `fields` the number that a field of the head has.
    """

    def lines() -> Iterator[TableLines]:
        columns = [
            [number_or_none(getattr(head, name)) for head in heads] for name in fields.values()
        ]
        yield TableLines((), WordColumns(head_columns(head.name for head in heads)), tuple(columns))

    return TableData(kind, document, (*HEAD_COLUMNS, *fields), lines)


@with_summary
@dataclass(frozen=True, eq=False)
class TableData:
    """The numbers behind a view, as JSON data and as one table, computed when they are needed."""

    kind: str  # of the document, one of those in documents.toml
    document: Callable[[], Mapping[str, Any]]  # all data by name
    header: tuple[str, ...]
    lines: Callable[[], Iterator[TableLines]]  # the data as one table


@built_by('attnviz.trace("…").view()')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class View:
    """What a result says and shows: in words, on a terminal, in pictures, as data.

    Everything that people see of it is printable: no text of a View can control a terminal.

    >>> from attnviz import trace
    >>> view = trace("I am learning this", variant="causal").view(show=["weights"])
    >>> view.headline, view.render(".svg", theme="dark")[:5]
    ('Each token attends only to itself and earlier tokens', b'<?xml')
    """

    title: str = ""  # what was done
    headline: str = ""  # what the result shows: the title of pictures, pages and decks
    has_chosen_title: bool = False  # whether the user chose the headline
    settings: str = ""  # one line on what the numbers depend on
    screen: Page  # everything, for terminals and texts
    picture: Page  # the panels of a picture
    excerpt: Excerpt | None = None  # for a screen without room for everything
    film: Callable[[], tuple[Shot, ...]] = tuple  # the frames of an animation; (): it is a walk
    sentences: tuple[Grid, ...] = ()  # written on a terminal instead of tables
    closing: tuple[str, ...] = ()  # sentences at the end
    as_screen: bool = False  # whether an .svg shows what a terminal shows
    head_explorer: Callable[[], HeadExplorer] | None = None  # heads that a page lets readers choose
    points: Callable[[], PointCloud] | None = None  # what a page places by any two measures
    # The title and the steps for another query, which a page shows when a reader selects it.
    query_steps: Callable[[int], tuple[str, tuple[Section, ...]]] | None = None
    live: LiveModel | None = None  # what a page computes for other texts; None: it computes nothing
    sheet: ExerciseSheet | None = None  # of a quiz: what a page and a PDF are made of
    slides: Callable[[], Excerpt] | None = None  # the panels with a slide of their own; None: all
    data: TableData | None = None
    provenance: Provenance | None = None
    command: Command | None = None  # the command that makes this view, if there is one

    def __post_init__(self) -> None:
        printed: dict[int, tuple[Any, Any]] = {}
        for name in (field.name for field in fields(self) if field.name not in MACHINE_FIELDS):
            object.__setattr__(self, name, printable_value(getattr(self, name), printed))

    @cached_property
    def heads(self) -> HeadExplorer | None:
        """The heads that a reader can choose from, made printable; None for views without heads."""
        if self.head_explorer is None:
            return None
        explorer = with_strongest_query(self.head_explorer())
        if self.has_chosen_title:
            explorer = replace(explorer, row_titles=())
        return printable_value(explorer)

    @cached_property
    def cloud(self) -> PointCloud | None:
        """The points that a reader can choose from, made printable; None for views without any."""
        return None if self.points is None else printable_value(self.points())

    @cached_property
    def shots(self) -> tuple[Shot, ...]:
        """The frames of the film, made printable; none for other views."""
        return printable_value(self.film())

    @property
    def provenance_text(self) -> str:
        """The command, settings, seed and versions as JSON; empty if there is no provenance."""
        return "" if self.provenance is None else exact_json(asdict(self.provenance))

    @property
    def quantisation(self) -> str:
        """How a model stores its weights in few bits, as in "4-bit weights (Q4_1)", of several
        models each one's; empty if none does. Tables have a column for it.
        """
        stored = "" if self.provenance is None else self.provenance.settings.get("stored_as", "")
        each_stored = stored if isinstance(stored, list) else [stored]
        is_in_few_bits = any("-bit weights" in str(each) for each in each_stored)
        return and_list([str(each) for each in each_stored if each]) if is_in_few_bits else ""

    def steps_of_query(self, position: int) -> tuple[str, tuple[Section, ...]]:
        """Return the title and the steps for the query at this position, made printable; a title of
        the user's choice stays. Only for views of steps.
        """
        assert self.query_steps is not None, "there are no steps"
        title, sections = printable_value(self.query_steps(position))
        return self.headline if self.has_chosen_title else title, sections

    @cached_property
    def slide_excerpt(self) -> Excerpt:
        """The groups whose panels have a slide each: those of `slides`, or all groups of the
        picture.
        """
        all_groups = Excerpt(self.picture.groups, "")
        return all_groups if self.slides is None else printable_value(self.slides())

    @property
    def sections(self) -> tuple[Section, ...]:
        """The steps of a walk as Sections; empty for other views."""
        return tuple(panel for panel in self.screen.panels if isinstance(panel, Section))

    @property
    def notes(self) -> tuple[str, ...]:
        """The concluding sentences without one that repeats the headline."""
        headline = self.headline.rstrip(".")
        return tuple(sentence for sentence in self.closing if sentence.rstrip(".") != headline)

    @property
    def heading(self) -> str:
        """The headline above a text, or the title if there is none; empty where the only section
        has the same heading.
        """
        is_repeated = [section.heading for section in self.sections] == [self.headline]
        return "" if is_repeated else self.headline or self.title

    def with_title(self, title: str | None) -> View:
        """Return the View under another title; under none if it is empty, unchanged for None."""
        if title is None:
            return self
        return replace(self, title=title, headline=title, has_chosen_title=True)

    def of_section(self, section: Section) -> View:
        """Return the View of a single step, without its animation, headed by what the step
        finds.
        """
        still_group = Group("steps", (replace(section, moments=()),))
        page = build_page([still_group], self.settings, self.screen.caveat)
        headline = self.headline if self.has_chosen_title else section.finding or section.heading
        following = None if self.query_steps is None else partial(self._step_of, section.number)
        return replace(self, screen=page, picture=page, headline=headline, query_steps=following)

    def _step_of(self, number: str, position: int) -> tuple[str, tuple[Section, ...]]:
        """Return the title and the step with this number (such as "4b") for the query at this
        position.
        """
        _, sections = self.steps_of_query(position)
        [step] = [section for section in sections if section.number == number]
        return step.finding or step.heading, (step,)

    def grids(self) -> tuple[Grid, ...]:
        """Return every Grid on the screen, with those inside steps."""
        return tuple(panel for panel in open_panels(self.screen.panels) if isinstance(panel, Grid))

    @with_checked_arguments
    def figure(self, **options: Unpack[LookKeywords]) -> Figure:
        """Return the picture as a Figure of matplotlib:
        `view.figure(theme="dark").savefig("a.png")`
        """
        draw_figure: Callable[..., Figure] = pkgutil.resolve_name(FIGURE_FUNCTION)
        return draw_figure(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers behind what is shown, as a `.json` file has them."""
        document: dict[str, Any] = json.loads(self.render(".json"))
        return document

    def show(self) -> None:
        """Show the page in a notebook; elsewhere print the tables, as wide as the terminal."""
        ipython = sys.modules.get("IPython")
        if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
            ipython.display.display(self)
        else:
            screen_text: Callable[[View], str] = pkgutil.resolve_name(SCREEN_FUNCTION)
            print(screen_text(self))

    @with_checked_arguments
    def to_dataframe(self) -> pandas.DataFrame:
        """Return the numbers behind what is shown as a table of pandas; refused without pandas.

        Its columns are those of a `.csv` file with names for Python, such as `metric_without_it`.
        Tokens are counted from 0: `query_position` is `query number` less 1.
        """
        if find_spec("pandas") is None:
            raise AttnvizError(
                "a DataFrame needs pandas, which is not installed",
                "pip install pandas; or to_csv() and to_dict(), which need nothing more",
            )
        if self.data is None:
            raise AttnvizError("this view has no numbers", "use the view of a result")
        import pandas

        columns: dict[str, list[Any]] = {name: [] for name in self.data.header}
        for block in self.data.lines():
            numbers = [np.asarray(column).tolist() for column in block.numbers]
            count = len(numbers[0]) if numbers else len(block.words.columns[0])
            cells = [*([each] * count for each in block.start), *block.words.columns, *numbers]
            for (name, column), values in zip(columns.items(), cells, strict=True):
                if name in TOKEN_NUMBER_COLUMNS:
                    values = [int(value) - 1 for value in values]
                elif name in HEAD_COLUMNS[:2]:
                    values = [int(value) if value else None for value in map(str, values)]
                column.extend(values)
        if self.quantisation:
            rows = len(next(iter(columns.values())))
            columns[QUANTISATION_COLUMN] = [self.quantisation] * rows
        names = [_python_name(name) for name in columns]
        if len({*names}) < len(names):  # of models that are called alike
            names = [*columns]
        return pandas.DataFrame(dict(zip(names, columns.values(), strict=True)))

    def _repr_mimebundle_(self, **_kinds: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Return what a cell of a notebook stores: the page in a frame, a still picture, a line.

        `_kinds`, in Jupyter's words `include` and `exclude`, are left to the notebook.
        """
        make_bundle: Callable[..., Any] = pkgutil.resolve_name(NOTEBOOK_BUNDLE_FUNCTION)
        bundle, metadata = make_bundle(self)
        return {**bundle, "text/plain": repr(self)}, metadata

    def _repr_html_(self) -> str:
        """Return the page in a frame, over the picture, for what knows of HTML alone."""
        frame_page: Callable[[View], str] = pkgutil.resolve_name(NOTEBOOK_HTML_FUNCTION)
        return frame_page(self)

    def __repr__(self) -> str:
        return f"<View {self.headline!r}: {counted(len(self.screen.panels), 'panel')}>"

    @with_checked_arguments
    def render(self, suffix: str, **options: Unpack[LookKeywords]) -> bytes:
        """Return the bytes of a file of this kind: `view.render(".svg", theme="dark")`"""
        render: Callable[..., bytes] = pkgutil.resolve_name(RENDER_FUNCTION)
        return render(self, suffix, **options)

    @with_checked_arguments
    def save(self, *paths: str | Path, **options: Unpack[LookKeywords]) -> None:
        """Write files, all of them or none: `view.save("heatmap.png", "numbers.npz")`"""
        save: Callable[..., object] = pkgutil.resolve_name(SAVE_FUNCTION)
        save(self, *paths, **options)


def _python_name(column: str) -> str:
    """Return the name of a table's column without spaces; tokens have positions, from 0.

    >>> [_python_name(name) for name in ("query number", "metric without it", "+")]
    ['query_position', 'metric_without_it', '+']
    """
    if column in TOKEN_NUMBER_COLUMNS:
        column = column.replace("number", "position")
    return re.sub(r"\W+", "_", column).strip("_") or column


def view(result: Any, choices: Mapping[str, Any], other_names: Iterable[str] = ()) -> View:
    """Return the View of a Trace, a Comparison, a Walk, an Example or another result, made with the
    keywords `choices`; refuses unknown keywords and values of a wrong type.

    `other_names` are further keywords that an error message may suggest.
    """
    make: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTIONS[type(result).__name__])
    return make(result, **check_keywords(make, choices, other_names))


def build_page(groups: Sequence[Group], settings: str, caveat: str = "") -> Page:
    """Return a Page of these groups, with a caption and a description made from the panels."""
    bare = Page(tuple(groups))
    page_caption = caption(bare.panels, settings, caveat)
    return Page(bare.groups, page_caption, describe(bare.panels), caveat)


AnyValue = TypeVar("AnyValue")


def printable_value(value: AnyValue, printed: dict[int, tuple[Any, Any]] | None = None) -> AnyValue:
    """Return the value with every text in it made printable, however deeply nested.

    It looks into all dataclasses, tuples and lists, so that no field can be forgotten, but not into
    dictionaries. Objects that several parts share, such as labels, are processed once (`printed`
    remembers them by id), and unchanged ones are not copied.
    """
    printed = {} if printed is None else printed
    if isinstance(value, str):
        return printable_text(value)  # type: ignore[return-value]
    if isinstance(value, Cells) or not (isinstance(value, (tuple, list)) or is_dataclass(value)):
        return value
    if id(value) not in printed:  # stored with the value itself, or its id could be reused
        is_sequence = isinstance(value, (tuple, list))
        make_printable = _printable_sequence if is_sequence else _printable_dataclass
        printed[id(value)] = value, make_printable(value, printed)
    result: AnyValue = printed[id(value)][1]
    return result


def _printable_sequence(value: Any, printed: dict[int, tuple[Any, Any]]) -> Any:
    """Return a tuple or list with printable items; the same object if nothing changes."""
    kinds = set(map(type, value))
    if kinds <= PLAIN_TYPES or (kinds == {str} and is_printable("".join(value))):
        return value
    printable_copy = type(value)([printable_value(item, printed) for item in value])
    return value if all(map(is_, value, printable_copy)) else printable_copy


def _printable_dataclass(value: Any, printed: dict[int, tuple[Any, Any]]) -> Any:
    """Return a dataclass with printable fields; the same object if nothing changes."""
    parts = {part.name: getattr(value, part.name) for part in fields(value)}
    printable_parts = {name: printable_value(part, printed) for name, part in parts.items()}
    changed = {name: part for name, part in printable_parts.items() if part is not parts[name]}
    return replace(value, **changed) if changed else value
