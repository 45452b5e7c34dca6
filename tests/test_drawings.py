"""Arcs, sentences and equations: what is drawn is true, and nothing overlaps or is cut."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import trace
from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look, divide_into_pages, render
from attnviz.renderers.picture.arcs import MAX_LINES, MAX_WORDS
from attnviz.renderers.picture.bars_list import TRACK_LINE
from attnviz.renderers.picture.items import Arc, Block, Layout, Tint, cell_box
from attnviz.renderers.picture.sentence import arc_width, lines_around_query, paragraph, word_bars
from attnviz.renderers.picture.text import lettering, text_width
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import Arcs, Sentence
from attnviz.views.view import View
from tests import not_none
from tests.conftest import Attnviz
from tests.hand import HOSTILE, causal_weights, view_of
from tests.learned_by_hand import BEFORE, SUBJECT, WORDS, make_learned, task
from tests.test_slides import (
    SIZES,
    assert_words_stand_on_page,
    boxes,
    corners,
    find_overlaps,
    layout_of,
    overlaps_any,
    smallest_points,
)

pytestmark = pytest.mark.filterwarnings("ignore::attnviz.errors.Note")

TEXT = "I am learning this"
LONG_SENTENCE = "We rested the sled dog before crossing the lake because it was so tired."
STREET_SENTENCE = "The animal didn't cross the street because it was too tired"
NUMBERED_LIST = (
    "Before the storm:\n1. Bring in the chairs.\n2. Tie up the boat.\n3. Fill the lamps.\n"
)
MULTIBYTE_TEXT = "日本 مرحبا 🎉👩‍👩‍👧 שלום é " + "Donaudampfschifffahrtsgesellschaft" * 2
SCORE_PRODUCT = ["queries", "keys", "scores"]
FOUR_WORDS = "cats chase small mice"
CONTEXT_PRODUCT = ["weights", "values", "context"]
ALL_STEPS = ["tokens", "embeddings", *SCORE_PRODUCT, "scaled", *CONTEXT_PRODUCT]

LONG_WORDS = ("Donaudampfschifffahrtsgesellschaft" * 2, "日本", "مرحبا", "a" * 60)
ONE_OF_MANY = np.eye(3, 4)[::-1] * 0.9


def shot_as_page(view: View, place: int) -> View:
    """One shot of a view's film as a page."""
    shot = view.shots[place]
    return replace(view, picture=replace(view.picture, groups=shot.groups), headline=shot.title)


