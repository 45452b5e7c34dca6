"""Worked examples: what is given, or how it is drawn, and the digits that must come out.

An example is one TOML file in this folder, or of a person's own; README's "Worked examples" has
one with every key explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError, unknown
from attnviz.examples.draws import Recipe, drawn
from attnviz.traces import matrices as giving
from attnviz.traces import matrix_files
from attnviz.traces.from_text import trace
from attnviz.traces.layers import mistaken
from attnviz.traces.matrices import Given
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace

FOLDER = Path(__file__).parent


@dataclass(frozen=True, eq=False, kw_only=True)
class Expectation:
    """What must be found at one step."""

    step: str
    line: int | None
    query: str | None = None
    item: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)  # `with`: settings, or what is given
    values: Any = None
    shape: tuple[int, ...] | None = None
    parameters: int | None = None
    claim: str | None = None
    arithmetic: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Example:
    """A tutorial's numbers, and how to come by them."""

    name: str
    path: Path
    title: str
    source: str = ""
    notice: str = ""
    text: str | None = None
    query: str | None = None  # the token that is followed
    mistake: str | None = None
    settings: Settings = field(default_factory=Settings)
    recipe: Recipe = field(default_factory=Recipe)
    given: Mapping[str, Any] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()

    @cached_property
    def matrices(self) -> dict[str, Any]:
        """What is given under its own name: as written, drawn, or made of what was drawn."""
        found = drawn(self.recipe)
        contents = {name: each for name, each in found.items() if name in giving.NAMES}
        contents |= {name: _resolved(each, found) for name, each in self.given.items()}
        return {name: _plain(each) for name, each in contents.items()}

    def given_for(self, item: int | None, changes: Mapping[str, Any]) -> Given:
        """One item of what is given, with what an expectation gives in its place."""
        changed = {name: each for name, each in changes.items() if name in giving.NAMES}
        return giving.given({**self.matrices, **changed}, str(self.path), item)

    @cached_property
    def items(self) -> int:
        """How many sentences the example is about at once."""
        return self.given_for(None, {}).items

    def trace(
        self, item: int | None = None, changes: Mapping[str, Any] | None = None,
        command: str | None = None,
    ) -> Trace:  # fmt: skip
        """Everything that happens in the example, or in one item of its batch.

        What cannot be done is said with the file, and the line of the name that it is about.
        """
        changed = dict(changes or {})
        chosen = {name: each for name, each in changed.items() if name not in giving.NAMES}
        try:
            alone = item == 1 and self.items == 1
            given = self.given_for(None if alone else item, changed)
            made = trace(self.text, replace(self.settings, **chosen), given=given, command=command)
        except AttnvizError as error:
            raise _located(error, self.path) from None
        return mistaken(made, self.mistake) if self.mistake else made


def names() -> list[str]:
    """Every example that comes with attnviz, the simplest first."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml"), key=_place)]


def load(name: str) -> Example:
    """An example by its name, or a person's own by its path."""
    from attnviz.examples.reading import read

    if name.endswith(".toml") or "/" in name:
        return read(Path(name))
    if name not in names():
        raise unknown("example", name, names())
    return read(FOLDER / f"{name}.toml")


def _place(path: Path) -> tuple[int, str]:
    order = ORDER.index(path.stem) if path.stem in ORDER else len(ORDER)
    return order, path.stem


ORDER = (  # of a course; any other comes after
    "simplified", "journey-simple", "trainable", "illustrated", "illustrated-by-hand",
    "why-scaling-2", "why-scaling-64", "journey-linear", "running-average", "sum-of-all",
    "running-sum", "average-of-the-past", "journey-causal",
    "single-head", "journey-causal-batch", "journey-multi-head", "dave", "dave-causal",
    "dave-positions", "dave-multi-head", "dave-decoder", "mistake-softmax-twice",
    "mistake-global-softmax", "mistake-zero-scores", "mistake-zero-weights",
)  # fmt: skip


def _located(error: AttnvizError, path: Path) -> AttnvizError:
    told = matrix_files.located(error, path)
    return told if str(path) in str(told) else AttnvizError(f"'{path}': {told}", told.hint)


def _resolved(value: Any, found: Mapping[str, Any]) -> Any:
    """What is given may name a draw, or be made of two: a product, or rows of a table."""
    if isinstance(value, str):
        return found[value]
    if isinstance(value, Mapping) and "product" in value:
        first, second = (found[name] for name in value["product"])
        return first @ second
    if isinstance(value, Mapping) and "rows" in value:
        table, ids = (found[name] for name in value["rows"])
        return table[ids.long()]
    return value


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
