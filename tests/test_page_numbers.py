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
from tests import not_none
from tests.browser import page_in_browser, without_script
from tests.pages_by_hand import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = Path(packing.__file__).parent
READING_SCRIPT = "".join(
    (PAGE / "script" / name).read_text("utf-8")
    for name in SCRIPT_FILES
    if name in ("data.js", "unpacking.js")
)
FIND_EVERY_CELL = """
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


def run_script_on_page(
    chromium: Browser, page: bytes, folder: Path, script: str = FIND_EVERY_CELL
) -> Any:
    """The result of a script on a page without its own script, which would read first."""
    path = folder / "page.html"
    path.write_bytes(without_script(page))
    with page_in_browser(chromium, path) as opened_page:
        return opened_page.evaluate(f"async () => {{ {READING_SCRIPT} {script} }}")


def heads_of(result: Showable) -> tuple[HeadMap, ...]:
    explorer = not_none(result.view().heads)
    return explorer.heads


def assert_same_numbers(page_head: dict[str, Any], head: HeadMap) -> float:
    """Compare each cell with its head; return the largest error that the page states."""
    patch = head.weights.window(FULL_SLICE, FULL_SLICE)
    scores = None if head.scores is None else head.scores.window(FULL_SLICE, FULL_SLICE).values
    columns, largest = head.weights.shape[1], 0.0
    for place, cell in enumerate(page_head["cells"]):
        row, column = divmod(place, columns)
        if cell["blocks"]:
            continue
        assert cell["hidden"] == patch.hidden[row, column]
        if cell["hidden"]:
            assert cell["score"] is None
            continue
        error = abs(cell["weight"] - patch.values[row, column])
        assert error <= cell["error"] * (1 + 1e-9)
        largest = max(largest, cell["error"])
        if scores is not None:
            score_error = cell["score"] - scores[row, column]
            is_bound = cell["scoreIsBelow"] and score_error > 0
            assert is_bound or abs(score_error) <= cell["scoreError"] + 1e-5
        assert page_head["rows"][row][column] == cell["weight"]
        if column == 1 and page_head["column"] is not None:
            assert page_head["column"][row] == cell["weight"]
    return largest


RESULTS_BY_NAME: dict[str, Callable[[], Showable]] = {
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
        *((case, 8) for case in RESULTS_BY_NAME),
        *((case, bits) for case in [*RESULTS_BY_NAME][-1:] for bits in (16, 32)),
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
    result = RESULTS_BY_NAME[case]()
    page = run_script_on_page(chromium, render(result.view(), ".html"), tmp_path)

    heads = heads_of(result)
    assert [each["name"] for each in page["found"]] == [each.name for each in heads]
    largest = max(assert_same_numbers(*pair) for pair in zip(page["found"], heads, strict=True))
    assert (largest == 0) == (bits == 32)
    assert bool(page["accuracy"]) == bool(largest)
    for thumbnail, each in zip(page["small"], heads, strict=True):
        assert (thumbnail["rows"], thumbnail["columns"]) == each.weights.shape


def test_numbers_between_two_codes_are_no_further_off_than_is_said(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-way from one code to the next, where whoever rounds on the way may take the further."""
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {16: 10**6})
    midpoints = (np.linspace(10, 65_000, 40 * 39).reshape(40, 39).round() + 0.5) / 65_535
    weights = np.hstack([np.ones((40, 1)), midpoints**2]) * np.linspace(0.1, 0.9, 40)[:, None]
    result = from_weights(weights.astype(np.float32))
    page = run_script_on_page(chromium, render(result.view(), ".html"), tmp_path)

    assert assert_same_numbers(page["found"][0], heads_of(result)[0]) > 0


def test_of_a_long_text_a_browser_reads_blocks_and_the_rows_that_are_there(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    monkeypatch.setattr(page_heads, "MAX_HEADS_BYTES", 1_000)
    result = trace("I am learning this today " * 12, causal=True)
    [head] = heads_of(result)
    page = run_script_on_page(chromium, render(result.view(query="7"), ".html"), tmp_path)

    [page_head] = page["found"]
    assert_same_numbers(page_head, head)
    block_height = page_head["tall"]
    assert block_height > 1
    pooled = head.weights.pooled(block_height, page_head["wide"], share=True)
    blocks_read = np.array(page_head["whole"]).reshape(pooled.values.shape)
    assert np.array_equal(np.isnan(blocks_read), pooled.hidden)
    assert np.nanmax(np.abs(blocks_read - pooled.values)) < 0.01
    stored_rows = [row for row, numbers in enumerate(page_head["rows"]) if numbers is not None]
    assert 6 in stored_rows
    assert len(head.query_axis) - 1 in stored_rows
    blocks = [
        range(first, first + block_height) for first in range(0, len(head.query_axis), block_height)
    ]
    row_tokens = [
        next((each for each in block if each in stored_rows), block[0]) for block in blocks
    ]
    assert page_head["tokens"] == row_tokens
    exact_row = head.weights.row(6).values[0]
    assert np.allclose(np.nan_to_num(np.array(page_head["rows"][6])), exact_row, atol=1e-4)
    assert [cell["blocks"] for cell in page_head["cells"]] == [
        row not in stored_rows
        for row in range(len(head.query_axis))
        for _ in range(len(head.key_axis))
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
    with page_in_browser(chromium, path) as page:
        says = page.locator("#sentence .says")
        wait_until(page, lambda: '"\u2068word6\u2069" reads' in says.inner_text())
        most_read = int(np.argmax(weights[6]))
        name_of_most_read = (
            f'"\u2068word{most_read}\u2069" most' if most_read != 6 else "itself most"
        )
        assert name_of_most_read in says.inner_text()
        assert "--query" not in says.inner_text()
        page.fill("#query", "9")  # one row in 4 is there, and this is none of them
        page.keyboard.press("Enter")
        wait_until(page, lambda: "--query 9" in says.inner_text())
        assert says.inner_text().startswith("tokens 7–9 read")
        page.focus(".matrix-frame")
        page.keyboard.press("Control+Home")
        line = page.locator("#matrix-line")
        wait_until(page, lambda: line.inner_text().startswith("tokens 1–3 read tokens 1–3"))
        for _ in range(2):
            page.keyboard.press("ArrowDown")
        wait_until(page, lambda: '"\u2068word6\u2069" reads' in says.inner_text())


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
    is_cached, is_unchanged_object, first_text, second_text, emptied_blocks = run_script_on_page(
        chromium, page, tmp_path, script
    )

    assert is_cached
    assert not is_unchanged_object
    assert first_text == second_text
    assert emptied_blocks == ["weights-0", "scores-0"]
