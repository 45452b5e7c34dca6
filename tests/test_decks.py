"""Slides of -o deck.pptx, as somebody else's reader finds them."""

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
from attnviz.renderers.slides.deck import MAX_PANEL_SLIDES, divide_into_slides
from attnviz.renderers.slides.master import MAX_CAPTION_HEIGHT_SHARE, boxes_for, slide_words_for
from attnviz.views.grids.description import describe
from attnviz.views.inspection.head_kinds import head_kind_title
from attnviz.views.view import Group, View, build_page
from attnviz.wording.commands import options_as_keywords
from tests.conftest import Attnviz
from tests.hand import HOSTILE, causal_weights, provenance_with, view_of
from tests.learned_by_hand import make_learned

TEXT = "I am learning this"
KINDS = [PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.PICTURE, PP_PLACEHOLDER.BODY]
COARSE = 30  # pixels to an inch: what is asked here, no pixel tells


def deck_of(view: View, **looks: Any) -> Any:
    return pptx.Presentation(io.BytesIO(render(view, ".pptx", **{"dpi": COARSE, **looks})))


def titles(deck: Any) -> list[str]:
    return [slide.shapes.title.text_frame.text for slide in deck.slides]


def captions(deck: Any) -> list[str]:
    return [slide.placeholders[2].text_frame.text for slide in deck.slides]


def notes(deck: Any) -> list[str]:
    return [slide.notes_slide.notes_text_frame.text for slide in deck.slides]


def pictures(deck: Any) -> list[Any]:
    return [slide.placeholders[1] for slide in deck.slides]


def told(picture: Any) -> str:
    """Its alternative text."""
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
        'In head 0, "am" gives itself 66\u00a0% of its attention',
        'In head 1, "am" gives itself 98\u00a0% of its attention',
    ]


def test_a_slide_is_as_wide_as_screens_are_and_its_words_stand_in_placeholders(deck: Any) -> None:
    assert (deck.slide_width, deck.slide_height) == (Inches(SLIDE[0]), Inches(SLIDE[1]))
    for slide in deck.slides:
        assert [each.placeholder_format.type for each in slide.placeholders] == KINDS
        assert all(run.font.name is None for run in runs(slide))  # so that the theme's are taken


def runs(slide: Any) -> Iterator[Any]:
    for shape in slide.placeholders:
        if shape.has_text_frame:
            for paragraph in shape.text_frame.paragraphs:
                yield from paragraph.runs


def test_a_picture_is_told_in_words_and_has_none_of_those_around_it(heads: View, deck: Any) -> None:
    drawn = heads.picture.panels

    assert [told(each) for each in pictures(deck)] == [
        describe(drawn), describe(drawn[:1]), describe(drawn[1:]),
    ]  # fmt: skip
    other = replace(heads, headline="Another title", settings="other settings")
    assert [each.image.sha1 for each in pictures(deck_of(other))] == [
        each.image.sha1 for each in pictures(deck)
    ]


def test_a_picture_has_the_pixels_of_its_box(heads: View) -> None:
    for picture in pictures(deck_of(heads, dpi=50)):
        wide, high = Image.open(io.BytesIO(picture.image.blob)).size
        assert abs(wide - picture.width / Inches(1) * 50) <= 1
        assert abs(high - picture.height / Inches(1) * 50) <= 1
        assert (picture.crop_left, picture.crop_top) == (0, 0)


def test_a_caption_says_how_to_read_it_and_what_it_depends_on(heads: View, deck: Any) -> None:
    how = "each row sums to 1 · hatched = hidden by the mask · random vectors: this shows the "
    with_settings = captions(deck_of(heads, footnote=True))

    assert len(captions(deck)) == len(with_settings) == 3
    for alone, both in zip(captions(deck), with_settings, strict=True):
        assert alone == f"{how}mechanism, not what the words mean"
        assert both == f"{alone}\n{heads.settings}"


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


def test_notes_of_the_library_have_the_command_that_would_make_the_same(deck: Any) -> None:
    made = "Made with: attnviz run 'I am learning this' --variant causal --heads 2"

    assert all(each.endswith(made) for each in notes(deck))


def test_titles_pictures_and_captions_stand_inside_the_slide_one_below_the_other() -> None:
    view = view_of(causal_weights("a"), causal_weights("b"), headline="What a title! " * 30)

    for size in ((13.333, 7.5), (13.333, 10.0), (10.0, 10.0), (5.0, 5.0)):
        made = deck_of(replace(view, settings="made of this and that · " * 20), size=size)
        for slide in made.slides:
            title, picture, caption = (slide.placeholders[place] for place in range(3))
            assert title.top > 0
            assert title.top + title.height <= picture.top
            assert picture.top + picture.height <= caption.top
            assert caption.top + caption.height < made.slide_height
            assert picture.height > made.slide_height / 3
            assert title.left == caption.left > 0


