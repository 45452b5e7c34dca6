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

from attnviz.errors import AttnvizError, warn_with_note
from attnviz.tokens.gpt2 import byte_spelling
from attnviz.tokens.tokens import Tokens, piece_phrase
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import quiet_transformers, reporting_load_errors
from attnviz.wording.words import counted

IdSequence = Sequence[int]
Span = tuple[int, int]
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE_MARK, CONTINUATION_MARK, WORD_END_MARK = (
    "▁",
    "##",
    "</w>",
)  # of SentencePiece, WordPiece, and the first BPE


@dataclass(frozen=True)
class ModelPiece:
    """A token: what it stands for, and what people see of it."""

    id: int
    letters: bytes
    spaced: bool
    label: str
    special: bool = False


@cache
def tokenizer_spelling(tokenizer: Any) -> TokenizerSpelling:
    """How a tokenizer writes its tokens: looked up once."""
    return TokenizerSpelling(tokenizer)


class TokenizerSpelling:
    """How one tokenizer writes its tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def backend_description(self) -> str:
        """What it says of how it cuts a text up, and puts it together again."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return f"{getattr(backend, 'decoder', '')} {getattr(backend, 'pre_tokenizer', '')}"

    @property
    def byte_level(self) -> bool:
        """Whether its letters stand for bytes."""
        return "ByteLevel" in self.backend_description

    @cached_property
    def bytes_of(self) -> Mapping[str, int]:
        """Each letter that stands for a byte."""
        return {letter: byte for byte, letter in byte_spelling().items()}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no letters; an id that does, as that of [MASK], is read as a word."""
        tokenizer = self.tokenizer
        readable_ids = {tokenizer.mask_token_id, self.unknown_id}
        return frozenset(tokenizer.all_special_ids) - readable_ids

    @cached_property
    def unknown_id(self) -> int | None:
        """The id of a word that is not known; some vocabularies give it to an end, too."""
        tokenizer, unknown_id = self.tokenizer, self.tokenizer.unk_token_id
        other_ids = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return None if unknown_id in other_ids else unknown_id

    @cached_property
    def added_tokens(self) -> Mapping[int, str]:
        """Tokens beside the vocabulary, which are written as they are."""
        return {
            number: added_token.content
            for number, added_token in self.tokenizer.added_tokens_decoder.items()
        }

    def pieces_of_text(self, text: str, encoding: Mapping[str, Any]) -> list[ModelPiece]:
        """The tokens of a text, in its letters."""
        ids = encoding["input_ids"]
        spans = encoding.get("offset_mapping") or [(0, 0)] * len(ids)
        marks = encoding["special_tokens_mask"]
        words = self.tokenizer.convert_ids_to_tokens(ids)
        parts = zip(ids, words, spans, marks, strict=True)
        return _mark_pieces_after_spaces(
            self._special_piece(number)
            if mark == 1 or number in self.special_ids
            else self._piece_in_text(number, word, text, span)
            for number, word, span, mark in parts
        )

    def pieces_of_ids(self, ids: IdSequence) -> list[ModelPiece]:
        """Tokens that stand in no text, as far as they tell what they stand for themselves."""
        words = self.tokenizer.convert_ids_to_tokens(list(ids))
        pairs = zip(ids, words, strict=True)
        return _mark_pieces_after_spaces(
            self._piece_without_text(number, word) for number, word in pairs
        )

    def _piece_without_text(self, number: int, word: str | None) -> ModelPiece:
        """A token; many models have more rows than their tokenizer has words: they are numbered."""
        if word is None:
            label = f"⟨id {number}⟩"
            return ModelPiece(number, label.encode(), True, label)
        return (
            self._special_piece(number)
            if number in self.special_ids
            else self._piece_as_spelled(number, word)
        )

    def _special_piece(self, number: int) -> ModelPiece:
        word = str(self.tokenizer.convert_ids_to_tokens(number))
        return ModelPiece(number, word.encode(), True, piece_phrase(word.encode()), special=True)

    def _piece_in_text(self, number: int, word: str, text: str, span: Span) -> ModelPiece:
        start, end = span
        if start == end or self._is_in_bytes(number, word):
            return self._piece_as_spelled(number, word)
        letters = text[start:end].encode(errors="replace")
        spaced = start == 0 or text[start - 1].isspace() or text[start].isspace()
        label = word if number == self.unknown_id else piece_phrase(letters)
        return ModelPiece(number, letters, spaced, label)

    def _is_in_bytes(self, number: int, word: str) -> bool:
        """Whether a token says exactly which bytes it is, maybe not even a whole letter."""
        return number not in self.added_tokens and (
            self.byte_level or bool(BYTE_TOKEN.fullmatch(word))
        )

    def _piece_as_spelled(self, number: int, word: str) -> ModelPiece:
        letters = self._letters(number, word)
        may_begin_word = not (
            self.byte_level
            or SPACE_MARK in self.backend_description
            or word.startswith(CONTINUATION_MARK)
        )
        spaced = letters[:1].isspace() or (may_begin_word and BYTE_TOKEN.fullmatch(word) is None)
        return ModelPiece(number, letters, spaced, piece_phrase(letters))

    def _letters(self, number: int, word: str) -> bytes:
        if number in self.added_tokens:
            return self.added_tokens[number].encode()
        if self.byte_level:
            bytes_by_letter = self.bytes_of
            return b"".join(
                bytes([bytes_by_letter[letter]]) if letter in bytes_by_letter else letter.encode()
                for letter in word
            )
        byte = BYTE_TOKEN.fullmatch(word)
        if byte:
            return bytes([int(byte[1], 16)])
        return (
            word.removeprefix(CONTINUATION_MARK)
            .removesuffix(WORD_END_MARK)
            .replace(SPACE_MARK, " ")
            or " "
        ).encode()


def tokens_of_pieces(text: str, pieces: Sequence[ModelPiece]) -> Tokens:
    """The pieces that a text was cut into."""
    return Tokens(
        text,
        tuple(piece.letters for piece in pieces),
        tuple(piece.id for piece in pieces),
        tuple(piece.spaced for piece in pieces),
        tuple(piece.label for piece in pieces),
        frozenset(position for position, piece in enumerate(pieces) if piece.special),
    )


def _mark_pieces_after_spaces(pieces: Iterable[ModelPiece]) -> list[ModelPiece]:
    """White space may be a token of its own, and stands before the next one."""
    marked_pieces, is_after_space = [], False
    for piece in pieces:
        marked_pieces.append(replace(piece, spaced=piece.spaced or is_after_space))
        is_after_space = piece.letters[-1:].isspace()
    return marked_pieces


IdTuple = tuple[int, ...]


def cut_text(
    model: LoadedTransformer, text: str, *, truncate: bool = False, room: int = 0
) -> Tokens:
    """The tokens of a text, with those that the model's tokenizer adds around it.

    There has to be `room` for so many that the model will add to them.
    """
    encoding = _encode_text(model, text)
    positions = max_token_count(model)
    longest = None if positions is None else positions - room
    if longest is not None and len(encoding["input_ids"]) > longest:
        if not truncate or longest < 1:
            raise _long_text_error(model, len(encoding["input_ids"]), room)
        lost_count = len(encoding["input_ids"]) - longest
        encoding = _encode_text(model, text, truncation=True, max_length=longest)
        warn_with_note(f"left out {counted(lost_count, 'token')} at the end")
    return tokens_of_pieces(
        text, tokenizer_spelling(model.tokenizer).pieces_of_text(text, encoding)
    )


def tokens_of_ids(
    model: LoadedTransformer, ids: IdTuple, beginning: Tokens | None = None
) -> Tokens:
    """Tokens of ids that a model wrote, after those of a text where it goes on with one."""
    spelling = tokenizer_spelling(model.tokenizer)
    beginning_length = 0 if beginning is None else len(beginning)
    _refuse_long_decoder_text(model, len(ids))
    pieces = spelling.pieces_of_ids(ids)[beginning_length:]
    if beginning is None:
        text = model.tokenizer.decode(ids, skip_special_tokens=True)
        return tokens_of_pieces(text, pieces)
    added = tokens_of_pieces(beginning.text, pieces)
    return Tokens(
        beginning.text,
        beginning.pieces + added.pieces,
        ids,
        beginning.spaced + added.spaced,
        beginning.words + added.words,
        beginning.special | frozenset(position + beginning_length for position in added.special),
    )


def max_token_count(model: LoadedTransformer) -> int | None:
    """How many tokens a model has positions for; None where any number will do."""
    config_value = getattr(model.text_config, "max_position_embeddings", None)
    longest = config_value if isinstance(config_value, int) and config_value > 0 else None
    for name, module in model.model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            # RoBERTa and its kin count from the place after that of padding.
            return int(module.num_embeddings - padding - 1)
    return longest


@contextmanager
def reporting_tokenizer_errors(model: LoadedTransformer) -> Iterator[None]:
    """While the model's tokenizer cuts a text up, which one that is damaged cannot do."""
    with quiet_transformers(), reporting_load_errors(ModelLocation(model.name, None), "text"):
        yield


def _encode_text(model: LoadedTransformer, text: str, **limits: Any) -> Any:
    with reporting_tokenizer_errors(model):
        return model.tokenizer(
            text,
            return_offsets_mapping=model.tokenizer.is_fast,
            return_special_tokens_mask=True,
            verbose=False,
            **limits,
        )


def _refuse_long_decoder_text(model: LoadedTransformer, count: int) -> None:
    longest = max_token_count(model)
    if longest is not None and count > longest:
        raise AttnvizError(
            f"the decoder would read {counted(count, 'token')}, but the model '{model.name}' only "
            f"has positions for {longest}",
            "give a shorter --target, or a smaller --generate",
            about="target",
        )


def _long_text_error(model: LoadedTransformer, count: int, room: int) -> AttnvizError:
    more = f", and {room} to be added" if room else ""
    return AttnvizError(
        f"the text has {counted(count, 'token')}{more}, but the model '{model.name}' only has "
        f"positions for {max_token_count(model)}",
        "give a smaller --generate, or a shorter text"
        if room
        else "give a shorter text, or cut off its end with --truncate",
        about="truncate",
    )
