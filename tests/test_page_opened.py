"""The page in a real browser: what is chosen, its address, what is taken away, paper, phones."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from PIL import Image

import attnviz as library
from attnviz.views.grids.explored import Explored
from attnviz.views.view import View
from tests.browser import browser, opened
from tests.test_page import contrast

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORDS = ["I", "am", "here", "=1+1", "am"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def trace() -> Any:
    return library.trace("I am here now am", tokenizer="words", layers=2, heads=2, causal=True)


@pytest.fixture(scope="module")
def path(trace: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of four heads, in which the first token is a special one."""
    return _written(replace(trace.view(), explored=lambda: _special(trace)), tmp_path_factory)


def _special(trace: Any) -> Explored:
    from attnviz.views.explored import explored_of_trace

    found = explored_of_trace(trace)
    special = (True, *([False] * (len(WORDS) - 1)))
    side = replace(found.heads[0].reads, labels=tuple(WORDS), special=special)
    return replace(found, heads=tuple(replace(each, reads=side, read=side) for each in found.heads))


def _written(view: View, folders: pytest.TempPathFactory) -> Path:
    path = folders.mktemp("page") / "x.html"
    path.write_bytes(view.render(".html"))
    return path


def _address(page: Page) -> str:
    """What stands behind the # once it is written."""
    page.wait_for_timeout(300)
    return str(page.evaluate("decodeURIComponent(location.hash)"))


def _until(page: Page, true: Callable[[], bool]) -> None:
    """Wait a moment; what playwright itself waits with needs eval, which no page allows."""
    for _ in range(100):
        if true():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it never came")


def _shown(page: Page, *names: str) -> list[str]:
    return [name for name in names if page.locator(f"#{name}").is_visible()]


VIEWS = ("sentence", "matrix", "lines", "overview")


def test_what_is_chosen_is_shown_and_stands_in_the_address(chromium: Browser, path: Path) -> None:
    with opened(chromium, path) as seen:
        page = seen.page
        assert _shown(page, *VIEWS) == ["sentence", "matrix", "overview"]
        page.select_option("#layer", label="L1")
        page.click("#next")
        _until(page, lambda: page.input_value("#head") == "1")
        page.keyboard.press("[")
        _until(page, lambda: page.input_value("#head") == "0")
        page.focus("input[value=matrix]")
        page.keyboard.press("ArrowRight")
        _until(page, lambda: page.locator("#lines").is_visible())
        assert _shown(page, *VIEWS) == ["sentence", "lines", "overview"]
        page.fill("#query", "AM")
        page.keyboard.press("Enter")
        _until(page, lambda: page.input_value("#query") == "2 am")
        assert _address(page) == "#view=lines&head=L1H0&query=2"
        page.fill("#query", "am")
        page.keyboard.press("Enter")
        page.focus("#least")
        for _ in range(11):
            page.keyboard.press("ArrowRight")
        page.click("text=Log")
        page.uncheck("#special")
        page.select_option("#theme", "dark")
        chosen = "#view=lines&head=L1H0&query=5&least=0.01&log=on&special=off&theme=dark"
        assert _address(page) == chosen
        assert page.text_content("#least-says") == ".01"
        assert page.evaluate("getComputedStyle(document.body.parentNode).backgroundColor") == (
            "rgb(21, 23, 28)"
        )
        page.fill("#query", "nowhere")
        page.keyboard.press("Enter")
        assert page.text_content("#said") == "There is no token “nowhere”."
        page.click("#reset")
        assert _address(page) == ""
        assert page.input_value("#query") == ""


