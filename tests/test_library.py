"""The library: every name of its door works, is explained by an example, and says its types."""

from __future__ import annotations

import doctest
import importlib
import inspect
import linecache
import re
import subprocess
import sys
import traceback
from pathlib import Path
from types import FunctionType

import pytest

import attnviz
from attnviz.errors import Note
from attnviz.traces.source import refuse_other_than_text
from tests import LONGEST
from tests.conftest import ROOT

PACKAGE = ROOT / "attnviz"
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text("utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
@pytest.mark.usefixtures("quick")
def test_examples_in_docstrings_are_true(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), verbose=False)

    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("name", attnviz.__all__)
def test_every_name_of_the_door_has_an_example_that_comes_in_by_the_door(name: str) -> None:
    told = getattr(attnviz, name).__doc__

    imported = " ".join(re.findall(r">>> from attnviz import (.*)", told))
    assert ">>> " in told
    assert imported
    assert getattr(attnviz, name).__module__ in WITH_EXAMPLES


@pytest.mark.parametrize("name", attnviz.__all__)
def test_every_name_of_the_door_says_its_types(name: str) -> None:
    wanted = getattr(attnviz, name)
    own = {name: each for name, each in vars(wanted).items() if not name.startswith("__")}
    methods = [each for each in own.values() if isinstance(each, FunctionType)]
    functions = [wanted] if isinstance(wanted, FunctionType) else methods

    assert [each.__qualname__ for each in functions if not _is_typed(each)] == []


def _is_typed(function: FunctionType) -> bool:
    signature = inspect.signature(function)
    told = [each for name, each in signature.parameters.items() if name not in ("self", "cls")]
    empty = inspect.Parameter.empty
    return signature.return_annotation is not empty and all(
        each.annotation is not empty for each in told
    )


def test_the_door_has_what_type_checkers_see() -> None:
    source = (PACKAGE / "__init__.py").read_text("utf-8")
    seen = set(re.findall(r"^    from attnviz\S* import (\w+) as \1$", source, re.MULTILINE))

    assert seen == {*attnviz.__all__}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks have no notes before 3.11")
def test_a_traceback_ends_with_what_to_try() -> None:
    with pytest.raises(attnviz.AttnvizError) as error:
        attnviz.from_weights((), ["a"])

    lines = "".join(traceback.format_exception(error.value)).splitlines()
    assert lines[-2].endswith("AttnvizError: there are no weights: the model handed none back")
    assert lines[-1] == error.value.hint


def test_a_list_of_words_is_no_text_and_that_is_said() -> None:
    with pytest.raises(attnviz.AttnvizError, match="of type list, and should be one text") as error:
        refuse_other_than_text(["I", "am"])  # which tests would stop before: they check types

    assert "from_weights(weights, tokens)" in error.value.hint


def test_a_notebook_shows_the_lines_of_its_cell_and_what_to_try() -> None:
    cell = "import attnviz\ndef mine():\n    attnviz.trace('I', variant='casual')\nmine()\n"
    linecache.cache["<cell>"] = (len(cell), None, cell.splitlines(keepends=True), "<cell>")
    with pytest.raises(attnviz.AttnvizError) as error:
        exec(compile(cell, "<cell>", "exec"), {"__name__": "__main__"})

    shown = error.value._render_traceback_()
    assert [each for each in shown if each.startswith("line")] == [
        "line 4: mine()",
        "line 3: attnviz.trace('I', variant='casual')",
    ]
    assert shown[-2:] == ["AttnvizError: there is no variant 'casual'", error.value.hint]
    assert not any("attnviz/" in each for each in shown)  # nothing of the way through it


def test_what_is_worth_saying_of_a_file_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.renderers.slides.divided.MOST", 1)

    with pytest.warns(Note, match="1 of 2 panels have no slide of their own"):
        attnviz.trace("I am", heads=2).save(tmp_path / "deck.pptx")


INSIDE = """
from attnviz.errors import mention
inside = {"__name__": "attnviz.inside", "mention": mention}
exec("def made(): mention('so it is')", inside)
inside["made"]()
"""


def test_it_is_said_at_the_line_that_asked_for_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INSIDE], capture_output=True, text=True, check=True, timeout=LONGEST
    )

    assert ran.stderr.splitlines()[0] == "<string>:5: Note: so it is"
