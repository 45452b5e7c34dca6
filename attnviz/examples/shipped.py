"""The examples that come with attnviz, in the order of a course; and one by its name or path."""

from __future__ import annotations

from pathlib import Path

from attnviz.errors import unknown
from attnviz.examples.example import Example
from attnviz.examples.reading import read

FOLDER = Path(__file__).parent

ORDER = (  # any other comes after
    "simplified",
    "journey-simple",
    "trainable",
    "illustrated",
    "illustrated-by-hand",
    "why-scaling-2",
    "why-scaling-64",
    "journey-linear",
    "running-average",
    "sum-of-all",
    "running-sum",
    "average-of-the-past",
    "journey-causal",
    "single-head",
    "journey-causal-batch",
    "journey-multi-head",
    "dave",
    "dave-causal",
    "dave-positions",
    "dave-multi-head",
    "dave-decoder",
    "mistake-softmax-twice",
    "mistake-global-softmax",
    "mistake-zero-scores",
    "mistake-zero-weights",
)


def names() -> list[str]:
    """Every example that comes with attnviz, the simplest first."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml"), key=_place)]


def example(name: str) -> Example:
    """An example by its name, or a person's own by its path."""
    if name.endswith(".toml") or "/" in name:
        return read(Path(name))
    if name not in names():
        raise unknown("example", name, names())
    return read(FOLDER / f"{name}.toml")


def _place(path: Path) -> tuple[int, str]:
    order = ORDER.index(path.stem) if path.stem in ORDER else len(ORDER)
    return order, path.stem
