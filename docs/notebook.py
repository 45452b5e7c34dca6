"""`make notebook`: runs docs/attnviz.ipynb and stores what its cells show: it is never blank.

What is a page where the notebook runs is stored as a picture of it, which a code host can show.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from attnviz.renderers.page.notebook_output import quantize_png, still_picture

NOTEBOOK = Path(__file__).parent / "attnviz.ipynb"
SIZE = (960, 540)  # pixels of each picture but those whose size a cell says


class Cells:
    """Cells of code in one namespace, and what each of them would show."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {"__name__": "__main__"}

    def run(self, code: str) -> Any:
        """The value of the last line, if that is an expression."""
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), self.known)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), "cell", "eval"), self.known)


def stored(value: Any, count: int, *, pictures: bool = True) -> list[dict[str, Any]]:
    """What a notebook keeps of a value: its line of text, and a picture of what has one."""
    if value is None:
        return []
    data: dict[str, Any] = {"text/plain": lines_of(repr(value))}
    if pictures and has_picture(value):
        data["image/png"] = base64.b64encode(picture_of(value)).decode()
    return [
        {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
    ]


def has_picture(value: Any) -> bool:
    """Whether a notebook shows more of it than a line of text."""
    return any(hasattr(value, name) for name in ("_repr_html_", "_repr_png_"))


def picture_of(value: Any) -> bytes:
    """In as many colours as a picture of a notebook needs."""
    view = value if hasattr(value, "render") else getattr(value, "view", lambda: None)()
    return quantize_png(value._repr_png_()[0]) if view is None else still_picture(view)


def lines_of(text: str) -> list[str]:
    """As notebooks have them: each with its end, but for the last."""
    return text.splitlines(keepends=True)


def main() -> None:
    notebook, cells = json.loads(NOTEBOOK.read_text("utf-8")), Cells()
    code = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for count, cell in enumerate(code, start=1):
            value = cells.run("".join(cell["source"]))
            cell |= {"execution_count": count, "outputs": stored(value, count)}
        os.chdir(NOTEBOOK.parent)
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {NOTEBOOK.name}: {len(text.encode()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