VIEWS: dict[str, Any] = {
    "a query of one token": lambda: trace("Hello").view(query=0),
    "a query of four": lambda: trace(TEXT).view(query="learning"),
    "a query of fifteen": lambda: trace(LONG_SENTENCE, variant="causal").view(query="it"),
    "a query of two heads": lambda: trace(TEXT, variant="multi-head").view(query="this"),
    "a query of twelve heads": lambda: trace(LONG_SENTENCE, heads=12, dim=24).view(query="it"),
    "a query in a list": lambda: trace(NUMBERED_LIST, variant="causal").view(query=19),
    "a query in a long text": lambda: trace(LONG_SENTENCE * 9, variant="causal").view(query=99),
    "a query among bytes": lambda: trace(MULTIBYTE_TEXT).view(query=2),
    "a query of a second sentence": lambda: trace(TEXT, memory="you are", heads=2).view(query=0),
    "arcs of one token": lambda: trace("Hello").view(as_="arcs"),
    "arcs of four": lambda: trace(TEXT).view(as_="arcs"),
    "arcs of two heads": lambda: trace(TEXT, variant="multi-head").view(as_="arcs"),
    "arcs of nine heads": lambda: trace(LONG_SENTENCE, heads=9, dim=18).view(as_="arcs"),
    "arcs of a list": lambda: trace(NUMBERED_LIST, variant="causal").view(as_="arcs"),
    "arcs of a long text": lambda: trace(LONG_SENTENCE * 9, variant="causal").view(as_="arcs"),
    "arcs of bytes": lambda: trace(MULTIBYTE_TEXT).view(as_="arcs"),
    "arcs of a query": lambda: trace(LONG_SENTENCE, variant="causal").view(as_="arcs", query="it"),
    "Q Kᵀ": lambda: trace(TEXT, variant="causal").view(show=SCORE_PRODUCT),
    "Q Kᵀ of one token": lambda: trace("Hello").view(show=SCORE_PRODUCT),
    "Q Kᵀ of fifteen": lambda: trace(LONG_SENTENCE).view(show=SCORE_PRODUCT),
    "Q Kᵀ of a long text": lambda: trace(LONG_SENTENCE * 3).view(show=SCORE_PRODUCT),
    "Q Kᵀ of a wide head": lambda: trace(TEXT, dim=64).view(show=SCORE_PRODUCT),
    "Q Kᵀ of twelve heads": lambda: trace(TEXT, heads=12, dim=48).view(show=SCORE_PRODUCT),
    "all": lambda: trace(TEXT).view(show=ALL_STEPS),
    "all of two heads": lambda: trace(TEXT, variant="multi-head").view(show=ALL_STEPS),
    "a query of three layers": lambda: trace(TEXT, layers=3, heads=4).view(query="am"),
    "arcs of three layers": lambda: trace(TEXT, layers=3, heads=4).view(as_="arcs"),
    "W V": lambda: trace(TEXT, variant="causal").view(show=CONTEXT_PRODUCT),
    "W V of two heads": lambda: trace(TEXT, variant="multi-head").view(show=CONTEXT_PRODUCT),
    "both products": lambda: trace(TEXT, variant="multi-head").view(
        show=["embeddings", *SCORE_PRODUCT, *CONTEXT_PRODUCT]
    ),
    "heads that learn": lambda: make_learned().view(),
    "heads of which none does it": lambda: make_learned({BEFORE: np.full((2, 2), 0.2)}).view(),
    "heads of a task without readings": lambda: make_learned({}).view(),
    "one head that learns": lambda: make_learned(
        {SUBJECT: np.array([[0.97]])}, layers=1, heads=1, variant="scaled"
    ).view(),
    "many heads that learn": lambda: make_learned(
        {SUBJECT: ONE_OF_MANY, BEFORE: ONE_OF_MANY[::-1]}, layers=3, heads=4
    ).view(),
    "heads of many tokens": lambda: make_learned(
        of=task(SUBJECT, watch=" ".join(WORDS * 3))
    ).view(),
    "heads of long words": lambda: make_learned(
        of=task(SUBJECT, words=LONG_WORDS, watch=" ".join(LONG_WORDS))
    ).view(),
    "heads before the first step": lambda: make_learned(steps=(0,)).view(),
    "a query that learns": lambda: make_learned().view(query="are"),
    "a shot of heads": lambda: shot_as_page(make_learned().view(), 3),
    "a shot of many heads": lambda: shot_as_page(
        make_learned({SUBJECT: ONE_OF_MANY, BEFORE: ONE_OF_MANY}, layers=3, heads=4).view(), -1
    ),
    "a shot of a query": lambda: shot_as_page(make_learned().view(query="are"), -1),
    "W V of long words": lambda: trace(" ".join(HOSTILE[-9:]), tokenizer="words").view(
        show=CONTEXT_PRODUCT
    ),
}


def many_words(count: int) -> str:
    return " ".join(f"word{number}" for number in range(count))


@cache
def view_named(name: str) -> View:
    view: View = VIEWS[name]()
    return view


@cache
def layout_named(name: str, size: str) -> Layout:
    return layout_of(view_named(name), Look(size=SIZES[size]))


every_view = pytest.mark.parametrize("name", VIEWS)
every_size = pytest.mark.parametrize("size", SIZES)


@pytest.mark.slow_table("pictures", keep=10)
@every_size
@every_view
def test_no_two_texts_overlap(name: str, size: str) -> None:
    assert list(find_overlaps(layout_named(name, size).words)) == []


@pytest.mark.slow_table("pictures", keep=8)
@every_size
@every_view
def test_nothing_leaves_the_page(name: str, size: str) -> None:
    layout = layout_named(name, size)
    page = np.array(layout.size)
    assert_words_stand_on_page(layout)
    for left, bottom, width, height in [
        *boxes(layout),
        *(each.box for each in layout.items_of(Block)),
    ]:
        assert min(left, bottom) >= 0
        assert (np.array([left + width, bottom + height]) <= page + 1e-6).all()
    for arc in layout.items_of(Arc):
        ends = np.array([arc.points[0], arc.points[3]])
        assert ends.min() >= 0
        assert (ends <= page).all()


@pytest.mark.slow_table("pictures", keep=12)
@every_size
@every_view
def test_no_text_is_smaller_than_ten_points_on_a_slide(name: str, size: str) -> None:
    assert smallest_points(layout_named(name, size)) >= 10 - 1e-6


