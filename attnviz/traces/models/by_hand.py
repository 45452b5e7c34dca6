"""Models written by hand as TOML: words, numbers with meanings, and heads.

docs/learning.md has a file with every key explained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.tokens.tokenizers import TOKENIZERS, tokenize
from attnviz.traces import toml_reader as toml
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import SIGHT_DIRECTIONS, Model, Sight
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.wording.words import counted

NumberRows = Mapping[str, Mapping[str, float]]  # {row: {column: number}}; what is absent is 0

MAX_LAYER_NUMBER = 99
MAX_MATRIX_NUMBERS = 10_000_000  # in all matrices, most of them 0 and not written
TOKENIZER_CHOICES = ("words", *(name for name in TOKENIZERS if name != "words"))  # default first
MODEL_FILE_KEYS: Mapping[str, toml.ValueKind] = {
    "about": toml.TEXT_TYPE,
    "tokenizer": toml.one_word_of(*TOKENIZER_CHOICES),
    "dimensions": toml.NAMES_TYPE,
    "words": toml.TABLE_TYPE,
    "spelled": toml.TABLE_TYPE,
    "settings": toml.TABLE_TYPE,
    "heads": replace(
        toml.TABLES_TYPE,
        hint="write [[heads]], and below it what each asks for and what it hands on",
    ),
}
HEAD_KEYS: Mapping[str, toml.ValueKind] = {
    "does": toml.TEXT_TYPE,
    "layer": toml.int_range(0, MAX_LAYER_NUMBER),
    "asks": toml.NAMES_TYPE,
    "hands": toml.NAMES_TYPE,
    "sees": toml.one_word_of(*SIGHT_DIRECTIONS),
    "itself": toml.ValueKind(
        lambda value: isinstance(value, bool) or toml.is_number(value, 0),
        "true, false, or a number from 0, such as 5",
    ),
    "near": toml.POSITIVE_TYPE,
    **dict.fromkeys(("query", "key", "value", "out"), toml.TABLE_TYPE),
}
ROW_TYPE = toml.ValueKind(
    lambda value: isinstance(value, dict) and all(map(toml.is_number, value.values())),
    'a table of numbers: { animal = 1, "refers back" = 0.5 }',
)
SETTING_DESCRIPTIONS = ("scale", "temperature", "soft_cap", "layers")


@dataclass(frozen=True, kw_only=True)
class WrittenHead:
    """One [[heads]] table of a hand-written model's file, checked, with its defaults filled in."""

    table: toml.Table
    layer: int
    does: str  # in a sentence
    asks: tuple[str, ...]  # what the numbers of its queries and keys mean
    hands: tuple[str, ...]  # what the numbers of its values mean
    query: NumberRows  # rows: dimensions; columns: `asks`
    key: NumberRows
    value: NumberRows  # rows: dimensions; columns: `hands`
    out: NumberRows  # rows: `hands`; columns: dimensions
    sight: Sight


HeadsByLayer = Sequence[Sequence[WrittenHead]]


def read_written_model(path: Path) -> Model:
    """Return the model that a hand-written TOML file describes, named after that file.

    Refuses unknown or missing keys, words and names that do not fit, layers with different numbers
    of heads, and more than `MAX_MATRIX_NUMBERS` numbers.
    """
    root = toml.Table.read(path, "model")
    root.check("key", MODEL_FILE_KEYS, "dimensions", "heads")
    dimensions = root.names("dimensions")
    words = _rows(root.table("words"), dimensions)
    _refuse_many_numbers(len(words) * len(dimensions), root.table("words"))
    layers = _by_layer(list(_read_heads(root.tables("heads"), dimensions)))
    heads_by_name = {
        f"L{layer}H{number}": head
        for layer, heads in enumerate(layers)
        for number, head in enumerate(heads)
    }
    return Model(
        name=path.stem,
        about=root.text("about"),
        settings=_model_settings(root.table("settings"), layers, len(dimensions)),
        vocabulary=_words_and_spellings(root),
        embeddings=_dense_matrix(words, tuple(words), dimensions),
        matrices=_stacked_matrices(layers, dimensions),
        unembedding=None,
        dimensions=dimensions,
        heads={name: head.does for name, head in heads_by_name.items()},
        asks={name: head.asks for name, head in heads_by_name.items()},
        hands={name: head.hands for name, head in heads_by_name.items()},
        sights=tuple(tuple(head.sight for head in heads) for heads in layers),
    )