def test_heads_that_one_turns_between_stand_in_one_place(deck: Any) -> None:
    first, second = pictures(deck)[1:]

    assert (first.top, first.height) == (second.top, second.height)


def test_a_title_that_is_too_long_is_cut_and_stands_in_the_notes() -> None:
    whole = "word " * 400
    made = deck_of(view_of(causal_weights(), headline=whole.strip()))

    assert titles(made)[0].endswith("…")
    assert len(titles(made)[0]) < 400
    assert notes(made)[0].startswith(whole.strip())


def test_hostile_words_are_words() -> None:
    shown = " ".join(each for each in HOSTILE if len(each) < 20)
    words = dict.fromkeys(("headline", "caption", "description"), shown)
    view = view_of(causal_weights("weights", *HOSTILE[:6]), **words)  # type: ignore[arg-type]
    made = deck_of(view, footnote=True)

    assert titles(made) == [shown]
    assert captions(made)[0].endswith(shown)
    assert shown in notes(made)[0]
    assert told(pictures(made)[0]) == shown


@given(st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=3000))
def test_a_caption_takes_no_more_than_its_part_of_a_slide(text: str) -> None:
    look, letters = Look(size=SLIDE), lettering(SLIDE)
    view = View(headline=text, settings=text, screen=build_page([], ""), picture=build_page([], ""))

    said = slide_words_for(view, look, letters)
    places = boxes_for([said], SLIDE, letters)

    assert said.height <= MAX_CAPTION_HEIGHT_SHARE * SLIDE[1]
    assert said.title.lines <= 3
    assert places.picture[3] > SLIDE[1] / 3
    shown = [paragraph.text for paragraph in said.caption]
    assert all(each == text or each.endswith("…") for each in shown)


@pytest.mark.parametrize("name", THEMES)
def test_paper_and_ink_are_those_of_the_theme(heads: View, name: str) -> None:
    made = deck_of(heads, theme=name)
    master = made.slide_master
    background = master.element.cSld.find(".//{*}bgRef/{*}schemeClr").get("val")
    mapped = master.element.find("{*}clrMap").attrib
    colors = THEMES[name]

    assert (background, slot(master, mapped["bg1"])) == ("bg1", colors.paper)
    assert slot(master, mapped["tx1"]) == colors.ink
    assert slot(master, mapped["tx2"]) == colors.faint
    assert slot(master, "accent1") == colors.series[0]
    drawn = Image.open(io.BytesIO(pictures(made)[0].image.blob))
    assert drawn.getpixel((0, 0)) == tuple(bytes.fromhex(colors.paper[1:]))


def slot(master: Any, name: str) -> str:
    """A colour of a theme, as it is written there."""
    theme = master.part.part_related_by(
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships/theme"
    ).blob.decode()
    return f"#{theme.partition(f'<a:{name}><a:srgbClr val=')[2][1:7].lower()}"


def test_a_deck_says_what_made_it_and_not_when() -> None:
    provenance = provenance_with({"text": "日本", "long": "x" * 500})
    view = view_of(causal_weights(), headline="heads & tails", provenance=provenance)
    content = render(view, ".pptx", dpi=COARSE)
    facts = pptx.Presentation(io.BytesIO(content)).core_properties

    assert (facts.title, facts.author) == ("heads & tails", "attnviz")
    assert json.loads(facts.comments) == asdict(provenance)
    assert (facts.created, facts.modified, facts.last_modified_by) == (None, None, "")
    with ZipFile(io.BytesIO(content)) as parts:
        assert {each.date_time[0] for each in parts.infolist()} == {1980}
        assert not [name for name in parts.namelist() if "thumbnail" in name or "printer" in name]


def test_each_step_has_a_slide_with_what_happens_in_it() -> None:
    view = library.steps(TEXT, query="learning").view()
    made = deck_of(view)

    assert titles(made) == [each.finding or each.heading for each in view.sections]
    for each, caption, said in zip(view.sections, captions(made), notes(made), strict=True):
        assert caption.startswith(each.about.replace("d_k", "dₖ"))
        assert all(f"= {line.right_side}" in said for line in each.sums)
        assert all(remark in said for remark in each.remarks)
    nothing = titles(made).index("7 mask")
    kinds = [each.placeholder_format.type for each in made.slides[nothing].placeholders]
    assert kinds == [PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.BODY]
    drawn = [slide for place, slide in enumerate(made.slides) if place != nothing]
    assert told(drawn[0].placeholders[1]) == describe(view.sections[:1])