@pytest.mark.slow_table("pictures", keep=9)
@every_size
@every_view
def test_words_stand_in_their_blocks_or_beside_them(name: str, size: str) -> None:
    """A word over a colour keeps to it; no other word stands on one."""
    layout = layout_named(name, size)
    filled_blocks = [each for each in layout.items_of(Block) if each.tint is not None]
    outlines = [*map(block_corners, filled_blocks)]
    for word in layout.words:
        box = corners(word)
        if word.background is None:
            assert not overlaps_any(box, outlines), word.text
        else:
            center = box.mean(axis=0)
            (enclosing_block,) = (each for each in filled_blocks if is_inside(each, center))
            assert box[:, 0].min() >= enclosing_block.box[0] - 1e-6
            assert box[:, 0].max() <= enclosing_block.box[0] + enclosing_block.box[2] + 1e-6
            assert enclosing_block.tint == word.background


def block_corners(block: Block) -> np.ndarray:
    left, bottom, width, height = block.box
    right, top = left + width, bottom + height
    return np.array([(left, bottom), (right, bottom), (right, top), (left, top)])


def is_inside(block: Block, point: np.ndarray) -> bool:
    left, bottom, width, height = block.box
    return bool(left <= point[0] <= left + width and bottom <= point[1] <= bottom + height)


def sentences(view: View) -> list[Sentence]:
    return [each for each in view.picture.panels if isinstance(each, Sentence)]


def test_a_sentence_has_every_word_in_the_colour_of_what_is_read_of_it() -> None:
    view = view_named("a query of fifteen")
    (sentence,) = sentences(view)
    highlighted_words = [
        word for word in layout_named("a query of fifteen", "16:9").words if word.background
    ]

    assert tuple(word.text for word in highlighted_words) == sentence.grid.columns.labels
    weights = trace(LONG_SENTENCE, variant="causal").layers[0].attended.weights[0, 10].tolist()
    for word, weight, hidden in zip(
        highlighted_words, weights, sentence.grid.hidden[0], strict=True
    ):
        assert not_none(word.background).value == (None if hidden else pytest.approx(weight))
        assert word.faint == hidden


def test_the_token_that_reads_is_outlined_and_the_others_are_not() -> None:
    layout = layout_named("a query of fifteen", "16:9")
    outlined_blocks = [
        each for each in layout.items_of(Block) if each.outlined > 1.9 and not each.faint
    ]

    (reading_word,) = (word for word in layout.words if word.background and word.text == "it")
    assert [is_inside(each, corners(reading_word).mean(axis=0)) for each in outlined_blocks] == [
        True
    ]


def test_bars_are_sorted_and_as_long_as_their_weights() -> None:
    layout = layout_named("a query of fifteen", "16:9")
    tracks = [each for each in layout.items_of(Block) if each.faint]
    lengths = []
    for track in tracks:
        (bar,) = (
            each
            for each in layout.items_of(Block)
            if each.tint and each.box[:2] == track.box[:2] and each.box[3] == track.box[3]
        )
        assert bar.tint is not None
        assert bar.tint.value is not None
        assert bar.box[2] / track.box[2] == pytest.approx(bar.tint.value)  # on a scale up to 1
        lengths.append(bar.tint.value)

    assert len(lengths) == 8
    assert any(word.text.startswith("and 3 more") for word in layout.words)
    assert lengths == sorted(lengths, reverse=True)


def test_an_arc_for_all_that_is_read_and_the_thicker_the_more() -> None:
    layout = layout_named("a query of fifteen", "16:9")
    weights = [arc.tint.value or 0.0 for arc in layout.items_of(Arc)]
    widths = [arc.width for arc in layout.items_of(Arc)]

    assert weights == sorted(weights)
    assert widths == pytest.approx([weight * widths[-1] / weights[-1] for weight in weights])


@every_size
@pytest.mark.parametrize("kind", [{}, {"variant": "causal"}, {"variant": "multi-head"}])
def test_no_arc_leads_back_to_where_it_starts(kind: dict[str, Any], size: str) -> None:
    """Attention to itself is shown by a token's colour and bar instead."""
    for text, query in (("Hello", 0), (TEXT, 0), (TEXT, 3)):
        layout = layout_of(trace(text, **kind).view(query=query), Look(size=SIZES[size]))
        assert all(arc.points[0] != arc.points[3] for arc in layout.items_of(Arc))
        assert all(abs(arc.points[0][0] - arc.points[3][0]) > 0.1 for arc in layout.items_of(Arc))
        assert bool(layout.items_of(Arc)) == (text == TEXT and (query == 3 or not kind))


