"""Figures for papers: letters in points, fonts, units, axes of one's own, and docs/pictures.md."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure
from PIL import Image

import attnviz
from attnviz.analysis.head_accuracy import rank
from attnviz.renderers import Look
from attnviz.renderers.look import parse_picture_size
from attnviz.renderers.picture import glyphs
from attnviz.renderers.picture.items import Block
from attnviz.renderers.picture.page_frame import words_have_room
from attnviz.renderers.picture.panel_labels import PanelStyle, row_ticks
from attnviz.views.view import View
from tests import not_none
from tests.conftest import ROOT, Attnviz
from tests.test_slides import layout_of

PAGE = (ROOT / "docs" / "pictures.md").read_text("utf-8")
SENTENCE = "The animal was too tired"
LONG_SENTENCE = (
    "The animal did not cross the street because it was too tired and then slept until noon"
)


@pytest.fixture(scope="module")
def one_head() -> attnviz.Trace:
    return attnviz.trace(SENTENCE, variant="causal")


def letter_sizes(pdf: bytes) -> set[float]:
    """The sizes of all letters of a PDF, in points, as its own instructions set them."""
    sizes = set[float]()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            text = zlib.decompressobj().decompress(stream)  # which may end before its checksum
        except zlib.error:
            continue
        sizes |= {float(size) for size in re.findall(rb"/F\d+ ([\d.]+) Tf", text)}
    return sizes


def has_truetype_alone(pdf: bytes) -> bool:
    return b"/Type3" not in pdf and b"/FontFile2" in pdf


@pytest.mark.parametrize("size", ["3.3x2.5in", "8.5x6cm", "180x150pt"])
def test_letters_of_a_pdf_have_the_points_that_are_asked_for_whatever_its_size(
    one_head: attnviz.Trace, tmp_path: Path, size: str
) -> None:
    one_head.save(tmp_path / "x.pdf", size=size, points=8, font="serif", title="")
    pdf = (tmp_path / "x.pdf").read_bytes()

    assert letter_sizes(pdf) == {8.0}
    assert has_truetype_alone(pdf)
    assert b"DejaVuSerif" in pdf
    width, height = (72 * side for side in parse_picture_size(size))
    box = not_none(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf))
    assert [float(each) for each in box.groups()] == pytest.approx([width, height], abs=0.01)


def test_a_title_is_a_little_larger_and_notes_are_a_little_smaller(
    one_head: attnviz.Trace,
) -> None:
    pdf = one_head.view().with_title("Ours").render(".pdf", size=(7, 4), points=8)

    assert letter_sizes(pdf) == {9.2, 8.0, 7.0}


def test_a_figure_that_is_saved_by_itself_has_truetype_fonts(one_head: attnviz.Trace) -> None:
    file = io.BytesIO()
    one_head.heatmap(size=(3.3, 2.5), points=8, font="mono").savefig(file, format="pdf")

    assert has_truetype_alone(file.getvalue())
    assert b"DejaVuSansMono" in file.getvalue()


def test_a_character_of_a_second_font_is_truetype_too(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Path(mpl.get_data_path()) / "fonts" / "ttf" / "STIXGeneral.ttf"
    monkeypatch.setattr(glyphs, "_installed_fonts", lambda: [str(second)])
    glyphs._font_file.cache_clear()
    pdf = attnviz.trace("ℊ am", tokenizer="words").view().with_title("").render(".pdf")

    glyphs._font_file.cache_clear()

    assert b"STIXGeneral" in pdf
    assert has_truetype_alone(pdf)


STORY = "The animal didn't cross the street because it was too tired"
LINES = ["The animal was tired", "it was too wide", "the street and the street", "we ran", "no"]
SHOWN_STEPS = ("tokens", "projections", "scores", "scaling", "softmax", "weighted")


@cache
def steps_trace() -> attnviz.Trace:
    return attnviz.trace("I am learning this and that today", variant="causal")


def step_of(step: str) -> Any:
    return attnviz.steps(steps_trace(), query="this", step=step)


KINDS: dict[str, Callable[[], Any]] = {
    "one head": steps_trace,
    "heads of two layers": lambda: attnviz.trace("I am learning", layers=2, heads=2),
    "compare": lambda: attnviz.compare(steps_trace(), by="mask"),
    "compare two sentences": lambda: attnviz.compare_sentences(STORY, STORY[:-5] + "wide"),
    "film": lambda: attnviz.film([attnviz.trace("I am", heads=2, seed=seed) for seed in (1, 2)]),
    "all heads": lambda: attnviz.inspect(STORY),
    "a head of many tokens": lambda: attnviz.inspect(STORY, layer=5, head=11),
    "arcs": lambda: attnviz.inspect(STORY, layer=5, head=11, as_="arcs"),
    "a sentence": lambda: attnviz.inspect(STORY, query="it", layer=5, head=11),
    "a ranking": lambda: attnviz.inspect(STORY, query="it"),
    "a link": lambda: attnviz.inspect(STORY, source="it", to="animal"),
    "effects": lambda: attnviz.inspect(STORY, by="effect"),
    "survey": lambda: attnviz.survey(LINES),
    "pairs": lambda: attnviz.pairs(ROOT / "sample_texts" / "pairs.tsv"),
    "accuracy": lambda: rank("agreement"),
    "training": lambda: attnviz.learn("sort", steps=3),
    "trainings": lambda: attnviz.compare_learning(
        "sort", repeats=2, steps=3
    ),
    **{f"step {step}": partial(step_of, step) for step in SHOWN_STEPS},
}  # fmt: skip


@cache
def view_of_kind(kind: str) -> Any:
    return KINDS[kind]().view()


@pytest.mark.slow_table("pictures", keep=4)
@pytest.mark.parametrize("kind", KINDS)
def test_letters_of_every_kind_of_picture_have_the_points_that_are_asked_for(kind: str) -> None:
    for look in (Look(size=(3.3, 3.0), points=8), Look(size=(7.0, 4.0), points=10)):
        layout = layout_of(view_of_kind(kind), look)
        numbers = (panel.number_size for panel in layout.panels)
        sizes = {*(words.size for words in layout.words), *filter(None, numbers)}
        shares = {round(size / (look.points or 1), 3) for size in sizes}

        assert 1.0 in shares
        assert shares <= {1.15, 1.0, 0.875}, sorted(shares)  # a title; labels; notes and remarks
        assert words_have_room(layout)


@pytest.mark.parametrize(
    ("view", "size", "problem", "hint"),
    [
        (
            lambda: attnviz.trace(SENTENCE, heads=4).view(),
            "2x1.5in",
            "there is no room for letters of 20 points on 2 by 1.5 inches",
            'it has room from size="6x4.5" on; or try letters of fewer points, or a part of the '
            "result",
        ),
        (
            lambda: attnviz.steps(SENTENCE, query="was").view(),
            "7x4in",
            "10 steps have no room on 7 by 4 inches in letters of 20 points",
            "choose one of them by its name, such as softmax; a file called steps-{page}.pdf makes "
            "as many pages as needed",
        ),
    ],
)
def test_letters_that_have_no_room_are_refused_with_a_size_that_has(
    view: Callable[[], View], size: str, problem: str, hint: str
) -> None:
    with pytest.raises(attnviz.AttnvizError) as error:
        view().render(".svg", size=size, points=20)

    assert (str(error.value), error.value.hint) == (problem, hint)


def test_half_a_column_has_room_for_a_head() -> None:
    view = view_of_kind("one head")

    assert view.render(".svg", size="1.6x1.6in", points=7)


def test_intervals_of_pairs_are_lines_on_bars_to_both_sides_of_0() -> None:
    result = KINDS["pairs"]()
    (bars,) = result.view().picture.panels
    layout = layout_of(result.view(), Look(size=(3.3, 3.0), points=8))
    texts = [words.text for words in layout.words]
    lines = [block.box for block in layout.items_of(Block) if block.outlined and not block.box[3]]
    fills = [block.box for block in layout.items_of(Block) if block.tint]
    _, *intervals = lines  # the first is the sample in the key
    inches = {
        (high - low) / line[2] for (low, high), line in zip(bars.intervals, intervals, strict=False)
    }
    negative = [head.shift < 0 for head in result.heads[: len(fills)]]
    zero = fills[0][0]

    assert "95 % interval of this head alone" in texts
    assert max(inches) == pytest.approx(min(inches))  # one scale for all
    assert any(negative)
    for (left, _, width, _), is_negative in zip(fills, negative, strict=True):
        assert (left + width if is_negative else left) == pytest.approx(zero)
    assert not any("-" in text for text in texts)  # minus signs are no hyphens


def test_units_are_inches_centimetres_millimetres_and_points() -> None:
    sizes = ["3x2", "3x2in", "3inx2in", "76.2x50.8mm", "7.62x5.08cm", "216x144pt"]

    assert {parse_picture_size(size) for size in sizes} == {(3.0, 2.0)}
    with pytest.raises(attnviz.AttnvizError, match="there is no size '3x2ft'"):
        parse_picture_size("3x2ft")


@pytest.mark.parametrize(
    ("looks", "problem", "hint"),
    [
        ({"font": "Garamnd"}, "there is no font 'Garamnd'", "known: serif, sans, mono, "),
        ({"points": 2}, "points is 2, and must be from 4 to 72", "try points=4"),
        (
            {"points": 8, "text_size": "large"},
            "'points' and 'text_size' both say how large letters are",
            "leave out 'text_size', which is for slides",
        ),
        (
            {"size": "3.3x2in"},
            "size is 3.3 by 2 inches, and each must be from 2.5 to 40",
            'try size="8x5", or points=8 for a small picture on paper',
        ),
    ],
)
def test_what_no_paper_has_is_refused_in_two_lines(
    looks: dict[str, Any], problem: str, hint: str
) -> None:
    with pytest.raises(attnviz.AttnvizError) as error:
        Look(**looks)

    assert str(error.value) == problem
    assert hint in error.value.hint


def test_labels_are_measured_in_the_font_that_draws_them(one_head: attnviz.Trace) -> None:
    tokens = one_head.view().grids()[0].rows
    extents = []
    for family in ("DejaVu Sans", "DejaVu Sans Mono", "DejaVu Sans"):
        with mpl.rc_context({"font.family": [family]}):
            extents.append(row_ticks(tokens, 0.4, PanelStyle()).extent)

    assert extents[1] > extents[0] == extents[2]


def test_letters_of_formulas_follow_the_font(one_head: attnviz.Trace) -> None:
    figure = one_head.heatmap(font="serif", size=(4, 4))
    figure.text(0.5, 0.5, "$x$")
    file = io.BytesIO()
    figure.savefig(file, format="pdf")

    assert b"DejaVuSerif-Italic" in file.getvalue()
    assert b"DejaVuSans" not in file.getvalue()


@pytest.fixture
def axes() -> Axes:
    return Figure(figsize=(3, 2), layout="constrained").subplots()


def labels_as_drawn(ax: Axes) -> Iterator[tuple[list[str], list[Any]]]:
    """The labels of each axis as drawn, and the boxes in pixels of those that are not slanted."""
    figure = not_none(ax.get_figure(root=True))
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
        visible_labels = [each for each in labels if each.get_text()]
        straight_labels = [each for each in visible_labels if each.get_rotation() % 90 == 0]
        yield (
            [each.get_text() for each in visible_labels],
            [each.get_window_extent() for each in straight_labels],
        )


@pytest.mark.parametrize("size", [(2, 1.2), (3.3, 3), (9, 6)])
def test_labels_in_axes_of_ones_own_never_overlap(size: tuple[float, float]) -> None:
    ax = Figure(figsize=size, layout="constrained").subplots()
    attnviz.trace(LONG_SENTENCE, variant="causal").heatmap(ax=ax)

    for texts, boxes in labels_as_drawn(ax):
        pitch = (
            ax.get_window_extent().width / len(LONG_SENTENCE.split()) * np.diff(ax.get_xticks())[0]
        )
        assert texts
        assert boxes or pitch > 1.42 * 10 * 100 / 72  # slanted ones lie a line of 10 points apart
        assert not any(first.overlaps(other) for first, other in pairwise(boxes))


def test_labels_fit_again_when_the_figure_grows(axes: Axes) -> None:
    attnviz.trace(LONG_SENTENCE, variant="causal").heatmap(ax=axes)
    counts_when_small = [len(texts) for texts, _ in labels_as_drawn(axes)]
    figure = not_none(axes.get_figure(root=True))
    figure.set_size_inches(14, 9)
    counts_when_large = [len(texts) for texts, _ in labels_as_drawn(axes)]

    assert counts_when_small[1] < counts_when_large[1] == len(LONG_SENTENCE.split())


def test_axes_of_ones_own_keep_their_letters_and_their_background(one_head: attnviz.Trace) -> None:
    style: Any = {"font.size": 7.0, "font.family": "monospace", "xtick.labelcolor": "red",
             "axes.facecolor": "black", "axes.grid": True}  # fmt: skip
    with mpl.rc_context(style):
        ax = Figure().subplots()
        image = one_head.heatmap(ax=ax)
    list(labels_as_drawn(ax))
    label: Any = ax.get_xticklabels()[0]

    assert (label.get_size(), label.get_color()) == (7.0, "red")
    assert label.get_family() == ["monospace"]
    assert ax.get_title() == ""
    assert image.cmap(1.0)[:3] == pytest.approx(to_rgb("#e8fbfa"))  # bright is large on black


def test_the_image_maps_every_weight_for_a_colour_bar(one_head: attnviz.Trace, axes: Axes) -> None:
    image = one_head.heatmap(ax=axes, colors="coolwarm", norm=LogNorm(1e-3, 1), title="Ours")
    weights = one_head.weights[0, 0].numpy()
    figure = not_none(axes.get_figure(root=True))
    bar: Any = figure.colorbar(image, ax=axes)

    assert axes.get_title() == "Ours"
    assert (bar.vmin, bar.vmax) == pytest.approx((1e-3, 1))
    assert image.cmap.name == "coolwarm"
    np.testing.assert_allclose(np.ma.filled(np.ma.array(image.get_array()), 0), weights, atol=1e-6)
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 4.5), (4.5, -0.5))


def test_tokens_in_axes_of_ones_own_are_text_and_no_formulas(axes: Axes) -> None:
    attnviz.trace("a $x$ b", tokenizer="spaces").heatmap(ax=axes)

    assert [texts for texts, _ in labels_as_drawn(axes)] == [["a", "$x$", "b"]] * 2
    assert not any(label.get_parse_math() for label in axes.get_xticklabels())


@pytest.mark.parametrize(
    ("choices", "problem", "hint"),
    [
        (
            {"heads": 4},
            "ax takes one heatmap, and here are 4",
            "choose one, such as layer=0, head=1; for several, give each axes of its own: "
            "figure, axes = plt.subplots(1, 2)",
        ),
        (
            {"size": (3, 3)},
            "'size' is about a whole picture, but 'ax' is given: the figure is your own",
            "leave out 'size', or 'ax'",
        ),
        (
            {"norm": "log"},
            "'norm' is of type str, and should be a Normalize of matplotlib",
            "try norm=matplotlib.colors.Normalize(0, 1)",
        ),
        ({"colors": "occean"}, "there is no colour map 'occean'", "did you mean 'ocean'? "),
        (
            {"ax": [1, 2]},
            "'ax' is of type list, and should be Axes of matplotlib",
            "try figure, ax = plt.subplots(); of several axes, give one: ax=axes[0]",
        ),
        ({"query": "am"}, "ax takes a heatmap, and this is drawn otherwise", "leave out ax; or"),
    ],
)
def test_what_axes_cannot_show_is_refused_in_two_lines(
    axes: Axes, choices: dict[str, Any], problem: str, hint: str
) -> None:
    heads = choices.get("heads", 1)
    options = {name: value for name, value in choices.items() if name != "heads"}
    with pytest.raises(attnviz.AttnvizError) as error:
        attnviz.trace("I am", heads=heads).heatmap(**{"ax": axes, **options})

    assert str(error.value) == problem
    assert error.value.hint.startswith(hint)


def test_title_and_colors_are_those_of_the_command(
    one_head: attnviz.Trace, tmp_path: Path, attnviz: Attnviz
) -> None:
    one_head.save(tmp_path / "a.svg", title="Ours", colors="magma", size="85x60mm", points=7)
    with Image.open(one_head_picture(one_head, tmp_path)) as picture:
        command = picture.info["attnviz"]

    assert ">Ours<" in (tmp_path / "a.svg").read_text("utf-8")
    for words in ("--title Ours", "--colors magma", "--points 7", "--font serif"):
        assert words in command
    options = ["--points", "7", "--font", "serif", "--size", "85x60mm", "--title", "Ours"]
    result = attnviz(
        "run", SENTENCE, *options, "--variant", "causal", "-o", str(tmp_path / "b.pdf")
    )
    assert result.status == 0
    assert letter_sizes((tmp_path / "b.pdf").read_bytes()) <= {7.0, 8.05}


def one_head_picture(trace: attnviz.Trace, folder: Path) -> Path:
    path = folder / "a.png"
    trace.save(path, title="Ours", colors="magma", size="85x60mm", points=7, font="serif")
    return path


@pytest.mark.slow("documentation")
def test_the_python_of_the_page_runs_and_its_figures_have_8_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with mpl.rc_context({"backend": "agg"}):
        for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(code, names)

    for name in ("heads.pdf", "two-heads.pdf"):
        assert 8.0 in letter_sizes((tmp_path / name).read_bytes())
        assert has_truetype_alone((tmp_path / name).read_bytes())
    assert {"run.gif", "run.html"} <= {path.name for path in tmp_path.iterdir()}
