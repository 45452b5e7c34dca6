"""Slides of -o deck.pptx, as another library (python-pptx) reads them."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pptx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.util import Inches

import attnviz as library
from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look, render
from attnviz.renderers.colors import THEMES
from attnviz.renderers.picture.text import SLIDE, lettering
from attnviz.views.grids.description import describe
from attnviz.views.inspection.head_kinds import head_kind_title
from attnviz.views.view import Group, View, build_page
from attnviz.wings.slides.deck import MAX_PANEL_SLIDES, divide_into_slides
from attnviz.wings.slides.master import MAX_CAPTION_HEIGHT_SHARE, boxes_for, slide_words_for
from tests.conftest import Attnviz
from tests.hand import HOSTILE, causal_weights, provenance_with, view_of
from tests.learned_by_hand import make_learned

TEXT = "I am learning this"
PLACEHOLDER_KINDS = [PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.PICTURE, PP_PLACEHOLDER.BODY]
COARSE_DPI = 30  # pixels to an inch: no test looks at pixels closely


def deck_of(view: View, **look_options: Any) -> Any:
    return pptx.Presentation(
        io.BytesIO(render(view, ".pptx", **{"dpi": COARSE_DPI, **look_options}))
    )


def titles(deck: Any) -> list[str]:
    return [slide.shapes.title.text_frame.text for slide in deck.slides]


def captions(deck: Any) -> list[str]:
    return [slide.placeholders[2].text_frame.text for slide in deck.slides]


def notes(deck: Any) -> list[str]:
    return [slide.notes_slide.notes_text_frame.text for slide in deck.slides]


def pictures(deck: Any) -> list[Any]:
    return [slide.placeholders[1] for slide in deck.slides]


def alternative_text(picture: Any) -> str:
    """The alternative text of a picture."""
    return str(picture.element.nvPicPr.cNvPr.get("descr"))


@pytest.fixture(scope="module")
def heads() -> View:
    return library.trace(TEXT, heads=2, variant="causal").view()


@pytest.fixture(scope="module")
def deck(heads: View) -> Any:
    return deck_of(heads)


def test_all_heads_stand_together_first_and_then_each_alone(deck: Any) -> None:
    assert titles(deck) == [
        "Each token attends only to itself and earlier tokens",
        "In head 0, each token divides its attention among the tokens that it may see",
        "In head 1, each token divides its attention among the tokens that it may see",
    ]


def test_a_slide_is_as_wide_as_screens_are_and_its_words_stand_in_placeholders(deck: Any) -> None:
    assert (deck.slide_width, deck.slide_height) == (Inches(SLIDE[0]), Inches(SLIDE[1]))
    for slide in deck.slides:
        assert [each.placeholder_format.type for each in slide.placeholders] == PLACEHOLDER_KINDS
        assert all(
            run.font.name is None for run in text_runs(slide)
        )  # so that the fonts of the theme apply


def text_runs(slide: Any) -> Iterator[Any]:
    for shape in slide.placeholders:
        if shape.has_text_frame:
            for paragraph in shape.text_frame.paragraphs:
                yield from paragraph.runs


def test_a_picture_is_told_in_words_and_has_none_of_those_around_it(heads: View, deck: Any) -> None:
    panels = heads.picture.panels

    assert [alternative_text(each) for each in pictures(deck)] == [
        describe(panels), describe(panels[:1]), describe(panels[1:]),
    ]  # fmt: skip
    renamed_view = replace(heads, headline="Another title", settings="other settings")
    assert [each.image.sha1 for each in pictures(deck_of(renamed_view))] == [
        each.image.sha1 for each in pictures(deck)
    ]


def test_a_picture_has_the_pixels_of_its_box(heads: View) -> None:
    for picture in pictures(deck_of(heads, dpi=50)):
        wide, high = Image.open(io.BytesIO(picture.image.blob)).size
        assert abs(wide - picture.width / Inches(1) * 50) <= 1
        assert abs(high - picture.height / Inches(1) * 50) <= 1
        assert (picture.crop_left, picture.crop_top) == (0, 0)


def test_a_caption_says_how_to_read_it_and_what_it_depends_on(heads: View, deck: Any) -> None:
    reading_instructions = (
        "each row sums to 1 · hatched = hidden by the mask · random vectors: this shows the "
    )
    with_settings = captions(deck_of(heads, footnote=True))

    assert len(captions(deck)) == len(with_settings) == 3
    for without_settings, with_both in zip(captions(deck), with_settings, strict=True):
        assert without_settings == f"{reading_instructions}mechanism, not what the words mean"
        assert with_both == f"{without_settings}\n{heads.settings}"


def test_notes_say_what_rows_and_columns_are_and_which_command_made_it(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attnviz("run", TEXT, "--heads", "2", "-o", "deck.pptx", "--dpi", "30")

    for each in notes(pptx.Presentation("deck.pptx")):
        lines = each.split("\n")
        assert lines[0].startswith("row = query (reads) · column = key (is read)")
        assert lines[1].startswith(
            "scaled attention · 4 tokens (gpt2) · width 8 · 2 heads of width 4 · "
        )
        assert lines[2] == (
            "Made with: attnviz run 'I am learning this' --heads 2 --out deck.pptx --dpi 30"
        )


def test_what_a_view_concludes_stands_in_the_notes_of_its_first_slide_alone() -> None:
    view = library.trace("the keys", model="agreement", without="L1H0").view()

    first, *others = notes(deck_of(view))

    assert view.notes
    assert others
    assert all(sentence in first for sentence in view.notes)
    assert not any(sentence in text for sentence in view.notes for text in others)


def test_notes_of_the_library_have_the_command_that_would_make_the_same(deck: Any) -> None:
    command_line = "Made with: attnviz run 'I am learning this' --variant causal --heads 2"

    assert all(each.endswith(command_line) for each in notes(deck))


@pytest.mark.slow("pictures")
def test_titles_pictures_and_captions_stand_inside_the_slide_one_below_the_other() -> None:
    view = view_of(causal_weights("a"), causal_weights("b"), headline="What a title! " * 30)

    for size in ((13.333, 7.5), (13.333, 10.0), (10.0, 10.0), (5.0, 5.0)):
        deck = deck_of(replace(view, settings="made of this and that · " * 20), size=size)
        for slide in deck.slides:
            title, picture, caption = (slide.placeholders[place] for place in range(3))
            assert title.top > 0
            assert title.top + title.height <= picture.top
            assert picture.top + picture.height <= caption.top
            assert caption.top + caption.height < deck.slide_height
            assert picture.height > deck.slide_height / 3
            assert title.left == caption.left > 0


def test_heads_that_one_turns_between_stand_in_one_place(deck: Any) -> None:
    first, second = pictures(deck)[1:]

    assert (first.top, first.height) == (second.top, second.height)


def test_a_title_that_is_too_long_is_cut_and_stands_in_the_notes() -> None:
    full_title = "word " * 400
    deck = deck_of(view_of(causal_weights(), headline=full_title.strip()))

    assert titles(deck)[0].endswith("…")
    assert len(titles(deck)[0]) < 400
    assert notes(deck)[0].startswith(full_title.strip())


def test_hostile_words_are_words() -> None:
    hostile_text = " ".join(each for each in HOSTILE if len(each) < 20)
    texts = dict.fromkeys(("headline", "caption", "description"), hostile_text)
    view = view_of(causal_weights("weights", *HOSTILE[:6]), **texts)  # type: ignore[arg-type]
    deck = deck_of(view, footnote=True)

    assert titles(deck) == [hostile_text]
    assert captions(deck)[0].endswith(hostile_text)
    assert hostile_text in notes(deck)[0]
    assert alternative_text(pictures(deck)[0]) == hostile_text


@given(st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=3000))
def test_a_caption_takes_no_more_than_its_part_of_a_slide(text: str) -> None:
    look, letters = Look(size=SLIDE), lettering(SLIDE)
    view = View(headline=text, settings=text, screen=build_page([], ""), picture=build_page([], ""))

    slide_words = slide_words_for(view, look, letters)
    boxes = boxes_for([slide_words], SLIDE, letters)

    assert slide_words.height <= MAX_CAPTION_HEIGHT_SHARE * SLIDE[1]
    assert slide_words.title.lines <= 3
    assert boxes.picture[3] > SLIDE[1] / 3
    caption_texts = [paragraph.text for paragraph in slide_words.caption]
    assert all(each == text or each.endswith("…") for each in caption_texts)


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize("name", THEMES)
def test_paper_and_ink_are_those_of_the_theme(heads: View, name: str) -> None:
    deck = deck_of(heads, theme=name)
    master = deck.slide_master
    background = master.element.cSld.find(".//{*}bgRef/{*}schemeClr").get("val")
    color_map = master.element.find("{*}clrMap").attrib
    colors = THEMES[name]

    assert (background, theme_color(master, color_map["bg1"])) == ("bg1", colors.paper)
    assert theme_color(master, color_map["tx1"]) == colors.ink
    assert theme_color(master, color_map["tx2"]) == colors.faint
    assert theme_color(master, "accent1") == colors.series[0]
    picture = Image.open(io.BytesIO(pictures(deck)[0].image.blob))
    assert picture.getpixel((0, 0)) == tuple(bytes.fromhex(colors.paper[1:]))


def theme_color(master: Any, name: str) -> str:
    """A colour of the theme that the slides are stored with, as #rrggbb."""
    theme = master.part.part_related_by(
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships/theme"
    ).blob.decode()
    return f"#{theme.partition(f'<a:{name}><a:srgbClr val=')[2][1:7].lower()}"


