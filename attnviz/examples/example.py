"""A worked example: what is given, or how it is drawn, and the digits that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.examples.constructions import construct_matrix, construction_size, is_construction
from attnviz.examples.draws import Recipe, draw_recipe
from attnviz.machine import memory
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.traces.early_checks import refuse_download
from attnviz.traces.layer_names import can_be_given
from attnviz.traces.models.shipped import load_card
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, untrusted_settings
from attnviz.traces.structured_text import options_as_keys
from attnviz.traces.toml_reader import with_line_number

if TYPE_CHECKING:  # what can be wrong with a file is said before torch is there
    from torch import Tensor

    from attnviz.traces.matrices import Matrices
    from attnviz.traces.trace import Trace

BYTES_PER_GIVEN_NUMBER = 32  # that is given: in float64 where it is looked at, and what it becomes
COMMAND_OPTIONS = ("item", "query")  # what `attnviz example show` takes, too


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
        drawn_matrices = {
            name: tensor.numpy()
            for name, tensor in self._draws_by_name.items()
            if can_be_given(name)
        }
        return drawn_matrices | self._construct_matrices(self.given)

    @cached_property
    def _draws_by_name(self) -> dict[str, Tensor]:
        self._refuse_more_than_memory()
        return draw_recipe(self.recipe)

    def _construct_matrices(self, given_values: Mapping[str, Any]) -> dict[str, Any]:
        """Matrices as they are written, or made of what was drawn."""
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
        """Numbers that this machine has no room for are not drawn."""
        shapes = self.recipe.shapes_by_name
        given = [name for name in shapes if can_be_given(name)]
        tables = (self.given, *(each.changes for each in self.expectations))
        named_values = [each for table in tables for each in table.items()]
        constructions = [value for name, value in named_values if is_construction(name, value)]
        combined = [each for each in constructions if isinstance(each, Mapping)]
        numbers = sum(construction_size(each, shapes) for each in (*given, *combined))
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
        """One item of what is given, with what an expectation gives in its place."""
        from attnviz.traces.matrices import parse_matrices

        changed_matrices = {name: value for name, value in changes.items() if not _is_setting(name)}
        heads = changes.get("heads", self.settings.heads)
        return parse_matrices(
            {**self.contents, **self._construct_matrices(changed_matrices)},
            str(self.path),
            item,
            heads,
        )

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of its text, or those that are written down; None if neither says them."""
        if self.text is not None and self.settings.model is not None:
            return load_card(self.settings.model).cut(self.text)
        if self.text is not None:
            refuse_download(self.settings.tokenizer)
            return tokenize(self.text, self.settings.tokenizer)
        words = self.given.get("tokens")
        return tokens_of_words([str(word) for word in words]) if isinstance(words, list) else None

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

        all_changes = dict(changes or {})
        changed_settings = {
            name: value
            for name, value in untrusted_settings(all_changes).items()
            if _is_setting(name)
        }
        settings = replace(self.settings, **changed_settings)
        try:
            is_only_item = item == 1 and self.items == 1
            item_matrices = self.matrices(None if is_only_item else item, all_changes)
            example_trace = trace(
                self.text,
                settings,
                given=item_matrices,
                mistake=self.mistake or "",
                command=command,
            )
        except AttnvizError as error:
            raise self._locate_error(error) from None
        model = example_trace.model
        origin = FromExample(
            settings=settings,
            matrices=item_matrices if model is None else model.matrices,
            name=self.name,
            mistake=self.mistake or "",
            model=model,
        )
        return replace(example_trace, origin=origin)

    def _locate_error(self, error: AttnvizError) -> AttnvizError:
        located_error = options_as_keys(
            with_line_number(error, self.path), exceptions=COMMAND_OPTIONS
        )
        names_file = located_error.file == str(self.path)
        return (
            located_error if names_file else located_error.with_problem(f"'{self.path}': {located_error}")
        )


def _is_setting(name: str) -> bool:
    """Of the names that differ for an expectation alone; `positions` is a kind of them there."""
    return name in Settings.__dataclass_fields__