def test_a_headline_is_not_said_again_above_its_only_panel() -> None:
    for view in (trace(TEXT).view(query="am", as_="heatmap"), view_named("a query of four")):
        layout = layout_of(view, Look(size=SIZES["16:9"]))
        assert [w.text for w in layout.words if 'what "am" (2)' in w.text] in ([view.headline], [])
        assert not view.picture.description.startswith(":")
    memory = trace(TEXT, memory="you are").view(query="am", as_="heatmap")
    titles = [each.title for each in memory.picture.panels]  # type: ignore[union-attr]
    assert titles == ["in its own sentence", "in the memory"]


def test_arcs_of_heads_say_weights_no_more_often_than_their_scale() -> None:
    words = [word.text for word in layout_named("arcs of two heads", "16:9").words]

    assert {"head 0", "head 1"} <= set(words)
    assert not any("weights" in word for word in words)


def test_a_panel_for_each_head_under_its_name() -> None:
    view = view_named("a query of two heads")

    assert [each.grid.title for each in sentences(view)] == ["head 0", "head 1"]
    assert sentences(view_named("a query of four"))[0].grid.title == ""


def test_a_token_of_another_sentence_reads_from_outside() -> None:
    own_sentence, *_, memory_sentence = sentences(view_named("a query of a second sentence"))

    assert (own_sentence.query, memory_sentence.query) == (0, None)
    assert memory_sentence.grid.columns.labels == ("you", "are")


@every_size
def test_what_hides_is_explained_in_words(size: str) -> None:
    for name in ("a query of fifteen", "arcs of a query", "W V"):
        words = [word.text for word in layout_named(name, size).words]
        assert words.count("hidden by the mask") == 1
    for name in ("arcs of two heads", "arcs of a list"):
        assert "masked links have no line" in [w.text for w in layout_named(name, size).words]
    for name in ("a query of four", "arcs of four", "Q Kᵀ"):
        assert not any("mask" in word.text and "·" not in word.text
                       for word in layout_named(name, size).words)  # fmt: skip


def test_heads_whose_words_have_no_room_in_one_picture_are_refused_as_lines() -> None:
    look = Look(size=SIZES["16:9"])
    nine_heads, twelve_heads = (
        trace(LONG_SENTENCE, heads=n, dim=2 * n).view(as_="arcs") for n in (9, 12)
    )

    labels = trace(LONG_SENTENCE).tokens.labels
    words_drawn = {word.text for word in layout_of(nine_heads, look).words} & set(labels)
    with pytest.raises(AttnvizError, match="12 heads leave room for only 3 of 15 words") as refusal:
        layout_of(twelve_heads, look)

    assert len(words_drawn) >= len(labels) // 2
    assert refusal.value.hint == 'draw them on several pages: save("heads-{page}.png")'
    assert all(
        layout_of(each, look).items_of(Arc) for each in divide_into_pages(twelve_heads, look)
    )


def test_the_strongest_line_of_a_word_has_its_number_beside_it() -> None:
    text_trace = trace(TEXT)
    weights = text_trace.layers[0].attended.weights[0].numpy()
    for query in (None, 1):
        view = text_trace.view(as_="arcs", query=None if query is None else str(query + 1))
        words = layout_of(view, Look(size=SIZES["16:9"])).words
        heights = {word.text: corners(word)[:, 1].mean() for word in words}
        row = weights.max(axis=1) if query is None else weights[query]
        for token, largest in zip(TEXT.split(), row, strict=True):
            number = f"{largest:.2f}"[1:]
            assert (number in heights) == (largest >= (row.max() / 2 if query is None else 0.05))
            assert number not in heights or heights[number] == pytest.approx(
                heights[token], abs=0.06
            )


def test_every_weight_has_a_line_from_who_reads_to_what_is_read() -> None:
    causal_trace = trace(TEXT, variant="causal")
    layout = layout_of(causal_trace.view(as_="arcs"), Look(size=SIZES["16:9"]))
    heights = {word.text: corners(word)[:, 1].mean() for word in layout.words}
    weights = causal_trace.layers[0].attended.weights[0]

    assert len(layout.items_of(Arc)) == 10
    for arc in layout.items_of(Arc):
        (_, start), *_, (_, end) = arc.points
        row, column = (
            min(range(4), key=lambda place: abs(heights[TEXT.split()[place]] - y))
            for y in (start, end)
        )
        assert arc.tint.value == pytest.approx(weights[row, column].item())


def test_with_a_query_only_its_lines_are_drawn() -> None:
    layout = layout_named("arcs of a query", "16:9")

    assert len({arc.points[0] for arc in layout.items_of(Arc)}) == 1
    assert sum(arc.tint.value or 0.0 for arc in layout.items_of(Arc)) == pytest.approx(
        1.0, abs=1e-5
    )


