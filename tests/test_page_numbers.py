"""The numbers of a page as a browser reads them: those of the Trace, as nearly as it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from attnviz import from_weights, trace
from attnviz.analysis.comparison import compare
from attnviz.cells import FULL_SLICE
from attnviz.renderers import render
from attnviz.renderers.page import head_tables as page_heads
from attnviz.renderers.page import packing
from attnviz.renderers.page.page import SCRIPT_FILES
from attnviz.traces.result import Showable
from attnviz.views.grids.explorer import HeadMap
from tests.browser import opened, without_script
from tests.pages_by_hand import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = Path(packing.__file__).parent
READING = "".join(
    (PAGE / "script" / name).read_text("utf-8")
    for name in SCRIPT_FILES
    if name in ("data.js", "unpacking.js")
)
EVERY_CELL = """
  const found = [];
  for (let head = 0; head < heads.length; head++) {
    const cells = await cellsOf(head);
    const [rows, columns] = [readers(head).labels.length, readTokens(head).labels.length];
    const numbers = { name: heads[head].name, cells: [], rows: [], tall: cells.tall };
    numbers.wide = cells.wide;
    numbers.whole = Array.from(cells.weights);
    numbers.column = cells.column(1) && Array.from(cells.column(1));
    numbers.tokens = Array.from({ length: cells.rows }, (_, row) => cells.token(row));
    for (let row = 0; row < rows; row++) {
      numbers.rows.push(cells.row(row) && Array.from(cells.row(row)));
      for (let column = 0; column < columns; column++) numbers.cells.push(cells.at(row, column));
    }
    found.push(numbers);
  }
  return { found, small: await thumbnails(), accuracy: attention.accuracy };
"""


def read_by(chromium: Browser, page: bytes, folder: Path, script: str = EVERY_CELL) -> Any:
    """What a script finds on a page whose own has been taken out, which would read first."""
    path = folder / "page.html"
    path.write_bytes(without_script(page))
    with opened(chromium, path) as seen:
        return seen.page.evaluate(f"async () => {{ {READING} {script} }}")


def heads_of(result: Showable) -> tuple[HeadMap, ...]:
    explored = result.view().heads
    assert explored is not None
    return explored.heads


def the_same(found: dict[str, Any], head: HeadMap) -> float:
    """Each cell held against its head; the largest error that is stated."""
    patch = head.weights.window(FULL_SLICE, FULL_SLICE)
    scores = None if head.scores is None else head.scores.window(FULL_SLICE, FULL_SLICE).values
    columns, largest = head.weights.shape[1], 0.0
    for place, cell in enumerate(found["cells"]):
        row, column = divmod(place, columns)
        if cell["blocks"]:
            continue
        assert cell["hidden"] == patch.hidden[row, column]
        if cell["hidden"]:
            assert cell["score"] is None
            continue
        off = abs(cell["weight"] - patch.values[row, column])
        assert off <= cell["error"] * (1 + 1e-9)
        largest = max(largest, cell["error"])
        if scores is not None:
            away = cell["score"] - scores[row, column]
            below = cell["scoreIsBelow"] and away > 0
            assert below or abs(away) <= cell["scoreError"] + 1e-5
        assert found["rows"][row][column] == cell["weight"]
        if column == 1 and found["column"] is not None:
            assert found["column"][row] == cell["weight"]
    return largest


CASES: dict[str, Callable[[], Showable]] = {
    "a sentence that reads itself": lambda: trace("I am learning this today"),
    "what came before": lambda: trace("I am learning this today", causal=True, heads=2, layers=2),
    "a window of what came before": lambda: trace("I am learning this today", window=2),
    "another sentence": lambda: trace("I am learning", memory="this today now"),
    "ways, and differences of either sign": lambda: compare(
        "I am learning this today", by="mask", values=["none", "causal"]
    ),
}


@pytest.mark.parametrize(
    ("case", "bits"),
    [
        *((case, 8) for case in CASES),
        *((case, bits) for case in [*CASES][-1:] for bits in (16, 32)),
    ],
)
def test_a_browser_reads_what_was_traced(
    case: str,
    bits: int,
    chromium: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {} if bits == 8 else {bits: 10**6})
    result = CASES[case]()
    page = read_by(chromium, render(result.view(), ".html"), tmp_path)

    heads = heads_of(result)
    assert [each["name"] for each in page["found"]] == [each.name for each in heads]
    largest = max(the_same(*pair) for pair in zip(page["found"], heads, strict=True))
    assert (largest == 0) == (bits == 32)
    assert bool(page["accuracy"]) == bool(largest)
    for small, each in zip(page["small"], heads, strict=True):
        assert (small["rows"], small["columns"]) == each.weights.shape


def test_numbers_between_two_codes_are_no_further_off_than_is_said(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-way from one code to the next, where whoever rounds on the way may take the further."""
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {16: 10**6})
    halves = (np.linspace(10, 65_000, 40 * 39).reshape(40, 39).round() + 0.5) / 65_535
    weights = np.hstack([np.ones((40, 1)), halves**2]) * np.linspace(0.1, 0.9, 40)[:, None]
    result = from_weights(weights.astype(np.float32))
    page = read_by(chromium, render(result.view(), ".html"), tmp_path)

    assert the_same(page["found"][0], heads_of(result)[0]) > 0


