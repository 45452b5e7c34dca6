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
from attnviz.tokens.tokenizers import count_tokenizer_ids, tokenize
from attnviz.tokens.tokens import Tokens, numbered_tokens, tokens_of_words
from attnviz.traces import matrices
from attnviz.traces.early_checks import (
    refuse_download,
    refuse_trained_model_settings,
    refuse_trained_only_settings,
    tokenize_memory,
)
from attnviz.traces.matrices import Matrices, cast_like
from attnviz.traces.models.model import Model, restrict_sight
from attnviz.traces.models.shipped import load_model
from attnviz.traces.origin import (
    FromExample,
    FromMatrices,
    FromModel,
    FromSeed,
    FromWeights,
    Origin,
    origin_model,
    origin_table,
)
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.model_location import is_trained, locate_embedding_model
from attnviz.vectors.embedding_tables import FromTable, look_up_vectors
from attnviz.vectors.random_numbers import Seeds
from attnviz.vectors.vector_files import load_vectors
from attnviz.wording.commands import Command, changed_options, shell_quoted
from attnviz.wording.keywords import replace_choices
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
    has_no_command: bool = False  # an example, and weights that were computed elsewhere
    model: Model | None = None

    @property
    def resolved_settings(self) -> Settings:
        """The settings, with all that a model has decided already."""
        return self.settings if self.model is None else self.model.merge_settings(self.settings)

    @property
    def tokenizer(self) -> str:
        """What cuts a text up."""
        return self.settings.tokenizer if self.model is None else self.model.vocabulary.tokenizer

    def matrices_for(self, count: int) -> Matrices:
        """The matrices for so many tokens: each head of a model may see others of them."""
        return (
            self.matrices
            if self.model is None
            else restrict_sight(self.matrices, self.model.sights, count)
        )

    @property
    def seeds(self) -> Seeds:
        return Seeds((self.settings.seed,))

    @property
    def given_vectors(self) -> Float[Tensor, "token dim"] | None:
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
        vector_fields: dict[str, Any] = {"vectors": self.vectors, "table": self.table}
        if self.settings.given is None and not self.matrices.is_any_given:
            return FromSeed(settings=self.settings, **vector_fields)
        return FromMatrices(settings=self.settings, matrices=self.matrices, **vector_fields)


@dataclass(frozen=True, eq=False)
class Sentence:
    """Who reads, and who is read: the sentence itself, other keys, and a second sentence."""

    tokens: Tokens
    keys: Tokens
    memory: Tokens | None


def build_source(
    text: str | Trace | None,
    settings: Settings | None = None,
    other_keywords: Sequence[str] = (),
    **changes: Any,
) -> Source:
    """What a text, or a Trace that is there already, would be traced from.

    `other_keywords` are the other keywords of whoever was given these.
    """
    if not isinstance(text, Trace):
        return source_from_text(
            text, replace_choices(settings or Settings(), changes, other_keywords)
        )
    origin = text.origin
    return Source(
        text.text,
        replace_choices(settings or origin.settings, changes, other_keywords),
        Matrices() if isinstance(origin, FromSeed) else origin.matrices,
        None if isinstance(origin, FromExample) else origin.vectors,
        origin_table(origin),
        has_no_command=isinstance(origin, FromExample | FromWeights),
        model=origin_model(origin),
    )


def source_from_text(
    text: str | None,
    settings: Settings,
    given: Matrices | None = None,
    vectors: Float[Tensor, "token dim"] | None = None,
) -> Source:
    """What a text would be traced from: a model, matrices of one's own, or a seed."""
    refuse_non_text(text)
    if is_trained(settings.model):
        refuse_trained_model_settings(settings)
        return Source(text, settings, Matrices())
    refuse_trained_only_settings(settings)
    if settings.model is None:
        return Source(text, settings, given or read_settings_matrices(settings), vectors)
    model = load_model(settings.model)
    model.refuse_other_settings(changed_options(settings))
    _refuse_given_with_model(model, given, vectors)
    return Source(text, settings, model.matrices, vectors, model=model)


