"""Writes the tree of docs/architecture.md: each file of attnviz/ with the first line of its text.

    python docs/write_tree.py

That line is the first of a Python file's docstring, or the first of a page's script or style, which
is a comment. tests/test_house.py fails where the page and the files differ.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnviz"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- The tree, written by docs/write_tree.py: -->\n"
END = "<!-- End of the tree -->\n"
TOP_FOLDERS = (  # from the ground up, as imports run
    *("machine", "options", "wording", "tokens", "vectors", "attention", "traces", "heads"),
    *("learning", "analysis", "views", "renderers", "cli", "wings"),
)
WITHOUT_DOCSTRING = {  # data, templates, and folders of such
    "wings/examples/*.toml": "The worked examples; docs/lessons.md explains every key.",
    "learning/tasks/": "Tasks written as grammars; docs/learning.md explains every key.",
    "renderers/page/page.html": "The template of a page.",
    "renderers/page/script/": "The JavaScript of a page: first data.js, last main.js.",
    "renderers/page/style/": "The CSS of a page; `STYLE_FILES` in page.py has its order.",
    "traces/models/*/": "The models that learned a task (`make models`).",
    "traces/models/toy.toml": "The model that is written by hand; docs/learning.md explains it.",
    "wings/quiz/course.toml": "The quiz that `attnviz quiz` asks without a text.",
    "wings/quiz/quiz.html": "The template of the page of a quiz.",
}
FIRST_LINE = re.compile(r'(?:"""|// |/\* )(.+?)(?:"""| \*/)?$', re.MULTILINE)


def main() -> None:
    by_hand, _ = split_page(PAGE.read_text("utf-8"))
    PAGE.write_text(f"{by_hand}{BEGIN}{build_tree()}{END}", encoding="utf-8", newline="\n")


def split_page(page: str) -> tuple[str, str]:
    """Return the part that is written by hand, and the tree."""
    by_hand, _, tree = page.partition(BEGIN)
    return by_hand, tree.removesuffix(END)


def build_tree() -> str:
    first_lines = {
        path.relative_to(PACKAGE).as_posix(): read_first_line(path)
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".js", ".css")
    }
    entries = WITHOUT_DOCSTRING | first_lines
    for name in [name for name in entries if name.endswith("/__init__.py")]:
        entries[name.removesuffix("__init__.py")] = entries.pop(name)
    blocks = [_lines_below("", entries, with_folders=False)]
    top_folders = {name.partition("/")[0] for name in entries if "/" in name.rstrip("/")}
    for name in sorted(top_folders, key=TOP_FOLDERS.index):
        blocks.append([f"{name}/  {entries[f'{name}/']}", *_lines_below(f"{name}/", entries)])
    return "```text\n" + "\n\n".join("\n".join(block) for block in blocks) + "\n```\n"


def read_first_line(path: Path) -> str:
    text = path.read_text("utf-8")
    match = FIRST_LINE.match(text)
    return match[1] if match else ""


def _lines_below(folder: str, entries: dict[str, str], *, with_folders: bool = True) -> list[str]:
    """The lines of a folder's files in columns, then those of its folders."""
    names = [name for name in entries if re.fullmatch(re.escape(folder) + r"[^/]+/?", name)]
    shown = sorted(name for name in names if not name.endswith("/"))
    if with_folders:
        shown += sorted(name for name in names if name.endswith("/"))
    width = max((len(name) - len(folder) for name in shown), default=0)
    lines = []
    for name in shown:
        indent = "  " * name.rstrip("/").count("/")
        lines.append(f"{indent}{name.removeprefix(folder):<{width}}  {entries[name]}")
        if name.endswith("/"):
            lines += _lines_below(name, entries)
    return lines


if __name__ == "__main__":
    main()
