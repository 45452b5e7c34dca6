"""The library: every name of its door works, is explained by an example, and says its types."""

from __future__ import annotations

import doctest
import importlib
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
import torch

import attnviz
from attnviz import Settings
from attnviz.analysis.head_accuracy import rank
from attnviz.errors import Note
from attnviz.wording.keywords import replace_choices
from tests import run_process
from tests.conftest import ROOT

PACKAGE = ROOT / "attnviz"
MODULES_WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text("utf-8")
]


@pytest.mark.slow_table("documentation", keep=25)
@pytest.mark.parametrize("module", MODULES_WITH_EXAMPLES)
@pytest.mark.usefixtures("quick")
def test_examples_in_docstrings_are_true(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), verbose=False)

    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("name", attnviz.__all__)
def test_every_name_of_the_door_has_an_example_that_comes_in_by_the_door(name: str) -> None:
    docstring = getattr(attnviz, name).__doc__

    import_lines = " ".join(re.findall(r">>> from attnviz import (.*)", docstring))
    assert ">>> " in docstring
    assert import_lines
    assert getattr(attnviz, name).__module__ in MODULES_WITH_EXAMPLES


@pytest.mark.parametrize("name", attnviz.__all__)
def test_every_name_of_the_door_says_its_types(name: str) -> None:
    public_object = getattr(attnviz, name)
    attributes = {
        name: each for name, each in vars(public_object).items() if not name.startswith("__")
    }
    methods = [each for each in attributes.values() if isinstance(each, FunctionType)]
    functions = [public_object] if isinstance(public_object, FunctionType) else methods

    assert [each.__qualname__ for each in functions if not _is_typed(each)] == []


def _is_typed(function: FunctionType) -> bool:
    signature = inspect.signature(function)
    parameters = [
        each for name, each in signature.parameters.items() if name not in ("self", "cls")
    ]
    empty = inspect.Parameter.empty
    return signature.return_annotation is not empty and all(
        each.annotation is not empty for each in parameters
    )


def test_the_door_has_what_type_checkers_see() -> None:
    source = (PACKAGE / "__init__.py").read_text("utf-8")
    imported_names = set(
        re.findall(r"^    from attnviz\S* import (\w+) as \1$", source, re.MULTILINE)
    )

    assert imported_names == {*attnviz.__all__}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks have no notes before 3.11")
def test_a_traceback_ends_with_what_to_try() -> None:
    with pytest.raises(attnviz.AttnvizError) as error:
        attnviz.from_weights((), ["a"])

    lines = "".join(traceback.format_exception(error.value)).splitlines()
    assert lines[-2].endswith("AttnvizError: there are no weights: the model returned none")
    assert lines[-1] == error.value.hint


def test_a_list_of_words_is_no_text_and_that_is_said() -> None:
    with pytest.raises(attnviz.AttnvizError, match=r"text is \['I', 'am'\], and") as error:
        attnviz.trace(["I", "am"])  # type: ignore[arg-type]

    assert "from_weights(weights, tokens)" in error.value.hint


