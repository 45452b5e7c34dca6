"""Text to Tokens: a table of names to import paths, one file for each family.

Any name that is not in the table is looked up among tiktoken's encodings.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.tokens.tokens import Tokens

Tokenizer = Callable[[str], Tokens]


@dataclass(frozen=True)
class TokenizerRow:
    """One way to cut a text up: what it makes of it, and where it is."""

    about: str
    path: str  # named, not imported: tiktoken and its vocabularies are loaded when asked for


TOKENIZERS = {
    "gpt2": TokenizerRow("the pieces of words that GPT-2 reads", "attnviz.tokens.gpt2:gpt2"),
    "words": TokenizerRow("words and punctuation marks", "attnviz.tokens.characters:words"),
    "spaces": TokenizerRow("anything between white space", "attnviz.tokens.characters:spaces"),
    "chars": TokenizerRow("single characters", "attnviz.tokens.characters:chars"),
    "bytes": TokenizerRow("single bytes of UTF-8", "attnviz.tokens.characters:utf8_bytes"),
}
VOCABULARY_SIZES = {"gpt2": 50_257, "chars": 0x110000, "bytes": 256}  # how many ids there are


def tokenize(text: str, tokenizer: str, *, download: bool = True) -> Tokens:
    """The text in the pieces that this tokenizer makes of it."""
    refuse_empty_text(text)
    return find_tokenizer(tokenizer, download=download)(text)


def find_tokenizer(tokenizer: str, *, download: bool = True) -> Tokenizer:
    """The tokenizer of this name, imported only now that it is wanted.

    Where a file names it, and no person, nothing is downloaded for it.
    """
    if tokenizer in TOKENIZERS:
        tokenizer_function: Tokenizer = pkgutil.resolve_name(TOKENIZERS[tokenizer].path)
        return tokenizer_function
    from attnviz.tokens import encodings  # tiktoken, which the other tokenizers do without

    known_names = encodings.encoding_names()
    if tokenizer not in known_names:
        other_names = (name for name in known_names if name not in TOKENIZERS)
        raise unknown_name_error("tokenizer", tokenizer, [*TOKENIZERS, *other_names])
    return encodings.load_encoding(tokenizer, download=download)


def count_tokenizer_ids(tokenizer: str) -> int | None:
    """How many ids there are; None where words have numbers without end."""
    if tokenizer in TOKENIZERS:
        return VOCABULARY_SIZES.get(tokenizer)
    from attnviz.tokens import encodings

    return encodings.count_encoding_ids(tokenizer)


def refuse_empty_text(text: str) -> None:
    """Refuse a text in which there is nothing to look at, or that is no text."""
    if not text.strip():
        raise AttnvizError(
            "the text is empty" if not text else "the text is blank",
            'give a sentence, such as: attnviz run "I am learning this"',
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AttnvizError(
            f"the text is not UTF-8 (its character {error.start + 1} is half of one)",
            "give UTF-8 text, or a UTF-8 file with --file",
        ) from None
