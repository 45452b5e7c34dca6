"""film(): several Traces as one film, one page with a slider, one table of numbers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import attnviz
from attnviz.views.grids.grid import Grid
from attnviz.views.view import View
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_until, write_page
from tests.refusals import refusal_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WORDS = ["The", "animal", "slept"]


def trace_at_step(step: int, words: list[str] = WORDS, heads: int = 2) -> attnviz.Trace:
    """Weights that move from even ones to the first token in head 1, and stay even in head 0."""
    even_weights = torch.full((1, heads, len(words), len(words)), 1 / len(words))
    first_token_weights = torch.zeros_like(even_weights)
    first_token_weights[..., 0] = 1.0
    share = torch.zeros(heads)
    share[-1] = step / 100
    weights = even_weights + share[None, :, None, None] * (first_token_weights - even_weights)
    return attnviz.from_weights(weights, words, name=f"step {step}")


@pytest.fixture(scope="module")
def film() -> attnviz.Film:
    return attnviz.film([trace_at_step(step) for step in (0, 50, 100)])


def test_a_film_has_a_frame_for_each_trace_with_its_name_and_one_scale(
    film: attnviz.Film, tmp_path: Path
) -> None:
    view = film.view()
    film.save(tmp_path / "run.gif", size=(4, 3), dpi=40)

    assert repr(film) == "<Film of 3 Traces: step 0 … step 100>"
    assert [shot.title for shot in view.shots] == ["step 0", "step 50", "step 100"]
    grids = [panel for shot in view.shots for group in shot.groups for panel in group.panels]
    assert len({grid.scale for grid in grids if isinstance(grid, Grid)}) == 1
    with Image.open(tmp_path / "run.gif") as gif:
        assert getattr(gif, "n_frames", 1) == 3


def test_its_title_says_what_changes_most(film: attnviz.Film) -> None:
    assert film.view().headline.replace("\u00a0", " ") == (
        'head 1 changes most: "The" gives "The" 33 % of its attention in step 0, and 100 % in '
        "step 100"
    )
    unchanging_film = attnviz.film([trace_at_step(0), trace_at_step(0)], names=["a", "b"])
    assert unchanging_film.view().headline == "b attends as a does"


def test_the_numbers_of_a_film_are_those_of_its_traces(film: attnviz.Film) -> None:
    weights = film.to_dict()["layers"][0]["weights"]
    lines = list(csv.DictReader(io.StringIO(film.view().render(".csv").decode())))

    np.testing.assert_allclose(weights, [each.weights[0].numpy() for each in film.traces])
    assert json.dumps(film.to_dict()["names"]) == '["step 0", "step 50", "step 100"]'
    assert [line["trace"] for line in lines[::18]] == list(film.names)


def heads_of_frame(view: View) -> set[str]:
    panels = view.shots[0].groups[0].panels
    return {panel.title.split()[1] for panel in panels if isinstance(panel, Grid)}


def test_a_film_of_many_heads_shows_those_that_change_most() -> None:
    traces = [attnviz.trace("I am here", heads=8, layers=3, seed=seed) for seed in (1, 2)]
    film = attnviz.film(traces)
    changes = abs(traces[1].weights - traces[0].weights).sum((-1, -2)).flatten()
    heads = heads_of_frame(film.view())
    largest = {f"L{int(index) // 8}H{int(index) % 8}" for index in changes.topk(16).indices}

    assert film.names == ("1 of 2", "2 of 2")
    assert heads == largest
    view = film.view(layer=1, head=3)
    assert heads_of_frame(view) == {"L1H3"}


REFUSED_FILMS: dict[str, tuple[list[Any], dict[str, Any], str, str]] = {
    "one": (
        [trace_at_step(0)],
        {},
        "a film needs 2 Traces or more, and here is 1",
        'try film([step_0, step_50], "run.gif")',
    ),
    "no Trace": (
        [trace_at_step(0), "x"],
        {},
        "traces[1] is 'x', and should be a Trace",
        "change traces[1], or leave it out",
    ),
    "another token": (
        [trace_at_step(0), trace_at_step(50, ["The", "dog", "slept"])],
        {},
        "token 2 is 'dog' in 'step 50', and 'animal' in 'step 0'",
        "give Traces of one sentence",
    ),
    "more tokens": (
        [trace_at_step(0), trace_at_step(50, [*WORDS, "."])],
        {},
        "'step 50' has 4 tokens, and 'step 0' 3",
        "give Traces of one sentence",
    ),
    "more heads": (
        [trace_at_step(0), trace_at_step(50, heads=3)],
        {},
        "'step 50' has 1 layer with 3 heads, and 'step 0' 1 layer with 2 heads",
        "give Traces of one model, or of models with as many layers and heads",
    ),
    "too few names": (
        [trace_at_step(0), trace_at_step(50)],
        {"names": ["a"]},
        "1 name cannot name 2 Traces",
        "give each Trace a name, or leave out 'names'",
    ),
    "equal names": (
        [trace_at_step(0), trace_at_step(50)],
        {"names": ["a", "a"]},
        "2 Traces have the name 'a'",
        "give each another one",
    ),
}


@pytest.mark.parametrize(
    ("traces", "options", "problem", "hint"), REFUSED_FILMS.values(), ids=[*REFUSED_FILMS]
)
def test_what_is_no_film_is_refused_in_two_lines(
    traces: list[Any], options: dict[str, Any], problem: str, hint: str
) -> None:
    assert refusal_of(lambda: attnviz.film(traces, **options)) == (problem, hint)


def test_a_head_that_no_trace_has_is_refused(film: attnviz.Film) -> None:
    with pytest.raises(attnviz.AttnvizError, match="there is no head 7 in these Traces") as error:
        film.view(head=7)

    assert error.value.hint == "layers are 0 to 0, heads 0 to 1"


def test_the_slider_of_a_page_leads_from_trace_to_trace(
    film: attnviz.Film, tmp_path: Path, chromium: Browser
) -> None:
    with page_in_browser(chromium, write_page(film.view(), tmp_path)) as page:
        assert page.inner_text("#moment-says") == "step 100"
        page.focus("#layer")
        page.keyboard.press("Home")
        wait_until(page, lambda: page.inner_text("#moment-says") == "step 0")
        page.keyboard.press("ArrowRight")
        wait_until(page, lambda: page.get_attribute("#layer", "aria-valuetext") == "step 50")
        wait_until(page, lambda: "head 1 · step 50" in page.inner_text("#matrix .matrix-title"))
        wait_until(page, lambda: "step+50" in page.url)
        page.click("#reset")
        wait_until(page, lambda: page.input_value("#layer") == "2")


def test_the_change_of_the_title_stands_beside_what_other_tokens_change() -> None:
    traces = [attnviz.trace("I am learning this well", seed=seed) for seed in (1, 2)]
    changes = (traces[1].weights[0, 0] - traces[0].weights[0, 0]).abs()
    query, key = divmod(int(changes.argmax()), 5)
    other_rows = [row for row in range(5) if row not in (query, key)]
    mean = f"{100 * float(changes[other_rows, key].mean()):.0f}\u00a0%"

    sentence = attnviz.film(traces).view().closing[1]
    word = traces[0].tokens.labels[key]
    assert sentence == f'Other tokens change what they give "{word}" by {mean} on average.'