STORY = "The animal was too tired"
REFUSALS: dict[str, tuple[Callable[[], object], str, str]] = {
    "a setting that nobody knows": (
        lambda: attnviz.trace("I am", seeed=1),  # type: ignore[call-arg]
        "there is no keyword 'seeed'",
        "did you mean 'seed'?",
    ),
    "a choice of a look at heads": (
        lambda: attnviz.inspect(STORY, layr=5),  # type: ignore[call-arg]
        "there is no keyword 'layr'",
        "did you mean 'layer'?",
    ),
    "a keyword of comparing": (
        lambda: attnviz.compare("I am", valeus=[1, 2]),  # type: ignore[call-overload]
        "there is no keyword 'valeus'",
        "did you mean 'values'?",
    ),
    "a look of a picture": (
        lambda: attnviz.trace("I am").heatmap(them="dark"),  # type: ignore[call-overload]
        "there is no keyword 'them'",
        "did you mean 'theme'?",
    ),
    "what is not near to any": (
        lambda: attnviz.trace("I am").view(ax=1),  # type: ignore[call-arg]
        "there is no keyword 'ax'",
        "known: show, query, as_, predict, layer, head, log, part, live, segments",
    ),
    "a layer in words": (
        lambda: attnviz.inspect(STORY, layer="five"),  # type: ignore[arg-type]
        "layer is 'five', and should be the number of a layer",
        "try layer=5",
    ),
    "a head in words": (
        lambda: attnviz.inspect(STORY, head="eleven"),
        "head is 'eleven', and should be the number of a head",
        'try head=11, or head="L5H11"',
    ),
    "a layer that is not there": (
        lambda: attnviz.inspect(STORY, layer=[4, 9]),
        "there is no layer 9: the model has 6 layers, 0 to 5",
        "try layer=5",
    ),
    "a head of another layer": (
        lambda: attnviz.inspect(STORY, layer=4, head="L5H11"),
        "'head' names L5H11, but layer is 4",
        "leave 'layer' out",
    ),
    "a slice without heads": (
        lambda: attnviz.inspect(STORY, head=slice(12, None)),
        "head is slice(12, None, None), which holds none of 12 heads",
        "try head=slice(0, 12)",
    ),
    "a negative layer": (
        lambda: attnviz.inspect(STORY, layer=-1),
        "layer is -1, but counting starts at 0",
        "try layer=0",
    ),
    "effects of random vectors": (
        lambda: attnviz.inspect(attnviz.trace("I am"), by="effect").effects,
        'by="effect" switches off the heads of a trained transformer, but this is not one',
        'give a transformer: model="minilm", a folder, or a name on a hub',
    ),
    "a link with one end": (
        lambda: attnviz.inspect(STORY, source="animal"),
        "'source' names the token that attends, and needs 'to'",
        'give both: source="it", to="animal"',
    ),
    "options that exclude each other": (
        lambda: attnviz.inspect(STORY, merge="rollout", weigh="norm"),
        'merge="rollout" multiplies rows that sum to 1, but those of weigh="norm" do not',
        "leave 'weigh' out, or give merge=\"mean\"",
    ),
    "a keyword of a function without settings": (
        lambda: rank(layers=2),  # type: ignore[call-arg]
        "there is no keyword 'layers'",
        "known: model, task",
    ),
    "no argument": (
        lambda: attnviz.inspect(),  # type: ignore[call-arg]
        "inspect() needs 'text'",
        'try text="…"',
    ),
    "a value without its name": (
        lambda: attnviz.trace("I am").heatmap("dark"),  # type: ignore[call-overload]
        "heatmap() takes 0 values without a name",
        "give the others by name, such as ax=…",
    ),
    "an argument twice": (
        lambda: attnviz.trace("I am", text="you are"),  # type: ignore[misc]
        "trace() is given 'text' twice",
        "leave one of them out",
    ),
    "no file": (
        lambda: attnviz.trace("I am").save(),
        "there is no path to save to",
        'try save("page.html")',
    ),
    "a width of nothing": (
        lambda: attnviz.Settings(dim=0),
        "dim is 0, and must be from 1 to 65,536",
        "try dim=1",
    ),
    "a model in memory": (
        lambda: attnviz.inspect(STORY, model=torch.nn.Linear(2, 2)),
        "the model is of type Linear, which is no model of transformers",
        "show the weights that it computes: attnviz.from_weights(weights, tokens)",
    ),
    "two texts in a row": (
        lambda: replace_choices("the second text", {}),  # as `compare(text, text)` has it
        "the settings are 'the second text', and should be Settings",
        "leave 'settings' out, and give each setting by its name, such as model=\"minilm\"; a "
        'second text is other="…"',
    ),
    "a size in words": (
        lambda: attnviz.trace("I am").heatmap(size="wide"),
        "there is no size 'wide'",
        "try 16:9, 4:3, square, inches such as 8x5, a unit such as 85x60mm (in, cm, mm, pt), or "
        "pixels such as 1920x1080",
    ),
    "small letters": (
        lambda: attnviz.trace("I am").heatmap(text_size=5),
        "text_size is 5 points, and must be from 8 to 72",
        "try text_size=8, or small, medium, large",
    ),
    "a sentence for a number": (
        lambda: attnviz.steps("I am", digits="two"),  # type: ignore[arg-type]
        "digits is 'two', and should be a whole number",
        "try digits=1",
    ),
    "no name": (
        lambda: attnviz.example(None),  # type: ignore[arg-type]
        "name is None, and should be a text",
        'try name="…"',
    ),
    "a setting of a Trace": (
        lambda: attnviz.inspect(attnviz.trace("I am"), model="minilm"),
        "'model' says how to trace a text, but a finished Trace is given",
        "leave 'model' out, or give the text",
    ),
    "a transformer's heads by right answers": (
        lambda: rank("minilm"),
        "'minilm' is a trained transformer, whose heads are ranked on your own texts",
        'give a file with a text on each line: head_effects(Path("texts.txt"), model="minilm"); '
        'for one text, inspect("…", model="minilm", by="effect")',
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_library_is_given_wrongly_is_refused_in_two_lines(name: str) -> None:
    call, problem, hint = REFUSALS[name]
    with pytest.raises(attnviz.AttnvizError) as error:
        call()

    assert (str(error.value), error.value.hint) == (problem, hint)


def test_what_says_the_same_is_taken_for_it() -> None:
    """Numbers of tokens, paths, dtypes, devices, and numbers of NumPy."""
    trace = attnviz.trace("I am", dtype=torch.float64, device=torch.device("cpu"), dim=np.int64(4))
    assert trace.weights.dtype == torch.float64
    assert trace.origin.settings == Settings(dtype="float64", device="cpu", dim=4)
    path = PACKAGE / "traces" / "models" / "reverse"
    assert attnviz.trace("a b c d e f g h", model=path).model is not None

    inspection = attnviz.inspect(trace, source=1, to=np.int64(0))
    assert inspection.view().headline == attnviz.inspect(trace, source="2", to="1").view().headline
    by_position, by_word = (attnviz.inspect(trace, query=query).view() for query in (1, "am"))
    assert by_position.headline == by_word.headline


def test_what_results_hold_is_printed_in_a_line() -> None:
    comparison = attnviz.compare_sentences(STORY, "The animal was too wide")

    assert re.fullmatch(
        r"<L\dH\d+: weight \.\d\d → \.\d\d, 0\.\d{3} bits apart>", repr(comparison.heads[0])
    )
    assert repr(comparison.heads[0].first) == "<Head L4H9: 7 × 7>"
    assert repr(comparison.heads[0].first.cells).endswith(": 7 × 7 cells>")
    numbers = (10 + 8 + 10) * 32 + 4 * 32 * 32 + 4 * 32  # words, places, answers; W; two norms
    assert repr(rank("reverse").model) == f"<Model 'reverse': {numbers:,} numbers>"


def test_letters_of_a_figure_that_is_saved_are_truetype(tmp_path: Path) -> None:
    """As publishers want them; the settings of matplotlib are left as they are."""
    import matplotlib

    settings_before = dict(matplotlib.rcParams)
    attnviz.trace("I am").heatmap().savefig(tmp_path / "a.pdf")
    pdf = (tmp_path / "a.pdf").read_bytes()

    assert b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf
    assert dict(matplotlib.rcParams) == settings_before


def test_a_notebook_shows_the_lines_of_its_cell_and_what_to_try() -> None:
    cell = "import attnviz\ndef mine():\n    attnviz.trace('I', variant='casual')\nmine()\n"
    linecache.cache["<cell>"] = (len(cell), None, cell.splitlines(keepends=True), "<cell>")
    with pytest.raises(attnviz.AttnvizError) as error:
        exec(compile(cell, "<cell>", "exec"), {"__name__": "__main__"})

    traceback_lines = error.value._render_traceback_()
    assert [each for each in traceback_lines if each.startswith("line")] == [
        "line 4: mine()",
        "line 3: attnviz.trace('I', variant='casual')",
    ]
    assert traceback_lines[-2:] == ["AttnvizError: there is no variant 'casual'", error.value.hint]
    assert not any(
        f"{ROOT}/attnviz/" in each for each in traceback_lines
    )  # nothing of the way through it


def test_what_is_worth_saying_of_a_file_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.wings.slides.deck.MAX_PANEL_SLIDES", 1)

    with pytest.warns(Note, match="1 of 2 panels have no slide of their own"):
        attnviz.trace("I am", heads=2).save(tmp_path / "deck.pptx")


NOTE_SCRIPT = """
from attnviz.errors import warn_with_note as mention
inside = {"__name__": "attnviz.inside", "mention": mention}
exec("def made(): mention('so it is')", inside)
inside["made"]()
"""


def test_it_is_said_at_the_line_that_asked_for_it() -> None:
    process = run_process([sys.executable, "-c", NOTE_SCRIPT])

    assert process.stderr.splitlines()[0] == "<string>:5: Note: so it is"
