"""Labels: readable and safe in every output."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.tokens.tokens import Tokens, piece_label
from attnviz.wording.printable import printable_text


@pytest.mark.parametrize(
    ("piece", "label"),
    [
        (b"learning", "learning"),
        (b" learning", "learning"),
        (b" ", "␣"),
        (b"   ", "␣␣"),
        (b"\n", "↵"),
        (b"\t\r", "⇥\\r"),
        (b"a b", "a␣b"),
        (b"\x1b[31m", "\\u001b[31m"),
        (b"\x00", "\\u0000"),
        ("日本".encode(), "日本"),
        (b"\xe6\x97", "⟨e6⟩⟨97⟩"),
        (b" \xe6", "⟨e6⟩"),
        ("日".encode() + b"\xe6", "日⟨e6⟩"),
        ("\u202eevil".encode(), "\\u202eevil"),
        ("\u0301".encode(), "◌\u0301"),
        ("e\u0301".encode(), "e\u0301"),
        ("\u200d".encode(), "\\u200d"),
        ("👨\u200d👩".encode(), "👨👩"),
        ("❤\ufe0f".encode(), "❤"),
        ("\U000e0041".encode(), "\\U000e0041"),
    ],
)
def test_a_label_shows_what_is_in_a_piece(piece: bytes, label: str) -> None:
    assert piece_label(piece) == label


@given(st.binary(min_size=1))
def test_a_label_is_never_empty_and_holds_nothing_that_a_terminal_would_obey(piece: bytes) -> None:
    label = piece_label(piece)

    assert label
    assert "\ufffd" not in label or "\ufffd".encode() in piece
    assert not {unicodedata.category(character) for character in label} & {"Cc", "Cf", "Zl", "Zp"}


def test_a_token_is_found_by_its_label_and_by_its_bytes() -> None:
    tokens = Tokens("The cat\n", (b"The", b" cat", b"\n"), (1, 2, 3), (False, True, False))

    assert tokens.find("cat") == (1,)
    assert tokens.find(" cat") == (1,)
    assert tokens.find("↵") == (2,)
    assert tokens.find("dog") == ()


def test_text_for_people_keeps_its_spaces_and_loses_its_escapes() -> None:
    assert printable_text("two words\x1b[0m") == "two words\\u001b[0m"
