"""The line where something else begins: what a model wrote itself, behind what it was given."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attnviz import Trace, render, trace
from attnviz.cells import unmasked
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.steps.walk import steps
from attnviz.views.view import Group, Page, View
from tests.conftest import Attnviz
from tests.small_transformers import KINDS, save

WORDS = ("a", "b", "c", "d", "e", "f")


def axis(border: int | None, words: tuple[str, ...] = WORDS) -> Axis:
    numbers = tuple(str(number + 1) for number in range(len(words)))
    return Axis("query (reads)", "token", words, numbers, border=border)


def view(border: int | None) -> View:
    cells = unmasked(np.full((6, 6), 0.25))
    grid = Grid("weights", axis(border), axis(border), cells, Scale("weight", 0, 1), share=True)
    page = Page((Group("weights", (grid,)),))
    return View(title="t", screen=page, picture=page)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = save(KINDS["gpt2"], tmp_path_factory.mktemp("models") / "gpt2")
    return trace("it was", model=str(folder), generate=3)


@pytest.mark.parametrize(
    ("places", "expected"),
    [(slice(None), 4), (slice(3, None), 1), (slice(4, None), None), (slice(0, 4), None)],
)
def test_a_part_has_the_line_where_it_was(places: slice, expected: int | None) -> None:
    assert axis(4).part(places).border == expected


@pytest.mark.parametrize(("size", "expected"), [(1, 4), (2, 2), (3, None), (6, None)])
def test_blocks_have_it_before_the_first_that_begins_behind_it_if_one_does(
    size: int, expected: int | None
) -> None:
    assert axis(4).in_blocks(size).border == expected


def test_a_table_has_a_line_between_columns_and_one_between_rows() -> None:
    plain, lined = (render(view(border), ".txt").decode().splitlines() for border in (None, 4))
    at = next(number for number, line in enumerate(lined) if "─" in line)

    assert not any("│" in line for line in plain)
    assert [len(line) for line in plain] == [
        len(line) for number, line in enumerate(lined) if number != at
    ]
    assert [line.count("│") for line in lined if "│" in line] == [1] * 6
    assert len({line.index("│") for line in lined if "│" in line}) == 1
    assert (lined[at - 1].split()[1], lined[at + 1].split()[1]) == ("d", "e")


def test_a_picture_has_both_lines() -> None:
    plain, lined = (
        np.asarray(Image.open(io.BytesIO(render(view(border), ".png"))).convert("L"), dtype=int)
        for border in (None, 4)
    )
    darker = (plain - lined) > 60
    rows, columns = darker.sum(axis=1), darker.sum(axis=0)

    assert rows.max() > 0.4 * darker.shape[1]
    assert columns.max() > 0.4 * darker.shape[0]
    assert (rows > rows.max() / 2).sum() < 20
    assert (columns > columns.max() / 2).sum() < 20


def test_what_a_model_wrote_is_behind_the_line(generated: Trace, tmp_path: Path) -> None:
    prompt = generated.prompt
    assert prompt is not None
    assert len(generated.tokens) == prompt + 3
    (section,) = steps(generated, layer=1, head=0, step="softmax").sections
    for grid in (section.grids[0], generated.view(show=["weights"]).screen.panels[0]):
        assert isinstance(grid, Grid)
        assert (grid.rows.border, grid.columns.border) == (prompt, prompt)


def test_maps_say_what_the_line_is(generated: Trace, tmp_path: Path, attnviz: Attnviz) -> None:
    generated.view().save(tmp_path / "trace.npz")
    arguments = ("inspect", "--trace", str(tmp_path / "trace.npz"), "--layer=1", "--head=0")
    whole, part = attnviz(*arguments), attnviz(*arguments, "--query=1")

    assert "behind the line: what the model wrote itself" in whole.out.replace("\n", " ")
    assert "│" in whole.out
    assert "behind the line" not in part.out
