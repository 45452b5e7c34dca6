"""The inputs of a Trace: a text or tokens, settings, matrices, and the vectors of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.machine.files import refuse_name_in_file
from attnviz.tokens.tokenizers import tokenize, vocabulary
from attnviz.tokens.tokens import Tokens, named, numbered
from attnviz.traces import matrices
from attnviz.traces.early_checks import memory_of, refuse_decided, refuse_download, refuse_untrained
from attnviz.traces.matrices import Matrices, held
from attnviz.traces.models.model import Model, sighted
from attnviz.traces.models.shipped import model_of
from attnviz.traces.origin import (
    Drawn,
    FromExample,
    FromModel,
    FromWeights,
    Given,
    Origin,
    model_behind,
    table_behind,
)
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.place import is_trained, place_of_table
from attnviz.vectors.drawn import Seeds
from attnviz.vectors.loaded import from_file
from attnviz.vectors.static import FromTable, vectors_of
from attnviz.wording.commands import Command, chosen, quoted
from attnviz.wording.keywords import changed
from attnviz.wording.words import counted

Vectors = Float[Tensor, "*seed token dim"]


@dataclass(frozen=True, eq=False)
class Source:
    """What a Trace is made of: a text, or tokens; and all that is known before it is embedded."""

    text: str | None
    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None  # those that the settings name,
    table: FromTable | None = None  # which may be rows of a trained model's
    in_no_command: bool = False  # an example, and weights that were computed elsewhere
    model: Model | None = None

    @property
    def decided(self) -> Settings:
        """The settings, with all that a model has decided already."""
        return self.settings if self.model is None else self.model.chosen(self.settings)

    @property
    def tokenizer(self) -> str:
        """What cuts a text up."""
        return self.settings.tokenizer if self.model is None else self.model.vocabulary.tokenizer

    def reading(self, count: int) -> Matrices:
        """The matrices for so many tokens: each head of a model may see others of them."""
        return (
            self.matrices
            if self.model is None
            else sighted(self.matrices, self.model.sights, count)
        )

    @property
    def seeds(self) -> Seeds:
        return Seeds((self.settings.seed,))

    @property
    def found(self) -> Float[Tensor, "token dim"] | None:
        """The vectors that somebody gave; None: they are drawn."""
        return self.matrices.embeddings if self.vectors is None else self.vectors

    @property
    def origin(self) -> Origin:
        if self.model is not None:
            return FromModel(
                settings=self.settings,
                matrices=self.matrices,
                model=self.model,
                vectors=self.vectors,
            )
        named: dict[str, Any] = {"vectors": self.vectors, "table": self.table}
        if self.settings.given is None and not self.matrices.anything:
            return Drawn(settings=self.settings, **named)
        return Given(settings=self.settings, matrices=self.matrices, **named)


@dataclass(frozen=True, eq=False)
class Sentence:
    """Who reads, and who is read: the sentence itself, other keys, and a second sentence."""

    tokens: Tokens
    keys: Tokens
    memory: Tokens | None


def source_of(
    text: str | Trace | None,
    settings: Settings | None = None,
    also: Sequence[str] = (),
    **changes: Any,
) -> Source:
    """What a text, or a Trace that is there already, would be traced from.

    `also` are the other keywords of whoever was given these.
    """
    if not isinstance(text, Trace):
        return source_of_text(text, changed(settings or Settings(), changes, also))
    origin = text.origin
    return Source(
        text.text,
        changed(settings or origin.settings, changes, also),
        Matrices() if isinstance(origin, Drawn) else origin.matrices,
        None if isinstance(origin, FromExample) else origin.vectors,
        table_behind(origin),
        in_no_command=isinstance(origin, FromExample | FromWeights),
        model=model_behind(origin),
    )


def source_of_text(
    text: str | None,
    settings: Settings,
    given: Matrices | None = None,
    vectors: Float[Tensor, "token dim"] | None = None,
) -> Source:
    """What a text would be traced from: a model, matrices of one's own, or a seed."""
    refuse_other_than_text(text)
    if is_trained(settings.model):
        refuse_decided(settings)
        return Source(text, settings, Matrices())
    refuse_untrained(settings)
    if settings.model is None:
        return Source(text, settings, given or matrices_of(settings), vectors)
    model = model_of(settings.model)
    model.refuse_others(chosen(settings))
    _refuse_given(model, given, vectors)
    return Source(text, settings, model.matrices, vectors, model=model)