def test_of_very_many_lines_the_strongest_are_drawn_and_it_is_said() -> None:
    view = trace(many_words(60), tokenizer="words").view(as_="arcs")
    layout = layout_of(view, Look(size=SIZES["16:9"]))

    assert len(layout.items_of(Arc)) == MAX_LINES
    assert any("1,000 largest weights" in word.text for word in layout.words)
    assert not any(
        "largest weights" in word.text for word in layout_named("arcs of a list", "16:9").words
    )


def test_of_very_many_tokens_several_stand_together_and_it_is_said() -> None:
    view = trace(many_words(300), tokenizer="words").view(as_="arcs")
    layout = layout_of(view, Look(size=SIZES["16:9"]))

    assert len({arc.points[0] for arc in layout.items_of(Arc)}) <= MAX_WORDS
    assert any(word.text.startswith("one line = 3 × 3 tokens") for word in layout.words)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_a_line_is_never_thinner_than_that_of_a_smaller_weight(
    first_weight: float, second_weight: float, scale_end: float
) -> None:
    scale = Scale("weight", 0.0, scale_end)
    smaller, larger = (
        arc_width(Tint(scale, each), 0.6, 1.3) for each in sorted((first_weight, second_weight))
    )

    assert 0 <= smaller <= larger <= 0.6


def sentence_of_words(count: int, query: int) -> Sentence:
    view = trace(many_words(count), tokenizer="words").view(query=query)
    (sentence,) = sentences(view)
    return sentence


@given(width=st.floats(1, 10), size=st.floats(6, 40))
def test_a_paragraph_keeps_every_word_and_their_order(width: float, size: float) -> None:
    lines_of_words = paragraph(SENTENCE, size, width)

    assert [word.column for word in lines_of_words.words] == list(range(40))
    lines = [word.line for word in lines_of_words.words]
    assert lines == sorted(lines)
    for word in lines_of_words.words:
        assert word.left + word.width <= width + 1e-6
    for one, other in zip(lines_of_words.words, lines_of_words.words[1:], strict=False):
        assert one.line != other.line or one.left + one.width < other.left


SENTENCE = sentence_of_words(40, 20)


@given(max_lines=st.integers(1, 12), width=st.floats(2, 8))
def test_a_long_sentence_keeps_the_lines_around_the_token_that_reads(
    max_lines: int, width: float
) -> None:
    full_paragraph = paragraph(SENTENCE, 18, width)
    shortened = lines_around_query(full_paragraph, max_lines)

    assert shortened.lines <= max(max_lines, 3)
    assert 20 in [word.column for word in shortened.words]
    assert shortened.words_before + len(shortened.words) + shortened.words_after == 40


@given(height=st.floats(0, 6), width=st.floats(0.5, 12))
def test_bars_that_have_no_room_are_counted(height: float, width: float) -> None:
    bars = word_bars(SENTENCE, 18, width, height)

    names = [SENTENCE.grid.columns.names[column] for column in SENTENCE.most_read]
    assert [row.label for row in bars.shown_rows] == names[: len(bars.shown_rows)]
    assert len(bars.shown_rows) + bool(bars.remainder_text) <= max(bars.lines * bars.columns, 1)
    remainder = re.search(r"[\d,]+", bars.remainder_text)
    assert len(bars.shown_rows) + (int(remainder[0]) if remainder else 0) == 40


@every_size
@pytest.mark.parametrize("name", [name for name in VIEWS if "Kᵀ" in name or "W V" in name])
def test_the_cells_of_an_equation_are_of_one_size(name: str, size: str) -> None:
    layout = layout_named(name, size)
    widths, heights = set(), set()
    for panel in layout.panels:
        grid, (_, _, width, height) = panel.grid, panel.box
        if grid.columns.unit == "token":
            widths.add(round(width / len(grid.columns), 6))
        if grid.rows.unit == "token":
            heights.add(round(height / len(grid.rows), 6))

    assert len(widths) == len(heights) == 1
    numbers = {round(panel.number_size, 6) for panel in layout.panels if panel.number_size}
    assert len(numbers) <= 1 or "wide" in name or 0.0 in numbers or lacks_some_numbers(layout)


def lacks_some_numbers(layout: Layout) -> bool:
    """Whether some panels have no numbers, for which they are too small."""
    return any(panel.number_size == 0 for panel in layout.panels)