def test_a_deck_says_what_made_it_and_not_when() -> None:
    provenance = provenance_with({"text": "日本", "long": "x" * 500})
    view = view_of(causal_weights(), headline="heads & tails", provenance=provenance)
    content = render(view, ".pptx", dpi=COARSE_DPI)
    properties = pptx.Presentation(io.BytesIO(content)).core_properties

    assert (properties.title, properties.author) == ("heads & tails", "attnviz")
    assert json.loads(properties.comments) == asdict(provenance)
    assert (properties.created, properties.modified, properties.last_modified_by) == (
        None,
        None,
        "",
    )
    with ZipFile(io.BytesIO(content)) as parts:
        assert {each.date_time[0] for each in parts.infolist()} == {1980}
        assert not [name for name in parts.namelist() if "thumbnail" in name or "printer" in name]


@pytest.mark.slow("pictures")
def test_each_step_has_a_slide_with_what_happens_in_it() -> None:
    view = library.steps(TEXT, query="learning").view()
    deck = deck_of(view)

    assert titles(deck) == [section.finding or section.heading for section in view.sections]
    for section, caption, slide_notes in zip(
        view.sections, captions(deck), notes(deck), strict=True
    ):
        assert caption.startswith(section.about.replace("d_k", "dₖ"))
        assert all(f"= {line.right_side}" in slide_notes for line in section.sums)
        assert all(remark in slide_notes for remark in section.remarks)
    mask_slide = titles(deck).index("Step 7: mask")
    placeholder_kinds = [
        section.placeholder_format.type for section in deck.slides[mask_slide].placeholders
    ]
    assert placeholder_kinds == [PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.BODY]
    slides_with_pictures = [slide for place, slide in enumerate(deck.slides) if place != mask_slide]
    assert alternative_text(slides_with_pictures[0].placeholders[1]) == describe(view.sections[:1])


