"""The examples that come with attnviz: names, titles and files; no torch."""

from __future__ import annotations

from pathlib import Path

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.examples.example import Example
from attnviz.examples.reading import read_example
from attnviz.traces.toml_reader import Table
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
    """The names of all examples that come with attnviz, the simplest first."""
    return [path.stem for path in sorted(EXAMPLES_FOLDER.glob("*.toml"), key=_course_position)]


def example_titles() -> dict[str, str]:
    """The title of each example by its name."""
    return {name: _read_example_title(example_path(name)) for name in example_names()}


def is_example_path(name: str) -> bool:
    """Whether a name is the path of a user's file."""
    return name.endswith(".toml") or "/" in name


def is_example(name: str) -> bool:
    """Whether a name is an example that comes with attnviz, or a file."""
    return is_example_path(name) or name in example_names()


def example_path(name: str) -> Path:
    """The file of an example that comes with attnviz, or the user's own path."""
    if is_example_path(name):
        return Path(name)
    if name not in example_names():
        raise unknown_name_error("example", name, example_names())
    return EXAMPLES_FOLDER / f"{name}.toml"


def _read_example_title(path: Path) -> str:
    title = Table.read(path, "lesson").values.get("title")
    if not isinstance(title, str):
        raise AttnvizError(f"'{path}': an example needs a title", "begin with: title = …")
    return title.strip()


def _course_position(path: Path) -> tuple[int, str]:
    order = COURSE_ORDER.index(path.stem) if path.stem in COURSE_ORDER else len(COURSE_ORDER)
    return order, path.stem


@with_checked_arguments
def example(name: str) -> Example:
    """An example that comes with attnviz by its name, or a user's own by its path.

    >>> from attnviz import example
    >>> example("simplified").view().headline
    'Self-attention without trainable weights'
    """
    return read_example(example_path(name))
