"""All heads at once: small maps hold what heads read, and are drawn so everywhere."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnviz import inspect, trace
from attnviz.cells import Cells, Patch
from attnviz.renderers import Look, render
from attnviz.renderers.colors import color_anchors, color_values
from attnviz.renderers.picture.items import Block, Box, Layout, Maps
from attnviz.renderers.picture.small_maps import HeadsDrawing, best_sheet
from attnviz.renderers.picture.text import POINT, lettering
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import ColorDepth, Screen, line_segments
from attnviz.renderers.terminal.small_maps import overview_lines
from attnviz.views.grids.description import describe
from attnviz.views.grids.overview import MAX_CELLS_PER_SIDE, Overview
from attnviz.views.inspection.heatmap import _overview_patch, heads_overview
from tests import not_none
from tests.hand import HOSTILE, PANEL_SUFFIXES, view_of
from tests.overviews import KINDS, overview_by_hand
from tests.test_slides import (
    SIZES,
    SLIDE_WIDTH,
    assert_words_stand_on_page,
    boxes,
    corners,
    find_overlaps,
    layout_of,
    smallest_points,
)
from tests.tiers import examples

pytestmark = pytest.mark.filterwarnings("ignore::attnviz.errors.Note")

ANIMAL = "The animal didn't cross the street because it was too tired"
ARGUMENTS_BY_NAME: dict[str, dict[str, Any]] = {
    "6 × 12": {"layers": 6, "heads": 12},
    "12 × 12, causal": {"layers": 12, "heads": 12, "queries": 40, "causal": True},
    "2 × 4": {"layers": 2, "heads": 4, "queries": 6, "causal": True},
    "32 × 32": {"layers": 32, "heads": 32, "queries": 50, "groups": 8},
    "1 × 12": {"layers": 1, "heads": 12},
    "1 × 2, of a word": {"layers": 1, "heads": 2, "queries": 1},
    "4 × 16, grouped": {"layers": 4, "heads": 16, "queries": 30, "causal": True, "groups": 4},
    "to a second text": {"layers": 6, "heads": 8, "queries": 5, "keys": 30},
    "24 × 1": {"layers": 24, "heads": 1, "queries": 9},
    "without flags": {"layers": 6, "heads": 12, "flags": 0},
    "hostile words": {"layers": 2, "heads": 2, "queries": len(HOSTILE), "words": HOSTILE},
}
for_every_overview = pytest.mark.parametrize("name", ARGUMENTS_BY_NAME)
COLORS: tuple[ColorDepth, ...] = ("none", "16", "256", "truecolor")


@cache
def overview_of(name: str) -> Overview:
    return overview_by_hand(**ARGUMENTS_BY_NAME[name])


# What maps hold.


@given(height=st.integers(1, 20), width=st.integers(1, 20), queries=st.integers(1, 17))
def test_rows_of_maps_sum_to_1_however_small_they_are(
    height: int, width: int, queries: int
) -> None:
    pooled = overview_by_hand(2, 5, queries, queries + 3).pooled_to(height, width)

    assert pooled.shape == (min(height, queries), min(width, queries + 3))
    np.testing.assert_allclose(pooled.values.sum(2), 1, atol=1e-5)


@given(height=st.integers(1, 9), width=st.integers(1, 9))
def test_even_attention_looks_even_in_any_size(height: int, width: int) -> None:
    """Blocks of two tokens beside blocks of three would look as if more were read there."""
    pooled = overview_by_hand(1, 5, 11, 13).pooled_to(height, width)

    np.testing.assert_allclose(pooled.values[4], 1 / width, atol=1e-5)


def test_maps_in_blocks_are_the_means_of_rows_and_the_sums_of_columns() -> None:
    overview = overview_by_hand(1, 4, 6, 6)

    pooled = overview.pooled_to(3, 2)

    expected = overview.values.reshape(4, 3, 2, 2, 3).mean(2).sum(-1)
    np.testing.assert_allclose(pooled.values, expected, atol=1e-6)
    assert pooled.pool_note == "one cell = mean of 2 queries, sum of 3 keys"


def test_how_many_tokens_a_cell_stands_for_is_written_in_full() -> None:
    """Not as 1.1e+02 queries."""
    overview = overview_by_hand(1, 1, 329, 329)

    assert overview.pooled_to(3, 5).pool_note == (
        "one cell = mean of about 110 queries, sum of about 66 keys"
    )


def test_maps_that_were_blocks_before_are_averaged_by_how_many_tokens_they_stand_for() -> None:
    tokens = overview_by_hand(1, 1, 5, 5)
    blocks = overview_by_hand(
        1,
        1,
        3,
        3,
        values=tokens.values[:, [0, 2, 4], :3],
        tokens_per_row=np.array([2, 2, 1]),
        tokens_per_column=np.ones(3),
    )

    (pooled_map,) = blocks.pooled_to(1, 3).values

    np.testing.assert_allclose(
        pooled_map[0], np.array([0.4, 0.4, 0.2]) @ blocks.values[0], atol=1e-6
    )


def test_a_map_with_room_for_its_cells_is_what_it_was() -> None:
    overview = overview_by_hand(2, 3, 7)

    assert overview.pooled_to(7, 9) is overview
    assert overview.pool_note == ""


def test_a_cell_is_hidden_where_all_of_it_is() -> None:
    pooled = overview_by_hand(1, 1, 6, causal=True).pooled_to(3, 3)

    assert pooled.hidden[0].tolist() == [[False, True, True], [False, False, True], [False] * 3]
    pooled_corner = overview_by_hand(1, 1, 4, hidden=np.arange(16).reshape(1, 4, 4) > 0).pooled_to(
        2, 2
    )
    assert pooled_corner.hidden[0].tolist() == [[False, True], [True, True]]


# What colours mean.


def test_a_root_shows_what_is_small_beside_a_sink() -> None:
    scale = overview_by_hand(1, 1).scale

    assert (scale.label, scale.low, scale.high, scale.bend) == ("weight", 0.0, 1.0, "root")
    assert scale.shares(np.array([0.04])) == pytest.approx([0.2])


def test_numbers_of_any_sign_have_two_colours() -> None:
    overview = overview_by_hand(1, 2, 4, measure="weight × gradient", share=False)
    overview.values[0, 0, 0] = -2.0

    assert (overview.scale.kind, overview.scale.low, overview.scale.high) == (
        "diverging",
        -2.0,
        2.0,
    )


def test_numbers_that_are_no_shares_reach_as_far_as_they_go() -> None:
    overview = overview_by_hand(1, 1, 4, measure="weight × length", share=False)

    assert overview.scale.high == pytest.approx(1.0)
    assert overview_by_hand(1, 1, 4, values=overview.values / 50, share=False).scale.high == 0.02


def test_a_scale_of_logarithms_begins_above_0() -> None:
    scale = overview_by_hand(1, 1, bend="log").scale

    assert 0 < scale.low < 0.01


# On a terminal.


@pytest.mark.parametrize("colors", COLORS)
@pytest.mark.parametrize("width", [24, 40, 80, 132])
@for_every_overview
def test_no_line_is_wider_than_the_screen(name: str, width: int, colors: ColorDepth) -> None:
    lines = list(overview_lines(overview_of(name), Screen(width, 24, colors), 20))

    assert max(line.cell_len for line in lines) <= width
    words = " ".join(line.plain for line in lines)
    heads = re.findall(r"\bH\d+\b", words)
    assert set(overview_of(name).columns.labels) <= {*heads} or width == 24
    assert all(f" {layer}" in f" {words}" for layer in overview_of(name).rows.labels)


@pytest.mark.parametrize("colors", COLORS)
def test_144_heads_stand_in_80_columns(colors: ColorDepth) -> None:
    lines = [
        line.plain
        for line in overview_lines(overview_of("12 × 12, causal"), Screen(80, 24, colors), 20)
    ]

    assert sum(line.startswith("L") for line in lines) == 12
    assert lines[0].split() == [f"H{head}" for head in range(12)]


def test_72_heads_and_8_kinds_fit_18_lines() -> None:
    lines = list(overview_lines(overview_of("6 × 12"), Screen(80, 24, "truecolor"), 18))

    assert len(lines) <= 18
    assert all(kind.split()[0] in " ".join(line.plain for line in lines) for kind in KINDS)


def test_more_lines_are_more_cells_and_never_more_lines_than_there_are() -> None:
    heights = [
        len(list(overview_lines(overview_of("6 × 12"), Screen(80, lines, "truecolor"), lines)))
        for lines in range(20, 40)
    ]

    assert all(high <= lines for high, lines in zip(heights, range(20, 40), strict=True))
    assert max(heights) > min(heights)


@pytest.mark.parametrize("colors", COLORS)
@pytest.mark.parametrize(("width", "height", "most"), [(80, 24, 18), (40, 50, 45), (132, 24, 18)])
def test_heads_that_do_not_fit_as_maps_are_letters_of_their_kinds(
    width: int, height: int, most: int, colors: ColorDepth
) -> None:
    kinds = [None, 0, 1, 1, 1, 2] * 45
    flags = [
        replace(flag, map_index=kinds.index(number), count=kinds.count(number))
        for number, flag in enumerate(overview_by_hand(30, 9, flags=3).flags)
    ]
    overview = overview_by_hand(30, 9, kinds=tuple(kinds))
    overview = replace(overview, flags=tuple(flags))
    lines = list(overview_lines(overview, Screen(width, height, colors), most))
    texts = [line.plain for line in lines]
    letters_by_layer = {
        int(layer): letters.split() if " " in letters.strip() else [*letters]
        for layer, letters in re.findall(r"L(\d+) +((?:[a-c·] ?){9})", "\n".join(texts))
    }

    assert len(lines) <= most
    assert max(line.cell_len for line in lines) <= width
    assert [letter for layer in range(30) for letter in letters_by_layer[layer]] == [
        "·" if kind is None else "abc"[kind] for kind in kinds
    ]
    legend = " ".join(texts[texts.index("") :])
    assert "a previous token 45 (L0H1 .98)" in legend
    assert "b next token 135 (L0H2 .98)" in legend
    assert "--layer 0 --head 1 shows one head" in legend
    line_count = len(list(overview_lines(overview, Screen(width))))
    assert line_count <= 60 < len(list(overview_lines(overview, Screen(width, full=True))))


def test_every_cell_has_the_colour_of_its_number() -> None:
    overview = overview_by_hand(1, 1, 5, flags=0, values=np.linspace(0, 1, 25).reshape(1, 5, 5))
    screen = Screen(80, 24, "truecolor", theme="dark")
    lines = list(overview_lines(overview, screen, 20))[1:4]
    letters = [segment for line in lines for segment in _letters(line)[3:8]]

    anchors = color_anchors("ocean", "dark", "sequential")
    expected_colors = color_values(np.sqrt(overview.values[0]), 0, 1, anchors)
    for place, style in enumerate(letters):
        line, column = divmod(place, 5)
        assert tuple(not_none(style.color).get_truecolor()) == tuple(
            expected_colors[2 * line, column].tolist()
        )
        if line < 2:
            assert tuple(not_none(style.bgcolor).get_truecolor()) == tuple(
                expected_colors[2 * line + 1, column]
            )


def _letters(line: Text) -> list[Style]:
    """The style of each letter."""
    parts = line_segments(line, Console(width=80, color_system="truecolor"))
    return [part.style or Style() for part in parts for _ in part.text.rstrip("\n")]


def test_without_colours_the_more_the_darker() -> None:
    lines = [line.plain for line in overview_lines(overview_by_hand(1, 1, 6, flags=0), Screen(80))]

    assert all(line[3] == "█" and set(line[4:9]) <= {" ", "░"} for line in lines[1:3])


def test_heads_that_share_keys_stand_under_their_name() -> None:
    group_line, head_line, *_ = overview_lines(
        overview_of("4 × 16, grouped"), Screen(80, 24, "16"), 20
    )

    for group in range(4):
        assert group_line.plain.index(f"kv {group} ") == head_line.plain.index(f"H{group * 4}")


def test_the_letter_of_a_flag_stands_at_its_map() -> None:
    lines = [line.plain for line in overview_lines(overview_by_hand(6, 12, flags=3), Screen(80))]

    (first_layer_line,) = [line for line in lines if line.startswith("L0")]
    assert first_layer_line.index("b") == lines[0].index("H7") + 4  # the last letter of its map
    assert "b next token L0H7 .98" in " ".join(lines)


def test_the_legend_is_that_of_the_maps_as_they_are_drawn() -> None:
    """In few columns weights can reach 1, where those of 60 tokens are far from it."""
    near_weights, broad_weights = overview_by_hand(1, 5, 60).values[[3, 4]]
    overview = overview_by_hand(1, 2, 60, values=np.stack([near_weights, broad_weights]), flags=0)
    lines = [line.plain for line in overview_lines(overview, Screen(12 * 2, 24), 20)]

    assert overview.scale.high < 0.5
    assert any(re.search(r"weight 0 .* 1$", line) for line in lines)


# In files.


@pytest.mark.slow_table("formats", keep=3)
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
def test_every_renderer_takes_an_overview(suffix: str) -> None:
    view = view_of(overview_of("hostile words"), headline="all heads")

    content = render(view, suffix, dpi=40)

    assert content == render(view, suffix, dpi=40)
    if suffix in (".svg", ".txt", ".md"):
        assert all(f"L{layer}" in content.decode() for layer in range(2))


def test_who_does_not_see_it_hears_which_head_does_what() -> None:
    svg = render(
        view_of(overview_of("6 × 12"), description=description_of("6 × 12")), ".svg"
    ).decode()

    assert "72 small maps of 15 × 15 tokens" in svg
    assert "previous token L0H0 (.98), next token L0H7 (.98)" in svg


def description_of(name: str) -> str:
    return describe([overview_of(name)])


# In pictures.


@cache
def layout_of_overview(name: str, size: str) -> Layout:
    view = view_of(
        overview_of(name), headline="In 57 of the 72 heads the first token stands out most."
    )
    return layout_of(view, Look(size=SIZES[size]))


for_every_size = pytest.mark.parametrize("size", SIZES)


@for_every_size
@for_every_overview
def test_no_two_texts_overlap(name: str, size: str) -> None:
    assert list(find_overlaps(layout_of_overview(name, size).words)) == []


@for_every_size
@for_every_overview
def test_nothing_leaves_the_page(name: str, size: str) -> None:
    layout = layout_of_overview(name, size)
    page = np.array(layout.size)
    assert_words_stand_on_page(layout)
    maps = [box for maps in layout.items_of(Maps) for box in maps.boxes]
    for left, bottom, width, height in [
        *boxes(layout),
        *(b.box for b in layout.items_of(Block)),
        *maps,
    ]:
        assert min(left, bottom, width, height) >= 0
        assert (np.array([left + width, bottom + height]) <= page + 1e-6).all()


@for_every_size
@for_every_overview
def test_no_text_is_smaller_than_ten_points_on_a_slide(name: str, size: str) -> None:
    assert smallest_points(layout_of_overview(name, size)) >= 10 - 1e-6


@for_every_size
@for_every_overview
def test_no_two_maps_overlap_and_each_is_large_enough_to_be_seen(name: str, size: str) -> None:
    (maps,) = layout_of_overview(name, size).items_of(Maps)

    assert len(maps.boxes) == len(overview_of(name).names)
    lefts, bottoms, widths, heights = np.array(maps.boxes).T
    for place, (left, bottom, width, height) in enumerate(maps.boxes[:40]):
        is_apart = (lefts >= left + width) | (left >= lefts + widths)
        is_apart |= (bottoms >= bottom + height) | (bottom >= bottoms + heights)
        assert is_apart[[each for each in range(len(lefts)) if each != place]].all()
    assert (
        min(widths.min(), heights.min()) * SLIDE_WIDTH / layout_of_overview(name, size).size[0]
        > 0.08
    )


def test_every_flag_is_framed_where_its_head_stands_and_explained_in_its_colour() -> None:
    layout, overview = layout_of_overview("6 × 12", "16:9"), overview_of("6 × 12")
    (maps,) = layout.items_of(Maps)
    frames = [each for each in layout.items_of(Block) if each.head is not None]
    map_frames, legend_frames = frames[: len(overview.flags)], frames[len(overview.flags) :]

    for flag, frame, legend_frame in zip(overview.flags, map_frames, legend_frames, strict=True):
        assert centre_of(frame.box) == pytest.approx(centre_of(maps.boxes[flag.map_index]))
        assert frame.head == legend_frame.head
    assert len({frame.head for frame in map_frames}) == len(KINDS)
    texts = [word.text for word in layout.words]
    assert all(flag.kind in texts for flag in overview.flags)
    assert all(overview.names[flag.map_index] in texts for flag in overview.flags)


def centre_of(box: Box) -> tuple[float, float]:
    left, bottom, width, height = box
    return left + width / 2, bottom + height / 2


@settings(max_examples=examples(15), deadline=None)
@given(
    layers=st.integers(1, 40),
    heads=st.integers(1, 32),
    tokens=st.integers(1, 12),
    size=st.sampled_from([(13.333, 7.5), (13.333, 10.0), (8.0, 8.0)]),
)
@example(layers=30, heads=9, tokens=5, size=(13.333, 7.5))
def test_maps_fill_a_page_and_neither_names_nor_frames_cover_them(
    layers: int, heads: int, tokens: int, size: tuple[float, float]
) -> None:
    assume(layers == 1 or heads <= 3 * layers)
    overview = overview_by_hand(layers, heads, tokens, causal=True)
    room, letters = (0.5, 1.0, size[0] - 1, size[1] - 2), lettering(size)
    layout = Layout(size, tuple(HeadsDrawing(overview).body(room, letters)))
    (maps,) = layout.items_of(Maps)
    boxes = np.array(maps.boxes)
    page = boxes[:, :2].min(axis=0), (boxes[:, :2] + boxes[:, 2:]).max(axis=0)

    map_area = room[2] * (room[3] - best_sheet(overview, room, letters).legend_height)
    assert boxes[:, 2:].prod(axis=1).sum() > LEAST_FILL.get((layers, heads), 0.15) * map_area
    assert (page[0] >= np.array(room[:2]) - 1e-6).all()
    assert (page[1] <= np.array(room[:2]) + room[2:] + 1e-6).all()
    for word in layout.words:
        low, _, high, _ = corners(word)
        assert not boxes_under(low, high, boxes).any(), word.text
    lows, highs = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    for block in layout.items_of(Block):
        if block.head is not None:
            line, box = block.outlined * POINT / 2, np.array(block.box)
            low, high = box[:2], box[:2] + box[2:]
            inside = ((low + line <= lows + 1e-6) & (high - line >= highs - 1e-6)).all(axis=1)
            assert (boxes_under(low - line, high + line, boxes) == inside).all()


LEAST_FILL = {(30, 9): 0.4, (12, 12): 0.4, (6, 12): 0.4, (24, 16): 0.35}


def boxes_under(low: np.ndarray, high: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Which boxes share more than a hair with the rectangle from `low` to `high`."""
    shared = np.minimum(high, boxes[:, :2] + boxes[:, 2:]) - np.maximum(low, boxes[:, :2])
    return np.asarray((shared > 1e-6).all(axis=1))


