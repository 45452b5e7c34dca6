"""The letters that an entry of a model's vocabulary stands for, without a text around it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

LOST = "\ufffd"  # in place of bytes that are less than a letter
ONE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # how some vocabularies spell a byte
SPACE, GLUED = "▁", "##"  # how some spell a space before a word, and others that there is none


def piece_of(tokenizer: Any, token: int) -> bytes:
    """The letters of a token, with the space before them; or as many bytes as it has."""
    written = str(tokenizer.convert_ids_to_tokens(token))
    if (one := ONE_BYTE.fullmatch(written)) is not None:
        return bytes.fromhex(one.group(1))
    read = str(tokenizer.decode([token]))
    if LOST in read and set(written) <= set(_bytes()):
        return bytes(_bytes()[letter] for letter in written)
    if written.startswith(GLUED) and read.startswith(GLUED):
        return read.removeprefix(GLUED).encode()
    spaced = written.startswith(SPACE) and not read[:1].isspace()
    return f"{' ' * spaced}{read}".encode(errors="replace")


@cache
def _bytes() -> dict[str, int]:
    """The letters that stand for bytes in vocabularies of bytes, as GPT-2's: it began with it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }
