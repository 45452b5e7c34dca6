"""from_weights(): builds a Trace from weights computed outside attnviz and their tokens."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError, warn_with_note
from attnviz.tokens.gpt2 import byte_spelling
from attnviz.tokens.tokens import Tokens, numbered_tokens, tokens_of_bytes, tokens_of_words
from attnviz.traces.external.weight_forms import (
    ExternalWeights,
    choose_batch_item,
    is_array,
    is_sequence,
    parse_weights,
)
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import FromWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import (
    GIVEN_LABEL,
    Provenance,
    Trace,
    library_versions,
    weights_only_layer,
)
from attnviz.traces.trained.pieces import (
    CONTINUATION_MARK,
    SPACE_MARK,
    WORD_END_MARK,
    ModelPiece,
    TokenizerSpelling,
    tokenizer_spelling,
    tokens_of_pieces,
)
from attnviz.version import __version__
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.words import counted, shape_text

Layers = Mapping[int, Float[Tensor, "head query key"]]
WordMarking = Literal["ByteLevel", "▁", "##", "</w>"]  # how a vocabulary writes spaces, or words

SOFTMAX_HINT = "give what the softmax makes: scores.softmax(-1)"
NAN_HINT = "a row from which all is masked comes out as NaN: weights.nan_to_num(0)"
TOKEN_LIST_HINT = 'give the list of tokens: tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])'
EMPTY_TOKEN_LABEL = "⟨empty⟩"
BYTE_LEVEL_SPACES = ("Ġ", "Ċ")  # a space and a line break of byte-level vocabularies
SPECIAL_TOKENS = frozenset(  # tokens of well-known models that stand for no letters of a text
    (
        *("[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]"),
        *("<s>", "</s>", "<pad>", "<bos>", "<eos>", "<cls>", "<sep>"),
        *("<|endoftext|>", "<|startoftext|>", "<|startoftranscript|>", "<|pad|>"),
        *("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"),
        *("<start_of_turn>", "<end_of_turn>"),
    )
)


@dataclass(frozen=True, eq=False)
class QueryAndKeyTokens:
    """The tokens of rows (queries) and columns (keys); one object in self-attention."""

    query_tokens: Tokens
    key_tokens: Tokens


@with_checked_arguments
def from_weights(
    weights: object,
    tokens: object = None,
    *,
    keys: object = None,
    tokenizer: object = None,
    item: int | None = None,
    axes: str | None = None,
    name: str = "",
) -> Trace:
    """Return a Trace built from attention weights that were computed outside attnviz.

    `weights` are of torch, NumPy or lists: [query, key], [head, query, key] or [layer, head, query,
    key]; or what a model of transformers returns, `outputs.attentions`, also that of `generate()`.
    `tokens` are words, pieces of a vocabulary, or ids with their `tokenizer`; `keys` are the tokens
    attended to, if they are others. `item` chooses one of a batch, from 1, where layers are [item,
    head, query, key]. `axes` names the dimensions of an array, in any order, such as `axes="batch
    head query key"` for a batch of one layer; the first of four is otherwise read as layers, which
    the settings say. `name` is that of the model. Refuses negative or infinite weights, NaN, and
    numbers of tokens that do not fit.

    >>> from attnviz import from_weights
    >>> from_weights([[1, 0], [0.25, 0.75]], ["I", "am"]).weights.shape
    torch.Size([1, 1, 2, 2])
    """
    external = parse_weights(weights, item, axes=axes, across=keys is not None)
    _refuse_invalid_weights(external.layers)
    sides = _resolve_tokens(external, tokens, keys, tokenizer, item)
    visible, causal = _infer_mask(external.layers, sides)
    return _build_external_trace(external, sides, visible, causal=causal, name=name)


def _build_external_trace(
    external: ExternalWeights,
    sides: QueryAndKeyTokens,
    visible: Bool[Tensor, "query key"],
    *,
    causal: bool,
    name: str,
) -> Trace:
    """Return the Trace of external weights; `causal` is whether `visible` is a causal mask."""
    first_layer = next(iter(external.layers.values()))
    no_vectors = first_layer.new_zeros(len(sides.query_tokens), 0)
    key_inputs = None
    if sides.key_tokens is not sides.query_tokens:
        key_inputs = first_layer.new_zeros(len(sides.key_tokens), 0)
    inputs: dict[str, Any] = {"inputs": no_vectors, "key_inputs": key_inputs}
    layers = [
        weights_only_layer(number, weights.to(first_layer), visible=visible, **inputs)
        for number, weights in external.layers.items()
    ]
    matrices = Matrices(item=external.batch_item.item, items=external.batch_item.items)
    origin = FromWeights(name=name, stored_as=external.stored_as, matrices=matrices)
    provenance = Provenance(
        version=__version__,
        command=None,
        settings={
            "weights": GIVEN_LABEL,
            "name": origin.name,
            "stored_as": origin.stored_as,
            **({"axes": external.axes} if external.axes else {}),
        },
        seed=Settings.seed,
        device="cpu",
        dtype=str(first_layer.dtype).removeprefix("torch."),
        versions=library_versions(),
    )
    return Trace(
        tokens=sides.query_tokens,
        keys=sides.key_tokens,
        tokenizer=GIVEN_LABEL,
        variant=Variant(GIVEN_LABEL, "weights that were computed elsewhere", causal=causal,
                        heads=len(first_layer)),
        embeddings=no_vectors,
        layers=tuple(layers),
        prompt=external.prompt,
        origin=origin,
        provenance=provenance,
    )  # fmt: skip


def _resolve_tokens(
    external: ExternalWeights, tokens: Any, keys: Any, tokenizer: Any, item: int | None
) -> QueryAndKeyTokens:
    """Return the tokens of rows and columns; fewer rows than columns are the last tokens.

    Refuses lists of another length than the weights, and weights of other keys without `keys`.
    """
    query_count, key_count = next(iter(external.layers.values())).shape[-2:]
    if keys is not None:
        query_tokens = parse_tokens(tokens, query_count, tokenizer, item)
        query_tokens = _drop_unread_token(query_tokens, query_count, external)
        key_tokens = parse_tokens(keys, key_count, tokenizer, item)
        _refuse_swapped_tokens(query_tokens, key_tokens, query_count, key_count)
        _refuse_other_count("keys", key_tokens, key_count)
        _refuse_other_count("tokens", query_tokens, query_count)
        if not tokenizer:
            query_tokens, key_tokens = share_token_ids(query_tokens, key_tokens)
        return QueryAndKeyTokens(query_tokens, key_tokens)
    all_tokens = parse_tokens(tokens, key_count, tokenizer, item)
    all_tokens = _drop_unread_token(all_tokens, key_count, external)
    reads_more_keys = query_count < key_count and (tokens is None or len(all_tokens) == query_count)
    if query_count > key_count or reads_more_keys:
        raise AttnvizError(
            f"the weights are {shape_text((query_count, key_count))}: {query_count} tokens read "
            f"{key_count} others",
            "give keys, the tokens that are read",
            about="keys",
        )
    _refuse_other_count("tokens", all_tokens, key_count)
    if query_count == key_count:
        return QueryAndKeyTokens(all_tokens, all_tokens)
    return QueryAndKeyTokens(slice_tokens(all_tokens, slice(-query_count, None)), all_tokens)


def _drop_unread_token(tokens: Tokens, count: int, external: ExternalWeights) -> Tokens:
    """Return the tokens without the last one, with a warning, if a model generated them and there
    are weights for all but that one: the model wrote it and never read it.
    """
    if external.prompt is None or len(tokens) != count + 1:
        return tokens
    warn_with_note("the last token was written and never read: left out")
    return slice_tokens(tokens, slice(None, count))


def slice_tokens(tokens: Tokens, part: slice) -> Tokens:
    """Return a range of tokens as Tokens, whose text is that of the range."""
    positions, pieces = range(len(tokens))[part], tokens.pieces[part]
    text = b"".join(pieces).decode(errors="replace")
    special = frozenset(position - positions.start for position in tokens.special & {*positions})
    return Tokens(text, pieces, tokens.ids[part], tokens.spaced[part], tokens.words[part], special)


def _refuse_other_count(keyword: str, tokens: Tokens, count: int) -> None:
    """Refuse tokens that are not `count`; `keyword` is their argument: "keys" or "tokens"."""
    if len(tokens) != count:
        raise AttnvizError(
            f"the weights are for {counted(count, 'token')}, "
            f"but {len(tokens)} are given as {keyword}",
            f"{TOKEN_LIST_HINT}, which includes [CLS] and the like"
            if len(tokens) < count
            else "give exactly the tokens that the weights are for",
            about=keyword,
        )


def _refuse_swapped_tokens(
    query_tokens: Tokens, key_tokens: Tokens, query_count: int, key_count: int
) -> None:
    """Refuse query tokens and key tokens whose counts fit the weights only if they are swapped."""
    if len(query_tokens) == key_count != query_count == len(key_tokens):
        raise AttnvizError(
            f"the weights are {shape_text((query_count, key_count))}: "
            f"{len(key_tokens)} tokens read {len(query_tokens)}, "
            "but the tokens are given the other way round",
            "give those that read as tokens and those that are read as keys; or transpose the "
            "weights",
            about="keys",
        )


def _refuse_invalid_weights(layers: Layers) -> None:
    """Refuse weights that are NaN, infinite or negative, and layers without weights."""
    for number, layer in layers.items():
        if not layer.numel():
            problem = f"the weights are {shape_text(layer.shape)}: there are none"
            raise AttnvizError(problem, "give at least one")
        invalid_indices = (~layer.isfinite() | (layer < 0)).nonzero().tolist()
        if invalid_indices:
            head, row, column = invalid_indices[0]
            weight = layer[head, row, column]
            value = "NaN" if weight.isnan() else f"{weight.item():g}".replace("inf", "infinity")
            location = f"layer {number}, head {head}, at row {row + 1}, column {column + 1}"
            raise AttnvizError(
                f"the weights have {value} in {location}, which is not a share",
                NAN_HINT if weight.isnan() else SOFTMAX_HINT,
            )


def _infer_mask(layers: Layers, sides: QueryAndKeyTokens) -> tuple[Bool[Tensor, "query key"], bool]:
    """Return a mask of visible keys, and whether it is causal, inferred from where weights are 0.

    It is causal if each key up to its query, and no later one, has weight in some head or layer, in
    self-attention of several tokens; otherwise every key is visible.
    """
    is_read = torch.stack([(layer > 0).any(0) for layer in layers.values()]).any(0)
    causal = torch.ones_like(is_read).tril()
    is_self_attention = sides.key_tokens is sides.query_tokens and len(is_read) > 1
    is_causal = is_self_attention and bool((is_read == causal).all())
    return (causal if is_causal else torch.ones_like(is_read)), is_causal


def parse_tokens(raw_tokens: Any, count: int, tokenizer: Any, item: int | None) -> Tokens:
    """Return the given words, pieces or ids as Tokens; `count` numbered ones if they are None.

    `item` chooses one of a batch. Special tokens such as [CLS] are marked. Refuses ids without a
    tokenizer, empty lists, and lists of other things.
    """
    if raw_tokens is None:
        return numbered_tokens(count)
    if isinstance(raw_tokens, Tokens):
        return raw_tokens
    items = _token_list(raw_tokens, item)
    if tokenizer is not None and all(isinstance(value, int) for value in items):
        return _tokens_from_ids(items, tokenizer)
    words = [_decode_word(value) or EMPTY_TOKEN_LABEL for value in items]
    word_marking = detect_word_marking(words)
    if word_marking is not None:
        return _tokens_from_pieces(words, word_marking)
    tokens = tokens_of_words(words)
    if any(word[:1].isspace() for word in words):  # words with the spaces before them
        tokens = tokens_of_bytes("".join(words), tokens.pieces, tokens.ids)
    special_positions = (position for position, word in enumerate(words) if word in SPECIAL_TOKENS)
    return replace(tokens, special=frozenset(special_positions))


def share_token_ids(*token_lists: Tokens) -> list[Tokens]:
    """Return the token lists with new ids, such that equal pieces have equal ids in all lists."""
    pieces = dict.fromkeys(piece for tokens in token_lists for piece in tokens.pieces)
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [
        replace(tokens, ids=tuple(map(ids.__getitem__, tokens.pieces))) for tokens in token_lists
    ]


def _token_list(raw_tokens: Any, item: int | None) -> list[Any]:
    """Return a plain list of words or ids, of the chosen item of a batch, also out of a tokenizer's
    outputs; refuses one text, other types, empty lists, and a batch without an item.
    """
    if isinstance(raw_tokens, Mapping) and "input_ids" in raw_tokens:  # outputs of a tokenizer
        raw_tokens = raw_tokens["input_ids"]
    if isinstance(raw_tokens, str | bytes) or not (is_array(raw_tokens) or is_sequence(raw_tokens)):
        is_text = isinstance(raw_tokens, str | bytes)
        kind = "one text" if is_text else f"of type {type(raw_tokens).__name__}"
        raise AttnvizError(f"the tokens are {kind}, and should be a list", TOKEN_LIST_HINT)
    items = raw_tokens.tolist() if is_array(raw_tokens) else list(raw_tokens)
    if items and all(is_array(value) or isinstance(value, list | tuple) for value in items):
        items = [*items[choose_batch_item(item, len(items)).index]]
    items = [value.item() if is_array(value) and not value.shape else value for value in items]
    if not items:
        raise AttnvizError("there are no tokens", TOKEN_LIST_HINT)
    return [int(value) if isinstance(value, np.integer) else value for value in items]


def _decode_word(value: Any) -> str:
    """Return a word as text, with ? or � for broken characters; refuses ids and other types."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # half a character is none
    if isinstance(value, int) and not isinstance(value, bool):
        raise AttnvizError(
            "the tokens are ids, and nothing says what words they are",
            "give tokenizer as well, or the words: tokenizer.convert_ids_to_tokens(ids)",
            about="tokenizer",
        )
    problem = f"the tokens are a list that contains {type(value).__name__}"
    raise AttnvizError(problem, TOKEN_LIST_HINT)


