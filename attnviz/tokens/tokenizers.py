"""TOKENIZERS: a table of names and import paths; tiktoken's encodings are added to it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from attnviz.errors import AttnvizError, cmd, opt, unknown_name_error
from attnviz.tokens.tokens import Tokens

Tokenizer = Callable[[str], Tokens]


@dataclass(frozen=True)
class TokenizerRow:
    """A tokenizer's description and import path."""

    about: str
    path: str  # imported only when used, as tiktoken and vocabularies are slow to load


TOKENIZERS = {
    "gpt2": TokenizerRow("the pieces of words that GPT-2 reads", "attnviz.tokens.gpt2:gpt2"),
    "words": TokenizerRow("words and punctuation marks", "attnviz.tokens.characters:words"),
    "spaces": TokenizerRow("anything between white space", "attnviz.tokens.characters:spaces"),
    "chars": TokenizerRow("single characters", "attnviz.tokens.characters:chars"),
    "bytes": TokenizerRow("single bytes of UTF-8", "attnviz.tokens.characters:utf8_bytes"),
}
VOCABULARY_SIZES = {"gpt2": 50_257, "chars": 0x110000, "bytes": 256}


def tokenize(text: str, tokenizer: str, *, download: bool = True) -> Tokens:
    """Return the tokens of a text by the tokenizer of this name, such as 'gpt2' or 'words'.

    Refuses a blank text and what `find_tokenizer` refuses.
    """
    refuse_empty_text(text)
    return find_tokenizer(tokenizer, download=download)(text)


def find_tokenizer(tokenizer: str, *, download: bool = True) -> Tokenizer:
    """Return the tokenizer of this name, imported now; refuse an unknown name.

    `download=False` is for names in files: only what a user names may cause a download.
    """
    if tokenizer in TOKENIZERS:
        tokenizer_function: Tokenizer = pkgutil.resolve_name(TOKENIZERS[tokenizer].path)
        return tokenizer_function
    import tiktoken  # which the other tokenizers do without

    from attnviz.tokens.encodings import load_encoding

    known_names = tiktoken.list_encoding_names()
    if tokenizer not in known_names:
        other_names = (name for name in known_names if name not in TOKENIZERS)
        raise unknown_name_error("tokenizer", tokenizer, [*TOKENIZERS, *other_names])
    return load_encoding(tokenizer, download=download)


def count_tokenizer_ids(tokenizer: str) -> int | None:
    """Return the size of a tokenizer's vocabulary; None if ids are hashes of words."""
    if tokenizer in TOKENIZERS:
        return VOCABULARY_SIZES.get(tokenizer)
    import tiktoken

    return tiktoken.get_encoding(tokenizer).n_vocab


def refuse_empty_text(text: str) -> None:
    """Refuse an empty or blank text, and one that cannot be written as UTF-8."""
    if not text.strip():
        raise AttnvizError(
            "the text is empty" if not text else "the text is blank",
            f'give a sentence, such as: {cmd.run:"I am learning this"}',
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AttnvizError(
            f"the text is not UTF-8 (its character {error.start + 1} is half of one)",
            f"give UTF-8 text, or a UTF-8 file with {opt.file}",
        ) from None
