"""Views to files: the one place that writes results."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnviz.errors import Note, mention
from attnviz.machine.writing import AllOrNothing, refuse_paths
from attnviz.renderers import PAGE, STEP, Look, chunks, pages
from attnviz.renderers.look import LABEL_ON_A_SLIDE
from attnviz.views.view import View
from attnviz.wording.commands import chosen
from attnviz.wording.keywords import changed

OPTIONS = {"palette": "colors", "seconds": "seconds_per_step"}  # where they have other names
STEPWISE = ("steps", "example show")  # the commands that have a pace


def save(view: View, *paths: str | Path, **looks: Any) -> None:
    """Every file, all of them or none; with the command that would write the same."""
    look = changed(Look(), looks)
    _, notes = write(_told(view, paths, look), list(map(Path, paths)), look)
    for each in notes:
        mention(each)


def write(view: View, paths: Sequence[Path], look: Look) -> tuple[list[Path], list[str]]:
    """Every file, all of them or none: their names, and what there is to note about them."""
    wanted = [each for path in dict.fromkeys(paths) for each in _files(view, path, look)]
    refuse_paths([path for path, _ in wanted])  # before anything is drawn
    with warnings.catch_warnings(record=True) as noted, AllOrNothing() as together:
        warnings.simplefilter("always", Note)
        for path, one in wanted:
            together.write(path, chunks(one, path.suffix.lower(), look))
    notes = [str(each.message) for each in noted if issubclass(each.category, Note)]
    return [path for path, _ in wanted], list(dict.fromkeys(notes))


def _files(view: View, path: Path, look: Look) -> Iterator[tuple[Path, View]]:
    """One file; or one for each step, or each page, where its name has a place for it."""
    if STEP in str(path) and view.sections:
        yield from _steps(view, path)
    elif PAGE in str(path):
        for number, one in enumerate(pages(view, look), start=1):
            yield Path(str(path).replace(PAGE, str(number))), one
    else:
        yield path, view


def _steps(view: View, path: Path) -> Iterator[tuple[Path, View]]:
    """A file for each step: `steps-{step}.png`."""
    for section in view.sections:
        number = re.sub(r"^\d\b|^\d(?=\D)", r"0\g<0>", section.number)
        named = Path(str(path).replace(STEP, f"{number}-{section.name}"))
        yield named, view.of_section(section)


def _told(view: View, paths: Sequence[str | Path], look: Look) -> View:
    """With the command in its provenance, if nobody has said what it was."""
    if view.command is None or view.provenance is None or view.provenance.command is not None:
        return view
    kept = look if view.command.name in STEPWISE else replace(look, seconds=Look.seconds)
    looks = {OPTIONS.get(name, name): value for name, value in chosen(kept).items()}
    if look.size is not None:
        looks["size"] = "x".join(f"{inches:g}" for inches in look.size)
    if look.text_size != Look.text_size:
        looks["text_size"] = f"{look.text_size * LABEL_ON_A_SLIDE:g}"
    command = view.command.also(out=[str(path) for path in paths], **looks)
    return replace(view, provenance=replace(view.provenance, command=command.line))
