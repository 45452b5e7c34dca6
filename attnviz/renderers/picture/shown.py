"""A Figure of matplotlib that a notebook shows by itself."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """Notebooks know how to show a Figure once pyplot is imported; this one tells them itself."""

    description = ""  # for those who do not see it

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue(), {"alt": self.description}
