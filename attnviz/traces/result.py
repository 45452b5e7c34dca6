"""The methods of every result (a Trace, a Comparison, …) that show or save it.

Results do not import views and renderers: these are looked up when a method is called.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, overload

from attnviz.errors import AttnvizError
from attnviz.traces.settings import HeadId, format_head_id
from attnviz.wording.keywords import (
    LOOK_DEFAULTS,
    LookKeywords,
    with_checked_arguments,
    with_defaults,
)
from attnviz.wording.words import field_summary

VIEW_DEFAULTS = {
    **dict.fromkeys(("curves", "full", "live", "log", "mean", "predict"), False),
    "digits": 2,
    "repeats": 20,
}


@with_defaults(**VIEW_DEFAULTS)
class ViewKeywords(TypedDict, total=False):
    """The keywords of all views; each result takes some of them, and refuses the others."""

    as_: str | None
    curves: bool
    digits: int
    full: bool
    head: int | str | Sequence[int | str] | None
    item: int | None
    key: int | str | None
    layer: int | Sequence[int] | None
    live: bool
    log: bool
    mean: bool
    part: str | None
    predict: bool
    query: int | str | None
    repeats: int
    segments: str | Mapping[str, str | range] | None
    show: str | Sequence[str] | None
    step: str | Sequence[str] | None


@with_defaults(**VIEW_DEFAULTS, **LOOK_DEFAULTS)
class DrawKeywords(ViewKeywords, LookKeywords):
    """The keywords of a view, and of how a picture looks."""


if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from attnviz.views.grids.grid import Grid
    from attnviz.views.view import View


Row = TypeVar("Row")
MAX_PRINTED_ROWS = 20
INSPECT_FUNCTION = "attnviz.analysis.inspection.inspection:inspect"
VIEW_FUNCTION = "attnviz.views.view:view"
DRAW_INTO_AXES_FUNCTION = "attnviz.renderers.picture.own_axes:draw_into_axes"
LOOK_CLASS = "attnviz.renderers.look:Look"


class Showable:
    """A result that can be shown and saved: a base class of Trace, Comparison and the like."""

    table_choices: ClassVar[Mapping[str, Any]] = {}  # of the view whose numbers a table has

    @with_checked_arguments
    def view(self, **choices: Unpack[ViewKeywords]) -> View:
        """Return what can be shown: `trace("I am").view(show=["weights"]).save("heatmap.svg")`.

        `choices` are options of the command that shows such a result.
        """
        return self.view_for_command(**choices)

    def view_for_command(self, **choices: Any) -> View:
        """Return the view; `choices` may also be what only a command gives, such as `command`."""
        view: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTION)
        return view(self, choices)

    @overload
    def heatmap(
        self,
        *,
        ax: Axes,
        norm: Normalize | None = None,
        title: str | None = None,
        **choices: Unpack[DrawKeywords],
    ) -> QuadMesh: ...

    @overload
    def heatmap(self, *, title: str | None = None, **choices: Unpack[DrawKeywords]) -> Figure: ...

    @with_checked_arguments
    def heatmap(
        self,
        *,
        ax: Axes | None = None,
        norm: Normalize | None = None,
        title: str | None = None,
        **choices: Unpack[DrawKeywords],
    ) -> Figure | QuadMesh:
        """Return the picture as a Figure of matplotlib: `trace("I am").heatmap(theme="dark")`.

        With `ax`, draw one heatmap into these axes of your own, in the letters that they have, and
        return the image, for `figure.colorbar(image)`; `norm` maps numbers to colours. `title` is
        in place of the picture's own, and axes have none by default. `choices` are those of `view`,
        and of how a picture looks.
        """
        view, looks = self._split_choices(choices, "title", "ax", "norm")
        if ax is None and norm is None:
            return view.with_title(title).figure(**looks)
        draw: Callable[..., QuadMesh] = pkgutil.resolve_name(DRAW_INTO_AXES_FUNCTION)
        return draw(view, ax, norm=norm, title=title, **looks)

    @with_checked_arguments
    def show(self, **choices: Unpack[ViewKeywords]) -> None:
        """Show the result: its page in a notebook, its tables on a terminal.

        `choices` are those of `view`.
        """
        self.view(**choices).show()

    @with_checked_arguments
    def grids(self, **choices: Unpack[ViewKeywords]) -> tuple[Grid, ...]:
        """Return the tables of numbers that are shown, with labels for rows and columns.

        `trace("I am").grids(show=["weights"])` are the weights of each head.
        """
        return self.view(**choices).grids()

    @with_checked_arguments
    def save(
        self, *paths: str | Path, title: str | None = None, **choices: Unpack[DrawKeywords]
    ) -> None:
        """Write files, all of them or none: `trace("I am").save("page.html", "numbers.npz")`.

        `title` is in place of the picture's own; empty, there is none. `choices` are those of
        `view`, and of how a picture looks.
        """
        view, looks = self._split_choices(choices, "title")
        view.with_title(title).save(*paths, **looks)

    @with_checked_arguments
    def to_csv(self, path: str | Path | None = None, **choices: Unpack[ViewKeywords]) -> str | None:
        """Return the numbers as text with a line for each: `trace("I am").to_csv()`; with a path,
        write them there instead, and return None.
        """
        if path is not None and Path(path).suffix.lower() != ".csv":
            raise AttnvizError(
                f"to_csv() writes a .csv file, and '{path}' is none",
                'try to_csv("weights.csv"); other kinds of files are for save()',
                about="path",
            )
        view = self._table_view(choices)
        if path is None:
            return view.render(".csv").decode()
        view.save(path)
        return None

    @with_checked_arguments
    def to_dataframe(self, **choices: Unpack[ViewKeywords]) -> pandas.DataFrame:
        """Return the numbers as a table of pandas, with a row for each; refused without pandas.

        `choices` are those of `view`; of a Trace, the rows are all its weights by default.
        """
        return self._table_view(choices).to_dataframe()

    def _table_view(self, choices: Mapping[str, Any]) -> View:
        """Return the view whose numbers `to_csv` and `to_dataframe` return."""
        return self.view(**(choices or self.table_choices))

    @with_checked_arguments
    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name as JSON data, as a `.json` file has them."""
        return self.view().to_dict()

    def _split_choices(
        self, choices: Mapping[str, Any], *other_names: str
    ) -> tuple[View, dict[str, Any]]:
        """Return the view of this result, and the choices about its look (theme, size), which are
        no choices of a view; `other_names` are further keywords that an error may suggest.
        """
        names = [field.name for field in fields(pkgutil.resolve_name(LOOK_CLASS))]
        looks = {name: value for name, value in choices.items() if name in names}
        view_choices = {name: value for name, value in choices.items() if name not in names}
        view: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTION)
        return view(self, view_choices, [*other_names, *names]), looks

    def _repr_mimebundle_(self, **_kinds: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Return what a cell of a notebook stores: the page in a frame, a still picture, a line."""
        bundle, metadata = self.view()._repr_mimebundle_()
        return {**bundle, "text/plain": repr(self)}, metadata

    def _repr_html_(self) -> str:
        """Return the page in an HTML frame, over the picture, for what knows of HTML alone."""
        return self.view()._repr_html_()

    def __getitem__(self, key: Any) -> Any:
        """Refuse an index: only results about heads have one."""
        raise AttnvizError(
            f"this {type(self).__name__} has no items, to be indexed or gone through",
            "its numbers are in .grids(), .to_dict() and .to_csv()",
        )

    def __iter__(self) -> Iterator[Any]:
        """Refuse a loop, as an index is refused; Python would try every number from 0 on."""
        return iter(self[:])

    __repr__ = field_summary


class Rows(tuple[Row, ...]):
    """Ranked heads, which are printed in a line each."""

    def __repr__(self) -> str:
        """Return a line for each row, and how many more there are."""
        lines = [repr(row) for row in self[:MAX_PRINTED_ROWS]]
        more = len(self) - len(lines)
        return "\n".join([*lines, *([f"… and {more:,} more"] if more else [])])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NamedHead:
    """A row of a result about one head."""

    head_id: HeadId

    @property
    def name(self) -> str:
        return format_head_id(*self.head_id)


class RanksHeads(ABC):
    """A result about heads, each in a row with its name: `result.top(5)`, `result[5, 11]`,
    `result["L5H11"]`, `for head in result`.
    """

    @property
    @abstractmethod
    def ranking(self) -> Rows[Any]:
        """The heads, the first one first."""

    @with_checked_arguments
    def top(self, count: int = 5) -> Rows[Any]:
        """Return the first rows of `ranking`: `inspect(text, source="it", to="animal").top(3)`."""
        if count < 1:
            raise AttnvizError(f"count is {count}, and must be at least 1", "try count=5")
        return Rows(self.ranking[:count])

    @property
    def head_rows(self) -> Sequence[Any]:
        """A row for each head, in the order of a loop."""
        return self.ranking

    @with_checked_arguments
    def __getitem__(self, key: Any) -> Any:
        """Return a head, `result[5, 11]` or `result["L5H11"]`, or several: `result[5]` are those of
        a layer, `result[:, 11]` those with a number. Refuses what is not there.
        """
        from attnviz.traces.indexing import index_rows  # it needs torch, as some results do not

        rows = index_rows(self.head_rows, key)
        return Rows(rows) if type(rows) is tuple else rows

    def __len__(self) -> int:
        """Return the number of heads."""
        return len(self.head_rows)

    def __bool__(self) -> bool:
        """Return True, without counting: there is always a head."""
        return True

    def __iter__(self) -> Iterator[Any]:
        """Yield the heads."""
        return iter(self.head_rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of layers that have heads here, and of heads in the largest of them."""
        counts = Counter(row.name.partition("H")[0] for row in self.head_rows)
        return (len(counts), max(counts.values()))
