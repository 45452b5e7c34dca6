"""The folder of what was learned: whether it can be written, or read, said without torch."""

from __future__ import annotations

from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.machine.writing import UNFINISHED
from attnviz.traces import texts

CONFIG, HISTORY = "config.json", "training.json"
OURS = "attnviz"  # a name in the config of every model of ours


def refuse_place(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, or would take the place of something."""
    if files.is_file(folder):
        raise AttnvizError(f"'{folder}' is a file", "give the name of a folder, which may be new")
    files.refuse_unwritable(folder / CONFIG)
    files.refuse_missing_folder(folder)
    if not folder.is_dir() or _is_ours(folder):
        return
    if not all(UNFINISHED.fullmatch(each.name) for each in folder.iterdir()):
        raise AttnvizError(
            f"'{folder}' contains something other than a model that attnviz wrote",
            "give the name of a new folder",
        )


def _is_ours(folder: Path) -> bool:
    try:
        return OURS in texts.json_object(texts.read(folder / CONFIG, "model"), folder / CONFIG)
    except (AttnvizError, ValueError):
        return False


def refuse_missing(folder: Path) -> None:
    """Refuse a folder in which there is no training that could go on."""
    if not folder.is_dir():
        raise AttnvizError(
            f"there is no folder '{folder}'", "attnviz learn TASK --save FOLDER writes one"
        )
    if not files.is_file(folder / HISTORY):
        raise AttnvizError(
            f"there is no training in '{folder}' to continue: it has no {HISTORY}",
            "attnviz learn TASK --save FOLDER writes one",
        )
