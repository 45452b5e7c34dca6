"""Traces as grids: what is shown, on which scale, and what pooling keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Trace, compare, trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import StoredCells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.options.table import option_rows
from attnviz.renderers import render
from attnviz.renderers.colors import color_anchors, color_values
from attnviz.renderers.picture.matrix import build_panel
from attnviz.tokens.tokens import Tokens
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Grid, pool_grid
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.grids.scales import centred_scale, round_up
from attnviz.views.reading import query_readings
from attnviz.wording.words import bidi_isolated
from tests.hand import causal_weights, many_words, vectors, view_of


def grids_of(shown_trace: Trace, *show: str) -> list[Grid]:
    """The grids that are shown of a Trace, and nothing else is shown."""
    panels = shown_trace.view(show=show).screen.panels
    grids = [each for each in panels if isinstance(each, Grid)]
    assert len(grids) == len(panels)
    return grids


def test_weights_are_a_grid_for_each_head_with_what_is_hidden() -> None:
    grids = grids_of(trace("I am learning this", variant="multi-head"), "weights")

    assert [grid.title for grid in grids] == ["weights · head 0", "weights · head 1"]
    assert grids[0].rows.names == ("1 I", "2 am", "3 learning", "4 this")
    assert grids[0].hidden.tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()
    assert (grids[0].rows.title, grids[0].columns.title) == ("query (reads)", "key (is read)")


def test_everything_on_the_path_can_be_shown_in_its_order() -> None:
    grids = grids_of(
        trace("I am", tokenizer="words", variant="causal"), *reversed(PARTS_BY_SHOW_NAME)
    )

    assert [grid.title for grid in grids] == [
        "tokens", "embeddings", "queries", "keys", "scores", "scaled scores", "masked scores",
        "weights", "values", "context vectors",
    ]  # fmt: skip


def test_the_help_names_everything_that_can_be_shown() -> None:
    row = option_rows()["show"]
    help_text = row.text(row.help)

    assert all(name in help_text for name in PARTS_BY_SHOW_NAME)


def test_weights_of_a_sentence_are_on_a_scale_from_0_to_1() -> None:
    (grid,) = grids_of(trace("I am learning this"), "weights")

    assert (grid.scale.low, grid.scale.high, grid.scale.is_exceeded) == (0, 1, False)


def test_among_many_keys_the_scale_ends_at_a_stated_maximum_that_few_exceed() -> None:
    (grid,) = grids_of(trace("abcdefgh" * 20, tokenizer="chars"), "weights")

    assert 0 < grid.scale.high < 0.1
    assert (grid.values > grid.scale.high).mean() < 0.05
    assert grid.scale.is_exceeded == bool((grid.values > grid.scale.high).any())


def test_heads_share_one_scale_and_values_are_centred_on_0() -> None:
    grids = grids_of(trace("I am learning this", variant="multi-head"), "queries", "weights")

    assert grids[0].scale == grids[1].scale
    assert grids[0].scale.low == -grids[0].scale.high
    assert grids[2].scale == grids[3].scale


def test_dropped_weights_are_shown_as_dropped() -> None:
    (grid,) = grids_of(trace("I am learning this", dropout=0.9), "weights")

    assert grid.title == "weights after dropout"
    assert grid.scale.high > 1
    assert "sums to 1" not in grid.note


@given(count=st.integers(1, 40), rows=st.integers(1, 50), columns=st.integers(1, 50))
def test_pooled_weights_still_sum_to_1(count: int, rows: int, columns: int) -> None:
    pooled = pool_grid(many_words(count), rows, columns)

    assert pooled.values.shape == (-(-count // rows), -(-count // columns))
    assert np.allclose(pooled.values.sum(1), 1)
    assert (pooled.values[pooled.hidden] == 0).all()
    assert len(pooled.rows) == len(pooled.rows.labels) == pooled.values.shape[0]


def test_a_pooled_cell_is_hidden_only_if_all_of_it_is() -> None:
    pooled = pool_grid(causal_weights(), 2, 2)

    assert pooled.hidden.tolist() == [[False, True], [False, False]]
    assert pooled.rows.names == ("1–2", "3–4")
    assert (
        pooled.pool_note
        == "one cell = 2 × 2 tokens: weights summed over keys, averaged over queries"
    )


def test_anything_but_shares_is_averaged() -> None:
    pooled = pool_grid(vectors(2, 4), 2, 2)

    assert np.allclose(
        pooled.values, [[vectors(2, 4).values[:, :2].mean(), vectors(2, 4).values[:, 2:].mean()]]
    )


def test_what_one_token_reads_is_a_row_for_each_head() -> None:
    heads_trace = trace("I am learning this", variant="multi-head")
    grid = query_readings(heads_trace, 2)[0]

    assert grid.rows.labels == ("head 0", "head 1")
    assert np.allclose(grid.values, heads_trace.layers[0].attended.weights[:, 2].numpy())
    assert grid.hidden[0].tolist() == [False, False, False, True]


def test_rows_are_said_to_sum_to_1_where_they_do() -> None:
    """With dropout or a mistake, rows need not sum to 1."""
    traces = {
        "softmax": trace("I am learning this"),
        "dropout": trace("I am learning this", dropout=0.5),
        **{name: trace_with_mistake(name) for name in MISTAKES},
    }
    for name, trace_of_case in traces.items():
        for grid in (*query_readings(trace_of_case, 2), *grids_of(trace_of_case, "weights")):
            says_so = "each row sums to 1" in grid.note
            assert says_so == (name == "softmax")
            assert not says_so or np.allclose(grid.values.sum(1), 1)


def trace_with_mistake(name: str) -> Trace:
    (_, alternative) = compare(
        "I am learning this", by="mask", values=["causal", name]
    ).alternatives
    assert alternative.trace is not None
    return alternative.trace


@pytest.mark.parametrize("tokens", [4, 40])
def test_no_bar_of_a_reading_goes_beyond_the_stated_end(tokens: int) -> None:
    reading_trace = trace("ab" * (tokens // 2), tokenizer="chars", temperature=0.1)
    for query in range(tokens):
        (grid,) = query_readings(reading_trace, query)
        assert not grid.scale.is_exceeded
        assert grid.values.max() <= grid.scale.high <= 1
        assert tokens > 16 or grid.scale.high == 1


def test_small_numbers_have_as_many_digits_behind_their_zeros() -> None:
    grid = vectors(1, 3)
    for values, expected in (
        ([0.022, 0.0184, 0.0008], ["0.022", "0.018", "0.001"]),
        ([0.0049, -0.0012, 0.0], ["0.0049", "-0.0012", "0.0000"]),
        ([0.00049, 0.0002, 0.0], ["4.9e-04", "2.0e-04", "0"]),
    ):
        small_grid = replace(grid, cells=unmasked_cells(np.array([values])))
        assert [cell_format(small_grid, 2)(value) for value in values] == expected


@pytest.mark.parametrize("power", [-4, -12, -13, -20, -40, -299])
def test_numbers_of_any_size_are_written_and_coloured(power: int) -> None:
    """Down to the smallest powers of ten that a float can hold."""
    cells = unmasked_cells(np.array([[-1.0, 0.0, 0.5, 1.0]]) * 10.0**power)
    scale = centred_scale("value", cells)
    grid = replace(vectors(1, 4), cells=cells, scale=scale)

    assert scale.high == -scale.low == pytest.approx(10.0**power, rel=1e-9)
    assert list(map(cell_format(grid, 2), cells.values[0].tolist()))[1] == "0"
    end_colors = color_values(
        cells.values[0], scale.low, scale.high, color_anchors("ocean", "light", "diverging")
    )
    assert end_colors.tolist()[::3] == [[0x00, 0x43, 0x96], [0x9D, 0x1F, 0x00]]


def test_a_query_is_named_by_its_word_or_its_number() -> None:
    tokens = trace("the cat saw the dog", tokenizer="words").tokens

    assert tokens.index("cat", "query") == 1
    assert tokens.index("5", "query") == 4
    with pytest.raises(AttnvizError) as refusal:
        tokens.index("the", "query")
    assert refusal.value.hint == "give the position of one of them: query=0 or 3"


def test_a_token_that_is_a_number_is_found_before_the_number_of_a_token() -> None:
    tokens = Tokens("9 2 1", (b"9", b"2", b"1"), (9, 2, 1), (False, True, True))

    assert tokens.index("1", "query") == 2
    assert tokens.index("3", "query") == 2


def test_number_and_word_together_are_never_ambiguous() -> None:
    tokens = Tokens("5 1 1", (b"5", b"1", b"1"), (5, 1, 1), (False, True, True))

    with pytest.raises(AttnvizError) as refusal:
        tokens.index("1", "query")
    assert refusal.value.hint == "give the position of one of them: query=1 or 2"
    assert tokens.index("3 1", "query") == 2


def test_labels_from_right_to_left_do_not_turn_numbers_round() -> None:
    assert bidi_isolated("the") == "the"
    assert bidi_isolated("שלום") == "\u200eשלום\u200e"


def test_a_picture_is_described_in_words() -> None:
    assert describe([causal_weights()]) == (
        "weights: 4 × 4 (query (reads) × key (is read)). 1 I reads 1 I most (1.00); "
        "2 am reads 2 am most (0.67); 3 learning reads 3 learning most (0.57); "
        "4 this reads 4 this most (0.53)."
    )


@given(st.floats(1e-300, 1e300))
def test_a_scale_ends_a_little_above_its_largest_value(value: float) -> None:
    assert value * (1 - 1e-8) <= round_up(value) <= value * 2


@given(st.floats(max_value=1e-301))
def test_a_scale_of_nothing_is_a_scale_all_the_same(value: float) -> None:
    assert round_up(value) == 1


MASKED_SCORES = np.array([[1.0, -np.inf, -np.inf], [2.0, 3.0, -np.inf], [2.0, 3.0, 4.0]])


def masked_scores(*, hidden: bool) -> Grid:
    """Scores of three tokens; what is −∞ may also be marked as hidden."""
    grid = vectors(3, 3)
    return replace(grid, cells=StoredCells(MASKED_SCORES, np.isneginf(MASKED_SCORES) & hidden))


@pytest.mark.parametrize("hidden", [True, False])
def test_minus_infinity_is_written_into_its_cells_everywhere(hidden: bool) -> None:
    grid = masked_scores(hidden=hidden)
    numbers = build_panel(grid, (0, 0, 3, 3)).numbers.tolist()

    assert numbers[:2] == [["1.00", "−∞", "−∞"], ["2.00", "3.00", "−∞"]]
    for suffix in (".txt", ".md"):
        text = render(view_of(grid), suffix).decode()
        assert text.count("−∞") == 3 + hidden
        assert ("−∞ = " in text) is hidden
        assert "inf" not in text
        assert "· = " not in text


def test_numbers_beside_minus_infinity_are_as_whole_as_without_it() -> None:
    grid = replace(masked_scores(hidden=True), decimals=2)

    assert [cell_format(grid, 2)(number) for number in (1.0, 4.0)] == ["1", "4"]


def test_an_average_leaves_minus_infinity_out() -> None:
    """(1 + 2 + 3) / 3 in the first block; nothing but −∞ above the diagonal; then the corner."""
    blocks = StoredCells(MASKED_SCORES, np.isneginf(MASKED_SCORES)).pooled(2, 2, share=False)

    assert blocks.values.tolist() == [[2.0, -np.inf], [2.5, 4.0]]
    assert blocks.hidden.tolist() == [[False, True], [False, False]]


def test_numbers_without_minus_infinity_are_averaged_as_ever() -> None:
    blocks = unmasked_cells(np.arange(9.0).reshape(3, 3)).pooled(2, 2, share=False)

    assert blocks.values.tolist() == [[2.0, 3.5], [6.5, 8.0]]