def test_a_link_opens_what_was_seen_and_nonsense_in_it_is_ignored(
    chromium: Browser, path: Path
) -> None:
    link = "#view=lines&head=L1H1&query=3&key=none&least=0.1&log=on&special=off&together=L0H0"
    with opened(chromium, path, link) as seen:
        page = seen.page
        assert page.input_value("#head") == "1"
        assert page.input_value("#query") == "3 here"
        assert _shown(page, *VIEWS) == ["sentence", "lines", "overview"]
        assert not page.is_checked("#special")
        assert page.is_checked("input[name=log][value=true]")
        odd = "#view=x&head=L9H9&query=77&key=-1&least=NaN&log=1&theme=<b>&together=L5H5&a=b&%E0"
        page.evaluate("odd => { location.hash = odd }", odd)
        _until(page, lambda: page.input_value("#query") == "")
        assert page.input_value("#layer") == page.input_value("#head") == "0"
        assert page.input_value("#theme") == ""
        assert _shown(page, *VIEWS) == ["sentence", "matrix", "overview"]
        page.go_back()
        _until(page, lambda: page.input_value("#query") == "3 here")
        page.evaluate("() => { location.hash = 'main' }")  # a place of the page is none of ours
        page.wait_for_timeout(50)
        assert page.input_value("#query") == "3 here"


def _taken(page: Page, label: str) -> tuple[str, bytes]:
    """The file that a button of the menu saves."""
    page.evaluate("document.getElementById('copying').open = true")
    with page.expect_download() as waiting:
        page.get_by_label(f"save: {label}").click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_what_is_saved_is_what_is_seen(chromium: Browser, path: Path, trace: Any) -> None:
    with opened(chromium, path, "#head=L1H1&query=3") as seen:
        name, numbers = _taken(seen.page, "Numbers as CSV")
        assert name == "attention-L1H1-numbers.csv"
        rows = list(csv.DictReader(io.StringIO(numbers.decode())))
        weights = trace.layers[1].attended.weights[1]
        assert len(rows) == len(WORDS) ** 2
        for place, row in enumerate(rows):
            query, key = divmod(place, len(WORDS))
            spelled = [word if word != "=1+1" else "'=1+1" for word in (WORDS[query], WORDS[key])]
            assert [row["head"], row["query"], row["key"]] == ["L1H1", *spelled]
            assert row["visible"] == str(key <= query).lower()
            assert (row["weight"] == "") == (key > query)
            assert key > query or float(row["weight"]) == float(weights[query, key])
        _, drawing = _taken(seen.page, "Matrix as SVG")
        svg = ElementTree.fromstring(drawing)
        words = ["".join(each.itertext()).strip() for each in svg.iter(f"{SVG}text")]
        assert {"I", "=1+1", "1 I", "4 =1+1"} <= set(words)
        visible = len(WORDS) * (len(WORDS) + 1) // 2
        filled = [each for each in svg.iter(f"{SVG}rect") if each.get("fill", "").startswith("#")]
        assert len(filled) == visible + 2  # the paper, and the tile of what is hidden
        _, picture = _taken(seen.page, "Matrix as PNG")
        size = Image.open(io.BytesIO(picture)).size
        assert size == tuple(2 * int(svg.get(side, "")) for side in ("width", "height"))
        colors = Image.open(io.BytesIO(picture)).convert("RGB").getcolors(2**16)
        assert colors is not None
        assert len(colors) > visible
        _, lines = _taken(seen.page, "Lines as SVG")
        assert ElementTree.fromstring(lines).find(f".//{SVG}path") is not None
        assert seen.page.text_content("#said") == "saved as attention-L1H1-lines.svg."


def test_what_is_copied_is_in_the_clipboard(chromium: Browser, path: Path) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    with opened(chromium, path, "#head=L0H1", permissions=allowed) as seen:
        page = seen.page
        page.evaluate("document.getElementById('copying').open = true")
        for what, said in (
            ("Numbers as CSV", "Numbers of L0H1: copied as CSV."),
            ("link to what is seen", "The link is copied."),
        ):
            page.get_by_label(f"copy: {what}").click()
            _until(page, lambda said=said: page.text_content("#said") == said)  # type: ignore[misc]
            taken = page.evaluate("navigator.clipboard.readText()")
            assert taken.startswith("head,query number" if "CSV" in what else path.as_uri())
        assert taken.endswith("#head=L0H1")
        page.get_by_label("copy: Matrix as PNG").click()
        _until(page, lambda: "as PNG" in (page.text_content("#said") or ""))
        kinds = page.evaluate("navigator.clipboard.read().then(found => found[0].types)")
        assert kinds == ["image/png"]


