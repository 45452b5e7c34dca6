"""A worked example: what is given, or how it is drawn, and the digits that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.examples.draws import Recipe, drawn
from attnviz.examples.file import in_keys
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens, named
from attnviz.traces.by_layer import can_be_given
from attnviz.traces.settings import Settings
from attnviz.traces.showing import Showable
from attnviz.traces.texts import located

if TYPE_CHECKING:  # what can be wrong with a file is said before torch is there
    from attnviz.traces.matrices import Matrices
    from attnviz.traces.trace import Trace

OF_COMMANDS = ("item", "query")  # what `attnviz example show` takes, too


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
class Example(Showable):
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
    def contents(self) -> dict[str, Any]:
        """What is given under its own name: as written, drawn, or made of what was drawn."""
        found = drawn(self.recipe)
        contents = {name: each for name, each in found.items() if can_be_given(name)}
        contents |= {name: _resolved(each, found) for name, each in self.given.items()}
        return {name: _plain(each) for name, each in contents.items()}

    def matrices(self, item: int | None, changes: Mapping[str, Any]) -> Matrices:
        """One item of what is given, with what an expectation gives in its place."""
        from attnviz.traces.matrices import matrices

        changed = {name: each for name, each in changes.items() if not _is_setting(name)}
        return matrices({**self.contents, **changed}, str(self.path), item)

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of its text, or those that are written down; None if neither says them."""
        if self.text is not None:
            return tokenize(self.text, self.settings.tokenizer)
        words = self.given.get("tokens")
        return named([str(word) for word in words]) if isinstance(words, list) else None

    @cached_property
    def items(self) -> int:
        """How many sentences the example is about at once."""
        return self.matrices(None, {}).items

    def trace(
        self,
        item: int | None = None,
        changes: Mapping[str, Any] | None = None,
        command: str | None = None,
    ) -> Trace:
        """Everything that happens in the example, or in one item of its batch.

        What cannot be done is said with the file, and the line of the name that it is about.
        """
        from attnviz.traces.from_text import trace
        from attnviz.traces.origin import FromExample

        changed = dict(changes or {})
        chosen = {name: each for name, each in changed.items() if _is_setting(name)}
        settings = replace(self.settings, **chosen)
        try:
            alone = item == 1 and self.items == 1
            given = self.matrices(None if alone else item, changed)
            traced = trace(
                self.text, settings, given=given, mistake=self.mistake or "", command=command
            )
        except AttnvizError as error:
            raise self._located(error) from None
        origin = FromExample(
            settings=settings, matrices=given, name=self.name, mistake=self.mistake or ""
        )
        return replace(traced, origin=origin)

    def _located(self, error: AttnvizError) -> AttnvizError:
        told = in_keys(located(error, self.path), but=OF_COMMANDS)
        named = told.file == str(self.path)
        return told if named else told.told(f"'{self.path}': {told}")


def _is_setting(name: str) -> bool:
    """Of the names that differ for an expectation alone; `positions` is a kind of them there."""
    return name in Settings.__dataclass_fields__


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
