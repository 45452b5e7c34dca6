"""Pages of hostile words in a real browser: nothing runs, nothing is asked for, all is text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import attnviz as library
from attnviz.renderers import render
from attnviz.renderers.data import SPREADSHEET_FORMULA
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.view import View
from attnviz.wording.printable import printable_text
from tests import not_none
from tests.browser import page_in_browser
from tests.conftest import ROOT, Attnviz
from tests.test_gate import CODE_POINTS, fill_with_hostile_text, views

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# If a page read them as markup or script, they would call hit() or ask for 127.0.0.1:1.
ATTACKS = (
    "</script><script>hit()</script>",
    "<!--<script>",
    "-->",
    "]]>",
    "<img/src=x/onerror=hit()>",
    "<svg/onload=hit()>",
    '"/onmouseover="hit()',
    "'/autofocus/onfocus='hit()",
    "javascript:hit()",
    "</title></style></textarea></select><script>hit()</script>",
    "<iframe/srcdoc=<script>parent.hit()</script>>",
    "<base/href=//127.0.0.1:1/>",
    "<meta/http-equiv=refresh/content=0;url=//127.0.0.1:1/>",
    "<link/rel=stylesheet/href=//127.0.0.1:1/>",
    "<template><b>",
    "{{constructor.constructor('hit()')()}}",
    "${hit()}",
    "`+hit()+`",
    "$title",
    "$blocks",
    "&lt;b&gt;",
    "&#60;b&#62;",
    "\\u003cb\\u003e",
    "__proto__",
    "constructor",
    "toString",
    "\u202eevil",
    "a\u2028b",
    "\u0645\u0631\u062d\u0628\u0627",
    "e\u0301",
    "😀",
    "%2e%2e/",
    "=1+1",
)
EVERY_CODE = "".join(map(chr, CODE_POINTS))
TITLE = f"{' '.join(ATTACKS)} \x00 \ud800 \udce9 {EVERY_CODE}"
VIEWS = ("matrix", "lines", "overview", "sentence")
MARKUP = "img, iframe, object, embed, base, link, form, template, audio, video, meta[http-equiv]"
ADDRESSES = (
    "view=<img src=x onerror=hit()>&head=</script><script>hit()</script>",
    "view=constructor&head=__proto__&query=-1&key=9999999999999999999&least=NaN&log=1e999",
    "view=lines&head=-1&query=NaN&least=-5&together=__proto__&together=99&special=toString",
    "__proto__[polluted]=1&constructor[prototype][polluted]=1&%E0%A4%A=%&theme=javascript:hit()",
    "#" * 2000 + "&view=matrix" * 200,
)
SCRIPTS = sorted((ROOT / "attnviz" / "renderers" / "page" / "script").glob("*.js"))
# JavaScript that reads text as markup or script, or that makes a request.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|createContextualFragment|DOMParser|srcdoc|"
    r"document\.write|\beval\b|new Function|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|"
    r"EventSource|importScripts|\bimport\b[ (]|javascript:|set(Timeout|Interval)\(\s*[\"'`]|"
    r"https?://(?!www\.w3\.org/)"
)
WAIT_TWO_FRAMES = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"


@cache
def hostile_view() -> View:
    """A run whose tokens, heads, title and command are all hostile."""
    heads = library.trace(" ".join(ATTACKS), tokenizer="spaces", layers=2, heads=2)
    view = heads.view(query="5")
    return replace(
        view,
        headline=TITLE,
        title=TITLE,
        has_chosen_title=True,
        closing=(TITLE, *ATTACKS),
        provenance=replace(not_none(view.provenance), command=TITLE),
        head_explorer=lambda: _with_hostile_names(view),
    )


def _with_hostile_names(view: View) -> HeadExplorer:
    """Heads that are named like attacks, as those of given weights may be."""
    explorer = not_none(view.heads)
    heads_with_names = zip(explorer.heads, ATTACKS, strict=False)
    return replace(
        explorer, heads=tuple(replace(head, name=name) for head, name in heads_with_names)
    )


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "x.html"
    path.write_bytes(render(hostile_view(), ".html"))
    return path


def visit_all_views(page: Page) -> None:
    """Open every view and move the pointer over it; what runs or fails shows on the console."""
    for view in VIEWS:
        page.evaluate("(view) => { location.hash = `view=${view}`; }", view)
        page.evaluate(WAIT_TWO_FRAMES)
        page.mouse.move(400, 400)
        page.mouse.move(420, 420)
        page.evaluate(WAIT_TWO_FRAMES)
    for head in page.locator(".overview [role=gridcell]:visible").all()[:1]:
        head.hover()
    for box in page.locator("#query:visible").all():
        box.fill(ATTACKS[0] + "?")
        box.press("Enter")
    page.evaluate(WAIT_TWO_FRAMES)
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => each.open = true)")
    page.evaluate(WAIT_TWO_FRAMES)


def assert_all_is_text(page: Page) -> None:
    policies = page.locator("meta[http-equiv='Content-Security-Policy']").count()
    assert (policies, page.locator(MARKUP).count()) == (1, 1)
    assert page.locator("script:not([type])").count() == 2
    attributes = page.evaluate(
        "() => [...document.querySelectorAll('*')].flatMap((each) => each.getAttributeNames())"
    )
    assert [name for name in attributes if name.startswith("on") or name == "srcdoc"] == []


def test_hostile_tokens_titles_and_commands_are_shown_as_text(
    chromium: Browser, hostile_path: Path
) -> None:
    view = hostile_view()
    with page_in_browser(chromium, hostile_path) as page:
        visit_all_views(page)

        assert_all_is_text(page)
        assert page.locator("h1").text_content() == view.headline
        assert page.title() == " ".join(view.headline.split())
        closing = page.locator("#closing p").all_text_contents()
        assert closing == [printable_text(each) for each in ATTACKS]
        labels = list(not_none(view.heads).heads[0].key_axis.labels)
        page.locator("#table tbody th").first.wait_for(state="attached")
        assert page.locator("#table tbody th").all_text_contents() == labels
        assert labels[0] == ATTACKS[0]


def test_every_field_of_every_kind_of_view_can_be_hostile(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "x.html"
    all_views = views()
    for view in (
        *all_views[1:3],
        *all_views[5:7],
        all_views[8],
    ):  # others have no panels but those of these
        path.write_bytes(render(fill_with_hostile_text(view), ".html"))
        with page_in_browser(chromium, path) as page:
            visit_all_views(page)
            assert_all_is_text(page)
            assert "<&>" in (page.locator("h1").text_content() or "")


def test_names_of_files_and_what_is_typed_are_shown_as_text(
    chromium: Browser, attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "<img src=x onerror=hit()>'\"&amp;"
    Path(f"{name}.txt").write_text("</script> <script>hit()</script> a <!--")

    result = attnviz(
        "run", "--file", f"{name}.txt", "-t", "words", "--title", "</title><script>hit()</script>",
        "--query", "a", "-o", f"{name}.html",
    )  # fmt: skip

    assert (result.status, result.err) == (0, f"wrote {name}.html\n")
    with page_in_browser(chromium, tmp_path / f"{name}.html") as page:
        visit_all_views(page)
        assert_all_is_text(page)
        assert page.title() == "</title><script>hit()</script>"
        assert "<img src=x onerror=hit()>" in (page.locator("footer").text_content() or "")


def test_what_an_address_says_is_never_more_than_a_choice(
    chromium: Browser, hostile_path: Path
) -> None:
    with page_in_browser(chromium, hostile_path) as page:
        for address in ADDRESSES:
            page.evaluate("(address) => { location.hash = address; }", address)
            page.evaluate(WAIT_TWO_FRAMES)
            assert page.evaluate("() => ({}).polluted") is None
        assert_all_is_text(page)
    for address in ADDRESSES[:2]:
        with page_in_browser(chromium, hostile_path, f"#{address}") as page:
            page.evaluate(WAIT_TWO_FRAMES)
            assert page.locator("#matrix").is_visible()


INJECT_MARKUP = """() => {
  window.hits = [];
  window.refused = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    refused.push(event.effectiveDirective));
  const added = (tag, attributes, text) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text ?? "";
    document.body.append(made);
    return made;
  };
  added("script", {}, "hits.push('inline')");
  added("script", { src: "http://127.0.0.1:1/x.js" });
  added("button", { onclick: "hits.push('handler')" }).click();
  added("a", { href: "javascript:hits.push('address')" }).click();
  added("style", {}, "body { display: none }");
  added("img", { src: "http://127.0.0.1:1/x.png" });
  added("iframe", { src: "http://127.0.0.1:1/" });
  added("object", { data: "http://127.0.0.1:1/x.swf" });
  added("form", { action: "http://127.0.0.1:1/" }).submit();
  return new Promise((done) => setTimeout(async () => {
    const ways = [() => (0, eval)("hits.push('eval')"), () => new Function("hits.push('new')")()];
    for (const run of ways) {
      try { run(); } catch (error) { if (error.name !== "EvalError") hits.push(error.name); }
    }
    await fetch("http://127.0.0.1:1/").then(() => hits.push("fetch"), () => null);
    const seen = getComputedStyle(document.body).display !== "none";
    const latest = performance.now() + 20000;  // of a busy machine; what is missing then is missing
    const ended = () => new Set(refused).size < 9 && performance.now() < latest
      ? setTimeout(ended, 50) : done({ hits, refused: [...new Set(refused)].sort(), seen });
    setTimeout(ended, 100);
  }));
}"""


def test_what_is_injected_is_refused_by_the_policy_of_the_page(
    chromium: Browser, hostile_path: Path
) -> None:
    """As if something in it were read as markup after all."""
    page = chromium.new_page()
    requests: list[str] = []
    failed_requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("requestfailed", lambda request: failed_requests.append(request.url))
    page.goto(hostile_path.as_uri())

    result = page.evaluate(INJECT_MARKUP)
    page.close()

    assert (result["hits"], result["seen"]) == ([], True)
    assert result["refused"] == [
        "connect-src", "form-action", "frame-src", "img-src", "object-src", "script-src",
        "script-src-attr", "script-src-elem", "style-src-elem",
    ]  # fmt: skip
    assert requests[1:] == failed_requests  # before they left the browser


def test_the_policy_stands_before_all_that_strangers_wrote(hostile_path: Path) -> None:
    content = hostile_path.read_text(encoding="utf-8")
    policy = content.index("Content-Security-Policy")

    assert policy < content.index("hit()")
    assert "unsafe" not in content[policy : content.index(">", policy)]
    assert content.count("<script") == content.count("</script>")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_reads_text_as_anything_else(script: Path) -> None:
    assert FORBIDDEN.findall(script.read_text(encoding="utf-8")) == []


def test_what_is_saved_from_a_page_is_text_too(chromium: Browser, hostile_path: Path) -> None:
    with page_in_browser(chromium, hostile_path) as page:
        visit_all_views(page)
        for kind in ("Matrix as SVG", "Lines as SVG"):
            drawing = list(ElementTree.fromstring(save_file(page, kind)).iter())
            assert not {"script", "image", "foreignObject"} & {*map(_name, drawing)}
            assert [
                each for element in drawing for each in element.attrib if each[:2] == "on"
            ] == []
            assert "<img/src=x/onerror=hit()>" in "".join(each.text or "" for each in drawing)
        rows = list(csv.reader(io.StringIO(save_file(page, "Numbers as CSV"))))
        assert len({len(row) for row in rows}) == 1
        assert [cell for row in rows for cell in row if SPREADSHEET_FORMULA.match(cell)] == []
        assert any("=1+1" in cell for row in rows for cell in row)


def save_file(page: Page, kind: str) -> str:
    with page.expect_download() as download:
        page.locator(f"button[aria-label='save: {kind}']").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
