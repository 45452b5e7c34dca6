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
LONGER = "The animal didn't cross the street because it was too tired"
SAMPLES = Path(__file__).parent.parent / "sample_texts"
SIZES = {"16:9": (13.333, 7.5), "4:3": (13.333, 10.0), "natural": None}
SLIDE_WIDTH = 13.333
BY = ("scale", "variant", "mask", "dim", "heads", "temperature", "positions", "seed", "dtype",
      "tokenizer")  # fmt: skip


def _sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


RUNS: dict[str, Any] = {
    "one token": lambda: trace("Hello").view(),
    "four tokens": lambda: trace(TEXT).view(),
    "causal": lambda: trace(LONGER, variant="causal").view(),
    "two heads": lambda: trace(LONGER, variant="multi-head").view(),
    "twelve heads": lambda: trace(LONGER, heads=12, dim=48).view(),
    "layers": lambda: trace(TEXT, layers=3, heads=4).view(show=["weights"]),
    "two sentences": lambda: trace(TEXT, memory="you are", heads=2).view(),
    "a list": lambda: trace(_sample("list.txt"), variant="causal").view(),
    "weights and vectors": lambda: trace(TEXT).view(show=["weights", "context"]),
    "vectors": lambda: trace(LONGER).view(show=["embeddings"]),
    "very many heads": lambda: trace(TEXT, layers=12, heads=12, dim=48).view(show=["weights"]),
    "long words": lambda: trace("Donaudampfschifffahrtsgesellschaft is " + "x" * 60).view(),
}
COMPARISONS: dict[str, Any] = {
    f"compare by {by}": lambda by=by: compare(TEXT, by=by).view() for by in BY
}
COMPARISONS |= {
    "compare two sentences": lambda: compare(TEXT, other="you are teaching that").view(),
    "compare heads by positions": lambda: compare(
        TEXT, by="positions", variant="multi-head"
    ).view(),
    "curves by dim": lambda: compare(TEXT, by="dim").view(curves=True),
}
EVERY = {**RUNS, **COMPARISONS}


@cache
def view_named(name: str) -> View:
    view: View = EVERY[name]()
    return view


@cache
def laid_out(name: str, size: str, text_size: float = 18.0) -> Layout:
    return layout_of(view_named(name), Look(size=SIZES[size], text_size=text_size))


def layout_of(view: View, look: Look) -> Layout:
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions):
        groups = pool_groups(with_glyphs(view.picture.groups), look)
        return page_layout(groups, look, with_glyphs(captions))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


Corners = np.ndarray  # four of them, as x and y


def corners(word: Words) -> Corners:
    """The rectangle around a line of text, turned as it is."""
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
    scaled = np.array([(x, y * letter) for x, y in box])
    turned: Corners = scaled @ rotation.T + np.array([word.x, word.y])
    return turned


def overlap(one: Corners, other: Corners) -> bool:
    """Whether two rectangles share more than a hair, by the axes that would separate them."""
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


def overlapping(words: Sequence[Words]) -> Iterator[tuple[str, str]]:
    placed = [(word, corners(word)) for word in words if word.text.strip()]
    boxes = np.array([box for _, box in placed]).reshape(-1, 4, 2)
    for one, other in zip(*np.nonzero(np.triu(_near(boxes, boxes), 1)), strict=True):
        if overlap(boxes[one], boxes[other]):
            yield placed[one][0].text, placed[other][0].text


def overlaps_any(box: Corners, others: Sequence[Corners]) -> bool:
    near = _near(box[None], np.array(others).reshape(-1, 4, 2))[0]
    return any(overlap(box, others[place]) for place in np.flatnonzero(near).tolist())


def _near(some: Corners, others: Corners) -> np.ndarray:
    """Which rectangles can overlap which: no line along the page stands between them."""
    least, most = some.min(axis=1)[:, None], some.max(axis=1)[:, None]
    found: np.ndarray = ((least < others.max(axis=1)) & (others.min(axis=1) < most)).all(axis=2)
    return found


