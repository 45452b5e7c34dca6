"""The examples that come with attnviz: names, titles, files and order; no torch."""

from __future__ import annotations

from pathlib import Path

from attnviz.errors import AttnvizError, refuse_unknown_name
from attnviz.traces.toml_reader import Table
from attnviz.wings.examples.example import Example
from attnviz.wings.examples.example_files import read_example
from attnviz.wording.keywords import with_checked_arguments

EXAMPLES_FOLDER = Path(__file__).parent

COURSE_ORDER = (  # other examples come after these
    "simplified",
    "journey-simple",
    "trainable",
    "illustrated",
    "illustrated-by-hand",
    "why-scaling-2",
    "why-scaling-64",
    "journey-linear",
    "dessert",
    "running-average",
    "sum-of-all",
    "running-sum",
    "average-of-the-past",
    "journey-causal",
    "single-head",
    "journey-causal-batch",
    "journey-two-heads",
    "journey-multi-head",
    "torch-multi-head",
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


def example_names() -> list[str]:
    """Return the names of all examples that come with attnviz, the simplest first."""
    return [path.stem for path in sorted(EXAMPLES_FOLDER.glob("*.toml"), key=_course_position)]


def example_titles() -> dict[str, str]:
    """Return the title of each example by its name; refuse a file without one."""
    return {name: _read_example_title(example_path(name)) for name in example_names()}


def is_example_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def is_example(name: str) -> bool:
    """Return whether a name is a path, which need not exist, or one of the examples of attnviz."""
    return is_example_path(name) or name in example_names()


def example_path(name: str) -> Path:
    """Return the file of an example that comes with attnviz, or a user's path as it is.

    Refuses any other name.
    """
    if is_example_path(name):
        return Path(name)
    refuse_unknown_name("example", name, example_names())
    return EXAMPLES_FOLDER / f"{name}.toml"


def _read_example_title(path: Path) -> str:
    """Return the title in an example file; refuse a file without one."""
    title = Table.read(path, "lesson").values.get("title")
    if not isinstance(title, str):
        raise AttnvizError(f"'{path}': an example needs a title", "begin with: title = …")
    return title.strip()


def _course_position(path: Path) -> tuple[int, str]:
    """Return what examples are sorted by: the index in COURSE_ORDER, after it for others, and the
    name."""
    order = COURSE_ORDER.index(path.stem) if path.stem in COURSE_ORDER else len(COURSE_ORDER)
    return order, path.stem


@with_checked_arguments
def example(name: str) -> Example:
    """Return an example that comes with attnviz by its name, or a user's own by its path.

    Refuses unknown names and files with anything that does not fit.

    >>> from attnviz import example
    >>> example("simplified").view().headline
    'Self-attention without trainable weights'
    """
    return read_example(example_path(name))
