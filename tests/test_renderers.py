"""What holds for every renderer, and for each kind of picture."""

from __future__ import annotations

import io
import json
import re
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from PIL import Image

from attnviz.errors import Note
from attnviz.renderers import colors, render
from attnviz.renderers.picture import glyphs
from attnviz.renderers.picture.draw import scale_cells
from attnviz.renderers.picture.items import ColorBar
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.panel_rows import possible_orders
from attnviz.renderers.picture.panels import NATURAL_SCALE, lay_out
from attnviz.renderers.picture.text import Lettering, lettering
from attnviz.views.grids.description import has_masked_cells
from attnviz.views.grids.section import Drawable
from attnviz.views.view import Group, View, build_page
from tests.hand import (
    HOSTILE,
    PANEL_SUFFIXES,
    SVG,
    causal_weights,
    many_words,
    provenance_with,
    texts_of_svg,
    vectors,
    view_of,
)

# In tests no installed font is found: conftest.py replaces this function.
find_installed_fonts = glyphs._installed_fonts.__wrapped__


@pytest.fixture(autouse=True)
def ignore_font_notes() -> None:
    """Which glyphs are missing depends on the machine; one test below asks for the warning."""
    warnings.simplefilter("ignore", Note)


def picture_pixels(panel: Drawable, **looks: Any) -> np.ndarray:
    content = render(view_of(panel), ".png", **looks)
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGBA"))


@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
@pytest.mark.parametrize("theme", colors.THEMES)
def test_hostile_tokens_are_drawn_as_they_are(suffix: str, theme: str) -> None:
    view = view_of(
        causal_weights("weights $\\frac$", *HOSTILE),
        headline="<b>[red]$x$</b>",
        caption="a · $b$",
        description="]]></desc>",
    )

    content = render(view, suffix, theme=theme)

    assert len(content) > 1000
    if suffix == ".svg":
        labels = texts_of_svg(content)
        for label in (
            "[red]",
            "$x$",
            "<b>",
            "</script>",
            "&amp;",
            "]]>",
            "\\u001b[31m",
            "<|endoftext|>",
        ):
            assert label in labels
        assert b"<b>" not in content
        assert b"</script>" not in content
    if suffix == ".txt":
        assert all(label in content.decode() for label in HOSTILE)


@pytest.mark.slow_table("formats", keep=4)
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
def test_the_same_grids_give_the_same_bytes(suffix: str) -> None:
    view = view_of(causal_weights(), vectors())

    assert render(view, suffix) == render(view, suffix)


@pytest.mark.slow_table("formats", keep=8)
@pytest.mark.parametrize("suffix", PANEL_SUFFIXES)
@pytest.mark.parametrize("count", [1, 2, 70, 300])
def test_any_number_of_tokens_is_drawn(suffix: str, count: int) -> None:
    assert render(view_of(many_words(count), vectors(count, 3)), suffix)


def test_a_picture_has_the_colours_of_its_scale() -> None:
    pixels = picture_pixels(causal_weights())
    pixel_colors = {
        tuple(color) for color in np.unique(pixels.reshape(-1, 4)[:, :3], axis=0).tolist()
    }

    anchors = colors.color_anchors("ocean", "light", "sequential")
    for weight in (1.0, 2 / 3, 1 / 3):
        assert tuple(colors.color_values(np.array(weight), 0, 1, anchors).tolist()) in pixel_colors
    assert tuple(bytes.fromhex(colors.THEMES["light"].hidden[1:])) in pixel_colors


@pytest.mark.parametrize("theme", colors.THEMES)
def test_what_is_hidden_looks_like_no_weight(theme: str) -> None:
    for palette in colors.PALETTES:
        hidden = np.array([*bytes.fromhex(colors.THEMES[theme].hidden[1:])])
        shades = colors.color_values(
            np.linspace(0, 1, 500), 0, 1, colors.color_anchors(palette, theme, "sequential")
        )
        assert np.abs(shades.astype(int) - hidden).max(axis=1).min() > 15


@pytest.mark.parametrize("palette", colors.PALETTES)
@pytest.mark.parametrize("theme", colors.THEMES)
def test_lightness_goes_one_way_from_0_to_1(palette: str, theme: str) -> None:
    shades = colors.color_values(
        np.linspace(0, 1, 33), 0, 1, colors.color_anchors(palette, theme, "sequential")
    )
    steps = np.diff(shades @ np.array([0.2126, 0.7152, 0.0722]))

    assert (steps > 0.5).all() or (steps < -0.5).all()


@pytest.mark.parametrize("suffix", [".txt", ".md"])
def test_texts_do_not_speak_of_hatching(suffix: str) -> None:
    page = build_page([Group("weights", (causal_weights(),))], "settings")
    text = render(View(screen=page, picture=page), suffix).decode()

    assert has_masked_cells(page.panels)
    assert "hidden by the mask" in text
    assert "hatched" not in text


def test_ink_is_chosen_by_contrast() -> None:
    shades = np.array([[255, 255, 255], [0, 0, 0], [0, 128, 195], [113, 204, 228]], dtype=np.uint8)

    assert colors.needs_dark_ink(shades).tolist() == [True, False, False, True]


def test_size_dpi_and_transparency_are_obeyed() -> None:
    pixels = picture_pixels(causal_weights(), size=(8, 5), dpi=100, transparent=True)

    assert pixels.shape == (500, 800, 4)
    assert pixels[0, 0, 3] == 0
    assert picture_pixels(causal_weights(), theme="dark")[0, 0].tolist() == [0x15, 0x17, 0x1C, 255]


