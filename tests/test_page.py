"""The page as it is written: well formed, safe, easy to read, and nothing said twice."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import attnviz as library
from attnviz.cells import unmasked_cells
from attnviz.renderers.colors import PALETTES, THEMES
from attnviz.renderers.page.page import STYLE_FILES
from attnviz.renderers.page.tables_and_steps import MAX_READABLE_CELLS, page_panels, table_markup
from attnviz.renderers.page.theming import theme_rules
from attnviz.views.grids.axes import dimension_axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, centred_scale
from attnviz.views.view import View
from tests.conftest import Attnviz
from tests.learned_by_hand import make_learned

TEXT = "I am here"
PAGE_FOLDER = Path(__file__).parent.parent / "attnviz" / "renderers" / "page"
VOID_TAGS = {"meta", "link", "input", "br", "hr", "img", "source"}


class Reader(HTMLParser):
    """What a page is made of; elements that are not closed in their order fail."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> where something else is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        inside = self.open[:-1] if self.open[-2:] == ["h1", "span"] else self.open
        for tag in inside[-1:]:
            self.words.setdefault(tag, []).append(data)

    def attribute_values(self, name: str) -> Iterator[str]:
        """Every value of an attribute."""
        return (
            value for _, attributes in self.elements if (value := attributes.get(name)) is not None
        )


@cache
def views() -> dict[str, View]:
    """A View of each kind that a page may be made of."""
    trace = library.trace(TEXT, tokenizer="words", heads=2)
    two_layer_trace = library.trace("a b a b a b", tokenizer="words", layers=2, heads=2)
    return {
        "run": trace.view(),
        "everything": trace.view(show=["all"]),
        "query": trace.view(query="2"),
        "steps": library.steps(trace, query="2", key="1").view(),
        "curves": library.compare(TEXT, by="dim", tokenizer="words").view(curves=True, repeats=2),
        "inspect": library.inspect(two_layer_trace).view(),
        "reading": library.inspect(two_layer_trace, query="2").view(),
        "learned": make_learned().view(),
    }


KINDS = ["run", "everything", "query", "steps", "curves", "inspect", "reading", "learned"]


