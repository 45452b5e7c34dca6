"""Cards: how much room each takes, and how a page arranges them."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import steps, trace
from attnviz.errors import Note
from attnviz.renderers import Look
from attnviz.renderers.picture.cards import (
    HEADING_POINTS,
    LONGEST_TABLE_SIDE,
    MAX_NUMBERED_SIDE,
    MAX_SENTENCE_LINES,
    PRINT_POINTS,
    SMALLER_HEADING,
    SUM_POINTS,
    WIDEST_HEADING,
    WORDS_CARD_WIDTH,
    Card,
    card_foot,
    card_head,
    card_items,
    least_card_width,
    make_card,
    table_block,
    table_blocks,
    thin_card,
)
from attnviz.renderers.picture.items import Box, ColorBar, Layout, Stroke, panel_boxes
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.page_kinds import (
    CARD_GAP,
    CELL_SCALES,
    LETTER_SCALES,
    MAX_CELL_GROWTH,
    ROW_GAP,
    WIDEST_ROW_GAP,
    CardFlow,
    flow_cards,
    flow_items,
    page_layout,
)
from attnviz.renderers.picture.panel_rows import FEW_STRETCH
from attnviz.renderers.picture.text import BOLD, SLIDE, text_width
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.section import Section
from attnviz.views.view import Group
from attnviz.wording.sums import Sum
from tests.hand import causal_weights, many_words, vectors
from tests.test_slides import layout_of

LONG_SENTENCE = (
    "what comes of the first and the second and the third and the fourth of all the tables"
)
CURVE_VALUES = np.array([1.0, 2.0, 3.0])


def make_section(*grids: Grid, title: str = "a step", about: str = "What it does.") -> Section:
    return Section("1", "step", title, about, "[4 × 3] · [3 × 4]", "a = b", grids=grids)


def head_grids(count: int, *names: str) -> list[Grid]:
    return [causal_weights(f"{name} · head {head}") for name in names for head in range(count)]


def make_chart() -> Curves:
    return Curves(
        "spread",
        "width",
        (1.0, 2.0, 3.0),
        (Curve("mean", CURVE_VALUES, CURVE_VALUES - 1, CURVE_VALUES + 1),),
    )


def make_cards(count: int) -> list[Card]:
    """This many cards of all forms in turn: a table, several, a chart, words alone."""
    forms = [
        make_card(make_section(causal_weights())),
        make_card(make_section(vectors(4, 3), vectors(4, 3), vectors(4, 3))),
        make_card(make_section(title="words")),
        make_card(make_section(*head_grids(2, "scores", "weights"))),
        make_card(make_chart()),
        make_card(make_section(many_words(12))),
    ]
    return [replace(forms[number % 6], heading=f"card {number}") for number in range(count)]


def words_of(layout: Layout) -> list[str]:
    return [word.text for word in layout.words]


def boxes_of(layout: Layout) -> list[Box]:
    return panel_boxes(layout.items)


def card_layout(card: Card, width: float) -> Layout:
    """The layout of a card by itself, its tables in one row."""
    return Layout(
        (0.0, 0.0),
        tuple(card_items(card, table_blocks(card.panels, (1.0, 1.0))[-1], 0.0, 5.0, width)),
    )


def test_a_table_alone_on_its_card_has_no_title() -> None:
    card_of_one, card_of_two = (
        make_card(make_section(vectors())),
        make_card(make_section(vectors(), causal_weights())),
    )

    assert [each.title for each in card_of_one.panels] == [""]
    assert [each.title for each in card_of_two.panels] == ["context vectors", "weights"]


@pytest.mark.parametrize(
    "panel", [causal_weights("the weights"), replace(make_chart(), title="curves")]
)
def test_what_is_no_step_gives_its_card_its_title(panel: Grid | Curves) -> None:
    card = make_card(panel)

    assert card.heading == panel.title
    assert [each.title for each in card.panels] == [""]


def test_an_axis_has_its_title_only_where_both_sides_count_the_same() -> None:
    square, flat = make_card(make_section(causal_weights(), vectors())).panels

    assert isinstance(square, Grid)
    assert isinstance(flat, Grid)
    assert (square.rows.title, square.columns.title) == ("query (reads)", "key (is read)")
    assert (flat.rows.title, flat.columns.title) == ("", "")


def test_titles_that_begin_alike_keep_their_ends_if_they_are_wider_than_their_tables() -> None:
    long_named_heads, short_named_heads = (
        head_grids(2, name) for name in ("scores before scaling and mask", "w")
    )

    assert [each.title for each in make_card(make_section(*long_named_heads)).panels] == [
        "head 0",
        "head 1",
    ]
    assert [each.title for each in make_card(make_section(*short_named_heads)).panels] == [
        "w · head 0",
        "w · head 1",
    ]


@given(st.text("abcdefgh ", min_size=1, max_size=80))
def test_a_card_is_never_narrower_than_its_heading_needs(title: str) -> None:
    card = make_card(make_section(vectors(2, 1), title=title))
    (flow_card,) = flow_cards([card], 1.0, 1.0).rows[0]
    heading_width = min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)

    assert flow_card.width >= least_card_width(card) >= heading_width
    if heading_width < WIDEST_HEADING:
        assert card_head(card, flow_card.width).heading == card.heading


def test_a_heading_is_made_smaller_before_it_is_cut() -> None:
    card = make_card(make_section(vectors(), title="scores, scaled and masked"))
    width = least_card_width(card)

    assert (
        SMALLER_HEADING
        <= card_head(card, width).size
        < card_head(card, 2 * width).size
        == HEADING_POINTS
    )
    assert card_head(card, width).heading == card.heading


def test_a_heading_too_long_for_any_card_is_cut() -> None:
    card = make_card(make_section(title=LONG_SENTENCE))
    head = card_head(card, WIDEST_HEADING)

    assert least_card_width(card) == WIDEST_HEADING
    assert head.heading.endswith("…")
    assert text_width(head.heading, head.size * BOLD) <= WIDEST_HEADING + 1e-6


def test_each_scale_has_a_key_at_the_right_end_of_the_heading() -> None:
    card = make_card(make_section(causal_weights(), vectors()))
    layout = card_layout(card, 4.0)
    (heading,) = (word for word in layout.words if word.text == card.heading)

    assert {bar.scale.label for bar in layout.items_of(ColorBar)} == {"weight", "value"}
    for bar in layout.items_of(ColorBar):
        bar_left, bottom, width, height = bar.box
        assert width > height
        assert heading.x + text_width(heading.text, heading.size * BOLD) < bar_left
        assert bar_left + width < 4.0
        assert bottom == heading.y
    assert {"−1", "0", "1"} <= set(words_of(layout))


def test_where_there_is_no_room_for_all_keys_some_are_left_out() -> None:
    card = make_card(make_section(causal_weights(), vectors(), title="all of it"))

    assert len(card_head(card, least_card_width(card)).scales) == 1
    assert len(card_head(card, 2 * least_card_width(card)).scales) == 2


def test_the_small_print_has_shapes_formula_and_a_short_sentence() -> None:
    card = make_card(make_section(vectors(), about="What it does."))

    assert card_head(card, 3.0).lines == ("[4 × 3] · [3 × 4]", "a = b", "What it does.")


def test_a_long_sentence_and_a_long_formula_are_left_out_beside_tables() -> None:
    card = make_card(
        replace(
            make_section(vectors(), about=f"{LONG_SENTENCE} {LONG_SENTENCE}"), formula=LONG_SENTENCE
        )
    )

    assert card_head(card, 2.0).lines == ("[4 × 3] · [3 × 4]",)
    assert LONG_SENTENCE in card_head(card, 8.0).lines
    assert (
        " ".join(card_head(card, 8.0).lines[-MAX_SENTENCE_LINES:])
        == f"{LONG_SENTENCE} {LONG_SENTENCE}"
    )


def test_a_card_of_words_alone_has_all_its_words_and_nothing_else() -> None:
    card = make_card(make_section(about=f"{LONG_SENTENCE} {LONG_SENTENCE}"))
    (block,) = table_blocks(card.panels, (1.0, 1.0))
    layout = Layout((0.0, 0.0), tuple(card_items(card, block, 0.0, 5.0, 2.0)))

    assert (block.width, block.height, least_card_width(card)) == (0.0, 0.0, WORDS_CARD_WIDTH)
    assert " ".join(words_of(layout)) == f"{card.heading} {LONG_SENTENCE} {LONG_SENTENCE}"
    assert all(text_width(word.text, PRINT_POINTS) <= 2.0 for word in layout.words)
    assert panel_boxes(layout.items) == [] == [*layout.items_of(ColorBar)]


def test_a_card_is_as_high_as_what_is_drawn_of_it() -> None:
    for card in make_cards(6):
        for block in table_blocks(card.panels, (1.0, 1.0)):
            width = max(block.width, least_card_width(card))
            layout = Layout((0.0, 0.0), tuple(card_items(card, block, 0.0, 0.0, width)))
            boxes = boxes_of(layout)
            lowest = min([box[1] for box in boxes] + [word.y for word in layout.words])
            furthest = max([box[0] + box[2] for box in boxes], default=0.0)

            assert lowest >= -(card_head(card, width).height + block.height) - 0.01
            assert furthest <= width + 1e-6


def test_tables_beside_and_below_each_other_share_their_labels() -> None:
    tables = table_block(
        make_card(make_section(*head_grids(2, "scores", "weights"))).panels, 2, (1.0, 1.0)
    ).tables

    assert [bool(each.rows.labels) for each in tables] == [True, False, True, False]
    assert [bool(each.columns.labels) for each in tables] == [False, False, True, True]


def test_heads_stand_below_each_other() -> None:
    three = table_blocks(
        make_card(make_section(*head_grids(3, "scores", "weights"))).panels, (1.0, 1.0)
    )

    assert [block.across for block in three] == [1, 3, 6]
    assert [len(block.rows) for block in three] == [6, 2, 1]


def test_a_few_tables_stand_in_rows_that_are_all_full() -> None:
    three, five = (
        table_blocks(make_card(make_section(*(vectors() for _ in range(count)))).panels, (1.0, 1.0))
        for count in (3, 5)
    )

    assert [block.across for block in three] == [1, 3]
    assert [block.across for block in five] == [1, 2, 3, 5]


def test_cells_hold_their_numbers_and_very_many_are_small_and_have_none() -> None:
    card_of_few, card_of_many = (
        make_card(make_section(many_words(count))) for count in (MAX_NUMBERED_SIDE, 400)
    )
    layouts = [card_layout(card, 10.0) for card in (card_of_few, card_of_many)]

    assert [bool(layout.panels[0].number_size) for layout in layouts] == [True, False]
    assert max(layouts[1].panels[0].box[2:]) <= LONGEST_TABLE_SIDE + 1e-6


def test_cells_may_be_wider_than_high_but_not_too_wide() -> None:
    card = make_card(make_section(causal_weights()))
    wide = table_block(card.panels, 1, (1.0, 9.0)).tables[0]

    assert wide.width == pytest.approx(wide.height * FEW_STRETCH)


@pytest.mark.parametrize("width", [12.36, 18.76, 40.0])
@pytest.mark.parametrize("growth", [1.0, 1.8])
def test_cards_flow_in_rows_no_wider_than_the_page_and_fill_them(
    width: float, growth: float
) -> None:
    card_list = make_cards(9)
    flow = flow_cards(card_list, width, growth)

    assert [piece.card for row in flow.rows for piece in row] == card_list
    for row in flow.rows:
        row_width = sum(piece.width for piece in row) + CARD_GAP * (len(row) - 1)
        assert width - 0.01 * len(row) <= row_width + 1e-6
        assert row_width <= width + 1e-6
        assert all(piece.body.width <= piece.width for piece in row)


@given(count=st.integers(1, 8), width=st.floats(4.0, 30.0))
def test_a_row_is_wider_than_the_page_only_where_one_card_is(count: int, width: float) -> None:
    for row in flow_cards(make_cards(count), width, 1.0).rows:
        row_width = sum(piece.width for piece in row) + CARD_GAP * (len(row) - 1)
        assert row_width <= width + 1e-6 or len(row) == 1


def test_on_a_wider_page_cards_are_never_higher() -> None:
    heights = [flow_cards(make_cards(9), width, 1.0).height for width in (8.0, 12.0, 16.0, 24.0)]

    assert heights == sorted(heights, reverse=True)
    assert heights[-1] < heights[0]


def test_cells_become_wider_so_as_to_fill_a_row_and_not_by_much() -> None:
    card = make_card(make_section(vectors(4, 8)))
    (narrow,), (wide,) = (flow_cards([card], width, 1.0).rows[0] for width in (4.0, 30.0))

    assert narrow.body.tables[0].width < wide.body.tables[0].width
    assert wide.body.tables[0].width == pytest.approx(
        table_block(card.panels, 1, (1.0, 1.0)).tables[0].width * MAX_CELL_GROWTH
    )


def test_no_card_lies_on_another() -> None:
    flow = flow_cards(make_cards(9), 16.0, 1.0)
    layout = Layout((0.0, 0.0), tuple(flow_items(flow, (0.0, 0.0, 16.0, flow.height + 5.0))))

    for one, other in itertools.combinations(boxes_of(layout), 2):
        are_beside = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
        is_below = one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
        assert are_beside or is_below


def test_room_to_spare_goes_between_the_rows_and_not_too_much_of_it() -> None:
    flow = flow_cards([make_card(make_section(title="words")) for _ in range(9)], 4.5, 1.0)

    assert row_gaps(flow, 0.0) == pytest.approx([ROW_GAP] * 4)
    assert row_gaps(flow, 0.5) == pytest.approx([ROW_GAP + 0.1] * 4)
    assert row_gaps(flow, 50.0) == pytest.approx([WIDEST_ROW_GAP] * 4)


def row_gaps(flow: CardFlow, spare_height: float) -> list[float]:
    """The gaps between rows, from the foot of one to the rule above the next."""
    layout = Layout(
        (0.0, 0.0), tuple(flow_items(flow, (0.0, 0.0, flow.width, flow.height + spare_height)))
    )
    tops = sorted({each.points[0][1] for each in layout.items_of(Stroke)}, reverse=True)
    feet = [top - height for top, height in zip(tops, flow.heights, strict=True)]
    return [foot - top for foot, top in zip(feet, tops[1:], strict=False)]


@pytest.mark.slow("pictures")
def test_cells_grow_only_as_long_as_everything_fits() -> None:
    least = (
        table_block(make_card(section_of_two_tables()).panels, 2, (1.0, 1.0)).tables[0].height / 4
    )
    few_steps, more_steps, many_steps = map(cell_height, (2, 10, 60))

    assert 0 < many_steps < more_steps <= few_steps
    assert least < few_steps <= least * LETTER_SCALES[0] * CELL_SCALES[-1] * 2


def section_of_two_tables() -> Section:
    return make_section(vectors(4, 3), vectors(4, 3))


def cell_height(count: int) -> float:
    """The height of a cell on a slide of this many steps; checks that all fit."""
    steps = tuple(section_of_two_tables() for _ in range(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        layout = page_layout([Group("steps", steps)], Look(size=SLIDE), Captions("a title"))
    for panel in layout.panels:
        left, bottom, width, height = panel.box
        assert min(left, bottom) > 0
        assert left + width < layout.size[0]
        assert bottom + height < layout.size[1]
    return layout.panels[0].box[3] / 4


def section_with_sums(*lines: str) -> Section:
    sums = tuple(Sum("a", line, "1", True) for line in lines)
    return replace(make_section(vectors(4, 3)), sums=sums)


def test_a_card_has_its_first_sums_and_says_how_many_are_left() -> None:
    card = replace(make_card(section_with_sums("1", "2", "3", "4")), max_lines=3)

    assert card_foot(card, 4.0) == ("a = 1 = 1", "a = 2 = 1", "… and 2 more")
    assert card_foot(replace(card, max_lines=4), 4.0) == tuple(f"a = {n} = 1" for n in (1, 2, 3, 4))
    assert card_foot(replace(card, max_lines=0), 4.0) == ()


def test_a_sum_longer_than_all_lines_of_a_card_is_cut() -> None:
    card = replace(make_card(section_with_sums(" + ".join(["0.25"] * 400), "2")), max_lines=3)

    assert card_foot(card, 3.0)[-1] == "…"
    assert len(card_foot(card, 3.0)) == 3
    assert all(text_width(line, SUM_POINTS) <= 3.0 for line in card_foot(card, 3.0))


def test_the_sums_of_a_card_stand_below_its_tables_and_in_its_height() -> None:
    card = replace(make_card(section_with_sums("1", "2", "3")), max_lines=8)
    (row,) = flow_cards([card], 4.0, 1.0).rows
    layout = Layout((0.0, 0.0), tuple(card_items(card, row[0].body, 0.0, 0.0, row[0].width)))
    sums = [word for word in layout.words if word.text.endswith(" = 1")]

    assert len(sums) == 3
    assert min(box[1] for box in boxes_of(layout)) > max(word.y for word in sums)
    assert -row[0].height <= min(word.y for word in sums)


def test_the_tables_of_a_thin_card_have_short_titles() -> None:
    card_of_one, card_of_two = (
        thin_card(make_card(make_section(*head_grids(2, *names)))) for names in (["q"], ["q", "k"])
    )

    assert [each.title for each in card_of_one.panels] == ["head 0", "head 1"]
    assert [each.title for each in card_of_two.panels] == ["q 0", "1", "k 0", "1"]


def test_a_fine_card_has_small_cells_and_no_small_print() -> None:
    card = make_card(make_section(vectors(4, 8)))
    fine_card = thin_card(card)
    usual_piece, fine_piece = (
        flow_cards([each], 1.0, 1.0).rows[0][0] for each in (card, fine_card)
    )

    assert fine_piece.body.tables[0].width < usual_piece.body.tables[0].width / 2
    assert card_head(fine_card, 4.0).lines == ()
    assert fine_piece.body.tables[0].columns.labels == ()


@pytest.mark.slow("pictures")
@pytest.mark.filterwarnings("ignore::attnviz.errors.Note")
def test_a_page_that_grew_ends_where_its_cards_end() -> None:
    """Also where numbers are left out, which would make the page far too high."""
    toy_trace = trace("The old dogs slept because they were tired.", model="toy")
    layout = layout_of(steps(toy_trace, query="they").view(), Look())
    lowest = min(panel.box[1] for panel in layout.panels)

    assert lowest < 0.15 * layout.size[1]