def _tokens_from_ids(ids: Sequence[int], tokenizer: Any) -> Tokens:
    """Return the tokens of ids by a tokenizer of transformers or tiktoken; refuses others."""
    if hasattr(tokenizer, "decode_single_token_bytes"):
        pieces = [tokenizer.decode_single_token_bytes(token_id) for token_id in ids]
        return tokens_of_bytes(b"".join(pieces).decode(errors="replace"), pieces, [*ids])
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise AttnvizError(
            f"tokenizer is of type {type(tokenizer).__name__}, which cannot say what ids stand for",
            "give one of transformers or tiktoken, or the tokens as a list of words",
            about="tokenizer",
        )
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return tokens_of_pieces(text, tokenizer_spelling(tokenizer).pieces_of_ids(ids))


def detect_word_marking(words: Sequence[str]) -> WordMarking | None:
    """Return how the vocabulary of these pieces marks words; None for plain words.

    >>> detect_word_marking(["The", "Ġanimal"]), detect_word_marking(["▁The", "n"])
    ('ByteLevel', '▁')
    >>> detect_word_marking(["play", "##ed"]), detect_word_marking(["The", "animal"])
    ('##', None)
    """
    plain_words = [word for word in words if word not in SPECIAL_TOKENS]
    if any(word.startswith(SPACE_MARK) for word in plain_words):
        return "▁"
    has_byte_spaces = any(word.startswith(BYTE_LEVEL_SPACES) for word in plain_words)
    if has_byte_spaces and _is_byte_level(plain_words):
        return "ByteLevel"
    if any(
        word.startswith(CONTINUATION_MARK) and word != CONTINUATION_MARK for word in plain_words[1:]
    ):
        return "##"
    return "</w>" if any(word.endswith(WORD_END_MARK) for word in plain_words) else None


