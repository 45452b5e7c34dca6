"""Names of matrices as in a formula: small letters below the line, and none of a token's."""

from __future__ import annotations

import math

import pytest

from attnviz.renderers import Look
from attnviz.renderers.picture.draw import LOWERED_DEPTH, LOWERED_SHARE, text_pieces
from attnviz.renderers.picture.items import Words
from attnviz.renderers.picture.text import text_width, typeset_names
from attnviz.views.steps.walk import steps
from tests.test_slides import layout_of

SIZE = 72.0  # points: letters of an inch
NAME = Words(typeset_names("of w_query 8"), 1.0, 2.0, SIZE)


def test_what_is_below_the_line_is_smaller_and_nothing_overlaps() -> None:
    before, below, after = text_pieces(NAME)

    assert [before.text, below.text, after.text] == ["of W", "query", " 8"]
    assert (before.size, below.size, after.size) == (SIZE, SIZE * LOWERED_SHARE, SIZE)
    assert (before.y, below.y, after.y) == (2.0, 2.0 - LOWERED_DEPTH, 2.0)
    assert before.x + text_width("of W", SIZE) == pytest.approx(below.x, abs=0.05)
    assert below.x + text_width("query", SIZE * LOWERED_SHARE) == pytest.approx(after.x, abs=0.05)


@pytest.mark.parametrize(("alignment", "share"), [("center", 0.5), ("right", 1.0)])
def test_all_of_it_stands_where_the_words_stood(alignment: str, share: float) -> None:
    pieces = list(text_pieces(Words(NAME.text, 1.0, 2.0, SIZE, halign=alignment)))
    first, *_, last = text_pieces(NAME)
    width = last.x + text_width("| 8", SIZE) - text_width("|", SIZE) - first.x

    assert pieces[0].x == pytest.approx(1.0 - share * width)
    assert all(piece.halign == "left" for piece in pieces)


def test_turned_words_have_their_small_letters_beside_them() -> None:
    before, below, _ = text_pieces(Words(NAME.text, 1.0, 2.0, SIZE, angle=90))

    assert (before.x, before.y) == (1.0, 2.0)
    assert below.x == pytest.approx(1.0 + LOWERED_DEPTH)
    assert math.isclose(below.y, 2.0 + text_width("of W", SIZE), abs_tol=0.05)


def test_words_without_names_are_left_as_they_are() -> None:
    assert list(text_pieces(Words("to_be", 1.0, 2.0, 9.0))) == [Words("to_be", 1.0, 2.0, 9.0)]


@pytest.mark.slow("pictures")
def test_pictures_have_no_name_with_an_underscore_but_those_of_tokens() -> None:
    view = steps("is w_key b_1", tokenizer="spaces", variant="multi-head", query="w_key").view()
    for section in view.sections:
        layout = layout_of(view.of_section(section), Look(size=(13.333, 7.5)))
        pieces = [piece.text for words in layout.words for piece in text_pieces(words)]
        assert all("w_key" in text or "b_1" in text for text in pieces if "_" in text)
        if section.name == "projections":
            assert {"query", "key", "value"} <= set(pieces)
        if section.name == "scores":
            assert any(text.startswith("score H0(w_key, is)") for text in pieces)


def test_texts_and_data_keep_the_underscore() -> None:
    view = steps("I am", step="3").view()

    assert "w_query" in view.render(".md").decode()
    assert "w_query" in view.render(".txt").decode()
