"""Lines between words, and the sentence in colours, in a real browser: every number, every line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import attnviz as library
from attnviz.cells import FULL_SLICE, StoredCells
from attnviz.renderers.colors import THEMES
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.trace_data import explore_trace
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_for_frames, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

WORDS = ["[CLS]", "animals", "עולם", "<b>here</b>", "你好", "animals"]
SPECIAL = (True, *([False] * (len(WORDS) - 1)))
FloatArray = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def trace() -> Any:
    return library.trace(" ".join(WORDS), tokenizer="spaces", heads=4, dim=16, causal=True)


@pytest.fixture(scope="module")
def page(chromium: Browser, trace: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Four heads, of a sentence whose first token is a special one."""
    path = tmp_path_factory.mktemp("page") / "x.html"
    path.write_bytes(
        replace(trace.view(), head_explorer=lambda: _mark_first_special(trace)).render(".html")
    )
    with page_in_browser(chromium, path, "#view=lines") as page:
        yield page


def _mark_first_special(trace: Any) -> HeadExplorer:
    explorer = explore_trace(trace)
    side = replace(explorer.heads[0].query_axis, special=SPECIAL)
    return replace(
        explorer,
        heads=tuple(replace(each, query_axis=side, key_axis=side) for each in explorer.heads),
    )


def _weights(trace: Any) -> list[FloatArray]:
    """The weights of each head; NaN where a token does not see another."""
    patches = (head.weights.window(FULL_SLICE, FULL_SLICE) for head in explore_trace(trace).heads)
    return [np.where(each.hidden, np.nan, each.values) for each in patches]


def _go_to(page: Page, address: str = "") -> None:
    """Open another state by its address, with nothing under the pointer."""
    page.mouse.move(1, 1)
    query = "" if "query=" in address else "&query=none"
    # The event comes after this script; a listener that is added now runs after the page's own.
    page.evaluate(
        """address => new Promise(done => {
            const before = location.href;
            location.hash = address;
            if (location.href === before) done();
            else addEventListener("hashchange", done, { once: true });
        })""",
        f"view=lines{query}{address}",
    )
    wait_for_frames(page)


def _address(page: Page) -> str:
    wait_for_frames(page, 260)
    return str(page.evaluate("decodeURIComponent(location.hash)")).replace("+", " ")


