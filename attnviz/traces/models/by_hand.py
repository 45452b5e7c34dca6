"""A model that somebody wrote by hand: words, numbers that mean something, and heads.

docs/models.md has a file with every key explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import TOKENIZERS, tokenize
from attnviz.traces import texts
from attnviz.traces.facts import fits
from attnviz.traces.lined import LinedFile, in_keys
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model
from attnviz.traces.models.sight import SEES, Sight
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.models.written import Part, Rows, is_number
from attnviz.traces.settings import Settings
from attnviz.wording.words import counted

KEYS = ("about", "tokenizer", "dimensions", "words", "spelled", "settings", "heads")
OF_HEAD = (
    *("does", "layer", "asks", "hands", "sees", "itself", "near"),
    *("query", "key", "value", "out"),
)
SETTINGS = {  # and what each is
    "scale": "true or false",
    "temperature": "a number, such as 0.5",
    "soft_cap": "a number, such as 50",
    "layers": "a whole number, such as 2",
}
HEAD = "[[heads]]"
HIGHEST_LAYER = 99
MOST_NUMBERS = 10_000_000  # of all its matrices, most of them 0 and not written
BY_WORDS = ("words", *(name for name in TOKENIZERS if name != "words"))  # the first by default


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head, as it is written."""

    part: Part  # of the file
    layer: int
    does: str  # in a sentence
    asks: tuple[str, ...]  # what the numbers of its queries and keys mean,
    hands: tuple[str, ...]  # and those of its values
    query: Rows  # of dimensions: by what it asks for
    key: Rows
    value: Rows  # by what it hands on
    out: Rows  # of what it hands on: by dimension
    sight: Sight


Layers = Sequence[Sequence[Head]]


def read(path: Path) -> Model:
    """The model of a file."""
    file = LinedFile(path, texts.read(path, "model"))
    whole = Part(file, texts.toml(file.text, str(path)))
    for key in whole.table:
        whole.refuse_unknown("key", key, KEYS)
    dimensions = whole.names("dimensions")
    words = whole.part("words").rows(dimensions)
    _refuse_many(len(words) * len(dimensions), whole.part("words"))
    layers = _layers(list(_heads(whole, dimensions)))
    named = {
        f"L{layer}H{number}": head
        for layer, heads in enumerate(layers)
        for number, head in enumerate(heads)
    }
    return Model(
        name=path.stem,
        about=whole.text("about"),
        settings=_settings(whole, layers, len(dimensions)),
        vocabulary=_vocabulary(whole),
        embeddings=_matrix(words, tuple(words), dimensions),
        matrices=_matrices(layers, dimensions),
        unembedding=None,
        dimensions=dimensions,
        heads={name: head.does for name, head in named.items()},
        asks={name: head.asks for name, head in named.items()},
        hands={name: head.hands for name, head in named.items()},
        sights=tuple(tuple(head.sight for head in heads) for heads in layers),
    )


def _matrices(layers: Layers, dimensions: tuple[str, ...]) -> Matrices:
    """Those of the heads of each layer side by side."""
    first, *above = (
        Matrices(
            w_query=torch.cat([_matrix(h.query, dimensions, h.asks) for h in heads], dim=1),
            w_key=torch.cat([_matrix(h.key, dimensions, h.asks) for h in heads], dim=1),
            w_value=torch.cat([_matrix(h.value, dimensions, h.hands) for h in heads], dim=1),
            w_out=torch.cat([_matrix(h.out, h.hands, dimensions) for h in heads]),
        )
        for heads in layers
    )
    return replace(first, above=tuple(above))


def _matrix(
    rows: Rows, names: Sequence[str], columns: Sequence[str]
) -> Float[Tensor, "row column"]:
    """What is not written is 0."""
    found = torch.zeros(len(names), len(columns))
    places = {name: place for place, name in enumerate(columns)}
    for place, name in enumerate(names):
        for column, number in rows.get(name, {}).items():
            found[place, places[column]] = float(number)
    return found


def _heads(whole: Part, dimensions: tuple[str, ...]) -> Iterator[Head]:
    tables = whole.table.get("heads", [])
    are_tables = isinstance(tables, list) and all(isinstance(each, dict) for each in tables)
    whole.refuse_unless(are_tables, "heads", f"a list of tables: write {HEAD} for each")
    if not tables:
        hint = f"write {HEAD}, and below it what it asks for and what it hands on"
        raise whole.error("", "there are no heads", hint)
    numbers = 0
    for number, table in enumerate(tables):
        head = _head(Part(whole.file, table, HEAD, number), dimensions)
        numbers += 2 * len(dimensions) * (len(head.asks) + len(head.hands))
        _refuse_many(numbers, head.part)
        yield head


def _refuse_many(numbers: int, part: Part) -> None:
    """Refuse matrices that are far larger than what is written of them."""
    if numbers > MOST_NUMBERS:
        raise part.error(
            "",
            f"the matrices have {numbers:,} numbers up to here",
            f"a model that is written by hand has at most {MOST_NUMBERS:,}",
        )