def refuse_changes_to_trace(changes: Mapping[str, Any]) -> None:
    """Of a Trace, which is there already."""
    replace_choices(Settings(), changes)  # which refuses what is no setting at all
    for name in changes:
        raise AttnvizError(
            f"{name} says how to trace a text, but a finished Trace is given",
            f"leave {name} out, or give the text",
            about=name,
        )


def refuse_non_text(text: object) -> None:
    if text is not None and not isinstance(text, str):
        raise AttnvizError(
            f"the text is of type {type(text).__name__}, and should be one text",
            'give a sentence: trace("I am learning this"); or, with weights of your own, tokens: '
            "from_weights(weights, tokens)",
            about="text",
        )


def _refuse_given_with_model(
    model: Model, given_matrices: Matrices | None, vectors: Float[Tensor, "token dim"] | None
) -> None:
    """A model has matrices and vectors of its own."""
    if (given_matrices is not None and given_matrices.is_any_given) or vectors is not None:
        raise AttnvizError(
            f"matrices or vectors are given, and the model '{model.name}' has its own",
            "leave one of them out",
            file=given_matrices.source if given_matrices is not None else "",
        )


def source_command(name: str, source: Source, **options: object) -> Command | None:
    """The command that makes the same; none for an example, and for what is in no file."""
    has_own_matrices = source.model is None and source.matrices.is_any_given
    is_in_no_file = source.settings.given is None and has_own_matrices
    if is_in_no_file or source.has_no_command:
        return None
    given_options = {key: value for key, value in options.items() if value is not None}
    return Command(
        name=name, argument=source.text, options=changed_options(source.settings) | given_options
    )


def build_sentence(source: Source) -> Sentence:
    """The tokens of the text, and all others that there are."""
    tokens = source_tokens(source)
    return Sentence(tokens, _key_tokens(tokens, source.matrices), _memory_tokens(source))


def _memory_tokens(source: Source) -> Tokens | None:
    """The tokens of the second sentence: of its text, given, or as many as there are vectors."""
    given_matrices, memory_tokens = source.matrices, tokenize_memory(source.settings)
    count = given_matrices.sizes.get("memory")
    if memory_tokens is None:
        if given_matrices.memory_tokens is not None:
            return tokens_of_words(given_matrices.memory_tokens)
        return None if count is None else numbered_tokens(count)
    if given_matrices.memory_tokens is not None or count not in (None, len(memory_tokens)):
        conflict = (
            "memory_tokens"
            if given_matrices.memory_tokens is not None
            else f"{counted(count or 0, 'vector')} of it"
        )
        raise AttnvizError(
            f"--memory is a text of {counted(len(memory_tokens), 'token')}, but {given_matrices.source_text} gives "
            f"{conflict}",
            "leave one of them out",
            about="memory",
            file=given_matrices.source,
        )
    return memory_tokens


def source_tokens(source: Source) -> Tokens:
    """The tokens of the text; without one those that are given, or as many as there are vectors."""
    given_matrices = source.matrices
    count = given_matrices.sizes.get("token", given_matrices.sizes.get("key"))
    refuse_download(source.settings.tokenizer)
    if source.text is None:
        if count is None:
            raise AttnvizError(
                f"there is no text, and nothing in {given_matrices.source_text} says how many tokens there are",
                "give a sentence, or tokens, embeddings or scores in the file",
                file=given_matrices.source,
            )
        return (
            numbered_tokens(count)
            if given_matrices.tokens is None
            else tokens_of_words(given_matrices.tokens)
        )
    if given_matrices.tokens is not None:
        raise AttnvizError(
            f"a text is given, but {given_matrices.source_text} gives tokens",
            "leave one of them out",
            file=given_matrices.source,
        )
    if source.model is not None:
        return source.model.cut(source.text)
    tokens = tokenize(source.text, source.settings.tokenizer)
    if count not in (None, len(tokens)):
        raise AttnvizError(
            f"the text has {counted(len(tokens), 'token')} ({source.settings.tokenizer}), but "
            f"{given_matrices.source_text} is for {count}",
            "leave the text out, or cut it with another --tokenizer",
            file=given_matrices.source,
        )
    return tokens


