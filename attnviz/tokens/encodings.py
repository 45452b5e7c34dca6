"""Every encoding that tiktoken knows, from its cache or the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import tiktoken
from tiktoken import load

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, tokens_of_bytes

DOWNLOAD_TIMEOUT_SECONDS = (10, 30)  # seconds, for a server to accept, and then to go on answering
MAX_BLANK_LETTERS = 900_000  # tiktoken's patterns end in a panic at 1,000,000


def encoding_names() -> list[str]:
    """What tiktoken's encodings are called."""
    return tiktoken.list_encoding_names()


def load_encoding(name: str, *, download: bool = True) -> Callable[[str], Tokens]:
    """The tokenizer of one of tiktoken's encodings."""
    try:
        with _with_download_timeout(download=download):
            return partial(encode, tiktoken.get_encoding(name))
    except ValueError:  # what came is not what tiktoken has the hash of
        raise AttnvizError(
            f"what was downloaded is not '{name}' but something else, such as a sign-in page",
            "sign in to the network, point TIKTOKEN_CACHE_DIR at a copy, or use --tokenizer gpt2",
        ) from None
    except OSError:  # what requests raises is an OSError, as is a cache that cannot be read
        if not download:
            raise AttnvizError(
                f"the model's tokenizer is '{name}', and tiktoken has no copy of it on this "
                "machine",
                f"download it: attnviz run TEXT --tokenizer {name}",
            ) from None
        raise AttnvizError(
            f"tiktoken has no copy of '{name}' on this machine and could not download it",
            "go online once, point TIKTOKEN_CACHE_DIR at a copy, or use --tokenizer gpt2",
        ) from None


@contextmanager
def _with_download_timeout(*, download: bool = True) -> Iterator[None]:
    """tiktoken waits for ever for a server that accepts and says nothing."""
    original_reader = load.read_file

    def read_file(blobpath: str) -> bytes:
        if not blobpath.startswith(("http://", "https://")):
            return original_reader(blobpath)
        if not download:
            raise PermissionError(blobpath)

        import requests  # which takes long, and is seldom needed

        answer = requests.get(blobpath, timeout=DOWNLOAD_TIMEOUT_SECONDS)
        answer.raise_for_status()
        content: bytes = answer.content
        return content

    load.read_file = read_file
    try:
        yield
    finally:
        load.read_file = original_reader


def count_encoding_ids(name: str) -> int:
    """How many ids an encoding has."""
    return tiktoken.get_encoding(name).n_vocab


def encode(vocabulary: tiktoken.Encoding, text: str) -> Tokens:
    """The text in the pieces of a byte-level vocabulary."""
    _refuse_long_blanks(text)
    ids = vocabulary.encode_ordinary(text)  # `<|endoftext|>` in a sentence is just characters
    return tokens_of_bytes(
        text, [vocabulary.decode_single_token_bytes(token_id) for token_id in ids], ids
    )


def _refuse_long_blanks(text: str) -> None:
    if len(text) > MAX_BLANK_LETTERS and re.search(rf"\s{{{MAX_BLANK_LETTERS}}}", text):
        raise AttnvizError(
            f"the text has more than {MAX_BLANK_LETTERS:,} whitespace characters in a row, too many "
            "for this tokenizer",
            "remove some of them, or use --tokenizer words",
        )
