"""A View: the library shows what the command line shows, to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnviz import AttnvizError, compare, example, steps, trace
from attnviz.renderers import FORMATS, Look, render
from attnviz.renderers.saving import save_view
from attnviz.traces.matrices import parse_matrices
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from tests.conftest import Attnviz

TEXT = "I am learning this"


MAKE_RESULT: dict[str, Callable[..., Any]] = {
    "run": trace,
    "compare": compare,
    "steps": steps,
    "example show": example,
}
TEXT_SUFFIXES = sorted({*FORMATS} - {".npz", ".png", ".gif", ".pptx"})
BY_HEADS: tuple[Any, ...] = ("compare", {"by": "heads"}, {"repeats": 3}, "--by heads --repeats 3")


@pytest.mark.slow_table("formats", keep=7)
@pytest.mark.parametrize(
    ("command", "settings", "choices", "words", "name"),
    [
        *(("run", {}, {}, "", f"x{suffix}") for suffix in FORMATS),
        *((*BY_HEADS, f"a{suffix}") for suffix in TEXT_SUFFIXES),
        *(
            (*case, "x.svg")
            for case in [
                ("run", {"variant": "multi-head", "seed": 7}, {}, "--variant multi-head --seed 7"),
                ("run", {"scale": False, "causal": True}, {}, "--no-scale --causal"),
                ("run", {}, {"show": ["scores", "weights"]}, "--show scores,weights"),
                ("run", {"tokenizer": "words"}, {"query": "am"}, "--query am -t words"),
                ("run", {"layers": 2, "norm": "pre"}, {}, "--layers 2 --norm pre"),
                ("run", {"memory": "you"}, {}, "--memory you"),
                ("compare", {"by": "mask"}, {}, "--by mask"),
                ("compare", {"by": "scale"}, {"query": "am"}, "--query 2"),
                ("compare", {"by": "temperature"}, {"curves": True}, "--by temperature --curves"),
                (
                    "compare",
                    {"by": "dim", "values": [2, 8], "reference": 8},
                    {},
                    "--by dim --values 2,8 --reference 8",
                ),
                ("example show", {}, {}, ""),
            ]
        ),
        ("steps", {"step": "5-8", "digits": 3}, {}, "--step 5-8 --digits 3", "a.md"),
    ],
)
def test_the_library_saves_the_bytes_that_the_command_line_writes(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    settings: dict[str, Any],
    choices: dict[str, Any],
    words: str,
    name: str,
) -> None:
    text = "simplified" if command == "example show" else TEXT
    view = MAKE_RESULT[command](text, **settings).view(**choices)
    for place in ("typed", "called"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        if place == "typed":
            assert attnviz(*command.split(), text, *words.split(), "-o", name).status == 0
        else:
            view.save(name)

    assert (tmp_path / "typed" / name).read_bytes() == (tmp_path / "called" / name).read_bytes()


def test_a_look_is_told_in_the_command_that_would_make_the_same(tmp_path: Path) -> None:
    trace("I am", dim=4).view().save(
        tmp_path / "a.json", theme="dark", size=(8, 5), colors="greys", transparent=True
    )

    command = json.loads((tmp_path / "a.json").read_text("utf-8"))["attnviz"]["command"]
    assert command == (
        "attnviz run 'I am' --dim 4 --out a.json --theme dark --colors greys --size 8x5 "
        "--transparent"
    )


def test_what_nobody_can_type_has_no_command(tmp_path: Path) -> None:
    given_trace = trace(None, given=parse_matrices({"scores": [[1.0, 2.0], [3.0, 4.0]]}))
    given_trace.view().save(tmp_path / "a.json")

    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["attnviz"]["command"] is None


def test_a_picture_of_the_library_has_title_description_and_provenance() -> None:
    svg = render(trace(TEXT, variant="causal").view(show=["weights"]), ".svg").decode()

    assert ">Each token attends only to itself and earlier tokens</title>" in svg
    assert "1 I reads 1 I most (1.00)" in svg
    assert '"seed": 42' in svg


def test_a_file_for_each_step_is_saved_where_its_name_has_a_place_for_it(tmp_path: Path) -> None:
    save_view(steps(TEXT, step="5-8").view(), tmp_path / "{step}.txt")

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["05-scores.txt", "06-scaling.txt", "07-mask.txt", "08-softmax.txt"]


@pytest.mark.parametrize("suffix", [".md", ".txt"])
def test_a_conclusion_stands_below_the_heading_of_a_text_and_is_said_once(suffix: str) -> None:
    view = compare(TEXT, by="mask").view(repeats=2)
    lines = [line for line in view.render(suffix).decode().split("\n") if line]

    assert lines[0].removeprefix("# ") == view.headline
    assert len([line for line in lines if line == view.closing[-1]]) == 1
    assert suffix == ".md" or "\n".join(lines).count("row = query") == 1


def test_of_several_files_all_are_written_or_none(tmp_path: Path) -> None:
    with pytest.raises(AttnvizError, match=r"no renderer for '\.xyz'"):
        trace(TEXT).view().save(tmp_path / "a.txt", tmp_path / "b.xyz")

    assert list(tmp_path.iterdir()) == []


def test_of_several_layers_each_is_named_though_no_block_is_around_them() -> None:
    result = trace(TEXT)
    three_layers = replace(
        result, layers=tuple(replace(result.layers[0], layer=layer) for layer in range(3))
    )

    view = three_layers.view(show=["weights", "context"])

    names = [f"{name} L{layer}{head}" for layer in range(3) for name, head in PANEL_NAMES]
    assert [panel.title for panel in view.screen.panels if isinstance(panel, Grid)] == names
    assert "3 layers" in view.settings


PANEL_NAMES = (("weights", "H0"), ("context vectors", ""))


def test_every_result_has_a_view_with_words_and_panels() -> None:
    results = (trace(TEXT), compare(TEXT), steps(TEXT), example("illustrated"))
    for view in (result.view() for result in results):
        assert view.title
        assert view.headline
        assert view.settings
        assert view.screen.panels
        assert view.picture.description
        assert view.settings in view.picture.caption
        assert view.provenance is not None
        assert view.data is not None


def test_a_step_alone_is_a_view_of_its_own() -> None:
    view = steps(TEXT, query="am").view()
    section = view.sections[4]
    step_view = view.of_section(section)

    assert isinstance(section, Section)
    assert step_view.headline == "Step 5: scores"
    assert [each.name for each in step_view.sections] == ["scores"]
    assert step_view.sections[0].moments == ()
    assert step_view.picture.description.startswith("Step 5: scores: Each score is the dot product")


def test_a_look_has_nothing_to_say() -> None:
    assert set(Look.__dataclass_fields__) == {
        "theme", "colors", "size", "dpi", "seconds", "transparent", "numbers", "text_size",
        "vectors", "footnote", "points", "font",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("looks", "problem"),
    [
        ({"theme": "drak"}, "there is no theme 'drak'"),
        ({"colors": "grays"}, "there is no colour map 'grays'"),
        ({"size": (1000, 1000)}, "size is 1000 by 1000 inches, and each must be from 2.5 to 40"),
        ({"dpi": -3}, "dpi is -3, and must be from 30 to 1200"),
        ({"dpi": 1200, "size": (40, 5)}, "40 inches at 1200 dpi are 48,000 pixels"),
        ({"seconds": -1}, "seconds is -1, and must be from 0.1 to 60"),
    ],
)
def test_a_look_that_nobody_can_draw_is_refused(looks: dict[str, Any], problem: str) -> None:
    with pytest.raises(AttnvizError, match=problem):
        Look(**looks)


@pytest.mark.slow("films")
def test_only_a_command_with_a_pace_is_told_one(tmp_path: Path) -> None:
    for result in (trace("I am"), steps("I am", step="5")):
        result.view().save(tmp_path / "a.gif", seconds=1.0, dpi=30)
        has_pace = b"--seconds-per-step 1.0" in (tmp_path / "a.gif").read_bytes()
        assert has_pace is (type(result).__name__ == "Walk")