@pytest.mark.parametrize("size", ["16:9", "natural"])
def test_270_heads_stand_in_banks_in_which_every_layer_and_head_has_its_name(size: str) -> None:
    view = view_of(overview_by_hand(30, 9, 5, causal=True, groups=3, flags=5))
    layout = layout_of(view, Look(size=SIZES[size]))
    (maps,) = layout.items_of(Maps)
    banks, remaining_columns = divmod(len({round(left, 6) for left, _, _, _ in maps.boxes}), 9)

    words = Counter(word.text for word in layout.words)
    assert (remaining_columns, banks > 1) == (0, True)
    assert all(words[f"L{layer}"] == 1 for layer in range(30))
    assert all(words[f"H{head}"] == words[f"kv {head // 3}"] == banks for head in range(9))
    for layer in range(30):  # beside its own maps
        (name,) = (word for word in layout.words if word.text == f"L{layer}")
        left, bottom, _, height = maps.boxes[9 * layer]
        assert bottom < name.y < bottom + height
        assert 0 < left - name.x < 0.15


def test_few_heads_have_their_tokens_beside_them_and_many_have_the_text_below() -> None:
    layout_of_few, layout_of_many = (
        layout_of_overview("2 × 4", "16:9"),
        layout_of_overview("6 × 12", "16:9"),
    )

    assert sum(word.text == "word3" for word in layout_of_few.words) == 2 + 4
    assert any(word.text.startswith("word0 word1 word2") for word in layout_of_many.words)