def refuse_settings(changes: Mapping[str, Any]) -> None:
    """Of a Trace, which is there already."""
    changed(Settings(), changes)  # which refuses what is no setting at all
    for name in changes:
        raise AttnvizError(
            f"{name} says how to trace a text, but a finished Trace is given",
            f"leave {name} out, or give the text",
            about=name,
        )


def refuse_other_than_text(text: object) -> None:
    if text is not None and not isinstance(text, str):
        raise AttnvizError(
            f"the text is of type {type(text).__name__}, and should be one text",
            'give a sentence: trace("I am learning this"); or, with weights of your own, tokens: '
            "from_weights(weights, tokens)",
            about="text",
        )


def _refuse_given(
    model: Model, given: Matrices | None, vectors: Float[Tensor, "token dim"] | None
) -> None:
    """A model has matrices and vectors of its own."""
    if (given is not None and given.anything) or vectors is not None:
        raise AttnvizError(
            f"matrices or vectors are given, and the model '{model.name}' has its own",
            "leave one of them out",
            file=given.source if given is not None else "",
        )


def command_of(name: str, source: Source, **options: object) -> Command | None:
    """The command that makes the same; none for an example, and for what is in no file."""
    own = source.model is None and source.matrices.anything
    in_no_file = source.settings.given is None and own
    if in_no_file or source.in_no_command:
        return None
    wanted = {key: value for key, value in options.items() if value is not None}
    return Command(name=name, argument=source.text, options=chosen(source.settings) | wanted)


def sentence_of(source: Source) -> Sentence:
    """The tokens of the text, and all others that there are."""
    tokens = tokens_of(source)
    return Sentence(tokens, _keys(tokens, source.matrices), _memory(source))


def _memory(source: Source) -> Tokens | None:
    """The tokens of the second sentence: of its text, given, or as many as there are vectors."""
    given, found = source.matrices, memory_of(source.settings)
    count = given.sizes.get("memory")
    if found is None:
        if given.memory_tokens is not None:
            return named(given.memory_tokens)
        return None if count is None else numbered(count)
    if given.memory_tokens is not None or count not in (None, len(found)):
        gives = (
            "memory_tokens"
            if given.memory_tokens is not None
            else f"{counted(count or 0, 'vector')} of it"
        )
        raise AttnvizError(
            f"--memory is a text of {counted(len(found), 'token')}, but {given.called} gives "
            f"{gives}",
            "leave one of them out",
            about="memory",
            file=given.source,
        )
    return found


def tokens_of(source: Source) -> Tokens:
    """The tokens of the text; without one those that are given, or as many as there are vectors."""
    given = source.matrices
    count = given.sizes.get("token", given.sizes.get("key"))
    refuse_download(source.settings.tokenizer)
    if source.text is None:
        if count is None:
            raise AttnvizError(
                f"there is no text, and nothing in {given.called} says how many tokens there are",
                "give a sentence, or tokens, embeddings or scores in the file",
                file=given.source,
            )
        return numbered(count) if given.tokens is None else named(given.tokens)
    if given.tokens is not None:
        raise AttnvizError(
            f"a text is given, but {given.called} gives tokens",
            "leave one of them out",
            file=given.source,
        )
    if source.model is not None:
        return source.model.cut(source.text)
    tokens = tokenize(source.text, source.settings.tokenizer)
    if count not in (None, len(tokens)):
        raise AttnvizError(
            f"the text has {counted(len(tokens), 'token')} ({source.settings.tokenizer}), but "
            f"{given.called} is for {count}",
            "leave the text out, or cut it with another --tokenizer",
            file=given.source,
        )
    return tokens


