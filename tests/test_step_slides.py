"""Steps on slides: each on its own page, several on one, and what is left when room is short."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from attnviz.errors import Note
from attnviz.renderers import Look, divide_into_pages
from attnviz.renderers.picture.items import ColorBar, Layout, Stroke, scale_item
from attnviz.views.grids.section import Section
from attnviz.views.steps.walk import Walk, steps
from tests import not_none
from tests.test_slides import (
    SIZES,
    assert_words_stand_on_page,
    corners,
    find_overlaps,
    layout_of,
    overlaps_any,
)

TEXT = "I am learning this"
NINE_TOKENS = "The animal did not cross the street because it"
TWENTY_TOKENS = " ".join(f"word{number}" for number in range(20))
SLIDE = SIZES["16:9"]
PAIR_TEXT = "cats chase small mice"
PAIR = PAIR_TEXT.split(" ")

WALKS: dict[str, Any] = {
    "one token": lambda: steps("Hello", query="1"),
    "plain": lambda: steps(TEXT, variant="plain"),
    "plain, followed": lambda: steps(TEXT, variant="plain", query="am"),
    "causal": lambda: steps(TEXT, variant="causal"),
    "causal, followed": lambda: steps(TEXT, variant="causal", query="learning"),
    "two heads": lambda: steps(TEXT, variant="multi-head"),
    "two heads, followed": lambda: steps(TEXT, variant="multi-head", query="am"),
    "eight heads": lambda: steps(TEXT, variant="multi-head", heads=8, dim=64),
    "a block": lambda: steps(TEXT, layers=1, norm="pre", query="am"),
    "memory": lambda: steps(TEXT, memory="you are there"),
    "nine tokens": lambda: steps(NINE_TOKENS, variant="causal", query="it"),
    "twenty tokens": lambda: steps(TWENTY_TOKENS, tokenizer="spaces", query="3"),
    "narrow": lambda: steps(TEXT, dim=3, query="am"),
    "wide": lambda: steps(TEXT, dim=64, query="am"),
    "a pair": lambda: steps(TEXT, query="am", key="this"),
    "a pair of heads": lambda: steps(TEXT, variant="multi-head", query="am", key="I"),
    "a pair on a line": lambda: steps(TEXT, dim=1, query="am", key="I"),
}


@cache
def example_walk(name: str) -> Walk:
    walk: Walk = WALKS[name]()
    return walk


@cache
def slides(name: str, size: str) -> list[tuple[str, Layout]]:
    """Every step of a walk on a page of its own."""
    view = example_walk(name).view()
    look = Look(size=SIZES[size])
    return [(each.heading, layout_of(view.of_section(each), look)) for each in view.sections]


@cache
def one_page_layout(name: str, size: str) -> Layout:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return layout_of(example_walk(name).view(), Look(size=SIZES[size]))


def texts(layout: Layout) -> list[str]:
    return [word.text for word in layout.words]


def text_sizes(layout: Layout) -> Iterator[float]:
    yield from (word.size for word in layout.words)
    colored_panels = (panel for panel in layout.panels if panel.grid.scale.kind != "none")
    yield from (panel.number_size for panel in colored_panels if panel.number_size)


def assert_readable(layout: Layout) -> None:
    """Check that no text lies over another, in a table, or beyond the page."""
    assert list(find_overlaps(layout.words)) == []
    boxes = [
        np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])
        for x, y, width, height in (
            *(panel.box for panel in layout.panels),
            *(bar.box for bar in layout.items_of(ColorBar)),
        )
    ]
    for word in layout.words:
        assert not overlaps_any(corners(word), boxes), word.text
    assert_words_stand_on_page(layout)


SHORTEST_ARROW = 0.4  # inches
FEW_WALKS = ("causal, followed", "two heads", "nine tokens", "a pair of heads")
CASES = [
    *((name, "16:9") for name in WALKS),
    *((name, size) for name in FEW_WALKS for size in ("4:3", "natural")),
]


@pytest.mark.slow_table("pictures", keep=2)
@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_step_by_itself_can_be_read(name: str, size: str) -> None:
    for heading, layout in slides(name, size):
        assert_readable(layout)
        slide_scale = 13.333 / layout.size[0]
        assert min(text_sizes(layout)) * slide_scale >= 10 - 1e-6, heading


@pytest.mark.slow_table("pictures", keep=2)
@pytest.mark.parametrize(("name", "size"), CASES)
def test_steps_on_one_page_do_not_lie_on_each_other(name: str, size: str) -> None:
    layout = one_page_layout(name, size)

    assert_readable(layout)
    for section in example_walk(name).view().sections:
        assert any(text.startswith(section.number) for text in texts(layout)), section.heading


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize("points", [14, 24, 30, 40])
@pytest.mark.parametrize("name", ["causal, followed", "a pair", "a pair of heads", "two heads"])
def test_letters_too_large_for_a_slide_shrink_and_never_lie_on_each_other(
    name: str, points: int
) -> None:
    look = Look(size=SLIDE, text_size=points)
    view = example_walk(name).view()

    for section in view.sections:
        layout = layout_of(view.of_section(section), look)
        assert_readable(layout)
        for panel in layout.panels:
            assert panel.box[3] / min(len(panel.grid.rows), 5) >= 0.15, section.heading
        for start, stop in (stroke.points for stroke in layout.items_of(Stroke) if stroke.head):
            assert np.linalg.norm(np.array(stop) - np.array(start)) > SHORTEST_ARROW, (
                section.heading
            )


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize("points", [24, 30, 40])
def test_letters_larger_than_usual_take_no_room_from_sums(points: int) -> None:
    view, look = example_walk("causal, followed").view(), Look(size=SLIDE, text_size=points)
    usual_layouts = dict(slides("causal, followed", "16:9"))

    for section in view.sections:
        large_layout = layout_of(view.of_section(section), look)
        assert is_cut(large_layout) == is_cut(usual_layouts[section.heading]), section.heading
    assert sum(map(is_cut, usual_layouts.values())) == 1


def is_cut(layout: Layout) -> bool:
    return any(text.startswith("…") for text in texts(layout))


FOUR_STEPS: dict[str, Any] = {"step": "scores,scaling,mask,softmax", "variant": "causal"}
FEW_STEPS: dict[str, Any] = {
    "four tables": FOUR_STEPS,
    "four tables, followed": {**FOUR_STEPS, "query": "learning"},
    "four tables of all tokens": {"step": "5-8", "query": "learning"},
    "two tables": {"step": "6,7"},
    "two tables, causal": {"step": "6,7", "variant": "causal"},
}


@pytest.mark.slow_table("pictures", keep=4)
@pytest.mark.parametrize("size", ["16:9", "4:3", "natural"])
@pytest.mark.parametrize("name", FEW_STEPS)
def test_a_few_steps_fill_their_page_with_numbers_and_all_of_their_sums(
    name: str, size: str
) -> None:
    view = steps(TEXT, **FEW_STEPS[name]).view()
    layout = layout_of(view, Look(size=SIZES[size]))
    foot = max(word.y for word in layout.words if "random vectors" in word.text)
    lower_edges = [corners(word)[:, 1].min() for word in layout.words if word.y > foot + 0.3]
    numbers = {number for panel in layout.panels for number in panel.numbers.flat}

    assert_readable(layout)
    assert min(text_sizes(layout)) >= 10 - 1e-6
    assert all(panel.number_size for panel in layout.panels)
    assert ("−∞" in numbers) == ("variant" in FEW_STEPS[name])
    assert not is_cut(layout)
    assert min(lower_edges) - foot < 0.2 * layout.size[1]
    assert max(corners(word)[:, 0].max() for word in layout.words) > 0.9 * layout.size[0]


@pytest.mark.slow_table("pictures", keep=4)
@pytest.mark.parametrize("size", ["16:9", "4:3", "natural"])
@pytest.mark.parametrize("name", ["plain", "causal", "two heads", "causal, followed"])
def test_all_steps_on_one_page_have_letters_of_ten_points_on_a_slide(name: str, size: str) -> None:
    layout = one_page_layout(name, size)

    assert min(text_sizes(layout)) * 13.333 / layout.size[0] >= 10 - 1e-6
    if size == "natural":
        assert all(panel.number_size for panel in layout.panels)


def test_steps_on_one_page_have_keys_to_their_colours_where_there_is_room() -> None:
    labels = {bar.scale.label for bar in one_page_layout("plain", "16:9").items_of(ColorBar)}

    assert {"value", "score", "weight", "weighted"} <= labels


def test_a_slide_has_its_heading_once_in_the_largest_letters() -> None:
    findings = {
        "Step 8: softmax": 'Softmax: "I" scores highest and gets 40\u00a0% of the attention',
        "Step 10: context vectors": (
            'The weights of "learning" mix the values into its context vector'
        ),
    }
    for heading, layout in slides("causal, followed", "16:9"):
        heading = findings.get(heading, heading)
        (title,) = (word for word in layout.words if word.text == heading)
        assert title.size == max(word.size for word in layout.words) > 23
        assert "step by step" not in " ".join(texts(layout))


def test_a_single_step_says_small_what_it_is_a_part_of() -> None:
    layout = layout_of(steps(TEXT, step="5").view(), Look(size=SLIDE))

    assert texts(layout)[:2] == [
        'How "this" gets its context vector, step by step',
        "Step 5: scores",
    ]
    assert layout.words[0].faint
    assert layout.words[0].size < layout.words[1].size


def test_a_title_of_ones_own_is_the_headline_of_a_step_too() -> None:
    view = replace(steps(TEXT, step="5").view(), headline="Lecture 3", has_chosen_title=True)
    (section,) = view.sections

    for each in (view, view.of_section(section)):
        first, second = layout_of(each, Look(size=SLIDE)).words[:2]
        assert (first.text, second.text) == ("Lecture 3", "Step 5: scores")
        assert first.size > second.size


@pytest.mark.parametrize("suffix", [".md", ".txt"])
def test_a_step_alone_is_not_headed_twice_in_a_text(suffix: str) -> None:
    view = steps(TEXT).view()
    scores = next(each for each in view.sections if each.name == "scores")

    assert view.of_section(scores).render(suffix).decode().count("Step 5: scores") == 1


def test_sums_have_sixteen_points_on_a_slide_while_they_fit() -> None:
    for heading, layout in slides("causal, followed", "16:9"):
        sums = [word.size for word in layout.words if word.text.startswith(("score(", "weight("))]
        assert all(size >= 16 for size in sums), heading
        if heading == "Step 5: scores":
            assert len(sums) == 4


def test_where_sums_do_not_fit_it_is_said_how_many_are_left() -> None:
    view = example_walk("twenty tokens").view()
    section = next(each for each in view.sections if each.name == "scores")
    page_texts = texts(layout_of(view.of_section(section), Look(size=SLIDE)))
    (remaining,) = (
        re.fullmatch(r"… and (\d+) more", text) for text in page_texts if "more" in text[-4:]
    )

    assert sum(text.startswith("score(") for text in page_texts) + int(
        not_none(remaining)[1]
    ) == len(section.sums)


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize("name", ["causal, followed", "two heads, followed", "nine tokens"])
def test_pages_have_every_step_and_every_sum_in_letters_that_can_be_read(name: str) -> None:
    view, look = example_walk(name).view(), Look(size=SLIDE)
    pages = divide_into_pages(view, look)
    panels = [section for each in pages for section in each.picture.panels]

    assert len(pages) > 1
    assert list(dict.fromkeys(each.name for each in panels if isinstance(each, Section))) == [
        each.name for each in view.sections
    ]
    for section in view.sections:
        parts = [each for each in panels if isinstance(each, Section) and each.name == section.name]
        assert tuple(line for part in parts for line in part.sums) == section.sums
    for number, each in enumerate(pages, start=1):
        assert each.headline.endswith(f"({number} of {len(pages)})")
        assert each.picture.caveat == view.picture.caveat != ""
        assert min(text_sizes(layout_of(each, look))) >= 10 - 1e-6


def test_arithmetic_stays_when_several_steps_share_a_slide() -> None:
    view = steps(TEXT, variant="causal", query="am", step="5-8").view()
    page_text = " ".join(texts(layout_of(view, Look(size=SLIDE))))

    for start in ("score(am, I)", "scaled(am, I)", "masked(am, this)", "weight(am, I)"):
        assert start in page_text


def test_a_slide_too_full_for_arithmetic_says_so_and_can_still_be_read() -> None:
    view = example_walk("causal, followed").view()

    with pytest.warns(Note, match=r"save\(\"steps-\{page\}.png\"\)"):
        layout = layout_of(view, Look(size=SLIDE))
    assert min(text_sizes(layout)) >= 10 - 1e-6
    assert not any("score(" in text for text in texts(layout))
    assert all(each.list_heading in texts(layout) for each in view.sections)


def test_a_page_without_a_size_has_all_steps_with_their_arithmetic() -> None:
    page_text = " ".join(texts(one_page_layout("causal, followed", "natural")))

    assert "score(learning, I) = " in page_text
    assert "context(learning)" in page_text


def test_heads_are_drawn_as_the_columns_that_they_are_cut_from() -> None:
    layout = dict(slides("two heads", "16:9"))["Step 4: queries, keys, values"]
    boxes = [panel.box for panel in layout.panels]

    assert len(boxes) == 12
    assert len({(round(box[2], 6), round(box[3], 6)) for box in boxes}) == 1
    for start in (0, 4, 8):
        first, second, third, fourth = boxes[start : start + 4]
        assert first[0] + first[2] == pytest.approx(second[0])
        assert second[0] + second[2] < third[0]
        assert third[0] + third[2] < fourth[0]
    assert texts(layout).count("→") == 3
    assert {"queries", "keys", "values", "head 0", "head 1"} <= set(texts(layout))


def test_heads_are_joined_and_mixed_by_the_last_matrix() -> None:
    layout = dict(slides("two heads", "16:9"))["Step 10: context vectors"]
    shapes = [panel.grid.values.shape for panel in layout.panels]

    assert shapes == [(4, 4)] * 6 + [(4, 8), (8, 8), (4, 8)]
    assert (texts(layout).count("·"), texts(layout).count("=")) == (3, 3)


def test_each_head_has_a_row_of_its_own_with_numbers() -> None:
    layout = dict(slides("two heads", "16:9"))["Step 10: context vectors"]
    first, second, third = (layout.panels[start : start + 3] for start in (0, 3, 6))
    lowest = min(panel.box[1] for panel in first)

    assert all(panel.box[1] + panel.box[3] < lowest for panel in second)
    assert all(panel.box[1] < min(each.box[1] for each in second) for panel in third)
    assert all(panel.number_size >= 10 for panel in (*first, *second))
    assert {"head 0: weights", "head 1: weights"} <= set(texts(layout))


@pytest.mark.parametrize("name", ["plain", "causal", "two heads"])
def test_the_tables_of_a_step_fill_its_slide(name: str) -> None:
    """They reach to its right end, and from below the words to the foot of the page."""
    for heading, layout in slides(name, "16:9"):
        if layout.panels:
            boxes = np.array([panel.box for panel in layout.panels])
            foot = max(word.y for word in layout.words if "random vectors" in word.text)
            assert (boxes[:, 0] + boxes[:, 2]).max() > 0.8 * layout.size[0], heading
            assert boxes[:, 1].min() - foot < 0.22 * layout.size[1], heading


def test_many_heads_are_joined_without_their_attention() -> None:
    layout = dict(slides("eight heads", "16:9"))["Step 10: context vectors"]

    assert [panel.grid.values.shape for panel in layout.panels] == [
        *[(4, 8)] * 8,
        (4, 64),
        (4, 64),
        (64, 64),
        (4, 64),
    ]


@pytest.mark.parametrize("name", ["a pair", "a pair of heads"])
def test_arrows_have_the_lengths_and_the_angle_of_the_vectors(name: str) -> None:
    walk = example_walk(name)
    section = next(each for each in walk.sections if each.planes)
    layout = dict(slides(name, "16:9"))[section.heading]
    arrows = [stroke.points for stroke in layout.items_of(Stroke) if stroke.head]
    arrow_vectors = [(np.array(stop) - np.array(start)) for start, stop in arrows]
    lengths = [arrow.length for plane in section.planes for arrow in plane.arrows]
    units = [
        float(np.linalg.norm(end)) / length
        for end, length in zip(arrow_vectors, lengths, strict=True)
    ]

    assert units == pytest.approx([units[0]] * len(units))
    for plane, query, key in zip(
        section.planes, arrow_vectors[::2], arrow_vectors[1::2], strict=True
    ):
        cosine = query @ key / np.linalg.norm(query) / np.linalg.norm(key)
        assert cosine == pytest.approx(plane.cosine)
        assert plane.angle in texts(layout)


@pytest.mark.parametrize("query", range(4))
@pytest.mark.parametrize("key", [0, 3])
def test_vectors_of_two_numbers_are_drawn_where_these_say(query: int, key: int) -> None:
    """The bar beside the query is as long as the projection, whose number stands at it."""
    walk = steps(PAIR_TEXT, tokenizer="words", dim=2, query=PAIR[query], key=PAIR[key])
    section = next(each for each in walk.sections if each.planes)
    layout = layout_of(walk.view().of_section(section), Look(size=SLIDE))
    queries, keys = walk.trace.layers[0].queries_with_keys()
    vectors = queries[0, query].numpy(), keys[0, key].numpy()
    arrows = [
        np.subtract(each.points[1], each.points[0]) for each in layout.items_of(Stroke) if each.head
    ]
    unit = np.linalg.norm(arrows[0]) / np.linalg.norm(vectors[0])
    bar = next(each for each in layout.items_of(Stroke) if each.series == 1 and not each.head)
    projection = vectors[0] @ vectors[1] / np.linalg.norm(vectors[0])

    for arrow, vector in zip(arrows, vectors, strict=True):
        assert arrow / unit == pytest.approx(vector, abs=1e-4)
    assert math.dist(*bar.points) / unit == pytest.approx(abs(projection), abs=1e-4)
    assert f"{projection:.2f}".replace("-", "−") in texts(layout)
    assert_readable(layout)


def test_vectors_on_one_line_are_both_to_be_seen() -> None:
    walk = example_walk("a pair on a line")
    section = next(each for each in walk.sections if each.planes)
    layout = dict(slides("a pair on a line", "16:9"))[section.heading]
    query, key = (stroke.points for stroke in layout.items_of(Stroke) if stroke.head)

    assert query[0][1] == query[1][1] < key[0][1] == key[1][1]


def test_strokes_shrink_with_their_page() -> None:
    layout = slides("a pair", "16:9")[4][1]
    half_layout = Layout(layout.size, tuple(scale_item(item, 0.5) for item in layout.items))

    assert half_layout.items_of(Stroke)[0].points[0][0] == pytest.approx(
        layout.items_of(Stroke)[0].points[0][0] / 2
    )
    assert half_layout.items_of(Stroke)[0].width == pytest.approx(
        layout.items_of(Stroke)[0].width / 2
    )
