"""Animations: as many frames as there are steps and moments, and nothing in them jumps."""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look, render
from attnviz.renderers.picture.draw import draw_layout
from attnviz.renderers.picture.glyphs import fixed_settings
from attnviz.renderers.picture.items import ColorBar, Layout, Stroke
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.section import section_pages
from attnviz.views.steps.walk import steps
from attnviz.views.view import View
from attnviz.wings.films import gif
from attnviz.wings.films.gif import to_palette
from attnviz.wings.films.redrawing import changed_parts
from tests.hand import causal_weights, provenance_with, view_of
from tests.test_sections import TOKENS, example_steps, scores_section

EIGHT = ("The", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs")


@pytest.fixture(autouse=True)
def quiet_fonts() -> None:
    warnings.simplefilter("ignore", Note)


def render_animation(view: View, **looks: Any) -> Image.Image:
    return Image.open(io.BytesIO(render(view, ".gif", **looks)))


def frames(image: Image.Image) -> list[np.ndarray]:
    return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


def durations(image: Image.Image) -> list[int]:
    return [frame.info["duration"] for frame in ImageSequence.Iterator(image)]


@pytest.mark.slow("films")
def test_a_frame_for_each_step_and_each_moment_and_at_last_the_page() -> None:
    provenance = provenance_with({"text": "日本"})
    image = render_animation(view_of(*example_steps(moments=3), provenance=provenance), seconds=1.5)

    assert getattr(image, "n_frames", 1) == 5 + 3 + 1
    seconds_shown = np.array([1.5] * 5 + [0.75] + [0.24] * 2 + [3.0])
    most = 5 * 1.5  # seconds: a film takes no longer than five steps do
    expected = 1000 * seconds_shown * most / seconds_shown.sum()
    assert durations(image) == pytest.approx(expected.tolist(), abs=10)  # GIFs count hundredths
    assert image.size == (1280, 720)
    assert image.info["loop"] == 0
    comment = image.info["comment"].decode()
    assert json.loads(comment) == asdict(provenance)
    assert '"text": "日本"' in comment


@pytest.mark.slow("films")
def test_paragraphs_stay_five_seconds_and_single_cells_less_than_one() -> None:
    """A frame with a new sentence over new tables stays half as long as a step."""
    section = scores_section(moments=4)
    *first, last = section.moments
    image = render_animation(
        view_of(replace(section, moments=(*first, replace(last, about="New."))))
    )

    assert durations(image) == [5000, 2500, 800, 800, 2500, 10000]
    assert sum(durations(image)) <= 25_000


@pytest.mark.slow("films")
def test_a_moment_is_never_too_short_to_be_seen() -> None:
    image = render_animation(view_of(scores_section(moments=2)), seconds=0.3)

    assert durations(image) == [300, 200, 200, 600]


def test_in_a_film_of_steps_each_number_moves_from_its_sum_into_its_cell() -> None:
    """A film of 25 seconds begins in colour; its last frame can be read at 480 pixels wide."""
    view = steps("I am learning this", dim=3, query="learning").view()
    look, captions = Look(dpi=60), Captions(view.headline)
    with fixed_settings(view.picture.panels, captions):
        film_frames = list(gif.walk_frames(view, look, captions))
    moving_words = [
        [(word.text, word.x, word.y) for word in each.layout.words if word.bold and word.size < 19]
        for each in film_frames
    ]
    scores = next(each for each in view.sections if each.name == "scores")
    results = [one.sums[0].result.replace("-", "−") for one in scores.moments]
    rings = [
        [s for s in each.layout.items_of(Stroke) if s.series is not None] for each in film_frames
    ]
    starts = [place for place, each in enumerate(rings) if len(each) == 2]

    assert sum(each.seconds for each in film_frames) == pytest.approx(25)
    assert [each[0][0] for each in moving_words if each][: 2 * len(results) : 2] == results
    assert any(panel.grid.scale.kind != "none" for panel in film_frames[0].layout.panels)
    first = film_frames[starts[0]].layout
    assert [panel.grid.title for panel in first.panels] == ["query", "keys", "scores"]
    assert np.isnan(first.panels[-1].grid.values).all()  # its cell is filled when it has come there
    last = film_frames[-1].layout
    pixels = 480 / last.size[0] / 72
    assert min(panel.number_size for panel in last.panels) * pixels >= 9
    words = [word.size for panel in last.panels for word in last.words if word.text in TOKENS]
    assert min(words) * pixels >= 9


def test_frames_that_look_alike_are_frames_all_the_same() -> None:
    section = scores_section(moments=1)
    section_of_equal_moments = replace(section, moments=section.moments * 3)

    assert len(frames(render_animation(view_of(section_of_equal_moments)))) == 1 + 3 + 1


def test_frames_are_their_pictures_to_the_pixel() -> None:
    """Black too, although it is the colour that marks transparent pixels."""
    draw = np.random.default_rng(7)
    pictures = [draw.choice([0x000000, 0xFFFFFF, 0x112233], (20, 30))]
    for _ in range(20):
        pictures.append(pictures[-1].copy())
        pictures[-1][draw.integers(20), draw.integers(30)] = draw.choice([0x000000, 0xFF0000])
    images = map(to_palette, gif._pixel_changes(pictures))

    image = Image.open(io.BytesIO(gif._gif_bytes(images, [1.0] * 21, "")))

    shown_pixels = [frame.astype(int) @ [1 << 16, 1 << 8, 1] for frame in frames(image)]
    assert all((one == other).all() for one, other in zip(shown_pixels, pictures, strict=True))


@pytest.mark.slow_table("films", keep=1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_last_frame_is_the_picture_of_all(theme: str) -> None:
    view = view_of(*example_steps(moments=1), headline="causal attention", caption="four tokens")
    png_bytes = render(view, ".png", theme=theme, dpi=100, size=gif.FILM_SIZE)
    picture = np.asarray(Image.open(io.BytesIO(png_bytes)).convert("RGB"))

    last = frames(render_animation(view, theme=theme, dpi=100))[-1]
    differences = np.abs(last.astype(int) - picture.astype(int))

    assert differences.max() <= 40
    assert differences.mean() < 0.2


@pytest.mark.slow("films")
@pytest.mark.parametrize("footnote", [None, True])
def test_every_frame_says_what_is_random_and_if_wanted_what_made_it(footnote: bool | None) -> None:
    walk = steps("I am", variant="causal", query="am", step="5,6").view()
    texts_by_frame: list[list[str]] = []

    def draw_and_note(layout: Layout, look: Look) -> Figure:
        texts_by_frame.append([word.text for word in layout.words])
        return draw_layout(layout, look)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gif, "draw_layout", draw_and_note)
        patch.setattr(gif, "changed_parts", lambda before, layout: None)
        count = len(frames(render_animation(walk, footnote=footnote)))

    assert len(texts_by_frame) == count == 2 + 2 * 5 + 1
    assert [walk.settings in texts for texts in texts_by_frame] == [footnote is True] * count
    assert all(any(walk.picture.caveat in text for text in texts) for texts in texts_by_frame)


def test_the_tables_of_a_moment_have_a_quarter_of_the_height_and_all_of_the_width() -> None:
    walk = steps("I am learning this", variant="causal", query="learning").view()
    for section in (each for each in walk.sections if each.moments):
        layout = section_pages(section.moments, Look(size=gif.FILM_SIZE), Captions())[0]
        boxes = [panel.box for panel in layout.panels]
        top, foot = max(box[1] + box[3] for box in boxes), min(box[1] for box in boxes)

        assert top - foot > 0.25 * layout.size[1], section.heading
        assert max(box[0] + box[2] for box in boxes) > 0.75 * layout.size[0]


def test_moments_of_a_step_do_not_jump() -> None:
    section = scores_section(moments=16)
    first, *later = section_pages(section.moments, Look(size=(8.0, 4.5)), Captions())
    constant_words = {word for word in first.words if "score(" not in word.text}

    for layout in later:
        assert [panel.box for panel in layout.panels] == [panel.box for panel in first.panels]
        assert layout.panels[0].number_size == first.panels[0].number_size > 0
        assert layout.items_of(Stroke) == first.items_of(Stroke)
        assert [bar.box for bar in layout.items_of(ColorBar)] == [
            bar.box for bar in first.items_of(ColorBar)
        ]
        assert {word for word in layout.words if "score(" not in word.text} == constant_words


@pytest.mark.slow("films")
def test_in_a_moment_only_the_new_cell_and_the_sum_change() -> None:
    before, after = frames(render_animation(view_of(scores_section(moments=2))))[1:3]
    down, across = np.nonzero((before != after).any(axis=2))
    in_the_table = down < 560

    assert np.ptp(across[in_the_table]) < 1280 / 4
    assert np.ptp(down[in_the_table]) < 720 / 4


def test_numbers_are_written_alike_whatever_is_filled_so_far() -> None:
    section = scores_section(moments=4)
    small = section.moments[0].grids[0].with_values(np.full((4, 4), np.nan))
    small.values[0, 0] = 0.01
    full = small.with_values(np.full((4, 4), 12.0))
    sections = [replace(section, grids=(grid,)) for grid in (small, full)]

    one, other = section_pages(sections, Look(), Captions())

    assert one.panels[0].numbers[0, 0] == "0.01"
    assert one.panels[0].number_size == other.panels[0].number_size


@pytest.mark.slow("films")
def test_eight_tokens_of_width_eight_are_far_below_five_megabytes() -> None:
    gif_bytes = render(view_of(*example_steps(EIGHT, width=8, moments=40)), ".gif")

    assert len(gif_bytes) < 2_000_000


def test_tables_by_themselves_are_frames_too() -> None:
    heads = [causal_weights(f"weights L0H{head}") for head in range(3)]

    assert len(frames(render_animation(view_of(*heads)))) == 3 + 1
    assert len(frames(render_animation(view_of(*heads[:1])))) == 1


def test_a_step_without_moments_is_one_frame() -> None:
    image = render_animation(view_of(scores_section(TOKENS)))

    assert len(frames(image)) == 1
    assert image.size == (1280, 720)


@pytest.mark.slow("films")
def test_every_frame_has_the_size_that_is_asked_for() -> None:
    image = render_animation(view_of(*example_steps(moments=1)), size=(7.3, 5.0), dpi=90)

    assert {frame.shape for frame in frames(image)} == {(450, 657, 3)}


def test_more_pixels_than_memory_holds_of_all_frames_are_refused() -> None:
    with pytest.raises(AttnvizError, match="20,000 pixels, and at most 4,000") as error:
        render(view_of(*example_steps(moments=1)), ".gif", size=(40, 40), dpi=500)

    assert error.value.hint == "try dpi=100"


@pytest.mark.slow("films")
def test_what_is_drawn_again_is_what_a_whole_drawing_shows() -> None:
    section = replace(scores_section(moments=16), remarks=())
    look = Look(seconds=1.0)
    size = (1280, 720)
    layouts = section_pages([*section.moments, section], replace(look, size=(8.0, 4.5)), Captions())

    with fixed_settings([section], Captions()):
        drawn_whole = [gif._layout_pixels(layout, look, size) for layout in layouts]
        redrawn = list(gif._changed_pictures(layouts, look, size))

    assert all((one == other).all() for one, other in zip(drawn_whole, redrawn, strict=True))
    assert changed_parts(layouts[0], layouts[1]) is not None
