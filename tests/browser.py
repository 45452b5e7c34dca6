"""A real browser for tests of pages: Debian's chromium, driven by playwright."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CONTROLS = "<input value=text><select><option>text</select>"  # as every page has; they need fonts
# The script of a page is unpacked after it has loaded, where the browser can.
IS_STARTED = "!window.DecompressionStream || !document.querySelector('script#program[type]')"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def without_script(page: bytes) -> bytes:
    """A page whose script never runs, so that a test reads what the page has in its own way."""
    pattern = rb"<script( [^>]*id=\"program\")?>.*?</script>"
    return re.sub(pattern, b"", page, flags=re.DOTALL)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window; where there is none, tests are skipped and say why."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"there is no browser here: none of {', '.join(NAMES)}")
    with api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            started.new_page().goto(f"data:text/html,{CONTROLS}")
        except api.Error as error:
            problem = str(error).splitlines()[0]
            pytest.skip(f"{path} opens no page, as on a machine without fonts: {problem}")
        yield started
        started.close()


@contextmanager
def page_in_browser(
    started: Browser, path: Path, address: str = "", **context: object
) -> Iterator[Page]:
    """A page from a file, which may write nothing to the console and request nothing but itself."""
    browser_context = started.new_context(**context)  # type: ignore[arg-type]
    page, messages = browser_context.new_page(), list[str]()
    requests: list[tuple[str, bool]] = []  # addresses, each with whether a page was opened
    page.set_default_timeout(10_000)  # milliseconds
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda each: requests.append((each.url, each.is_navigation_request())))
    page.goto(f"{path.as_uri()}{address}")
    if context.get("java_script_enabled", True):
        page.wait_for_function(IS_STARTED)
    yield page
    browser_context.close()
    assert messages == [], messages
    others = [each for each in requests if each != (path.as_uri(), True)]
    assert [each for each in others if not each[0].startswith(("data:", "blob:"))] == []