def _drawn_lines(page: Page) -> list[dict[str, str]]:
    """The lines that are drawn, as they are printed."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    lines = page.eval_on_selector_all(
        ".lines-printed path",
        """paths => paths.map((path) => Object.fromEntries(
             [...path.attributes].map(({ name, value }) => [name, value])))""",
    )
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    return list(lines)


def _sentence_text(page: Page) -> str:
    """The line below the sentence, without the signs that isolate directions of writing."""
    return "".join(
        c for c in page.locator("#sentence .says").inner_text() if c not in "\u2068\u2069"
    )


def _words(page: Page, end: str) -> Locator:
    return page.locator(f".lines-column.{end} .line-word")


def _amounts(page: Page, end: str) -> list[str]:
    return _words(page, end).locator(".amounts span:first-child").all_inner_texts()


def _shows_number(text: str, weight: float) -> bool:
    """Whether a text gives a weight in two digits."""
    if np.isnan(weight):
        return text == "·"
    number = float(text.replace("−", "-"))
    return abs(number - weight) <= (0.00501 if abs(weight) >= 0.005 else 0.06 * abs(weight))


def test_each_word_has_the_numbers_of_the_trace_beside_it(page: Page, trace: Any) -> None:
    _go_to(page)
    weights = _weights(trace)[0]
    for place, row in enumerate(weights):
        _words(page, "query").nth(place).hover()
        wait_for_frames(page)
        texts = _amounts(page, "key")
        assert all(map(_shows_number, texts, row)), (texts, row)
        assert len(_drawn_lines(page)) == np.isfinite(row).sum(), "its lines alone are drawn"
    for place, column in enumerate(weights.T):
        _words(page, "key").nth(place).hover()
        wait_for_frames(page)
        assert all(map(_shows_number, _amounts(page, "query"), column))
        assert len(_drawn_lines(page)) == np.isfinite(column).sum()
    _go_to(page)
    assert set(_amounts(page, "query") + _amounts(page, "key")) == {""}
    assert _words(page, "query").locator("bdi").all_inner_texts() == list(trace.tokens.labels)


def test_lines_are_drawn_from_the_least_weight_on(page: Page, trace: Any) -> None:
    weights = _weights(trace)[0]
    visible_count = np.isfinite(weights).sum()
    _go_to(page)
    assert len(_drawn_lines(page)) == visible_count
    assert page.locator(".lines-says").inner_text() == f"All {visible_count} weights have lines."
    for least in (0.1, 0.3):
        _go_to(page, f"&least={least}")
        strong_count = int((weights >= least).sum())
        lines = _drawn_lines(page)
        assert len(lines) == strong_count
        assert f"{strong_count} of {visible_count} weights have lines: those of" in page.inner_text(
            ".lines-says"
        )
        widths = [float(each["stroke-width"]) for each in lines]
        assert widths == sorted(widths), "the widest are on top"
        assert widths[-1] / widths[0] == pytest.approx(
            weights[weights >= least].max() / weights[weights >= least].min(), rel=0.02
        )


def test_special_tokens_can_be_left_out(page: Page, trace: Any) -> None:
    _go_to(page, "&special=off&query=3")
    row = _weights(trace)[0][2, 1:]
    assert _words(page, "key").locator("bdi").all_inner_texts() == list(trace.tokens.labels[1:])
    assert all(map(_shows_number, _amounts(page, "key"), row))
    assert len(_drawn_lines(page)) == np.isfinite(row).sum()
    assert page.locator("#sentence .token").count() == len(trace.tokens) - 1
    assert _sentence_text(page).endswith("(special tokens are left out)")


def test_heads_are_drawn_together_each_in_its_colour(page: Page, trace: Any) -> None:
    _go_to(page)
    legend = page.locator(".lines-legend")
    legend.get_by_text("all", exact=True).click()
    wait_for_frames(page)
    visible_count = int(sum(np.isfinite(each).sum() for each in _weights(trace)))
    lines = _drawn_lines(page)
    assert len(lines) == visible_count
    assert {each["stroke"] for each in lines} == set(THEMES["light"].heads[:4])
    names = [each.name for each in explore_trace(trace).heads]
    legend.get_by_text(names[1], exact=True).click()
    wait_for_frames(page)
    colors = {each["stroke"] for each in _drawn_lines(page)}
    assert colors == set(THEMES["light"].heads[:3]), "the last one takes the colour that is free"
    assert [f"together={name}" in _address(page) for name in names] == [False, False, True, True]
    _words(page, "query").nth(4).hover()
    wait_for_frames(page)
    assert all(map(_shows_number, _amounts(page, "key"), _weights(trace)[0][4]))
    assert f"numbers those of {names[0]}" in page.inner_text(".lines-law")
    legend.get_by_text("one alone").click()
    wait_for_frames(page)
    assert {each["stroke"] for each in _drawn_lines(page)} == {THEMES["light"].heads[0]}


def test_lines_are_followed_by_keys_alone(page: Page) -> None:
    _go_to(page)
    assert _words(page, "query").and_(page.locator("[tabindex='0']")).count() == 1
    _words(page, "query").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert "query=3" in _address(page)
    assert _words(page, "query").nth(2).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.keyboard.press(" ")
    assert f"key={len(WORDS)}" in _address(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert _address(page) == "#view=lines&query=none"
    assert _words(page, "query").first.bounding_box() is not None


def test_the_sentence_has_the_numbers_of_the_trace_below_its_words(page: Page, trace: Any) -> None:
    _go_to(page)
    weights, tokens = _weights(trace)[0], page.locator("#sentence .token")
    assert _sentence_text(page) == "Click a word to see what it attends to."
    tokens.nth(4).hover()
    wait_for_frames(page)
    texts = tokens.locator(".number").all_inner_texts()
    assert all(map(_shows_number, texts, weights[4]))
    hidden = tokens.evaluate_all("all => all.map((one) => one.classList.contains('hides'))")
    assert hidden == np.isnan(weights[4]).tolist()
    most = int(np.nanargmax(weights[4]))
    name = "itself" if most == 4 else f'"{trace.tokens.labels[most]}"'
    assert f'"{trace.tokens.labels[4]}" reads {name} ' in _sentence_text(page)
    tokens.nth(4).click()
    page.get_by_text("is read by", exact=True).click()
    assert "key=5" in _address(page), "the token that is followed stays the same"
    texts = tokens.locator(".number").all_inner_texts()
    assert all(map(_shows_number, texts, weights[:, 4]))


def test_inks_can_be_read_on_all_colours(page: Page) -> None:
    for theme in ("light", "dark"):
        _go_to(page, f"&theme={theme}&query=6")
        color_pairs = page.locator("#sentence .token").evaluate_all(
            """all => all.map((one) => [one.style.background, one.style.color])
                .filter(([paper]) => paper).map((pair) => pair.map((color) =>
                  color.match(/[0-9]+/g).map(Number)))"""
        )
        assert color_pairs
        assert min(_color_contrast(*pair) for pair in color_pairs) >= 4.2


def test_arrows_move_in_a_sentence_as_it_is_seen(page: Page, trace: Any) -> None:
    _go_to(page)
    tokens = page.locator("#sentence .token")
    assert tokens.and_(page.locator("[tabindex='0']")).count() == 1
    tokens.first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert "query" not in _address(page), "it is the one that is followed when the page opens"
    page.keyboard.press("End")
    assert tokens.last.evaluate("one => one === document.activeElement")
    page.keyboard.press("Escape")
    assert "query=none" in _address(page)
    page.evaluate("document.querySelector('#sentence .text').dir = 'rtl'")
    page.keyboard.press("ArrowRight")
    assert tokens.nth(len(trace.tokens) - 2).evaluate("one => one === document.activeElement")


NAN = float("nan")
BY_HAND: dict[str, list[list[float]]] = {
    "tied": [[0.4, 0.4, 0.2, 0], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4],
    "zero": [[0, 0, 0, 0], [0.004, 0.996, 0, 0], [0.3, 0.3, 0.3, 0.1], [0.301, 0.299, 0.4, 0]],
    "signed": [[0.4, -0.4, 0.2, 0], [0.1, 0, -0.1, 0], [0, 0, 0, 0], [0.3, -0.1, -0.1, -0.1]],
    "hidden": [[NAN, NAN, NAN, NAN], [NAN, 1, NAN, NAN], [0.5, 0.5, NAN, NAN], [1, NAN, NAN, NAN]],
}
SENTENCES = {
    ("tied", "query", 0): '"a" reads itself and "b" most: .40 each, then "c" .20',
    ("tied", "query", 1): '"b" reads "d" most: .40, then "c" .30 and itself .20',
    ("tied", "query", 2): '"c" reads "a" most: .70, then "b", itself and "d" .10 each',
    ("tied", "query", 3): '"d" reads all 4 tokens that it sees equally: .25 each',
    ("tied", "key", 3): '"d" is read most by "b": .40, then by itself .25 and by "c" .10',
    ("zero", "query", 0): '"a" reads nothing: all weights are 0',
    ("zero", "query", 1): '"b" reads itself most: 1.0',
    ("zero", "query", 3): '"d" reads "c" most: .400, then "a" .301 and "b" .299',
    ("signed", "query", 0): 'what "a" reads, by gain: most itself .40, then "c" .20; '
    'least "b" −.40',
    ("signed", "query", 3): 'what "d" reads, by gain: most "a" .30, then "b", "c" and '
    "itself −.10 each",
    ("signed", "query", 2): 'what "c" reads, by gain: all are 0',
    ("hidden", "query", 0): '"a" reads nothing: every key is masked',
    ("hidden", "query", 1): '"b" sees only itself: 1.0',
    ("hidden", "query", 2): '"c" reads all 2 tokens that it sees equally: .50 each',
    ("hidden", "key", 3): 'no token reads "d", which is masked for all',
}


def test_what_is_read_most_is_said_as_it_is(chromium: Browser, tmp_path: Path) -> None:
    trace = library.trace("a b c d", tokenizer="words")
    side = explore_trace(trace).heads[0].query_axis
    maps = [("", name, _map(name, side, rows)) for name, rows in BY_HAND.items()]
    view = replace(trace.view(), head_explorer=lambda: arrange_heads(maps))
    path = write_page(view, tmp_path)
    with page_in_browser(chromium, path) as page:
        for (name, end, place), sentence in SENTENCES.items():
            _go_to(page, f"&head={name}&{end}={place + 1}")
            assert _sentence_text(page) == f"{name}: {sentence}"


def _map(name: str, side: Axis, rows: list[list[float]]) -> HeadMap:
    values = np.array(rows)
    cells = StoredCells(np.nan_to_num(values), np.isnan(values))
    is_signed = name == "signed"
    measure = "gain" if is_signed else "weight"
    return HeadMap(
        name=name, query_axis=side, key_axis=side, weights=cells, signed=is_signed, measure=measure
    )


def test_of_very_many_lines_the_largest_are_drawn(chromium: Browser, tmp_path: Path) -> None:
    trace = library.trace(" ".join(f"w{n}" for n in range(160)), tokenizer="words", causal=True)
    path = write_page(trace.view(), tmp_path)
    sizes = np.sort(_weights(trace)[0][np.tril_indices(160)])[::-1]
    with page_in_browser(chromium, path, "#view=lines&query=none") as page:
        page.wait_for_selector(".line-word")
        assert len(_drawn_lines(page)) == 2000
        note = page.inner_text(".lines-says")
        assert note.startswith("The 2,000 largest of 12,880 weights have lines, down to ")
        least = float(note.rstrip(".").split()[-1].replace("−", "-"))
        assert least == pytest.approx(sizes[1999], rel=0.05)
        assert _words(page, "query").count() < 100, "only those in sight are in the page"
        _words(page, "query").first.focus()
        page.keyboard.press("End")
        wait_for_frames(page, 100)
        assert _words(page, "query").last.inner_text().split() == ["160", "w159"]
        last = _words(page, "key").last
        assert last.locator("bdi").inner_text() == "w159"
        assert _shows_number(last.locator(".amounts").inner_text(), _weights(trace)[0][159, 159])
        page.get_by_text("all rows at once").click()
        wait_for_frames(page, 100)
        frame = page.locator(".lines-frame")
        assert frame.evaluate("frame => frame.scrollHeight <= frame.clientHeight + 1")


def test_a_second_sentence_stands_below_and_is_coloured(chromium: Browser, tmp_path: Path) -> None:
    trace = library.trace("I am here", memory="du bist nicht da", tokenizer="words")
    path = write_page(trace.view(), tmp_path)
    names = [each.name for each in explore_trace(trace).heads]
    weights = _weights(trace)[1]
    with page_in_browser(chromium, path, f"#view=lines&head={names[1]}&query=2") as page:
        page.wait_for_selector(".line-word")
        query_tokens, key_tokens = (
            page.locator("#sentence .text").nth(n).locator(".token") for n in (0, 1)
        )
        assert all(map(_shows_number, key_tokens.locator(".number").all_inner_texts(), weights[1]))
        assert set(query_tokens.locator(".number").all_inner_texts()) == {""}
        assert all(map(_shows_number, _amounts(page, "key"), weights[1]))
        page.keyboard.press("Escape")
        key_tokens.nth(3).click()
        page.mouse.move(1, 1)
        wait_for_frames(page)
        texts = query_tokens.locator(".number").all_inner_texts()
        assert all(map(_shows_number, texts, weights[:, 3]))


def _linear_light(color: tuple[float, ...]) -> FloatArray:
    part = np.array(color) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def _color_contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    brightnesses = sorted(
        float(_linear_light(each) @ [0.2126, 0.7152, 0.0722]) + 0.05 for each in (first, second)
    )
    return brightnesses[1] / brightnesses[0]


# The vision of people who lack one kind of cones (Machado, Oliveira and Fernandes 2009).
CONE_VISION = {
    "all": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                  [-0.011820, 0.042940, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                 [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
TO_OKLAB = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766]]  # fmt: skip


@pytest.mark.parametrize("name", THEMES)
def test_heads_can_be_told_apart_by_everybody(name: str) -> None:
    colors = [tuple(bytes.fromhex(each[1:])) for each in THEMES[name].heads]
    paper = tuple(bytes.fromhex(THEMES[name].paper[1:]))
    assert len(colors) == 8
    assert min(_color_contrast(each, paper) for each in colors) >= 3
    for vision in CONE_VISION.values():
        linear_colors = np.clip(_linear_lights(colors) @ np.array(vision).T, 0, 1)
        lab_colors = np.cbrt(linear_colors @ np.array(TO_CONES).T) @ np.array(TO_OKLAB).T
        distances = [np.linalg.norm(one - other) for one, other in combinations(lab_colors, 2)]
        assert min(distances) > 0.1


def _linear_lights(colors: list[tuple[int, ...]]) -> FloatArray:
    return np.stack([_linear_light(each) for each in colors])
