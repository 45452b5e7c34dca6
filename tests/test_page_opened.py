"""The page in a real browser: what is chosen, its address, and what is taken away."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from PIL import Image

from tests.browser import page_in_browser
from tests.pages_by_hand import (
    VIEWS,
    WORDS,
    visible_ids,
    wait_for_frames,
    wait_until,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIRST_QUERY = "3 here"  # the token with the strongest link: as the page opens
SVG = "{http://www.w3.org/2000/svg}"


def _address(page: Page) -> str:
    """What stands behind the # once it is written."""
    wait_for_frames(page, 300)
    return str(page.evaluate("decodeURIComponent(location.hash)"))


def test_what_is_chosen_is_shown_and_stands_in_the_address(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(chromium, page_path) as page:
        assert visible_ids(page, *VIEWS) == ["sentence", "matrix", "overview"]
        assert page.input_value("#query") == FIRST_QUERY
        page.select_option("#layer", label="L1")
        page.click("#next")
        wait_until(page, lambda: page.input_value("#head") == "1")
        page.keyboard.press("[")
        wait_until(page, lambda: page.input_value("#head") == "0")
        page.focus("input[value=matrix]")
        page.keyboard.press("ArrowRight")
        wait_until(page, lambda: page.locator("#lines").is_visible())
        assert visible_ids(page, *VIEWS) == ["sentence", "lines", "overview"]
        page.fill("#query", "AM")
        page.keyboard.press("Enter")
        wait_until(page, lambda: page.input_value("#query") == "5 am")
        assert _address(page) == "#view=lines&head=L1H0&query=5"
        page.fill("#query", "am")
        page.keyboard.press("Enter")
        page.focus("#least")
        for _ in range(12):
            page.keyboard.press("ArrowRight")
        page.click("text=Log")
        page.uncheck("#special")
        page.select_option("#theme", "dark")
        expected_address = "#view=lines&head=L1H0&query=2&least=0.013&log=on&special=off&theme=dark"
        assert _address(page) == expected_address
        assert page.text_content("#least-says") == ".013", "not rounded to .01"
        assert page.evaluate("getComputedStyle(document.body.parentNode).backgroundColor") == (
            "rgb(21, 23, 28)"
        )
        page.fill("#query", "nowhere")
        page.keyboard.press("Enter")
        assert page.text_content("#said") == "There is no token “nowhere”."
        page.click("#reset")
        assert _address(page) == ""
        assert page.input_value("#query") == FIRST_QUERY


def test_an_address_that_is_typed_holds_although_the_page_writes_its_own_at_that_moment(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(chromium, page_path, "#query=2") as page:
        page.evaluate("location.hash = '#query=5'; history.replaceState(null, '', '#query=2')")
        wait_until(page, lambda: page.input_value("#query") == "5 am")
        assert _address(page) == "#query=5"


def test_keys_of_one_letter_can_be_switched_off(chromium: Browser, page_path: Path) -> None:
    with page_in_browser(chromium, page_path, "#keys=off&head=L0H1") as page:
        page.keyboard.press("]")
        page.click("#help summary")
        assert page.input_value("#head") == "1"
        page.check("#keys")
        page.keyboard.press("]")
        wait_until(page, lambda: page.input_value("#layer") == "1")


def test_a_link_opens_what_was_seen_and_nonsense_in_it_is_ignored(
    chromium: Browser, page_path: Path
) -> None:
    link = "#view=lines&head=L1H1&query=3&key=none&least=0.1&log=on&special=off&together=L0H0"
    with page_in_browser(chromium, page_path, link) as page:
        assert page.input_value("#head") == "1"
        assert page.input_value("#query") == "3 here"
        assert visible_ids(page, *VIEWS) == ["sentence", "lines", "overview"]
        assert not page.is_checked("#special")
        assert page.is_checked("input[name=log][value=true]")
        odd_hash = (
            "#view=x&head=L9H9&query=77&key=-1&least=1e999&log=1&theme=<b>&together=L5H5&a=b&%E0"
        )
        page.evaluate("odd => { location.hash = odd }", odd_hash)
        wait_until(page, lambda: page.input_value("#layer") == page.input_value("#head") == "0")
        assert page.input_value("#query") == FIRST_QUERY
        assert page.input_value("#theme") == ""
        assert page.text_content("#least-says") == "0"
        assert visible_ids(page, *VIEWS) == ["sentence", "matrix", "overview"]
        page.go_back()
        wait_until(page, lambda: page.input_value("#layer") == page.input_value("#head") == "1")
        assert page.input_value("#query") == "3 here"
        page.evaluate("() => { location.hash = 'main' }")  # a place of the page is none of ours
        wait_for_frames(page)
        assert page.input_value("#query") == "3 here"


FIND_CONTROLS = """() =>
  [...document.querySelectorAll("input, select, html, #explorer, #least-says")]
  .map(each => [each.id || each.name, each.value, each.checked, each.className,
                each.dataset.view, each.textContent && each.id === "least-says"])"""


def test_what_every_object_has_is_no_value_of_anything_in_an_address(
    chromium: Browser, page_path: Path
) -> None:
    """`theme=constructor` is nonsense like any other, for all that can stand in an address."""
    keys = ["view", "head", "query", "key", "least", "log", "special", "keys", "theme", "together"]
    with page_in_browser(chromium, page_path) as page:
        wait_for_frames(page)
        first_state = page.evaluate(FIND_CONTROLS)
        for name in page.evaluate("() => Object.getOwnPropertyNames(Object.prototype)"):
            odd_hash = "&".join(f"{key}={name}" for key in keys)
            page.evaluate("odd => { location.hash = odd }", odd_hash)
            wait_for_frames(page, 0)
            assert page.evaluate(FIND_CONTROLS) == first_state, name
        assert _address(page) == f"#{odd_hash}"  # which is written anew where anything has changed


def test_keys_that_every_object_has_press_nothing(chromium: Browser, page_path: Path) -> None:
    press_key_everywhere = """name => document.querySelectorAll("body *").forEach(
      each => each.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true })))"""
    with page_in_browser(chromium, page_path) as page:
        for name in ("constructor", "toString", "__proto__"):
            page.evaluate(press_key_everywhere, name)
        assert _address(page) == ""


def _save_file(page: Page, label: str) -> tuple[str, bytes]:
    """The file that a button of the menu saves."""
    page.evaluate("document.getElementById('copying').open = true")
    with page.expect_download() as download:
        page.get_by_label(f"save: {label}").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_what_is_saved_is_what_is_seen(chromium: Browser, page_path: Path, four_heads: Any) -> None:
    with page_in_browser(chromium, page_path, "#head=L1H1&query=3") as page:
        name, numbers = _save_file(page, "Numbers as CSV")
        assert name == "attention-L1H1-numbers.csv"
        rows = list(csv.DictReader(io.StringIO(numbers.decode())))
        weights = four_heads.layers[1].attended.weights[1]
        assert len(rows) == len(WORDS) ** 2
        for place, row in enumerate(rows):
            query, key = divmod(place, len(WORDS))
            spelled_words = [
                word if word != "=1+1" else "'=1+1" for word in (WORDS[query], WORDS[key])
            ]
            assert [row["name"], row["query"], row["key"]] == ["L1H1", *spelled_words]
            assert row["visible"] == str(key <= query).lower()
            assert (row["weight"] == "") == (key > query)
            assert key > query or float(row["weight"]) == float(weights[query, key])
        _, drawing = _save_file(page, "Matrix as SVG")
        svg = ElementTree.fromstring(drawing)
        words = ["".join(each.itertext()).strip() for each in svg.iter(f"{SVG}text")]
        assert {"I", "=1+1", "1 I", "4 =1+1"} <= set(words)
        visible = len(WORDS) * (len(WORDS) + 1) // 2
        filled_rects = [
            each for each in svg.iter(f"{SVG}rect") if each.get("fill", "").startswith("#")
        ]
        assert len(filled_rects) == visible + 2  # the paper, and the tile of what is hidden
        _, picture = _save_file(page, "Matrix as PNG")
        size = Image.open(io.BytesIO(picture)).size
        assert size == tuple(2 * int(svg.get(side, "")) for side in ("width", "height"))
        colors = Image.open(io.BytesIO(picture)).convert("RGB").getcolors(2**16)
        assert colors is not None
        assert len(colors) > visible
        _, lines = _save_file(page, "Lines as SVG")
        assert ElementTree.fromstring(lines).find(f".//{SVG}path") is not None
        assert page.text_content("#said") == "saved as attention-L1H1-lines.svg."


def test_what_is_copied_is_in_the_clipboard(chromium: Browser, page_path: Path) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with page_in_browser(chromium, page_path, "#head=L0H1", permissions=permissions) as page:
        page.evaluate("document.getElementById('copying').open = true")
        for label, message in (
            ("Numbers as CSV", "Numbers of L0H1: copied as CSV."),
            ("link to this view", "The link is copied."),
        ):
            page.get_by_label(f"copy: {label}").click()
            wait_until(page, lambda message=message: page.text_content("#said") == message)  # type: ignore[misc]
            clipboard = page.evaluate("navigator.clipboard.readText()")
            assert clipboard.startswith(
                "layer,head,name,query number" if "CSV" in label else page_path.as_uri()
            )
        assert clipboard.endswith("#head=L0H1")
        page.get_by_label("copy: Matrix as PNG").click()
        wait_until(page, lambda: "as PNG" in (page.text_content("#said") or ""))
        kinds = page.evaluate("navigator.clipboard.read().then(found => found[0].types)")
        assert kinds == ["image/png"]


def test_in_a_frame_of_a_notebook_it_works_without_an_address_or_a_clipboard(
    chromium: Browser, page_path: Path, tmp_path: Path
) -> None:
    page_as_json = json.dumps(page_path.read_text("utf-8")).replace("</", "<\\/")
    outer_page = tmp_path / "outer.html"
    outer_page.write_text(
        '<!doctype html><iframe width="1200" height="700" sandbox="allow-scripts allow-downloads">'
        f"</iframe><script>document.querySelector('iframe').srcdoc = {page_as_json};</script>"
    )
    with page_in_browser(chromium, outer_page) as page:
        frame = page.frame_locator("iframe")
        frame.locator("#next").click()
        wait_for_frames(page, 300)
        assert frame.locator("#head").input_value() == "1"
        frame.locator("#copying summary").click()
        assert frame.get_by_label("copy: link to this view").count() == 0
        with page.expect_download() as download:
            frame.get_by_label("copy: Numbers as CSV").click()
        assert download.value.suggested_filename == "attention-L0H1-numbers.csv"
        message = frame.locator("#said").text_content()
        assert message == "Copying is not allowed here: saved as attention-L0H1-numbers.csv."