def boxes(layout: Layout) -> list[tuple[float, float, float, float]]:
    return [
        *panel_boxes(layout.items),
        *(bar.box for bar in layout.items_of(ColorBar)),
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_no_two_texts_of_a_picture_overlap(name: str, size: str) -> None:
    assert list(overlapping(laid_out(name, size).words)) == []


@pytest.mark.parametrize("points", [14, 24, 30, 40])
@pytest.mark.parametrize("name", [*RUNS, "compare by scale", "compare by mask", "curves by dim"])
def test_no_two_texts_overlap_however_large_letters_are_to_be(name: str, points: int) -> None:
    assert list(overlapping(laid_out(name, "16:9", points).words)) == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_no_text_stands_in_a_panel_or_leaves_the_page(name: str, size: str) -> None:
    layout = laid_out(name, size)
    panels = [
        np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])
        for x, y, width, height in boxes(layout)
    ]
    for word in layout.words:
        box = corners(word)
        assert not overlaps_any(box, panels), word.text
        assert box.min() >= 0, word.text
        assert (box.max(axis=0) <= np.array(layout.size)).all(), word.text


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_no_text_is_smaller_than_ten_points_on_a_slide(name: str, size: str) -> None:
    layout = laid_out(name, size)
    on_a_slide = SLIDE_WIDTH / layout.size[0]
    sizes = [word.size for word in layout.words]
    sizes += [panel.number_size for panel in layout.panels if panel.number_size]

    assert min(sizes) * on_a_slide >= 10 - 1e-6


@pytest.mark.parametrize("name", ["four tokens", "causal", "two heads", "compare by scale"])
def test_labels_have_eighteen_points_and_numbers_sixteen_while_cells_allow(name: str) -> None:
    layout = laid_out(name, "16:9")
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_panels_fill_the_page(name: str, size: str) -> None:
    """Neither side leaves more than 15 % between what is drawn and the margins."""
    layout = laid_out(name, size)
    drawn = [np.array([(x, y), (x + wide, y + high)]) for x, y, wide, high in boxes(layout)]
    frame = corners_of_frame(layout)
    inner = [corners(word) for word in layout.words if word not in frame]
    points = np.concatenate([*drawn, *inner])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    above = min([word.y for word in frame if word.bold], default=layout.size[1])
    below = max([word.y for word in frame if not word.bold], default=0.0)
    width, height = layout.size

    assert left <= 0.15 * width
    assert width - right <= 0.15 * width
    assert bottom - below <= 0.15 * height
    assert above - top <= 0.15 * height


def corners_of_frame(layout: Layout) -> list[Words]:
    """The headline above the panels, and the notes below them, which begin at the left edge."""
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
    layout = laid_out(name, size)
    frame = corners_of_frame(layout)
    inner = min(corners(word)[:, 0].min() for word in layout.words if word not in frame)

    assert len({word.x for word in frame}) == 1
    assert abs(inner - frame[0].x) < 0.12


def test_what_stands_on_an_axis_is_not_said_again_below() -> None:
    layout = laid_out("four tokens", "16:9")
    words = [word.text for word in layout.words]

    assert words.count("query (reads)") == 1
    assert words.count("key (is read)") == 1
    assert not any("row = query" in text for text in words)


def test_without_a_footnote_nothing_says_what_made_the_picture() -> None:
    view = view_named("four tokens")
    with_it = " ".join(word.text for word in layout_of(view, Look()).words)
    without = " ".join(word.text for word in layout_of(view, Look(footnote=False)).words)

    assert "seed 42" in with_it
    assert "seed 42" not in without
    assert "each row sums to 1" in without


def test_letters_grow_and_shrink_with_the_text_size() -> None:
    def label(text_size: float) -> float:
        words = laid_out("four tokens", "16:9", text_size).words
        return next(word.size for word in words if word.text == "learning")

    assert label(18) == pytest.approx(18.0, abs=0.01)
    assert label(24) == pytest.approx(24.0, abs=0.01)
    assert label(14) == pytest.approx(14.0, abs=0.01)


def test_many_heads_come_on_pages_that_show_every_label() -> None:
    view, look = view_named("twelve heads"), Look(size=SIZES["16:9"])
    divided = divide_into_pages(view, look)
    tokens = len(trace(LONGER).tokens)

    assert len(divided) > 1
    assert sum(len(each.picture.panels) for each in divided) == 12
    assert divided[0].headline.endswith(f" (1 of {len(divided)})")
    for each in divided:
        layout = layout_of(each, look)
        labels = [word for word in layout.words if word.angle and word.text == "street"]
        rows = [word for word in layout.words if word.halign == "right" and not word.angle]
        assert labels
        assert len(rows) % tokens == 0