def _head(part: Part, dimensions: tuple[str, ...]) -> Head:
    for key in part.table:
        part.refuse_unknown("key of a head", key, OF_HEAD)
    asks, hands = part.names("asks"), part.names("hands")
    _refuse_many(2 * len(dimensions) * (len(asks) + len(hands)), part)
    sees: Any = part.one_of("sees", SEES)
    return Head(
        part=part,
        layer=part.whole("layer", 0, HIGHEST_LAYER),
        does=part.text("does"),
        asks=asks,
        hands=hands,
        query=part.part("query").rows(asks, dimensions),
        key=part.part("key").rows(asks, dimensions),
        value=_handed(part, "value", hands, dimensions, hands),
        out=_handed(part, "out", hands, hands, dimensions),
        sight=Sight(sees=sees, itself=_itself(part), near=part.number_from_0("near")),
    )


def _itself(part: Part) -> float | None:
    """What is added where a word reads itself; None, where it may not."""
    value = part.table.get("itself", True)
    wanted = "true, false, or a number from 0, such as 5"
    part.refuse_unless(isinstance(value, bool) or is_number(value, 0), "itself", wanted)
    if isinstance(value, bool):
        return 0.0 if value else None
    return float(value)


def _handed(
    part: Part, key: str, hands: tuple[str, ...], rows: tuple[str, ...], columns: tuple[str, ...]
) -> Rows:
    """What a head hands on, as it is written; else every dimension of the same name as it is."""
    if key in part.table:
        return part.part(key).rows(columns, rows)
    for name in hands:
        if name not in rows or name not in columns:
            raise part.error(
                "hands",
                f"'{name}' is handed on, and there is no dimension of that name",
                f"say with [heads.{key}] what it is, or hand on one of: "
                f"{', '.join(columns if key == 'out' else rows)}",
            )
    return {name: {name: 1.0} for name in hands}


def _layers(heads: Sequence[Head]) -> Layers:
    """The heads of each layer, as many and as wide in one as in the others."""
    first, count = heads[0], 1 + max(head.layer for head in heads)
    layers = [[head for head in heads if head.layer == number] for number in range(count)]
    for number, each in enumerate(layers):
        if len(each) != len(layers[-1]):
            raise layers[-1][0].part.error(
                "layer",
                f"layer {number} has {counted(len(each), 'head')}, and layer {count - 1} has "
                f"{len(layers[-1])}",
                "give every layer the same number of heads; layers count from 0",
            )
    for head in heads:
        for key in ("asks", "hands"):
            wanted, found = len(getattr(first, key)), len(getattr(head, key))
            if found != wanted:
                raise head.part.error(
                    key,
                    f"'{key}' has {counted(found, 'name')}, but that of the first head has "
                    f"{wanted}",
                    "give all heads of a model the same width",
                )
    return layers


def _settings(whole: Part, layers: Layers, dim: int) -> Settings:
    """What the file chooses, and what its heads come to; several layers are blocks."""
    part, hints = whole.part("settings"), get_type_hints(Settings)
    for key, value in part.table.items():
        part.refuse_unknown("setting", key, SETTINGS)
        part.refuse_unless(fits(value, hints[key]), key, SETTINGS[key])
    chosen: dict[str, Any] = dict(part.table)
    if len(layers) > 1:
        chosen.setdefault("layers", len(layers))
    if "layers" in chosen and chosen["layers"] != len(layers):
        problem = f"'layers' is {chosen['layers']}, but heads are given for {len(layers)}"
        raise part.error("layers", problem, "leave it out, or give each of them heads")
    if "layers" in chosen:
        chosen |= {"norm": "none", "attention_only": True}
    heads = layers[0]
    try:
        return Settings(heads=len(heads), head_dim=len(heads[0].asks), dim=dim, **chosen)
    except AttnvizError as error:
        told = in_keys(error)
        raise part.error(error.about, str(told), told.hint) from None


def _vocabulary(whole: Part) -> Vocabulary:
    """The words, each of which must be one piece of a text to be found in it."""
    words, spelled = whole.part("words"), whole.part("spelled")
    tokenizer = whole.one_of("tokenizer", BY_WORDS)
    if not words.table:
        raise words.error("", "there are no words", "write [words], and: dog = { animal = 1 }")
    for part in (words, spelled):
        for word in part.table:
            _refuse_pieces(part, word, tokenizer)
    for word, meant in spelled.table.items():
        spelled.refuse_unless(isinstance(meant, str), word, "a word in quotes")
        spelled.refuse_unknown("word", meant, words.table, word)
    return Vocabulary(tokenizer=tokenizer, words=tuple(words.table), spelled=dict(spelled.table))


def _refuse_pieces(part: Part, word: str, tokenizer: str) -> None:
    pieces = tokenize(word, tokenizer).labels if word.strip() else ()
    if pieces != (word,):
        told = f"is cut into {' and '.join(pieces)}" if pieces else "is empty"
        raise part.error(
            word, f"'{word}' {told}", f"give words that are one token for tokenizer = '{tokenizer}'"
        )