def test_signs_stand_between_the_panels_of_an_equation() -> None:
    layout = layout_named("Q Kᵀ", "16:9")
    left_panel, middle_panel, right_panel = sorted(layout.panels, key=lambda panel: panel.box[0])
    (times_sign,) = (word for word in layout.words if word.text == "·")
    (equals_sign,) = (word for word in layout.words if word.text == "=")

    assert left_panel.box[0] + left_panel.box[2] < times_sign.x < middle_panel.box[0]
    assert middle_panel.box[0] + middle_panel.box[2] < equals_sign.x < right_panel.box[0]
    centers = {round(panel.box[1] + panel.box[3] / 2, 6) for panel in layout.panels}
    assert len(centers) == 1


@pytest.mark.parametrize("size", ["16:9", "4:3"])
@pytest.mark.parametrize("name", ["Q Kᵀ", "W V", "W V of two heads"])
def test_an_equation_of_few_tokens_can_be_read_from_the_last_row(name: str, size: str) -> None:
    """Its rows are named in large letters, its signs are as high as a title, its cells numbered."""
    layout = layout_named(name, size)
    letters = lettering(layout.size)
    row_labels = [word for word in layout.words if word.halign == "right" and word.angle == 0]
    signs = [word for word in layout.words if word.text in ("·", "=")]

    assert min(word.size for word in row_labels) >= 0.89 * letters.label
    assert min(word.size for word in signs) >= letters.headline
    assert all(panel.number_size for panel in layout.panels)
    for panel in layout.panels:
        (_, _, width, height), (row_count, column_count) = panel.box, panel.grid.cells.shape
        assert 0.5 - 1e-6 <= (height / row_count) / (width / column_count) <= 1.6 + 1e-6


def test_an_equation_of_eight_dimensions_uses_the_height_of_its_page() -> None:
    layout = layout_named("Q Kᵀ", "16:9")
    bottom = min(y for panel in layout.panels for y in [panel.box[1]])
    top = max(panel.box[1] + panel.box[3] for panel in layout.panels)

    assert (top - bottom) / layout.size[1] >= 0.42
    assert min(panel.number_size for panel in layout.panels) >= 11.5


@pytest.mark.parametrize("dim", [4, 8])
def test_numbers_of_an_equation_do_not_touch_the_borders_of_their_cells(dim: int) -> None:
    picture = trace(FOUR_WORDS, tokenizer="words", dim=dim).view(show=["queries", "keys", "scores"])
    layout = layout_of(picture, Look(size=SIZES["16:9"]))

    for panel in layout.panels:
        cell = panel.box[2] / panel.grid.cells.shape[1]
        widest = max(text_width(text, panel.number_size) for text in panel.numbers.flat)
        assert 0 < widest <= 0.82 * cell


def test_an_equation_marks_its_largest_number_and_the_row_and_column_that_make_it() -> None:
    picture = trace(FOUR_WORDS, tokenizer="words", dim=4).view(show=["queries", "keys", "scores"])
    layout = layout_of(picture, Look(size=SIZES["16:9"]))
    frames = [block.box for block in layout.items_of(Block) if block.outlined and not block.tint]
    queries, keys, scores = (panel.grid.values for panel in layout.panels)
    row, column = divmod(int(scores.argmax()), 4)
    parts = (row, None), (None, column), (row, column)
    text = f"row {FOUR_WORDS.split()[row]} of Q · column {FOUR_WORDS.split()[column]} of Kᵀ = "

    for panel, (down, across) in zip(layout.panels, parts, strict=True):
        whole, cell = panel.box, cell_box(panel, down or 0, across or 0)
        left, width = (cell[0], cell[2]) if across is not None else (whole[0], whole[2])
        bottom, height = (cell[1], cell[3]) if down is not None else (whole[1], whole[3])
        assert any(np.allclose(frame, (left, bottom, width, height)) for frame in frames)
    assert f"{text}{queries[row] @ keys[:, column]:.2f}" in [word.text for word in layout.words]


def test_rows_run_through_an_equation_and_are_named_once() -> None:
    layout = layout_named("Q Kᵀ", "16:9")
    queries, _, scores = sorted(layout.panels, key=lambda panel: panel.box[0])

    assert queries.box[1] == pytest.approx(scores.box[1])
    labels = [w for w in layout.words if w.text == "am" and w.halign == "right" and not w.angle]
    assert len(labels) == 1


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".gif", ".txt", ".md"])
@pytest.mark.parametrize("name", ["a query of two heads", "arcs of two heads", "W V of two heads"])
def test_every_renderer_takes_every_way_to_draw(name: str, suffix: str) -> None:
    assert render(view_named(name), suffix)


@pytest.mark.parametrize("suffix", [".txt", ".md"])
def test_texts_have_the_numbers_of_what_pictures_draw_as_lines(suffix: str) -> None:
    grid = next(iter(drawn_grids("arcs of four")))
    text = render(view_of(Arcs(grid)), suffix).decode()

    assert text == render(view_of(grid), suffix).decode()