def _is_byte_level(words: Sequence[str]) -> bool:
    """Return whether the letters of all words spell bytes of a UTF-8 text, as byte-level
    vocabularies do; that words have a Ġ is not enough, since Maltese has this letter.
    """
    byte_by_letter = {letter: byte for byte, letter in byte_spelling().items()}
    letters = "".join(words)
    if not byte_by_letter.keys() >= {*letters}:
        return False
    try:
        encoded = bytes(byte_by_letter[letter] for letter in letters)
        text = codecs.getincrementaldecoder("utf-8")().decode(encoded)
    except UnicodeDecodeError:
        return False
    return not any(
        unicodedata.category(character) == "Cc" and not character.isspace() for character in text
    )


@dataclass(frozen=True, eq=False)
class PieceTokenizer:
    """A tokenizer of given pieces, with the attributes that TokenizerSpelling needs."""

    words: Sequence[str]  # by id
    word_marking: WordMarking
    mask_token_id = unk_token_id = bos_token_id = eos_token_id = pad_token_id = None
    added_tokens_decoder: Any = None

    @property
    def backend_tokenizer(self) -> Any:
        """What TokenizerSpelling detects the word marking by."""
        return SimpleNamespace(decoder=self.word_marking, pre_tokenizer="")

    @property
    def all_special_ids(self) -> list[int]:
        return [number for number, word in enumerate(self.words) if word in SPECIAL_TOKENS]

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        return self.words[ids] if isinstance(ids, int) else [self.words[number] for number in ids]


