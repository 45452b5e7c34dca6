"""The methods of every result (a Trace, a Comparison, …) that show or save it.

Results do not import views and renderers: these are looked up when a method is called.
"""

from __future__ import annotations

import pkgutil
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    from attnviz.views.grids.grid import Grid
    from attnviz.views.view import View

VIEW_FUNCTION = "attnviz.views.view:view"
DRAW_INTO_AXES_FUNCTION = "attnviz.renderers.picture.own_axes:draw_into_axes"
LOOK_CLASS = "attnviz.renderers.look:Look"


class Showable:
    """A result that can be shown and saved: a base class of Trace, Comparison and the like."""

    def view(self, **choices: Any) -> View:
        """Return what can be shown: `trace("I am").view(show=["weights"]).save("heatmap.svg")`.

        `choices` are options of the command that shows such a result.
        """
        view: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTION)
        return view(self, choices)

    @overload
    def heatmap(
        self, *, ax: Axes, norm: Normalize | None = None, title: str | None = None, **choices: Any
    ) -> QuadMesh: ...

    @overload
    def heatmap(self, *, title: str | None = None, **choices: Any) -> Figure: ...

    def heatmap(
        self,
        *,
        ax: Axes | None = None,
        norm: Normalize | None = None,
        title: str | None = None,
        **choices: Any,
    ) -> Figure | QuadMesh:
        """Return the picture as a Figure of matplotlib: `trace("I am").heatmap(theme="dark")`.

        With `ax`, draw one heatmap into these axes of your own, in the letters that they have, and
        return the image, for `figure.colorbar(image)`; `norm` maps numbers to colours. `title` is
        in place of the picture's own, and axes have none by default. `choices` are those of `view`,
        and of how a picture looks.
        """
        view, looks = self._split_choices(choices)
        if ax is None and norm is None:
            return view.with_title(title).figure(**looks)
        draw: Callable[..., QuadMesh] = pkgutil.resolve_name(DRAW_INTO_AXES_FUNCTION)
        return draw(view, ax, norm=norm, title=title, **looks)

    def grids(self, **choices: Any) -> tuple[Grid, ...]:
        """Return the tables of numbers that are shown, with labels for rows and columns.

        `trace("I am").grids(show=["weights"])` are the weights of each head.
        """
        return self.view(**choices).grids()

    def save(self, *paths: str | Path, title: str | None = None, **choices: Any) -> None:
        """Write files, all of them or none: `trace("I am").save("page.html", "numbers.npz")`.

        `title` is in place of the picture's own; empty, there is none. `choices` are those of
        `view`, and of how a picture looks.
        """
        view, looks = self._split_choices(choices)
        view.with_title(title).save(*paths, **looks)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name as JSON data, as a `.json` file has them."""
        return self.view().to_dict()

    def _split_choices(self, choices: Mapping[str, Any]) -> tuple[View, dict[str, Any]]:
        """Return the view of this result, and the choices about its look (theme, size), which are
        no choices of a view.
        """
        names = [field.name for field in fields(pkgutil.resolve_name(LOOK_CLASS))]
        looks = {name: value for name, value in choices.items() if name in names}
        view_choices = {name: value for name, value in choices.items() if name not in names}
        view: Callable[..., View] = pkgutil.resolve_name(VIEW_FUNCTION)
        return view(self, view_choices, names), looks

    def _repr_html_(self) -> str:
        """Return the page in an HTML frame, for the cell of a notebook."""
        return self.view()._repr_html_()

    def __repr__(self) -> str:
        """Return one line: the class, short fields in full, tuples by their lengths."""
        return f"<{type(self).__name__}: {', '.join(_short_fields(self))}>"


def _short_fields(result: Any) -> Iterator[str]:
    """Yield texts and numbers as "name value", tuples as "3 names"; nothing for empty fields."""
    for name in (field.name for field in fields(result)):
        value = getattr(result, name)
        if isinstance(value, str | int | float) and value not in ("", False):
            yield f"{name} {reprlib.repr(value)}"
        elif isinstance(value, Showable):
            yield f"{name} {value!r}"
        elif isinstance(value, tuple) and value:
            yield f"{len(value)} {name}"
