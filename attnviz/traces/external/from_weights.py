"""From weights that were computed elsewhere, with their tokens, to a Trace."""

from __future__ import annotations

import codecs
import platform
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
from attnviz.errors import AttnvizError, mention
from attnviz.tokens.gpt2 import spelled
from attnviz.tokens.tokens import Tokens, in_pieces, named, numbered
from attnviz.traces.external.layers import Handed, chosen, handed, is_array, is_sequence
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import FromWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import GIVEN, Provenance, Trace, layer_of
from attnviz.traces.trained.pieces import END, REST, SPACE, Piece, Spelling, in_tokens, spelling_of
from attnviz.version import __version__
from attnviz.wording.keywords import of_its_kinds
from attnviz.wording.words import counted, shape_text

Layers = Mapping[int, Float[Tensor, "head query key"]]

OF_SCORES = "give what the softmax makes: scores.softmax(-1)"
OF_NAN = "a row from which all is masked comes out as NaN: weights.nan_to_num(0)"


@dataclass(frozen=True, eq=False)
class Sides:
    """Who reads, and who is read: the same tokens, or others."""

    reads: Tokens
    read: Tokens


@of_its_kinds
def from_weights(
    weights: object,
    tokens: object = None,
    *,
    keys: object = None,
    tokenizer: object = None,
    item: int | None = None,
    name: str = "",
) -> Trace:
    """A Trace of attention weights that were computed elsewhere.

    `weights` are those of torch, NumPy or lists: [query, key], [head, query, key] or
    [layer, head, query, key]; or what a model of transformers hands back, `outputs.attentions`,
    also that of `generate()`. `tokens` are words, pieces of a vocabulary, or ids with their
    `tokenizer`; `keys` those that are read, where they are others. Of a batch, [item, head,
    query, key] in each layer, one `item` is looked at, from 1; `name` says whose weights they are.

    >>> from attnviz import from_weights
    >>> from_weights([[1, 0], [0.25, 0.75]], ["I", "am"]).weights.shape
    torch.Size([1, 1, 2, 2])
    """
    found = handed(weights, item, across=keys is not None)
    _refuse_odd_numbers(found.layers)
    sides = _sides(found, tokens, keys, tokenizer, item)
    visible, causal = _sight(found.layers, sides)
    return _trace(found, sides, visible, causal=causal, name=name)


def _trace(
    found: Handed, sides: Sides, visible: Bool[Tensor, "query key"], *, causal: bool, name: str
) -> Trace:
    first = next(iter(found.layers.values()))
    nothing = first.new_zeros(len(sides.reads), 0)
    others = None if sides.read is sides.reads else first.new_zeros(len(sides.read), 0)
    layers = [
        layer_of(number, each.to(first), visible=visible, inputs=nothing, key_inputs=others)
        for number, each in found.layers.items()
    ]
    origin = FromWeights(
        name=name,
        stored_as=found.stored_as,
        matrices=Matrices(item=found.chosen.item, items=found.chosen.items),
    )
    return Trace(
        tokens=sides.reads,
        keys=sides.read,
        tokenizer=GIVEN,
        variant=Variant(GIVEN, "weights that were computed elsewhere", causal=causal,
                        heads=len(first)),
        embeddings=nothing,
        layers=tuple(layers),
        prompt=found.prompt,
        origin=origin,
        provenance=_provenance(origin, str(first.dtype)),
    )  # fmt: skip


def _provenance(origin: FromWeights, dtype: str) -> Provenance:
    return Provenance(
        version=__version__,
        command=None,
        settings={"weights": GIVEN, "name": origin.name, "stored_as": origin.stored_as},
        seed=Settings.seed,
        device="cpu",
        dtype=dtype.removeprefix("torch."),
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    )


def _sides(found: Handed, tokens: Any, keys: Any, tokenizer: Any, item: int | None) -> Sides:
    """The tokens of rows and of columns, as many as there are of these."""
    queries, count = next(iter(found.layers.values())).shape[-2:]
    if keys is not None:
        reads = _read_ones(tokens_of(tokens, queries, tokenizer, item), queries, found)
        read = tokens_of(keys, count, tokenizer, item)
        _refuse_exchanged(reads, read, queries, count)
        _refuse_other_count("keys", read, count)
        _refuse_other_count("tokens", reads, queries)
        return Sides(reads, read) if tokenizer else Sides(*numbered_alike(reads, read))
    every = _read_ones(tokens_of(tokens, count, tokenizer, item), count, found)
    others = queries < count and (tokens is None or len(every) == queries)
    if queries > count or others:
        raise _no_keys(queries, count)
    _refuse_other_count("tokens", every, count)
    return Sides(every if queries == count else part_of(every, slice(-queries, None)), every)


def _read_ones(tokens: Tokens, count: int, found: Handed) -> Tokens:
    """Without the last token that a model wrote: it stops there, and reads it no more."""
    if found.prompt is None or len(tokens) != count + 1:
        return tokens
    mention("the last token was written and never read: left out")
    return part_of(tokens, slice(None, count))


