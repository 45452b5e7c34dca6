"""The matrix of a page, and all heads small: in a real browser, by pointer and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cells import StoredCells
from attnviz.renderers import Look
from attnviz.renderers.colors import color_anchors, color_values
from attnviz.renderers.page.page import html
from attnviz.views.grids.axes import AXES_NOTE, Axis, plain_axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale, logarithmic_scale
from attnviz.views.inspection.map_numbers import format_map_value
from attnviz.views.view import Page as Shown
from attnviz.views.view import View
from attnviz.wording.numbers import fixed_text, share_text
from tests import not_none
from tests.browser import page_in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGE = Path(__file__).parents[1] / "attnviz" / "renderers" / "page"
TOKENS = ("[CLS]", "The", "animal", "שלום", "<b>it</b>", "🎉", "[SEP]")
COUNT = len(TOKENS)
SIDE = Axis(
    "query (reads)",
    "token",
    TOKENS,
    tuple(str(place + 1) for place in range(COUNT)),
    special=tuple(token.startswith("[") for token in TOKENS),
    border=5,
)
HIDDEN_CELLS = np.triu(np.ones((COUNT, COUNT), dtype=bool), 1)
CELL_LINE = re.compile(
    r"^\"?⁨(.+?)⁩\"? (?:reads|cannot read) \"?⁨(.+?)⁩\"?: "
    r"(?:weight (\S+), score ([−\d.]+)|hidden by the mask)"
)


def weights_of(head: int) -> np.ndarray:
    """The weights of each token on itself and on those before it."""
    numbers = np.random.default_rng(head).exponential(size=(COUNT, COUNT))
    visible = np.where(HIDDEN_CELLS, 0, numbers)
    return np.asarray(visible / visible.sum(axis=1, keepdims=True), dtype=np.float32)


def scores_of(head: int) -> np.ndarray:
    return np.random.default_rng(100 + head).normal(size=(COUNT, COUNT)).astype(np.float32)


@pytest.fixture(scope="module")
def heads_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two layers of three heads, each of which sees what was before."""
    heads = tuple(
        HeadMap(
            name=f"L{head // 3}H{head % 3}",
            chooser_cell=divmod(head, 3),
            query_axis=SIDE,
            key_axis=SIDE,
            weights=StoredCells(weights_of(head), HIDDEN_CELLS),
            scores=StoredCells(scores_of(head), HIDDEN_CELLS),
        )
        for head in range(6)
    )
    explorer = HeadExplorer(
        heads=heads,
        rows=plain_axis("layer", ("L0", "L1")),
        columns=plain_axis("head", ("H0", "H1", "H2")),
        note=AXES_NOTE,
        flags=(Flag(4, "previous token", "previous", ".97"), Flag(1, "broad", "broad", ".91")),
    )
    view = View(
        title="by hand", screen=Shown(()), picture=Shown(()), head_explorer=lambda: explorer
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_bytes(b"".join(html(view, Look())))
    return path


@pytest.fixture(scope="module")
def open_page(chromium: Browser, heads_path: Path) -> Iterator[Page]:
    with page_in_browser(chromium, heads_path, viewport={"width": 1280, "height": 900}) as page:
        wait_until_ready(page)
        yield page


# The event comes later than the address, and the page reads the address only then.
FOLLOW_NOTHING = """new Promise((done) => {
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = "query=none";
})"""


@pytest.fixture
def page(open_page: Page) -> Page:
    """The page in its first state, with no token followed."""
    open_page.mouse.move(1, 1)
    open_page.click("#reset")
    until(open_page, "location.hash === ''")
    open_page.evaluate(FOLLOW_NOTHING)
    until(open_page, "document.querySelector('.matrix-title strong').textContent === 'L0H0'")
    wait_for_drawing(open_page)
    return open_page


def wait_until_ready(page: Page) -> None:
    until(page, "performance.getEntriesByName('first picture').length > 0")
    wait_for_drawing(page)


def wait_for_drawing(page: Page) -> None:
    """Wait two frames, after which all changes are drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page: Page, condition: str) -> None:
    """Playwright's own way to wait needs eval, which no page of ours allows."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        wait_for_drawing(page)
    raise AssertionError(condition)


def cell_line(page: Page) -> str:
    wait_for_drawing(page)
    return page.inner_text(".matrix-line")


def press_keys(page: Page, *keys: str) -> str:
    """The line of the matrix after some keys."""
    for key in keys:
        page.keyboard.press(key)
    return cell_line(page)


# Moves the pointer to places all over the matrix: the line and the colour at each.
PROBE_PLACES = """async () => {
  const [canvas, over] = document.querySelectorAll(".matrix-stuck canvas");
  const { left, top, width, height } = over.getBoundingClientRect();
  const copy = document.createElement("canvas");
  Object.assign(copy, { width: canvas.width, height: canvas.height });
  const pixels = copy.getContext("2d", { willReadFrequently: true });
  pixels.drawImage(canvas, 0, 0);
  const found = [];
  for (let place = 0; place < 64; place++) {
    const x = Math.round(width * (0.22 + 0.095 * (place % 8)));
    const y = Math.round(height * (0.22 + 0.107 * (place >> 3)));
    const at = { clientX: left + x, clientY: top + y, bubbles: true };
    over.dispatchEvent(new PointerEvent("pointermove", at));
    await new Promise(requestAnimationFrame);
    const pixel = pixels.getImageData(x, y, 1, 1).data;
    found.push([document.querySelector(".matrix-line").innerText, [...pixel].slice(0, 3)]);
  }
  return found;
}"""


def probe_places(page: Page) -> list[tuple[str, list[int]]]:
    wait_for_drawing(page)
    found_places: list[tuple[str, list[int]]] = page.evaluate(PROBE_PLACES)
    return found_places


def cell_of(cell_text: str) -> tuple[int, int, str | None, str | None]:
    match = CELL_LINE.match(cell_text)
    assert match, cell_text
    query, key, weight, score = match.groups()
    return TOKENS.index(query), TOKENS.index(key), weight, score


def cells_with_right_color(page: Page, scale: Scale, theme: str) -> set[tuple[int, int]]:
    """The cells in which the pointer meets the colour of their number; hidden ones are grey."""
    palette = color_anchors("ocean", theme, "sequential")
    cells, matching_cells = dict[tuple[int, int], list[list[int]]](), set[tuple[int, int]]()
    for cell_text, pixel in probe_places(page):
        row, column, weight, _ = cell_of(cell_text)
        assert (weight is None) == HIDDEN_CELLS[row, column]
        cells.setdefault((row, column), []).append(pixel)
    for (row, column), colors in cells.items():
        if HIDDEN_CELLS[row, column]:
            assert all(max(each) - min(each) <= 8 for each in colors)  # grey, whatever it is
            continue
        expected = color_values(scale.shares(weights_of(0)[row, column]), 0, 1, palette).astype(int)
        if any(np.abs(np.array(each) - expected).max() <= 2 for each in colors):
            matching_cells.add((row, column))
    return matching_cells


def test_the_number_under_the_pointer_is_the_one_that_was_computed(page: Page) -> None:
    cells = set()
    for cell_text, _ in probe_places(page):
        row, column, weight, score = cell_of(cell_text)
        cells.add((row, column))
        if not HIDDEN_CELLS[row, column]:
            assert float(str(weight)) == pytest.approx(weights_of(0)[row, column], abs=5.1e-5)
            score_shown = float(str(score).replace("−", "-"))
            assert score_shown == pytest.approx(scores_of(0)[row, column], abs=5.1e-3)
    assert len(cells) > 30


def test_every_cell_has_the_colour_of_its_number(page: Page, chromium: Browser) -> None:
    scale = Scale("weight", 0, 1)
    visible_count = (~HIDDEN_CELLS).sum()
    assert (
        len(cells_with_right_color(page, scale, "light")) > 0.7 * visible_count
    )  # the others are under their numbers
    page.click("text=Log")
    wait_for_drawing(page)
    assert (
        len(cells_with_right_color(page, logarithmic_scale(scale, COUNT), "light"))
        > 0.7 * visible_count
    )
    page.click("text=Linear")
    page.emulate_media(color_scheme="dark")
    wait_for_drawing(page)
    assert len(cells_with_right_color(page, scale, "dark")) > 0.7 * visible_count
    page.emulate_media(color_scheme="light")


def test_arrows_move_the_cell_and_enter_follows_its_row(page: Page) -> None:
    page.focus(".matrix-frame")
    assert cell_of(press_keys(page, "Control+Home"))[:2] == (0, 0)
    assert cell_of(press_keys(page, "ArrowDown", "ArrowDown", "ArrowRight"))[:2] == (2, 1)
    assert cell_of(press_keys(page, "End"))[:2] == (2, COUNT - 1)
    assert cell_of(press_keys(page, "PageDown", "Home"))[:2] == (COUNT - 1, 0)
    assert cell_of(press_keys(page, "Control+Home", "ArrowUp"))[:2] == (0, 0)
    assert page.get_attribute(".matrix-line", "aria-live") == "polite"
    press_keys(page, "ArrowDown", "Enter")
    page.mouse.move(1, 1)
    until(page, "location.hash === ''")  # the second row is followed as the page opens
    press_keys(page, "Shift+Enter")
    until(page, "location.hash.includes('key=')")
    press_keys(page, "Escape")
    until(page, "location.hash === '#query=none'")
    assert press_keys(page, "Escape").startswith("Point at a cell")


def test_a_click_follows_a_row_or_a_column_until_it_is_clicked_again(page: Page) -> None:
    frame = page.locator(".matrix-stuck")
    box = not_none(frame.bounding_box())
    frame.click(position={"x": box["width"] / 2, "y": box["height"] - 12})  # in the last row
    page.mouse.move(1, 1)
    assert cell_line(page) == "Following ⁨[SEP]⁩; Esc to stop"
    until(page, "location.hash.includes('query=7')")
    frame.click(position={"x": 20, "y": box["height"] - 12})  # on the name of the row
    until(page, "location.hash.includes('query=none')")
    frame.click(position={"x": box["width"] / 2, "y": 8})  # on the name of a column
    until(page, "location.hash.includes('key=')")
    page.mouse.move(1, 1)
    assert re.match(r"Following the tokens that read .+; Esc to stop", cell_line(page))


def test_without_special_tokens_it_says_how_much_goes_to_them(page: Page) -> None:
    page.click("#special")
    until(
        page,
        "document.querySelector('.matrix-frame').getAttribute('aria-label').includes('5 rows')",
    )
    page.focus(".matrix-frame")
    cell_text = press_keys(page, "Control+End")
    row, column, weight, _ = cell_of(cell_text)
    assert (row, column) == (5, 5)
    assert float(str(weight)) == pytest.approx(weights_of(0)[5, 5], abs=5.1e-5)
    assert cell_text.endswith(
        f"; {share_text(weights_of(0)[5, 0])} goes to special tokens, which are not shown"
    )
    assert "special tokens left out" in page.inner_text(".matrix .color-bar")


def test_what_is_below_the_filter_is_blank(page: Page) -> None:
    page.focus("#least")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    wait_for_drawing(page)
    bar = page.inner_text(".matrix .color-bar")
    least = float(re.findall(r"blank: below (\S+)", bar)[0])
    assert 0.02 < least < 0.9
    for cell_text, pixel in probe_places(page):
        _, _, weight, _ = cell_of(cell_text)
        if weight is not None and float(weight) < least - 1e-4:
            assert max(pixel) - min(pixel) <= 10  # paper, or a line on it: no colour of a number


def test_all_heads_are_there_and_a_click_opens_one(page: Page) -> None:
    cells = page.locator(".overview [role=gridcell]")
    assert cells.count() == 6
    assert cells.nth(4).get_attribute("aria-label") == "L1H1, previous token .97"
    cells.nth(4).hover()
    wait_for_drawing(page)
    assert page.inner_text(".overview-line") == "L1H1, previous token .97"
    cells.nth(4).click()
    until(page, "document.querySelector('.matrix-title strong').textContent === 'L1H1'")
    assert cells.nth(4).get_attribute("aria-selected") == "true"
    row, column, weight, _ = cell_of(probe_places(page)[-1][0])
    assert float(str(weight)) == pytest.approx(weights_of(4)[row, column], abs=5.1e-5)
    cells.nth(2).click(modifiers=["Shift"])
    until(page, "location.hash.includes('together=')")
    page.click(".flags button >> nth=1")
    until(page, "document.querySelector('.matrix-title strong').textContent === 'L0H1'")


def test_all_heads_are_one_stop_of_the_tab_key_and_arrows_go_from_head_to_head(page: Page) -> None:
    assert page.locator(".overview [tabindex='0']").count() == 1
    page.focus(".overview [tabindex='0']")
    press_keys(page, "ArrowRight", "ArrowDown")
    assert focused_label(page).startswith("L1H1")
    press_keys(page, "End", "ArrowDown", "ArrowUp", "ArrowLeft", "Home")
    assert focused_label(page) == "L0H0"
    press_keys(page, "ArrowRight", "Enter")
    until(page, "document.querySelector('.matrix-title strong').textContent === 'L0H1'")
    assert page.locator(".overview [tabindex='0']").count() == 1


def focused_label(page: Page) -> str:
    return str(page.evaluate("document.activeElement.getAttribute('aria-label')"))


def test_a_finger_reads_a_cell_and_follows_its_row(chromium: Browser, heads_path: Path) -> None:
    phone = {"width": 360, "height": 740}
    with page_in_browser(chromium, heads_path, viewport=phone, has_touch=True) as page:
        wait_until_ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.locator(".overview [tabindex='0']").count() == 1
        box = not_none(page.locator(".matrix-stuck").bounding_box())
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] - 9)
        assert cell_of(cell_line(page))[0] == COUNT - 1
        until(page, "location.hash.includes('query=7')")


