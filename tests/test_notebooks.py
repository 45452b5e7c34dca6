"""Results in notebooks, and the pages about the library: every block of code is run."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from struct import unpack
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from attnviz import compare, example, inspect, learn, steps, trace
from attnviz.learning.choices import Choices
from attnviz.renderers.page import notebook_output
from attnviz.traces.result import Showable
from attnviz.traces.trained.captured_attention import RecomputedCells
from docs.notebook import SIZE, Cells, has_picture, stored
from tests.browser import page_in_browser
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIBRARY = ROOT / "docs" / "library.md"
NOTEBOOK = ROOT / "docs" / "attnviz.ipynb"


def form_of(value: Any) -> str:
    """How a notebook shows a value: the name of a method for HTML or a picture, or `text`."""
    for name in ("_repr_html_", "_repr_png_"):
        method = getattr(value, name, lambda: None)()
        if method:
            return name
    assert len(repr(value)) < 2000
    return "text"


class Frames(HTMLParser):
    """The frames in a piece of HTML, and all else that is in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.frames: list[dict[str, str | None]] = []
        self.others: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.frames.append(dict(attrs))
        else:
            self.others.append(tag)


@pytest.fixture(scope="module")
def results() -> dict[str, Showable]:
    result = trace("I am learning", variant="causal")
    return {
        "Trace": result,
        "Comparison": compare(result, by="mask"),
        "Walk": steps(result),
        "Inspection": inspect(result),
        "Example": example("simplified"),
        "Learned": learn("sort", choices=Choices(steps=2)),
    }


NAMES = ("Trace", "Comparison", "Walk", "Inspection", "Example", "Learned")


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_page_in_a_frame_of_its_own(name: str, results: dict[str, Showable]) -> None:
    [frame] = (content := Frames(results[name]._repr_html_())).frames

    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["title"] == f"attnviz: {results[name].view().headline}"
    assert (frame["srcdoc"] or "").encode() == results[name].view().render(".html")
    assert content.others == ["div", "img", "p", "br"]  # they lie under it; no script, no style


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_still_picture_beside_its_page(
    name: str, results: dict[str, Showable]
) -> None:
    bundle, metadata = results[name]._repr_mimebundle_(include=None, exclude=None)
    picture = base64.b64decode(bundle["image/png"])

    assert bundle["text/plain"] == repr(results[name])
    assert f'src="data:image/png;base64,{bundle["image/png"]}"' in bundle["text/html"]
    assert metadata == {"image/png": {"alt": results[name].view().picture.description}}
    assert unpack(">II", picture[16:24]) == SIZE
    assert len(picture) < 100_000


@pytest.mark.slow("pictures")
def test_what_cannot_be_drawn_on_one_picture_is_a_page_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = trace("I am learning this", heads=40, dim=80).view(as_="arcs")
    for most_panels in (notebook_output.MAX_STILL_PANELS, 39):  # refused, and not even tried
        monkeypatch.setattr(notebook_output, "MAX_STILL_PANELS", most_panels)
        bundle, metadata = view._repr_mimebundle_()

        assert list(bundle) == ["text/html", "text/plain"]
        assert Frames(bundle["text/html"]).others == ["div", "p", "br"]
        assert metadata == {}


def drawn_elements(page: Page) -> set[str]:
    """Return the tags of what is on top at the corners and in the middle of the still picture."""
    tags: list[str] = page.evaluate("""() => {
      const box = document.querySelector("img").getBoundingClientRect();
      return [0.02, 0.5, 0.98].map((share) => document.elementFromPoint(
        box.left + share * box.width, box.top + share * box.height).tagName);
    }""")
    return set(tags)


# What is left out of a cell until a notebook is trusted, and in mail or on the page of a code host.
SANITIZED = (r"(?s)<iframe.*?</iframe>", r'(?s)<iframe.*?</iframe>| style="[^"]*"')


