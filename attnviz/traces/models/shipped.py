"""A model by its name, if it comes with attnviz, or by its folder, or the file that it is in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.models import by_hand, folder
from attnviz.traces.models.model import Model

HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Those that come with attnviz."""
    learned = (path.parent.name for path in HERE.glob(f"*/{folder.CONFIG}"))
    by_hand_ = (path.stem for path in HERE.glob(f"*{by_hand.SUFFIX}"))
    return tuple(sorted([*learned, *by_hand_]))


@cache
def model_of(name: str) -> Model:
    """A model that comes with attnviz, or that is in a folder; or that somebody wrote by hand."""
    path = HERE / f"{name}{by_hand.SUFFIX}" if name in names() else Path(name)
    if path.suffix == by_hand.SUFFIX and (path.exists() or name not in names()):
        return by_hand.read(path)
    if name in names():
        return folder.read(HERE / name)
    if Path(name).is_dir():
        return folder.read(Path(name))
    if Path(name).name == name:
        raise unknown("model", name, names(), about="model")
    raise AttnvizError(f"there is no folder '{name}'", "attnviz learn … --save FOLDER writes one")
