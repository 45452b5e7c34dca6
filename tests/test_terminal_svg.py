"""A terminal as a picture: what a command prints there, with its colours, as an SVG."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnviz import trace
from attnviz.errors import AttnvizError
from attnviz.renderers.colors import THEMES
from tests import not_none
from tests.conftest import Attnviz
from tests.hand import HOSTILE, SVG, texts_of_svg


@pytest.fixture(autouse=True)
def work_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def parse_svg(svg: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize("theme", THEMES)
def test_it_holds_the_command_the_table_and_what_made_it(theme: str) -> None:
    view = trace("I am learning this", variant="causal").view(show=["weights"], as_="terminal")
    svg = view.render(".svg", theme=theme)
    words = " ".join(texts_of_svg(svg))

    assert "$ attnviz run 'I am learning this' --variant causal --show weights" in words
    assert "--as" not in words
    assert "random vectors: this shows the mechanism, not what the words mean" in words
    assert "1.0" in texts_of_svg(svg)
    assert f'fill="{THEMES[theme].paper}"' in svg.decode()
    metadata = not_none(parse_svg(svg).find(f"{SVG}metadata"))
    assert json.loads(metadata.text or "")["seed"] == 42


def test_each_visible_cell_has_its_colour_behind_it() -> None:
    svg = trace("I am", variant="causal").view(show=["weights"], as_="terminal").render(".svg")
    fills = [each.get("fill") for each in parse_svg(svg).iter(f"{SVG}rect")]

    assert len(fills) == 1 + 3  # the paper, and three weights that are not hidden


@pytest.mark.slow_table("calls", keep=8)
@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_do_not_break_it(token: str) -> None:
    svg = trace(f"a {token} b").view(as_="terminal").render(".svg")

    assert texts_of_svg(svg)


def test_other_formats_stay_what_they_are() -> None:
    view = trace("I am").view(as_="terminal")

    assert view.render(".png").startswith(b"\x89PNG")
    assert b"random vectors" in view.render(".txt")


def test_the_same_command_draws_the_same_bytes(attnviz: Attnviz) -> None:
    for _ in range(2):
        assert attnviz("run", "I am", "--as", "terminal", "-o", "one.svg").status == 0
        Path("one.svg").rename(f"{len(list(Path().glob('*.svg')))}.svg")
    first, second = sorted(Path().glob("*.svg"))

    assert first.read_bytes() == second.read_bytes()


def test_without_an_svg_there_is_nothing_to_draw_it_in(attnviz: Attnviz) -> None:
    result = attnviz("run", "I am", "--as", "terminal", "-o", "x.png")

    assert result.status == 2
    assert result.err == (
        "error: --as terminal can only be written as .svg\n hint: try -o terminal.svg\n"
    )


def test_an_unknown_way_names_those_that_there_are() -> None:
    with pytest.raises(AttnvizError) as error:
        trace("I am").view(as_="terminl")

    assert error.value.hint.startswith("did you mean 'terminal'?")
