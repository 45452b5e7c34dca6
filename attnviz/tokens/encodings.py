"""Tokenizers of tiktoken's encodings, loaded from its cache or the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import tiktoken
from tiktoken import load

from attnviz.errors import AttnvizError, cmd, opt
from attnviz.machine.context_values import attribute_value
from attnviz.tokens.tokens import Tokens, tokens_of_bytes

DOWNLOAD_TIMEOUT_SECONDS = (10, 30)  # to connect, and between two parts of the answer
MAX_BLANK_LETTERS = 900_000  # tiktoken's patterns panic at 1,000,000


def load_encoding(name: str, *, download: bool = True) -> Callable[[str], Tokens]:
    """Return the tokenizer of one of tiktoken's encodings, such as 'cl100k_base'.

    Downloads it if tiktoken has no copy and `download` is True; refuses one that cannot be had.
    """
    try:
        with _with_download_timeout(download=download):
            return partial(encode, tiktoken.get_encoding(name))
    except ValueError:  # the download has another hash than tiktoken expects
        raise AttnvizError(
            f"what was downloaded is not '{name}' but something else, such as a sign-in page",
            "sign in to the network, point TIKTOKEN_CACHE_DIR at a copy, or use "
            f"{opt.tokenizer:gpt2}",
        ) from None
    except OSError:  # of requests, or of a cache that cannot be read
        problem = f"tiktoken has no copy of '{name}' on this machine and could not download it"
        hint = f"go online once, point TIKTOKEN_CACHE_DIR at a copy, or use {opt.tokenizer:gpt2}"
        if not download:
            problem = f"the model's tokenizer is '{name}', and tiktoken has no copy of it on this "
            problem, hint = f"{problem}machine", f"download it: {cmd.run:TEXT --tokenizer {name}}"
        raise AttnvizError(problem, hint) from None


@contextmanager
def _with_download_timeout(*, download: bool = True) -> Iterator[None]:
    """Give tiktoken's downloads inside the `with` block a timeout, as they have none.

    `download=False` forbids them: they raise PermissionError.
    """
    original_reader = load.read_file

    def read_file(blobpath: str) -> bytes:
        if not blobpath.startswith(("http://", "https://")):
            return original_reader(blobpath)
        if not download:
            raise PermissionError(blobpath)

        import requests  # slow to import, and rarely needed

        answer = requests.get(blobpath, timeout=DOWNLOAD_TIMEOUT_SECONDS)
        answer.raise_for_status()
        return bytes(answer.content)

    with attribute_value(load, "read_file", read_file):
        yield


def encode(vocabulary: tiktoken.Encoding, text: str) -> Tokens:
    """Return the tokens of a text in a tiktoken encoding, where special tokens count as plain text.

    Refuses `MAX_BLANK_LETTERS` whitespace characters in a row.
    """
    if len(text) > MAX_BLANK_LETTERS and re.search(rf"\s{{{MAX_BLANK_LETTERS}}}", text):
        raise AttnvizError(
            f"the text has more than {MAX_BLANK_LETTERS:,} whitespace characters in a row, "
            "too many for this tokenizer",
            f"remove some of them, or use {opt.tokenizer:words}",
        )
    ids = vocabulary.encode_ordinary(text)  # `<|endoftext|>` in a text is just characters
    pieces = {each: vocabulary.decode_single_token_bytes(each) for each in set(ids)}
    return tokens_of_bytes(text, [pieces[each] for each in ids], ids)