def _stacked_matrices(layers: HeadsByLayer, dimensions: tuple[str, ...]) -> Matrices:
    """Return the first layer's matrices, with those of the other layers in `upper_layers`.

    The heads of a layer are joined: as columns of W_Q, W_K and W_V, and as rows of W_out.
    """
    first, *above = (
        Matrices(
            w_query=torch.cat([_dense_matrix(h.query, dimensions, h.asks) for h in heads], dim=1),
            w_key=torch.cat([_dense_matrix(h.key, dimensions, h.asks) for h in heads], dim=1),
            w_value=torch.cat([_dense_matrix(h.value, dimensions, h.hands) for h in heads], dim=1),
            w_out=torch.cat([_dense_matrix(h.out, h.hands, dimensions) for h in heads]),
        )
        for heads in layers
    )
    return replace(first, upper_layers=tuple(above))


def _dense_matrix(
    rows: NumberRows, names: Sequence[str], columns: Sequence[str]
) -> Float[Tensor, "row column"]:
    """Return a matrix with a row for each of `names` and a column for each of `columns`.

    Numbers that `rows` ({row: {column: number}}) does not give are 0.
    """
    matrix = torch.zeros(len(names), len(columns))
    column_indices = {column: index for index, column in enumerate(columns)}
    for row, name in enumerate(names):
        for column, number in rows.get(name, {}).items():
            matrix[row, column_indices[column]] = float(number)
    return matrix


def _read_heads(tables: Sequence[toml.Table], dimensions: tuple[str, ...]) -> Iterator[WrittenHead]:
    """Yield the head of each [[heads]] table; refuse too many numbers in all matrices together."""
    numbers = 0
    for table in tables:
        head = _read_head(table, dimensions)
        numbers += 2 * len(dimensions) * (len(head.asks) + len(head.hands))
        _refuse_many_numbers(numbers, table)
        yield head


def _refuse_many_numbers(numbers: int, table: toml.Table) -> None:
    """Refuse more than `MAX_MATRIX_NUMBERS` numbers in matrices; the error points to `table`."""
    if numbers > MAX_MATRIX_NUMBERS:
        raise table.error(
            f"the matrices have {numbers:,} numbers up to here",
            f"a model that is written by hand has at most {MAX_MATRIX_NUMBERS:,}",
        )


def _read_head(table: toml.Table, dimensions: tuple[str, ...]) -> WrittenHead:
    """Return the head that a [[heads]] table describes, with defaults for what it leaves out."""
    table.check("key of a head", HEAD_KEYS, "asks", "hands")
    asks, hands = table.names("asks"), table.names("hands")
    _refuse_many_numbers(2 * len(dimensions) * (len(asks) + len(hands)), table)
    values = table.values
    itself = values.get("itself", True)  # or a number that is added to the score
    bonus = (0.0 if itself else None) if isinstance(itself, bool) else float(itself)
    return WrittenHead(
        table=table,
        layer=values.get("layer", 0),
        does=table.text("does"),
        asks=asks,
        hands=hands,
        query=_rows(table.table("query"), asks, dimensions),
        key=_rows(table.table("key"), asks, dimensions),
        value=_rows_or_identity(table, "value", hands, dimensions, hands),
        out=_rows_or_identity(table, "out", hands, hands, dimensions),
        sight=Sight(
            sees=values.get("sees", SIGHT_DIRECTIONS[0]),
            itself=bonus,
            near=float(values.get("near", 0)),
        ),
    )


def _rows(table: toml.Table, columns: Collection[str], names: Collection[str] = ()) -> NumberRows:
    """Return the values of a table of rows, {row: {column: number}}, unchanged after checks.

    Refuses rows that are not tables of numbers, columns not in `columns`, and, unless `names` is
    empty, rows not in `names`.
    """
    columns, names = dict.fromkeys(columns), dict.fromkeys(names)  # for fast lookup
    for key, row in table.values.items():
        if names:
            table.refuse_unknown("row", key, names, from_file=True)
        table.refuse_misfit(key, ROW_TYPE)
        for name in row:
            table.refuse_unknown("column", name, columns, key, from_file=True)
    return table.values