def test_in_a_frame_of_a_notebook_it_works_without_an_address_or_a_clipboard(
    chromium: Browser, path: Path, tmp_path: Path
) -> None:
    framed = json.dumps(path.read_text("utf-8")).replace("</", "<\\/")
    outer = tmp_path / "outer.html"
    outer.write_text(
        '<!doctype html><iframe width="1200" height="700" sandbox="allow-scripts allow-downloads">'
        f"</iframe><script>document.querySelector('iframe').srcdoc = {framed};</script>"
    )
    with opened(chromium, outer) as seen:
        frame = seen.page.frame_locator("iframe")
        frame.locator("#next").click()
        seen.page.wait_for_timeout(300)
        assert frame.locator("#head").input_value() == "1"
        frame.locator("#copying summary").click()
        assert frame.get_by_label("copy: link to what is seen").count() == 0
        with seen.page.expect_download() as waiting:
            frame.get_by_label("copy: Numbers as CSV").click()
        assert waiting.value.suggested_filename == "attention-L0H1-numbers.csv"
        told = frame.locator("#said").text_content()
        assert told == "Nothing may be copied here: saved as attention-L0H1-numbers.csv."


# Everybody comes to everything: with keys, on paper, on a phone, in any colours.

FOCUS = """() => {
    const focused = document.activeElement, ring = getComputedStyle(focused);
    const around = getComputedStyle(focused.closest("label") ?? focused);
    const seen = [ring, around].some(({ outlineStyle }) => outlineStyle !== "none");
    return [focused.id || focused.value || focused.className || focused.tagName, seen];
}"""


def test_tab_comes_to_everything_in_its_order_and_one_sees_where_it_is(
    chromium: Browser, path: Path
) -> None:
    with opened(chromium, path, viewport={"width": 1280, "height": 800}) as seen:
        came: list[str] = []
        for _ in range(60):
            seen.page.keyboard.press("Tab")
            name, ringed = seen.page.evaluate(FOCUS)
            if name == "BODY" or name in came[:1]:
                break
            assert ringed, name
            came.append(name)
        assert came[:15] == [
            "skip", "theme", "SUMMARY", "SUMMARY", "reset", "layer", "head", "previous", "next",
            "matrix", "query", "least", "false", "special", came[14],
        ]  # fmt: skip
        assert "matrix-frame" in " ".join(came[14:])
        assert came.count("SUMMARY") >= 4  # of menus, of the table, of how it was made


def test_menus_close_with_escape_and_keys_are_explained(chromium: Browser, path: Path) -> None:
    with opened(chromium, path) as seen:
        page = seen.page
        page.keyboard.press("?")
        assert page.locator("#help dd").first.is_visible()
        page.click("#copying summary")
        _until(page, lambda: not page.locator("#help dd").first.is_visible())
        assert page.evaluate("document.querySelectorAll('.menu[open]').length") == 1
        page.keyboard.press("Escape")
        assert page.evaluate("document.querySelectorAll('.menu[open]').length") == 0
        assert page.evaluate("document.activeElement.parentNode.id") == "copying"


def test_the_table_says_the_numbers_of_what_is_followed(
    chromium: Browser, path: Path, trace: Any
) -> None:
    with opened(chromium, path, "#head=L1H0") as seen:
        page = seen.page
        page.click("#table summary")
        page.wait_for_selector("#table td")
        assert page.text_content("#table caption") == (
            "Weight in L1H0: rows read, columns are read"
        )
        assert page.locator("#table tbody tr").count() == len(WORDS)
        page.fill("#query", "3")
        page.keyboard.press("Enter")
        _until(page, lambda: page.locator("#table tbody td").count() == 3 * len(WORDS))
        layer = trace.layers[1]
        weights, scores = layer.attended.weights[0], layer.attended.scores[0] * layer.scale
        told = page.locator("#table tbody tr").all_inner_texts()
        for key, row in enumerate(told):
            weight = f"{weights[2, key]:.4f}"[1:] if key <= 2 else "hidden"
            score = f"{scores[2, key]:.4f}".replace("-", "−") if key <= 2 else ""
            assert row.split("\t") == [str(key + 1), WORDS[key], weight, score]


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_one_view_at_a_time_and_nothing_is_wider_than_it(
    chromium: Browser, path: Path, view: str
) -> None:
    phone = {"width": 360, "height": 740}
    with opened(chromium, path, f"#view={view}&query=2", viewport=phone) as seen:
        page = seen.page
        page.wait_for_timeout(100)
        assert _shown(page, *VIEWS) == [view]
        assert not page.is_visible("#query")
        page.click("#more")
        page.click("#copying summary")
        assert page.is_visible("#query")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        boxes = page.locator("#utilities *:visible, #controls *:visible").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect()).map(({left, right}) => "
            "[left, right])"
        )
        assert [box for box in boxes if box[0] < 0 or box[1] > 361] == []


