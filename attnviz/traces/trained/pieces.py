"""Cuts a text into a model's own tokens, each with the characters that it stands for.

Vocabularies write a space as Ġ or ▁, the rest of a word with ## before it, and the bytes of what
they do not know as <0xE2>, or as letters that stand for bytes. People see what was in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from attnviz.errors import AttnvizError, mention
from attnviz.tokens.gpt2 import spelled
from attnviz.tokens.tokens import Tokens, phrase
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.place import Place
from attnviz.traces.trained.refusals import quietly, refused
from attnviz.wording.words import counted

Ids = Sequence[int]
Span = tuple[int, int]
A_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE, REST, END = "▁", "##", "</w>"  # of SentencePiece, WordPiece, and the first BPE


@dataclass(frozen=True)
class Piece:
    """A token: what it stands for, and what people see of it."""

    id: int
    letters: bytes
    spaced: bool
    label: str
    special: bool = False


@cache
def spelling_of(tokenizer: Any) -> Spelling:
    """How a tokenizer writes its tokens: looked up once."""
    return Spelling(tokenizer)


class Spelling:
    """How one tokenizer writes its tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def told(self) -> str:
        """What it says of how it cuts a text up, and puts it together again."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return f"{getattr(backend, 'decoder', '')} {getattr(backend, 'pre_tokenizer', '')}"

    @property
    def byte_level(self) -> bool:
        """Whether its letters stand for bytes."""
        return "ByteLevel" in self.told

    @cached_property
    def bytes_of(self) -> Mapping[str, int]:
        """Each letter that stands for a byte."""
        return {letter: byte for byte, letter in spelled().items()}

    @cached_property
    def special(self) -> frozenset[int]:
        """Ids that stand for no letters; an id that does, as that of [MASK], is read as a word."""
        tokenizer = self.tokenizer
        read = {tokenizer.mask_token_id, self.unknown}
        return frozenset(tokenizer.all_special_ids) - read

    @cached_property
    def unknown(self) -> int | None:
        """The id of a word that is not known; some vocabularies give it to an end, too."""
        tokenizer, found = self.tokenizer, self.tokenizer.unk_token_id
        others = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return None if found in others else found

    @cached_property
    def added(self) -> Mapping[int, str]:
        """Tokens beside the vocabulary, which are written as they are."""
        return {
            number: each.content for number, each in self.tokenizer.added_tokens_decoder.items()
        }

    def read(self, text: str, found: Mapping[str, Any]) -> list[Piece]:
        """The tokens of a text, in its letters."""
        ids = found["input_ids"]
        spans = found.get("offset_mapping") or [(0, 0)] * len(ids)
        marks = found["special_tokens_mask"]
        words = self.tokenizer.convert_ids_to_tokens(ids)
        told = zip(ids, words, spans, marks, strict=True)
        return _after_spaces(
            self._special(number)
            if mark == 1 or number in self.special
            else self._read(number, word, text, span)
            for number, word, span, mark in told
        )

    def written(self, ids: Ids) -> list[Piece]:
        """Tokens that stand in no text, as far as they tell what they stand for themselves."""
        words = self.tokenizer.convert_ids_to_tokens(list(ids))
        told = zip(ids, words, strict=True)
        return _after_spaces(self._alone(number, word) for number, word in told)

    def _alone(self, number: int, word: str | None) -> Piece:
        """A token; many models have more rows than their tokenizer has words: they are numbered."""
        if word is None:
            label = f"⟨id {number}⟩"
            return Piece(number, label.encode(), True, label)
        return self._special(number) if number in self.special else self._written(number, word)

    def _special(self, number: int) -> Piece:
        word = str(self.tokenizer.convert_ids_to_tokens(number))
        return Piece(number, word.encode(), True, phrase(word.encode()), special=True)

    def _read(self, number: int, word: str, text: str, span: Span) -> Piece:
        start, end = span
        if start == end or self._in_bytes(number, word):
            return self._written(number, word)
        letters = text[start:end].encode(errors="replace")
        spaced = start == 0 or text[start - 1].isspace() or text[start].isspace()
        label = word if number == self.unknown else phrase(letters)
        return Piece(number, letters, spaced, label)

    def _in_bytes(self, number: int, word: str) -> bool:
        """Whether a token says exactly which bytes it is, maybe not even a whole letter."""
        return number not in self.added and (self.byte_level or bool(A_BYTE.fullmatch(word)))

    def _written(self, number: int, word: str) -> Piece:
        letters = self._letters(number, word)
        begins = not (self.byte_level or SPACE in self.told or word.startswith(REST))
        spaced = letters[:1].isspace() or (begins and A_BYTE.fullmatch(word) is None)
        return Piece(number, letters, spaced, phrase(letters))

    def _letters(self, number: int, word: str) -> bytes:
        if number in self.added:
            return self.added[number].encode()
        if self.byte_level:
            known = self.bytes_of
            return b"".join(
                bytes([known[each]]) if each in known else each.encode() for each in word
            )
        byte = A_BYTE.fullmatch(word)
        if byte:
            return bytes([int(byte[1], 16)])
        return (word.removeprefix(REST).removesuffix(END).replace(SPACE, " ") or " ").encode()


def in_tokens(text: str, pieces: Sequence[Piece]) -> Tokens:
    """The pieces that a text was cut into."""
    return Tokens(
        text,
        tuple(each.letters for each in pieces),
        tuple(each.id for each in pieces),
        tuple(each.spaced for each in pieces),
        tuple(each.label for each in pieces),
        frozenset(place for place, each in enumerate(pieces) if each.special),
    )


def _after_spaces(pieces: Iterable[Piece]) -> list[Piece]:
    """White space may be a token of its own, and stands before the next one."""
    found, space = [], False
    for each in pieces:
        found.append(replace(each, spaced=each.spaced or space))
        space = each.letters[-1:].isspace()
    return found


IdTuple = tuple[int, ...]


def cut(model: Loaded, text: str, *, truncate: bool = False, room: int = 0) -> Tokens:
    """The tokens of a text, with those that the model's tokenizer adds around it.

    There has to be `room` for so many that the model will add to them.
    """
    found = _cut(model, text)
    positions = positions_of(model)
    longest = None if positions is None else positions - room
    if longest is not None and len(found["input_ids"]) > longest:
        if not truncate or longest < 1:
            raise _too_long(model, len(found["input_ids"]), room)
        lost = len(found["input_ids"]) - longest
        found = _cut(model, text, truncation=True, max_length=longest)
        mention(f"left out {counted(lost, 'token')} at the end")
    return in_tokens(text, spelling_of(model.tokenizer).read(text, found))


def tokens_of_ids(model: Loaded, ids: IdTuple, beginning: Tokens | None = None) -> Tokens:
    """Tokens of ids that a model wrote, after those of a text where it goes on with one."""
    spelling = spelling_of(model.tokenizer)
    known = 0 if beginning is None else len(beginning)
    _refuse_too_many(model, len(ids))
    pieces = spelling.written(ids)[known:]
    if beginning is None:
        text = model.tokenizer.decode(ids, skip_special_tokens=True)
        return in_tokens(text, pieces)
    added = in_tokens(beginning.text, pieces)
    return Tokens(
        beginning.text,
        beginning.pieces + added.pieces,
        ids,
        beginning.spaced + added.spaced,
        beginning.words + added.words,
        beginning.special | frozenset(place + known for place in added.special),
    )


def positions_of(model: Loaded) -> int | None:
    """How many tokens a model has positions for; None where any number will do."""
    said = getattr(model.text_config, "max_position_embeddings", None)
    longest = said if isinstance(said, int) and said > 0 else None
    for name, module in model.model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            # RoBERTa and its kin count from the place after that of padding.
            return int(module.num_embeddings - padding - 1)
    return longest


@contextmanager
def tokenizing(model: Loaded) -> Iterator[None]:
    """While the model's tokenizer cuts a text up, which one that is damaged cannot do."""
    with quietly(), refused(Place(model.name, None), "text"):
        yield


def _cut(model: Loaded, text: str, **limits: Any) -> Any:
    with tokenizing(model):
        return model.tokenizer(
            text,
            return_offsets_mapping=model.tokenizer.is_fast,
            return_special_tokens_mask=True,
            verbose=False,
            **limits,
        )


def _refuse_too_many(model: Loaded, count: int) -> None:
    longest = positions_of(model)
    if longest is not None and count > longest:
        raise AttnvizError(
            f"the decoder would read {counted(count, 'token')}, but the model '{model.name}' only "
            f"has positions for {longest}",
            "give a shorter --target, or a smaller --generate",
            about="target",
        )


def _too_long(model: Loaded, count: int, room: int) -> AttnvizError:
    more = f", and {room} to be added" if room else ""
    return AttnvizError(
        f"the text has {counted(count, 'token')}{more}, but the model '{model.name}' only has "
        f"positions for {positions_of(model)}",
        "give a smaller --generate, or a shorter text"
        if room
        else "give a shorter text, or cut off its end with --truncate",
        about="truncate",
    )