def _rows_or_identity(
    table: toml.Table,
    key: str,
    hands: tuple[str, ...],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> NumberRows:
    """Return the rows under `key` ('value' or 'out'), or without that key an identity matrix.

    In the identity each of the names in `hands` has a 1 in the column of the same name; refuses a
    name that is not in both `rows` and `columns`.
    """
    if key in table.values:
        return _rows(table.table(key), columns, rows)
    for name in hands:
        if name not in rows or name not in columns:
            raise table.error(
                f"'{name}' is handed on, and there is no dimension of that name",
                f"say with [heads.{key}] what it is, or hand on one of: "
                f"{', '.join(columns if key == 'out' else rows)}",
                "hands",
            )
    return {name: {name: 1.0} for name in hands}


def _by_layer(heads: Sequence[WrittenHead]) -> HeadsByLayer:
    """Return the heads of each layer, from layer 0 on.

    Refuses layers with different numbers of heads, and heads whose `asks` or `hands` have another
    number of names than those of the first head.
    """
    first, count = heads[0], 1 + max(head.layer for head in heads)
    layers = [[head for head in heads if head.layer == number] for number in range(count)]
    for number, layer in enumerate(layers):
        if len(layer) != len(layers[-1]):
            raise layers[-1][0].table.error(
                f"layer {number} has {counted(len(layer), 'head')}, and layer {count - 1} has "
                f"{len(layers[-1])}",
                "give every layer the same number of heads; layers count from 0",
                "layer",
            )
    for head in heads:
        for key in ("asks", "hands"):
            width, names = len(getattr(first, key)), len(getattr(head, key))
            if names != width:
                raise head.table.error(
                    f"'{key}' has {counted(names, 'name')}, but that of the first head has {width}",
                    "give all heads of a model the same width",
                    key,
                )
    return layers


def _model_settings(table: toml.Table, layers: HeadsByLayer, dim: int) -> Settings:
    """Return the settings in the file with the `heads`, `head_dim` and `dim` that its heads imply.

    With several layers, or `layers` in the file, each layer is a block of attention only, without
    norms; refuses a `layers` other than the number of layers that have heads.
    """
    heads, count = layers[0], table.values.get("layers", len(layers))
    blocks = {"layers": count, "norm": "none", "attention_only": True}
    settings = table.settings(
        SETTING_DESCRIPTIONS,
        Settings(),
        heads=len(heads),
        head_dim=len(heads[0].asks),
        dim=dim,
        **(blocks if "layers" in table.values or len(layers) > 1 else {}),
    )
    if count != len(layers):
        problem = f"'layers' is {count}, but heads are given for {len(layers)}"
        raise table.error(problem, "leave it out, or give each of them heads", "layers")
    return settings


def _words_and_spellings(whole: toml.Table) -> Vocabulary:
    """Return the vocabulary: the words of [words], and other spellings of them in [spelled].

    Refuses a file without words, a word that is not exactly one token of the file's tokenizer, and
    a spelling of an unknown word.
    """
    words, spelled = whole.table("words"), whole.table("spelled")
    tokenizer = whole.values.get("tokenizer", TOKENIZER_CHOICES[0])
    if not words.values:
        raise words.error("there are no words", "write [words], and: dog = { animal = 1 }")
    for table in (words, spelled):
        for word in table.values:
            _refuse_many_tokens(table, word, tokenizer)
    for word, known_word in spelled.values.items():
        spelled.refuse_misfit(word, toml.TEXT_TYPE)
        spelled.refuse_unknown("word", known_word, words.values, word, from_file=True)
    return Vocabulary(tokenizer=tokenizer, words=tuple(words.values), spelled=dict(spelled.values))


def _refuse_many_tokens(table: toml.Table, word: str, tokenizer: str) -> None:
    """Refuse a word that is not exactly one token, such as a blank; the error points to `table`."""
    tokens = tokenize(word, tokenizer).labels if word.strip() else ()
    if tokens != (word,):
        problem = f"is cut into {len(tokens)} tokens" if tokens else "is empty"
        hint = f"give words that are one token for tokenizer = '{tokenizer}'"
        raise table.error(f"'{word}' {problem}", hint, word)