def drawn_grids(name: str) -> Iterator[Any]:
    return (each.grid for each in view_named(name).picture.panels)  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::attnviz.errors.Note")
def test_hostile_words_are_text_in_every_way_to_draw() -> None:
    grid = causal_weights("weights", *HOSTILE)
    for panel in (Arcs(grid), Sentence(grid.part(slice(20, 21)), 20)):
        svg = render(view_of(panel), ".svg").decode()
        assert "<b>" not in svg
        assert "</script>" not in svg
        assert "&lt;b&gt;" in svg


def test_a_picture_of_a_query_is_described_in_words() -> None:
    view = view_named("a query of fifteen")

    assert "11 it (0.46), 7 crossing (0.16), 1 We (0.10)" in view.picture.description
    assert "and 3 more" in view.picture.description


def test_what_is_read_is_said_to_sum_to_1_only_where_it_does() -> None:
    notes = {each.grid.note for each in sentences(view_named("a query of four"))}
    assert notes == {"the weights sum to 1"}

    with_dropout = trace(LONG_SENTENCE, dropout=0.5).view(as_="arcs")
    assert {each.grid.note for each in with_dropout.picture.panels} == {""}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (["--as", "arc", "-o", "a.png"], "there is no way to draw 'arc'", "did you mean 'arcs'?"),
        (["--as", "arcs"], "no picture is written", "try -o arcs.png"),
        (["--as", "arcs", "-o", "a.csv"], "no picture is written", "try -o arcs.png"),
        (["--as", "sentence"], "no --query is given", "add --query 1"),
        (
            ["--as", "arcs", "--show", "scores", "-o", "a.png"],
            "--show asks for scores",
            "leave out",
        ),
    ],
)
def test_what_cannot_be_drawn_so_is_refused_in_two_lines(
    attnviz: Attnviz, arguments: list[str], problem: str, hint: str
) -> None:
    result = attnviz("run", TEXT, *arguments)

    assert result.status == 2
    error, advice = result.err.splitlines()
    assert problem in error
    assert hint in advice


@pytest.mark.slow_table("pictures", keep=2)
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("choices", [{"as_": "arcs"}, {"query": "am"}])
def test_layers_are_rows_and_heads_are_columns(choices: dict[str, Any], layers: int) -> None:
    heads = {2: 2, 3: 4}[layers]
    view = trace(TEXT, layers=layers, heads=heads).view(**choices)
    layout = layout_of(view, Look(size=SIZES["16:9"]))
    places = {word.text: (word.x, word.y) for word in layout.words if re.match("L.H.", word.text)}

    assert len(places) == layers * heads
    for layer in range(layers):
        assert len({places[f"L{layer}H{head}"][1] for head in range(heads)}) == 1
    for head in range(heads):
        assert len({places[f"L{layer}H{head}"][0] for layer in range(layers)}) == 1


