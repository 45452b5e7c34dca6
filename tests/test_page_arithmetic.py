"""The arithmetic of a cell on a page: the numbers of torch, by pointer, keys and address."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnviz as library
from attnviz.cells import unmasked_cells
from attnviz.renderers.page import vector_tables
from attnviz.renderers.page.head_tables import pack_heads
from attnviz.renderers.page.vector_tables import MAX_EXACT_NUMBERS, exactness_note, pack_vectors
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.explorer import HeadVectors
from attnviz.views.trace_data import explore_trace
from tests import not_none
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_until, write_page
from tests.tiers import examples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXT = "I am learning this"
WIDE_VIEWPORT = {"width": 1280, "height": 900}
SCORE_STEPS = ("scores", "scaling", "soft-cap", "alibi", "position-bias", "additive-mask")
SUMS = ("score", "scaled", "capped", "biased", "with mask", "weight")
MakeTrace = Callable[[], Trace]


MATRICES = {"embeddings": [[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]], "mask": [[0.0, -1.5, 0.5]] * 3}


def example_trace(name: str) -> Trace:
    return library.example(name).trace()


TRACES: dict[str, MakeTrace] = {
    "random": lambda: library.trace(TEXT),
    "plain": lambda: library.trace(TEXT, variant="plain"),
    "causal heads": lambda: library.trace(TEXT, variant="multi-head"),
    "learned": lambda: library.trace("the old keys near the cabinet ?", model="agreement"),
    "by hand": lambda: library.trace("The old dogs slept because they were tired.", model="toy"),
    "example": lambda: example_trace("illustrated"),
    "wide example": lambda: example_trace("why-scaling-64"),
    "grouped": lambda: library.trace(TEXT, heads=4, kv_heads=2, dim=16),
    "alibi": lambda: library.trace(TEXT, heads=2, positions="alibi", causal=True),
    "rotary": lambda: library.trace(TEXT, positions="rotary"),
    "soft cap": lambda: library.trace(TEXT, soft_cap=1.5),
    "temperature": lambda: library.trace(TEXT, temperature=0.5),
    "additive": lambda: library.trace(TEXT, scoring="additive"),
    "dropout": lambda: library.trace(TEXT, dropout=0.3),
    "off": lambda: library.trace(TEXT, heads=2, without="L0H1"),
    "mask of numbers": lambda: library.trace(None, given=parse_matrices(MATRICES)),
    "cross": lambda: library.trace(TEXT, variant="multi-head", memory="it rains now"),
    "minilm": lambda: library.trace("the cat sat", model="minilm", kept=[0, 3]),
}


def number_in(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


@contextmanager
def page_of(trace: Trace, chromium: Browser, folder: Path, address: str = "") -> Iterator[Page]:
    with page_in_browser(
        chromium, write_page(trace.view(), folder), address, viewport=WIDE_VIEWPORT
    ) as page:
        wait_until(
            page,
            lambda: page.locator(".matrix-title strong").first.inner_text() != "",
        )
        yield page


def show_cell(page: Page, head: int, query: int, key: int) -> dict[str, str]:
    """The lines of the panel by name, and their results."""
    name = f"head={head}&cell={query + 1}-{key + 1}"
    page.evaluate(f"document.querySelector('#arithmetic dl')?.remove(); location.hash = '{name}'")
    wait_until(page, lambda: page.locator("#arithmetic dl b").count() > 0)
    names = page.locator("#arithmetic dt").all_inner_texts()
    return dict(zip(names, page.locator("#arithmetic dd b").all_inner_texts(), strict=True))


def assert_line_is_true(line: str) -> None:
    """Each part of `2.89 / √8 = 1.02` comes to about the same, as far as its terms are written."""
    parts = [part for part in re.split(r" [=≈] ", line) if not re.search("more|sum of", part)]
    values = [value_of(part) for part in parts if ":" not in part]
    for value in values[1:]:
        assert abs(value - values[0]) <= 0.03 + 0.01 * abs(values[0]), line
    power = re.match(r"exp\((.+)\) / sum of all exp ([=≈]) (\S+) /", line)
    if power and "<" not in line:
        exp = math.exp(value_of(power[1]))
        assert abs(exp / number_in(power[3]) - 1) < 0.1, line
        assert power[2] == ("=" if f"{exp:.2f}" == power[3] else "≈") or exp < 0.01, line


def value_of(expression: str) -> float:
    code = re.sub(r"√(\d+)", r"sqrt(\1)", expression.replace("−", "-").replace("·", "*"))
    names = {"sqrt": math.sqrt, "tanh": math.tanh, "exp": math.exp}
    return float(eval(code, {"__builtins__": {}}, names))


def expected_numbers(layer: Layer, head: int, query: int, key: int) -> dict[str, float]:
    """The same numbers, from queries and keys."""
    assert layer.keys_of_heads is not None
    query_vector, key_vector = not_none(layer.queries)[head, query], layer.keys_of_heads[head, key]
    stages = layer.attended
    numbers = {"q · k": torch.dot(query_vector, key_vector).item()}
    if layer.w_score is not None:
        weights = layer.w_score.view(layer.heads, -1)[head]
        numbers = {
            "w · tanh(q + k)": torch.dot(weights, torch.tanh(query_vector + key_vector)).item()
        }
    numbers["score"] = stages.logits[head, query, key].item()
    numbers["weight"] = stages.mixing[head, query, key].item()
    return numbers


@pytest.mark.parametrize("kind", TRACES)
def test_a_page_has_the_sum_the_score_and_the_weight_that_torch_has(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    trace = TRACES[kind]()
    heads = [(layer, head) for layer in trace.attention_layers for head in range(layer.heads)]
    with page_of(trace, chromium, tmp_path) as page:
        for number in {0, len(heads) - 1}:
            layer, head = heads[number]
            for query, key in [(0, 0), (2, 1), (len(trace.tokens) - 1, 2)]:
                results = show_cell(page, number, query, key)
                for name, value in expected_numbers(layer, head, query, key).items():
                    if name in results:
                        assert abs(number_in(results[name]) - value) <= 0.005 + 1e-5, (
                            name,
                            results,
                        )
                assert {"weight"} < set(results)
                for line in page.locator("#arithmetic dd").all_inner_texts():
                    assert_line_is_true(line)
                assert next(iter(results)) in ("q · k", "w · tanh(q + k)")


@pytest.mark.parametrize("kind", ["random", "example", "temperature", "alibi", "minilm"])
def test_the_numbers_are_those_of_steps_to_the_last_digit(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    trace = TRACES[kind]()
    last = len(trace.tokens) - 1
    walk = library.steps(trace, query=last, head=0, layer=trace.layers[0].layer)
    results: dict[str, list[str]] = {}
    for section in walk.sections:
        step_results = [each.result for each in section.sums if each.left.startswith(SUMS)]
        results.setdefault(section.name, step_results)
    score_results = [results[name] for name in SCORE_STEPS if results.get(name)]
    with page_of(trace, chromium, tmp_path) as page:
        for key in range(len(trace.keys)):
            page_results = [
                each.replace("−", "-") for each in show_cell(page, 0, last, key).values()
            ]
            assert page_results[:-1] == [each[key] for each in score_results]
            if number_in(page_results[-1]) >= 0.005:
                assert float(page_results[-1]) == float(results["softmax"][key])


def test_a_hidden_cell_says_why_and_has_no_softmax(chromium: Browser, tmp_path: Path) -> None:
    trace = TRACES["causal heads"]()
    with page_of(trace, chromium, tmp_path) as page:
        results = show_cell(page, 0, 1, 3)
        assert (results["score"], results["weight"]) == ("−∞", "0")
        assert "cannot read" in page.inner_text("#arithmetic .matrix-title")
        assert "no token reads those after it" in page.inner_text("#arithmetic")
        assert page.locator("#arithmetic table").count() == 0
        show_cell(page, 0, 1, 0)
        assert "no token reads" not in page.inner_text("#arithmetic")
        assert "2 more hidden by the mask" in page.inner_text("#arithmetic caption")


def test_of_a_head_that_is_off_and_of_dropout_it_is_said(chromium: Browser, tmp_path: Path) -> None:
    with page_of(TRACES["off"](), chromium, tmp_path) as page:
        show_cell(page, 1, 1, 0)
        assert "switched off" in page.inner_text("#arithmetic")
        show_cell(page, 0, 1, 0)
        assert "switched off" not in page.inner_text("#arithmetic")
    with page_of(TRACES["dropout"](), chromium, tmp_path) as page:
        assert list(show_cell(page, 0, 1, 0))[-2:] == ["softmax", "weight"]
        assert "after dropout" in page.inner_text("#arithmetic")


def test_keys_and_clicks_open_move_and_close_the_arithmetic(
    chromium: Browser, tmp_path: Path
) -> None:
    with page_of(TRACES["random"](), chromium, tmp_path) as page:
        title, panel = page.locator("#arithmetic .matrix-title h2"), page.locator("#arithmetic")
        assert not panel.is_visible()
        page.keyboard.press("d")
        wait_until(
            page, lambda: page.url.endswith("#cell=4-2")
        )  # the largest weight that is followed
        page.focus(".matrix-frame")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        wait_until(page, lambda: "cell=4-2" in page.url and 'reads "\u2068am' in title.inner_text())
        page.keyboard.press("ArrowUp")
        wait_until(page, lambda: page.url.endswith("#cell=3-2"))
        page.keyboard.press("Escape")
        wait_until(page, lambda: not panel.is_visible())
        wait_until(page, lambda: "cell" not in page.url)
        frame = not_none(page.locator(".matrix-frame").bounding_box())
        corner = frame["x"] + frame["width"] - 20, frame["y"] + frame["height"] - 20
        page.mouse.click(*corner)
        wait_until(page, lambda: page.url.endswith("#cell=4-4"))
        page.locator("#arithmetic th button").filter(has_text="learning").click()
        wait_until(page, lambda: page.url.endswith("#cell=4-3"))
        assert page.evaluate("document.activeElement.textContent") == "3 learning"
        page.focus(".bars")
        page.keyboard.press("End")
        wait_until(page, lambda: "dimension 8:" in page.inner_text(".bar-says"))
        assert page.locator(".bars .square.chosen").count() == 3
        page.mouse.click(*corner)
        page.mouse.click(*corner)
        wait_until(page, lambda: not panel.is_visible())
        wait_until(page, lambda: "query=none" in page.url)
        page.keyboard.press("d")
        page.click("#arithmetic [aria-label^=close]")
        wait_until(page, lambda: not panel.is_visible())
    with page_of(TRACES["random"](), chromium, tmp_path, "#cell=2-3&query=none") as page:
        wait_until(page, lambda: "learning" in page.inner_text("#arithmetic .matrix-title"))


def test_the_arithmetic_can_be_copied_as_text(chromium: Browser, tmp_path: Path) -> None:
    path = write_page(TRACES["random"]().view(), tmp_path)
    grants = ["clipboard-read", "clipboard-write"]
    with page_in_browser(
        chromium, path, "#cell=2-3", viewport=WIDE_VIEWPORT, permissions=grants
    ) as page:
        page.get_by_role("button", name="copy: the arithmetic as text").click()
        wait_until(page, lambda: "copied" in (page.text_content("#said") or ""))
        lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert "\u2068" not in "".join(lines)
    assert lines[0] == 'Head 0: "am" reads "learning": weight .14'
    table, stages, softmax, weight = (
        part.splitlines() for part in "\n".join(lines).split("\n\n")[1:5]
    )
    assert table[0] == 'dimension\tq of "am"\tk of "learning"\tq × k'
    numbers = [[float(each) for each in line.split("\t")[1:]] for line in table[1:-1]]
    assert len(numbers) == 8
    for query, key, product in numbers:
        assert query * key == pytest.approx(product, rel=1e-4)
    total = float(table[-1].split("\t")[-1])
    assert sum(product for *_, product in numbers) == pytest.approx(total, rel=1e-4)
    assert stages[1] == f"score = {total} / √8 = {total / math.sqrt(8):.6g}"
    rows = [line.split("\t") for line in softmax[1:]]
    assert [row[0] for row in rows] == ["1 I", "2 am", "3 learning", "4 this", "sum"]
    for row in rows[:-1]:
        assert math.exp(float(row[1])) == pytest.approx(float(row[2]), rel=1e-4)
    assert weight == [f"weight = {rows[2][2]} / {rows[-1][2]} = {rows[2][3]}"]


def test_of_a_wide_head_the_largest_products_are_named(chromium: Browser, tmp_path: Path) -> None:
    trace = library.trace(TEXT, dim=128)
    layer = trace.layers[0]
    products = (not_none(layer.queries)[0, 1] * not_none(layer.keys)[0, 2]).numpy()
    with page_of(trace, chromium, tmp_path, "#cell=2-3") as page:
        wait_until(page, lambda: page.locator(".bars .square").count() == 3 * 128)
        largest = abs(products).argsort()[::-1][:3]
        summary = page.inner_text(".bar-says").replace("−", "-")
        dimensions = [int(each) for each in re.findall(r"dimension (\d+)", summary)]
        assert dimensions == [each + 1 for each in largest.tolist()]
        assert summary.startswith(f"largest in size: {products[largest[0]]:.2f}")
        assert "+ 125 more ≈" in page.inner_text("#arithmetic dl")


def test_a_page_of_a_training_has_the_arithmetic_of_its_end(
    chromium: Browser, tmp_path: Path
) -> None:
    training = library.learn("reverse", steps=20)
    view = training.view()
    has_vectors = [head.vectors is not None for head in not_none(view.heads).heads]
    assert has_vectors[-1]
    assert not has_vectors[0]
    path = write_page(view, tmp_path)
    with page_in_browser(
        chromium, path, f"#head={len(has_vectors) - 1}&cell=1-1", viewport=WIDE_VIEWPORT
    ) as page:
        wait_until(page, lambda: page.locator("#arithmetic dl").count() == 1)
        page.evaluate("location.hash = 'head=0&cell=1-1'")
        wait_until(page, lambda: "no queries and keys" in page.inner_text("#arithmetic"))
        assert "only the last moment has them" in page.inner_text("#arithmetic")


@pytest.mark.parametrize("width", [320, 360])
@pytest.mark.parametrize("kind", ["random", "learned", "wide example"])
def test_on_a_phone_the_arithmetic_fits_into_the_page(
    kind: str, width: int, chromium: Browser, tmp_path: Path
) -> None:
    path = write_page(TRACES[kind]().view(), tmp_path)
    phone = {
        "viewport": {"width": width, "height": 740},
        "has_touch": True,
        "is_mobile": True,
    }
    with page_in_browser(chromium, path, "#cell=3-2", **phone) as page:
        wait_until(page, lambda: page.locator("#arithmetic dl").count() == 1)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        find_cut_squares = (
            "[...document.querySelectorAll('.square')].filter(e => e.scrollWidth > e.clientWidth)"
        )
        assert page.evaluate(f"{find_cut_squares}.length") == 0


REASONS: dict[str, tuple[dict[str, Any], tuple[int, int], str]] = {
    "window=2": ({"window": 2}, (0, 3), "at most 1 token after it"),
    "before": ({"window": 2}, (3, 0), "at most 1 token before it"),
    "causal": ({"causal": True, "window": 2}, (0, 3), "no token reads those after it"),
    "both": ({"causal": True, "window": 2}, (3, 0), "at most 1 token before it"),
}


@pytest.mark.parametrize("kind", REASONS)
def test_of_a_hidden_cell_the_reason_is_given(kind: str, chromium: Browser, tmp_path: Path) -> None:
    options, (query, key), reason = REASONS[kind]
    with page_of(library.trace(TEXT, **options), chromium, tmp_path) as page:
        show_cell(page, 0, query, key)
        assert reason in page.inner_text("#arithmetic")


def masked_by(hidden: list[tuple[int, int]]) -> Trace:
    mask = [[-math.inf if (row, key) in hidden else 0.0 for key in range(3)] for row in range(3)]
    return library.trace(None, given=parse_matrices({**MATRICES, "mask": mask}))


def test_a_mask_without_a_rule_is_not_explained_and_a_padded_token_is(
    chromium: Browser, tmp_path: Path
) -> None:
    with page_of(masked_by([(1, 0), (0, 2)]), chromium, tmp_path) as page:
        show_cell(page, 0, 1, 0)
        assert "cannot be told by which rule" in page.inner_text("#arithmetic")
    with page_of(masked_by([(row, 1) for row in range(3)]), chromium, tmp_path) as page:
        show_cell(page, 0, 2, 1)
        assert "from every token" in page.inner_text("#arithmetic")


def test_mistakes_have_the_arithmetic_of_their_softmax(chromium: Browser, tmp_path: Path) -> None:
    comparison = library.compare(TEXT, by="mask")
    view = comparison.view()
    assert view.heads is not None
    vectors = {place: head.vectors for place, head in enumerate(view.heads.heads)}
    axes_of_mistakes = {
        n: each.mistake.axis for n, each in vectors.items() if each and each.mistake
    }
    assert set(axes_of_mistakes.values()) == {"row", "column", "matrix"}
    with page_in_browser(chromium, write_page(view, tmp_path), viewport=WIDE_VIEWPORT) as page:
        for place in axes_of_mistakes:
            weights = view.heads.heads[place].weights.window(slice(None), slice(None))
            for query, key in [(3, 1), (1, 3)]:
                results = show_cell(page, place, query, key)
                weight = float(weights.values[query, key])
                assert number_in(results["weight"]) == pytest.approx(weight, abs=0.005)
                panel_text = page.inner_text("#arithmetic")
                assert "The mistake:" in panel_text
                assert "no queries and keys" not in panel_text
                if results.get("softmax") is None and weight > 0.01:
                    line = page.locator("#arithmetic dd").last.inner_text()
                    quotient = re.search(r"(\S+) / (\S+) [=≈] \S+$", line)
                    assert quotient
                    share = number_in(quotient[1]) / number_in(quotient[2])
                    assert share == pytest.approx(weight, abs=0.01), line
        difference = next(n for n, head in enumerate(view.heads.heads) if head.signed)
        page.evaluate(f"location.hash = 'head={difference}&cell=2-1'")
        wait_until(page, lambda: "difference of two" in page.inner_text("#arithmetic"))


def test_a_key_opens_the_arithmetic_and_its_title_has_the_focus(
    chromium: Browser, tmp_path: Path
) -> None:
    focused_element = "document.activeElement"
    with page_of(TRACES["random"](), chromium, tmp_path) as page:
        page.keyboard.press("d")
        wait_until(page, lambda: page.evaluate(f"{focused_element}.tagName") == "H2")
        assert page.inner_text("#arithmetic h2").endswith("weight .74")
        assert page.get_attribute(".bar-says", "aria-live") == "off"
        page.keyboard.press("ArrowUp")
        assert page.evaluate(f"{focused_element}.className").startswith("matrix-frame")
        page.focus(".bars")
        page.keyboard.press("ArrowRight")
        wait_until(page, lambda: page.get_attribute(".bar-says", "aria-live") == "polite")
        page.keyboard.press("Escape")
        wait_until(page, lambda: not page.locator("#arithmetic").is_visible())
        assert page.evaluate(f"{focused_element}.className").startswith("matrix-frame")


def test_numbers_are_written_short_and_no_smaller_than_floats(
    chromium: Browser, tmp_path: Path
) -> None:
    sharp_trace = library.trace(TEXT, temperature=0.01)
    with page_of(sharp_trace, chromium, tmp_path) as page:
        results = show_cell(page, 0, 1, 0)
        lines = " ".join(page.locator("#arithmetic dd").all_inner_texts())
        assert results["weight"] in (".00", "0")
        assert "<1e−38" in lines
    with page_of(
        library.trace(TEXT, variant="plain", temperature=math.sqrt(2)), chromium, tmp_path
    ) as page:
        show_cell(page, 0, 1, 0)
        assert "/ √2 " in page.locator("#arithmetic dl").inner_text()
    with page_of(TRACES["learned"](), chromium, tmp_path) as page:
        show_cell(page, 0, 5, 3)
        cells = page.locator("#arithmetic td").all_inner_texts()
        assert not [cell for cell in cells if re.search("e−0[1-4]", cell)]


def page_facts(trace: Trace, **options: Any) -> dict[str, Any]:
    about, _ = pack_heads(explore_trace(trace), **options)
    return about


def test_only_pages_with_room_and_queries_have_vectors_and_others_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = library.trace(TEXT)
    assert "vectors" in page_facts(trace)["heads"][0]
    monkeypatch.setattr(vector_tables, "MAX_VECTOR_BYTES", 100)
    monkeypatch.setattr(vector_tables, "MAX_CHOSEN_BYTES", 300)
    weights = library.from_weights(torch.full((1, 1, 2, 2), 0.5), ["a", "b"])
    facts_by_reason = {
        "only weights are given": page_facts(weights),
        "queries and keys are not compared": page_facts(library.trace(TEXT, variant="average")),
        "left out by --no-vectors": page_facts(trace, vectors=False),
        "queries and keys would take 0.3 KB; --vectors stores them": page_facts(trace),
        "queries and keys would take 0.5 KB; a shorter text has room": page_facts(
            library.trace(TEXT, dim=16), vectors=True
        ),
    }
    for reason, about in facts_by_reason.items():
        assert about["accuracy"] == f"no arithmetic of single cells: {reason}"
        assert "vectors" not in about["heads"][0]
    assert "vectors" in page_facts(trace, vectors=True)["heads"][0]


def test_an_option_leaves_vectors_out_and_the_command_of_the_page_has_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    library.trace(TEXT).save(path, vectors=False)
    page = path.read_text("utf-8")
    assert "--no-vectors" in page[page.index("<footer>") :]
    assert "left out by --no-vectors" in page


def test_heads_that_share_keys_store_them_once() -> None:
    about = page_facts(TRACES["grouped"]())
    vectors = [head["vectors"] for head in about["heads"]]
    assert [each["keys"] == vectors[0]["keys"] for each in vectors] == [True, True, False, False]
    assert len({each["queries"] for each in vectors}) == 4


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 30.0]))
@settings(max_examples=examples(15), deadline=None)
def test_the_error_that_a_page_states_is_that_of_its_numbers(seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    queries, keys = (generator.normal(size=(5, 1024)).astype(np.float32) * scale for _ in range(2))
    products = queries.astype(np.float64) @ keys.T
    vectors = HeadVectors(
        queries=unmasked_cells(queries),
        keys=unmasked_cells(keys),
        products=unmasked_cells(products),
        scale=1.0,
    )
    head = replace(explore_trace(library.trace("I am")).heads[0], vectors=vectors)
    packed_vectors = pack_vectors([head], 0, "", None)
    error_match = re.search(r"16 bits: .* within (\S+)$", packed_vectors.exactness)
    assert 2 * queries.size > MAX_EXACT_NUMBERS
    assert error_match
    error = abs(_in_16_bits(queries) @ _in_16_bits(keys).T - products).max()
    assert error <= float(error_match[1]) * (1 + 1e-9) <= 2.001 * error


def _in_16_bits(vectors: np.ndarray) -> np.ndarray:
    """Each number as the square of a root in 32,767 steps up to the largest of its row, which
    a page has as a number of 32 bits."""
    largest = abs(vectors).max(axis=1, keepdims=True)
    steps = np.rint(np.sqrt(abs(vectors) / largest) * 32767).astype(np.float64)
    numbers = np.sign(vectors) * (steps / 32767) ** 2 * largest.astype(np.float64)
    return np.asarray(numbers.astype(np.float32), dtype=np.float64)


def test_only_rounding_that_matters_is_spoken_of() -> None:
    assert exactness_note(32, 1e-7) == "queries and keys are stored exactly"
    assert "16 bits" not in exactness_note(32, 0.01)
    assert exactness_note(16, 0.0).endswith("within 0")
