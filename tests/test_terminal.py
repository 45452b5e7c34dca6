"""The terminal: what fits, at every width, with colours and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from attnviz.renderers.terminal.lines import lines
from attnviz.renderers.terminal.ramps import RAMP
from attnviz.renderers.terminal.screen import HIDDEN, Screen
from attnviz.renderers.terminal.sentence import reading
from attnviz.renderers.terminal.tables import fit
from attnviz.traces.from_text import trace
from attnviz.views.grids.grid import Grid
from attnviz.views.reading import readings
from tests.hand import HOSTILE, causal_weights, many_words, vectors


def drawn(grid: Grid, screen: Screen) -> list[str]:
    return [line.plain for line in lines([grid], screen)]


@pytest.mark.parametrize(
    ("tokens", "form", "pooled"),
    [(8, "numbers", 1), (14, "numbers", 1), (24, 2, 1), (40, 1, 1), (80, 1, 2), (200, 1, 4)],
)
def test_the_form_follows_from_what_fits_in_80_columns(
    tokens: int, form: str | int, pooled: int
) -> None:
    (table,) = fit(many_words(tokens), Screen(80))

    assert ("numbers" if table.numbers else table.cell_width) == form
    assert len(table.grid.columns) == -(-tokens // pooled)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("colored", [True, False])
@pytest.mark.parametrize("tokens", [1, 4, 8, 16, 24, 40, 80, 200, 700])
def test_every_row_is_labelled_no_cell_is_empty_and_no_line_too_wide(
    tokens: int, colored: bool, width: int
) -> None:
    grid = many_words(tokens)
    made = list(lines([grid, vectors(tokens, 30)], Screen(width, colored=colored)))
    (table,) = fit(grid, Screen(width, colored=colored))

    assert max(line.cell_len for line in made) <= width
    rows = made[2 : 2 + len(table.grid.rows)]
    assert all(
        f"word{table.grid.rows.labels[place][4:]}" in row.plain for place, row in enumerate(rows)
    )
    assert not any("…" in row.plain for row in rows)
    for row in rows:
        if table.numbers:
            assert len(row.plain[table.label_width :].split()) == len(table.grid.columns)
        elif colored:  # a cell without a glyph has a colour
            styled = sum(span.end - span.start for span in row.spans if span.style)
            assert styled == len(table.grid.columns) * table.cell_width
        else:
            assert " " not in row.plain[table.label_width :]


@given(
    width=st.integers(1, 200),
    tokens=st.integers(1, 60),
    columns=st.integers(1, 60),
    full=st.booleans(),
)
def test_no_line_is_wider_than_any_terminal(
    width: int, tokens: int, columns: int, full: bool
) -> None:
    made = lines([many_words(tokens), vectors(tokens, columns)], Screen(width, full=full))

    assert max(line.cell_len for line in made) <= max(width, 24)


@pytest.mark.parametrize("width", [24, 40, 80, 120])
def test_hostile_labels_are_shown_as_they_are_and_keep_the_columns_straight(width: int) -> None:
    made = drawn(causal_weights("weights", *HOSTILE), Screen(width))
    body = made[2 : made.index("")]

    assert {cell_len(line) for line in body} == {cell_len(body[0])}
    assert cell_len(body[0]) <= width


def test_hidden_cells_look_like_no_weight() -> None:
    rows = drawn(causal_weights(), Screen(80))[2:6]

    assert rows[0] == "1 I         1.0   ·   ·   ·"
    assert rows[3] == "4 this      .07 .13 .27 .53"
    assert HIDDEN not in RAMP


def test_without_colour_a_ramp_of_glyphs_carries_the_blocks() -> None:
    rows = drawn(many_words(4), Screen(80, numbers=False))[2:6]

    assert rows[3] == "4 word3 ▁▁▂▂▃▃▅▅"
    assert rows[0] == "1 word0 ██······"


def test_into_a_pipe_go_plain_numbers_and_nothing_is_cut() -> None:
    rows = drawn(many_words(300), Screen(None))

    assert len(rows[301].split()) == 302
    assert rows[301].startswith("300 word299")
    assert len(drawn(vectors(300, 64), Screen(None))[5].split()) == 66


def test_wide_vectors_say_how_many_more_there_are_and_full_shows_all() -> None:
    cut, full = drawn(vectors(3, 30), Screen(80)), drawn(vectors(3, 30), Screen(80, full=True))

    assert "and 18 dimensions more (--full shows all)" in cut
    assert all(any(f" {number}" in line for line in full) for number in range(1, 31))
    assert not any("more" in line for line in full)


def test_long_columns_of_vectors_are_cut_with_a_word() -> None:
    assert "and 160 tokens more (--full shows all)" in drawn(vectors(200, 4), Screen(80))


def test_heads_stand_side_by_side_while_they_fit() -> None:
    heads = [causal_weights(f"weights L0H{head}") for head in range(3)]

    wide = [line.plain for line in lines(heads, Screen(100))]
    narrow = [line.plain for line in lines(heads, Screen(50))]

    assert wide[0].split() == ["weights", "L0H0", "weights", "L0H1", "weights", "L0H2"]
    assert narrow[0].split() == ["weights", "L0H0"]
    assert sum("each row sums to 1" in line for line in wide) == 1


def test_what_one_token_reads_is_a_sentence_and_sorted_bars() -> None:
    made = trace("I am learning, again and again", tokenizer="words", variant="causal")
    text = [line.plain for line in reading(readings(made, 4)[0], Screen(60))]

    sentence = next(line for line in text if line.startswith("I"))
    assert "".join(letter for letter in sentence if letter not in RAMP + HIDDEN) == made.tokens.text
    bars = [line for line in text if "█" in line and line[0].isdigit()]
    numbers = [float(line.split()[2]) for line in bars]
    assert numbers == sorted(numbers, reverse=True)
    assert "2 tokens hidden by the mask" in text


def test_colours_are_backgrounds_with_ink_that_can_be_read() -> None:
    row = list(lines([causal_weights()], Screen(80, colored=True)))[2]

    # A weight of 1 on a dark terminal.
    assert str(row.spans[0].style) == "#000000 on #e8fbfa"