def part_of(tokens: Tokens, part: slice) -> Tokens:
    """Some tokens, one after another."""
    places = range(len(tokens))[part]
    return Tokens(
        b"".join(tokens.pieces[part]).decode(errors="replace"),
        tokens.pieces[part],
        tokens.ids[part],
        tokens.spaced[part],
        tokens.words[part],
        frozenset(place - places.start for place in tokens.special if place in places),
    )


def _refuse_other_count(what: str, tokens: Tokens, count: int) -> None:
    if len(tokens) != count:
        raise AttnvizError(
            f"the weights are for {counted(count, 'token')}, but {len(tokens)} are given as {what}",
            f"{IDS}, which includes [CLS] and the like"
            if len(tokens) < count
            else "give exactly the tokens that the weights are for",
            about=what,
        )


def _refuse_exchanged(reads: Tokens, read: Tokens, queries: int, count: int) -> None:
    if len(reads) == count != queries == len(read):
        raise AttnvizError(
            f"the weights are {shape_text((queries, count))}: {len(read)} tokens read "
            f"{len(reads)}, but the tokens are given the other way round",
            "give those that read as tokens and those that are read as keys; or transpose the "
            "weights",
            about="keys",
        )


def _no_keys(queries: int, keys: int) -> AttnvizError:
    return AttnvizError(
        f"the weights are {shape_text((queries, keys))}: {queries} tokens read {keys} others",
        "give keys, the tokens that are read",
        about="keys",
    )


def _refuse_odd_numbers(layers: Layers) -> None:
    """Weights are shares: none is NaN, infinite, or less than nothing."""
    for number, each in layers.items():
        if not each.numel():
            raise AttnvizError(
                f"the weights are {shape_text(each.shape)}: there are none", "give at least one"
            )
        odd = ~each.isfinite() | (each < 0)
        if odd.any():
            raise _odd(number, each, tuple(odd.nonzero()[0].tolist()))


def _odd(number: int, weights: Tensor, place: tuple[int, ...]) -> AttnvizError:
    head, row, column = place
    found = weights[place]
    told = "NaN" if found.isnan() else f"{found.item():g}".replace("inf", "infinity")
    hint = OF_NAN if found.isnan() else OF_SCORES
    where = f"layer {number}, head {head}, at row {row + 1}, column {column + 1}"
    return AttnvizError(f"the weights have {told} in {where}, which is not a share", hint)


def _sight(layers: Layers, sides: Sides) -> tuple[Bool[Tensor, "query key"], bool]:
    """Who may be read; what stands above the diagonal counts as hidden where all of it is 0.

    A mask makes it so in every head of every layer; heads that hardly read do so by chance, which
    is why something has to be read of all that stands before a token, by one of them.
    """
    seen = torch.stack([(each > 0).any(0) for each in layers.values()]).any(0)
    causal = torch.ones_like(seen).tril()
    own = sides.read is sides.reads and len(seen) > 1
    hides = own and bool((seen == causal).all())
    return (causal if hides else torch.ones_like(seen)), hides


Written = Literal["ByteLevel", "▁", "##", "</w>"]  # how a vocabulary writes spaces, or words
IDS = 'give the list of tokens: tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])'
EMPTY = "⟨empty⟩"
BYTE_SPACES = ("Ġ", "Ċ")  # a space and a line break of byte-level vocabularies
# Tokens that stand for no letters of a text, as the vocabularies of well-known models write them.
SPECIAL = frozenset(
    (
        *("[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]"),
        *("<s>", "</s>", "<pad>", "<bos>", "<eos>", "<cls>", "<sep>"),
        *("<|endoftext|>", "<|startoftext|>", "<|startoftranscript|>", "<|pad|>"),
        *("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"),
        *("<start_of_turn>", "<end_of_turn>"),
    )
)


def tokens_of(given: Any, count: int, tokenizer: Any, item: int | None) -> Tokens:
    """Tokens with labels for people; without any, as many numbers as there are."""
    if given is None:
        return numbered(count)
    if isinstance(given, Tokens):
        return given
    found = _listed(given, item)
    if tokenizer is not None and all(isinstance(each, int) for each in found):
        return _of_ids(found, tokenizer)
    words = [_word(each) or EMPTY for each in found]
    written = how_written(words)
    if written is not None:
        return _of_pieces(words, written)
    shown = named(words)
    if any(word[:1].isspace() for word in words):
        shown = _with_spaces(words, shown)
    added = (place for place, word in enumerate(words) if word in SPECIAL)
    return replace(shown, special=frozenset(added))


def numbered_alike(*every: Tokens) -> list[Tokens]:
    """The same with one id for each piece, in whichever of them it stands."""
    pieces = dict.fromkeys(piece for each in every for piece in each.pieces)
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [replace(each, ids=tuple(ids[piece] for piece in each.pieces)) for each in every]