def test_on_a_page_of_heads_words_are_whole_and_lines_are_wide() -> None:
    view = trace(STREET_SENTENCE, heads=12, dim=48).view(as_="arcs")
    pages = divide_into_pages(view, Look(size=SIZES["16:9"]))

    for page in pages:
        layout = layout_of(page, Look(size=SIZES["16:9"]))
        heads = len(page.picture.panels)
        assert heads <= 4
        assert [word.text for word in layout.words].count("because") == 2 * heads
        assert not any("…" in word.text for word in layout.words)
        lines = [arc.points[3][0] - arc.points[0][0] for arc in layout.items_of(Arc)]
        assert min(lines) >= 0.25 * layout.size[0] / (heads + 1)


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize(
    ("choices", "missing"),
    [
        ({"as_": "arcs", "heads": 9}, "all words"),
        ({"query": "it", "heads": 12}, "all bars"),
        ({"show": SCORE_PRODUCT, "heads": 12}, "numbers and labels that can be read"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_has_no_room_on_one_page_is_noted_and_has_room_on_several(
    choices: dict[str, Any], missing: str
) -> None:
    choices, heads = dict(choices), choices["heads"]
    del choices["heads"]
    view = trace(STREET_SENTENCE, variant="causal", heads=heads, dim=4 * heads).view(**choices)
    look = Look(size=SIZES["16:9"])

    with pytest.warns(Note, match=rf"{missing}: save\(\"heads-{{page}}.png\"\)"):
        layout_of(view, look)
    for page in divide_into_pages(view, look):
        layout_of(page, look)


@pytest.mark.parametrize(
    "name", ["a query of four", "arcs of two heads", "Q Kᵀ", "W V of two heads"]
)
def test_nothing_is_noted_where_everything_has_room(name: str) -> None:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        layout_of(view_named(name), Look(size=SIZES["16:9"]))

    assert notes == []


def test_titles_of_scores_beside_weights_keep_away_from_each_other() -> None:
    view = trace(TEXT, variant="multi-head").view(show=["scores", "weights"])
    words = layout_of(view, Look(size=SIZES["16:9"])).words
    one, other = (word for word in words if word.text.startswith("scores scaled, masked · head"))
    (scale,) = (word for word in words if word.text == "score")

    assert corners(other)[:, 0].min() - corners(one)[:, 0].max() >= 0.2
    assert corners(scale)[:, 0].min() - corners(other)[:, 0].max() >= 0.2


def test_ids_of_tokens_are_large_enough_or_left_out() -> None:
    for size in SIZES:
        layout = layout_named("all", size)
        (id_panel,) = (panel for panel in layout.panels if panel.grid.title == "tokens")
        smallest_size = lettering(layout.size).smallest
        assert id_panel.number_size == 0 or id_panel.number_size >= smallest_size - 1e-6


@pytest.mark.slow("pictures")
def test_everything_on_several_pages_can_be_read() -> None:
    view = view_named("all")
    pages = divide_into_pages(view, Look(size=SIZES["16:9"]))

    assert 1 < len(pages) < 5
    for page in pages:
        layout = layout_of(page, Look(size=SIZES["16:9"]))
        assert min(panel.number_size for panel in layout.panels) >= 10
        assert min(word.size for word in layout.words) >= 10
        assert "random vectors" in page.picture.caption
    titles = [word.text for word in layout_named("all", "16:9").words]
    assert {"Q  queries", "Kᵀ  keys", "S  scores"} <= set(titles)


def test_a_heatmap_of_a_query_is_a_table_on_a_screen_too(attnviz: Attnviz) -> None:
    table = attnviz("run", TEXT, "--query", "this", "--as", "heatmap").out

    assert "head 0       .02      .74      .10      .13" in table
    assert "hidden" not in table


def test_the_library_refuses_the_same() -> None:
    with pytest.raises(AttnvizError, match="no 'query' is given"):
        trace(TEXT).view(as_="sentence")


def test_the_way_to_draw_is_in_the_command_that_makes_it_again(
    attnviz: Attnviz, tmp_path: Any
) -> None:
    path = tmp_path / "arcs.svg"
    attnviz("run", TEXT, "--as", "arcs", "-o", str(path))

    assert "--as arcs" in path.read_text(encoding="utf-8").replace("&#x27;", "'")


def test_letters_of_a_query_are_large_where_there_is_room() -> None:
    layout = layout_named("a query of four", "16:9")
    letters = lettering(layout.size)

    assert min(word.size for word in layout.words if word.background) >= letters.text
    assert max(word.size for word in layout.words if word.background) <= 2 * letters.text


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize(
    ("choices", "heads"),
    [
        ({"as_": "arcs"}, 1),
        ({"query": "it"}, 1),
        ({"show": SCORE_PRODUCT}, 3),
        ({"show": CONTEXT_PRODUCT}, 3),
    ],
)
def test_heads_are_divided_among_pages_and_no_equation_is_torn(
    choices: dict[str, Any], heads: int
) -> None:
    """Each head once and in order, in pages on which it is as legible as alone."""
    view = trace(LONG_SENTENCE, heads=6, dim=24).view(**choices)
    pages = divide_into_pages(view, Look(size=SIZES["16:9"]))

    assert len(pages) > 1
    assert [panel for page in pages for panel in page.picture.panels] == [*view.picture.panels]
    assert all(len(page.picture.panels) % heads == 0 for page in pages)
    assert pages[0].headline.endswith(f"(1 of {len(pages)})")


@pytest.mark.parametrize("choices", [{"as_": "arcs"}, {"query": "am"}])
def test_what_is_legible_on_one_page_stays_there(choices: dict[str, Any]) -> None:
    view = trace(TEXT, heads=2).view(**choices)

    assert divide_into_pages(view, Look(size=SIZES["16:9"])) == [view]


def test_bars_of_heads_that_may_read_more_or_less_are_of_one_height() -> None:
    text_trace = trace("The old dogs slept because they were tired.", model="toy")
    layout = layout_of(text_trace.view(query="they"), Look())

    tracks = (block for block in layout.items_of(Block) if block.outlined == TRACK_LINE)
    assert len({round(block.box[3], 6) for block in tracks}) == 1