@cache
def page_html(kind: str) -> str:
    return views()[kind].render(".html").decode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_well_formed_and_can_be_found_ones_way_in(kind: str) -> None:
    reader = Reader(page_html(kind))

    tags = [tag for tag, _ in reader.elements]
    assert [tags.count(each) for each in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    assert reader.elements[0] == ("html", {"lang": "en"})
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = Counter(reader.attribute_values("id"))
    assert {name for name, times in ids.items() if times > 1} == set()
    ids_referred_to = [
        *reader.attribute_values("for"),
        *reader.attribute_values("list"),
        *(h[1:] for h in reader.attribute_values("href")),
    ]
    assert set(ids_referred_to) <= set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_page_is_style_or_script_but_what_its_policy_names(kind: str) -> None:
    reader = Reader(page_html(kind))
    policy = next(value for value in reader.attribute_values("content") if "default-src" in value)

    for tag in ("style", "script"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page_html(kind), re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    names = {name for _, attributes in reader.elements for name in attributes}
    assert not [name for name in names if name == "style" or name.startswith("on")]
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page_html(kind))


def _theme_colors(rules: str, theme: str) -> dict[str, str]:
    match = re.search(rf"color-scheme: {theme};(.*?)}}", rules)
    assert match
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", match[1]))


def contrast(first_color: str, second_color: str) -> float:
    """WCAG's ratio of two colours: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""

    def luminance(color: str) -> float:
        parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(first_color), luminance(second_color)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("palette", PALETTES)
def test_every_word_and_edge_stands_out_as_wcag_asks_for(palette: str, theme: str) -> None:
    colors = _theme_colors(theme_rules(palette), theme)

    for ink, paper in (
        ("ink", "paper"), ("faint", "paper"), ("accent", "paper"), ("ink", "soft"),
        ("faint", "soft"), ("paper", "accent"), ("paper", "ink"), ("on-hidden", "hidden"),
    ):  # fmt: skip
        assert contrast(colors[ink], colors[paper]) >= 4.5, (ink, paper)
    shades = [name for name in colors if re.fullmatch(r"[sd]\d+", name)]
    assert len(shades) == 34
    assert all(contrast(colors[each], colors[f"on-{each}"]) >= 4.5 for each in shades)
    lines = [name for name in colors if name.startswith("line-")]
    assert all(contrast(colors[each], colors["paper"]) >= 3 for each in (*lines, "edge"))


def test_the_colours_of_a_page_are_those_of_its_theme_and_nothing_else_has_any() -> None:
    for name, theme in THEMES.items():
        colors = _theme_colors(theme_rules("ocean"), name)
        assert (colors["paper"], colors["ink"], colors["faint"]) == (
            theme.paper,
            theme.ink,
            theme.faint,
        )
    for name in STYLE_FILES:
        colors_in_file = re.findall(
            r"#[0-9a-f]{3,8}\b", (PAGE_FOLDER / "style" / name).read_text("utf-8")
        )
        assert [each for each in colors_in_file if len(each) not in (5, 9)] == [], (
            name
        )  # but shadows


def test_words_that_look_like_places_of_the_page_are_words() -> None:
    view = replace(views()["run"], headline="$blocks ${script} $title", has_chosen_title=True)

    reader = Reader(view.render(".html").decode())

    assert reader.words["h1"] == reader.words["title"] == ["$blocks ${script} $title"]


# What stands in it.


def test_maps_that_can_be_explored_are_not_written_out_once_more() -> None:
    assert "<caption>weights" not in page_html("run")
    assert "<h2>context vectors</h2>" in page_html("run")
    assert "<caption>scores · head 1</caption>" in page_html("everything")
    without_explorer = replace(views()["run"], head_explorer=None).render(".html").decode()
    assert "<caption>weights · head 1</caption>" in without_explorer
    assert ' id="explorer" hidden>' in without_explorer
    assert ' id="explorer">' in page_html("run")


def test_a_page_says_what_is_random_and_each_closing_sentence_once() -> None:
    caveat = views()["run"].screen.caveat

    assert caveat
    assert page_html("run").count(f">{caveat}<") == 1
    for kind in KINDS:
        view = views()[kind]
        texts_by_tag = Reader(page_html(kind)).words
        heading = "".join(texts_by_tag["h1"])
        assert heading == (view.headline or view.title)
        closing = [each for each in view.closing if each.rstrip(".") != heading.rstrip(".")]
        assert all(texts_by_tag["p"].count(each) == 1 for each in closing)


def test_a_step_is_told_with_its_tables_its_sums_and_its_arrows() -> None:
    reader = Reader(page_html("steps"))
    view = views()["steps"]

    assert [each.heading for each in view.sections] == [*map(str.strip, reader.words["h2"])]
    for section in view.sections:
        assert section.about in reader.words["p"]
        for each in section.sums:
            assert each.left in " ".join(reader.words["span"])
    arrows = [
        attributes
        for tag, attributes in reader.elements
        if tag == "path" and "arrow" in str(attributes["class"])
    ]
    assert len(arrows) == 2 * sum(len(each.planes) for each in view.sections) == 4
    assert [*reader.attribute_values("href")][1:] == [
        f"#{each}" for each in reader.attribute_values("id") if "step-" in each
    ]


def test_how_a_page_was_made_stands_in_it(attnviz: Attnviz, tmp_path: Path) -> None:
    out = tmp_path / "x.html"

    result = attnviz("run", TEXT, "-t", "words", "-o", str(out), "--size", "8x5", "--dpi", "99")

    assert (result.status, result.err) == (0, f"wrote {out}\n")
    reader = Reader(out.read_text("utf-8"))
    command = f"attnviz run '{TEXT}' --tokenizer words --out x.html --size 8x5 --dpi 99"
    assert reader.words["code"] == [command, command]
    assert [*zip(reader.words["dt"], reader.words["dd"], strict=True)].count(("seed", "42")) == 1


def test_a_page_is_one_and_has_no_place_for_numbers_in_its_name(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    result = attnviz("run", TEXT, "-o", str(tmp_path / "x-{page}.html"))

    assert result.status == 2
    assert "{page} stands for the pages of a picture" in result.err


def test_a_long_table_is_not_written_out_and_says_how_to_get_it() -> None:
    def grid(rows: int) -> Grid:
        cells = unmasked_cells(np.zeros((rows, 2)))
        return Grid("numbers", plain_axis("row", ["x"] * rows), dimension_axis(2), cells,
                    Scale("value", 0, 1))  # fmt: skip

    assert table_markup(grid(MAX_READABLE_CELLS // 2)).count("<td") == MAX_READABLE_CELLS + 1
    long_markup = table_markup(grid(MAX_READABLE_CELLS // 2 + 1))
    assert "<td" not in long_markup
    assert "4,097 × 2 numbers are too many for a table: -o numbers.json writes" in long_markup


def test_of_many_long_tables_one_sentence_tells() -> None:
    trace = library.trace(" ".join(map(str, range(900))), tokenizer="words", dim=10, layers=2)
    text = page_panels(trace.view())
    assert text.count("too-many") == 1
    assert "<td" not in text
    assert "context vectors L0 (900 × 10), outputs L0 (900 × 10), context vectors L1" in text


def test_cells_have_the_shade_of_their_number() -> None:
    values = np.array([[-2.0, 0.0, 1.0, np.nan]])
    cells = unmasked_cells(values)
    scale = centred_scale("value", unmasked_cells(values[:, :3]))
    grid = Grid("x", plain_axis("row", ["a"]), dimension_axis(4), cells, scale)

    cells_written = re.findall(r'<td(?: class="(\w+)")?>([^<]*)</td>', table_markup(grid))[1:]

    assert cells_written == [("d0", "-2.00"), ("d8", "0.00"), ("d12", "1.00"), ("", "")]


def test_the_small_print_says_what_is_said_nowhere_else() -> None:
    view = views()["run"]
    assert view.screen.caption.startswith("row = query (reads) · column = key (is read)")

    captions = re.findall(r'<p class="caption">(.*?)</p>', page_html("run"))

    assert captions == ["each row sums to 1"]
    assert "row = query (reads)" in page_html("learned")
