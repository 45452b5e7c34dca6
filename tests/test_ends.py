"""What pictures show of what a model comes to: answers, and vectors without some heads."""

from __future__ import annotations

from typing import Any

import pytest

from attnviz import trace
from attnviz.analysis.inspection.inspection import inspect
from attnviz.renderers.picture.frame import Captions, framed
from attnviz.renderers.picture.lettering import lettering
from attnviz.renderers.picture.thumbnails import place
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.moved import moved_table
from attnviz.views.view import View
from tests.overviews import overview_by_hand
from tests.small_transformers import TEXT, Saved

SIZE = (13.0, 8.0)


def panels(view: View) -> list[type]:
    return [type(panel) for group in view.picture.groups for panel in group.panels]


def test_a_picture_without_a_head_ranks_the_tokens_whose_vectors_move() -> None:
    made = inspect(TEXT, model="minilm", without="L5H11")
    view = made.view()
    ((ranked,),) = (group.panels for group in view.picture.groups)
    assert isinstance(ranked, Ranked)
    table = moved_table(made.trace)
    assert table is not None
    assert sorted(table.values[:, 0], reverse=True) == ranked.grid.values[:, 0].tolist()
    place = int(table.values[:, 0].argmax())
    assert ranked.grid.rows.names[0] == table.rows.names[place]
    assert ranked.remarks[0] == f"cosine {table.values[place, 1]:.2f}"
    assert view.headline.startswith("Without L5H11 the last vectors change by ")
    assert "rows read" not in view.picture.caption


@pytest.mark.parametrize("asked", [{"query": "it"}, {"source": "it", "to": "animal"}])
def test_what_has_a_page_of_its_own_keeps_it_when_a_head_is_off(asked: dict[str, Any]) -> None:
    view = inspect(TEXT, model="minilm", without="L5H11", **asked).view()
    assert Grid not in panels(view)
    assert "Without L5H11 the last vectors change by " in view.picture.caption


def test_a_head_of_another_layer_that_is_off_is_named() -> None:
    """Only the layer that is looked at is kept."""
    view = inspect(TEXT, model="minilm", without="L5H11=mean", layer=4, head=7).view()
    assert (
        "Without L5H11 (replaced by its mean) the last vectors change by " in view.picture.caption
    )
    assert any(line.startswith("Without L5H11 (replaced by its mean) ") for line in view.closing)


@pytest.mark.parametrize("asked", [{}, {"query": "it"}, {"layer": 4, "head": 7}, {"merge": "mean"}])
def test_a_picture_says_what_is_left_out_of_it(asked: dict[str, Any]) -> None:
    hidden = inspect(TEXT, model="minilm", hide_special=True, renormalise=True, **asked)
    said = "left out: [CLS] and [SEP] (renormalised)"
    assert said in hidden.view().picture.caption
    assert "left out" not in inspect(TEXT, model="minilm", **asked).view().picture.caption


def test_a_picture_of_answers_is_told_of_by_them(small_transformer: Saved) -> None:
    view = inspect(TEXT, model=str(small_transformer("gpt2")), predict=True).view()
    assert panels(view) == [Grid]
    assert view.headline.startswith('After "')
    assert "rows read" not in view.picture.caption


def test_small_maps_have_a_line_where_the_model_goes_on(small_transformer: Saved) -> None:
    made = trace("it was", model=str(small_transformer("gpt2")), generate=3)
    (drawn,) = (
        each
        for group in inspect(made).view().picture.groups
        for each in group.panels
        if isinstance(each, Overview)
    )
    assert made.prompt is not None
    share = made.prompt / len(made.tokens)
    layout = place(drawn, (0.0, 0.0, *SIZE), lettering(SIZE, 1.0))
    (maps,) = layout.maps
    left, bottom, wide, high = maps.boxes[0]
    lines = [block.box for block in layout.blocks if 0.0 in block.box[2:]]
    assert lines[:2] == [
        pytest.approx((left + share * wide, bottom, 0.0, high)),
        pytest.approx((left, bottom + (1 - share) * high, wide, 0.0)),
    ]
    assert len(lines) == 2 * len(maps.boxes)
    assert any("what the model wrote" in words.text for words in layout.words)


def test_a_scale_of_logarithms_says_that_its_low_end_stands_for_less() -> None:
    letters = lettering(SIZE, 1.0)
    for bend, expected in (("log", "attention weight ≤ 0.001"), ("root", "attention weight 0")):
        layout = place(overview_by_hand(2, 2, bend=bend), (0.0, 0.0, *SIZE), letters)
        assert expected in [words.text for words in layout.words]


@pytest.mark.parametrize("count", [3, 9, 10, 11, 12, 30])
def test_no_headline_ends_in_a_lonely_word(count: int) -> None:
    letters = lettering(SIZE, 1.0)
    above = framed(Captions(" ".join(["letters"] * count)), SIZE, letters).above
    widths = [text_width(line.text, line.size) for line in above]
    assert len(widths) == 1 or widths[-1] > 0.25 * max(widths)


def test_a_long_note_stands_in_several_lines_of_its_size() -> None:
    letters = lettering(SIZE, 1.0)
    below = framed(Captions("t", " ".join(["letters"] * 60)), SIZE, letters).below
    assert " ".join(line.text for line in below) == " ".join(["letters"] * 60)
    assert {line.size for line in below} == {letters.note}