def test_on_paper_stand_all_views_one_after_another_and_it_is_light(
    chromium: Browser, path: Path
) -> None:
    with opened(chromium, path, "#theme=dark&query=2", color_scheme="dark") as seen:
        page = seen.page
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert _shown(page, *VIEWS, "controls", "utilities") == list(VIEWS)
        tops = [page.locator(f"#{name}").bounding_box() for name in VIEWS]
        assert all(box is not None and box["height"] > 20 for box in tops)
        page_color = "getComputedStyle(document.documentElement).backgroundColor"
        assert page.evaluate(page_color) == "rgb(255, 255, 255)"
        assert page.locator("#matrix svg.on-paper text").count() > 10
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert page.evaluate(page_color) == "rgb(21, 23, 28)"
        assert page.locator("#matrix svg.on-paper").count() == 0
        assert page.pdf(format="A4")[:5] == b"%PDF-"


# Every word that is seen, with its colour, and the first colour behind it.
COLORS = """() => {
    const own = (node) => getComputedStyle(node).backgroundColor;
    const behind = (node) => !node ? "rgb(255, 255, 255)"
        : own(node) !== "rgba(0, 0, 0, 0)" ? own(node) : behind(node.parentElement);
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text = words.nextNode(); text; text = words.nextNode()) {
        const node = text.parentElement;
        if (!text.data.trim() || !node.checkVisibility() || node.closest("svg, .unseen")) continue;
        found.push([text.data.trim(), getComputedStyle(node).color, behind(node)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_that_is_seen_can_be_read(chromium: Browser, path: Path, scheme: str) -> None:
    with opened(chromium, path, "#query=5&view=lines", color_scheme=scheme) as seen:
        seen.page.wait_for_timeout(100)
        seen.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
        words = seen.page.evaluate(COLORS)

        assert len(words) > 80
        assert [each for each in words if contrast(*map(_hex, each[1:])) < 4.5] == []


def _hex(color: str) -> str:
    red, green, blue, *_ = map(int, re.findall(r"\d+", color))
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_without_scripts_words_and_tables_are_there_and_it_says_what_is_missing(
    chromium: Browser, path: Path
) -> None:
    with opened(chromium, path, java_script_enabled=False) as seen:
        assert seen.page.locator("noscript p").is_visible()
        assert seen.page.locator("#panels table").first.is_visible()
        assert not seen.page.locator("#controls").is_visible()


def test_a_page_offers_nothing_that_does_nothing(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    view = library.trace("I am here", tokenizer="words").view()
    alone = _written(view, tmp_path_factory)
    with opened(chromium, alone, viewport={"width": 1280, "height": 800}) as seen:
        chosen = ("choose-head", "choose-view", "choose-special", "choose-scale", "choose-query")
        assert _shown(seen.page, *chosen) == ["choose-scale", "choose-query"]
        assert _shown(seen.page, *VIEWS) == ["sentence", "matrix", "lines"]
    wordy = _written(replace(view, explored=None), tmp_path_factory)
    with opened(chromium, wordy) as seen:
        assert _shown(seen.page, "explorer", "copying", "help", "reset", "theme") == ["theme"]
        seen.page.select_option("#theme", "dark")
        seen.page.wait_for_timeout(50)
        color = seen.page.evaluate("getComputedStyle(document.documentElement).color")
        assert color == "rgb(236, 239, 244)"