def test_a_title_of_ones_own_stands_over_all_and_says_which() -> None:
    heads = library.trace(TEXT, heads=2).view()
    titled_heads = replace(heads, title="Mine", headline="Mine", has_chosen_title=True)
    steps_view = library.steps(TEXT, step="5-6").view()
    titled_steps = replace(steps_view, title="Mine", headline="Mine", has_chosen_title=True)

    assert titles(deck_of(titled_heads)) == ["Mine", "Mine · head 0", "Mine · head 1"]
    assert titles(deck_of(titled_steps)) == ["Mine · Step 5: scores", "Mine · Step 6: scaling"]


def slide_titles(view: View) -> list[str]:
    """The titles of the slides of a view, without drawing them."""
    return [each.view.headline for each in divide_into_slides(view)]


def test_a_comparison_has_a_slide_for_each_way_each_difference_and_the_measures() -> None:
    view = library.compare(TEXT, by="scale").view(repeats=2)

    assert slide_titles(view) == [
        view.headline,
        "compared by scale · unscaled",
        "compared by scale · scaled",
        "compared by scale · scaled − unscaled",
        "compared by scale · measures",
    ]


def test_few_heads_of_a_model_have_a_slide_each_with_what_they_do_most() -> None:
    heads = library.trace("a b a b a b", tokenizer="words", layers=2, heads=2)
    view = library.inspect(heads).view()
    first, *head_titles = slide_titles(view)

    assert first == view.headline
    assert [re.findall(r"L\dH\d", title) for title in head_titles] == [
        ["L0H0"], ["L0H1"], ["L1H0"], ["L1H1"],
    ]  # fmt: skip
    expected_titles = [head_kind_title(library.inspect(heads), place) for place in range(4)]
    assert head_titles == expected_titles
    assert any(title.endswith("\u00a0% on average)") for title in head_titles)
    assert view.slide_excerpt.hint == ""