def test_of_a_long_text_a_browser_reads_blocks_and_the_rows_that_are_there(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    monkeypatch.setattr(page_heads, "MAX_HEADS_BYTES", 1_000)
    result = trace("I am learning this today " * 12, causal=True)
    [head] = heads_of(result)
    page = read_by(chromium, render(result.view(query="7"), ".html"), tmp_path)

    [found] = page["found"]
    the_same(found, head)
    tall = found["tall"]
    assert tall > 1
    pooled = head.weights.pooled(tall, found["wide"], share=True)
    near = np.array(found["whole"]).reshape(pooled.values.shape)
    assert np.array_equal(np.isnan(near), pooled.hidden)
    assert np.nanmax(np.abs(near - pooled.values)) < 0.01
    there = [row for row, numbers in enumerate(found["rows"]) if numbers is not None]
    assert 6 in there
    assert len(head.query_axis) - 1 in there
    blocks = [range(first, first + tall) for first in range(0, len(head.query_axis), tall)]
    kept = [next((each for each in block if each in there), block[0]) for block in blocks]
    assert found["tokens"] == kept
    exact = head.weights.row(6).values[0]
    assert np.allclose(np.nan_to_num(np.array(found["rows"][6])), exact, atol=1e-4)
    assert [cell["blocks"] for cell in found["cells"]] == [
        row not in there for row in range(len(head.query_axis)) for _ in range(len(head.key_axis))
    ]


def test_of_a_long_text_rows_that_are_there_are_read_and_it_is_said_how_to_get_others(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    monkeypatch.setattr(page_heads, "MAX_HEADS_BYTES", 1_000)
    path = tmp_path / "page.html"
    words = [f"word{number}" for number in range(60)]
    weights = np.tril(np.random.default_rng(0).exponential(size=(60, 60)))
    weights /= weights.sum(axis=1, keepdims=True)
    path.write_bytes(render(from_weights(weights, words).view(query="7"), ".html"))
    with opened(chromium, path) as seen:
        says = seen.page.locator("#sentence .says")
        wait_until(seen.page, lambda: '"\u2068word6\u2069" reads' in says.inner_text())
        read = int(np.argmax(weights[6]))
        most = f'"\u2068word{read}\u2069" most' if read != 6 else "itself most"
        assert most in says.inner_text()
        assert "--query" not in says.inner_text()
        seen.page.fill("#query", "9")  # one row in 4 is there, and this is none of them
        seen.page.keyboard.press("Enter")
        wait_until(seen.page, lambda: "--query 9" in says.inner_text())
        assert says.inner_text().startswith("tokens 7–9 read")
        seen.page.focus(".matrix-frame")
        seen.page.keyboard.press("Control+Home")
        line = seen.page.locator("#matrix-line")
        wait_until(seen.page, lambda: line.inner_text().startswith("tokens 1–3 read tokens 1–3"))
        for _ in range(2):
            seen.page.keyboard.press("ArrowDown")
        wait_until(seen.page, lambda: '"\u2068word6\u2069" reads' in says.inner_text())


def test_heads_that_were_not_looked_at_for_long_are_forgotten_and_read_again(
    chromium: Browser, tmp_path: Path
) -> None:
    page = render(trace("I am learning", heads=4).view(), ".html")
    script = """
      const before = await cellsOf(0);
      const again = await cellsOf(0);
      unpackedHeads.delete(0);
      const later = await cellsOf(0);
      const blocks = [...document.querySelectorAll("script[type='application/octet-stream']")];
      const empty = blocks.filter(({ textContent }) => textContent === "").map(({ id }) => id);
      const texts = [before, later].map(({ weights }) => String(weights));
      return [before === again, before === later, ...texts, empty];
    """
    same, other, before, later, empty = read_by(chromium, page, tmp_path, script)

    assert same
    assert not other
    assert before == later
    assert empty == ["weights-0", "scores-0"]