def test_a_layer_alone_fills_its_page() -> None:
    (maps,) = layout_of_overview("1 × 12", "16:9").items_of(Maps)

    assert len({bottom for _, bottom, _, _ in maps.boxes}) > 1
    assert all(any(word.text == f"L0H{head}" for word in layout_of_overview("1 × 12", "16:9").words)
               for head in range(12))  # fmt: skip


def test_a_picture_shows_the_colours_of_the_maps() -> None:
    overview = overview_by_hand(2, 2, 4, flags=0)
    view = view_of(overview)
    layout = layout_of(view, Look())
    png = render(view, ".png", dpi=100)
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    anchors = color_anchors("ocean", "light", "sequential")
    (maps,) = layout.items_of(Maps)
    for values, (left, bottom, width, height) in zip(overview.values, maps.boxes, strict=True):
        for row, column in np.ndindex(4, 4):
            x = left + (column + 0.5) / 4 * width
            y = layout.size[1] - bottom - height + (row + 0.5) / 4 * height
            expected_color = color_values(np.sqrt(values[row, column, None]), 0, 1, anchors)[0]
            pixel = pixels[round(y * 100), round(x * 100)]
            assert np.abs(pixel.astype(int) - expected_color).max() <= 1


# Of an Inspection.


def test_maps_are_the_weights_of_the_heads() -> None:
    inspection = inspect(trace("the old keys near the small cabinet ?", model="agreement"))

    overview = heads_overview(inspection)

    weights = torch.cat([layer.attended.weights for layer in inspection.trace.layers])
    np.testing.assert_allclose(overview.values, weights.numpy(), atol=1e-6)
    heads = sum(layer.heads for layer in inspection.trace.layers)
    assert len(overview.names) == len(overview.map_cells) == heads