def test_a_dark_page_is_printed_light(chromium: Browser, heads_path: Path) -> None:
    with page_in_browser(chromium, heads_path, color_scheme="dark") as page:
        wait_until_ready(page)
        dark_picture = page.locator(".matrix-stuck canvas").first.evaluate(
            "each => each.toDataURL()"
        )
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        paper_canvas = page.locator(".matrix-stuck .for-paper").first
        assert paper_canvas.evaluate("each => each.toDataURL()") != dark_picture
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        picture_after = page.locator(".matrix-stuck canvas").first.evaluate(
            "each => each.toDataURL()"
        )
        assert picture_after == dark_picture
        assert page.locator(".for-paper").count() == 0


def test_numbers_are_written_as_everywhere_else(open_page: Page) -> None:
    random_numbers = np.random.default_rng(0).normal(size=600) * 10.0 ** np.tile(
        np.arange(-5, 1), 100
    )
    values = [
        *random_numbers,
        *np.arange(-16, 17) / 8,
        *np.arange(1, 16) / 16,
        0.994,
        0.995,
        0.004,
        0.005,
    ]
    formatters = (
        "each => [shareText(each), fixedText(each, 2), fixedText(each, 1), numberText(each)]"
    )
    script = (PAGE / "script" / "numbers.js").read_text("utf-8")
    browser_texts: list[list[str]] = open_page.evaluate(
        f"(values) => {{ {script}; return values.map({formatters}); }}",
        [float(each) for each in values],
    )
    for value, texts in zip(map(float, values), browser_texts, strict=True):
        expected = [
            share_text(value),
            fixed_text(value, 2),
            fixed_text(value, 1),
            format_map_value(value, InspectOptions()),
        ]
        assert [text.replace("−", "-") for text in texts] == expected, value