def test_a_png_says_what_made_it() -> None:
    provenance = provenance_with({"text": "日本"})
    view = view_of(causal_weights(), headline="日本", provenance=provenance)
    picture = Image.open(io.BytesIO(render(view, ".png")))

    assert json.loads(picture.info["attnviz"]) == asdict(provenance)
    assert '"text": "日本"' in picture.info["attnviz"]
    assert picture.info["Title"] == "日本"


def test_an_svg_has_a_title_a_description_and_text_that_is_text() -> None:
    view = view_of(
        causal_weights(),
        headline="heads & tails",
        description="who reads <whom>",
        provenance=provenance_with({}),
    )
    content = render(view, ".svg")
    root = ElementTree.fromstring(content)

    assert root[0].tag == f"{SVG}title"
    assert (root[0].text, root[1].text) == ("heads & tails", "who reads <whom>")
    assert (root.get("role"), root[0].get("id")) == ("img", f"title-{root[1].get('id', '')[-8:]}")
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    assert {"I", "am", "learning", "this", "query (reads)", "key (is read)", ".67"} <= set(
        texts_of_svg(content)
    )


def test_a_pdf_embeds_its_fonts() -> None:
    content = render(view_of(causal_weights(), headline="a title"), ".pdf")

    assert content.startswith(b"%PDF")
    assert b"/FontFile2" in content
    assert b"DejaVuSans" in content


def test_heads_share_one_colour_bar() -> None:
    heads = [causal_weights(f"weights L0H{head}") for head in range(4)]

    layout = lay_out(possible_orders(heads), None, Captions())
    labels = texts_of_svg(render(view_of(*heads), ".svg"))

    assert len(layout.items_of(ColorBar)) == 1
    assert labels.count("weight") == 1
    assert {"0", "0.5", "1"} <= set(labels)


@pytest.mark.parametrize("count", [4, 16, 64, 128, 512])
@pytest.mark.parametrize("size", [None, (13.333, 7.5), (8.0, 6.0)])
def test_labels_shrink_then_thin_out_and_stay_in_the_picture(
    count: int, size: tuple[float, float] | None
) -> None:
    layout = lay_out(possible_orders([many_words(count)]), size, Captions("title"))
    letters = lettering(layout.size) if size else Lettering().scaled(NATURAL_SCALE)
    labels = [
        word
        for word in layout.words
        if "word" in word.text and word.angle == 0 and word.halign == "right"
    ]

    assert all(letters.smallest - 1e-6 <= word.size <= letters.label + 1e-6 for word in labels)
    assert len(labels) <= count
    gaps = np.abs(np.diff([word.y for word in labels]))
    assert (gaps >= labels[0].size / 72 * 0.9).all()
    for panel in layout.panels:
        left, bottom, width, height = panel.box
        assert left > 0
        assert bottom > 0
        assert left + width < layout.size[0]
        assert bottom + height < layout.size[1]


def test_a_word_that_stands_twice_has_its_numbers() -> None:
    few, most = (
        set(texts_of_svg(render(view_of(causal_weights("weights", *text.split())), ".svg")))
        for text in ("the cat sees the mat", "the cat the")
    )

    assert {"1 the", "4 the", "cat"} <= few
    assert {"1 the", "2 cat", "3 the"} <= most  # one word alone without its number looks wrong


def test_numbers_are_written_while_they_fit_and_not_when_unwanted() -> None:
    assert ".67" in texts_of_svg(render(view_of(causal_weights()), ".svg"))
    assert ".67" not in texts_of_svg(render(view_of(causal_weights()), ".svg", numbers=False))
    assert ".67" not in texts_of_svg(render(view_of(many_words(64)), ".svg"))


def test_a_picture_of_more_cells_than_pixels_says_what_it_pooled() -> None:
    labels = texts_of_svg(render(view_of(many_words(500)), ".svg", dpi=30))

    assert any("one cell = 5 × 5 tokens" in text for text in labels)


def test_cells_scaled_up_keep_their_edges_and_scaled_down_are_blended() -> None:
    rgb = np.array([[[0] * 3, [200] * 3]], dtype=np.uint8)

    assert scale_cells(rgb, 8, 4)[:, :, 0].tolist() == [[0] * 4 + [200] * 4] * 4
    assert scale_cells(rgb, 1, 1)[0, 0].tolist() == [100] * 3


def test_a_character_in_no_font_is_drawn_as_its_code_point_and_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(glyphs, "_font_file", lambda character: None if character == "ⵣ" else "")

    with pytest.warns(Note, match="no installed font has ⵣ: drawn as code points") as notes:
        content = render(view_of(causal_weights("weights", "a", "ⵣⵣ")), ".svg")

    assert len(notes) == 1
    assert "U+2D63U+2D63" in texts_of_svg(content)


def test_fonts_are_searched_for_other_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    font_path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "STIXGeneral.ttf"
    monkeypatch.setattr(glyphs, "_installed_fonts", lambda: [str(font_path)])
    glyphs._font_file.cache_clear()

    assert glyphs.font_families(["plain"]) == [glyphs.FIRST_FONT]
    assert glyphs.font_families(["ℊ"]) == [glyphs.FIRST_FONT, "STIXGeneral"]
    assert glyphs.drawable_text("éℊ日") == "éℊU+65E5"

    glyphs._font_file.cache_clear()


def test_the_plain_fonts_of_a_machine_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    font_paths = ["/f/SomeSans-Bold.ttf", "/f/SomeSerif-Regular.ttf", "/f/SomeSans-Regular.ttf"]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: font_paths)

    assert find_installed_fonts() == [font_paths[2], font_paths[1], font_paths[0]]


def test_no_label_needs_a_font_that_matplotlib_has_not() -> None:
    assert not re.search("U\\+", "".join(map(glyphs.drawable_text, "␣↵⇥⟨⟩◌·…≥×")))
