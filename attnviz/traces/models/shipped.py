"""A model by its name, if it comes with attnviz, or by its folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.models import folder
from attnviz.traces.models.model import Model

HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Those that come with attnviz."""
    return tuple(sorted(path.parent.name for path in HERE.glob(f"*/{folder.CONFIG}")))


@cache
def model_of(name: str) -> Model:
    """A model that comes with attnviz, or that is in a folder."""
    if name in names():
        return folder.read(HERE / name)
    if Path(name).is_dir():
        return folder.read(Path(name))
    if Path(name).name == name:
        raise unknown("model", name, names(), about="model")
    raise AttnvizError(f"there is no folder '{name}'", "attnviz learn … --save FOLDER writes one")
