"""The terminal: what fits, at every width, with colours and without."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from attnviz.cells import StoredCells
from attnviz.renderers.colors import PALETTES
from attnviz.renderers.terminal.lines import panel_lines, view_lines
from attnviz.renderers.terminal.screen import BLOCK_RAMP, MASKED_SIGN, ColorDepth, Screen
from attnviz.renderers.terminal.sentence import sentence_lines
from attnviz.renderers.terminal.table import TableForm, TerminalTable
from attnviz.renderers.terminal.tables import fit_tables
from attnviz.traces.from_text import trace
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.reading import query_readings
from tests.hand import HOSTILE, causal_weights, dimensions, many_words, vectors, words


def table_lines(grid: Grid, screen: Screen) -> list[str]:
    return [line.plain for line in panel_lines([grid], screen)]


def fit_table(grid: Grid, screen: Screen) -> TerminalTable:
    ((table,),) = fit_tables([grid], screen)
    return table


def describe_form(table: TerminalTable) -> str:
    cells, heading = table.form.cells, table.form.heading
    return f"{cells} {table.form.width} {heading}" if cells == "blocks" else f"{cells} {heading}"


@pytest.mark.parametrize(
    ("tokens", "form", "pool_size"),
    [
        (8, "numbers across", 1),
        (14, "numbers down", 1),
        (24, "blocks 2 down", 1),
        (40, "blocks 1 numbers", 1),
        (80, "blocks 1 numbers", 2),
        (200, "blocks 1 numbers", 3),
    ],
)
def test_the_form_follows_from_what_fits_in_80_columns(
    tokens: int, form: str, pool_size: int
) -> None:
    table = fit_table(many_words(tokens), Screen(80))

    assert describe_form(table) == form
    assert len(table.grid.columns) == -(-tokens // pool_size)


@pytest.mark.parametrize(
    ("tokens", "form"),
    [
        (8, "numbers across"),
        (12, "numbers numbers"),  # its words would take the heading off the screen
        (17, "numbers numbers"),
        (18, "blocks 2 numbers"),
        (19, "blocks 2 numbers"),
        (20, "halves numbers"),
        (40, "halves numbers"),
        (60, "halves numbers"),
    ],
)
def test_with_a_height_the_form_follows_from_what_is_seen_at_once(tokens: int, form: str) -> None:
    assert describe_form(fit_table(many_words(tokens), terminal_screen())) == form


def terminal_screen(
    width: int = 80, height: int | None = 24, colors: ColorDepth = "truecolor"
) -> Screen:
    return Screen(width, height, colors)


@pytest.mark.parametrize("tokens", range(1, 41))
def test_up_to_40_tokens_and_the_line_that_explains_them_stay_on_a_screen_of_24_lines(
    tokens: int,
) -> None:
    lines = list(panel_lines([many_words(tokens)], terminal_screen()))

    assert len(lines) <= 23  # a prompt follows
    assert any("each row sums to 1" in line.plain for line in lines)


@pytest.mark.parametrize("heads", [2, 4, 8])
def test_many_heads_stand_beside_each_other_and_stay_on_the_screen(heads: int) -> None:
    grids = [many_words(10) for _ in range(heads)]
    rows = fit_tables(grids, terminal_screen())

    assert len(rows) < heads
    assert len(list(panel_lines(grids, terminal_screen()))) <= 23
    assert sum(len(row) for row in rows) == heads


def test_what_stands_beside_a_table_of_the_same_rows_does_not_name_them_again() -> None:
    text = lines_side_by_side([causal_weights("one"), causal_weights("other")], Screen(60))

    assert "3 learning  .14 .29      .57    ·    .14 .29      .57    ·" in text
    other_grid = causal_weights("other", "we", "are", "here", "now")
    lines = lines_side_by_side([causal_weights("one"), replace(other_grid, columns=words(*LABELS))])
    assert [line for line in lines if "3 learning" in line and "3 here" in line]


LABELS = ("I", "am", "learning", "this")


def lines_side_by_side(grids: list[Grid], screen: Screen | None = None) -> list[str]:
    return [line.plain.rstrip() for line in panel_lines(grids, screen or Screen(80))]


def test_two_rows_in_one_line_are_the_halves_of_its_cells() -> None:
    """Of an odd number of rows the last is an upper half."""
    grid = replace(many_words(5), scale=Scale("weight", 0.0, 1.0))
    table = TerminalTable(grid, terminal_screen(), TableForm("halves", 1, has_pair_names=True), str)
    heading, *rows = table.lines()

    assert heading.plain == "weights           1   5"
    assert [row.plain for row in rows] == [
        "1 word0 / 2 word1 ▀▄···",
        "3 word2 / 4 word3 ▀▀▀▄·",
        "5 word4           ▀▀▀▀▀",
    ]
    first_styles = [str(span.style) for span in rows[0].spans]
    assert first_styles == ["#e8fbfa on #0065ae", "#4bb9de", "dim"]
    assert all(" on " not in str(span.style) for span in rows[2].spans)


def test_the_labels_of_two_rows_in_a_line_are_numbers_where_words_have_no_room() -> None:
    table = TerminalTable(many_words(5), terminal_screen(), TableForm("halves", 1), str)

    assert [row.plain[:4] for row in table.lines()][2:] == ["1–2 ", "3–4 ", "5   "]


def test_a_pooled_row_says_its_range_and_not_its_first_word() -> None:
    grid = fit_table(many_words(81), Screen(40)).grid

    assert grid.rows.names[:2] == ("1–3", "4–6")
    assert not any("word" in name for name in grid.rows.names)
    assert fit_table(many_words(200), terminal_screen()).grid.pool_note


@pytest.mark.parametrize("tokens", [41, 80, 200, 700, 2000])
def test_whatever_is_pooled_is_seen_at_once(tokens: int) -> None:
    grid = many_words(tokens)
    lines = list(panel_lines([grid], terminal_screen()))

    assert len(lines) <= 23 or not fit_table(grid, terminal_screen()).grid.pool_note
    assert max(line.cell_len for line in lines) <= 80


def test_words_are_written_downwards_over_their_columns() -> None:
    grid = causal_weights(
        "weights", "the", "cat", "e\u0301te\u0301", "日本", "crossings-over", *"abc"
    )
    rows = [line.rstrip() for line in table_lines(grid, Screen(50))]

    assert rows[1:5] == [" " * 35 + letter for letter in "cros"]
    assert rows[5:13] == [
        "                                   s",
        "                                   i",
        "                                   n",
        "                                   g",
        "                                   s",
        "                   t   c   e\u0301       -",
        "                   h   a   t  日   o",
        "                   e   t   e\u0301  本   …   a   b   c",
    ]


def head_lines(count: int, tokens: int, screen: Screen) -> list[str]:
    grid = many_words(tokens)
    heads = [replace(grid, title=f"weights · head {head}") for head in range(count)]
    return [line.plain for line in panel_lines(heads, screen)]


def test_heads_of_halves_name_their_words_in_a_line_and_stand_equally_far_apart() -> None:
    lines = head_lines(12, 12, terminal_screen())
    row = next(line for line in lines if line.startswith("1–2"))

    assert "1 word0 · 2 word1 · 3 word2" in " ".join(lines)
    assert len({len(gap) for gap in re.findall(r"(?<=[▀▄·]) {2,}(?=[▀▄·])", row)}) == 1


@pytest.mark.parametrize("tokens", [150, 300])
def test_blocks_of_tokens_are_numbered_evenly_and_apart_from_the_title(tokens: int) -> None:
    lines = table_lines(many_words(tokens), terminal_screen())
    ticks = [int(number) for number in lines[1].split()]

    assert lines[0] == "weights"
    assert len({second - first_styles for first_styles, second in pairwise(ticks)}) == 1
    assert ticks[0] == 1


@pytest.mark.parametrize("tokens", [21, 30, 40])
def test_without_colour_what_explains_a_long_table_is_seen_above_it(tokens: int) -> None:
    lines = table_lines(many_words(tokens), terminal_screen(colors="none"))

    assert any("row = query (reads)" in line for line in lines[:3])
    assert any("hidden" in line for line in lines[:3])
    assert len(lines) > 24


@pytest.mark.parametrize("height", [None, 24])
def test_words_stand_over_columns_that_are_as_wide_as_they_are(height: int | None) -> None:
    text = lines_side_by_side([causal_weights("one"), causal_weights("other")], Screen(80, height))

    assert text[1].split() == [*LABELS, *LABELS]
    assert [line for line in text if "1 I" in line and line.count("1.0") == 2]
    for column, word in enumerate(LABELS):
        end = text[1].index(word) + len(word)
        numbers = [line[:end].split()[-1] for line in text[2:6]]
        assert all(number == "·" or number[0] in ".1" for number in numbers), column


@pytest.mark.parametrize("height", [None, 24])
def test_words_are_written_downwards_where_they_do_not_fit_across(height: int | None) -> None:
    text = lines_side_by_side([causal_weights("one"), causal_weights("other")], Screen(48, height))
    heading_lines = text[
        1 : next(place for place, line in enumerate(text) if line.startswith("1 I"))
    ]
    column_words = ["".join(line[column] for line in heading_lines if len(line) > column).strip()
            for column in (13, 17, 21, 25)]  # fmt: skip

    assert column_words == [*LABELS]


def test_explicit_numbers_are_written_whatever_the_height() -> None:
    screen = replace(terminal_screen(120), numbers=True)

    assert describe_form(fit_table(many_words(25), screen)) == "numbers numbers"
    assert describe_form(fit_table(many_words(25), terminal_screen(120))) == "halves numbers"


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("height", [None, 24])
@pytest.mark.parametrize("colors", ["none", "16", "256", "truecolor"])
@pytest.mark.parametrize("tokens", [1, 4, 8, 16, 24, 40, 80, 200, 700])
def test_every_row_is_labelled_no_cell_is_empty_and_no_line_too_wide(
    tokens: int, colors: ColorDepth, height: int | None, width: int
) -> None:
    screen, grid = terminal_screen(width, height, colors), many_words(tokens)
    lines = list(panel_lines([grid, vectors(tokens, 30)], screen))
    table = fit_table(grid, screen)

    assert max(line.cell_len for line in lines) <= width
    rows = list(table.lines())[table.height - len(table.names) :]
    for row, name in zip(rows, table.names, strict=True):
        assert row.plain.startswith(name)
        assert "…" not in name
        cells = row.plain[table.label_width :]
        if table.form.cells == "numbers":
            assert len(cells.split()) == len(table.grid.columns)
        elif screen.colored:  # a cell without a glyph has a colour
            styled_width = sum(span.end - span.start for span in row.spans if span.style)
            assert styled_width == len(table.grid.columns) * table.form.width
        else:
            places = range(0, len(cells), table.form.width)
            assert " " not in [cells[place] for place in places]


@given(
    width=st.integers(1, 200),
    tokens=st.integers(1, 60),
    columns=st.integers(1, 60),
    full=st.booleans(),
)
def test_no_line_is_wider_than_any_terminal(
    width: int, tokens: int, columns: int, full: bool
) -> None:
    lines = panel_lines([many_words(tokens), vectors(tokens, columns)], Screen(width, full=full))

    assert max(line.cell_len for line in lines) <= max(width, 24)


@pytest.mark.parametrize("width", [24, 40, 80, 120])
def test_hostile_labels_are_shown_as_they_are_and_keep_the_columns_straight(width: int) -> None:
    lines = table_lines(causal_weights("weights", *HOSTILE), Screen(width))
    body = lines[2 : lines.index("")]

    assert {cell_len(line) for line in body} == {cell_len(body[0])}
    assert cell_len(body[0]) <= width


def test_hidden_cells_look_like_no_weight() -> None:
    rows = table_lines(causal_weights(), Screen(80))[2:6]

    assert rows[0] == "1 I              1.0        ·        ·        ·"
    assert rows[3] == "4 this           .07      .13      .27      .53"
    assert MASKED_SIGN not in BLOCK_RAMP


def test_without_colour_a_ramp_of_glyphs_carries_the_blocks() -> None:
    rows = table_lines(many_words(4), Screen(80, numbers=False))[6:10]

    assert rows[3] == "4 word3 ▁▁▂▂▃▃▅▅"
    assert rows[0] == "1 word0 ██· · · "


def test_into_a_file_go_plain_numbers_and_nothing_is_cut() -> None:
    rows = table_lines(many_words(300), Screen(None))

    assert len(rows[301].split()) == 302
    assert rows[301].startswith("300 word299")
    assert len(table_lines(vectors(300, 64), Screen(None))[5].split()) == 66


def test_wide_vectors_say_how_many_more_there_are_and_full_shows_all() -> None:
    cut_lines, full_lines = (
        table_lines(vectors(3, 30), Screen(80)),
        table_lines(vectors(3, 30), Screen(80, full=True)),
    )

    assert "and 18 more dimensions (--full shows all)" in cut_lines
    assert all(any(f" {number}" in line for line in full_lines) for number in range(1, 31))
    assert not any("more" in line for line in full_lines)


def test_a_matrix_between_dimensions_names_the_columns_and_rows_that_it_leaves_out() -> None:
    matrix = replace(vectors(200, 30), rows=dimensions(200))

    assert "and 18 more columns and 160 more rows (--full shows all)" in table_lines(
        matrix, Screen(80)
    )


def test_long_columns_of_vectors_are_cut_with_a_word() -> None:
    assert "and 160 more tokens (--full shows all)" in table_lines(vectors(200, 4), Screen(80))


def test_heads_stand_side_by_side_while_they_fit() -> None:
    heads = [causal_weights(f"weights L0H{head}") for head in range(3)]

    wide_lines = [line.plain for line in panel_lines(heads, Screen(100))]
    narrow_lines = [line.plain for line in panel_lines(heads, Screen(50))]

    assert wide_lines[0].split() == ["weights", "L0H0", "weights", "L0H1", "weights", "L0H2"]
    assert narrow_lines[0].split() == ["weights", "L0H0", "weights", "L0H1"]
    assert sum("each row sums to 1" in line for line in wide_lines) == 1


def test_what_one_token_reads_is_a_sentence_and_sorted_bars() -> None:
    result = trace("I am learning, again and again", tokenizer="words", variant="causal")
    text = [line.plain for line in sentence_lines(query_readings(result, 4)[0], Screen(60))]

    sentence = next(line for line in text if line.startswith("I"))
    assert (
        "".join(letter for letter in sentence if letter not in BLOCK_RAMP + MASKED_SIGN)
        == result.tokens.text
    )
    bars = [line for line in text if "█" in line and line[0].isdigit()]
    numbers = [float(line.split()[2]) for line in bars]
    assert numbers == sorted(numbers, reverse=True)
    assert "2 tokens hidden by the mask" in text


def test_a_word_that_is_longer_than_the_screen_is_cut_with_a_sign_of_it() -> None:
    (grid,) = query_readings(trace(f"I {'a' * 90} am", tokenizer="words"), 0)
    sentence = [line.plain for line in sentence_lines(grid, Screen(80))][3:6]

    assert sentence[1].rstrip(BLOCK_RAMP) == "a" * 78 + "…"


@pytest.mark.parametrize(
    ("heads", "expected"), [(1, "the weights sum to 1"), (2, "the weights of each head sum to 1")]
)
def test_bars_are_not_called_rows(heads: int, expected: str) -> None:
    (grid,) = query_readings(trace("I am", heads=heads), 1)
    lines = [line.plain for line in sentence_lines(grid, Screen(80))]

    assert lines[1] == expected
    assert not any("row" in line for line in lines)


def test_bars_run_from_0_to_the_stated_end_in_the_colours_of_the_legend() -> None:
    result = trace("I am learning, again and again", tokenizer="words", variant="causal")
    grid = query_readings(result, 4)[0]
    lines = list(sentence_lines(grid, Screen(60, colors="truecolor")))

    assert lines[0].plain == 'what "again" (5) reads'
    (axis,) = [line for line in lines if line.plain.strip().startswith("0─")]
    assert axis.plain.endswith("─1")
    bars = [line for line in lines if "█" in line.plain]
    start = axis.plain.index("0")
    for bar in bars:
        share = float(bar.plain[:start].split()[-1])
        assert len(bar.plain) - start == pytest.approx(40 * share, abs=1)
    styles = {str(span.style) for line in (*bars, lines[-1]) for span in line.spans}
    assert len(styles) > 4


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("colors", ["256", "truecolor"])
@pytest.mark.parametrize("palette", PALETTES)
def test_every_word_that_is_read_is_told_apart_from_the_paper_and_from_what_is_hidden(
    theme: str, colors: ColorDepth, palette: str
) -> None:
    grid = replace(many_words(3), scale=Scale("weight", 0.0, 1.0))
    values = np.array([[0.0, 0.5, 0.0]])
    row_grid = replace(
        grid.part(slice(1)), cells=StoredCells(values, np.array([[False, False, True]]))
    )
    sentence = next(
        line
        for line in sentence_lines(
            row_grid, Screen(60, colors=colors, theme=theme, palette=palette)
        )
        if line.plain == "word0 word1 word2"
    )
    *word_styles, hidden_style = (span.style for span in sentence.spans)
    faint_color, strong_color = (background_color(style) for style in word_styles)

    assert str(hidden_style) == "dim"
    paper = np.array([255 if theme == "light" else 0] * 3)
    assert all(np.abs(each - paper).max() > 60 for each in (faint_color, strong_color))
    assert np.abs(faint_color - strong_color).max() > 50


def background_color(style: str | Style) -> np.ndarray:
    assert isinstance(style, Style)
    assert style.bgcolor
    return np.array(style.bgcolor.get_truecolor(), dtype=int)


@pytest.mark.parametrize("tokens", [5, 20, 40, 100])
def test_what_one_token_reads_is_seen_at_once(tokens: int) -> None:
    result = trace(" ".join(f"w{place}" for place in range(tokens)), tokenizer="words")
    (grid,) = query_readings(result, tokens - 1)
    lines = [line.plain for line in sentence_lines(grid, Screen(80, 24))]

    assert len(lines) <= 23
    assert sum("█" in line or "▏" in line for line in lines) >= 5
    assert any("more" in line for line in lines) == (tokens > 14)


def test_what_is_hidden_is_dim_with_colours_and_without() -> None:
    for screen in (Screen(80), Screen(80, colors="256"), Screen(80, numbers=False)):
        row = next(line for line in panel_lines([causal_weights()], screen) if line.plain[0] == "1")
        dots = [place for place, letter in enumerate(row.plain) if letter == MASKED_SIGN]
        dim_places = {place for span in row.spans if str(span.style) == "dim"
               for place in range(span.start, span.end)}  # fmt: skip
        assert dots
        assert set(dots) <= dim_places


def test_the_weights_stand_alone_where_the_vectors_have_no_room() -> None:
    view = trace("I am learning this and that", tokenizer="words").view()
    tall_lines, short_lines = (
        [line.plain for line in view_lines(view, Screen(80, height))] for height in (40, 16)
    )

    assert "context vectors" in tall_lines
    assert not any("--show" in line for line in tall_lines)
    assert "context vectors" not in short_lines
    assert "weights" in short_lines
    assert short_lines[-1] == "--show context shows the vectors"
    assert "context vectors" in [line.plain for line in view_lines(view, Screen(80))]
    full_screen = Screen(80, 16, full=True)
    assert "context vectors" in [line.plain for line in view_lines(view, full_screen)]


def test_what_is_asked_for_is_shown_whatever_the_height() -> None:
    view = trace("I am learning this", tokenizer="words").view(show=["weights", "context"])

    assert "context vectors" in [line.plain for line in view_lines(view, Screen(80, 10))]


def test_colours_are_backgrounds_with_ink_that_can_be_read() -> None:
    row = list(panel_lines([causal_weights()], Screen(80, colors="truecolor")))[2]

    # A weight of 1 on a dark terminal.
    assert str(row.spans[0].style) == "#000000 on #e8fbfa"