@pytest.mark.parametrize("choices", [{"heads": 4}, {"heads": 2, "layers": 2}])
def test_up_to_four_heads_stand_in_one_row_of_a_slide_with_square_cells(
    choices: dict[str, Any],
) -> None:
    view = trace(LONGER, dim=8, variant="causal", **choices).view(show=["weights"])
    wide, square = (layout_of(view, Look(size=size)) for size in (SIZES["16:9"], (10.0, 10.0)))
    tokens = trace(LONGER).tokens.labels
    labels = [word for word in wide.words if word.text in tokens]

    for layout, rows in ((wide, 1), (square, 2)):
        sides = {side for p in layout.panels for side in (round(p.box[2], 3), round(p.box[3], 3))}
        assert len(sides) == 1
        assert len({round(panel.box[1], 3) for panel in layout.panels}) == rows
        assert list(overlapping(layout.words)) == []
    assert len(labels) == 5 * len(tokens)
    assert len({word.size for word in labels}) == 1
    assert labels[0].size >= 14


def test_what_fits_on_a_page_is_one_page() -> None:
    assert divide_into_pages(view_named("two heads"), Look(size=SIZES["16:9"])) == [
        view_named("two heads")
    ]


def test_pages_have_their_numbers_in_their_names(attnviz: Attnviz) -> None:
    done = attnviz("run", LONGER, "-H", "12", "-d", "48", "--size", "16:9", "-o", "h-{page}.png")
    written = sorted(path.name for path in Path().glob("h-*.png"))

    assert done.status == 0
    assert written == [f"h-{number}.png" for number in range(1, len(written) + 1)]
    assert len(written) > 1


def test_pages_are_of_pictures(attnviz: Attnviz) -> None:
    done = attnviz("run", TEXT, "-o", "h-{page}.json")

    assert done.status == 2
    assert done.err == (
        "error: {page} stands for the pages of a picture, and 'h-{page}.json' is not a picture\n "
        "hint: try -o h-{page}.png\n"
    )


@pytest.mark.parametrize("words", ["huge", "0", "200", "1e3"])
def test_a_text_size_that_nobody_could_read_gets_two_lines(attnviz: Attnviz, words: str) -> None:
    done = attnviz("run", TEXT, "-o", "x.png", "--text-size", words)

    assert done.status == 2
    assert done.err.count("\n") == 2
    assert "text size" in done.err or "--text-size" in done.err


def test_the_library_refuses_odd_text_sizes() -> None:
    with pytest.raises(AttnvizError, match=r"--text-size is 5 points, and must be from 8 to 72"):
        Look(text_size=5)


def test_text_sizes_are_the_same_in_the_library_and_in_the_command() -> None:
    assert Look(text_size=27) == Look(text_size="27pt") == Look(text_size=27.0)
    assert Look(text_size="large") == Look(text_size=24)


def test_charts_of_a_row_say_once_which_line_is_which() -> None:
    for name in ("compare by dim", "compare by temperature", "curves by dim"):
        words = [word for word in laid_out(name, "16:9").words if word.series is not None]
        assert [word.text for word in words] == ["unscaled", "scaled"], name


def test_of_very_many_heads_layers_are_rows_and_heads_are_columns_each_named_once() -> None:
    layout = laid_out("very many heads", "16:9")
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
    for each in divide_into_pages(view_named("twelve heads"), Look(size=SIZES["16:9"])):
        assert each.picture.caveat == view_named("twelve heads").picture.caveat != ""


def test_letters_that_find_no_room_are_smaller_and_it_is_said(attnviz: Attnviz) -> None:
    done = attnviz(
        "compare", TEXT, "--by", "variant", "--text-size", "40", "--size", "16:9", "-o", "x.png"
    )

    assert "note: there is no room for labels of 40 points: they are drawn at " in done.err
    assert "{page} in the name of a file makes several pages" in done.err


def test_differences_of_very_many_ways_are_left_to_tables() -> None:
    assert not any(
        panel.grid.scale.kind == "diverging" for panel in laid_out("compare by mask", "16:9").panels
    )
    assert any(
        panel.grid.scale.kind == "diverging"
        for panel in laid_out("compare by variant", "16:9").panels
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
    assert list(overlapping(layout.words)) == []
