"""Pictures for the last row: letters large enough, nothing over anything else, pages filled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnviz import compare, trace
from attnviz.cells import unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.renderers import Look, divide_into_pages
from attnviz.renderers.picture.glyphs import fixed_settings, with_glyphs
from attnviz.renderers.picture.items import ColorBar, Layout, Words, panel_boxes
from attnviz.renderers.picture.page_kinds import page_layout
from attnviz.renderers.picture.still_pictures import pool_groups, view_captions
from attnviz.renderers.picture.text import BOLD, POINT, text_width
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.view import View
from tests.conftest import Attnviz
from tests.hand import view_of

pytestmark = pytest.mark.filterwarnings("ignore::attnviz.errors.Note")

TEXT = "I am learning this"
LONGER_TEXT = "The animal didn't cross the street because it was too tired"
SAMPLES = Path(__file__).parent.parent / "sample_texts"
SIZES = {"16:9": (13.333, 7.5), "4:3": (13.333, 10.0), "natural": None}
SLIDE_WIDTH = 13.333
ASPECTS = ("scale", "variant", "mask", "dim", "heads", "temperature", "positions", "seed", "dtype",
      "tokenizer")  # fmt: skip


def read_sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


RUNS: dict[str, Any] = {
    "one token": lambda: trace("Hello").view(),
    "four tokens": lambda: trace(TEXT).view(),
    "causal": lambda: trace(LONGER_TEXT, variant="causal").view(),
    "two heads": lambda: trace(LONGER_TEXT, variant="multi-head").view(),
    "twelve heads": lambda: trace(LONGER_TEXT, heads=12, dim=48).view(),
    "layers": lambda: trace(TEXT, layers=3, heads=4).view(show=["weights"]),
    "two sentences": lambda: trace(TEXT, memory="you are", heads=2).view(),
    "a list": lambda: trace(read_sample("list.txt"), variant="causal").view(),
    "weights and vectors": lambda: trace(TEXT).view(show=["weights", "context"]),
    "vectors": lambda: trace(LONGER_TEXT).view(show=["embeddings"]),
    "very many heads": lambda: trace(TEXT, layers=12, heads=12, dim=48).view(show=["weights"]),
    "long words": lambda: trace("Donaudampfschifffahrtsgesellschaft is " + "x" * 60).view(),
}
COMPARISONS: dict[str, Any] = {
    f"compare by {by}": lambda by=by: compare(TEXT, by=by).view() for by in ASPECTS
}
COMPARISONS |= {
    "compare two sentences": lambda: compare(TEXT, other="you are teaching that").view(),
    "compare heads by positions": lambda: compare(
        TEXT, by="positions", variant="multi-head"
    ).view(),
    "curves by dim": lambda: compare(TEXT, by="dim").view(curves=True),
}
ALL_VIEWS = {**RUNS, **COMPARISONS}


@cache
def named_view(name: str) -> View:
    view: View = ALL_VIEWS[name]()
    return view


@cache
def named_layout(name: str, size: str, text_size: float = 18.0) -> Layout:
    return layout_of(named_view(name), Look(size=SIZES[size], text_size=text_size))


def layout_of(view: View, look: Look) -> Layout:
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions):
        groups = pool_groups(with_glyphs(view.picture.groups), look)
        return page_layout(groups, look, with_glyphs(captions))


@pytest.fixture(autouse=True)
def work_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


Corners = np.ndarray  # four of them, as x and y


def corners(word: Words) -> Corners:
    """The four corners of the rectangle around a line of text, rotated with it."""
    width = text_width(word.text, word.size) * (BOLD if word.bold else 1.0)
    letter = word.size * POINT
    left = {"left": 0.0, "center": -width / 2, "right": -width}[word.halign]
    foot, head = {
        "baseline": (-0.2, 0.73), "bottom": (0.0, 0.93), "top": (-0.93, 0.0),
        "center": (-0.46, 0.46), "center_baseline": (-0.4, 0.4),
    }[word.valign]  # fmt: skip
    box = [(left, foot), (left + width, foot), (left + width, head), (left, head)]
    turn = math.radians(word.angle)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    flat_corners = np.array([(x, y * letter) for x, y in box])
    page_corners: Corners = flat_corners @ rotation.T + np.array([word.x, word.y])
    return page_corners


def overlap(one: Corners, other: Corners) -> bool:
    """Whether two rectangles overlap by more than 0.02 inches (separating axis theorem)."""
    for rectangle in (one, other):
        for start, end in ((0, 1), (1, 2)):
            axis = rectangle[end] - rectangle[start]
            length = float(np.linalg.norm(axis))
            if length == 0:
                return False
            first, second = one @ axis / length, other @ axis / length
            if first.max() <= second.min() + 0.02 or second.max() <= first.min() + 0.02:
                return False
    return True


def find_overlaps(words: Sequence[Words]) -> Iterator[tuple[str, str]]:
    words_with_corners = [(word, corners(word)) for word in words if word.text.strip()]
    boxes = np.array([box for _, box in words_with_corners]).reshape(-1, 4, 2)
    for one, other in zip(*np.nonzero(np.triu(may_overlap(boxes, boxes), 1)), strict=True):
        if overlap(boxes[one], boxes[other]):
            yield words_with_corners[one][0].text, words_with_corners[other][0].text


def overlaps_any(box: Corners, others: Sequence[Corners]) -> bool:
    is_near = may_overlap(box[None], np.array(others).reshape(-1, 4, 2))[0]
    return any(overlap(box, others[place]) for place in np.flatnonzero(is_near).tolist())


def may_overlap(rectangles: Corners, others: Corners) -> np.ndarray:
    """Which rectangles may overlap which: no horizontal or vertical line separates them."""
    lowest_corners, highest_corners = (
        rectangles.min(axis=1)[:, None],
        rectangles.max(axis=1)[:, None],
    )
    is_near: np.ndarray = (
        (lowest_corners < others.max(axis=1)) & (others.min(axis=1) < highest_corners)
    ).all(axis=2)
    return is_near


def boxes(layout: Layout) -> list[tuple[float, float, float, float]]:
    return [
        *panel_boxes(layout.items),
        *(bar.box for bar in layout.items_of(ColorBar)),
    ]


@pytest.mark.slow_table("pictures", keep=9)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALL_VIEWS)
def test_no_two_texts_of_a_picture_overlap(name: str, size: str) -> None:
    assert list(find_overlaps(named_layout(name, size).words)) == []


@pytest.mark.slow_table("pictures", keep=3)
@pytest.mark.parametrize("points", [14, 24, 30, 40])
@pytest.mark.parametrize("name", [*RUNS, "compare by scale", "compare by mask", "curves by dim"])
def test_no_two_texts_overlap_however_large_letters_are_to_be(name: str, points: int) -> None:
    assert list(find_overlaps(named_layout(name, "16:9", points).words)) == []


@pytest.mark.slow_table("pictures", keep=9)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALL_VIEWS)
def test_no_text_stands_in_a_panel_or_leaves_the_page(name: str, size: str) -> None:
    layout = named_layout(name, size)
    panels = [
        np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])
        for x, y, width, height in boxes(layout)
    ]
    for word in layout.words:
        assert not overlaps_any(corners(word), panels), word.text
    assert_words_stand_on_page(layout)


@pytest.mark.slow_table("pictures", keep=9)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALL_VIEWS)
def test_no_text_is_smaller_than_ten_points_on_a_slide(name: str, size: str) -> None:
    assert smallest_points(named_layout(name, size)) >= 10 - 1e-6


def smallest_points(layout: Layout) -> float:
    """The size of the smallest letters or numbers, if the page is shown as a slide."""
    sizes = [word.size for word in layout.words]
    sizes += [panel.number_size for panel in layout.panels if panel.number_size]
    return min(sizes) * SLIDE_WIDTH / layout.size[0]


def assert_words_stand_on_page(layout: Layout) -> None:
    for word in layout.words:
        box = corners(word)
        assert box.min() >= 0, word.text
        assert (box.max(axis=0) <= np.array(layout.size)).all(), word.text


@pytest.mark.parametrize("name", ["four tokens", "causal", "two heads", "compare by scale"])
def test_labels_have_eighteen_points_and_numbers_sixteen_while_cells_allow(name: str) -> None:
    layout = named_layout(name, "16:9")
    labels = [
        word.size
        for panel in layout.panels
        for word in layout.words
        if word.text in panel.grid.rows.labels
    ]
    for panel in layout.panels:
        width, height = panel.box[2] / len(panel.grid.columns), panel.box[3] / len(panel.grid.rows)
        if width >= 0.75 and height >= 0.4:
            assert panel.number_size >= 16
    pitch = min(panel.box[3] / len(panel.grid.rows) for panel in layout.panels)

    assert labels
    assert min(labels) >= min(18.0, pitch / POINT * 0.9)


@pytest.mark.slow_table("pictures", keep=9)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALL_VIEWS)
def test_panels_fill_the_page(name: str, size: str) -> None:
    """Neither side leaves more than 15 % between what is drawn and the margins."""
    layout = named_layout(name, size)
    panel_corners = [np.array([(x, y), (x + wide, y + high)]) for x, y, wide, high in boxes(layout)]
    frame = frame_words(layout)
    inner_corners = [corners(word) for word in layout.words if word not in frame]
    points = np.concatenate([*panel_corners, *inner_corners])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    headline_y = min([word.y for word in frame if word.bold], default=layout.size[1])
    notes_y = max([word.y for word in frame if not word.bold], default=0.0)
    width, height = layout.size
    is_row_of_squares = (name, size) == ("compare by temperature", "4:3")  # as wide as the page

    assert left <= 0.15 * width
    assert width - right <= 0.15 * width
    assert bottom - notes_y <= (0.21 if is_row_of_squares else 0.15) * height
    assert headline_y - top <= (0.21 if is_row_of_squares else 0.15) * height


def frame_words(layout: Layout) -> list[Words]:
    """The words of the headline above the panels and of the notes below, all at the left edge."""
    edge = min(word.x for word in layout.words if word.bold)
    lowest = min(y for _, y, _, _ in boxes(layout))
    return [
        word
        for word in layout.words
        if word.bold or (word.x == edge and word.angle == 0 and word.y < lowest)
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["four tokens", "two heads", "compare by scale"])
def test_headline_panels_and_notes_begin_at_one_left_edge(name: str, size: str) -> None:
    layout = named_layout(name, size)
    frame = frame_words(layout)
    inner_left = min(corners(word)[:, 0].min() for word in layout.words if word not in frame)

    assert len({word.x for word in frame}) == 1
    assert abs(inner_left - frame[0].x) < 0.12


def test_what_stands_on_an_axis_is_not_said_again_below() -> None:
    layout = named_layout("four tokens", "16:9")
    words = [word.text for word in layout.words]

    assert words.count("query (reads)") == 1
    assert words.count("key (is read)") == 1
    assert not any("row = query" in text for text in words)


def test_without_a_footnote_nothing_says_what_made_the_picture() -> None:
    view = named_view("four tokens")
    text_with_footnote = " ".join(word.text for word in layout_of(view, Look()).words)
    text_without_footnote = " ".join(
        word.text for word in layout_of(view, Look(footnote=False)).words
    )

    assert "seed 42" in text_with_footnote
    assert "seed 42" not in text_without_footnote
    assert "each row sums to 1" in text_without_footnote


def test_labels_stand_beside_their_rows_and_below_their_columns() -> None:
    layout = named_layout("four tokens", "16:9")
    x, y, width, height = layout.panels[0].box
    tokens = ("I", "am", "learning", "this")
    rows = {word.text: word.y for word in layout.words if word.halign == "right"}
    columns = {word.text: word.x for word in layout.words if word.x > x and word.y < y}

    for number, token in enumerate(tokens):  # the first row is at the top
        assert rows[token] == pytest.approx(y + height * (3.5 - number) / 4, abs=height / 20)
        assert columns[token] == pytest.approx(x + width * (number + 0.5) / 4, abs=width / 20)


def test_letters_grow_and_shrink_with_the_text_size() -> None:
    def label_size(text_size: float) -> float:
        words = named_layout("four tokens", "16:9", text_size).words
        return next(word.size for word in words if word.text == "learning")

    assert label_size(18) == pytest.approx(18.0, abs=0.01)
    assert label_size(24) == pytest.approx(24.0, abs=0.01)
    assert label_size(14) == pytest.approx(14.0, abs=0.01)


def test_many_heads_come_on_pages_that_show_every_label() -> None:
    view, look = named_view("twelve heads"), Look(size=SIZES["16:9"])
    pages = divide_into_pages(view, look)
    tokens = len(trace(LONGER_TEXT).tokens)

    assert len(pages) > 1
    assert sum(len(each.picture.panels) for each in pages) == 12
    assert pages[0].headline.endswith(f" (1 of {len(pages)})")
    for each in pages:
        layout = layout_of(each, look)
        labels = [word for word in layout.words if word.angle and word.text == "street"]
        rows = [word for word in layout.words if word.halign == "right" and not word.angle]
        assert labels
        assert len(rows) % tokens == 0


@pytest.mark.parametrize("choices", [{"heads": 4}, {"heads": 2, "layers": 2}])
def test_up_to_four_heads_stand_in_one_row_of_a_slide_with_square_cells(
    choices: dict[str, Any],
) -> None:
    view = trace(LONGER_TEXT, dim=8, variant="causal", **choices).view(show=["weights"])
    wide_layout, square_layout = (
        layout_of(view, Look(size=size)) for size in (SIZES["16:9"], (10.0, 10.0))
    )
    tokens = trace(LONGER_TEXT).tokens.labels
    labels = [word for word in wide_layout.words if word.text in tokens]

    for layout, rows in ((wide_layout, 1), (square_layout, 2)):
        sides = {side for p in layout.panels for side in (round(p.box[2], 3), round(p.box[3], 3))}
        assert len(sides) == 1
        assert len({round(panel.box[1], 3) for panel in layout.panels}) == rows
        assert list(find_overlaps(layout.words)) == []
    assert len(labels) == 5 * len(tokens)
    assert len({word.size for word in labels}) == 1
    assert labels[0].size >= 14


def test_what_fits_on_a_page_is_one_page() -> None:
    assert divide_into_pages(named_view("two heads"), Look(size=SIZES["16:9"])) == [
        named_view("two heads")
    ]


@pytest.mark.slow("pictures")
def test_pages_have_their_numbers_in_their_names(attnviz: Attnviz) -> None:
    result = attnviz(
        "run", LONGER_TEXT, "-H", "12", "-d", "48", "--size", "16:9", "-o", "h-{page}.png"
    )
    names = sorted(path.name for path in Path().glob("h-*.png"))

    assert result.status == 0
    assert names == [f"h-{number}.png" for number in range(1, len(names) + 1)]
    assert len(names) > 1


def test_pages_are_of_pictures(attnviz: Attnviz) -> None:
    result = attnviz("run", TEXT, "-o", "h-{page}.json")

    assert result.status == 2
    assert result.err == (
        "error: {page} stands for the pages of a picture, and 'h-{page}.json' is not a picture\n "
        "hint: try -o h-{page}.png\n"
    )


@pytest.mark.parametrize("words", ["huge", "0", "200", "1e3"])
def test_a_text_size_that_nobody_could_read_gets_two_lines(attnviz: Attnviz, words: str) -> None:
    result = attnviz("run", TEXT, "-o", "x.png", "--text-size", words)

    assert result.status == 2
    assert result.err.count("\n") == 2
    assert "text size" in result.err or "--text-size" in result.err


def test_the_library_refuses_odd_text_sizes() -> None:
    with pytest.raises(AttnvizError, match=r"text_size is 5 points, and must be from 8 to 72"):
        Look(text_size=5)


def test_text_sizes_are_the_same_in_the_library_and_in_the_command() -> None:
    assert Look(text_size=27) == Look(text_size="27pt") == Look(text_size=27.0)
    assert Look(text_size="large") == Look(text_size=24)


def test_charts_of_a_row_say_once_which_line_is_which() -> None:
    both, none = ["unscaled", "scaled"], list[str]()  # a picture of temperatures has maps alone
    names = {"compare by dim": both, "compare by temperature": none, "curves by dim": both}
    for name, series in names.items():
        words = [word for word in named_layout(name, "16:9").words if word.series is not None]
        assert [word.text for word in words] == series, name


def test_of_very_many_heads_layers_are_rows_and_heads_are_columns_each_named_once() -> None:
    layout = named_layout("very many heads", "16:9")
    words = [word.text for word in layout.words]

    assert len(layout.panels) == 144
    assert [each for each in words if each in {f"H{head}" for head in range(12)}] == [
        f"H{head}" for head in range(12)
    ]
    assert [each for each in words if each in {f"L{layer}" for layer in range(12)}] == [
        f"L{layer}" for layer in range(12)
    ]
    assert not any("3 learning" in word for word in words)


def test_pages_say_that_vectors_are_random_as_one_page_does() -> None:
    for each in divide_into_pages(named_view("twelve heads"), Look(size=SIZES["16:9"])):
        assert each.picture.caveat == named_view("twelve heads").picture.caveat != ""


def test_letters_that_find_no_room_are_smaller_and_it_is_said(attnviz: Attnviz) -> None:
    result = attnviz(
        "compare", TEXT, "--by", "variant", "--text-size", "40", "--size", "16:9", "-o", "x.png"
    )

    assert "note: there is no room for labels of 40 points: they are drawn at " in result.err
    assert "{page} in the name of a file makes several pages" in result.err


def test_differences_of_very_many_ways_are_left_to_tables() -> None:
    assert not any(
        panel.grid.scale.kind == "diverging"
        for panel in named_layout("compare by mask", "16:9").panels
    )
    assert any(
        panel.grid.scale.kind == "diverging"
        for panel in named_layout("compare by variant", "16:9").panels
    )


@pytest.mark.parametrize(
    ("heads", "columns", "rows"), [(4, 2, 2), (6, 3, 2), (7, 4, 2), (9, 3, 3), (12, 4, 3)]
)
def test_heads_stand_in_full_rows_where_there_are_some(heads: int, columns: int, rows: int) -> None:
    view = trace("I am learning this now", heads=heads, dim=4 * heads).view()

    lefts, bottoms, _, _ = np.array(panel_boxes(layout_of(view, Look()).items)).T.round(3)

    assert (len({*lefts}), len({*bottoms})) == (columns, rows)


@pytest.mark.parametrize("layers", [6, 30, 36])
def test_a_table_of_heads_names_every_layer(layers: int) -> None:
    names = plain_axis("layer", [f"L{layer}" for layer in range(layers)])
    heads = plain_axis("head", [f"H{head}" for head in range(9)])
    cells = unmasked_cells(np.linspace(0, 1, 9 * layers).reshape(layers, 9))
    tables = [Grid(f"kind {n}", names, heads, cells, Scale("share", 0, 1)) for n in range(8)]

    layout = layout_of(view_of(*tables), Look())

    words = Counter(word.text for word in layout.words)
    rows = len({round(bottom, 3) for _, bottom, _, _ in panel_boxes(layout.items)})
    assert all(words[f"L{layer}"] == rows for layer in range(layers))
    assert list(find_overlaps(layout.words)) == []
