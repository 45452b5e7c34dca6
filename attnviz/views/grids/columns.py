"""Columns: numbers as upright bars, one row of them below the other, over the same names."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.views.grids.scales import Scale


@dataclass(frozen=True)
class ColumnRow:
    """A number for each name, as it is and as it is written; None is what a mask hides."""

    name: str
    values: tuple[float | None, ...]
    written: tuple[str, ...]
    scale: Scale
    total: str = ""  # "sum 3.72": what is said of all of them


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...]
    rows: tuple[ColumnRow, ...]