def _tokens_from_pieces(words: Sequence[str], word_marking: WordMarking) -> Tokens:
    """Return the tokens of vocabulary pieces, labelled with the text that they stand for."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    spelling = TokenizerSpelling(PieceTokenizer([*ids], word_marking, {}))
    pieces = spelling.pieces_of_ids([ids[word] for word in words])
    if word_marking == WORD_END_MARK:
        pieces = _mark_word_starts(words, pieces)
    return tokens_of_pieces(_join_pieces(pieces), pieces)


def _mark_word_starts(words: Sequence[str], pieces: Sequence[ModelPiece]) -> list[ModelPiece]:
    """Return the pieces, marked as preceded by a space where they are special, first, or follow the
    end of a word or a special token.
    """
    follows_end = [
        not previous or previous in SPECIAL_TOKENS or previous.endswith(WORD_END_MARK)
        for previous in ["", *words]
    ]
    return [
        replace(piece, spaced=piece.special or is_start)
        for is_start, piece in zip(follows_end, pieces, strict=False)
    ]


def _join_pieces(pieces: Sequence[ModelPiece]) -> str:
    """Return the text of the pieces, without special tokens and without spaces around it."""
    parts = [
        b" " * (piece.spaced and not piece.letters[:1].isspace()) + piece.letters
        for piece in pieces
        if not piece.special
    ]
    return b"".join(parts).decode(errors="replace").strip()
