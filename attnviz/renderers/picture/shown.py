"""A Figure of matplotlib that a notebook shows by itself."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """Notebooks know how to show a Figure once pyplot is imported; this one tells them itself."""

    description = ""  # for those who do not see it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fonttype = matplotlib.rcParams["pdf.fonttype"]  # of the letters that it was made with

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """As any Figure; a PDF has letters as TrueType, wherever that can be."""
        with matplotlib.rc_context({"pdf.fonttype": self._fonttype}):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue(), {"alt": self.description}
