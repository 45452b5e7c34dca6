"""The inputs of a Trace: text or tokens, settings, matrices; and the vectors of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError, opt
from attnviz.machine import files
from attnviz.machine.files import refuse_name_in_file
from attnviz.tokens.tokenizers import count_tokenizer_ids, tokenize
from attnviz.tokens.tokens import Tokens, numbered_tokens, tokens_of_words
from attnviz.traces import matrices
from attnviz.traces.early_checks import (
    refuse_download,
    refuse_trained_model_options,
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
    is_in_memory,
    origin_model,
    origin_table,
)
from attnviz.traces.settings import TRAINED_ONLY_RULES, Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_in_memory import in_memory_settings
from attnviz.traces.trained.model_location import is_trained, locate_embedding_model
from attnviz.vectors.embedding_tables import FromTable, look_up_vectors
from attnviz.vectors.random_numbers import Seeds
from attnviz.vectors.vector_files import load_vectors
from attnviz.wording.commands import Command, changed_options, given_options, shell_quote
from attnviz.wording.keywords import replace_choices
from attnviz.wording.rules import check_rules
from attnviz.wording.words import counted

Vectors = Float[Tensor, "*seed token dim"]


@dataclass(frozen=True, eq=False)
class Source:
    """Everything a Trace is computed from: a text or given tokens, settings, matrices, a model."""

    text: str | None
    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None  # of the file that the settings name
    table: FromTable | None = None  # if the vectors are rows of a trained model's table
    has_no_command: bool = False  # for examples, and weights computed outside attnviz
    model: Model | None = None
    in_memory: LoadedTransformer | None = None  # a transformer of the caller

    @property
    def resolved_settings(self) -> Settings:
        """The settings with the values that a model of attnviz decides; unchanged without one."""
        return self.settings if self.model is None else self.model.merge_settings(self.settings)

    @property
    def tokenizer(self) -> str:
        return self.settings.tokenizer if self.model is None else self.model.vocabulary.tokenizer

    def matrices_for(self, count: int) -> Matrices:
        """Return the matrices for a text of `count` tokens.

        With a model of attnviz, masks are added: which keys each head may attend to, and what is
        added to its scores.
        """
        if self.model is None:
            return self.matrices
        return restrict_sight(self.matrices, self.model.sights, count)

    @property
    def given_vectors(self) -> Float[Tensor, "token dim"] | None:
        """The loaded embeddings, or else the embeddings in the given matrices; None if they are
        drawn.
        """
        return self.matrices.embeddings if self.vectors is None else self.vectors

    @property
    def origin(self) -> Origin:
        """What the numbers come from: a model of attnviz, given matrices, or a seed."""
        fields: dict[str, Any] = {"settings": self.settings, "vectors": self.vectors}
        if self.model is not None:
            return FromModel(matrices=self.matrices, model=self.model, **fields)
        if self.settings.given is None and not self.matrices.is_any_given:
            return FromSeed(table=self.table, **fields)
        return FromMatrices(matrices=self.matrices, table=self.table, **fields)


@dataclass(frozen=True, eq=False)
class Sentence:
    """The tokens of a Trace: of queries, of keys, and of a second sentence."""

    tokens: Tokens
    keys: Tokens  # `tokens` itself in self-attention
    memory: Tokens | None  # of a second sentence, for cross-attention in blocks


def build_source(
    text: str | Path | Trace | None, settings: Settings | None = None, **changes: Any
) -> Source:
    """Return the source of a text, or of a finished Trace, with `changes` to its settings.

    Refuses unknown settings and, for a text, what `source_from_text` refuses.
    """
    if not isinstance(text, Trace):
        settings = replace_choices(settings or Settings(), changes)
        return source_from_text(text, settings)
    origin = text.origin
    if (model := origin_model(origin)) is not None:
        model.refuse_other_settings(
            {name: value for name, value in changes.items() if value is not None}
        )
    return Source(
        text.text,
        replace_choices(settings or origin.settings, changes),
        Matrices() if isinstance(origin, FromSeed) else origin.matrices,
        None if isinstance(origin, FromExample) else origin.vectors,
        origin_table(origin),
        has_no_command=isinstance(origin, FromExample | FromWeights) or is_in_memory(origin),
        model=origin_model(origin),
    )


def source_from_text(
    text: str | Path | None,
    settings: Settings,
    given_matrices: Matrices | None = None,
    vectors: Float[Tensor, "token dim"] | None = None,
    in_memory: LoadedTransformer | None = None,
) -> Source:
    """Return the source of a text, or of the text in a file (None for given tokens): with the model
    of the settings or one in memory, with given matrices (or those of the file in the settings), or
    drawn from a seed.

    Refuses settings that do not fit the model, and matrices or vectors
    beside a model of attnviz, which has its own.
    """
    if isinstance(text, Path):
        text = files.read_text(text)
    if in_memory is not None:
        refuse_trained_model_options(given_options(settings), in_memory.name)
        own_settings = in_memory_settings(settings, in_memory)
        return Source(text, own_settings, Matrices(), in_memory=in_memory)
    if is_trained(settings.model):
        refuse_trained_model_options(given_options(settings), settings.model)
        return Source(text, settings, Matrices())
    check_rules(settings, TRAINED_ONLY_RULES)
    if settings.model is None:
        return Source(text, settings, given_matrices or read_settings_matrices(settings), vectors)
    model = load_model(settings.model)
    model.refuse_other_settings(given_options(settings))
    has_matrices = given_matrices is not None and given_matrices.is_any_given
    if has_matrices or vectors is not None:
        raise AttnvizError(
            f"matrices or vectors are given, and the model '{model.name}' has its own",
            "leave one of them out",
            file=given_matrices.source if given_matrices is not None else "",
        )
    return Source(text, settings, model.matrices, vectors, model=model)


def refuse_changes_to_trace(changes: Mapping[str, Any]) -> None:
    """Refuse any setting beside a finished Trace: settings say how to trace a text."""
    objects = ("model", "tokenizer")  # which may be in memory
    plain = {name: value for name, value in changes.items() if name not in objects}
    replace_choices(Settings(), plain)  # refuses unknown names
    for name in changes:
        raise AttnvizError(
            f"'{name}' says how to trace a text, but a finished Trace is given",
            f"leave '{name}' out, or give the text",
            about=name,
        )


def source_command(name: str, source: Source, **options: object) -> Command | None:
    """Return the command `name` (such as "run") that repeats a source with its changed options.

    None for examples, external weights, and matrices that are in no file.
    """
    has_own_matrices = source.model is None and source.matrices.is_any_given
    is_in_no_file = source.settings.given is None and has_own_matrices
    if is_in_no_file or source.has_no_command:
        return None
    all_options = changed_options(source.settings)
    all_options |= {key: value for key, value in options.items() if value is not None}
    return Command(name=name, argument=source.text, options=all_options)


def build_sentence(source: Source) -> Sentence:
    """Return the tokens of a source, of its keys, and of its second sentence.

    Refuses tokens that do not fit the given matrices.
    """
    tokens = source_tokens(source)
    return Sentence(tokens, _key_tokens(tokens, source.matrices), _memory_tokens(source))


def _memory_tokens(source: Source) -> Tokens | None:
    """Return the tokens of --memory, else of `memory_tokens` in the file, else numbered ones for
    its memory vectors; None without any of them.

    Refuses a --memory beside `memory_tokens`, or with another number of tokens than vectors.
    """
    arrays, tokens = source.matrices, tokenize_memory(source.settings)
    count, words = arrays.sizes.get("memory"), arrays.memory_tokens
    if tokens is None:
        if words is not None:
            return tokens_of_words(words)
        return None if count is None else numbered_tokens(count)
    if words is not None or count not in (None, len(tokens)):
        conflict = f"{counted(count or 0, 'vector')} of it" if words is None else "memory_tokens"
        raise arrays.error(
            f"{opt.memory} is a text of {counted(len(tokens), 'token')}, "
            f"but {arrays.source_text} gives {conflict}",
            "leave one of them out",
            about="memory",
        )
    return tokens


def source_tokens(source: Source) -> Tokens:
    """Return the tokens of the text, or without a text the tokens of the file of matrices, or
    numbered tokens, as many as its arrays are for.

    Refuses a text beside given tokens, a text with another number of tokens than given arrays, no
    text where no array tells a number, and a tokenizer to download that a file names.
    """
    arrays = source.matrices
    count = arrays.sizes.get("token", arrays.sizes.get("key"))
    refuse_download(source.settings.tokenizer)
    if source.text is None:
        if count is None:
            raise arrays.error(
                f"there is no text, and nothing in {arrays.source_text} says how many tokens there "
                "are",
                "give a sentence, or tokens, embeddings or scores in the file",
            )
        return numbered_tokens(count) if arrays.tokens is None else tokens_of_words(arrays.tokens)
    if arrays.tokens is not None:
        raise arrays.error(
            f"a text is given, but {arrays.source_text} gives tokens", "leave one of them out"
        )
    if source.model is not None:
        return source.model.cut(source.text)
    tokens = tokenize(source.text, source.settings.tokenizer)
    if count not in (None, len(tokens)):
        raise arrays.error(
            f"the text has {counted(len(tokens), 'token')} ({source.settings.tokenizer}), but "
            f"{arrays.source_text} is for {count}",
            f"leave the text out, or cut it with another {opt.tokenizer}",
        )
    return tokens


def embed_tokens(tokens: Tokens, source: Source, seeds: Seeds | None = None) -> Vectors:
    """Return a vector for each token, without positions: given, loaded or drawn.

    `seeds` replace that of the source. Refuses widths that disagree, and numbers too large for the
    dtype.
    """
    width, vectors = embedding_width(source), source.given_vectors  # the width is checked here
    if vectors is None:
        return (seeds or Seeds((source.settings.seed,))).draw_embeddings(tokens.ids, width)
    file = source.settings.embeddings or source.matrices.source
    target = torch.empty(0, dtype=getattr(torch, source.settings.dtype))
    cast_like("embeddings", vectors, target, file)  # refuses numbers that are too large
    return vectors


def embedding_width(source: Source) -> int:
    """Return the width of the embeddings: of given vectors or matrices, or of the settings.

    Refuses vectors, matrices and --dim that disagree.
    """
    settings, given_vectors = source.settings, source.given_vectors
    expected_dim = source.matrices.sizes.get("dim")
    dim = expected_dim if given_vectors is None else given_vectors.shape[1]
    if expected_dim not in (None, dim):
        raise source.matrices.error(
            f"the embeddings are {dim} wide, but {source.matrices.source_text} is for a width of "
            f"{expected_dim}",
            "give a row for each number of an embedding",
        )
    if settings.dim is not None and dim not in (None, settings.dim):
        raise AttnvizError(
            f"{opt.dim:is {settings.dim}}, but the embeddings are {dim} wide",
            f"leave {opt.dim} out, or give {opt.dim:{dim}}",
        )
    return dim or settings.width


def with_vectors(source: Source, tokens: Tokens) -> Source:
    """Return the source with a vector for each token, looked up in its model of attnviz or in the
    file or trained model of --embeddings; unchanged without both, and if it has fitting vectors.

    Refuses --embeddings beside embeddings in a file of matrices.
    """
    if source.model is not None:
        return replace(source, vectors=source.model.embeddings[list(tokens.ids)])
    if source.settings.embeddings is None:
        return source
    if source.matrices.embeddings is not None:
        raise source.matrices.error(
            f"{opt.embeddings} is given, but {source.matrices.source_text} gives embeddings as "
            "well",
            "leave one of them out",
        )
    if source.vectors is not None and _vectors_fit(source, source.vectors, len(tokens)):
        return source
    vectors, table = read_named_vectors(source.settings, tokens)
    return replace(source, vectors=vectors, table=table)


def _vectors_fit(source: Source, vectors: Vectors, count: int) -> bool:
    """Return whether the vectors can be used again: there are `count`, and if they are of a table,
    --dim asks for no other width.
    """
    needs_other_width = source.table and source.settings.dim not in (None, vectors.shape[1])
    return len(vectors) == count and not needs_other_width


def read_settings_matrices(settings: Settings) -> Matrices:
    """Return the matrices of the file in the settings (--given), empty without one.

    Refuses a file that another file names.
    """
    if settings.given is None:
        return Matrices()
    hint = f"name it, with a text: {opt.given:{shell_quote(settings.given)}}"
    refuse_name_in_file(settings.given, "file of matrices", hint, about="given")
    return matrices.read_matrices(settings.given, settings.item, settings.heads)


def vocabulary_size(source: Source) -> int | None:
    """Return the number of ids in the vocabulary of the model, the file or the tokenizer; None for
    given embeddings or matrices whose file does not say it.
    """
    if source.model is not None:
        return len(source.model.vocabulary.words)
    if source.matrices.vocabulary:
        return source.matrices.vocabulary
    has_own_embeddings = source.settings.embeddings is not None or source.matrices.is_any_given
    return None if has_own_embeddings else count_tokenizer_ids(source.settings.tokenizer)


def _key_tokens(tokens: Tokens, given_matrices: Matrices) -> Tokens:
    """Return the tokens that are attended to: given ones, numbered ones if there are key embeddings
    or another number of keys, else `tokens` itself.
    """
    if given_matrices.key_tokens is not None:
        return tokens_of_words(given_matrices.key_tokens)
    count = given_matrices.sizes.get("key", len(tokens))
    reads_itself = count == len(tokens) and given_matrices.key_embeddings is None
    return tokens if reads_itself else numbered_tokens(count)


def read_named_vectors(
    settings: Settings, tokens: Tokens
) -> tuple[Float[Tensor, "token dim"], FromTable | None]:
    """Return a vector for each token from the file or trained model of --embeddings, and a
    description of the model's embedding table, None for a file.

    May download the model. Refuses a name that comes from a file, unless attnviz ships the model.
    """
    name = settings.embeddings or ""
    hint = f"name it, with a text: {opt.embeddings:{shell_quote(name)}}"
    refuse_name_in_file(name, "file of vectors", hint, about="embeddings")
    location = locate_embedding_model(name)
    if location is None:
        return load_vectors(name, tokens), None
    from attnviz.traces.trained.loading import fetch_model_folder

    return look_up_vectors(fetch_model_folder(location), location.name, tokens, settings.dim)