def test_heads_of_groups_are_named_by_what_they_share() -> None:
    inspection = inspect(trace("I am learning", heads=4, kv_heads=2, dim=16))

    assert heads_overview(inspection).groups == (0, 0, 1, 1)
    assert heads_overview(inspect(trace("I am learning", heads=4, dim=16))).groups == ()


class Endless(Cells):
    """A table that can only be worked out a part at a time."""

    def __init__(self, side: int) -> None:
        self.side, self.largest = side, 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.side, self.side

    def window(self, rows: slice, columns: slice) -> Patch:
        high = len(range(*rows.indices(self.side)))
        self.largest = max(self.largest, high * self.side)
        return Patch(np.full((high, self.side), 1 / self.side), np.zeros((high, self.side), bool))


def test_of_a_long_text_no_map_is_ever_whole() -> None:
    cells = Endless(6000)

    patch = _overview_patch(cells)

    assert max(patch.values.shape) <= MAX_CELLS_PER_SIDE
    assert cells.largest < 6000**2 / 4
    np.testing.assert_allclose(patch.values.sum(1), 1)


@pytest.mark.slow("models")
def test_a_look_at_minilm_fits_80_by_24() -> None:
    view = inspect(ANIMAL).view()

    lines = view_lines(view, Screen(80, 24, "truecolor"))

    assert len(lines) <= 23
    assert max(line.cell_len for line in lines) <= 80
