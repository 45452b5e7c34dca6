"""Writes Views to files (`.save()`, -o), all of them or none."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, Note, warn_with_note
from attnviz.machine.atomic_files import AllOrNothing, refuse_unwritable_paths
from attnviz.renderers import (
    PAGE_PLACEHOLDER,
    STEP_PLACEHOLDER,
    Look,
    divide_into_pages,
    refuse_live_without_page,
    render_chunks,
)
from attnviz.views.view import View
from attnviz.wording.commands import changed_options
from attnviz.wording.keywords import LookKeywords, check_values, replace_choices

if TYPE_CHECKING:
    from typing_extensions import Unpack


OPTION_NAMES = {"seconds": "seconds_per_step"}  # of fields of Look
COMMANDS_WITH_PACE = ("steps", "example show")


def save_view(view: View, *paths: str | Path, **looks: Unpack[LookKeywords]) -> None:
    """Write the files of a view, all or none, with the command that writes the same.

    Notes become warnings. `looks`: fields of Look, such as theme='dark'. Refuses paths and looks
    that cannot be written.
    """
    if not paths:
        raise AttnvizError("there is no path to save to", 'try save("page.html")')
    for path in paths:
        check_values({"path": path}, {"path": "Path"}, {})
    if view.live is not None:
        refuse_live_without_page([Path(path) for path in paths])
    look = replace_choices(Look(), looks)
    _, notes = write_files(_with_output_command(view, paths, look), list(map(Path, paths)), look)
    for note in notes:
        warn_with_note(note)


def write_files(view: View, paths: Sequence[Path], look: Look) -> tuple[list[Path], list[str]]:
    """Write the files of a view, all or none; return their paths, and notes about them.

    A path with {page}, or of a view with steps {step}, becomes several. Refuses paths that cannot
    be written, before anything is drawn.
    """
    views_by_path = [
        pair for path in dict.fromkeys(paths) for pair in _views_by_path(view, path, look)
    ]
    refuse_unwritable_paths([path for path, _ in views_by_path])  # before anything is drawn
    with warnings.catch_warnings(record=True) as caught_warnings, AllOrNothing() as writer:
        warnings.simplefilter("always", Note)
        for path, page_view in views_by_path:
            writer.write(path, render_chunks(page_view, path.suffix.lower(), look))
    notes = [str(note.message) for note in caught_warnings if issubclass(note.category, Note)]
    return [path for path, _ in views_by_path], list(dict.fromkeys(notes))


def _views_by_path(view: View, path: Path, look: Look) -> Iterator[tuple[Path, View]]:
    """Yield (path, view): one, or one for each step or page if the name has {step} or {page}."""
    if STEP_PLACEHOLDER in str(path) and view.sections:
        for section in view.sections:
            step = re.sub(r"^\d\b|^\d(?=\D)", r"0\g<0>", section.number)  # 5 is 05
            step_path = str(path).replace(STEP_PLACEHOLDER, f"{step}-{section.name}")
            yield Path(step_path), view.of_section(section)
    elif PAGE_PLACEHOLDER in str(path):
        for number, page_view in enumerate(divide_into_pages(view, look), start=1):
            yield Path(str(path).replace(PAGE_PLACEHOLDER, str(number))), page_view
    else:
        yield path, view


def _with_output_command(view: View, paths: Sequence[str | Path], look: Look) -> View:
    """Return the view with the command that writes these files in its provenance.

    A command that is there already stays; a view without command or provenance comes back
    unchanged.
    """
    if view.command is None or view.provenance is None or view.provenance.command is not None:
        return view
    has_pace = view.command.name in COMMANDS_WITH_PACE
    changed = changed_options(look if has_pace else replace(look, seconds=Look.seconds))
    looks = {OPTION_NAMES.get(name, name): value for name, value in changed.items()}
    if look.size is not None:
        looks["size"] = "x".join(f"{inches:g}" for inches in look.size)
    if look.text_size != Look.text_size:
        looks["text_size"] = f"{float(look.text_size):g}"
    if view.has_chosen_title:
        looks["title"] = view.headline
    command = view.command.with_options(out=[str(path) for path in paths], **looks)
    return replace(view, provenance=replace(view.provenance, command=command.line))
