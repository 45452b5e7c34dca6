"""A worked example: what is given, or how it is drawn, and the digits that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.examples.constructions import is_made, made, numbers_in
from attnviz.examples.draws import Recipe, drawn
from attnviz.machine import memory
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens, named
from attnviz.traces.by_layer import can_be_given
from attnviz.traces.early_checks import refuse_download
from attnviz.traces.models.shipped import card_of
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, as_information
from attnviz.traces.texts import in_keys
from attnviz.traces.toml_reader import located

if TYPE_CHECKING:  # what can be wrong with a file is said before torch is there
    from torch import Tensor

    from attnviz.traces.matrices import Matrices
    from attnviz.traces.trace import Trace

BYTES_OF_A_NUMBER = 32  # that is given: in float64 where it is looked at, and what it becomes
OF_COMMANDS = ("item", "query")  # what `attnviz example show` takes, too


@dataclass(frozen=True, eq=False, kw_only=True)
class Expectation:
    """What must be found at one step."""

    step: str
    line: int | None
    query: str | None = None
    item: int = 1
    layer: int | None = None  # from 0; the last, unless it is said
    changes: Mapping[str, Any] = field(default_factory=dict)  # `with`: settings, or what is given
    values: Any = None
    tolerance: float | None = None  # half a unit of the last digit, unless it is said
    shape: tuple[int, ...] | None = None
    parameters: int | None = None
    claim: str | None = None
    arithmetic: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
        found = {name: each.numpy() for name, each in self._drawn.items() if can_be_given(name)}
        return found | self._made(self.given)

    @cached_property
    def _drawn(self) -> dict[str, Tensor]:
        self._refuse_more_than_memory()
        return drawn(self.recipe)

    def _made(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Matrices as they are written, or made of what was drawn."""
        found = dict(given)
        for name, value in given.items():
            if is_made(name, value):
                try:
                    found[name] = made(value, self._drawn).numpy()
                except AttnvizError as error:
                    problem = f"'{name}' in '{self.path}': {error}"
                    raise self._error(problem, error.hint, name) from None
        return found

    def _refuse_more_than_memory(self) -> None:
        """Numbers that this machine has no room for are not drawn."""
        shapes = self.recipe.shapes
        given = [name for name in shapes if can_be_given(name)]
        tables = (self.given, *(each.changes for each in self.expectations))
        named = [each for table in tables for each in table.items()]
        made_of = [value for name, value in named if is_made(name, value)]
        combined = [each for each in made_of if isinstance(each, Mapping)]
        numbers = sum(numbers_in(each, shapes) for each in (*given, *combined))
        needed = self.recipe.bytes + BYTES_OF_A_NUMBER * numbers
        free = memory.free()
        if free is not None and needed > free:
            problem = (
                f"the random numbers of '{self.path}' take {memory.size(needed)}, and "
                f"{memory.size(free)} are free"
            )
            raise self._error(problem, "draw fewer numbers", "draws")

    def _error(self, problem: str, hint: str, about: str) -> AttnvizError:
        return AttnvizError(problem, hint, about=about, file=str(self.path))

    def matrices(self, item: int | None, changes: Mapping[str, Any]) -> Matrices:
        """One item of what is given, with what an expectation gives in its place."""
        from attnviz.traces.matrices import matrices

        changed = {name: each for name, each in changes.items() if not _is_setting(name)}
        heads = changes.get("heads", self.settings.heads)
        return matrices({**self.contents, **self._made(changed)}, str(self.path), item, heads)

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of its text, or those that are written down; None if neither says them."""
        if self.text is not None and self.settings.model is not None:
            return card_of(self.settings.model).cut(self.text)
        if self.text is not None:
            refuse_download(self.settings.tokenizer)
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
        chosen = {name: each for name, each in as_information(changed).items() if _is_setting(name)}
        settings = replace(self.settings, **chosen)
        try:
            alone = item == 1 and self.items == 1
            given = self.matrices(None if alone else item, changed)
            traced = trace(
                self.text, settings, given=given, mistake=self.mistake or "", command=command
            )
        except AttnvizError as error:
            raise self._located(error) from None
        model = traced.model
        origin = FromExample(
            settings=settings,
            matrices=given if model is None else model.matrices,
            name=self.name,
            mistake=self.mistake or "",
            model=model,
        )
        return replace(traced, origin=origin)

    def _located(self, error: AttnvizError) -> AttnvizError:
        told = in_keys(located(error, self.path), but=OF_COMMANDS)
        named = told.file == str(self.path)
        return told if named else told.told(f"'{self.path}': {told}")


def _is_setting(name: str) -> bool:
    """Of the names that differ for an expectation alone; `positions` is a kind of them there."""
    return name in Settings.__dataclass_fields__