def test_of_many_heads_those_have_one_that_do_most_and_it_is_said() -> None:
    heads = library.trace("a b c a b c a b", tokenizer="words", layers=3, heads=8)
    view = library.inspect(heads).view()

    with pytest.warns(Note) as notes_caught:
        deck = deck_of(view)

    heads_with_slides = len(deck.slides) - 1
    note = (
        f"heads with slides of their own: {heads_with_slides} of 24 heads, the strongest of each "
        "kind; layer=0, or head=0, makes a slide for each of its heads"
    )
    assert 1 <= heads_with_slides < 9
    assert [str(each.message) for each in notes_caught] == [note]
    assert note in notes(deck)[0].split("\n")
    assert all(re.search(r"L\dH\d.*\u00a0%", title) for title in titles(deck)[1:])


def test_very_many_panels_are_counted_and_what_is_left_out_is_said() -> None:
    view = view_of(
        *(causal_weights(f"weights L0H{head}", "a", "b") for head in range(MAX_PANEL_SLIDES + 2))
    )
    first_slide, *panel_slides = divide_into_slides(replace(view, title="t"))

    assert len(panel_slides) == MAX_PANEL_SLIDES
    assert first_slide.left_out_note == (
        f"2 of {MAX_PANEL_SLIDES + 2} panels have no slide of their own and are only on the first "
        "one"
    )


def test_an_equation_has_one_slide_and_what_is_called_alike_is_counted() -> None:
    view = library.trace(TEXT, heads=2).view(show=["queries", "keys", "scores"])
    equally_named_panels = view_of(causal_weights("a"), causal_weights("a"))

    assert slide_titles(view)[1:] == [
        "Each score is one query times one key · head 0",
        "Each score is one query times one key · head 1",
    ]
    assert slide_titles(equally_named_panels) == ["", "a (1)", "a (2)"]


def test_what_stands_below_a_panel_has_a_slide_behind_it() -> None:
    first, second = causal_weights("one"), causal_weights("two")
    group = Group("ways", (first, second), below=(None, causal_weights("minus one")), kind="rows")
    page = build_page([group], "")

    view = View(title="t", headline="t", screen=page, picture=page)

    assert slide_titles(view) == ["t", "t · one", "t · two", "t · two minus one"]


def test_what_one_token_reads_is_said_of_each_part() -> None:
    heads = library.trace("a b a b", tokenizer="words", layers=2, heads=2)
    titles_of_slides = slide_titles(library.inspect(heads, query="2").view())

    assert len(titles_of_slides) == len(set(titles_of_slides)) > 2
    assert all(
        title.startswith('What "b" (2) attends to in the mean of 4 heads')
        for title in titles_of_slides
    )


def test_a_model_that_learned_has_its_heads_as_they_are_now_and_charts() -> None:
    view = make_learned().view()
    titles_of_slides = slide_titles(view)

    weight_titles = [title for title in titles_of_slides if "weights" in title]
    assert weight_titles
    assert all("step" in title for title in weight_titles)
    assert [title for title in titles_of_slides if title.endswith("loss")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("-o", "x{page}.pptx"),
            "error: 'x{page}.pptx' is one file with all slides: {page} has no meaning in its "
            "name\n"
            " hint: try -o slides.pptx\n",
        ),
        (
            ("-o", "x-{step}.pptx"),
            "error: 'x-{step}.pptx' is one file with all slides: {step} has no meaning in its "
            "name\n"
            " hint: try -o slides.pptx\n",
        ),
        (
            ("-o", "x.pptx", "--size", "4x4"),
            "error: slides of 4 by 4 inches have no room for a picture\n"
            " hint: try --size 16:9 or 4:3\n",
        ),
    ],
)
def test_what_no_deck_can_be_is_refused(
    attnviz: Attnviz, arguments: tuple[str, ...], error: str
) -> None:
    assert attnviz("steps", TEXT, *arguments).err == error


def test_without_python_pptx_nothing_is_computed(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pptx", None)

    result = attnviz("run", TEXT, "--query", "no such token", "-o", "x.pptx")

    assert (result.status, result.err) == (
        2,
        "error: .pptx needs python-pptx, which is not installed\n"
        ' hint: pip install "attnviz[slides]"\n',
    )
    with pytest.raises(AttnvizError, match="needs python-pptx"):
        render(view_of(causal_weights()), ".pptx")


def test_lines_between_words_are_drawn_on_slides(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert attnviz("run", TEXT, "--as", "arcs", "-o", "x.pptx", "--dpi", "30").status == 0
