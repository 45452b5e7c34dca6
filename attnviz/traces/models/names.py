"""Models by name, if they come with attnviz, or by their folder: where they are, without torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attnviz.errors import AttnvizError, unknown

HERE = Path(__file__).parent
CONFIG = "config.json"  # of a folder with a model
WRITES_ONE = "attnviz learn TASK --save FOLDER writes one"
COURSE = ("reverse", "sort", "induction", "brackets", "agreement", "pronouns")  # then all others


@cache
def names() -> tuple[str, ...]:
    """Those that come with attnviz, in the order of a course."""
    found = {path.parent.name for path in HERE.glob(f"*/{CONFIG}")}
    return (*(name for name in COURSE if name in found), *sorted(found - {*COURSE}))


def place_of(name: str) -> Path:
    """Where a model is that comes with attnviz, or one that somebody trained."""
    if name in names():
        return HERE / name
    if _is_folder(name):
        return Path(name)
    if Path(name).name == name:
        raise unknown("model", name, names(), about="model")
    raise AttnvizError(f"there is no folder '{name}'", WRITES_ONE, about="model")


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False