def test_the_still_picture_is_seen_only_where_the_frame_is_not(
    chromium: Browser, tmp_path: Path
) -> None:
    notebook = page_of_cells(tmp_path / "notebook.html", trace("I am learning", variant="causal"))
    for theme in ("light", "dark"):
        with page_in_browser(chromium, notebook, color_scheme=theme) as page:
            page.frames[1].locator("#matrix canvas").first.wait_for()
            assert drawn_elements(page) == {"IFRAME"}
            background = page.frames[1].evaluate(
                "getComputedStyle(document.documentElement).backgroundColor"
            )
            assert re.fullmatch(r"rgb\(.*\)", background)  # nothing shines through
    for left_out in SANITIZED:
        notebook.write_text(re.sub(left_out, "", notebook.read_text("utf-8")), "utf-8")
        with page_in_browser(chromium, notebook) as page:
            assert drawn_elements(page) == {"IMG"}
            assert page.locator("img").evaluate("(image) => image.naturalWidth") == SIZE[0]


# As strict as notebooks are: frames inherit it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def page_of_cells(path: Path, *values: Showable) -> Path:
    """A page with the HTML of some values, as cells of a notebook show it."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    frames = "".join(each._repr_html_() for each in values)
    path.write_text(f"<!doctype html><meta charset='utf-8'>{policy}{frames}", "utf-8")
    return path


def test_a_frame_is_pulled_higher_and_its_links_stay_within_it(
    chromium: Browser, tmp_path: Path
) -> None:
    size = {"width": 900, "height": 1000}
    notebook = page_of_cells(tmp_path / "notebook.html", steps(trace("I am", variant="causal")))

    with page_in_browser(chromium, notebook, viewport=size) as page:
        page.frames[1].locator("nav.steps a").nth(3).click()
        page.frames[1].wait_for_function("document.activeElement.id.startsWith('step-4')")
        box = page.locator("div").first.bounding_box()
        assert box
        right, bottom = box["x"] + box["width"] - 5, box["y"] + box["height"] - 5
        page.mouse.move(right, bottom)
        page.mouse.down()
        page.mouse.move(right, bottom + 100)
        page.mouse.up()
        frame = page.locator("iframe").bounding_box()

        assert frame
        assert frame["height"] == 860
        assert page.frames[1].url == "about:srcdoc"


TRY_OWN_ORIGIN = """() => [() => parent.document, () => localStorage].map((reach) => {
  try { return typeof reach(); } catch (error) { return error.name; }
})"""


def test_two_cells_of_a_notebook_never_meet(chromium: Browser, tmp_path: Path) -> None:
    traces = [trace("I am learning", variant="causal", seed=seed) for seed in (1, 2)]
    notebook = page_of_cells(tmp_path / "notebook.html", *traces)

    with page_in_browser(chromium, notebook) as page:
        first_frame, second_frame = page.frames[1:]
        for frame in (first_frame, second_frame):
            frame.locator("#matrix canvas").first.wait_for()
        text_before = second_frame.locator("#matrix").inner_text()
        first_frame.locator("#matrix canvas").first.click(position={"x": 200, "y": 200}, force=True)
        first_frame.locator("#matrix").get_by_text("weight .").first.wait_for()

        weight_line = re.search(r"weight (\.\d+)", first_frame.locator("#matrix").inner_text())
        assert weight_line
        assert any(abs(float(weight_line[1]) - each) < 1e-4 for each in traces[0].weights.flatten())
        assert second_frame.locator("#matrix").inner_text() == text_before
        first_frame.locator("#copying summary").click()
        with page.expect_download() as download:
            first_frame.get_by_label("save: Matrix as PNG").click()
        assert download.value.path().read_bytes().startswith(b"\x89PNG")
        assert first_frame.evaluate(TRY_OWN_ORIGIN) == ["SecurityError", "SecurityError"]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_one_line_of_text(name: str, results: dict[str, Showable]) -> None:
    for value in (results[name], results[name].view()):
        assert re.fullmatch(r"<\w+.*>", repr(value))
        assert len(repr(value)) < 260


@pytest.mark.slow_table("formats", keep=1)
@pytest.mark.parametrize("name", ["Trace", "Comparison"])
def test_a_result_is_a_figure_that_shows_itself(name: str, results: dict[str, Showable]) -> None:
    light, dark = (results[name].heatmap(theme=theme) for theme in ("light", "dark"))

    assert form_of(dark) == "_repr_png_"
    assert vars(dark)["description"] == results[name].view().picture.description
    assert light.get_facecolor() != dark.get_facecolor()
    assert not hasattr(dark, "number")  # pyplot knows nothing of it


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_numbers(name: str, results: dict[str, Showable]) -> None:
    view = results[name].view()

    assert results[name].to_dict() == json.loads(view.render(".json"))
    assert all(grid.values.shape == grid.cells.shape for grid in results[name].grids())


def test_grids_have_the_weights_under_the_names_of_their_tokens() -> None:
    heads_trace = trace("I am learning", variant="multi-head")
    first_grid, second_grid = heads_trace.grids(show=["weights"])

    assert first_grid.rows.labels == first_grid.columns.labels == ("I", "am", "learning")
    assert np.array_equal(
        np.stack([first_grid.values, second_grid.values]), heads_trace.weights[0].numpy()
    )


def test_saving_takes_what_is_shown_and_how_it_looks(tmp_path: Path) -> None:
    heads_trace = trace("I am learning", variant="multi-head")

    path = tmp_path / "row.svg"
    heads_trace.save(path, query="am", theme="dark", numbers=False)
    svg = path.read_text("utf-8")
    heads_trace.view(query="am").save(path, theme="dark", numbers=False)

    assert svg == path.read_text("utf-8")
    assert "learning" in svg


def test_a_head_is_drawn_alone() -> None:
    heads_trace = trace("I am learning", variant="multi-head")

    assert heads_trace.view(layer=0, head=1).title == heads_trace.view().title
    assert [each.title for each in heads_trace.view(layer=0, head=1).grids()] == ["weights L0H1"]
    assert heads_trace.heatmap(layer=0, head=1).get_size_inches().tolist()


def test_weights_of_one_tensor_are_those_that_are_shown() -> None:
    text = "I am learning"
    dropout_trace = trace(text, dropout=0.5)
    model_trace = trace("The animal was tired", model="minilm")

    assert (dropout_trace.weights[0] == dropout_trace.layers[0].attended.mixing).all()
    assert model_trace.weights.shape == (6, 12, 6, 6)
    assert (model_trace.weights[4, 7] == model_trace.layers[4].attended.weights[7]).all()
    assert trace(text, layers=2, heads=2).weights.shape == (2, 2, 3, 3)


def test_weights_that_are_worked_out_row_by_row_are_one_tensor_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model_trace = trace("The animal was tired", model="minilm", kept=(0, 4))
    in_memory = model_trace.weights

    monkeypatch.setattr("attnviz.traces.trained.captured_attention.CAPTURED_CELLS_AT_ONCE", 1)

    assert isinstance(model_trace.layers[0].weights.cells("mixing", 0), RecomputedCells)
    np.testing.assert_allclose(model_trace.weights, in_memory, atol=1e-6)


@pytest.fixture
def work_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_transformer: Callable[[str], Path]
) -> Iterator[Path]:
    """A folder to write into, in which `gpt2` is a small model."""
    (tmp_path / "gpt2").symlink_to(small_transformer("gpt2"))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield tmp_path


def _stand_in_for_pandas() -> ModuleType:
    """A stand-in for pandas, where it is not installed, which checks the shape of a table."""

    def data_frame(values: Any, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> str:
        if isinstance(values, dict):
            assert len({len(column) for column in values.values()}) == 1
        else:
            assert values.shape == (len(rows), len(columns))
        return "a table"

    pandas = ModuleType("pandas")
    pandas.__spec__ = ModuleSpec("pandas", None)
    vars(pandas)["DataFrame"] = data_frame
    return pandas


def copy_short_samples(folder: Path) -> None:
    """Copy the sample texts that pages read; of the corpus six sentences, which take less time."""
    shutil.copytree(ROOT / "sample_texts", folder / "sample_texts")
    sentences = folder / "sample_texts" / "sentences.txt"
    first_lines = sentences.read_text("utf-8").splitlines(keepends=True)[:6]
    sentences.write_text("".join(first_lines), encoding="utf-8")


@pytest.mark.slow("documentation")
@pytest.mark.usefixtures("quick")
def test_the_page_about_the_library_is_true(
    work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, page = Cells(), LIBRARY.read_text("utf-8")
    copy_short_samples(work_folder)
    if find_spec("pandas") is None:
        monkeypatch.setitem(sys.modules, "pandas", _stand_in_for_pandas())
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        form_of(cells.run(code))

    assert repr(cells.known["attention"]) in page
    file_names = {path.name for path in work_folder.iterdir()} - {"gpt2"}
    assert file_names >= {"head.pdf", "weights.svg", "page.html", "numbers.npz", "reverse.gif"}


TRAINED_MODELS = (ROOT / "docs" / "trained-models.md").read_text("utf-8")
RESEARCH = TRAINED_MODELS.partition("\n## Ten tasks in Python\n")[2]


@pytest.mark.slow("documentation")
@pytest.mark.usefixtures("quick")
def test_ten_tasks_of_research_take_ten_lines_each(
    work_folder: Path, monkeypatch: pytest.MonkeyPatch, small_transformer: Callable[[str], Path]
) -> None:
    from transformers import AutoModelForCausalLM

    if find_spec("pandas") is None:
        monkeypatch.setitem(sys.modules, "pandas", _stand_in_for_pandas())
    (work_folder / "t5").symlink_to(small_transformer("t5"))
    copy_short_samples(work_folder)
    (work_folder / "run").mkdir()
    (work_folder / "run" / "step-100").symlink_to(small_transformer("gpt2"))
    shutil.copytree(small_transformer("gpt2"), work_folder / "run" / "step-200")
    larger_model = AutoModelForCausalLM.from_pretrained("gpt2")
    for weight in larger_model.parameters():
        weight.data.mul_(1.5)
    larger_model.save_pretrained(work_folder / "run" / "step-200")

    cells, blocks = Cells(), re.findall(r"```python\n(.*?)```", RESEARCH, re.DOTALL)
    for code in blocks:
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
        form_of(cells.run(code))

    assert len(blocks) == len(re.findall(r"^### \d+\. ", RESEARCH, re.MULTILINE)) == 10
    assert cells.known["result"].following == ()
    assert cells.known["both"].changes
    file_names = {path.name for path in work_folder.iterdir()}
    assert file_names >= {
        "pairs.csv",
        "head.html",
        "cross.png",
        "run.gif",
        "figure.pdf",
        "heads.csv",
    }


def cells_of_notebook() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return cells


@pytest.mark.slow("documentation")
@pytest.mark.usefixtures("quick")
def test_the_notebook_shows_what_is_stored_in_it(work_folder: Path) -> None:
    cells, forms = Cells(), []
    code = [each for each in cells_of_notebook() if each["cell_type"] == "code"]
    for count, cell in enumerate(code, start=1):
        value = cells.run("".join(cell["source"]))
        [stored_output], [new_output] = cell["outputs"], stored(value, count, pictures=False)
        picture = stored_output["data"].pop("image/png", None)
        assert stored_output == new_output, "make notebook"
        assert (picture is not None) == has_picture(value), "make notebook"
        forms.append(form_of(value))
        if picture is not None:
            size = unpack(">II", base64.b64decode(picture)[16:24])
            assert size == ((500, 500) if forms[-1] == "_repr_png_" else SIZE)

    assert forms.count("_repr_html_") >= 8
    assert "_repr_png_" in forms
    assert NOTEBOOK.stat().st_size < 1.5e6
