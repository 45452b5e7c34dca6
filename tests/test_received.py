"""--show received: how much attention each token of a text receives, in all outputs."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from attnviz import trace
from attnviz.attention.mask_rule import MaskRule
from attnviz.cells import Patch
from attnviz.errors import AttnvizError
from attnviz.renderers.look import Look
from attnviz.renderers.picture.page_kinds import page_layout
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.long_weights import LongCells
from attnviz.traces.matrices import Matrices
from attnviz.views import received
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.received import received_attention, text_parts
from tests.conftest import Attnviz
from tests.refusals import assert_refused
from tests.test_long_views import needle_trace

STORY = Path("sample_texts/story.txt")
CPU = torch.device("cpu")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("variant", ["scaled", "causal", "multi-head", "average"])
def test_shares_are_those_of_columns_of_weights(variant: str, stream: bool) -> None:
    text = STORY.read_text(encoding="utf-8")[:700]
    result = trace(text, variant=variant, stream=stream)
    weights = trace(text, variant=variant).layers[0].attended.weights.double()

    for head, each in enumerate(received_attention(result)):
        np.testing.assert_allclose(each.shares, weights[head].sum(0) / weights.shape[1], atol=1e-6)


@given(
    queries=some.integers(1, 9),
    keys=some.integers(1, 9),
    before=some.none() | some.integers(0, 9),
    after=some.none() | some.integers(0, 9),
    offset=some.integers(0, 9),
)
def test_readers_are_counted_without_a_matrix(
    queries: int, keys: int, before: int | None, after: int | None, offset: int
) -> None:
    rule = MaskRule(before=before, after=after, offset=offset)
    visible = rule.visible(queries, keys, CPU)
    matrix_rule = MaskRule(matrix=visible)
    even_weights = visible / visible.sum(1, keepdim=True).clamp(min=1).double()

    for each in (rule, matrix_rule):
        readers, even_sums = each.readers(queries, keys, CPU)
        assert readers.tolist() == visible.sum(0).tolist()
        assert torch.allclose(even_sums, even_weights.sum(0), atol=1e-12)


@pytest.mark.parametrize("tokens", [600, 8_000])
def test_a_needle_is_first_and_in_the_title(tokens: int) -> None:
    needle = 7 * tokens // 10
    view = needle_trace(tokens, needle).view(show=["received"])
    ranking = next(panel for panel in view.screen.panels if isinstance(panel, RankedBars))

    assert re.fullmatch(
        rf'"w{needle}" \(token {needle + 1:,}\) receives most: \d+\xa0% of all attention, '
        r"[\d,]+ times an even spread",
        view.headline,
    )
    assert ranking.grid.rows.names[0] == f"{needle + 1:,} w{needle}"
    assert f"[w{needle}]" in ranking.remarks[0]


def needle_view(tokens: int = 600, needle: int = 420) -> Any:
    return needle_trace(tokens, needle).view(show=["received"])


@pytest.mark.parametrize(
    ("text", "settings", "title"),
    [
        ("I", {}, '"I" is the only token, and receives all attention'),
        (
            "I am learning this",
            {"variant": "average", "causal": False},
            "All 4 tokens receive the same: 25\xa0% of all attention each",
        ),
        (
            "I am learning this",
            {"variant": "average"},
            "Every token receives about as much as with an even spread",
        ),
        (
            "I am learning this",
            {"window": 1},
            "All 4 tokens receive the same: 25\xa0% of all attention each",
        ),
        (
            "I am learning this",
            {},
            '"am" (token 2) receives most: 47\xa0% of all attention, 1.9 times an even spread',
        ),
        (
            "a b c d e f",
            {"tokenizer": "words", "positions": "alibi", "variant": "causal"},
            '"c" (token 3) receives 1.8 times an even spread: 29\xa0% of all attention',
        ),
        (
            "I am learning this",
            {"temperature": 4.0},
            "No token receives as much as 1.5 times an even spread",
        ),
    ],
    ids=["one token", "even", "even and causal", "window of one", "random", "above", "none"],
)
def test_titles_are_true(text: str, settings: dict[str, Any], title: str) -> None:
    for stream in (True, False):
        assert trace(text, stream=stream, **settings).view(show=["received"]).headline == title


def test_a_mask_that_hides_all_keys_leaves_nothing_to_receive() -> None:
    matrices = Matrices(embeddings=torch.eye(2), visible=torch.zeros(2, 2).bool())
    view = trace("a b", tokenizer="spaces", given=matrices).view(show=["received"])

    assert view.headline == "Every key is masked, so no token receives attention"
    assert view.render(".png")


def test_ties_are_named_by_their_number() -> None:
    scores = torch.tensor([0.0, 0.0, -50.0]).expand(1, 3, 3).clone()
    view = trace("a b c", given=Matrices(scores=scores)).view(show=["received"])

    assert view.headline == (
        "2 tokens receive most, equally: 50\xa0% of all attention each, 1.5 times an even spread"
    )


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (
            {"causal": True},
            "under this mask earlier tokens have more readers: token 1 has 5, the last 1",
        ),
        (
            {"causal": False},
            "every token has the same 5 readers; an even spread gives each 20\xa0%",
        ),
        (
            {"causal": False, "window": 2},
            "under this mask some have more readers: a token has 2 to 3",
        ),
    ],
)
def test_a_note_says_who_can_read_a_token(settings: dict[str, Any], note: str) -> None:
    assert trace("a b c d e", **settings).view(show=["received"]).closing == (note,)


def test_few_heads_are_shown_one_by_one_and_many_as_their_mean() -> None:
    few_heads, many_heads = (trace("one two three", heads=heads, dim=8) for heads in (2, 8))
    weights = many_heads.layers[0].attended.weights.double()

    assert [each.name for each in received_attention(few_heads)] == ["head 0", "head 1"]
    [mean] = received_attention(many_heads)
    assert mean.name == "mean of 8 heads"
    np.testing.assert_allclose(mean.shares, weights.sum((0, 1)) / weights.sum(), atol=1e-6)


def test_cross_attention_colours_the_text_that_is_read() -> None:
    names = [
        (each.name, each.tokens.text) for each in received_attention(trace("a b c", memory="d e"))
    ]

    assert names == [("L0H0", "a b c"), ("L0 cross H0", "d e")]


def test_negative_weights_are_no_shares() -> None:
    matrices = Matrices(weights=torch.tensor([[[1.5, -0.5], [0.5, 0.5]]]))

    with pytest.raises(AttnvizError, match=r"^some weights are negative, so that no token"):
        trace("a b", tokenizer="spaces", given=matrices).view(show=["received"])


def test_every_kind_of_file_has_the_same_shares(attnviz: Attnviz, tmp_path: Path) -> None:
    files = [tmp_path / f"a{suffix}" for suffix in (".json", ".npz", ".csv", ".html", ".svg")]
    result = attnviz(
        *("run", "I am learning this", "--causal", "--show", "received"),
        *(part for file in files for part in ("-o", str(file))),
    )
    assert result.status == 0, result.err

    shares = received_attention(trace("I am learning this", causal=True))[0].shares
    lines = [*csv.DictReader(files[2].read_text(encoding="utf-8").splitlines())]
    data = json.loads(files[0].read_text(encoding="utf-8"))
    assert np.allclose([float(line["share"]) for line in lines], shares, atol=1e-6)
    assert [line["readers"] for line in lines] == ["4.0", "3.0", "2.0", "1.0"]
    assert np.allclose(data["received"]["attention"]["share"], shares, atol=1e-6)
    assert np.allclose(np.load(files[1])["received.attention.share"], shares, atol=1e-6)
    assert 'title="2 am: 49.05 % of all attention"' in files[3].read_text(encoding="utf-8")


def test_a_page_breaks_lines_where_the_text_does() -> None:
    page = trace("one\n\ntwo\n").view(show=["received"]).render(".html").decode()
    text = page.partition('whole-text">')[2].partition("</p>")[0]

    assert "&lt;" not in text
    assert [line.count("</span>") for line in text.split("<br>")] == [3, 2, 0]


def test_a_text_without_colours_has_blocks_behind_its_tokens(attnviz: Attnviz) -> None:
    result = attnviz("run", "I am learning this", "--causal", "--show", "received")

    assert "I▆ am█ learning▂ this▁" in result.out


def test_a_long_text_is_shown_in_excerpts_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_view = needle_view()
    monkeypatch.setattr(received, "MAX_TEXT_TOKENS", 500)
    parts_view = needle_view()

    assert len(sentence_tokens(whole_view)) == 600
    assert sentence_tokens(parts_view)[-1] == "481 w480"
    assert len(sentence_tokens(parts_view)) < 300
    part_bars = [panel for panel in parts_view.screen.panels if isinstance(panel, RankedBars)][1]
    assert float(part_bars.grid.values.sum()) == pytest.approx(100)


def sentence_tokens(view: Any) -> list[str]:
    sentences = [panel for panel in view.screen.panels if isinstance(panel, Sentence)]
    return [name for sentence in sentences for name in sentence.grid.columns.names]


@given(
    paragraphs=some.lists(some.integers(1, 30), min_size=1, max_size=30),
)
def test_parts_cover_the_text_and_are_few(paragraphs: list[int]) -> None:
    text = "\n\n".join(" ".join(["word"] * count) for count in paragraphs)
    tokens = tokenize(text, "words")
    parts = text_parts(tokens)

    assert [position for part in parts for position in range(part.start, part.stop)] == [
        *range(len(tokens))
    ]
    assert len(parts) <= received.PASSAGES


def test_a_picture_of_a_text_shows_every_token_once() -> None:
    view = needle_view()
    look = Look()
    layout = page_layout(view.picture.groups, look, view_captions(view, look))
    texts = [words.text for words in layout.words if words.background is not None]

    assert texts == [f"w{number}" for number in range(600)]


def test_a_small_picture_shows_what_is_read_most_and_a_command_how_to_get_pages(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "a.svg"
    result = attnviz(
        *("run", "--file", str(STORY), "--causal", "--show", "received", "--size", "4x3"),
        *("-o", str(path)),
    )

    assert result.err.startswith(
        "note: with so much on one page there is no room for the whole text: -o heads-{page}.png "
        "makes as many pages as needed\n"
    )


def test_a_small_picture_says_how_many_tokens_it_leaves_out() -> None:
    with pytest.warns(match="there is no room for the whole text"):
        svg = needle_view().render(".svg", size="4x3")

    assert b"tokens before" in svg
    assert b"more tokens" in svg
    assert b">w420</text>" in svg


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (
            ["--show", "received", "--query", "1"],
            "--show received colours the text by what all tokens together attend to, and --query "
            "shows something else",
            "leave out --query, or --show received",
        ),
        (
            ["--show", "received", "--as", "heatmap"],
            "--show received colours the text by what all tokens together attend to, and --as "
            "shows something else",
            "leave out --as, or --show received",
        ),
        (
            ["--show", "received,weights"],
            "--show received colours the text, and shows no tables beside it",
            "ask for --show received alone, or leave it out",
        ),
        (
            ["--as", "arcs", "-o", "a.png"],
            "--as arcs draws each token of a text, and 1,200 are too many to read (at most 1,000)",
            "--query 1 lists what a token attends to most, --show received colours what is read "
            "most; or give a shorter text",
        ),
        (
            ["--show", "scores,context", "--stream"],
            "--stream computes weights where they are shown, and scores would need all scores at "
            "once",
            "leave --stream out, or show something else, such as --show received",
        ),
    ],
    ids=["query", "as", "weights", "arcs", "scores"],
)
def test_what_cannot_be_shown_is_refused_before_anything_is_computed(
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
    hint: str,
) -> None:
    monkeypatch.setattr("attnviz.traces.from_text.trace", None)
    assert_refused(
        attnviz("run", "a b c " * 400, "--tokenizer", "spaces", *arguments), problem, hint
    )


@pytest.mark.parametrize("show", [["weights", "context"], ["context"], ["weights"]])
def test_parts_of_a_long_text_are_shown_without_a_matrix(
    monkeypatch: pytest.MonkeyPatch, show: list[str]
) -> None:
    def refuse_matrix(*arguments: object) -> None:
        raise AssertionError("a matrix of the mask")

    streamed_trace = trace(
        "a b c d " * 60, tokenizer="spaces", causal=True, stream=True, resolution=20
    )
    window = LongCells.window

    def single_row(cells: LongCells, rows: slice, columns: slice) -> Patch:
        assert len(range(240)[rows]) == 1, "a page has exact rows, but no matrix"
        return window(cells, rows, columns)

    monkeypatch.setattr(LongCells, "window", single_row)
    monkeypatch.setattr(MaskRule, "visible", refuse_matrix)
    view = streamed_trace.view(show=show, as_="heatmap")

    # JSON contains the whole matrix of weights, so it is left out where weights are shown alone.
    for suffix in (".txt", ".html", ".svg", *[".json"] * (show != ["weights"])):
        assert view.render(suffix)
    assert view.headline