def _listed(given: Any, item: int | None) -> list[Any]:
    """One list of words, or of ids; of a batch the one that is looked at."""
    if isinstance(given, Mapping) and "input_ids" in given:  # as a tokenizer hands them back
        given = given["input_ids"]
    if isinstance(given, str | bytes) or not (is_array(given) or is_sequence(given)):
        raise AttnvizError(f"the tokens are {_told(given)}, and should be a list", IDS)
    found = given.tolist() if is_array(given) else list(given)
    if found and all(is_array(each) or isinstance(each, list | tuple) for each in found):
        found = [*found[chosen(item, len(found)).place]]
    found = [each.item() if is_array(each) and not each.shape else each for each in found]
    if not found:
        raise AttnvizError("there are no tokens", IDS)
    return [int(each) if isinstance(each, np.integer) else each for each in found]


def _told(given: Any) -> str:
    return "one text" if isinstance(given, str | bytes) else f"of type {type(given).__name__}"


def _word(given: Any) -> str:
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    if isinstance(given, str):
        return given.encode(errors="replace").decode()  # half a character is none
    if isinstance(given, int) and not isinstance(given, bool):
        raise AttnvizError(
            "the tokens are ids, and nothing says what words they are",
            "give tokenizer as well, or the words: tokenizer.convert_ids_to_tokens(ids)",
            about="tokenizer",
        )
    raise AttnvizError(f"the tokens are a list that contains {type(given).__name__}", IDS)


def _with_spaces(words: Sequence[str], shown: Tokens) -> Tokens:
    """Pieces of a text that have the spaces before them."""
    return in_pieces("".join(words), shown.pieces, shown.ids)


def _of_ids(ids: Sequence[int], tokenizer: Any) -> Tokens:
    """Of transformers, or of tiktoken."""
    if hasattr(tokenizer, "decode_single_token_bytes"):
        pieces = [tokenizer.decode_single_token_bytes(each) for each in ids]
        return in_pieces(b"".join(pieces).decode(errors="replace"), pieces, [*ids])
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise AttnvizError(
            f"tokenizer is of type {type(tokenizer).__name__}, which cannot say what ids stand for",
            "give one of transformers or tiktoken, or the tokens as a list of words",
            about="tokenizer",
        )
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return in_tokens(text, spelling_of(tokenizer).written(ids))


def how_written(words: Sequence[str]) -> Written | None:
    """How the vocabulary writes that pieces come from; None of plain words.

    >>> how_written(["The", "Ġanimal"]), how_written(["▁The", "n"]), how_written(["play", "##ed"])
    ('ByteLevel', '▁', '##')
    >>> how_written(["The", "animal"])
    """
    own = [word for word in words if word not in SPECIAL]
    if any(word.startswith(SPACE) for word in own):
        return "▁"
    if any(word.startswith(BYTE_SPACES) for word in own) and _are_bytes(own):
        return "ByteLevel"
    if any(len(word) > len(REST) and word.startswith(REST) for word in own[1:]):
        return "##"
    return "</w>" if any(word.endswith(END) for word in own) else None


def _are_bytes(words: Sequence[str]) -> bool:
    """Whether letters stand for bytes that make a text: Maltese, too, has words with Ġ."""
    known = {letter: byte for byte, letter in spelled().items()}
    letters = "".join(words)
    if not known.keys() >= {*letters}:
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(
            bytes(known[each] for each in letters)
        )
    except UnicodeDecodeError:
        return False
    return not any(unicodedata.category(each) == "Cc" and not each.isspace() for each in text)


@dataclass(frozen=True, eq=False)
class Listed:
    """Pieces of a vocabulary, to be asked as its tokenizer would be."""

    words: Sequence[str]  # an id is the first place of a piece
    written: Written
    mask_token_id = unk_token_id = bos_token_id = eos_token_id = pad_token_id = None
    added_tokens_decoder: Any = None

    @property
    def backend_tokenizer(self) -> Any:
        return SimpleNamespace(decoder=self.written, pre_tokenizer="")

    @property
    def all_special_ids(self) -> list[int]:
        return [number for number, word in enumerate(self.words) if word in SPECIAL]

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        return self.words[ids] if isinstance(ids, int) else [self.words[each] for each in ids]


def _of_pieces(words: Sequence[str], written: Written) -> Tokens:
    """Pieces as they stand in a vocabulary, in the letters that they stand for."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    pieces = Spelling(Listed([*ids], written, {})).written([ids[word] for word in words])
    if written == END:
        pieces = _after_ends(words, pieces)
    return in_tokens(_text(pieces), pieces)


def _after_ends(words: Sequence[str], pieces: Sequence[Piece]) -> list[Piece]:
    """Where a vocabulary marks the ends of words, a word begins after one."""
    before = ["", *words]
    return [
        replace(each, spaced=each.special or last in SPECIAL or last.endswith(END) or not last)
        for last, each in zip(before, pieces, strict=False)
    ]


def _text(pieces: Sequence[Piece]) -> str:
    """What they stand for together, but for what a tokenizer added."""
    own = [each for each in pieces if not each.special]
    parts = [b" " * (each.spaced and not each.letters[:1].isspace()) + each.letters for each in own]
    return b"".join(parts).decode(errors="replace").strip()