def embed(tokens: Tokens, source: Source, seeds: Seeds | None = None) -> Vectors:
    """A vector for each token: given, from the file that the settings name, or drawn."""
    found = source.found
    if found is None:
        return (seeds or source.seeds).embed(tokens.ids, width_of(source))
    width_of(source)  # which fits what else is given
    where = source.settings.embeddings or source.matrices.source
    held("embeddings", found, torch.empty(0, dtype=getattr(torch, source.settings.dtype)), where)
    return found


def width_of(source: Source) -> int:
    """How many numbers stand for a token, before there are any."""
    settings, found = source.settings, source.found
    known = source.matrices.sizes.get("dim")
    dim = known if found is None else found.shape[1]
    if known not in (None, dim):
        raise AttnvizError(
            f"the embeddings are {dim} wide, but {source.matrices.called} is for a width of "
            f"{known}",
            "give a row for each number of an embedding",
            file=source.matrices.source,
        )
    if settings.dim is not None and dim not in (None, settings.dim):
        raise AttnvizError(
            f"--dim is {settings.dim}, but the embeddings are {dim} wide",
            f"leave --dim out, or give --dim {dim}",
        )
    return dim or settings.width


def with_vectors(source: Source, tokens: Tokens) -> Source:
    """With the vectors of the model, or those that the settings name, if they name any."""
    if source.model is not None:
        return replace(source, vectors=source.model.embeddings[list(tokens.ids)])
    if source.settings.embeddings is None:
        return source
    if source.matrices.embeddings is not None:
        raise AttnvizError(
            f"--embeddings is given, but {source.matrices.called} gives embeddings as well",
            "leave one of them out",
            file=source.matrices.source,
        )
    if source.vectors is not None and _fit(source, source.vectors, len(tokens)):
        return source
    vectors, table = named_vectors(source.settings, tokens)
    return replace(source, vectors=vectors, table=table)


def _fit(source: Source, vectors: Vectors, count: int) -> bool:
    """Whether there are so many; those of a table can be had in another width, if one is wanted."""
    other = source.table and source.settings.dim not in (None, vectors.shape[1])
    return len(vectors) == count and not other


def matrices_of(settings: Settings) -> Matrices:
    """The matrices of the file that the settings name, if they name one."""
    if settings.given is None:
        return Matrices()
    hint = f"name it, with a text: --given {quoted(settings.given)}"
    refuse_name_in_file(settings.given, "file of matrices", hint, about="given")
    return matrices.read(settings.given, settings.item, settings.heads)


def vocabulary_of(source: Source) -> int | None:
    """How many ids a table of embeddings has rows for; None where it is a person's own."""
    if source.model is not None:
        return len(source.model.vocabulary.words)
    own = source.settings.embeddings is not None or source.matrices.anything
    return source.matrices.vocabulary or (None if own else vocabulary(source.settings.tokenizer))


def _keys(tokens: Tokens, given: Matrices) -> Tokens:
    """The tokens that are read: those that read, unless others are given."""
    if given.key_tokens is not None:
        return named(given.key_tokens)
    count = given.sizes.get("key", len(tokens))
    same = count == len(tokens) and given.key_embeddings is None
    return tokens if same else numbered(count)


def named_vectors(
    settings: Settings, tokens: Tokens
) -> tuple[Float[Tensor, "token dim"], FromTable | None]:
    """A vector for each token; and, where they are rows of a model's table, of which."""
    name = settings.embeddings or ""
    hint = f"name it, with a text: --embeddings {quoted(name)}"
    refuse_name_in_file(name, "file of vectors", hint, about="embeddings")
    place = place_of_table(name)
    if place is None:
        return from_file(name, tokens), None
    from attnviz.traces.trained.loading import folder_of

    return vectors_of(folder_of(place), place.name, tokens, settings.dim)
