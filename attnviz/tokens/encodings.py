"""Every encoding that tiktoken knows, from its cache or the network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tiktoken

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, in_pieces


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
    ids = vocabulary.encode_ordinary(text)  # `<|endoftext|>` in a sentence is just characters
    return in_pieces(text, [vocabulary.decode_single_token_bytes(each) for each in ids], ids)