def test_a_title_of_ones_own_stands_over_all_and_says_which() -> None:
    heads = library.trace(TEXT, heads=2).view()
    named = replace(heads, title="Mine", headline="Mine", has_chosen_title=True)
    walked = library.steps(TEXT, step="5-6").view()
    steps = replace(walked, title="Mine", headline="Mine", has_chosen_title=True)

    assert titles(deck_of(named)) == ["Mine", "Mine · head 0", "Mine · head 1"]
    assert titles(deck_of(steps)) == ["Mine · 5 scores", "Mine · 6 scaling"]


def names(view: View) -> list[str]:
    """The titles of its slides, none of which need be drawn."""
    return [each.view.headline for each in divide_into_slides(view)]


def test_a_comparison_has_a_slide_for_each_way_each_difference_and_the_measures() -> None:
    view = library.compare(TEXT, by="scale").view(repeats=2)

    assert names(view) == [
        view.headline,
        "compared by scale · unscaled",
        "compared by scale · scaled",
        "compared by scale · scaled − unscaled",
        "compared by scale · measures",
    ]


def test_few_heads_of_a_model_have_a_slide_each_with_what_they_do_most() -> None:
    heads = library.trace("a b a b a b", tokenizer="words", layers=2, heads=2)
    view = library.inspect(heads).view()
    first, *alone = names(view)

    assert first == view.headline
    assert [re.findall(r"L\dH\d", title) for title in alone] == [
        ["L0H0"], ["L0H1"], ["L1H0"], ["L1H1"],
    ]  # fmt: skip
    said = [head_kind_title(library.inspect(heads), place) for place in range(4)]
    assert alone == said
    assert any(title.endswith("\u00a0% on average)") for title in alone)
    assert view.slide_excerpt.hint == ""


def test_of_many_heads_those_have_one_that_do_most_and_it_is_said() -> None:
    heads = library.trace("a b c a b c a b", tokenizer="words", layers=3, heads=8)
    view = library.inspect(heads).view()

    with pytest.warns(Note) as said:
        made = deck_of(view)

    shown = len(made.slides) - 1
    in_words_of_a_command = (
        f"heads with slides of their own: {shown} of 24 heads, the strongest of each kind; "
        "--layer 0, or --head 0, makes a slide for each of its heads"
    )
    assert 1 <= shown < 9
    assert [str(each.message) for each in said] == [options_as_keywords(in_words_of_a_command)]
    assert in_words_of_a_command in notes(made)[0].split("\n")
    assert all(re.search(r"L\dH\d.*\u00a0%", title) for title in titles(made)[1:])


def test_very_many_panels_are_counted_and_what_is_left_out_is_said() -> None:
    view = view_of(
        *(causal_weights(f"weights L0H{head}", "a", "b") for head in range(MAX_PANEL_SLIDES + 2))
    )
    first, *alone = divide_into_slides(replace(view, title="t"))

    assert len(alone) == MAX_PANEL_SLIDES
    assert first.left_out_note == (
        f"2 of {MAX_PANEL_SLIDES + 2} panels have no slide of their own and are only on the first "
        "one"
    )


def test_an_equation_has_one_slide_and_what_is_called_alike_is_counted() -> None:
    view = library.trace(TEXT, heads=2).view(show=["queries", "keys", "scores"])
    alike = view_of(causal_weights("a"), causal_weights("a"))

    assert names(view)[1:] == ["Q · Kᵀ = scores · head 0", "Q · Kᵀ = scores · head 1"]
    assert names(alike) == ["", "a (1)", "a (2)"]


def test_what_stands_below_a_panel_has_a_slide_behind_it() -> None:
    first, second = causal_weights("one"), causal_weights("two")
    group = Group("ways", (first, second), below=(None, causal_weights("minus one")), kind="rows")
    page = build_page([group], "")

    view = View(title="t", headline="t", screen=page, picture=page)

    assert names(view) == ["t", "t · one", "t · two", "t · two minus one"]


def test_what_one_token_reads_is_said_of_each_part() -> None:
    heads = library.trace("a b a b", tokenizer="words", layers=2, heads=2)
    asked = names(library.inspect(heads, query="2").view())

    assert len(asked) == len(set(asked)) > 2
    assert all(
        title.startswith('What "b" (2) attends to in the mean of 4 heads') for title in asked
    )


def test_a_model_that_learned_has_its_heads_as_they_are_now_and_charts() -> None:
    view = make_learned().view()
    asked = names(view)

    heads = [title for title in asked if "weights" in title]
    assert heads
    assert all("step" in title for title in heads)
    assert [title for title in asked if title.endswith("loss")]


@pytest.mark.parametrize(
    ("words", "error"),
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
    attnviz: Attnviz, words: tuple[str, ...], error: str
) -> None:
    assert attnviz("steps", TEXT, *words).err == error


def test_without_python_pptx_nothing_is_computed(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pptx", None)

    ended = attnviz("run", TEXT, "--query", "no such token", "-o", "x.pptx")

    assert (ended.status, ended.err) == (
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
