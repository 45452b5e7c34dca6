"""Steps, written by hand, in every kind of output."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from PIL import Image
from rich.cells import cell_len

from attnviz.cells import unmasked_cells
from attnviz.errors import Note
from attnviz.renderers import Look, render
from attnviz.renderers.picture.items import Box, Layout
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.page_kinds import page_layout
from attnviz.renderers.picture.section import section_pages
from attnviz.renderers.picture.text import SLIDE, Size, text_width
from attnviz.renderers.terminal.lines import panel_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.renderers.wrapping import align_sums, break_sum
from attnviz.views.grids.description import caption, describe, has_masked_cells
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Section
from attnviz.views.view import Group, View
from attnviz.wording.sums import Sum
from tests.hand import HOSTILE, PANEL_SUFFIXES, causal_weights, dimensions, vectors, view_of, words

Golden = Callable[[str, str], None]

TOKENS = ("I", "am", "learning", "this")
NO_CAPTIONS = Captions()


@pytest.fixture(autouse=True)
def ignore_font_notes() -> None:
    warnings.simplefilter("ignore", Note)


def table(title: str, tokens: tuple[str, ...], columns: int, seed: int = 0) -> Grid:
    values = np.sin(np.arange(len(tokens) * columns) * (1.7 + seed)).reshape(-1, columns)
    scale = Scale("value", -1.0, 1.0, "diverging")
    rows = words(*tokens, title="token")
    return Grid(title, rows, dimensions(columns), unmasked_cells(values), scale)


def scores(tokens: tuple[str, ...]) -> Grid:
    weights = causal_weights("scores", *tokens)
    values = np.cos(np.arange(weights.values.size) * 1.3).reshape(weights.values.shape) * 3
    scale = Scale("score", -3.0, 3.0, "diverging")
    return replace(
        weights,
        cells=unmasked_cells(values),
        scale=scale,
        note="query · key, before scaling and mask",
        share=False,
    )


def fill_first_cells(grid: Grid, count: int) -> Grid:
    """The grid with so many cells, and nothing in the others."""
    is_empty = np.arange(grid.values.size).reshape(grid.values.shape) >= count
    return grid.with_values(np.where(is_empty, np.nan, grid.values))


def scores_section(tokens: tuple[str, ...] = TOKENS, moments: int = 0) -> Section:
    """The step "scores", with its sums and so many moments."""
    products = "0.26·0.88 + 0.79·0.92 + 0.11·-0.30 + 0.50·0.25"
    sums = tuple(
        Sum(f"score({tokens[-1]}, {token})", products, "1.05", exact=True) for token in tokens
    )
    section = Section(
        "5",
        "scores",
        "scores",
        "How well each query matches each key: the numbers of the one times those of the other.",
        "queries [4 × 8] · keysᵀ [8 × 4] → scores [4 × 4]",
        "scores = Q Kᵀ",
        r"S = Q K^\top",
        (scores(tokens),),
        sums,
        ("a score says nothing by itself: only beside the others of its row",),
    )
    moment_sections = (
        replace(
            section, grids=(fill_first_cells(scores(tokens), count),), sums=sums[count % 4 :][:1]
        )
        for count in range(1, moments + 1)
    )
    return replace(section, moments=tuple(moment_sections))


def example_steps(
    tokens: tuple[str, ...] = TOKENS, width: int = 3, moments: int = 0
) -> list[Section]:
    """A few steps of every form: a vector, several tables, a mask, long sums."""
    products = " + ".join(f"0.25·[{', '.join(['-0.25'] * width)}]" for _ in tokens)
    return [
        Section(
            "2",
            "embeddings",
            "embeddings",
            "Each token becomes a vector.",
            f"[{len(tokens)} × {width}]",
            grids=(table("embeddings", tokens, width),),
        ),
        Section(
            "4",
            "vectors",
            "queries, keys, values",
            "Each embedding times each matrix.",
            formula="Q = X Wq",
            grids=tuple(
                table(name, tokens, width, seed)
                for seed, name in enumerate(["queries", "keys", "values"])
            ),
        ),
        scores_section(tokens, moments),
        Section(
            "8",
            "softmax",
            "softmax",
            "Scores become shares.",
            grids=(causal_weights("weights", *tokens),),
            sums=(
                Sum(
                    "weight(am, I)",
                    "e^0.20 / (e^0.20 + e^0.89) = 1.22 / 3.66",
                    "0.33",
                    exact=True,
                ),
            ),
        ),
        Section(
            "10",
            "context",
            "context",
            "What is read.",
            sums=(Sum("context(am)", products, "", exact=True),),
        ),
    ]


def screen_of(width: int | None, *sections: Section) -> str:
    return "".join(f"{line.plain.rstrip()}\n" for line in panel_lines(sections, Screen(width)))


def example_view() -> View:
    """A view of these steps, with a headline, a caption and closing words."""
    return view_of(
        *example_steps(),
        headline="causal attention",
        caption="four tokens",
        closing=("that is all",),
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_steps_on_a_screen(check_golden: Golden, width: int) -> None:
    check_golden(f"sections_{width}.txt", screen_of(width, *example_steps()))


@pytest.mark.parametrize(
    ("name", "build_view"),
    [
        ("sections_file.txt", example_view),
        ("sections.md", example_view),
        ("sections_hostile.md", lambda: view_of(scores_section(HOSTILE[:10]))),
    ],
)
def test_steps_in_files(check_golden: Golden, name: str, build_view: Callable[[], View]) -> None:
    check_golden(name, render(build_view(), Path(name).suffix).decode())


@given(width=st.integers(1, 200), count=st.integers(1, 12), has_colors=st.booleans())
def test_no_line_of_a_step_is_wider_than_any_terminal(
    width: int, count: int, has_colors: bool
) -> None:
    steps = example_steps(tuple(f"word{number}" for number in range(count)), width=count)
    lines = panel_lines([*steps, vectors()], Screen(width, colors="256" if has_colors else "none"))

    assert max(line.cell_len for line in lines) <= max(width, 24)


def test_shapes_stand_beside_the_heading_while_there_is_room() -> None:
    wide_lines, narrow_lines = (
        screen_of(width, scores_section()).splitlines() for width in (80, 40)
    )

    assert wide_lines[0] == "Step 5: scores   queries [4 × 8] · keysᵀ [8 × 4] → scores [4 × 4]"
    assert narrow_lines[0] == "Step 5: scores"


def test_a_cell_that_is_not_yet_filled_is_left_empty() -> None:
    section = replace(scores_section(), grids=(fill_first_cells(scores(TOKENS), 5),))

    rows = screen_of(80, section).splitlines()
    first_row = next(number for number, row in enumerate(rows) if row.startswith("1 I"))
    assert [len(row.split()) for row in rows[first_row : first_row + 4]] == [6, 3, 2, 2]
    assert "| 3 learning |  |  |  |  |" in render(view_of(section), ".md").decode()
    assert "nan" not in render(view_of(section), ".svg").decode()


def test_the_first_signs_of_sums_stand_below_each_other() -> None:
    sums = (Sum("a", "1", "", exact=True), Sum("日本", "0.5 + 0.26", "0.8", exact=False))

    assert list(align_sums(sums)) == ["a    = 1", "日本 = 0.5 + 0.26 ≈ 0.8"]


def test_a_long_sum_is_broken_before_its_signs_and_never_inside_a_number() -> None:
    text = "context(am) = 0.25·[0.12, -0.34] + 0.75·[0.56, 0.78] = [0.45, 0.50]"

    assert list(break_sum(text, lambda line: len(line) <= 40)) == [
        "context(am) = 0.25·[0.12, -0.34]",
        "    + 0.75·[0.56, 0.78] = [0.45, 0.50]",
    ]
    assert list(break_sum(text, lambda line: len(line) <= 28)) == [
        "context(am)",
        "    = 0.25·[0.12, -0.34]",
        "    + 0.75·[0.56, 0.78]",
        "    = [0.45, 0.50]",
    ]
    assert list(break_sum("w = e^1.2 / (e^1.2 + e^0.3) = 0.7", lambda line: len(line) <= 25)) == [
        "w = e^1.2",
        "    / (e^1.2 + e^0.3)",
        "    = 0.7",
    ]


@given(st.text(alphabet="ab0.·[], +=", max_size=60), st.integers(6, 30))
def test_a_broken_sum_fits_and_loses_nothing(text: str, width: int) -> None:
    lines = list(break_sum(text, lambda line: cell_len(line) <= width))

    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def visible_text(markdown: bytes) -> str:
    """The text of the page without its tags, as a reader sees it."""
    page = MarkdownIt("commonmark").enable("table").render(markdown.decode())
    return unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("label", [*HOSTILE, "|", "*", "~~a~~", "1. a", "- a", "```", "&lt;"])
def test_any_label_shows_as_itself_in_markdown(label: str) -> None:
    section = replace(
        scores_section(("before", label)),
        remarks=(label,),
        title=label,
        about=label,
        shapes=label,
        sums=(Sum(label, label, "", exact=True), Sum(label, "1", "", exact=True)),
    )
    view = view_of(section, causal_weights(label, "before", label), headline=label)
    content = render(view, ".md")

    # The row, the column and the remark; the headings, the sentence, the shapes and the sums.
    assert visible_text(content).count(label) >= 10
    tags = MarkdownIt("commonmark").enable("table").render(content.decode())
    assert tags.count("<td") == 2 * 2 * 3
    assert tags.count("<pre>") == 1


def test_what_github_looks_for_in_the_finished_text_is_kept_from_it() -> None:
    markdown = render(view_of(causal_weights("weights", "$x$", ":smile:", "a:b")), ".md").decode()

    assert "<span>&#36;</span>x<span>&#36;</span>" in markdown
    assert "<span>:</span>smile:" in markdown
    assert "a:b" in markdown


@pytest.mark.slow("formats")
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
def test_hostile_labels_are_drawn_in_every_format(suffix: str) -> None:
    view = view_of(*example_steps(HOSTILE[:12]), headline="$x$")

    assert len(render(view, suffix, theme="dark")) > 1000


@pytest.mark.slow("formats")
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
def test_the_same_steps_give_the_same_bytes(suffix: str) -> None:
    one, other = (view_of(*example_steps(moments=1)) for _ in range(2))

    assert render(one, suffix) == render(other, suffix)


@pytest.mark.slow("formats")
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
def test_one_step_by_itself_and_steps_among_tables_are_drawn(suffix: str) -> None:
    assert render(view_of(scores_section()), suffix)
    assert render(view_of(causal_weights(), scores_section(), vectors()), suffix)
    assert render(view_of(Section("1", "tokens", "tokens", "Nothing to see.")), suffix)


def words_of(layout: Layout) -> list[str]:
    return [word.text for word in layout.words]


def page_of(
    steps: Sequence[Section], size: Size | None = None, captions: Captions = NO_CAPTIONS
) -> Layout:
    return page_layout([Group("steps", tuple(steps))], Look(size=size), captions)


@pytest.mark.parametrize("count", [1, 4, 8, 16])
@pytest.mark.parametrize("size", [None, (12.8, 7.2), (8.0, 4.5), (6.0, 8.0)])
def test_every_panel_lies_on_the_page_and_on_no_other(count: int, size: Size | None) -> None:
    steps = example_steps(tuple(f"word{number}" for number in range(count)), width=8)
    layout = page_of(steps, size, Captions("a title", "settings"))

    boxes = [panel.box for panel in layout.panels]
    assert len(boxes) == 6
    for left, bottom, width, height in boxes:
        assert left > 0
        assert bottom > 0
        assert left + width < layout.size[0]
        assert bottom + height < layout.size[1]
    assert not any(overlap(*pair) for pair in itertools.combinations(boxes, 2))
    for step in steps:
        assert step.list_heading in words_of(layout)


def overlap(one: Box, other: Box) -> bool:
    return all(
        one[side] < other[side] + other[side + 2] and other[side] < one[side] + one[side + 2]
        for side in (0, 1)
    )


@pytest.mark.parametrize("size", [None, (12.8, 7.2), (8.0, 4.5)])
def test_no_words_leave_the_page(size: Size | None) -> None:
    steps = example_steps(width=8)
    for layout in [page_of(steps, size), *section_pages(steps[2:3], Look(size=size), NO_CAPTIONS)]:
        for word in (word for word in layout.words if word.halign == "left" and not word.angle):
            assert word.x >= 0
            assert word.x + text_width(word.text, word.size) <= layout.size[0] + 0.01
            assert 0 <= word.y <= layout.size[1]


def test_a_page_of_few_steps_is_a_slide_and_numbers_can_be_read() -> None:
    layout = page_of(example_steps())

    assert layout.size == SLIDE
    assert all(panel.number_size for panel in layout.panels)


@pytest.mark.slow("pictures")
def test_a_picture_of_steps_has_the_size_that_is_asked_for() -> None:
    view = view_of(*example_steps())
    picture = Image.open(io.BytesIO(render(view, ".png", dpi=50)))
    large_picture = Image.open(io.BytesIO(render(view, ".png", dpi=100, size=(9, 6))))

    assert picture.size == (666, 375)
    assert large_picture.size == (900, 600)


def test_one_step_has_its_sentence_its_formula_and_its_sums() -> None:
    (layout,) = section_pages([scores_section()], Look(), NO_CAPTIONS)
    text = " ".join(words_of(layout))

    assert "Step 5: scores" in text
    assert "How well each query matches each key" in text
    assert "scores = Q Kᵀ" in text
    assert text.count("score(this, ") == 4


def test_sums_that_do_not_fit_are_counted() -> None:
    section = scores_section(tuple("abcdefghijklmnopqr"))
    (layout,) = section_pages([section], Look(size=(8.0, 4.5)), NO_CAPTIONS)
    (remaining,) = re.findall(r"… and (\d+) more", "\n".join(words_of(layout)))
    sum_count = sum("score(" in text for text in words_of(layout))

    assert sum_count + int(remaining) == len(section.sums)
    assert min(word.y for word in layout.words) > 0


def test_captions_and_descriptions_look_into_sections() -> None:
    assert caption(example_steps(), "seed 42") == (
        "query · key, before scaling and mask · row = query (reads) · column = key (is read) · "
        "each row sums to 1 · seed 42"
    )
    assert has_masked_cells(example_steps())
    assert not has_masked_cells(example_steps()[:3])
    assert describe(example_steps()[3:4]).startswith(
        "Step 8: softmax: Scores become shares. weights: 4 × 4"
    )


def test_a_place_to_break_is_found_by_halving() -> None:
    """A model's sums have thousands of places, and to measure a line takes a while."""
    text = "a = " + " + ".join(f"0.{number:04}·0.25" for number in range(4000))
    measured_lines: list[str] = []

    def fits(line: str) -> bool:
        measured_lines.append(line)
        return len(line) <= 60

    assert len(next(iter(break_sum(text, fits)))) <= 60
    assert len(measured_lines) < 20


def test_a_very_long_word_is_broken_without_measuring_all_of_it_again_and_again() -> None:
    measured_letters = 0

    def fits(line: str) -> bool:
        nonlocal measured_letters
        measured_letters += len(line)
        return len(line) <= 80

    lines = list(break_sum(f"a = 0.5·{'x' * 100_000} + 0.25·2 = 1", fits))

    assert all(len(line) <= 80 for line in lines)
    assert measured_letters < 20 * 100_000
