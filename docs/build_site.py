"""`make docs`: the README and docs/ as a site that needs no server; its links are checked.

The pages keep their places, so that a link that works in a clone works on the site. What they
link to, be it code or a notebook, is copied beside them.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from attnviz.cli.app import COMMANDS
from attnviz.cli.app import run_command_line as attnviz
from attnviz.wings.examples.group import EXAMPLE_COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "docs"  # as zensical.toml has it
SITE = ROOT / "build" / "site"
START = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)|(?:src|srcset|href)=\"([^\"#:]+)\"")


def main() -> None:
    os.environ["COLUMNS"] = "80"
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for name in sorted(files_of_site()):
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, PAGES / name)
    (PAGES / "docs" / "commands.md").write_text(command_reference(), encoding="utf-8")
    build = [sys.executable, "-m", "zensical", "build", "--clean"]
    subprocess.run(build, cwd=ROOT, check=True)
    (SITE / "404.html").unlink()  # only a server shows it: its links begin at a server's root
    if faults := [*dead_links(SITE)]:
        sys.exit("\n".join(faults))
    print(f"wrote {SITE.relative_to(ROOT)}/index.html: {len([*SITE.rglob('*.html')])} pages")


def files_of_site() -> set[str]:
    """The pages, and every file of the repository that one of them links to."""
    found: set[str] = set()
    names = [*START, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    while names:
        name = names.pop()
        if name not in found and (ROOT / name).is_file():
            found.add(name)
            names += linked(name) if name.endswith(".md") else ()
    return found


def linked(name: str) -> list[str]:
    """The files that a page links to, as paths from the root of the repository."""
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    targets = [link or picture for link, picture in LINK.findall(text)]
    return [os.path.normpath(Path(name).parent / target) for target in targets]


def command_reference() -> str:
    """A page of every command's help, with all options."""
    page = ["# All commands and options", "What `attnviz COMMAND --help` prints, or `--help-all`."]
    for command in ("", *COMMANDS, *(f"example {name}" for name in EXAMPLE_COMMANDS)):
        text = printed(*command.split(), "--help")
        if "--help-all" in text:
            text = printed(*command.split(), "--help-all")
        page += [f"## attnviz {command}".rstrip(), f"```text\n{text}```"]
    return "\n\n".join(page) + "\n"


def printed(*command: str) -> str:
    written = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(written, encoding="utf-8", newline="\n")) as output:
        attnviz(command)
        output.flush()
        return written.getvalue().decode()


class Page(HTMLParser):
    """The targets of a page: its ids, where it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = {""}
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            (self.links if tag == "a" else self.loaded).add(values["href"])
        if "src" in values:
            self.loaded.add(values["src"])


def dead_links(site: Path) -> Iterator[str]:
    """A line for each link that leads nowhere, and for each file that is loaded from elsewhere."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    yield f"{here}: loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            fragment = unquote(parts.fragment)
            if not target.is_file() or (target in pages and fragment not in pages[target].ids):
                yield f"{here}: links to {link}, which is not there"


if __name__ == "__main__":
    main()
