"""Films of heads that learn: a frame for each shot, in which nothing jumps."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from attnviz.learning.lookup import task_of
from attnviz.learning.training import Learned, learn
from attnviz.renderers import Look, render
from attnviz.renderers.picture.draw import draw_layout
from attnviz.renderers.picture.glyphs import fixed_settings
from attnviz.renderers.picture.items import Chart, Layout
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.views.conclusions.learning_findings import training_sentence
from attnviz.views.view import View
from attnviz.wings.films import gif
from attnviz.wings.films.gif import FILM_SIZE, film_frames
from tests.conftest import unchecked
from tests.learned_by_hand import make_learned, task

MAX_BYTES = 2_000_000


@pytest.fixture(scope="module")
def reversed_letters() -> Learned:
    with unchecked():
        return learn(task_of("reverse"))


@cache
def view_of_heads() -> View:
    return make_learned().view()


def layouts_of(view: View, look: Look) -> list[Layout]:
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions):
        return [frame.layout for frame in film_frames(view, view.shots, look, captions)]


def open_image(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


@pytest.mark.slow("films")
def test_a_film_shows_every_moment_and_lingers_at_its_end(reversed_letters: Learned) -> None:
    content = render(reversed_letters.view(), ".gif", seconds=3)
    film = open_image(content)
    durations = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]

    assert len(durations) == len(reversed_letters.moments)
    assert len(set(durations[1:-1])) == 1
    assert sum(durations) == pytest.approx(3000 * 2, rel=0.1)
    assert durations[-1] > 2000
    assert film.size == tuple(round(100 * side) for side in FILM_SIZE)
    assert film.info["loop"] == 0
    assert len(content) < MAX_BYTES


def test_of_a_long_training_a_film_has_sixty_moments() -> None:
    steps, short_task = tuple(range(0, 4000, 10)), task(watch="the old keys are")
    film = make_learned({}, steps=steps, layers=1, of=short_task).view().shots

    assert 40 <= len(film) <= 60


def test_nothing_jumps() -> None:
    """Panels, charts and the words beside them have their places in all frames."""
    first_layout, *other_layouts = layouts_of(view_of_heads(), Look())

    places = (
        [panel.box for panel in first_layout.panels],
        [chart.box for chart in first_layout.items_of(Chart)],
    )
    for layout in other_layouts:
        assert layout.size == first_layout.size
        assert [panel.box for panel in layout.panels] == places[0]
        assert [chart.box for chart in layout.items_of(Chart)] == places[1]
        changed_words = {word.text for word in set(first_layout.words) ^ set(layout.words)}
        assert all(
            text.startswith(("Step", "After", "subject", "the subject", "reads"))
            for text in changed_words
        ), changed_words


def test_charts_are_equally_high_and_their_names_and_those_of_heads_of_one_size() -> None:
    for look in (Look(), Look(size=(13.333, 7.5)), Look(size=(8.0, 5.0))):
        layout = layouts_of(view_of_heads(), look)[-1]
        heights = [chart.box[3] for chart in layout.items_of(Chart)]
        sizes_of_readings = {
            word.size for word in layout.words if word.text.startswith("subject .")
        }
        sizes_of_chart_names = {
            word.size for word in layout.words if word.text in ("loss", "subject", "accuracy")
        }

        assert heights == pytest.approx([heights[0]] * 2)
        assert len(sizes_of_readings) <= 1
        assert len(sizes_of_chart_names) == 1


def test_charts_stand_below_a_row_of_tables_and_beside_high_ones() -> None:
    layout_of_row, layout_of_high_tables = (
        layouts_of(make_learned({}, layers=layers, heads=heads).view(), Look())[-1]
        for layers, heads in ((2, 2), (4, 2))
    )

    assert max(chart.box[1] for chart in layout_of_row.items_of(Chart)) < min(
        p.box[1] for p in layout_of_row.panels
    )
    assert min(chart.box[0] for chart in layout_of_high_tables.items_of(Chart)) > max(
        p.box[0] for p in layout_of_high_tables.panels
    )


def test_the_last_frame_says_what_came_of_it_and_the_first_what_there_was() -> None:
    learned_model = make_learned()
    film = learned_model.view().shots

    assert film[-1].title == training_sentence(learned_model).removesuffix(".")
    assert film[0].title == "Step \u20070: \u2007\u20070\xa0% of the verbs are right"
    assert film[-2].title == "Step 40: \u200750\xa0% of the verbs are right"


def test_a_title_of_ones_own_stands_over_every_frame() -> None:
    view = make_learned().view()
    title = {"headline": "Heads at school", "has_chosen_title": True}
    view_with_title = type(view)(**{**vars(view), **title})

    for layout in layouts_of(view_with_title, Look()):
        assert "Heads at school" in [word.text for word in layout.words]


def test_curves_have_come_as_far_as_the_moment() -> None:
    layouts = layouts_of(view_of_heads(), Look())

    for place, layout in enumerate(layouts):
        for chart in layout.items_of(Chart):
            assert {len(trail.x) for trail in chart.trails} == {place + 1}
    last_trail, early_trail = (layouts[place].items_of(Chart)[0].trails[0] for place in (-1, 3))
    assert (early_trail.line.middle == last_trail.line.middle[:4]).all()


@pytest.mark.slow("films")
@pytest.mark.parametrize(
    ("dpi", "theme", "palette", "max_difference"),
    [(100, "dark", "viridis", 4), (57, "light", "greys", 48)],
)
def test_cells_that_are_painted_are_those_that_would_be_drawn(
    dpi: int, theme: str, palette: str, max_difference: int
) -> None:
    """To the pixel; where lines between cells are thinner than one, its neighbours share it."""
    view = make_learned(steps=(0, 5, 80)).view()
    look = Look(dpi=dpi, theme=theme, colors=palette, numbers=False)
    layouts = layouts_of(view, look)
    size = gif._pixel_size(layouts[0].size, look)
    with fixed_settings(view.picture.panels, view_captions(view, look)):
        painted_pictures = list(gif._repainted_pictures(layouts, look, size))
        drawn_pictures = [gif._layout_pixels(layout, look, size) for layout in layouts]

    for painted_picture, drawn_picture in zip(painted_pictures, drawn_pictures, strict=True):
        assert (
            np.abs(color_channels(painted_picture) - color_channels(drawn_picture)).max()
            <= max_difference
        )
    assert (painted_pictures[0] != painted_pictures[-1]).any()


def color_channels(pixels: np.ndarray) -> np.ndarray:
    integers = pixels.astype(int)
    return np.stack([integers >> 16, integers >> 8 & 255, integers & 255])


@pytest.mark.slow("films")
def test_numbers_stand_in_cells_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers_settings: list[bool | None] = []

    def record_and_draw(layout: Layout, look: Look) -> Figure:
        numbers_settings.append(look.numbers)
        return draw_layout(layout, look)

    monkeypatch.setattr(gif, "draw_layout", record_and_draw)
    view = make_learned(steps=(0, 9)).view()

    view.render(".gif", dpi=30, numbers=True)
    assert set(numbers_settings) == {True}
    view.render(".gif", dpi=30)
    assert False in numbers_settings
