"""Every encoding that tiktoken knows, from its cache or the network."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import tiktoken

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, in_pieces

LONGEST_BLANK = 900_000  # tiktoken's patterns end in a panic at 1,000,000


def names() -> list[str]:
    """What tiktoken's encodings are called."""
    return tiktoken.list_encoding_names()


def encoding(name: str) -> Callable[[str], Tokens]:
    """The tokenizer of one of tiktoken's encodings."""
    try:
        return partial(encode, tiktoken.get_encoding(name))
    except OSError:  # what requests raises is an OSError, as is a cache that cannot be read
        raise AttnvizError(
            f"tiktoken has no copy of '{name}' on this machine and could not download it",
            "go online once, point TIKTOKEN_CACHE_DIR at a copy, or use --tokenizer gpt2",
        ) from None


def size(name: str) -> int:
    """How many ids an encoding has."""
    return tiktoken.get_encoding(name).n_vocab


def encode(vocabulary: tiktoken.Encoding, text: str) -> Tokens:
    """The text in the pieces of a byte-level vocabulary."""
    _refuse_long_blanks(text)
    ids = vocabulary.encode_ordinary(text)  # `<|endoftext|>` in a sentence is just characters
    return in_pieces(text, [vocabulary.decode_single_token_bytes(each) for each in ids], ids)


def _refuse_long_blanks(text: str) -> None:
    if len(text) > LONGEST_BLANK and re.search(rf"\s{{{LONGEST_BLANK}}}", text):
        raise AttnvizError(
            f"the text has more than {LONGEST_BLANK:,} white spaces in a row, which this tokenizer "
            "cannot cut",
            "take some of them out, or use --tokenizer words",
        )