def embed_tokens(tokens: Tokens, source: Source, seeds: Seeds | None = None) -> Vectors:
    """A vector for each token: given, from the file that the settings name, or drawn."""
    given_vectors = source.given_vectors
    if given_vectors is None:
        return (seeds or source.seeds).draw_embeddings(tokens.ids, embedding_width(source))
    embedding_width(source)  # which fits what else is given
    origin_name = source.settings.embeddings or source.matrices.source
    cast_like(
        "embeddings",
        given_vectors,
        torch.empty(0, dtype=getattr(torch, source.settings.dtype)),
        origin_name,
    )
    return given_vectors


def embedding_width(source: Source) -> int:
    """How many numbers stand for a token, before there are any."""
    settings, given_vectors = source.settings, source.given_vectors
    expected_dim = source.matrices.sizes.get("dim")
    dim = expected_dim if given_vectors is None else given_vectors.shape[1]
    if expected_dim not in (None, dim):
        raise AttnvizError(
            f"the embeddings are {dim} wide, but {source.matrices.source_text} is for a width of "
            f"{expected_dim}",
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
            f"--embeddings is given, but {source.matrices.source_text} gives embeddings as well",
            "leave one of them out",
            file=source.matrices.source,
        )
    if source.vectors is not None and _vectors_fit(source, source.vectors, len(tokens)):
        return source
    vectors, table = read_named_vectors(source.settings, tokens)
    return replace(source, vectors=vectors, table=table)


def _vectors_fit(source: Source, vectors: Vectors, count: int) -> bool:
    """Whether there are so many; those of a table can be had in another width, if one is wanted."""
    needs_other_width = source.table and source.settings.dim not in (None, vectors.shape[1])
    return len(vectors) == count and not needs_other_width


def read_settings_matrices(settings: Settings) -> Matrices:
    """The matrices of the file that the settings name, if they name one."""
    if settings.given is None:
        return Matrices()
    hint = f"name it, with a text: --given {shell_quoted(settings.given)}"
    refuse_name_in_file(settings.given, "file of matrices", hint, about="given")
    return matrices.read_matrices(settings.given, settings.item, settings.heads)


def vocabulary_size(source: Source) -> int | None:
    """How many ids a table of embeddings has rows for; None where it is a person's own."""
    if source.model is not None:
        return len(source.model.vocabulary.words)
    has_own_embeddings = source.settings.embeddings is not None or source.matrices.is_any_given
    return source.matrices.vocabulary or (
        None if has_own_embeddings else count_tokenizer_ids(source.settings.tokenizer)
    )


def _key_tokens(tokens: Tokens, given_matrices: Matrices) -> Tokens:
    """The tokens that are read: those that read, unless others are given."""
    if given_matrices.key_tokens is not None:
        return tokens_of_words(given_matrices.key_tokens)
    count = given_matrices.sizes.get("key", len(tokens))
    reads_itself = count == len(tokens) and given_matrices.key_embeddings is None
    return tokens if reads_itself else numbered_tokens(count)


def read_named_vectors(
    settings: Settings, tokens: Tokens
) -> tuple[Float[Tensor, "token dim"], FromTable | None]:
    """A vector for each token; and, where they are rows of a model's table, of which."""
    name = settings.embeddings or ""
    hint = f"name it, with a text: --embeddings {shell_quoted(name)}"
    refuse_name_in_file(name, "file of vectors", hint, about="embeddings")
    location = locate_embedding_model(name)
    if location is None:
        return load_vectors(name, tokens), None
    from attnviz.traces.trained.loading import fetch_model_folder

    return look_up_vectors(fetch_model_folder(location), location.name, tokens, settings.dim)
