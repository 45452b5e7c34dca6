"""Example: given and drawn matrices, settings, and the numbers that are expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.traces.early_checks import refuse_download
from attnviz.traces.matrix_names import can_be_given
from attnviz.traces.models.shipped import load_card
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, untrusted_settings
from attnviz.traces.toml_reader import with_line_number
from attnviz.wings.examples.constructions import (
    construct_matrix,
    construction_size,
    is_construction,
)
from attnviz.wings.examples.draws import Recipe, draw_recipe
from attnviz.wording.surfaces import Surface, speaking

if TYPE_CHECKING:  # a file is checked without torch
    from torch import Tensor

    from attnviz.traces.matrices import Matrices
    from attnviz.traces.trace import Trace

BYTES_PER_GIVEN_NUMBER = 32  # float64 while it is checked, and the tensors made of it


@dataclass(frozen=True, eq=False, kw_only=True)
class Expectation:
    """The numbers, shape or claim that are expected of one step of an example."""

    step: str
    line: int | None
    query: str | None = None
    item: int = 1
    layer: int | None = None  # from 0; None: the last
    changes: Mapping[str, Any] = field(default_factory=dict)  # `with`: settings and matrices
    values: Any = None
    tolerance: float | None = None  # None: half a unit of the last digit
    shape: tuple[int, ...] | None = None
    parameters: int | None = None
    claim: str | None = None
    arithmetic: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Example(Showable):
    """A tutorial's example: its settings, its matrices, and the numbers it prints."""

    name: str
    path: Path
    title: str
    source: str = ""
    notice: str = ""
    text: str | None = None
    query: str | None = None  # the token whose computation is shown
    mistake: str | None = None
    settings: Settings = field(default_factory=Settings)
    recipe: Recipe = field(default_factory=Recipe)
    given: Mapping[str, Any] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()

    @cached_property
    def contents(self) -> dict[str, Any]:
        """All given matrices by name: as written, drawn, or constructed from draws."""
        draws = self._draws_by_name.items()
        matrices = {name: tensor.numpy() for name, tensor in draws if can_be_given(name)}
        return matrices | self._construct_matrices(self.given)

    @cached_property
    def _draws_by_name(self) -> dict[str, Tensor]:
        """All drawn matrices by name; refused if they need more memory than is free."""
        self._refuse_more_than_memory()
        return draw_recipe(self.recipe)

    def _construct_matrices(self, given_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return given matrices with constructions replaced by their numbers.

        An error names the matrix and the file.
        """
        constructed = dict(given_values)
        for name, value in given_values.items():
            if is_construction(name, value):
                try:
                    constructed[name] = construct_matrix(value, self._draws_by_name).numpy()
                except AttnvizError as error:
                    problem = f"'{name}' in '{self.path}': {error}"
                    raise self._error(problem, error.hint, name) from None
        return constructed

    def _refuse_more_than_memory(self) -> None:
        """Refuse draws and constructions that by estimate need more memory than is free."""
        shapes = self.recipe.shapes_by_name
        drawn_names = [name for name in shapes if can_be_given(name)]
        tables = (self.given, *(expectation.changes for expectation in self.expectations))
        combined = [
            value
            for table in tables
            for name, value in table.items()
            if isinstance(value, Mapping) and is_construction(name, value)
        ]
        numbers = sum(construction_size(value, shapes) for value in (*drawn_names, *combined))
        needed_bytes = self.recipe.needed_bytes + BYTES_PER_GIVEN_NUMBER * numbers
        free_bytes = memory.free_bytes()
        if free_bytes is not None and needed_bytes > free_bytes:
            problem = (
                f"the random numbers of '{self.path}' take {memory.format_size(needed_bytes)}, and "
                f"{memory.format_size(free_bytes)} are free"
            )
            raise self._error(problem, "draw fewer numbers", "draws")

    def _error(self, problem: str, hint: str, about: str) -> AttnvizError:
        return AttnvizError(problem, hint, about=about, file=str(self.path))

    def matrices(self, item: int | None, changes: Mapping[str, Any]) -> Matrices:
        """Return the given matrices, with the matrices among the changes of an expectation in their
        place. `item` is the item of the batch, from 1; None keeps the whole batch."""
        from attnviz.traces.matrices import parse_matrices

        changed = {name: value for name, value in changes.items() if not _is_setting(name)}
        contents = {**self.contents, **self._construct_matrices(changed)}
        heads = changes.get("heads", self.settings.heads)
        return parse_matrices(contents, str(self.path), item, heads)

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the text, otherwise the given ones; None if there are neither.

        Refuses a tokenizer that would have to be downloaded.
        """
        if self.text is not None and self.settings.model is not None:
            return load_card(self.settings.model).cut(self.text)
        if self.text is not None:
            refuse_download(self.settings.tokenizer)
            return tokenize(self.text, self.settings.tokenizer)
        words = self.given.get("tokens")
        return tokens_of_words([str(word) for word in words]) if isinstance(words, list) else None

    @cached_property
    def items(self) -> int:
        """The number of items in the example's batch."""
        return self.matrices(None, {}).items

    def trace(
        self,
        item: int | None = None,
        changes: Mapping[str, Any] | None = None,
        command: str | None = None,
    ) -> Trace:
        """Trace the example, or one `item` (from 1) of its batch; errors name the file and the
        line. `changes` are settings and matrices that replace the example's own."""
        from attnviz.traces.from_text import trace
        from attnviz.traces.origin import FromExample

        all_changes, mistake = dict(changes or {}), self.mistake or ""
        untrusted = untrusted_settings(all_changes).items()
        new_settings = {name: value for name, value in untrusted if _is_setting(name)}
        settings = replace(self.settings, **new_settings)
        try:
            with speaking(Surface.TOML):
                is_only_item = item == 1 and self.items == 1
                matrices = self.matrices(None if is_only_item else item, all_changes)
                result = trace(
                    self.text, settings, given=matrices, mistake=mistake, command=command
                )
        except AttnvizError as error:
            raise self._locate_error(error) from None
        origin = FromExample(
            settings=settings,
            matrices=matrices if result.model is None else result.model.matrices,
            name=self.name,
            mistake=mistake,
            model=result.model,
        )
        return replace(result, origin=origin)

    def _locate_error(self, error: AttnvizError) -> AttnvizError:
        """Return the error with the example's file and line."""
        located = with_line_number(error, self.path)
        if located.file == str(self.path):
            return located
        return located.with_problem(f"'{self.path}': {located}")


def _is_setting(name: str) -> bool:
    """Return whether a change of an expectation is a setting; `positions` is a setting, not a
    matrix here."""
    return name in Settings.__dataclass_fields__
