"""Cuts a text into a model's own tokens, each with the characters it stands for.

Vocabularies write a space as Ġ or ▁, a continuation of a word with ## before it, and bytes as
<0xE2> or as letters that stand for bytes. Labels show the characters of the text instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from attnviz.errors import AttnvizError, opt, warn_with_note
from attnviz.tokens.gpt2 import byte_spelling
from attnviz.tokens.tokenizer_limits import within_limit
from attnviz.tokens.tokens import Tokens, piece_phrase
from attnviz.traces.trained.conversation import Role, fill_in_conversation
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import (
    quiet_transformers,
    reporting_load_errors,
)
from attnviz.wording.words import counted

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Of SentencePiece, WordPiece, and the first BPE:
SPACE_MARK, CONTINUATION_MARK, WORD_END_MARK = "▁", "##", "</w>"


@dataclass(frozen=True)
class ModelPiece:
    """A token of a model: its id, the characters that it stands for, and its label."""

    id: int
    letters: bytes
    spaced: bool
    label: str
    special: bool = False


class TokenizerSpelling:
    """How one tokenizer spells its tokens, to turn them back into characters."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def backend_description(self) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return f"{getattr(backend, 'decoder', '')} {getattr(backend, 'pre_tokenizer', '')}"

    @property
    def byte_level(self) -> bool:
        return "ByteLevel" in self.backend_description

    @cached_property
    def bytes_of(self) -> Mapping[str, int]:
        return {letter: byte for byte, letter in byte_spelling().items()}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of tokens that stand for no text; [MASK] and unknown words stand for some."""
        tokenizer = self.tokenizer
        added = tokenizer.added_tokens_decoder
        special = {number for number, token in added.items() if token.special}
        special.update(tokenizer.all_special_ids)
        return frozenset(special) - {tokenizer.mask_token_id, self.unknown_id}

    @cached_property
    def unknown_id(self) -> int | None:
        """The id of an unknown word; None if it is also that of a start, end or padding token."""
        tokenizer, unknown_id = self.tokenizer, self.tokenizer.unk_token_id
        other_ids = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return None if unknown_id in other_ids else unknown_id

    @cached_property
    def added_tokens(self) -> Mapping[int, str]:
        added = self.tokenizer.added_tokens_decoder
        return {number: token.content for number, token in added.items()}

    def pieces_of_text(self, text: str, encoding: Mapping[str, Any]) -> list[ModelPiece]:
        """Return the tokens of an encoded text, labelled with the characters of the text.

        `encoding` is the tokenizer's output. Special tokens, such as [CLS], have their own names;
        tokens of bytes, or of unknown characters, are labelled by their spelling.
        """
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

    def pieces_of_ids(self, ids: Sequence[int]) -> list[ModelPiece]:
        """Return the tokens of ids without a text, labelled with what their spelling stands for."""
        words = self.tokenizer.convert_ids_to_tokens(list(ids))
        return _mark_pieces_after_spaces(map(self._piece_without_text, ids, words))

    def _piece_without_text(self, number: int, word: str | None) -> ModelPiece:
        """Return the token of an id and its spelling, `word`.

        `word` is None for an id that the tokenizer does not have; its label is then `⟨id 50300⟩`.
        """
        if word is None:
            label = f"⟨id {number}⟩"
            return ModelPiece(number, label.encode(), True, label)
        if number in self.special_ids:
            return self._special_piece(number)
        return self._piece_as_spelled(number, word)

    def _special_piece(self, number: int) -> ModelPiece:
        """Return a token that stands for no text, such as [CLS], labelled with its name."""
        word = str(self.tokenizer.convert_ids_to_tokens(number))
        return ModelPiece(number, word.encode(), True, piece_phrase(word.encode()), special=True)

    def _piece_in_text(
        self, number: int, word: str, text: str, span: tuple[int, int]
    ) -> ModelPiece:
        """Return a token labelled with its characters in the text, those in `span`.

        Without a span, and for tokens of bytes, the spelling `word` decides; an unknown word is
        labelled with the tokenizer's name for it, such as [UNK].
        """
        start, end = span
        is_bytes = self.byte_level or BYTE_TOKEN.fullmatch(word)  # maybe not even a whole letter
        if start == end or (is_bytes and number not in self.added_tokens):
            return self._piece_as_spelled(number, word)
        letters = text[start:end].encode(errors="replace")
        spaced = start == 0 or text[start - 1].isspace() or text[start].isspace()
        label = word if number == self.unknown_id else piece_phrase(letters)
        return ModelPiece(number, letters, spaced, label)

    def _piece_as_spelled(self, number: int, word: str) -> ModelPiece:
        """Return a token labelled with the characters that its spelling, `word`, stands for."""
        letters = self._letters(number, word)
        marks_spaces = self.byte_level or SPACE_MARK in self.backend_description
        continues = word.startswith(CONTINUATION_MARK) or BYTE_TOKEN.fullmatch(word) is not None
        spaced = letters[:1].isspace() or not (marks_spaces or continues)
        return ModelPiece(number, letters, spaced, piece_phrase(letters))

    def _letters(self, number: int, word: str) -> bytes:
        """Return the bytes, as UTF-8, that a token with the spelling `word` stands for."""
        if number in self.added_tokens:
            return self.added_tokens[number].encode()
        if self.byte_level:
            known = self.bytes_of
            return b"".join(
                bytes([known[letter]]) if letter in known else letter.encode() for letter in word
            )
        if byte := BYTE_TOKEN.fullmatch(word):
            return bytes([int(byte[1], 16)])
        word = word.removeprefix(CONTINUATION_MARK).removesuffix(WORD_END_MARK)
        return (word.replace(SPACE_MARK, " ") or " ").encode()


# The same one for a next call; of many checkpoints each has a tokenizer of its own.
tokenizer_spelling = lru_cache(maxsize=8)(TokenizerSpelling)


def tokens_of_pieces(text: str, pieces: Sequence[ModelPiece]) -> Tokens:
    return Tokens(
        text,
        tuple(piece.letters for piece in pieces),
        tuple(piece.id for piece in pieces),
        tuple(piece.spaced for piece in pieces),
        tuple(piece.label for piece in pieces),
        frozenset(position for position, piece in enumerate(pieces) if piece.special),
    )


def _mark_pieces_after_spaces(pieces: Iterable[ModelPiece]) -> list[ModelPiece]:
    """Return the pieces, also marked as spaced where the piece before ends with white space."""
    marked, is_after_space = [], False
    for piece in pieces:
        is_unmarked = is_after_space and not piece.spaced
        marked.append(replace(piece, spaced=True) if is_unmarked else piece)
        is_after_space = piece.letters[-1:].isspace()
    return marked


def cut_text(
    model: LoadedTransformer,
    text: str,
    *,
    truncate: bool = False,
    room: int = 0,
    chat: bool = False,
) -> Tokens:
    """Return the tokens of a text, with those that the model's tokenizer adds, such as [CLS].

    With `chat` they are those of a conversation, in which the text is the user's message, or a list
    of messages, and the model's answer comes next. Refuses more tokens than the model has positions
    for, or with `truncate` leaves out the last ones and gives a note. `room`: how many tokens the
    model will generate, which also need positions.
    """
    read_text, choices = text, dict[str, Any]()
    roles: tuple[Role, ...] = ()
    if chat:
        if truncate:
            raise AttnvizError(
                f"{opt.truncate} cuts off the end of a text, which in a {opt.chat} is where the "
                "model answers",
                "leave out one of them",
                about="truncate",
            )
        read_text, roles = fill_in_conversation(model, text)
        choices["add_special_tokens"] = False
    encoding = _encode_text(model, read_text, **choices)
    if not encoding["input_ids"]:
        maker = "chat template" if chat and not read_text else "tokenizer"
        raise AttnvizError(
            f"the {maker} of the model '{model.name}' makes nothing of this text",
            f"leave {opt.chat} out" if chat else "give another text",
            about="chat" if chat else "text",
        )
    positions = max_token_count(model)
    longest = None if positions is None else positions - room
    if longest is not None and len(encoding["input_ids"]) > longest:
        if not truncate or longest < 1:
            raise _long_text_error(model, len(encoding["input_ids"]), room)
        warn_with_note(
            f"left out {counted(len(encoding['input_ids']) - longest, 'token')} at the end"
        )
        encoding = _encode_text(model, text, truncation=True, max_length=longest)
    pieces = tokenizer_spelling(model.tokenizer).pieces_of_text(read_text, encoding)
    spans = tuple(encoding.get("offset_mapping") or ())
    tokens = replace(tokens_of_pieces(text, pieces), spans=spans)
    return replace(tokens, read=read_text, roles=roles) if chat else tokens


def cut_texts(
    model: LoadedTransformer, texts: Sequence[str], *, truncate: bool = False
) -> list[tuple[Tokens, bool]]:
    """Return the tokens of each text, and whether its last ones were left out.

    All are cut at once, which takes a fraction of the time. Refuses the first text that has more
    tokens than the model has positions for, unless `truncate` leaves the last ones out.
    """
    longest = max_token_count(model)
    encodings = _encode_text(model, list(texts))
    spelling, results = tokenizer_spelling(model.tokenizer), []
    for index, text in enumerate(texts):
        encoding = {name: values[index] for name, values in encodings.items()}
        is_long = longest is not None and len(encoding["input_ids"]) > longest
        if is_long and not truncate:
            raise _long_text_error(model, len(encoding["input_ids"]), 0)
        if is_long:
            encoding = _encode_text(model, text, truncation=True, max_length=longest)
        results.append((tokens_of_pieces(text, spelling.pieces_of_text(text, encoding)), is_long))
    return results


def tokens_of_ids(
    model: LoadedTransformer, ids: tuple[int, ...], beginning: Tokens | None = None
) -> Tokens:
    """Return the tokens of generated ids; refuse more than the model has positions for.

    `beginning`: the tokens of the text that the ids start with, which are kept as they are.
    """
    first_new = 0 if beginning is None else len(beginning)
    longest = max_token_count(model)
    if longest is not None and len(ids) > longest:
        raise AttnvizError(
            f"the decoder would read {counted(len(ids), 'token')}, but the model '{model.name}' "
            f"only has positions for {longest}",
            f"give a shorter {opt.target}, or a smaller {opt.generate}",
            about="target",
        )
    pieces = tokenizer_spelling(model.tokenizer).pieces_of_ids(ids)[first_new:]
    if beginning is None:
        text = model.tokenizer.decode(ids, skip_special_tokens=True)
        return tokens_of_pieces(text, pieces)
    added = tokens_of_pieces(beginning.text, pieces)
    return replace(
        beginning,
        pieces=beginning.pieces + added.pieces,
        ids=ids,
        spaced=beginning.spaced + added.spaced,
        words=beginning.words + added.words,
        special=beginning.special | frozenset(each + first_new for each in added.special),
    )


def max_token_count(model: LoadedTransformer) -> int | None:
    """Return how many tokens a model has positions for; None if their number is not limited."""
    results = {} if model.results is None else model.results
    if "positions" not in results:
        results["positions"] = _find_max_token_count(model)
    count: int | None = results["positions"]
    return count


def _find_max_token_count(model: LoadedTransformer) -> int | None:
    """Return `max_token_count` of a model, from its config or its table of positions."""
    config_value = getattr(model.text_config, "max_position_embeddings", None)
    longest = config_value if isinstance(config_value, int) and config_value > 0 else None
    for name, module in model.model.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            if padding is not None:
                # RoBERTa and its kin count positions from the index after that of padding.
                return int(module.num_embeddings - padding - 1)
    return longest


@contextmanager
def reporting_tokenizer_errors(model: LoadedTransformer) -> Iterator[None]:
    """Raise an error of a tokenizer inside the `with` block as an AttnvizError.

    Other output of transformers is silenced meanwhile.
    """
    with quiet_transformers(), reporting_load_errors(ModelLocation(model.name, None), "text"):
        yield


def _encode_text(model: LoadedTransformer, text: str | list[str], **limits: Any) -> Any:
    """Return the tokenizer's output for a text, with marks of special tokens, and offsets if any.

    For a list of texts each value is a list with one item for each text.

    `limits`: further arguments, such as `max_length`.
    """
    cut = partial(
        model.tokenizer,
        text,
        return_offsets_mapping=model.tokenizer.is_fast,
        return_special_tokens_mask=True,
        verbose=False,
        **limits,
    )
    with reporting_tokenizer_errors(model):
        return within_limit(cut, len(text) if isinstance(text, str) else sum(map(len, text)))


def _long_text_error(model: LoadedTransformer, count: int, room: int) -> AttnvizError:
    """Return the error for a text of `count` tokens that is too long with `room` more of them."""
    more, hint = "", f"give a shorter text, or cut off its end with {opt.truncate}"
    if room:
        more = f", and {room} to be added"
        hint = f"give a smaller {opt.generate}, or a shorter text"
    return AttnvizError(
        f"the text has {counted(count, 'token')}{more}, but the model '{model.name}' only has "
        f"positions for {max_token_count(model)}",
        hint,
        about="truncate",
    )
