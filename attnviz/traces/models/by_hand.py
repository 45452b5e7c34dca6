"""Models written by hand as TOML: words, numbers with meanings, and heads.

docs/models.md has a file with every key explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError, unknown
from attnviz.tokens.tokenizers import TOKENIZERS, tokenize
from attnviz.traces import texts
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import SEES, Model, Sight
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.traces.texts import LinedFile, fits, in_keys, line_of
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


Row = Mapping[str, float]  # a number of each thing that has a name
Rows = Mapping[str, Row]

LARGEST = 1e30  # float32 holds what is made of it
MOST_NAMES = 10_000  # in a list


@dataclass(frozen=True)
class Part:
    """A table of the file: the whole of it, or one of several that have the same heading."""

    file: LinedFile
    table: Mapping[str, Any]
    heading: str = ""
    number: int = 0
    within: tuple[str, ...] = ()  # headings of tables in it, after that of it

    def line(self, key: str) -> int | None:
        """The line of a key of this table."""
        start = self.file.line("", self.heading, self.number) if self.heading else 1
        if start is None:
            return None
        lines = self.file.lines[start - 1 :]
        for heading in self.within:
            place = next((n for n, line in enumerate(lines) if line.strip() == heading), None)
            if place is not None:
                start, lines = start + place, lines[place:]
        found = line_of("\n".join(lines), key) or _line_of_heading(lines, key)
        return start if found is None else start + found - 1

    def error(self, key: str, problem: str, hint: str) -> AttnvizError:
        return self.file.error(problem, hint, self.line(key))

    def refuse_unknown(self, kind: str, name: str, known: Collection[str], key: str = "") -> None:
        """Refuse a name that is none of those that are known; it is, or stands behind, a key."""
        if name not in known:
            error = unknown(kind, name, known)
            raise self.error(key or name, str(error), error.hint)

    def refuse_unless(self, fits: bool, key: str, wanted: str) -> None:
        """Refuse a value of another kind than is wanted."""
        if not fits:
            raise self.error(key, f"'{key}' is not {wanted}", "change its value")

    def text(self, key: str) -> str:
        value = self.table.get(key, "")
        self.refuse_unless(isinstance(value, str), key, "text in quotes")
        return str(value).strip()

    def one_of(self, key: str, known: Sequence[str]) -> str:
        """One word of several, of which the first is what is meant where none is given."""
        value = self.table.get(key, known[0])
        self.refuse_unless(value in known, key, f"one of {', '.join(known)}")
        return str(value)

    def whole(self, key: str, default: int, most: int) -> int:
        value = self.table.get(key, default)
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        self.refuse_unless(fits, key, f"a whole number from 0 to {most}")
        return int(value)

    def number_from_0(self, key: str) -> float:
        value = self.table.get(key, 0.0)
        self.refuse_unless(is_number(value, 0), key, "a number from 0, such as 0.5")
        return float(value)

    def names(self, key: str) -> tuple[str, ...]:
        """Names, of which no two are alike."""
        value = self.table.get(key)
        wanted = f'{key} = ["animal", "place"]'
        if value is None:
            raise self.error("", f"there is no '{key}'", f"write {wanted}")
        words = isinstance(value, list) and all(isinstance(each, str) and each for each in value)
        self.refuse_unless(words and bool(value), key, f"a list of names: {wanted}")
        if len(value) > MOST_NAMES:
            problem = f"'{key}' has {len(value):,} names"
            raise self.error(key, problem, f"give at most {MOST_NAMES:,}")
        twice, times = Counter(value).most_common(1)[0]
        if times > 1:
            raise self.error(key, f"'{twice}' is in '{key}' twice", "leave one of them out")
        return tuple(value)

    def part(self, key: str) -> Part:
        """A table that is in this one; of one that is not there nothing is given."""
        value = self.table.get(key, {})
        heading = f"[{self.heading.strip('[]')}.{key}]" if self.heading else f"[{key}]"
        self.refuse_unless(isinstance(value, dict), key, f"a table: write {heading}")
        if not self.heading:
            return Part(self.file, value, heading)
        return Part(self.file, value, self.heading, self.number, (*self.within, heading))

    def rows(self, columns: Collection[str], known: Collection[str] = ()) -> Rows:
        """A row of numbers for each key: one of those that are known, if that is said."""
        columns, known = dict.fromkeys(columns), dict.fromkeys(known)  # where a name is found fast
        for key, row in self.table.items():
            if known:
                self.refuse_unknown("row", key, known)
            wanted = 'a table of numbers: { animal = 1, "refers back" = 0.5 }'
            self.refuse_unless(isinstance(row, dict), key, wanted)
            for name, number in row.items():
                self.refuse_unknown("column", name, columns, key)
                self.refuse_unless(is_number(number), key, wanted)
        return self.table


def _line_of_heading(lines: Sequence[str], key: str) -> int | None:
    """The line, from 1, of the heading that a table has by itself."""
    headings = (f"[{key}]", f"[[{key}]]")
    return next((n for n, line in enumerate(lines, start=1) if line.strip() in headings), None)


def is_number(value: Any, least: float = -LARGEST) -> bool:
    """Whether it is a number that float32 has room for; true and false are none."""
    there = isinstance(value, int | float) and not isinstance(value, bool)
    return there and least <= value <= LARGEST
